"""A ball joint of two bodies."""

from ..._runtime.array_types import Array
from ..._runtime.field_types import OptionalParameter, Parameter
from ..._scene.parameter import parameter
from ..._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .base import AbstractJoint


class BallJoint(AbstractJoint):
    """`p = C lambda`: the points at which the frames of two bodies stand are one; three rows, in the axes of body `a`.

    `on=((state, bodies a (e,)), (state, bodies b (e,)))`, or one stencil, of bodies `b` held to the world; `frame_a`,
    `frame_b`: see `frame`. `compliance` [m/N, rad/(N m)] and `relaxation` [s]: `(rows,)`, `(1,)` for all of them alike, or
    `(e, rows)`; `multiplier`: see `AbstractMultiplierConstraint`. Raises `ValueError` for other states than `Rigid3`, other
    shapes, quaternions that are not of unit length and negative numbers. `lambda` [N]: the force of body `b` on body `a`.
    Source: A. A. Shabana, *Dynamics of Multibody Systems*, 4th ed., 2013, doi:10.1017/CBO9781107337213, section 3.3.

    Example:

        eye = jm.constraint.frame([0.0, 0.0, 0.5])  # half a metre above the centre
        ball = jm.constraint.BallJoint(("body", [0]), frame_b=eye)
        load = jm.force.ConstantForce(("body", [0]), [0.0, 0.0, -10.0])
        scene = jm.System({"body": jm.Rigid3()}, forces={"load": load}, constraints={"ball": ball})
        start = scene.at_rest({"body": [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]})
        assert jnp.allclose(jm.constraint.violations(scene, start)["ball"], jnp.array([[0.0, 0.0, 0.5]]))  # [m]
    """

    on: Stencils = stencils()
    frame_a: OptionalParameter = parameter(ndim=1, default=None)
    frame_b: OptionalParameter = parameter(ndim=1, default=None)
    compliance: Parameter = parameter(ndim=1, default=(0.0,))
    relaxation: OptionalParameter = parameter(ndim=1, default=None)
    multiplier: OptionalStencils = optional_stencils(kw_only=True)

    units = ("m", "m", "m")

    def element_constraint(self, *x: Array) -> Array:
        return self.relative(x)[0]
