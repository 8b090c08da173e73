"""Rows of eight elements added to those of a sum, one element after the other.

A row that goes to one that does not exist is NaN, and goes to the first, where it is seen. So a sum has one row at least.
"""

from typing import Any

import numpy as np

from .._llvm.foreign import TYPES
from .vectors import WIDTH, VectorArithmetic


def cleared(pointer: str, rows: str, output: Any) -> list[str]:
    """Zeros in all rows of a sum, of an output `(k, ...)` of an element."""
    size = int(np.prod(output.shape[1:])) * np.dtype(output.dtype).itemsize
    numbers = f"<{WIDTH} x i32>"
    return [
        f"  {pointer}.bytes = mul i64 {rows}, {size}",
        f"  call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {pointer}.bytes, i1 false)",
        f"  {rows}.short = trunc i64 {rows} to i32",
        f"  {rows}.first = insertelement {numbers} poison, i32 {rows}.short, i32 0",
        f"  {rows}.all = shufflevector {numbers} {rows}.first, {numbers} poison, {numbers} zeroinitializer",
    ]


def nan(scalar: str) -> str:
    """What a row that does not exist holds, in numbers of a type of LLVM; of whole ones the lowest, which JAX takes too."""
    if scalar in ("double", "float"):
        return "0x7FF8000000000000"
    return "1" if scalar == "i8" else str(-(1 << (int(scalar[1:]) - 1)))


def add_rows(
    arithmetic: VectorArithmetic, total: int, slots: str, mirror: str | None, output: np.ndarray, dtype: Any
) -> None:
    """Each of the `k` rows of an output of eight elements added to the row of sum number `total` that `slots` has for it;
    where there are mirror images, its transpose to that.

    The first rows of the eight, one after the other, then their second rows, ... Those that were added before add zeros.
    """
    lines, scalar = arithmetic.lines, TYPES[np.dtype(dtype).name]
    vector, k = f"<{WIDTH} x {scalar}>", output.shape[0]
    fresh, first = _fresh(arithmetic), arithmetic.fresh()
    lines.append(f"  {first} = mul i64 %element, {k}")
    for number, row in enumerate(output):
        values = np.empty(row.shape, object)
        for place in np.ndindex(row.shape):
            values[place] = arithmetic.fresh()
            taken = f"{vector} {arithmetic.named(row[place])}, {vector} zeroinitializer"
            lines.append(f"  {values[place]} = select <{WIDTH} x i1> {fresh}, {taken}")
        asked = []
        for lane in range(WIDTH):
            name = arithmetic.fresh()
            lines.append(f"  {name}.place = add i64 {first}, {lane * k + number}")
            asked.append(_loaded(lines, name, slots, f"i64 {name}.place"))
        values, slot_of = _existing(arithmetic, total, asked, values, scalar)
        _add_row(arithmetic, f"%r{total}", slot_of, values.ravel().tolist(), scalar)
        if mirror is not None:
            asked = [_loaded(lines, arithmetic.fresh(), mirror, f"i32 {slot}") for slot in slot_of]
            values, images = _existing(arithmetic, total, asked, values.T, scalar)
            _add_row(arithmetic, f"%r{total}", images, values.ravel().tolist(), scalar)


def _loaded(lines: list[str], name: str, numbers: str, at: str) -> str:
    lines.append(f"  {name}.at = getelementptr i32, ptr {numbers}, {at}")
    lines.append(f"  {name} = load i32, ptr {name}.at")
    return name


def _existing(
    arithmetic: VectorArithmetic, total: int, slots: list[str], values: np.ndarray, scalar: str
) -> tuple[np.ndarray, list[str]]:
    """Values of eight elements and their slots; of a slot that does not exist the first one, and NaN."""
    lines, vector, numbers = arithmetic.lines, f"<{WIDTH} x {scalar}>", f"<{WIDTH} x i32>"
    name, last = arithmetic.fresh(), "poison"
    for lane, slot in enumerate(slots):
        lines.append(f"  {name}.{lane} = insertelement {numbers} {last}, i32 {slot}, i32 {lane}")
        last = f"{name}.{lane}"
    # No number below 0 is below a number of rows, without sign.
    lines.append(f"  {name}.exist = icmp ult {numbers} {last}, %rows{total}.all")
    lines.append(f"  {name}.slots = select <{WIDTH} x i1> {name}.exist, {numbers} {last}, {numbers} zeroinitializer")
    nothing = ", ".join(WIDTH * [f"{scalar} {nan(scalar)}"])
    found = np.empty(values.shape, object)
    for place in np.ndindex(values.shape):
        found[place] = arithmetic.fresh()
        taken = f"{vector} {values[place]}, {vector} <{nothing}>"
        lines.append(f"  {found[place]} = select <{WIDTH} x i1> {name}.exist, {taken}")
    rows = [arithmetic.fresh() for _ in slots]
    lines += [f"  {row} = extractelement {numbers} {name}.slots, i32 {lane}" for lane, row in enumerate(rows)]
    return found, rows


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
