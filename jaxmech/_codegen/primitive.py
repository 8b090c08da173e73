"""The program of one element mapped over all of them: one JAX primitive, whose derivatives are such programs again.

Differentiating the mapped program as it is would differentiate arrays of all elements, operation by operation, and keep
every one of them for reverse mode. What is differentiated is the program of one element: its tangent and its transpose run
as scalarised programs too, and start from the inputs alone.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._llvm.ffi import compile_on_cpu
from .._runtime.array_types import Array
from .._runtime.devices import on_cpu
from .._runtime.jax_internals import (
    Primitive,
    ShapedArray,
    define,
    instantiate_zeros,
    is_undefined_primal,
    is_zero,
    zero_tangent,
)
from .._runtime.plain_form import first_that_works
from .._runtime.reverse_mode import kept
from .batching import AbstractSceneProgram, Own, in_front, map_scenes
from .called_elements import are_called, called_elements
from .dispatch import are_few, evaluated, summed_by_kernel, vmapped_and_summed
from .folding import Nodes, folded_elements, node_arrays, plan_of, read
from .operation_count import is_worth_keeping
from .plain_rules import or_plain, plain_batch, plain_jvp, plain_transpose
from .program.element_jaxpr import ElementProgram, Parted
from .program.nodal_gather import NodeRows
from .program.nodal_scatter import NodeSums
from .program.scatter_plan import AbstractElementSums
from .scalarize.arithmetic import AbstractArithmetic, NotScalarisable
from .scalarize.array_arithmetic import entries
from .scalarize.interpreter import run
from .scalarize.rules import RULES


def map_program(
    program: ElementProgram,
    count: int,
    arrays: Sequence[Any],
    sums: AbstractElementSums | None = None,
    *,
    divides: bool = False,
) -> list[Any]:
    """The outputs of a program for `count` elements; with `sums`, not the first of them but their sums.

    `arrays`: those that the program has an argument for; of some, `NodeRows`. `divides`: each device does its share.
    """
    numbers: list[Any] = []
    nodes = [_place(numbers, a.nodes) if isinstance(a, NodeRows) else None for a in arrays]
    values = [a.values if isinstance(a, NodeRows) else a for a in arrays]
    leaves, structure = jax.tree.flatten(sums)
    static = {"call": program, "count": count, "nodes": tuple(nodes), "sums": structure, "divides": divides}
    return _mapped_p.bind(*values, *numbers, *leaves, **static)


def _place(numbers: list[Any], nodes: Any) -> int:
    """Where an array is in a list, in which it is put if it is not there."""
    known = next((i for i, a in enumerate(numbers) if a is nodes), len(numbers))
    if known == len(numbers):
        numbers.append(nodes)
    return known


def _evaluate(*operands, call, count, nodes, sums, divides, by_kernel=False):
    arrays, plan = plan_of(operands, nodes, sums)
    return first_that_works(
        call,
        lambda: evaluated(call, count, arrays, plan, divides=divides, by_kernel=by_kernel),
        lambda: vmapped_and_summed(call, count, arrays, plan),
    )


def _plain(*operands, call, count, nodes, sums, divides):
    del divides
    arrays, plan = plan_of(operands, nodes, sums)
    return vmapped_and_summed(call, count, arrays, plan)


def _abstract(*operands, call, count, nodes, sums, divides):
    del divides
    outputs = [jax.ShapeDtypeStruct((count, *v.aval.shape), v.aval.dtype) for v in call.jaxpr.outvars]
    leaves = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in operands[len(nodes) + node_arrays(nodes) :]]
    if leaves:
        outputs = jax.eval_shape(lambda plan, outputs: plan.applied(outputs), jax.tree.unflatten(sums, leaves), outputs)
    return [ShapedArray(a.shape, a.dtype) for a in outputs]


def _jvp(primals, tangents, *, call, count, nodes, sums, divides):
    arrays, plan = plan_of(primals, nodes, sums)
    moving = tuple(i for i, t in enumerate(tangents[: len(arrays)]) if not is_zero(t))
    parted = call.parted(moving) if moving and is_worth_keeping(call) else None
    if parted is not None:
        return _parted_jvp(parted, len(call.jaxpr.outvars), count, arrays, [tangents[i] for i in moving])
    outputs = _mapped_p.bind(*primals, call=call, count=count, nodes=nodes, sums=sums, divides=divides)
    rates = [zero_tangent(a) for a in outputs]
    if moving:
        summed = 0 if plan is None else plan.summed
        tangent, used, moved = call.tangent(moving, summed)
        inputs = [*arrays, *(_like(arrays[i], tangents[i]) for i in moving)]
        found = map_program(tangent, count, [inputs[i] for i in used], plan, divides=divides)
        # As many sums as there are, and the others that move.
        added = len(outputs) - len(call.jaxpr.outvars)
        places = [*range(summed + added), *(i + added for i in moved[summed:])]
        for i, rate in zip(places, found, strict=True):
            rates[i] = rate
    return outputs, rates


def _parted_jvp(
    parted: Parted, results: int, count: int, arrays: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The same of a step, of which reverse mode keeps something."""
    found = map_program(parted.with_kept, count, [arrays[i] for i in parted.read])
    outputs, inputs = found[:results], [*arrays, *kept(found[results:]), *tangents]
    rates = [zero_tangent(a) for a in outputs]
    moved = map_program(parted.tangent, count, [inputs[i] for i in parted.used])
    for i, rate in zip(parted.moved, moved, strict=True):
        rates[i] = rate
    return outputs, rates


