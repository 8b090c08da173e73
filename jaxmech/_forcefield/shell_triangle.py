"""Energies of a flat triangle at small strains: plane stress with turns about the normal, and bending.

Both are of unit weight in the thickness: times `t` the one, times `t^3 / 12` the other.
"""

import jax.numpy as jnp
import numpy as np

from .._math.small_matrix import inverse
from .._mesh.reference import reference_element
from .._runtime.array_types import Array, Float, Scalar

_ALPHA, _BETAS = 1.5, np.array([[1.0, 2.0, 1.0], [0.0, 1.0, -1.0], [-1.0, -1.0, -2.0]])  # of the template called OPT
_COUPLED = 0.2  # `drilling` well below which the mean strain has no share of the turns
# The strains along the edges 21, 32 and 13 at a corner are made of the turns by these, turned with the corners.
_CORNERS = np.stack([np.roll(np.roll(_BETAS, k, axis=0), k, axis=1) for k in range(3)])
_PLANE_STRESS = np.diag([1.0, 1.0, 0.5]), np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -0.5]])
_PLANE_STRAINS = np.diag([1.0, 1.0, 2.0]), np.array([[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
AS_TENSOR = np.array([[0, 2], [2, 1]])  # of (xx, yy, xy)
_QUADRATIC = reference_element("triangle6")
_POINTS = _QUADRATIC.quadrature(2)[0]  # three, of equal weights
_LINEAR_SLOPES = np.array([[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]])
_SHAPES = np.column_stack([1 - _POINTS.sum(axis=1), _POINTS])
# At points, edge by edge, of slopes of corners: fields whose component along an edge is 1 / L on their own, 0 on the others.
_EDGES = _SHAPES[:, :, None] * np.roll(np.eye(3), 1, axis=1) - np.roll(_SHAPES, -1, axis=1)[:, :, None] * np.eye(3)


def plane_stress(young: Array, poisson: Array) -> Float[Array, "3 3"]:
    """Stresses `(xx, yy, xy)` of strains `(xx, yy, 2 xy)` [Pa]."""
    alone, shared = (jnp.asarray(a, jnp.result_type(young)) for a in _PLANE_STRESS)
    return young / (1 - poisson**2) * (alone + poisson * shared)


def plane_compliance(young: Array, poisson: Array) -> Float[Array, "3 3"]:
    """Strains of stresses: the inverse of `plane_stress`."""
    alone, shared = (jnp.asarray(a, jnp.result_type(young)) for a in _PLANE_STRAINS)
    return (alone + poisson * shared) / young


def _area(X: Float[Array, "3 2"]) -> Scalar:
    a, b = X[1] - X[0], X[2] - X[0]
    return 0.5 * (a[0] * b[1] - a[1] * b[0])


def membrane_energy(
    X: Float[Array, "3 2"], u: Float[Array, "3 2"], turns: Float[Array, "3"], young: Array, poisson: Array, drilling: Array
) -> Scalar:
    """`1/2 u K u` of the optimal membrane triangle with drilling freedoms, of unit thickness.

    A mean strain, of which the turns have a share, and hierarchical strains of what the turns are beyond that of the whole,
    whose stiffness counts by `drilling`: 1 is the optimum of flat plates, and any positive number is consistent. Where it is
    small the share is too: thin twisted shells would be too stiff by a factor, were the means to follow the turns about
    normals that are not one.
    Source: C. A. Felippa, Comput. Methods Appl. Mech. Eng. 192 (2003) 2125, doi:10.1016/S0045-7825(03)00253-6.
    """
    E, area = plane_stress(young, poisson), _area(X)
    gradient = u.T @ _slopes(X)
    beyond = turns - 0.5 * (gradient[1, 0] - gradient[0, 1])
    mean = mean_strain(X, u, turns, drilling)
    x, y = (jnp.roll(X, -1, axis=0) - X).T  # edges 21, 32, 13
    # Strains of those of edges, times their squared lengths. Per area: of small ones single precision holds no sixth powers.
    stretches = inverse(jnp.stack([x**2, y**2, x * y], axis=1) / area) / area
    at_corners = (2 * area / 3) * (jnp.asarray(_CORNERS, X.dtype) @ beyond)
    higher = 0.5 * (at_corners + jnp.roll(at_corners, -1, axis=0)) @ stretches.T  # at the middles of the edges
    beta = drilling * jnp.maximum(0.5 * (1 - 4 * poisson**2), 0.01)
    return 0.5 * area * (mean @ E @ mean + 0.75 * beta * jnp.sum((higher @ E) * higher))


def mean_strain(X: Float[Array, "3 2"], u: Float[Array, "3 2"], turns: Float[Array, "3"], drilling: Array) -> Array:
    """`(xx, yy, 2 xy)` of the whole triangle, of which the turns of its corners have a share."""
    gradient = u.T @ _slopes(X)
    mean = jnp.stack([gradient[0, 0], gradient[1, 1], gradient[0, 1] + gradient[1, 0]])
    return mean + _ALPHA * drilling * (1 + _COUPLED) / (drilling + _COUPLED) * _of_turns(X, _area(X)) @ turns


def _of_turns(X: Float[Array, "3 2"], area: Scalar) -> Float[Array, "3 3"]:
    """The mean strain of unit turns of the corners, but for the factor alpha."""
    ahead, behind = jnp.roll(X, -1, axis=0) - X, jnp.roll(X, -2, axis=0) - X
    across, both = ahead - behind, ahead + behind  # xy: 2 (behind_x (-behind_y) - (-ahead_x) ahead_y)
    xy = 2 * (ahead[:, 0] * ahead[:, 1] - behind[:, 0] * behind[:, 1])
    return jnp.stack([-across[:, 1] * both[:, 1], -across[:, 0] * both[:, 0], xy]) / (12 * area)


def bending_energy(
    X: Float[Array, "3 2"], turns: Float[Array, "3 2"], young: Array, poisson: Array, flexibility: Array | float = 0.0
) -> Scalar:
    """`1/2 integral of kappa E kappa` of the discrete Kirchhoff-Mindlin triangle whose corners stay in its plane, and shear.

    `turns` about x and y; the slope `beta` of the director is quadratic, and at the middle of an edge of length `L` follows
    the deflection along it: of the mean slope, minus a half along the edge over `1 + flexibility / L^2`, and all across it.
    `flexibility`: `2 t^2 / ((1 - nu) k)` [m^2], of thickness and shear factor; what the edges shear is constant along them,
    and linear between. 0 is the discrete Kirchhoff triangle.
    Source: I. Katili, Int. J. Numer. Methods Eng. 36 (1993) 1859, doi:10.1002/nme.1620361106; J.-L. Batoz, K.-J. Bathe,
    L.-W. Ho, Int. J. Numer. Methods Eng. 15 (1980) 1771, doi:10.1002/nme.1620151205.
    """
    E, area = plane_stress(young, poisson), _area(X)
    curvature = curvatures(X, turns, flexibility)
    edges, both = _along_edges(X, turns)
    sheared = 0.5 * jnp.sum(edges * both, axis=1) / (jnp.sum(edges**2, axis=1) + flexibility)
    gamma = jnp.einsum("k,qka->qa", sheared, jnp.einsum("qkj,ja->qka", jnp.asarray(_EDGES, X.dtype), _slopes(X)))
    sheared = 12 * E[0, 0] * flexibility * jnp.sum(gamma**2)  # of D, as t^3/12 E is
    return area / 6 * (jnp.sum((curvature @ E) * curvature) + sheared)


def curvatures(X: Float[Array, "3 2"], turns: Float[Array, "3 2"], flexibility: Array | float = 0.0) -> Float[Array, "q 3"]:
    """`(xx, yy, 2 xy)` at the points of quadrature, whose weights are equal."""
    edges, both = _along_edges(X, turns)
    share = jnp.sum(edges * both, axis=1) / (jnp.sum(edges**2, axis=1) + flexibility)
    beta = jnp.stack([turns[:, 1], -turns[:, 0]], axis=1)
    values = jnp.concatenate([beta, 0.5 * both - 0.75 * share[:, None] * edges])
    slopes = jnp.asarray(_QUADRATIC.shape_gradients(_POINTS), X.dtype) @ inverse(X.T @ jnp.asarray(_LINEAR_SLOPES, X.dtype))
    gradient = jnp.einsum("ka,qkb->qab", values, slopes)
    cross = gradient[:, 0, 1] + gradient[:, 1, 0]
    return jnp.stack([gradient[:, 0, 0], gradient[:, 1, 1], cross], axis=1)


def _along_edges(X: Float[Array, "3 2"], turns: Float[Array, "3 2"]) -> tuple[Array, Array]:
    """Edges 21, 32 and 13, and the sums of the slopes of the director at their ends."""
    beta = jnp.stack([turns[:, 1], -turns[:, 0]], axis=1)
    return jnp.roll(X, -1, axis=0) - X, beta + jnp.roll(beta, -1, axis=0)


def _slopes(X: Float[Array, "3 2"]) -> Float[Array, "3 2"]:
    """Gradients of the linear shape functions."""
    linear = jnp.asarray(_LINEAR_SLOPES, X.dtype)
    return linear @ inverse(X.T @ linear)
