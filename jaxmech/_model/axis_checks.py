"""Whether all that acts on the points of a body of revolution takes them for such."""

from typing import Any


def check_axes(system: Any, order: tuple[str, ...]) -> None:
    """Raise where what acts on a state of radii and heights, as one of its solids says, takes them for a plane. `order`: the
    names of the mappings, parents before children."""
    acting = [(name, c) for family in (system.forces, system.masses) for name, c in family.items()]
    revolved = {c.on[0].state: name for name, c in acting if getattr(c, "plane", None) == "axisymmetric"}
    if not revolved:
        return
    axes = _states_of_one_plane(system, order)
    around = {axes.get(state, state): (name, state) for state, name in revolved.items()}
    for name, component in acting:
        state = component.on[0].state if component.on else ""
        solid, own = around.get(axes.get(state, state), (None, ""))
        plane = getattr(component, "plane", None)
        if solid is None or (getattr(component, "axisymmetric", True) and plane not in ("strain", "stress")):
            continue
        advice = "SolidFEM takes plane='axisymmetric'" if plane else f"give {type(component).__name__} axisymmetric=True"
        where = f"its state '{state}'" if state == own else f"state '{state}', of the same axes as its '{own}',"
        raise ValueError(f"System: '{solid}' is a body of revolution, and '{name}' on {where} is of the plane: {advice}.")


def _states_of_one_plane(system: Any, order: tuple[str, ...]) -> dict[str, str]:
    """For each state that interpolates the points of another, the state that it comes from: their axes are the same."""
    origin: dict[str, str] = {}
    for name in order:
        mapping = system.mappings[name]
        parents = {p.state for p in mapping.parents}
        if mapping.is_interpolation and len(parents) == 1:
            (parent,) = parents
            if type(system.dofs[parent]) is type(system.dofs[mapping.child]):
                origin[mapping.child] = origin.get(parent, parent)
    return origin
