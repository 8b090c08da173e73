"""What elements give their nodes: the rows of each or, of many, sums at the nodes, added up where the rows are made."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import equinox as eqx

from .._codegen import NodeSums
from .._runtime.array_types import Array
from .alike import MOST_JOINED, over_alike
from .dof import AbstractDof
from .parameter import over_elements
from .stencil import Stencil, at_nodes, summed

K = TypeVar("K")


class Given(eqx.Module):
    """What the elements of a component give each of its stencils: rows `(elements, ...)`, or sums `(nodes, ...)`."""

    parts: tuple[Array, ...]
    is_summed: bool = eqx.field(static=True)

    def onto(self, total: Mapping[str, Array], stencils: tuple[Stencil, ...]) -> dict[str, Array]:
        """`total` with all that added at the nodes."""
        return (with_sums if self.is_summed else summed)(total, stencils, self.parts)


def given_by(component: Any, function: Callable, *fields: Mapping[str, Array], times: int = 1) -> tuple[Any, bool]:
    """`over_elements` of a function of the rows of fields, which gives each stencil so many things; and whether these are
    sums at the nodes."""
    on, are_sums = component.on, adds_where_made(component.on, fields[0])
    sums = sums_at_nodes(on, fields[0], times) if are_sums else None
    return over_elements(component, on, function, *(at_nodes(on, field) for field in fields), sums=sums), are_sums


def given_over_alike(
    components: Mapping[K, Any],
    dofs: Mapping[str, AbstractDof],
    function: Callable[[Any, list[AbstractDof]], Callable],
    *fields: Mapping[str, Array],
    times: int = 1,
) -> dict[K, tuple[Any, bool]]:
    """The same of several components, as `over_alike` evaluates them."""
    many = {key for key, c in components.items() if adds_where_made(c.on, fields[0])}
    few = over_alike({key: c for key, c in components.items() if key not in many}, dofs, function, *fields)

    def given(key: K, c: Any) -> tuple[Any, bool]:
        if key not in many:
            return few[key], False
        return given_by(c, function(c, [dofs[s.state] for s in c.on]), *fields, times=times)

    return {key: given(key, c) for key, c in components.items()}


def adds_where_made(stencils: tuple[Stencil, ...], fields: Mapping[str, Array]) -> bool:
    """Whether elements add to the nodes as they go: to store rows and have XLA add them up takes a tenth to a fifth of the
    time of the forces of tetrahedra. Not those that may be joined with others, nor fewer than the nodes, all passed over."""
    if stencils[0].elements <= MOST_JOINED:
        return False
    return all(s.elements * s.nodes_per_element >= fields[s.state].shape[0] for s in stencils)


def sums_at_nodes(stencils: tuple[Stencil, ...], fields: Mapping[str, Array], times: int = 1) -> NodeSums:
    """The plan by which elements add what they give each stencil at its nodes, so many things each, of which there are as
    many as rows of `fields`."""
    sizes = tuple(fields[s.state].shape[0] for s in stencils)
    return NodeSums(tuple(s.nodes for s in stencils) * times, sizes * times)


def with_sums(total: Mapping[str, Array], stencils: tuple[Stencil, ...], sums: tuple[Array, ...]) -> dict[str, Array]:
    """`total` with what elements gave each stencil, added up at its nodes already."""
    total = dict(total)
    for stencil, part in zip(stencils, sums, strict=True):
        total[stencil.state] = total[stencil.state] + part.astype(total[stencil.state].dtype)
    return total
