"""What a scene is coloured by: numbers of nodes or of cells, from a name or from arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._assembly.public_functions import kinematics, velocities
from .._forcefield.solid import AbstractSolid
from .._model.system import State, System
from .._output.gauss_fields import gauss_fields
from .._runtime.argument_checks import real_array
from .._scene.dof import Rigid2, Rigid3
from ._drawing import Drawing, Lines, Surface

OF_POINTS = {
    "von_mises": "von Mises stress [Pa]",
    "energy_density": "energy density [J/m³]",
    "volume_ratio": "volume ratio [-]",
}
OF_NODES = {"displacement": "displacement [m]", "velocity": "velocity [m/s]"}


@dataclass
class ColorField:
    """Numbers of the nodes of states `{state: (n,)}`, and of the cells of components `{component: (e,)}`; what they are."""

    nodes: dict[str, np.ndarray]
    cells: dict[str, np.ndarray]
    label: str

    def of(self, surface: Surface) -> np.ndarray | None:
        """One number for each polygon of a surface: that of its cell, or the mean of its nodes."""
        if surface.component in self.cells:
            return self.cells[surface.component][surface.owners]
        values = self.at_nodes(surface)
        return None if values is None else values[surface.polygons].mean(1)

    def at_nodes(self, surface: Surface) -> np.ndarray | None:
        """The numbers of the nodes of a surface, unless there are none."""
        return next((self.nodes[s] for s in (surface.state, *surface.carries) if s in self.nodes), None)

    def of_line(self, line: Lines) -> np.ndarray | None:
        """One number for each piece: that of its cell, or the mean of its ends."""
        if line.name in self.cells:
            return np.repeat(self.cells[line.name], len(line.start) // len(self.cells[line.name]))
        if any(state not in self.nodes for state, _ in line.nodes):
            return None
        values = np.stack([self.nodes[state][column] for state, column in line.nodes], axis=1)
        return values[:, 0] if len(line.nodes) == 1 else (0.5 * (values[:, :-1] + values[:, 1:])).ravel()

    def extent(self) -> tuple[float, float]:
        """The least and the greatest number."""
        found = np.concatenate([np.ravel(v) for v in (*self.nodes.values(), *self.cells.values())] or [np.zeros(1)])
        found = found[np.isfinite(found)] if np.isfinite(found).any() else np.zeros(1)
        return float(found.min()), float(found.max())

    def limits(self) -> tuple[float, float]:
        """The same, apart."""
        return apart(*self.extent())


def apart(low: float, high: float) -> tuple[float, float]:
    """Two numbers, of which the second is greater also where they were equal."""
    return (low, high) if high > low else (low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1))


def is_field(system: System, color: Any) -> bool:
    """Whether `color` names a field, or is one, and is no colour of its own."""
    return not isinstance(color, str) or color in fields_of(system)


def fields_of(system: System) -> tuple[str, ...]:
    """The names of what can colour a scene; some of them are of solids alone."""
    return (*OF_POINTS, *OF_NODES, *_numbers(system))


def color_field(
    who: str, system: System, state: State, picture: Drawing, color: Any, *, reference: State | None, label: str | None
) -> ColorField:
    """The numbers that `color` stands for, see `plot`."""
    if isinstance(color, str):
        if color in OF_POINTS:
            return ColorField({}, _of_points(who, system, state, color), label or OF_POINTS[color])
        if color in OF_NODES:
            moved = _displacement(who, system, state, reference) if color == "displacement" else _speed(system, state)
            return ColorField(moved, {}, label or OF_NODES[color])
        x = kinematics(system, state)
        return ColorField({color: np.asarray(x[color], float)[:, 0]}, {}, label or color)
    return _given(who, picture, color, label)


def _numbers(system: System) -> list[str]:
    """States of one number per node."""
    return [name for name, dof in system.dofs.items() if dof.coord_size == 1]


def _of_points(who: str, system: System, state: State, name: str) -> dict[str, np.ndarray]:
    """The mean over the Gauss points of every cell, by volume."""
    solids = [n for n, f in system.forces.items() if isinstance(f, AbstractSolid)]
    if not solids:
        raise ValueError(f"{who}: color '{name}' is of solids, and there is none among the forces {list(system.forces)}.")
    found = {}
    for solid in solids:
        fields = gauss_fields(system, state, solid)
        weights = np.asarray(fields.volume)
        found[solid] = (weights * np.asarray(getattr(fields, name))).sum(1) / weights.sum(1)
    return found


def _speed(system: System, state: State) -> dict[str, np.ndarray]:
    v = velocities(system, state)
    return {n: np.linalg.norm(np.asarray(v[n], float)[:, : system.dofs[n].space_size], axis=1) for n in v}


def _displacement(who: str, system: System, state: State, reference: State | None) -> dict[str, np.ndarray]:
    """How far every node is from where it is in `reference`, or else from the rest of the cells around it."""
    x = {n: np.asarray(rows, float) for n, rows in kinematics(system, state).items()}
    if reference is not None:
        start = {n: np.asarray(rows, float) for n, rows in kinematics(system, reference).items()}
    else:
        start = {}
        for component in (*system.forces.values(), *system.masses.values()):
            rest, name = getattr(component, "rest", None), component.on[0].state
            if rest is not None and np.shape(rest) == np.shape(x[name]):
                start.setdefault(name, np.asarray(rest, float))
    found = {}
    for name, rest in start.items():
        size = system.dofs[name].space_size
        if name in x and rest.shape == x[name].shape and (size > 1 or isinstance(system.dofs[name], Rigid2 | Rigid3)):
            found[name] = np.linalg.norm(x[name][:, :size] - rest[:, :size], axis=1)
    if not found:
        raise ValueError(f"{who}: color 'displacement' needs reference=, the state from which nodes have moved.")
    return found


def _given(who: str, picture: Drawing, color: Any, label: str | None) -> ColorField:
    """Arrays: of each state or component by name, or one, whose length says what it is of."""
    nodes = {state: len(s.points) for s in picture.surfaces for state in (*s.carries, s.state)}
    nodes |= {name: len(places) for name, places in picture.dots.items()}
    nodes |= {f.name: len(f.nodes) for f in picture.frames if f.name not in nodes}
    cells = {line.name: len(line.nodes[0][1]) for line in picture.lines} | {s.component: s.cells for s in picture.surfaces}
    if not isinstance(color, Mapping):
        values = np.asarray(real_array(who, "color", color, (None,), finite=False), float)
        fits = [n for n, count in nodes.items() if count == len(values)]
        fits = fits or [n for n, count in cells.items() if count == len(values)]
        if len(fits) != 1:
            raise ValueError(
                f"{who}: color has {len(values)} numbers, expected one for each node of a state {nodes} or each cell of a "
                f"component; {{name: numbers}} says which."
            )
        color = {fits[0]: values}
    found = ColorField({}, {}, label or "")
    for name, numbers in color.items():
        values = np.asarray(real_array(who, f"color['{name}']", numbers, (None,), finite=False), float)
        if name in nodes and len(values) == nodes[name]:
            found.nodes[name] = values
        elif name in cells and len(values) == cells[name]:
            found.cells[name] = values
        else:
            raise ValueError(
                f"{who}: color['{name}'] has {len(values)} numbers, expected one for each node of a state {nodes} or for "
                f"each cell of a component {list(cells)}."
            )
    return found
