"""Elements that a step of a whole scene maps: in its kernel they are written out, or a call of the loop over them."""

from collections.abc import Sequence
from typing import Any

import jax

from .._runtime.jax_internals import ClosedJaxpr
from .dispatch import kernel_of
from .folding import node_arrays, plan_of
from .llvm.element_loop import called_loop
from .llvm.vector import WIDTH
from .operation_count import length_as_kernel
from .program.nodal_gather import NodeRows
from .program.scatter_plan import Places
from .scalarize.arithmetic import AbstractArithmetic
from .scalarize.array_arithmetic import entries
from .scalarize.interpreter import run
from .scalarize.known_numbers import Scalars

# Operations of all of them, up to which they are written out: what is known of each is folded, and nothing goes by memory.
_SHORT = 2_000


def are_called(eqn: Any) -> bool:
    """Whether the elements that an equation maps are a call."""
    call, count = eqn.params["call"], eqn.params["count"]
    return count >= WIDTH and any(axis is not None for axis in call.axes) and count * length_as_kernel(call) > _SHORT


def called_elements(arithmetic: AbstractArithmetic, eqn: Any, operands: Sequence[Scalars]) -> list[Scalars]:
    """The results of an equation that maps elements: by the kernel that XLA would call."""
    call, count, nodes = (eqn.params[name] for name in ("call", "count", "nodes"))
    form = tuple(v.aval for v in eqn.invars), count, nodes, eqn.params["sums"]
    rows, places = call.once(("rows", *form), lambda: _rows(eqn))
    numbers_of_rows = run(arithmetic, rows.jaxpr, [entries(c) for c in rows.consts], operands)
    arrays, _ = plan_of(list(map(_shape, form[0])), nodes, eqn.params["sums"])
    kernel = kernel_of(call, arrays, places, count)
    there = [a.values.shape[0] for a in arrays if isinstance(a, NodeRows)]
    read = [*operands[: len(nodes) + node_arrays(nodes)], *numbers_of_rows]
    numbers = [0, count, 0, *(p.rows for p in places), *there]
    return called_loop(arithmetic, kernel.loop, read, [v.aval for v in eqn.outvars], numbers)


def _rows(eqn: Any) -> tuple[ClosedJaxpr, list[Places]]:
    """The numbers of the rows of sums to which elements add, from what an equation reads; and the same as shapes."""
    places: list[Places] = []

    def numbers(*operands: Any) -> list[Any]:
        _, plan = plan_of(operands, eqn.params["nodes"], eqn.params["sums"])
        found = [] if plan is None else plan.places()
        places.extend(p._replace(slots=_shape(p.slots), mirror=_shape(p.mirror)) for p in found)
        return [a for p in found for a in (p.slots, p.mirror) if a is not None]

    return jax.make_jaxpr(numbers)(*(v.aval for v in eqn.invars)), places


def _shape(a: Any) -> Any:
    return None if a is None else jax.ShapeDtypeStruct(a.shape, a.dtype)
