"""What must hold for every scene of the catalogue: assembled, matrix-free and automatic derivatives agree, and so on."""

import functools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
import scenes
from jax.flatten_util import ravel_pytree
from scene_matrices import DAMPING, FACTORS, MASS, STIFFNESS, assembled, dense, linear_system, matrices, per_scene
from scenes import CONSERVATIVE, FLAT, STEPS, SYMMETRIC
from tolerances import ITERATIVE, RECOMPILED, ROUND_OFF, TWO_ROUTES

import jaxmech as jm
from jaxmech._model.constraint_projection import prescribed, project
from jaxmech._model.dynamics import applied_forces, force_at, kinematics, retract, velocities, zero_forces
from jaxmech._model.internal import with_internal
from jaxmech._solve.rounding import rounding_floor
from jaxmech._solve.static import StaticEquilibrium

every = per_scene(scenes.names())


def flat(tree) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def close(a, b, tolerance=ROUND_OFF):
    """Equal, relative to the largest entry of the two."""
    a, b = np.asarray(a), np.asarray(b)
    scale = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    assert np.isfinite(scale)
    assert np.abs(a - b).max(initial=0) <= tolerance * scale, (np.abs(a - b).max() / scale, scale)


def unraveller(system, state):
    """Flat vectors to dictionaries, and how long they are."""
    shapes = jax.eval_shape(lambda: zero_forces(system, state.position))
    zero, unravel = ravel_pytree(jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes))
    return unravel, zero.size


@functools.partial(jax.jit, static_argnums=4)
def columns(system, state, factors, vectors, terms):
    """The products of the matrix-free operator with every row of `vectors`, as columns."""
    unravel, _ = unraveller(system, state)

    def product(f, u):
        return ravel_pytree(jm.solver.MatrixFreeSystem(terms).unconstrained(system, state, f).mv(unravel(u)))[0]

    # One batch, not one of another: every operation is batched once.
    kinds, size = factors.mass.shape[0], len(vectors)
    every_pair = jax.vmap(product)(jax.tree.map(lambda f: jnp.repeat(f, size, 0), factors), jnp.tile(vectors, (kinds, 1)))
    return every_pair.reshape(kinds, size, -1).swapaxes(1, 2)


def force_and_power(system, state):
    """The force on the main states, its power, and the power of what acts on every state."""
    x = kinematics(system, state.position)
    v = velocities(system, x, state.velocity)
    total = jm.total_force(system, state)
    acting = applied_forces(with_internal(system, state), x, zero_forces(system, x), v)
    power = sum(jnp.vdot(total[s], state.velocity[s]) for s in total)
    return (
        total,
        power,
        sum(jnp.vdot(acting[s], v[s]) for s in acting),
        sum(abs(a).sum() for a in acting.values()),
    )


traced_once = jax.jit(force_and_power)  # for one scene and for several
forces = jax.jit(traced_once)


@every
def test_assembled_equals_matrix_free(name):
    scene = scenes.build(name)
    _, n = unraveller(scene.system, scene.state)
    products = columns(scene.system, scene.state, FACTORS, np.eye(n), jm.Terms())
    for one, other in zip(dense(name), np.asarray(products), strict=True):
        close(one, other, TWO_ROUTES)


@pytest.mark.slow_cases("every_constraint")
@pytest.mark.parametrize("name", ("springs", "tetrahedra", "every_constraint"))
def test_the_rounding_floor_is_that_of_products_too(name):
    """Where no matrix is: by a product whose signs are in disorder, as high within its scatter."""
    scene, terms = scenes.build(name), jm.Terms(mass=False, damping=False)
    system, state = scene.system, scene.state

    def floor(linear_system):
        problem = StaticEquilibrium(system, linear_system, state.time)
        u = state.position
        return rounding_floor(problem, problem.operator(u), u, problem.lever(u))[0]

    ratio = floor(jm.solver.MatrixFreeSystem(terms)) / floor(jm.MatrixLinearSystem.build(system, state, terms))
    assert 0.3 < ratio < 3


