"""From a scene and a state to what is drawn: which component is shown as what."""

from typing import Any

import numpy as np

from .._assembly.public_functions import kinematics
from .._constraint.base import AbstractProjectiveConstraint
from .._forcefield.constant_force import ConstantForce
from .._forcefield.penalty_plane import PenaltyPlane
from .._forcefield.pressure import Pressure
from .._forcefield.quad_shell import QuadShell
from .._forcefield.shell import Shell
from .._forcefield.traction import Traction
from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._model.system import State, System
from .._scene.dof import Rigid2, Rigid3
from ._drawing import Arrows, Drawing, Frames, Lines, Surface
from ._faces import normals, outer, polygons_of

_LOADS = (ConstantForce, Traction, Pressure)
Places = dict[str, np.ndarray]


def sketch(system: System, state: State, skins: dict[str, Mesh] | None = None, *, loads: bool, supports: bool) -> Drawing:
    """All that can be shown of a scene at a state; `skins`: meshes whose cells are drawn on the nodes of a state."""
    x = {name: np.asarray(rows, float) for name, rows in kinematics(system, state).items()}
    size, at = _places(system, x)
    picture = Drawing(size)
    _add_surfaces(picture, system, at, skins or {})
    _add_fields(picture, system, at)
    for name, field in system.forces.items():
        if loads and isinstance(field, _LOADS):
            picture.arrows += _arrows(name, field, at, size)
        elif isinstance(field, PenaltyPlane):
            _add_walls(picture, name, field, size)
        elif kind_of(field) is None and not _on_a_surface(field, picture):
            picture.lines += _lines(name, field, at, "spring" if len(field.on) > 1 else "bar")
    if supports:
        _add_constraints(picture, system, at)
    _add_bodies(picture, system, x, at)
    return picture


def _on_a_surface(field: Any, picture: Drawing) -> bool:
    """Whether elements of three nodes and more, hinges say, stand on a sheet that is drawn."""
    return field.on[0].nodes_per_element > 2 and field.on[0].state in {s.state for s in picture.surfaces}


def _places(system: System, x: Places) -> tuple[int, Places]:
    """Where the nodes of every state are that has places, all in the same 2 or 3 dimensions."""
    sizes = {name: system.dofs[name].space_size for name in x}
    size = 3 if 3 in sizes.values() else 2
    shown = {name for name, own in sizes.items() if own > 1} - set(system.multiplier_states)
    if not shown and not any(_carries_values(field) for field in system.forces.values()):  # numbers alone, along a line
        shown = set(sizes) - set(system.multiplier_states)
    rows = {name: x[name][:, : min(sizes[name], size)] for name in shown}
    return size, {name: np.pad(row, ((0, 0), (0, size - row.shape[1]))) for name, row in rows.items()}


def _carries_values(component: Any) -> bool:
    """Whether cells carry a field that is no position: they are drawn where they are at rest."""
    return kind_of(component) is not None and getattr(component, "rest", None) is not None


def kind_of(component: Any) -> str | None:
    """The kind of the cells that a component is made of, unless it has none."""
    kind = getattr(component, "kind", None)
    if kind is None and hasattr(component, "reference"):
        kind = getattr(component.reference, "kind", None)
    if kind is None and isinstance(component, Shell | QuadShell):
        kind = "triangle" if isinstance(component, Shell) else "quad"
    if not isinstance(kind, str) or component.on[0].nodes.ndim != 2:
        return None
    try:
        return kind if reference_element(kind).nodes == component.on[0].nodes_per_element else None
    except ValueError:
        return None


