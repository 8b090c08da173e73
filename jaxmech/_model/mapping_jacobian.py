"""What mappings bring to matrices, for every child node: Jacobians, their rates, and geometric stiffness."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._codegen import map_jacobian
from .._forcefield.chart import Arrays, no_displacement, retract_each
from .._mapping.base import AbstractMapping
from .._math.indexing import add_rows, take_rows
from .._math.psd_part import positive_part
from .._math.small_matmul import times_blocks, times_vectors
from .._runtime.array_types import Array
from .._scene.nodal_sums import Given
from .._scene.parameter import element_view, over_elements
from .._scene.stencil import gathered
from . import mapped_node
from .dynamics import Fields, applied_forces
from .subsystem import with_only
from .system import System

Blocks = tuple[Arrays, ...]  # [s][t] of shape (children, *row nodes, row size, *column nodes, column size)
Jacobian = tuple[Array, ...]  # for each parent stencil (children, k, d_child, d_parent)


def mapping_jacobian(system: System, name: str, x: Fields) -> Jacobian:
    """`J = dp/dq` of every child node: for each parent stencil `(children, k, d_child, d_parent)`."""
    mapping = system.mappings[name]
    child, parents = system.dofs[mapping.child], [system.dofs[s.state] for s in mapping.parents]

    def moved(d, m, a):
        return mapped_node.displacement(child, parents, m, a, d)

    places = gathered(mapping.parents, x)
    if interpolates(system, mapping):
        eye = jnp.eye(child.deriv_size, dtype=places[0].dtype)
        return tuple(w[..., None, None] * eye for w in _weights(mapping, jax.tree.map(jnp.zeros_like, places)))
    if mapping.is_linear and all(dof.is_vector_space for dof in parents):
        # The Jacobian does not depend on the positions: read it off where nothing changes in a loop over time.
        places = jax.tree.map(jnp.zeros_like, places)
    return tuple(_by_parent(b) for b in _jacobians(mapping, parents, moved, places))


def interpolates(system: System, mapping: AbstractMapping) -> bool:
    """Whether the blocks of `J` are multiples of the identity."""
    return mapping.is_interpolation and _is_flat(system, mapping)


def _weights(mapping: AbstractMapping, places: Arrays) -> Arrays:
    """The factor of the identity in the blocks of an interpolation: for each parent stencil `(children, k)`."""

    def of_node(m, a):
        return jax.grad(lambda q: m.element_apply(*q)[0])(a)

    first = (w[..., 0] for w in over_elements(mapping, mapping.parents, of_node, places))
    return tuple(w[:, None] if w.ndim == 1 else w for w in first)


def _is_flat(system: System, mapping: AbstractMapping) -> bool:
    """Whether neither the child nor a parent turns."""
    return all(system.dofs[s].is_vector_space for s in (mapping.child, *(p.state for p in mapping.parents)))


def velocity_jacobian(system: System, name: str, x: Fields, v: Fields) -> Jacobian:
    """`d(J v)/dq` of every child node, in the shapes of `mapping_jacobian`."""
    mapping = system.mappings[name]
    child, parents = system.dofs[mapping.child], [system.dofs[s.state] for s in mapping.parents]

    def velocity(d, m, a, u):
        return mapped_node.velocity(child, parents, m, retract_each(parents, a, d), u)

    blocks = _jacobians(mapping, parents, velocity, gathered(mapping.parents, x), gathered(mapping.parents, v))
    return tuple(_by_parent(b) for b in blocks)


def _jacobians(mapping: AbstractMapping, parents: Sequence[Any], function: Callable, places: Arrays, *args: Any) -> Any:
    """The Jacobians of `function(displacements of the parents' nodes, mapping, places, *args)` of every child node."""
    view, axes = element_view(mapping, mapping.parents)
    shapes = tuple((*a.shape[1:-1], dof.deriv_size) for dof, a in zip(parents, places, strict=True))
    return map_jacobian(function, (axes, *(0 for _ in (places, *args))), shapes, view, places, *args)


def _by_parent(block: Array) -> Array:
    """`(children, d_child, [k], d_parent)` to `(children, k, d_child, d_parent)`."""
    return block[:, None] if block.ndim == 3 else block.swapaxes(1, 2)


def geometric_mode(system: System, mapping: AbstractMapping, *, symmetric: bool) -> str:
    """The form of a mapping's geometric stiffness in a matrix: its own, unless that must be or is symmetric anyway."""
    mode = mapping.geometric_stiffness
    return "symmetric" if mode == "exact" and (symmetric or _is_flat(system, mapping)) else mode


