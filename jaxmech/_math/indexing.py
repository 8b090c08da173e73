"""Rows of arrays by index: gather and scatter whose indices are checked, but not one by one where they are used.

Indices are data, and may be traced; then their values cannot be refused by an exception. An index out of range gathers NaN,
and makes NaN of all that is scattered with it, in derivatives as well: no index silently means another row. XLA by itself
would gather the nearest row, and drop what is scattered out of range.

A loop, or a step, that uses the same indices many times checks them once, when it is over (`AskedOnce`).
"""

import functools
import operator
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._runtime.array_types import Array, Bool, Float, Int
from .._runtime.jax_internals import Tracer
from .._runtime.reverse_mode import kept
from .one_loop import are_all

_SMALL = 4096  # numbers of arrays that are looked at together
_ONE_LOOP = 1 << 18  # numbers that one core looks at sooner than XLA compiles three loops for several
_JOINED = 8  # arrays of these: of nine XLA:CPU writes each into a copy first, by a kernel of its own


class AskedOnce:
    """Index arrays whose check is put off: rows are read without one, and `marked` checks all of them together.

    What was computed meanwhile is worth nothing, and must be marked, unless they are. Only tracers wait: they end with the
    trace, so that no program that is kept for another call can have left out its question.
    """

    def __init__(self, tree: Any):
        leaves = (a for a in jax.tree.leaves(tree) if isinstance(a, Tracer) and jnp.issubdtype(a.dtype, jnp.integer))
        self._arrays = {id(a): a for a in leaves}
        self._ends: dict[int, int] = {}

    def waits(self, at: Int[Array, "..."], n: int) -> bool:
        """Whether the check of these indices is put off; then `marked` will check that they are in `[0, n)`."""
        if id(at) not in self._arrays:
            return False
        self._ends[id(at)] = min(n, self._ends.get(id(at), n))
        return True

    def marked(self, values: Any) -> tuple[Any, Bool[Array, ""]]:
        """A tree, NaN unless the indices noted since this was last called are in range, and whether they are."""
        ends, self._ends = self._ends, {}
        bounds = [(self._arrays[which], n) for which, n in ends.items()]
        with _closed(self):
            right = kept(all_within(*bounds))
        return jax.tree.map(lambda a: marked(a, right) if eqx.is_inexact_array(a) else a, values), right


class _Open(threading.local):
    def __init__(self):
        self.questions: list[AskedOnce] = []


_open = _Open()


@contextmanager
def asked_once(tree: Any) -> Iterator[AskedOnce]:
    """Inside this context the index arrays of a tree are only noted; what it gives checks them by `marked`."""
    question = AskedOnce(tree)
    _open.questions.append(question)
    try:
        yield question
    finally:
        _open.questions.remove(question)


@contextmanager
def _closed(question: AskedOnce) -> Iterator[None]:
    """Within, nothing waits for this question; it may for one outside of it."""
    before = _open.questions
    _open.questions = [other for other in before if other is not question]
    try:
        yield
    finally:
        _open.questions = before


def _waits(at: Int[Array, "..."], n: int) -> bool:
    return n > 0 and any(question.waits(at, n) for question in _open.questions)


def take_rows(values: Float[Array, "n ..."], at: Int[Array, "..."]) -> Float[Array, "..."]:
    """`values[at]`, NaN for indices out of `[0, n)`; the lowest integer where values are integers."""
    n, shape = values.shape[0], (*at.shape, *values.shape[1:])
    if n == 0:
        return jnp.full(shape, _nothing(values.dtype), values.dtype)
    if _waits(at, n):
        return nearest_rows(values, at)
    near = nearest(at, n)  # the transpose adds NaN to that row, where it is seen
    return marked(nearest_rows(values, near), lax.eq(at, near))