def _add_surfaces(picture: Drawing, system: System, at: Places, skins: dict[str, Mesh]) -> None:
    """Cells with an area, of every state once: of its force fields, or else of its masses."""
    found: dict[str, list[tuple[str, str, np.ndarray]]] = {}
    carried: dict[str, set[str]] = {}
    for family in (system.forces, system.masses):
        before = set(found)
        for name, component in family.items():
            kind, state = kind_of(component), next((s.state for s in component.on if s.state in at), None)
            if kind is not None and state is not None and state not in before and not isinstance(component, _LOADS):
                found.setdefault(state, []).append((name, kind, np.asarray(component.on[0].nodes)))
                carried.setdefault(state, set()).update(s.state for s in component.on if s.state not in at)
    for state, mesh in skins.items():
        found.setdefault(state, []).append((f"skin of {state}", mesh.kind, np.asarray(mesh.cells)))
    for state, groups in found.items():
        picture.surfaces += _surfaces(state, at[state], groups)
        for name, kind, cells in groups:
            if reference_element(kind).dimension == 1 and not any(s.state == state for s in picture.surfaces):
                start, end = at[state][cells[:, 0]], at[state][cells[:, 1]]
                picture.lines.append(Lines(name, "bar", start, end, [(state, column) for column in cells.T[:2]]))
    for surface in picture.surfaces:
        surface.carries = tuple(sorted(carried.get(surface.state, ())))


def _surfaces(state: str, points: np.ndarray, groups: list[tuple[str, str, np.ndarray]]) -> list[Surface]:
    """The polygons of one state; the faces between solids are left out, also between those of different kinds."""
    made, seen = [], set()
    dimensions = {reference_element(kind).dimension for _, kind, _ in groups}
    for name, kind, cells in groups:
        if reference_element(kind).dimension < max(dimensions):
            continue  # what lies on the surface of a solid, or in a sheet
        if (key := (kind, cells.tobytes())) in seen:
            continue  # several laws in the same cells
        seen.add(key)
        for polygons, owners in polygons_of(kind, cells):
            made.append(Surface(name, state, points, polygons, owners, len(cells), closed=max(dimensions) == 3))
    if made and made[0].closed:
        for surface, alone in zip(made, outer([s.polygons for s in made]), strict=True):
            surface.polygons, surface.owners = surface.polygons[alone], surface.owners[alone]
    return [s for s in made if len(s.polygons)]


def _add_fields(picture: Drawing, system: System, at: Places) -> None:
    """Cells of states that are no places (a temperature, say), where they are at rest."""
    for name, field in system.forces.items():
        kind = kind_of(field)
        if (
            kind is None
            or any(s.state in at for s in field.on)
            or any(s.state in system.multiplier_states for s in field.on)
        ):
            continue
        state = field.on[0].state
        rest = np.asarray(getattr(field, "rest", np.zeros((0, 2))), float)
        shown = any(state in (s.state, *s.carries) for s in picture.surfaces)
        if shown or rest.ndim != 2 or not 2 <= rest.shape[1] <= 3:
            continue
        if rest.shape[1] > picture.size:
            picture.size = 3
        points = np.pad(rest, ((0, 0), (0, picture.size - rest.shape[1])))
        picture.surfaces += _surfaces(state, points, [(name, kind, np.asarray(field.on[0].nodes))])


def _lines(name: str, component: Any, at: Places, kind: str) -> list[Lines]:
    """From node to node of every element, and to the place that holds it, if there is one."""
    numbers = [(s.state, np.asarray(s.nodes).reshape(s.elements, -1)) for s in component.on if s.state in at]
    if not numbers or not len(numbers[0][1]):
        return []
    nodes = np.concatenate([at[state][rows] for state, rows in numbers], 1)  # (e, k, d)
    joined = [(state, column) for state, rows in numbers for column in rows.T]
    found = []
    if nodes.shape[1] > 1:
        start, end = nodes[:, :-1], nodes[:, 1:]
        found.append(Lines(name, kind, start.reshape(-1, start.shape[-1]), end.reshape(-1, end.shape[-1]), joined))
    elif (anchor := getattr(component, "anchor", None)) is not None:
        size = nodes.shape[2]
        places = np.asarray(anchor, float)
        width = 2 if places.shape[1] == 3 and size == 2 else min(places.shape[1], size)  # a frame of the plane turns, too
        places = np.pad(places[:, :width], ((0, 0), (0, size - width)))
        found.append(Lines(name, "anchor", nodes[:, 0], np.broadcast_to(places, nodes[:, 0].shape), joined))
    return found


