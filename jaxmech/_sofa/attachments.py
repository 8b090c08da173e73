"""Nodes of one state that are attached to those of another by projection."""

import jax.numpy as jnp
import numpy as np

from .._constraint.attachment import Attachment
from .._constraint.fixed_components import FixedComponents
from .._scene.dof import Rigid3
from .._scene.stencil import Stencil
from .numerics.attached import Attached
from .part_builder import EQUIVALENT, PartBuilder, named
from .read.component import Component
from .springs import end


def attach(build: PartBuilder, part: Component) -> str:
    """AttachProjectiveConstraint, one way or both."""
    states = [end(build, part, name) for name in ("object1", "object2")]
    pairs = [_nodes(build, part, state, f"indices{i + 1}") for i, state in enumerate(states)]
    count = min(map(len, pairs))
    first, second = (Stencil(state, nodes[:count]) for state, nodes in zip(states, pairs, strict=True))
    two_ways, turns = part.flag("twoWay", False), not part.flag("freeRotations", False)
    part.neutral(lastFreeRotation=False, restRotations=False, lastDir="", minDistance=-1.0)
    part.ignored("lastPos", "clamp")  # of what goes on behind lastDir
    each = part.reals("constraintFactor", np.ones(count))
    if len(each) < count:
        raise part.error(f"constraintFactor has {len(each)} numbers, expected {count}")
    place, rate, response = (each[:count] * part.real(f"{what}Factor", 1.0) for what in ("position", "velocity", "response"))
    dofs = [build.dofs[state] for state in states]
    frames = isinstance(dofs[0], Rigid3)
    if type(dofs[0]) is not type(dofs[1]) or not (frames or dofs[0].is_vector_space):
        raise part.error("attaches points to points, or frames of space to frames of space")
    if not build.sofa:
        return _exactly(build, part, (first, second), two_ways and not frames)
    if not two_ways:
        free = tuple(frames and not turns and i >= 3 for i in range(dofs[0].deriv_size))
        build.constraints[named(part.object)] = FixedComponents((second.state, second.nodes), tuple(not f for f in free))
    factors = (jnp.asarray(a) for a in (place, rate, response))
    build.attached.append(Attached(first, second, *factors, two_ways=two_ways, frames=frames, turns=turns))
    return "the second nodes go half of the way to the first when a step is over" if not frames else ""


def _exactly(build: PartBuilder, part: Component, pairs: tuple[Stencil, Stencil], points_both_ways: bool) -> str:
    if not points_both_ways:
        raise part.error("one way alone, or of frames, is no constraint of mechanics (solver='sofa' computes it)")
    build.constraints[named(part.object)] = Attachment(pairs)
    return EQUIVALENT + "points that are one, by multipliers"


def _nodes(build: PartBuilder, part: Component, state: str, name: str) -> np.ndarray:
    nodes = build.indices(part, state, name)
    if len(nodes) != len(part.wholes(name)) or not len(nodes):
        raise part.error(f"{name} names no node, or one twice")
    return nodes


ATTACHMENTS = {"AttachProjectiveConstraint": attach, "AttachConstraint": attach}
