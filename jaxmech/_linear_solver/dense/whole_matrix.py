"""What the dense solvers share: the whole matrix, its scaling, and what they report."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from ..._math.one_loop import is_any
from ..._runtime.array_types import Array, Float
from ..._runtime.jax_internals import unvmap_any
from ..base.vectors import Vector

_PASSES = 3
_ROUNDED = 1e3  # rounding units of the largest entry of a row: a diagonal below is none
_EVEN = 0.5  # the largest entry of a row that is about one
_ALONE = 64.0  # rounding units of the largest row of a state of multipliers: a row below is rounding alone
# A row below so much of it, at most: angles beside distances are a millionth in a scene of 1e6 m, 8.4 units of float32.
_HONEST = 8e-7
SINGULAR_PIVOT = 64.0  # a pivot ratio below this many rounding units per row is no longer a number


def scaling(
    matrix: Float[Array, "N N"], again: Callable[[], Float[Array, "N N"]], states: np.ndarray | None = None
) -> Float[Array, " N"]:
    """One over the roots of the diagonal: a soft and a stiff body side by side become alike. Then rows and columns, such as
    those of multipliers, whose largest entry is off the diagonal, by their largest entries.

    `again` makes the matrix anew, for the branch of that: another reader of `matrix` would have it copied in every solve.
    `states`: the number of each row's state, where it has one. Of multipliers a state is a constraint, and a row that is
    rounding beside the others, across the plane of an arm, is scaled as they are: scaled to one, it would move bodies.
    D. Ruiz, *A scaling algorithm to equilibrate both rows and columns norms in matrices*, RAL-TR-2001-034.
    """
    scale = 1 / jnp.sqrt(jnp.maximum(jnp.diagonal(matrix), 0))
    # As of a definite matrix, whose largest entries are on the diagonal; scales are infinite where an entry there is nil.
    larger = ~(jnp.abs(matrix) * scale[:, None] * scale <= 1 / _EVEN)
    uneven = is_any(larger)
    return jax.lax.cond(unvmap_any(uneven), lambda: jnp.where(uneven, _equilibrated(again(), states), scale), lambda: scale)


def _equilibrated(matrix: Float[Array, "N N"], states: np.ndarray | None) -> Float[Array, " N"]:
    magnitude = jnp.abs(matrix)
    diagonal = jnp.diagonal(magnitude)
    # Of what multipliers alone hold, the diagonal may be what cancelled.
    rounded = diagonal <= _ROUNDED * jnp.finfo(matrix.dtype).eps * jnp.max(magnitude, axis=1)
    size = jnp.sqrt(jnp.where(rounded, 0.0, diagonal))
    scale = _inverse(size)
    # A row without a diagonal entry takes what remains of its largest one.
    held, largest, alone = size == 0, jnp.max(magnitude * scale, axis=1), jnp.zeros(len(matrix), bool)
    if states is not None:
        of_all = jnp.where(held, largest, 0.0)
        of_state = jax.ops.segment_max(of_all, states, states[-1] + 1, indices_are_sorted=True)[states]
        alone = held & is_rounding_alone(largest, of_state)
        largest = jnp.where(alone, of_state, largest)
    scale = jnp.where(held, _inverse(largest), scale)

    def evener(_: Any, scale: Float[Array, " N"]) -> Float[Array, " N"]:
        largest = jnp.max(jnp.abs(matrix) * scale[:, None] * scale, axis=1)
        uneven = ((largest > 1 / _EVEN) | (largest < _EVEN)) & ~alone
        return jnp.where(uneven, scale * jnp.sqrt(_inverse(largest)), scale)

    return jax.lax.fori_loop(0, _PASSES, evener, scale)


def _inverse(size: Float[Array, " N"]) -> Float[Array, " N"]:
    return jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1.0), 1.0)


def is_rounding_alone(row: Array, largest: Array) -> Array:
    """Whether the sizes of rows of a constraint are nothing but rounding beside the largest."""
    return row <= min(_ALONE * float(jnp.finfo(row.dtype).eps), _HONEST) * largest


def asymmetric(matrix: Float[Array, "N N"]) -> Array:
    """Whether a matrix differs from its transpose by more than rounding."""
    eps = jnp.finfo(matrix.dtype).eps
    return jnp.max(jnp.abs(matrix - matrix.T)) > 1e4 * eps * jnp.max(jnp.abs(matrix))


def loosest(null: Vector) -> Array:
    """The number of the state, in sorted order, that moves most in a vector."""
    shares = jnp.stack([jnp.sum(part**2) for part in jax.tree.leaves(null)])
    return jnp.argmax(shares).astype(jnp.int32)


def residual_norm(matrix: Array, x: Array, b: Array, *, transposed: Any) -> Array:
    """`|b - A x|`, or with the transposed matrix."""
    return jnp.linalg.norm(b - (matrix.T if transposed else matrix) @ x)


def needs_symmetry(owner: str, operator: lx.AbstractLinearOperator, instead: str) -> None:
    """Raise `ValueError` unless an operator is declared symmetric."""
    if not lx.is_symmetric(operator):
        raise ValueError(f"{owner} needs a symmetric operator, and this one is not declared so: use {instead}.")
