"""Constraints with multipliers: points and frames that are one, beads on lines, cables, cavities."""

from collections.abc import Callable

import numpy as np
from scipy.spatial.transform import Rotation

from .._constraint.attachment import Attachment
from .._constraint.cable import Cable
from .._constraint.cavity_volume import CavityVolume
from .._constraint.fixed import Fixed
from .._constraint.joint.fixed_joint import FixedJoint
from .._constraint.on_line import OnLine
from .._forcefield.cable_tension import CableTension
from .._forcefield.pressure import Pressure
from .part_builder import PartBuilder, named
from .read.component import Component
from .read.coordinates import places
from .read.graph import SceneNode, SceneObject
from .read.links import STATES, of_kind_upward
from .read.topology import split_quads
from .regularization import gives

_EQUATION = "an equation that is solved with the step, linearised at its start; SOFA's is iterated upon, to its tolerance"


def _ends(build: PartBuilder, part: Component) -> list[SceneObject]:
    """The two states that a constraint links: its own where it links to none."""
    found = []
    for name in ("object1", "object2"):
        state = part.link(name) or part.object.node
        state = of_kind_upward(state, lambda o: o.kind in STATES) if isinstance(state, SceneNode) else state
        if not isinstance(state, SceneObject) or state.kind not in STATES:
            raise part.error(f"{name} is no mechanical state")
        found.append(state)
    if not any(named(s) in build.dofs for s in found):
        raise part.error("links no state that a time integrator moves")
    return found


def _nodes(build: PartBuilder, part: Component, state: SceneObject, name: str) -> np.ndarray:
    nodes, count = part.wholes(name, np.array([0])), len(_places(build, state))
    if not len(nodes) or nodes.min() < 0 or nodes.max() >= count:
        raise part.error(f"{name} names nodes {nodes.tolist()[:5]} of {state.path}, which has {count}")
    return nodes


def _places(build: PartBuilder, state: SceneObject) -> np.ndarray:
    name = named(state)
    return build.position[name] if name in build.dofs else build.data.positions(state)["position"]


def bilateral(build: PartBuilder, part: Component) -> str:
    """BilateralLagrangianConstraint: points that are one, or apart as `rest_vector` says; frames that are one."""
    one, other = _ends(build, part)
    a, b = _nodes(build, part, one, "first_point"), _nodes(build, part, other, "second_point")
    if len(a) != len(b):
        raise part.error(f"first_point has {len(a)} nodes and second_point {len(b)}")
    if one is other and (a == b).any():
        raise part.error("links a node with itself")
    part.neutral(activate=True)
    part.ignored("numericalTolerance", "merge", "derivative", "activateAtIteration", "d_activate", "constraintIndex")
    x, y = _places(build, one)[a], _places(build, other)[b]
    moving = [(named(s), nodes) for s, nodes in ((one, a), (other, b)) if named(s) in build.dofs]
    name = named(part.object)
    if x.shape[1] != y.shape[1]:
        raise part.error("links states of different kinds")
    if x.shape[1] == 7:
        part.neutral(rest_vector="")
        keeps = part.flag("keepOrientationDifference", False)
        build.constraints[name] = _joint(moving, x, y, keeps, named(other) in build.dofs)
        return _EQUATION
    apart = part.reals("rest_vector", None, width=x.shape[1])
    part.neutral(keepOrientationDifference=False)
    apart = np.zeros_like(x) if apart is None or not len(apart) else np.broadcast_to(apart, x.shape)
    if len(moving) == 2:
        build.constraints[name] = Attachment(tuple(moving), offset=apart)
    else:
        place = y - apart if named(one) in build.dofs else x + apart
        build.constraints[name] = Attachment(moving[0], offset=place)
    return _EQUATION


def _joint(moving: list[tuple[str, np.ndarray]], x: np.ndarray, y: np.ndarray, keeps: bool, second: bool) -> FixedJoint:
    """Frames `x` and `y` that are one; they keep how they are turned from one another, or not. `second`: `y` moves."""
    if len(moving) == 2:
        turn = Rotation.from_quat(x[:, 3:]).inv() * Rotation.from_quat(y[:, 3:])
        within = np.tile([0.0, 0, 0, 0, 0, 0, 1], (len(x), 1))
        within[:, 3:] = turn.as_quat() if keeps else within[:, 3:]
        return FixedJoint(tuple(moving), frame_a=within)
    held, own = (x, y) if second else (y, x)
    return FixedJoint(moving[0], frame_a=np.concatenate([held[:, :3], (own if keeps else held)[:, 3:]], axis=1))


def fixed(build: PartBuilder, part: Component) -> str:
    """FixedLagrangianConstraint."""
    state = build.state_of(part)
    everything = np.arange(len(build.position[state]))
    nodes = everything if part.flag("fixAll", False) else build.indices(part, state, default=np.array([0]))
    name, rest = named(part.object), build.rest[state][nodes]
    mapped = any(m.child == state for m in build.mappings.values())
    still = np.array_equal(rest, build.position[state][nodes])
    if still and not mapped and not gives(build.data, part.object.node.root):
        build.constraints[name] = Fixed((state, nodes))
        return "by projection, without multipliers"
    if build.has_frames(state):
        build.constraints[name] = FixedJoint((state, nodes), frame_a=rest)
    else:
        build.constraints[name] = Attachment((state, nodes), offset=rest)
    return f"where the nodes are at rest; {_EQUATION}"


