"""A scene divided among devices of JAX: each has nodes of its own, every element that touches one, and ghosts.

All parts have arrays of the same sizes, for one program serves them: what a part has fewer of is filled up with copies of
the first element of all, on ghosts of its own, whose rows nobody reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from scipy import sparse

from .._linear_solver.base.rigid_body_modes import rigid_body_modes
from .._linear_solver.preconditioner.rigid_bodies import BodyLevels, PartOfBodies, coloured
from .._linear_system.compatibility import check_topology, signature, topology
from .._model.system import State, System
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Bool, Int
from .._runtime.devices import PARTS, checked_devices
from .device_rows import fixed, gathered
from .division import check_can_be_divided, families, kept_elements, rows_of_leaf
from .partition import bisected
from .taken_rows import Places, taken

_BODY = 80  # nodes that move as one on the coarse level


class Halo(eqx.Module):
    """What a part reads of others: its ghosts follow the nodes that it owns."""

    sent: Int[Array, "parts k"]  # own nodes, for each part
    place: Int[Array, " ghosts"]  # where, among what has come from all parts, each ghost is
    own: Bool[Array, " n"]  # the nodes that have rows here

    def filled(self, x: Array) -> Array:
        """With what their owners have, at the ghosts."""
        come = jax.lax.all_to_all(x[self.sent], PARTS, 0, 0)
        ghosts = come.reshape(-1, *x.shape[1:])[self.place]
        return jnp.concatenate([x[: x.shape[0] - ghosts.shape[0]], ghosts])

    def masked(self, x: Array) -> Array:
        """Nil where no row is."""
        return jnp.where(self.own.reshape(-1, *(1,) * (x.ndim - 1)), x, 0)


@dataclass(frozen=True)
class _Part:
    """Nodes of the whole scene that a part has: its own ones, and for each component where its elements are."""

    own: np.ndarray
    nodes: np.ndarray
    kept: dict[tuple[str, str], np.ndarray]  # its elements, and then copies of the first one
    spare: dict[tuple[str, str], tuple[int, int]]  # how many are no copies, and the first ghost of the copies


class DeviceDivision:
    """A scene's parts on devices. Made by `jm.distributed.divide_over_devices`.

    `nodes` `(parts, n)`: the nodes of the whole scene that each part has; `devices`: where they are. Not a pytree.
    """

    def __init__(self, system: System, state: State, devices: Sequence[Any]):
        (self.state,), self.size = state.position, len(devices)
        self.mesh = jax.make_mesh((self.size,), (PARTS,), axis_types=(AxisType.Auto,), devices=devices)
        self._built_for = signature(system), topology(system)
        points = np.asarray(state.position[self.state], np.float64)
        owner = bisected(points, self.size)
        parts = self._parts(system, owner)
        self.owned = max(part.own.size for part in parts)
        self.nodes = np.stack([part.nodes for part in parts])
        self.is_own = np.arange(self.nodes.shape[1]) < np.array([[part.own.size] for part in parts])
        self._rows = self._rows_of(system, parts)
        halo = self._halo(owner, parts)
        bodies, levels = self._bodies(system, points, parts)
        self.tables = self.put((halo, bodies), True), self.put(levels, False)

    def put(self, tree: Any, divided: Any) -> Any:
        """Arrays on the devices: their rows divided by part, or whole on each."""
        at = NamedSharding(self.mesh, PartitionSpec(PARTS) if divided else PartitionSpec())
        return jax.tree.map(lambda a: jax.device_put(a, at) if eqx.is_array(a) else a, tree)

    def _parts(self, system: System, owner: np.ndarray) -> list[_Part]:
        found = []
        for p in range(self.size):
            mine = {self.state: owner == p}
            kept = kept_elements(system, mine)
            there = mine[self.state].copy()
            for (family, name), rows in kept.items():
                for stencil in families(system)[family][name].on:
                    there[np.asarray(stencil.nodes)[rows].ravel()] = True
            for name, constraint in system.constraints.items():
                kept["constraints", name] = np.flatnonzero(there[np.asarray(constraint.on[0].nodes)])
            found.append((np.flatnonzero(mine[self.state]), np.flatnonzero(there & ~mine[self.state]), kept))
        owned = max(own.size for own, _, _ in found)
        ghosts = max(others.size for _, others, _ in found)
        most = {key: max(kept[key].size for _, _, kept in found) for key in found[0][2]}
        first, spare = owned + ghosts, []
        copied = []
        for (family, name), count in most.items():
            on = families(system)[family][name].on
            copied += [np.asarray(s.nodes)[:1].ravel() for s in on if count]
            spare.append(first)
            first = owned + ghosts + sum(a.size for a in copied)
        tail = np.concatenate([np.zeros(0, int), *copied])
        return [
            _Part(
                own,
                np.concatenate([np.resize(own, owned), np.resize(others if others.size else own, ghosts), tail]),
                {key: np.concatenate([rows, np.zeros(most[key] - rows.size, int)]) for key, rows in kept.items()},
                {key: (rows.size, at) for (key, rows), at in zip(kept.items(), spare, strict=True)},
            )
            for own, others, kept in found
        ]

    def _rows_of(self, system: System, parts: list[_Part]) -> list[Any]:
        """Of each leaf of the scene the rows of every part; the renumbered nodes of a stencil; None, of what is shared."""
        found = []
        for path, leaf in jax.tree_util.tree_flatten_with_path(system)[0]:
            family = getattr(path[0], "name", "")
            if family not in families(system):
                found.append(None)
                continue
            key = family, path[1].key
            component = families(system)[family][key[1]]
            each = [self._rows_of_leaf(component, path[2:], leaf, part, key) for part in parts]
            renumbered = isinstance(each[0], tuple)
            found.append(None if each[0] is None else (np.stack([a[1] for a in each]),) if renumbered else np.stack(each))
        return found

    def _rows_of_leaf(self, component: Any, path: Any, leaf: Any, part: _Part, key: tuple[str, str]) -> Any:
        new = np.zeros(int(self.nodes.max()) + 1, np.int32)
        here = part.nodes[: self.owned + self._ghosts(part)]
        new[here[::-1]] = np.arange(here.size - 1, -1, -1)  # of what is there twice, the first
        rows = rows_of_leaf(component, path, leaf, part.kept[key], {self.state: part.nodes}, {self.state: new})
        if not isinstance(rows, tuple):
            return rows
        count, first = part.spare[key]
        numbers = np.array(rows[1])
        for stencil in component.on:
            if stencil.nodes is leaf:
                numbers[count:] = first if numbers.ndim == 1 else first + np.arange(numbers.shape[1])
                break
            first += stencil.nodes_per_element
        return rows[0], numbers

    def _ghosts(self, part: _Part) -> int:
        return min(first for _, first in part.spare.values()) - self.owned

    def _halo(self, owner: np.ndarray, parts: list[_Part]) -> Halo:
        wanted = [part.nodes[self.owned :] for part in parts]
        lists = [[np.unique(ghosts[owner[ghosts] == q]) for ghosts in wanted] for q in range(self.size)]
        most = max(1, max(a.size for of_part in lists for a in of_part))
        sent, place = np.zeros((self.size, self.size, most), np.int32), np.zeros((self.size, wanted[0].size), np.int32)
        for q, of_part in enumerate(lists):
            for p, a in enumerate(of_part):
                sent[q, p, : a.size] = np.searchsorted(parts[q].own, a)
                at = np.flatnonzero(owner[wanted[p]] == q)
                place[p, at] = q * most + np.searchsorted(a, wanted[p][at])
        return Halo(sent, place, self.is_own)  # pyright: ignore[reportArgumentType]

    def _bodies(self, system: System, points: np.ndarray, parts: list[_Part]) -> tuple[PartOfBodies, BodyLevels]:
        """Nodes that lie together, as many bodies in every part."""
        d, count = points.shape[1], -(-self.owned // _BODY)
        body = np.zeros(len(points), np.int64)
        for p, part in enumerate(parts):
            body[part.own] = p * count + bisected(points[part.own], count)
        total = count * self.size
        members = np.maximum(np.bincount(body, minlength=total), 1)
        centre = np.stack([np.bincount(body, a, total) / members for a in points.T], 1)
        arms = points - centre[body]
        unit = float(np.sqrt(np.mean(arms**2))) or 1.0
        basis = rigid_body_modes(arms / unit, d)
        whole = rigid_body_modes(centre / unit, d)
        turns = np.broadcast_to(np.eye(whole.shape[2])[d:], (total, whole.shape[2] - d, whole.shape[2]))
        touching, node_colour = _touching(system, body, total), coloured(_touching(system, np.arange(len(body)), len(body)))
        pairs = np.repeat(np.arange(total, dtype=np.int32), np.diff(touching.indptr)), touching.indices.astype(np.int32)
        modes = np.concatenate([whole, turns], 1)
        levels = BodyLevels.build(*pairs, modes, self.size, int(node_colour.max()) + 1)
        own = self.is_own[:, :, None, None]
        here = PartOfBodies(
            (body[self.nodes] % count * self.is_own).astype(np.int32),  # pyright: ignore[reportArgumentType]
            np.where(own, basis[self.nodes], 0.0),  # pyright: ignore[reportArgumentType]
            node_colour[self.nodes],  # pyright: ignore[reportArgumentType]
            self.is_own,  # pyright: ignore[reportArgumentType]
        )
        return here, levels

    def part(self, system: System, state: State) -> tuple[tuple[System, dict[str, Array], Array], tuple[bool, ...]]:
        """All parts of a scene of this topology and of the positions of a state, one for each device; and which of the
        leaves have a row for each part. In reverse mode the sum over the parts."""
        leaves, form = jax.tree.flatten((system, state.position, state.time))
        rows = [*self._rows, self.nodes, None]
        real = [i for i, a in enumerate(leaves) if eqx.is_inexact_array(a) and not isinstance(rows[i], tuple)]
        own = [None if i in real else fixed(a, r) for i, (a, r) in enumerate(zip(leaves, rows, strict=True))]
        own = [self.put(a, r is not None) for a, r in zip(own, rows, strict=True)]
        places = Places([rows[i] for i in real], self.put, lambda a: a)
        for i, a in zip(real, taken([leaves[i] for i in real], places), strict=True):
            own[i] = a
        return form.unflatten(own), tuple(r is not None for r in rows)

    def check(self, who: str, system: System) -> None:
        """Raise `ValueError` unless a scene is of the topology that this was made of."""
        check_topology(f"the division given to {who}", self._built_for, system)

    def whole(self, rows: Array, like: Array) -> Array:
        """An array of all nodes, of those that each part owns `(parts, owned, ...)`."""
        return gathered(rows, like, self)


def divide_over_devices(system: System, state: State, devices: Sequence[Any] | None = None) -> DeviceDivision:
    """A scene divided among `devices` (those that JAX has), for `static_solve_over_devices`. Host work.

    Boxes of nodes are cut in two across their longest side until there is one for each device, which has every element that
    touches one of them. It serves every scene of the same topology. A GPU needs no room for the scene as it is given: make
    it under `jax.default_device(jax.devices("cpu")[0])`.

    Raises `ValueError` for what is not divided yet (several states, states that are no points, mappings, multipliers, laws
    with memory), for more devices than nodes, and under `jit`; `TypeError` for devices that are none; `ImportError` without
    pyamg (extra `amg`). No units.
    Source: M. J. Berger and S. H. Bokhari, IEEE Trans. Comput. 36 (1987) 570, doi:10.1109/TC.1987.1676942.

    Example:

        division = jm.distributed.divide_over_devices(system, state)
        assert division.nodes.shape[0] == len(jax.devices())
    """
    who = "divide_over_devices"
    check_instance(who, "system", system, System)
    check_instance(who, "state", state, State)
    devices = checked_devices(who, devices)
    check_can_be_divided(who, system, state)
    ((name, x),) = state.position.items() if len(state.position) == 1 else (("", None),)
    if x is None or system.dofs[name].deriv_size != x.shape[1] or not system.dofs[name].is_vector_space:
        raise ValueError(f"{who}: a scene of one state of points is divided, and this one has {sorted(state.position)}.")
    if len(devices) > x.shape[0]:
        raise ValueError(f"{who}: {len(devices)} devices for {x.shape[0]} nodes.")
    return DeviceDivision(system, state, devices)


def _touching(system: System, group: np.ndarray, count: int) -> Any:
    """Which groups of nodes have elements of force fields in common, each with itself."""
    total = sparse.identity(count, np.float32, format="csr")
    for field in system.forces.values():
        nodes = np.concatenate([np.asarray(s.nodes).reshape(s.elements, -1) for s in field.on], 1)
        starts = np.arange(0, nodes.size + 1, nodes.shape[1])
        inside = sparse.csr_matrix((np.ones(nodes.size, np.float32), group[nodes].ravel(), starts), (len(nodes), count))
        total = total + inside.T @ inside
    total = total.tocsr()
    total.sort_indices()
    return total
