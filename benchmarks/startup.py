"""What a user waits for first: seconds from the start of a process to an answer.

    python -m benchmarks.startup [readme] [arm] [elements]

`readme`: the first snippet of the README, in a process of its own, with an empty compilation cache and with a warm one: by
the clock until its numbers are printed (`answer`), and of a processor until the process has ended; and `import jaxmech`.
`arm`: the gradient of 200 steps of an arm of one and of seven hinges, traced and compiled. `elements`: the first static
solve of a block of a few cells, kind by kind, in a process of its own that has imported jaxmech and compiled one other
program. Seconds of a processor are of user and system time, whatever else the machine does.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import report
from benchmarks.motions import arm as hinged

_SOLIDS = "tetrahedron tetrahedron10 hexahedron hexahedron20 hexahedron27 prism prism15 pyramid pyramid13 hexahedron:f-bar"
KINDS = ["triangle", "triangle6", "quad", "quad8", "quad9", *_SOLIDS.split(" ")]
ROOT = Path(__file__).parents[1]
STEPS = 200


def readme() -> None:
    """Three processes: without a cache, one that fills it, one that finds it full."""
    snippet = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    snippet += "print(float(value), float(slope))"
    with tempfile.TemporaryDirectory() as folder:
        filled = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        unset = {name: value for name, value in os.environ.items() if name not in {*filled, "PYTHONDONTWRITEBYTECODE"}}
        _process("import jaxmech", unset)  # byte code is there, as it is for whoever has imported it once
        (cold_answer, cold), _, (warm_answer, warm) = (_process(snippet, unset | more) for more in ({}, filled, filled))
    imported = _process("import jaxmech", unset)[1]
    report(what="readme", cold_answer_s=cold_answer, warm_answer_s=warm_answer, cold_s=cold, warm_s=warm, import_s=imported)


def _process(code: str, environment: dict[str, str]) -> tuple[float, float]:
    """When a script is through, by the clock, and what its process takes of a processor."""
    through = f"{code}\nimport time\nprint(time.time())"
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    command = [sys.executable, "-c", through]
    said = subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(said.split()[-1]) - begun, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def arm(hinges: int, *, newton: bool) -> None:
    """The gradient of the last angles by the stiffness of the motors."""
    system, state = hinged(hinges)
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=newton)

    def far(stiffness):
        trial = eqx.tree_at(lambda s: s.forces["motors"].stiffness, system, stiffness)
        last = jm.simulate(trial, state, integrator, 0.005, STEPS, save_every=STEPS, throw=False).last
        return jnp.sum(last.position["joints"] ** 2)

    start = time.process_time()
    lowered = jax.jit(jax.value_and_grad(far)).lower(jnp.asarray(5.0))
    traced = time.process_time()
    program = lowered.compile()
    done = time.process_time()
    begun = time.perf_counter()
    jax.block_until_ready(program(jnp.asarray(5.0)))
    ran = time.perf_counter() - begun
    report(
        what="arm",
        hinges=hinges,
        newton=newton,
        trace_s=traced - start,
        compile_s=done - traced,
        both_s=done - start,
        run_s=ran,
    )


def elements() -> None:
    """One process for each kind."""
    for kind in KINDS:
        code = f"from benchmarks.startup import first_solve; first_solve(*{kind.split(':')})"
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def first_solve(kind: str, formulation: str = "standard") -> None:
    """A block that is clamped at one side and pulled down at the other: mesh, scene, pattern and solution."""
    jax.config.update("jax_enable_x64", True)
    _load_libraries()
    start = time.process_time()
    mesh = _block(kind)
    points = np.asarray(mesh.points)
    directions = points.shape[1]
    root, tip = (np.flatnonzero(np.isclose(points[:, 0], end)) for end in (0.0, 3.0))
    law = jm.material.NeoHookean(1e3, 0.3)
    system = jm.System(
        {"block": jm.Vec3() if directions == 3 else jm.Vec2()},
        forces={
            "solid": jm.force.SolidFEM.from_mesh("block", mesh, law, formulation=formulation),
            "load": jm.force.ConstantForce(("block", tip), np.eye(directions)[-1] * -0.05),
        },
        constraints={"clamp": jm.constraint.Fixed(("block", root))},
    )
    rest = system.at_rest({"block": points})
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))
    lowest = float(np.asarray(jm.static_solve(system, rest, linear_system).position["block"])[:, -1].min())
    seconds = time.process_time() - start
    report(what="first solve", kind=kind, formulation=formulation, cells=len(mesh.cells), cpu_s=seconds, lowest=lowest)


def _block(kind: str) -> jm.mesh.Mesh:
    """Three by two by two boxes, or what they are cut into."""
    base = kind.rstrip("0123456789")
    if base in ("triangle", "quad"):
        linear = jm.mesh.box_mesh(cells=(3, 2), size=(3.0, 1.0), kind=base)
    else:
        cut = base in ("prism", "pyramid")
        linear = jm.mesh.box_mesh(cells=(3, 2, 2), size=(3.0, 1.0, 1.0), kind="hexahedron" if cut else base)
    if base == "prism":
        linear = jm.mesh.hexahedra_to_prisms(linear).mesh
    if base == "pyramid":  # six in each, their apices in its middle
        points, cells = np.asarray(linear.points), np.asarray(linear.cells)
        middle = len(points) + np.arange(len(cells))
        sides = [cells[:, side[::-1]] for side in jm.mesh.reference_element("hexahedron").faces]
        pyramids = np.concatenate([np.column_stack([side, middle]) for side in sides])
        linear = jm.mesh.Mesh(np.vstack([points, points[cells].mean(axis=1)]), pyramids, "pyramid")
    return linear if kind == base else jm.mesh.quadratic_mesh(linear, kind=kind)


def _load_libraries() -> None:
    jax.jit(lambda x: jnp.linalg.inv(x) @ x).lower(jnp.eye(3)).compile()


def main() -> None:
    """What is asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["readme", "arm", "elements"])
    what = parser.parse_args().what
    if "readme" in what:
        readme()
    if "elements" in what:
        elements()
    if "arm" in what:
        jax.config.update("jax_enable_x64", True)
        _load_libraries()
        for hinges, newton in ((1, False), (1, True), (7, False)):
            arm(hinges, newton=newton)


if __name__ == "__main__":
    main()
