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
_QUADRATIC = reference_element("triangle6")
_LINEAR_SLOPES = np.array([[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]])


def plane_stress(young: Array, poisson: Array) -> Float[Array, "3 3"]:
    """Stresses `(xx, yy, xy)` of strains `(xx, yy, 2 xy)` [Pa]."""
    alone, shared = (jnp.asarray(a, jnp.result_type(young)) for a in _PLANE_STRESS)
    return young / (1 - poisson**2) * (alone + poisson * shared)


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
    stretches = inverse(jnp.stack([x**2, y**2, x * y], axis=1))  # strains of those of edges, times their squared lengths
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


def bending_energy(X: Float[Array, "3 2"], turns: Float[Array, "3 2"], young: Array, poisson: Array) -> Scalar:
    """`1/2 integral of kappa E kappa` of the discrete Kirchhoff triangle whose corners stay in its plane.

    `turns` about x and y; the slope `beta` of the director is quadratic, and at the middle of an edge follows the cubic
    deflection along it: of the mean slope, minus a half along the edge, and all across it.
    Source: J.-L. Batoz, K.-J. Bathe, L.-W. Ho, Int. J. Numer. Methods Eng. 15 (1980) 1771, doi:10.1002/nme.1620151205.
    """
    E, area = plane_stress(young, poisson), _area(X)
    curvature = curvatures(X, turns)
    weights = jnp.asarray(_QUADRATIC.quadrature(2)[1], X.dtype)
    return area * jnp.sum(weights[:, None] * (curvature @ E) * curvature)


def curvatures(X: Float[Array, "3 2"], turns: Float[Array, "3 2"]) -> Float[Array, "q 3"]:
    """`(xx, yy, 2 xy)` at the points of quadrature, whose weights are equal."""
    beta = jnp.stack([turns[:, 1], -turns[:, 0]], axis=1)
    edges = jnp.roll(X, -1, axis=0) - X
    both = beta + jnp.roll(beta, -1, axis=0)
    along = jnp.sum(edges * both, axis=1, keepdims=True) / jnp.sum(edges**2, axis=1, keepdims=True) * edges
    values = jnp.concatenate([beta, 0.5 * both - 0.75 * along])
    points, _ = _QUADRATIC.quadrature(2)
    slopes = jnp.asarray(_QUADRATIC.shape_gradients(points), X.dtype) @ inverse(X.T @ jnp.asarray(_LINEAR_SLOPES, X.dtype))
    gradient = jnp.einsum("ka,qkb->qab", values, slopes)
    cross = gradient[:, 0, 1] + gradient[:, 1, 0]
    return jnp.stack([gradient[:, 0, 0], gradient[:, 1, 1], cross], axis=1)


def _slopes(X: Float[Array, "3 2"]) -> Float[Array, "3 2"]:
    """Gradients of the linear shape functions."""
    linear = jnp.asarray(_LINEAR_SLOPES, X.dtype)
    return linear @ inverse(X.T @ linear)