@per_scene(scenes.names(CONSERVATIVE))
def test_force_and_stiffness_are_derivatives_of_the_energy(name):
    scene = scenes.build(name)
    unravel, n = unraveller(scene.system, scene.state)

    @jax.jit
    def derivatives(system, state):
        def energy(d):
            position = retract(system.dofs, state.position, unravel(d))
            return jm.energy(system, replace(state, position=position))

        zero, slope = jnp.zeros(n), jax.grad(energy)
        if is_solid:
            return slope(zero), None
        hessian, gradient = jax.jacfwd(lambda d: 2 * (slope(d),), has_aux=True)(zero)  # the energy is traced once
        return gradient, hessian

    # Of a solid, matrix-free products have said it already, in half the time to compile.
    is_solid = any(hasattr(f, "material") for f in scene.system.forces.values())
    gradient, hessian = derivatives(scene.system, scene.state)
    close(flat(forces(scene.system, scene.state)[0]), -gradient)
    if hessian is not None:
        close(dense(name)[STIFFNESS], hessian)


# The scenes whose coordinates are their charts, but for those that the energy says it all of.
@per_scene([n for n in scenes.names(FLAT) if n not in scenes.names(CONSERVATIVE)])
def test_matrices_are_jacobians_of_the_total_force(name):
    """In reverse mode, with coordinates instead of a chart: another route than the package's."""
    scene = scenes.build(name)
    x, back = ravel_pytree(scene.state.position)
    unravel, _ = unraveller(scene.system, scene.state)

    @jax.jit
    def jacobians(system, x, v):
        def force(x, v):
            return ravel_pytree(jm.total_force(system, replace(scene.state, position=back(x), velocity=unravel(v))))[0]

        def kinetic(v):
            return jm.mass.kinetic_energy(system, replace(scene.state, position=back(x), velocity=unravel(v)))

        K, B = jax.jacrev(force, argnums=(0, 1))(x, v)
        return jax.hessian(kinetic)(v), -B, -K

    M, B, K = jacobians(scene.system, x, ravel_pytree(scene.state.velocity)[0])
    close(dense(name)[MASS], M)
    close(dense(name)[DAMPING], B)
    close(dense(name)[STIFFNESS], K)


@pytest.mark.slow
def test_matrices_of_frames_are_jacobians_in_the_chart():
    scene = scenes.build("points_on_frames")
    unravel, n = unraveller(scene.system, scene.state)

    @jax.jit
    def jacobians(system, state):
        zero = unravel(jnp.zeros(n))
        v = ravel_pytree(state.velocity)[0]

        def of_position(d):
            return ravel_pytree(force_at(system, state, unravel(d), state.velocity))[0]

        def of_velocity(v):
            return ravel_pytree(force_at(system, state, zero, unravel(v)))[0]

        def kinetic(v):
            return jm.mass.kinetic_energy(system, replace(state, velocity=unravel(v)))

        return jax.hessian(kinetic)(v), -jax.jacfwd(of_velocity)(v), -jax.jacfwd(of_position)(jnp.zeros(n))

    for which, matrix in zip((MASS, DAMPING, STIFFNESS), jacobians(scene.system, scene.state), strict=True):
        close(dense("points_on_frames")[which], matrix)


@every
def test_a_scene_is_flat_where_it_says_so(name):
    scene = scenes.build(name)
    assert (FLAT in scene.tags) == all(dof.is_vector_space for dof in scene.system.dofs.values())


@every
def test_symmetry_is_promised_where_it_holds(name):
    declared = matrices(name)[1].symmetric
    assert declared == (SYMMETRIC in scenes.build(name).tags)
    if declared:
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
        jm.solver.MatrixFreeSystem(terms).assemble(scene.system, scene.state)


@functools.partial(jax.jit, static_argnums=2)
def projector(system, vectors, unravel):
    return jax.vmap(lambda e: ravel_pytree(project(system, unravel(e)))[0], out_axes=1)(vectors)


@every
def test_constrained_matrix(name):
    """`P A P + I - P`, against the dense formula."""
    scene = scenes.build(name)
    unravel, n = unraveller(scene.system, scene.state)
    P = np.asarray(projector(scene.system, np.eye(n), unravel))
    close(P, P.T)
    close(P, P @ P)
    A = dense(name)[0]
    close(matrices(name)[1].to_dense(), P @ A @ P + np.eye(n) - P)


