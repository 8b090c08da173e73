"""A clamped cantilever over the ranks of MPI: what each rank does, holds and sends.

    mpiexec -n 2 python -m benchmarks.ranks 8 [--pc mg | gamg | hypre] [--scatter] [--steps 20]

Linear elastic, 4 x 1 x 1, `4n x n x n` cells of six tetrahedra each, under its weight; to 1e-8. Needs the extra `mpi`.
`mg`: levels of jaxmech's own. CPU seconds, the most of any rank, of dividing the scene, of the pattern, of assembly (again,
compiled), of the solver's set-up and of the solve; memory at its highest beyond what a process has before it begins; nodes
of the part, and ghosts among them. `--scatter`: the first rank makes the scene and sends the others their parts.

`--steps`: a trajectory instead, so many linearised steps of implicit Euler of 10 ms from rest, and the gradient of where the
end of the bar goes by the modulus of every element; the same measures of the motion alone, and of motion and gradient.
"""

import argparse
import resource
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import report
from jaxmech._distributed.scenes import _linear_system
from jaxmech._distributed.solve import Means, _look, _tangent
from jaxmech._solve.static import StaticEquilibrium


def cantilever(n: int) -> tuple[jm.System, jm.State]:
    """The scene at rest."""
    mesh = jm.mesh.box_mesh(cells=(4 * n, n, n), size=(4.0, 1.0, 1.0))
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={"elastic": jm.force.TetrahedronFEM.from_mesh("beam", mesh, jm.material.LinearElastic(1e5, 0.3))},
        masses={"mass": jm.mass.UniformMass.of_total(("beam", np.arange(len(mesh.points))), 4.0)},
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=(0.0, 0.0, -10.0),
    )
    return system, system.at_rest({"beam": mesh.points})


def megabytes() -> float:
    """The most that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Stopwatch:
    """CPU seconds of this process since the last look."""

    def __init__(self):
        self.last = time.process_time()

    def __call__(self) -> float:
        before, self.last = self.last, time.process_time()
        return self.last - before


def measured(n: int, pc: str, scatters: bool) -> dict[str, float]:
    """Of this rank."""
    before, watch, scene = megabytes(), Stopwatch(), 0.0
    if scatters:
        own, start, division = jm.distributed.scatter(lambda: cantilever(n))
    else:
        system, state = cantilever(n)
        scene = watch()
        division = jm.distributed.divide(system, state)
        own, start = division.part(system, state)
        del system, state
    said = {"scene s": scene, "divide s": watch(), "MB divided": megabytes() - before}
    problem = StaticEquilibrium(own, _linear_system(division, own, jm.Terms(mass=False, damping=False)), start.time)
    said["pattern s"] = watch()
    means = Means(division, jm.solver.PETSc(pc, rtol=1e-8), "ranks")
    u = start.position
    for name in ("compile s", "assembly s"):
        R, free, gap, _ = _look(problem, u)
        A, b, _ = jax.block_until_ready(_tangent(problem, u, R, gap))
        said[name] = watch()
    said["MB assembled"] = megabytes() - before
    factor = means.factor(A, u)
    factor._solver.ksp.setUp()
    said["set-up s"] = watch()
    said["MB set up"] = megabytes() - before
    _, steps = factor.solve(b, "ranks")
    said["solve s"] = watch()
    nodes = division.nodes["beam"].size
    return said | {"iterations": steps, "nodes": nodes, "ghosts": nodes - division.owned["beam"], "MB": megabytes() - before}


def trajectory(n: int, pc: str, steps: int) -> dict[str, float]:
    """Of this rank, a motion and its gradient by each element's modulus."""
    before, watch = megabytes(), Stopwatch()
    system, state = cantilever(n)
    young = jnp.full(system.forces["elastic"].on[0].elements, 1e5)
    system = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, young)
    division, solver = jm.distributed.divide(system, state), jm.solver.PETSc(pc, rtol=1e-8)

    def height(young):
        other = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, young)
        end = jm.distributed.simulate_over_ranks(other, state, 0.01, steps, division, solver)
        return jnp.mean(end.position["beam"][-(n + 1) :, 2])

    said = {"scene and division s": watch()}
    height(young)
    said |= {"motion s": watch(), "MB of motion": megabytes() - before}
    value, slope = jax.value_and_grad(height)(young)
    size = float(jnp.linalg.norm(slope))
    said |= {"motion and gradient s": watch(), "MB": megabytes() - before}
    return said | {"steps": steps, "height": float(value), "gradient's norm": size}


def main() -> None:
    """Of all ranks, the most of each."""
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="?", default=8)
    parser.add_argument("--pc", choices=("mg", "gamg", "hypre"), default="mg")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--scatter", action="store_true")
    asked = parser.parse_args()
    n, pc = asked.n, asked.pc
    mine = trajectory(n, pc, asked.steps) if asked.steps else measured(n, pc, asked.scatter)
    from mpi4py import MPI  # pyright: ignore[reportMissingImports]

    comm = MPI.COMM_WORLD
    every = comm.gather(mine)
    if every is not None:
        most = {name: max(said[name] for said in every) for name in mine}
        if not asked.steps:
            most["least MB divided"] = min(said["MB divided"] for said in every)
        report(scene="cantilever", unknowns=3 * (4 * n + 1) * (n + 1) ** 2, ranks=comm.size, pc=pc, **most)


if __name__ == "__main__":
    main()
