"""A program of one element, evaluated for all elements, a few at a time."""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox import AbstractVar
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from .._devices import divided
from .._typing import Array
from .node_rows import NodeRows, whole
from .program import entries, inner_programs, on_cpu, run, stacked
from .scalars import Arithmetic, NoStraightLine
from .stages import staged

_FEW = 256  # elements below which compiling takes longer than it saves
_SHORT = 200  # operations that XLA handles well enough as they are
_LONG = 60_000  # operations beyond which compiling a straight line takes too long
_CHUNK = 1024  # elements whose scalars stay in the cache of a core
_FEWER = 64  # elements whose arrays do, where a program is too long for scalars

Lines = dict[tuple[jax.ShapeDtypeStruct, ...], Callable[..., list[Any]]]  # by the shapes of their arguments


class AbstractChunkSums(eqx.Module):
    """Sums of what the elements of one chunk give, made where it was made: the elements' own is never whole in memory.

    They are made of the first `summed` outputs of an element; the others are given back as they are.
    """

    starts: AbstractVar[Array]  # the first element of every chunk
    length: AbstractVar[int]  # elements of each
    summed: AbstractVar[int]
    know_diagonal: AbstractVar[bool]  # whether the blocks on the diagonal are theirs to find, and no element's to give

    @abc.abstractmethod
    def of_chunk(self, outputs: Sequence[Array], number: Array) -> list[Array]:
        """The sums of one chunk, from the outputs of its elements."""

    @abc.abstractmethod
    def of_all(self, outputs: Sequence[Array]) -> list[Array]:
        """The sums of all chunks, one after the other, from the outputs of all elements: the plain definition."""

    def applied(self, outputs: Sequence[Array]) -> list[Array]:
        """`of_all` of the outputs that are summed, and the others."""
        return [*self.of_all(outputs[: self.summed]), *outputs[self.summed :]]


def are_few(count: int) -> bool:
    """Whether elements are too few for what a straight line takes to compile."""
    return count < _FEW


def mapped(program: ClosedJaxpr, count: int, axes: Sequence[int | None], arrays: Sequence[Any]) -> list[Any]:
    """The outputs of a program for all elements, by the plain definition."""
    if all(axis is None for axis in axes):
        return [jnp.broadcast_to(a, (count, *jnp.shape(a))) for a in jaxpr_as_fun(program)(*arrays)]
    return jax.vmap(jaxpr_as_fun(program), in_axes=list(axes))(*arrays)


def evaluated(
    program: ClosedJaxpr,
    count: int,
    axes: Sequence[int | None],
    arrays: Sequence[Any],
    sums: AbstractChunkSums | None,
    lines: Lines,
    *,
    divides: bool = False,
) -> list[Any]:
    """The outputs of a program for all elements, a few at a time where that is faster; `divides`: each device its share.

    `lines`: those made so far.
    """
    if all(axis is None for axis in axes):
        found = mapped(program, count, axes, arrays)
        return found if sums is None else sums.applied(found)

    def vmapped(*arrays):
        return mapped(program, count, axes, arrays)

    def by_few(*arrays):
        return _in_chunks(vmapped, _FEWER, axes, arrays)

    def in_order(function):
        if sums is None:
            return _in_chunks(function, _CHUNK, axes, arrays, divides=divides)
        return _summed(function, axes, arrays, sums, divides=divides)

    length = _length(program.jaxpr)
    if length < _SHORT or are_few(count):
        return vmapped(*map(whole, arrays)) if sums is None else in_order(vmapped)
    if length <= _LONG:
        try:
            return in_order(_straight(program, axes, lines))
        except NoStraightLine:
            pass
    return _in_chunks(vmapped, _FEWER, axes, arrays, divides=divides) if sums is None else in_order(by_few)


def _straight(program: ClosedJaxpr, axes: Sequence[int | None], lines: Lines) -> Callable[..., list[Any]]:
    """A program as operations on scalars, each for all elements that are given; it may raise `NoStraightLine`."""

    def as_scalars(*arrays):
        count = (_count(axes, arrays),)
        inputs = [entries(a, axis is not None) for a, axis in zip(arrays, axes, strict=True)]
        scalars = run(Arithmetic(), program.jaxpr, [entries(c) for c in program.consts], inputs)
        return [stacked(x, v.aval.dtype, count) for x, v in zip(scalars, program.jaxpr.outvars, strict=True)]

    def straight(*arrays):
        if not on_cpu():
            return as_scalars(*arrays)
        shapes = tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays)
        if shapes not in lines:
            lines[shapes] = staged(jax.make_jaxpr(as_scalars)(*shapes))
        return lines[shapes](*arrays)

    return straight


