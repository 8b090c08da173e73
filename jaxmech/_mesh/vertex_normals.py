"""The normals of a surface at its points."""

import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import real_array, whole_numbers
from .._runtime.array_types import Array, Float, Int
from .._runtime.host_arrays import as_data
from .._runtime.precision import in_one_program
from .._runtime.results import is_traced

COSINE_OF_FOLD = np.cos(np.radians(30))  # beyond it cells do not stand for one smooth surface


def vertex_normals(points: Float[Array, "n 3"], cells: Int[Array, "m k"]) -> Float[Array, "n 3"]:
    """Unit normals at the points of triangles or quads: `sum of area vectors` of the cells around each, normalised.

    `points` [m]: `kinematics(system, position)[skin]`, say: the normals of an embedded surface move with it. `cells`
    `(m, 3)` or `(m, 4)`, counter-clockwise seen from outside. Differentiable. Zero where a point has no cell, or where
    cells cancel. Raises `ValueError` for other shapes. Source: M. Botsch et al., *Polygon Mesh Processing*, 2010,
    section 3.1.1 (weights by area).

    Example:

        square = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
        normals = jm.mesh.vertex_normals(square, jnp.array([[0, 1, 2, 3]]))
        assert jnp.allclose(normals, jnp.array([0.0, 0.0, 1.0]))
    """
    points = as_data(real_array("vertex_normals", "points", points, (None, 3)))
    if not is_traced(cells):
        cells = as_data(whole_numbers("vertex_normals", "cells", cells, (None, None), len(points)), jnp.int32)
    if cells.ndim != 2 or cells.shape[1] not in (3, 4):
        raise ValueError(f"vertex_normals: cells has shape {cells.shape}, expected (m, 3) or (m, 4).")
    return _normals(points, cells)


def corner_normals(points: Float[Array, "n 3"], cells: Int[np.ndarray, "m k"]) -> Float[Array, "m k 3"]:
    """Unit normals at the corners of every cell, of all the cells there that are no fold away: as `vertex_normals`.

    A cell whose normal is more than 30 degrees from that of another is beyond a fold; so walls meet in one line, and each
    keeps its own. Which side of a neighbour is up does not matter. Which cells meet is found on the host.
    """
    from scipy.sparse import csr_matrix

    nodes = np.asarray(cells).ravel()
    around = csr_matrix((np.ones(len(nodes)), (nodes, np.arange(len(nodes)))), shape=(len(points), len(nodes)))
    pairs = (around.T @ around).tocoo()
    return _mean_beside(points, *map(as_data, (cells, pairs.row, pairs.col)))


@in_one_program
def _mean_beside(points: Array, cells: Array, corner: Array, beside: Array) -> Array:
    areas = jnp.repeat(_area_vectors(points, cells), cells.shape[1], axis=0)
    own, other = areas[corner], areas[beside]
    cosine = jnp.sum(_of_unit_length(own) * _of_unit_length(other), axis=1)
    share = jnp.where(jnp.abs(cosine) > COSINE_OF_FOLD, jnp.sign(cosine), 0.0)
    total = jnp.zeros_like(areas).at[corner].add(share[:, None] * other)
    return _of_unit_length(total).reshape(*cells.shape, 3)


@in_one_program
def _normals(points: Float[Array, "n 3"], cells: Int[Array, "m k"]) -> Float[Array, "n 3"]:
    total = jnp.zeros_like(points).at[cells].add(_area_vectors(points, cells)[:, None])
    return _of_unit_length(total)


def _of_unit_length(vectors: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    """Those of no length stay so."""
    squared = jnp.sum(vectors**2, axis=1, keepdims=True)
    return jnp.where(squared > 0, vectors / jnp.sqrt(jnp.where(squared > 0, squared, 1)), 0)


def _area_vectors(points: Float[Array, "n 3"], cells: Int[Array, "m k"]) -> Float[Array, "m 3"]:
    """Half the product of the diagonals of a quad; of two sides of a triangle, whose fourth corner is its first."""
    corners = points[cells]
    last = corners[:, 3 % cells.shape[1]]
    return 0.5 * jnp.cross(corners[:, 2] - corners[:, 0], last - corners[:, 1])
