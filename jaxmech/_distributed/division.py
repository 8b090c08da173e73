"""A scene divided among ranks: each has the nodes that it owns, and every element that touches one of them.

So the rows of its nodes, of forces and of matrices, are whole: they are assembled as in any other scene, and nothing is
summed over ranks. The other nodes of its elements are ghosts, whose positions it is told. What a scene's numbers are
differentiated by is a sum over ranks of what the rows of each say.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._linear_system.compatibility import check_topology, signature, topology
from .._model.system import State, System
from .._runtime.argument_checks import check_instance
from .._scene.internal import remembers
from .._scene.parameter import declaration, is_concrete
from .._scene.stencil import Stencil
from .partition import bisected
from .ranks import Halo, summed, world
from .taken_rows import Places, taken

_SHARED = None  # rows of a leaf that every element has
EACH, NODE = "each", "node"  # what a leaf has a row for


@dataclass(frozen=True)
class Part:
    """What one rank has of a scene: of each state its `nodes`, the first `owned` of them its own, and `whose` the others
    are; the elements that it has `kept` of each component; and how many nodes there are in all."""

    count: dict[str, int]
    nodes: dict[str, np.ndarray]
    owned: dict[str, int]
    whose: dict[str, np.ndarray]
    kept: dict[tuple[str, str], np.ndarray]

    @classmethod
    def of(cls, system: System, state: State, owners: dict[str, np.ndarray], rank: int) -> "Part":
        mine = {s: a == rank for s, a in owners.items()}
        kept = kept_elements(system, mine)
        there = {s: a.copy() for s, a in mine.items()}
        for key, rows in kept.items():
            for stencil in families(system)[key[0]][key[1]].on:
                there[stencil.state][np.asarray(stencil.nodes)[rows].ravel()] = True
        ghosts = {s: np.flatnonzero(there[s] & ~a) for s, a in mine.items()}
        nodes = {s: np.concatenate([np.flatnonzero(a), ghosts[s]]).astype(np.int32) for s, a in mine.items()}
        for name, constraint in system.constraints.items():
            on = constraint.on[0]
            kept["constraints", name] = np.flatnonzero(there[on.state][np.asarray(on.nodes)])
        count = {s: x.shape[0] for s, x in state.position.items()}
        owned = {s: int(a.sum()) for s, a in mine.items()}
        return cls(count, nodes, owned, {s: owners[s][a] for s, a in ghosts.items()}, kept)

    def rows(self, system: System) -> list[Any]:
        """Of each leaf of the scene the rows that the part has, or the renumbered nodes of a stencil."""
        new = {s: np.zeros(n, np.int32) for s, n in self.count.items()}
        for s, nodes in self.nodes.items():
            new[s][nodes] = np.arange(nodes.size)
        rows = []
        for key, component, path, leaf in components_of_leaves(system):
            is_shared = component is None
            rows.append(_SHARED if is_shared else rows_of_leaf(component, path, leaf, self.kept[key], self.nodes, new))
        return rows


class Division:
    """The part of a scene that this rank has. Made by `jm.distributed.divide`, on every rank of the same scene, or by
    `jm.distributed.scatter`.

    `rank`, of `size`; `nodes` `{state: node numbers}` of the whole scene, the first `owned` of them its own.
    Not a pytree.
    """

    def __init__(self, comm: Any, system: System, state: State, owners: dict[str, np.ndarray]):
        part = Part.of(system, state, owners, comm.rank)
        self._rows = part.rows(system)
        self._begin(comm, part, system, {s: np.asarray(x)[part.nodes[s]] for s, x in state.position.items()})

    def _begin(self, comm: Any, part: Part, system: System, here: dict[str, Any]) -> None:
        self.comm, self.rank, self.size = comm, comm.rank, comm.size
        self.count, self.nodes, self.owned, self.kept = part.count, part.nodes, part.owned, part.kept
        self.halo = Halo(comm, part.nodes, part.owned, part.whose)
        self.solvers: dict[Any, Any] = {}  # of PETSc, by pattern
        self.linear_systems: dict[Any, Any] = {}  # of the part, by their terms
        self._built_for = signature(system), topology(system)
        here = {s: jnp.asarray(x) for s, x in here.items()}
        still = {s: jnp.zeros((x.shape[0], system.dofs[s].deriv_size), x.dtype) for s, x in here.items()}
        self.example = State(here, still, jnp.zeros((), next(iter(here.values())).dtype))

    def part(self, system: System, state: State) -> tuple[System, State]:
        """The part of a scene of this topology, and of a state; in reverse mode the sum over the ranks."""
        leaves, structure = jax.tree.flatten(system)
        fields = (state.position, state.velocity)
        values, form = jax.tree.flatten((leaves, *fields, state.time))
        rows = form.flatten_up_to((self._rows, self.nodes, self.nodes, None))
        real = [i for i, a in enumerate(values) if eqx.is_inexact_array(a) and not isinstance(rows[i], tuple)]
        # Node numbers are no part of what is differentiated: JAX would take them for varied.
        own = [r[1] if isinstance(r, tuple) else a for a, r in zip(values, rows, strict=True)]
        places = Places([rows[i] for i in real], lambda a, _: jnp.asarray(a), partial(summed, self.comm))
        found = taken([values[i] for i in real], places)
        for i, a in zip(real, found, strict=True):
            own[i] = a
        leaves, position, velocity, time = form.unflatten(own)
        return structure.unflatten(leaves), State(position, velocity, time)

    def check(self, who: str, system: System) -> None:
        """Raise `ValueError` unless a scene is of the topology that this was made of."""
        check_topology(f"the division given to {who}", self._built_for, system)

    def whole(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Arrays of all nodes `{state: (nodes, ...)}` on every rank, of those of the part."""
        return _gathered(fields, self)

    def result(self, fields: dict[str, Any]) -> dict[str, Any]:
        """What a solution is handed out as, of arrays of all nodes of the part."""
        return self.whole(fields)

    def owned_rows(self, state: str) -> tuple[int, np.ndarray]:
        """How many nodes a state has in scenes as they are given, and which of them are this rank's."""
        return self.count[state], self.nodes[state][: self.owned[state]]

    def norm(self, fields: dict[str, Any]) -> float:
        """The 2-norm of all rows, each counted by its owner."""
        return float(np.sqrt(summed(self.comm, np.array(sum(np.sum(a**2) for a in self.of_owned(fields).values())))))

    def of_owned(self, fields: dict[str, Any]) -> dict[str, np.ndarray]:
        """The rows of nodes that this rank owns."""
        return {s: np.asarray(a)[: self.owned[s]] for s, a in fields.items()}

    def masked(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Rows of owned nodes, and nothing at the ghosts."""
        return {s: np.concatenate([a, np.zeros((self.nodes[s].size - len(a), *a.shape[1:]))]) for s, a in fields.items()}

    def everywhere(self, fine: bool) -> bool:
        """Whether all ranks say so."""
        return bool(summed(self.comm, np.array(int(not fine))) == 0)


def divide(system: System, state: State, owners: Any = None) -> Division:
    """A scene divided among the ranks of MPI: `mpiexec -n 4 python scene.py`, in which every rank makes the same scene.

    Each rank owns nodes, and has the elements that touch them. `owners` `{state: (nodes,)}`: the rank of every node, of
    METIS say; unless given, boxes of nodes are cut in two across their longest side until there is one for each rank. It
    serves every scene of the same topology.

    A rank that fails ends the others. Raises `ValueError` for what is not divided yet (mappings, multipliers, laws with
    memory), for owners that are none, and under `jit`; `ImportError` without mpi4py and petsc4py. No units.
    Source: M. J. Berger and S. H. Bokhari, IEEE Trans. Comput. 36 (1987) 570, doi:10.1109/TC.1987.1676942.

    Example:

        try:
            division = jm.distributed.divide(system, state)
        except ImportError as error:
            assert "jaxmech[mpi]" in str(error)
        else:
            assert division.nodes["cube"].size >= division.owned["cube"]
    """
    check_instance("divide", "system", system, System)
    check_instance("divide", "state", state, State)
    check_can_be_divided("divide", system, state)
    comm = world()
    return Division(comm, system, state, owners_of(system, state, owners, comm.size))


def check_can_be_divided(who: str, system: System, state: State) -> None:
    """Raise `ValueError` for what is not divided yet, and under `jit`."""
    left_out = {
        "mappings": list(system.mappings),
        "multipliers": list(system.multiplier_states),
        "laws with memory": [name for name, field in system.forces.items() if remembers(field)],
    }
    for what, names in left_out.items():
        if names:
            raise ValueError(f"{who}: {what} are not divided yet, and this scene has {names}.")
    if not is_concrete(*jax.tree.leaves(state.position)):
        raise ValueError(f"{who} needs positions that are not traced: call it outside of jit, and before they are varied.")


def owners_of(system: System, state: State, owners: Any, size: int) -> dict[str, np.ndarray]:
    """Those that are given, or those of all nodes together, where they are."""
    count = {s: x.shape[0] for s, x in state.position.items()}
    if owners is not None:
        check_instance("divide", "owners", owners, dict)
        found = {s: np.asarray(owners[s]) if s in owners else np.zeros(0) for s in count}
        for s, a in found.items():
            if a.shape != (count[s],) or a.dtype.kind not in "iu" or (a.size and not 0 <= a.min() <= a.max() < size):
                raise ValueError(f"divide: owners['{s}'] must be {count[s]} numbers of ranks, 0 to {size - 1}.")
        return found
    points = np.concatenate([_places(x) for x in state.position.values()])
    ends = np.cumsum(list(count.values()))[:-1]
    return dict(zip(count, np.split(bisected(points, size), ends), strict=True))


def _places(x: Any) -> np.ndarray:
    """Where nodes are, in three coordinates."""
    x = np.asarray(x, np.float64)[:, :3]
    return np.pad(x, ((0, 0), (0, 3 - x.shape[1])))


def families(system: System) -> dict[str, dict[str, Any]]:
    return {"forces": system.forces, "masses": system.masses, "constraints": system.constraints}


def kept_elements(system: System, mine: dict[str, np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
    """The elements of force fields and masses that touch an owned node."""
    kept = {}
    for family in ("forces", "masses"):
        for name, component in families(system)[family].items():
            touched = np.zeros(component.on[0].elements, bool)
            for stencil in component.on:
                own = mine[stencil.state][np.asarray(stencil.nodes)]
                touched |= own if own.ndim == 1 else own.any(axis=1)
            kept[family, name] = np.flatnonzero(touched).astype(np.int32)
    return kept


def components_of_leaves(system: System) -> list[tuple[Any, Any, Any, Any]]:
    """Of each leaf of the scene the family and name of its component, that, the path within it, and the leaf; None of what
    belongs to none."""
    named, found = families(system), []
    for path, leaf in jax.tree_util.tree_flatten_with_path(system)[0]:
        family = getattr(path[0], "name", "")
        key = (family, path[1].key) if family in named else None
        found.append((key, None if key is None else named[family][key[1]], path[2:], leaf))
    return found


def rows_of_leaf(component: Any, path: Any, leaf: Any, kept: np.ndarray, nodes: dict, new: dict) -> Any:
    """The rows of one leaf of a component; for the nodes of a stencil, a pair of them and the numbers in the part."""
    kind = kind_of_leaf(component, path, leaf)
    if isinstance(kind, Stencil):
        return kept, jnp.asarray(new[kind.state][np.asarray(leaf)[kept]])
    return nodes[kind[1]] if isinstance(kind, tuple) else kept if kind == EACH else _SHARED


def kind_of_leaf(component: Any, path: Any, leaf: Any) -> Any:
    """The stencil whose nodes it is; `EACH`, of a row for each element; `(NODE, state)`, for each node; None, of what all
    elements share."""
    owner = component
    for key in path:
        if isinstance(owner, Stencil):
            break
        owner = getattr(owner, key.name) if hasattr(key, "name") else owner[key.idx if hasattr(key, "idx") else key.key]
    if isinstance(owner, Stencil):
        return owner
    kind = declaration(component, path)
    if kind is None or not eqx.is_array(leaf):
        return _SHARED
    if kind[0] == NODE:
        return NODE, component.on[kind[2]].state
    return EACH if kind[0] == EACH or leaf.ndim > kind[1] else _SHARED


@eqx.filter_custom_vjp
def _gathered(fields: dict[str, Any], division: Division) -> dict[str, Any]:
    mine = (division.of_owned(fields), {s: division.nodes[s][: division.owned[s]] for s in fields})
    whole = {s: np.zeros((division.count[s], *np.shape(a)[1:])) for s, a in fields.items()}
    for values, nodes in division.comm.allgather(mine):
        for s, a in values.items():
            whole[s][nodes[s]] = a
    return {s: jnp.asarray(a, fields[s].dtype) for s, a in whole.items()}


@_gathered.def_fwd
def _gathered_fwd(perturbed: Any, fields: dict[str, Any], division: Division) -> tuple[dict[str, Any], None]:
    del perturbed
    return _gathered(fields, division), None


@_gathered.def_bwd
def _gathered_bwd(residuals: Any, rates: Any, perturbed: Any, fields: Any, division: Division) -> dict[str, Any]:
    """Every rank has the same rates of all, and takes those of its own nodes."""
    del residuals, perturbed
    found = {}
    for s, a in fields.items():
        rate = np.zeros(a.shape, a.dtype)
        if rates.get(s) is not None:
            rate[: division.owned[s]] = np.asarray(rates[s])[division.nodes[s][: division.owned[s]]]
        found[s] = jnp.asarray(rate)
    return found
