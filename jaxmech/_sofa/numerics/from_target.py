"""SOFA's distance of a point from a place, which has a direction even there."""

import jax.numpy as jnp

from ..._mapping.distance_from_target import DistanceFromTargetMapping
from ..._math.safe_norm import safe_length
from ..._runtime.array_types import Array

_THERE = 1e-10  # [m]


class SofaDistanceFromTarget(DistanceFromTargetMapping):
    """`DistanceFromTargetMapping`, whose direction is the first axis where the point is within 1e-10 m of its target."""

    def element_apply(self, q: Array) -> Array:
        gap = q - self.target
        there = gap @ gap <= _THERE**2
        length = safe_length(jnp.where(there, 1.0, gap))
        return (jnp.where(there, gap[0], length) - self.rest_length)[None]
