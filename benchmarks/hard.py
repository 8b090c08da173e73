"""Iterations of every solver on systems that are hard for some of them.

    python -m benchmarks.hard [--n 8]

A clamped block of `2n x n x n` cells of six tetrahedra under its weight, and what makes it hard: a vibration above the
lowest modes (`K - w^2 M`, indefinite), springs a million times as stiff as a cell on one face, a Poisson's ratio of 0.4999,
a rod a million times as stiff along it. Residuals of 1e-8 of the right-hand side. PETSc's solvers where petsc4py is
installed.
"""

import argparse
import importlib.util

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

import jaxmech as jm
from benchmarks.clock import report

YOUNG, MOST = 1e5, 2000
KINDS = ("plain", "wave", "contact", "incompressible", "rod")


def block(n: int, kind: str) -> tuple[jm.matrix.BlockMatrix, dict[str, jax.Array], np.ndarray]:
    """The matrix, the right-hand side and the points."""
    mesh = jm.mesh.box_mesh(cells=(2 * n, n, n), size=(2.0, 1.0, 1.0))
    points = np.asarray(mesh.points)
    poisson = 0.4999 if kind == "incompressible" else 0.3
    forces = {"elastic": jm.force.TetrahedronFEM.from_mesh("block", mesh, jm.material.LinearElastic(YOUNG, poisson))}
    stiff = 1e6 * YOUNG / n  # of a cell: E h
    if kind == "contact":
        face = mesh.nodes_where(lambda x: x[:, 2] == 0.0)
        forces["floor"] = jm.force.AnchoredSprings(("block", face), stiff, points[face])
    if kind == "rod":
        # Beside the neutral axis, so that bending pulls it.
        axis = np.flatnonzero(np.all(np.abs(points[:, 1:] - (0.5, 0.25)) < 1e-9, axis=1))
        axis = axis[np.argsort(points[axis, 0])]
        forces["rod"] = jm.force.Springs((("block", axis[:-1]), ("block", axis[1:])), stiff, 1.0 / n)
    system = jm.System(
        {"block": jm.Vec3()},
        forces=forces,
        masses={"mass": jm.mass.ConsistentMass.from_mesh("block", mesh, 1.0)},
        constraints={"clamp": jm.constraint.Fixed(("block", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=(0.0, 0.0, -10.0),
    )
    state = system.at_rest({"block": points})
    linear_system = jm.MatrixLinearSystem.build(system, state)
    mass = -((2 * np.pi * 150.0) ** 2) if kind == "wave" else 0.0
    A = eqx.filter_jit(linear_system.assemble)(system, state, jm.Factors(mass=mass, damping=0.0, stiffness=1.0))
    return A, {"block": _weight(system, state)}, points


def _weight(system: jm.System, state: jm.State) -> jax.Array:
    """The force at rest, where nothing is held."""
    held = system.constraints["clamp"].on[0].nodes
    return jm.total_force(system, state)["block"].at[held].set(0.0)


def solvers(A: jm.matrix.BlockMatrix, points: np.ndarray) -> dict[str, lx.AbstractLinearSolver]:
    """By name."""
    at = {"block": jnp.asarray(points)}
    amg = jm.solver.SmoothedAggregation.from_matrix(A, at)
    found: dict[str, lx.AbstractLinearSolver] = {
        "PCG, block Jacobi": jm.solver.PCG(1e-8, max_steps=MOST),
        "PCG, SSOR": jm.solver.PCG(1e-8, max_steps=MOST, preconditioner=jm.solver.SSOR()),
        "PCG, incomplete factor": jm.solver.PCG(1e-8, max_steps=MOST, preconditioner=jm.solver.IncompleteFactor()),
        "PCG, SmoothedAggregation": jm.solver.PCG(1e-8, max_steps=MOST, preconditioner=amg),
        "MINRES, block Jacobi": jm.solver.MINRES(1e-8, max_steps=MOST),
        "GMRES(50), SmoothedAggregation": jm.solver.GMRES(1e-8, restart=50, max_steps=MOST, preconditioner=amg),
    }
    if importlib.util.find_spec("petsc4py") is not None:
        found["PETSc, mg"] = jm.solver.PETSc("mg", rtol=1e-8, max_steps=MOST, positions=at)
        found["PETSc, GAMG"] = jm.solver.PETSc("gamg", rtol=1e-8, max_steps=MOST, positions=at)
        found["PETSc, BoomerAMG"] = jm.solver.PETSc("hypre", rtol=1e-8, max_steps=MOST)
    return found | {"SparseDirect": jm.solver.SparseDirect()}


def main() -> None:
    """All of them on all of them."""
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=8, help="a multiple of four")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    chosen = parser.parse_args()
    for kind in chosen.kinds:
        A, b, points = block(chosen.n, kind)
        size = float(jnp.linalg.norm(b["block"]))
        for name, solver in solvers(A, points).items():
            solution = lx.linear_solve(A, b, solver, throw=False)
            left = float(jnp.linalg.norm(A.mv(solution.value)["block"] - b["block"])) / size
            good = bool(solution.result == lx.RESULTS.successful)
            reason = "" if good else str(solution.stats.get("reason", "failed"))
            steps = int(solution.stats["num_steps"])
            report(kind=kind, unknowns=points.size, solver=name, iterations=steps, residual=left, reason=reason)


if __name__ == "__main__":
    main()
