"""A mesh: points in space, and cells of one kind that join them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_callable, check_instance, check_real, index_array, numeric_array
from .._runtime.array_types import Array, Float, Int, Scalar
from .._runtime.host_arrays import as_data
from .._runtime.jax_internals import Tracer
from .._runtime.precision import in_one_program
from .adjacency import cell_faces, distinct_rows, opposite_faces, row_keys
from .reference import reference_element


def _is_traced(array: Any) -> bool:
    return isinstance(array, Tracer)


def as_points(points: Any) -> Array:
    array = numeric_array("Mesh", "points", points)
    if jnp.issubdtype(array.dtype, jnp.integer):
        return as_data(array, jnp.result_type(float))
    check_real("Mesh", "points", array, finite=False)
    return as_data(array)


def _as_cells(cells: Any) -> Array:
    return index_array("Mesh", "cells", cells)


class Mesh(eqx.Module):
    """Points `(n, d)` [m], `d` 2 or 3, and cells `(e, k)`: the point numbers of each cell, in VTK order.

    `kind` is 'edge', 'triangle', 'quad', 'tetrahedron', 'pyramid', 'prism', 'hexahedron', or one of quadratic cells:
    'edge3', 'triangle6', 'quad8', 'quad9', 'tetrahedron10', 'pyramid13', 'prism15', 'hexahedron20', 'hexahedron27'; it
    may have fewer dimensions than the points (a sheet or a rope in space). Points are a differentiable leaf whose dtype is
    kept; `kind` is static.

    Raises `ValueError` for an unknown kind, another shape, a node that is not a point, a coordinate that is
    not finite; `TypeError` for points that are not real or cells that are not whole numbers.
    Source: W. Schroeder, K. Martin, B. Lorensen, *The Visualization Toolkit*, 4th ed., 2006, ISBN 978-1-930934-19-1 (VTK
    order).

    Example:

        square = jm.mesh.Mesh([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]], [[0, 1, 2], [0, 2, 3]], "triangle")
        assert jnp.allclose(square.measure(), 2.0)  # [m^2]
        assert square.nodes_where(lambda x: x[:, 0] == 0.0).tolist() == [0, 3]
    """

    points: Float[Array, "n d"] = eqx.field(converter=as_points)
    cells: Int[Array, "e k"] = eqx.field(converter=_as_cells)
    kind: str = eqx.field(static=True)

    def __check_init__(self):
        try:
            element = reference_element(self.kind)
        except ValueError as error:
            raise ValueError(f"Mesh: {error}") from None
        if self.points.ndim != 2 or self.points.shape[1] not in (2, 3):
            raise ValueError(f"Mesh: points has shape {self.points.shape}, expected (points, 2) or (points, 3).")
        if self.points.shape[1] < element.dimension:
            raise ValueError(f"Mesh: cells of kind '{self.kind}' need points in 3 dimensions, got 2.")
        if self.cells.ndim != 2 or self.cells.shape[1] != element.nodes or not len(self.cells):
            raise ValueError(
                f"Mesh: cells has shape {self.cells.shape}, expected (cells, {element.nodes}) for kind "
                f"'{self.kind}', with at least one cell."
            )
        self._check_values()

    def _check_values(self) -> None:
        if not _is_traced(self.cells):
            cells, count = np.asarray(self.cells), len(self.points)
            wrong = np.flatnonzero(((cells < 0) | (cells >= count)).any(1))
            if wrong.size:
                node = next(v for v in cells[wrong[0]].tolist() if not 0 <= v < count)
                raise ValueError(f"Mesh: cell {wrong[0]} names node {node}, but there are {count} points.")
        if not _is_traced(self.points):
            wrong = np.flatnonzero(~np.isfinite(np.asarray(self.points)).all(1))
            if wrong.size:
                raise ValueError(f"Mesh: points[{wrong[0]}] is {self.points[wrong[0]]}, expected finite numbers.")

    def nodes_where(self, predicate: Callable[[np.ndarray], Any]) -> Int[np.ndarray, " m"]:
        """Numbers of the nodes whose points satisfy `predicate`, a function of `(n, d)` points giving `(n,)`
        booleans.

        Host only (its size depends on values). Raises `TypeError` for an answer that is not boolean,
        `ValueError` for one of another shape and for one that selects no node.
        """
        nodes = np.flatnonzero(_selection(self, predicate, "nodes_where")).astype(np.int32)
        if not nodes.size:
            raise ValueError(f"Mesh.nodes_where: the predicate selects no node (of {len(self.points)}).")
        return nodes

    def boundary(self) -> "Mesh":
        """The faces that belong to one cell only, outward, as a mesh on the same points (so node numbers keep
        their meaning). `boundary_faces` also tells which cells own them.

        Raises `ValueError` for edges, for prisms and pyramids, whose faces are of two kinds (see `MixedMesh.boundary`), and
        for a mesh without boundary (a closed surface).
        """
        faces, _ = boundary_faces(self)
        if not len(faces):
            raise ValueError("Mesh.boundary: there is none, no face belongs to one cell only.")
        return Mesh(self.points, faces, _face_kind(self))

    def faces_where(self, predicate: Callable[[np.ndarray], Any]) -> "Mesh":
        """The boundary faces all of whose nodes satisfy `predicate` (as in `nodes_where`), on the same
        points.

        Raises as `nodes_where` and `boundary` do, and `ValueError` if no face is selected.
        """
        boundary = self.boundary()
        selected = _selection(self, predicate, "faces_where")
        faces = np.asarray(boundary.cells)
        faces = faces[selected[faces].all(1)]
        if not len(faces):
            raise ValueError(f"Mesh.faces_where: the predicate selects no face (of {len(boundary.cells)} on the boundary).")
        return Mesh(self.points, faces, boundary.kind)

    def edges(self) -> Int[np.ndarray, "m 2"]:
        """The distinct edges of the cells, smaller node first, in increasing order. Host only."""
        count = len(self.points)
        pairs = _numbers(self.cells, "edges")[:, np.asarray(reference_element(self.kind).edges)]
        keys = np.unique(row_keys(np.sort(pairs.reshape(-1, 2), axis=1), count))
        return np.stack([keys // count, keys % count], axis=1).astype(np.int32)

    def neighbours(self) -> Int[np.ndarray, "e f"]:
        """The cell across each face of each cell (faces as in `reference_element(kind).faces`: for surfaces, their
        edges); -1 on the boundary. Host only.

        Raises `ValueError` for edges, and for a face that three cells share.
        """
        element = reference_element(self.kind)
        if not element.faces:
            raise ValueError(f"Mesh.neighbours: cells of kind '{self.kind}' have no faces.")
        try:
            opposite = opposite_faces(_numbers(self.cells, "neighbours"), element, len(self.points))
        except ValueError as error:
            raise ValueError(f"Mesh.neighbours: {error}") from None
        cells = np.where(opposite < 0, -1, opposite // len(element.faces))
        return cells.reshape(len(self.cells), -1).astype(np.int32)

    def cell_measures(self) -> Float[Array, " e"]:
        """Length, area or volume of each cell [m, m^2, m^3], differentiable with respect to the points.

        Where cells have as many dimensions as the points, the measure is signed: negative for an inverted
        cell.
        """
        return _cell_measures(self)

    def measure(self) -> Scalar:
        """Total length, area or volume [m, m^2, m^3]: the sum of `cell_measures`."""
        return _measure(self)


def boundary_faces(mesh: Mesh) -> tuple[Int[np.ndarray, "f m"], Int[np.ndarray, " f"]]:
    """The faces that belong to exactly one cell, outward, and the cell that owns each of them. Host only.

    Faces come in the order of their cells. Both arrays are empty for a closed surface. Raises `ValueError`
    for edges, which have no faces, and for prisms and pyramids, whose faces are of two kinds.
    `faces` `(f, m)` and `owners` `(f,)`: numbers, without units.

    Example:

        faces, owners = jm.mesh.boundary_faces(mesh)
        assert faces.shape == (12, 3) and owners.shape == (12,)  # two triangles on each side of the cube
    """
    check_instance("boundary_faces", "mesh", mesh, Mesh)
    _face_kind(mesh)
    element = reference_element(mesh.kind)
    faces = cell_faces(_numbers(mesh.cells, "boundary"), element, len(mesh.points))
    first, which = distinct_rows(faces, len(mesh.points))
    alone = first[np.bincount(which) == 1]
    return faces[alone], (alone // len(element.faces)).astype(np.int32)


def _face_kind(mesh: Mesh) -> str:
    element = reference_element(mesh.kind)
    if element.face_kind is None:
        have = "faces of two kinds: take MixedMesh.from_mesh and its boundary() or groups" if element.faces else "no faces"
        raise ValueError(f"Mesh.boundary: cells of kind '{mesh.kind}' have {have}.")
    return element.face_kind


def _numbers(array: Array, method: str) -> np.ndarray:
    if _is_traced(array):
        raise TypeError(f"Mesh.{method}: the size of its result depends on values, call it outside jit.")
    return np.asarray(array)


def _selection(mesh: Mesh, predicate: Callable[[np.ndarray], Any], method: str) -> np.ndarray:
    check_callable(f"Mesh.{method}", "predicate", predicate)
    answer = np.asarray(predicate(_numbers(mesh.points, method)))
    if answer.dtype != np.bool_:
        raise TypeError(f"Mesh.{method}: the predicate must give booleans, got dtype {answer.dtype}.")
    if answer.shape != (len(mesh.points),):
        raise ValueError(
            f"Mesh.{method}: the predicate gave shape {answer.shape}, expected ({len(mesh.points)},): one boolean per point."
        )
    return answer


@in_one_program
def _cell_measures(mesh: Mesh) -> Float[Array, " e"]:
    element, dtype = reference_element(mesh.kind), mesh.points.dtype
    places, weights = element.quadrature("stiffness")
    gradients = jnp.asarray(element.shape_gradients(places), dtype=dtype)
    jacobians = jnp.einsum("ekd,qka->eqda", mesh.points[mesh.cells], gradients)
    return _volume_factor(jacobians) @ jnp.asarray(weights, dtype=dtype)


@in_one_program
def _measure(mesh: Mesh) -> Scalar:
    return jnp.sum(_cell_measures(mesh))


def _volume_factor(jacobian: Float[Array, "... d a"]) -> Float[Array, "..."]:
    """How much the placed cell is larger than the reference one: `det J`, or the norm of its tangents'
    product.
    """
    if jacobian.shape[-2] == jacobian.shape[-1]:
        return jnp.linalg.det(jacobian)
    normal = jacobian[..., 0]
    if jacobian.shape[-1] == 2:
        normal = jnp.cross(normal, jacobian[..., 1])
    square = jnp.sum(normal * normal, axis=-1)
    # sqrt has no derivative at 0: a collapsed cell has measure 0 and, by convention, gradient 0.
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