def nearest_rows(values: Float[Array, "n ..."], at: Int[Array, "..."]) -> Float[Array, "..."]:
    """`values[at]`, the nearest row for indices out of `[0, n)`: the caller checks those with `all_within`."""
    values = jnp.asarray(values)
    if at.ndim == 0 or at.size == 0:  # a slice, or nothing
        return values.at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)
    size = (1, *values.shape[1:])
    return lax.gather(values, _column(at, values), _gathered(at.ndim, values.ndim), size, mode="promise_in_bounds")


def nearest_rows_or_zeros(values: Float[Array, "n ..."], at: Int[Array, "..."]) -> Float[Array, "..."]:
    """`values[at]`, zeros for the index `n`: the caller checks with `all_within` that indices are in `[0, n]`."""
    if values.shape[0] == 0:
        return jnp.zeros((*at.shape, *values.shape[1:]), values.dtype)
    return jnp.asarray(values).at[at].get(mode="fill", fill_value=0, wrap_negative_indices=False)


def rows_or_zeros(values: Float[Array, "n ..."], at: Int[Array, "..."]) -> Float[Array, "..."]:
    """`values[at]`, zeros for the index `n`; NaN for what is not in `[0, n]`, and the lowest integer of integers."""
    n, shape = values.shape[0], (*at.shape, *values.shape[1:])
    if n == 0:
        rows = jnp.full(shape, _nothing(values.dtype), values.dtype)
    else:
        rows = jnp.asarray(values).at[at].get(mode="fill", fill_value=_nothing(values.dtype), wrap_negative_indices=False)
    none = lax.broadcast_in_dim(lax.eq(at, lax.full_like(at, n)), shape, range(at.ndim))
    return lax.select(none, jnp.zeros(shape, values.dtype), rows)


def all_within(*bounds: tuple[Int[Array, "..."], int]) -> Bool[Array, ""]:
    """Whether all indices of every array are in `[0, n)`: one check of a long plan, instead of one per row that is read."""
    flags = []
    for at, n in bounds:
        if _waits(at, n):
            continue
        if n and at.size:
            flags.append(lax.eq(at, nearest(at, n)).reshape(-1))
        elif at.size:
            return jnp.array(False)
    large = [flag for flag in flags if flag.size > _SMALL]
    small = [flag for flag in flags if flag.size <= _SMALL]
    if not flags:
        return np.True_  # pyright: ignore[reportReturnType]  # there is nothing to mark
    right = jnp.array(True)
    for flag in large:
        right &= are_all(flag) if flag.size <= _ONE_LOOP else jnp.all(flag)
    return right & _all_of(small) if small else right


def _all_of(flags: list[Bool[Array, " n"]]) -> Bool[Array, ""]:
    """Whether all flags of a few short arrays are set, by one loop for eight: XLA makes several of `jnp.all`, for each.

    Of several devices each may have its part of an array, and would have to hand it to the others to have them joined.
    """
    joined = flags
    if jax.device_count() == 1:
        of_size: dict[int, Bool[Array, " n"]] = {}
        for flag in flags:
            of_size[flag.size] = of_size[flag.size] & flag if flag.size in of_size else flag
        flags = list(of_size.values())
        joined = [jnp.concatenate(flags[i : i + _JOINED]) for i in range(0, len(flags), _JOINED)]
    return functools.reduce(operator.and_, map(are_all, joined))


def marked(rows: Array, is_right: Bool[Array, "..."]) -> Array:
    """Rows, NaN (of integers the lowest) where their flag is not set, in derivatives too. Flags are those of leading
    axes.
    """
    if isinstance(is_right, np.bool_) and is_right:
        return rows
    shape = is_right.shape
    if not jnp.issubdtype(rows.dtype, jnp.inexact):
        everywhere = lax.broadcast_in_dim(is_right, rows.shape, range(len(shape)))
        return lax.select(everywhere, rows, lax.full_like(rows, _nothing(rows.dtype)))
    one, nothing = (lax.broadcast(np.asarray(number, rows.dtype), shape) for number in (1, np.nan))
    factor = lax.select(is_right, one, nothing)
    return lax.mul(rows, lax.broadcast_in_dim(factor, rows.shape, range(len(shape))))


