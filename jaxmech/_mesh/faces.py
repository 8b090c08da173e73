"""The faces of the cells of a mesh, all of them or those of its boundary, and the cells on either side."""

import numpy as np

from .adjacency import cell_faces, distinct_rows, listed_by
from .mesh import Mesh, boundary_faces
from .reference import reference_element
from .topological_mapping import TopologicalMapping, host_cells


def hexahedra_to_quads(mesh: Mesh) -> TopologicalMapping:
    """Every face of the hexahedra once, on the same points: `parents` `(m, 2)` are the cells on its two sides.

    Faces come in the order of their first parent, the lower of the two, and are outward from it; on the boundary
    the second is -1. `boundary_of` gives the boundary alone. Raises `ValueError` for another kind of cells.
    No units: numbers of points and cells.

    Example:

        bricks = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron")
        faces = jm.mesh.hexahedra_to_quads(bricks)
        assert len(faces.mesh.cells) == 11  # of 12, the one between the two is shared
        assert int((faces.parents >= 0).all(1).sum()) == 1
    """
    return _faces("hexahedra_to_quads", mesh, "hexahedron")


def tetrahedra_to_triangles(mesh: Mesh) -> TopologicalMapping:
    """Every face of the tetrahedra once, on the same points: `parents` `(m, 2)` are the cells on its two sides.

    Faces come in the order of their first parent, the lower of the two, and are outward from it; on the boundary
    the second is -1. `boundary_of` gives the boundary alone. Raises `ValueError` for another kind of cells.
    No units: numbers of points and cells.

    Example:

        faces = jm.mesh.tetrahedra_to_triangles(mesh)
        assert len(faces.mesh.cells) == (6 * 4 + 12) / 2  # all but the 12 on the boundary are shared by two
    """
    return _faces("tetrahedra_to_triangles", mesh, "tetrahedron")


def triangles_to_edges(mesh: Mesh) -> TopologicalMapping:
    """Every edge of the triangles once, on the same points: `parents` `(m, p)` are the triangles that share it.

    Edges come in the order of their first parent, the lowest of them, and run counter-clockwise round it. `p` is 2,
    or more where more than two triangles share an edge; on the boundary, all but the first are -1. `boundary_of`
    gives the boundary alone. Raises `ValueError` for another kind of cells.
    No units: numbers of points and cells.

    Example:

        plate = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0))
        edges = jm.mesh.triangles_to_edges(plate)
        assert edges.mesh.kind == "edge" and len(edges.mesh.cells) == 5
    """
    return _faces("triangles_to_edges", mesh, "triangle")


def boundary_of(mesh: Mesh) -> TopologicalMapping:
    """`mesh.boundary()`, the faces that belong to one cell only, outward, on the same points, with that cell as their
    parent.

    `submesh(boundary_of(mesh).mesh)` drops the points inside. Raises as `Mesh.boundary` does.
    No units: numbers of points and cells.

    Example:

        skin = jm.mesh.boundary_of(mesh)
        assert skin.mesh.kind == "triangle" and skin.mesh.cells.shape == (12, 3)
        assert jnp.allclose(skin.mesh.measure(), 6.0)  # [m^2]
    """
    cells = host_cells("boundary_of", mesh)
    faces, owners = boundary_faces(mesh)
    if not len(faces):
        raise ValueError("boundary_of: mesh has none, no face belongs to one cell only.")
    return _mapping(mesh, faces, owners[:, None], len(cells))


def _faces(owner: str, mesh: Mesh, kind: str) -> TopologicalMapping:
    cells = host_cells(owner, mesh, kind)
    element = reference_element(kind)
    faces = cell_faces(cells, element, len(mesh.points))
    first, which = distinct_rows(faces, len(mesh.points))
    parents = listed_by(which, np.arange(len(faces)) // len(element.faces), len(first))
    if parents.shape[1] == 1:  # cells that share no face
        parents = np.pad(parents, ((0, 0), (0, 1)), constant_values=-1)
    return _mapping(mesh, faces[first], parents, len(cells))


def _mapping(mesh: Mesh, faces: np.ndarray, parents: np.ndarray, count: int) -> TopologicalMapping:
    kind = reference_element(mesh.kind).face_kind
    assert kind is not None
    return TopologicalMapping(Mesh(mesh.points, faces, kind), parents, np.arange(len(mesh.points)), count)
