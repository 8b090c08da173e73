"""Springs that hold points at places, or at other points."""

from typing import Any

import jax.numpy as jnp

from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField, points_only


class AnchoredSprings(AbstractEnergyForceField):
    """Zero-length springs: `E = k/2 |x - anchor|^2` [J], stiffness `k` [N/m].

    `on=(state, nodes)` with `anchor` [m] of shape `(e, c)`, a place for each point; or
    `on=((state, nodes), (other state, nodes))` without `anchor`, to the points of another state. `AnchoredFrames` holds
    rigid frames. Raises `ValueError` for a negative stiffness, or an anchor missing or too many.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, chapter 6.

    Example:

        spring = jm.force.AnchoredSprings(("p", [0]), 10.0, anchor=[[1.0, 0.0]])
        scene = jm.System({"p": jm.Vec2()}, forces={"spring": spring})
        force = jm.total_force(scene, scene.at_rest({"p": [[0.0, 3.0]]}))["p"]
        assert jnp.allclose(force, jnp.array([[10.0, -30.0]]))  # k (anchor - x) [N]
    """

    on: Stencils = stencils()
    stiffness: Parameter = parameter()
    anchor: OptionalParameter = parameter(ndim=1, default=None)

    def __check_init__(self):
        if (len(self.on) == 1) != (self.anchor is not None) or len(self.on) > 2:
            raise ValueError(
                "AnchoredSprings: on must be (state, nodes) with an anchor, or two of those without an anchor; got "
                f"{len(self.on)} and {'an' if self.anchor is not None else 'no'} anchor."
            )
        if any(s.nodes.ndim != 1 for s in self.on):
            raise ValueError("AnchoredSprings: one node per spring, node numbers of shape (e,).")
        check_range(self, stiffness=(self.stiffness, lambda k: k >= 0, "at least 0"))

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)
        if self.anchor is not None and self.anchor.shape[-1] != dofs[0].coord_size:
            raise ValueError(f"anchor has shape {self.anchor.shape}, expected (e, {dofs[0].coord_size}).")

    def element_energy(self, x: Array, other: Array | None = None) -> Scalar:
        anchor = self.anchor if other is None else other
        assert anchor is not None
        d = x - anchor
        return 0.5 * self.stiffness * jnp.sum(d * d)
