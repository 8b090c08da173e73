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
    `T` [J] from positions [m] and velocities [m/s], spins [rad/s]. A component is a field `on = stencils()`, its numbers,
    and `element_kinetic_energy`. Raises `TypeError` where that is not defined, `ValueError` for numbers that fit no element.
    Source: H. Goldstein, C. Poole, J. Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, chapter 1.

    Example:

        class Rotor(jm.mass.AbstractMass):  # T = I/2 (dq/dt)^2
            on: tuple = jm.stencils()
            inertia: jax.Array = jm.parameter()  # [kg m^2]

            def element_kinetic_energy(self, x, v):
                return 0.5 * self.inertia * v[0][0] ** 2

        scene = jm.System({"angle": jm.Vec1()}, masses={"rotor": Rotor(("angle", [0]), 2.0)})
        M = jm.matrix.component_matrix(scene, scene.at_rest({"angle": [[0.0]]}), "rotor", "mass")["angle", "angle"]
        assert jnp.allclose(M.blocks, 2.0)  # d2T/dv2 [kg m^2]
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