def _like(array: Any, values: Any) -> Any:
    """Values at the nodes at which another array is read, if it is read at nodes."""
    return NodeRows(values, array.nodes) if isinstance(array, NodeRows) else values


def _transpose(cotangents, *operands, call, count, nodes, sums, divides):
    arrays, plan = plan_of(operands, nodes, sums)
    linear = [i for i, a in enumerate(operands[: len(nodes)]) if is_undefined_primal(a)]
    # First those that are added up at nodes, which kernels do as they go.
    at_nodes = [i for i in linear if call.axes[i] == 0 and isinstance(arrays[i], NodeRows)]
    linear = (*at_nodes, *(i for i in linear if i not in at_nodes))
    if plan is not None:
        cotangents = _of_elements(cotangents, call, count, plan)
    given = tuple(i for i, c in enumerate(cotangents) if not is_zero(c))
    pulled: list[Any] = [None for _ in operands]
    if given:
        transposed, used = call.transposed(linear, given)
        inputs = [*(a for i, a in enumerate(arrays) if i not in linear), *(cotangents[i] for i in given)]
        sums = None
        if at_nodes:
            added = [arrays[i] for i in at_nodes]
            sums = NodeSums(tuple(a.nodes for a in added), tuple(a.values.aval.shape[0] for a in added))
        found = map_program(transposed, count, [inputs[i] for i in used], sums, divides=divides)
        for i, cotangent in zip(linear, found, strict=True):
            if i in at_nodes:
                pulled[i] = cotangent
            else:
                pulled[i] = _of_values(arrays[i], cotangent) if call.axes[i] == 0 else jnp.sum(cotangent, axis=0)
    return pulled


def _of_values(array: Any, cotangent: Array) -> Array:
    """The cotangent of what stands at the nodes, from that of the rows."""
    if not isinstance(array, NodeRows):
        return cotangent
    values = jax.ShapeDtypeStruct(array.values.aval.shape, array.values.aval.dtype)
    return jax.linear_transpose(lambda values: NodeRows(values, array.nodes).whole(), values)(cotangent)[0]


def _of_elements(cotangents: Sequence[Any], call: ElementProgram, count: int, plan: AbstractElementSums) -> list[Any]:
    """The cotangents of what the elements give, from those of its sums."""
    avals = [v.aval for v in call.jaxpr.outvars[: plan.summed]]
    blocks = [jax.ShapeDtypeStruct((count, *aval.shape), aval.dtype) for aval in avals]
    others = len(call.jaxpr.outvars) - plan.summed
    of_sums = [instantiate_zeros(c) for c in cotangents[: len(cotangents) - others]]
    (spread,) = jax.linear_transpose(plan.of_all, blocks)(of_sums)
    return [*spread, *cotangents[len(cotangents) - others :]]


def _batch(operands, dimensions, *, call, count, nodes, sums, divides):
    operands, own = in_front(operands, dimensions)
    size = next(a.shape[0] for a, mine in zip(operands, own, strict=True) if mine)
    has_sums = len(operands) > len(nodes) + node_arrays(nodes)
    if has_sums and (are_few(count) or not on_cpu()):

        def in_any_order(*operands):
            arrays, plan = plan_of(operands, nodes, sums)
            assert plan is not None
            return plan.applied(map_program(call, count, arrays, divides=divides))

        found = jax.vmap(in_any_order, [0 if mine else None for mine in own])(*operands)
    elif has_sums:
        found = map_scenes(_Sums(call, count, nodes, sums, divides), own, operands)
    else:
        arrays, own = read(operands, own, nodes)
        axes, folded = folded_elements(size, count, call.axes, arrays, own)
        found = map_program(call.with_axes(tuple(axes)), size * count, folded, divides=divides)
        found = [a.reshape(size, count, *a.shape[1:]) for a in found]
    return found, [0 for _ in found]


