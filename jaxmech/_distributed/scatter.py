"""A scene that one rank makes and no other ever has: each is sent its part."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._model.system import State, System
from .._runtime.argument_checks import check_instance
from .._scene.stencil import Stencil
from .division import EACH, Division, Part, check_can_be_divided, components_of_leaves, kind_of_leaf, owners_of
from .ranks import Halo, summed, world


def scatter(make: Callable[[], tuple[System, State]], owners: Any = None) -> tuple[System, State, Division]:
    """A scene of which every rank of MPI has its part alone, and how it is divided: `make()` is called on the first only.

    `make` gives a system and a state. What comes back, the part of both, goes into `static_solve_over_ranks` and
    `simulate_over_ranks` with the division, in place of a whole scene, and the state that they give is the part's: nodes
    `division.nodes[state]` of the whole, the first `division.owned[state]` this rank's; `division.whole(fields)` gathers.
    No rank but the first, and that only until all have theirs, needs the memory of the whole scene. `owners` as in
    `divide`, on the first rank.

    Reverse mode differentiates the sum over the ranks of what each makes of its own nodes; derivatives by shared numbers are
    the same on every rank, those by numbers of elements and of nodes are whole wherever such a row is. Raises what `divide`
    raises, and what `make` raises, on every rank; `TypeError` where it gives something else. No units.
    Source: M. J. Berger and S. H. Bokhari, IEEE Trans. Comput. 36 (1987) 570, doi:10.1109/TC.1987.1676942.

    Example:

        try:
            own, start, division = jm.distributed.scatter(lambda: (system, state))
        except ImportError as error:
            assert "jaxmech[mpi]" in str(error)
        else:
            assert start.position["cube"].shape[0] == division.nodes["cube"].size
    """
    comm = world()
    failed, parts = None, None
    try:
        parts = _parts(make, owners, comm.size) if comm.rank == 0 else None
    except Exception as error:  # the others wait for it
        failed = error
    failed = comm.bcast(failed)
    if failed is not None:
        raise failed
    from mpi4py.util import pkl5  # pyright: ignore[reportMissingImports]

    lines = pkl5.Intracomm(comm)  # of messages of any size
    if parts is None:
        part, scene = lines.recv(source=0)
    else:
        part, scene = next(parts)
        for rank, others in enumerate(parts, 1):
            lines.send(others, rank)
    system, state = jax.tree.map(lambda a: jnp.asarray(a) if isinstance(a, np.ndarray) else a, scene)
    return system, state, ScatteredDivision(comm, part, system, state)


def _parts(make: Any, owners: Any, size: int) -> Any:
    """One after the other the parts of all ranks, and what they have of the scene; checked first."""
    made = make()
    if not (isinstance(made, tuple) and len(made) == 2):
        raise TypeError(f"scatter: make must give a system and a state, got {type(made).__name__}.")
    system, state = made
    check_instance("scatter", "system", system, System)
    check_instance("scatter", "state", state, State)
    check_can_be_divided("scatter", system, state)
    whose = owners_of(system, state, owners, size)

    def part_of(rank: int) -> tuple[Part, tuple[System, State]]:
        part = Part.of(system, state, whose, rank)
        leaves, form = jax.tree.flatten((system, state.position, state.velocity, state.time))
        rows = [*part.rows(system), *(part.nodes[s] for field in (state.position, state.velocity) for s in field), None]
        own = [_own(a, r) for a, r in zip(leaves, rows, strict=True)]
        there, position, velocity, time = form.unflatten(own)
        return part, (there, State(position, velocity, time))

    return (part_of(rank) for rank in range(size))


def _own(leaf: Any, rows: Any) -> Any:
    if rows is None:
        return np.asarray(leaf) if eqx.is_array(leaf) else leaf
    return np.asarray(rows[1]) if isinstance(rows, tuple) else np.asarray(leaf)[rows]


class ScatteredDivision(Division):
    """The part that this rank was sent. Scenes and states are those of the part."""

    def __init__(self, comm: Any, part: Part, system: System, state: State):
        self._begin(comm, part, system, state.position)
        shared = partial(summed, comm)
        of_nodes = {s: partial(self._over_nodes, s) for s in part.nodes}
        of_elements = {key: self._over_elements(part, key, component) for key, component in _components(system).items()}
        self._sums: list[Any] = []
        for key, component, path, leaf in components_of_leaves(system):
            kind = None if component is None else kind_of_leaf(component, path, leaf)
            of_rows = of_nodes[kind[1]] if isinstance(kind, tuple) else of_elements[key] if kind == EACH else shared
            self._sums.append(None if isinstance(kind, Stencil) else of_rows)
        self._sums += [of_nodes[s] for field in (state.position, state.velocity) for s in field] + [shared]

    def part(self, system: System, state: State) -> tuple[System, State]:
        """As they are; in reverse mode the sum over the ranks."""
        leaves, form = jax.tree.flatten((system, state.position, state.velocity, state.time))
        real = [i for i, a in enumerate(leaves) if eqx.is_inexact_array(a) and self._sums[i] is not None]
        for i, a in zip(real, _same([leaves[i] for i in real], [self._sums[i] for i in real]), strict=True):
            leaves[i] = a
        system, position, velocity, time = form.unflatten(leaves)
        return system, State(position, velocity, time)

    def result(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields

    def owned_rows(self, state: str) -> tuple[int, np.ndarray]:
        return self.nodes[state].size, np.arange(self.owned[state])

    def _over_nodes(self, state: str, a: np.ndarray) -> np.ndarray:
        return _everywhere(self.halo, state, a)

    def _over_elements(self, part: Part, key: Any, component: Any) -> Any:
        """What adds up the rows of elements that several ranks have: one of them, who has the first node, and tells."""
        on = component.on[0]
        owner = np.concatenate([np.full(part.owned[on.state], self.rank), part.whose[on.state]])
        first = np.asarray(on.nodes).reshape(part.kept[key].size, -1)[:, 0] if part.kept[key].size else np.zeros(0, int)
        others = owner[first] != self.rank
        order = np.argsort(others, kind="stable")
        count = int((~others).sum())
        halo = Halo(self.comm, {"": part.kept[key][order]}, {"": count}, {"": owner[first][order][count:]})

        def total(a: np.ndarray) -> np.ndarray:
            found = np.empty_like(a)
            found[order] = _everywhere(halo, "", a[order])
            return found

        return total


def _components(system: System) -> dict[Any, Any]:
    return {key: component for key, component, _, _ in components_of_leaves(system) if key is not None}


def _everywhere(halo: Halo, name: str, a: np.ndarray) -> np.ndarray:
    """Rows summed at their owner, who tells all that have them."""
    rows = {name: a.reshape(a.shape[0], -1)}
    return halo.filled(halo.returned(rows))[name].reshape(a.shape)


@eqx.filter_custom_vjp
def _same(leaves: list[Any], sums: list[Any]) -> list[Any]:
    del sums
    return leaves


@_same.def_fwd
def _same_fwd(perturbed: Any, leaves: list[Any], sums: list[Any]) -> tuple[list[Any], None]:
    del perturbed, sums
    return leaves, None


@_same.def_bwd
def _same_bwd(residuals: Any, rates: Any, perturbed: Any, leaves: list[Any], sums: list[Any]) -> list[Any]:
    del residuals
    total: list[Any] = [None] * len(leaves)
    for i, (leaf, rate) in enumerate(zip(leaves, rates, strict=True)):
        if perturbed[i]:
            mine = np.zeros(leaf.shape, leaf.dtype) if rate is None else np.asarray(rate)
            total[i] = jnp.asarray(sums[i](mine), leaf.dtype)
    return total
