"""What must hold for every scene of the catalogue: assembled, matrix-free and automatic derivatives agree, and so on.

Compiling is what costs here: every scene compiles each of a few functions once, at XLA's lowest level of optimisation.
"""

import functools
import importlib.util

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
import scenes
from jax.flatten_util import ravel_pytree
from scenes import CONSERVATIVE, STEPS, SYMMETRIC
from tolerances import ITERATIVE, RECOMPILED, ROUND_OFF

import jaxmech as jm
from jaxmech._dynamics import applied_forces, force_at, kinematics, retract, velocities, zero_forces
from jaxmech._projector import prescribed, project

ALL = jm.Terms()


def per_scene(names):
    """A test of each of these scenes. All tests of one are run by one process, which compiles its matrices once."""
    return pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names])


every = per_scene(scenes.names())
quick = functools.partial(
    jax.jit,
    compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True},
)

# Numbers at random; then M, B and K alone, and the Rayleigh damping C alone.
FACTORS = jm.Factors(
    mass=jnp.array([0.7, 1.0, 0.0, 0.0, 0.0]),
    damping=jnp.array([0.31, 0.0, 1.0, 0.0, 0.0]),
    stiffness=jnp.array([1.3, 0.0, 0.0, 1.0, 0.0]),
    rayleigh=jnp.array([0.9, 0.0, 0.0, 0.0, 1.0]),
)
MASS, DAMPING, STIFFNESS = 1, 2, 3


def flat(tree) -> np.ndarray:
    return np.asarray(ravel_pytree(tree)[0])


def close(a, b, tolerance=ROUND_OFF):
    """Equal, relative to the largest entry of the two."""
    a, b = np.asarray(a), np.asarray(b)
    scale = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    assert np.isfinite(scale)
    assert np.abs(a - b).max(initial=0) <= tolerance * scale, (np.abs(a - b).max() / scale, scale)


def unraveller(system, state):
    """Flat vectors to dictionaries, and how long they are."""
    zero, unravel = ravel_pytree(zero_forces(system, state.position))
    return unravel, zero.size


@functools.partial(quick, static_argnums=4)
def columns(system, state, factors, vectors, terms):
    """The products of the matrix-free operator with every row of `vectors`, as columns."""
    unravel, _ = unraveller(system, state)

    def product(f, u):
        return ravel_pytree(jm.MatrixFreeSystem(terms).unconstrained(system, state, f).mv(unravel(u)))[0]

    return jax.vmap(lambda f: jax.vmap(lambda u: product(f, u), out_axes=1)(vectors))(factors)


@quick
def assembled(linear_system, system, state, factors):
    """`A` for several factors, and `P A P + I - P` for the first."""
    first = jax.tree.map(lambda f: f[0], factors)
    plain = jax.vmap(lambda f: linear_system.unconstrained(system, state, f))(factors)
    return plain, linear_system.assemble(system, state, first)


@functools.cache
def linear_system(name, terms=ALL):
    scene = scenes.build(name)
    return jm.MatrixLinearSystem.build(scene.system, scene.state, terms)


@functools.cache
def matrices(name):
    scene = scenes.build(name)
    return assembled(linear_system(name), scene.system, scene.state, FACTORS)


@functools.cache
def dense(name):
    """The five assembled matrices."""
    plain = matrices(name)[0]
    return np.asarray(jax.vmap(lambda A: A.to_dense())(plain))


def force_and_power(system, state):
    """The force on the main states, its power, and the power of what acts on every state."""
    x = kinematics(system, state.position)
    v = velocities(system, x, state.velocity)
    total = jm.total_force(system, state)
    acting = applied_forces(system, x, zero_forces(system, x), v)
    power = sum(jnp.vdot(total[s], state.velocity[s]) for s in total)
    return (
        total,
        power,
        sum(jnp.vdot(acting[s], v[s]) for s in acting),
        sum(abs(a).sum() for a in acting.values()),
    )


forces = quick(force_and_power)


@every
def test_assembled_equals_matrix_free(name):
    scene = scenes.build(name)
    _, n = unraveller(scene.system, scene.state)
    products = columns(scene.system, scene.state, FACTORS, jnp.eye(n), jm.Terms())
    for one, other in zip(dense(name), products, strict=True):
        close(one, other)


