"""Springs between nodes, of meshes, to the rest shape, and against bending."""

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from .._forcefield.anchored_frames import AnchoredFrames
from .._forcefield.anchored_springs import AnchoredSprings
from .._forcefield.springs import Springs
from .active_directions import active_directions, assembled_stiffness
from .grid_springs import grid_springs
from .held_nodes import held_nodes
from .numerics.directed_anchors import DirectedAnchors
from .numerics.frozen_anchors import FrozenAnchoredFrames
from .numerics.spring_laws import FastBendingSprings, LinearisedSprings
from .part_builder import PartBuilder, named
from .read import values
from .read.component import Component
from .read.graph import SceneNode, SceneObject
from .read.links import STATES, of_kind_upward

_NO_HINGE = "no two triangles of its topology share an edge: it has no springs"


def _springs(build: PartBuilder, part: Component, ends: Any, k: Any, c: Any, length: Any, *, pulls: Any = False) -> str:
    """`pulls`: which springs resist extension alone."""
    name = named(part.object)
    damped = bool(np.any(np.asarray(c) != 0))
    build.parameter(part, "stiffness", "forces", "stiffness")
    build.explicit_damping |= damped
    frames = {build.has_frames(state) for state, _ in ends}
    if len(frames) > 1 or any(frames) and any(build.dofs[state].coord_size != 7 for state, _ in ends):
        raise part.error("acts between points, or between frames of space")
    if any(frames) and not build.sofa and not np.any(pulls):
        build.forces[name] = LinearisedSprings(ends, k, c, length, frozen=False)
        return "at the origins of frames"
    if np.any(pulls):
        build.forces[name] = LinearisedSprings(ends, k, c, length, pulls=np.asarray(pulls, float), frozen=build.sofa)
        return "those of elongationOnly pull, and do not push"
    if build.sofa:
        build.forces[name] = LinearisedSprings(ends, k, c, length)
        return "their damping is in no matrix, as in SOFA" if damped else ""
    build.forces[name] = Springs(ends, k, length, c if damped else None)
    return ""


def springs(build: PartBuilder, part: Component) -> str:
    """SpringForceField and StiffSpringForceField: lines "a b stiffness damping length", within a state or between two."""
    first, second = (end(build, part, name) for name in ("object1", "object2"))
    text = part.object.data.get("spring", "").replace("[", " ").replace("]", " ")
    rows = part.reals("spring", None, width=5) if not text else values.reals(part.object, "spring", text, 5)
    pulls = _flags(part, "elongationOnly")
    part.neutral(enabled=True, isCompliance=False, rayleighStiffness=0.0)
    part.ignored("spring", "fileName")
    if rows is None or not len(rows):
        one, other = (part.wholes(names) for names in (("springsIndices1", "indices1"), ("springsIndices2", "indices2")))
        k, c = part.reals("stiffness", np.array([100.0])), part.reals("damping", np.array([5.0]))
        if one is None or other is None or len(one) != len(other):
            raise part.error("needs `spring`, or springsIndices1 and springsIndices2, as many of each")
        lengths = part.reals(("lengths", "length"))
        for state, nodes in ((first, one), (second, other)):
            _check_nodes(build, part, state, nodes)
        lengths = np.zeros(1) if lengths is None or not len(lengths) else lengths
        if not len(k) or not len(c):
            raise part.error("has an empty list of stiffness or damping")
        k, c, lengths = (np.pad(a, (0, max(0, len(one) - len(a))), "edge")[: len(one)] for a in (k, c, lengths))
        rows = np.stack((one, other, k, c, lengths), axis=1)
    pairs = rows[:, :2].astype(np.int64)
    if not len(rows) or (pairs != rows[:, :2]).any():
        raise part.error(f"spring names nodes {rows[:, :2].tolist()[:3]}, expected whole numbers")
    for state, nodes in ((first, pairs[:, 0]), (second, pairs[:, 1])):
        _check_nodes(build, part, state, nodes)
    ends = ((first, pairs[:, 0]), (second, pairs[:, 1]))
    if len(pulls) not in (1, len(rows)):
        raise part.error(f"elongationOnly has {len(pulls)} entries, expected 1 or {len(rows)}")
    pulls = pulls if np.any(pulls) else False
    return _springs(build, part, ends, rows[:, 2], rows[:, 3], rows[:, 4], pulls=np.broadcast_to(pulls, len(rows)))


def _flags(part: Component, name: str) -> np.ndarray:
    """Yes or no, for all or for each."""
    words = part.text(name, "0").replace(",", " ").split()
    return np.array([values.flag(part.object, name, word) for word in words or ["0"]])


