"""A JAX function of one element, run as a program of scalars for many elements at once."""

import functools
import weakref
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._runtime.jax_internals import Literal, Tracer, scan_sizes
from .arithmetic import AbstractArithmetic, Branch, NotScalarisable, is_number
from .array_arithmetic import ArrayArithmetic, stacked
from .expansion import expanded, expands
from .known_numbers import Scalars, boxed, evaluated, known
from .reductions import folded
from .rules import RULES
from .supported import CALLS, ELEMENTWISE, check, kind

_MANY_TIMES = 64  # beyond which a loop is not written out that does not ask for it
_printed: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # branches, which many kernels share


def run(
    arithmetic: AbstractArithmetic, jaxpr: Any, consts: Sequence[Scalars], arguments: Sequence[Scalars]
) -> list[Scalars]:
    """The outputs of a jaxpr; an array of scalars for every array.

    Raises `NotScalarisable` for what `supported` does not list (factorisations, data-dependent loops).
    """
    values: dict[Any, Scalars] = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Scalars:
        if not isinstance(atom, Literal):
            return values[atom]
        return boxed(np.asarray(atom.val, atom.aval.dtype))  # pyright: ignore[reportAttributeAccessIssue]

    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        values.update(zip(eqn.outvars, _apply(arithmetic, eqn, operands), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(arithmetic: AbstractArithmetic, eqn: Any, operands: list[Scalars]) -> list[Scalars]:
    check(eqn)
    name = eqn.primitive.name
    if name == "custom_linear_solve":
        operands = _of_its_solve(eqn, operands)
    if name in CALLS:
        (inner,) = inner_programs(eqn)
        closed = hasattr(inner, "consts")
        consts = [entries(c) for c in inner.consts] if closed else []
        return run(arithmetic, inner.jaxpr if closed else inner, consts, operands)
    if name == "cond":
        return _chosen(arithmetic, eqn, operands)
    if name == "scan":
        return _looped(arithmetic, eqn, operands)
    if name == "reduce":
        (inner,) = inner_programs(eqn)
        return folded(arithmetic, eqn, operands, lambda scalars: run(arithmetic, inner, [], scalars))
    if expands(name):
        program = expanded(eqn)
        return run(arithmetic, program.jaxpr, [entries(c) for c in program.consts], operands)
    if name in RULES:
        return RULES[name](arithmetic, eqn, *operands)
    if all(is_number(x) for operand in operands for x in operand.flat):
        numbers = [known(x, v.aval.dtype) for x, v in zip(operands, eqn.invars, strict=True)]
        return [boxed(outcome) for outcome in evaluated(eqn, *numbers)]
    raise NotScalarisable(f"{name} as a program of scalars")


def inner_programs(eqn: Any) -> Sequence[Any]:
    """The programs that an equation calls, if it calls any: one, or those that it chooses from."""
    if expands(eqn.primitive.name):
        return [expanded(eqn)]
    one = [eqn.params[key] for key in ("jaxpr", "call_jaxpr", "call") if key in eqn.params]
    if "jaxprs" in eqn.params:
        one = [eqn.params["jaxprs"].solve]
    return one or eqn.params.get("branches", ())


def _of_its_solve(eqn: Any, operands: list[Scalars]) -> list[Scalars]:
    """What the solution of a linear system reads: constants of its own, and the right-hand sides."""
    counts = eqn.params["const_lengths"]
    before, after = counts.matvec + counts.vecmat, sum(counts)
    return [*operands[before : before + counts.solve], *operands[after:]]


def is_pointwise(eqn: Any) -> bool:
    """Whether every entry of the one result of an equation is made of the entries at its place alone, and of scalars."""
    shape = eqn.outvars[0].aval.shape
    if len(eqn.outvars) != 1 or any(v.aval.shape not in (shape, ()) for v in eqn.invars):
        return False
    if eqn.primitive.name in CALLS:
        programs = (getattr(program, "jaxpr", program) for program in inner_programs(eqn))
        return all(is_pointwise(inner) for program in programs for inner in program.eqns)
    return eqn.primitive.name in ELEMENTWISE


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


def _chosen(arithmetic: AbstractArithmetic, eqn: Any, operands: list[Scalars]) -> list[Scalars]:
    """A conditional: its first branch is computed for all elements, each other for those that take it, or one after it, if
    there are any."""
    which, inputs, branches = operands[0][()], operands[1:], eqn.params["branches"]
    avals = [v.aval for v in eqn.outvars]
    dtypes = [aval.dtype for aval in avals for _ in range(aval.size)]

    def branch(number: int) -> Branch:
        program = branches[number]

        def results(arithmetic: AbstractArithmetic, scalars: list[Any]) -> list[Any]:
            outputs = run(arithmetic, program.jaxpr, [entries(c) for c in program.consts], _divided(scalars[1:], inputs))
            return [x for output in outputs for x in output.flat]

        return results

    def from_branch(number: int) -> Branch:
        """That of this number or, where a later one is asked for, of those after it."""
        if number == len(branches) - 1:
            return branch(number)

        def results(arithmetic: AbstractArithmetic, scalars: list[Any]) -> list[Any]:
            is_later = scalars[0]
            if is_later.dtype.kind != "b":
                is_later = arithmetic.combine("gt", bool, is_later, is_later.dtype.type(number))
            return arithmetic.chosen(is_later, branch(number), from_branch(number + 1), scalars, dtypes)

        return results

    scalars = [which, *(x for operand in inputs for x in operand.flat)]
    if is_number(which):
        return _divided(branch(int(np.clip(which, 0, len(branches) - 1)))(arithmetic, scalars), avals)
    name = f"cond {list(map(_text, branches))}"
    return _divided(arithmetic.once(name, scalars, functools.partial(from_branch(0), arithmetic, scalars)), avals)


def _text(program: Any) -> str:
    """What tells a program from others: how it is printed, with all programs in it, and what is not printed."""
    jaxpr = getattr(program, "jaxpr", program)
    if jaxpr not in _printed:
        _printed[jaxpr] = str(jaxpr)
    return f"{_printed[jaxpr]} {_unprinted(program)}"


def _unprinted(program: Any) -> list[Any]:
    """Constants, by identity, for the program holds them, and all digits of its numbers; and those of programs in it."""
    jaxpr = getattr(program, "jaxpr", program)
    constants = [id(c) for c in getattr(program, "consts", ())]
    literals = [np.asarray(v.val).tobytes() for eqn in jaxpr.eqns for v in eqn.invars if isinstance(v, Literal)]
    return [constants, literals, [_unprinted(inner) for eqn in jaxpr.eqns for inner in inner_programs(eqn)]]


def _divided(scalars: Sequence[Any], like: Sequence[Any]) -> list[Scalars]:
    """Arrays of scalars of the shapes of others, from the list of all of them."""
    remaining, results = iter(scalars), [np.empty(a.shape, object) for a in like]
    for result in results:
        for place in np.ndindex(result.shape):
            result[place] = next(remaining)
    return results


def _lanes(operands: Sequence[Scalars]) -> tuple[int, ...]:
    return next((x.shape for operand in operands for x in operand.flat if x.shape), ())


def _looped(arithmetic: AbstractArithmetic, eqn: Any, operands: list[Scalars]) -> list[Scalars]:
    length = eqn.params["length"]
    if eqn.params["unroll"] >= length > 0:
        return _unrolled(arithmetic, eqn, operands)
    if arithmetic.keeps_loops:
        return _scan(eqn, operands)
    if not 0 < length <= _MANY_TIMES:
        raise NotScalarisable(f"{length} times the same")
    return _unrolled(arithmetic, eqn, operands)


def _parts(params: dict[str, Any], operands: list[Scalars]) -> list[list[Scalars]]:
    """What a loop does not change, its state, and what it reads one after the other."""
    constants, states = scan_sizes(params)
    return [operands[:constants], operands[constants : constants + states], operands[constants + states :]]


def _unrolled(arithmetic: AbstractArithmetic, eqn: Any, operands: list[Scalars]) -> list[Scalars]:
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


def _scan(eqn: Any, operands: list[Scalars]) -> list[Scalars]:
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
