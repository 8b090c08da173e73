"""Nodes that a scene holds where they start."""

import numpy as np

from .part_builder import PartBuilder, named
from .read.component import Component
from .read.graph import SceneObject

_HELD = ("FixedProjectiveConstraint", "PartialFixedProjectiveConstraint")


def held_nodes(build: PartBuilder, object: SceneObject) -> np.ndarray:
    """Which nodes of a state start at rest, and are fixed in all directions by components beside it."""
    state, count = named(object), len(build.position[named(object)])
    still = ~np.any(build.velocity.get(state, np.zeros((count, 1))) != 0, axis=1)
    held = np.zeros(len(still), bool)
    for other in (o for o in object.node.objects if o.kind in _HELD):
        part = Component(build.data, other)
        width = build.dofs[state].deriv_size
        directions = part.reals("fixedDirections", np.ones(width)) if other.kind == _HELD[1] else np.ones(width)
        if np.all(directions[:width] != 0):
            everything = np.arange(len(held))
            nodes = everything if part.flag("fixAll", False) else build.indices(part, state, default=np.array([0]))
            held[nodes] = True
    return held & still
