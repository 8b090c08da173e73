"""A plane that pushes back what has gone through it."""

from typing import Any

import jax.numpy as jnp

from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencil, Stencils, stencils
from .base import AbstractEnergyForceField, Arrays, points_only


class PenaltyPlane(AbstractEnergyForceField):
    """`E = k/2 min(0, d)^2` [J] with `d = n . (x - point)` [m], stiffness `k` [N/m] for each node.

    While a node is inside, `damping` [N s/m] dissipates `D = c/2 (n . v)^2`. `normal` need not be of unit length.
    Raises `ValueError` for a zero normal or negative numbers.
    `point` [m] and `normal` `(n,)`, or one per node. Pressed nodes enter by `|f| / k`.
    Source: P. Wriggers, *Computational Contact Mechanics*, 2nd ed., 2006, doi:10.1007/978-3-540-32609-0 (penalty method).

    Example:

        floor = jm.force.PenaltyPlane(("p", [0, 1]), point=[0.0, 0.0], normal=[0.0, 1.0], stiffness=100.0)
        scene = jm.System({"p": jm.Vec2()}, forces={"floor": floor})
        force = jm.total_force(scene, scene.at_rest({"p": [[0.0, -0.1], [0.0, 0.1]]}))["p"]
        assert jnp.allclose(force, jnp.array([[0.0, 10.0], [0.0, 0.0]]))  # [N], on the one inside
    """

    on: Stencils = stencils()
    point: Parameter = parameter(ndim=1)
    normal: Parameter = parameter(ndim=1)
    stiffness: Parameter = parameter()
    damping: OptionalParameter = parameter(default=None)

    def __check_init__(self):
        if len(self.on) != 1 or self.on[0].nodes.ndim != 1:
            raise ValueError("PenaltyPlane: on must be (state, nodes), node numbers of shape (e,).")
        positive = (lambda k: k >= 0, "at least 0")
        check_range(self, stiffness=(self.stiffness, *positive), damping=(self.damping, *positive))
        check_range(self, normal=(self.normal, lambda n: (n != 0).any(-1), "a direction"))

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)
        for name, vector in (("point", self.point), ("normal", self.normal)):
            if vector.shape[-1] != dofs[0].coord_size:
                raise ValueError(f"{name} has shape {vector.shape}, expected {dofs[0].coord_size} components.")

    def _unit_normal(self) -> Array:
        return self.normal / jnp.sqrt(self.normal @ self.normal)

    @property
    def is_dissipative(self) -> bool:
        return self.damping is not None

    def element_energy(self, x: Array) -> Scalar:
        return 0.5 * self.stiffness * jnp.minimum(self.distance(x), 0.0) ** 2

    def distance(self, x: Array) -> Scalar:
        """`d` [m] of one node."""
        return self._unit_normal() @ (x - self.point)

    def stiffest(self) -> "ClosedPlane":
        return ClosedPlane(self)

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        return jnp.where(self.distance(x[0]) < 0, _dissipation(self, v[0]), 0.0)


class ClosedPlane(AbstractEnergyForceField):
    """`E = k/2 d^2`, `D = c/2 (n . v)^2`: a plane that all its nodes are in touch with."""

    plane: PenaltyPlane

    @property
    def on(self) -> tuple[Stencil, ...]:
        return self.plane.on

    def element_energy(self, x: Array) -> Scalar:
        return 0.5 * self.plane.stiffness * self.plane.distance(x) ** 2

    @property
    def is_dissipative(self) -> bool:
        return self.plane.is_dissipative

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        del x
        return _dissipation(self.plane, v[0])


def _dissipation(plane: PenaltyPlane, v: Array) -> Scalar:
    """`c/2 (n . v)^2` [W] of one node inside."""
    assert plane.damping is not None
    return 0.5 * plane.damping * (plane._unit_normal() @ v) ** 2
