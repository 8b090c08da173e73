"""Mappings to distances, areas, volumes and squares; of frames to points."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from .._mapping.area import AreaMapping
from .._mapping.base import AbstractMapping
from .._mapping.beam import BeamMapping
from .._mapping.center_of_mass import CenterOfMassMapping
from .._mapping.deformable_on_rigid import DeformableOnRigidFrameMapping
from .._mapping.distance_to_plane import DistanceToPlaneMapping
from .._mapping.skinning import SkinningMapping
from .._mapping.square import SquareMapping
from .._mapping.squared_distance import SquaredDistanceMapping
from .._mapping.tubular import TubularMapping
from .._mapping.volume import VolumeMapping
from .._model.dynamics import kinematics
from .._model.system import System
from .numerics.centre_of_frames import CentreOfFrames
from .numerics.from_target import SofaDistanceFromTarget
from .part_builder import PartBuilder, dof_of, named
from .read.component import Component
from .read.graph import SceneObject

Made = tuple[AbstractMapping, np.ndarray]  # where its nodes are at the start, besides


def placed(build: PartBuilder, made: AbstractMapping, child: SceneObject) -> np.ndarray:
    """Where a mapping puts its nodes when its inputs are at rest."""
    states = {parent.state for parent in made.parents}
    x = {s: jnp.asarray(build.rest[s], float) for s in states}
    system = System({s: build.dofs[s] for s in states} | {made.child: dof_of(child)}, mappings={"m": made})
    return np.asarray(kinematics(system, x)[made.child])


def geometric_stiffness(build: PartBuilder, part: Component, usual: str) -> dict[str, Any]:
    """What of the geometric stiffness is in the matrix: what the scene says, or all of it where exact."""
    names = {"none": "none", "exact": "exact", "stabilized": "stabilized", "0": "none", "1": "exact", "2": "stabilized"}
    word = part.text("geometricStiffness", usual).lower()
    if word not in names:
        raise part.error(f"geometricStiffness is {word!r}, expected one of {sorted(names)}")
    return {"geometric_stiffness": names[word] if build.sofa else "symmetric"}


def squared_distance(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    edges, rest = build.topology_of(part, source, "edges").edges, build.rest[source]
    gap = rest[edges[:, 1]] - rest[edges[:, 0]]
    options = geometric_stiffness(build, part, "stabilized")
    made = SquaredDistanceMapping(((source, edges[:, 0]), (source, edges[:, 1])), named(child), **options)
    return made, np.sum(gap**2, axis=1)[:, None]


def square(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    rest = build.rest[source]
    options = geometric_stiffness(build, part, "stabilized")
    return SquareMapping((source, np.arange(len(rest))), named(child), **options), rest**2


def from_target(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    nodes = build.indices(part, source)
    width = build.dofs[source].coord_size
    target = part.reals("targetPositions", None, width=width)
    if target is None or len(target) != len(nodes):
        raise part.error(f"targetPositions has {0 if target is None else len(target)} entries, expected {len(nodes)}")
    distance = np.linalg.norm(build.rest[source][nodes] - target, axis=1)
    given = part.reals("restLengths", np.zeros(0))[: len(nodes)]
    lengths = np.pad(given, (0, len(nodes) - len(given)))  # those that are not given are nil
    options = geometric_stiffness(build, part, "stabilized")
    made = SofaDistanceFromTarget((source, nodes), named(child), target, lengths, **options)
    return made, (distance - lengths)[:, None]


def to_plane(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    width = build.dofs[source].coord_size
    normal = part.reals("planeNormal", None, count=width)
    point = part.reals("planePoint", np.zeros(width), count=width)
    if normal is None or not np.any(normal):
        raise part.error("has no planeNormal")
    normal, rest = normal / np.linalg.norm(normal), build.rest[source]
    offset = float(normal @ point)
    made = DistanceToPlaneMapping((source, np.arange(len(rest))), named(child), normal, offset)
    return made, (rest @ normal - offset)[:, None]


def area(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    cells, rest = build.topology_of(part, source, "triangles").triangles, build.rest[source]
    a, b, c = (rest[cells[:, i]] for i in range(3))
    sizes = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    options = geometric_stiffness(build, part, "stabilized")
    return AreaMapping((source, cells), named(child), 0.0, **options), sizes[:, None]


def volume(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    cells, rest = build.topology_of(part, source, "tetrahedra").tetrahedra, build.rest[source]
    sizes = np.linalg.det(rest[cells[:, 1:]] - rest[cells[:, :1]]) / 6
    options = geometric_stiffness(build, part, "stabilized")
    return VolumeMapping((source, cells), named(child), 0.0, **options), sizes[:, None]


def skinning(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    """SkinningMapping; without weights, by the inverse square of the distance to the nearest `nbRef` frames, at rest."""
    points, frames = build.data.positions(child)["position"], build.rest[source]
    indices, weights, each = part.wholes("indices"), part.reals("weight"), part.wholes("nbRef")
    start = part.reals("initPos", None, width=3)
    points = points if start is None or not len(start) else start
    part.neutral(computeWeightsFromPosition=False)
    if each is not None and len(set(each.tolist())) != 1:
        raise part.error("nbRef must be the same for all points")
    if not any(given is not None and len(given) for given in (indices, weights)):
        nearest = 4 if each is None else int(each[0])
        if nearest < 1:
            raise part.error(f"nbRef is {nearest}, expected at least 1")
        return SkinningMapping.from_rest(source, named(child), frames, points, nearest=nearest), points
    if indices is None or weights is None or len(indices) != len(weights):
        raise part.error("needs indices and weight, as many of each")
    count = len(indices) // len(points) if each is None else int(each[0])
    if count * len(points) != len(indices) or indices.min() < 0 or indices.max() >= len(frames):
        raise part.error(f"indices must name {count} of {len(frames)} frames for each of {len(points)} points")
    table = np.zeros((len(points), len(frames)))
    np.add.at(table, (np.repeat(np.arange(len(points)), count), indices), weights)
    return SkinningMapping.from_rest(source, named(child), frames, points, weights=table), points


def tubular(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    around, radius, frames = part.whole("nbPointsOnEachCircle", 6), part.real("radius", 1.0), build.rest[source]
    part.neutral(peak=0)
    if not 1 <= around <= 10_000:
        raise part.error(f"nbPointsOnEachCircle is {around}, expected 1 to 10000")
    made = TubularMapping.of(source, named(child), frames=len(frames), around=around, radius=radius)
    return made, placed(build, made, child)


def on_frame(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    frame = part.link("input2")
    if not isinstance(frame, SceneObject) or named(frame) not in build.dofs:
        raise part.error("needs input2, a state of frames")
    index = part.first_whole("index", 0)
    part.neutral(indexFromEnd=False, repartition="", rootAngularForceScaleFactor=1.0, rootLinearForceScaleFactor=1.0)
    part.neutral(globalToLocalCoords=False)
    nodes, frames = np.arange(len(build.rest[source])), build.rest[named(frame)]
    if not 0 <= index < len(frames):
        raise part.error(f"index is {index}, but there are {len(frames)} frames")
    made = DeformableOnRigidFrameMapping(((named(frame), np.full(len(nodes), index)), (source, nodes)), named(child))
    return made, placed(build, made, child)


def on_beams(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    """BeamLinearMapping: points between one frame and the next, by how many frames along their first coordinate is."""
    points, frames = build.data.positions(child)["position"], build.rest[source]
    part.ignored("isMechanical")
    if frames.shape[1] != 7 or points.shape[1] != 3 or len(frames) < 2:
        raise part.error("maps two frames or more to points of space")
    lengths = np.linalg.norm(np.diff(frames[:, :3], axis=0), axis=1)
    lengths = np.append(lengths, lengths[-1])
    if not (lengths > 0).all():
        raise part.error("two of its frames that follow each other are in one place")
    if not part.flag("localCoord", True):
        points = Rotation.from_quat(frames[0, 3:]).inv().apply(points - frames[0, :3])
        starts = np.concatenate([[0.0], np.cumsum(lengths)])
        number = np.clip(np.searchsorted(starts, points[:, 0], side="right") - 1, 0, len(lengths) - 1)
        points = points - np.outer(starts[number], (1, 0, 0))
        points = points / lengths[number][:, None] + np.outer(number, (1, 0, 0))
    a = np.clip(np.floor(points[:, 0]), 0, len(frames) - 2).astype(np.int64)
    s = points[:, 0] - a
    if ((s < 0) | (s > 1)).any():
        raise part.error("a point lies beyond the first or the last frame, which is not translated")
    size = lengths[a][:, None]
    ends = [np.column_stack([s - one, points[:, 1:]]) * size for one in (0, 1)]
    geometric = {"geometric_stiffness": "none" if build.sofa else "symmetric"}
    made = BeamMapping(((source, a), (source, a + 1)), named(child), s, *ends, **geometric)
    there = [frames[a + i, :3] + Rotation.from_quat(frames[a + i, 3:]).apply(ends[i]) for i in (0, 1)]
    h = (s**2 * (3 - 2 * s))[:, None]
    return made, (1 - h) * there[0] + h * there[1]


def centre_of_mass(build: PartBuilder, part: Component, source: str, child: SceneObject) -> Made:
    """CenterOfMassMapping, of points or the origins of frames, each as heavy as the mass of their node says."""
    rest = build.rest[source]
    masses = [
        o
        for o in build.within
        if o.kind in ("UniformMass", "DiagonalMass") and named(o).rpartition("/")[0] == source.rpartition("/")[0]
    ]
    weights = np.ones(len(rest))
    if len(masses) != 1:
        raise part.error("needs one UniformMass or DiagonalMass in the node of its input")
    if masses[0].kind == "DiagonalMass":
        given = Component(build.data, masses[0]).reals("vertexMass")
        if given is None or len(given) != len(rest):
            raise part.error("of a DiagonalMass that does not say the vertexMass of each node is not translated")
        weights = given
    size = build.dofs[source].space_size
    centre = (weights @ rest[:, :size] / weights.sum())[None]
    if not build.dofs[source].is_vector_space:
        return CentreOfFrames((source, np.arange(len(rest))[None]), named(child), weights), centre
    return CenterOfMassMapping.of({source: range(len(rest))}, named(child), masses=weights), centre


NONLINEAR = {
    "SquareDistanceMapping": squared_distance,
    "SquareMapping": square,
    "DistanceFromTargetMapping": from_target,
    "DistanceToPlaneMapping": to_plane,
    "AreaMapping": area,
    "VolumeMapping": volume,
    "SkinningMapping": skinning,
    "TubularMapping": tubular,
    "BeamLinearMapping": on_beams,
    "CenterOfMassMapping": centre_of_mass,
    "DeformableOnRigidFrameMapping": on_frame,
}
