"""How long a program of one element is, by which its form is chosen."""

import math
import weakref
from collections.abc import Sequence
from typing import Any

from .._runtime.jax_internals import Literal
from .llvm.shared_product import WORTH
from .program.element_jaxpr import ElementProgram
from .scalarize.expansion import inner_programs
from .scalarize.factorisation import LIBRARY

# To hand on what is kept takes a microsecond or two of a step and its gradient. Those of tops and pendulums by explicit
# schemes, up to 55,000 operations, gain a tenth at most (9.1 us for 10.2) and lose up to a half (5.2 for 3.4). By Newton's
# method, of 21,000, they take 0.7 to 0.75 of the time, by `EnergyMomentum`, of 40,000, 0.67, and those of sixteen triangles,
# of 500,000 and more, 0.77 to 0.82.
_WORTH_KEEPING, _ROUNDS = 60_000, 4  # operations; rounds that a loop of unknown length is taken to have
_MOVES = ("copy", "expand_dims", "reshape", "reshard", "squeeze", "stop_gradient", "transpose")


_counted: weakref.WeakKeyDictionary[Any, dict[tuple[int, ...], tuple[int, int]]] = weakref.WeakKeyDictionary()


def operation_count(jaxpr: Any, shared: Sequence[Any] = (), *, rounds: bool = False) -> int:
    """How many scalar operations a program has, at most; `rounds`: with every round of its loops, which else count once.

    Of a product with a matrix among the `shared` arguments, for which a kernel calls a loop, how many numbers go in and out.
    """
    known = set(shared)
    places = tuple([i for i, v in enumerate(jaxpr.invars) if v in known])
    # Programs of several derivatives call the same ones, and each is asked about before it is compiled.
    counts = _counted.setdefault(jaxpr, {})
    if places not in counts:
        counts[places] = _counts(jaxpr, known)
    return counts[places][rounds]


def _counts(jaxpr: Any, known: set[Any]) -> tuple[int, int]:
    """The operations of a program, without rounds and with them."""
    total, with_rounds = 0, 0
    for eqn in jaxpr.eqns:
        inner = [getattr(program, "jaxpr", program) for program in inner_programs(eqn)]
        if inner:
            each = eqn.invars[0].aval.size if eqn.primitive.name == "reduce" else eqn.params.get("count", 1)
            for program in inner:
                within = _within(program, eqn, known)
                total += each * operation_count(program, within)
                with_rounds += each * eqn.params.get("length", 1) * operation_count(program, within, rounds=True)
            continue
        read = [v for v in eqn.invars if not isinstance(v, Literal)]
        if eqn.primitive.name in _MOVES and all(v in known for v in read):
            known.update(eqn.outvars)
        terms, size = 1, sum([v.aval.size for v in eqn.outvars])
        if eqn.primitive.name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            terms = math.prod(eqn.invars[0].aval.shape[axis] for axis in summed)
            if any(v in known and v.aval.ndim == 2 and v.aval.size >= WORTH for v in read):
                terms, size = 1, size + sum(v.aval.size for v in read if v not in known)
        if eqn.primitive.name in LIBRARY:
            terms = eqn.invars[0].aval.shape[-1]
        total, with_rounds = total + terms * size, with_rounds + terms * size
    return total, with_rounds


def equation_count(jaxpr: Any) -> int:
    """How many equations a program has, with those of the programs in it: the longer they are, the more work for XLA."""
    within = [getattr(program, "jaxpr", program) for eqn in jaxpr.eqns for program in inner_programs(eqn)]
    return len(jaxpr.eqns) + sum(map(equation_count, within))


def is_dear(jaxpr: Any) -> bool:
    """Whether a program, however short, has what XLA is slow at: factors and solutions, for which it calls a library matrix
    by matrix, or a loop of unknown length, whose rounds it does for all elements until none of them needs another."""
    if any(eqn.primitive.name in (*LIBRARY, "while") for eqn in jaxpr.eqns):
        return True
    return any(is_dear(getattr(program, "jaxpr", program)) for eqn in jaxpr.eqns for program in inner_programs(eqn))


def length_as_kernel(call: ElementProgram, *, rounds: bool = False) -> int:
    """The operations that a kernel of a program is written as, which take long to compile if they are many."""
    shared = [v for v, axis in zip(call.jaxpr.invars, call.axes, strict=True) if axis is None]
    return operation_count(call.jaxpr, shared, rounds=rounds)


def is_worth_keeping(call: ElementProgram) -> bool:
    """Whether reverse mode is sooner there if it keeps what a step has solved for than if it computes that anew."""
    if not call.is_whole:
        return False
    rounds = _ROUNDS if _has_open_loop(call.jaxpr) else 1
    return rounds * length_as_kernel(call, rounds=True) > _WORTH_KEEPING


def _has_open_loop(jaxpr: Any) -> bool:
    """Whether a program has a loop of unknown length."""
    within = (getattr(program, "jaxpr", program) for eqn in jaxpr.eqns for program in inner_programs(eqn))
    return any(eqn.primitive.name == "while" for eqn in jaxpr.eqns) or any(map(_has_open_loop, within))


def _within(program: Any, eqn: Any, known: set[Any]) -> list[Any]:
    """Which arguments of a program that an equation calls are among the known variables."""
    if [v.aval for v in program.invars] != [v.aval for v in eqn.invars]:
        return []
    pairs = zip(program.invars, eqn.invars, strict=True)
    return [v for v, given in pairs if not isinstance(given, Literal) and given in known]
