"""What a degree of freedom is: its coordinates, its tangent space, and the chart that joins them.

`x = retract(x0, d)` moves a coordinate by the tangent vector `d`; every derivative in jaxmech is taken with respect to
`d` at `d = 0`, so that points and rigid frames are the same code.
"""

import abc
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp

from .._math.rotation import (
    normalised,
    quaternion_conjugate,
    quaternion_exp,
    quaternion_exp_near,
    quaternion_log,
    quaternion_log_near,
    quaternion_product,
    rotate,
)
from .._runtime.array_types import Array, Float

if TYPE_CHECKING:  # under Equinox's name, checkers take it for a field
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class AbstractDof(eqx.Module):
    """What a degree of freedom is: coordinates `(c,)`, a tangent space `(d,)`, and the chart `retract` that joins them.

    `c = coord_size`, `d = deriv_size`. Velocities, displacements and forces are tangent vectors, translations first
    [m/s, m, N], then rotations in world axes [rad/s, rad, N m].
    Sizes are class variables, known without values. Nothing is checked and nothing raised in `retract` and `local`, which
    are traced; `System.at_rest` checks coordinates.
    Source: P.-A. Absil, R. Mahony, R. Sepulchre, *Optimization Algorithms on Matrix Manifolds*, 2008, chapter 4
    (retractions).

    Example:

        frame = jm.Rigid3()
        x0, d = jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]), jnp.array([1.0, 2.0, 3.0, 0.1, 0.2, 0.3])
        assert (frame.coord_size, frame.deriv_size) == (7, 6)
        assert jnp.allclose(frame.local(x0, frame.retract(x0, d)), d)
    """

    coord_size: AbstractClassVar[int]
    deriv_size: AbstractClassVar[int]
    space_size: AbstractClassVar[int]  # the leading components of a tangent vector that are a translation
    is_vector_space: AbstractClassVar[bool]  # retract is addition, and the chart is the space itself

    @abc.abstractmethod
    def retract(self, x: Float[Array, " c"], d: Float[Array, " d"]) -> Float[Array, " c"]:
        """`x ⊕ d`: the coordinate reached from `x` by the displacement `d`."""

    @abc.abstractmethod
    def local(self, x0: Float[Array, " c"], x1: Float[Array, " c"]) -> Float[Array, " d"]:
        """The displacement from `x0` to `x1`: `retract(x0, local(x0, x1)) = x1`."""

    def retract_near(self, x: Float[Array, " c"], d: Float[Array, " d"]) -> Float[Array, " c"]:
        """`retract` with the same value and derivatives at `d = 0` up to the fourth; where only those are wanted."""
        return self.retract(x, d)

    def local_near(self, x0: Float[Array, " c"], x1: Float[Array, " c"]) -> Float[Array, " d"]:
        """`local` with the same value and derivatives at `x1 = x0` up to the fourth."""
        return self.local(x0, x1)

    def carried(self, d: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """A velocity fixed to the body, in world axes after the displacement `d`; of points, the velocity itself."""
        del d
        return v

    def coadjoint(self, v: Float[Array, " d"], momentum: Float[Array, " d"]) -> Float[Array, " d"]:
        """The rate at which a momentum fixed to the body turns in the world, `omega x L`; nothing for points.

        It is the term that world-frame spins add to Lagrange's equations (the Euler-Poincare equations; J. E. Marsden
        and T. S. Ratiu, *Introduction to Mechanics and Symmetry*, 1999, chapter 13).
        """
        del v
        return jnp.zeros_like(momentum)


class Vec1(AbstractDof):
    """A scalar, `(1,)`: a joint angle [rad], a distance [m]. `retract(x, d) = x + d`.

    Its velocity [rad/s, m/s] and force [N m, N] are `(1,)` too. Raises nothing; `System.at_rest` checks shapes.
    Source of `retract`: see `AbstractDof`.

    Example:

        assert jnp.allclose(jm.Vec1().retract(jnp.array([1.0]), jnp.array([0.5])), 1.5)
    """

    coord_size = 1
    deriv_size = 1
    space_size = 1
    is_vector_space = True

    def retract(self, x, d):
        return x + d

    def local(self, x0, x1):
        return x1 - x0


class Vec2(AbstractDof):
    """A point of the plane, `(2,)` [m]. `retract(x, d) = x + d`.

    Its velocity [m/s] and force [N] are `(2,)` too. Raises nothing; `System.at_rest` checks shapes.
    Source of `retract`: see `AbstractDof`.

    Example:

        assert jnp.allclose(jm.Vec2().local(jnp.array([1.0, 1.0]), jnp.array([1.0, 3.0])), jnp.array([0.0, 2.0]))
    """

    coord_size = 2
    deriv_size = 2
    space_size = 2
    is_vector_space = True

    def retract(self, x, d):
        return x + d

    def local(self, x0, x1):
        return x1 - x0


class Vec3(AbstractDof):
    """A point of space, `(3,)` [m]. `retract(x, d) = x + d`.

    Its velocity [m/s] and force [N] are `(3,)` too. Raises nothing; `System.at_rest` checks shapes.
    Source of `retract`: see `AbstractDof`.

    Example:

        moved = jm.Vec3().retract(jnp.zeros(3), jnp.array([1.0, 2.0, 3.0]))
        assert jnp.allclose(moved, jnp.array([1.0, 2.0, 3.0]))
    """

    coord_size = 3
    deriv_size = 3
    space_size = 3
    is_vector_space = True

    def retract(self, x, d):
        return x + d

    def local(self, x0, x1):
        return x1 - x0


class Rows(AbstractDof):
    """The multipliers of the `size` equations of one element, `(size,)`: no place, and no translation among them.

    `retract(x, d) = x + d`. The unit is for the equations to say, [N] for lengths, [N m] for angles.
    """

    size: int = eqx.field(static=True)

    space_size = 0
    is_vector_space = True

    @property
    def coord_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.size

    @property
    def deriv_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.size

    def retract(self, x, d):
        return x + d

    def local(self, x0, x1):
        return x1 - x0


class Rigid2(AbstractDof):
    """A frame of the plane: `(x, y, angle)` [m, m, rad]; velocity and spin. Its chart is additive.

    Velocity [m/s, m/s, rad/s] and force [N, N, N m] are `(3,)`. Raises nothing; `System.at_rest` checks shapes.
    Source of `retract`: see `AbstractDof`.

    Example:

        moved = jm.Rigid2().retract(jnp.array([0.0, 0.0, 3.0]), jnp.array([1.0, 0.0, 0.5]))
        assert jnp.allclose(moved, jnp.array([1.0, 0.0, 3.5]))
    """

    coord_size = 3
    deriv_size = 3
    space_size = 2
    is_vector_space = True

    def retract(self, x, d):
        return x + d

    def local(self, x0, x1):
        return x1 - x0


class Rigid3(AbstractDof):
    """A frame of space: `(x, y, z, qx, qy, qz, qw)`, the quaternion of unit length; velocity and spin in world axes.

    `retract((c, q), (u, w)) = (c + u, exp(w) q)`: translation and world-frame rotation vector, side by side.
    Coordinates `(7,)` [m, -]; velocity `(6,)` [m/s, rad/s], force `(6,)` [N, N m]. Raises nothing itself: `System.at_rest`
    refuses quaternions that are not of unit length.
    Source: J. C. Simo and L. Vu-Quoc, Comput. Methods Appl. Mech. Eng. 58 (1986) 79, doi:10.1016/0045-7825(86)90079-4.

    Example:

        start = jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        step = jnp.array([1.0, 0.0, 0.0, 0.0, 0.0, np.pi / 2])  # 1 m along x, 90 degrees about z
        turned = jm.Rigid3().retract(start, step)
        assert jnp.allclose(turned, jnp.array([1.0, 0.0, 0.0, 0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]))
    """

    coord_size = 7
    deriv_size = 6
    space_size = 3
    is_vector_space = False

    def retract(self, x, d):
        turned = normalised(quaternion_product(quaternion_exp(d[3:]), x[3:]))
        return jnp.concatenate([x[:3] + d[:3], turned])

    def local(self, x0, x1):
        turn = quaternion_log(quaternion_product(x1[3:], quaternion_conjugate(x0[3:])))
        return jnp.concatenate([x1[:3] - x0[:3], turn])

    def retract_near(self, x, d):
        return jnp.concatenate([x[:3] + d[:3], quaternion_product(quaternion_exp_near(d[3:]), x[3:])])

    def local_near(self, x0, x1):
        turn = quaternion_log_near(quaternion_product(x1[3:], quaternion_conjugate(x0[3:])))
        return jnp.concatenate([x1[:3] - x0[:3], turn])

    def carried(self, d, v):
        return jnp.concatenate([v[:3], rotate(quaternion_exp(d[3:]), v[3:])])

    def coadjoint(self, v, momentum):
        return jnp.concatenate([jnp.zeros_like(momentum[:3]), jnp.cross(v[3:], momentum[3:])])
