"""From Gauss points to nodes."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._mesh.geometry import rest_geometry
from .._mesh.reference import reference_element
from .._runtime.argument_checks import check_choice, check_instance, real_array
from .._runtime.array_types import Array
from .._runtime.precision import compiled
from .gauss_fields import GaussFields
from .point_fit import fit_weights

METHODS = ("lumped", "consistent")
_STEPS = 100  # of conjugate gradients: a mass matrix scaled by its diagonal has a condition number of some tens (Wathen)
_DIGITS = 64  # rounding units that the residual is left with


def at_nodes(fields: GaussFields | Sequence[GaussFields], values: Any, *, method: str = "lumped") -> Array:
    """Values `(e, q, ...)` at Gauss points, projected to the nodes `(n, ...)` of the state.

    "lumped": the mean of the points of the cells around a node, weighted by their volume and shape function (of quadratic
    cells by its square, which is never negative): smooth, and within the range of the values. "consistent": the nodal
    values whose interpolation is nearest, in the square mean, to what fits the points of each cell (linear functions where
    there are as many points as corners), `M v = int N f dV`: exact for linear fields then, and may overshoot. Where several
    solids share nodes, mixed kinds of cells say, `fields` and `values` are lists. Nodes without a cell get 0. `values` in
    any unit; differentiable, and `jit` and `vmap` go through. Raises `ValueError` for values of other shapes or not finite,
    fields on different states and an unknown method, `TypeError` for what are no fields or no numbers.
    Source: O. C. Zienkiewicz and J. Z. Zhu, Int. J. Numer. Methods Eng. 24, 1987, doi:10.1002/nme.1620240206; A. J. Wathen,
    IMA J. Numer. Anal. 7, 1987, doi:10.1093/imanum/7.4.449 (conjugate gradients of mass matrices).

    Example:

        fields = jm.output.gauss_fields(system, state, "solid")
        x = jm.output.at_nodes(fields, fields.position, method="consistent")
        assert x.shape == (8, 3)
        assert jnp.allclose(jm.output.at_nodes(fields, jnp.full((6, 1), 3.0)), 3.0)
    """
    check_choice("at_nodes", "method", method, METHODS)
    several = isinstance(fields, list | tuple)
    parts: list[Any] = list(fields) if several else [fields]
    if several and not isinstance(values, list | tuple):
        raise TypeError(f"at_nodes: values must be a list, as fields are, got {values!r:.80}.")
    given = list(values) if several else [values]
    if not parts or len(parts) != len(given):
        raise ValueError(f"at_nodes: there are {len(parts)} fields and {len(given)} values, expected as many, at least one.")
    given = [real_array("at_nodes", "values", value) for value in given]
    for part, value in zip(parts, given, strict=True):
        check_instance("at_nodes", "fields", part, GaussFields)
        if np.shape(value)[:2] != part.volume.shape or np.shape(value)[2:] != np.shape(given[0])[2:]:
            raise ValueError(f"at_nodes: values have shape {np.shape(value)}, expected {(*part.volume.shape, '...')}.")
        if part.count != parts[0].count:
            raise ValueError(f"at_nodes: fields are of {parts[0].count} and of {part.count} nodes.")
    return _projected(parts, [jnp.asarray(v) for v in given], method)


@compiled
def _projected(parts: list[GaussFields], values: list[Array], method: str) -> Array:
    count, tail = parts[0].count, values[0].shape[2:]
    right = jnp.zeros((count, max(1, int(np.prod(tail)))), values[0].dtype)
    diagonal, masses = jnp.zeros(count, right.dtype), []
    for part, value in zip(parts, values, strict=True):
        reference = reference_element(part.kind)
        flat, rule = value.reshape(*value.shape[:2], -1), part.rule if method == "lumped" else "mass"
        places = np.asarray(reference.quadrature(rule)[0], right.dtype)
        N = jnp.asarray(np.asarray(reference.shape(places)), right.dtype)
        if method == "lumped":
            weights = part.volume[:, :, None] * (N if reference.order == 1 else N * N)[None]
            right = right.at[part.nodes].add(jnp.einsum("eqk,eqc->ekc", weights, flat))
            diagonal = diagonal.at[part.nodes].add(jnp.sum(weights, axis=1))
            continue
        between = jnp.asarray(fit_weights(reference, part.rule, places))
        at_points, volumes = (_volumes(part, r) for r in (part.rule, rule))
        volumes = volumes * jnp.einsum("pq,eq->ep", between, part.volume / at_points)  # their thickness, or their ring
        right = right.at[part.nodes].add(jnp.einsum("ep,pk,pq,eqc->ekc", volumes, N, between, flat))
        masses.append((part.nodes, jnp.einsum("ep,pk,pl->ekl", volumes, N, N)))
        diagonal = diagonal.at[part.nodes].add(jnp.einsum("ekk->ek", masses[-1][1]))
    inverse = jnp.where(diagonal > 0, 1 / jnp.where(diagonal > 0, diagonal, 1), 0)[:, None]
    result = inverse * right if method == "lumped" else _solved(masses, diagonal, inverse, right)
    return result.reshape(count, *tail)


def _volumes(part: GaussFields, rule: Any) -> Array:
    """`(e, q)`: of the cells at rest, of the unit thickness where they are of the plane."""
    return jax.vmap(lambda X: rest_geometry(reference_element(part.kind), X, rule)[1])(part.rest)


def _solved(masses: list[tuple[Array, Array]], diagonal: Array, inverse: Array, right: Array) -> Array:
    """`M^-1 b`, by conjugate gradients whose derivative is another solve."""
    alone = jnp.where(diagonal > 0, 0, 1)[:, None]  # a node without a cell: the row of the identity

    def product(v: Array) -> Array:
        total = alone * v
        for nodes, M in masses:
            total = total.at[nodes].add(jnp.einsum("ekl,elc->ekc", M, v[nodes]))
        return total

    tolerance = _DIGITS * float(jnp.finfo(right.dtype).eps)
    solve = jax.scipy.sparse.linalg.cg
    return solve(product, right, x0=inverse * right, tol=tolerance, maxiter=_STEPS, M=lambda v: (inverse + alone) * v)[0]
