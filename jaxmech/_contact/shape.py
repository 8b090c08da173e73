"""The shapes of obstacles: each is a signed distance from one point, and everything else is derived."""

import abc

import jax
import jax.numpy as jnp

from .._math.safe_norm import safe_length
from .._runtime.argument_checks import real_array
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.component import Component
from .._scene.parameter import check_parameters, check_range, declaration, leaves_with_paths, parameter

_EDGE = 1e-3  # of its smallest half width: so near to an edge of a box, the face is taken that looks at the other body


class AbstractShape(Component):
    """The signed distance of **one** point from a body, in the axes of its frame: positive outside, negative within.

    Normals, the points that touch, Jacobians and all derivatives, by the numbers of the shape too, are made of `distance`.
    Its gradient must be of length 1 at the surface. Points, distances and widths [m]. Raises `TypeError` where `distance` is
    not defined.
    Source: J. C. Hart, "Sphere tracing", Visual Comput. 12 (1996) 527, doi:10.1007/s003710050084 (signed distances).

    Example:

        class Ground(jm.contact.AbstractShape):
            def distance(self, p):
                return p[2]

        assert Ground().distance(jnp.array([0.0, 0.0, 2.0])) == 2.0
    """

    def __check_init__(self):
        check_parameters(self, ())
        for path, leaf in leaves_with_paths(self)[0]:
            kind = declaration(self, path)
            if kind is not None and leaf.ndim != kind[1]:
                name = jax.tree_util.keystr(path).lstrip(".")
                raise ValueError(f"{type(self).__name__}: {name} has shape {leaf.shape}, expected {kind[1]} axes.")

    @abc.abstractmethod
    def distance(self, p: Float[Array, "3"]) -> Scalar:
        """How far `p` [m], in the axes of the shape, is from the surface [m]; negative within."""

    def distance_from(self, p: Float[Array, "3"], toward: Float[Array, "3"]) -> Scalar:
        """`distance`, where a point belongs to a body in the direction `toward`: what an edge or a corner may ask."""
        del toward
        return self.distance(p)

    def reach(self) -> Scalar:
        """How far its surface is at most from the origin of its frame [m]: with it, far pairs need not be measured."""
        return jnp.asarray(jnp.inf)


class Plane(AbstractShape):
    """The half space below the plane `z = 0` of its frame: `d = z` [m]. Raises nothing. Source: elementary geometry.

    Example:

        assert jm.contact.Plane().distance(jnp.array([3.0, 0.0, -1.0])) == -1.0
    """

    def distance(self, p):
        return p[2]


class Sphere(AbstractShape):
    """A ball about the origin of its frame: `d = |p| - radius` [m] of a point `(3,)`.

    `radius`: one number. Raises `ValueError` for a negative one. Source: elementary geometry.

    Example:

        assert jnp.allclose(jm.contact.Sphere(2.0).distance(jnp.array([3.0, 0.0, 0.0])), 1.0)
    """

    radius: Parameter = parameter()

    def __check_init__(self):
        check_range(self, radius=(self.radius, lambda r: r >= 0, "at least 0"))

    def distance(self, p):
        return safe_length(p) - self.radius

    def reach(self):
        return self.radius


class Capsule(AbstractShape):
    """All within `radius` of a segment from `-half_length` to `half_length` on the z axis of its frame [m].

    `d = |p - clip(p_z) e_z| - radius` of a point `(3,)`. Two numbers. Raises `ValueError` for negative numbers. Source:
    elementary geometry.

    Example:

        assert jnp.allclose(jm.contact.Capsule(1.0, 0.5).distance(jnp.array([0.0, 0.0, 2.0])), 0.5)
    """

    half_length: Parameter = parameter()
    radius: Parameter = parameter()

    def __check_init__(self):
        check_range(
            self,
            half_length=(self.half_length, lambda a: a >= 0, "at least 0"),
            radius=(self.radius, lambda a: a >= 0, "at least 0"),
        )

    def distance(self, p):
        along = jnp.clip(p[2], -self.half_length, self.half_length)
        return safe_length(p.at[2].add(-along)) - self.radius

    def reach(self):
        return self.half_length + self.radius


