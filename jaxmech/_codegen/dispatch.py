"""A program of one element, evaluated for all elements, a few at a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.devices import AXIS, device_count, divided, in_order, on_cpu
from .._runtime.element_compiler import element_form
from .._runtime.jax_internals import ClosedJaxpr, jaxpr_as_fun
from .._runtime.plain_form import first_that_works
from .llvm.element_kernel import Kernel, form_of
from .llvm.vector import WIDTH
from .operation_count import equation_count, is_dear, length_as_kernel, operation_count
from .program.element_jaxpr import ElementProgram
from .program.nodal_gather import NodeRows, whole
from .program.scatter_plan import AbstractElementSums, Places
from .scalarize.arithmetic import NotScalarisable
from .scalarize.array_arithmetic import ArrayArithmetic, entries, stacked
from .scalarize.interpreter import run
from .staging import staged

_FEWEST = WIDTH  # elements that a kernel has a loop over
_FEW = 256  # elements for which XLA takes longer to compile a scalarised program than that saves
_SHORT = 200  # operations that XLA handles well enough as they are
_LONG = 60_000  # operations beyond which compiling a scalarised program takes too long
# The same for fewer than so many elements: what the forces of 1,300 hexahedra of 20 nodes gain, 9 ms of 12, does not pay for
# the 3 s that their 50,000 operations take LLVM; those of 8 nodes have 11,000, and take 1 s; the derivative of the matrix of
# tetrahedra has 16,000. SOFA's hexahedra have 21,800: 1.3 s, for 0.5 ms of a step of 2.4 in the smallest scene. A neural law
# (30,000; 58,000 by its weights) gains more: one equilibrium of 3,072 tetrahedra takes 0.04 s for 0.17, compiled sooner.
_LONG_FOR_SOME, _SOME = 22_000, 3_000
# Of more operations than that, up to so many, the results in the text tell how long it takes: what is nil, or there already,
# is none. The matrices of tetrahedra of Yeoh's law, of chains, fibres or a viscous one have 23,000 to 30,000 operations, and
# 6,500 to 11,100 lines, Ogden's 12,300: of 750 a kernel takes 0.5 to 0.8 ms for 4 to 10, and is there in half the time.
_UNSURE, _RESULTS = 40_000, 13_000
# Of a step that is one kernel, or its gradient, most operations are of known numbers: steps of a top, of 39,000 to 65,000 by
# the estimate of `one_kernel.py`, have 7,500 to 13,600 lines, their gradients twice those, which take LLVM 40 us each.
_WHOLE = 1_000_000
# XLA's time goes by the equations: 2.1 to 2.4 ms each, those of a loop once. A result takes LLVM 0.1 ms or less, and 0.02 in
# a long kernel of a handful, which it does not optimise. With so many results a kernel of a handful is there as soon, of
# more elements after one to four times XLA's time, and runs two to twenty times faster. (The stiffness of 144 tetrahedra of
# a law with five rounds of a loop is there after 5.8 s for 4.6, and takes 0.5 ms for 9.6; that of one with twenty rounds was
# there after 23 s for 3.)
_FOR_ONE_OF_A_HANDFUL, _FOR_ONE_OF_MORE = 100, 80
# The same where XLA weighs each against each. Beside an H100 an equilibrium compiled for 93 s with 28,000 operations, of the
# matrix of hexahedra, and for 5.6 s, as fast, with products of small matrices in all its programs; the matrix of tetrahedra,
# of 12,500, in 6 s with what it needs, and in a fifteenth of the memory of such products.
_LONG_ON_GPU = 16_000
_DIVIDED = 256  # elements, below which communication between devices takes longer than it saves
_CHUNK = 1024  # elements whose scalars stay in the cache of a core
_FEWER = 64  # elements whose arrays do, where a program is too long for scalars


def are_few(count: int) -> bool:
    """Whether elements are a handful, all of which a kernel takes at once."""
    return count < _FEWEST


def mapped(program: ClosedJaxpr, count: int, axes: Sequence[int | None], arrays: Sequence[Any]) -> list[Any]:
    """The outputs of a program for all elements, by the plain definition."""
    if all(axis is None for axis in axes):
        return [jnp.broadcast_to(a, (count, *jnp.shape(a))) for a in jaxpr_as_fun(program)(*arrays)]
    if count == 1:  # nothing is mapped: a choice stays one, of which one branch is carried out
        own = (a if axis is None else a[0] for a, axis in zip(arrays, axes, strict=True))
        return [a[None] for a in jaxpr_as_fun(program)(*own)]
    return jax.vmap(jaxpr_as_fun(program), in_axes=list(axes))(*arrays)


def vmapped_and_summed(
    call: ElementProgram, count: int, arrays: Sequence[Any], sums: AbstractElementSums | None
) -> list[Any]:
    """The outputs of a program for all elements: the plain form, all at once."""
    found = mapped(call.closed, count, call.axes, list(map(whole, arrays)))
    return found if sums is None else sums.applied(found)


def evaluated(
    call: ElementProgram,
    count: int,
    arrays: Sequence[Any],
    sums: AbstractElementSums | None,
    *,
    divides: bool,
    by_kernel: bool,
) -> list[Any]:
    """The outputs of a program for all elements, a few at a time where that is faster; `divides`: each device its share.

    `by_kernel`: it may be compiled as a `Kernel`.
    """
    applied = list if sums is None else sums.applied
    divides = divides and count >= _DIVIDED

    def vmapped(*arrays):
        return mapped(call.closed, count, call.axes, arrays)

    def by_vmap():
        return vmapped_and_summed(call, count, arrays, sums)

    def by_vmap_in_chunks():
        return applied(_in_chunks(vmapped, _FEWER, call.axes, arrays, divides=divides))

    def by_xla():
        return applied(_in_chunks(in_xla(call), _CHUNK, call.axes, arrays, divides=divides))

    def by_llvm():
        return _by_kernel(call, count, arrays, [] if sums is None else sums.places(), divides=divides)

    length = operation_count(call.jaxpr)
    is_short = length < _SHORT and not (call.is_whole or is_dear(call.jaxpr))
    is_plain = is_short and (sums is None or are_few(count))
    if element_form() == "off" or all(axis is None for axis in call.axes) or is_plain:
        return by_vmap()
    longest = _longest(count)
    forms = [by_llvm] if by_kernel and length_as_kernel(call) <= (_WHOLE if call.is_whole else max(longest, _UNSURE)) else []
    if count < _FEW or is_short or call.is_whole:
        return first_that_works(call, *forms, by_vmap)
    may_be_too_long = bool(forms) and _most(call, count) is not None  # for LLVM, and then for XLA all the more
    if length <= (longest if on_cpu() else _LONG_ON_GPU) and not may_be_too_long:
        forms.append(by_xla)
    return first_that_works(call, *forms, by_vmap_in_chunks)


def _longest(count: int) -> int:
    """The operations of so many elements beyond which it is doubtful whether a kernel pays."""
    return _LONG if count >= _SOME else _LONG_FOR_SOME


def _most(call: ElementProgram, count: int) -> int | None:
    """How many results a kernel may have that has more operations than that, loops written out; None: it has not."""
    if length_as_kernel(call, rounds=True) <= _longest(count):
        return None
    each = _FOR_ONE_OF_A_HANDFUL if are_few(count) else _FOR_ONE_OF_MORE
    return max(_RESULTS if count < _SOME else _LONG, each * equation_count(call.jaxpr))


def _by_kernel(
    call: ElementProgram,
    count: int,
    arrays: Sequence[Any],
    places: Sequence[Places],
    *,
    divides: bool,
) -> list[Any]:
    """The sums and the other outputs of a program compiled for this CPU; it may raise `NotScalarisable`."""
    share = -(-count // device_count()) if divides else count
    if share < WIDTH and divides:
        raise NotScalarisable("fewer elements than a kernel takes at once, divided")
    kernel = _kernel(call, arrays, places, share, _most(call, count))
    if not divides:
        return kernel(arrays, places, count)
    first = share * jax.lax.axis_index(AXIS)
    found = kernel(arrays, places, share, jnp.minimum(first, count - share), first)
    sums, others = found[: len(places)], found[len(places) :]
    gathered = (in_order(jax.lax.all_gather(part, AXIS), share, count) for part in others)
    return [*(jax.lax.psum(part, AXIS) for part in sums), *gathered]


def summed_by_kernel(
    call: ElementProgram,
    count: int,
    arrays: Sequence[Any],
    of_one: Sequence[Any],
    places: Sequence[Places],
    own: Mapping[int, bool],
) -> list[Array]:
    """The same for many scenes in one call, of one of which the arrays are like `of_one`; `own`: by the `id` of an array,
    whether it has an axis of scenes. It may raise `NotScalarisable`."""
    if all(axis is None for axis in call.axes) or count < WIDTH or length_as_kernel(call) > _LONG:
        raise NotScalarisable("a program that one scene has no kernel for")
    return _kernel(call, of_one, places, count, _most(call, _SOME))(arrays, places, count, own=own)


def _kernel(call: ElementProgram, arrays: Sequence[Any], places: Sequence[Places], count: int, most: int | None) -> Kernel:
    lanes = None if count >= WIDTH else count
    form = lanes, *form_of(arrays, places)
    if most is not None and most <= call.refused.get(form, 0):
        raise NotScalarisable("a program that was too long for so few elements")
    if form not in call.compiled:
        try:
            call.compiled[form] = Kernel(call, arrays, places, lanes, most)
        except NotScalarisable:
            if most is not None:
                call.refused[form] = most
            raise
    return call.compiled[form]


def kernel_of(call: ElementProgram, arrays: Sequence[Any], places: Sequence[Places], count: int) -> Kernel:
    """The kernel of so many elements, of arrays and places like these."""
    return _kernel(call, arrays, places, count, _most(call, count))


def in_xla(call: ElementProgram) -> Callable[..., list[Any]]:
    """The XLA form of a program: its scalars as arrays of all elements that are given; it may raise `NotScalarisable`."""

    def as_scalars(*arrays):
        count = (_count(call.axes, arrays),)
        inputs = [entries(a, axis is not None) for a, axis in zip(arrays, call.axes, strict=True)]
        scalars = run(ArrayArithmetic(keeps_loops=on_cpu()), call.jaxpr, [entries(c) for c in call.consts], inputs)
        return [stacked(x, v.aval.dtype, count) for x, v in zip(scalars, call.jaxpr.outvars, strict=True)]

    def as_arrays(*arrays):
        if not on_cpu():
            return as_scalars(*arrays)
        shapes = tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays)
        if shapes not in call.compiled:
            call.compiled[shapes] = staged(jax.make_jaxpr(as_scalars)(*shapes))
        return call.compiled[shapes](*arrays)

    return as_arrays


def _each(function: Callable[[Array], list[Array]], count: int) -> list[Array]:
    """What a function of numbers gives, number by number, for all of `0, ..., count - 1`, divided over the devices."""
    parts = divided(lambda numbers: function(numbers[0]), [count])
    return [part.reshape(-1, *part.shape[2:])[:count] for part in parts]


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
        parts = _each(lambda numbers: jax.lax.map(lambda number: chunk(starts[number]), numbers), chunks)
        return [in_order(part, length, count) for part in parts]

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
