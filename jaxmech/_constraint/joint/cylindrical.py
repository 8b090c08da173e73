"""A body that slides along an axis of another, and turns about it."""

import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._runtime.field_types import OptionalParameter, Parameter
from ..._scene.parameter import parameter
from ..._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .base import AbstractJoint, tilt


class CylindricalJoint(AbstractJoint):
    """`(p_x, p_y, tilt) = C lambda`: the frame of a body slides along the axis `z` of that of another, and turns about it.

    Four rows, two [m] and two [rad], in the axes of body `a`. `on=((state, bodies a (e,)), (state, bodies b (e,)))`, or
    one stencil, of bodies `b` held to the world; `frame_a`, `frame_b`: see `frame`. `compliance` [m/N, rad/(N m)] and
    `relaxation` [s]: `(rows,)`, `(1,)` for all of them alike, or `(e, rows)`; `multiplier`: see
    `AbstractMultiplierConstraint`. Raises `ValueError` for other states than `Rigid3`, other shapes, quaternions that are
    not of unit length and negative numbers. `lambda` [N, N m]: the force and the torque of body `b` on body `a`.
    Source: A. A. Shabana, *Dynamics of Multibody Systems*, 4th ed., 2013, doi:10.1017/CBO9781107337213, section 3.3.

    Example:

        sleeve = jm.constraint.CylindricalJoint(("body", [0]))  # on the axis z of the world
        scene = jm.System({"body": jm.Rigid3()}, constraints={"sleeve": sleeve})
        turned = scene.at_rest({"body": [[0.0, 0.0, 2.0, 0.0, 0.0, 0.6, 0.8]]})
        assert jnp.allclose(jm.constraint.violations(scene, turned)["sleeve"], 0.0)
    """

    on: Stencils = stencils()
    frame_a: OptionalParameter = parameter(ndim=1, default=None)
    frame_b: OptionalParameter = parameter(ndim=1, default=None)
    compliance: Parameter = parameter(ndim=1, default=(0.0,))
    relaxation: OptionalParameter = parameter(ndim=1, default=None)
    multiplier: OptionalStencils = optional_stencils(kw_only=True)

    units = ("m", "m", "rad", "rad")

    def element_constraint(self, *x: Array) -> Array:
        p, q = self.relative(x)
        return jnp.concatenate([p[:2], tilt(q)])