def end(build: PartBuilder, part: Component, name: str) -> str:
    """The state at one end of interactions: the one that is linked to, or that of the node."""
    found = part.link(name)
    if isinstance(found, SceneNode):
        found = of_kind_upward(found, lambda o: o.kind in STATES)
    if found is None:
        return build.state_of(part)
    if not isinstance(found, SceneObject) or named(found) not in build.dofs:
        raise part.error(f"{name} is no state of this part of the scene")
    return named(found)


def _check_nodes(build: PartBuilder, part: Component, state: str, nodes: np.ndarray) -> None:
    count = len(build.position[state])
    if not len(nodes) or nodes.min() < 0 or nodes.max() >= count:
        raise part.error(f"names nodes {nodes.tolist()[:5]} of '{state}', expected whole numbers below {count}")


def mesh_springs(build: PartBuilder, part: Component) -> str:
    """MeshSpringForceField: between the nodes of lines, along the edges of cells, between all nodes of a cube."""
    state = build.state_of(part)
    mesh = build.topology_of(part, state)
    pulls = part.flag("noCompression", False)
    part.neutral(rayleighStiffness=0.0, localRange="-1 -1")
    both, drag = part.real("stiffness", 0.0), part.real("damping", 0.0)
    names = {"edges": "lines", "triangles": "triangles", "quads": "quads", "tetrahedra": "tetrahedra", "hexahedra": "cubes"}
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for cells, name in names.items():
        k, c = part.real(_also(f"{name}Stiffness"), both), part.real(_also(f"{name}Damping"), drag)
        array = getattr(mesh, cells)
        if cells == "edges" and not len(array) and f"{name}Stiffness" in part.object.data:
            array = mesh.all_edges()
        if not (k or c) or not len(array):
            continue
        for a, b in combinations(range(array.shape[1]), 2):
            for pair in zip(*(array[:, i].tolist() for i in (a, b)), strict=True):
                found.setdefault((min(pair), max(pair)), (k, c))
    if not found:
        raise part.error("has no stiffness, or its topology no cells that have one")
    pairs, numbers = np.array(list(found)), np.array(list(found.values()))
    rest = build.rest[state]
    length = np.linalg.norm(rest[pairs[:, 1]] - rest[pairs[:, 0]], axis=1)
    k, c = (float(a[0]) if len(set(a.tolist())) == 1 else a for a in numbers.T)
    build.explicit_damping |= bool(np.any(c))
    ends, options = ((state, pairs[:, 0]), (state, pairs[:, 1])), {"pulls": 1.0} if pulls else {}
    build.forces[named(part.object)] = LinearisedSprings(ends, k, c, length, per_length=True, frozen=build.sofa, **options)
    if isinstance(k, float):
        known = ("stiffness", *(n for name in names.values() for n in _also(f"{name}Stiffness")))
        given = next((n for n in known if n in part.object.data), "")
        build.parameter(part, given, "forces", "stiffness")
    return "a spring's stiffness is this by its length" + ("; damping is in no matrix" if build.sofa and np.any(c) else "")


def _also(name: str) -> tuple[str, ...]:
    """The names of a number, of tetrahedra an older one too."""
    return (name, name.replace("tetrahedra", "tetras")) if name.startswith("tetrahedra") else (name,)


def rest_shape_springs(build: PartBuilder, part: Component) -> str:
    """RestShapeSpringsForceField: `f = -k (x - x0)`; of frames also `-kr theta`, `theta` the rotation vector from rest."""
    state, name = build.state_of(part), named(part.object)
    everything = np.arange(len(build.position[state]))
    usual = everything if part.flag("fixAll", not part.object.kind.startswith("FixedWeak")) else None
    nodes = build.indices(part, state, part.has("points", "indices") or "points", default=usual)
    nodes = nodes if len(nodes) else everything
    k = part.reals("stiffness", np.array([100.0]))
    angular = part.reals("angularStiffness", np.array([100.0]))
    outer = part.wholes("external_points")
    part.neutral(rayleighStiffness=0.0, pivot_points="")
    part.ignored("springColor", "recompute_indices")
    k, angular = (np.array([100.0]) if not len(a) else a for a in (k, angular))
    angular = np.pad(angular[: len(k)], (0, max(0, len(k) - len(angular))), constant_values=100.0)
    number, frames = np.arange(len(nodes)), build.has_frames(state)
    assembled = assembled_stiffness(build, part, state, nodes, k, angular if frames else np.zeros(1))
    k, angular = (float(a[0]) if len(a) == 1 else a[np.where(number < len(a), number, 0)] for a in (k, angular))
    anchor = anchors(build, part, state, nodes, outer)
    directions = active_directions(build, part, state)
    if assembled is None:  # else the matrix would not follow
        build.parameter(part, "stiffness", "forces", "stiffness")
    if directions is not None or assembled is not None:
        more = {"angular_stiffness": angular} if frames else {}
        directions = (np.ones(build.dofs[state].deriv_size),) * 2 if directions is None else directions
        more |= {"assembled": assembled, "frozen": build.sofa}
        build.forces[name] = DirectedAnchors((state, nodes), k, anchor, *directions, **more)
        if frames and assembled is None:
            build.parameter(part, "angularStiffness", "forces", "angular_stiffness")
        return "in some directions alone" if assembled is None else "in the matrix, k[i] is of node i, as in SOFA's"
    if build.dofs[state].is_vector_space:
        build.forces[name] = AnchoredSprings((state, nodes), k, anchor)
        if np.array_equal(nodes, everything) and not part.has("external_rest_shape"):
            build.rest_parameter(state, name, "anchor")
        return ""
    build.parameter(part, "angularStiffness", "forces", "angular_stiffness")
    kind = FrozenAnchoredFrames if build.sofa else AnchoredFrames
    build.forces[name] = kind((state, nodes), k, angular, anchor)
    return "its tangent leaves out how the rotation vector changes, as SOFA's does" if build.sofa else ""