def uniform(build: PartBuilder, part: Component) -> str:
    """UniformLagrangianConstraint: all coordinates of its state are nil, or those at rest."""
    state = build.state_of(part)
    if not build.dofs[state].is_vector_space:
        raise part.error("of frames is not translated")
    at = build.rest[state] if part.flag("constrainToRestPos", False) else np.zeros_like(build.rest[state])
    part.ignored("iterative", "constraintIndex")
    build.constraints[named(part.object)] = Attachment((state, np.arange(len(at))), offset=at)
    return _EQUATION


def sliding(build: PartBuilder, part: Component) -> str:
    """SlidingLagrangianConstraint: a point on the line through two others."""
    one, other = _ends(build, part)
    for state in (one, other):
        if named(state) not in build.dofs:
            build.hold(named(state), places(state, _places(build, state)))
    bead = _nodes(build, part, one, "sliding_point")
    first, second = (_nodes(build, part, other, name) for name in ("axis_1", "axis_2"))
    part.ignored("force")
    build.constraints[named(part.object)] = OnLine(((named(one), bead), (named(other), first), (named(other), second)))
    return _EQUATION


def cable(build: PartBuilder, part: Component) -> str:
    """CableConstraint of SoftRobots: a length that is wound in, or a tension."""
    state = build.state_of(part)
    nodes, name = build.indices(part, state), named(part.object)
    pull = part.reals("pullPoint", np.zeros(3), count=3)
    pulled = part.flag("hasPullPoint", True)
    value, how = _value(part, "force", ("force", "displacement"))
    part.neutral(
        maxForce="", minForce="", maxPositiveDisp="", maxNegativeDisp="", maxDispVariation="", eqDisp="", eqForce=""
    )
    part.ignored("drawPullPoint", "drawPoints", "cableLength", "cableInitialLength", "force", "displacement")
    points = build.position[state][nodes]
    if build.has_frames(state) or len(nodes) + pulled < 2:
        raise part.error("needs two points at least, pullPoint counted")
    on = (state, nodes[None])
    if pulled:
        build.hold(f"{name}/pullPoint", pull[None])
        on, points = ((f"{name}/pullPoint", np.array([[0]])), on), np.concatenate([pull[None], points])
    if how == "force":
        build.forces[name] = CableTension(on, value)
        build.parameter(part, "value", "forces", "tension")
        return "its leaf is the tension"
    length = float(np.sum(np.linalg.norm(np.diff(points, axis=0), axis=1))) - value
    build.constraints[name] = Cable(on, max(length, 0.0))
    return f"its length is given, and bears what pushes; {_EQUATION}"


def _value(part: Component, usual: str, names: tuple[str, ...]) -> tuple[float, str]:
    """The value of an actuator, and what it is one of."""
    how = part.choice("valueType", usual, names)
    numbers, index = part.reals("value", np.array([0.0])), part.whole("valueIndex", 0)
    if not 0 <= index < len(numbers):
        raise part.error(f"valueIndex is {index}, but value has {len(numbers)} numbers")
    return float(numbers[index]), how


def cavity(build: PartBuilder, part: Component) -> str:
    """SurfacePressureConstraint of SoftRobots: a pressure, or a volume that grows, within a closed surface."""
    state, name = build.state_of(part), named(part.object)
    value, how = _value(part, "pressure", ("pressure", "volumeGrowth"))
    flipped = part.flag("flipNormal", False)
    part.neutral(maxPressure="", minPressure="", maxVolumeGrowth="", minVolumeGrowth="", eqPressure="", eqVolumeGrowth="")
    part.neutral(triangles="", quads="", maxVolumeGrowthVariation="")
    part.ignored("drawPressure", "drawScale", "pressure", "volumeGrowth", "cavityVolume", "initialCavityVolume")
    mesh = build.topology_of(part, state, "triangles", "quads")
    cells = np.concatenate([mesh.triangles, split_quads(mesh).triangles])
    cells = cells[:, ::-1] if flipped else cells
    if how == "pressure":
        build.forces[name] = Pressure((state, cells), -value)
        build.skew = True
        return "its leaf is minus the pressure; older versions of the plugin take pressure by time step"
    a, b, c = (build.position[state][cells[:, i]] for i in range(3))
    volume = float(np.einsum("ij,ij->", a, np.cross(b, c))) / 6
    build.constraints[name] = CavityVolume((state, cells), volume + value)
    return _EQUATION


MULTIPLIERS: dict[str, Callable[[PartBuilder, Component], str]] = {
    "BilateralLagrangianConstraint": bilateral,
    "BilateralInteractionConstraint": bilateral,
    "FixedLagrangianConstraint": fixed,
    "UniformLagrangianConstraint": uniform,
    "SlidingLagrangianConstraint": sliding,
    "SlidingConstraint": sliding,
    "CableConstraint": cable,
    "SurfacePressureConstraint": cavity,
}
# These act on what one time integrator moves, and join no two.
OF_ONE_STATE = ("FixedLagrangianConstraint", "UniformLagrangianConstraint", "CableConstraint", "SurfacePressureConstraint")
