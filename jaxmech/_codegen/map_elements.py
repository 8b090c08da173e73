"""A function of one element, mapped over all of them."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax

from .._runtime.devices import device_count
from .._runtime.element_compiler import element_form
from .._runtime.jax_internals import ClosedJaxpr, Tracer, is_tracing, jaxpr_as_fun, rewired
from .._runtime.plain_form import first_that_works
from .operation_count import operation_count
from .primitive import map_program
from .program.element_function import ElementFunction
from .program.element_jaxpr import ElementProgram, reduced
from .program.nodal_gather import is_rows, whole
from .program.scatter_plan import AbstractElementSums
from .program.shared_part import without_shared_part

_WORTH = 500  # operations of what elements share: below, each computes them again


def map_elements(function: Callable, in_axes: Any, *arguments: Any, sums: AbstractElementSums | None = None) -> Any:
    """`jax.vmap(function, in_axes)(*arguments)`; where it is compiled, as a scalarised program.

    With `sums`, not that but its sums over the elements, and what of it is not summed. Mapped arguments may be `NodeRows`.

    XLA's loops over axes of three or four entries are neither fused nor vectorised well on a CPU. Operations on scalars,
    each for a few hundred elements at a time, compute a second derivative of a density of a 3 x 3 matrix five to twenty
    times faster. Derivatives are those of `jax.vmap(function)`, custom rules included.
    """
    axes, leaves = _axis_of_each(in_axes, arguments), _leaves(arguments)[0]
    count = max((a.shape[0] for a, axis in zip(leaves, axes, strict=True) if axis is not None), default=0)
    if count and is_compiled():
        return trace_and_map(function, in_axes, *arguments, sums=sums, divides=device_count() > 1)
    return vmap_elements(function, in_axes, *arguments, sums=sums)


def vmap_elements(function: Callable, in_axes: Any, *arguments: Any, sums: AbstractElementSums | None = None) -> Any:
    """The plain form of `map_elements`: nothing but JAX."""
    outcome = jax.vmap(function, in_axes=in_axes)(*jax.tree.map(whole, arguments, is_leaf=is_rows))
    return outcome if sums is None else _on_leaves(sums.applied, outcome)


def is_compiled() -> bool:
    """Whether element functions are: operations that are carried out one by one would be traced again at every call."""
    return element_form() != "off" and is_tracing()


def trace_and_map(
    function: Callable, in_axes: Any, *arguments: Any, sums: AbstractElementSums | None = None, divides: bool = False
) -> Any:
    """`map_elements` whatever the number of elements; `divides`: over devices too."""
    axes, leaves = _axis_of_each(in_axes, arguments), _leaves(arguments)[0]
    counts = {a.shape[0] for a, axis in zip(leaves, axes, strict=True) if axis is not None}
    if len(counts) != 1:
        raise ValueError(f"elements are mapped over axes of different lengths, {sorted(counts)}.")
    return first_that_works(
        "an element function",
        lambda: _traced(function, in_axes, arguments, *counts, sums, divides),
        lambda: vmap_elements(function, in_axes, *arguments, sums=sums),
    )


def _traced(
    function: Callable, in_axes: Any, arguments: Any, count: int, sums: AbstractElementSums | None, divides: bool
) -> Any:
    """The trace of one element, and its program mapped."""
    of_one, axes, arrays = _of_one(function, in_axes, arguments)
    program, shapes = jax.make_jaxpr(of_one, return_shape=True)(*_examples(axes, arrays))
    outcome = _map_program(of_one, program, count, axes, arrays, sums, divides)
    return jax.tree.unflatten(jax.tree.structure(shapes), outcome)


def operations_of_one(function: Callable, in_axes: Any, *arguments: Any) -> int:
    """How many operations the program of one element has, with every round of its loops."""
    of_one, axes, arrays = _of_one(function, in_axes, arguments)
    return operation_count(jax.make_jaxpr(of_one)(*_examples(axes, arrays)).jaxpr, rounds=True)


def _of_one(function: Callable, in_axes: Any, arguments: Any) -> tuple[ElementFunction, list[int | None], list[Any]]:
    """The function of the arrays among its arguments, the axis of each, and these."""
    leaves, structure = _leaves(arguments)
    axes = _axis_of_each(in_axes, arguments)
    where = [i for i, x in enumerate(leaves) if eqx.is_array(x) or is_rows(x)]
    return ElementFunction(function, structure, leaves).same(), [axes[i] for i in where], [leaves[i] for i in where]


def _examples(axes: Sequence[int | None], arrays: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
    """What the arrays of one element are like."""
    shapes = [a.shape if axis is None else a.shape[1:] for a, axis in zip(arrays, axes, strict=True)]
    return [jax.ShapeDtypeStruct(shape, a.dtype) for shape, a in zip(shapes, arrays, strict=True)]


def _leaves(arguments: Any) -> tuple[list[Any], Any]:
    return jax.tree.flatten(arguments, is_leaf=is_rows)


def _on_leaves(function: Callable, tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, function(leaves))


def _axis_of_each(in_axes: Any, arguments: Any) -> list[int | None]:
    """The axis of every leaf. None is "not mapped" in `in_axes`, and no leaf at all among the arguments."""

    def spread(axis: int | None, part: Any) -> Any:
        return jax.tree.map(lambda _: -1 if axis is None else axis, part, is_leaf=is_rows)

    numbers = jax.tree.leaves(jax.tree.map(spread, in_axes, arguments, is_leaf=lambda axis: axis is None))
    return [None if axis == -1 else axis for axis in numbers]


def _map_program(
    function: ElementFunction,
    program: ClosedJaxpr,
    count: int,
    axes: Sequence[int | None],
    arrays: Sequence[Any],
    sums: AbstractElementSums | None,
    divides: bool,
) -> list[Any]:
    """The outputs of a program for all elements. What it closes over and is being traced becomes an argument, so that it
    may be differentiated; the rest are numbers."""
    traced = [i for i, c in enumerate(program.consts) if isinstance(c, Tracer)]
    all_axes = (*(None for _ in traced), *axes)

    def opened() -> tuple[ClosedJaxpr, ClosedJaxpr | None, ElementProgram, list[int]]:
        known = [i for i in range(len(program.consts)) if i not in traced]
        jaxpr, constants = program.jaxpr, program.jaxpr.constvars
        inputs = [*(constants[i] for i in traced), *jaxpr.invars]
        opened = rewired(jaxpr, inputs, list(jaxpr.outvars), jaxpr.eqns, constants=[constants[i] for i in known])
        whole = ClosedJaxpr(opened, [program.consts[i] for i in known])
        shared, of_one, of_axes = without_shared_part(whole, all_axes, operation_count, _WORTH) or (None, whole, all_axes)
        made, used = reduced(of_one, of_axes, [True for _ in jaxpr.outvars])
        return program, shared, made, used  # the trace is kept: its identity is what the others are known by

    _, shared, made, used = opened() if traced else function.once((id(program), tuple(axes)), opened)
    given = [*(program.consts[i] for i in traced), *arrays]
    if shared is not None:
        given += jaxpr_as_fun(shared)(*(a for a, axis in zip(given, all_axes, strict=True) if axis is None))
    return map_program(made, count, [given[i] for i in used], sums, divides=divides)
