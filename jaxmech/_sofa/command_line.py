"""The command line: `jaxmech run scene.scn`."""

import argparse
import dataclasses
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.io import mmwrite

from .._integrator.implicit.free_motion import ContactStepInfo, FreeMotion
from .._integrator.trajectory.simulate import Trajectory, simulate
from .._model.constraint_projection import project
from .._model.dynamics import kinematics, kinetic_energy, total_force, velocities
from .._runtime.results import FailedComputation
from .._sparse.export import write_matrix
from .comparison import compared, needed_steps
from .read.scene_error import SceneError
from .record import record
from .recording import check_recordable, left_out, write_frames
from .scene_graph import SOLVERS, SceneGraph, load
from .translation import Part

_QUANTITIES = ("A", "b", "x")
_MOST_PIXELS = 1000
_USUAL_STEPS = 100


def main(arguments: list[str] | None = None) -> int:
    """Run a scene of SOFA. 0: done; 1: it cannot be read, fails, or is too far from what it is compared with; 2: a component
    with mechanics is refused, or the arguments are wrong."""
    options = _parser().parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    try:
        return _run(options)
    except _Failure as problem:
        print(f"jaxmech: {problem}", file=sys.stderr)
        return 1
    except (SceneError, FailedComputation, OSError, ImportError, ValueError) as problem:
        print(f"jaxmech: {problem}", file=sys.stderr)
        return 1


