"""Mappings: the states that others give."""

import copy
from collections.abc import Callable

import numpy as np
from scipy.spatial.transform import Rotation

from .._constraint.fixed import Fixed
from .._mapping.barycentric import BarycentricMapping
from .._mapping.base import AbstractMapping
from .._mapping.distance import DistanceMapping
from .._mapping.identity import IdentityMapping
from .._mapping.rigid import RigidMapping
from .._mapping.subset import SubsetMapping
from .._mesh.mesh import Mesh
from .articulations import ARTICULATED, articulated, remark
from .masses import SINGULAR
from .multi_mappings import MULTI, inputs
from .nonlinear_mappings import NONLINEAR, geometric_stiffness, placed
from .numerics.carried_frames import CarriedFrames
from .part_builder import PartBuilder, named
from .read.component import Component
from .read.coordinates import coordinates
from .read.graph import SceneObject
from .read.links import STATES, of_kind_upward
from .read.points_of_cells import points_of_cells
from .read.topological_mappings import linked_topology
from .read.topology import with_faces

Maker = Callable[[PartBuilder, Component, str, SceneObject], tuple[AbstractMapping, np.ndarray]]


def mapping(build: PartBuilder, part: Component) -> str:
    """A mapping and the state that it gives, by where its input is at the start."""
    sources = inputs(part)
    child = part.link("output") or part.link("object2") or of_kind_upward(part.object.node, lambda o: o.kind in STATES)
    if not isinstance(child, SceneObject):
        child = of_kind_upward(child, lambda o: o.kind in STATES)
    if not sources or not isinstance(child, SceneObject) or child in sources:
        raise part.error("needs an input and an output, two mechanical states")
    for source in sources:
        if named(source) not in build.dofs:
            raise part.error(f"its input {source.path} is no state of this part of the scene")
    kind = part.object.kind
    if len(sources) > 1 and kind not in _SEVERAL:
        raise part.error(f"has {len(sources)} inputs, expected one")
    part.neutral(mapForces=True, mapConstraints=True, mapMasses=True, isMechanical=True)
    part.ignored("mapMatrices")
    names = [named(source) for source in sources]
    start = copy.copy(build)
    start.rest = build.position
    if kind in _SEVERAL:
        made, there = _SEVERAL[kind](start, part, names, child)
    else:
        made, there = MAPPINGS[kind](start, part, names[0], child)
    if there.shape[1] != coordinates(child):
        said = child.data.get("template", "Vec3").strip()
        raise part.error(f"gives {there.shape[1]} numbers for each node: the template of {child.path} is {said}")
    given = part.flag("applyRestPosition", False) and kind != ARTICULATED  # whose bodies SOFA moves after that
    rest = _mapped_rest(build, made, child, there) if given else _own_rest(build, child, there)
    build.add_state(child, {"position": there, "rest_position": rest}, mapped=True)
    build.mappings[named(part.object)] = made
    return remark(build, part, names, len(there)) if kind == ARTICULATED else _one_frame_for_all(part, there)


def _one_frame_for_all(part: Component, there: np.ndarray) -> str:
    """What to say of a RigidMapping whose list of frames SOFA does not read, or whose index is several."""
    if part.object.kind not in ("RigidMapping", "RigidRigidMapping"):
        return ""
    numbers, index = part.wholes("rigidIndexPerPoint"), part.wholes("index")
    remarks = []
    if numbers is not None and len(numbers) not in (0, len(there)):
        count = f"rigidIndexPerPoint has {len(numbers)} numbers, for {len(there)} points"
        remarks.append(f"{count}: SOFA takes its index for all of them")
    if index is not None and len(index) > 1:
        remarks.append(f"index has {len(index)} numbers: SOFA reads the first")
    return "; ".join(remarks)


def _own_rest(build: PartBuilder, child: SceneObject, there: np.ndarray) -> np.ndarray:
    """Where a mapped state is at rest unless `applyRestPosition`: as its own data or the topology of its node say, which for
    points in axes of frames is in these axes; nil for what they do not say."""
    own = build.data.positions(child)["rest_position"][: len(there)]
    rest = np.zeros_like(there)
    rest[:, 6:] = 1.0
    rest[: len(own)] = own
    return rest


def _mapped_rest(build: PartBuilder, made: AbstractMapping, child: SceneObject, there: np.ndarray) -> np.ndarray:
    """The mapped rest positions of its input."""
    states = {parent.state for parent in made.parents}
    if all(np.array_equal(build.rest[s], build.position[s]) for s in states):
        return there
    return placed(build, made, child)


