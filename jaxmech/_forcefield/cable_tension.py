"""Cables under a given tension, through eyelets."""

from typing import Any

import jax.numpy as jnp

from .._math.safe_norm import safe_length
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField, points_only


class CableTension(AbstractEnergyForceField):
    """`E = T sum |x_(i+1) - x_i|` [J]: a cable that slides without friction through eyelets `x_i`, pulled with `T` [N].

    `on=(state, nodes (e, k))`: of every cable the `k` eyelets, in their order; or two such stencils, the cable running
    through the first, then through the second. `tension`: shared, or one per cable. Every eyelet is pulled by `T` along
    both parts of the cable that meet there. `jm.constraint.Cable` is the same cable with its length given. Raises
    `ValueError` for other shapes, and other states than points.
    Source: E. Coevoet et al., "Software toolkit for modeling, simulation, and control of soft robots", Adv. Robotics 31
    (2017) 1208, doi:10.1080/01691864.2017.1395362.

    Example:

        cable = jm.force.CableTension(("p", [[0, 1, 2]]), tension=5.0)
        scene = jm.System({"p": jm.Vec2()}, forces={"cable": cable})
        force = jm.total_force(scene, scene.at_rest({"p": [[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]}))["p"]
        assert jnp.allclose(force, jnp.array([[5.0, 0.0], [-5.0, 5.0], [0.0, -5.0]]))  # [N]
    """

    on: Stencils = stencils()
    tension: Parameter = parameter()

    def __check_init__(self):
        eyelets = [s.nodes.shape[1] if s.nodes.ndim == 2 else 0 for s in self.on]
        if len(self.on) not in (1, 2) or 0 in eyelets or sum(eyelets) < 2:
            raise ValueError(
                "CableTension: on must be one or two of (state, eyelets (e, k)), with at least two eyelets per cable; got "
                f"{[(s.state, tuple(s.nodes.shape)) for s in self.on]}."
            )

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)

    def element_energy(self, *x: Array) -> Scalar:
        points = jnp.concatenate(x)
        parts = (safe_length(points[i + 1] - points[i]) for i in range(len(points) - 1))
        return self.tension * sum(parts, jnp.zeros((), points.dtype))
