"""How a point is seen from a triangle: how far it is, on which side, and which point of the triangle is nearest."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from .._math.safe_norm import safe_length
from .._runtime.array_types import Array, Bool
from .base import unit

TIE = 1e-4  # of a distance: what lies beside the plane of a triangle counts so much more
_BAND = 0.05  # of the longest edge: what is so little beyond the rim is still over a triangle, unless it is deeper than that


class Seen(NamedTuple):
    """The `weights` `(3,)` of the corners at the nearest point of the triangle; the unit `normal` `(3,)`; how far `above`
    its plane the point is, and its signed `distance` [m], negative behind the triangle, but not beyond its rim. `over`:
    whether it is over the triangle, or so little beyond the rim that it counts as such; `beyond`: the rim otherwise."""

    weights: Array
    normal: Array
    above: Array
    distance: Array
    over: Bool[Array, ""]
    beyond: Bool[Array, ""]


def seen_from_triangle(p: Array, corners: Array, rim: Bool[Array, " 3"]) -> Seen:
    """A point `(3,)` beside `corners` `(3, 3)`, `rim` the edges 01, 12, 20 beyond which nothing is inside.

    All edges at once, each product once: contact evaluates this, its derivatives and those of these in one program.
    Source: C. Ericson, *Real-Time Collision Detection*, 2005, ISBN 978-1-55860-732-3, section 5.1.5.
    """
    edges, away = jnp.roll(corners, -1, axis=0) - corners, p - corners
    n = jnp.cross(edges[2], edges[0])
    area = n @ n
    inner = jnp.roll(jnp.cross(edges, away) @ n, -1) / jnp.where(area > 0, area, 1.0)
    within = jnp.all(inner >= 0) & (area > 0)
    squares = jnp.sum(edges**2, axis=1)
    t = jnp.clip(jnp.sum(away * edges, axis=1) / jnp.where(squares > 0, squares, 1.0), 0.0, 1.0)[:, None]
    apart = jnp.sum((away - t * edges) ** 2, axis=1)
    best = jnp.argmin(apart)
    # Beyond a corner two edges are as near, of which one may be within the surface.
    at_rim = ~within & jnp.any(rim & (apart <= (1 + TIE) * apart[best]))
    normal = unit(n)
    above, band = normal @ away[0], _BAND * jnp.sqrt(jnp.max(squares))
    little = at_rim & (apart[best] - above**2 <= band**2) & (above >= -band)
    over, beyond = within | little, at_rim & ~little
    first = np.eye(3, dtype=p.dtype)  # the weights at the first end of each edge
    weights = jnp.where(within, inner, ((1 - t) * first + t * np.roll(first, 1, axis=1))[best])
    length = safe_length(p - weights @ corners)
    distance = jnp.where(over, above, jnp.where((above < 0) & ~beyond, -length, length))
    return Seen(weights, normal, above, distance, over, beyond)
