"""A JAX function of one element, run as a program of scalars for many elements at once."""

import functools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._runtime.jax_internals import Literal
from .arithmetic import AbstractArithmetic, Branch, NotScalarisable, is_number
from .array_arithmetic import entries
from .expansion import expanded, expands, inner_programs
from .known_numbers import Scalars, boxed, evaluated, known
from .listing import divided, listed
from .loops import looped, repeated
from .reductions import folded
from .rules import RULES
from .supported import CALLS, ELEMENTWISE, check

_printed: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # branches, which many kernels share


def run(
    arithmetic: AbstractArithmetic, jaxpr: Any, consts: Sequence[Scalars], arguments: Sequence[Scalars]
) -> list[Scalars]:
    """The outputs of a jaxpr; an array of scalars for every array.

    Raises `NotScalarisable` for what `supported` does not list (random numbers, what the host does).
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
        return looped(arithmetic, eqn, operands, run)
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
    if name == "while":
        return repeated(arithmetic, eqn, operands, run)
    raise NotScalarisable(f"{name} as a program of scalars")


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


def _chosen(arithmetic: AbstractArithmetic, eqn: Any, operands: list[Scalars]) -> list[Scalars]:
    """A conditional: its first branch is computed for all elements, each other for those that take it, or one after it, if
    there are any."""
    which, inputs, branches = operands[0][()], operands[1:], eqn.params["branches"]
    avals = [v.aval for v in eqn.outvars]
    dtypes = [aval.dtype for aval in avals for _ in range(aval.size)]

    def branch(number: int) -> Branch:
        program = branches[number]

        def results(arithmetic: AbstractArithmetic, scalars: list[Any]) -> list[Any]:
            outputs = run(arithmetic, program.jaxpr, [entries(c) for c in program.consts], divided(scalars[1:], inputs))
            return listed(outputs)

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

    scalars = [which, *listed(inputs)]
    if is_number(which):
        return divided(branch(int(np.clip(which, 0, len(branches) - 1)))(arithmetic, scalars), avals)
    name = f"cond {list(map(_text, branches))}"
    return divided(arithmetic.once(name, scalars, functools.partial(from_branch(0), arithmetic, scalars)), avals)


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
