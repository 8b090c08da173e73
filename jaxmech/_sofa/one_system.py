"""Time integrators that contacts or constraints link: what they move is one system, which each damps in its part."""

from collections.abc import Container

from .part_builder import PartBuilder
from .read.component import EVERYWHERE, Component
from .read.graph import SceneNode, SceneObject
from .report import Report


def that_move(root: SceneNode, schemes: list[SceneObject], links: Container[str]) -> list[SceneObject]:
    """All that a time integrator moves, and what `links` it: contacts and constraints make one system of them."""
    moved = {o for ode in schemes for o in ode.node.walk()}
    return [o for o in root.walk() if o in moved or o.kind in links]


def join(build: PartBuilder, ode: SceneObject, schemes: Container[str], report: Report, seen: set[SceneObject]) -> None:
    """What other time integrators move is one system with what `ode` moves, if contacts or constraints link them."""
    below = set(ode.node.walk())
    for other in (o for o in build.within if o is not ode and o.kind in schemes):
        seen.add(other)
        if other in below and other.node is not ode.node:
            report.add(other, "ignored", f"{ode.path} moves what is below it")
        elif other in below:
            report.add(other, "refused", str(other.error(f"is a second time integrator beside {ode.path}")))
        elif _said(other) != _said(ode):
            report.add(other, "refused", str(other.error(f"what it moves is linked to what {ode.path} moves, otherwise")))
        else:
            build.joined.append(other)
            report.add(other, "equivalent", f"what it moves is one system with what {ode.path} moves")


def _said(ode: SceneObject) -> tuple[str, dict[str, str]]:
    """What must be the same of time integrators that are one: not their damping, which each component has of its own."""
    own = EVERYWHERE | {"rayleighStiffness", "rayleighMass"}
    return ode.kind, {name: text.strip() for name, text in ode.data.items() if name not in own}


def dampings(build: PartBuilder, ode: SceneObject) -> dict[str, tuple[float, float]] | None:
    """The Rayleigh coefficients of time integrators that are one system, by the path of their nodes; None where they are
    the same."""
    found = {}
    for part in (Component(build.data, o) for o in (ode, *build.joined)):
        both = part.real("rayleighStiffness", 0.0), part.real("rayleighMass", 0.0)
        found[part.object.node.path.removeprefix("@/")] = both
    return found if len(set(found.values())) > 1 else None


def damp_each(build: PartBuilder, ode: SceneObject) -> None:
    """Give each force and mass the Rayleigh coefficient of the time integrator that moves it, where these differ."""
    found = dampings(build, ode)
    if found is None or not build.couples:
        return
    for group, k in ((build.forces, 0), (build.masses, 1)):
        for name in group:
            factor = next((given[k] for node, given in found.items() if f"{name}/".startswith(f"{node}/")), 0.0)
            if factor:
                build.rayleigh[name] = build.rayleigh.get(name, 0.0) + factor
