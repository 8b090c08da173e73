"""Springs of polynomials, of vectors, of orientations, and against the bending of quads."""

from typing import Any

import numpy as np

from .numerics.polynomial_springs import AngularSprings, PolynomialAnchors, PolynomialSprings, VectorSprings
from .part_builder import PartBuilder, named
from .read.component import Component
from .springs import anchors, end, spring_between

_AS_SOFA = "its tangent is SOFA's, not the derivative"


def _coefficients(part: Component, count: int) -> np.ndarray:
    """`(count, degree)`: of each spring, or of the first for all where there are not as many polynomials as springs."""
    numbers = part.reals("polynomialStiffness", np.array([100.0]))
    degrees = part.wholes("polynomialDegree", np.array([1]))
    if not len(degrees) or degrees.min() < 1 or degrees.max() > 50 or degrees.sum() > len(numbers):
        raise part.error(f"polynomialDegree asks for {degrees.sum()} of the {len(numbers)} numbers of polynomialStiffness")
    table = np.zeros((len(degrees), int(degrees.max())))
    for row, (start, degree) in enumerate(zip(np.cumsum(degrees) - degrees, degrees, strict=True)):
        table[row, :degree] = numbers[start : start + degree]
    return table if len(degrees) == count else np.broadcast_to(table[0], (count, table.shape[1]))


def _lengths(part: Component, numbers: np.ndarray, count: int) -> np.ndarray:
    """One for each spring; those that have none of their own have the first."""
    found = np.full(count, numbers[0])
    found[: len(numbers)] = numbers[:count]
    if not (found > 0).all():
        raise part.error(f"a length is {found.min()}, expected positive ones")
    return found


def polynomial_springs(build: PartBuilder, part: Component) -> str:
    """PolynomialSpringsForceField."""
    states = [end(build, part, name) for name in ("object1", "object2")]
    ends = []
    for name, state in zip(("firstObjectPoints", "secondObjectPoints"), states, strict=True):
        nodes = part.wholes(name)
        nodes = np.arange(len(build.position[state])) if nodes is None or not len(nodes) else nodes
        if nodes.min() < 0 or nodes.max() >= len(build.position[state]):
            raise part.error(f"{name} names node {nodes.max()} of '{state}', which has {len(build.position[state])}")
        ends.append((state, nodes))
    (one, a), (other, b) = ends
    if len(a) > len(b):
        raise part.error(f"firstObjectPoints are {len(a)}, and secondObjectPoints {len(b)}: fewer")
    b = b[: len(a)]
    part.neutral(rayleighStiffness=0.0, recompute_indices=False)
    part.ignored("springColor")
    given = part.reals("zeroLength", np.array([1.0]))
    lengths = np.linalg.norm(build.position[other][b] - build.position[one][a], axis=1)
    lengths = _lengths(part, lengths if part.whole("computeZeroLength", 1) == 1 else given, len(a))
    compressible = part.flag("compressible", False)
    made = PolynomialSprings(
        ((one, a), (other, b)), _coefficients(part, len(a)), lengths, compressible=compressible, frozen=build.sofa
    )
    build.forces[named(part.object)] = made
    return _AS_SOFA if build.sofa else ""


def polynomial_anchors(build: PartBuilder, part: Component) -> str:
    """PolynomialRestShapeSpringsForceField."""
    state = build.state_of(part)
    every = np.arange(len(build.position[state]))
    nodes = build.indices(part, state, "points", default=every)
    nodes = nodes if len(nodes) else every
    outer = part.wholes("external_points")
    part.neutral(rayleighStiffness=0.0, recompute_indices=False)
    part.ignored("springColor")
    lengths = part.reals(("initialLength", "zeroLength"), np.array([1.0]))
    shift, scale = part.real("smoothShift", 0.0), part.real("smoothScale", 1.0)
    table = _coefficients(part, len(nodes))
    where = anchors(build, part, state, nodes, outer)
    lengths = _lengths(part, lengths, len(nodes))
    build.forces[named(part.object)] = PolynomialAnchors((state, nodes), table, lengths, where, shift, scale, build.sofa)
    build.parameter(part, "smoothScale", "forces", "scale")
    return _AS_SOFA if build.sofa else ""