@per_scene(scenes.names(CONSERVATIVE))
def test_force_and_stiffness_are_derivatives_of_the_energy(name):
    scene = scenes.build(name)
    unravel, n = unraveller(scene.system, scene.state)

    @quick
    def derivatives(system, state):
        def energy(d):
            position = retract(system.dofs, state.position, unravel(d))
            return jm.energy(system, jm.State(position, state.velocity, state.time))

        zero = jnp.zeros(n)
        if is_solid:
            return jax.grad(energy)(zero), None
        return jax.grad(energy)(zero), jax.jacfwd(jax.grad(energy))(zero)

    # Of a solid, matrix-free products have said it already, in half the time to compile.
    is_solid = any(hasattr(f, "material") for f in scene.system.forces.values())
    gradient, hessian = derivatives(scene.system, scene.state)
    close(flat(forces(scene.system, scene.state)[0]), -gradient)
    if hessian is not None:
        close(dense(name)[STIFFNESS], hessian)


def vector_spaces():
    """The scenes whose main states are all points, but for those that the energy says it all of."""
    return [
        n
        for n in scenes.names()
        if n not in scenes.names(CONSERVATIVE)
        and all(d.is_vector_space for s in [scenes.build(n)] for d in s.system.dofs.values())
    ]


@per_scene(vector_spaces())
def test_matrices_are_jacobians_of_the_total_force(name):
    """In reverse mode, with coordinates instead of a chart: another route than the package's."""
    scene = scenes.build(name)
    x, back = ravel_pytree(scene.state.position)
    unravel, _ = unraveller(scene.system, scene.state)

    @quick
    def jacobians(system, x, v):
        def force(x, v):
            return ravel_pytree(jm.total_force(system, jm.State(back(x), unravel(v), scene.state.time)))[0]

        def kinetic(v):
            return jm.kinetic_energy(system, back(x), unravel(v))

        K, B = jax.jacrev(force, argnums=(0, 1))(x, v)
        return jax.hessian(kinetic)(v), -B, -K

    M, B, K = jacobians(scene.system, x, ravel_pytree(scene.state.velocity)[0])
    close(dense(name)[MASS], M)
    close(dense(name)[DAMPING], B)
    close(dense(name)[STIFFNESS], K)


def test_matrices_of_frames_are_jacobians_in_the_chart():
    scene = scenes.build("points_on_frames")
    unravel, n = unraveller(scene.system, scene.state)

    @quick
    def jacobians(system, state):
        zero = unravel(jnp.zeros(n))
        v = ravel_pytree(state.velocity)[0]

        def of_position(d):
            return ravel_pytree(force_at(system, state, unravel(d), state.velocity))[0]

        def of_velocity(v):
            return ravel_pytree(force_at(system, state, zero, unravel(v)))[0]

        def kinetic(v):
            return jm.kinetic_energy(system, state.position, unravel(v))

        return jax.hessian(kinetic)(v), -jax.jacfwd(of_velocity)(v), -jax.jacfwd(of_position)(jnp.zeros(n))

    for which, matrix in zip((MASS, DAMPING, STIFFNESS), jacobians(scene.system, scene.state), strict=True):
        close(dense("points_on_frames")[which], matrix)


@every
def test_symmetry_is_promised_where_it_holds(name):
    promised = matrices(name)[1].symmetric
    assert promised == (SYMMETRIC in scenes.build(name).tags)
    if promised:
        A = dense(name)[0]
        assert np.abs(A - np.diag(np.diag(A))).max() > 0
        close(A, A.T)


def test_symmetry_is_not_promised_of_what_is_not():
    """Follower pressures, damped springs in motion, drag through a turning lever."""
    for name in ("pressed_tetrahedra", "springs", "linkage_of_the_plane", "own_components"):
        A = dense(name)[0]
        assert np.abs(A - A.T).max() > 1e-4 * np.abs(A).max()


@per_scene(["springs", "linkage_of_the_plane", "pressed_triangles"])
def test_the_symmetric_part_keeps_its_promise(name):
    scene = scenes.build(name)
    terms = jm.Terms(symmetric=True)
    A = assembled(linear_system(name, terms), scene.system, scene.state, FACTORS)[1]
    assert A.symmetric
    close(A.to_dense(), A.to_dense().T)
    with pytest.raises(ValueError, match="cannot take the symmetric part"):
        jm.MatrixFreeSystem(terms).assemble(scene.system, scene.state)


@every
def test_constrained_matrix(name):
    """`P A P + I - P`, against the dense formula."""
    scene = scenes.build(name)
    unravel, n = unraveller(scene.system, scene.state)
    P = np.stack([flat(project(scene.system, unravel(e))) for e in np.eye(n)], axis=1)
    close(P, P.T)
    close(P, P @ P)
    A = dense(name)[0]
    close(matrices(name)[1].to_dense(), P @ A @ P + np.eye(n) - P)


