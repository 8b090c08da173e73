"""Edges against edges: what points and faces do not see of boxes and other bodies with corners."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._math.first_where import first_where
from .._runtime.argument_checks import check_tolerances, index_array, plain, real_array
from .._runtime.array_types import Array, Int
from .._runtime.field_types import Parameter
from .._runtime.precision import in_one_program
from .._scene.dof import Vec3
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, as_stencils, stencils
from .base import AbstractContact, Touching, check_nodes, check_stencil, tangents

_CANDIDATES = 8  # pairs that are measured, for each slot
_PARALLEL = 1e-2  # sine of the angle below which edges are left to points
_BESIDE = 1e-3  # of its length: so near to the end of an edge, its corner touches
_LEANING = 1e-3  # how far a face may lean beyond an edge


def _maybe_stencils(on: Any) -> Any:
    return () if on is None else as_stencils(on)


def _owners(owners: Any) -> Any:
    return None if owners is None else index_array("EdgeContact", "owners", owners)


class EdgeContact(AbstractContact):
    """Edges `(state, (n, 4))` that may touch `others` `(state, (m, 4))`, or each other, of points of `Vec3`.

    Of each edge: its two ends, and the third corners of the two triangles beside it (`jm.contact.sharp_edges` finds them).
    Two edges touch along the common normal of their lines, where both bodies lie behind the plane through it: a corner that
    looks outwards, at the place of both edges that is nearest to the other. Beside it stand `PointContact`s of the corners.
    `others=None`: every pair once, but those that share a node or an owner: `owners` `(n,)`, the body of each.
    What is deeper than `reach` [m] is not looked at: less than the thickness of the bodies.

    `friction`, `restitution`, `compliance` [m/N]: one number each, or one for each edge; `capacity`, `margin` [m], `depth`
    [m]: as in `AbstractContact`. Raises `ValueError` or `TypeError` for numbers out of range and states of other kinds.
    Source: D. Gregorius, "The separating axis test between convex polyhedra", Game Developers Conference, 2013 (which edges
    touch); C. Ericson, *Real-Time Collision Detection*, 2005, ISBN 978-1-55860-732-3, section 5.1.8.

    Example:

        lower = jnp.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, -1.0], [0.0, -1.0, -1.0]])  # a ridge along x,
        upper = jnp.array([[0.0, -1.0, 0.5], [0.0, 1.0, 0.5], [1.0, 0.0, 2.0], [-1.0, 0.0, 2.0]])  # and one above, along y
        ridges = jm.contact.EdgeContact(("cube", [[4, 5, 6, 7]]), ("cube", [[0, 1, 2, 3]]))
        assert jnp.allclose(ridges.gaps({"cube": jnp.concatenate([lower, upper])}), 0.5)  # [m]
    """

    edges: Stencils = stencils()
    others: Any = eqx.field(converter=_maybe_stencils, default=None)
    reach: Parameter = parameter(default=np.inf, kw_only=True)
    friction: Parameter = parameter(default=0.0, kw_only=True)
    restitution: Parameter = parameter(default=0.0, kw_only=True)
    compliance: Parameter = parameter(default=0.0, kw_only=True)
    owners: Int[Array, " n"] | None = eqx.field(converter=_owners, default=None, kw_only=True)
    capacity: int | None = eqx.field(static=True, converter=plain, default=None, kw_only=True)
    margin: Parameter = parameter(default=np.inf, kw_only=True)
    depth: Parameter = parameter(default=np.inf, kw_only=True)

    def __check_init__(self):
        for name, on in (("edges", self.edges), ("others", self.others)):
            if len(on) > 1 or any(s.nodes.shape[1:] != (4,) for s in on):
                raise ValueError(f"EdgeContact: {name} must be (state, nodes) with node numbers of shape (n, 4).")
        self.check_numbers(self.edges, ("margin", "depth", "reach"))
        check_range(self, reach=(self.reach, lambda r: r > 0, "positive"))
        n = self.edges[0].elements
        if self.owners is not None and (self.owners.shape != (n,) or self.others):
            raise ValueError(f"EdgeContact: owners must have the shape ({n},), and are for edges without others.")

    @property
    def _second(self) -> Any:
        return self.others[0] if self.others else self.edges[0]

    @property
    def pairs(self) -> int:
        return self.edges[0].elements * self._second.elements

    def check_scene(self, name, system):
        for stencil in (*self.edges, *self.others):
            check_stencil(f"'{name}' (EdgeContact)", system, stencil, (Vec3,))

    def point_of(self, pair):
        return pair // self._second.elements

    def gaps(self, x):
        return self._gaps_of(jnp.arange(self.pairs), x)

    def touching(self, x):
        """Only pairs within the spheres about both edges are measured."""
        most = _CANDIDATES * self.slots
        if most >= self.pairs:
            return self.near_of(self.gaps(x))
        (a, ra), (b, rb) = (_sphere(x[on.state][on.nodes[:, :2]]) for on in (self.edges[0], self._second))
        square = jnp.asarray(sum((a[:, None, i] - b[None, :, i]) ** 2 for i in range(3)))
        near = ~(square >= (ra[:, None] + rb + self.margin) ** 2).reshape(-1) & self._meant(jnp.arange(self.pairs))
        pair, count = first_where(near, most)
        found = self.near_of(jnp.where(jnp.arange(most) < count, self._gaps_of(pair, x), jnp.inf))
        # More than can be measured are more than can be held.
        return Touching(pair[found.pair], found.held, jnp.where(count > most, self.slots + 1, found.count))

    def _meant(self, pair: Array) -> Array:
        """Whether a pair may touch: not itself, nor what it shares a node or an owner with."""
        if self.others and self.others[0].state != self.edges[0].state:
            return jnp.ones(pair.shape, bool)
        i, j = pair // self._second.elements, pair % self._second.elements
        first, second = self.edges[0].nodes[i, :2], self._second.nodes[j, :2]
        apart = ~jnp.any(first[:, :, None] == second[:, None, :], axis=(1, 2))
        if self.others:
            return apart
        return apart & (i < j) if self.owners is None else apart & (i < j) & (self.owners[i] != self.owners[j])

    def _gaps_of(self, pair: Array, x: Any) -> Array:
        for stencil in (*self.edges, *self.others):
            check_nodes("EdgeContact", stencil, x)
        return self._measured(pair, x)

    @in_one_program
    def _measured(self, pair: Array, x: Any) -> Array:
        def of_pair(k: Array) -> Array:
            first, second = (x[state][nodes] for state, nodes in self.places(k))
            n, s, t, touches = _meeting(first, second)
            gap = n @ (_along(first, s) - _along(second, t))
            return jnp.where(touches & (gap > -self.reach) | jnp.isnan(gap), gap, jnp.inf)

        return jnp.where(self._meant(pair), jax.vmap(of_pair)(pair), jnp.inf)

    def places(self, pair):
        m = self._second.elements
        first, second = self.edges[0], self._second
        return (first.state, first.nodes[pair // m]), (second.state, second.nodes[pair % m])

    def coordinates_of(self, pair, start, moved):
        a0, b0 = (start[state][nodes] for state, nodes in self.places(pair))
        n0, s, t, _ = jax.lax.stop_gradient(_meeting(a0, b0))
        a1, b1 = moved
        cross = jnp.cross(a1[1] - a1[0], b1[1] - b1[0])
        cross = cross * jnp.where(cross @ n0 < 0, -1.0, 1.0)
        square = cross @ cross
        n1 = cross / jnp.sqrt(jnp.where(square > 0, square, 1.0))
        gap = n1 @ (_along(a1, s) - _along(b1, t))
        slip = tangents(n0) @ ((_along(a1, s) - _along(a0, s)) - (_along(b1, t) - _along(b0, t)))
        return jnp.concatenate([gap[None], slip])


def _sphere(ends: Array) -> tuple[Array, Array]:
    """Middle and half length of edges `(n, 2, 3)`."""
    return jnp.mean(ends, axis=1), 0.5 * jnp.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)


def _along(edge: Array, s: Array) -> Array:
    return edge[0] + s * (edge[1] - edge[0])


def _meeting(a: Array, b: Array) -> tuple[Array, Array, Array, Array]:
    """Of two edges `(4, 3)`: the unit normal out of the second's body, the places on both, and whether they can touch."""
    d, e, r = a[1] - a[0], b[1] - b[0], a[0] - b[0]
    dd, ee, de = d @ d, e @ e, d @ e
    cross = jnp.cross(d, e)
    square = cross @ cross
    crossing = square > _PARALLEL**2 * dd * ee
    safe = jnp.where(crossing, square, 1.0)
    n = cross / jnp.sqrt(safe)
    s, t = (de * (e @ r) - ee * (d @ r)) / safe, (dd * (e @ r) - de * (d @ r)) / safe
    p, q = a[0] + s * d, b[0] + t * e

    def behind(sign: float) -> Array:
        """Whether both bodies lie on their sides of the plane, at the faces beside the edges."""
        above, below = a[2:] - p, b[2:] - q
        up = sign * above @ n >= -_LEANING * jnp.linalg.norm(above, axis=1)
        down = sign * below @ n <= _LEANING * jnp.linalg.norm(below, axis=1)
        return jnp.all(up) & jnp.all(down)

    forth, back = behind(1.0), behind(-1.0)
    inner = (s > _BESIDE) & (s < 1 - _BESIDE) & (t > _BESIDE) & (t < 1 - _BESIDE)
    return jnp.where(forth, 1.0, -1.0) * n, s, t, crossing & inner & (forth | back)


