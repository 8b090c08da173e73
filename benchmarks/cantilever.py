"""Case A1: a neo-Hookean cantilever of trilinear hexahedra under a dead end load, in one code per process.

    python -m benchmarks.cantilever jaxmech 8 [backend]
    python -m benchmarks.cantilever felupe 8
    python -m benchmarks.cantilever skfem 8

Prints one JSON line: seconds of the Newton solve (best of three), of one tangent, of the adjoint gradient with respect to
one Young's modulus per element, of the first call; peak memory; iterations; the answer `f.u`.
"""

import json
import resource
import sys
import time
from typing import Any

import numpy as np

from benchmarks.clock import forget

YOUNG, POISSON, TRACTION = 1000.0, 0.3, -2.0
MU, LAM = YOUNG / (2 * (1 + POISSON)), YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
RTOL = 1e-8


def best(function, repeats=3):
    """The shortest of a few runs [s], and the last value."""
    times = []
    for _ in range(repeats):
        forget()
        start = time.perf_counter()
        value = function()
        times.append(time.perf_counter() - start)
    return min(times), value


def run_jaxmech(n: int, backend: str) -> dict:
    """Assembly by autodiff, exact adjoint."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import jaxmech as jm

    jax.config.update("jax_enable_x64", True)
    start = time.perf_counter()
    mesh = jm.mesh.box_mesh(cells=(4 * n, n, n), size=(4.0, 1.0, 1.0), kind="hexahedron")
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={
            "elastic": jm.force.HexahedronFEM.from_mesh("beam", mesh, jm.material.NeoHookean(YOUNG, POISSON)),
            "load": jm.force.Traction.from_mesh(
                "beam", mesh.faces_where(lambda x: x[:, 0] == 4.0), jnp.array([0.0, 0.0, TRACTION])
            ),
        },
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    rest = system.at_rest({"beam": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))
    solver = jm.solver.SparseDirect(backend)

    def solve():
        return jax.block_until_ready(jm.static_solve(system, rest, linear_system, solver, rtol=RTOL))

    solution = solve()
    first = time.perf_counter() - start
    assemble = eqx.filter_jit(lambda system, state: linear_system.assemble(system, state))
    jax.block_until_ready(assemble(system, solution.state))
    tangent, _ = best(lambda: jax.block_until_ready(assemble(system, solution.state)), 5)

    def compliance(young):
        trial = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, young)
        moved = jm.static_solve(trial, rest, linear_system, solver, rtol=RTOL).position["beam"] - mesh.points
        return work_of(system, mesh, moved)

    gradient = eqx.filter_jit(jax.value_and_grad(compliance))
    young = jnp.full(mesh.cells.shape[0], YOUNG)
    start = time.perf_counter()
    jax.block_until_ready(gradient(young))
    first_gradient = time.perf_counter() - start
    newton, solution = best(solve)
    both, (value, _) = best(lambda: jax.block_until_ready(gradient(young)))
    return {
        "newton": newton,
        "tangent": tangent,
        "gradient": both - newton,
        "value and gradient": both,
        "first": first,
        "first gradient": first_gradient,
        "iterations": int(solution.info.iterations),
        "work": float(value),
    }


def work_of(system, mesh, displacement):
    """`f . u` of the dead load."""
    import jax
    import jax.numpy as jnp

    load = system.forces["load"]
    force = jax.grad(lambda x: -jnp.sum(jax.vmap(lambda nodes: load_energy(load, nodes, x))(load.on[0].nodes)))(mesh.points)
    return jnp.sum(force * displacement)


def load_energy(load, nodes, x):
    """The energy of one face of a traction."""
    import equinox as eqx

    face = eqx.tree_at(lambda f: f.rest, load, load.rest[nodes])
    return face.element_energy(x[nodes])


def end_forces(points: np.ndarray, n: int) -> np.ndarray:
    """The consistent nodal forces of the traction on the square faces of the end."""
    forces = np.zeros_like(points)
    at_end = np.isclose(points[:, 0], 4.0)
    for axis in (1, 2):
        inner = ~np.isclose(points[:, axis] % 1.0, 0.0)
        share = np.where(inner, 1.0, 0.5) / n
        forces[:, 2] = np.where(at_end, TRACTION * share if axis == 1 else forces[:, 2] * share, 0.0)
    return forces


def newton_loop(assemble, free, external, shape, norm0=None):
    """Full Newton with SciPy's SuperLU: `assemble(u)` gives the residual force and the tangent."""
    from scipy.sparse.linalg import spsolve

    u = np.zeros(shape)
    iterations = 0
    while True:
        internal, tangent = assemble(u)
        residual = (external - internal)[free]
        norm = np.linalg.norm(residual)
        norm0 = norm if norm0 is None else norm0
        if norm <= RTOL * norm0:
            return u, iterations
        u.reshape(-1)[free] += spsolve(tangent[free][:, free], residual)
        iterations += 1


