"""The values of blocks, in a program: the instance of the walk that makes a matrix."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._math.indexing import take_rows
from .._math.small_matmul import times_blocks
from .._model.mapping_jacobian import interpolates
from .._model.terms import Factors, Terms
from .._runtime.array_types import Array
from .._sparse.block_matrix import Pair
from .element_matrices import Blocks, weighted_matrix
from .evaluation import LocalMatrix, LocalValues
from .mapping_walk import AbstractBlocks, Expanded, Expansion, Local, Side, Step
from .structure import Contribution, MatrixKind, Plan


@dataclass(frozen=True)
class BlockValues(AbstractBlocks[Array]):
    """Lists of blocks `(blocks, rows, columns)`, expanded as the plan of the walk says."""

    values: LocalValues
    steps: Mapping[Expansion, Step]
    geometric: Any  # the factor of `B d(J v)/dq`

    def size(self, blocks: Array) -> int:
        return blocks.shape[0]

    def joined(self, lists: Sequence[Array]) -> Array:
        return lists[0] if len(lists) == 1 else jnp.concatenate(lists)

    def expanded(self, expansion: Expansion, blocks: Array) -> Expanded[Array]:
        system, step = self.values.system, self.steps[expansion]
        name, values = expansion.mapping, step.reduce(blocks)
        scaled = interpolates(system, system.mappings[name])
        products = [_product(step, values, J, scaled=scaled) for J in self.values.jacobians[name]]
        if not expansion.turns:
            return Expanded(products)
        drag = self.geometric * values
        return Expanded(products, [_product(step, drag, J, scaled=False) for J in self.values.turning[name]])


def _product(step: Step, values: Array, jacobian: Array, *, scaled: bool) -> Array:
    """`J^T` times the blocks of a row, or the blocks of a column times `J`, of one parent.

    `scaled`: the blocks of `J` are multiples of the identity, and only their first numbers are read.
    """
    at, values = take_rows(jacobian[:, :, :1, :1] if scaled else jacobian, step.nodes), values[:, None]
    if scaled:
        product = at * values
    elif step.expansion.side is Side.ROW:
        product = times_blocks(at.swapaxes(-1, -2), values)
    else:
        product = times_blocks(values, at)
    return product.reshape(-1, *product.shape[2:])


def wanted_matrix(system: Any, item: Contribution, kind: MatrixKind, summed: bool) -> LocalMatrix:
    """The form in which a matrix of a contribution is asked for."""
    return LocalMatrix(item.name, kind, item.upper(system), summed)


def local_values(
    plan: Plan,
    values: LocalValues,
    terms: Terms,
    factors: Factors,
    summed: Mapping[str, Any],
    there: Mapping[Pair, Array],
) -> Local[Array]:
    """The local matrices of a plan, every factor applied."""
    system = values.system

    def of_item(item: Contribution) -> Blocks:
        own = {kind: values.matrices[wanted_matrix(system, item, kind, item.label in summed)] for kind in item.kinds}
        return weighted_matrix(system, item, terms, factors, own)

    def scaled(blocks: Blocks) -> Blocks:
        return jax.tree.map(lambda b: factors.of("geometric") * b, blocks)

    return Local(
        {item.label: _listed(of_item(item)) for item in plan.items},
        {name: _listed(values.matrices[LocalMatrix(name, MatrixKind.DAMPING)]) for name in plan.velocity},
        {name: _listed(scaled(values.geometric[name, form])) for name, form in plan.geometric},
        summed,
        there,
    )


def _listed(blocks: Blocks) -> list[Array]:
    return list(itertools.chain.from_iterable(blocks))
