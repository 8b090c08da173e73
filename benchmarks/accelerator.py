"""What an accelerator is for: a clamped cantilever of a million unknowns, and thousands of scenes at once.

    python -m benchmarks.accelerator [equilibrium fingers grasps motions] [--solver jacobi] [--cells 43] [--scenes 1024]

On the device that JAX takes, whatever it is, by the clock; the first call is told apart.

`equilibrium`: of a linear elastic cantilever of 4 x 1 x 1, `4n x n x n` trilinear hexahedra with a load at its end, from
the mesh's arrays on the device to its displacements, by conjugate gradients with block Jacobi or smoothed aggregation (set
up beforehand, and told apart), or by a sparse factor. 173 x 44 x 44 nodes have 1,004,784 unknowns; feax reports 1.28 s for
998,976 on an H100, with AMG, after compiling for 137 s (its dashboard, 2026). `fingers`: ten steps of those of
`benchmarks.batch`, each with its own modulus. `grasps`: sixty steps of the hands of `benchmarks.grasping`, each with its
own friction. `motions`: a double pendulum, a top and a beam (`benchmarks.motions`) by several schemes, each in its own
gravity, and the derivatives of where they end by that.
Assembly and products: `benchmarks.assembly`.
"""

import argparse
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

import jaxmech as jm
from benchmarks.batch import STEPS, finger, stepper
from benchmarks.clock import cold_and_warm, report
from benchmarks.grasping import DT
from benchmarks.motions import EXPLICIT, IMPLICIT, SCENES
from examples.soft_grasp import HALF, lifted, scene

LOAD = 0.01  # of a Young's modulus of 1000


def cantilever(n: int, dtype: str) -> tuple[np.ndarray, jm.System, jm.State, jm.MatrixLinearSystem]:
    """Its points, and the scene at rest."""
    mesh = jm.mesh.box_mesh(cells=(4 * n, n, n), size=(4.0, 1.0, 1.0), kind="hexahedron")
    mesh = jm.mesh.Mesh(mesh.points.astype(dtype), mesh.cells, mesh.kind)
    end = mesh.faces_where(lambda x: x[:, 0] == 4.0)
    material = jm.material.LinearElastic(jnp.asarray(1e3, dtype), jnp.asarray(0.3, dtype))
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={
            "elastic": jm.force.HexahedronFEM.from_mesh("beam", mesh, material),
            "load": jm.force.Traction.from_mesh("beam", end, jnp.array([0.0, 0.0, -LOAD], dtype)),
        },
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    rest = system.at_rest({"beam": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))
    return np.asarray(mesh.points), system, rest, linear_system


def solver_of(
    name: str, rtol: float, system: jm.System, rest: jm.State, linear_system: jm.MatrixLinearSystem
) -> lx.AbstractLinearSolver:
    """By its name; multigrid is set up here, from the matrix at rest."""
    if name == "direct":
        return jm.solver.SparseDirect("cudss" if jax.default_backend() == "gpu" else "auto")
    if name == "jacobi":
        return jm.solver.PCG(rtol)
    A = eqx.filter_jit(linear_system.assemble)(system, rest, jm.Factors.only("stiffness"))
    return jm.solver.PCG(rtol, preconditioner=jm.solver.SmoothedAggregation.from_matrix(A, rest.position))


def equilibrium(n: int, dtype: str, name: str) -> None:
    """Of the cantilever, assembly included."""
    points, system, rest, linear_system = cantilever(n, dtype)
    rtol = 1e-8 if dtype == "float64" else 1e-4
    start = time.perf_counter()
    solver = jax.block_until_ready(solver_of(name, rtol, system, rest, linear_system))
    set_up = time.perf_counter() - start

    def solve() -> Any:
        return jm.static_solve(system, rest, linear_system, solver=solver, throw=False)

    first, seconds, solution = cold_and_warm(solve, 3)
    tip = np.asarray(solution.position["beam"])[np.argmax(points @ np.array([1.0, 1e-6, 1e-6]))]
    report(
        scene="cantilever",
        unknowns=points.size,
        solver=name,
        **{"set-up s": set_up, "first s": first, "solve s": seconds, "iterations": int(solution.info.linear_steps)},
        converged=bool(solution.info.result == jm.RESULTS.successful),
        deflection=float(tip[2] - 1.0),
        # Euler and Bernoulli's 4 p l^4 / E h^2, and Timoshenko's shear with 5/6 of the area.
        theory=-LOAD * (4 * 4.0**3 / 1e3 + 4.0 / (1e3 / 2.6 * 5 / 6)),
    )


