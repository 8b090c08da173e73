"""The mass of rigid frames of the plane."""

from typing import Any

import jax.numpy as jnp

from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.dof import Rigid2
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMass


class PlanarRigidMass(AbstractMass):
    """`T = m/2 |v|^2 + I/2 w^2` [J]: `mass` [kg] and `inertia` [kg m^2] about the origin of the frame, the centre of mass.

    Raises `ValueError` unless both are positive.
    Shared, or one per frame `(e,)`, `on=(state, frames)` of `Rigid2`.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, chapter 5.

    Example:

        scene = jm.System({"flat": jm.Rigid2()}, masses={"body": jm.mass.PlanarRigidMass(("flat", [0]), 5.0, 2.0)})
        M = jm.matrix.component_matrix(scene, scene.at_rest({"flat": [[0.0, 0.0, 0.3]]}), "body", "mass")["flat", "flat"]
        assert jnp.allclose(M.blocks[0], jnp.diag(jnp.array([5.0, 5.0, 2.0])))
    """

    on: Stencils = stencils()
    mass: Parameter = parameter()
    inertia: Parameter = parameter()

    def __check_init__(self):
        if len(self.on) != 1 or self.on[0].nodes.ndim != 1:
            raise ValueError("PlanarRigidMass: on must be (state, frames), frame numbers of shape (e,).")
        positive = (lambda m: m > 0, "positive")
        check_range(self, mass=(self.mass, *positive), inertia=(self.inertia, *positive))

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Rigid2):
            raise ValueError("PlanarRigidMass acts on Rigid2 frames.")

    def element_kinetic_energy(self, x: tuple[Array, ...], v: tuple[Array, ...]) -> Scalar:
        return 0.5 * (self.mass * jnp.sum(v[0][:2] ** 2) + self.inertia * v[0][2] ** 2)