@every
def test_pattern_is_sorted_and_without_duplicates(name):
    for pair, pattern in linear_system(name).patterns.items():
        key = np.asarray(pattern.rows, np.int64) * pattern.shape[1] + np.asarray(pattern.columns)
        assert (np.diff(key) > 0).all(), pair
        assert np.asarray(pattern.rows).max(initial=0) < pattern.shape[0]
        assert np.asarray(pattern.columns).max(initial=0) < pattern.shape[1]
        assert (np.asarray(pattern.row_starts) == np.searchsorted(pattern.rows, np.arange(pattern.shape[0] + 1))).all()


@every
def test_block_matrix_views_agree(name, rng):
    scene = scenes.build(name)
    unravel, n = unraveller(scene.system, scene.state)
    A = matrices(name)[1]
    full, u = np.asarray(A.to_dense()), rng.standard_normal(n)
    close(flat(A.mv(unravel(u))), full @ u)
    close(flat(A.T.mv(unravel(u))), full.T @ u, 2 * ROUND_OFF)
    close(A.as_matrix(), full)
    close(lx.diagonal(A), np.diag(full))
    for state, _, size in A.sizes:
        start = A.offsets()[state]
        own = full[start:, start:]
        for i, block in enumerate(np.asarray(A.diagonal[state])):
            assert (block == own[i * size : (i + 1) * size, i * size : (i + 1) * size]).all()
    for format in ("csr", "bsr"):
        assert (A.to_scipy(format).toarray() == full).all()
    for (row, column), bcoo in A.to_bcoo().items():
        n, m, r, c = bcoo.shape
        block = np.asarray(bcoo.todense()).swapaxes(1, 2).reshape(n * r, m * c)
        i, j = A.offsets()[row], A.offsets()[column]
        assert (block == full[i : i + n * r, j : j + m * c]).all()
        assert (A[row, column].T.to_dense() == block.T).all()
        assert (A[row, column].to_scipy("csr").toarray() == block).all()


@every
def test_assembly_repeats_bitwise(name):
    scene = scenes.build(name)
    again = jm.MatrixLinearSystem.build(scene.system, scene.state)
    first, second = matrices(name), assembled(again, scene.system, scene.state, FACTORS)
    assert eqx.tree_equal(first, second)


@every
def test_mappings_balance_power_and_vmap_equals_loop(name):
    """Over positions, velocities and every parameter at once."""
    scene = scenes.build(name)
    scale = jnp.array([1.0, 1.01, 0.98])

    def stacked(a):
        if not jnp.issubdtype(a.dtype, jnp.floating):
            return jnp.stack([a] * 3)
        return a * scale.reshape(3, *(1,) * a.ndim).astype(a.dtype)

    batch = jax.tree.map(stacked, (scene.system, scene.state))
    together = quick(jax.vmap(force_and_power))(*batch)
    for i in range(3):
        one = forces(*jax.tree.map(lambda a, i=i: a[i], batch))
        close(flat(jax.tree.map(lambda a, i=i: a[i], together[0])), flat(one[0]), RECOMPILED)
        if i == 0:  # the others have quaternions that are not of unit length
            assert abs(one[1] - one[2]) <= ROUND_OFF * float(one[3])


TERMS = {
    "embedded_points": jm.Terms(mapped=False),
    "chain_of_mappings": jm.Terms(geometric=False),
    "linkage_of_the_plane": jm.Terms(geometric=False),
    "several_parents": jm.Terms(mapped=False),
    "springs": jm.Terms(mass=False),
    "own_components": jm.Terms(damping=False),
    "contact_plane": jm.Terms(stiffness=False),
}


@per_scene(TERMS)
def test_parts_of_the_matrix(name, rng):
    scene, terms = scenes.build(name), TERMS[name]
    _, n = unraveller(scene.system, scene.state)
    vectors = jnp.asarray(rng.standard_normal((2, n)))
    one = jax.tree.map(lambda f: f[:1], FACTORS)
    product = columns(scene.system, scene.state, one, vectors, terms)[0]
    plain, _ = assembled(linear_system(name, terms), scene.system, scene.state, one)
    part = np.asarray(plain.to_dense() if plain.entries == {} else jax.vmap(lambda A: A.to_dense())(plain)[0])
    close(part @ vectors.T, product)
    assert np.abs(part - dense(name)[0]).max() > 1e-3 * np.abs(part).max()  # it leaves something out


