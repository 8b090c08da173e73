"""The positive semi-definite part of a symmetric matrix, with derivatives of every order."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Float
from .._runtime.jax_internals import (
    Primitive,
    ShapedArray,
    define,
    is_undefined_primal,
    is_zero,
    lower_fun,
    register_lowering,
    zero_of,
    zero_tangent,
)
from .._runtime.precision import full_precision

_NIL = 16.0  # rounding units of the largest eigenvalue below which one is zero


def positive_part(A: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The nearest positive semi-definite matrix in the Frobenius norm: negative eigenvalues put to zero.

    Differentiable in both modes and to any order, at repeated eigenvalues too. At an eigenvalue of zero, where the part has
    a kink, derivatives are those of a matrix whose rank stays as it is. Source: N. J. Higham, "Computing a nearest
    symmetric positive semidefinite matrix", Linear Algebra Appl. 103 (1988) 103; for the derivatives (Daleckii and Krein),
    R. Bhatia, *Matrix Analysis*, 1997, section X.4.
    """
    return _symmetric(_derivative_p.bind(_symmetric(A)))


def _symmetric(A: Array) -> Array:
    return 0.5 * (A + A.T)


@full_precision
def _evaluate(A: Array, *directions: Array) -> Array:
    """`D^k f(A)[E_1 ... E_k]`, `f(x) = max(x, 0)`: products of the directions in the eigenbasis of `A`, weighted by divided
    differences of `f`. A primitive of its own, because one order more is one direction more, and the form is its own
    transpose: eigenvectors, which have no derivative where eigenvalues repeat, are never differentiated."""
    if A.ndim > 2:
        return jax.vmap(_evaluate)(A, *directions)
    values, vectors = jnp.linalg.eigh(A)
    values = jnp.where(jnp.abs(values) > _NIL * jnp.finfo(A.dtype).eps * jnp.max(jnp.abs(values)), values, 0)
    weights = _divided_differences(values, len(directions))
    if not directions:
        return (vectors * weights) @ vectors.T
    letters = "abcdefghijklmnopqrstuvwxyz"[: len(directions) + 1]
    path = ",".join([letters, *(a + b for a, b in itertools.pairwise(letters))]) + f"->{letters[0]}{letters[-1]}"
    turned = [vectors.T @ E @ vectors for E in directions]
    total = sum(jnp.einsum(path, weights, *order) for order in itertools.permutations(turned))
    return vectors @ total @ vectors.T


def _divided_differences(x: Float[Array, " n"], order: int) -> Array:
    """`f[x_i, x_j, ...]` of `f(x) = max(x, 0)` for all tuples of `order + 1` of the ascending numbers `x`."""
    n, table = x.shape[0], jnp.maximum(x, 0)
    for k in range(1, order + 1):
        # They are symmetric: every tuple takes the value of the sorted one, whose first and last number are furthest apart.
        which = np.sort(np.indices((n,) * (k + 1)).reshape(k + 1, -1), axis=0)
        gap = x[which[-1]] - x[which[0]]
        difference = table[tuple(which[1:])] - table[tuple(which[:-1])]
        confluent = (x[which[0]] > 0).astype(x.dtype) if k == 1 else jnp.zeros_like(gap)  # f', and nothing beyond
        table = jnp.where(gap > 0, difference / jnp.where(gap > 0, gap, 1), confluent).reshape((n,) * (k + 1))
    return table


def _jvp(primals, tangents):
    A, *directions = primals
    out = _derivative_p.bind(*primals)
    changes = [] if is_zero(tangents[0]) else [_derivative_p.bind(A, *directions, tangents[0])]
    for k, rate in enumerate(tangents[1:]):
        if not is_zero(rate):
            changes.append(_derivative_p.bind(A, *directions[:k], rate, *directions[k + 1 :]))
    if not changes:
        return out, zero_tangent(out)
    return out, sum(changes[1:], changes[0])


def _transpose(cotangent, *operands):
    linear = [is_undefined_primal(x) for x in operands]
    if is_zero(cotangent):
        return [zero_of(x.aval) if unknown else None for x, unknown in zip(operands, linear, strict=True)]
    # tr(W^T D^k f(A)[E_1 ... E_k]) is the same whichever of the symmetric W, E_1 ... E_k is taken out.
    pulled = _derivative_p.bind(*(cotangent if unknown else x for x, unknown in zip(operands, linear, strict=True)))
    return [pulled if unknown else None for unknown in linear]


def _batch(operands, axes):
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    moved = (
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    )
    return _derivative_p.bind(*moved), 0


_derivative_p = Primitive("jaxmech_positive_part")
_derivative_p.def_impl(jax.jit(_evaluate))
_derivative_p.def_abstract_eval(lambda A, *directions: ShapedArray(A.shape, A.dtype))
define(_derivative_p, jvp=_jvp, transpose=_transpose, batch=_batch)
register_lowering(_derivative_p, lower_fun(_evaluate, multiple_results=False))