def _distance(build: PartBuilder, part: Component, source: str, child: SceneObject) -> tuple[AbstractMapping, np.ndarray]:
    edges, rest = build.topology_of(part, source, "edges").edges, build.rest[source]
    lengths = np.linalg.norm(rest[edges[:, 1]] - rest[edges[:, 0]], axis=1)
    given = part.reals("restLengths")
    if given is not None and len(given) not in (0, len(edges)):
        raise part.error(f"restLengths has {len(given)} entries, expected {len(edges)}")
    absolute = part.flag("computeDistance", False)  # lengths from zero, unless others are given
    at = given if given is not None and len(given) else np.zeros(len(edges)) if absolute else lengths
    options = geometric_stiffness(build, part, "stabilized")
    part.ignored("indices")
    made = DistanceMapping(((source, edges[:, 0]), (source, edges[:, 1])), named(child), at, **options)
    return made, (lengths - at)[:, None]


def _rigid(build: PartBuilder, part: Component, source: str, child: SceneObject) -> tuple[AbstractMapping, np.ndarray]:
    points, frames = build.data.positions(child)["position"], build.rest[source]
    start = part.reals("initialPoints", None, width=points.shape[1])
    is_local = start is not None and len(start) > 0  # in axes of the frames, whatever globalToLocalCoords says
    points = _of_unit_turns(part, start) if is_local else points
    numbers = part.wholes("rigidIndexPerPoint")
    index = part.first_whole("index", 0)
    index = len(frames) - 1 - index if part.flag("indexFromEnd", False) else index
    if numbers is None or len(numbers) != len(points):  # SOFA then takes the one frame for all
        numbers = np.full(len(points), index)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= len(frames)):
        raise part.error(f"rigidIndexPerPoint and index must name one of {len(frames)} frames")
    options = geometric_stiffness(build, part, "none")
    part.neutral(useX0=False, filename="")
    if not part.flag("globalToLocalCoords", False) or is_local:
        made = RigidMapping((source, numbers), named(child), points, **options)
        return made, _carried(frames[numbers], points)
    made = RigidMapping.from_global(source, named(child), numbers, frames, points)
    return RigidMapping((source, numbers), named(child), made.local, **options), points


def _of_unit_turns(part: Component, points: np.ndarray) -> np.ndarray:
    """Frames whose quaternions are of unit length, as SOFA makes them."""
    if points.shape[1] != 7:
        return points
    length = np.linalg.norm(points[:, 3:], axis=1, keepdims=True)
    if not (length > 0).all():
        raise part.error("initialPoints has a quaternion that is nil")
    return np.concatenate([points[:, :3], points[:, 3:] / length], axis=1)


