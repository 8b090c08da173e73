"""Points that stay on a line."""

from typing import Any

import jax.numpy as jnp

from .._math.safe_norm import safe_direction
from .._runtime.array_types import Array
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.parameter import parameter
from .._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .multiplier import AbstractMultiplierConstraint
from .points import check_points, check_single_nodes


class OnLine(AbstractMultiplierConstraint):
    """`(u . (x - a), v . (x - a)) = C lambda`: a point `x` slides on the line through `a` and `b`; `u`, `v` across the line.

    `on=((state, nodes x (e,)), (state, nodes a (e,)), (state, nodes b (e,)))`, of any states of points, mapped or not: a
    bead on a rod that moves; the line does not end at `a` and `b`. Two rows in space, one in the plane. `lambda` [N]: the
    force of the bead on the line. `compliance` [m/N], `relaxation` [s] and `multiplier`: see
    `AbstractMultiplierConstraint`. For a line that stands still see `FixedLine`, which needs no multipliers. Raises
    `ValueError` for other shapes, and other states than points of two or three dimensions.
    Source: T. Duff et al., "Building an Orthonormal Basis, Revisited", JCGT 6(1), 2017 (`u` and `v`).

    Example:

        bead = jm.constraint.OnLine((("p", [0]), ("p", [1]), ("p", [2])))
        scene = jm.System({"p": jm.Vec3()}, constraints={"bead": bead})
        off = scene.at_rest({"p": [[5.0, 0.0, 0.2], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]})
        assert jnp.allclose(jnp.linalg.norm(jm.constraint.violations(scene, off)["bead"]), 0.2)  # [m]
    """

    on: Stencils = stencils()
    compliance: Parameter = parameter(default=0.0)
    relaxation: OptionalParameter = parameter(default=None)
    multiplier: OptionalStencils = optional_stencils(kw_only=True)

    def __check_init__(self):
        check_single_nodes(self, 3)

    def check_dofs(self, dofs: Any) -> None:
        check_points(self, dofs)
        if dofs[0].coord_size not in (2, 3):
            raise ValueError("OnLine acts on points of two or three dimensions (Vec2, Vec3).")

    def element_constraint(self, x: Array, a: Array, b: Array) -> Array:
        return across(safe_direction(b - a)) @ (x - a)


def across(d: Array) -> Array:
    """`(c - 1, c)`: unit vectors across a direction of the plane or of space, and across each other."""
    if d.shape[0] == 2:
        return jnp.stack([-d[1], d[0]])[None]
    sign = jnp.where(d[2] >= 0, 1.0, -1.0)
    p = -1 / (sign + d[2])
    q = d[0] * d[1] * p
    first = jnp.stack([1 + sign * d[0] ** 2 * p, sign * q, -sign * d[0]])
    return jnp.stack([first, jnp.stack([q, sign + d[1] ** 2 * p, -d[1]])])
