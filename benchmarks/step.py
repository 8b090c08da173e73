"""A step of implicit Euler on the corotational cantilever and on small scenes, beside SOFA's figures.

    python -m benchmarks.step [4 8 12] [--small]

A beam of 4 x 1 x 1, `4n x n x n` cells in six tetrahedra each, E = 1000, nu = 0.3, rho = 1, consistent mass, gravity -10,
steps of 0.01, clamped at x = 0. SOFA's milliseconds were measured on another day: they are scaled by the time of SciPy's
BSR product over 128,581 blocks, then and now. Every solver's last tip is compared with that of the direct one.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import cold_and_warm, report
from benchmarks.mappings import beams, pendulum, scipy_product

STEPS, DT = 10, 0.01
SCIPY_THEN = 0.51  # [ms]
# SOFA's milliseconds per step: LDL of 3 x 3 blocks, 100 iterations of CG on the assembled matrix, what a step costs without
# its solve, one iteration.
SOFA = {8: (266.0, 26.0, 17.0, 0.09), 12: (6000.0, 91.0, None, None)}
SMALL = {"bar LDL": 1.8, "bar CG 25": 2.4, "block LDL": 10.0, "block CG 25": 5.2}


def cantilever(n: int):
    """The scene and its state at rest."""
    mesh = jm.mesh.box_mesh(cells=(4 * n, n, n), size=(4.0, 1.0, 1.0))
    elastic = jm.force.TetrahedronFEM.from_mesh("beam", mesh, jm.material.Corotational(1000.0, 0.3))
    return clamped("beam", mesh, elastic, jm.mass.ConsistentMass.from_mesh("beam", mesh, 1.0))


def clamped(name: str, mesh: Any, elastic: Any, mass: Any):
    """A body clamped at its first side, under gravity."""
    root = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    system = jm.System(
        {name: jm.Vec3()},
        forces={"elastic": elastic},
        masses={"mass": mass},
        constraints={"clamp": jm.constraint.Fixed((name, root))},
        gravity=(0.0, 0.0, -10.0),
    )
    return system, system.at_rest({name: mesh.points})


def plain_cg(steps: int) -> jm.solver.PCG:
    """As many iterations of conjugate gradients, whatever the residual: SOFA's CGLinearSolver."""
    return jm.solver.PCG(0.0, max_steps=steps, preconditioner=jm.solver.NoPreconditioner())


def run(system, state, linear_system, solver, dt: float = DT) -> dict[str, Any]:
    """Milliseconds of a step within a compiled loop of them, seconds of the first call, iterations, the last position."""
    integrator = jm.ImplicitEuler(linear_system, solver)

    def steps():
        return jm.simulate(system, state, integrator, jnp.asarray(dt), STEPS, save_every=STEPS, throw=False)

    first, warm, trajectory = cold_and_warm(steps)
    (position,) = trajectory.last.position.values()
    return {
        "ms": 1e3 * warm / STEPS,
        "first s": first,
        "iterations": float(np.mean(np.asarray(trajectory.info.linear_steps))),
        "position": np.asarray(position),
    }


def solvers() -> dict[str, Any]:
    """Those compared; the direct one first, for the others are held against it."""
    return {
        "direct": jm.solver.SparseDirect(),
        "CG 100": plain_cg(100),
        "PCG 1e-6": jm.solver.PCG(1e-6),
        "CG 1e-6": jm.solver.PCG(1e-6, preconditioner=jm.solver.NoPreconditioner()),
        "default to 1e-6": jm.solver.AutoLinearSolver(inertial=True, rtol=1e-6),
        "default": None,
    }


def cantilevers(n: int, scale: float) -> None:
    """Every solver on one cantilever."""
    system, state = cantilever(n)
    linear_system = jm.MatrixLinearSystem.build(system, state)
    rows = {name: run(system, state, linear_system, solver) for name, solver in solvers().items()}
    tip = rows["direct"]["position"]
    for name, row in rows.items():
        gap = float(np.abs(row.pop("position") - tip).max())
        sofa = sofa_milliseconds(n, name, rows["CG 1e-6"]["iterations"])
        against = {} if sofa is None else {"SOFA ms": sofa * scale, "SOFA / jaxmech": sofa * scale / row["ms"]}
        report(scene="cantilever", n=n, unknowns=tip.size, solver=name, **row, off=gap, **against)


def sofa_milliseconds(n: int, solver: str, plain_iterations: float) -> float | None:
    """What SOFA's step took with its nearest solver: to 1e-6, as many plain iterations as that takes."""
    if n not in SOFA:
        return None
    direct, cg, rest, iteration = SOFA[n]
    if solver in ("direct", "CG 100"):
        return direct if solver == "direct" else cg
    return cg * plain_iterations / 100 if rest is None or iteration is None else rest + iteration * plain_iterations


def small(scale: float) -> None:
    """Scenes of a few milliseconds a step, in which dispatch and waiting count."""
    defaults = {name: solver for name, solver in solvers().items() if name.startswith("default")}
    bar = jm.mesh.box_mesh(cells=(19, 3, 3), size=(19.0, 3.0, 3.0), kind="hexahedron")
    block = jm.mesh.box_mesh(cells=(9, 7, 7), size=(9.0, 7.0, 7.0))  # 2,646 tetrahedra, 640 nodes; SOFA's had 2,500 and 642
    for name, mesh, kind in (("bar", bar, jm.force.HexahedronFEM), ("block", block, jm.force.TetrahedronFEM)):
        elastic = kind.from_mesh(name, mesh, jm.material.Corotational(4000.0, 0.3))
        mass = jm.mass.UniformMass((name, np.arange(len(mesh.points))), 1.0)
        system, state = clamped(name, mesh, elastic, mass)
        linear_system = jm.MatrixLinearSystem.build(system, state)
        for kind, solver in {"LDL": jm.solver.SparseDirect(), "CG 25": plain_cg(25), **defaults}.items():
            row = run(system, state, linear_system, solver, 0.02)
            row.pop("position")
            sofa = SMALL.get(f"{name} {kind}", min(SMALL[f"{name} LDL"], SMALL[f"{name} CG 25"])) * scale
            report(
                scene=name,
                unknowns=mesh.points.size,
                solver=kind,
                **row,
                **{"SOFA ms": sofa, "SOFA / jaxmech": sofa / row["ms"]},
            )
    step = pendulum()["step"]
    report(scene="pendulum", unknowns=60, ms=step, **{"SOFA ms": 0.11 * scale, "SOFA / jaxmech": 0.11 * scale / step})
    for law, ms in beams().items():
        if law in ("Corotational", "LinearElastic"):
            report(
                scene="beams", law=law, unknowns=1200, ms=ms, **{"SOFA ms": 8.0 * scale, "SOFA / jaxmech": 8.0 * scale / ms}
            )


def main() -> None:
    """Every size asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="*", default=[4, 8, 12])
    parser.add_argument("--small", action="store_true", help="the small scenes as well")
    arguments = parser.parse_args()
    scale = scipy_product() / SCIPY_THEN
    report(device=str(jax.devices()[0]), **{"SciPy product now / then": scale})
    for n in arguments.n:
        cantilevers(n, scale)
    if arguments.small:
        small(scale)


if __name__ == "__main__":
    main()
