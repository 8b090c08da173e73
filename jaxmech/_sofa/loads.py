"""Loads and boundary conditions."""

from typing import Any

import numpy as np

from .._constraint.fixed import Fixed
from .._constraint.fixed_components import FixedComponents
from .._constraint.fixed_line import FixedLine
from .._constraint.fixed_plane import FixedPlane
from .._forcefield.constant_force import ConstantForce
from .._forcefield.constant_torque import ConstantTorque
from .._forcefield.velocity_damping import VelocityDamping
from .articulations import stands
from .numerics.loads import DragByDirection, Torsion
from .part_builder import EQUIVALENT, PartBuilder, named
from .pressures import PRESSURES
from .read.component import Component


def constant_force(build: PartBuilder, part: Component) -> str:
    """ConstantForceField: one force for each of the nodes, or a total that they share."""
    state, name = build.state_of(part), named(part.object)
    width, count = build.dofs[state].deriv_size, len(build.position[state])
    nodes = build.indices(part, state, part.has("indices", "points") or "indices", default=np.arange(count))
    nodes = nodes if len(nodes) else np.arange(count)  # of an empty list all, as in SOFA
    total = _one_of(part, "totalForce", width)
    forces = part.reals(("forces", "force"), None, width=width)
    if part.flag("indexFromEnd", False):
        nodes = count - 1 - nodes
    part.neutral(rayleighStiffness=0.0)
    if total is None and forces is None:
        raise part.error("needs forces, force or totalForce")
    forces = forces if forces is None else forces.reshape(-1, width)  # of Vec1 as well
    total = total if forces is None else None  # the forces take the place of the total
    if forces is None:
        assert total is not None
        forces = total[None] / len(nodes)
    if len(forces) not in (1, len(nodes)):
        raise part.error(f"forces has {len(forces)} entries, expected 1 or {len(nodes)}")
    each = forces[0] if len(forces) == 1 else forces
    if width == 6 and np.any(forces[:, 3:]):
        build.forces[f"{name}/torque"] = ConstantTorque((state, nodes), each[..., 3:])
        build.forces[name] = ConstantForce((state, nodes), each[..., :3])
        return "forces and torques of the world; they have no leaf"
    build.forces[name] = ConstantForce((state, nodes), each[..., :3] if width == 6 else each)
    if total is None and width != 6:
        build.parameter(part, "forces", "forces", "force")
    elif total is not None and width != 6:
        build.share(part, "totalForce", "forces", "force", len(nodes))
    return ""


def _one_of(part: Component, name: str, width: int) -> np.ndarray | None:
    """One vector."""
    found = part.reals(name, None, width=width)
    if found is None or not len(found):
        return None
    if len(found) != 1:
        raise part.error(f"{name} has {len(found)} vectors, expected one")
    return np.atleast_1d(found[0])


def torsion(build: PartBuilder, part: Component) -> str:
    """TorsionForceField: forces about an axis, which grow with the distance from it."""
    state = build.state_of(part)
    nodes, torque, origin = build.indices(part, state), part.real("torque", 0.0), part.reals("origin", np.zeros(3), count=3)
    axis = part.reals("axis", np.zeros(3), count=3)
    part.neutral(rayleighStiffness=0.0)
    if not np.any(axis):
        raise part.error("has no axis")
    build.forces[named(part.object)] = Torsion((state, nodes), torque, axis / np.linalg.norm(axis), origin, build.sofa)
    build.parameter(part, "torque", "forces", "torque")
    build.skew |= not build.sofa
    return EQUIVALENT + "SOFA's matrix reads beyond the end of its axis, here it does not" if build.sofa else ""


def _drag(build: PartBuilder, part: Component, factor: Any, implicit: bool) -> str:
    state, name = build.state_of(part), named(part.object)
    part.neutral(rayleighStiffness=0.0)
    drag = DragByDirection if np.ndim(factor) == 2 else VelocityDamping
    build.forces[name] = drag((state, np.arange(len(build.position[state]))), factor)
    build.parameter(part, "dampingCoefficient", "forces", "coefficient")
    build.implicit_damping |= implicit
    build.explicit_damping |= not implicit
    return ""


def velocity_damping(build: PartBuilder, part: Component) -> str:
    """UniformVelocityDampingForceField: `f = -c v`; in the matrix if `implicit`."""
    factor, implicit = part.real("dampingCoefficient", 0.1), part.flag("implicit", False)
    return _drag(build, part, factor, implicit)


