"""The normals of a surface at its points."""

import jax.numpy as jnp

from .._runtime.argument_checks import real_array, whole_numbers
from .._runtime.array_types import Array, Float, Int
from .._runtime.precision import in_one_program
from .._runtime.results import is_traced


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
    points = jnp.asarray(real_array("vertex_normals", "points", points, (None, 3)))
    if not is_traced(cells):
        cells = jnp.asarray(whole_numbers("vertex_normals", "cells", cells, (None, None), len(points)), jnp.int32)
    if cells.ndim != 2 or cells.shape[1] not in (3, 4):
        raise ValueError(f"vertex_normals: cells has shape {cells.shape}, expected (m, 3) or (m, 4).")
    return _normals(points, cells)


@in_one_program
def _normals(points: Float[Array, "n 3"], cells: Int[Array, "m k"]) -> Float[Array, "n 3"]:
    corners = points[cells]
    # Half the product of the diagonals of a quad; of two sides of a triangle, whose fourth corner is its first.
    last = corners[:, 3 % cells.shape[1]]
    areas = 0.5 * jnp.cross(corners[:, 2] - corners[:, 0], last - corners[:, 1])
    total = jnp.zeros_like(points).at[cells].add(areas[:, None])
    squared = jnp.sum(total**2, axis=1, keepdims=True)
    return jnp.where(squared > 0, total / jnp.sqrt(jnp.where(squared > 0, squared, 1)), 0)
