"""Scalars of elements as arrays, `(elements,)` or `()` where they share one: what XLA compiles."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .arithmetic import AbstractArithmetic, Branch, Scalar, is_number


class ArrayArithmetic(AbstractArithmetic):
    """Each operation is the one of JAX on arrays. On a GPU every round of a loop that is kept is kernels of its own: only
    those are kept there that few elements go through, for there is less to compile."""

    def __init__(self, *, keeps_loops: bool):
        super().__init__()
        self.keeps_loops = keeps_loops

    def computed(self, primitive: Any, dtype: Any, operands: tuple[Scalar, ...], params: dict[str, Any]) -> jax.Array:
        del dtype
        lanes = next((x.shape for x in operands if x.shape), ())
        return primitive.bind(*(lifted(x, lanes) for x in operands), **params)

    def behind_barrier(self, scalars: list[Scalar]) -> list[jax.Array]:
        return list(lax.optimization_barrier(scalars))

    def chosen(
        self, which: Scalar, first: Branch, second: Branch, scalars: list[Scalar], dtypes: Sequence[Any]
    ) -> list[jax.Array]:
        lanes = next((x.shape for x in (which, *scalars) if x.shape), ())

        def rows(results: list[Scalar]) -> list[jax.Array]:
            return [lifted(x, lanes).astype(dtype) for x, dtype in zip(results, dtypes, strict=True)]

        are_numbers = list(map(is_number, scalars))

        def replaced(start: list[jax.Array], values: list[jax.Array]) -> list[jax.Array]:
            remaining = iter(values)
            given = [x if known else next(remaining) for x, known in zip(scalars, are_numbers, strict=True)]
            others = rows(second(ArrayArithmetic(keeps_loops=True), given))
            return [jnp.where(which > 0, b, a) for a, b in zip(start, others, strict=True)]

        start = rows(first(self, scalars))
        values = [x for x, known in zip(scalars, are_numbers, strict=True) if not known]
        # On a GPU the condition costs one synchronisation with the host: less than a loop of kernels that no element needs.
        return lax.cond(jnp.any(which > 0), replaced, lambda start, _: start, start, values)


def lifted(x: Scalar, shape: tuple[int, ...]) -> jax.Array:
    """A scalar as an array of `shape`, `()` or `(elements,)`."""
    return lax.broadcast(jnp.asarray(x), shape) if x.shape != shape else jnp.asarray(x)


def stacked(scalars: np.ndarray, dtype: Any, lanes: tuple[int, ...]) -> jax.Array:
    """The array of scalars, elements (if there are any: `lanes` is `(n,)` or `()`) first."""
    if scalars.size == 0:
        return jnp.zeros((*lanes, *scalars.shape), dtype)
    rows = jnp.stack([lifted(x, lanes).astype(dtype) for x in scalars.flat])
    return (rows.T if lanes else rows).reshape(*lanes, *scalars.shape)
