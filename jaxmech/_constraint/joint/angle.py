"""The angle between two bodies about an axis."""

import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._runtime.field_types import OptionalParameter, Parameter
from ..._scene.parameter import parameter
from ..._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .base import AbstractJoint


class JointAngle(AbstractJoint):
    """`angle = C lambda`: the angle [rad] of the frame of body `b` about the axis `z` of that of body `a`; one row.

    Beside a hinge or a cylindrical joint it is a motor, whose angle is prescribed: `Follow(JointAngle(...), values,
    times)`, by whole turns too. `2 atan2(q_z, q_w)` of the relative orientation `q`. `on=((state, bodies a (e,)), (state,
    bodies b (e,)))`, or one stencil, of bodies `b` held to the world; `frame_a`, `frame_b`: see `frame`. `compliance`
    [m/N, rad/(N m)] and `relaxation` [s]: `(rows,)`, `(1,)` for all of them alike, or `(e, rows)`; `multiplier`: see
    `AbstractMultiplierConstraint`. Raises `ValueError` for other states than `Rigid3`, other shapes, quaternions that are
    not of unit length and negative numbers. `lambda` [N m]: the torque of the motor.
    Source: A. A. Shabana, *Dynamics of Multibody Systems*, 4th ed., 2013, doi:10.1017/CBO9781107337213, section 3.3.

    Example:

        angle = jm.constraint.JointAngle(("body", [0]))
        scene = jm.System({"body": jm.Rigid3()}, constraints={"angle": angle})
        turned = scene.at_rest({"body": [[0.0, 0.0, 0.0, 0.0, 0.0, np.sin(0.2), np.cos(0.2)]]})
        assert jnp.allclose(jm.constraint.violations(scene, turned)["angle"], 0.4)  # [rad]
    """

    on: Stencils = stencils()
    frame_a: OptionalParameter = parameter(ndim=1, default=None)
    frame_b: OptionalParameter = parameter(ndim=1, default=None)
    compliance: Parameter = parameter(ndim=1, default=(0.0,))
    relaxation: OptionalParameter = parameter(ndim=1, default=None)
    multiplier: OptionalStencils = optional_stencils(kw_only=True)

    units = ("rad",)

    def element_difference(self, g: Array, value: Array) -> Array:
        return jnp.arctan2(jnp.sin(g - value), jnp.cos(g - value))

    def element_constraint(self, *x: Array) -> Array:
        _, q = self.relative(x)
        return 2 * jnp.arctan2(q[2], q[3])[None]
