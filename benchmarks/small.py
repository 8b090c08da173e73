"""What a call costs where the scene is so small that Python and dispatch are most of it, beside another tree of jaxmech.

    python -m benchmarks.small [TREE] [--rounds 40]

A bar of three hexahedra (16 nodes), and one of 40 (99 nodes): a warm static solve and ten steps by `simulate`, called from
Python, and a step within a compiled loop of 200; a loop of a chain of 16 springs. With a TREE (a clone at an older commit)
two processes take turns, each call a few times, and `ratio` is of the shortest times of a call; `CPU ratio`, of the median
processor seconds of a round. Trees from commit 67c8cac on are understood.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clock import report

ROOT = Path(__file__).parents[1]
CALLS = 8  # in a turn
MEASURES = [*(f"{what} {body}" for what in ("static", "simulate", "loop") for body in ("16", "99")), "loop chain"]


def measured(tree: str, measure: str) -> None:
    """The process that measures: for each line that comes in, one of a turn: the shortest call, and processor seconds."""
    sys.path[0] = tree
    import jax

    import jaxmech as jm

    assert jm.__file__ is not None and jm.__file__.startswith(tree), jm.__file__
    jax.config.update("jax_enable_x64", True)
    call = _call(jm, *measure.split(" "))
    print(np.asarray(jax.tree.leaves(call())[0]).sum())
    for _ in range(CALLS):
        jax.block_until_ready(call())
    for _ in sys.stdin:
        times, before = [], time.process_time()
        for _ in range(CALLS):
            start = time.perf_counter()
            jax.block_until_ready(call())
            times.append(time.perf_counter() - start)
        print(min(times), (time.process_time() - before) / CALLS, flush=True)


def _call(jm: Any, what: str, body: str) -> Callable[[], Any]:
    system, state = _chain(jm) if body == "chain" else _bar(jm, (10, 2, 2) if body == "99" else (3, 1, 1))
    if what == "static":
        terms = jm.Terms(mass=False, damping=False)
        linear_system = jm.MatrixLinearSystem.build(system, state, terms)
        return lambda: jm.static_solve(system, state, linear_system).state.position
    integrator, steps = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state)), 200 if what == "loop" else 10
    return lambda: jm.simulate(system, state, integrator, 0.01, steps, save_every=steps).last.position


def _named(jm: Any, room: str, name: str) -> Any:
    """A class or function of a room, or of the top of trees that had no rooms."""
    return getattr(getattr(jm, room, jm), name)


def _scene(jm: Any, force: Any, mass: Any, held: Any, points: Any) -> Any:
    clamp = _named(jm, "constraint", "Fixed")(("body", held))
    parts = {"forces": {"force": force}, "masses": {"mass": mass}, "constraints": {"clamp": clamp}}
    system = jm.System({"body": jm.Vec3()}, **parts, gravity=(0.0, 0.0, -0.1))
    return system, system.at_rest({"body": points})


def _bar(jm: Any, cells: tuple[int, int, int]) -> Any:
    mesh = _named(jm, "mesh", "box_mesh")(cells=cells, size=tuple(map(float, cells)), kind="hexahedron")
    law = _named(jm, "material", "Corotational")(1e3, 0.3)
    force = _named(jm, "force", "HexahedronFEM").from_mesh("body", mesh, law)
    mass = _named(jm, "mass", "ConsistentMass").from_mesh("body", mesh, 1.0)
    return _scene(jm, force, mass, mesh.nodes_where(lambda x: x[:, 0] == 0.0), mesh.points)


def _chain(jm: Any) -> Any:
    nodes = np.arange(16)
    force = _named(jm, "force", "Springs")((("body", nodes[:-1]), ("body", nodes[1:])), 100.0, 1.0, 0.1)
    mass = _named(jm, "mass", "UniformMass")(("body", nodes), 1.0)
    return _scene(jm, force, mass, [0], nodes[:, None] * np.array([1.0, 0.0, 0.0]))


def compared(measure: str, trees: list[str], rounds: int) -> None:
    """The processes of all trees in turns."""
    command = [sys.executable, str(Path(__file__)), "--measure", measure]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes: list[Any] = [subprocess.Popen([*command, tree], env=environment, **pipes) for tree in trees]
    answers = [float(p.stdout.readline()) for p in processes]
    found = np.array([[_turn(p) for p in processes] for _ in range(rounds)])  # (rounds, trees, 2)
    for p in processes:
        p.communicate()
    call, cpu = 1e6 * found[..., 0].min(axis=0), 1e6 * np.median(found[..., 1], axis=0)
    row = {"measure": measure, "us": float(call[0]), "CPU us": float(cpu[0])}
    if len(trees) > 1:
        ratios = {"ratio": float(call[0] / call[1]), "CPU ratio": float(cpu[0] / cpu[1])}
        row |= {"us there": float(call[1]), **ratios, "off": abs(answers[0] - answers[1])}
    report(**row)


def _turn(process: Any) -> list[float]:
    process.stdin.write("\n")
    process.stdin.flush()
    return [float(number) for number in process.stdout.readline().split()]


def main() -> None:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        measured(arguments.tree, arguments.measure)
        return
    trees = [str(ROOT)] if arguments.tree is None else [str(ROOT), str(Path(arguments.tree).resolve())]
    for measure in MEASURES:
        compared(measure, trees, arguments.rounds)


if __name__ == "__main__":
    main()
