"""Gmsh files that meshio does not read: those of format 1, and those of format 4 with cells that are in no group."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_GROUP = "gmsh:physical"


def is_first_gmsh(path: str | os.PathLike) -> bool:
    """Whether a file is of Gmsh's format 1."""
    if not os.fspath(path).lower().endswith(".msh"):
        return False
    with open(path, "rb") as file:
        return file.read(16).lstrip().startswith(b"$NOD")


def read_first_gmsh(path: str | os.PathLike) -> Any:
    """A file of format 1 as meshio would have it: `$NOD` and `$ELM`, numbers of groups and no names.

    Raises `ValueError` for lists that are shorter or longer than they say, and nodes that are not there.
    """
    import meshio
    from meshio.gmsh.common import _gmsh_to_meshio_order, _gmsh_to_meshio_type

    with open(path) as file:
        lines = [line.split() for line in file if line.strip()]
    nodes = np.asarray([[float(word) for word in row] for row in _section(lines, "NOD", "ENDNOD")]).reshape(-1, 4)
    place = {int(tag): i for i, tag in enumerate(nodes[:, 0])}
    cells: dict[str, list[list[int]]] = {}
    groups: dict[str, list[int]] = {}
    for row in _section(lines, "ELM", "ENDELM"):
        number, code, group, _, count, *own = map(int, row)
        if len(own) != count or not set(own) <= place.keys():
            raise ValueError(f"element {number} names {len(own)} nodes of {count}, or some that are not there")
        name = _gmsh_to_meshio_type[code]
        cells.setdefault(name, []).append([place[tag] for tag in own])
        groups.setdefault(name, []).append(group)
    blocks = [(name, _gmsh_to_meshio_order(name, np.asarray(rows))) for name, rows in cells.items()]
    return meshio.Mesh(nodes[:, 1:], blocks, cell_data={_GROUP: [np.asarray(numbers) for numbers in groups.values()]})


def _section(lines: list[list[str]], start: str, end: str) -> list[list[str]]:
    try:
        first, last = lines.index([f"${start}"]), lines.index([f"${end}"])
    except ValueError:
        raise ValueError(f"${start} or ${end} is missing") from None
    rows = lines[first + 2 : last]
    if [str(len(rows))] != lines[first + 1]:
        raise ValueError(f"${start} announces {lines[first + 1]} rows and has {len(rows)}")
    return rows


@contextmanager
def with_some_cells_in_no_group() -> Iterator[None]:
    """A context in which meshio 5 reads format 4 with cells in no group: it lists the groups of grouped blocks only,
    then fails.

    Format 4.1 has them by name as well, in sets of cells; so the list is left out where it is too short.
    """
    from meshio.gmsh import _gmsh41

    whole = _gmsh41.Mesh

    def mesh(points: Any, cells: Any, **given: Any) -> Any:
        data = given.get("cell_data") or {}
        return whole(points, cells, **given | {"cell_data": {k: v for k, v in data.items() if len(v) == len(cells)}})

    _gmsh41.Mesh = mesh  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        _gmsh41.Mesh = whole  # pyright: ignore[reportAttributeAccessIssue]