class Box(AbstractShape):
    """A box about the origin of its frame, of half widths `half` `(3,)` [m].

    Outside the distance from its nearest face, edge or corner; within, to the nearest face. Near an edge, a thousandth of
    the smallest half width, the face is taken that looks at the other body, which the `owners` of a `PointContact` name:
    boxes of equal size can be stacked. Raises `ValueError` for half widths that are not positive.
    Source: C. Ericson, *Real-Time Collision Detection*, 2005, ISBN 978-1-55860-732-3, section 5.1.3.

    Example:

        box = jm.contact.Box([1.0, 1.0, 0.5])
        assert jnp.allclose(box.distance(jnp.array([4.0, 5.0, 0.0])), 5.0)  # from an edge: 3, 4, 5
        assert jnp.allclose(box.distance(jnp.array([0.0, 0.0, 0.4])), -0.1)
    """

    half: Parameter = parameter(ndim=1)

    def __check_init__(self):
        real_array("Box", "half", self.half, (3,))
        check_range(self, half=(self.half, lambda a: a > 0, "positive"))

    def distance(self, p):
        return self.distance_from(p, jnp.zeros_like(p))

    def distance_from(self, p, toward):
        q = jnp.abs(p) - self.half
        edge = _EDGE * jnp.min(self.half)
        looks = jnp.where(p * toward > 0, jnp.abs(toward) / jnp.where(self.half > 0, self.half, 1.0), 0.0)
        face = jnp.argmax(q + edge * looks / jnp.maximum(jnp.max(looks), 1e-30))
        outside = jnp.where(q > 0, q, 0.0)
        beside = jnp.any((q > edge) & (jnp.arange(3) != face))
        within = ~jnp.any(q > 0) | (~beside & jnp.any(looks > 0))
        return jnp.where(within, q[face], safe_length(outside))

    def reach(self):
        return safe_length(self.half)


class HeightField(AbstractShape):
    """The ground below `z = h(x, y)` of its frame, bilinear between `heights` `(nx, ny)` [m] at multiples of `spacing` [m].

    `d = (z - h) / sqrt(1 + |grad h|^2)`, the distance from the tangent plane below the point: exact on a slope, to first
    order elsewhere. The first height is at the origin; outside, the last cell goes on. Raises `ValueError` for fewer than
    two heights in a direction, and for a spacing that is not positive.
    Source: C. Ericson, *Real-Time Collision Detection*, 2005, ISBN 978-1-55860-732-3, chapter 5.

    Example:

        slope = jm.contact.HeightField([[0.0, 0.0], [1.0, 1.0]], spacing=1.0)  # h = x
        assert jnp.allclose(slope.distance(jnp.array([0.5, 0.5, 1.5])), np.sqrt(0.5))
    """

    heights: Parameter = parameter(ndim=2)
    spacing: Parameter = parameter()

    def __check_init__(self):
        if min(real_array("HeightField", "heights", self.heights, (None, None)).shape) < 2:
            raise ValueError(f"HeightField: heights has shape {self.heights.shape}, expected (nx, ny) of at least 2.")
        check_range(self, spacing=(self.spacing, lambda a: a > 0, "positive"))

    def distance(self, p):
        at = p[:2] / self.spacing
        most = jnp.array(self.heights.shape) - 2
        cell = jnp.clip(jnp.floor(at).astype(jnp.int32), 0, most)
        a = at - cell
        i, j = cell[0], cell[1]
        h00, h10 = self.heights[i, j], self.heights[i + 1, j]
        h01, h11 = self.heights[i, j + 1], self.heights[i + 1, j + 1]
        h = (1 - a[1]) * ((1 - a[0]) * h00 + a[0] * h10) + a[1] * ((1 - a[0]) * h01 + a[0] * h11)
        gx = ((1 - a[1]) * (h10 - h00) + a[1] * (h11 - h01)) / self.spacing
        gy = ((1 - a[0]) * (h01 - h00) + a[0] * (h11 - h10)) / self.spacing
        return (p[2] - h) / jnp.sqrt(1 + gx**2 + gy**2)
