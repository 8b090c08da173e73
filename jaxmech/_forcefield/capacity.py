"""What a field stores: heat capacity, and whatever else makes an equation of first order in time."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._mesh.surface import rest_measures
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import Arrays
from .drag import AbstractDrag


class Capacity(AbstractDrag):
    """`-C u'` with `C = integral of c N N^T`: makes `C u' = f(u)` of a balance, from `D = c/2 integral of |u'|^2`.

    A field without mass is of first order in time, and its capacity is a damping: `ImplicitEuler` takes backward Euler
    steps of `C u' = f`, `jm.integrator.BDF` and `TRBDF2` steps of their own order, and the velocity of the state is `u'`.
    `capacity` `c` [J/(m^3 K)], shared or one per cell; per area or length on cells of fewer dimensions than the space.
    Raises `ValueError` unless it is positive, and for cells of another number of nodes.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 8.

    Example:

        room = jm.mesh.box_mesh(cells=(1, 1), size=(2.0, 1.0), kind="quad")
        forces = {"air": jm.force.Capacity.from_mesh("T", room, 10.0)}  # 20 J/K in all
        forces["wall"] = jm.force.Convection.from_mesh("T", room.faces_where(lambda x: x[:, 0] == 0.0), 5.0, 0.0)
        scene = jm.System({"T": jm.Vec1()}, forces=forces)
        start = scene.at_rest({"T": jnp.full((4, 1), 30.0)})
        euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(scene, start))
        end, _, _ = euler.step(scene, start, None, 0.1)
        lost = (30.0 - end.position["T"]).mean() * 20.0  # [J]
        left = end.position["T"][room.nodes_where(lambda x: x[:, 0] == 0.0)].mean()
        assert jnp.allclose(lost, 0.1 * 5.0 * left, rtol=1e-4)  # the heat that the wall took, h T at the end of the step
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    capacity: Parameter = parameter()
    kind: str = eqx.field(static=True, default="triangle")

    def __check_init__(self):
        nodes = reference_element(self.kind).nodes
        if len(self.on) != 1 or self.on[0].nodes.ndim != 2 or self.on[0].nodes.shape[1] != nodes:
            raise ValueError(f"Capacity: on must be (state, cells) with {nodes} nodes per {self.kind}.")
        check_range(self, capacity=(self.capacity, lambda c: c > 0, "positive"))

    @classmethod
    def from_mesh(cls, state: str, mesh: Mesh, capacity: Any) -> "Capacity":
        """That of the cells of `mesh`, whose points are where the nodes of `state` are."""
        check_instance(cls.__name__, "mesh", mesh, Mesh)
        return cls((state, mesh.cells), mesh.points, capacity, mesh.kind)

    def check_dofs(self, dofs: Any) -> None:
        if not dofs[0].is_vector_space:
            raise ValueError("Capacity acts on fields (Vec1, Vec2, Vec3).")

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        del x
        shapes, measures = rest_measures(reference_element(self.kind), self.rest)
        return 0.5 * self.capacity * jnp.sum(measures * jnp.sum((shapes @ v[0]) ** 2, axis=1))
