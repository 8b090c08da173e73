"""What is carried out where a condition holds, or as long as it does: blocks of lines, and jumps between them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..scalarize.arithmetic import Branch, Scalar
from .composed import number
from .stored import Memory, Stored, loaded, memory_of, put, room
from .vector import Vector


def chosen(
    arithmetic: Any, which: Scalar, first: Branch, second: Branch, scalars: list[Scalar], dtypes: Sequence[Any]
) -> list[Scalar]:
    """The results of the first of two branches, or of the second for elements for which `which` is true, or more than 0."""
    is_whole = np.dtype(which.dtype).kind == "i"
    takes = arithmetic.line("icmp sgt", bool, (which, number(0, which))) if is_whole else which
    writes, arithmetic.writes = arithmetic.writes, False  # a branch may not be carried out
    start = _values(arithmetic, first(arithmetic, scalars))
    label, some = arithmetic.fresh()[1:], arithmetic.any_of(takes)
    arithmetic.lines += [f"  br label %{label}.here", f"{label}.here:"]
    arithmetic.lines += [f"  br i1 {some}, label %{label}.second, label %{label}.end", f"{label}.second:"]
    with arithmetic.forgetting():
        others = _values(arithmetic, second(arithmetic, scalars))
        # One element is here only if it takes it.
        if arithmetic.width > 1:
            others = [arithmetic.select(takes, b, a) for a, b in zip(start, others, strict=True)]
    arithmetic.writes = writes
    arithmetic.lines += [f"  br label %{label}.last", f"{label}.last:", f"  br label %{label}.end", f"{label}.end:"]
    cases = zip(start, others, map(np.dtype, dtypes), strict=True)
    return [
        Vector(arithmetic.named_line(_phi(arithmetic, t, (a, f"{label}.here"), (b, f"{label}.last"))), t)
        for a, b, t in cases
    ]


def repeated(
    arithmetic: Any,
    going: Branch,
    advanced: Branch,
    start: list[Scalar],
    dtypes: Sequence[Any],
    written: Sequence[slice],
) -> list[Scalar]:
    """The first of `start`, `advanced(start)`, ... that is not `going`; of one element, what is `written` is in memory."""
    in_memory = _in_memory(arithmetic, start, written) if arithmetic.writes else []
    apart = {k for at, _ in in_memory for k in range(at.start, at.stop)}
    start = _values(arithmetic, start, apart)
    label, state = arithmetic.fresh()[1:], [Vector(arithmetic.fresh(), t) for t in dtypes]
    for at, memory in in_memory:
        state[at] = memory.entries
    arithmetic.lines += [f"  br label %{label}.here", f"{label}.here:", f"  br label %{label}.round", f"{label}.round:"]
    place = len(arithmetic.lines)
    with arithmetic.forgetting():
        (goes_on,) = going(arithmetic, list(state))
        some = arithmetic.any_of(goes_on)
        arithmetic.lines += [f"  br i1 {some}, label %{label}.again, label %{label}.end", f"{label}.again:"]
        after = advanced(arithmetic, list(state))
        if arithmetic.width > 1:  # elements whose last round is over stay as they are
            after = [arithmetic.select(goes_on, b, a) for a, b in zip(state, after, strict=True)]
        for at, memory in in_memory:
            if memory_of(after[at]) is not memory:
                put(arithmetic, memory, after[at])
        after = _values(arithmetic, after, apart)
    arithmetic.lines += [f"  br label %{label}.last", f"{label}.last:", f"  br label %{label}.round", f"{label}.end:"]
    arithmetic.lines[place:place] = [
        f"  {x.name} = {_phi(arithmetic, x.dtype, (a, f'{label}.here'), (b, f'{label}.last'))}"
        for k, (x, a, b) in enumerate(zip(state, start, after, strict=True))
        if k not in apart
    ]
    for at, memory in in_memory:
        memory.changed()
        state[at] = memory.entries
    return list(state)


def _in_memory(arithmetic: Any, start: list[Scalar], written: Sequence[slice]) -> list[tuple[slice, Memory]]:
    """The arrays that a loop keeps in memory: there already, or put there."""
    found = []
    for at in written:
        memory = memory_of(start[at])
        if memory is None:
            dtype, size = start[at][0].dtype, len(start[at])
            memory = Memory(room(arithmetic, dtype, size), dtype, size)
            put(arithmetic, memory, start[at])
        memory.changed()
        found.append((at, memory))
    return found


def _values(arithmetic: Any, scalars: Sequence[Scalar], apart: set[int] | None = None) -> list[Scalar]:
    """Scalars that are values, but for some places: what is in memory is read."""
    kept = apart or set()
    return [loaded(arithmetic, x) if isinstance(x, Stored) and k not in kept else x for k, x in enumerate(scalars)]


def _phi(arithmetic: Any, dtype: np.dtype, *cases: tuple[Scalar, str]) -> str:
    """One of some values, by the block that was left last."""
    if any(x.dtype != dtype for x, _ in cases):
        raise TypeError(f"ill-typed choice: {', '.join(str(x.dtype) for x, _ in cases)} as {dtype}")
    return f"phi {arithmetic.type_of(dtype)} {', '.join(f'[ {arithmetic.named(x)}, %{block} ]' for x, block in cases)}"
