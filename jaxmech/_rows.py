"""Rows of arrays by number, without the questions that checked and negative numbers would ask of every one of them.

Numbers are data, and may be traced: what they are cannot be refused then. One that names no row reads NaN, and what goes to
one makes the first row NaN, in derivatives as well: no number is silently that of another row. XLA would read the nearest
row and drop what is written to none.
"""

from typing import Any

import jax.numpy as jnp

from ._typing import Array, Bool, Float, Int


def take_rows(values: Float[Array, "n ..."], at: Int[Array, "..."]) -> Float[Array, "..."]:
    """`values[at]`, NaN for numbers that are not in `[0, n)`; of whole numbers the lowest there is."""
    if values.shape[0] == 0:
        return jnp.full((*at.shape, *values.shape[1:]), _nothing(values.dtype), values.dtype)
    exist = _exists(at, values.shape[0])
    rows = nearest_rows(values, jnp.where(exist, at, 0))  # the transpose adds NaN to the first row, where it is seen
    return marked(rows, exist.reshape(*at.shape, *(1 for _ in values.shape[1:])))


def nearest_rows(values: Float[Array, "n ..."], at: Int[Array, "..."]) -> Float[Array, "..."]:
    """`values[at]`, the nearest row for numbers that are not in `[0, n)`: whether they are is asked `all_within`."""
    return values.at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)


def nearest_rows_or_zeros(values: Float[Array, "n ..."], at: Int[Array, "..."]) -> Float[Array, "..."]:
    """`values[at]`, zeros for numbers that are not in `[0, n)`: whether they are in `[0, n]` is asked `all_within`."""
    if values.shape[0] == 0:
        return jnp.zeros((*at.shape, *values.shape[1:]), values.dtype)
    return values.at[at].get(mode="fill", fill_value=0, wrap_negative_indices=False)


def all_within(*bounds: tuple[Int[Array, "..."], int]) -> Bool[Array, ""]:
    """Whether all numbers of every array are in `[0, n)`: of long plans, asked once, not of every row that is read."""
    return jnp.all(jnp.stack([jnp.all(_exists(at, n)) for at, n in bounds]))


def marked(rows: Array, is_right: Bool[Array, "..."]) -> Array:
    """Rows, NaN where they are not right, in derivatives too; of whole numbers the lowest there is."""
    if not jnp.issubdtype(rows.dtype, jnp.inexact):
        return jnp.where(is_right, rows, _nothing(rows.dtype))
    return rows * jnp.where(is_right, 1, jnp.nan).astype(rows.dtype)


def add_rows(
    total: Float[Array, "n ..."], at: Int[Array, "..."], values: Float[Array, "..."], *, unique: bool = False
) -> Float[Array, "n ..."]:
    """`total` with `values` added at its rows; repeats add up, of which there are none where they are `unique`."""
    return _seen(total.at[at].add(values, mode="drop", unique_indices=unique, wrap_negative_indices=False), at)


def put_rows(total: Float[Array, "n ..."], at: Int[Array, " k"], values: Float[Array, "k ..."]) -> Float[Array, "n ..."]:
    """`total` with `values` in its rows, each of which is named once."""
    return _seen(total.at[at].set(values, mode="drop", unique_indices=True, wrap_negative_indices=False), at)


def _exists(at: Int[Array, "..."], n: int) -> Bool[Array, "..."]:
    return (at >= 0) & (at < n)


def _nothing(dtype: Any) -> float | int:
    if jnp.issubdtype(dtype, jnp.bool_):
        return True
    return jnp.nan if jnp.issubdtype(dtype, jnp.inexact) else jnp.iinfo(dtype).min


def _seen(total: Float[Array, "n ..."], at: Int[Array, "..."]) -> Float[Array, "n ..."]:
    """A total of which the first row is NaN if something went to a row that it does not have."""
    if 0 in (total.shape[0], at.size):
        return total
    return total.at[0].set(marked(total[0], all_within((at, total.shape[0]))))
