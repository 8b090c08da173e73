"""Values at places that are no nodes."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._mesh.locate import locate_points
from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._runtime.argument_checks import check_instance, real_array
from .._runtime.array_types import Array, Bool, Float, Int
from .._runtime.results import is_traced
from .gauss_fields import GaussFields
from .point_fit import fit_weights


class Probe(eqx.Module):
    """Points `(p, d)` in the cells of a mesh, at which values of its nodes and Gauss points are interpolated.

    `Probe.build` looks for the cells, on the host: on the rest mesh the points move with the material, on a displaced one
    they are where they are. `cells` (p,), the cell of each, `nodes` (p, k) its nodes, `shapes` (p, k) the shape functions
    there; the mesh has `count` nodes and `cell_count` cells. Points outside are extrapolated. Values have any unit; `jit`,
    `vmap` and derivatives go through both methods.
    Raises `TypeError` for what is no mesh, `ValueError` for points of another dimension or far outside.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 3.

    Example:

        probe = jm.output.Probe.build(mesh, [[0.5, 0.25, 0.25]])
        assert jnp.allclose(probe.of_nodes(mesh.points), jnp.array([[0.5, 0.25, 0.25]]))
        fields = jm.output.gauss_fields(system, state, "solid")
        assert jnp.allclose(probe.of_points(fields, fields.cauchy), 0.0, atol=1e-6)  # [Pa], at rest
    """

    cells: Int[Array, " p"]
    nodes: Int[Array, "p k"]
    shapes: Float[Array, "p k"]
    kind: str = eqx.field(static=True)
    count: int = eqx.field(static=True)
    cell_count: int = eqx.field(static=True)

    @classmethod
    def build(cls, mesh: Mesh, points: Any) -> "Probe":
        """The probe of points `(p, d)` [m] in `mesh`."""
        check_instance("Probe", "mesh", mesh, Mesh)
        try:
            cells, shapes = locate_points(mesh, points)
        except ValueError as error:
            raise ValueError(f"Probe: {error}") from None
        nodes = np.asarray(mesh.cells)[cells]
        shapes = jnp.asarray(shapes, mesh.points.dtype)
        counts = len(mesh.points), len(mesh.cells)
        return cls(jnp.asarray(cells, jnp.int32), jnp.asarray(nodes), shapes, mesh.kind, *counts)

    def of_nodes(self, values: Float[Array, "n ..."]) -> Float[Array, "p ..."]:
        """The interpolation of nodal values. Raises `ValueError` unless there is one for each node of the mesh."""
        values = jnp.asarray(real_array("Probe", "values", values))
        if values.shape[:1] != (self.count,):
            raise ValueError(f"Probe: values have shape {values.shape}, expected ({self.count}, ...), one per node.")
        return jnp.einsum("pk,pk...->p...", self.shapes, values[self.nodes])

    def of_points(self, fields: GaussFields, values: Float[Array, "e q ..."]) -> Float[Array, "p ..."]:
        """The interpolation, in each cell by itself, of values at its Gauss points: constant where there is one of them.

        By the shape functions of the cell, of its corners where there are fewer points than nodes, that fit the values best.
        The cells of the solid are those of the mesh of this probe: of one region, a probe of the mesh of that.
        Raises `TypeError` for what are no `GaussFields`, `ValueError` for cells of another kind, other shapes and other
        cells; under `jit`, where these cannot be looked at, their values are NaN.
        """
        check_instance("Probe", "fields", fields, GaussFields)
        values = jnp.asarray(real_array("Probe", "values", values))
        if fields.kind != self.kind or values.shape[:2] != fields.volume.shape:
            raise ValueError(
                f"Probe: values have shape {values.shape} on cells of kind '{fields.kind}', expected "
                f"{(*fields.volume.shape, '...')} on '{self.kind}'."
            )
        same = self._has_cells_of(fields)
        reference = reference_element(self.kind)
        places = self.shapes @ jnp.asarray(np.asarray(reference.vertices, float), self.shapes.dtype)
        weights = fit_weights(reference, fields.rule, places)
        found = jnp.einsum("pq,pq...->p...", weights, values[self.cells])
        return jnp.where(same, found, jnp.nan)

    def _has_cells_of(self, fields: GaussFields) -> Bool[Array, ""]:
        """Whether the cells of these fields are those that the points were looked for in: as many, and of the same nodes
        where the state has those of the mesh."""
        count, same = len(fields.nodes), jnp.ones((), bool)
        if count == self.cell_count and fields.count == self.count:
            same = jnp.all(fields.nodes[self.cells] == self.nodes)
        if count != self.cell_count or (not is_traced(same) and not same):
            raise ValueError(
                f"Probe: its mesh has {self.cell_count} cells, the fields are of {count}, and these are not the same. Of a "
                "region of a mesh, build it of the cells of that, Mesh(points, cells, kind)."
            )
        return same
