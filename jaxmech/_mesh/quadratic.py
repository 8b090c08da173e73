"""Meshes of quadratic cells: nodes in the middle of edges, and of faces and cells where a kind has them."""

import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_choice, check_instance
from .adjacency import distinct_rows
from .mesh import Mesh
from .reference import ReferenceElement, reference_element

QUADRATIC = {
    "edge": ("edge3",),
    "triangle": ("triangle6",),
    "quad": ("quad8", "quad9"),
    "tetrahedron": ("tetrahedron10",),
    "pyramid": ("pyramid13",),
    "prism": ("prism15",),
    "hexahedron": ("hexahedron20", "hexahedron27"),
}


def quadratic_mesh(mesh: Mesh, kind: str | None = None) -> Mesh:
    """The same cells with nodes in the middle, on straight sides: those of `mesh` keep their numbers, new ones follow.

    `kind`: the quadratic kind, the one with fewest nodes unless given. Move the new points (`eqx.tree_at`) to curve the
    sides. Differentiable by the points of `mesh`. Raises `ValueError` for cells that have no such quadratic kind.
    Points keep their unit [m].

    Example:

        plate = jm.mesh.quadratic_mesh(jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0)))
        assert plate.kind == "triangle6" and plate.cells.shape == (2, 6)
        assert plate.points.shape == (9, 2) and jnp.allclose(plate.measure(), 1.0)  # [m^2]
    """
    check_instance("quadratic_mesh", "mesh", mesh, Mesh)
    if mesh.kind not in QUADRATIC:
        raise ValueError(
            f"quadratic_mesh: cells of kind '{mesh.kind}' have no quadratic kind, those of {list(QUADRATIC)} do."
        )
    kind = QUADRATIC[mesh.kind][0] if kind is None else kind
    check_choice("quadratic_mesh", "kind", kind, QUADRATIC[mesh.kind])
    cells, points, count = [np.asarray(mesh.cells)], [mesh.points], len(mesh.points)
    for parents in _middles(reference_element(kind), reference_element(mesh.kind)):
        nodes = np.asarray(mesh.cells)[:, parents]  # of every cell, the corners around each of its middles
        rows = nodes.reshape(-1, nodes.shape[-1])
        first, which = distinct_rows(rows, len(mesh.points))
        points.append(jnp.mean(mesh.points[rows[first]], axis=1))
        cells.append((count + which).reshape(len(cells[0]), -1))
        count += len(first)
    return Mesh(jnp.concatenate(points), np.hstack(cells), kind)


def _middles(element: ReferenceElement, linear: ReferenceElement) -> list[np.ndarray]:
    """The corners whose mean each further node is: of edges, then of faces, then of cells, each `(middles, corners)`."""
    corners, groups = np.asarray(linear.vertices, float), {}
    for node in range(linear.nodes, element.nodes):
        # At the mean of corners, the linear shape functions are alike there, and nil elsewhere.
        own = np.flatnonzero(linear.shape(np.asarray(element.vertices[node], float)) > 0.01)
        assert np.allclose(corners[own].mean(axis=0), element.vertices[node])
        groups.setdefault(len(own), []).append(own)
    return [np.asarray(groups[size]) for size in sorted(groups)]
