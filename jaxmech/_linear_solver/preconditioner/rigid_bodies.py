"""Multigrid of an operator that is known by its products: the coarse level moves groups of nodes as rigid bodies.

Whatever is needed of a matrix is read from products with vectors that are nil but at nodes (or bodies) of one colour: those
that share a colour have no neighbour in common, so that every number that comes back belongs to one of them. Nodes may be
divided among devices; bodies lie within a part, and the matrix of the bodies, which is small, stands on every device.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._math.indexing import take_rows
from ..._math.small_matmul import times_vectors
from ..._runtime.array_types import Array, Bool, Float, Int
from ..._runtime.devices import of_all_parts, part_number
from ..._runtime.host_arrays import as_data
from ..._sparse.block_sparse import BlockSparse
from ..._sparse.pattern import BlockPattern
from ..base.outcome import FINE
from .aggregation import AggregationLevel, aggregation_levels
from .base import AbstractApplied, AbstractPreconditioner
from .multigrid_cycle import Hierarchy, cycle, hierarchy, hierarchy_numbers
from .multigrid_values import diagonal_inverse, largest_eigenvalue, with_unit_diagonal

_SMOOTHER = "chebyshev"
_SMOOTHING = 4  # steps before and after the correction by bodies: they have far more nodes than aggregates of a matrix
_BELOW = 2
_FURTHER = 1.6  # times what the bodies say: motions that break at their edges are stiffer than what they stand for


class BodyLevels(eqx.Module):
    """The bodies of all parts, as many in each, and the levels above them. The same on every device."""

    colour: Int[Array, " B"]
    pattern: BlockPattern  # which bodies have elements in common
    plan: tuple[AggregationLevel, ...]
    modes: Float[Array, "B m q"]  # what strains nothing, in the motions of the bodies
    parts: int = eqx.field(static=True)
    most: int = eqx.field(static=True)  # blocks in the rows of a part
    colours: int = eqx.field(static=True)
    node_colours: int = eqx.field(static=True)

    @classmethod
    def build(cls, rows: np.ndarray, columns: np.ndarray, modes: np.ndarray, parts: int, node_colours: int) -> "BodyLevels":
        """Of pairs of bodies that touch, each once and in order. Host work; `ImportError` without pyamg."""
        count, m = modes.shape[:2]
        pattern = BlockPattern.build(rows, columns, (count, count))
        graph = _graph(rows, columns, count)
        colour = coloured(graph @ graph)
        plan = aggregation_levels(pattern, m, modes.shape[2], None)
        most = int(np.diff(np.asarray(pattern.row_starts)[:: count // parts]).max())
        return cls(as_data(colour), pattern, plan, as_data(modes), parts, most, int(colour.max()) + 1, node_colours)


class PartOfBodies(eqx.Module):
    """What one part has: the body of each of its nodes, how they move with it, and their colours."""

    body: Int[Array, " n"]
    basis: Float[Array, "n b m"]
    colour: Int[Array, " n"]
    own: Bool[Array, " n"]  # the nodes that have rows here


class RigidBodies(AbstractPreconditioner):
    """One symmetric cycle: Chebyshev's polynomials of the products, and the motions of bodies, by smoothed aggregation.

    Source: D. Braess, Computing 55 (1995) 379, doi:10.1007/BF02238488 (corrections that go further); P. Vanek, J. Mandel,
    M. Brezina, Computing 56 (1996) 179, doi:10.1007/BF02238511.
    """

    levels: BodyLevels
    part: PartOfBodies

    definite = True
    indefinite = True

    def build(self, operator: Any) -> "_Cycle":
        (state,) = operator.in_structure()
        part, count = self.part, self.levels.modes.shape[0] // self.levels.parts
        mv = eqx.Partial(_product, operator, state)
        blocks = _diagonal(mv, part, self.levels.node_colours)
        inverse = jnp.where(part.own[:, None, None], diagonal_inverse(blocks, points=False), 0)
        fine = _Products(mv, inverse, largest_eigenvalue(mv, inverse), part, count)
        coarse = BlockSparse(_coarse_values(fine, self.levels), self.levels.pattern)
        plan, dtype = self.levels.plan, jnp.dtype(jnp.float32)
        numbers = hierarchy_numbers(plan, coarse, self.levels.modes, smoother=_SMOOTHER, dtype=dtype)
        make = hierarchy(plan, coarse.pattern, numbers, smoothing=_BELOW, smoother=_SMOOTHER)
        return _Cycle(state, fine, make, jnp.int32(FINE))


class _Products(eqx.Module):
    """The finest level: products, the inverse of the diagonal, and what bodies make of it."""

    mv: Callable[[Array], Array]
    inverse: Float[Array, "n b b"]
    largest: Array
    part: PartOfBodies
    count: int = eqx.field(static=True)  # bodies of a part

    def of_bodies(self, r: Array) -> Array:
        """The forces on the bodies of this part."""
        return jax.ops.segment_sum(times_vectors(self.part.basis.swapaxes(1, 2), r), self.part.body, self.count)

    def restricted(self, r: Array) -> Array:
        every = of_all_parts(self.of_bodies(r))
        return every.reshape(-1, every.shape[-1])

    def prolonged(self, coarse: Array) -> Array:
        own = jax.lax.dynamic_slice_in_dim(coarse, part_number() * self.count, self.count)
        return times_vectors(self.part.basis, take_rows(own, self.part.body))


class _Cycle(AbstractApplied):
    state: str = eqx.field(static=True)
    fine: _Products
    coarse: Hierarchy
    flaw: Array

    def __call__(self, r):
        def below(forces: Array) -> Array:
            return _FURTHER * self.coarse(forces)

        return {self.state: cycle(self.fine, r[self.state], below, _SMOOTHING, _SMOOTHER)}

    def transpose(self):
        return self


def _product(operator: Any, state: str, x: Array) -> Array:
    return operator.mv({state: x})[state]


def _diagonal(mv: Callable[[Array], Array], part: PartOfBodies, colours: int) -> Array:
    """The diagonal blocks: no two neighbours share a colour."""
    n, b = part.basis.shape[:2]

    def of_colour(blocks: Array, colour: Array) -> tuple[Array, None]:
        there = (part.colour == colour) & part.own
        columns = jax.lax.map(lambda axis: mv(jnp.where(there[:, None], axis, 0)), jnp.eye(b, dtype=blocks.dtype))
        return jnp.where(there[:, None, None], jnp.moveaxis(columns, 0, 2), blocks), None

    none = jnp.zeros((n, b, b), part.basis.dtype)
    return jax.lax.scan(of_colour, none, jnp.arange(colours, dtype=part.colour.dtype))[0]


def _coarse_values(fine: _Products, levels: BodyLevels) -> Array:
    """`T^T A T` of the bodies: of each part the rows of its own, brought together."""
    m = levels.modes.shape[1]

    def of_colour(number: Array) -> Array:
        colour, axis = number // m, number % m
        motion = (levels.colour == colour)[:, None] & (jnp.arange(m) == axis)
        return fine.of_bodies(fine.mv(fine.prolonged(motion.astype(fine.inverse.dtype))))

    answers = jax.lax.map(of_colour, jnp.arange(levels.colours * m, dtype=levels.colour.dtype))
    pattern, most = levels.pattern, levels.most
    first = pattern.row_starts[: -1 : fine.count]  # of the blocks of each part
    at = jnp.minimum(first[part_number()] + jnp.arange(most, dtype=first.dtype), pattern.blocks - 1)
    rows, columns = take_rows(pattern.rows, at), take_rows(pattern.columns, at)
    asked = take_rows(levels.colour, columns) * m
    own = jnp.stack([answers[asked + k, rows % fine.count] for k in range(m)], 2)
    place = jnp.arange(pattern.blocks, dtype=first.dtype)
    whose = pattern.rows // fine.count
    return with_unit_diagonal(of_all_parts(own)[whose, place - first[whose]], pattern)


def _graph(rows: np.ndarray, columns: np.ndarray, count: int) -> Any:
    from scipy import sparse

    return sparse.csr_matrix((np.ones(rows.size, np.float32), (rows, columns)), shape=(count, count))


def coloured(graph: Any) -> np.ndarray:
    """Colours of which no two neighbours have the same, from 0 on. `ImportError` without pyamg."""
    try:
        from pyamg.graph import vertex_coloring  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError('Multigrid without a matrix needs pyamg: pip install "jaxmech[amg]".') from error
    return np.asarray(vertex_coloring(graph.tocsr(), method="MIS"), np.int32)