def geometric_blocks(system: System, name: str, x: Fields, forces: Array, mode: str) -> Blocks:
    """`G = -d(J^T f)/dq` of every child node of a mapping under its force `f`, in one of the forms of `AbstractMapping`."""
    mapping = system.mappings[name]
    child, parents = system.dofs[mapping.child], [system.dofs[s.state] for s in mapping.parents]

    def work(y, d, m, f):
        return -f @ mapped_node.displacement(child, parents, m, y, d)

    def exactly(d, m, a, f):
        return jax.grad(work, argnums=1)(retract_each(parents, a, d), no_displacement(parents, a), m, f)

    def symmetric(d, m, a, f):
        return jax.grad(lambda d: work(a, d, m, f))(d)

    def stabilized(m, a, f):
        zero = no_displacement(parents, a)
        blocks = jax.jacfwd(lambda d: symmetric(d, m, a, f))(zero)
        return blocks if m.is_convex else _stabilized(blocks, zero)

    places = gathered(mapping.parents, x)
    if mode == "stabilized":
        forces = jnp.where(forces < 0, forces, 0.0) if mapping.is_convex else forces
        return over_elements(mapping, mapping.parents, stabilized, places, forces)
    return _jacobians(mapping, parents, exactly if mode == "exact" else symmetric, places, forces)


def _stabilized(blocks: Blocks, d: Arrays) -> Blocks:
    """The positive semi-definite part of the matrix whose blocks `[s][t]` act on displacements of the shapes of `d`."""
    ends = [sum(a.size for a in d[: s + 1]) for s in range(len(d))]
    rows = [jnp.concatenate([b.reshape(a.size, -1) for b in row], axis=1) for a, row in zip(d, blocks, strict=True)]
    whole = positive_part(jnp.concatenate(rows))
    parts = [jnp.split(row, ends[:-1], axis=1) for row in jnp.split(whole, ends[:-1])]
    shaped = (
        (part.reshape(*a.shape, *b.shape) for part, b in zip(row, d, strict=True)) for row, a in zip(parts, d, strict=True)
    )
    return tuple(tuple(row) for row in shaped)


def on_mapped(system: System, components: Mapping[str, Any]) -> list[str]:
    """The names of those components, forces or masses, that act on mapped states."""
    mapped = {m.child for m in system.mappings.values()}
    return [name for name, component in components.items() if any(s.state in mapped for s in component.on)]


def mapped_forces(
    system: System,
    x: Fields,
    v: Fields,
    jacobians: Mapping[str, Jacobian],
    others: Mapping[str, Array] | None = None,
    known: Mapping[str, Given] | None = None,
) -> Fields:
    """The total force on every mapped state: what acts on it, and what its mapped children hand up.

    `x`, `v`: positions and velocities of every state; `others`: forces that are none of the scene's; `known`: as in
    `applied_forces`.
    """
    part = with_only(system, forces=on_mapped(system, system.force_fields), masses=on_mapped(system, system.masses))
    total = applied_forces(part, x, None, v, known)
    for state, force in (others or {}).items():
        total[state] = total[state] + force
    for name in reversed(system.mapping_order):
        total = handed_up(system, name, jacobians[name], total)
    return total


def handed_up(system: System, name: str, jacobian: Jacobian, forces: Fields) -> Fields:
    """`forces` with `J^T f` of the child of one mapping added to its parents."""
    result = dict(forces)
    mapping = system.mappings[name]
    for parent, blocks in zip(mapping.parents, jacobian, strict=True):
        share = times_vectors(blocks.swapaxes(-1, -2), forces[mapping.child][:, None])
        share = share[:, 0] if parent.nodes.ndim == 1 else share
        result[parent.state] = add_rows(result[parent.state], parent.nodes, share)
    return result


def handed_down(system: System, name: str, jacobian: Jacobian, velocity: Fields) -> Array:
    """`J v`: velocities of the child of one mapping from those of its parents."""
    return columns_handed_down(system, name, jacobian, {s: v[..., None] for s, v in velocity.items()})[..., 0]


def columns_handed_down(system: System, name: str, jacobian: Jacobian, velocities: Fields) -> Array:
    """The same of many, `(nodes, d, columns)` of every state."""
    total: Any = 0.0
    for parent, blocks in zip(system.mappings[name].parents, jacobian, strict=True):
        nodes = parent.nodes[:, None] if parent.nodes.ndim == 1 else parent.nodes
        total = total + times_blocks(blocks, take_rows(velocities[parent.state], nodes)).sum(axis=1)
    return total