@every
def test_pattern_is_sorted_and_without_duplicates(name):
    for pair, pattern in linear_system(name).patterns.items():
        rows, columns = np.asarray(pattern.rows, np.int64), np.asarray(pattern.columns)
        assert (np.diff(rows * pattern.shape[1] + columns) > 0).all(), pair
        assert rows.max(initial=0) < pattern.shape[0]
        assert columns.max(initial=0) < pattern.shape[1]
        assert (np.asarray(pattern.row_starts) == np.searchsorted(rows, np.arange(pattern.shape[0] + 1))).all()


@functools.partial(jax.jit, static_argnums=2)
def views(A, u, unravel):
    """What a matrix says it is, in one program; then of each of its blocks, and of their transposes."""
    vector = unravel(u)
    products = (ravel_pytree(A.mv(vector))[0], ravel_pytree(A.T.mv(vector))[0])
    blocks = {pair: (bcoo.todense(), A[pair].T.to_dense()) for pair, bcoo in A.to_bcoo().items()}
    return A.to_dense(), A.as_matrix(), lx.diagonal(A), A.diagonal, products, blocks


@every
def test_block_matrix_views_agree(name, rng):
    scene = scenes.build(name)
    unravel, n = unraveller(scene.system, scene.state)
    A = matrices(name)[1]
    u = rng.standard_normal(n)
    full, as_matrix, diagonal, nodes, products, blocks = jax.tree.map(np.asarray, views(A, u, unravel))
    close(products[0], full @ u)
    close(products[1], full.T @ u, 2 * ROUND_OFF)
    close(as_matrix, full)
    close(diagonal, np.diag(full))
    for state, _, size in A.sizes:
        start = A.offsets()[state]
        own = full[start:, start:]
        for i, block in enumerate(nodes[state]):
            assert (block == own[i * size : (i + 1) * size, i * size : (i + 1) * size]).all()
    for format in ("csr", "bsr"):
        assert (A.to_scipy(format).toarray() == full).all()
    for (row, column), (blocked, transposed) in blocks.items():
        n, m, r, c = blocked.shape
        block = blocked.swapaxes(1, 2).reshape(n * r, m * c)
        i, j = A.offsets()[row], A.offsets()[column]
        assert (block == full[i : i + n * r, j : j + m * c]).all()
        assert (transposed == block.T).all()
        assert (A[row, column].to_scipy("csr").toarray() == block).all()


@every
def test_assembly_repeats_bitwise(name):
    scene, first = scenes.build(name), matrices(name)
    again = jm.MatrixLinearSystem.build(scene.system, scene.state)
    for _ in range(20):
        other = assembled(again, scene.system, scene.state, FACTORS)
        assert jax.tree.structure(first) == jax.tree.structure(other)
        assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True))


@every
def test_mappings_balance_power_and_vmap_equals_loop(name):
    """Over positions, velocities and every parameter at once."""
    scene = scenes.build(name)
    scale = np.array([1.0, 1.01, 0.98])

    def stacked(a):
        a = np.asarray(a)
        if not np.issubdtype(a.dtype, np.floating):
            return np.stack([a] * 3)
        return a * scale.reshape(3, *(1,) * a.ndim).astype(a.dtype)

    def member(i, tree):
        return jax.tree.map(lambda a: np.asarray(a)[i], tree)

    batch = jax.tree.map(stacked, (scene.system, scene.state))
    together = jax.jit(jax.vmap(traced_once))(*batch)
    for i in range(3):
        one = forces(*member(i, batch))
        close(flat(member(i, together[0])), flat(one[0]), RECOMPILED)
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
LONG = {"embedded_points", "chain_of_mappings"}  # to trace; another scene leaves out the same


@pytest.mark.slow_cases("linkage_of_the_plane")
@per_scene([pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in TERMS])
def test_parts_of_the_matrix(name, rng):
    scene, terms = scenes.build(name), TERMS[name]
    _, n = unraveller(scene.system, scene.state)
    vectors = rng.standard_normal((2, n))
    one = jax.tree.map(lambda f: np.asarray(f)[:1], FACTORS)
    product = columns(scene.system, scene.state, one, vectors, terms)[0]
    plain, _ = assembled(linear_system(name, terms), scene.system, scene.state, one)
    part = np.asarray(plain.to_dense() if plain.entries == {} else jax.vmap(lambda A: A.to_dense())(plain)[0])
    close(part @ vectors.T, product)
    assert np.abs(part - dense(name)[0]).max() > 1e-3 * np.abs(part).max()  # it leaves something out


