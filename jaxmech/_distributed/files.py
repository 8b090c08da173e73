"""Results written by all ranks at once: each its own cells."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from .._mesh.io import write_mesh
from .._mesh.mesh import Mesh
from .._runtime.argument_checks import check_choice, check_instance, check_path
from .._runtime.atomic_files import replacing
from .division import Division


def write_mesh_over_ranks(
    path: str | os.PathLike,
    mesh: Mesh,
    division: Division,
    state: str,
    *,
    point_data: Mapping[str, Any] | None = None,
    cell_data: Mapping[str, Any] | None = None,
) -> None:
    """Write a mesh and arrays on its points `(n, ...)` and cells `(e, ...)` to a `.pvtu`, all ranks at once.

    Called on every rank, with the whole mesh; where the scene was scattered (`scatter`), with that of the part: points of
    its state, and as cells the nodes of its elements. A rank writes the cells whose first point is a node of `state` that
    it owns, in a VTU file of a folder beside the `.pvtu` that has its name without the suffix; each is read by
    `jm.mesh.read_mesh`, all of them by ParaView from the `.pvtu`, which is written last. Points in the unit of the mesh,
    [m] say.
    Raises `ImportError` without meshio, `ValueError` for another suffix, a mesh whose points are not the nodes of the state,
    and arrays of other lengths, `TypeError` for what is no mesh or no division. Source: Kitware, *VTK file formats*.

    Example:

        try:
            division = jm.distributed.divide(system, state)
        except ImportError as error:
            assert "jaxmech[mpi]" in str(error)
        else:
            jm.distributed.write_mesh_over_ranks("cube.pvtu", mesh, division, "cube", point_data={"force": b["cube"]})
            assert jm.mesh.read_mesh("cube/cube_0.vtu").cells.shape == (6, 4)
    """
    who = "write_mesh_over_ranks"
    check_path(who, path)
    check_instance(who, "mesh", mesh, Mesh)
    check_instance(who, "division", division, Division)
    whole = Path(os.fspath(path))
    if whole.suffix.lower() != ".pvtu":
        raise ValueError(f"{who}: path '{whole}' must end in .pvtu.")
    check_choice(who, "state", state, tuple(division.count))
    count, own = division.owned_rows(state)
    if count != len(mesh.points):
        raise ValueError(
            f"{who}: the mesh has {len(mesh.points)} points, and state '{state}' has {count} nodes here: pass the mesh of "
            "its nodes, of a scene that was scattered that of the part."
        )
    folder, cells = whole.with_suffix(""), np.asarray(mesh.cells)
    mine = np.zeros(count, bool)
    mine[own] = True
    at = np.flatnonzero(mine[cells[:, 0]])
    nodes, numbers = np.unique(cells[at], return_inverse=True)
    on_points = _rows(who, "point_data", point_data, len(mesh.points), nodes)
    on_cells = _rows(who, "cell_data", cell_data, len(cells), at)
    if division.rank == 0:
        folder.mkdir(exist_ok=True)
    division.comm.Barrier()
    piece = folder / f"{whole.stem}_{division.rank}.vtu"
    if at.size:
        part = Mesh(np.asarray(mesh.points)[nodes], numbers.reshape(-1, cells.shape[1]), mesh.kind)
        write_mesh(piece, part, point_data=on_points, cell_data=on_cells)
    written = [rank for rank, there in enumerate(division.comm.allgather(bool(at.size))) if there]
    if division.rank == written[0]:
        _write_whole(whole, piece, [f"{folder.name}/{whole.stem}_{rank}.vtu" for rank in written])
    division.comm.Barrier()


def _rows(who: str, name: str, data: Any, count: int, rows: np.ndarray) -> dict[str, np.ndarray]:
    check_instance(who, name, {} if data is None else data, Mapping)
    found = {}
    for key, values in (data or {}).items():
        if np.shape(values)[:1] != (count,):
            raise ValueError(f"{who}: {name} '{key}' has shape {np.shape(values)}, expected ({count}, ...).")
        found[key] = np.asarray(values)[rows]
    return found


def _write_whole(path: Path, piece: Path, names: list[str]) -> None:
    """The file that names the pieces, and the arrays that one of them has."""
    one = ElementTree.parse(piece).getroot()
    head = {"type": "PUnstructuredGrid", **{key: one.attrib[key] for key in ("version", "byte_order")}}
    root = ElementTree.Element("VTKFile", head)
    grid = ElementTree.SubElement(root, "PUnstructuredGrid", {"GhostLevel": "0"})
    for kind in ("PointData", "CellData", "Points"):
        here = ElementTree.SubElement(grid, f"P{kind}")
        for array in one.iterfind(f"UnstructuredGrid/Piece/{kind}/DataArray"):
            said = {key: array.attrib[key] for key in ("type", "Name", "NumberOfComponents") if key in array.attrib}
            ElementTree.SubElement(here, "PDataArray", said)
    for name in names:
        ElementTree.SubElement(grid, "Piece", {"Source": name})
    with replacing(path) as whole:
        ElementTree.ElementTree(root).write(whole, xml_declaration=True, encoding="utf-8")
