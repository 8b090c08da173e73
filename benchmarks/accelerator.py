"""What an accelerator is for: a clamped cantilever of a million unknowns.

    python -m benchmarks.accelerator [--cells 43] [--dtype float64]

On the device that JAX takes, whatever it is: the equilibrium of a linear elastic cantilever of 4 x 1 x 1, `4n x n x n`
trilinear hexahedra with a load at its end, from the mesh's arrays on the device to its displacements, by conjugate gradients
with block Jacobi. 173 x 44 x 44 nodes have 1,004,784 unknowns; feax reports 1.28 s for 998,976 on an H100, with AMG, after
compiling for 137 s (its dashboard, 2026). The first call is told apart. Assembly and products: `benchmarks.assembly`.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import cold_and_warm, report

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


def equilibrium(n: int, dtype: str) -> None:
    """Of the cantilever, assembly included."""
    points, system, rest, linear_system = cantilever(n, dtype)
    rtol = 1e-8 if dtype == "float64" else 1e-4

    def solve() -> Any:
        return jm.static_solve(system, rest, linear_system, solver=jm.solver.PCG(rtol), throw=False)

    first, seconds, solution = cold_and_warm(solve, 3)
    tip = np.asarray(solution.position["beam"])[np.argmax(points @ np.array([1.0, 1e-6, 1e-6]))]
    report(
        scene="cantilever",
        unknowns=points.size,
        solver=f"PCG({rtol})",
        **{"first s": first, "solve s": seconds, "iterations": int(solution.info.linear_steps)},
        converged=bool(solution.info.result == jm.RESULTS.successful),
        deflection=float(tip[2] - 1.0),
        # Euler and Bernoulli's 4 p l^4 / E h^2, and Timoshenko's shear with 5/6 of the area.
        theory=-LOAD * (4 * 4.0**3 / 1e3 + 4.0 / (1e3 / 2.6 * 5 / 6)),
    )


def main() -> None:
    """One equilibrium."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=43, help="n, along a short side")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", arguments.dtype == "float64")
    report(device=str(jax.devices()[0].device_kind), jax=jax.__version__, **vars(arguments))
    equilibrium(arguments.cells, arguments.dtype)


if __name__ == "__main__":
    main()
