"""A short program of few numbers, the step of a small scene, as one kernel: the program of a single element.

XLA:CPU carries a step out as some dozens of operations, each of which takes longer to begin than to compute a few numbers.
One kernel has no such parts, LLVM compiles it sooner than XLA compiles them, and of a batch it takes several at once.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._runtime.jax_internals import ClosedJaxpr, Literal, Tracer, jaxpr_as_fun, rewired
from .._runtime.joined_arrays import JoinedArrays
from .._runtime.plain_form import first_that_works
from .called_elements import are_called
from .primitive import map_program
from .program.element_jaxpr import reduced
from .scalarize.arithmetic import NotScalarisable
from .scalarize.expansion import expands, inner_programs
from .scalarize.factorisation import LARGEST, LIBRARY
from .scalarize.loops import is_kept
from .scalarize.places import counts_of_places, is_in_memory
from .scalarize.supported import SUPPORTED, calls_host

_MOST_CONSTANTS = 4096  # numbers that a program has in it
# Operations on scalars, by an estimate: a tenth to one and a half times as many lines, of a gradient twice those, which LLVM
# optimises up to here. A body on a hinge by the midpoint rule has 174,000: a step takes a twentieth of XLA's time.
_LONGEST = 200_000
# The same for each operation on arrays, of which XLA begins one in the time that so many take: steps of pendulums, joints
# and tops have up to 26; sixteen triangles, whose loop is called, 18 by `VelocityVerlet`, and take 0.7 of XLA's
# time, 28 by `Tsitouras`, and 0.75; two triangles 37 by `BDF` of order 2, and 0.77; 24 springs between sixteen points 32 by
# `RK4`, and 0.58, the first call half a second longer; 42 by `Tsitouras`, and 0.7, but the first call more than a second.
# Two triangles had 60 by implicit Euler, and took 1.6 times XLA's time.
_MOST_FOR_ONE = 38
_MOST_FOR_ONE_ONCE = 26  # of what is computed once: to compile it counts more
_WRITTEN = ("scatter", "scatter-add", "scatter-max", "scatter-min")
_READ = ("gather", "dynamic_slice")


def is_worth_a_kernel(program: ClosedJaxpr, *, once: bool = False) -> bool:
    """Whether a kernel of a program may be expected to take less time than XLA, which begins each of its operations on
    arrays; elements that are mapped have kernels of their own there, several at a time. `once`: and to compile it."""
    known = {v for v, c in zip(program.jaxpr.constvars, program.consts, strict=True) if not isinstance(c, Tracer)}
    if sum(c.size for c in program.consts if not isinstance(c, Tracer)) > _MOST_CONSTANTS:
        return False
    computed = {*program.jaxpr.constvars, *program.jaxpr.invars} - known

    def judged() -> bool:
        for_one = _MOST_FOR_ONE_ONCE if once else _MOST_FOR_ONE
        return _length(program.jaxpr, computed) <= min(_LONGEST, for_one * _operations(program.jaxpr))

    return first_that_works("the step of a loop", judged, lambda: False)


def _operations(jaxpr: Any) -> int:
    """How many operations on arrays a program is, loops written out that a kernel writes out. A kernel of one element alone
    takes as long there, and counts as so many; those of several take them together."""
    total = 0
    for eqn in jaxpr.eqns:
        inner = [getattr(program, "jaxpr", program) for program in inner_programs(eqn)]
        if eqn.primitive.name == "jaxmech_mapped":
            alone = inner if eqn.params["count"] == 1 else []
            total += 1 + sum(_length(program, {*program.invars}) for program in alone) // _MOST_FOR_ONE
        else:
            total += _rounds(eqn) * sum(map(_operations, inner)) if inner else 1
    return total


def _rounds(eqn: Any) -> int:
    return 1 if eqn.primitive.name == "scan" and is_kept(eqn) else eqn.params.get("length", 1)


def in_one_kernel(program: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The function of a program of arrays, carried out by one kernel where there is one. What it closes over and is being
    traced may be differentiated too.

    Whole numbers that it closes over, of nodes and places, are joined: a call takes time for each array.
    """
    jaxpr, value = program.jaxpr, dict(zip(program.jaxpr.constvars, program.consts, strict=True))
    traced = [v for v, c in value.items() if isinstance(c, Tracer)]
    real = [v for v in traced if jnp.issubdtype(v.aval.dtype, jnp.inexact)]
    whole = [v for v in traced if v not in real]
    known = [v for v in value if v not in traced]
    opened = rewired(jaxpr, [*whole, *real, *jaxpr.invars], list(jaxpr.outvars), jaxpr.eqns, constants=known)
    of_all = jaxpr_as_fun(ClosedJaxpr(opened, [value[v] for v in known]))
    given = JoinedArrays.of([value[v] for v in whole]), [value[v] for v in real]

    def of_given(given: tuple[JoinedArrays, list[Any]], arrays: list[Any]) -> list[Any]:
        return of_all(*given[0].tree(), *given[1], *arrays)

    closed = jax.make_jaxpr(of_given)(given, [v.aval for v in jaxpr.invars])
    closed_over = jax.tree.leaves(given)
    axes = (*(None for _ in closed_over), *(0 for _ in jaxpr.invars))
    made, used = reduced(closed, axes, [True for _ in jaxpr.outvars], is_whole=True)

    def function(*arrays: Any) -> list[Any]:
        inputs = [*closed_over, *(jnp.asarray(a)[None] for a in arrays)]
        return [a[0] for a in map_program(made, 1, [inputs[i] for i in used])]

    return function


