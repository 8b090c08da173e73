"""From the blocks of every pair of states to those of the main states: `J^T (.) J` in index space, leaves first.

A mapped node has few parents, so a block at a mapped row becomes one block per parent: `J^T K`; at a mapped column,
`K J`. The walk goes through the mappings from the last child to the first, reduces duplicates before each expansion, and
adds the geometric stiffness on its way. `Walk.build` runs it on node numbers, once, on the host; `Walk.run` on values.

Forces that depend on the velocities of mapped states, `v = J(q) v_q`, make a second list of blocks, `B`: each time one of
its columns is expanded, `B d(J v)/dq` joins the stiffness.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._math.indexing import take_rows
from .._math.small_matmul import times_blocks
from .._model.mapping_jacobian import Jacobian, interpolates
from .._model.scene_checks import node_counts
from .._model.subsystem import without_idle
from .._model.system import System
from .._model.terms import Factors, Terms
from .._runtime.array_types import Array, Int
from .._runtime.host_arrays import as_data
from .._scene.stencil import Stencil
from .._sparse.block_accumulation import Lists, Places
from .._sparse.block_matrix import Pair
from .._sparse.element_scatter import ElementSums
from .._sparse.gather_reduction import Reduction
from .._sparse.pattern import unique_pairs
from .contributions import component_of, halved
from .element_matrices import Blocks, node_blocks, scaled_matrices
from .evaluation import Evaluation
from .structure import Plan

# List ("A", "B", "H" for halves of a symmetric matrix, "S" for lists that are sums already), row state, column state.
Key = tuple[str, str, str]
_LARGE = 50_000  # blocks of one component that are summed by themselves


class Step(eqx.Module):
    """One expansion: the distinct blocks of a pair of states, and the nodes at which its mapped side stands."""

    key: Key = eqx.field(static=True)
    mapping: str = eqx.field(static=True)
    side: str = eqx.field(static=True)  # "row" or "column"
    reduce: Reduction
    nodes: Int[Array, " blocks"]


class Walk(eqx.Module):
    """The fixed walk of one scene and one `Terms`."""

    plan: Plan = eqx.field(static=True)
    steps: tuple[Step, ...]
    sums: dict[str, ElementSums]  # of the components of many elements, by kind and name

    @classmethod
    def build(
        cls, system: System, plan: Plan, main: dict[str, int], there: Mapping[Pair, Places]
    ) -> tuple["Walk", dict[Pair, Lists[Places]]]:
        """The walk, and the places of the blocks that arrive at each pair of main states, in lists to be summed apart.

        `there`: blocks that are there from the start.
        """
        counts = node_counts(system, main)
        pending: dict[Key, list[Places]] = defaultdict(list)
        for pair, places in there.items():
            pending["A", *pair].append(places)
        sums: dict[str, ElementSums] = {}
        for item in plan.items:
            on, halves = component_of(system, item).on, halved(system, item)
            whole = item.name in plan.velocity or (plan.symmetric and not item.symmetric)
            built = None if whole else _sums(on, halves, counts)
            if built is None:
                _place_all(pending, "A", on, _flat_places(on, halves), halves)
            else:
                sums[f"{item.kind} {item.name}"] = built[0]
                _place_sums(pending, system, on, built[1])
        for name in plan.velocity:
            on = system.forces[name].on
            _place_all(pending, "B", on, _flat_places(on))
        steps: list[Step] = []
        for name in reversed(system.mapping_order):
            mapping = system.mappings[name]
            if name in dict(plan.geometric):
                _place_all(pending, "A", mapping.parents, _flat_places(mapping.parents))
            for key in sorted(k for k in pending if k[1] == mapping.child):
                steps.append(_expand_places(pending, system, name, "row", key, counts))
            for key in sorted(k for k in pending if k[2] == mapping.child):
                steps.append(_expand_places(pending, system, name, "column", key, counts))
        grouped = {
            key: [_joined(group) for group in _in_groups(key, places, [rows.size for rows, _ in places])]
            for key, places in pending.items()
        }
        return cls(plan, tuple(steps), sums), _by_pair(grouped)

    def mappings(self, system: System) -> frozenset[str]:
        """The mappings whose Jacobian the walk needs: all where forces are handed up for the geometric stiffness."""
        if self.plan.geometric:
            return frozenset(without_idle(system).mappings)
        return frozenset(step.mapping for step in self.steps)

    def run(
        self, evaluation: Evaluation, terms: Terms, factors: Factors, there: Mapping[Pair, Array]
    ) -> dict[Pair, Lists[Array]]:
        """The blocks that arrive at each pair of main states, duplicates not yet summed."""
        system = evaluation.system
        pending: dict[Key, list[Array]] = defaultdict(list)
        for pair, blocks in there.items():
            pending["A", *pair].append(blocks)
        for item in self.plan.items:
            on, halves = component_of(system, item).on, halved(system, item)
            sums = self.sums.get(f"{item.kind} {item.name}")
            evaluated = partial(evaluation.element_matrices, halves=halves, sums=sums)
            blocks = scaled_matrices(system, item, terms, factors, evaluated)
            if sums is None:
                _emit_all(pending, "A", on, blocks, halves)
            else:
                _place_sums(pending, system, on, itertools.chain.from_iterable(blocks))
        for name in self.plan.velocity:
            _emit_all(pending, "B", system.forces[name].on, evaluation.element_matrices(name, "damping"))
        for name in reversed(system.mapping_order):
            parents = system.mappings[name].parents
            form = dict(self.plan.geometric).get(name)
            if form is not None:
                blocks = node_blocks(parents, evaluation.geometric_blocks(name, form))
                _emit_all(pending, "A", parents, jax.tree.map(lambda b: factors.of("geometric") * b, blocks))
            steps = [step for step in self.steps if step.mapping == name]
            turning = any(step.key[0] == "B" and step.side == "column" for step in steps)
            rate = evaluation.velocity_jacobian(name) if turning else None
            for step in steps:
                values = step.reduce(_stacked(pending.pop(step.key)))
                scaled = interpolates(system, system.mappings[name])
                for key, block in _expanded(step, parents, values, evaluation.jacobians[name], scaled=scaled):
                    pending[key].append(block)
                if rate is not None and step.key[0] == "B" and step.side == "column":
                    for key, block in _expanded(step, parents, factors.of("geometric") * values, rate, scaled=False):
                        pending["A", key[1], key[2]].append(block)
        return _by_pair(
            {
                key: [_stacked(group) for group in _in_groups(key, values, [v.shape[0] for v in values])]
                for key, values in pending.items()
            }
        )


def _places(on: tuple[Stencil, ...], halves: Collection[int] = ()) -> list[Places]:
    """Where the blocks of every element's matrices `[s][t]` stand: rows and columns `(elements, blocks)`."""
    nodes = [np.asarray(s.nodes).reshape(s.elements, s.nodes_per_element) for s in on]

    def of_pair(i: int, j: int) -> Places:
        k, l = nodes[i].shape[1], nodes[j].shape[1]
        rows, columns = np.triu_indices(k) if i == j and i in halves else np.indices((k, l)).reshape(2, -1)
        return nodes[i][:, rows], nodes[j][:, columns]

    return [of_pair(i, j) for i, j in itertools.product(range(len(on)), repeat=2)]


