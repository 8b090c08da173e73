"""Values at places that are no nodes."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._mesh.locate import locate_points
from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._runtime.argument_checks import check_instance, real_array
from .._runtime.array_types import Array, Float, Int
from .gauss_fields import GaussFields
from .point_fit import fit_weights


class Probe(eqx.Module):
    """Points `(p, d)` in the cells of a mesh, at which values of its nodes and Gauss points are interpolated.

    `Probe.build` looks for the cells, on the host: on the rest mesh the points move with the material, on a displaced one
    they are where they are. `cells` (p,), the cell of each, `nodes` (p, k) its nodes, `shapes` (p, k) the shape functions
    there; the mesh has `count` nodes. Points outside are extrapolated. Values have any unit; `jit`, `vmap` and
    derivatives go through both methods.
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
        return cls(jnp.asarray(cells, jnp.int32), jnp.asarray(nodes), shapes, mesh.kind, len(mesh.points))

    def of_nodes(self, values: Float[Array, "n ..."]) -> Float[Array, "p ..."]:
        """The interpolation of nodal values. Raises `ValueError` unless there is one for each node of the mesh."""
        values = jnp.asarray(real_array("Probe", "values", values))
        if values.shape[:1] != (self.count,):
            raise ValueError(f"Probe: values have shape {values.shape}, expected ({self.count}, ...), one per node.")
        return jnp.einsum("pk,pk...->p...", self.shapes, values[self.nodes])

    def of_points(self, fields: GaussFields, values: Float[Array, "e q ..."]) -> Float[Array, "p ..."]:
        """The interpolation, in each cell by itself, of values at its Gauss points: constant where there is one of them.

        By the shape functions of the cell, of its corners where there are fewer points than nodes, that fit the values best.
        Raises `TypeError` for what are no `GaussFields`, `ValueError` for cells of another kind and other shapes.
        """
        check_instance("Probe", "fields", fields, GaussFields)
        values = jnp.asarray(real_array("Probe", "values", values))
        if fields.kind != self.kind or values.shape[:2] != fields.volume.shape:
            raise ValueError(
                f"Probe: values have shape {values.shape} on cells of kind '{fields.kind}', expected "
                f"{(*fields.volume.shape, '...')} on '{self.kind}'."
            )
        reference = reference_element(self.kind)
        places = self.shapes @ jnp.asarray(np.asarray(reference.vertices, float), self.shapes.dtype)
        weights = fit_weights(reference, fields.rule, places)
        return jnp.einsum("pq,pq...->p...", weights, values[self.cells])