def _length(jaxpr: Any, computed: set[Any]) -> int:
    """The length of a program some of whose variables are computed, and not known while it is written."""
    total, computed = 0, set(computed)
    for eqn in jaxpr.eqns:
        if calls_host(eqn) or eqn.primitive.name == "ffi_call":  # which may be the one that raises
            raise NotScalarisable(f"{eqn.primitive.name} as scalars")
        flags = [not isinstance(v, Literal) and v in computed for v in eqn.invars]
        if any(flags):
            computed.update(eqn.outvars)
            total += _of_equation(eqn, flags)
    return total


def _of_equation(eqn: Any, computed: Sequence[bool]) -> int:
    name, size = eqn.primitive.name, sum(v.aval.size for v in eqn.outvars)
    if name not in SUPPORTED and not expands(name):
        raise NotScalarisable(f"{name} as scalars")
    if name == "jaxmech_mapped" and are_called(eqn):
        return size + sum(v.aval.size for v in eqn.invars)
    inner = [getattr(program, "jaxpr", program) for program in inner_programs(eqn)]
    if inner:
        times = eqn.params.get("count", 1) * _rounds(eqn)
        times *= eqn.invars[0].aval.size if name == "reduce" else 1
        return times * sum(_length(program, _inputs(program, eqn, computed)) for program in inner)
    if name in LIBRARY:
        rows = eqn.invars[0].aval.shape[-1]
        if rows > LARGEST:
            raise NotScalarisable(f"{name} of {rows} rows")
        return rows * size
    if name in _READ and any(computed[1:]):
        return min(math.prod(counts_of_places(eqn)) * size, eqn.invars[0].aval.size + size)
    if name in _WRITTEN and computed[1]:
        changes, counts = eqn.invars[2].aval.size, counts_of_places(eqn)
        return 2 * (size + changes) if is_in_memory(size, changes, counts) else math.prod(counts) * changes
    if name == "dynamic_update_slice" and any(computed[2:]):
        return math.prod(counts_of_places(eqn)) * eqn.invars[1].aval.size
    if name == "dot_general":
        (summed, _), _ = eqn.params["dimension_numbers"]
        return size * math.prod(eqn.invars[0].aval.shape[axis] for axis in summed)
    if name.startswith(("reduce_", "arg")):
        return eqn.invars[0].aval.size
    return size


def _inputs(program: Any, eqn: Any, computed: Sequence[bool]) -> set[Any]:
    """Which arguments of a program that an equation calls are computed: those that it is given, as far as they are told
    apart."""
    given = computed[len(computed) - len(program.invars) :]
    if eqn.primitive.name == "while":
        return set(program.invars)
    is_told = len(given) == len(program.invars) and [v.aval for v in program.invars] == [
        v.aval for v in eqn.invars[len(computed) - len(given) :]
    ]
    return {v for v, flag in zip(program.invars, given, strict=True) if flag} if is_told else set(program.invars)
