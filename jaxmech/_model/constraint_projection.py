"""Projective constraints as one block-diagonal projector `P` on vectors, and as `P A P + (I - P)` on matrices.

The treatment of Dirichlet conditions of warp.fem and many others: point, axis and plane alike, nothing added to the
pattern, symmetric matrices stay symmetric.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._constraint.base import AbstractProjectiveConstraint
from .._math.indexing import add_nearest, add_rows, all_within, marked, nearest_rows, put_nearest, take_rows
from .._runtime.array_types import Array, Bool, Int
from .._runtime.host_arrays import as_data
from .._scene.parameter import is_concrete, over_elements
from .._sparse.block_matrix import BlockMatrix, Pair
from .._sparse.triplets import Triplets
from .dynamics import Fields
from .system import State, System

_COMMUTE = 1e-9  # projectors whose commutator is smaller than this are taken to commute


def node_projectors(system: System, constraint: AbstractProjectiveConstraint) -> Array:
    """`P` of every node of one constraint, `(e, d, d)`."""
    dof = system.dofs[constraint.on[0].state]
    nodes = constraint.on[0].nodes
    return over_elements(constraint, constraint.on, lambda c, _: c.element_projector(dof), nodes)


def _marked_projectors(system: System, constraint: AbstractProjectiveConstraint, nodes: int, dtype: Any) -> Array:
    """The same, NaN if it names a node that is not one of these. What is read, multiplied by them and written back is then
    NaN too, and need not ask."""
    return marked(node_projectors(system, constraint).astype(dtype), all_within((constraint.on[0].nodes, nodes)))


def project(system: System, vectors: Mapping[str, Array]) -> Fields:
    """`P v`."""
    return _through(system, vectors, system.projections.values())


def constrained_product(system: System, product: Callable[[Fields], Fields], u: Fields) -> Fields:
    """`P A P u + (I - P) u`, `product(u)` being `A u`.

    What is held is taken off by a projection of its own, after the other: the transpose comes to it first, and adds no ones
    to what `A^T` makes, which may be far smaller than their rounding.
    """
    moved = project(system, product(project(system, u)))
    free = project(system, u)
    return {s: moved[s] + (u[s] - free[s]) for s in u}  # a sum that rounds to u would lose what a row moves


def _through(system: System, vectors: Mapping[str, Array], constraints: Iterable[AbstractProjectiveConstraint]) -> Fields:
    result = dict(vectors)
    for constraint in constraints:
        on = constraint.on[0]
        whole = result[on.state]
        free = constraint.free_components(system.dofs[on.state])
        if free is not None:
            result[on.state] = whole * _free_entries(on.nodes, free, whole)
            continue
        P = _marked_projectors(system, constraint, whole.shape[0], whole.dtype)
        moved = jnp.einsum("eij,ej->ei", P, nearest_rows(whole, on.nodes))
        result[on.state] = put_nearest(whole, on.nodes, moved)
    return result


def _free_entries(nodes: Array, free: tuple[bool, ...], whole: Array) -> Array:
    """1 where an entry is free, 0 where it is held: no motion changes it, so that a loop of steps finds it once, and a
    product is less to compile than rows that are read, multiplied and written back, and so is its transpose."""
    held = np.broadcast_to(np.asarray(free, whole.dtype), (nodes.shape[0], len(free)))
    held = marked(jnp.asarray(held), all_within((nodes, whole.shape[0])))
    return put_nearest(jnp.ones(whole.shape, whole.dtype), nodes, held)


def constrained_gap(system: System, position: Mapping[str, Array], start: Mapping[str, Array]) -> Fields:
    """`(I - P) (start - x)` of the constraints that keep nodes where they start; what others prescribe is left out."""
    constraints = system.projections.values()
    back = {s: jax.vmap(system.dofs[s].local)(x, start[s]) for s, x in position.items()}
    back = _through(system, back, [c for c in constraints if not c.is_homogeneous])
    free = _through(system, back, [c for c in constraints if c.is_homogeneous])
    return {s: back[s] - free[s] for s in back}


def prescribed(system: System, position: Mapping[str, Array], time: Array) -> Fields:
    """`(I - P) u`: the displacements that take the constrained nodes to where they must be at `time`."""
    result = {s: jnp.zeros((x.shape[0], system.dofs[s].deriv_size), x.dtype) for s, x in position.items()}
    for constraint in system.projections.values():
        if constraint.is_homogeneous:
            continue
        on = constraint.on[0]
        dof = system.dofs[on.state]

        def target(c, x, dof=dof):
            u = c.element_target(dof, x, time)
            return u - c.element_projector(dof) @ u

        u = over_elements(constraint, constraint.on, target, take_rows(position[on.state], on.nodes))
        result[on.state] = add_rows(result[on.state], on.nodes, u.astype(result[on.state].dtype))
    return result


def led(system: System, vectors: Mapping[str, Array]) -> Fields:
    """The part of vectors in directions in which motions are prescribed."""
    free = _through(system, vectors, [c for c in system.projections.values() if not c.is_homogeneous])
    return {s: v - free[s] for s, v in vectors.items()}


def has_prescribed_motion(system: System) -> bool:
    """Whether a constraint may ask for a displacement that is not zero."""
    return any(not c.is_homogeneous for c in system.projections.values())


class Touched(eqx.Module):
    """The blocks of one pair of states whose row, or column, one constraint acts on; `local` is its element number."""

    constraint: str = eqx.field(static=True)
    pair: Pair = eqx.field(static=True)
    side: str = eqx.field(static=True)
    blocks: Int[Array, " t"]
    local: Int[Array, " t"]


ConstrainedNodes = Mapping[
    str, tuple[str, np.ndarray]
]  # the state of every constraint, and its nodes in the order of its elements


def constrained_nodes(system: System) -> ConstrainedNodes:
    """Where the constraints of a scene act."""
    return {name: (c.on[0].state, np.asarray(c.on[0].nodes)) for name, c in system.projections.items()}


def touched_blocks(
    constrained: ConstrainedNodes, entries: Mapping[Pair, tuple[np.ndarray, np.ndarray]]
) -> tuple[Touched, ...]:
    """For every constraint, the rows and columns of each pair that it acts on. Host work."""
    found = []
    for name, (state, nodes) in constrained.items():
        order = np.argsort(nodes, kind="stable")
        for pair, (rows, columns) in entries.items():
            for side, own, places in (("row", pair[0], rows), ("column", pair[1], columns)):
                if own != state or nodes.size == 0:
                    continue
                at = np.minimum(np.searchsorted(nodes[order], places), nodes.size - 1)
                hit = nodes[order][at] == places
                blocks = np.flatnonzero(hit).astype(np.int32)
                local = order[at[hit]].astype(np.int32)
                found.append(Touched(name, pair, side, as_data(blocks), as_data(local)))
    return tuple(found)


def constrain_matrix(system: System, touched: tuple[Touched, ...], matrix: BlockMatrix) -> BlockMatrix:
    """`P A P + (I - P)`, on the touched blocks only."""
    values = {pair: entry.values for pair, entry in matrix.entries.items()}
    right = _touch_what_is_there(system, touched, matrix)
    projectors = {
        name: marked(node_projectors(system, c).astype(matrix.dtype), right) for name, c in system.projections.items()
    }
    for t in touched:
        P = nearest_rows(projectors[t.constraint], t.local)
        v = values[t.pair]
        block = nearest_rows(v, t.blocks)
        # A product that XLA:CPU (0.10) merges into the write overwrites what it has yet to read; a call it does not merge.
        moved = jnp.einsum("tij,tjk->tik", P, block) if t.side == "row" else jnp.einsum("tij,tjk->tik", block, P)
        values[t.pair] = put_nearest(v, t.blocks, moved)
    for state in {c.on[0].state for c in system.projections.values()}:
        values[state, state] = _with_unit_diagonal(system, state, matrix, projectors, values[state, state])
    entries = {pair: eqx.tree_at(lambda e: e.values, matrix.entries[pair], values[pair]) for pair in values}
    return replace(matrix, entries=entries)


def _touch_what_is_there(system: System, touched: tuple[Touched, ...], matrix: BlockMatrix) -> Bool[Array, ""]:
    """Whether all these numbers are those of blocks and nodes: asked once, of what all that is written is multiplied by."""
    bounds = []
    for t in touched:
        bounds += [
            (t.local, system.projections[t.constraint].on[0].elements),
            (t.blocks, matrix.entries[t.pair].values.shape[0]),
        ]
    for on in (c.on[0] for c in system.projections.values()):
        entry = matrix.entries[on.state, on.state]
        bounds.append((on.nodes, entry.pattern.shape[0]))
        if entry.pattern.diagonal is not None:
            bounds.append((entry.pattern.diagonal, entry.values.shape[0]))
    return all_within(*bounds)


def _with_unit_diagonal(
    system: System, state: str, matrix: BlockMatrix, projectors: Mapping[str, Array], values: Array
) -> Array:
    """Add `I - P`."""
    pattern = matrix.entries[state, state].pattern
    assert pattern.diagonal is not None
    free = _state_projectors(system, state, pattern.shape[0], projectors, matrix.dtype)
    complement = jnp.eye(values.shape[-1], dtype=matrix.dtype) - free
    return add_nearest(values, pattern.diagonal, complement)


def _state_projectors(system: System, state: str, nodes: int, projectors: Mapping[str, Array], dtype: Any) -> Array:
    """`P` of every node of a state `(n, d, d)`: the product of the (commuting) projectors that hold it."""
    d = system.dofs[state].deriv_size
    free = jnp.broadcast_to(jnp.eye(d, dtype=dtype), (nodes, d, d))
    for name, constraint in system.projections.items():
        if constraint.on[0].state == state:
            on = constraint.on[0].nodes
            known = constraint.free_components(system.dofs[state])
            if known is not None:
                free = _free_entries(on, known, free[:, 0])[:, :, None] * free
                continue
            free = put_nearest(free, on, jnp.einsum("eij,ejk->eik", projectors[name], nearest_rows(free, on)))
    return free


def free_entries(system: System, vectors: Mapping[str, Array]) -> Fields | None:
    """The diagonal of `P`, 1 where an entry is free, of every node; None where nothing is held, or not all is known."""
    found = {s: jnp.ones_like(v) for s, v in vectors.items()}
    for constraint in system.projections.values():
        on = constraint.on[0]
        free = constraint.free_components(system.dofs[on.state])
        if free is None:
            return None
        found[on.state] = found[on.state] * _free_entries(on.nodes, free, vectors[on.state])
    return found if system.projections else None


def free_directions(system: System, vectors: Mapping[str, Array]) -> Fields | None:
    """`P` of every node of every state; None where nothing is held."""
    if not system.projections:
        return None
    size = {s: v.shape[0] for s, v in vectors.items()}
    projectors = {
        name: _marked_projectors(system, c, size[c.on[0].state], vectors[c.on[0].state].dtype)
        for name, c in system.projections.items()
    }
    return {s: _state_projectors(system, s, size[s], projectors, v.dtype) for s, v in vectors.items()}


def constrain_triplets(system: System, x: Mapping[str, Array], triplets: Triplets) -> Triplets:
    """`P A P` of unassembled blocks; the states that no constraint holds keep theirs. `x`: positions of every state."""
    projectors = {
        name: _marked_projectors(system, c, x[s].shape[0], x[s].dtype)
        for name, c in system.projections.items()
        if (s := c.on[0].state) in triplets.states
    }
    rows, columns = (_state_projectors(system, s, x[s].shape[0], projectors, x[s].dtype) for s in triplets.states)
    P, Q = take_rows(rows, triplets.rows), take_rows(columns, triplets.columns)
    return Triplets(triplets.states, triplets.rows, triplets.columns, P @ triplets.blocks @ Q)


def check_constraints(system: System, state: State) -> None:
    """Raise `ValueError` where one constraint names a node twice, or two constraints of a node disagree."""
    earlier: list[str] = []
    for name, constraint in system.projections.items():
        on = constraint.on[0]
        nodes = np.asarray(on.nodes)
        if np.unique(nodes).size != nodes.size:
            twice = np.bincount(nodes).argmax()
            raise ValueError(f"'{name}' names node {twice} of state '{on.state}' more than once.")
        if not is_concrete(*jax.tree.leaves(constraint)):
            continue
        for other in earlier:
            first = system.projections[other]
            if first.on[0].state == on.state:
                _, i, j = np.intersect1d(np.asarray(first.on[0].nodes), nodes, return_indices=True)
                if i.size:  # projectors are programs to compile: only those that must agree are looked at
                    _check_shared(system, (other, name), nodes[j], (i, j))
        earlier.append(name)


def _check_shared(system: System, names: tuple[str, str], nodes: np.ndarray, places: tuple[np.ndarray, np.ndarray]) -> None:
    """Raise where two constraints disagree on the nodes that both name, which are of these numbers among their own."""
    both = [system.projections[name] for name in names]
    P, Q = (np.asarray(node_projectors(system, c))[at] for c, at in zip(both, places, strict=True))
    moves = not all(c.is_homogeneous for c in both)
    for node, p, q in zip(nodes, P, Q, strict=True):
        _check_pair(names, node, p, q, moves)


def _check_pair(names: tuple[str, str], node: int, P: np.ndarray, Q: np.ndarray, moves: bool) -> None:
    if np.abs(P @ Q - Q @ P).max() > _COMMUTE:
        raise ValueError(
            f"'{names[0]}' and '{names[1]}' restrict node {node} in oblique directions; give that node one constraint "
            "that holds both."
        )
    overlap = np.abs((np.eye(len(P)) - P) @ (np.eye(len(P)) - Q)).max() > _COMMUTE
    if overlap and moves:
        raise ValueError(
            f"'{names[0]}' and '{names[1]}' disagree: both prescribe the same direction of node {node}, and at least one "
            "of them moves it. Leave the node to one of them."
        )
