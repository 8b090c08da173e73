"""What one cell of each kind looks like before it is placed in space: shape functions, faces, quadrature."""

from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import factorial, prod
from typing import Any

import numpy as np

from .._runtime.argument_checks import real_array
from .._runtime.array_types import Float

# Of simplices, of products of lines, of prisms.
_NAMED_DEGREES = {"stiffness": (0, 3, 2), "mass": (2, 3, 2)}
_HIGHEST_DEGREE = 100
_SIMPLEX_RULES = {2: 1 / 6, 3: (5 - 5**0.5) / 20}


@dataclass(frozen=True)
class ReferenceElement:
    """A linear (or multilinear) cell in its own coordinates `xi`, nodes in VTK order.

    A cell is a product: `factors` are the dimensions of lines `[-1, 1]` (1) and of simplices
    `{xi >= 0, sum(xi) <= 1}` (2, 3), so that a prism is `(2, 1)`, a triangle times a line. Hashable: it may be a
    static field. Faces are the local numbers of the cells one dimension below, outward for a positively oriented
    cell (in the plane, the cell is on the left of its edges); `face_kind` is `None` where there are none, or of
    several kinds.
    """

    kind: str
    factors: tuple[int, ...]
    vertices: tuple[tuple[int, ...], ...]
    faces: tuple[tuple[int, ...], ...] = ()
    face_kind: str | None = None

    @property
    def dimension(self) -> int:
        """How many coordinates `xi` has."""
        return sum(self.factors)

    @property
    def is_simplex(self) -> bool:
        """Whether it is a triangle or a tetrahedron."""
        return len(self.factors) == 1 and self.factors[0] > 1

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
        rings = self.faces if self.dimension == 3 else (tuple(range(self.nodes)),)
        pairs = {(min(p), max(p)) for ring in rings for p in zip(ring, ring[1:] + ring[:1], strict=True)}
        return tuple(sorted(pairs))

    def shape(self, xi: Any) -> Any:
        """Values `(..., k)` of the shape functions at `xi` `(..., dimension)`, NumPy or JAX as `xi` is.

        They sum to 1, and each is 1 at its own node and 0 at the others.
        """
        xi = self._places(xi)
        return prod(values + xi[..., axes] @ slopes.T for axes, values, slopes in _factor_shapes(self))

    def shape_gradients(self, xi: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... k d"]:
        """Derivatives of the `k` shape functions with respect to `xi`."""
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

        The degree is the total one in simplices, and that in each variable along lines. 'stiffness' is 1 point
        for simplices, 2 per axis for products of lines, and 3 times 2 for prisms; 'mass' integrates products of
        two shape functions exactly (for affine simplices and prisms, and parallelepipeds). Raises `ValueError`
        for any other name, and for a negative degree.
        """
        if isinstance(degree, str) and degree in _NAMED_DEGREES:
            family = 0 if self.is_simplex else 1 if set(self.factors) == {1} else 2
            degree = _NAMED_DEGREES[degree][family]
        if isinstance(degree, bool) or not isinstance(degree, int | np.integer) or not 0 <= degree <= _HIGHEST_DEGREE:
            raise ValueError(
                f"ReferenceElement: degree {degree!r:.80} of quadrature is neither a degree (0, 1, ... {_HIGHEST_DEGREE}) "
                f"nor one of {sorted(_NAMED_DEGREES)}."
            )
        return _quadrature(self, int(degree))


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


@cache
def _quadrature(element: ReferenceElement, degree: int) -> tuple[np.ndarray, np.ndarray]:
    points, weights = np.zeros((1, 0)), np.ones(1)
    for dimension in element.factors:
        more, their = _line_rule(degree) if dimension == 1 else _simplex_rule(dimension, degree)
        points = np.hstack([np.repeat(points, len(more), axis=0), np.tile(more, (len(points), 1))])
        weights = np.outer(weights, their).ravel()
    for array in (points, weights):
        array.flags.writeable = False  # shared by every caller
    return points, weights


def _gauss(count: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights in (-1, 1) for the weight function `(1 - x)^axis`."""
    from scipy.special import roots_jacobi  # many a scene has no use for it, and it takes long to import

    return roots_jacobi(count, axis, 0)


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


_CUBE = ((-1, -1, -1), (1, -1, -1), (1, 1, -1), (-1, 1, -1), (-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1))
_CUBE_FACES = ((0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7))
_WEDGE = ((0, 0, -1), (1, 0, -1), (0, 1, -1), (0, 0, 1), (1, 0, 1), (0, 1, 1))
_WEDGE_FACES = ((0, 2, 1), (3, 4, 5), (0, 1, 4, 3), (1, 2, 5, 4), (2, 0, 3, 5))
_TETRAHEDRON = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
_ELEMENTS = {
    element.kind: element
    for element in (
        ReferenceElement("edge", (1,), ((-1,), (1,))),
        ReferenceElement("triangle", (2,), ((0, 0), (1, 0), (0, 1)), ((0, 1), (1, 2), (2, 0)), "edge"),
        ReferenceElement("quad", (1, 1), ((-1, -1), (1, -1), (1, 1), (-1, 1)), ((0, 1), (1, 2), (2, 3), (3, 0)), "edge"),
        ReferenceElement("tetrahedron", (3,), _TETRAHEDRON, ((1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1)), "triangle"),
        ReferenceElement("prism", (2, 1), _WEDGE, _WEDGE_FACES),
        ReferenceElement("hexahedron", (1, 1, 1), _CUBE, _CUBE_FACES, "quad"),
    )
}


def reference_element(kind: str) -> ReferenceElement:
    """The reference element of a kind of cell. Raises `ValueError` naming the choices for an unknown kind."""
    if not isinstance(kind, str) or kind not in _ELEMENTS:
        raise ValueError(f"kind {kind!r} is not one of {list(_ELEMENTS)}.")
    return _ELEMENTS[kind]
