"""What is wrong with the multipliers of a scene, said at build time."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._scene.parameter import is_concrete


def check_multiplier_names(system: Any) -> None:
    """Raise where multipliers stand on a state that is not theirs alone, or a name is given twice."""
    mapped = {m.child: name for name, m in system.mappings.items()}
    heavy = {s.state: name for name, mass in system.masses.items() for s in mass.on}
    for name, constraint in system.multiplier_constraints.items():
        state = system.multiplier_stencils[name].state
        if name in system.forces:
            raise ValueError(f"'{name}' names both a force field and a constraint with multipliers.")
        if state in mapped:
            raise ValueError(f"'{name}': its multipliers are on state '{state}', which mapping '{mapped[state]}' gives.")
        if state in heavy:
            raise ValueError(f"'{name}': its multipliers are on state '{state}', which mass '{heavy[state]}' acts on.")
        if any(s.state == state for s in constraint.on):
            raise ValueError(f"'{name}' acts on state '{state}', which holds its own multipliers.")
        if state in system.dofs and not system.dofs[state].is_vector_space:
            kind = type(system.dofs[state]).__name__
            raise ValueError(f"'{name}': multipliers are of kind Vec1, Vec2 or Vec3, but state '{state}' is {kind}.")


def check_multiplier_nodes(system: Any, counts: Mapping[str, int]) -> None:
    """Raise unless every node of a state of multipliers belongs to one element of one constraint, or to the terms of
    one equation: the matrix would be singular."""
    named: dict[str, list[np.ndarray]] = {}
    for name, constraint in system.multiplier_constraints.items():
        on = system.multiplier_stencils[name]
        if is_concrete(on.nodes):
            nodes = np.asarray(on.nodes)
            named.setdefault(on.state, []).append(np.unique(nodes) if constraint.adds_up else nodes)
    for state, nodes in named.items():
        times = np.bincount(np.concatenate(nodes), minlength=counts[state])
        if (times != 1).any():
            node = int(np.argmax(times != 1))
            raise ValueError(
                f"node {node} of state '{state}' holds the multipliers of {times[node]} elements of constraints; each "
                "needs to hold those of one."
            )
