"""Time series in files that ParaView reads."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import numpy as np

from .._mesh.io import write_mesh
from .._mesh.mesh import Mesh
from .._mesh.mixed import MixedMesh
from .._mesh.written import check_kinds, written_array, written_content
from .._runtime.argument_checks import check_instance, check_path, real_array
from .._runtime.atomic_files import check_folder, replacing

_SUFFIXES = (".pvd", ".xdmf")


def write_series(
    path: str | os.PathLike,
    mesh: Mesh | MixedMesh,
    times: Any,
    *,
    point_data: Mapping[str, Any] | None = None,
    cell_data: Mapping[str, Any] | None = None,
) -> None:
    """Write arrays on the points `(T, n, ...)` and on the cells `(T, e, ...)` of a mesh at `times` `(T,)` [s], for ParaView.

    A `.pvd` names one VTU file for each time, in a folder beside it that has its name without the suffix; an `.xdmf` is one
    file of text. Displacements under the name "displacement", say, are what *Warp By Vector* wants; tensors `(..., 3, 3)`
    become nine components, vectors in the plane get a third one. Of a `MixedMesh` arrays on cells are by kind,
    `{"stress": {"quad": ..., "triangle": ...}}`, NaN on kinds left out, and groups are arrays of zeros and ones. The series
    takes the place of an old one when it is whole: where writing fails, the old one is left as it is.
    Raises `ImportError` without meshio, `ValueError` for another suffix, times that do not increase, and arrays of other
    shapes, names that are empty or given twice, and a folder of this name that is not a series; `TypeError` for what is no
    mesh or no number that files have; `FileNotFoundError` for a folder that is not there.
    Source: N. Schlömer, meshio; Kitware, *VTK file formats*; XDMF version 3.

    Example:

        run = np.stack([np.zeros((8, 3)), np.full((8, 3), 0.1)])  # [m]
        jm.output.write_series("sag.pvd", mesh, [0.0, 0.5], point_data={"displacement": run})
        assert np.allclose(jm.mesh.read_mesh("sag/sag_0001.vtu").points, mesh.points)
    """
    check_path("write_series", path)
    check_instance("write_series", "mesh", mesh, (Mesh, MixedMesh))
    suffix = Path(os.fspath(path)).suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"write_series: path '{os.fspath(path)}' must end in one of {_SUFFIXES}.")
    times = np.asarray(real_array("write_series", "times", times, (None,)))
    if not len(times) or (np.diff(times) <= 0).any():
        raise ValueError(f"write_series: times must increase, at least one, got {times!r:.80}.")
    on_points = _checked("point_data", point_data, (len(times), len(mesh.points)))
    on_cells = _checked_on_cells(mesh, cell_data, len(times))
    check_folder(path)
    write = _write_pvd if suffix == ".pvd" else _write_xdmf
    write(Path(os.fspath(path)), mesh, times, on_points, on_cells)


def _checked_on_cells(mesh: Mesh | MixedMesh, data: Any, steps: int) -> dict[str, Any]:
    if isinstance(mesh, Mesh):
        return _checked("cell_data", data, (steps, len(mesh.cells)))
    check_instance("write_series", "cell_data", {} if data is None else data, Mapping)
    checked = {}
    for name, by_kind in (data or {}).items():
        kinds = check_kinds("write_series", mesh, name, by_kind)
        checked[name] = {
            kind: _checked("cell_data", {name: by_kind[kind]}, (steps, len(mesh.blocks[kind])))[name] for kind in kinds
        }
    return checked


def _checked(name: str, data: Any, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Arrays of at most two axes for each time."""
    check_instance("write_series", name, {} if data is None else data, Mapping)
    checked = {}
    for key, values in (data or {}).items():
        values = written_array("write_series", name, key, values)
        if values.shape[:2] != shape:
            raise ValueError(f"write_series: {name} '{key}' has shape {values.shape}, expected {(*shape, '...')}.")
        checked[key] = values if values.ndim < 4 else values.reshape(*shape, -1)
    return checked


