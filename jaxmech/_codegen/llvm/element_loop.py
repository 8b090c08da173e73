"""The loop over mapped elements as a call within the kernel of a program that maps them, of a step of a whole scene.

Written out, sixteen triangles are thousands of instructions, which no cache of a processor holds and LLVM takes long for.
What elements read is in memory, and so is what they give: arrays of the kernel are where they are, others are written there.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..scalarize.arithmetic import NotScalarisable, is_number
from ..scalarize.known_numbers import Scalars
from ..scalarize.listing import divided, listed
from .element_inputs import memory_type
from .indexed_read import known_table
from .shared_product import shared_matrix
from .stored import copied, entries_at, memory_of, room


def called_loop(
    arithmetic: Any, function: str, operands: Sequence[Scalars], results: Sequence[Any], numbers: Sequence[int]
) -> list[Scalars]:
    """What `@function(ptr, ..., i64, ...)` makes of arrays of scalars, and of numbers: arrays like `results`."""
    if arithmetic.width > 1:
        raise NotScalarisable("a loop over the elements of several scenes at once")

    def made() -> list[Scalars]:
        read = [_pointer(arithmetic, operand.reshape(-1)) for operand in operands]
        written = [room(arithmetic, a.dtype, a.size) for a in results]
        arithmetic.declarations[
            f"declare void @{function}({', '.join([*('ptr' for _ in (*read, *written)), *('i64' for _ in numbers)])})"
        ] = None
        given = [*(f"ptr {pointer}" for pointer in (*read, *written)), *(f"i64 {number}" for number in numbers)]
        arithmetic.lines.append(f"  call void @{function}({', '.join(given)})")
        arithmetic.called.add(function)
        found = [entries_at(arithmetic, p, a.dtype, a.size) for p, a in zip(written, results, strict=True)]
        return divided([x for entries in found for x in entries], results)

    return arithmetic.once(f"{function} {list(numbers)}", listed(operands), made)


def _pointer(arithmetic: Any, scalars: np.ndarray) -> str:
    """Where scalars stand in memory one after the other."""
    memory, kind = memory_of(list(scalars)), memory_type(scalars[0].dtype)
    if memory is not None:
        return memory.name
    place = shared_matrix(scalars[None])
    if place is not None and place.column_step == (len(scalars) > 1):
        return arithmetic.named_line(f"getelementptr {kind}, ptr %a{place.argument}, i64 {place.first}")
    if all(map(is_number, scalars)):
        return known_table(arithmetic, scalars)
    return arithmetic.once("copied", scalars, lambda: copied(arithmetic, scalars))
