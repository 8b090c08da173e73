"""A hinge of two bodies."""

import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._runtime.field_types import OptionalParameter, Parameter
from ..._scene.parameter import parameter
from ..._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .base import AbstractJoint, tilt


class HingeJoint(AbstractJoint):
    """`(p, tilt) = C lambda`: the frames of two bodies share their point and their axis `z`, about which they turn.

    Five rows, three [m] and two [rad], in the axes of body `a`; whole turns are as good as any. `on=((state, bodies a
    (e,)), (state, bodies b (e,)))`, or one stencil, of bodies `b` held to the world; `frame_a`, `frame_b`: see `frame`.
    `compliance` [m/N, rad/(N m)] and `relaxation` [s]: `(rows,)`, `(1,)` for all of them alike, or `(e, rows)`;
    `multiplier`: see `AbstractMultiplierConstraint`. Raises `ValueError` for other states than `Rigid3`, other shapes,
    quaternions that are not of unit length and negative numbers. `lambda` [N, N m]: the force and the torque of body `b`
    on body `a`.
    Source: A. A. Shabana, *Dynamics of Multibody Systems*, 4th ed., 2013, doi:10.1017/CBO9781107337213, section 3.3.

    Example:

        pin = jm.constraint.frame([-0.5, 0.0, 0.0], axis=[0.0, 1.0, 0.0])  # at the end of a bar of a metre, about y
        hinge = jm.constraint.HingeJoint(("bar", [0]), frame_a=jm.constraint.frame([0.0] * 3, [0.0, 1.0, 0.0]), frame_b=pin)
        bar = jm.mass.RigidMass(("bar", [0]), 2.0, np.diag([1e-3, 2 / 12, 2 / 12]))  # [kg], [kg m^2]
        scene = jm.System(
            {"bar": jm.Rigid3()}, masses={"bar": bar}, constraints={"hinge": hinge}, gravity=(-9.81, 0.0, 0.0)
        )
        hanging = scene.at_rest({"bar": [[0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]})
        assert jnp.allclose(jm.constraint.violations(scene, hanging)["hinge"], 0.0)
    """

    on: Stencils = stencils()
    frame_a: OptionalParameter = parameter(ndim=1, default=None)
    frame_b: OptionalParameter = parameter(ndim=1, default=None)
    compliance: Parameter = parameter(ndim=1, default=(0.0,))
    relaxation: OptionalParameter = parameter(ndim=1, default=None)
    multiplier: OptionalStencils = optional_stencils(kw_only=True)

    units = ("m", "m", "m", "rad", "rad")

    def element_constraint(self, *x: Array) -> Array:
        p, q = self.relative(x)
        return jnp.concatenate([p, tilt(q)])
