"""The program of one element mapped over all of them: one JAX primitive, whose derivatives are such programs again.

Differentiating the mapped program as it is would differentiate arrays of all elements, operation by operation, and keep
every one of them for reverse mode. What is differentiated is the program of one element: its tangent and its transpose run
as straight lines too, and start from the inputs alone.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, partial_eval

from .._typing import Array
from .chunks import AbstractChunkSums, evaluated
from .element_program import ElementProgram
from .program import entries, run
from .rules import RULES
from .scalars import Arithmetic


def map_program(
    program: ElementProgram, count: int, arrays: Sequence[Any], sums: AbstractChunkSums | None = None
) -> list[Any]:
    """The outputs of a program for `count` elements; with `sums`, not the first of them but their sums over chunks."""
    leaves, structure = jax.tree.flatten(sums)
    return _mapped_p.bind(*arrays, *leaves, call=program, count=count, sums=structure)


def _plan(call: ElementProgram, operands: Sequence[Any], sums: Any) -> tuple[list[Any], AbstractChunkSums | None]:
    """The arrays, and the plan of the sums, that the operands are."""
    number = len(call.axes)
    return list(operands[:number]), jax.tree.unflatten(sums, operands[number:])


def _evaluate(*operands, call, count, sums):
    arrays, plan = _plan(call, operands, sums)
    return evaluated(call.closed, count, call.axes, arrays, plan, call.lines)


def _abstract(*operands, call, count, sums):
    whole = [jax.ShapeDtypeStruct((count, *v.aval.shape), v.aval.dtype) for v in call.jaxpr.outvars]
    leaves = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in operands[len(call.axes) :]]
    if leaves:
        whole = jax.eval_shape(lambda plan, outputs: plan.applied(outputs), jax.tree.unflatten(sums, leaves), whole)
    return [ShapedArray(a.shape, a.dtype) for a in whole]


def _jvp(primals, tangents, *, call, count, sums):
    outputs = _mapped_p.bind(*primals, call=call, count=count, sums=sums)
    arrays, plan = _plan(call, primals, sums)
    moving = tuple(i for i, t in enumerate(tangents[: len(arrays)]) if type(t) is not ad.Zero)
    rates = [ad.Zero(jax.typeof(a).to_tangent_aval()) for a in outputs]
    if moving:
        summed = 0 if plan is None else plan.summed
        tangent, used, moved = call.tangent(moving, summed)
        inputs = [*arrays, *(tangents[i] for i in moving)]
        found = map_program(tangent, count, [inputs[i] for i in used], plan)
        # As many sums as there are, and the others that move.
        added = len(outputs) - len(call.jaxpr.outvars)
        places = [*range(summed + added), *(i + added for i in moved[summed:])]
        for i, rate in zip(places, found, strict=True):
            rates[i] = rate
    return outputs, rates


def _transpose(cotangents, *operands, call, count, sums):
    arrays, plan = _plan(call, operands, sums)
    linear = tuple(i for i, a in enumerate(arrays) if ad.is_undefined_primal(a))
    if plan is not None:
        cotangents = _of_elements(cotangents, call, count, plan)
    given = tuple(i for i, c in enumerate(cotangents) if type(c) is not ad.Zero)
    pulled: list[Any] = [None for _ in operands]
    if given:
        transposed, used = call.transposed(linear, given)
        inputs = [*(a for a in arrays if not ad.is_undefined_primal(a)), *(cotangents[i] for i in given)]
        found = map_program(transposed, count, [inputs[i] for i in used])
        for i, cotangent in zip(linear, found, strict=True):
            pulled[i] = cotangent if call.axes[i] == 0 else jnp.sum(cotangent, axis=0)
    return pulled


def _of_elements(cotangents: Sequence[Any], call: ElementProgram, count: int, plan: AbstractChunkSums) -> list[Any]:
    """The cotangents of what the elements give, from those of its sums."""
    avals = [v.aval for v in call.jaxpr.outvars[: plan.summed]]
    blocks = [jax.ShapeDtypeStruct((count, *aval.shape), aval.dtype) for aval in avals]
    others = len(call.jaxpr.outvars) - plan.summed
    of_sums = [ad.instantiate_zeros(c) for c in cotangents[: len(cotangents) - others]]
    (spread,) = jax.linear_transpose(plan.of_all, blocks)(of_sums)
    return [*spread, *cotangents[len(cotangents) - others :]]


def _batch(operands, dimensions, *, call, count, sums):
    own = [d is not None for d in dimensions]
    operands = [jnp.moveaxis(a, d, 0) if mine else a for a, d, mine in zip(operands, dimensions, own, strict=True)]
    size = next(a.shape[0] for a, mine in zip(operands, own, strict=True) if mine)
    if len(operands) > len(call.axes):
        # Chunks of the elements of many scenes at once would not stay in a cache.
        def of_scene(mine):
            mine = iter(mine)
            filled = (next(mine) if moves else a for a, moves in zip(operands, own, strict=True))
            return _mapped_p.bind(*filled, call=call, count=count, sums=sums)

        whole = jax.lax.map(of_scene, [a for a, mine in zip(operands, own, strict=True) if mine])
    else:
        axes, folded = _folded(size, count, call.axes, operands, own)
        whole = map_program(call.with_axes(tuple(axes)), size * count, folded)
        whole = [a.reshape(size, count, *a.shape[1:]) for a in whole]
    return whole, [0 for _ in whole]


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


def _without_unused(wanted, eqn):
    """Neither the outputs that nobody reads, nor what only they are made of."""
    call, number = eqn.params["call"], len(eqn.params["call"].axes)
    if not any(wanted):
        return [False for _ in eqn.invars], None
    if len(eqn.invars) > number or all(wanted):
        return [True for _ in eqn.invars], eqn
    made, used = call.reduced(tuple(wanted))
    inputs = [eqn.invars[i] for i in used]
    outputs = [v for v, is_wanted in zip(eqn.outvars, wanted, strict=True) if is_wanted]
    params = {**eqn.params, "call": made}
    return [i in used for i in range(number)], eqn.replace(invars=inputs, outvars=outputs, params=params)


def _unrolled(arithmetic: Arithmetic, eqn: Any, *operands: np.ndarray) -> list[np.ndarray]:
    """The rule of scalars: one element (a point of the element that is a straight line) after the other."""
    call = eqn.params["call"]
    consts = [entries(c) for c in call.consts]
    each = []
    for i in range(eqn.params["count"]):
        own = [x if axis is None else x[i, ...] for x, axis in zip(operands, call.axes, strict=True)]
        each.append(run(arithmetic, call.jaxpr, consts, own))
    return [np.stack(parts) for parts in zip(*each, strict=True)]


_mapped_p = Primitive("jaxmech_mapped")
_mapped_p.multiple_results = True
_mapped_p.def_impl(lambda *operands, **params: jax.jit(lambda *given: _mapped_p.bind(*given, **params))(*operands))
_mapped_p.def_abstract_eval(_abstract)
ad.primitive_jvps[_mapped_p] = _jvp
ad.primitive_transposes[_mapped_p] = _transpose
batching.primitive_batchers[_mapped_p] = _batch
partial_eval.dce_rules[_mapped_p] = _without_unused
mlir.register_lowering(_mapped_p, mlir.lower_fun(_evaluate, multiple_results=True))
RULES[_mapped_p.name] = _unrolled