def anchors(build: PartBuilder, part: Component, state: str, nodes: np.ndarray, outer: np.ndarray | None) -> np.ndarray:
    """Where the springs are fixed: at rest, or at nodes of another state that no time integrator moves, or that are held."""
    other = part.link("external_rest_shape")
    if other is None:
        if outer is not None and len(outer):
            raise part.error("external_points need an external_rest_shape")
        return build.rest[state][nodes]
    if not isinstance(other, SceneObject) or other.kind not in STATES:
        raise part.error("external_rest_shape is no mechanical state")
    places = build.data.positions(other)["position"]
    chosen = np.arange(len(places)) if outer is None or not len(outer) else outer
    if len(chosen) != len(nodes) or chosen.min() < 0 or chosen.max() >= len(places):
        raise part.error(f"external_points must name {len(nodes)} of {len(places)} points")
    if named(other) in build.dofs and not held_nodes(build, other)[chosen].all():
        raise part.error("external_rest_shape moves with this part of the scene: such a one is not translated")
    return places[chosen]


def bending_pairs(build: PartBuilder, part: Component, usual: tuple[float, float] = (1e5, 1.0)) -> str:
    """TriangularBendingSprings: springs between the corners that two triangles do not share."""
    state = build.state_of(part)
    k, c = part.real("stiffness", usual[0]), part.real("damping", usual[1])
    part.neutral(rayleighStiffness=0.0)
    part.ignored("edgeInfo")
    pairs = np.array([across[:2] for across in _hinges(build, part, state)])
    if not len(pairs):
        return _NO_HINGE
    return spring_between(build, part, state, pairs, k, c)


def spring_between(build: PartBuilder, part: Component, state: str, pairs: np.ndarray, k: float, c: float) -> str:
    """Springs between pairs of nodes, as long as they are at rest."""
    rest = build.rest[state]
    length = np.linalg.norm(rest[pairs[:, 1]] - rest[pairs[:, 0]], axis=1)
    return _springs(build, part, ((state, pairs[:, 0]), (state, pairs[:, 1])), k, c, length)


def _hinges(build: PartBuilder, part: Component, state: str) -> list[tuple[int, ...]]:
    """`(a, b, c, d)` of every two triangles that share the edge `c d`."""
    across: dict[tuple[int, int], list[int]] = {}
    for triangle in build.topology_of(part, state, "triangles").triangles.tolist():
        for i in range(3):
            c, d = triangle[(i + 1) % 3], triangle[(i + 2) % 3]
            across.setdefault((min(c, d), max(c, d)), []).append(triangle[i])
    return [(*apart, *edge) for edge, apart in across.items() if len(apart) == 2]


def bending_springs(build: PartBuilder, part: Component) -> str:
    """FastTriangularBendingSprings."""
    state, name = build.state_of(part), named(part.object)
    stiffness = part.real("bendingStiffness", 1.0)
    part.neutral(minDistValidity=1e-6, rayleighStiffness=0.0)
    stencils = _hinges(build, part, state)
    if not stencils:
        return _NO_HINGE
    build.forces[name] = FastBendingSprings((state, np.array(stencils)), build.rest[state], stiffness)
    build.parameter(part, "bendingStiffness", "forces", "bending_stiffness")
    return ""


SPRINGS = {
    "SpringForceField": springs,
    "StiffSpringForceField": springs,
    "MeshSpringForceField": mesh_springs,
    "RestShapeSpringsForceField": rest_shape_springs,
    "FixedWeakConstraint": rest_shape_springs,
    "FastTriangularBendingSprings": bending_springs,
    "TriangularBendingSprings": bending_pairs,
    "TriangleBendingSprings": partial(bending_pairs, usual=(100.0, 5.0)),
    "RegularGridSpringForceField": grid_springs,
}