def sharp_edges(points: Any, triangles: Any, *, angle: float = 0.1) -> np.ndarray:
    """The edges `(n, 4)` of a closed surface whose faces turn away by more than `angle` [rad]: its convex ones.

    `points` `(p, 3)` [m], `triangles` `(t, 3)`, corners counterclockwise seen from outside. Of each edge its ends and the
    third corners of both triangles, as `EdgeContact` takes them. Host work. Raises `ValueError` or `TypeError` for other
    shapes, and for an edge that is not of two triangles.

    Example:

        points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        triangles = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
        assert jm.contact.sharp_edges(points, triangles).shape == (6, 4)
    """
    points = np.asarray(real_array("sharp_edges", "points", points, (None, 3)))
    triangles = np.asarray(index_array("sharp_edges", "triangles", triangles))
    check_tolerances("sharp_edges", angle=angle)
    if triangles.ndim != 2 or triangles.shape[1] != 3:
        raise ValueError(f"sharp_edges: triangles has shape {triangles.shape}, expected (t, 3).")
    if triangles.size and not 0 <= triangles.min() <= triangles.max() < len(points):
        raise ValueError(f"sharp_edges: triangles names points {triangles.min()} to {triangles.max()}, of {len(points)}.")
    beside: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, corners in enumerate(triangles.tolist()):
        for k in range(3):
            i, j, other = corners[k], corners[(k + 1) % 3], corners[(k + 2) % 3]
            beside.setdefault((min(i, j), max(i, j)), []).append((number, other))
    x = points[triangles]
    normals = np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    found = []
    for (i, j), sides in sorted(beside.items()):
        if len(sides) != 2:
            raise ValueError(f"sharp_edges: the edge between points {i} and {j} is of {len(sides)} triangles, expected 2.")
        (first, a), (second, b) = sides
        turn = np.arccos(np.clip(normals[first] @ normals[second], -1.0, 1.0))
        if turn > angle and normals[first] @ (points[b] - points[i]) < 0:
            found.append([i, j, a, b])
    return np.array(found, np.int32).reshape(-1, 4)