class _Failure(Exception):
    """What ends a run."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jaxmech", description="Differentiable mechanics: run a scene of SOFA.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a scene (.scn, .xml; .py with --python)")
    run.add_argument("scene", type=Path)
    run.add_argument("-n", "--steps", type=int, help="time steps; as many as a comparison needs, 100 without one")
    run.add_argument("--dt", type=float, help="time step [s], in place of the scene's")
    run.add_argument("--solver", choices=SOLVERS, default="sofa", help="as SOFA does it (default), or exactly")
    run.add_argument("--list", action="store_true", help="print what became of each component, and do not run")
    run.add_argument("--tree", action="store_true", help="print the scene graph, and do not run")
    run.add_argument("--root", type=Path, help="the folder that no file of the scene may lie outside of")
    run.add_argument("--export", metavar="A,b,x:N", help="write matrix, right-hand side and solution of every N-th step")
    run.add_argument(
        "--format",
        choices=("mtx", "npy", "txt", "csv", "png"),
        default="mtx",
        help="of what is exported; png: a picture of A",
    )
    run.add_argument("--record", type=Path, metavar="OUT", help=".npz: states of all times; .vtu ...: the last")
    run.add_argument(
        "--compare", type=Path, nargs="+", metavar="FILE", help="states of SOFA (.txt.gz), what --record wrote (.npz)"
    )
    run.add_argument("--threshold", type=float, help="exit with 1 where a comparison measures more")
    run.add_argument("--energy", action="store_true", help="print kinetic energy and the norm of forces at the end")
    run.add_argument("--no-progress", action="store_true", help="draw no bar")
    run.add_argument("--python", action="store_true", help="the scene is a script: run its createScene (in a process apart)")
    run.add_argument("--time-limit", type=float, default=60.0, help="of such a script [s]")
    return parser


def _run(options: Any) -> int:
    if options.scene.suffix == ".py":
        if not options.python:
            raise _Failure(f"{options.scene} is a program: --python runs it")
        scene = _recorded(options)
    else:
        scene = load(options.scene, solver=options.solver, tree=options.root)
    if options.tree:
        print(scene)
    if options.list:
        print(scene.report)
    refused = scene.report.of("refused")
    if refused:
        for row in refused:
            print(f"jaxmech: refused: {row.remark}", file=sys.stderr)
        return 2
    if options.tree or options.list:
        return 0
    return _simulated(scene, options)


def _recorded(options: Any) -> SceneGraph:
    """A script, and what its controllers write in as many steps as are run."""
    read = partial(record, options.scene, solver=options.solver, tree=options.root, time_limit=options.time_limit)
    if options.tree or options.list:
        return read()
    if options.compare and options.steps is None:
        return read(steps=_steps(read(), options))
    return read(steps=_USUAL_STEPS if options.steps is None else options.steps)


def _check_files(scene: SceneGraph, options: Any) -> None:
    """Before minutes are spent on steps."""
    if options.record:
        check_recordable(options.record)
        for state, reason in left_out(options.record, scene):
            print(f"{options.record.name} is without {state}: {reason}")
    for file in options.compare or ():
        if not file.is_file():
            raise _Failure(f"--compare is {file}: there is no such file")


def _simulated(scene: SceneGraph, options: Any) -> int:
    _check_files(scene, options)
    steps = _steps(scene, options)
    frames: dict[str, tuple[Part, Trajectory]] = {}
    if not scene.parts:
        print("nothing moves: the scene has no time integrator")
    for part in scene.parts.values():
        part = part if options.dt is None else dataclasses.replace(part, dt=options.dt)
        control = scene.control(part.name)
        if control is not None and (options.export or options.dt is not None):
            raise _Failure(
                f"{options.scene} has controllers, which write in steps of its own dt: --export and --dt are not for it"
            )
        if options.export:
            _export(part, steps, options)
        bar = not options.no_progress and sys.stderr.isatty()
        run = simulate(part.system, part.state, part.integrator, part.dt, steps, progress=bar, control=control)
        frames[part.name] = part, run
        info = run.info.motion if isinstance(run.info, ContactStepInfo) else run.info
        iterations = np.asarray(info.linear_steps)
        print(f"{part.name}: {steps} steps of {part.dt:g} s, {int(iterations.sum())} iterations of the linear solver")
        if options.energy:
            _print_energy(part, run)
    if options.record:
        write_frames(options.record, scene, frames)
    worst = 0.0
    for file in options.compare or ():
        for found in compared(scene, frames, file):
            print(f"{file.name}: {found}")
            worst = max(worst, found.measure)
    if options.threshold is not None and not worst <= options.threshold:
        print(f"jaxmech: {worst:.3e} is more than {options.threshold:g}", file=sys.stderr)
        return 1
    return 0


def _steps(scene: SceneGraph, options: Any) -> int:
    dt = options.dt or next((part.dt for part in scene.parts.values()), 1.0)
    needed = [needed_steps(file, dt) for file in options.compare or ()]
    if options.steps is None:
        return max(1, *needed) if needed else _USUAL_STEPS
    if not 1 <= options.steps <= 10_000_000:
        raise _Failure(f"-n is {options.steps}, expected at least 1")
    return options.steps


def _print_energy(part: Part, run: Trajectory) -> None:
    x = kinematics(part.system, run.last.position)
    kinetic = kinetic_energy(part.system, run.last.position, velocities(part.system, x, run.last.velocity))
    force = project(part.system, total_force(part.system, run.last))
    norm = float(np.sqrt(sum(float(jnp.sum(f**2)) for f in force.values())))
    print(f"{part.name}: kinetic energy {float(kinetic):.6e} J, norm of forces {norm:.6e} N")


def _export(part: Part, steps: int, options: Any) -> None:
    words = re.fullmatch(r"([A-Za-z,]+)(?::(\d{1,9}))?", options.export)
    names = words[1].split(",") if words else []
    scheme = part.integrator.motion if isinstance(part.integrator, FreeMotion) else part.integrator  # A of the free motion
    every = int(words[2] or 1) if words else 0
    if not every or not set(names) <= set(_QUANTITIES) or not hasattr(scheme, "problem"):
        raise _Failure(f"--export is {options.export!r}: A, b and x of an implicit time integrator, as A,b,x:10")
    state, carry = part.state, part.integrator.init(part.system, part.state)
    for step in range(steps):
        before = state
        state, carry, _ = part.integrator.step(part.system, state, carry, part.dt)
        if step % every == 0:
            problem = scheme.problem(part.system, before, part.dt)  # pyright: ignore[reportAttributeAccessIssue]
            stem = f"{options.scene.stem}_{part.name.replace('/', '_')}"
            for name in names:
                x = {s: state.velocity[s] - before.velocity[s] for s in before.velocity}
                values = {"b": problem.b, "x": x}.get(name)
                _write(Path(f"{stem}_{name}_{step + 1:06d}.{options.format}"), values, problem.A)


def _write(path: Path, vector: Any, A: Any) -> None:
    if path.suffix == ".png":
        if vector is not None:
            raise _Failure("--format png is a picture of the matrix: --export A:N")
        _picture(path, A)
    elif vector is None:
        if path.suffix == ".mtx":
            write_matrix(path, A)
        elif path.suffix == ".npy":
            np.save(path, np.asarray(A.to_dense()))
        else:
            np.savetxt(path, np.asarray(A.to_dense()), delimiter="," if path.suffix == ".csv" else " ")
    else:
        _write_flat(path, np.concatenate([np.ravel(vector[s]) for s in sorted(vector)]))


def _picture(path: Path, A: Any) -> None:
    """The sparsity of a matrix: a pixel for each entry, or for several where there are more than a thousand rows."""
    try:
        from matplotlib.image import imsave
    except ImportError:
        raise ImportError("pictures of matrices need matplotlib: install jaxmech[viz]") from None
    entries = A.to_scipy("coo")
    entries.eliminate_zeros()
    shown = tuple(min(n, _MOST_PIXELS) for n in entries.shape)
    image = np.zeros(shown)
    places = (at * wide // n for at, wide, n in zip((entries.row, entries.col), shown, entries.shape, strict=True))
    np.add.at(image, tuple(places), 1.0)
    imsave(path, image / max(image.max(), 1.0), cmap="gray_r")


def _write_flat(path: Path, flat: np.ndarray) -> None:
    if path.suffix == ".npy":
        np.save(path, flat)
    elif path.suffix == ".mtx":
        mmwrite(path, flat[:, None])
    else:
        np.savetxt(path, flat)
