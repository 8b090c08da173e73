"""Rows of arrays by number, without the questions that checked and negative numbers would ask of every one of them."""

import jax.numpy as jnp

from ._typing import Array, Float, Int


def take_rows(values: Float[Array, "n ..."], at: Int[Array, "..."]) -> Float[Array, "..."]:
    """`values[at]` for numbers that are known to be in `[0, n)`."""
    return values.at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)


def take_rows_or_zeros(values: Float[Array, "n ..."], at: Int[Array, "..."]) -> Float[Array, "..."]:
    """`values[at]`, zeros where the number is `n`."""
    if values.shape[0] == 0:
        return jnp.zeros((*at.shape, *values.shape[1:]), values.dtype)
    return values.at[at].get(mode="fill", fill_value=0, wrap_negative_indices=False)


def add_rows(total: Float[Array, "n ..."], at: Int[Array, "..."], values: Float[Array, "..."]) -> Float[Array, "n ..."]:
    """`total` with `values` added at rows that are known to exist; repeats add up."""
    return total.at[at].add(values, mode="promise_in_bounds", wrap_negative_indices=False)