def _summed(
    function: Callable, axes: Sequence[int | None], arrays: Sequence[Any], sums: AbstractChunkSums, *, divides: bool
) -> list[Any]:
    """The sums of what a function of batches of elements gives, chunk by chunk on a CPU, and its other outputs."""
    if not on_cpu():
        return sums.applied(function(*map(whole, arrays)))

    def step(_, number):
        outputs = function(*_slices(axes, arrays, sums.starts[number], sums.length))
        return None, [*sums.of_chunk(outputs[: sums.summed], number), *outputs[sums.summed :]]

    parts = _each(lambda numbers: jax.lax.scan(step, None, numbers)[1], sums.starts.shape[0], divides)
    others = [_in_order(part, sums.length, _count(axes, arrays)) for part in parts[sums.summed :]]
    return [*(_flat(part) for part in parts[: sums.summed]), *others]


def _each(function: Callable[[Array], list[Array]], count: int, divides: bool) -> list[Array]:
    """What a function of numbers gives, number by number, for all of `0, ..., count - 1`."""
    if not divides:
        return function(jnp.arange(count, dtype=jnp.int32))
    return [_flat(part)[:count] for part in divided(lambda numbers: function(numbers[0]), [count])]


def _flat(a: Array) -> Array:
    """The first two axes as one."""
    return a.reshape(-1, *a.shape[2:])


def _in_order(chunks: Array, length: int, count: int) -> Array:
    """What belongs to the elements, from chunks `(chunks, length, ...)`. The last starts early enough to be whole: what it
    repeats is left out."""
    rows, done = _flat(chunks), (chunks.shape[0] - 1) * length
    again = done + length - count
    return jnp.concatenate([rows[:done], rows[done + again :]]) if again else rows


def _in_chunks(
    function: Callable, size: int, axes: Sequence[int | None], arrays: Sequence[Any], *, divides: bool = False
) -> list[Any]:
    """A function of batches of elements, in batches of about `size` on a CPU."""
    count = _count(axes, arrays)
    chunks = max(1, round(count / size)) if on_cpu() else 1
    if chunks == 1:
        return function(*map(whole, arrays))
    length = -(-count // chunks)

    def chunk(start):
        return function(*_slices(axes, arrays, start, length))

    # The last chunk starts early enough to be whole: no element is made up to fill it.
    starts = jnp.minimum(length * jnp.arange(chunks), count - length)
    if divides:
        parts = _each(lambda numbers: jax.lax.map(lambda number: chunk(starts[number]), numbers), chunks, divides)
        return [_in_order(part, length, count) for part in parts]

    def step(done, start):
        put = jax.lax.dynamic_update_slice_in_dim
        return [put(total, new, start, 0) for total, new in zip(done, chunk(start), strict=True)], None

    shapes = jax.eval_shape(chunk, starts[0])
    return jax.lax.scan(step, [jnp.zeros((count, *s.shape[1:]), s.dtype) for s in shapes], starts)[0]


def _count(axes: Sequence[int | None], arrays: Sequence[Any]) -> int:
    return next(a.shape[0] for a, axis in zip(arrays, axes, strict=True) if axis is not None)


def _slices(axes: Sequence[int | None], arrays: Sequence[Any], start: Array, length: int) -> list[Any]:
    """What belongs to `length` elements."""

    def own(a: Any) -> Array:
        if isinstance(a, NodeRows):
            return NodeRows(a.values, jax.lax.dynamic_slice_in_dim(a.nodes, start, length)).whole()
        return jax.lax.dynamic_slice_in_dim(a, start, length)

    return [a if axis is None else own(a) for a, axis in zip(arrays, axes, strict=True)]


def _length(jaxpr: Any) -> int:
    """How many scalar operations a program has, at most."""
    total = 0
    for eqn in jaxpr.eqns:
        inner = inner_programs(eqn)
        if inner:
            total += eqn.params.get("count", 1) * sum(_length(getattr(p, "jaxpr", p)) for p in inner)
            continue
        terms = 1
        if eqn.primitive.name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            terms = math.prod(eqn.invars[0].aval.shape[axis] for axis in summed)
        total += terms * sum(v.aval.size for v in eqn.outvars)
    return total
