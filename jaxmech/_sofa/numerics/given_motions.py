"""SOFA's motions that are formulas of time: oscillators, and curves."""

import abc
from typing import ClassVar

import jax.numpy as jnp
from equinox import AbstractVar

from ..._constraint.base import AbstractProjectiveConstraint
from ..._math.rotation import normalised, quaternion_product
from ..._runtime.array_types import Array, Float
from ..._runtime.field_types import Parameter
from ..._scene.dof import AbstractDof
from ..._scene.parameter import check_range, parameter
from ..._scene.stencil import Stencils, stencils


class AbstractGivenMotion(AbstractProjectiveConstraint):
    """Nodes whose place is a function of time."""

    on: AbstractVar[Stencils]
    is_homogeneous = False
    moves_frames: ClassVar[bool] = False

    @abc.abstractmethod
    def place(self, time: Array) -> Array:
        """Where a node is."""

    def check_dofs(self, dofs) -> None:
        if not dofs[0].is_vector_space and not self.moves_frames:
            raise ValueError(f"{type(self).__name__} moves points.")

    def element_projector(self, dof: AbstractDof) -> Float[Array, "d d"]:
        return jnp.zeros((dof.deriv_size, dof.deriv_size))

    def free_components(self, dof: AbstractDof) -> tuple[bool, ...]:
        return (False,) * dof.deriv_size

    def element_target(self, dof: AbstractDof, x: Float[Array, " c"], time: Array) -> Float[Array, " d"]:
        return dof.local(x, self.place(time))


class Oscillators(AbstractGivenMotion):
    """`x = mean + amplitude sin(pulsation t + phase)`: OscillatorProjectiveConstraint. [m], [rad/s], [rad].

    Of frames `q = (p + w p / 2) / |.|`, `p` the quaternion of `mean` and `w` the turn, not its exponential: as SOFA adds.
    """

    on: Stencils = stencils()
    mean: Parameter = parameter(ndim=1)
    amplitude: Parameter = parameter(ndim=1)
    pulsation: Parameter = parameter()
    phase: Parameter = parameter()

    moves_frames: ClassVar[bool] = True

    def place(self, time: Array) -> Array:
        moved = self.amplitude * jnp.sin(self.pulsation * time + self.phase)
        if self.mean.shape[0] != 7:
            return self.mean + moved
        spin = jnp.append(moved[3:] / 2, 0.0)  # of first order in the turn, and then of unit length
        turn = self.mean[3:] + quaternion_product(spin, self.mean[3:])
        return jnp.concatenate([self.mean[:3] + moved[:3], normalised(turn)])


class CubicMotion(AbstractGivenMotion):
    """`x = sum_i c_i s^i` while `s`, which is cubic too in `u = (t - begin) / (end - begin)`, goes from 0 to 1.

    HermiteSplineProjectiveConstraint and, with a parabola and `s = u`, ParabolicProjectiveConstraint. `coefficients`
    `(4, n)` [m], `pace` `(4,)`; the node stays where it is before and after.
    """

    on: Stencils = stencils()
    coefficients: Parameter = parameter(ndim=2)
    pace: Parameter = parameter(ndim=1)
    begin: Parameter = parameter()
    end: Parameter = parameter()

    def __check_init__(self):
        check_range(self, end=(self.end - self.begin, lambda t: t > 0, "later than begin"))

    def place(self, time: Array) -> Array:
        u = jnp.clip((time - self.begin) / (self.end - self.begin), 0.0, 1.0)
        s = _cubic(self.pace[:, None], u)[0]
        return _cubic(self.coefficients, s)


def _cubic(c: Array, s: Array) -> Array:
    return c[0] + s * (c[1] + s * (c[2] + s * c[3]))
