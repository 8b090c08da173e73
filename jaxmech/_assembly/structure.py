"""What a matrix is made of, read off the structure of a scene."""

from dataclasses import dataclass, replace

from .._model.mapping_jacobian import geometric_mode
from .._model.system import System
from .._model.terms import Terms
from .contributions import Contribution, component_of, contributions, knows_velocity


@dataclass(frozen=True)
class Plan:
    """What a matrix is made of: contributions, mappings with geometric stiffness, and forces whose `B` is followed."""

    items: tuple[Contribution, ...]
    geometric: tuple[tuple[str, str], ...]  # mapping, form
    velocity: tuple[str, ...]
    symmetric: bool  # the matrix is, for certain
    exact: bool  # nothing of the derivatives of the forces is left out

    @classmethod
    def build(cls, system: System, terms: Terms) -> "Plan":
        """Read off the structure of the scene."""
        items = contributions(system, terms)
        curved = _curved_states(system)
        turning = tuple(
            name
            for name, field in system.forces.items()
            if any(s.state in curved for s in field.on) and knows_velocity(system, name)
        )
        wanted = terms.has_geometric
        curves = _geometric_mappings(system)
        forms = {name: geometric_mode(system, system.mappings[name], symmetric=terms.symmetric) for name in curves}
        geometric = tuple((name, form) for name, form in forms.items() if form != "none") if wanted else ()
        own = all(item.symmetric for item in items) and not any(form == "exact" for _, form in geometric)
        return cls(
            items,
            geometric,
            turning if wanted and not terms.symmetric else (),
            terms.symmetric or (own and not (wanted and turning)),
            terms.stiffness
            and (terms.mapped or not system.mappings)
            and (wanted or not (curves or turning))
            and all(form in ("symmetric", "exact") for form in forms.values())
            and not (terms.symmetric and not (own and not turning)),
        )

    @property
    def is_rate_of_force(self) -> bool:
        """Whether stiffness and geometric stiffness together are minus the derivative of the force, in the charts."""
        return self.exact and all(form == "symmetric" for _, form in self.geometric)

    def divided(self, system: System) -> tuple["Plan", "Plan"]:
        """What never changes in motion, and the rest: constant matrices on states whose Jacobians are constant."""
        straight = _straight_states(system)
        steady = tuple(i for i in self.items if i.steady and all(s.state in straight for s in component_of(system, i).on))
        rest = tuple(item for item in self.items if item not in steady)
        return replace(self, items=steady, geometric=(), velocity=()), replace(self, items=rest)


def _straight_states(system: System) -> set[str]:
    """The states that move linearly with main ones, and with none that turns: in their charts, Jacobians are constant."""
    straight = {s for s in system.main_states if system.dofs[s].is_vector_space}
    for name in system.mapping_order:
        mapping = system.mappings[name]
        if mapping.is_linear and all(p.state in straight for p in mapping.parents):
            straight.add(mapping.child)
    return straight & {s for s, dof in system.dofs.items() if dof.is_vector_space}


def _curved_states(system: System) -> set[str]:
    """The mapped states whose positions are not linear in the main ones."""
    curved: set[str] = set()
    for name in system.mapping_order:
        mapping = system.mappings[name]
        if not mapping.is_linear or any(p.state in curved for p in mapping.parents):
            curved.add(mapping.child)
    return curved


def _geometric_mappings(system: System) -> tuple[str, ...]:
    """The non-linear mappings through which a force goes, last child first."""
    carrying = {s.state for f in system.forces.values() for s in f.on}
    if system.gravity is not None:
        carrying |= {s.state for m in system.masses.values() for s in m.on}
    found = []
    for name in reversed(system.mapping_order):
        mapping = system.mappings[name]
        if mapping.child in carrying:
            carrying |= {p.state for p in mapping.parents}
            if not mapping.is_linear:
                found.append(name)
    return tuple(found)
