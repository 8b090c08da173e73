"""Rows of whole arrays on the devices that have them, and back, on the host: so that no device ever has all of them.

In reverse mode what the parts say of a row is added up.
"""

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Places:
    """Of each of some arrays the rows of every part, or None where all are shared; and the division that they are of."""

    rows: list[Any]
    division: Any


@eqx.filter_custom_vjp
def taken(leaves: list[Any], places: Places) -> list[Any]:
    put = places.division.put
    return [put(a if r is None else np.asarray(a)[r], r is not None) for a, r in zip(leaves, places.rows, strict=True)]


@taken.def_fwd
def _taken_fwd(perturbed: Any, leaves: list[Any], places: Places) -> tuple[list[Any], None]:
    del perturbed
    return taken(leaves, places), None


@taken.def_bwd
def _taken_bwd(residuals: Any, rates: Any, perturbed: Any, leaves: list[Any], places: Places) -> list[Any]:
    del residuals
    total: list[Any] = [None] * len(leaves)
    for i, (leaf, rows, rate) in enumerate(zip(leaves, places.rows, rates, strict=True)):
        if perturbed[i] and rate is not None:
            mine = np.zeros(leaf.shape, leaf.dtype)
            np.add.at(mine, ... if rows is None else rows, np.asarray(rate))
            total[i] = jnp.asarray(mine)
    return total


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
