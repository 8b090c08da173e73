"""Prescribed values `x[i] = g[i]` imposed on an assembled system `A x = b`, in the four ways of ArcaneFEM.

Each is a function from a system to one of the same pattern, and looks at nothing but the system it is given: they may be
applied one after the other, in any order, to different unknowns. (Scenes have projective constraints instead.)
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._math.indexing import add_rows, put_rows, take_rows
from .._runtime.argument_checks import check_instance, numeric_array, real_array
from .._runtime.array_types import Array, Bool, Float, Int
from .._runtime.host_arrays import as_data
from .._runtime.precision import in_one_program
from .._runtime.results import is_traced
from .block_sparse import BlockSparse

Equations = tuple[BlockSparse, Float[Array, "n d"]]
Imposed = tuple[Float[Array, "blocks d d"], Float[Array, "n d"]]  # the blocks, and the right-hand side


def impose_penalty(matrix: BlockSparse, rhs: Array, dofs: Any, values: Any, *, weight: float = 1e30) -> Equations:
    """`a_ii = P`, `b_i = P g_i`: a spring so stiff that what else acts on the unknown is rounded away.

    `P = weight` [unit of `A`], to be large against the entries of the row; the error is of their ratio. Symmetry stays.
    For direct solvers that scale rows: iterative ones, whose tolerance refers to `|b|`, end in `RESULTS.unequal_rows`, and
    `SVD` takes all but the penalty for rounding (`stats["rank"]` tells). Arguments, result and errors: see
    `eliminate_rows_and_columns`. ArcaneFEM's *Penalty*.
    Raises `ValueError` as that does, and for a weight that is not positive.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, section 3.4.

    Example:

        cells = np.array([[0, 1]])
        K = jm.matrix.assemble(cells, lambda x: jnp.array([[2.0, -1.0], [-1.0, 2.0]]), np.zeros((2, 1)))
        K, f = jm.matrix.impose_penalty(K, jnp.zeros((2, 1)), [0], 5.0, weight=1e9)  # x_0 = 5 [m]
        assert jnp.allclose(jnp.linalg.solve(K.to_dense(), f)[0], 5.0)
    """
    conditions = _conditions("impose_penalty", matrix, rhs, dofs, values)
    return _equations(matrix, _penalised(matrix, *conditions, _checked("impose_penalty", weight, matrix)))


@in_one_program
def _penalised(matrix: BlockSparse, b: Array, dofs: Array, values: Array, weight: Array) -> Imposed:
    constrained, g = _prescribed(matrix, dofs, values)
    unit = _diagonal(constrained, matrix.values.dtype)
    diagonal = jnp.where(unit > 0, weight * unit, matrix.diagonal)
    return put_rows(matrix.values, _places(matrix), diagonal), jnp.where(constrained, weight * g, b)


def impose_weak_penalty(matrix: BlockSparse, rhs: Array, dofs: Any, values: Any, *, weight: float = 1e30) -> Equations:
    """`a_ii += P`, `b_i += P g_i`: a spring of stiffness `P` between the unknown and its value, for any `P`.

    With a large one, for direct solvers only (see `impose_penalty`). Arguments, result and errors: see
    `eliminate_rows_and_columns`. ArcaneFEM's *WeakPenalty*.
    Raises `ValueError` as that does, and for a weight that is not positive; `weight` in the unit of `A`, [N/m] say.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, section 3.4.

    Example:

        cells = np.array([[0, 1]])
        K = jm.matrix.assemble(cells, lambda x: jnp.array([[2.0, -1.0], [-1.0, 2.0]]), np.zeros((2, 1)))
        K, f = jm.matrix.impose_weak_penalty(K, jnp.zeros((2, 1)), [0], 5.0, weight=10.0)  # 10 N/m, pulled to 5 m
        assert jnp.allclose(K.to_dense()[0, 0], 12.0) and jnp.allclose(f[0], 50.0)
    """
    conditions = _conditions("impose_weak_penalty", matrix, rhs, dofs, values)
    return _equations(matrix, _weakly_penalised(matrix, *conditions, _checked("impose_weak_penalty", weight, matrix)))


@in_one_program
def _weakly_penalised(matrix: BlockSparse, b: Array, dofs: Array, values: Array, weight: Array) -> Imposed:
    constrained, g = _prescribed(matrix, dofs, values)
    diagonal = matrix.diagonal + weight * _diagonal(constrained, matrix.values.dtype)
    return put_rows(matrix.values, _places(matrix), diagonal), jnp.where(constrained, b + weight * g, b)


def eliminate_rows(matrix: BlockSparse, rhs: Array, dofs: Any, values: Any) -> Equations:
    """Row `i` becomes `x_i = g_i`, columns stay: exact, no longer symmetric.

    Arguments, result and errors: see `eliminate_rows_and_columns`. ArcaneFEM's *RowElimination*.
    Raises `ValueError` as that does; `values` in the unit of the unknowns, [m] say.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4 (boundary conditions).

    Example:

        cells = np.array([[0, 1]])
        K = jm.matrix.assemble(cells, lambda x: jnp.array([[2.0, -1.0], [-1.0, 2.0]]), np.zeros((2, 1)))
        K, f = jm.matrix.eliminate_rows(K, jnp.zeros((2, 1)), [0], 5.0)  # x_0 = 5 [m]
        assert jnp.allclose(K.to_dense(), jnp.array([[1.0, 0.0], [-1.0, 2.0]])) and jnp.allclose(f[0], 5.0)
    """
    conditions = _conditions("eliminate_rows", matrix, rhs, dofs, values)
    return _equations(matrix, _without_rows(matrix, *conditions))


@in_one_program
def _without_rows(matrix: BlockSparse, b: Array, dofs: Array, values: Array) -> Imposed:
    constrained, g = _prescribed(matrix, dofs, values)
    kept = jnp.where(constrained[matrix.pattern.rows][:, :, None], 0, matrix.values)
    return _with_units(matrix, kept, constrained), jnp.where(constrained, g, b)


def eliminate_rows_and_columns(matrix: BlockSparse, rhs: Array, dofs: Any, values: Any) -> Equations:
    """Row `i` becomes `x_i = g_i`, and column `i` goes to the other side, `b - A[:, i] g_i`: exact, and symmetry stays.

    `matrix`: square, its diagonal stored; `rhs` `(n, d)`; `dofs`: numbers of unknowns, `d node + component`; `values`: one
    number, or one for each. The new matrix and right-hand side, of the same pattern and shape; differentiable by all but
    `dofs`. An unknown that has been eliminated so may not be given another value afterwards: its column is gone. Raises
    `ValueError` for other shapes, values that are not finite, an unknown that does not exist, or one that is given twice.
    ArcaneFEM's *RowColumnElimination*.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4 (boundary conditions).

    Example:

        cells = np.array([[0, 1]])
        K = jm.matrix.assemble(cells, lambda x: jnp.array([[2.0, -1.0], [-1.0, 2.0]]), np.zeros((2, 1)))
        K, f = jm.matrix.eliminate_rows_and_columns(K, jnp.zeros((2, 1)), [0], 5.0)  # x_0 = 5 [m]
        assert jnp.allclose(K.to_dense(), jnp.diag(jnp.array([1.0, 2.0]))) and jnp.allclose(f[:, 0], 5.0)
    """
    conditions = _conditions("eliminate_rows_and_columns", matrix, rhs, dofs, values)
    return _equations(matrix, _without_rows_and_columns(matrix, *conditions))


@in_one_program
def _without_rows_and_columns(matrix: BlockSparse, b: Array, dofs: Array, values: Array) -> Imposed:
    constrained, g = _prescribed(matrix, dofs, values)
    rows, columns = (take_rows(constrained, at) for at in (matrix.pattern.rows, matrix.pattern.columns))
    kept = jnp.where(rows[:, :, None] | columns[:, None, :], 0, matrix.values)
    return _with_units(matrix, kept, constrained), jnp.where(constrained, g, b - matrix.mv(g))


def _equations(matrix: BlockSparse, imposed: Imposed) -> Equations:
    values, b = imposed
    return eqx.tree_at(lambda m: m.values, matrix, values), b


def _conditions(
    who: str, matrix: BlockSparse, rhs: Array, dofs: Any, values: Any
) -> tuple[Float[Array, "n d"], Int[Array, " k"], Float[Array, "*k"]]:
    """The right-hand side, which unknowns are constrained, and their values: checked."""
    check_instance(who, "matrix", matrix, BlockSparse)
    n, d = matrix.pattern.shape[0], matrix.values.shape[1]
    if matrix.pattern.diagonal is None or matrix.values.shape[1] != matrix.values.shape[2]:
        raise ValueError(f"{who}: the matrix must be square and store its whole diagonal.")
    b = as_data(real_array(who, "rhs", rhs, (n, d), finite=False))
    dofs = numeric_array(who, "dofs", dofs)
    g = as_data(real_array(who, "values", values), matrix.values.dtype)
    if dofs.ndim != 1 or (dofs.size and not jnp.issubdtype(dofs.dtype, jnp.integer)):
        raise ValueError(f"{who}: dofs must be a list of whole numbers, got {dofs.dtype} of shape {dofs.shape}.")
    if g.shape not in ((), dofs.shape):
        raise ValueError(f"{who}: values has shape {g.shape}, expected one number or {dofs.shape[0]}, as many as dofs.")
    if not is_traced(dofs) and dofs.size:
        numbers, times = np.unique(np.asarray(dofs), return_counts=True)
        if numbers[0] < 0 or numbers[-1] >= n * d:
            raise ValueError(f"{who}: dofs names unknowns {numbers[0]} to {numbers[-1]} of a system of {n * d}.")
        if times.max() > 1:
            raise ValueError(f"{who}: dofs names unknown {numbers[times.argmax()]}, which is given twice.")
    return b, as_data(dofs, jnp.int32), g


def _prescribed(matrix: BlockSparse, dofs: Array, values: Array) -> tuple[Bool[Array, "n d"], Float[Array, "n d"]]:
    """Which unknowns are constrained, and their values, nil elsewhere."""
    shape = matrix.pattern.shape[0], matrix.values.shape[1]
    constrained = jnp.zeros(math.prod(shape), bool).at[dofs].set(True)
    g = jnp.zeros(math.prod(shape), values.dtype).at[dofs].set(values, unique_indices=True)
    return constrained.reshape(shape), g.reshape(shape)


def _checked(who: str, weight: Any, matrix: BlockSparse) -> Array:
    number = real_array(who, "weight", weight, ())
    if not is_traced(number) and not float(number) > 0:
        raise ValueError(f"{who}: weight must be positive, got {weight!r:.80}.")
    return as_data(number, matrix.values.dtype)


def _diagonal(constrained: Bool[Array, "n d"], dtype: Any) -> Float[Array, "n d d"]:
    """Ones on the diagonals of the constrained unknowns."""
    return jax.vmap(jnp.diag)(constrained.astype(dtype))


def _places(matrix: BlockSparse) -> Int[Array, " n"]:
    """Where the blocks of the diagonal are."""
    assert matrix.pattern.diagonal is not None
    return matrix.pattern.diagonal


def _with_units(matrix: BlockSparse, values: Array, constrained: Array) -> Array:
    """Blocks with ones on the diagonals of the constrained unknowns."""
    return add_rows(values, _places(matrix), _diagonal(constrained, values.dtype), unique=True)
