"""Gauss points and weights of lines, simplices, their products, and pyramids."""

from math import factorial

import numpy as np

_SIMPLEX_RULES = {2: 1 / 6, 3: (5 - 5**0.5) / 20}


def rule_of_product(factors: tuple[int, ...], degrees: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of a product of lines `[-1, 1]` (1) and simplices (2, 3), each exact up to its own degree."""
    points, weights = np.zeros((1, 0)), np.ones(1)
    for dimension, degree in zip(factors, degrees, strict=True):
        more, their = _line_rule(degree) if dimension == 1 else _simplex_rule(dimension, degree)
        points = np.hstack([np.repeat(points, len(more), axis=0), np.tile(more, (len(points), 1))])
        weights = np.outer(weights, their).ravel()
    return points, weights


def pyramid_rule(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the pyramid on `[-1, 1]^2` with its apex at `(0, 0, 1)`: a cube pinched towards it, exact up to a total degree."""
    across, weights = rule_of_product((1, 1), (degree, degree))
    up, their = _gauss(degree // 2 + 1, 2)
    height = (up + 1) / 2
    room = np.repeat(1 - height, len(across))[:, None]
    points = np.hstack([np.tile(across, (len(up), 1)) * room, 1 - room])
    return points, np.outer(their / 8, weights).ravel()


def _gauss(count: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights in (-1, 1) for the weight function `(1 - x)^axis`, in NumPy: SciPy's take longer to import than
    many a scene to build.

    From 1 on eigenvalues of the matrix of the recurrence of Jacobi's polynomials (Golub & Welsch, 1969).
    """
    if axis == 0:
        return np.polynomial.legendre.leggauss(count)
    k, more = np.arange(count), np.arange(1, count)
    middle = -(axis**2) / ((2 * k + axis) * (2 * k + axis + 2))
    beside = 2 * more * (more + axis) / ((2 * more + axis) * np.sqrt((2 * more + axis) ** 2 - 1))
    points, vectors = np.linalg.eigh(np.diag(middle) + np.diag(beside, 1) + np.diag(beside, -1))
    return points, 2 ** (axis + 1) / (axis + 1) * vectors[0] ** 2


def _line_rule(degree: int) -> tuple[np.ndarray, np.ndarray]:
    points, weights = _gauss(degree // 2 + 1, 0)
    return points[:, None], weights


def _simplex_rule(dimension: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, volume = dimension + 1, 1 / factorial(dimension)
    if degree <= 1:
        return np.full((1, dimension), 1 / nodes), np.array([volume])
    if degree == 2:
        # One point per node, pulled towards it: the classical symmetric rules (Hammer & Stroud, 1956).
        a = _SIMPLEX_RULES[dimension]
        barycentric = a + (1 - nodes * a) * np.eye(nodes)
        return barycentric[:, 1:], np.full(nodes, volume / nodes)
    return _collapsed_rule(dimension, degree)


def _collapsed_rule(dimension: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss points of the simplex, as a cube pinched axis after axis (Stroud, 1971)."""
    axes = [_gauss(degree // 2 + 1, axis) for axis in range(dimension)]
    points = np.stack(np.meshgrid(*[x for x, _ in axes], indexing="ij"), -1).reshape(-1, dimension)
    weights = np.stack(np.meshgrid(*[w for _, w in axes], indexing="ij"), -1).reshape(-1, dimension)
    unit = (points + 1) / 2
    room = np.cumprod((1 - unit)[:, ::-1], axis=1)[:, ::-1]  # what the later axes leave to each axis
    room = np.hstack([room[:, 1:], np.ones((len(unit), 1))])
    return unit * room, (weights / 2.0 ** (1 + np.arange(dimension))).prod(-1)
