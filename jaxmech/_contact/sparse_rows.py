"""`H`: how gaps and slips move with the main states, as few blocks for each contact, through all mappings."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._math.small_matmul import times_blocks
from .._model.constraint_projection import project
from .._model.dynamics import Fields, kinematics, zero_forces
from .._model.mapping_jacobian import mapping_jacobian
from .._model.system import System
from .._runtime.array_types import Array
from .contact_set import ContactSet

Part = tuple[Array, Array]  # nodes (n, k), blocks (n, 3, k, d)


class SparseRows(eqx.Module):
    """Of each main state that contacts move: the nodes `(n, k)` of every contact, and the blocks of `H` there
    `(n, 3, k, d)`. A node that a contact has twice adds up; what a contact lacks is a block of zeros."""

    parts: dict[str, Part]

    @classmethod
    def of(cls, contacts: ContactSet, system: System, start: Fields, position: Fields) -> tuple["SparseRows", Array]:
        """Those of the coordinates since `start`, at positions of the main states; and these coordinates `(n, 3)` [m]."""
        x = kinematics(system, position)
        x0 = x if start is position else kinematics(system, start)
        groups, at = zip(*[_of_contact(contacts, name, system, x0, x) for name in contacts.contacts], strict=True)
        first = 0
        found: dict[str, list[Part]] = {}
        for name, group in zip(contacts.contacts, groups, strict=True):
            n = contacts.touching[name].pair.shape[0]
            for state, (nodes, blocks) in group.items():
                blocks = blocks * contacts.touching[name].held[:, None, None, None]
                around = ((first, contacts.held.shape[0] - first - n), (0, 0))
                padded = jnp.pad(nodes, around), jnp.pad(blocks, (around[0], (0, 0), (0, 0), (0, 0)))
                found.setdefault(state, []).append(padded)
            first += n
        rows = cls({s: _folded(parts) for s, parts in sorted(found.items())})
        return rows, jnp.concatenate(at) * contacts.held[:, None]

    def projected(self, system: System, position: Fields) -> "SparseRows":
        """`H P`: what constraints on nodes hold does not move."""
        return SparseRows({s: _projected(system, s, position, part) for s, part in self.parts.items()})

    def sizes(self) -> "SparseRows":
        """`|H|`, number by number."""
        return SparseRows({s: (nodes, jnp.abs(blocks)) for s, (nodes, blocks) in self.parts.items()})

    def across(self, x: Fields, n: int) -> Array:
        """`H x` `(n, 3)`."""
        total = jnp.zeros((n, 3), jnp.result_type(*x.values()))
        for s, (nodes, blocks) in self.parts.items():
            total = total + jnp.einsum("nikd,nkd->ni", blocks, x[s][nodes])
        return total

    def pushed(self, r: Array, like: Fields) -> Fields:
        """`H^T r`."""
        result = {s: jnp.zeros_like(a) for s, a in like.items()}
        for s, (nodes, blocks) in self.parts.items():
            result[s] = result[s].at[nodes].add(jnp.einsum("nikd,ni->nkd", blocks, r))
        return result

    def dense(self, like: Fields, n: int) -> Fields:
        """Row by row, `(3n, nodes, d)` of every state."""
        result = {s: jnp.zeros((n, 3, *a.shape), a.dtype) for s, a in like.items()}
        for s, (nodes, blocks) in self.parts.items():
            result[s] = result[s].at[jnp.arange(n)[:, None], :, nodes].add(jnp.swapaxes(blocks, 1, 2))
        return {s: rows.reshape(3 * n, *rows.shape[2:]) for s, rows in result.items()}

    def on_diagonal(self, state: str, G: Array) -> tuple[Array, Array]:
        """The blocks of `H^T G H` `(n, k, d, d)` on the diagonal of a state, at its nodes `(n, k)`; `G` `(n, 3, 3)`."""
        nodes, blocks = self.parts[state]
        return nodes, jnp.einsum("nikd,nij,njke->nkde", blocks, G, blocks)

    def flat(self, offsets: dict[str, int]) -> tuple[Array, Array]:
        """The numbers of the unknowns `(n, m)` of each contact in a flat system, and its rows `(n, 3, m)`."""
        places, rows = [], []
        for s, (nodes, blocks) in self.parts.items():
            d = blocks.shape[-1]
            places.append((offsets[s] + d * nodes[..., None] + jnp.arange(d)).reshape(nodes.shape[0], -1))
            rows.append(blocks.reshape(*blocks.shape[:2], -1))
        return jnp.concatenate(places, axis=1), jnp.concatenate(rows, axis=2)


def _of_contact(contacts: ContactSet, name: str, system: System, x0: Fields, x: Fields) -> tuple[dict[str, Part], Array]:
    """The rows of one contact at all states, taken to the main ones, and its coordinates."""
    contact, pair = contacts.contacts[name], contacts.touching[name].pair
    on = jax.vmap(lambda k: tuple(nodes for _, nodes in contact.places(k)))(pair)
    states = [state for state, _ in contact.places(pair[0])]
    at = tuple(x[s][nodes] for s, nodes in zip(states, on, strict=True))
    dofs = [system.dofs[s] for s in states]

    def of_pair(k: Array, at: tuple[Array, ...]) -> Any:
        def moved(d: tuple[Array, ...]) -> tuple[Array, Array]:
            places = tuple(jax.vmap(dof.retract_near)(a, b) for dof, a, b in zip(dofs, at, d, strict=True))
            c = contact.coordinates_of(k, x0, places)
            return c, c

        zero = tuple(jnp.zeros((a.shape[0], dof.deriv_size), a.dtype) for dof, a in zip(dofs, at, strict=True))
        return jax.jacrev(moved, has_aux=True)(zero)

    blocks, coordinates = jax.vmap(of_pair)(pair, at)
    pending: dict[str, list[Part]] = {}
    for part in zip(states, on, blocks, strict=True):
        pending.setdefault(part[0], []).append(part[1:])
    for mapping_name in reversed(system.mapping_order):
        mapping = system.mappings[mapping_name]
        if mapping.child not in pending:
            continue
        nodes, blocks = _joined(pending.pop(mapping.child))
        for parent, J in zip(mapping.parents, mapping_jacobian(system, mapping_name, x), strict=True):
            above = parent.nodes.reshape(parent.nodes.shape[0], -1)[nodes]
            product = times_blocks(jnp.swapaxes(blocks, 1, 2)[:, :, None], J[nodes])  # (n, k, p, 3, b)
            product = product.reshape(product.shape[0], -1, *product.shape[3:])
            pending.setdefault(parent.state, []).append((above.reshape(above.shape[0], -1), jnp.swapaxes(product, 1, 2)))
    return {s: _joined(parts) for s, parts in pending.items()}, coordinates


def _joined(parts: list[Part]) -> Part:
    """Side by side."""
    return jnp.concatenate([nodes for nodes, _ in parts], axis=1), jnp.concatenate([b for _, b in parts], axis=2)


def _folded(parts: list[Part]) -> Part:
    """Parts of other contacts each, one over the other: as wide as the widest."""
    width = max(nodes.shape[1] for nodes, _ in parts)
    wide = [
        (
            jnp.pad(nodes, ((0, 0), (0, width - nodes.shape[1]))),
            jnp.pad(blocks, ((0, 0), (0, 0), (0, width - nodes.shape[1]), (0, 0))),
        )
        for nodes, blocks in parts
    ]
    return sum(nodes for nodes, _ in wide), sum(blocks for _, blocks in wide)  # pyright: ignore[reportReturnType]


def _projected(system: System, state: str, position: Fields, part: Part) -> Part:
    if not any(c.on[0].state == state for c in system.projections.values()):
        return part
    nodes, blocks = part
    zero = zero_forces(system, {s: position[s] for s in system.main_states})
    columns = [project(system, {**zero, state: zero[state].at[:, i].set(1.0)})[state] for i in range(blocks.shape[-1])]
    P = jnp.stack(columns, axis=-1)
    return nodes, jnp.einsum("nika,nkab->nikb", blocks, P[nodes])
