"""Loops of a program of scalars: written out, kept as they are, or of a length that is not known."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._runtime.jax_internals import Literal, scan_sizes
from .arithmetic import AbstractArithmetic, Branch, NotScalarisable, is_number
from .array_arithmetic import ArrayArithmetic, entries, stacked
from .expansion import inner_programs
from .factorisation import chosen
from .known_numbers import Scalars, boxed
from .listing import divided, listed

Run = Callable[[AbstractArithmetic, Any, Sequence[Scalars], Sequence[Scalars]], list[Scalars]]  # of the interpreter

_MANY_TIMES = 64  # beyond which a loop is not written out that does not ask for it
# Results that a loop would have written out: of more, LLVM takes longer for them than rounds of a loop do.
_LONG = 4_000
# The same of elements, of which most directions are nil in most rounds: those of an arm of seven hinges, up to
# 24,500 results, run two to three times as long where they are loops.
_LONG_OF_ELEMENTS = 32_000
_WORTH_MEMORY = 8  # entries, below which a choice is as good


def looped(arithmetic: AbstractArithmetic, eqn: Any, operands: list[Scalars], run: Run) -> list[Scalars]:
    """A loop of known length."""
    length = eqn.params["length"]
    if eqn.params["unroll"] >= length > 0:
        return _unrolled(arithmetic, eqn, operands, run)
    if arithmetic.keeps_loops:
        return _scan(eqn, operands, run)
    if is_kept(eqn, _LONG if arithmetic.calls else _LONG_OF_ELEMENTS):
        return _counted(arithmetic, eqn, operands, run)
    if not 0 < length <= _MANY_TIMES:
        raise NotScalarisable(f"{length} times the same")
    return _unrolled(arithmetic, eqn, operands, run)


def is_kept(eqn: Any, longest: int = _LONG) -> bool:
    """Whether a loop of known length stays one in a kernel: a long one that hands little from round to round."""
    length, body = eqn.params["length"], eqn.params["jaxpr"].jaxpr
    consts, states = scan_sizes(eqn.params)
    rows = sum(v.aval.size for v in (*eqn.invars[consts + states :], *eqn.outvars[states:]))
    if length < 2 or eqn.params["unroll"] >= length or (rows and length > _MANY_TIMES):
        return False
    size = _size(body)
    return length * size > longest and (length - 1) * size > 2 * rows


def _size(jaxpr: Any) -> int:
    """How many results the equations of a program have."""
    total = 0
    for eqn in jaxpr.eqns:
        inner = [getattr(program, "jaxpr", program) for program in inner_programs(eqn)]
        times = eqn.params.get("count", 1) * eqn.params.get("length", 1) if inner else 1
        total += times * sum(map(_size, inner)) if inner else sum(v.aval.size for v in eqn.outvars)
    return total


def _parts(params: dict[str, Any], operands: list[Scalars]) -> list[list[Scalars]]:
    """What a loop does not change, its state, and what it reads one after the other."""
    constants, states = scan_sizes(params)
    return [operands[:constants], operands[constants : constants + states], operands[constants + states :]]


def _unrolled(arithmetic: AbstractArithmetic, eqn: Any, operands: list[Scalars], run: Run) -> list[Scalars]:
    """A loop written out. Equal operations of two loops then are one, as everywhere."""
    params, body = eqn.params, eqn.params["jaxpr"]
    consts, state, sequences = _parts(params, operands)
    states, order = len(state), range(params["length"])
    collected = {}
    for i in reversed(order) if params["reverse"] else order:
        inputs = [*consts, *state, *(x[i, ...] for x in sequences)]
        outputs = run(arithmetic, body.jaxpr, [entries(c) for c in body.consts], inputs)
        state, collected[i] = outputs[:states], outputs[states:]
    return [*state, *map(np.stack, zip(*(collected[i] for i in order), strict=True))]


def _counted(arithmetic: AbstractArithmetic, eqn: Any, operands: list[Scalars], run: Run) -> list[Scalars]:
    """A loop of known length as one that counts: what a round reads, and where its results go, its number says."""
    params, body = eqn.params, eqn.params["jaxpr"]
    consts, state, sequences = _parts(params, operands)
    states, length = len(state), np.int32(params["length"])
    own = [entries(c) for c in body.consts]
    rows = [boxed(np.zeros(v.aval.shape, v.aval.dtype)) for v in eqn.outvars[states:]]
    start = [boxed(np.int32(0)), *state, *rows]
    for x in sequences:
        arithmetic.prepare(x.reshape(-1))

    def going(arithmetic: AbstractArithmetic, scalars: list[Any]) -> list[Any]:
        return [arithmetic.combine("lt", bool, scalars[0], length)]

    def advanced(arithmetic: AbstractArithmetic, scalars: list[Any]) -> list[Any]:
        at, *arrays = divided(scalars, start)
        number, rows = at[()], arrays[states:]
        place = arithmetic.combine("sub", np.int32, np.int32(length - 1), number) if params["reverse"] else number
        current = [_row_at(arithmetic, place, x) for x in sequences]
        outputs = run(arithmetic, body.jaxpr, own, [*consts, *arrays[:states], *current])
        written = [_with_row(arithmetic, place, x, new) for x, new in zip(rows, outputs[states:], strict=True)]
        return [arithmetic.combine("add", np.int32, number, np.int32(1)), *listed([*outputs[:states], *written])]

    avals = [v.aval for v in eqn.outvars]
    dtypes = [np.dtype(np.int32), *(aval.dtype for aval in avals for _ in range(aval.size))]
    written = _places(avals, [k >= states and _is_worth_memory(aval) for k, aval in enumerate(avals)], 1)
    return divided(arithmetic.repeated(going, advanced, listed(start), dtypes, written), start)[1:]


def _row_at(arithmetic: AbstractArithmetic, place: Any, x: Scalars) -> Scalars:
    """The row of an array that has a number: read there, or chosen."""
    result, size, scalars = x[0, ...].copy(), x[0, ...].size, x.reshape(-1)
    for k, at in enumerate(np.ndindex(result.shape)):
        read = None
        if arithmetic.has_places:
            first = arithmetic.combine("mul", np.int32, place, np.int32(size))
            read = arithmetic.read(scalars, slice(k, k + x.size - size + 1), first)
        if read is None:
            read = result[at]
            for number, is_here in _others(arithmetic, place, len(x)):
                read = _either(arithmetic, is_here, x[(number, *at)], read)
        result[at] = read
    return result


def _with_row(arithmetic: AbstractArithmetic, place: Any, x: Scalars, new: Scalars) -> Scalars:
    """An array with another row there."""
    result, first = x.copy(), arithmetic.combine("mul", np.int32, place, np.int32(new.size))
    written = arithmetic.write(list(x.flat), first, list(enumerate(new.flat)), np.True_)
    if written is not None:
        result.flat[:] = written
        return result
    for number in range(len(x)):
        is_here = arithmetic.combine("eq", bool, place, np.int32(number))
        for at in np.ndindex(new.shape):
            result[(number, *at)] = chosen(arithmetic, is_here, new[at], x[(number, *at)])
    return result


def _others(arithmetic: AbstractArithmetic, place: Any, count: int) -> list[tuple[int, Any]]:
    """The numbers after the first, and whether each is the place."""
    return [(k, arithmetic.combine("eq", bool, place, np.int32(k))) for k in range(1, count)]


def _either(arithmetic: AbstractArithmetic, is_here: Any, a: Any, b: Any) -> Any:
    """One of two scalars, or what they both are."""
    are_equal = a is b or (is_number(a) and is_number(b) and a.tobytes() == b.tobytes())
    return b if are_equal else chosen(arithmetic, is_here, a, b)


def _scan(eqn: Any, operands: list[Scalars], run: Run) -> list[Scalars]:
    """A loop of known length over the scalars of its state."""
    params, lanes = eqn.params, _lanes(operands)
    body, (consts, state, sequences) = params["jaxpr"], _parts(params, operands)
    states, dtypes = len(state), [v.aval.dtype for v in body.jaxpr.outvars]

    def packed(outputs: list[Scalars], types: Any) -> list[jax.Array]:
        return [stacked(x, dtype, lanes) for x, dtype in zip(outputs, types, strict=True)]

    def step(carry, current):
        inputs = [*consts, *(entries(a, bool(lanes)) for a in (*carry, *current))]
        outputs = run(ArrayArithmetic(keeps_loops=True), body.jaxpr, [entries(c) for c in body.consts], inputs)
        return packed(outputs[:states], dtypes[:states]), packed(outputs[states:], dtypes[states:])

    per_step = [
        jnp.stack([stacked(x[i, ...], v.aval.dtype, lanes) for i in range(params["length"])])
        for x, v in zip(sequences, eqn.invars[len(consts) + states :], strict=True)
    ]
    start = packed(state, dtypes[:states])
    end, collected = jax.lax.scan(step, start, per_step, params["length"], params["reverse"], params["unroll"])
    results = [entries(a, bool(lanes)) for a in end]
    for a in collected:
        results.append(np.stack([entries(a[i], bool(lanes)) for i in range(params["length"])]))
    return results


def _lanes(operands: Sequence[Scalars]) -> tuple[int, ...]:
    return next((x.shape for operand in operands for x in operand.flat if x.shape), ())


def repeated(arithmetic: AbstractArithmetic, eqn: Any, operands: list[Scalars], run: Run) -> list[Scalars]:
    """A loop whose length is not known."""
    p = eqn.params
    conditions, bodies = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    start = operands[bodies:]

    def part(program: Any, constants: list[Scalars]) -> Branch:
        own = [entries(c) for c in program.consts]

        def results(arithmetic: AbstractArithmetic, scalars: list[Any]) -> list[Any]:
            return listed(run(arithmetic, program.jaxpr, own, [*constants, *divided(scalars, start)]))

        return results

    going, advanced = part(p["cond_jaxpr"], operands[:conditions]), part(p["body_jaxpr"], operands[conditions:bodies])
    avals = [v.aval for v in eqn.outvars]
    dtypes = [aval.dtype for aval in avals for _ in range(aval.size)]
    return divided(arithmetic.repeated(going, advanced, listed(start), dtypes, _written(p["body_jaxpr"], avals)), avals)


def _written(body: Any, avals: Sequence[Any]) -> list[slice]:
    """Where, among the scalars of arrays, those are to which the rounds of a loop write at places that are computed."""
    kinds = _kinds_written(body.jaxpr)
    return _places(avals, [(aval.shape, aval.dtype) in kinds and _is_worth_memory(aval) for aval in avals], 0)


def _is_worth_memory(aval: Any) -> bool:
    return aval.size >= _WORTH_MEMORY and aval.dtype.kind != "b"


def _places(avals: Sequence[Any], flags: Sequence[bool], first: int) -> list[slice]:
    """Where the scalars of some arrays are in the list of all, from the first on."""
    begins = np.cumsum([first, *(aval.size for aval in avals)])
    return [slice(int(b), int(b) + aval.size) for b, aval, flag in zip(begins, avals, flags, strict=False) if flag]


def _kinds_written(jaxpr: Any) -> set[tuple[Any, Any]]:
    """Shapes and types of the arrays that a program writes to at places that it computes."""
    found = set()
    for eqn in jaxpr.eqns:
        for program in inner_programs(eqn):
            found |= _kinds_written(getattr(program, "jaxpr", program))
        places = {"dynamic_update_slice": eqn.invars[2:], "scatter": eqn.invars[1:2]}.get(eqn.primitive.name, [])
        if any(not isinstance(v, Literal) for v in places):
            found.add((eqn.invars[0].aval.shape, eqn.invars[0].aval.dtype))
    return found
