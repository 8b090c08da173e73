"""Drag in proportion to the velocity."""

import jax.numpy as jnp

from .._runtime.array_types import Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import Arrays
from .drag import AbstractDrag


class VelocityDamping(AbstractDrag):
    """Viscous drag of nodes: `f = -c v`, from the dissipation `D = c/2 |v|^2` [W].

    `coefficient` `c` [N s/m]: shared, or one per node `(n,)`. On rigid frames `angular` [N m s/rad] acts on the
    spin (nothing unless given). Raises `ValueError` for a negative coefficient.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, section 1.5.

    Example:

        scene = jm.System({"p": jm.Vec2()}, forces={"drag": jm.force.VelocityDamping(("p", [0]), 3.0)})
        moving = jm.State({"p": jnp.zeros((1, 2))}, {"p": jnp.array([[2.0, 0.0]])}, jnp.zeros(()))
        assert jnp.allclose(jm.total_force(scene, moving)["p"], jnp.array([[-6.0, 0.0]]))  # -c v [N]
    """

    on: Stencils = stencils()
    coefficient: Parameter = parameter()
    angular: Parameter = parameter(default=0.0)

    def __check_init__(self):
        if len(self.on) != 1 or self.on[0].nodes.ndim != 1:
            raise ValueError("VelocityDamping: on must be (state, nodes), node numbers of shape (e,).")
        positive = (lambda c: c >= 0, "at least 0")
        check_range(self, coefficient=(self.coefficient, *positive), angular=(self.angular, *positive))

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        (coordinate,), (velocity,) = x, v
        # A frame of space is the one degree of freedom whose coordinates outnumber its velocities.
        size = 3 if coordinate.shape[0] > velocity.shape[0] else velocity.shape[0]
        drag = self.coefficient * jnp.sum(velocity[:size] ** 2)
        return 0.5 * (drag + self.angular * jnp.sum(velocity[size:] ** 2))
