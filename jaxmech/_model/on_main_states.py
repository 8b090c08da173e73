"""What acts on every state, as it acts on the main states: from the last child to the first parent, `J^T` of each."""

from collections.abc import Callable, Mapping

from .._runtime.array_types import Array
from .._scene.nodal_sums import sums_at_nodes, with_sums
from .._scene.parameter import over_elements
from .._scene.stencil import at_nodes
from .mapped_node import of_mapping, pulled, pulled_ahead, pulled_momentum
from .system import System

Fields = dict[str, Array]


def on_main_states(system: System, x: Fields, forces: Mapping[str, Array]) -> Fields:
    """`J^T f` of the forces on every state, at the positions `x` of all."""
    return _handed_up(system, pulled, (x,), forces)[0]


def ahead_on_main_states(
    system: System, x: Fields, d: Fields, forces: Mapping[str, Array], ahead: Mapping[str, Array]
) -> tuple[Fields, Fields]:
    """`J^T f`, and that of the forces `ahead` where every state is displaced by `d`, to first order: `J` has turned."""
    force, later = _handed_up(system, pulled_ahead, (x, d), forces, ahead)
    return force, later


def momenta_on_main_states(
    system: System, x: Fields, v: Fields, momenta: Mapping[str, Array], slopes: Mapping[str, Array]
) -> tuple[Fields, Fields]:
    """The derivatives of a kinetic energy by the velocities and the positions of the main states, from those by the own ones
    of every state."""
    momentum, slope = _handed_up(system, pulled_momentum, (x, v), momenta, slopes)
    return momentum, slope


def _handed_up(system: System, of_node: Callable, there: tuple[Fields, ...], *acting: Mapping[str, Array]) -> list[Fields]:
    """`of_node` gives, of what is `there` at the parents and what is `acting` on the child, what acts on the parents."""
    totals = [dict(fields) for fields in acting]
    for name in reversed(system.mapping_order):
        mapping = system.mappings[name]
        on, given = mapping.parents, [total.pop(mapping.child) for total in totals]
        fields = *(at_nodes(on, field) for field in there), *given
        sums = sums_at_nodes(on, there[0], times=len(totals))
        shares = over_elements(mapping, on, of_mapping(of_node, mapping, system.dofs), *fields, sums=sums)
        totals = [with_sums(total, on, share) for total, share in zip(totals, shares, strict=True)]
    return totals