def _carried(frames: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Where points, or frames, that are given in the axes of frames are in the world."""
    if frames.shape[1] == 3:  # of the plane
        c, s = np.cos(frames[:, 2]), np.sin(frames[:, 2])
        x, y = points[:, 0], points[:, 1]
        placed = frames[:, :2] + np.stack([c * x - s * y, s * x + c * y], axis=1)
        return np.concatenate([placed, frames[:, 2:] + points[:, 2:]], axis=1) if points.shape[1] == 3 else placed
    turn = Rotation.from_quat(frames[:, 3:])
    placed = frames[:, :3] + turn.apply(points[:, :3])
    if points.shape[1] != 7:
        return placed
    return np.concatenate([placed, (turn * Rotation.from_quat(points[:, 3:])).as_quat()], axis=1)


def _identity(build: PartBuilder, part: Component, source: str, child: SceneObject) -> tuple[AbstractMapping, np.ndarray]:
    rest = build.rest[source]
    if (coordinates(child), rest.shape[1]) == (3, 7):
        nodes = np.arange(len(rest))
        return RigidMapping((source, nodes), named(child), np.zeros((len(rest), 3))), rest[:, :3]
    if coordinates(child) != rest.shape[1]:
        raise part.error("maps between states of different kinds, which is not translated")
    return IdentityMapping.of(source, named(child), nodes=len(rest)), rest


def _subset(build: PartBuilder, part: Component, source: str, child: SceneObject) -> tuple[AbstractMapping, np.ndarray]:
    nodes, rest = part.wholes("indices"), build.rest[source]
    first, last, radius = part.whole("first", -1), part.whole("last", -1), part.real("radius", 1e-5)
    part.neutral(ignoreNotFound=False, resizeToModel=False)
    part.ignored("handleTopologyChange")
    if nodes is None and first >= 0:
        nodes = np.arange(first, (len(rest) - 1 if last < 0 else last) + 1)
    if nodes is None:
        points = build.data.positions(child)["position"]
        gaps = np.linalg.norm(points[:, None, :3] - rest[None, :, :3], axis=2)
        nodes = np.argmin(gaps, axis=1)
        if (gaps.min(axis=1) > radius).any():
            raise part.error(f"a point of its output is further than {radius} from all of its input")
    if not len(nodes):
        raise part.error(f"indices names no node, expected some of the {len(rest)} of its input")
    if (outside := nodes[(nodes < 0) | (nodes >= len(rest))]).size:
        raise part.error(f"indices names node {outside[0]}, but there are {len(rest)}")
    return SubsetMapping((source, nodes), named(child)), rest[nodes]


def _barycentric(build: PartBuilder, part: Component, source: str, child: SceneObject) -> tuple[AbstractMapping, np.ndarray]:
    points = build.data.positions(child)["position"]
    owner = part.link("input_topology") or of_kind_upward(part.object.node.parent, build.data.is_topology)
    if not isinstance(owner, SceneObject):
        raise part.error("there is no topology above that carries points")
    plural, cells = build.data.topology(owner).cells()
    part.neutral(useRestPosition=False)
    part.ignored("output_topology")
    if points.shape[1] == 7:
        if build.sofa:
            raise part.error(
                "to frames has in SOFA a Jacobian that is not the derivative of their turns: solver='exact' has it"
            )
        if plural != "tetrahedra" or not owner.kind.startswith("TetrahedronSet"):
            raise part.error("to frames is translated from a TetrahedronSetTopologyContainer alone: SOFA turns no others")
        return CarriedFrames.of(source, named(child), build.rest[source], cells, points), points
    mesh = Mesh(build.rest[source], cells, SINGULAR[plural])
    return BarycentricMapping.from_mesh(source, named(child), mesh, points), points


def _points_of_cells(
    build: PartBuilder, part: Component, source: str, child: SceneObject
) -> tuple[AbstractMapping, np.ndarray]:
    """Mesh2PointMechanicalMapping: the points that a Mesh2PointTopologicalMapping beside it makes."""
    maker = of_kind_upward(part.object.node, lambda o: o.kind == "Mesh2PointTopologicalMapping")
    if maker is None:
        raise part.error("there is no Mesh2PointTopologicalMapping in its node or above")
    how = Component(build.data, maker)
    mesh = linked_topology(build.data, how, "input")
    if mesh is None:
        raise how.error("has no input, the topology to map")
    nodes, weights, shift = points_of_cells(how, with_faces(build.data.topology(mesh)))
    if shift.any():
        raise how.error("pointBaryCoords that are not nil are not translated, but for a topology alone")
    rest = build.rest[source]
    if nodes.max() >= len(rest):
        raise part.error(f"its topology names node {nodes.max()}, but its input has {len(rest)}")
    return BarycentricMapping((source, nodes), named(child), weights), np.einsum("nk,nkd->nd", weights, rest[nodes])


def projection_method(build: PartBuilder, part: Component) -> str:
    """MatrixProjectionMethod: how SOFA multiplies `J^T K J`, which changes nothing, but where it keeps a `J` that moves."""
    kept = part.flag("areJacobiansConstant", False)
    states = {named(state) for state in part.links("mechanicalStates") if isinstance(state, SceneObject)}
    part.ignored("parallelProduct", "linearSystem")
    for mapping in reversed(list(build.mappings.values())):
        if kept and mapping.child in states:
            if build.sofa and not isinstance(mapping, IdentityMapping | SubsetMapping | BarycentricMapping):
                raise part.error(
                    f"areJacobiansConstant with a {type(mapping).__name__} is not translated: its Jacobian moves"
                )
            states |= {parent.state for parent in mapping.parents}
    return "solutions do not depend on how matrices are projected"


def stands_still(build: PartBuilder, part: Component) -> str:
    """VoidMapping: the state of its node is mapped, and nothing maps it."""
    state = build.state_of(part)
    part.ignored("input", "output", "mapForces", "mapConstraints", "mapMasses", "mapMatrices")
    build.constraints[named(part.object)] = Fixed((state, np.arange(len(build.position[state]))))
    build.velocity.pop(state, None)
    build.held.add(state)
    return "its state stands where it is"


MAPPINGS: dict[str, Maker] = {
    "DistanceMapping": _distance,
    "RigidMapping": _rigid,
    "RigidRigidMapping": _rigid,
    "IdentityMapping": _identity,
    "SubsetMapping": _subset,
    "BarycentricMapping": _barycentric,
    "Mesh2PointMechanicalMapping": _points_of_cells,
    **NONLINEAR,
}
_SEVERAL = {**MULTI, ARTICULATED: articulated}
MAPPING_KINDS = (*MAPPINGS, *_SEVERAL)
PROJECTIONS = {
    "MatrixProjectionMethod": projection_method,
    "ConstantSparsityProjectionMethod": projection_method,
    "VoidMapping": stands_still,
}
