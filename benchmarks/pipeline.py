"""What a user of `jm.identify` waits for: an experiment in motion, its residuals, and their derivatives by four parameters.

    python -m benchmarks.pipeline [--cells 24 7 4] [--steps 200]

A neo-Hookean beam of 1,000 nodes, clamped, let go under a load at its tip; implicit Euler with Newton, the height of the
tip read at every tenth step. The parameters: Young's modulus, Poisson's ratio, a viscous drag, the load. Forward: the model.
Then cost and gradient in reverse mode (as for many parameters), residuals and Jacobian in forward mode (as `fit` does for
few). Times are seconds of the clock and, in brackets, of the processor; `peak`: of the process, one for each, for the first
call counts.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import forget, peak_megabytes

WHAT = ("forward", "cost and gradient", "residuals and Jacobian")
TRUTH = {"young": 2e5, "poisson": 0.4, "drag": 2e-3, "load": 0.02}


def experiment(cells: tuple[int, int, int], steps: int) -> jm.identify.Experiment:
    """The beam, with a tip that was measured at its start all the time."""
    mesh = jm.mesh.box_mesh(cells=cells, size=(0.24, 0.07, 0.04))
    root, tip = (mesh.nodes_where(lambda x, end=end: jnp.abs(x[:, 0] - end) < 1e-9) for end in (0.0, 0.24))
    every = np.arange(len(mesh.points))
    system = jm.System(
        {"u": jm.Vec3()},
        forces={
            "rubber": jm.force.TetrahedronFEM.from_mesh("u", mesh, jm.material.NeoHookean(2e5, 0.4)),
            "load": jm.force.ConstantForce(("u", tip), [0.0, 0.0, -0.02]),
            "drag": jm.force.VelocityDamping(("u", every), 2e-3),
        },
        masses={"mass": jm.mass.DiagonalMass.from_mesh("u", mesh, 1000.0)},
        constraints={"clamp": jm.constraint.Fixed(("u", root))},
    )
    rest = system.at_rest({"u": mesh.points})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, rest))
    see = jm.identify.Displacement(("u", tip[:1]), mesh.points, components=2)
    read = jm.identify.Measured(see, np.zeros((steps // 10 + 1, 1, 1)), noise=1e-3, unit="m")

    def numbers(p: Any) -> Any:
        rubber = {"material.young": p["young"], "material.poisson": p["poisson"]}
        load = {"force": p["load"] * jnp.array([0.0, 0.0, -1.0])}
        return {"rubber": rubber, "drag": {"coefficient": p["drag"]}, "load": load}

    motion = jm.identify.Motion(integrator, dt=0.005, steps=steps, save_every=10)
    return jm.identify.Experiment(system, rest, {"tip": read}, protocol=motion, numbers=numbers)


def asked(what: str, test: jm.identify.Experiment) -> Callable[[], Any]:
    """One of the three, compiled."""
    free = {name: jm.identify.Free(value, lower=0.0) for name, value in TRUTH.items()}
    problem = jm.identify.problem(test, free)
    made: dict[str, Any] = {
        "forward": lambda q, problem: problem.residual(q),
        "cost and gradient": jax.value_and_grad(lambda q, problem: problem.cost(q)),
        "residuals and Jacobian": lambda q, problem: jax.jacfwd(lambda q: (problem.residual(q),) * 2, has_aux=True)(q),
    }
    run = jax.jit(made[what])
    return lambda: run(problem.start, problem)


def measure(what: str, cells: tuple[int, int, int], steps: int) -> None:
    """Print the first call, the least of three more, and the memory."""
    jax.config.update("jax_enable_x64", True)
    test = experiment(cells, steps)
    run, times = asked(what, test), []
    for _ in range(4):
        forget()
        wall, processor = time.perf_counter(), time.process_time()
        jax.block_until_ready(run())
        times.append((time.perf_counter() - wall, time.process_time() - processor))
    (first, first_cpu), (again, again_cpu) = times[0], tuple(map(min, zip(*times[1:], strict=True)))
    print(
        f"{what:23} first {first:6.2f} s ({first_cpu:6.2f}), again {again:6.2f} s ({again_cpu:6.2f}), "
        f"peak {peak_megabytes():6.0f} MB",
        flush=True,
    )


def main() -> None:
    """Each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs=3, default=[24, 7, 4])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", choices=WHAT)
    given = parser.parse_args()
    if given.only:
        measure(given.only, tuple(given.cells), given.steps)
        return
    for what in WHAT:
        subprocess.run([sys.executable, "-m", "benchmarks.pipeline", *sys.argv[1:], "--only", what], check=True)


if __name__ == "__main__":
    main()