def run_felupe(n: int, backend: str) -> dict:
    """NumPy einsum, hand-written tangents, no adjoint."""
    import felupe  # pyright: ignore[reportMissingImports]

    del backend  # SciPy's SuperLU

    start = time.perf_counter()
    mesh = felupe.Cube(a=(0, 0, 0), b=(4, 1, 1), n=(4 * n + 1, n + 1, n + 1))
    field = felupe.FieldContainer([felupe.Field(felupe.RegionHexahedron(mesh), dim=3)])
    solid = felupe.SolidBody(felupe.NeoHookeCompressible(mu=MU, lmbda=LAM), field)
    free = np.repeat(mesh.points[:, 0] > 0, 3)
    external = end_forces(mesh.points, n).reshape(-1)

    def assemble(u):
        field[0].values[:] = u
        force = solid.assemble.vector(field).toarray().ravel()
        return force, solid.assemble.matrix(field).tocsr()

    def solve():
        return newton_loop(assemble, free, external, mesh.points.shape)

    u, iterations = solve()
    first = time.perf_counter() - start
    newton, (u, iterations) = best(solve)
    tangent, _ = best(lambda: assemble(u), 5)
    return {
        "newton": newton,
        "tangent": tangent,
        "first": first,
        "iterations": iterations,
        "work": float(external @ u.reshape(-1)),
    }


def run_skfem(n: int, backend: str) -> dict:
    """NumPy forms, hand-written tangent, no adjoint."""
    del backend  # SciPy's SuperLU
    import skfem  # pyright: ignore[reportMissingImports]
    from skfem.helpers import ddot, det, grad, identity, inv, transpose  # pyright: ignore[reportMissingImports]

    start = time.perf_counter()
    axis = np.linspace(0, 1, n + 1)
    mesh = skfem.MeshHex.init_tensor(np.linspace(0, 4, 4 * n + 1), axis, axis)
    basis: Any = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementHex1()), intorder=3)
    points = np.zeros((basis.N // 3, 3))
    points[:] = basis.doflocs[:, basis.nodal_dofs[0]].T
    forces = np.zeros(basis.N)
    forces[basis.nodal_dofs.T.reshape(-1)] = end_forces(points, n).reshape(-1)
    free = np.setdiff1d(np.arange(basis.N), basis.get_dofs(lambda x: np.isclose(x[0], 0.0)).all())

    @skfem.LinearForm
    def internal(v, w):
        F = grad(w["u"]) + identity(grad(w["u"]))
        invT = transpose(inv(F))
        return ddot(MU * (F - invT) + LAM * np.log(det(F)) * invT, grad(v))

    stiffness = skfem_stiffness()

    def assemble(u):
        at = basis.interpolate(u)
        return internal.assemble(basis, u=at), stiffness.assemble(basis, u=at).tocsr()

    def solve():
        return newton_loop(assemble, free, forces, basis.N)

    u, iterations = solve()
    first = time.perf_counter() - start
    newton, (u, iterations) = best(solve, 2)
    tangent, _ = best(lambda: assemble(u), 2)
    return {"newton": newton, "tangent": tangent, "first": first, "iterations": iterations, "work": float(forces @ u)}


def skfem_stiffness() -> Any:
    """The tangent of the neo-Hookean law as a form of scikit-fem."""
    import skfem  # pyright: ignore[reportMissingImports]
    from skfem.helpers import ddot, det, grad, identity, inv, mul, trace, transpose  # pyright: ignore[reportMissingImports]

    @skfem.BilinearForm
    def stiffness(u, v, w):
        F = grad(w["u"]) + identity(grad(w["u"]))
        inverse, dF = inv(F), grad(u)
        invT = transpose(inverse)
        turned = mul(mul(invT, transpose(dF)), invT)
        dP = MU * (dF + turned) - LAM * np.log(det(F)) * turned + LAM * trace(mul(inverse, dF)) * invT
        return ddot(dP, grad(v))

    return stiffness


def main() -> None:
    """One code, one size."""
    code, n = sys.argv[1], int(sys.argv[2])
    backend = sys.argv[3] if len(sys.argv) > 3 else "auto"
    run = {"jaxmech": run_jaxmech, "felupe": run_felupe, "skfem": run_skfem}[code]
    row = run(n, backend)
    row["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"code": code, "n": n, "backend": backend, **row}))


if __name__ == "__main__":
    main()
