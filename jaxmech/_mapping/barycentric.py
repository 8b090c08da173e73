"""Points carried by the cells of a mesh."""

from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from .._mesh.locate import locate_points
from .._mesh.mesh import Mesh
from .._runtime.argument_checks import check_instance, check_on_host, real_array, whole_numbers
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping


class BarycentricMapping(AbstractMapping):
    """`p = sum_a w_a q_a` over the nodes of the cell that carries the point.

    `parents=(state, nodes of each point's cell (n, k))`; `weights` `(n, k)`: the shape functions of the cell at the
    point, summing to 1. Raises `ValueError` for weights that do not.
    Points [m] of one dimension; weights are pure numbers. `from_mesh` and `from_grid` find cells and weights.
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (mappings); shape functions: T. J. R. Hughes, *The Finite Element Method*, Dover 2000,
    ISBN 978-0-486-41181-1, chapter 3.

    Example:

        carried = jm.mapping.BarycentricMapping.from_mesh("cube", "skin", mesh, [[0.2, 0.3, 0.4]])
        scene = jm.System({"cube": jm.Vec3(), "skin": jm.Vec3()}, mappings={"skin": carried})
        skin = jm.kinematics(scene, scene.at_rest({"cube": 2 * mesh.points}))["skin"]
        assert jnp.allclose(skin, jnp.array([[0.4, 0.6, 0.8]]))  # [m]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    weights: Parameter = parameter(ndim=1)
    is_linear: ClassVar[bool] = True
    is_interpolation: ClassVar[bool] = True

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.ndim != 2:
            raise ValueError("BarycentricMapping: parents must be (state, nodes) with node numbers of shape (n, k).")
        if getattr(self.weights, "shape", ())[-1:] != self.parents[0].nodes.shape[1:]:
            raise ValueError(
                f"BarycentricMapping: weights has shape {getattr(self.weights, 'shape', self.weights)}, expected "
                f"{self.parents[0].nodes.shape}."
            )
        check_range(self, weights=(self.weights, lambda w: np.abs(w.sum(-1) - 1) < 1e-4, "of sum 1 for each point"))

    @classmethod
    def from_mesh(cls, state: str, child: str, mesh: Mesh, points: Any) -> "BarycentricMapping":
        """The points at rest `(n, d)` [m], found in the cells of `mesh` (host search, outside `jit`).

        A point outside the mesh is carried by the nearest cell, extrapolated. Raises `ValueError` for one so far from cells
        that are no parallelepipeds or simplices that their shape functions do not reach it.
        """
        check_instance("BarycentricMapping", "mesh", mesh, Mesh)
        check_on_host("BarycentricMapping.from_mesh", "the cells of points", mesh, points)
        cells, weights = locate_points(mesh, points)
        return cls((state, np.asarray(mesh.cells)[cells]), child, weights)

    @classmethod
    def from_grid(
        cls, state: str, child: str, points: Any, *, origin: Any, spacing: Any, cells: tuple[int, ...]
    ) -> "BarycentricMapping":
        """The points `(n, d)` [m] in a regular grid of nodes, without a mesh or a search.

        Node `(i, j, k)` of the `cells[0] + 1` by `cells[1] + 1` (by `cells[2] + 1`) nodes stands at `origin + (i, j, k) *
        spacing` and has number `(k * (cells[1] + 1) + j) * (cells[0] + 1) + i`. A point outside is extrapolated from the
        nearest cell. Raises `ValueError` unless `origin`, `spacing` and `cells` have the dimension of the points, and the
        spacing is positive.
        """
        owner = "BarycentricMapping.from_grid"
        origin = np.asarray(real_array(owner, "origin", origin, (None,)), float)
        points = np.asarray(real_array(owner, "points", points, (None, origin.size)), float)
        size = whole_numbers(owner, "cells", cells, (origin.size,))
        spacing = np.asarray(real_array(owner, "spacing", spacing), float)
        if origin.size not in (1, 2, 3) or (size < 1).any():
            raise ValueError(
                f"{owner}: origin {origin.shape} and cells {cells} must be of 1 to 3 axes, one cell or more each."
            )
        if spacing.shape not in ((), origin.shape) or not (spacing > 0).all():
            raise ValueError(f"{owner}: spacing must be positive, one number or {origin.size}, got {spacing}.")
        place = (points - origin) / spacing
        corner = np.clip(np.floor(place), 0, size - 1).astype(int)
        inside = place - corner
        steps = np.stack(np.meshgrid(*[[0, 1]] * size.size, indexing="ij"), axis=-1).reshape(-1, size.size)
        weights = np.prod(np.where(steps, inside[:, None], 1 - inside[:, None]), axis=-1)
        strides = np.concatenate([[1], np.cumprod(size[:-1] + 1)])
        return cls((state, (corner[:, None] + steps) @ strides), child, weights)

    def check_dofs(self, parents: Any, child: Any) -> None:
        if not parents[0].is_vector_space or parents[0].coord_size != child.coord_size:
            raise ValueError("BarycentricMapping carries points by points of the same dimension.")

    def element_apply(self, q: Array) -> Array:
        return self.weights @ q