def _write_pvd(path: Path, mesh: Mesh | MixedMesh, times: np.ndarray, on_points: dict, on_cells: dict) -> None:
    folder = path.with_suffix("")
    known = {path.suffix, ".vtu"}
    if folder.exists() and (not folder.is_dir() or any(p.suffix not in known or p.is_dir() for p in folder.iterdir())):
        raise ValueError(f"write_series: '{folder}' is there and is no folder of VTU files; take another name.")
    digits = max(4, len(str(len(times) - 1)))
    names = [f"{path.stem}_{i:0{digits}d}.vtu" for i in range(len(times))]
    made = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.stem}-"))
    try:
        for i, name in enumerate(names):
            write_mesh(made / name, mesh, point_data=_at(i, on_points), cell_data=_at(i, on_cells))
        sets = (
            f'    <DataSet timestep={quoteattr(repr(float(t)))} part="0" file={quoteattr(f"{folder.name}/{name}")}/>\n'
            for t, name in zip(times, names, strict=True)
        )
        with replacing(path) as whole:
            whole.write_text(
                '<?xml version="1.0"?>\n<VTKFile type="Collection" version="0.1">\n  <Collection>\n'
                f"{''.join(sets)}  </Collection>\n</VTKFile>\n",
                encoding="utf-8",
            )
            made.chmod(0o755)
            if folder.exists():  # two renames: the old files are there until the new ones are
                old = made.with_name(f"{made.name}-old")
                folder.rename(old)
                made.rename(folder)
                shutil.rmtree(old)
            else:
                made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _write_xdmf(path: Path, mesh: Mesh | MixedMesh, times: np.ndarray, on_points: dict, on_cells: dict) -> None:
    try:
        import meshio
        from meshio.xdmf.common import meshio_type_to_xdmf_index
    except ImportError as error:
        raise ImportError('Time series need meshio: pip install "jaxmech[mesh]"') from error
    plain = written_content(mesh, {}, {}, ".xdmf")
    with replacing(path) as whole:
        with meshio.xdmf.TimeSeriesWriter(whole, data_format="XML") as writer:
            writer.write_points_cells(plain.points, plain.cells[:1])  # which cannot write lines beside others
            for i, t in enumerate(times):
                at = written_content(mesh, _at(i, on_points), _at(i, on_cells), ".xdmf")
                writer.write_data(float(t), point_data=at.point_data, cell_data=at.cell_data)
        _put_the_mesh_into_the_first(whole, plain.cells, meshio_type_to_xdmf_index)


def _put_the_mesh_into_the_first(path: Path, blocks: list[Any], indices: dict[str, int]) -> None:
    """Put points and cells into the grid of the first time, where the others find them.

    meshio has them in a grid beside the series, which ParaView draws too, with the values of the first time for ever.
    """
    tree = ElementTree.parse(path)
    (domain,) = tree.getroot()
    series, alone = (next(g for g in domain if g.get("GridType") == kind) for kind in ("Collection", "Uniform"))
    domain.remove(alone)
    if len(blocks) > 1:
        _mix(next(child for child in alone if child.tag == "Topology"), blocks, indices)
    for number, at in enumerate(series):
        at.set("GridType", "Uniform")
        (pointer,) = (child for child in at if child.tag.endswith("}include"))
        if number:
            pointer.set(
                "xpointer", f'xpointer(//Grid[@Name="{series.get("Name")}"]/Grid[1]/*[self::Topology or self::Geometry])'
            )
        else:
            at.remove(pointer)
            at[:0] = list(alone)
    tree.write(path)


def _mix(topology: ElementTree.Element, blocks: list[Any], indices: dict[str, int]) -> None:
    """The cells of all blocks: each the number of its kind, how many nodes a point or line has, and the nodes."""
    rows = []
    for block in blocks:
        head = [indices[block.type], *{"vertex": [1], "line": [2]}.get(block.type, [])]
        rows.append(np.hstack([np.tile(head, (len(block.data), 1)), block.data]).ravel())
    numbers = np.concatenate(rows)
    topology.attrib = {"TopologyType": "Mixed", "NumberOfElements": str(sum(len(block.data) for block in blocks))}
    (item,) = topology
    item.attrib = {"DataType": "Int", "Dimensions": str(len(numbers)), "Format": "XML", "Precision": "8"}
    item.text = " ".join(map(str, numbers.tolist()))


def _at(step: int, data: dict[str, Any]) -> dict[str, Any]:
    """Of arrays over times, by name or by name and kind, those of one."""
    return {key: _at(step, values) if isinstance(values, dict) else values[step] for key, values in data.items()}