@per_scene(["linkage_of_the_plane", "embedded_points", "springs"])
def test_vmap_over_one_argument(name):
    """A batch of velocities, or of one number, with everything else shared."""
    scene = scenes.build(name)
    system, state = scene.system, scene.state

    def value(linear_system, system, velocity):
        return linear_system.assemble(system, jm.State(state.position, velocity, state.time)).to_dense()

    many = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), state.velocity)
    together = quick(jax.vmap(value, in_axes=(None, None, 0)))(linear_system(name), system, many)
    force = next(n for n, f in system.forces.items() if isinstance(f, jm.Springs))

    def stiffer(k):
        return eqx.tree_at(lambda s: s.forces[force].stiffness, system, k)

    soft = system.forces[force].stiffness
    stiffnesses = quick(jax.vmap(lambda k: value(linear_system(name), stiffer(k), state.velocity)))(
        jnp.stack([soft, 3 * soft])
    )
    matrix = quick(value)
    for i, factor in enumerate((1, 2)):
        close(
            together[i],
            matrix(linear_system(name), system, jax.tree.map(lambda a, i=i: a[i], many)),
            RECOMPILED,
        )
        close(stiffnesses[i], matrix(linear_system(name), stiffer((1, 3)[i] * soft), state.velocity), RECOMPILED)
        assert factor


@per_scene(["springs", "linkage_of_the_plane", "pressed_triangles"])
def test_jit_equals_eager(name):
    scene = scenes.build(name)
    close(
        flat(jm.total_force(scene.system, scene.state)),
        flat(forces(scene.system, scene.state)[0]),
        RECOMPILED,
    )
    eager = linear_system(name).assemble(scene.system, scene.state, jax.tree.map(lambda f: f[0], FACTORS))
    close(eager.to_dense(), matrices(name)[1].to_dense(), RECOMPILED)


SOLVERS = {
    "dense": jm.Dense(),
    "sparse direct": jm.SparseDirect("superlu"),
    "pcg": jm.PCG(rtol=1e-13),
    "lineax CG": lx.CG(rtol=1e-13, atol=0.0),
    "lineax GMRES": lx.GMRES(rtol=1e-13, atol=0.0, restart=40),
    "lineax LU": lx.LU(),
}


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_take_the_matrix(solver, rng):
    """A symmetric positive definite one; and the gradient through the solve is the solve with the transpose."""
    scene = scenes.build("anchored_springs")
    unravel, n = unraveller(scene.system, scene.state)
    full = np.asarray(matrices("anchored_springs")[1].to_dense())
    A = matrices("anchored_springs")[1]
    if solver == "lineax CG":
        A = lx.TaggedLinearOperator(A, lx.positive_semidefinite_tag)
    if solver == "lineax LU":
        A = lx.MatrixLinearOperator(A.as_matrix())
    b, w = rng.standard_normal(n), rng.standard_normal(n)

    def solution(b):
        vector = b if solver == "lineax LU" else unravel(b)
        return ravel_pytree(lx.linear_solve(A, vector, SOLVERS[solver]).value)[0]

    tolerance = ROUND_OFF if solver in ("dense", "sparse direct", "lineax LU") else ITERATIVE
    close(solution(b), np.linalg.solve(full, b), tolerance)
    gradient = jax.grad(lambda b: solution(b) @ w)(jnp.asarray(b))
    close(gradient, np.linalg.solve(full.T, w), tolerance)


@pytest.mark.parametrize("solver", ["dense", "sparse direct", "lineax GMRES"])
def test_solvers_take_unsymmetric_matrices(solver, rng):
    scene = scenes.build("own_components")
    unravel, n = unraveller(scene.system, scene.state)
    A = matrices("own_components")[1]
    full, b, w = np.asarray(A.to_dense()), rng.standard_normal(n), rng.standard_normal(n)

    def solution(b):
        return ravel_pytree(lx.linear_solve(A, unravel(b), SOLVERS[solver]).value)[0]

    tolerance = ITERATIVE if "lineax" in solver else 100 * ROUND_OFF
    close(solution(b), np.linalg.solve(full, b), tolerance)
    close(jax.grad(lambda b: solution(b) @ w)(jnp.asarray(b)), np.linalg.solve(full.T, w), tolerance)


