"""The matrices of the elements of one component, cut into the blocks of pairs of nodes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._codegen import AbstractElementSums, JoinedSums
from .._forcefield.chart import Arrays, chart_damping, chart_stiffness, chart_stiffness_and_force
from .._model.dynamics import Fields
from .._model.system import System
from .._model.terms import Factors, Terms
from .._runtime.array_types import Array
from .._scene.alike import over_alike
from .._scene.nodal_sums import Given, adds_where_made, sums_at_nodes
from .._scene.parameter import over_elements
from .._scene.stencil import Stencil, at_nodes
from .structure import Contribution, MatrixKind

Blocks = tuple[Arrays, ...]  # [s][t] of shape (elements * row nodes * column nodes, row size, column size)


def element_matrices(
    system: System,
    name: str,
    kind: MatrixKind,
    x: Fields,
    v: Fields,
    upper: tuple[int, ...] = (),
    sums: AbstractElementSums | None = None,
) -> Blocks:
    """`K`, `B` or `M` of every element of one component, without a factor.

    `upper`: the stencils `s` of which `[s][s]` is given as the list of its blocks `(i, j)`, `i <= j`, row by row, those of
    the diagonal times 1/2: `H`, of `H + H^T`. With `sums`, the sums of all that over the elements, as these say.
    """
    component = _family(system, kind)[name]
    return _summed_or_listed(component, _blocks(system, kind, upper, component), x, v, sums)[0]


def stiffness_and_force(
    system: System, name: str, x: Fields, v: Fields, upper: tuple[int, ...] = (), sums: AbstractElementSums | None = None
) -> tuple[Blocks, Given]:
    """The `element_matrices` `K` of one force field, and its forces, in one pass."""
    field = system.force_fields[name]
    are_sums = sums is not None and adds_where_made(field.on, x)
    joint = JoinedSums(sums, sums_at_nodes(field.on, x)) if are_sums else sums
    of_element = _blocks(system, MatrixKind.STIFFNESS, upper, field, forces=True)
    blocks, forces = _summed_or_listed(field, of_element, x, v, joint)
    return blocks, Given(forces, are_sums)


def matrices_of_several(
    system: System, names: Sequence[str], kind: MatrixKind, x: Fields, v: Fields, upper: tuple[int, ...], *, forces: bool
) -> list[tuple[Blocks, Given]]:
    """The same for several components, whose elements are evaluated together where they are alike; with their forces, of
    stiffnesses, if these are wanted."""
    components = {name: _family(system, kind)[name] for name in names}
    found = over_alike(components, system.dofs, lambda c, _: _blocks(system, kind, upper, c, forces=forces), x, v)
    return [(_listed(blocks), Given(rest, is_summed=False)) for blocks, rest in found.values()]


def _family(system: System, kind: MatrixKind) -> Mapping[str, Any]:
    return system.masses if kind is MatrixKind.MASS else system.force_fields


def weighted_matrix(
    system: System, item: Contribution, terms: Terms, factors: Factors, own: Mapping[MatrixKind, Blocks]
) -> Blocks:
    """`m M + b B + k K + c C` of one contribution, from its `own` matrices."""
    parts = []
    for kind in item.kinds:
        part = "multipliers" if item.name in system.multiplier_constraints else kind.value
        factor = factors.of(part) if getattr(terms, kind.value) else 0.0
        rayleigh = system.rayleigh.get(item.name)
        if kind is not MatrixKind.DAMPING and rayleigh is not None and terms.has_rayleigh:
            factor = factor + factors.of("rayleigh") * rayleigh
        parts.append(_scaled(factor, own[kind]))
    blocks = parts[0] if len(parts) == 1 else jax.tree.map(jnp.add, *parts)
    return _symmetric_part(item.component(system).on, blocks) if terms.symmetric and not item.symmetric else blocks


def _scaled(factor: Any, blocks: Blocks) -> Blocks:
    return jax.tree.map(lambda b: factor * b, blocks)


def _blocks(system: System, kind: MatrixKind, upper: tuple[int, ...], component: Any, *, forces: bool = False) -> Callable:
    """The matrices `[s][t]` of one element of a component, cut into the blocks of pairs of nodes, and its forces."""
    dofs, shapes = [system.dofs[s.state] for s in component.on], _shapes(component.on)

    # Of numbers only, not of the stencils, whose arrays may be traced: so the function is known again (`ElementFunction`).
    def of_element(c, x, v):
        if forces:
            matrices, rest = chart_stiffness_and_force(c, dofs, x, v)
        elif kind is MatrixKind.MASS:
            matrices, rest = jax.hessian(lambda u: c.element_kinetic_energy(x, u))(v), ()
        else:
            matrices, rest = (chart_stiffness if kind is MatrixKind.STIFFNESS else chart_damping)(c, dofs, x, v), ()
        return _cut(shapes, matrices, upper), rest  # cut here, where a change of order moves nothing in memory

    return of_element


def _summed_or_listed(
    component: Any, of_element: Callable, x: Fields, v: Fields, sums: AbstractElementSums | None
) -> tuple[Blocks, Any]:
    on = component.on
    blocks, rest = over_elements(component, on, of_element, at_nodes(on, x), at_nodes(on, v), sums=sums)
    return (_listed(blocks) if sums is None else blocks), rest


def node_blocks(on: tuple[Stencil, ...], matrices: tuple[Arrays, ...]) -> Blocks:
    """The matrices `[s][t]`, `(elements, *row nodes, r, *column nodes, c)`, cut into the blocks of pairs of nodes."""
    return _listed(jax.vmap(lambda blocks: _cut(_shapes(on), blocks))(matrices))


def _shapes(on: tuple[Stencil, ...]) -> tuple[tuple[int, int], ...]:
    """How many nodes an element has of each stencil, and how many axes they are along."""
    return tuple((s.nodes_per_element, s.nodes.ndim - 1) for s in on)


def _cut(
    shapes: tuple[tuple[int, int], ...], matrices: tuple[Arrays, ...], upper: tuple[int, ...] = ()
) -> tuple[Arrays, ...]:
    """The matrices of one element as lists of blocks `(k * l, r, c)`, row nodes first; or their upper triangles."""

    def of_pair(i: int, j: int) -> Array:
        (k, along), (l, _), block = shapes[i], shapes[j], matrices[i][j]
        r, c = block.shape[along], block.shape[-1]
        blocks = block.reshape(k, r, l, c).transpose(0, 2, 1, 3)
        if i != j or i not in upper:
            return blocks.reshape(k * l, r, c)
        # Slices, a row of blocks each: the transpose of a gather would scatter.
        weights = np.concatenate([np.where(np.arange(a, k) == a, 0.5, 1.0) for a in range(k)]).astype(blocks.dtype)
        return jnp.concatenate([blocks[a, a:] for a in range(k)]) * weights[:, None, None]

    return tuple(tuple(of_pair(i, j) for j in range(len(shapes))) for i in range(len(shapes)))


def _symmetric_part(on: tuple[Stencil, ...], blocks: Blocks) -> Blocks:
    """`(K + K^T) / 2` of every element."""

    def transposed(s: Stencil, t: Stencil, block: Array) -> Array:
        nodes = block.reshape(s.elements, s.nodes_per_element, t.nodes_per_element, *block.shape[1:])
        return nodes.transpose(0, 2, 1, 4, 3).reshape(block.shape[0], block.shape[2], block.shape[1])

    return tuple(
        tuple(0.5 * (blocks[i][j] + transposed(t, s, blocks[j][i])) for j, t in enumerate(on)) for i, s in enumerate(on)
    )


def _listed(blocks: Any) -> Blocks:
    return jax.tree.map(lambda b: b.reshape(-1, *b.shape[2:]), blocks)
