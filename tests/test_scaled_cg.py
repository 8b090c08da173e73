"""Conjugate gradients that a diagonal scales: one call on a CPU, a loop of operations elsewhere, the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_cg_kernel import by_arrays, chain
from tolerances import ITERATIVE

import jaxmech as jm
from jaxmech._linear_solver.krylov.scaled_cg import scaled_cg

NORMAL = np.array([1.0, 2.0, -2.0]) / 3.0
FREE = np.ones((40, 3))
FREE[0], FREE[-1, 1] = 0.0, 0.0
OBLIQUE = np.eye(3) * FREE[:, :, None]
OBLIQUE[-1] = np.eye(3) - np.outer(NORMAL, NORMAL)  # no axis is normal to this plane


def solve(A, P, b):
    x, found = scaled_cg(A, A.diagonal, None if P is None else {"a": P}, {"a": b})
    return x["a"], found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("P", [None, FREE, OBLIQUE], ids=["free", "held", "oblique"])
def test_what_is_found_solves_the_projected_system(rng, P, dtype):
    A = chain(rng, dtype, 3)
    blocks = np.eye(3) * np.ones((40, 1, 3)) if P is None else P if P.ndim == 3 else np.eye(3) * P[:, :, None]
    b = np.einsum("nij,nj->ni", blocks, rng.standard_normal((40, 3)))
    given = A, None if P is None else jnp.asarray(P, dtype), jnp.asarray(b, dtype)
    whole = np.zeros((40, 3, 40, 3))
    whole[np.arange(40), :, np.arange(40)] = blocks
    whole, dense = whole.reshape(120, 120), np.asarray(A.to_dense(), float)
    expected = np.linalg.solve(whole @ dense @ whole + np.eye(120) - whole, b.ravel()).reshape(40, 3)
    rtol = ITERATIVE if dtype == np.float64 else 1e-3  # the condition is 1e3
    for x, found in (jax.jit(solve)(*given), by_arrays(solve, *given)):
        assert found and x.dtype == dtype
        np.testing.assert_allclose(x, expected, rtol=0, atol=rtol * abs(expected).max())


@pytest.mark.cpu
def test_a_kernel_takes_what_axes_hold(rng):
    A, b = chain(rng, float, 3), jnp.asarray(rng.standard_normal((40, 3)))
    for P in (None, FREE, OBLIQUE):
        assert ("while" in jax.jit(solve).lower(A, P, b).as_text()) == (P is OBLIQUE)


def test_of_a_batch_each_is_solved_by_itself(rng):
    A, P = chain(rng, float, 3), jnp.asarray(FREE)
    b = P * rng.standard_normal((4, 40, 3)) * 10.0 ** np.arange(4)[:, None, None]
    x, found = jax.jit(jax.vmap(solve, (None, None, 0)))(A, P, b)
    assert found.all()
    for i in range(4):
        np.testing.assert_allclose(x[i], jax.jit(solve)(A, P, b[i])[0], rtol=ITERATIVE)


@pytest.mark.parametrize("kind", ["indefinite", "no diagonal", "no number"])
def test_where_there_is_no_solution_none_is_found(rng, kind):
    A, b = chain(rng, float, 3, "indefinite" if kind == "indefinite" else "definite"), jnp.ones((40, 3))
    if kind == "no diagonal":
        A = A.scaled(0.0)
    if kind == "no number":
        b = b.at[7, 1].set(jnp.nan)
    for _, found in (jax.jit(solve)(A, None, b), by_arrays(solve, A, None, b)):
        assert not found


def test_nothing_is_solved_for_nothing(rng):
    x, found = jax.jit(solve)(chain(rng, float, 3), jnp.asarray(FREE), jnp.zeros((40, 3)))
    assert found and not np.asarray(x).any()


def test_several_states_are_solved_together():
    """By arrays: a kernel is of one state."""
    masses = {s: jm.mass.UniformMass((s, [0, 1]), m) for s, m in (("p", 2.0), ("q", 5.0))}
    scene = jm.System({"p": jm.Vec2(), "q": jm.Vec1()}, masses=masses)
    start = scene.at_rest({"p": np.zeros((2, 2)), "q": np.zeros((2, 1))})
    M = jm.MatrixLinearSystem.build(scene, start).assemble(scene, start, jm.Factors.only("mass"))
    x, found = jax.jit(lambda M, b: scaled_cg(M, M.diagonal, None, b))(M, {"p": jnp.ones((2, 2)), "q": jnp.ones((2, 1))})
    assert found
    np.testing.assert_allclose(x["p"], 0.5, rtol=1e-15)
    np.testing.assert_allclose(x["q"], 0.2, rtol=1e-15)
