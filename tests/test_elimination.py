"""Inverses of many small blocks without LAPACK, of which two large batches at once wait for each other on two cores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from numpy.testing import assert_array_equal
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._linear_solver.dense.elimination import are_definite, inverse_by_elimination
from jaxmech._linear_solver.preconditioner.multigrid_values import diagonal_inverse


@pytest.mark.parametrize("size", [2, 6, 13])
def test_inverses_and_signs_are_those_of_numpy(rng, size):
    blocks = rng.normal(size=(200, size, size))
    blocks[0] = np.eye(size)[::-1]  # which has no pivot on its diagonal
    found, known = jax.jit(inverse_by_elimination)(blocks), np.linalg.inv(blocks)
    error = np.abs(found - known).max((1, 2)) / np.abs(known).max((1, 2))
    assert np.all(error < ROUND_OFF * np.linalg.cond(blocks))
    even = blocks @ blocks.swapaxes(1, 2)
    even[::2] -= size * np.eye(size)
    least = np.linalg.eigvalsh(even)[:, 0]
    assert 0.2 < np.mean(least > 0) < 0.8
    assert_array_equal(are_definite(jnp.asarray(even)), least > 0)
    assert not np.isfinite(inverse_by_elimination(jnp.ones((2, size, size)))).all((1, 2)).any()


@pytest.mark.slow
def test_its_derivatives_are_those_of_an_inverse(rng):
    blocks = jnp.asarray(rng.normal(size=(2, 4, 4)) + 4 * np.eye(4))
    check_grads(jax.jit(inverse_by_elimination), (blocks,), order=2, modes=("fwd", "rev"))


def test_no_preconditioner_calls_lapack_for_many_blocks():
    """Beside the eigenvalues that smoothed aggregation asks for."""
    frames = jm.System(
        {"f": jm.Rigid3()}, masses={"m": jm.mass.RigidMass(("f", range(3)), 1.0, np.eye(3))}, gravity=(0.0, 0.0, -9.81)
    )
    state = frames.at_rest({"f": np.eye(7)[[6, 6, 6]]})
    A = jm.MatrixLinearSystem.build(frames, state).assemble(frames, state, jm.Factors.only("mass"))
    r = {"f": jnp.ones((3, 6))}
    programs = (
        jax.make_jaxpr(lambda A: jm.solver.BlockJacobi().build(A)(r))(A),
        jax.make_jaxpr(lambda blocks: diagonal_inverse(blocks, points=False))(A["f", "f"].diagonal),
    )
    for program in programs:
        assert not [name for name in ("lu", "triangular_solve", "cholesky", "eigh") if f" {name}[" in str(program)]