def vector_springs(build: PartBuilder, part: Component) -> str:
    """VectorSpringForceField: along edges of a topology, or between nodes of the same number of two states."""
    one, other = (end(build, part, name) for name in ("object1", "object2"))
    k, c = part.real("stiffness", 1.0), part.real("viscosity", 1.0)
    part.neutral(rayleighStiffness=0.0, springs="", filename="")
    if part.flag("useTopology", False):
        pairs = build.topology_of(part, one).all_edges()
        if not len(pairs) or pairs.max() >= min(len(build.rest[one]), len(build.rest[other])):
            raise part.error("its topology has no edges between the nodes of its states")
        rest = build.rest[one][pairs[:, 1]] - build.rest[one][pairs[:, 0]]
    else:
        count = min(len(build.rest[one]), len(build.rest[other]))
        pairs, rest = np.stack([np.arange(count)] * 2, axis=1), np.zeros((count, build.rest[one].shape[1]))
    if one == other and (pairs[:, 0] == pairs[:, 1]).any():
        raise part.error("links a state with itself: useTopology, or two states, are translated")
    build.explicit_damping |= c != 0
    build.forces[named(part.object)] = VectorSprings(((one, pairs[:, 0]), (other, pairs[:, 1])), k, c, rest)
    build.parameter(part, "stiffness", "forces", "stiffness")
    build.parameter(part, "viscosity", "forces", "damping")
    return "their damping is in no matrix, as in SOFA" if c and build.sofa else ""


def angular_springs(build: PartBuilder, part: Component) -> str:
    """AngularSpringForceField: torques on frames, by their turn from the frame one number before."""
    state = build.state_of(part)
    nodes = part.wholes("indices")
    if nodes is None or len(nodes) < 2 or nodes[1:].min() < 1 or nodes.min() < 0 or nodes.max() >= len(build.rest[state]):
        raise part.error(f"indices must name two or more frames below {len(build.rest[state])}, all but the first above 0")
    k = part.reals("angularStiffness", np.array([100.0]))
    k = np.concatenate([k[: len(nodes)], np.full(max(0, len(nodes) - len(k)), k[0])])
    part.neutral(rayleighStiffness=0.0)
    part.ignored("limit", "springColor")
    held = (np.arange(len(nodes)) > 0).astype(float)
    before = np.maximum(nodes - 1, 0)
    build.forces[named(part.object)] = AngularSprings(((state, nodes), (state, before)), k, held, build.sofa)
    return "the frame before feels nothing, as in SOFA" + (f"; {_AS_SOFA}" if build.sofa else "")


def _shared_edges(build: PartBuilder, part: Component, state: str) -> list[list[list[int]]]:
    """Of every edge that two quads share: each of them, turned so that the edge comes first."""
    across: dict[tuple[int, int], list[list[int]]] = {}
    for quad in build.topology_of(part, state, "quads").quads.tolist():
        for i in range(4):
            turned = quad[i:] + quad[:i]
            across.setdefault((min(turned[:2]), max(turned[:2])), []).append(turned)
    found = [two for two in across.values() if len(two) == 2]
    if not found:
        raise part.error("no two quads of its topology share an edge")
    return found


def quad_bending(build: PartBuilder, part: Component) -> str:
    """QuadBendingSprings: over every edge that two quads share, between the corners beyond either of its ends."""
    state = build.state_of(part)
    k, c = part.real("stiffness", 100.0), part.real("damping", 5.0)
    part.neutral(rayleighStiffness=0.0, localRange="-1 -1")
    pairs: dict[tuple[int, int], None] = {}
    for one, other in _shared_edges(build, part, state):
        beyond = [{quad[0]: quad[3], quad[1]: quad[2]} for quad in (one, other)]
        pairs |= {(min(p), max(p)): None for p in ((beyond[0][node], beyond[1][node]) for node in one[:2])}
    return spring_between(build, part, state, np.array(list(pairs)), k, c)


def quad_diagonals(build: PartBuilder, part: Component) -> str:
    """QuadularBendingSprings: at every edge that two quads share, from its ends to their corners, as SOFA has them."""
    state = build.state_of(part)
    k, c = part.real("stiffness", 1e5), part.real("damping", 1.0)
    part.neutral(rayleighStiffness=0.0)
    part.ignored("edgeInfo")
    pairs = [p for one, other in _shared_edges(build, part, state) for p in ((other[0], one[3]), (other[3], one[0]))]
    pairs = np.array([p for p in pairs if p[0] != p[1]])
    return spring_between(build, part, state, pairs, k, c)


FURTHER_SPRINGS: dict[str, Any] = {
    "PolynomialSpringsForceField": polynomial_springs,
    "PolynomialRestShapeSpringsForceField": polynomial_anchors,
    "VectorSpringForceField": vector_springs,
    "AngularSpringForceField": angular_springs,
    "QuadBendingSprings": quad_bending,
    "QuadularBendingSprings": quad_diagonals,
}