# Every solver on the matrix of every scene, for which every matrix is padded to one size: a program for each solver.
PADDED = 24  # nodes of two numbers: the largest scene has 48 unknowns
TAKES = {  # makes the solver; whether it takes a matrix that is not symmetric, that is not definite; how exact it is
    "Dense": (jm.Dense, True, True, 1e-14),
    "SuperLU": (lambda: jm.SparseDirect("superlu"), True, True, 1e-14),
    "PCG": (lambda: jm.PCG(1e-13), False, False, 1e-12),
    "BiCGStab": (lambda: jm.BiCGStab(1e-12), True, False, 1e-11),
    "Cholesky": (jm.Cholesky, False, False, 1e-14),
    "SVD": (jm.SVD, True, True, 1e-13),
    "feral": (lambda: jm.SparseDirect("feral"), False, True, 1e-14),
    "pardiso": (lambda: jm.SparseDirect("pardiso"), True, True, 1e-14),
    "MINRES": (lambda: jm.MINRES(1e-12), False, True, 1e-11),
    "GMRES": (lambda: jm.GMRES(1e-12, restart=48), True, True, 1e-11),
}
FEW = ("Dense", "SuperLU", "PCG", "BiCGStab")
OPTIONAL = {"feral": "feral", "pardiso": "pypardiso"}  # the package that a solver needs
REST = [n for n in TAKES if n not in FEW and (n not in OPTIONAL or importlib.util.find_spec(OPTIONAL[n]))]


@functools.cache
def on_padded(solver, symmetric):
    """`(A, b, w) -> x`, the gradient of `w x` by `b`, and the rate of `x` as `A` grows, in one program."""
    rows, columns = (a.ravel() for a in np.indices((PADDED, PADDED)))
    zero = jm.Triplets(("a", "a"), jnp.asarray(rows), jnp.asarray(columns), jnp.zeros((PADDED**2, 2, 2)))
    entry = zero.assemble((PADDED, PADDED))

    def solution(A, b):
        blocks = A.reshape(PADDED, 2, PADDED, 2).swapaxes(1, 2).reshape(-1, 2, 2)
        filled = {("a", "a"): eqx.tree_at(lambda e: e.values, entry, blocks)}
        A = jm.BlockMatrix(filled, (("a", PADDED, 2),), symmetric, b.dtype)
        return lx.linear_solve(A, {"a": b.reshape(PADDED, 2)}, TAKES[solver][0]()).value["a"].ravel()

    def everything(A, b, w):
        adjoint = jax.grad(lambda b: solution(A, b) @ w)(b)
        return *jax.jvp(lambda A: solution(A, b), (A,), (A,)), adjoint

    return quick(everything)


@pytest.mark.parametrize("solvers", [FEW, pytest.param(REST, marks=pytest.mark.slow)])
@every
def test_every_solver_on_every_scene(name, solvers, rng):
    """Against NumPy: the solution, its adjoint, and `dx = -x` for `dA = A`."""
    full = np.asarray(matrices(name)[1].to_dense())
    n = len(full)
    A = np.eye(2 * PADDED)
    A[:n, :n] = full / np.abs(full).max()
    symmetric = SYMMETRIC in scenes.build(name).tags
    definite = np.linalg.eigvalsh(0.5 * (A + A.T)).min() > 0
    b, w = rng.standard_normal((2, 2 * PADDED))
    for solver in solvers:
        _, unsymmetric_too, indefinite_too, exactness = TAKES[solver]
        if not (symmetric or unsymmetric_too) or not (definite or indefinite_too):
            continue
        x, rate, adjoint = on_padded(solver, symmetric)(A, b, w)
        tolerance = exactness * np.linalg.cond(A)
        close(x, np.linalg.solve(A, b), tolerance)
        close(rate, -np.asarray(x), 10 * tolerance)
        close(adjoint, np.linalg.solve(A.T, w), tolerance)


@per_scene(["every_constraint", "frames_in_the_plane", "moved_frame"])
def test_a_step_keeps_the_constraints(name):
    scene = scenes.build(name)
    assert STEPS in scene.tags
    system, state = scene.system, scene.state
    dt = 0.02
    end, _ = jm.ImplicitEuler(linear_system(name)).step(system, state, dt)
    # What is left to travel to where the constraints want the nodes, and what moved of those that must not.
    assert np.abs(flat(prescribed(system, end.position, end.time))).max() <= ROUND_OFF
    held = jax.tree.map(jnp.subtract, end.velocity, project(system, end.velocity))
    wanted = jax.tree.map(lambda u: u / dt, prescribed(system, state.position, end.time))
    close(flat(held), flat(wanted), 10 * ROUND_OFF)
