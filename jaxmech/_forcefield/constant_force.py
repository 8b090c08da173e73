"""Dead forces on nodes."""

from typing import Any

from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.dof import Rigid2
from .._scene.parameter import parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField


class ConstantForce(AbstractEnergyForceField):
    """A force [N] that does not change: `E = -f . x`.

    `force`: one for all the nodes, `(n,)`, or one for each, `(e, n)`; on each of them it acts whole. On a rigid frame it
    acts at its origin; in the plane a third component is a torque. Raises `ValueError` for another size.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, section 1.1.

    Example:

        scene = jm.System({"p": jm.Vec2()}, forces={"pull": jm.force.ConstantForce(("p", [0, 1]), [0.0, 5.0])})
        rest = scene.at_rest({"p": [[0.0, 0.0], [1.0, 2.0]]})
        assert jnp.allclose(jm.total_force(scene, rest)["p"], jnp.array([0.0, 5.0]))  # [N], on each
        assert jnp.allclose(jm.energy(scene, rest), -10.0)  # -f . x [J]
    """

    on: Stencils = stencils()
    force: Parameter = parameter(ndim=1)

    def __check_init__(self):
        if len(self.on) != 1 or self.on[0].nodes.ndim != 1:
            raise ValueError("ConstantForce: on must be (state, nodes), node numbers of shape (e,).")

    def check_dofs(self, dofs: Any) -> None:
        sizes = (2, 3) if isinstance(dofs[0], Rigid2) else (dofs[0].space_size,)
        if self.force.shape[-1] not in sizes:
            raise ValueError(f"force has shape {self.force.shape}, expected {sizes} components.")

    def element_energy(self, x: Array) -> Scalar:
        return -(self.force @ x[: self.force.shape[0]])