@dataclasses.dataclass(frozen=True)
class _Sums(AbstractSceneProgram):
    """Those of the elements of one scene, and what is not summed."""

    call: ElementProgram
    count: int
    nodes: Nodes
    sums: Any
    divides: bool

    @property
    def owner(self) -> ElementProgram:
        return self.call

    def of_one(self, *operands: Array) -> list[Array]:
        params = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return _mapped_p.bind(*operands, **params)

    def of_all(self, operands: Sequence[Array], own: Own) -> list[Array]:
        leaves = len(self.nodes) + node_arrays(self.nodes)
        if self.divides or any(own[leaves:]):
            raise NotScalarisable("sums of scenes that are divided over devices, or have plans of their own")
        one = [jax.ShapeDtypeStruct(a.shape[mine:], a.dtype) for a, mine in zip(operands, own, strict=True)]
        arrays, plan = plan_of(operands, self.nodes, self.sums)
        examples, _ = plan_of(one, self.nodes, self.sums)
        assert plan is not None
        of_operand = {id(a): mine for a, mine in zip(operands, own, strict=True)}
        return summed_by_kernel(self.call, self.count, arrays, examples, plan.places(), of_operand)


def _without_unused(wanted, eqn):
    """Dead-code elimination: the equation without outputs that nobody reads; where that fails, as it is."""
    everything = [True for _ in eqn.invars], eqn
    return first_that_works(eqn.params["call"], lambda: _only_wanted(wanted, eqn), lambda: everything)


def _only_wanted(wanted, eqn):
    call, nodes = eqn.params["call"], eqn.params["nodes"]
    if not any(wanted):
        return [False for _ in eqn.invars], None
    if len(eqn.invars) > len(nodes) + node_arrays(nodes) or all(wanted):
        return [True for _ in eqn.invars], eqn
    made, used = call.reduced(tuple(wanted))
    read = sorted({nodes[i] for i in used if nodes[i] is not None})
    kept = [*used, *(len(nodes) + number for number in read)]
    outputs = [v for v, is_wanted in zip(eqn.outvars, wanted, strict=True) if is_wanted]
    places = tuple(None if nodes[i] is None else read.index(nodes[i]) for i in used)
    params = {**eqn.params, "call": made, "nodes": places}
    inputs = [eqn.invars[i] for i in kept]
    return [i in kept for i in range(len(eqn.invars))], eqn.replace(invars=inputs, outvars=outputs, params=params)


def _scalars(arithmetic: AbstractArithmetic, eqn: Any, *operands: np.ndarray) -> list[np.ndarray]:
    """The rule of scalars: one element (a point of the element that is scalarised) after the other, or a loop over them."""
    call = eqn.params["call"]
    if arithmetic.calls and are_called(eqn):
        return called_elements(arithmetic, eqn, operands)
    if len(operands) > len(call.axes):  # with numbers of nodes, or sums
        avals = tuple(v.aval for v in eqn.invars)
        form = avals, eqn.params["count"], eqn.params["nodes"], eqn.params["sums"]
        plain = call.once(("plain", *form), lambda: jax.make_jaxpr(functools.partial(_plain, **eqn.params))(*avals))
        return run(arithmetic, plain.jaxpr, [entries(c) for c in plain.consts], list(operands))
    consts = [entries(c) for c in call.consts]
    each = []
    for i in range(eqn.params["count"]):
        own = [x if axis is None else x[i, ...] for x, axis in zip(operands, call.axes, strict=True)]
        each.append(run(arithmetic, call.jaxpr, consts, own))
    return [np.stack(parts) for parts in zip(*each, strict=True)]


_mapped_p = Primitive("jaxmech_mapped")
_mapped_p.multiple_results = True
_mapped_p.def_abstract_eval(_abstract)
define(
    _mapped_p,
    jvp=or_plain(_jvp, plain_jvp, _plain),
    transpose=or_plain(_transpose, plain_transpose, _plain),
    batch=or_plain(_batch, plain_batch, _plain),
    unused=_without_unused,
)
compile_on_cpu(_mapped_p, _evaluate, functools.partial(_evaluate, by_kernel=True))
RULES[_mapped_p.name] = _scalars
