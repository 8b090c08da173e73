"""The cantilever of `benchmarks.ranks` by conjugate gradients with `SmoothedAggregation`, in one process.

    python -m benchmarks.multigrid 16 [--once]

CPU seconds of the scene, the pattern, the assembly, the set-up, a second set-up and a refresh for new values (the least of
three each) and the solve to 1e-8, what is compiled in the first of each; iterations; megabytes at its highest. `--once`:
neither the second set-up nor a refresh, for what hardly fits: 62 has 2,964,843 unknowns.
"""

import argparse
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

import jaxmech as jm
from benchmarks.clock import peak_megabytes, report
from benchmarks.ranks import Stopwatch, cantilever


def loaded(n: int, watch: Stopwatch) -> tuple[dict[str, float], jm.matrix.BlockMatrix, dict[str, Any], dict[str, Any]]:
    """What it took, the matrix, its load, and the points."""
    system, state = cantilever(n)
    said = {"scene s": watch()}
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))
    said["pattern s"] = watch()
    A = eqx.filter_jit(linear_system.assemble)(system, state, jm.Factors.only("stiffness"))
    x = state.position["beam"]
    b = {"beam": jnp.where(x[:, :1] == 0.0, 0.0, jm.total_force(system, state)["beam"])}
    jax.block_until_ready((A, b))
    return said | {"assembly s": watch()}, A, b, state.position


def least(make: Callable[[], Any], watch: Stopwatch) -> float:
    """CPU seconds of the shortest of three runs, after one that compiles."""
    jax.block_until_ready(make())
    watch()
    return min(_seconds(make, watch) for _ in range(3))


def _seconds(make: Callable[[], Any], watch: Stopwatch) -> float:
    jax.block_until_ready(make())
    return watch()


@eqx.filter_jit
def solved(A: Any, b: Any, solver: lx.AbstractLinearSolver) -> Any:
    return lx.linear_solve(A, b, solver).stats["num_steps"]


def main() -> None:
    """One size."""
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="?", default=16)
    parser.add_argument("--once", action="store_true")
    asked, watch = parser.parse_args(), Stopwatch()
    said, A, b, points = loaded(asked.n, watch)

    def levels() -> jm.solver.SmoothedAggregation:
        return jm.solver.SmoothedAggregation.from_matrix(A, points)

    M = jax.block_until_ready(levels())
    said["set-up s"] = watch()
    if not asked.once:
        said |= {"again s": least(levels, watch), "refresh s": least(lambda: M.refreshed(A), watch)}
    steps = int(solved(A, b, jm.solver.PCG(1e-8, preconditioner=M)))
    said["solve s"] = watch()
    report(scene="cantilever", unknowns=points["beam"].size, iterations=steps, MB=peak_megabytes(), **said)


if __name__ == "__main__":
    main()
