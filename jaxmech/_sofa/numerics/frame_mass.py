"""SOFA's mass of rigid frames."""

import jax.numpy as jnp

from ..._mass.base import AbstractMass
from ..._runtime.array_types import Array, Scalar
from ..._runtime.field_types import Parameter
from ..._scene.dof import Rigid2, Rigid3
from ..._scene.parameter import check_range, parameter
from ..._scene.stencil import Stencils, stencils


class FrameMass(AbstractMass):
    """`T = m/2 (|v|^2 + w . J w)` in world axes: an inertia that does not turn with the body.

    `mass` `m` [kg]; `inertia` `J` [m^2] per mass, `(3, 3)` of `Rigid3`, `(1, 1)` of `Rigid2`. Raises `ValueError` unless
    positive. Source: the "RigidMass" of SOFA's documentation; `jm.mass.RigidMass` is what turns.
    """

    on: Stencils = stencils()
    mass: Parameter = parameter()
    inertia: Parameter = parameter(ndim=2)

    def __check_init__(self):
        check_range(self, mass=(self.mass, lambda m: m > 0, "positive"))

    def check_dofs(self, dofs) -> None:
        if not isinstance(dofs[0], Rigid2 | Rigid3):
            raise ValueError("FrameMass acts on frames.")

    def element_kinetic_energy(self, x: tuple[Array, ...], v: tuple[Array, ...]) -> Scalar:
        turns = self.inertia.shape[-1]
        speed, spin = v[0][:-turns], v[0][-turns:]
        return 0.5 * self.mass * (jnp.sum(speed**2) + spin @ self.inertia @ spin)
