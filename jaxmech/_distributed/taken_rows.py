"""Rows of whole arrays, taken on the host for a part of a scene; in reverse mode what the parts say of a row is added up."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Places:
    """Of each of some arrays the rows that a part has, or every part; None where all are shared.

    `put(array, has_rows)`: to where it is used. `summed(array)`: over what other processes say of the whole array.
    """

    rows: list[Any]
    put: Callable[[Any, bool], Any]
    summed: Callable[[np.ndarray], np.ndarray]


@eqx.filter_custom_vjp
def taken(leaves: list[Any], places: Places) -> list[Any]:
    put = places.put
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
        if not perturbed[i]:
            continue
        mine = np.zeros(leaf.shape, leaf.dtype)
        if rate is not None:
            np.add.at(mine, ... if rows is None else rows, np.asarray(rate))
        total[i] = jnp.asarray(places.summed(mine))
    return total
