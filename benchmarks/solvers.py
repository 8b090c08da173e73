"""Every linear solver on a clamped elastic bar, as ratios to SciPy's SuperLU.

    python -m benchmarks.solvers [5000 20000 50000] [--static | --step]

The matrix is the stiffness of linear tetrahedra (nu = 0.4) on a 3 x 1 x 1 box, or that of a time step, `M / h^2 + K`.
Each solve is asked for a relative residual of 1e-8 and timed once compiled, best of two, setup of the preconditioner (or
factorisation) included for what is made anew with each matrix and told apart for what is made once (multigrid). What took
more than `MOST` seconds is not tried at the next size.
"""

import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

import jaxmech as jm

MOST = 60.0  # [s]
CELLS = {5000: 8, 20000: 12, 50000: 17}


def bar(n: int, kind: str):
    """The matrix, its load, the points."""
    mesh = jm.mesh.box_mesh(cells=(3 * n, n, n), size=(3.0, 1.0, 1.0))
    root = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    system = jm.System(
        {"bar": jm.Vec3()},
        forces={
            "elastic": jm.force.TetrahedronFEM.from_mesh("bar", mesh, jm.material.LinearElastic(young=1e5, poisson=0.4))
        },
        masses={"mass": jm.mass.ConsistentMass.from_mesh("bar", mesh, 1000.0)},
        constraints={"clamp": jm.constraint.Fixed(("bar", root))},
    )
    rest = system.at_rest({"bar": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, rest)
    mass = 0.0 if kind == "static" else 1e4  # a step of 10 ms
    factors = jm.Factors(mass=mass, damping=0.0, stiffness=1.0)
    A = eqx.filter_jit(linear_system.assemble)(system, rest, factors)
    load = jnp.zeros_like(mesh.points).at[mesh.nodes_where(lambda x: x[:, 0] == 3.0), 2].set(-1.0)
    return A, {"bar": load}, mesh


def candidates(A, mesh):
    """Name, solver, and seconds spent on what is made once."""
    for backend in ("superlu", "feral", "pardiso"):
        try:
            yield f"SparseDirect {backend}", jm.solver.SparseDirect(backend), 0.0
        except ImportError:
            continue
    try:
        start = time.perf_counter()
        M = jm.solver.SmoothedAggregation.from_matrix(A, {"bar": mesh.points})
        setup = time.perf_counter() - start
        yield "PCG SmoothedAggregation", jm.solver.PCG(1e-8, preconditioner=M), setup
        yield "MINRES SmoothedAggregation", jm.solver.MINRES(1e-8, preconditioner=M), setup
    except ImportError:
        pass
    near = A.scaled(1.0)
    near = eqx.tree_at(lambda a: a.entries["bar", "bar"].values, near, 0.8 * near["bar", "bar"].values)
    yield "PCG StaleFactor", jm.solver.PCG(1e-8, preconditioner=jm.solver.StaleFactor(near, jm.solver.SparseDirect())), 0.0
    yield "PCG BlockJacobi", jm.solver.PCG(1e-8), 0.0
    yield "PCG Jacobi", jm.solver.PCG(1e-8, preconditioner=jm.solver.Jacobi()), 0.0
    yield "PCG none", jm.solver.PCG(1e-8, preconditioner=jm.solver.NoPreconditioner()), 0.0
    yield "PCG SSOR", jm.solver.PCG(1e-8, preconditioner=jm.solver.SSOR(1.3)), 0.0
    yield "PCG IncompleteFactor", jm.solver.PCG(1e-8, preconditioner=jm.solver.IncompleteFactor()), 0.0
    yield "MINRES BlockJacobi", jm.solver.MINRES(1e-8), 0.0
    yield "BiCGStab BlockJacobi", jm.solver.BiCGStab(1e-8), 0.0
    yield "GMRES BlockJacobi", jm.solver.GMRES(1e-8), 0.0
    yield "GMRES IncompleteFactor", jm.solver.GMRES(1e-8, preconditioner=jm.solver.IncompleteFactor()), 0.0


def scipy_seconds(A, b) -> float:
    """Factor and solve with SciPy alone, in its best symmetric mode."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    K = sparse.csc_matrix(A.to_scipy("csc"))
    start = time.perf_counter()
    splu(K, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=1e-3, options={"SymmetricMode": True}).solve(np.asarray(b).ravel())
    return time.perf_counter() - start


def timed(solver: Any, A, b) -> tuple[float, Any, float]:
    """Seconds of a solve with a new matrix, the solution, seconds of the first call."""
    solve = eqx.filter_jit(lambda A, b, solver: lx.linear_solve(A, b, solver, throw=False))
    start = time.perf_counter()
    solution = jax.block_until_ready(solve(A, b, solver))
    first = time.perf_counter() - start
    if first > MOST:
        return first, solution, first
    times = []
    for i in range(2):
        other = eqx.filter_jit(lambda A, f: A.scaled(f))(A, 1.0 + 0.01 * (i + 1))  # nothing kept from the last one fits
        start = time.perf_counter()
        solution = jax.block_until_ready(solve(other, b, solver))
        times.append(time.perf_counter() - start)
    return min(times), solution, first


def main() -> None:
    """All sizes asked for."""
    jax.config.update("jax_enable_x64", True)
    kind = "step" if "--step" in sys.argv else "static"
    sizes = [int(a) for a in sys.argv[1:] if a.isdigit()] or sorted(CELLS)
    slow: set[str] = set()
    for size in sizes:
        A, b, mesh = bar(CELLS.get(size) or max(1, round((size / 9) ** (1 / 3))), kind)
        unit = scipy_seconds(A, b["bar"])
        print(f"\n{A.in_size()} unknowns, {kind}; SciPy's splu: {unit:.2f} s", flush=True)
        print(f"{'solver':28s} {'s':>8s} {'ratio':>7s} {'setup s':>8s} {'first s':>8s} {'steps':>6s}  residual", flush=True)
        for name, solver, setup in candidates(A, mesh):
            if name in slow:
                print(f"{name:28s} skipped: more than {MOST:.0f} s at the size before")
                continue
            seconds, solution, first = timed(solver, A, b)
            if seconds > MOST / 4:
                slow.add(name)
            steps = int(solution.stats["num_steps"])
            residual = float(solution.stats["residual"] / jnp.linalg.norm(b["bar"]))
            failed = "" if solution.result == lx.RESULTS.successful else f"  {solution.stats['reason']}"
            print(
                f"{name:28s} {seconds:8.3f} {seconds / unit:7.3f} {setup:8.2f} {first:8.2f} {steps:6d}"
                f"  {residual:.1e}{failed}",
                flush=True,
            )


if __name__ == "__main__":
    main()
