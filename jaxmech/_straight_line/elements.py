"""A function of one element, mapped over all of them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr
from jax.interpreters import partial_eval

from .._typing import Array
from .chunks import AbstractChunkSums, Lines, evaluated, mapped
from .stages import rewired

_FEW = 256  # elements below which compiling takes longer than it saves


def map_elements(function: Callable, in_axes: Any, *arguments: Any, sums: AbstractChunkSums | None = None) -> Any:
    """`jax.vmap(function, in_axes)(*arguments)`; with many elements, as a straight line of scalar operations.

    With `sums`, not that but its sums over chunks, and what of it is not summed.

    XLA's loops over axes of three or four entries are neither fused nor vectorised well on a CPU. Operations on scalars,
    each for a few hundred elements at a time, compute a second derivative of a density of a 3 x 3 matrix five to twenty
    times faster. Derivatives are those of `jax.vmap(function)`, custom rules included.
    """
    leaves, structure = jax.tree.flatten(arguments)
    axes = _axis_of_each(in_axes, arguments)
    where = [i for i, x in enumerate(leaves) if eqx.is_array(x)]
    axes = [axes[i] for i in where]
    arrays = [leaves[i] for i in where]

    def of_one(*values):
        filled = list(leaves)
        for i, value in zip(where, values, strict=True):
            filled[i] = value
        return function(*structure.unflatten(filled))

    count = max((a.shape[0] for a, axis in zip(arrays, axes, strict=True) if axis is not None), default=0)
    if count < _FEW or not _is_compiled():
        outcome = jax.vmap(function, in_axes=in_axes)(*arguments)
        return outcome if sums is None else _on_leaves(sums.applied, outcome)
    examples = [_of_one_element(a, axis) for a, axis in zip(arrays, axes, strict=True)]
    program, shapes = jax.make_jaxpr(of_one, return_shape=True)(*examples)
    outcome = _map_program(program, count, axes, arrays, sums)
    return jax.tree.unflatten(jax.tree.structure(shapes), outcome)


def _on_leaves(function: Callable, tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, function(leaves))


def _is_compiled() -> bool:
    """Whether operations are being recorded. Run one by one, they would be traced again at every call."""
    return isinstance(jnp.add(0, 0), Tracer)


def _axis_of_each(in_axes: Any, arguments: Any) -> list[int | None]:
    """The axis of every leaf. None is "not mapped" in `in_axes`, and no leaf at all among the arguments."""

    def spread(axis: int | None, part: Any) -> Any:
        return jax.tree.map(lambda _: -1 if axis is None else axis, part)

    numbers = jax.tree.leaves(jax.tree.map(spread, in_axes, arguments, is_leaf=lambda axis: axis is None))
    return [None if axis == -1 else axis for axis in numbers]


def _of_one_element(a: Any, axis: int | None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(a.shape if axis is None else a.shape[1:], a.dtype)


def _map_program(
    program: ClosedJaxpr, count: int, axes: Sequence[int | None], arrays: Sequence[Any], sums: AbstractChunkSums | None
) -> list[Any]:
    """The outputs of a program for all elements. What it closes over and is being traced becomes an argument, so that it
    may be differentiated; the rest are numbers."""
    jaxpr, used = partial_eval.dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars))
    traced = [i for i, c in enumerate(program.consts) if isinstance(c, Tracer)]
    arrays = [*(program.consts[i] for i in traced), *(a for a, wanted in zip(arrays, used, strict=True) if wanted)]
    axes = (*(None for _ in traced), *(axis for axis, wanted in zip(axes, used, strict=True) if wanted))
    known = [i for i in range(len(program.consts)) if i not in traced]
    inputs = [*(jaxpr.constvars[i] for i in traced), *jaxpr.invars]
    closed = ClosedJaxpr(
        rewired(jaxpr, inputs, list(jaxpr.outvars), jaxpr.eqns, constants=[jaxpr.constvars[i] for i in known]),
        [program.consts[i] for i in known],
    )

    lines: Lines = {}  # a derivative is traced many times over, and its primal each time

    @custom_vmap
    def of_scene(sums, *arrays):
        return evaluated(closed, count, axes, arrays, sums, lines)

    @of_scene.def_vmap
    def of_batch(size, batched, sums, *arrays):
        # Chunks of the elements of many scenes at once would not stay in a cache.
        if sums is not None:
            moving, shared = eqx.partition((sums, *arrays), tuple(batched))
            whole = jax.lax.map(lambda own: of_scene(*eqx.combine(own, shared)), moving)
        else:
            whole = evaluated(closed, size * count, *_folded(size, count, axes, arrays, batched[1:]), None, lines)
            whole = [a.reshape(size, count, *a.shape[1:]) for a in whole]
        return whole, [True] * len(whole)

    @jax.custom_jvp
    def call(sums, *arrays):
        return of_scene(sums, *arrays)

    @functools.partial(call.defjvp, symbolic_zeros=True)
    def rule(primals, tangents):
        (sums, *primals), tangents = primals, tangents[1:]
        moving = [i for i, t in enumerate(tangents) if not isinstance(t, SymbolicZero)]

        def moved(*values):
            values = dict(zip(moving, values, strict=True))
            whole = mapped(closed, count, axes, [values.get(i, p) for i, p in enumerate(primals)])
            return whole if sums is None else sums.applied(whole)

        return call(sums, *primals), jax.jvp(moved, [primals[i] for i in moving], [tangents[i] for i in moving])[1]

    return call(sums, *arrays)


def _folded(
    size: int, count: int, axes: Sequence[int | None], arrays: Sequence[Array], batched: Sequence[bool]
) -> tuple[list[int | None], list[Array]]:
    """The elements of a batch of scenes as elements of one: axes and arrays. What the elements of a scene share, and other
    scenes have other numbers for, is repeated."""
    folded, folded_axes = [], []
    for a, axis, own in zip(arrays, axes, batched, strict=True):
        of_elements = axis is not None
        if of_elements or own:
            rest = a.shape[own + of_elements :]
            a = jnp.broadcast_to(a.reshape(size if own else 1, count if of_elements else 1, *rest), (size, count, *rest))
            a = a.reshape(size * count, *rest)
        folded.append(a)
        folded_axes.append(0 if of_elements or own else None)
    return folded_axes, folded