def diagonal_damping(build: PartBuilder, part: Component) -> str:
    """DiagonalVelocityDampingForceField of points: `f = -c v`, a coefficient for each node, the last for the rest."""
    state = build.state_of(part)
    dof, count = build.dofs[state], len(build.position[state])
    rows = part.reals("dampingCoefficient", None, width=dof.deriv_size)
    if rows is None or not len(rows) or not dof.is_vector_space:
        raise part.error("needs a dampingCoefficient for each direction, of points")
    rows = rows[np.minimum(np.arange(count), len(rows) - 1)]
    return _drag(build, part, rows if (rows != rows[:, :1]).any() else rows[:, 0], True)


def fixed(build: PartBuilder, part: Component) -> str:
    """FixedProjectiveConstraint."""
    state = build.state_of(part)
    everything = np.arange(len(build.position[state]))
    nodes = everything if part.flag("fixAll", False) else build.indices(part, state, default=np.array([0]))
    part.neutral(activate_projectVelocity=False)
    if stands(build, state, nodes):
        return "these bodies hang on nothing, and stand where they are"
    build.constraints[named(part.object)] = Fixed((state, nodes))
    return ""


def fixed_in_box(build: PartBuilder, part: Component) -> str:
    """BoxConstraint: a BoxROI, and its nodes fixed."""
    state, nodes = build.state_of(part), build.data.produced(part.object, "indices")
    if not len(nodes):
        raise part.error("there is no node in its boxes")
    part.has("box", "orientedBox", "position")  # read by the region
    build.constraints[named(part.object)] = Fixed((state, nodes))
    return ""


def partly_fixed(build: PartBuilder, part: Component) -> str:
    """PartialFixedProjectiveConstraint."""
    state = build.state_of(part)
    everything = np.arange(len(build.position[state]))
    nodes = everything if part.flag("fixAll", False) else build.indices(part, state, default=np.array([0]))
    width = build.dofs[state].deriv_size
    directions = part.reals("fixedDirections", np.ones(width), count=width)
    part.neutral(projectVelocity=False)
    build.constraints[named(part.object)] = FixedComponents((state, nodes), tuple(bool(d) for d in directions))
    return ""


def on_point(build: PartBuilder, part: Component) -> str:
    """PointProjectiveConstraint, of nodes that are at the point."""
    state = build.state_of(part)
    nodes = build.indices(part, state)
    point = part.reals("point", None, count=3)
    part.neutral(fixAll=False)
    _lies_there(part, build.position[state][nodes] - (0 if point is None else point), "point")
    build.constraints[named(part.object)] = Fixed((state, nodes))
    return ""


def on_line(build: PartBuilder, part: Component) -> str:
    """LineProjectiveConstraint, of nodes that are on the line."""
    state = build.state_of(part)
    nodes, origin = build.indices(part, state), part.reals("origin", np.zeros(3), count=3)
    direction = part.reals("direction", np.zeros(3), count=3)
    if not np.any(direction):
        raise part.error("has no direction")
    t = direction / np.linalg.norm(direction)
    away = build.position[state][nodes] - origin
    _lies_there(part, away - (away @ t)[:, None] * t, "line")
    build.constraints[named(part.object)] = FixedLine((state, nodes), direction)
    return ""


def on_plane(build: PartBuilder, part: Component) -> str:
    """PlaneProjectiveConstraint, of nodes that are in the plane."""
    state = build.state_of(part)
    nodes, origin = build.indices(part, state), part.reals("origin", np.zeros(3), count=3)
    normal = part.reals("normal", np.zeros(3), count=3)
    if not np.any(normal):
        raise part.error("has no normal")
    _lies_there(part, (build.position[state][nodes] - origin) @ normal, "plane")
    build.constraints[named(part.object)] = FixedPlane((state, nodes), normal)
    return ""


def _lies_there(part: Component, away: np.ndarray, what: str) -> None:
    if np.max(np.abs(away), initial=0.0) > 1e-9:
        raise part.error(f"a node is not on the {what} at the start: moving it there is not translated")


LOADS: dict[str, Any] = {
    **PRESSURES,
    "ConstantForceField": constant_force,
    "TorsionForceField": torsion,
    "UniformVelocityDampingForceField": velocity_damping,
    "DiagonalVelocityDampingForceField": diagonal_damping,
}
CONSTRAINTS = {
    "FixedProjectiveConstraint": fixed,
    "FixedConstraint": fixed,
    "BoxConstraint": fixed_in_box,
    "PartialFixedProjectiveConstraint": partly_fixed,
    "PartialFixedConstraint": partly_fixed,
    "PointProjectiveConstraint": on_point,
    "LineProjectiveConstraint": on_line,
    "PlaneProjectiveConstraint": on_plane,
}
