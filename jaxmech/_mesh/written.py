"""What files of meshes hold: points, cells, named arrays, as meshio writes them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._runtime.argument_checks import check_choice, check_instance, numeric_array
from .mesh import Mesh
from .meshio_files import MESHIO_NAMES, import_meshio
from .mixed import MixedMesh
from .mixed_write import mixed_content

_WITHOUT_ARRAYS = (".inp", ".obj", ".off", ".stl")  # which meshio leaves out in silence
_COMPONENTS = (1, 2, 3, 6, 9)  # of rows of an XDMF file


def written_content(mesh: Mesh | MixedMesh, point_data: Any, cell_data: Any, suffix: str) -> Any:
    """The content of a file of this suffix, as `write_mesh` has it, which it raises the errors of."""
    points = in_space(np.asarray(mesh.points))
    on_points = _checked_data("point_data", point_data, len(points), "points")
    mixed = isinstance(mesh, MixedMesh)
    on_cells = _of_kinds(mesh, cell_data) if mixed else _checked_data("cell_data", cell_data, len(mesh.cells), "cells")
    if suffix in _WITHOUT_ARRAYS and (on_points or on_cells):
        raise ValueError(f"write_mesh: a file '{suffix}' keeps no arrays, those of .vtu, .vtk and .xdmf do.")
    if suffix == ".xdmf":
        _check_components(on_points, *(on_cells.values() if mixed else [on_cells]))
    if mixed:
        return mixed_content(mesh, points, on_points, on_cells, suffix)
    blocks = [(MESHIO_NAMES[mesh.kind], np.asarray(mesh.cells))]
    return import_meshio().Mesh(points, blocks, on_points, cell_data={name: [a] for name, a in on_cells.items()})


def _check_components(*data: Mapping[str, np.ndarray]) -> None:
    """Raise a `ValueError` for rows that are neither numbers nor vectors nor tensors: meshio leaves without a word."""
    for arrays in data:
        for name, a in arrays.items():
            if a.ndim == 2 and a.shape[1] not in _COMPONENTS:
                raise ValueError(
                    f"write_mesh: '{name}' has {a.shape[1]} components, but a file '.xdmf' keeps {_COMPONENTS}: write its "
                    "columns apart, or .vtu and .pvd."
                )


def _of_kinds(mesh: MixedMesh, data: Any) -> dict[str, dict[str, np.ndarray]]:
    check_instance("write_mesh", "cell_data", {} if data is None else data, Mapping)
    checked = {}
    for name, by_kind in (data or {}).items():
        if name in mesh.groups:
            raise ValueError(f"write_mesh: cell_data '{name}' has the name of a group of the mesh.")
        checked[name] = {}
        for kind in check_kinds("write_mesh", mesh, name, by_kind):
            arrays = _checked_data("cell_data", {name: by_kind[kind]}, len(mesh.blocks[kind]), f"cells of kind '{kind}'")
            checked[name][kind] = arrays[name]
        if len({a.shape[1:] for a in checked[name].values()}) > 1:
            shapes = {kind: a.shape for kind, a in checked[name].items()}
            raise ValueError(f"write_mesh: cell_data '{name}' has rows of several shapes: {shapes}.")
    return checked


def check_kinds(owner: str, mesh: MixedMesh, name: str, by_kind: Any) -> list[str]:
    """The kinds that an array on the cells of a `MixedMesh` has rows of. Raises where it is no mapping of its kinds."""
    check_instance(owner, f"cell_data '{name}' of a MixedMesh, whose arrays are by kind of cell,", by_kind, Mapping)
    for kind in by_kind:
        check_choice(owner, f"a kind of cell_data '{name}'", kind, tuple(mesh.blocks))
    return list(by_kind)


def in_space(values: np.ndarray) -> np.ndarray:
    """The same with a third component 0 where there are two."""
    if values.ndim == 2 and values.shape[1] == 2:
        return np.pad(values, ((0, 0), (0, 1)))
    return values


def written_array(owner: str, name: str, key: Any, values: Any) -> np.ndarray:
    """Named numbers as files have them. Raises `TypeError` or `ValueError` for what no reader would take."""
    check_instance(owner, f"a name in {name}", key, str)
    if not key or not key.isprintable():
        raise ValueError(f"{owner}: a name in {name} must be printable words, got {key!r:.80}.")
    values = np.asarray(numeric_array(owner, f"{name} '{key}'", values))
    if values.dtype.kind == "c" or values.dtype.itemsize == 2 and values.dtype.kind not in "iu":
        raise TypeError(f"{owner}: {name} '{key}' has dtype {values.dtype}, which files do not have.")
    return values


def _checked_data(name: str, data: Mapping[str, Any] | None, count: int, what: str) -> dict[str, np.ndarray]:
    check_instance("write_mesh", name, {} if data is None else data, Mapping)
    checked = {}
    for key, values in (data or {}).items():
        values = written_array("write_mesh", name, key, values)
        if values.ndim == 0 or len(values) != count:
            raise ValueError(
                f"write_mesh: {name} '{key}' has shape {values.shape}, expected ({count}, ...): there are {count} {what}."
            )
        checked[key] = in_space(values.astype(np.int32) if values.dtype == np.bool_ else values)
    return checked
