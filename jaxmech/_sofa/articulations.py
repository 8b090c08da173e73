"""Articulated systems: bodies whose frames are given by the angles and lengths of articulations."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .._scene.dof import Rigid3
from .numerics.articulated_bodies import ArticulatedBodies
from .part_builder import EQUIVALENT, PartBuilder, named
from .read.component import Component
from .read.coordinates import coordinates
from .read.graph import SceneNode, SceneObject

CONTAINER, CENTRE, ARTICULATION = "ArticulatedHierarchyContainer", "ArticulationCenter", "Articulation"
ARTICULATED = "ArticulatedSystemMapping"
HIERARCHY, ON_PARENT, ON_CHILD = 0, 1, 2  # articulationProcess
_UNIT = 1e-6  # how far from one the length of an axis may be that SOFA takes as it is


class Joint(NamedTuple):
    """One articulation, of one kind where its centre takes all translations before or after all rotations."""

    index: int
    axis: np.ndarray
    turns: float
    slides: float
    zero: float


Path = list[tuple[np.ndarray, Joint]]  # each with how far it goes on before


class Centre(NamedTuple):
    """What is between a body and the next."""

    part: Component
    parent: int
    child: int
    on_parent: np.ndarray
    on_child: np.ndarray
    process: int
    joints: list[Joint]


def articulated(
    build: PartBuilder, part: Component, sources: Sequence[str], child: SceneObject
) -> tuple[ArticulatedBodies, np.ndarray]:
    """ArticulatedSystemMapping. At the start, for what is mapped from them, its bodies are where their own data say."""
    angles, own, base = build.rest[sources[0]], build.data.positions(child)["position"], None
    if coordinates(child) != 7 or angles.shape[1] != 1 or len(sources) > 2:
        raise part.error("maps a state of Vec1, and a root of Rigid3, to Rigid3")
    root = part.whole("indexInput2", -1)
    if len(sources) == 2:
        count = len(build.rest[sources[1]])
        root = count - 1 if root < 0 else root
        if root >= count or not isinstance(build.dofs[sources[1]], Rigid3):
            raise part.error(f"indexInput2 is {root}, but input2 has {count} nodes, which must be frames")
        base = (sources[1], np.full(len(own), root))
    centres = _centres(build, part, angles[:, 0], len(own))
    if base is not None and {c.child for c in centres} != set(range(1, len(own))):
        raise part.error("with input2, all bodies but the first must be childIndex of a centre")
    paths, last, roots = _paths(part, centres, len(own))
    made = _bodies(sources[0], base, named(child), own[roots], paths, last, "none" if build.sofa else "symmetric")
    there = np.array(own)  # SOFA reads the centres when what is mapped from the bodies has been placed on them
    if base is not None:
        there[0] = build.rest[sources[1]][root]
    return made, there


def _bodies(joints: str, base, child: str, start, paths: list[Path], last: np.ndarray, geometric: str) -> ArticulatedBodies:
    """Paths as arrays, the shorter ones filled up with what moves nothing."""
    longest = max(1, *(len(p) for p in paths))
    nothing = (np.zeros(3), Joint(0, np.array([1.0, 0, 0]), 0.0, 0.0, 0.0))
    full = [[*path, *[nothing] * (longest - len(path))] for path in paths]
    nodes = np.array([[j.index for _, j in path] for path in full])
    return ArticulatedBodies(
        ((joints, nodes),) if base is None else ((joints, nodes), base),
        child,
        np.array([len(path) for path in paths], float),
        start,
        np.array([[place for place, _ in path] for path in full]),
        np.array([[j.axis for _, j in path] for path in full]),
        np.array([[j.turns for _, j in path] for path in full]),
        np.array([[j.slides for _, j in path] for path in full]),
        np.array([[j.zero for _, j in path] for path in full]),
        last,
        geometric_stiffness=geometric,
    )


def _paths(part: Component, centres: list[Centre], bodies: int) -> tuple[list[Path], np.ndarray, list[int]]:
    """The joints from its root to each body, how far the body is from the last of them, and the root."""
    above = {c.child: c for c in centres}
    paths, last, roots = [], np.zeros((bodies, 3)), []
    for body in range(bodies):
        way, at = [], body
        while at in above:
            way.append(above[at])
            at = above[at].parent
            if len(way) > bodies:
                raise part.error(f"body {body} hangs on itself")
        roots.append(at)
        path: Path = []
        gap = np.zeros(3)
        for centre in reversed(way):
            gap = gap + centre.on_parent
            for joint in centre.joints:
                path.append((gap, joint))
                gap = np.zeros(3)
            gap = gap - centre.on_child
        paths.append(path)
        last[body] = gap
    return paths, last, roots


def _centres(build: PartBuilder, part: Component, angles: np.ndarray, bodies: int) -> list[Centre]:
    """The centres of the container, in the order in which SOFA goes through them."""
    given = part.link("container")
    state = part.link("input1") or part.link("object1") or part.link("input")
    node = state.node if isinstance(state, SceneObject) else state or part.object.node.parent
    found = [given] if given else [o for o in _objects_first(node) if o.kind == CONTAINER]
    if not found or not isinstance(found[0], SceneObject):
        raise part.error(f"there is no {CONTAINER} in the node of its input or below")
    container = Component(build.data, found[0])
    container.neutral(filename="")
    container.done()
    inside = list(_objects_first(container.object.node))
    centres = [_centre(build, Component(build.data, o), angles) for o in inside if o.kind == CENTRE]
    taken = {joint for o in inside if o.kind == CENTRE for joint in _articulations(o)}
    for lost in (o for o in inside if o.kind == ARTICULATION and o not in taken):
        raise lost.error("stands in no node below one with an ArticulationCenter, where SOFA looks for it")
    placed, indices = set[int](), set[int]()
    children = {c.child for c in centres}
    for centre in centres:
        error = centre.part.error
        if not (0 <= centre.parent < bodies and 0 <= centre.child < bodies) or centre.child in placed:
            raise error(f"names bodies {centre.parent} and {centre.child} of {bodies}, each once a childIndex")
        if build.sofa and centre.parent in children - placed:
            raise error("stands before the centre of its parent, of which SOFA takes the place of before")
        placed.add(centre.child)
        own = {joint.index for joint in centre.joints}
        if build.sofa and own & indices:
            raise error(f"articulationIndex {min(own & indices)} stands at two centres, of which SOFA derives one alone")
        indices |= own
    return centres


def _centre(build: PartBuilder, part: Component, angles: np.ndarray) -> Centre:
    parent, child = part.whole("parentIndex", 0), part.whole("childIndex", 0)
    places = [np.ravel(part.reals(name, np.zeros(3), count=3)) for name in ("posOnParent", "posOnChild")]
    process = part.whole("articulationProcess", HIERARCHY)
    part.ignored("globalPosition")
    part.done()
    if process not in (HIERARCHY, ON_PARENT, ON_CHILD):
        raise part.error(f"articulationProcess is {process}, expected 0, 1 or 2")
    joints = [j for o in _articulations(part.object) for j in _joints(Component(build.data, o), process, angles)]
    if process != HIERARCHY and sum(j.turns for j in joints) > 1:
        raise part.error(f"two rotations of articulationProcess={process} depend on how one got there: only 0 is translated")
    if process == HIERARCHY and build.sofa and len({j.index for j in joints}) < len(joints):
        raise part.error("two of its articulations have one articulationIndex, of which SOFA derives one alone")
    if process != HIERARCHY:  # on the parent translations come first, on the child they follow
        joints.sort(key=lambda j: j.turns if process == ON_PARENT else -j.turns)
    return Centre(part, parent, child, places[0], places[1], process, joints)


def _joints(part: Component, process: int, angles: np.ndarray) -> Iterator[Joint]:
    """An articulation; of one that rotates and translates, both, where these are taken in another order."""
    turns, slides = part.flag("rotation", False), part.flag("translation", False)
    index = part.whole("articulationIndex", 0)
    axis = np.ravel(part.reals(("rotationAxis", "axis"), np.array([1.0, 0, 0]), count=3))
    part.done()
    if not 0 <= index < len(angles):
        raise part.error(f"articulationIndex is {index}, but its state has {len(angles)} numbers")
    length = float(np.linalg.norm(axis))
    if length == 0 or not (turns or slides):  # SOFA's axis of no length moves nothing
        return
    axis = axis / length
    if process == HIERARCHY:
        yield Joint(index, axis, float(turns), float(slides), 0.0)
        return
    if turns and abs(length - 1) > _UNIT:
        raise part.error(f"its axis has the length {length:.6g}, with which SOFA multiplies the derivative: make it 1")
    if turns:  # by increments from the first time on
        yield Joint(index, axis, 1.0, 0.0, float(angles[index]))
    if slides:
        yield Joint(index, axis, 0.0, length, float(angles[index]) if process == ON_PARENT else 0.0)


def remark(build: PartBuilder, part: Component, sources: Sequence[str], bodies: int) -> str:
    """Where rotations that SOFA adds up in the axes of the world are those of a joint here."""
    centres = _centres(build, part, build.position[sources[0]][:, 0], bodies)
    above = {c.child: c for c in centres}
    for centre in (c for c in centres if c.process != HIERARCHY):
        turned, at = [j.axis for j in centre.joints if j.turns and centre.process == ON_CHILD], centre
        while at.parent in above:
            at = above[at.parent]
            turned += [j.axis for j in at.joints if j.turns]
        moved = len(sources) > 1 or any(
            j.slides or np.linalg.norm(np.cross(j.axis, axis)) > _UNIT for j in centre.joints for axis in turned
        )
        if moved:
            who = f"articulationProcess={centre.process} of {centre.part.object.path}"
            return f"{EQUIVALENT}{who} goes with a parent that turns"
    return ""


def stands(build: PartBuilder, state: str, bodies: np.ndarray) -> bool:
    """Whether these nodes are bodies that no articulation and no root moves."""
    of = [m for m in build.mappings.values() if isinstance(m, ArticulatedBodies) and m.child == state]
    return bool(of) and len(of[0].parents) == 1 and not np.asarray(of[0].count)[bodies].any()


def _articulations(centre: SceneObject) -> list[SceneObject]:
    """Those in the nodes below that of a centre."""
    return [o for below in centre.node.children for o in _objects_first(below) if o.kind == ARTICULATION]


def _objects_first(node: SceneNode) -> Iterator[SceneObject]:
    """All of a node and below, as SOFA collects them: the objects of a node, then its children."""
    yield from node.objects if node.active else ()
    for below in node.children if node.active else ():
        yield from _objects_first(below)
