"""Meshes of several kinds of cells as meshio writes them, with their groups."""

import os
from typing import Any

import numpy as np

from .meshio_files import MESHIO_KINDS, MESHIO_NAMES, import_meshio
from .mixed import NODES, MixedMesh
from .reference import reference_element

_KEEP_GROUPS = (".vtu", ".vtk", ".xdmf", ".msh", ".inp")


def mixed_content(
    mesh: MixedMesh,
    points: np.ndarray,
    on_points: dict[str, np.ndarray],
    on_cells: dict[str, dict[str, np.ndarray]],
    suffix: str,
) -> Any:
    """The content of a file of this suffix: sets of Abaqus, physical groups of Gmsh, of others an array for each group.

    Nodes are cells of kind "vertex", where a format has no other way to name them. Raises `ValueError` for what a file of
    Gmsh does not hold: cells of several groups, and names of cells of several dimensions, or of nodes beside them; and for
    groups in a file that keeps none.
    """
    if mesh.groups and suffix not in _KEEP_GROUPS:
        raise ValueError(
            f"write_mesh: a file '{suffix}' keeps no groups, those of {list(_KEEP_GROUPS)} do: write one of them, or parts."
        )
    blocks = [(MESHIO_NAMES[kind], np.asarray(cells)) for kind, cells in mesh.blocks.items()]
    groups = {name: {k: np.asarray(n) for k, n in group.items()} for name, group in mesh.groups.items()}
    of_cells = {n: [g.get(kind, np.zeros(0, int)) for kind in mesh.blocks] for n, g in groups.items() if set(g) != {NODES}}
    if suffix == ".msh":
        groups = {name: _of_one_dimension(mesh, name) for name in groups}
    of_nodes = {name: group[NODES] for name, group in groups.items() if NODES in group}
    if suffix == ".inp":
        return import_meshio().Mesh(points, blocks, on_points, point_sets=of_nodes)
    nodes = np.unique(np.concatenate([*of_nodes.values(), np.zeros(0, int)]))
    if len(nodes):
        blocks.append(("vertex", nodes[:, None]))
        of_cells = {
            name: [*of_cells.get(name, [np.zeros(0, int)] * len(mesh.blocks)), np.searchsorted(nodes, group.get(NODES, []))]
            for name, group in groups.items()
        }
    if suffix == ".msh":
        return _with_physical(mesh, points, blocks, on_points, of_cells, _on_blocks(blocks, on_cells))
    flags = {name: [_flags(len(b), n) for (_, b), n in zip(blocks, of, strict=True)] for name, of in of_cells.items()}
    return import_meshio().Mesh(points, blocks, on_points, cell_data=flags | _on_blocks(blocks, on_cells))


def _of_one_dimension(mesh: MixedMesh, name: str) -> dict[str, np.ndarray]:
    """A group without the nodes that its cells have anyway."""
    group = {kind: np.asarray(numbers) for kind, numbers in mesh.groups[name].items()}
    cells = {kind: numbers for kind, numbers in group.items() if kind != NODES}
    if NODES in group and cells:
        own = [np.asarray(mesh.blocks[kind])[numbers].ravel() for kind, numbers in cells.items()]
        group = cells if np.isin(group[NODES], np.concatenate(own)).all() else group
    if len({0 if kind == NODES else reference_element(kind).dimension for kind in group}) > 1:
        raise ValueError(
            f"write_mesh: group '{name}' has {list(group)}, and a name in a file of Gmsh is of one dimension: write .vtu "
            "or .inp."
        )
    return group


def append_element_sets(path: str | os.PathLike, mesh: MixedMesh) -> None:
    """The sets of elements of a file of Abaqus, each once: meshio writes one for every kind of cell, and reads the last."""
    first = dict(zip(mesh.blocks, np.cumsum([1, *map(len, mesh.blocks.values())]).tolist(), strict=False))
    with open(path, "a") as file:
        for name, group in mesh.groups.items():
            numbers = [first[kind] + int(n) for kind, members in group.items() if kind != NODES for n in np.asarray(members)]
            lines = [", ".join(map(str, numbers[k : k + 12])) for k in range(0, len(numbers), 12)]
            file.write("".join(f"{line}\n" for line in [f"*ELSET, ELSET={name}", *lines]) if numbers else "")


def _on_blocks(blocks: list[Any], on_cells: dict[str, dict[str, np.ndarray]]) -> dict[str, list[np.ndarray]]:
    """Arrays by kind as those of blocks: NaN where a kind has none."""
    kinds = [MESHIO_KINDS.get(name, NODES) for name, _ in blocks]
    found = {}
    for name, given in on_cells.items():
        tail = next((a.shape[1:] for a in given.values()), ())
        missing = not set(kinds) <= set(given)
        found[name] = [
            given[kind].astype(float if missing else given[kind].dtype)
            if kind in given
            else np.full((len(cells), *tail), np.nan)
            for kind, (_, cells) in zip(kinds, blocks, strict=True)
        ]
    return found


def _flags(count: int, numbers: np.ndarray) -> np.ndarray:
    flags = np.zeros(count, np.int32)
    flags[numbers] = 1
    return flags


def _with_physical(mesh: MixedMesh, points: np.ndarray, blocks: list, on_points: dict, of_cells: dict, data: dict) -> Any:
    """Each cell has the number of its group, each group one for every dimension that it has."""
    dimensions = [*(reference_element(kind).dimension for kind in mesh.blocks), 0]
    physical, names = [np.zeros(len(cells), np.int32) for _, cells in blocks], {}
    for number, (name, of_blocks) in enumerate(of_cells.items(), start=1):
        for block, members in enumerate(of_blocks):
            if len(members) and physical[block][members].any():
                kind = blocks[block][0]
                raise ValueError(
                    f"write_mesh: a cell of kind '{kind}' is in '{name}' and in another group, and a file of Gmsh names one "
                    "for each: write .vtu or .inp."
                )
            physical[block][members] = number
            if len(members):
                names[name] = np.array([number, dimensions[block]])
    data |= {"gmsh:physical": physical, "gmsh:geometrical": [np.ones(len(cells), np.int32) for _, cells in blocks]}
    return import_meshio().Mesh(points, blocks, on_points, cell_data=data, field_data=names)
