"""Strains of a bilinear quad with directors at its corners, and their energy with stresses of their own."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._math.small_matrix import determinant, inverse
from .._mesh.reference import reference_element
from .._runtime.array_types import Array, Float, Scalar
from .membrane import surface_axes
from .shell_triangle import plane_compliance, plane_stress

_QUAD = reference_element("quad")
_POINTS, _WEIGHTS = _QUAD.quadrature("stiffness")
_SHAPES, _SLOPES = np.asarray(_QUAD.shape(_POINTS)), _QUAD.shape_gradients(_POINTS)
_MIDDLE = _QUAD.shape_gradients(np.zeros(2))
# Shear along the first coordinate is taken in the middles of the first two sides, along the second in those of the others.
_SIDES, _ALONG, _ENDS = np.array([[0.0, -1.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.0]]), [0, 0, 1, 1], [-1.0, 1.0]
_SIDE_SHAPES, _SIDE_SLOPES = np.asarray(_QUAD.shape(_SIDES)), _QUAD.shape_gradients(_SIDES)[range(4), :, _ALONG]
_FROM_SIDES = np.zeros((4, 2, 4))
_FROM_SIDES[:, 0, :2], _FROM_SIDES[:, 1, 2:] = (0.5 * (1 + _POINTS[:, [k]] * _ENDS) for k in (1, 0))


class RestQuad(NamedTuple):
    """A quad at rest, at its four Gauss points `q`: everything in axes that turn with the surface and nothing more."""

    axes: Float[Array, "q 3 2"]  # of the surface
    inverse: Float[Array, "q 2 2"]  # of the tangents in these axes [1/m]
    areas: Float[Array, " q"]  # [m^2]
    middle: Float[Array, "2 2"]  # the tangents there, as columns [m]


def rest_quad(X: Float[Array, "4 3"]) -> RestQuad:
    """The geometry of a quad whose corners need not lie in a plane."""
    along = X.T @ jnp.asarray(_MIDDLE, X.dtype)
    middle_axes = surface_axes(along)

    def at_point(slopes: Array) -> tuple[Array, Array]:
        tangents = X.T @ slopes
        axes = surface_axes(tangents)
        turn = middle_axes.T @ axes
        both = jnp.stack([turn[0, 0] + turn[1, 1], turn[1, 0] - turn[0, 1]])
        c, s = both / jnp.sqrt(both @ both)
        axes = axes @ jnp.stack([jnp.stack([c, s]), jnp.stack([-s, c])])
        return axes, axes.T @ tangents

    axes, tangents = jax.vmap(at_point)(jnp.asarray(_SLOPES, X.dtype))
    areas = jnp.asarray(_WEIGHTS, X.dtype) * jax.vmap(determinant)(tangents)
    return RestQuad(axes, jax.vmap(inverse)(tangents), areas, middle_axes.T @ along)


def quad_strains(
    rest: RestQuad, X: Float[Array, "4 3"], N: Float[Array, "4 3"], x: Float[Array, "4 3"], d: Float[Array, "4 3"]
) -> tuple[Float[Array, "q 3"], Float[Array, "q 3"], Float[Array, "q 2"]]:
    """Membrane strains and curvatures [1/m] `(xx, yy, 2 xy)`, and shear `(xz, yz)`, of positions and directors.

    Green's of `x + z d`, less those of `X + z N`: `a_i . a_j / 2`, `(a_i . d_j + a_j . d_i) / 2` and `a_i . d`, where shear
    is linear between the middles of opposite sides. Nothing changes where a quad is moved as a whole.
    Source: E. N. Dvorkin, K.-J. Bathe, Eng. Comput. 1 (1984) 77, doi:10.1108/eb023562.
    """
    (stretch, bend, shear), at_rest = _products(x, d), _products(X, N)

    def flat(change: Float[Array, "q 2 2"]) -> Float[Array, "q 3"]:
        strain = jnp.einsum("qab,qac,qbd->qcd", change, rest.inverse, rest.inverse)
        return jnp.stack([strain[:, 0, 0], strain[:, 1, 1], strain[:, 0, 1] + strain[:, 1, 0]], axis=1)

    sheared = jnp.einsum("qa,qab->qb", shear - at_rest[2], rest.inverse)
    return flat(stretch - at_rest[0]), flat(bend - at_rest[1]), sheared


def _products(x: Float[Array, "4 3"], d: Float[Array, "4 3"]) -> tuple[Array, Array, Array]:
    """Halves of those of tangents; of tangents and slopes of the director; of tangents and director, by the sides."""
    a, slope = (jnp.einsum("qka,kc->qac", jnp.asarray(_SLOPES, x.dtype), y) for y in (x, d))
    sides = (jnp.asarray(_SIDE_SLOPES, x.dtype) @ x) * (jnp.asarray(_SIDE_SHAPES, x.dtype) @ d)
    stretch, bend = (jnp.einsum("qac,qbc->qab", a, y) for y in (a, slope))
    return 0.5 * stretch, bend, jnp.asarray(_FROM_SIDES, x.dtype) @ jnp.sum(sides, axis=1)


def mean_over(rest: RestQuad, values: Float[Array, "q n"]) -> Float[Array, " n"]:
    """Their mean over the area."""
    return rest.areas @ values / jnp.sum(rest.areas)


def mixed_energy(rest: RestQuad, strain: Float[Array, "q 3"], young: Array, poisson: Array) -> Scalar:
    """The energy of plane stress that strains `(xx, yy, 2 xy)` store, of unit thickness, by stresses of five parameters.

    Constant ones, and along each coordinate of the quad one that is linear along the other, `a a^T (s - mean s)` of the
    tangent `a` in the middle: what is left of the strains does no work. So bending in the plane is exact of rectangles, and
    nothing locks. Being where the two-field energy of Hellinger and Reissner is stationary, it is linear in no unknowns.
    Source: T. H. H. Pian, K. Sumihara, Int. J. Numer. Methods Eng. 20 (1984) 1685, doi:10.1002/nme.1620200911.
    """
    # Of a modulus of one and ways of unit length: single precision holds no determinant of fourth powers of millimetres
    # over moduli of steel.
    unit, area = jnp.ones((), strain.dtype), jnp.sum(rest.areas)
    mean = mean_over(rest, strain)
    other = jnp.asarray(_POINTS[:, ::-1], strain.dtype)
    linear = other - mean_over(rest, other)
    (a, b), (c, d) = rest.middle
    ways = jnp.stack([jnp.stack([x * x, y * y, x * y]) / (x * x + y * y) for x, y in ((a, c), (b, d))])
    work = jnp.einsum("q,qi,ij,qj->i", rest.areas / area, linear, ways, strain)
    gives = jnp.einsum("q,qi,qj->ij", rest.areas / area, linear, linear)
    gives = gives * (ways @ plane_compliance(unit, poisson) @ ways.T)
    stored = mean @ plane_stress(unit, poisson) @ mean + work @ inverse(gives) @ work
    return 0.5 * young * area * stored


def mean_drilling(rest: RestQuad, x: Float[Array, "4 3"], R: Float[Array, "4 3 3"]) -> Scalar:
    """The mean of `w^2`, `w` by how much the corners' turns `R` about the normal are off that of the surface [rad].

    Source: T. J. R. Hughes, F. Brezzi, Comput. Methods Appl. Mech. Eng. 72 (1989) 105, doi:10.1016/0045-7825(89)90124-2.
    """
    tangents = jnp.einsum("kc,qka,qab->qcb", x, jnp.asarray(_SLOPES, x.dtype), rest.inverse)
    carried = jnp.einsum("qk,kcd,qdb->qcb", jnp.asarray(_SHAPES, x.dtype), R, rest.axes)
    off = 0.5 * jnp.sum(carried[:, :, 0] * tangents[:, :, 1] - carried[:, :, 1] * tangents[:, :, 0], axis=1)
    return mean_over(rest, off[:, None] ** 2)[0]


def middle_gradient(rest: RestQuad, x: Float[Array, "4 3"]) -> Float[Array, "3 2"]:
    """The deformation gradient of the surface in the middle of the quad, from its axes there at rest."""
    return x.T @ jnp.asarray(_MIDDLE, x.dtype) @ inverse(rest.middle)