def fingers(count: int) -> None:
    """All at once, by `vmap`; `finite`: how many stayed so."""
    system, state, linear_system = finger()
    youngs = jnp.linspace(500.0, 2000.0, count)
    states = jax.tree.map(lambda a: jnp.broadcast_to(a, (count, *a.shape)), state)
    run = jax.jit(stepper(jm.solver.PCG(1e-8), count))
    first, seconds, end = cold_and_warm(lambda: run(system, linear_system, youngs, states), 3)
    finite = int(jnp.sum(jnp.all(jnp.isfinite(end), axis=(1, 2))))
    report(
        scene="fingers", scenes=count, **{"first s": first, "s": seconds, "scene steps / s": count * STEPS / seconds},
        finite=finite, norm=float(jnp.linalg.norm(end)),
    )  # fmt: skip


def grasps(count: int, steps: int = 60) -> None:
    """All at once, by `vmap`; `lifted`: how many boxes left the ground."""
    hand = scene()

    def one(slippery: Any) -> Any:
        heights, run = lifted(slippery, hand, DT, steps, throw=False)
        return heights[-1], jnp.any(run.info.result != jm.RESULTS.successful)

    run = jax.jit(jax.vmap(one))
    slippery = jnp.asarray(1 / np.linspace(0.25, 0.8, count))
    first, seconds, (heights, failed) = cold_and_warm(lambda: run(slippery), 3)
    report(
        scene="grasps", scenes=count, **{"first s": first, "s": seconds, "scene steps / s": count * steps / seconds},
        failed=int(failed.sum()), lifted=int(jnp.sum(heights > 1.2 * HALF)), norm=float(jnp.linalg.norm(heights)),
    )  # fmt: skip


def motions(name: str, kind: str, adaptive: bool, count: int, steps: int = 100) -> None:
    """All at once, by `vmap`, over half the span of the scene; adaptive steps to 1e-6, each member its own."""
    make, span = SCENES[name]
    system, state = make()
    linear_system = jm.MatrixLinearSystem.build(system, state)
    scheme = IMPLICIT[kind](linear_system) if kind in IMPLICIT else EXPLICIT[kind]()

    def end(factor: Any) -> Any:
        scene = eqx.tree_at(lambda s: s.gravity, system, factor * system.gravity)
        if adaptive:
            run = jm.simulate_adaptive(scene, state, scheme, [span / 2], rtol=1e-6, atol=1e-6, throw=False)
        else:
            run = jm.simulate(scene, state, scheme, span / 2 / steps, steps, save_every=steps, throw=False)
        taken = run.info.accepted if adaptive else jnp.asarray(steps)
        return sum(jnp.sum(x**2) for x in jax.tree.leaves(run.last.position)), taken

    gravities = jnp.linspace(0.9, 1.1, count)
    moved, differentiated = (jax.jit(jax.vmap(f)) for f in (end, jax.value_and_grad(end, has_aux=True)))
    first, seconds, (ends, taken) = cold_and_warm(lambda: moved(gravities), 3)
    slow, both, (_, slopes) = cold_and_warm(lambda: differentiated(gravities), 3)
    report(
        scene=name, scheme=kind, adaptive=adaptive, scenes=count, steps=float(jnp.mean(taken)),
        **{"first s": first, "s": seconds, "scene steps / s": float(jnp.sum(taken)) / seconds},
        **{"gradient's first s": slow, "gradient s": both},
        finite=int(jnp.sum(jnp.isfinite(slopes))), norm=float(jnp.linalg.norm(ends)),
    )  # fmt: skip


def main() -> None:
    """What is asked for, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["equilibrium"], help="equilibrium, fingers, grasps, motions")
    parser.add_argument("--cells", type=int, default=43, help="n, along a short side")
    parser.add_argument("--solver", default="jacobi", choices=["jacobi", "multigrid", "direct"])
    parser.add_argument("--scenes", type=int, default=1024)
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", arguments.dtype == "float64")
    report(device=str(jax.devices()[0].device_kind), jax=jax.__version__, **vars(arguments))
    if "equilibrium" in arguments.what:
        equilibrium(arguments.cells, arguments.dtype, arguments.solver)
    if "fingers" in arguments.what:
        fingers(arguments.scenes)
    if "grasps" in arguments.what:
        grasps(arguments.scenes)
    if "motions" in arguments.what:
        for name in ("double pendulum", "top", "beam"):
            # Steps of equal length are too long for the beam.
            for kind in ("Midpoint", "GeneralizedAlpha", *["Tsitouras"] * (name != "beam")):
                motions(name, kind, False, arguments.scenes)
            motions(name, "Tsitouras", True, arguments.scenes)


if __name__ == "__main__":
    main()
