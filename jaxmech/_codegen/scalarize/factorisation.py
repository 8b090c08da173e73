"""Factorisations of small matrices, triangular systems, and few numbers in order, as operations on scalars.

What JAX calls a library for, matrix by matrix: `jnp.linalg.inv`, `solve`, `slogdet`, `cholesky` and their derivatives are
made of these. The same algorithms, so that results differ by rounding.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._runtime.jax_internals import primitives
from .arithmetic import AbstractArithmetic, NotScalarisable, Scalar
from .known_numbers import Scalars

LARGEST = 16  # rows, beyond which a program of scalars is longer than it is worth

LIBRARY = "lu", "triangular_solve", "cholesky"  # what XLA calls one for


def applied(arithmetic: AbstractArithmetic, name: str, dtype: Any, *operands: Scalar, **params: Any) -> Scalar:
    """A primitive by its name."""
    return arithmetic.apply(getattr(primitives, f"{name}_p"), dtype, *operands, **params)


def chosen(arithmetic: AbstractArithmetic, which: Scalar, if_true: Scalar, if_false: Scalar) -> Scalar:
    """One of two scalars of a type."""
    return applied(arithmetic, "select_n", if_true.dtype, which, if_false, if_true)


def _of_matrices(rule: Callable[..., list[Scalars]], arithmetic: Any, eqn: Any, *operands: Scalars) -> list[Scalars]:
    """A rule for one matrix, for all those of leading axes."""
    lead = operands[0].shape[:-2]
    sizes = [v.aval.shape[len(lead) :] for v in eqn.outvars]
    if max(operands[0].shape[-2:]) > LARGEST:
        raise NotScalarisable(f"{eqn.primitive.name} of {operands[0].shape[-2]} rows as a program of scalars")
    results = [np.empty((*lead, *size), object) for size in sizes]
    for place in np.ndindex(lead):
        for result, found in zip(results, rule(arithmetic, eqn, *(x[place] for x in operands)), strict=True):
            result[place] = found
    return results


def _triangles(arithmetic: AbstractArithmetic, eqn: Any, A: Scalars) -> list[Scalars]:
    """`P A = L U`, the row of the largest number first: of those that are equal, the first."""
    dtype, whole = eqn.outvars[0].aval.dtype, eqn.outvars[1].aval.dtype.type
    of = functools.partial(arithmetic.combine, dtype=dtype)
    rows, (m, n) = A.copy(), A.shape
    order, pivots = np.array([whole(i) for i in range(m)], object), np.empty(min(m, n), object)
    for k in range(min(m, n)):
        largest, at = applied(arithmetic, "abs", dtype, rows[k, k]), whole(k)
        for i in range(k + 1, m):
            size = applied(arithmetic, "abs", dtype, rows[i, k])
            more = applied(arithmetic, "gt", bool, size, largest)
            largest, at = chosen(arithmetic, more, size, largest), chosen(arithmetic, more, whole(i), at)
        pivots[k] = at
        here = {i: applied(arithmetic, "eq", bool, at, whole(i)) for i in range(k + 1, m)}
        for numbers in (*rows.T, order):
            first = numbers[k]
            for i, is_here in here.items():
                numbers[k] = chosen(arithmetic, is_here, numbers[i], numbers[k])
                numbers[i] = chosen(arithmetic, is_here, first, numbers[i])
        nil, one = np.zeros((), dtype)[()], np.ones((), dtype)[()]
        pivot = chosen(arithmetic, applied(arithmetic, "eq", bool, rows[k, k], nil), one, rows[k, k])  # all below are nil
        for i in range(k + 1, m):
            rows[i, k] = share = of("div", a=rows[i, k], b=pivot)
            for j in range(k + 1, n):
                rows[i, j] = of("sub", a=rows[i, j], b=of("mul", a=share, b=rows[k, j]))
    return [rows, pivots, order]


def _solved(arithmetic: AbstractArithmetic, eqn: Any, A: Scalars, B: Scalars) -> list[Scalars]:
    """`op(A) X = B`, or `X op(A) = B`, of a triangle; the other is not read."""
    p, dtype = eqn.params, eqn.outvars[0].aval.dtype
    of = functools.partial(arithmetic.combine, dtype=dtype)
    turned = p["transpose_a"] != (not p["left_side"])
    A, X = A.T if turned else A, (B if p["left_side"] else B.T).copy()
    order = list(range(len(A)))[:: 1 if p["lower"] != turned else -1]
    for column in X.T:
        for number, i in enumerate(order):
            for j in order[:number]:
                column[i] = of("sub", a=column[i], b=of("mul", a=A[i, j], b=column[j]))
            column[i] = column[i] if p["unit_diagonal"] else of("div", a=column[i], b=A[i, i])
    return [X if p["left_side"] else X.T]


def _root(arithmetic: AbstractArithmetic, eqn: Any, A: Scalars) -> list[Scalars]:
    """`A = L L^T`, of the lower triangle of `A`; NaN throughout where `A` is not positive definite."""
    dtype, n = eqn.outvars[0].aval.dtype, len(A)
    of = functools.partial(arithmetic.combine, dtype=dtype)
    nil, nothing = np.zeros((), dtype)[()], np.full((), np.nan, dtype)[()]
    L, is_positive = np.empty((n, n), object), []
    for j in range(n):
        for i in range(j):
            L[i, j] = nil
        for i in range(j, n):
            rest = A[i, j]
            for k in range(j):
                rest = of("sub", a=rest, b=of("mul", a=L[i, k], b=L[j, k]))
            if i == j:
                is_positive.append(applied(arithmetic, "gt", bool, rest, nil))
                L[j, j] = applied(arithmetic, "sqrt", dtype, rest, accuracy=None)
            else:
                L[i, j] = of("div", a=rest, b=L[j, j])
    fine = functools.reduce(lambda a, b: arithmetic.combine("and", bool, a, b), is_positive)
    for place in np.ndindex(L.shape):
        L[place] = chosen(arithmetic, fine, L[place], nothing)
    return [L]


def _in_order(arithmetic: AbstractArithmetic, eqn: Any, *operands: Scalars) -> list[Scalars]:
    """Few whole numbers in order, and others as they are: neighbours change places."""
    p = eqn.params
    keys = operands[0]
    if p["num_keys"] != 1 or eqn.invars[0].aval.dtype.kind not in "iu":
        raise NotScalarisable("sort of such numbers as a program of scalars")
    if keys.shape[p["dimension"]] > LARGEST:
        raise NotScalarisable(f"sort of {keys.shape[p['dimension']]} numbers as a program of scalars")
    rows = [np.moveaxis(x.copy(), p["dimension"], 0) for x in operands]  # views of what is sorted
    for last in reversed(range(1, len(rows[0]))):
        for i, place in itertools.product(range(last), np.ndindex(rows[0].shape[1:])):
            first, second = (i, *place), (i + 1, *place)
            swap = applied(arithmetic, "gt", bool, rows[0][first], rows[0][second])
            for x in rows:
                a, b = x[first], x[second]
                x[first], x[second] = chosen(arithmetic, swap, b, a), chosen(arithmetic, swap, a, b)
    return [np.moveaxis(x, 0, p["dimension"]) for x in rows]


def permutation(arithmetic: AbstractArithmetic, eqn: Any, pivots: Scalars) -> list[Scalars]:
    """The order of rows that exchanges make, each with the one of its pivot."""
    size, dtype = eqn.params["permutation_size"], eqn.outvars[0].aval.dtype
    if size > LARGEST:
        raise NotScalarisable(f"{eqn.primitive.name} of {size} rows as a program of scalars")
    result = np.empty(eqn.outvars[0].aval.shape, object)
    for lead in np.ndindex(pivots.shape[:-1]):
        order = [dtype.type(i) for i in range(size)]
        for i, at in enumerate(pivots[lead]):
            first = order[i]
            for k in range(i + 1, size):
                is_here = applied(arithmetic, "eq", bool, at, at.dtype.type(k))
                order[i] = chosen(arithmetic, is_here, order[k], order[i])
                order[k] = chosen(arithmetic, is_here, first, order[k])
        for i, number in enumerate(order):
            result[(*lead, i)] = number
    return [result]


RULES = {
    "lu_pivots_to_permutation": permutation,
    "lu": functools.partial(_of_matrices, _triangles),
    "triangular_solve": functools.partial(_of_matrices, _solved),
    "cholesky": functools.partial(_of_matrices, _root),
    "sort": _in_order,
}