def _sums(
    on: tuple[Stencil, ...], halves: Collection[int], counts: dict[str, int]
) -> tuple[ElementSums, list[Places]] | None:
    """The plan of the sums of every `[s][t]`, and where these stand; None where it is not worth it."""
    pairs = list(itertools.product(enumerate(on), repeat=2))
    shapes = [(counts[s.state], counts[t.state]) for (_, s), (_, t) in pairs]
    return ElementSums.build(_places(on, halves), shapes, [i == j and i in halves for (i, _), (j, _) in pairs])


def _flat_places(on: tuple[Stencil, ...], halves: Collection[int] = ()) -> list[Places]:
    return [(rows.reshape(-1), columns.reshape(-1)) for rows, columns in _places(on, halves)]


def _place_all(
    pending: dict[Key, list[Any]], species: str, on: tuple[Stencil, ...], lists: Iterable[Any], halves: Collection[int] = ()
) -> None:
    """Each list, of places or of values, to its pair of states."""
    for ((i, s), (j, t)), one in zip(itertools.product(enumerate(on), repeat=2), lists, strict=True):
        pending["H" if i == j and i in halves else species, s.state, t.state].append(one)


def _place_sums(pending: dict[Key, list[Any]], system: System, on: tuple[Stencil, ...], lists: Iterable[Any]) -> None:
    """Each list of sums to its pair of states, by itself where no mapping expands it."""
    for (s, t), one in zip(itertools.product(on, repeat=2), lists, strict=True):
        is_final = s.state in system.main_states and t.state in system.main_states
        pending["S" if is_final else "A", s.state, t.state].append(one)


