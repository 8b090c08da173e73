"""A body that slides along an axis of another, and does not turn."""

import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._runtime.field_types import OptionalParameter, Parameter
from ..._scene.parameter import parameter
from ..._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .base import AbstractJoint, turn


class PrismaticJoint(AbstractJoint):
    """`(p_x, p_y, turn) = C lambda`: the frame of a body slides along the axis `z` of that of another, without turning.

    Five rows, two [m] and three [rad], in the axes of body `a`. `on=((state, bodies a (e,)), (state, bodies b (e,)))`, or
    one stencil, of bodies `b` held to the world; `frame_a`, `frame_b`: see `frame`. `compliance` [m/N, rad/(N m)] and
    `relaxation` [s]: `(rows,)`, `(1,)` for all of them alike, or `(e, rows)`; `multiplier`: see
    `AbstractMultiplierConstraint`. Raises `ValueError` for other states than `Rigid3`, other shapes, quaternions that are
    not of unit length and negative numbers. `lambda` [N, N m]: the force and the torque of body `b` on body `a`.
    Source: A. A. Shabana, *Dynamics of Multibody Systems*, 4th ed., 2013, doi:10.1017/CBO9781107337213, section 3.3.

    Example:

        rail = jm.constraint.PrismaticJoint(("body", [0]), frame_a=jm.constraint.frame([0.0] * 3, axis=[1.0, 0.0, 0.0]),
            frame_b=jm.constraint.frame([0.0] * 3, axis=[1.0, 0.0, 0.0]))
        scene = jm.System({"body": jm.Rigid3()}, constraints={"rail": rail})
        moved = scene.at_rest({"body": [[3.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0]]})  # 3 m along the rail, 0.1 m off it
        assert jnp.allclose(jnp.abs(jm.constraint.violations(scene, moved)["rail"]).max(), 0.1)  # [m]
    """

    on: Stencils = stencils()
    frame_a: OptionalParameter = parameter(ndim=1, default=None)
    frame_b: OptionalParameter = parameter(ndim=1, default=None)
    compliance: Parameter = parameter(ndim=1, default=(0.0,))
    relaxation: OptionalParameter = parameter(ndim=1, default=None)
    multiplier: OptionalStencils = optional_stencils(kw_only=True)

    units = ("m", "m", "rad", "rad", "rad")

    def element_constraint(self, *x: Array) -> Array:
        p, q = self.relative(x)
        return jnp.concatenate([p[:2], turn(q)])
