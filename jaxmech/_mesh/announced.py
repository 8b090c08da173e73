"""What a mesh file announces, compared with what it holds: some readers believe it, reserve memory for it, or read on."""

import os
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np

_PLY_HEADER = 1 << 16  # bytes: far more than any header has
_PLY_BYTES = {f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}
_PLY_BYTES |= {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4, "double": 8}
_PLY_BYTES |= {"float32": 4, "float64": 8}


def check_announced(path: str | os.PathLike) -> None:
    """`ValueError` for a file of PLY, STL, SU2 or DOLFIN whose lists are shorter than it says, or hold an index twice.

    Readers of DOLFIN's XML leave what a gap leaves: numbers that nobody wrote. Those of PLY take a missing face for one
    without corners, and those of SU2 and STL return what is there.
    """
    check = _CHECKS.get(os.path.splitext(os.fspath(path))[1].lower())
    if check is not None:
        check(path)


def check_ply(path: str | os.PathLike, points: int, blocks: list[tuple[str, np.ndarray]]) -> None:
    """`ValueError` for a PLY file of which something else was read than it announces, or not all of it."""
    header, start = _ply_header(path)
    announced, there = _ply_counts(header), (points, sum(len(cells) for _, cells in blocks))
    if announced != there:
        raise ValueError(
            f"{announced[0]} vertices and {announced[1]} faces are announced; {there[0]} and {there[1]} are there"
        )
    if not all(cells.shape[1] for _, cells in blocks):
        raise ValueError("there are faces without corners")
    properties = [line.split()[1:-1] for line in header.splitlines() if line.startswith("property")]
    lists = [words[1:] for words in properties if words[0] == "list"]
    if "format ascii" in header or len(lists) != 1 or properties[-1][0] != "list":
        return
    count, index = (_PLY_BYTES[word] for word in lists[0])
    size = points * sum(_PLY_BYTES[words[0]] for words in properties[:-1])
    size += sum(len(cells) * (count + cells.shape[1] * index) for _, cells in blocks)
    if size != os.path.getsize(path) - start:
        raise ValueError(f"its lists take {size} bytes; {os.path.getsize(path) - start} follow the header")


def _ply_header(path: str | os.PathLike) -> tuple[str, int]:
    """The header, and where the data begins."""
    with open(path, "rb") as file:
        header, word, rest = file.read(_PLY_HEADER).partition(b"end_header")
    return header.decode(errors="replace"), len(header) + len(word) + len(rest.partition(b"\n")[0]) + 1


def _ply_counts(header: str) -> tuple[int, int]:
    """How many points and faces are announced."""
    counts = (re.search(rf"^element {what} (\d+)", header, re.MULTILINE) for what in ("vertex", "face"))
    points, faces = (int(count[1]) if count else 0 for count in counts)
    return points, faces


def _check_ply(path: str | os.PathLike) -> None:
    """What is announced takes at least a byte each."""
    points, faces = _ply_counts(_ply_header(path)[0])
    if points + faces > os.path.getsize(path):
        raise ValueError(f"{points} vertices and {faces} faces are announced, more than the file has bytes")


def _check_dolfin(path: str | os.PathLike) -> None:
    size, found = {}, {"vertices": set(), "cells": set()}
    rows = {"vertex": "vertices", "triangle": "cells", "tetrahedron": "cells"}
    for _, element in ElementTree.iterparse(path, events=("start",)):
        if element.tag in found:
            size[element.tag] = int(element.attrib["size"])
        elif element.tag in rows:
            found[rows[element.tag]].add(int(element.attrib["index"]))
        element.clear()
    for name, announced in size.items():
        if found[name] != set(range(len(found[name]))) or announced != len(found[name]):
            raise ValueError(f"{announced} {name} are announced; {len(found[name])} indices are there")


def _check_su2(path: str | os.PathLike) -> None:
    """Every list goes to the next name."""
    with open(path) as file:
        lines = [line.strip() for line in file if line.strip() and not line.lstrip().startswith("%")]
    for place, line in enumerate(lines):
        name, _, rest = (word.strip() for word in line.partition("="))
        if name in ("NPOIN", "NELEM", "MARKER_ELEMS"):
            announced, there = int(rest.split()[0]), _rows(lines[place + 1 :])
            if announced != there:
                raise ValueError(f"{name} announces {announced} rows; {there} are there")


def _rows(lines: list[str]) -> int:
    return next((count for count, line in enumerate(lines) if "=" in line), len(lines))


def _check_stl(path: str | os.PathLike) -> None:
    """Of text, the end is a word; of binary files, 50 bytes for each triangle follow the header and their number."""
    with open(path, "rb") as file:
        data = file.read()
    if data.lstrip()[:5] == b"solid" and b"facet" in data:
        last = next(_lines_from_the_end(data), b"")
        if not last.startswith(b"endsolid"):
            raise ValueError("the file ends before its 'endsolid'")
    elif len(data) < 84 or (len(data) - 84) < 50 * int.from_bytes(data[80:84], "little"):
        raise ValueError("the file ends before the last of the triangles that it announces")


def _lines_from_the_end(data: bytes) -> Iterator[bytes]:
    return (line.strip() for line in reversed(data.splitlines()) if line.strip())


_CHECKS = {".ply": _check_ply, ".xml": _check_dolfin, ".su2": _check_su2, ".stl": _check_stl}