def add_rows(
    total: Float[Array, "n ..."], at: Int[Array, "..."], values: Float[Array, "..."], *, unique: bool = False
) -> Float[Array, "n ..."]:
    """`total` with `values` added at its rows, in its type. Repeated rows add up; `unique` promises that there are none."""
    if 0 in (total.shape[0], at.size):
        return total
    values = marked(values.astype(total.dtype), all_within((at, total.shape[0])))
    near, numbers = _column(nearest(at, total.shape[0]), total), _scattered(at.ndim, total.ndim)
    single = at.ndim == 0
    return lax.scatter_add(
        total,
        near,
        values,
        numbers,
        indices_are_sorted=single,
        unique_indices=unique or single,
        mode="promise_in_bounds",
    )


def add_nearest(total: Float[Array, "n ..."], at: Int[Array, " k"], values: Float[Array, "k ..."]) -> Float[Array, "n ..."]:
    """`total` with `values` added at its rows, each named once; whether there are such rows is asked as by `put_nearest`."""
    if 0 in (total.shape[0], at.size):
        return total
    near = nearest(at, total.shape[0])
    return total.at[near].add(values, mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False)


def put_rows(total: Float[Array, "n ..."], at: Int[Array, " k"], values: Float[Array, "k ..."]) -> Float[Array, "n ..."]:
    """`total` with `values` in its rows, each of which is named once."""
    if 0 in (total.shape[0], at.size):
        return total
    return put_nearest(total, at, marked(values, all_within((at, total.shape[0]))))


def put_nearest(total: Float[Array, "n ..."], at: Int[Array, " k"], values: Float[Array, "k ..."]) -> Float[Array, "n ..."]:
    """`total` with `values` in its rows, the nearest for numbers that are not in `[0, n)`. Whether they are is asked
    `all_within`; if not, all values shall be NaN: one alone might be overwritten by its neighbour."""
    if 0 in (total.shape[0], at.size):
        return total
    near = nearest(at, total.shape[0])
    return total.at[near].set(values, mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False)


def nearest(at: Int[Array, "..."], n: int) -> Int[Array, "..."]:
    """Indices moved to the nearest in `[0, n)`; unchanged where their check is put off, for XLA takes the nearest itself."""
    if _waits(at, n):
        return at
    return lax.clamp(np.zeros((), at.dtype), at, np.asarray(n - 1).astype(at.dtype))


# What `values.at[at]` comes to, said at once: rows are read so often that JAX's way to it was a twentieth of what tracing a
# scene takes.
def _column(at: Int[Array, "..."], values: Array) -> Int[Array, "... 1"]:
    """Indices of rows of `values`, in 32 bits where these are enough."""
    if at.dtype == np.int64 and max(values.shape) <= np.iinfo(np.int32).max:
        at = lax.convert_element_type(at, np.int32)
    return lax.broadcast_in_dim(at, (*at.shape, 1), range(at.ndim))


@functools.cache
def _gathered(of_indices: int, of_values: int) -> lax.GatherDimensionNumbers:
    """Whole rows, by arrays of indices and values with so many axes."""
    rows = tuple(range(of_indices, of_indices + of_values - 1))
    return lax.GatherDimensionNumbers(rows, collapsed_slice_dims=(0,), start_index_map=(0,))


@functools.cache
def _scattered(of_indices: int, of_values: int) -> lax.ScatterDimensionNumbers:
    rows = tuple(range(of_indices, of_indices + of_values - 1))
    return lax.ScatterDimensionNumbers(rows, inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))


def _nothing(dtype: Any) -> float | int:
    if jnp.issubdtype(dtype, jnp.bool_):
        return True
    return jnp.nan if jnp.issubdtype(dtype, jnp.inexact) else jnp.iinfo(dtype).min
