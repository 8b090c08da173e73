"""Mappings of several states to one."""

from collections.abc import Callable, Sequence

import numpy as np

from .._mapping.base import AbstractMapping
from .._mapping.distance import DistanceMapping
from .._mapping.sum import SumMapping
from .._scene.dof import Rigid3
from .articulations import ARTICULATED
from .nonlinear_mappings import geometric_stiffness
from .numerics.gathered_frames import GatheredFrames
from .part_builder import PartBuilder, named
from .read.component import Component
from .read.coordinates import coordinates
from .read.graph import SceneNode, SceneObject
from .read.links import STATES, of_kind_upward

Made = tuple[AbstractMapping, np.ndarray]


def inputs(part: Component) -> list[SceneObject]:
    """The states that a mapping takes: those it links to, or the one above its node."""
    found = part.links("input") or part.links("input1") or part.links("object1")
    if part.object.kind == ARTICULATED:  # others take a second input by themselves
        found = [*found, *part.links("input2")]
    above = part.object.node.parent
    found = found or ([above] if above is not None else [])
    states = [of_kind_upward(o, lambda s: s.kind in STATES) if isinstance(o, SceneNode) else o for o in found]
    return [o for o in states if isinstance(o, SceneObject)]


def _pairs(build: PartBuilder, part: Component, sources: Sequence[str]) -> np.ndarray:
    """`(state, node)` of each pair of indexPairs."""
    pairs = part.wholes("indexPairs", None, width=2)
    if pairs is None or not len(pairs):
        raise part.error("has no indexPairs, an input and a node of it for each point")
    for state, node in pairs.tolist():
        if not 0 <= state < len(sources) or not 0 <= node < len(build.rest[sources[state]]):
            raise part.error(f"indexPairs names node {node} of input {state}, which is not there")
    return pairs


def _gathered(build: PartBuilder, part: Component, sources: Sequence[str], child: SceneObject, pairs: np.ndarray) -> Made:
    """Each node is one node of one of the states: a sum in which its weight alone is not zero. Of frames, also their
    origins."""
    own = (pairs[:, :1] == np.arange(len(sources))).astype(float)
    rest = np.stack([build.rest[sources[state]][node] for state, node in pairs.tolist()])
    nodes = [np.where(own[:, i] > 0, pairs[:, 1], 0) for i in range(len(sources))]
    if all(isinstance(build.dofs[s], Rigid3) for s in sources):
        size = coordinates(child)
        made = GatheredFrames(tuple(zip(sources, nodes, strict=True)), named(child), own, size == 7)
        return made, rest[:, :3] if size == 3 else rest
    _points(build, part, sources)
    return SumMapping(tuple((s, n[:, None]) for s, n in zip(sources, nodes, strict=True)), named(child), own), rest


def _points(build: PartBuilder, part: Component, sources: Sequence[str]) -> None:
    if len({build.dofs[s].coord_size for s in sources}) > 1 or not all(build.dofs[s].is_vector_space for s in sources):
        raise part.error("maps states that are neither frames nor points of one dimension, which is not translated")


def subset(build: PartBuilder, part: Component, sources: Sequence[str], child: SceneObject) -> Made:
    """SubsetMultiMapping."""
    return _gathered(build, part, sources, child, _pairs(build, part, sources))


def identity(build: PartBuilder, part: Component, sources: Sequence[str], child: SceneObject) -> Made:
    """IdentityMultiMapping: the nodes of all inputs, one after the other."""
    pairs = [(i, node) for i, s in enumerate(sources) for node in range(len(build.rest[s]))]
    return _gathered(build, part, sources, child, np.array(pairs))


def distance(build: PartBuilder, part: Component, sources: Sequence[str], child: SceneObject) -> Made:
    """DistanceMultiMapping: along edges between the points of indexPairs, all from one state to another."""
    _points(build, part, sources)
    pairs, edges = _pairs(build, part, sources), build.data.topology_for(part).edges
    if not len(edges) or edges.max() >= len(pairs):
        raise part.error(f"its topology needs edges between the {len(pairs)} points of indexPairs")
    (one, other), ends = pairs[edges[0], 0].tolist(), pairs[edges]
    if (ends[..., 0] != (one, other)).any():
        raise part.error("edges between different pairs of states are not translated")
    a, b = (build.rest[sources[i]][ends[:, k, 1]] for k, i in enumerate((one, other)))
    now = np.linalg.norm(b - a, axis=1)
    given = part.reals("restLengths")
    if given is not None and len(given) not in (0, len(edges)):
        raise part.error(f"restLengths has {len(given)} entries, expected {len(edges)}")
    absolute = part.flag("computeDistance", False)
    lengths = given if given is not None and len(given) else np.zeros(len(edges)) if absolute else now
    options = geometric_stiffness(build, part, "stabilized")
    if build.sofa and options["geometric_stiffness"] != "none":
        raise part.error(
            "has a geometric stiffness in SOFA that is not the derivative: geometricStiffness='None' is translated"
        )
    ends_of = ((sources[one], ends[:, 0, 1]), (sources[other], ends[:, 1, 1]))
    return DistanceMapping(ends_of, named(child), lengths, **options), (now - lengths)[:, None]


MULTI: dict[str, Callable[[PartBuilder, Component, Sequence[str], SceneObject], Made]] = {
    "SubsetMultiMapping": subset,
    "IdentityMultiMapping": identity,
    "DistanceMultiMapping": distance,
}