def _emit_all(
    pending: dict[Key, list[Array]], species: str, on: tuple[Stencil, ...], blocks: Blocks, halves: Collection[int] = ()
) -> None:
    _place_all(pending, species, on, itertools.chain.from_iterable(blocks), halves)


def _by_pair(pending: Mapping[Key, list[Any]]) -> dict[Pair, Lists[Any]]:
    pairs = {(row, column): None for species, row, column in pending if species != "B"}
    return {
        pair: Lists([*pending.get(("A", *pair), []), *pending.get(("S", *pair), [])], pending.get(("H", *pair), []))
        for pair in pairs
    }


def _expand_places(
    pending: dict[Key, list[Places]], system: System, name: str, side: str, key: Key, counts: dict[str, int]
) -> Step:
    """Replace the blocks at a mapped side by those at its parents, and say how."""
    species, row_state, column_state = key
    shape = (counts[row_state], counts[column_state])
    rows, columns, slots = unique_pairs(*_joined(pending.pop(key)), shape)
    for parent in system.mappings[name].parents:
        nodes = np.asarray(parent.nodes).reshape(parent.elements, parent.nodes_per_element)
        k = parent.nodes_per_element
        if side == "row":
            target = (species, parent.state, column_state)
            places = (nodes[rows].reshape(-1), np.repeat(columns, k))
        else:
            target = (species, row_state, parent.state)
            places = (np.repeat(rows, k), nodes[columns].reshape(-1))
        pending[target].append(places)
        if species == "B" and side == "column":
            pending["A", target[1], target[2]].append(places)
    reduce = Reduction.build(slots, rows.size)
    return Step(key, name, side, reduce, as_data(rows if side == "row" else columns))


def _expanded(
    step: Step, parents: tuple[Stencil, ...], values: Array, jacobian: Jacobian, *, scaled: bool
) -> list[tuple[Key, Array]]:
    """`J^T` times the blocks of a row, or the blocks of a column times `J`, one list for each parent.

    `scaled`: the blocks of `J` are multiples of the identity, and only their first numbers are read.
    """
    species, row_state, column_state = step.key
    result = []
    for parent, blocks in zip(parents, jacobian, strict=True):
        at = take_rows(blocks[:, :, :1, :1] if scaled else blocks, step.nodes)
        if step.side == "row":
            product = at * values[:, None] if scaled else times_blocks(at.swapaxes(-1, -2), values[:, None])
            key = (species, parent.state, column_state)
        else:
            product = at * values[:, None] if scaled else times_blocks(values[:, None], at)
            key = (species, row_state, parent.state)
        result.append((key, product.reshape(-1, *product.shape[2:])))
    return result


def _joined(places: list[Places]) -> Places:
    return np.concatenate([p[0] for p in places]), np.concatenate([p[1] for p in places])


def _in_groups(key: Key, parts: list[Any], sizes: list[int]) -> list[list[Any]]:
    """Parts that are joined before they are summed: the large ones are not copied for the sake of the others."""
    pairs = list(zip(parts, sizes, strict=True))
    most = 0 if key[0] == "S" else _LARGE
    small = [part for part, n in pairs if n < most]
    return [[part] for part, n in pairs if n >= most] + ([small] if small else [])


def _stacked(values: list[Array]) -> Array:
    return values[0] if len(values) == 1 else jnp.concatenate(values)
