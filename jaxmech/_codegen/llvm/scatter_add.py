"""Rows of elements added to those of a sum, one element after the other."""

from typing import Any

import numpy as np

from ..._llvm.ffi import TYPES
from .rows import transposed
from .vector import vector_of
from .vector_arithmetic import VectorArithmetic


def filled(pointer: str, rows: str, size: int, byte: int) -> list[str]:
    """A byte everywhere in so many rows of a size in bytes."""
    name = f"{pointer}.bytes{byte}"
    return [
        f"  {name} = mul i64 {rows}, {size}",
        f"  call void @llvm.memset.p0.i64(ptr {pointer}, i8 {byte}, i64 {name}, i1 false)",
    ]


def add_rows(
    arithmetic: VectorArithmetic,
    total: int,
    slots: str,
    mirror: str | None,
    output: np.ndarray,
    dtype: Any,
    lanes: int,
    *,
    again: bool,
) -> None:
    """Each of the `k` rows of an output of so many elements added to the row of sum number `total` that `slots` has for it;
    where there are mirror images, its transpose to that.

    The first rows of all, one after the other, then their second rows, ... `again`: some were added before; they add zeros.
    """
    lines, scalar = arithmetic.lines, TYPES[np.dtype(dtype).name]
    vector, k = vector_of(scalar, arithmetic.width), output.shape[0]
    fresh = _fresh(arithmetic) if again else None
    first = arithmetic.fresh()
    lines.append(f"  {first} = mul i64 %element, {k}")
    for number, row in enumerate(output):
        values = np.empty(row.shape, object)
        for place in np.ndindex(row.shape):
            values[place] = value = arithmetic.named(row[place])
            if fresh is not None:
                values[place] = arithmetic.fresh()
                taken = f"{vector} {value}, {vector} zeroinitializer"
                lines.append(f"  {values[place]} = select <{arithmetic.width} x i1> {fresh}, {taken}")
        slot_of = []
        for lane in range(lanes):
            name = arithmetic.fresh()
            lines.append(f"  {name}.place = add i64 {first}, {lane * k + number}")
            slot_of.append(_loaded(lines, name, slots, f"i64 {name}.place"))
        _add_row(arithmetic, f"%r{total}", slot_of, values.ravel().tolist(), scalar)
        if mirror is not None:
            images = [_loaded(lines, arithmetic.fresh(), mirror, f"i32 {slot}") for slot in slot_of]
            _add_row(arithmetic, f"%r{total}", images, values.T.ravel().tolist(), scalar)


def _loaded(lines: list[str], name: str, numbers: str, at: str) -> str:
    lines.append(f"  {name}.at = getelementptr i32, ptr {numbers}, {at}")
    lines.append(f"  {name} = load i32, ptr {name}.at")
    return name


def _fresh(arithmetic: VectorArithmetic) -> str:
    """Which of the elements are not yet in the sums."""
    name, width = arithmetic.fresh(), arithmetic.width
    vector, lanes = f"<{width} x i64>", ", ".join(f"i64 {lane}" for lane in range(width))
    arithmetic.lines += [
        f"  {name}.reached = call i64 @llvm.smax.i64(i64 %reached, i64 %added)",
        f"  {name}.before = sub i64 {name}.reached, %lane",
        f"  {name}.first = insertelement {vector} poison, i64 {name}.before, i32 0",
        f"  {name}.all = shufflevector {vector} {name}.first, {vector} poison, <{width} x i32> zeroinitializer",
        f"  {name} = icmp sge {vector} <{lanes}>, {name}.all",
    ]
    return name


def _add_row(arithmetic: VectorArithmetic, pointer: str, slots: list[str], values: list[str], scalar: str) -> None:
    """The numbers of a row of elements to those of their slots."""
    lines, width, size = arithmetic.lines, arithmetic.width, len(values)
    vector, whole = vector_of(scalar, width), size - size % width
    parts = [transposed(arithmetic, values[at : at + width], vector) for at in range(0, whole, width)]
    for lane, slot in enumerate(slots):
        at = arithmetic.fresh()
        lines.append(f"  {at} = getelementptr [{size} x {scalar}], ptr {pointer}, i32 {slot}")
        for i, part in enumerate(parts):
            _add(arithmetic, at, width * i, scalar, vector, part[lane])
        for j in range(whole, size):
            one = arithmetic.fresh()
            lines.append(f"  {one} = extractelement {vector} {values[j]}, i32 {lane}")
            _add(arithmetic, at, j, scalar, scalar, one)


def _add(arithmetic: VectorArithmetic, pointer: str, offset: int, scalar: str, kind: str, value: str) -> None:
    name, align = arithmetic.fresh(), 8 if scalar == "double" else 4
    arithmetic.lines += [
        f"  {name}.at = getelementptr {scalar}, ptr {pointer}, i64 {offset}",
        f"  {name}.old = load {kind}, ptr {name}.at, align {align}",
        f"  {name} = fadd {kind} {name}.old, {value}",
        f"  store {kind} {name}, ptr {name}.at, align {align}",
    ]