@pytest.mark.slow_cases("linkage_of_the_plane")
@per_scene(["linkage_of_the_plane", "embedded_points", "springs"])
def test_vmap_over_one_argument(name):
    """A batch of velocities, or of one number, with everything else shared."""
    scene = scenes.build(name)
    system, state = scene.system, scene.state

    def value(linear_system, system, velocity):
        return linear_system.assemble(system, replace(state, velocity=velocity)).to_dense()

    many = jax.tree.map(lambda a: np.stack([a, 2 * np.asarray(a)]), state.velocity)
    together = jax.jit(jax.vmap(value, in_axes=(None, None, 0)))(linear_system(name), system, many)
    force = next(n for n, f in system.forces.items() if isinstance(f, jm.force.Springs))

    def stiffer(k):
        return eqx.tree_at(lambda s: s.forces[force].stiffness, system, k)

    soft = np.asarray(system.forces[force].stiffness)
    stiffnesses = jax.jit(jax.vmap(lambda k: value(linear_system(name), stiffer(k), state.velocity)))(
        np.stack([soft, 3 * soft])
    )
    matrix = jax.jit(value)
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
    "dense": jm.solver.Dense(),
    "sparse direct": jm.solver.SparseDirect("superlu"),
    "pcg": jm.solver.PCG(rtol=1e-13),
    "lineax CG": lx.CG(rtol=1e-13, atol=0.0),
    "lineax GMRES": lx.GMRES(rtol=1e-13, atol=0.0, restart=40),
    "lineax LU": lx.LU(),
}


def both_ways(solution, b, w):
    """A solution, and what its derivative by the right-hand side pulls back, of one program."""

    @jax.jit
    def program(b, w):
        x, pull_back = jax.vjp(solution, b)
        return x, pull_back(w)[0]

    return program(b, w)


@pytest.mark.slow_cases("lineax GMRES")
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
    x, pulled = both_ways(solution, b, w)
    close(x, np.linalg.solve(full, b), tolerance)
    close(pulled, np.linalg.solve(full.T, w), tolerance)


@pytest.mark.slow_cases("lineax GMRES")
@pytest.mark.parametrize("solver", ["dense", "sparse direct", "lineax GMRES"])
def test_solvers_take_unsymmetric_matrices(solver, rng):
    scene = scenes.build("own_components")
    unravel, n = unraveller(scene.system, scene.state)
    A = matrices("own_components")[1]
    full, b, w = np.asarray(A.to_dense()), rng.standard_normal(n), rng.standard_normal(n)

    def solution(b):
        return ravel_pytree(lx.linear_solve(A, unravel(b), SOLVERS[solver]).value)[0]

    tolerance = ITERATIVE if "lineax" in solver else 100 * ROUND_OFF
    x, pulled = both_ways(solution, b, w)
    close(x, np.linalg.solve(full, b), tolerance)
    close(pulled, np.linalg.solve(full.T, w), tolerance)


@jax.jit
def left_over(system, state, end, dt):
    """What is left to travel to where the constraints want the nodes; what moved of those that must not, and should have."""
    held = jax.tree.map(jnp.subtract, end.velocity, project(system, end.velocity))
    wanted = jax.tree.map(lambda u: u / dt, prescribed(system, state.position, end.time))
    return prescribed(system, end.position, end.time), held, wanted


@pytest.mark.slow_cases("moved_frame")
@per_scene(["every_constraint", "frames_in_the_plane", "moved_frame", "driven_points"])
def test_a_step_keeps_the_constraints(name):
    scene = scenes.build(name)
    assert STEPS in scene.tags
    system, state = scene.system, scene.state
    dt = 0.02
    end, _, _ = jm.ImplicitEuler(linear_system(name)).step(system, state, None, dt)
    travel, held, wanted = left_over(system, state, end, dt)
    assert np.abs(flat(travel)).max() <= ROUND_OFF
    close(flat(held), flat(wanted), 10 * ROUND_OFF)
