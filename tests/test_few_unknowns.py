"""Systems of up to eight unknowns, which one kernel solves, against numpy and LAPACK's outcomes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._linear_solver.base.derivative import derivative_solve
from jaxmech._linear_solver.by_products import solver_by_products
from jaxmech._linear_solver.dense.few_unknowns import MOST, inverted
from jaxmech._linear_solver.dense.semidefinite import Semidefinite
from jaxmech._linear_solver.krylov.preconditioned_gmres import Nearby
from jaxmech._runtime.array_types import structure_of


def solved(A, b, solver):
    solution = lx.linear_solve(lx.MatrixLinearOperator(A), b, solver, throw=False)
    return solution.value, solution.stats["reason"]


def apart(x, A, b):
    """The backward error: how far the system is off that `x` solves, in rounding units of its numbers."""
    off = np.abs(np.asarray(b) - np.einsum("...ij,...j->...i", A, x)).max(-1)
    return off / (np.abs(A).sum((-1, -2)) * np.abs(x).max(-1) + np.abs(b).max(-1))


@pytest.mark.cpu
@pytest.mark.parametrize("size", [1, 2, 5, MOST])
def test_solutions_and_their_derivatives_are_those_of_a_library(rng, size):
    """Of one, of a batch, of many sides of one matrix; rows exchanged, as without it the second matrix has no pivot."""
    A, b = rng.normal(size=(20, size, size)), rng.normal(size=(20, size))
    A[0] = np.eye(size)[::-1]
    value = jax.jit(lambda A, b: solved(A, b, jm.solver.Dense())[0])
    batch = jax.jit(jax.vmap(value))(A, b)
    assert np.all(apart(batch, A, b) < ROUND_OFF)
    assert apart(value(A[1], b[1]), A[1], b[1]) < ROUND_OFF
    sides = jax.jit(jax.vmap(value, (None, 0)))(A[1], b)
    assert np.all(apart(sides, A[1], b) < ROUND_OFF)
    slope = jax.jit(jax.grad(lambda A, b: jnp.sum(jnp.sin(value(A, b))), (0, 1)))(A[1], b[1])
    x = np.linalg.solve(A[1], b[1])
    back = np.linalg.solve(A[1].T, np.cos(x))
    scale = np.linalg.cond(A[1]) * np.abs(back).max()
    np.testing.assert_allclose(slope[1], back, rtol=0, atol=ROUND_OFF * scale)
    np.testing.assert_allclose(slope[0], -np.outer(back, x), rtol=0, atol=ROUND_OFF * scale * np.abs(x).max())
    M = A @ A.swapaxes(1, 2) + np.eye(size)
    assert np.all(apart(jax.jit(jax.vmap(lambda A, b: solved(A, b, Semidefinite())[0]))(M, b), M, b) < ROUND_OFF)


@pytest.mark.cpu
def test_it_ends_as_a_library_does():
    """Singular, not a number, indefinite: compiled, and one by one by LAPACK."""
    matrices = {
        "singular": np.ones((3, 3)),
        "a free row": np.diag([1.0, 0.0, 2.0]),
        "nearly": np.array([[1.0, 1.0], [1.0, 1.0 + 1e-16]]),
        "no number": np.array([[np.nan, 0.0], [0.0, 1.0]]),
        "indefinite": np.array([[1.0, 2.0], [2.0, 1.0]]),
        "a soft beside a stiff one": np.diag([1e-12, 1e12]),
    }
    reasons = {}
    for name, A in matrices.items():
        b = np.arange(1.0, len(A) + 1)
        (x, why), (y, known) = jax.jit(lambda A, b: solved(A, b, jm.solver.Dense()))(A, b), solved(A, b, jm.solver.Dense())
        np.testing.assert_allclose(x, y, rtol=ROUND_OFF, err_msg=name)
        assert why == known, name
        reasons[name] = bool(why == jm.RESULTS.successful)
    assert reasons == dict.fromkeys(matrices, False) | {"indefinite": True, "a soft beside a stiff one": True}


@pytest.mark.cpu
def test_of_a_singular_system_the_loosest_state_is_told():
    """Two states of a point each, of which the second has neither mass nor force: by the kernel, and by LAPACK eagerly."""
    A = {
        "held": {"held": jnp.eye(2), "loose": jnp.zeros((2, 2))},
        "loose": {"held": jnp.zeros((2, 2)), "loose": jnp.zeros((2, 2))},
    }
    b = {"held": jnp.ones(2), "loose": jnp.ones(2)}
    operator = lx.PyTreeLinearOperator(A, jax.eval_shape(lambda: b))

    def told(b):
        return lx.linear_solve(operator, b, jm.solver.Dense(), throw=False).stats["unconstrained_state"]

    assert jax.jit(told)(b) == told(b) == 1


@pytest.mark.cpu
def test_no_library_is_called_for_few_unknowns(rng):
    """LAPACK takes the matrices of a batch one by one: steps of small scenes were mostly that."""

    def program(size):
        A, b = jnp.eye(size), jnp.ones(size)
        one = jax.jit(lambda A, b: solved(A, b, jm.solver.Dense()))
        return one.lower(A, b).compile().as_text() + jax.jit(inverted).lower(A[None]).compile().as_text()

    assert "lapack" not in program(MOST)
    assert "lapack" in program(MOST + 1), "the test sees nothing"


@pytest.mark.parametrize("size", [MOST, MOST + 1])
def test_operators_known_by_their_products(rng, size):
    """Of a handful of unknowns their matrix is made, of more GMRES has a matrix that is near; with derivatives."""
    A, b = 3 * np.eye(size) + 0.3 * rng.normal(size=(size, size)), rng.normal(size=size)
    near = lx.MatrixLinearOperator(jnp.asarray(3 * np.eye(size)))
    solver = solver_by_products(near, lx.LU(), b)
    assert isinstance(solver, jm.solver.Dense if size == MOST else Nearby)

    @jax.jit
    def value(A, b):
        operator = lx.FunctionLinearOperator(eqx.Partial(jnp.matmul, A), structure_of(b), closure_convert=False)
        return derivative_solve(operator, b, solver)

    np.testing.assert_allclose(value(A, b), np.linalg.solve(A, b), rtol=0, atol=ROUND_OFF)
    slope = jax.jit(jax.grad(lambda A, b: jnp.sum(jnp.sin(value(A, b))), (0, 1)))(A, b)
    x = np.linalg.solve(A, b)
    back = np.linalg.solve(A.T, np.cos(x))
    np.testing.assert_allclose(slope[1], back, rtol=0, atol=ROUND_OFF)
    np.testing.assert_allclose(slope[0], -np.outer(back, x), rtol=0, atol=ROUND_OFF)
