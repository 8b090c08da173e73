"""A solver with another where it fails, iterations that give up in time, and both as the default of time steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from small_matrices import SINGLE, blocks, dense, flat, floating_chain, named, near, split

import jaxmech as jm
from jaxmech._linear_solver.sparse.factor_cache import factor_counts, forget_matrices

TRIED = jm.solver.Fallback(jm.solver.PCG(1e-12), jm.solver.SparseDirect("superlu"))


def solved(A, b, solver=TRIED):
    return jax.jit(lambda A, b: lx.linear_solve(A, b, solver, throw=False))(A, b)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_the_second_is_asked_only_where_the_first_fails(dtype, rng):
    b = rng.standard_normal(14)
    forget_matrices()  # another test may have solved with the same ones
    solver = jm.solver.Fallback(jm.solver.PCG(1e-5 if dtype == jnp.float32 else 1e-12), jm.solver.SparseDirect("superlu"))
    for kind, factors in (("definite", 0), ("indefinite", 1)):
        D, before = dense(kind), factor_counts().factorisations
        solution = solved(blocks(D, symmetric=True, dtype=dtype), split(jnp.asarray(b, dtype)), solver)
        near(flat(solution.value), np.linalg.solve(D, b), SINGLE if dtype == jnp.float32 else 1e-10)
        assert named(solution.stats["reason"]) == "successful" and solution.value["a"].dtype == dtype
        assert factor_counts().factorisations == before + factors
        assert bool(solution.stats["num_steps"] > 0) == (kind == "definite")


def test_where_both_fail_the_second_says_why(rng):
    solution = solved(blocks(floating_chain(), symmetric=True), split(rng.standard_normal(14)))
    assert solution.result == lx.RESULTS.singular and named(solution.stats["reason"]) == "singular"
    assert solution.stats["unconstrained_state"] >= 0


def test_a_batch_is_factored_only_if_one_of_it_fails(rng):
    """A matrix `D + t E`, definite for one `t` and not for the other."""
    D, E = dense("definite"), dense("indefinite") - dense("definite")
    A, b = blocks(D, symmetric=True), rng.standard_normal((2, 14))
    rate = blocks(E, symmetric=True)

    @jax.jit
    @jax.vmap
    def solve(t, b):
        moved = jax.tree.map(lambda p, q: p + t * q if jnp.issubdtype(p.dtype, jnp.floating) else p, A, rate)
        solution = lx.linear_solve(moved, split(b), TRIED)
        return flat(solution.value), solution.stats["num_steps"]

    for t, factors in ((np.array([0.0, 0.01]), 0), (np.array([0.02, 1.0]), 2)):
        before = factor_counts().factorisations
        x, steps = solve(t, b)
        for i in range(2):
            near(x[i], np.linalg.solve(D + t[i] * E, b[i]), 1e-10)
        assert factor_counts().factorisations == before + factors and steps[0] > 0


@pytest.mark.slow
def test_iterations_give_up_in_time_or_not_at_all(rng):
    """A chain of 200 springs and masses: the residual falls at once where the masses are heavy, hardly where light."""
    sizes = (("a", 200, 1),)
    K = 2 * np.eye(200) - np.eye(200, k=1) - np.eye(200, k=-1)
    b = split(rng.standard_normal(200), sizes)
    for mass, reason, steps in ((1.0, "successful", None), (1e-4, "max_steps_reached", 7)):
        A = blocks(K + mass * np.eye(200), sizes, symmetric=True)
        plain = solved(A, b, jm.solver.PCG(1e-10, max_steps=150))
        hasty = solved(A, b, jm.solver.PCG(1e-10, max_steps=150, give_up=True))
        assert named(hasty.stats["reason"]) == reason
        assert hasty.stats["num_steps"] == (plain.stats["num_steps"] if steps is None else steps)
    with pytest.raises(TypeError, match="PCG: give_up must be True or False"):
        jm.solver.PCG(give_up=1)
    with pytest.raises(TypeError, match="Fallback: otherwise"):
        jm.solver.Fallback(jm.solver.PCG(), "direct")


@pytest.fixture(scope="module")
def cable():
    """25 masses on springs in a row, as a function of their stiffness."""
    a = np.arange(24)
    system = jm.System(
        {"cable": jm.Vec3()},
        forces={"springs": jm.force.Springs((("cable", a), ("cable", a + 1)), 1.0, 0.9)},
        masses={"mass": jm.mass.UniformMass(("cable", np.arange(25)), 1.0)},
        constraints={"nail": jm.constraint.Fixed(("cable", [0]))},
        gravity=(0.0, 0.0, -10.0),
    )
    rest = system.at_rest({"cable": np.arange(25)[:, None] * [0.6, 0.8, 0.0]})
    return lambda stiffness: eqx.tree_at(lambda s: s.forces["springs"].stiffness, system, stiffness), rest


@pytest.mark.slow
@pytest.mark.parametrize("newton", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_time_step_iterates_while_that_is_fast(newton, cable):
    """To what the direct solver gives; a system whose matrix no motion changes is factored once for all."""
    scene, rest = cable
    linear_system = jm.MatrixLinearSystem.build(scene(jnp.ones(())), rest)
    assert not linear_system.is_constant()

    def program(solver):
        integrator = jm.ImplicitEuler(linear_system, solver, newton=newton)
        return eqx.filter_jit(lambda stiffness: integrator.step(scene(stiffness), rest, None, 0.01, throw=False))

    default, direct = program(None), program(jm.solver.SparseDirect())
    for stiffness in (1e3, 1e9):
        (end, _, info), (expected, *_) = default(jnp.asarray(stiffness)), direct(jnp.asarray(stiffness))
        assert info.result == jm.RESULTS.successful and info.linear_steps > 0
        np.testing.assert_allclose(end.position["cable"], expected.position["cable"], rtol=1e-8)


def test_a_matrix_that_never_changes_is_factored_once():
    a = np.arange(70)
    system = jm.System(
        {"points": jm.Vec1()},
        forces={"springs": jm.force.AnchoredSprings(("points", a), 1.0, np.zeros((70, 1)))},
        masses={"mass": jm.mass.UniformMass(("points", a), 1.0)},
    )
    rest = system.at_rest({"points": np.ones((70, 1))})
    linear_system = jm.MatrixLinearSystem.build(system, rest)
    assert linear_system.is_constant()
    before = factor_counts().factorisations
    path = jm.simulate(system, rest, jm.ImplicitEuler(linear_system), 0.1, 3)
    assert (path.info.linear_steps == 0).all() and factor_counts().factorisations == before + 1
