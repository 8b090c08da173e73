"""Meshes of several kinds of cells from files, their named groups kept."""

import os
from typing import Any

import numpy as np

from .._runtime.argument_checks import check_path, plain
from .io import in_dimension
from .meshio_files import MESHIO_KINDS, content_of, one_error
from .mixed import NODES, MixedMesh
from .reference import reference_element

_LIBRARY = ("gmsh:", "gmsh_")  # what meshio keeps for itself under names like those of groups
_MOST_VALUES = 1000  # that an array of whole numbers may have, to be taken for groups

Groups = dict[str, dict[str, list[np.ndarray]]]


def read_mixed_mesh(path: str | os.PathLike, *, dimension: int | None = None) -> MixedMesh:
    """All the cells of a file, of whatever kinds, with its points [in the unit of the file] and its named groups.

    Groups are the physical groups of Gmsh (by name, or the number of one that has no name), Abaqus's NSET and ELSET, groups
    and objects of Wavefront (.obj), and, of formats without names (VTK, VTU, Medit), the cells where an array of whole
    numbers has a value: "array=value", or just "array" where it is 1 of an array of zeros and ones. Cells of kind "vertex"
    are nodes. Without `dimension`, meshes without solid cells whose points all have the same z are meshes in the plane
    (`dimension=3` keeps z, 2 insists).
    Raises `FileNotFoundError`; `ImportError` without meshio; `ValueError` for a file that cannot be read, a kind of cell
    that jaxmech does not know, no cells, and points that are not in the plane if `dimension=2`.
    Source: N. Schlömer, meshio (the formats it reads); C. Geuzaine, J.-F. Remacle, Int. J. Numer. Meth. Eng. 79 (2009) 1309,
    doi:10.1002/nme.2579 (physical groups).

    Example:

        jm.mesh.write_mesh("cube.vtu", mesh, cell_data={"soft": np.array([1, 1, 0, 0, 0, 0])})
        again = jm.mesh.read_mixed_mesh("cube.vtu")
        assert list(again.blocks) == ["tetrahedron"] and again.part("soft").cells.shape == (2, 4)
    """
    check_path("read_mixed_mesh", path)
    if not (dimension is None or (type(plain(dimension)) is int and dimension in (2, 3))):
        raise ValueError(f"read_mixed_mesh: dimension must be 2, 3 or None, got {dimension!r:.80}.")
    points, blocks, content = content_of("read_mixed_mesh", path)
    unknown = sorted({name for name, cells in blocks if len(cells)} - {*MESHIO_KINDS, "vertex"})
    if unknown:
        raise ValueError(f"read_mixed_mesh: '{os.fspath(path)}' holds cells {unknown}, expected of {list(MESHIO_KINDS)}.")
    with one_error(f"read_mixed_mesh: path '{os.fspath(path)}' holds no mesh"):
        kinds = [NODES if name == "vertex" else MESHIO_KINDS.get(name, "") for name, _ in blocks]
        cells, starts = _joined(kinds, [data for _, data in blocks])
        named: Groups = {}
        for name, block, numbers in [*_sets(content, _element_sets(path)), *_physical(content, kinds), *_values(content)]:
            members = np.asarray(numbers, np.int64)
            members = blocks[block][1].ravel()[members] if kinds[block] == NODES else members + starts[block]
            if members.size:
                named.setdefault(name, {}).setdefault(kinds[block], []).append(members)
        for name, numbers in (content.point_sets or {}).items():
            named.setdefault(name, {}).setdefault(NODES, []).append(np.asarray(numbers, np.int64))
        groups = {n: {k: np.unique(np.concatenate(m)) for k, m in group.items()} for n, group in named.items()}
        highest = max(cells, key=lambda kind: reference_element(kind).dimension, default="edge")
        return MixedMesh(in_dimension(points, highest, dimension), cells, groups)


def _joined(kinds: list[str], lists: list[np.ndarray]) -> tuple[dict[str, np.ndarray], list[int]]:
    """The cells of every kind, and where among them each of the lists begins."""
    found, counts, starts = {}, {}, []
    for kind, cells in zip(kinds, lists, strict=True):
        starts.append(counts.get(kind, 0))
        if kind != NODES and len(cells):
            found.setdefault(kind, []).append(cells.astype(np.int64))
            counts[kind] = starts[-1] + len(cells)
    return {kind: np.vstack(parts) for kind, parts in found.items()}, starts


def _element_sets(path: str | os.PathLike) -> list[str | None]:
    """The ELSET that each `*ELEMENT` of a file of Abaqus names, which meshio 5 takes for those of other blocks.

    A set that is there twice is refused: meshio 5 keeps the last.
    """
    if not os.fspath(path).lower().endswith(".inp"):
        return []
    found: list[str | None] = []
    sets: list[str] = []
    with open(path, errors="replace") as file:
        for line in file:
            words = [word.strip() for word in line.split(",")]
            card = words[0].upper()
            names = [w.partition("=")[2].strip() for w in words[1:] if w.upper().startswith(("ELSET", "NSET"))]
            if card == "*ELEMENT":
                found.append(names[0] if names else None)
            elif card in ("*ELSET", "*NSET"):
                sets += [f"{card} {name}" for name in names]
    twice = next((name for name in sets if sets.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"read_mixed_mesh: path '{os.fspath(path)}' has '{twice}' twice, and only the last would be read.")
    return found


def _sets(content: Any, of_elements: list[str | None]) -> list[tuple[str, int, Any]]:
    """The sets of cells that have a name: `(name, block, numbers in the block)`."""
    whole = [(name, i, np.arange(len(content.cells[i].data))) for i, name in enumerate(of_elements) if name is not None]
    return whole + [
        (name, block, numbers)
        for name, of_blocks in (content.cell_sets or {}).items()
        if not name.startswith(_LIBRARY) and name not in of_elements
        for block, numbers in enumerate(of_blocks)
        if numbers is not None and len(numbers)
    ]


def _physical(content: Any, kinds: list[str]) -> list[tuple[str, int, Any]]:
    """Gmsh's groups, where cells have their numbers: under the name of a number and a dimension, if they have one."""
    names = {(int(tag), int(d)): name for name, (tag, d) in _pairs(content.field_data)}
    have = {name for name in content.cell_sets or {} if not name.startswith(_LIBRARY)}
    found = []
    for block, tags in enumerate(content.cell_data.get("gmsh:physical", [])):
        own = 0 if kinds[block] == NODES else reference_element(kinds[block]).dimension
        for tag in np.unique(tags).tolist():
            name = names.get((tag, own), str(tag))
            if tag and name not in have:
                found.append((name, block, np.flatnonzero(np.asarray(tags) == tag)))
    return found


def _pairs(data: Any) -> list[tuple[str, Any]]:
    return [(name, pair) for name, pair in (data or {}).items() if np.size(pair) == 2]


def _values(content: Any) -> list[tuple[str, int, Any]]:
    """The values of arrays of whole numbers on cells."""
    found = []
    for name, arrays in content.cell_data.items():
        arrays = [np.asarray(a) for a in arrays]
        if name.startswith(_LIBRARY) or not all(a.dtype.kind in "iu" and a.ndim == 1 for a in arrays):
            continue
        values = np.unique(np.concatenate(arrays)).tolist() if arrays else []
        flags = set(values) <= {0, 1}
        for value in values if len(values) <= _MOST_VALUES else ():
            if value or not flags:
                own = name if flags else f"{name}={value}"
                found += [(own, block, np.flatnonzero(a == value)) for block, a in enumerate(arrays)]
    return found
