"""Components that differ in nothing but their numbers, evaluated together: each would be traced and compiled by itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._codegen import NodeRows, TotalSums, map_elements
from .._runtime.array_types import Array
from .dof import AbstractDof
from .parameter import element_leaves, over_elements
from .stencil import Stencil, at_nodes, gathered

K = TypeVar("K")
MOST_JOINED = 64  # elements of one component, whose rows are copied to stand beside those of the others
_COPIED = 4096  # numbers at most, of one that all its elements share, once they are written down for each


def over_alike(
    components: Mapping[K, Any],
    dofs: Mapping[str, AbstractDof],
    function: Callable[[Any, list[AbstractDof]], Callable],
    *fields: Mapping[str, Array],
) -> dict[K, Any]:
    """`over_elements` of `function(component, dofs)`, for each of several components: of an element, and of the rows of its
    nodes in each of the fields. `dofs`: those of its stencils.

    Few elements of components of one class, with the same options and numbers of the same shapes, are those of one, however
    many each has; but where a function asks how many there are, each is evaluated by itself.
    """
    found = {}
    for keys in groups_of_alike(components, dofs):
        members = [components[key] for key in keys]
        of_element = function(members[0], [dofs[s.state] for s in members[0].on])
        try:
            outcomes = _of_group(members, of_element, fields)
        except _AsksHowMany:
            outcomes = [_of_group([member], of_element, fields)[0] for member in members]
        found |= zip(keys, outcomes, strict=True)
    return {key: found[key] for key in components}


def total_over_alike(
    components: Mapping[K, Any],
    dofs: Mapping[str, AbstractDof],
    function: Callable[[Any, list[AbstractDof]], Callable],
    *fields: Mapping[str, Array],
) -> Array:
    """The sum of `over_alike` over the elements of all components, `(m,)`, of a function that gives `(1, m)`."""
    totals = []
    for keys in groups_of_alike(components, dofs):
        members = [components[key] for key in keys]
        of_element = function(members[0], [dofs[s.state] for s in members[0].on])
        try:
            totals.append(_total_of_group(members, of_element, fields))
        except _AsksHowMany:
            totals += [_total_of_group([member], of_element, fields) for member in members]
    return sum(totals[1:], totals[0])


def groups_of_alike(components: Mapping[K, Any], dofs: Mapping[str, AbstractDof]) -> list[list[K]]:
    """Which components are evaluated together."""
    groups: dict[Any, list[K]] = {}
    for key, component in components.items():
        joins = len(components) > 1 and _may_be_copied(component)
        groups.setdefault(_structure(component, dofs) if joins else id(component), []).append(key)
    return list(groups.values())


def _may_be_copied(component: Any) -> bool:
    """Whether it has few elements, and they share few numbers: the weights of a network are not written down for each."""
    e = component.on[0].elements
    if e > MOST_JOINED:
        return False
    view = element_leaves(component, component.on)
    shared = (a for a, axis in zip(view.values, view.axes, strict=True) if axis is None and eqx.is_inexact_array(a))
    return all(e * a.size <= _COPIED for a in shared)


def _structure(component: Any, dofs: Mapping[str, AbstractDof]) -> Any:
    """What components that are evaluated together have in common: all but their numbers, and the names of their states."""
    unnamed = jax.tree.map(lambda s: s.nodes if _is_stencil(s) else s, component, is_leaf=_is_stencil)
    kinds = tuple(dofs[s.state] for s in component.on)
    structure = jax.tree.structure((unnamed, kinds))
    view = element_leaves(component, component.on)
    parts = zip(view.values, view.axes, _are_stencils(component), strict=True)
    own = tuple(_form(a, of_elements=axis is not None or nodes) for a, axis, nodes in parts)
    return structure, own, tuple(id(a) for a in jax.tree.leaves(kinds))  # numbers of a state are those of no other


def _form(leaf: Any, *, of_elements: bool) -> Any:
    """Of an array its type and shape, that of one element if it is `of_elements`; what is none is itself."""
    if not (eqx.is_array(leaf) or isinstance(leaf, NodeRows)):
        return id(leaf)
    return of_elements, leaf.shape[1:] if of_elements else leaf.shape, leaf.dtype


def _are_stencils(component: Any) -> list[bool]:
    """Of each leaf, whether it is the numbers of the nodes of a stencil."""
    return [_is_stencil(part) for part in jax.tree.leaves(component, is_leaf=_is_stencil)]


def _is_stencil(part: Any) -> bool:
    return isinstance(part, Stencil)


class _AsksHowMany(Exception):
    """An element function depends on the elements of its component, as a volume of which each face has a share."""


class _OfSeveral(eqx.Module):
    """A stencil of components that are evaluated together, which has the elements of all."""

    stencil: Stencil

    @property
    def elements(self) -> int:
        raise _AsksHowMany

    @property
    def nodes(self) -> Array:
        raise _AsksHowMany

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stencil, name)


def _seen_together(component: Any) -> Any:
    return jax.tree.map(lambda s: _OfSeveral(s) if _is_stencil(s) else s, component, is_leaf=_is_stencil)


def _of_group(members: Sequence[Any], function: Callable, fields: Sequence[Mapping[str, Array]]) -> list[Any]:
    if len(members) == 1:
        return [_evaluated(members, function, fields)]
    counts = [member.on[0].elements for member in members]
    ends, outcome = np.cumsum(counts), _evaluated(members, function, fields)
    return [jax.tree.map(lambda a, i=i, e=e: a[i - e : i], outcome) for i, e in zip(ends, counts, strict=True)]


def _total_of_group(members: Sequence[Any], function: Callable, fields: Sequence[Mapping[str, Array]]) -> Array:
    sums = TotalSums.of(sum(member.on[0].elements for member in members))
    return jnp.sum(_evaluated(members, function, fields, sums), axis=0)


def _evaluated(
    members: Sequence[Any], function: Callable, fields: Sequence[Mapping[str, Array]], sums: TotalSums | None = None
) -> Any:
    """What the elements of all members give, one after the other; or their sums."""
    first = members[0]
    if len(members) == 1:
        return over_elements(first, first.on, function, *(at_nodes(first.on, field) for field in fields), sums=sums)
    counts = [member.on[0].elements for member in members]
    views = [element_leaves(member, member.on) for member in members]
    columns = zip(*(view.values for view in views), strict=True)
    kinds = zip(columns, views[0].axes, _are_stencils(first), strict=True)
    joined = [(jnp.concatenate(c), None) if nodes else _joined(c, axis, counts) for c, axis, nodes in kinds]
    view, axes = (views[0].structure.unflatten(part) for part in zip(*joined, strict=True))
    rows = [jax.tree.map(lambda *a: jnp.concatenate(a), *(gathered(c.on, field) for c in members)) for field in fields]
    axes = axes, *(0 for _ in fields)
    return map_elements(lambda m, *a: function(_seen_together(m), *a), axes, view, *rows, sums=sums)


def _joined(column: Sequence[Any], axis: int | None, counts: Sequence[int]) -> tuple[Any, int | None]:
    """A leaf of several components as that of one, and its axis of elements."""
    first = column[0]
    if axis is not None:
        return jnp.concatenate([a.whole() if isinstance(a, NodeRows) else a for a in column]), axis
    if all(a is first for a in column):
        return first, None
    return jnp.concatenate([jnp.broadcast_to(a, (e, *a.shape)) for a, e in zip(column, counts, strict=True)]), 0
