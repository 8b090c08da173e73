"""Meshes from files and to files, through meshio (VTK, Gmsh, XDMF, ...)."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._runtime.argument_checks import check_instance, check_path, plain
from .._runtime.atomic_files import replacing
from .kept import check_kept
from .mesh import Mesh
from .meshio_files import MESHIO_KINDS, MESHIO_NAMES, content_of, import_meshio, one_error
from .mixed import MixedMesh
from .mixed_write import append_element_sets
from .reference import reference_element
from .written import in_space, written_content


def read_mesh(path: str | os.PathLike, *, kind: str | None = None, dimension: int | None = None) -> Mesh:
    """The cells of one `kind` in a file, with all its points [in the unit of the file].

    Without `kind`, the one of highest dimension that the file holds. Without `dimension`, edges, triangles
    and quads whose points all have the same z become a mesh in the plane (`dimension=3` keeps z,
    `dimension=2` insists).

    Raises `FileNotFoundError`; `ImportError` without meshio; `ValueError` for a file that cannot be read,
    lists of cells that leave a choice, a kind that is not there, and points that are not in the plane if
    `dimension=2`.
    Source: N. Schlömer, meshio (the formats it reads).

    Example:

        jm.mesh.write_mesh("cube.vtk", mesh)
        again = jm.mesh.read_mesh("cube.vtk")
        assert again.kind == "tetrahedron" and jnp.allclose(again.points, mesh.points)
    """
    import_meshio()
    check_path("read_mesh", path)
    if not (dimension is None or (type(plain(dimension)) is int and dimension in (2, 3))):
        raise ValueError(f"read_mesh: dimension must be 2, 3 or None, got {dimension!r:.80}.")
    if kind is not None:
        reference_element(kind)
    points, blocks, _ = content_of("read_mesh", path)
    kind = _chosen_kind({name for name, data in blocks if len(data)}, kind, os.fspath(path))
    with one_error(f"read_mesh: path '{os.fspath(path)}' holds no mesh"):
        cells = np.vstack([data for name, data in blocks if name == MESHIO_NAMES[kind]])
        return Mesh(in_dimension(points, kind, dimension), cells.astype(np.int64), kind)


def write_mesh(
    path: str | os.PathLike,
    mesh: Mesh | MixedMesh,
    *,
    point_data: Mapping[str, Any] | None = None,
    cell_data: Mapping[str, Any] | None = None,
) -> None:
    """Write a mesh, with named arrays on its points `(n, ...)` and on its cells `(e, ...)`.

    The suffix of the path tells the format (.vtk, .vtu, .msh of Gmsh, .xdmf, ...). Points and vectors in the
    plane are written with z = 0, which is what the VTK formats require. Groups of a `MixedMesh` are written as
    `read_mixed_mesh` reads them: physical groups of Gmsh, sets of Abaqus, in .vtu, .vtk and .xdmf an array of zeros
    and ones; arrays on its cells are by kind, `{"stress": {"quad": ..., "triangle": ...}}`, NaN on kinds left out.
    Raises `ImportError` without meshio, `ValueError` for an array with another number of rows, an unknown format,
    groups of Gmsh that overlap, groups in other files, which keep none, and cells or arrays that a format does not keep
    (files of other formats than these are read again to see it). An old file is replaced by a whole one or,
    where writing fails, left as it is.
    Points in the unit of the mesh, [m] say. Source: N. Schlömer, meshio (the formats it writes).

    Example:

        jm.mesh.write_mesh("cube.vtu", mesh, cell_data={"young": np.full(6, 1e6)})
        assert jm.mesh.read_mesh("cube.vtu").cells.shape == (6, 4)
    """
    import_meshio()
    check_path("write_mesh", path)
    check_instance("write_mesh", "mesh", mesh, (Mesh, MixedMesh))
    content = written_content(mesh, point_data, cell_data, Path(os.fspath(path)).suffix.lower())
    # Left to itself, meshio takes .msh for a file of Ansys.
    file_format = _formats(mesh).get(Path(os.fspath(path)).suffix.lower())
    failed = f"write_mesh: path '{os.fspath(path)}' cannot be written"
    with replacing(path) as whole:
        with one_error(failed):
            content.write(whole, file_format=file_format)
            if isinstance(mesh, MixedMesh) and file_format == "abaqus":
                append_element_sets(whole, mesh)
        check_kept(whole, content, failed)


def _formats(mesh: Mesh | MixedMesh) -> dict[str, str]:
    return {".msh": "gmsh" if isinstance(mesh, Mesh) else "gmsh22", ".inp": "abaqus"}


def _chosen_kind(names: set[str], kind: str | None, path: str) -> str:
    found = sorted(MESHIO_KINDS[name] for name in names if name in MESHIO_KINDS)
    top = max((reference_element(k).dimension for k in found), default=0)
    highest = [k for k in found if reference_element(k).dimension == top]
    if kind in found or (kind is None and len(highest) == 1):
        return kind or highest[0]
    present = sorted({MESHIO_KINDS.get(name, name) for name in names})
    if kind is not None:
        raise ValueError(f"read_mesh: '{path}' holds no cell of kind '{kind}', it holds {present}.")
    if not found:
        raise ValueError(f"read_mesh: '{path}' holds {present}, expected one of {list(MESHIO_NAMES)}.")
    raise ValueError(f"read_mesh: '{path}' holds {present}: pass kind= one of {highest}.")


def in_dimension(points: np.ndarray, kind: str, dimension: int | None) -> np.ndarray:
    if points.shape[1] == 2:
        return in_space(points) if dimension == 3 else points
    flat = bool((points[:, 2] == points[0, 2]).all())
    if dimension == 2 and not flat:
        raise ValueError("read_mesh: dimension=2, but z is not the same at all points.")
    if dimension == 2 or (dimension is None and flat and reference_element(kind).dimension < 3):
        return points[:, :2]
    return points
