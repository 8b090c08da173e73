"""Rows of whole arrays, and rows of parts made whole, on the host: so that no device ever has all of them."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array


def fixed(leaf: Any, rows: Any) -> Any:
    """Of a leaf that nothing is differentiated by, the rows of every part."""
    if rows is None:
        return leaf
    return rows[0] if isinstance(rows, tuple) else np.asarray(leaf)[rows]


@eqx.filter_custom_vjp
def gathered(rows: Array, like: Array, division: Any) -> Array:
    whole, own = np.zeros(like.shape, like.dtype), division.is_own[:, : division.owned]
    whole[division.nodes[:, : division.owned][own]] = np.asarray(rows)[own]
    return jnp.asarray(whole)


@gathered.def_fwd
def _gathered_fwd(perturbed: Any, rows: Array, like: Array, division: Any) -> tuple[Array, None]:
    del perturbed
    return gathered(rows, like, division), None


@gathered.def_bwd
def _gathered_bwd(residuals: Any, rate: Any, perturbed: Any, rows: Array, like: Array, division: Any) -> Any:
    del residuals, perturbed, rows, like
    own = division.is_own[:, : division.owned, None]
    return division.put(np.where(own, np.asarray(rate)[division.nodes[:, : division.owned]], 0.0), True)
