"""The frame of an element, of which SOFA's corotational elements make their rotation: `R = T(x)^T T(X)`.

`T` is a matrix of three orthonormal rows, made of edges. Its rows are not those of the polar factor of the deformation
gradient, which is another method ("gradient"), nor those of the rotation that fits the nodes best ("fitted").
Source: M. Nesme, Y. Payan, F. Faure, "Efficient, physically plausible finite elements", Eurographics 2005,
doi:10.2312/egs.20051028 (the methods "large" and "polar").
"""

import jax.numpy as jnp
import numpy as np

from ..._material.polar import rotation
from ..._math.small_matrix import adjugate, determinant
from ..._runtime.array_types import Array, Float

ROTATIONS = ("large", "polar", "small", "fitted", "gradient")
_SURFACES = ("triangle", "quad")
BY_REST = ("fitted", "gradient")  # of both shapes together, where the others have a frame of each


def element_rotation(kind: str, method: str, x: Float[Array, "k 3"], rest: Float[Array, "k 3"]) -> Float[Array, "3 3"]:
    """What turns the rest shape of an element into its present one."""
    return element_frame(kind, method, x, rest).T @ rest_frame(kind, method, rest)


def element_frame(kind: str, method: str, x: Float[Array, "k 3"], rest: Float[Array, "k 3"]) -> Float[Array, "3 3"]:
    """`T(x)`; where the rotation is of both shapes together, its transpose."""
    if method == "small":
        return jnp.eye(x.shape[1], dtype=x.dtype)
    if method == "fitted":
        return _fit((rest - jnp.mean(rest, axis=0)).T @ (x - jnp.mean(x, axis=0)), flat=kind in _SURFACES)
    if method == "gradient":  # of a tetrahedron
        then = rest[1:] - rest[0]
        return orthogonal_factor((adjugate(then) / determinant(then)) @ (x[1:] - x[0]))
    return {"large": _orthonormal, "polar": orthogonal_factor}[method](_edges(kind, method, x))


def rest_frame(kind: str, method: str, rest: Float[Array, "k 3"]) -> Float[Array, "3 3"]:
    """`T(X)`."""
    return jnp.eye(rest.shape[1], dtype=rest.dtype) if method in BY_REST else element_frame(kind, method, rest, rest)


def triangle_frame(x: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """Rows: along the first edge, across it in the plane of the triangle, and its normal."""
    return _orthonormal(jnp.stack([x[1] - x[0], x[2] - x[0]]))


def _edges(kind: str, method: str, x: Array) -> Array:
    """The edges that leave the first node of a simplex; the mean edges along each axis of a hexahedron."""
    if kind in ("triangle", "tetrahedron"):
        return x[1:] - x[0]
    return jnp.asarray(_MEAN_EDGES, x.dtype) @ x


_ALONG = (((0, 1), (3, 2), (4, 5), (7, 6)), ((0, 3), (1, 2), (4, 7), (5, 6)), ((0, 4), (1, 5), (2, 6), (3, 7)))
_MEAN_EDGES = np.zeros((3, 8))
for _row, _pairs in zip(_MEAN_EDGES, np.asarray(_ALONG), strict=True):
    _row[_pairs[:, 0]], _row[_pairs[:, 1]] = -0.25, 0.25


def _orthonormal(edges: Array) -> Array:
    """Along the first edge, and normal to the first two."""
    first = _unit(edges[0])
    normal = _unit(jnp.cross(first, edges[1]))
    return jnp.stack([first, jnp.cross(normal, first), normal])


def _unit(d: Array) -> Array:
    return d / jnp.sqrt(d @ d)


def _fit(A: Float[Array, "d d"], flat: bool) -> Float[Array, "d d"]:
    """The orthogonal factor; in the plane, and of cells that are flat, for which `det A` is rounding, a rotation."""
    if A.shape == (2, 2):
        turned = A + jnp.stack([jnp.stack([A[1, 1], -A[1, 0]]), jnp.stack([-A[0, 1], A[0, 0]])])
        return turned / jnp.sqrt(turned[0] @ turned[0])
    return rotation(A) if flat else orthogonal_factor(A)


def orthogonal_factor(A: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """`Q` of `A = Q S`, `S` symmetric and positive: a rotation, or where `det A < 0` one and a reflection."""
    side = jnp.where(determinant(A) < 0, -1.0, 1.0).astype(A.dtype)
    return side * rotation(side * A)
