"""Dead torques on rigid frames of space."""

from typing import Any

import jax.numpy as jnp

from .._runtime.field_types import Parameter
from .._scene.dof import Rigid3
from .._scene.parameter import parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractForceField, Arrays


class ConstantTorque(AbstractForceField):
    """A torque [N m] constant in world axes, `(3,)` or one per frame `(e, 3)`. It has no energy.

    Raises `ValueError` on anything but `Rigid3`; in the plane, a torque is a third component of `ConstantForce`.
    Source: J. Argyris, "An excursion into large rotations", Comput. Methods Appl. Mech. Eng. 32 (1982) 85,
    doi:10.1016/0045-7825(82)90069-X (why it has no energy).

    Example:

        scene = jm.System({"frame": jm.Rigid3()}, forces={"motor": jm.force.ConstantTorque(("frame", [0]), [0.0, 0.0, 2.0])})
        force = jm.total_force(scene, scene.at_rest({"frame": [[0.0] * 6 + [1.0]]}))["frame"]
        assert jnp.allclose(force, jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 2.0]))  # [N, N m]
    """

    on: Stencils = stencils()
    torque: Parameter = parameter(ndim=1)

    def __check_init__(self):
        if len(self.on) != 1 or self.on[0].nodes.ndim != 1:
            raise ValueError("ConstantTorque: on must be (state, nodes), node numbers of shape (e,).")

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Rigid3) or self.torque.shape[-1] != 3:
            raise ValueError("ConstantTorque acts on Rigid3 frames with torques of 3 components.")

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        return (jnp.concatenate([jnp.zeros(3, self.torque.dtype), self.torque]),)
