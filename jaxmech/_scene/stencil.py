"""Where something acts: a state, and the nodes that each element touches there."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax
import numpy as np

from .._codegen import NodeRows
from .._math.indexing import add_rows, take_rows
from .._runtime.argument_checks import index_array
from .._runtime.array_types import Array
from .._runtime.field_types import Converted, WholeNumbers
from .._runtime.jax_internals import Tracer

_FIELD = "on (or parents, or multiplier)"  # what fields of stencils are called


def _as_nodes(nodes: WholeNumbers) -> Any:
    """Node numbers as a 32-bit integer array; anything but whole numbers that fit is refused."""
    if isinstance(nodes, (jax.Array, np.ndarray, list, tuple, int, range, np.integer)):
        return index_array("Stencil", "nodes", nodes)
    return nodes


class Stencil(eqx.Module):
    """The nodes of one state that each element touches.

    `nodes` of shape `(e,)` names one node per element, and the element function sees that node's coordinates `(c,)`;
    of shape `(e, k)` it names `k` nodes, and the function sees `(k, c)`. Node numbers are data: another mesh of the
    same sizes does not re-compile.

    Raises `TypeError` for numbers that are not whole, `ValueError` for another shape, a negative number or one beyond
    32 bits.
    No units: numbers of nodes. Kept in the field `on` of components, `parents` of mappings.

    Example:

        edges = jm.Stencil("p", [[0, 1], [1, 2]])
        assert edges.elements == 2 and edges.nodes_per_element == 2
    """

    state: str = eqx.field(static=True)
    nodes: Array = eqx.field(converter=_as_nodes)

    def __check_init__(self):
        if not isinstance(self.state, str):
            raise TypeError(f"Stencil: state must be the name of a state, got {self.state!r}.")
        if not isinstance(self.nodes, jax.Array):
            raise TypeError(f"Stencil on '{self.state}': nodes must be an array of node numbers, got {self.nodes!r}.")
        if self.nodes.ndim not in (1, 2):
            raise ValueError(
                f"Stencil on '{self.state}': nodes has shape {self.nodes.shape}, expected (elements,) or "
                "(elements, nodes per element)."
            )
        if not isinstance(self.nodes, Tracer) and self.nodes.size and int(np.asarray(self.nodes).min()) < 0:
            raise ValueError(f"Stencil on '{self.state}': node {int(np.asarray(self.nodes).min())} is negative.")

    @property
    def elements(self) -> int:
        """How many elements there are."""
        return self.nodes.shape[0]

    @property
    def nodes_per_element(self) -> int:
        """How many nodes each element touches here (1 for nodes of shape `(e,)`)."""
        return 1 if self.nodes.ndim == 1 else self.nodes.shape[1]


StencilLike: TypeAlias = Stencil | tuple[str, WholeNumbers]


class Stencils(Converted[tuple[Stencil, ...], StencilLike | Sequence[StencilLike]]):
    """The annotation of a field declared by `stencils()`.

    To a type checker such a field takes what `stencils` says, and holds a tuple of stencils. With `tuple[jm.Stencil, ...]`
    in its place, it wants that. To Python it makes no difference. No units, and nothing is raised: `stencils` does.

    Example:

        assert jm.constraint.Fixed(("cube", [0, 1])).on[0].state == "cube"
    """


def as_stencils(on: Any) -> tuple[Stencil, ...]:
    """A stencil, a pair `(state, nodes)`, or a tuple of those, as a tuple of stencils."""
    if isinstance(on, Stencil):
        return (on,)
    if not isinstance(on, (tuple, list)):
        raise TypeError(
            f"on (or parents, or multiplier) must be (state, nodes), a Stencil, or a tuple of those, got {on!r}."
        )
    if len(on) == 2 and isinstance(on[0], str):
        return (Stencil(on[0], on[1]),)
    stencils = []
    for item in on:
        if isinstance(item, Stencil):
            stencils.append(item)
        elif isinstance(item, (tuple, list)) and len(item) == 2:
            stencils.append(Stencil(item[0], item[1]))
        else:
            raise TypeError(
                f"on (or parents, or multiplier) must be (state, nodes), a Stencil, or a tuple of those, got {item!r} in it."
            )
    if not stencils:
        raise ValueError(f"{_FIELD} must name at least one group of nodes, got an empty tuple.")
    if len({s.elements for s in stencils}) > 1:
        raise ValueError(
            f"every stencil of one component needs the same number of elements, got {[s.elements for s in stencils]}."
        )
    return tuple(stencils)


def stencils(**kwargs: Any) -> Any:
    """Declare the field that says where a component acts: one stencil per group of nodes.

    The field takes a `Stencil`, a pair `(state, nodes)`, or a tuple of those, and holds a tuple of stencils. Raises
    `TypeError` or `ValueError` for anything else, and for stencils of different numbers of elements.
    No units. A pair `(state, nodes)` has `nodes` `(e,)` or `(e, k)`, see `Stencil`.

    Example:

        class Pull(jm.force.AbstractEnergyForceField):
            on: tuple = jm.stencils()

            def element_energy(self, a, b):  # one array for each of two stencils
                return jnp.sum((a - b) ** 2)

        assert [s.state for s in Pull((("p", [0]), ("q", [3]))).on] == ["p", "q"]
    """
    return eqx.field(converter=as_stencils, **kwargs)


class OptionalStencils(Converted["tuple[Stencil, ...] | None", "StencilLike | Sequence[StencilLike] | None"]):
    """The same of a field that may be None."""


def optional_stencils(**kwargs: Any) -> Any:
    """Declare a field of stencils that is None unless given."""
    return eqx.field(converter=lambda on: None if on is None else as_stencils(on), default=None, **kwargs)


def gathered(stencils: tuple[Stencil, ...], fields: Mapping[str, Array]) -> tuple[Array, ...]:
    """The rows of the nodes of each stencil."""
    return tuple(take_rows(fields[s.state], s.nodes) for s in stencils)


def at_nodes(stencils: tuple[Stencil, ...], fields: Mapping[str, Array]) -> tuple[NodeRows, ...]:
    """The same, to be read by the elements that they are given to."""
    return tuple(NodeRows(fields[s.state], s.nodes) for s in stencils)


def summed(total: Mapping[str, Array], stencils: tuple[Stencil, ...], values: tuple[Array, ...]) -> dict[str, Array]:
    """`total` with the element values added at their nodes."""
    total = dict(total)
    for stencil, value in zip(stencils, values, strict=True):
        total[stencil.state] = add_rows(total[stencil.state], stencil.nodes, value)
    return total
