"""Nodes that are moved, and those that are held in some directions."""

import numpy as np
from scipy.spatial.transform import Rotation

from .._constraint.fixed_components import FixedComponents
from .._constraint.fixed_line import FixedLine
from .._constraint.fixed_plane import FixedPlane
from .._constraint.integrated_motion import PrescribedVelocity
from .._constraint.prescribed_motion import PrescribedMotion
from .part_builder import PartBuilder, named
from .read.component import Component


def _times(part: Component, values: np.ndarray | None, data: str) -> tuple[np.ndarray, np.ndarray]:
    times = part.reals("keyTimes")
    if times is None or values is None or len(times) != len(values) or not len(times):
        raise part.error(f"needs keyTimes and {data}, as many of each")
    if (np.diff(times) <= 0).any():
        raise part.error("keyTimes do not increase")
    return times, values


def linear_movement(build: PartBuilder, part: Component) -> str:
    """LinearMovementProjectiveConstraint: displacements that are linear between key times."""
    state = build.state_of(part)
    nodes = build.indices(part, state, default=np.array([0]))
    width = build.dofs[state].deriv_size
    times, moves = _times(part, part.reals("movements", None, width=width), "movements")
    relative = part.flag("relativeMovements", True)
    place = build.position[state][nodes]
    if not relative:
        if not build.dofs[state].is_vector_space:
            raise part.error("movements of frames that are not relative are not translated")
        place = np.zeros_like(place)
    turned = place.shape[1] == 7 and bool(np.any(moves[:, 3:]))
    moves = _of_frames(part, place, moves) if turned else moves
    build.constraints[named(part.object)] = PrescribedMotion((state, nodes), place, moves, times)
    if moves.ndim == 2:
        build.parameter(part, "movements", "constraints", "displacements")
    return "constant beyond its key times"


