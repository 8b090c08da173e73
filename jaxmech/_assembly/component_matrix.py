"""The matrices of one component, before and after the mappings."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp

from .._model.constraint_projection import constrain_triplets
from .._model.dynamics import Fields, kinematics, velocities
from .._model.internal import with_internal
from .._model.mapping_jacobian import Jacobian, geometric_blocks, geometric_mode, mapped_forces, mapping_jacobian
from .._model.mapping_operators import expanded, joined
from .._model.system import State, System, check_inputs
from .._runtime.argument_checks import check_choice, check_flags
from .._runtime.array_types import Array
from .._runtime.precision import compiled
from .._scene.stencil import Stencil
from .._sparse.triplets import Triplets
from .element_matrices import Blocks, element_matrices, node_blocks
from .mapping_walk import AbstractBlocks, Expanded, Expansion, Local, Side, mapped_to_main
from .structure import NOTHING, MatrixKind

Pair = tuple[str, str]
KINDS = tuple(kind.value for kind in MatrixKind)


@compiled
def component_matrix(
    system: System, state: State, name: str, kind: str = "stiffness", *, projected: bool = False, constrained: bool = False
) -> dict[Pair, Triplets]:
    """What one component brings to a matrix: `{(row state, column state): blocks}`, repeats not summed.

    `kind`: `"stiffness"` `K = -df/dx` or `"damping"` `B = -df/dv` of a force field, `"mass"` `M = d2T/dv2` of a mass,
    `"geometric"` `G = -d(J^T f)/dq` of a mapping under the present forces, in its own form; without factors. Between the
    states that the component names; or, `projected`, between main states, `J^T (.) J`. `constrained`: `P (.) P`, without
    the `I - P` that a whole matrix has once. (What drag through turning levers adds to a whole matrix, `B d(Jv)/dq`,
    belongs to no single one of these.) `.assemble(shape)` sums repeats into a `BlockSparse`. Raises `ValueError` for
    unknown names and kinds.
    Stiffness [N/m], damping [N s/m], mass [kg], and their like for rotations.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 2 (element matrices).

    Example:

        K = jm.matrix.component_matrix(system, state, "solid", "stiffness")["cube", "cube"]
        assert K.blocks.shape == (6 * 16, 3, 3)  # of every tetrahedron and pair of its nodes [N/m]
        assert jnp.allclose(K.to_dense((8, 8)).sum(0), 0.0, atol=1e-3)  # no force where all move alike
    """
    check_inputs("component_matrix", system, state)
    check_choice("component_matrix", "kind", kind, KINDS)
    check_flags("component_matrix", projected=projected, constrained=constrained)
    system = with_internal(system, state)
    x = kinematics(system, state.position)
    v = velocities(system, x, state.velocity)
    family = {"mass": system.masses, "geometric": system.mappings}.get(kind, system.force_fields)
    if name not in family:
        raise ValueError(f"component_matrix: name '{name}' has no {kind} matrix; there are {list(family)}.")
    on, blocks = _own(system, name, MatrixKind(kind), x, v)
    pending: dict[Pair, list[Triplets]] = defaultdict(list)
    for s, row in zip(on, blocks, strict=True):
        for t, block in zip(on, row, strict=True):
            pending[s.state, t.state].append(_triplets(s, t, block))
    result = {pair: joined(parts) for pair, parts in sorted(pending.items())}
    if projected:
        result = _projected(system, x, result)
    return {pair: constrain_triplets(system, x, t) for pair, t in result.items()} if constrained else result


def _own(system: System, name: str, kind: MatrixKind, x: Fields, v: Fields) -> tuple[tuple[Stencil, ...], Blocks]:
    if kind is MatrixKind.GEOMETRIC:
        mapping = system.mappings[name]
        J = {n: mapping_jacobian(system, n, x) for n in system.mapping_order}
        form = geometric_mode(system, mapping, symmetric=False)
        blocks = geometric_blocks(system, name, x, mapped_forces(system, x, v, J)[mapping.child], form)
        return mapping.parents, node_blocks(mapping.parents, blocks)
    component = (system.masses if kind is MatrixKind.MASS else system.force_fields)[name]
    return component.on, element_matrices(system, name, kind, x, v)


def _triplets(s: Stencil, t: Stencil, block: Array) -> Triplets:
    rows = s.nodes.reshape(s.elements, -1)
    columns = t.nodes.reshape(t.elements, -1)
    shape = (s.elements, rows.shape[1], columns.shape[1])
    places = (rows[:, :, None], columns[:, None, :])
    where = (jnp.broadcast_to(a, shape).reshape(-1) for a in places)
    return Triplets((s.state, t.state), *where, block)


@dataclass(frozen=True)
class BlockTriplets(AbstractBlocks[Triplets]):
    """Lists of places and values at once, no repeat of which is summed."""

    system: System
    jacobians: Mapping[str, Jacobian]

    def size(self, blocks: Triplets) -> int:
        return blocks.blocks.shape[0]

    def joined(self, lists: Sequence[Triplets]) -> Triplets:
        return joined(list(lists))

    def expanded(self, expansion: Expansion, blocks: Triplets) -> Expanded[Triplets]:
        by_row = expansion.side is Side.ROW
        blocks = blocks.T if by_row else blocks
        parents = zip(self.system.mappings[expansion.mapping].parents, self.jacobians[expansion.mapping], strict=True)
        products = [expanded(blocks, parent.state, parent.nodes, J) for parent, J in parents]
        return Expanded([product.T for product in products] if by_row else products)


def _projected(system: System, x: Fields, matrix: Mapping[Pair, Triplets]) -> dict[Pair, Triplets]:
    """`J^T (.) J`."""
    jacobians = {name: mapping_jacobian(system, name, x) for name in system.mapping_order}
    arrived = mapped_to_main(system, NOTHING, Local({}, {}, {}, (), matrix), BlockTriplets(system, jacobians))
    return {pair: joined(list(lists.whole)) for pair, lists in sorted(arrived.lists.items())}
