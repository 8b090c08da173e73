"""Strains of a bilinear quad with directors at its corners, and their energy with stresses of their own."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._math.small_matrix import determinant, inverse
from .._mesh.reference import reference_element
from .._runtime.array_types import Array, Float
from .membrane import surface_axes
from .shell_triangle import plane_compliance, plane_stress

_QUAD = reference_element("quad")
_POINTS, _WEIGHTS = _QUAD.quadrature("stiffness")
_SHAPES, _SLOPES = np.asarray(_QUAD.shape(_POINTS)), _QUAD.shape_gradients(_POINTS)
_MIDDLE = _QUAD.shape_gradients(np.zeros(2))
# Shear along the first coordinate is taken in the middles of the first two sides, along the second in those of the others.
_SIDES, _ALONG, _ENDS = np.array([[0.0, -1.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.0]]), [0, 0, 1, 1], [-1.0, 1.0]
_SIDE_SHAPES, _SIDE_SLOPES = np.asarray(_QUAD.shape(_SIDES)), _QUAD.shape_gradients(_SIDES)[range(4), :, _ALONG]
_SIDE_FORMS = _SIDE_SLOPES[:, :, None] * _SIDE_SHAPES[:, None]  # shear of a side is `x G d`
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


def quad_forms(rest: RestQuad) -> Float[Array, "9 4 4"]:
    """`B`, of which strains are `x B x / 2` (the first five) and `x B d`: of positions and directors of the corners.

    Of the membrane the mean `(xx, yy, 2 xy)` [-], and the work [m^2] on it of two linear stresses of unit size; the same of
    curvatures; and shear, `a . d` in the middles of the sides [m]. Stresses are constant ones, and along each coordinate of
    the quad one that is linear along the other, `a a^T (s - mean s)` of the tangent `a` in the middle: what is left of the
    strains does no work. So bending in the plane is exact of rectangles, and nothing locks.
    Source: T. H. H. Pian, K. Sumihara, Int. J. Numer. Methods Eng. 20 (1984) 1685, doi:10.1002/nme.1620200911; E. N.
    Dvorkin, K.-J. Bathe, Eng. Comput. 1 (1984) 77, doi:10.1108/eb023562.
    """
    along, across = rest.inverse[:, :, 0], rest.inverse[:, :, 1]
    both = along[:, :, None] * across[:, None]
    parts = jnp.stack([along[:, :, None] * along[:, None], across[:, :, None] * across[:, None], both + both.swapaxes(1, 2)])
    slopes = jnp.asarray(_SLOPES, parts.dtype)
    at_points = jnp.einsum("vqka,qla->vqkl", jnp.einsum("vqab,qkb->vqka", parts, slopes), slopes)
    mean = jnp.einsum("q,vqkl->vkl", rest.areas / jnp.sum(rest.areas), at_points)
    stresses = (rest.areas * _linear_stresses(rest).T)[:, :, None] * _ways(rest)[:, None]
    work = jnp.einsum("iqv,vqkl->ikl", stresses, at_points)
    return jnp.concatenate([mean, work, jnp.asarray(_SIDE_FORMS, parts.dtype)])


def strains_of(
    forms: Float[Array, "9 4 4"], x: Float[Array, "4 3"], d: Float[Array, "4 3"]
) -> tuple[Float[Array, "5"], Float[Array, "9"]]:
    """`x B x / 2` of the first five forms, and `x B d`; less those at rest they are strains."""
    first = jnp.einsum("ikl,kc->ilc", forms, x)
    return 0.5 * jnp.sum(first[:5] * x, axis=(1, 2)), jnp.sum(first * d, axis=(1, 2))


def _linear_stresses(rest: RestQuad) -> Float[Array, "q 2"]:
    """The other coordinate at the points, less its mean."""
    other = jnp.asarray(_POINTS[:, ::-1], rest.areas.dtype)
    return other - mean_over(rest, other)


def _ways(rest: RestQuad) -> Float[Array, "2 3"]:
    """`a a^T` of the tangents in the middle, `(xx, yy, xy)`."""
    (a, b), (c, d) = rest.middle
    return jnp.stack([jnp.stack([a * a, c * c, a * c]), jnp.stack([b * b, d * d, b * d])])


def plate_modulus(rest: RestQuad, young: Array, poisson: Array) -> Float[Array, "5 5"]:
    """`D` of mean strains and of the work on linear stresses, `e D e / 2` [N m], of unit thickness."""
    linear, ways = _linear_stresses(rest), _ways(rest)
    gives = jnp.einsum("q,qi,qj->ij", rest.areas, linear, linear) * (ways @ plane_compliance(young, poisson) @ ways.T)
    mean = jnp.sum(rest.areas) * plane_stress(young, poisson)
    return jnp.concatenate([jnp.pad(mean, ((0, 0), (0, 2))), jnp.pad(inverse(gives), ((0, 0), (3, 0)))])


def shear_modulus(rest: RestQuad) -> Float[Array, "4 4"]:
    """Of the shears of the middles of the sides, between which shear is linear, of a unit modulus [m^2]."""
    at_points = jnp.einsum("qas,qab->qbs", jnp.asarray(_FROM_SIDES, rest.areas.dtype), rest.inverse)
    return jnp.einsum("q,qbs,qbt->st", rest.areas, at_points, at_points)


def mean_over(rest: RestQuad, values: Float[Array, "q n"]) -> Float[Array, " n"]:
    """Their mean over the area."""
    return rest.areas @ values / jnp.sum(rest.areas)


class Drilling(NamedTuple):
    """By how much the corners' turns about the normal are off that of the surface, at the points `q`."""

    off: Float[Array, " q"]  # [rad]
    slopes: Float[Array, "q 4 2"]  # of the shape functions, in the axes [1/m]
    carried: Float[Array, "q 4 3 2"]  # the axes as the corners turn them, times the shape functions
    tangents: Float[Array, "q 3 2"]  # the axes as the surface turns and stretches them


def off_surface(rest: RestQuad, x: Float[Array, "4 3"], R: Float[Array, "4 3 3"]) -> Drilling:
    """Of positions and turns `R` of the corners.

    Source: T. J. R. Hughes, F. Brezzi, Comput. Methods Appl. Mech. Eng. 72 (1989) 105, doi:10.1016/0045-7825(89)90124-2.
    """
    slopes = jnp.einsum("qka,qab->qkb", jnp.asarray(_SLOPES, x.dtype), rest.inverse)
    tangents = jnp.einsum("kc,qkb->qcb", x, slopes)
    carried = jnp.asarray(_SHAPES, x.dtype)[:, :, None, None] * jnp.einsum("kcd,qdb->qkcb", R, rest.axes)
    axes = jnp.sum(carried, axis=1)
    off = 0.5 * jnp.sum(axes[:, :, 0] * tangents[:, :, 1] - axes[:, :, 1] * tangents[:, :, 0], axis=1)
    return Drilling(off, slopes, carried, tangents)


def middle_gradient(rest: RestQuad, x: Float[Array, "4 3"]) -> Float[Array, "3 2"]:
    """The deformation gradient of the surface in the middle of the quad, from its axes there at rest."""
    return x.T @ jnp.asarray(_MIDDLE, x.dtype) @ inverse(rest.middle)
