"""Scalars of elements as arrays, `(elements,)` or `()` where they share one: what XLA compiles."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._runtime.jax_internals import Tracer
from ..._runtime.loops import while_loop
from .arithmetic import AbstractArithmetic, Branch, Scalar, is_number
from .known_numbers import Scalars, boxed
from .supported import kind


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

    def repeated(
        self, going: Branch, advanced: Branch, start: list[Scalar], dtypes: Sequence[Any], written: Sequence[slice] = ()
    ) -> list[jax.Array]:
        def rows(scalars: Sequence[Scalar], lanes: tuple[int, ...]) -> list[jax.Array]:
            return [lifted(x, lanes).astype(dtype) for x, dtype in zip(scalars, dtypes, strict=True)]

        def judged(state: list[jax.Array]) -> jax.Array:
            (goes_on,) = going(ArrayArithmetic(keeps_loops=True), list(state))
            return jnp.asarray(goes_on)

        def after(state: list[jax.Array]) -> list[Scalar]:
            return advanced(ArrayArithmetic(keeps_loops=True), list(state))

        def following(at: tuple[list[jax.Array], jax.Array]) -> tuple[list[jax.Array], jax.Array]:
            state, goes_on = at
            # Elements whose last round is over stay as they are.
            state = [jnp.where(goes_on, b, a) for a, b in zip(state, rows(after(state), lanes), strict=True)]
            return state, goes_on & judged(state)

        lanes = next((x.shape for x in start if x.shape), ())
        made = jax.eval_shape(lambda state: (after(state), judged(state)), rows(start, lanes))
        lanes = lanes or next((x.shape for x in jax.tree.leaves(made) if x.shape), ())
        begun = rows(start, lanes)
        return while_loop(lambda at: jnp.any(at[1]), following, (begun, lifted(judged(begun), lanes)))[0]


def lifted(x: Scalar, shape: tuple[int, ...]) -> jax.Array:
    """A scalar as an array of `shape`, `()` or `(elements,)`."""
    return lax.broadcast(jnp.asarray(x), shape) if x.shape != shape else jnp.asarray(x)


def stacked(scalars: np.ndarray, dtype: Any, lanes: tuple[int, ...]) -> jax.Array:
    """The array of scalars, elements (if there are any: `lanes` is `(n,)` or `()`) first."""
    if scalars.size == 0:
        return jnp.zeros((*lanes, *scalars.shape), dtype)
    rows = jnp.stack([lifted(x, lanes).astype(dtype) for x in scalars.flat])
    return (rows.T if lanes else rows).reshape(*lanes, *scalars.shape)


def entries(values: Any, batched: bool = False) -> Scalars:
    """The scalars of an array; `batched`: of the element axis first, which each of them keeps."""
    kind(values.dtype)
    if not isinstance(values, Tracer) and not batched:
        return boxed(values)
    shape = values.shape[1:] if batched else values.shape
    result = np.empty(shape, object)
    # One transposition, then contiguous rows.
    rows = jnp.unstack(values.reshape(values.shape[0], -1).T if batched else values.reshape(-1))
    for row, place in zip(rows, np.ndindex(shape), strict=True):
        result[place] = row
    return result
