"""Rows of eight elements added to those of a sum, one element after the other."""

from typing import Any

import numpy as np

from .._llvm.foreign import TYPES
from .vectors import WIDTH, VectorArithmetic


def cleared(pointer: str, rows: str, output: Any) -> list[str]:
    """Zeros in all rows of a sum, of an output `(k, ...)` of an element."""
    size = int(np.prod(output.shape[1:])) * np.dtype(output.dtype).itemsize
    return [
        f"  {pointer}.bytes = mul i64 {rows}, {size}",
        f"  call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {pointer}.bytes, i1 false)",
    ]


def add_rows(
    arithmetic: VectorArithmetic, pointer: str, slots: str, mirror: str | None, output: np.ndarray, dtype: Any
) -> None:
    """Each of the `k` rows of an output of eight elements added to the row that `slots` has for it; where there are mirror
    images, its transpose to that.

    The first rows of the eight, one after the other, then their second rows, ... Those that were added before add zeros.
    """
    lines, scalar = arithmetic.lines, TYPES[np.dtype(dtype).name]
    vector, k, size = f"<{WIDTH} x {scalar}>", output.shape[0], int(np.prod(output.shape[1:]))
    fresh, first = _fresh(arithmetic), arithmetic.fresh()
    lines.append(f"  {first} = mul i64 %element, {k}")
    for number, row in enumerate(output):
        values = np.empty(row.shape, object)
        for place in np.ndindex(row.shape):
            values[place] = arithmetic.fresh()
            taken = f"{vector} {arithmetic.named(row[place])}, {vector} zeroinitializer"
            lines.append(f"  {values[place]} = select <{WIDTH} x i1> {fresh}, {taken}")
        slot_of = []
        for lane in range(WIDTH):
            slot_of.append(arithmetic.fresh())
            lines += [
                f"  {slot_of[-1]}.place = add i64 {first}, {lane * k + number}",
                f"  {slot_of[-1]}.at = getelementptr i32, ptr {slots}, i64 {slot_of[-1]}.place",
                f"  {slot_of[-1]} = load i32, ptr {slot_of[-1]}.at",
            ]
        _add_row(arithmetic, pointer, slot_of, values.reshape(size).tolist(), scalar)
        if mirror is not None:
            images = [arithmetic.fresh() for _ in slot_of]
            for slot, image in zip(slot_of, images, strict=True):
                lines.append(f"  {image}.at = getelementptr i32, ptr {mirror}, i32 {slot}")
                lines.append(f"  {image} = load i32, ptr {image}.at")
            _add_row(arithmetic, pointer, images, values.T.reshape(size).tolist(), scalar)


def _fresh(arithmetic: VectorArithmetic) -> str:
    """Which of the eight elements are not yet in the sums."""
    name, lanes = arithmetic.fresh(), ", ".join(f"i64 {lane}" for lane in range(WIDTH))
    vector = f"<{WIDTH} x i64>"
    arithmetic.lines += [
        f"  {name}.reached = call i64 @llvm.smax.i64(i64 %reached, i64 %added)",
        f"  {name}.before = sub i64 {name}.reached, %lane",
        f"  {name}.first = insertelement {vector} poison, i64 {name}.before, i32 0",
        f"  {name}.all = shufflevector {vector} {name}.first, {vector} poison, <{WIDTH} x i32> zeroinitializer",
        f"  {name} = icmp sge {vector} <{lanes}>, {name}.all",
    ]
    return name


def _add_row(arithmetic: VectorArithmetic, pointer: str, slots: list[str], values: list[str], scalar: str) -> None:
    """The numbers of a row of eight elements to those of their slots."""
    lines, vector, size = arithmetic.lines, f"<{WIDTH} x {scalar}>", len(values)
    whole = size - size % WIDTH
    parts = [_transposed(arithmetic, values[at : at + WIDTH], vector) for at in range(0, whole, WIDTH)]
    for lane, slot in enumerate(slots):
        at = arithmetic.fresh()
        lines.append(f"  {at} = getelementptr [{size} x {scalar}], ptr {pointer}, i32 {slot}")
        for i, part in enumerate(parts):
            _add(arithmetic, at, WIDTH * i, scalar, vector, part[lane])
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


def _transposed(arithmetic: VectorArithmetic, vectors: list[str], kind: str) -> list[str]:
    """Eight vectors of eight, as a matrix, transposed: pairs of blocks off the diagonal change places, at every scale."""
    distance = 1
    while distance < WIDTH:
        after = list(vectors)
        for i in range(WIDTH):
            if not i & distance:
                j = i + distance
                low = [t if not t & distance else WIDTH + t - distance for t in range(WIDTH)]
                high = [t + distance if not t & distance else WIDTH + t for t in range(WIDTH)]
                for place, order in ((i, low), (j, high)):
                    after[place] = arithmetic.fresh()
                    mask = f"<{WIDTH} x i32> <{', '.join(f'i32 {t}' for t in order)}>"
                    arithmetic.lines.append(
                        f"  {after[place]} = shufflevector {kind} {vectors[i]}, {kind} {vectors[j]}, {mask}"
                    )
        vectors = after
        distance *= 2
    return vectors
