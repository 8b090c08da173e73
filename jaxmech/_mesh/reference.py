"""What one cell of each kind looks like before it is placed in space: shape functions, faces, quadrature."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, combinations, product
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import real_array
from .._runtime.array_types import Float
from .quadrature import pyramid_rule, rule_of_product

# By order; of simplices, of products of lines, of prisms (of the triangle, and along the line), of pyramids.
_NAMED_DEGREES = {
    1: {"stiffness": (0, 3, 2, 2), "mass": (2, 3, 2, 2)},
    2: {"stiffness": (2, 5, (2, 4), 4), "mass": (4, 5, 4, 4)},
}
_HIGHEST_DEGREE = 100


@dataclass(frozen=True)
class ReferenceElement:
    """A Lagrange cell in its own coordinates `xi`, nodes in VTK order: corners first, then those in the middle.

    A cell is a product: `factors` are the dimensions of lines `[-1, 1]` (1) and of simplices
    `{xi >= 0, sum(xi) <= 1}` (2, 3), so that a prism is `(2, 1)`, a triangle times a line. A pyramid is three lines,
    `pinched`: `[-1, 1]^2` at `xi_3 = 0`, and a point at 1. Hashable: it may be a static field. Faces are the local numbers
    of the cells one dimension below, outward for a positively oriented cell (in the plane, the cell is on the left of its
    edges); `face_kind` is `None` where there are none, or of several kinds. `powers`: the exponents of the monomials in `xi`
    that span the shape functions, as many as nodes; none for cells whose shape functions are products of affine ones. Of
    pyramids they are exponents of `xi_1, xi_2, 1 - xi_3`, and the last may be -1: their shape functions are rational. A row
    of a table, not a class, is what a further cell takes.
    `xi` and shapes are pure numbers. `shape`, `shape_gradients` and `quadrature` raise `ValueError` for places of another
    dimension and unknown rules; `reference_element` for unknown kinds.
    Source: O. C. Zienkiewicz, R. L. Taylor, *The Finite Element Method*, vol. 1, 5th ed., 2000, ch. 8;
    G. Bedrosian, Int. J. Numer. Meth. Eng. 35 (1992) 95, doi:10.1002/nme.1620350106 (pyramids).

    Example:

        quad = jm.mesh.reference_element("quad")
        points, weights = quad.quadrature("stiffness")  # 2 x 2 Gauss points
        assert points.shape == (4, 2) and np.isclose(weights.sum(), 4.0)  # the square [-1, 1]^2
    """

    kind: str
    factors: tuple[int, ...]
    vertices: tuple[tuple[int, ...], ...]
    faces: tuple[tuple[int, ...], ...] = ()
    face_kind: str | None = None
    powers: tuple[tuple[int, ...], ...] = ()
    pinched: bool = False

    @property
    def order(self) -> int:
        """1 of linear cells, 2 of quadratic ones: those with nodes in the middle of their edges."""
        return 1 if len(self.corners) == self.nodes else 2

    @property
    def dimension(self) -> int:
        """How many coordinates `xi` has."""
        return sum(self.factors)

    @property
    def is_simplex(self) -> bool:
        """Whether it is a triangle or a tetrahedron."""
        return len(self.factors) == 1 and self.factors[0] > 1

    @property
    def is_affine(self) -> bool:
        """Whether any such cell is an affine image of the reference cell."""
        return self.is_simplex and self.order == 1

    @property
    def corners(self) -> tuple[int, ...]:
        """Local numbers of the nodes that are not in the middle of others."""
        return _corners(self)

    @property
    def factor_axes(self) -> tuple[slice, ...]:
        """Which coordinates are those of each factor."""
        ends = tuple(accumulate(self.factors, initial=0))
        return tuple(slice(*pair) for pair in zip(ends, ends[1:], strict=False))

    @property
    def nodes(self) -> int:
        """How many nodes one cell has."""
        return len(self.vertices)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Local numbers of the two ends of every edge, smaller number first."""
        if self.dimension == 1:
            return ((0, 1),)
        corners = set(self.corners)
        rings = self.faces if self.dimension == 3 else (tuple(range(self.nodes)),)
        rings = tuple(tuple(node for node in ring if node in corners) for ring in rings)
        pairs = {(min(p), max(p)) for ring in rings for p in zip(ring, ring[1:] + ring[:1], strict=True)}
        return tuple(sorted(pairs))

    def shape(self, xi: Any) -> Any:
        """Values `(..., k)` of the shape functions at `xi` `(..., dimension)`, NumPy or JAX as `xi` is.

        They sum to 1, and each is 1 at its own node and 0 at the others.
        """
        xi = self._places(xi)
        if self.powers:
            return _monomials(xi, self) @ _coefficients(self)
        return prod(values + xi[..., axes] @ slopes.T for axes, values, slopes in _factor_shapes(self))

    def shape_gradients(self, xi: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... k d"]:
        """Derivatives of the `k` shape functions with respect to `xi`."""
        if self.powers:
            return np.swapaxes(_monomial_slopes(np.asarray(self._places(xi)), self) @ _coefficients(self), -1, -2)
        xi, pieces, columns = np.asarray(self._places(xi)), _factor_shapes(self), []
        shapes = [values + xi[..., axes] @ slopes.T for axes, values, slopes in pieces]
        for chosen, (_, _, slopes) in enumerate(pieces):  # the product rule
            others = prod(shapes[:chosen] + shapes[chosen + 1 :], start=np.ones(shapes[0].shape))
            columns.append(others[..., None] * slopes)
        return np.concatenate(columns, axis=-1)

    def _places(self, xi: Any) -> Any:
        """`xi` as an array of real numbers `(..., dimension)`."""
        places = real_array("ReferenceElement", "xi", xi, finite=False)
        if places.shape[-1:] != (self.dimension,):
            raise ValueError(f"ReferenceElement: xi has shape {places.shape}, expected (..., {self.dimension}).")
        return places

    def quadrature(self, degree: int | str) -> tuple[Float[np.ndarray, "q d"], Float[np.ndarray, " q"]]:
        """Points and positive weights, exact for polynomials of `degree`.

        The degree is the total one in simplices and pyramids, and that in each variable along lines. 'stiffness' is 1 point
        for linear simplices, 2 per axis for products of lines and for pyramids, and 3 times 2 for prisms; of quadratic cells
        3 points for triangles, 4 for tetrahedra, 3 per axis for products of lines and for pyramids, 3 times 3 for prisms.
        'mass' integrates products of two shape functions exactly (for affine simplices, prisms and pyramids, and
        parallelepipeds). Raises `ValueError` for any other name, and for a negative degree.
        """
        names = _NAMED_DEGREES[self.order]
        if isinstance(degree, str) and degree in names:
            lines = set(self.factors) == {1}
            family = 0 if self.is_simplex else 3 if self.pinched else 1 if lines else 2
            named = names[degree][family]
            return _quadrature(self, named if isinstance(named, tuple) else (named,) * len(self.factors))
        if isinstance(degree, bool) or not isinstance(degree, int | np.integer) or not 0 <= degree <= _HIGHEST_DEGREE:
            raise ValueError(
                f"ReferenceElement: degree {degree!r:.80} of quadrature is neither a degree (0, 1, ... {_HIGHEST_DEGREE}) "
                f"nor one of {sorted(names)}."
            )
        return _quadrature(self, (int(degree),) * len(self.factors))


@cache
def _corners(element: ReferenceElement) -> tuple[int, ...]:
    places = np.asarray(element.vertices, float)
    middle = {tuple(p) for a, b in combinations(places, 2) for p in [(a + b) / 2]}
    return tuple(k for k, place in enumerate(places) if tuple(place) not in middle)


@cache
def _quadrature(element: ReferenceElement, degrees: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    points, weights = pyramid_rule(degrees[0]) if element.pinched else rule_of_product(element.factors, degrees)
    for array in (points, weights):
        array.flags.writeable = False  # shared by every caller
    return points, weights


@cache
def _factor_shapes(element: ReferenceElement) -> list[tuple[slice, np.ndarray, np.ndarray]]:
    """For each factor, its coordinates, and values `(k,)` at `xi = 0` and slopes `(k, f)` of its affine shape
    functions: `N_a(xi)` is the product of those of node `a`.
    """
    vertices, pieces = np.asarray(element.vertices), []
    for axes, dimension in zip(element.factor_axes, element.factors, strict=True):
        corner = vertices[:, axes]
        if dimension == 1:
            pieces.append((axes, np.full(len(vertices), 0.5), corner / 2))
        else:
            at_origin = 1.0 - corner.sum(1)
            pieces.append((axes, at_origin, corner - at_origin[:, None]))
    return pieces


def _monomials(xi: Any, element: ReferenceElement) -> Any:
    """`xi_1^p_1 xi_2^p_2 ...` of every row of powers, `(..., m)`, NumPy or JAX as `xi` is."""
    return _powers(xi, element, [_plain] * element.dimension)


def _monomial_slopes(xi: np.ndarray, element: ReferenceElement) -> np.ndarray:
    """The derivatives of the monomials by each coordinate, `(..., d, m)`."""
    axes = range(element.dimension)
    rows = [_powers(xi, element, [_slopes if a == axis else _plain for a in axes]) for axis in axes]
    if element.pinched:  # of 1 - xi_3 they are
        rows[-1] = -rows[-1]
    return np.stack(rows, axis=-2)


def _plain(x: Any) -> tuple[Any, ...]:
    """`x^0, x^1, x^2`."""
    return x * 0 + 1, x, x * x


def _slopes(x: Any) -> tuple[Any, ...]:
    return x * 0, x * 0 + 1, 2 * x


def _inverse(x: Any) -> Any:
    """`x^-1`, of pyramids, and 0 where `x` is: at its apex, what a pyramid multiplies it with is nil."""
    module = np if isinstance(x, np.ndarray) else jnp
    return module.where(x == 0, 0, 1 / module.where(x == 0, 1, x))


def _powers(xi: Any, element: ReferenceElement, kinds: list[Callable[[Any], tuple[Any, ...]]]) -> Any:
    """Products over the coordinates of what `kinds` (one each) make of them, by exponent."""
    axes, columns = range(element.dimension), [xi[..., a, None] for a in range(element.dimension)]
    if element.pinched:
        columns[-1] = 1 - columns[-1]
    tables = [kinds[a](columns[a]) for a in axes]
    if element.pinched:  # the only one with a quotient: a coordinate near nil of another has no inverse
        last = _inverse(columns[-1])
        tables[-1] = (*tables[-1], last if kinds[-1] is _plain else -(last**2))
    module = np if isinstance(xi, np.ndarray) else jnp
    return module.concatenate([prod(tables[a][p[a]] for a in axes) for p in element.powers], axis=-1)


@cache
def _coefficients(element: ReferenceElement) -> np.ndarray:
    """The shape functions in monomials, a column for each: the inverse of the monomials at the nodes."""
    found = np.linalg.inv(_monomials(np.asarray(element.vertices, float), element))
    return np.where(np.abs(found) < 1e-12, 0.0, found)


_CUBE = ((-1, -1, -1), (1, -1, -1), (1, 1, -1), (-1, 1, -1), (-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1))
_CUBE_FACES = ((0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7))
_WEDGE = ((0, 0, -1), (1, 0, -1), (0, 1, -1), (0, 0, 1), (1, 0, 1), (0, 1, 1))
_WEDGE_FACES = ((0, 2, 1), (3, 4, 5), (0, 1, 4, 3), (1, 2, 5, 4), (2, 0, 3, 5))
_PYRAMID = ((-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0), (0, 0, 1))
_PYRAMID_FACES = ((0, 3, 2, 1), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4))
_RATIONAL = ((1, 1, -1), (2, 1, -1), (1, 2, -1))
_TETRAHEDRON = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
_AFFINE = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
_ELEMENTS = {
    element.kind: element
    for element in (
        ReferenceElement("edge", (1,), ((-1,), (1,))),
        ReferenceElement("triangle", (2,), ((0, 0), (1, 0), (0, 1)), ((0, 1), (1, 2), (2, 0)), "edge"),
        ReferenceElement("quad", (1, 1), ((-1, -1), (1, -1), (1, 1), (-1, 1)), ((0, 1), (1, 2), (2, 3), (3, 0)), "edge"),
        ReferenceElement("tetrahedron", (3,), _TETRAHEDRON, ((1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1)), "triangle"),
        ReferenceElement("pyramid", (1,) * 3, _PYRAMID, _PYRAMID_FACES, None, (*_AFFINE, _RATIONAL[0]), True),
        ReferenceElement("prism", (2, 1), _WEDGE, _WEDGE_FACES),
        ReferenceElement("hexahedron", (1, 1, 1), _CUBE, _CUBE_FACES, "quad"),
    )
}


def _quadratic(
    kind: str, linear: str, edges: str, middles: tuple[tuple[int, ...], ...], degree: str, face_kind: str | None
) -> ReferenceElement:
    """A linear cell with nodes in the middle of its edges (pairs of corners, in VTK's order) and of sets of corners.

    `degree`: which monomials, 'total' 2, 'each' variable 2, 'superlinear' 2, where a first power counts nothing, 'prism', or
    'rational' ones besides.
    """
    base = _ELEMENTS[linear]
    pairs = tuple((int(edge[0]), int(edge[1])) for edge in edges.split())
    groups = (*pairs, *middles)
    corners = np.asarray(base.vertices, float)
    places = [*map(tuple, corners.tolist()), *(tuple(corners[list(group)].mean(axis=0).tolist()) for group in groups)]
    number = {frozenset(group): len(corners) + i for i, group in enumerate(groups)}
    faces = []
    for face in base.faces:
        ring = [frozenset(pair) for pair in zip(face, face[1:] + face[:1], strict=True)]
        ring = list(dict.fromkeys(ring))  # an edge is a ring of one
        own = [*ring, frozenset(face)] if len(ring) > 1 else ring
        faces.append((*face, *(number[group] for group in own if group in number)))
    powers = _powers_of(base.dimension, degree)
    return ReferenceElement(kind, base.factors, tuple(places), tuple(faces), face_kind, powers, base.pinched)


def _powers_of(dimension: int, degree: str) -> tuple[tuple[int, ...], ...]:
    if degree == "rational":
        return (*_powers_of(dimension, "total"), *_RATIONAL)
    counted = {
        "total": sum,
        "each": max,
        "superlinear": lambda p: sum(a for a in p if a > 1),
        "prism": lambda p: max(p[0] + p[1], p[2]) + (p[0] + p[1] == p[2] == 2),  # quadratic across times linear along, or so
    }[degree]
    return tuple(p for p in product(range(3), repeat=dimension) if counted(p) <= 2)


_CUBE_EDGES = "01 12 23 30 45 56 67 74 04 15 26 37"
_CUBE_SIDES = ((0, 4, 7, 3), (1, 2, 6, 5), (0, 1, 5, 4), (3, 7, 6, 2), (0, 3, 2, 1), (4, 5, 6, 7))
for _element in (
    _quadratic("edge3", "edge", "01", (), "each", None),
    _quadratic("triangle6", "triangle", "01 12 20", (), "total", "edge3"),
    _quadratic("quad8", "quad", "01 12 23 30", (), "superlinear", "edge3"),
    _quadratic("quad9", "quad", "01 12 23 30", ((0, 1, 2, 3),), "each", "edge3"),
    _quadratic("tetrahedron10", "tetrahedron", "01 12 20 03 13 23", (), "total", "triangle6"),
    _quadratic("pyramid13", "pyramid", "01 12 23 30 04 14 24 34", (), "rational", None),
    _quadratic("prism15", "prism", "01 12 20 34 45 53 03 14 25", (), "prism", None),
    _quadratic("hexahedron20", "hexahedron", _CUBE_EDGES, (), "superlinear", "quad8"),
    _quadratic("hexahedron27", "hexahedron", _CUBE_EDGES, (*_CUBE_SIDES, tuple(range(8))), "each", "quad9"),
):
    _ELEMENTS[_element.kind] = _element


def reference_element(kind: str) -> ReferenceElement:
    """The reference element of a kind of cell. Raises `ValueError` naming the choices for an unknown kind.

    No units. Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 3.

    Example:

        triangle = jm.mesh.reference_element("triangle")
        assert np.allclose(triangle.shape(np.array([0.2, 0.3])), [0.5, 0.2, 0.3])
    """
    if not isinstance(kind, str) or kind not in _ELEMENTS:
        raise ValueError(f"kind {kind!r} is not one of {list(_ELEMENTS)}.")
    return _ELEMENTS[kind]