def _arrows(name: str, load: Any, at: Places, size: int) -> list[Arrows]:
    """Forces at nodes; tractions and pressures at the middles of faces."""
    state, nodes = load.on[0].state, np.asarray(load.on[0].nodes)
    if state not in at:
        return []
    x = at[state][nodes]
    if isinstance(load, ConstantForce):
        vectors, places, unit = np.asarray(load.force, float)[..., :size], x, "N"
    else:
        places = x.mean(1)
        if isinstance(load, Traction):
            vectors, unit = np.asarray(load.traction, float), "Pa" if size == 3 else "N/m"
        else:
            across = normals(at[state], nodes) if size == 3 else (x[:, 1] - x[:, 0])[:, ::-1] * (1.0, -1.0)
            lengths = np.linalg.norm(across, axis=1, keepdims=True)
            pressure = np.asarray(load.pressure, float).reshape(-1, 1)
            vectors, unit = -pressure * across / np.where(lengths > 0, lengths, 1), "Pa"
    vectors = np.pad(np.atleast_2d(vectors), ((0, 0), (0, size - np.shape(vectors)[-1])))
    return [Arrows(name, places, np.broadcast_to(vectors, places.shape), unit)]


def _add_walls(picture: Drawing, name: str, wall: PenaltyPlane, size: int) -> None:
    point, normal = np.atleast_2d(np.asarray(wall.point, float)), np.atleast_2d(np.asarray(wall.normal, float))
    if point.shape[1] == size and len(point) == len(normal) == 1:
        picture.walls.append((name, point[0], normal[0] / np.linalg.norm(normal[0])))


def _add_constraints(picture: Drawing, system: System, at: Places) -> None:
    for name, constraint in system.constraints.items():
        if isinstance(constraint, AbstractProjectiveConstraint):
            rows = [at[s.state][np.asarray(s.nodes).ravel()] for s in constraint.on if s.state in at]
            if rows:
                picture.held[name] = np.concatenate(rows)
        elif constraint.on[0].nodes.shape[1:] != (3,):  # three nodes: the triangles around a cavity, which are seen anyway
            picture.lines += _lines(name, constraint, at, "constraint")


def _add_bodies(picture: Drawing, system: System, x: Places, at: Places) -> None:
    """Frames as their axes, other nodes as dots, where no surface shows them: the axes of its nodes would hide a shell."""
    surfaces = {s.state for s in picture.surfaces}
    for name, places in at.items():
        if isinstance(system.dofs[name], Rigid2 | Rigid3):
            drawn = [s.polygons.ravel() for s in picture.surfaces if s.state == name]
            alone = np.setdiff1d(np.arange(len(places)), np.concatenate(drawn) if drawn else [])
            if len(alone):
                picture.frames.append(Frames(name, alone, places[alone], _axes(x[name][alone], picture.size)))
        elif name not in surfaces:
            picture.dots[name] = places


def _axes(x: np.ndarray, size: int) -> np.ndarray:
    """The axes of frames as columns, (n, size, size)."""
    axes = np.tile(np.eye(size), (len(x), 1, 1))
    if x.shape[1] == 3:
        c, s = np.cos(x[:, 2]), np.sin(x[:, 2])
        axes[:, :2, :2] = np.moveaxis(np.array([[c, -s], [s, c]]), -1, 0)
        return axes
    v, w = x[:, 3:6], x[:, 6]
    cross = np.zeros((len(x), 3, 3))
    cross[:, [2, 0, 1], [1, 2, 0]], cross[:, [1, 2, 0], [2, 0, 1]] = v, -v
    return axes + 2 * (w[:, None, None] * cross + cross @ cross)