def _of_frames(part: Component, place: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Movements `(T, 6)` whose turns are Euler angles in the axes of each frame, with turns in axes of the world: of all
    `(T, 6)` where none is turned at the start, else `(e, T, 6)`. About one axis, where Euler angles and their interpolation
    are the angle itself."""
    angles = moves[:, 3:]
    if np.count_nonzero(np.any(angles != 0, axis=0)) > 1:
        raise part.error("movements turn frames about several axes: these are Euler angles, which is not translated")
    steps = np.diff(angles, axis=0)  # a quaternion comes back to itself after two turns, and goes the shorter way
    short = steps - 4 * np.pi * np.round(steps / (4 * np.pi))
    angles = angles if (steps == short).all() else np.concatenate([angles[:1], angles[:1] + np.cumsum(short, axis=0)])
    start = Rotation.from_quat(place[:, 3:])
    if (start.magnitude() == 0).all() and np.array_equal(angles, moves[:, 3:]):
        return moves
    turns = np.einsum("eij,tj->eti", start.as_matrix(), angles)
    return np.concatenate([np.broadcast_to(moves[:, :3], turns.shape), turns], axis=2)


def partial_linear_movement(build: PartBuilder, part: Component) -> str:
    """PartialLinearMovementProjectiveConstraint: the same in some directions."""
    state = build.state_of(part)
    nodes = build.indices(part, state)
    width = build.dofs[state].deriv_size
    times, moves = _times(part, part.reals("movements", None, width=width), "movements")
    directions = part.reals("movedDirections", np.ones(width), count=width)
    part.neutral(linearMovementBetweenNodesInIndices=False, X0=0.0, Y0=0.0, Z0=0.0, imposedDisplacmentOnMacroNodes="")
    part.ignored("mainIndice", "minDepIndice", "maxDepIndice")
    components = tuple(bool(d) for d in directions)
    motion = PrescribedMotion((state, nodes), build.position[state][nodes], moves, times, components)
    build.constraints[named(part.object)] = motion
    build.parameter(part, "movements", "constraints", "displacements")
    return "constant beyond its key times"


def linear_velocity(build: PartBuilder, part: Component) -> str:
    """LinearVelocityProjectiveConstraint: velocities that are linear between key times."""
    state = build.state_of(part)
    nodes = build.indices(part, state, default=np.array([0]))
    width = build.dofs[state].deriv_size
    times, rates = _times(part, part.reals("velocities", None, width=width), "velocities")
    chosen = part.wholes("coordinates")
    goes_on = part.flag("continueAfterEnd", False)
    components = np.ones(width, bool) if chosen is None or not len(chosen) else np.isin(np.arange(width), chosen)
    place = build.position[state][nodes]
    motion = PrescribedVelocity((state, nodes), place, rates, times, components=tuple(bool(c) for c in components))
    build.constraints[named(part.object)] = motion
    build.parameter(part, "velocities", "constraints", "velocities")
    return "its velocity is kept beyond its key times" + ("" if goes_on else ", where SOFA lets go")


def held_translations(build: PartBuilder, part: Component) -> str:
    """FixedTranslationProjectiveConstraint: frames that turn where they are."""
    state = build.state_of(part)
    everything = np.arange(len(build.position[state]))
    nodes = everything if part.flag("fixAll", False) else build.indices(part, state, default=np.array([0]))
    part.neutral(coordinates="")
    size, space = build.dofs[state].deriv_size, build.dofs[state].space_size
    held = tuple(i < space for i in range(size))
    build.constraints[named(part.object)] = FixedComponents((state, nodes), held)
    return ""


def held_rotations(build: PartBuilder, part: Component) -> str:
    """FixedRotationProjectiveConstraint: frames that do not turn about some axes of the world."""
    state = build.state_of(part)
    if build.dofs[state].coord_size != 7:
        raise part.error("acts on frames (Rigid3)")
    axes = tuple(part.flag(f"Fixed{axis}Rotation", False) for axis in "XYZ")
    nodes = np.arange(len(build.position[state]))
    build.constraints[named(part.object)] = FixedComponents((state, nodes), (False, False, False, *axes))
    return "about axes of the world"


def held_across_plane(build: PartBuilder, part: Component) -> str:
    """FixedPlaneProjectiveConstraint: nodes that keep their distance along a direction."""
    state = build.state_of(part)
    direction = part.reals("direction", None, count=build.dofs[state].coord_size)
    if direction is None or not np.any(direction):
        raise part.error("has no direction")
    low, high = part.real("dmin", 0.0), part.real("dmax", 0.0)
    nodes = part.wholes("indices")
    if nodes is None or not len(nodes):
        along = build.position[state] @ (direction / np.linalg.norm(direction))
        nodes = np.flatnonzero((along >= low) & (along <= high))
    else:
        nodes = build.indices(part, state)
    if not len(nodes):
        raise part.error(f"there is no node between {low} and {high}")
    build.constraints[named(part.object)] = FixedPlane((state, nodes), direction)
    return ""


def held_on_direction(build: PartBuilder, part: Component) -> str:
    """DirectionProjectiveConstraint: nodes that move along one direction."""
    state = build.state_of(part)
    nodes, direction = build.indices(part, state), part.reals("direction", None, count=build.dofs[state].coord_size)
    if direction is None or not np.any(direction):
        raise part.error("has no direction")
    build.constraints[named(part.object)] = FixedLine((state, nodes), direction)
    return ""


MOTIONS = {
    "LinearMovementProjectiveConstraint": linear_movement,
    "LinearMovementConstraint": linear_movement,
    "PartialLinearMovementProjectiveConstraint": partial_linear_movement,
    "PartialLinearMovementConstraint": partial_linear_movement,
    "LinearVelocityProjectiveConstraint": linear_velocity,
    "LinearVelocityConstraint": linear_velocity,
    "FixedTranslationProjectiveConstraint": held_translations,
    "FixedTranslationConstraint": held_translations,
    "FixedRotationProjectiveConstraint": held_rotations,
    "FixedRotationConstraint": held_rotations,
    "FixedPlaneProjectiveConstraint": held_across_plane,
    "FixedPlaneConstraint": held_across_plane,
    "DirectionProjectiveConstraint": held_on_direction,
    "ProjectDirectionConstraint": held_on_direction,
}
