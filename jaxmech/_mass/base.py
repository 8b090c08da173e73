"""What a mass is: the kinetic energy of one element."""

import abc
from collections.abc import Sequence

from equinox import AbstractVar

from .._runtime.array_types import Array, Scalar
from .._scene.component import Component
from .._scene.dof import AbstractDof
from .._scene.parameter import check_parameters
from .._scene.stencil import Stencils


class AbstractMass(Component):
    """A mass described by the kinetic energy of **one** element, quadratic in the velocities.

    The mass matrix is `M = d2T/dv2`; the momentum `dT/dv`; gravity and the inertial forces (gyroscopic, centrifugal,
    the `dJ/dt v` term of mapped masses) follow from the same function.
    """

    on: AbstractVar[Stencils]

    def __check_init__(self):
        check_parameters(self, self.on)

    def check_dofs(self, dofs: Sequence[AbstractDof]) -> None:
        """Raise `ValueError` where the degrees of freedom of the stencils are not what the mass is written for."""
        del dofs

    @abc.abstractmethod
    def element_kinetic_energy(self, x: tuple[Array, ...], v: tuple[Array, ...]) -> Scalar:
        """`T(x, v)` [J] of one element; `x`, `v` hold one array per stencil, `(c,)` or `(k, c)`."""
