"""Points against the triangles of a surface that deforms: of another body, or of their own."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_counts, check_instance, plain
from .._runtime.array_types import Array, Bool, Int
from .._runtime.field_types import Parameter
from .._runtime.host_function import call_by_name
from .._runtime.precision import in_one_program
from .._scene.dof import Vec3
from .._scene.parameter import check_range, is_concrete, parameter
from .._scene.stencil import Stencils, as_stencils, stencils
from .base import AbstractContact, check_nodes, check_stencil, displaced, tangents, unit
from .triangle import TIE, seen_from_triangle

_BLOCK = 256  # points whose distances from all triangles are in memory at once


class SurfaceContact(AbstractContact):
    """Points `(state, (n,))`, `radius` about them, that may touch `triangles` `(state, (t, 3))` of `Vec3`.

    The points are of `Vec3`, or the centres of frames of `Rigid3`: the sphere about one turns with its frame.
    Triangles may be a part of a skin, or a sheet: beyond their `rim` `(t, 3)`, edges `01, 12, 20` that one of them has only,
    nothing is inside; a twentieth of an edge beyond, and no deeper, is over them yet. It is found where triangles are known,
    and none where they are traced, unless it is given.
    Each point looks at the triangle that is nearest to it, but for those that it is a node of: the same state may be both,
    of a surface that folds onto itself. The side that the normal of a triangle looks to is outside (corners counterclockwise
    seen from there, as `boundary_of` gives them), and what is deeper within than `reach` [m] is not looked at: less than the
    thickness of a body that may touch itself. The impulse acts on the point, and on the three nodes by their weights.

    `nearest=None`: every triangle is measured, in JAX. `nearest=k`: the `k` triangles whose centres are nearest, by a k-d
    tree of SciPy on the host, for meshes; `k` must be large where triangles are of very different size.
    `friction`, `restitution`, `compliance` [m/N], `radius` [m]: one number each, or one for each point; `capacity`, `margin`
    [m], `depth` [m]: as in `AbstractContact`. Raises `ValueError` or `TypeError` for numbers out of range, states of other
    kinds.
    Source: C. Ericson, *Real-Time Collision Detection*, 2005, ISBN 978-1-55860-732-3, section 5.1.5.

    Example:

        skin = jm.contact.SurfaceContact(("cube", [3]), ("cube", [[0, 1, 2]]))
        x = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.2, 0.2, 0.5]])
        assert skin.pairs == 1 and jnp.allclose(skin.gaps({"cube": x}), 0.5)  # above the triangle [m]
    """

    points: Stencils = stencils()
    triangles: Stencils = stencils()
    reach: Parameter = parameter(default=np.inf, kw_only=True)
    radius: Parameter = parameter(default=0.0, kw_only=True)
    friction: Parameter = parameter(default=0.0, kw_only=True)
    restitution: Parameter = parameter(default=0.0, kw_only=True)
    compliance: Parameter = parameter(default=0.0, kw_only=True)
    nearest: int | None = eqx.field(static=True, converter=plain, default=None, kw_only=True)
    capacity: int | None = eqx.field(static=True, converter=plain, default=None, kw_only=True)
    margin: Parameter = parameter(default=np.inf, kw_only=True)
    depth: Parameter = parameter(default=np.inf, kw_only=True)
    rim: Bool[Array, "t 3"] | None = eqx.field(default=None, kw_only=True)

    def __post_init__(self):
        self.triangles = as_stencils(self.triangles)  # converters come after this
        nodes = self.triangles[0].nodes
        if self.rim is not None:
            check_instance("SurfaceContact", "rim", self.rim, (jax.Array, np.ndarray))
            if self.rim.shape != nodes.shape or self.rim.dtype != bool:
                was = f"{self.rim.dtype} of shape {self.rim.shape}"
                raise ValueError(
                    f"SurfaceContact: rim must be truth values of the shape {nodes.shape} of triangles, got {was}."
                )
        if nodes.shape[1:] == (3,) and is_concrete(nodes):
            self.rim = jnp.asarray(rim_of(np.asarray(nodes)))

    def __check_init__(self):
        if len(self.points) != 1 or self.points[0].nodes.ndim != 1:
            raise ValueError("SurfaceContact: points must be (state, nodes) with node numbers of shape (n,).")
        if len(self.triangles) != 1 or self.triangles[0].nodes.shape[1:] != (3,):
            raise ValueError("SurfaceContact: triangles must be (state, nodes) with node numbers of shape (t, 3).")
        self.check_numbers(self.points, ("margin", "depth", "reach"))
        check_range(
            self,
            radius=(self.radius, lambda r: r >= 0, "at least 0"),
            reach=(self.reach, lambda r: r > 0, "positive"),
        )
        if self.nearest is not None:
            check_counts("SurfaceContact", nearest=self.nearest)

    @property
    def pairs(self) -> int:
        return self.points[0].elements

    def check_scene(self, name, system):
        who = f"'{name}' (SurfaceContact)"
        check_stencil(who, system, self.points[0])
        check_stencil(who, system, self.triangles[0], (Vec3,))

    def place_of(self, pair):
        return pair // self.triangles[0].elements

    def point_of(self, pair):
        return pair // self.triangles[0].elements

    def gaps(self, x):
        return self._measured(x)[0]

    def touching(self, x):
        gaps, triangle = self._measured(x)
        found = self.near_of(gaps)
        return eqx.tree_at(lambda t: t.pair, found, found.pair * self.triangles[0].elements + triangle[found.pair])

    def _corners(self, x: Any) -> Array:
        return x[self.triangles[0].state][self.triangles[0].nodes]

    def _measured(self, x: Any) -> tuple[Array, Array]:
        """The gap of every point from the triangle that is nearest to it, and the number of that."""
        for stencil in (*self.points, *self.triangles):
            check_nodes("SurfaceContact", stencil, x)
        return self._nearest(x)

    @in_one_program
    def _nearest(self, x: Any) -> tuple[Array, Array]:
        nodes, own = self.triangles[0].nodes, self.points[0].nodes
        p, corners = x[self.points[0].state][own, :3], self._corners(x)
        if self.nearest is None:
            tried = jnp.broadcast_to(jnp.arange(nodes.shape[0]), (p.shape[0], nodes.shape[0]))
        else:
            tried = _nearest_centres(p, jnp.mean(corners, axis=1), min(self.nearest, nodes.shape[0]))
        same = self.points[0].state == self.triangles[0].state
        rim = self._at_rim(jnp.arange(nodes.shape[0]))

        def of_point(given: tuple[Array, ...]) -> tuple[Array, Array]:
            p, node, tried = given
            seen = jax.vmap(seen_from_triangle, (None, 0, 0))(p, corners[tried], rim[tried])
            gaps = seen.distance
            left_out = (gaps < -self.reach) | (same & jnp.any(nodes[tried] == node, axis=1))
            # Of triangles whose common edge is nearest, that which looks at the point knows on which side it is.
            beside = jnp.abs(gaps) - jnp.abs(seen.above)
            far = jnp.where(left_out, jnp.inf, jnp.abs(gaps) + TIE * beside)
            k = jnp.argmin(far)
            return jnp.where(jnp.isposinf(far[k]), jnp.inf, gaps[k]), tried[k]

        gaps, triangle = jax.lax.map(of_point, (p, own, tried), batch_size=_BLOCK)
        return gaps - self.radius, triangle

    def _at_rim(self, triangle: Array) -> Bool[Array, "... 3"]:
        """Which edges of triangles are at the rim; none where triangles were not known when this was made."""
        return jnp.zeros((*triangle.shape, 3), bool) if self.rim is None else self.rim[triangle]

    def places(self, pair):
        t, on, of = self.triangles[0].elements, self.points[0], self.triangles[0]
        return (on.state, on.nodes[pair // t][None]), (of.state, of.nodes[pair % t])

    def coordinates_of(self, pair, start, moved):
        t = self.triangles[0].elements
        p0, c0 = (start[state][nodes] for state, nodes in self.places(pair))
        p0, p1, c1 = p0[0], moved[0][0], moved[1]
        rim = self._at_rim(pair % t)
        before, after = seen_from_triangle(p0[:3], c0, rim), seen_from_triangle(p1[:3], c1, rim)
        apart = p0[:3] - before.weights @ c0
        behind = (before.normal @ apart < 0) & ~before.beyond
        n = jnp.where(before.over, before.normal, unit(apart) * jnp.where(behind, -1.0, 1.0))
        radius = self.radius if jnp.ndim(self.radius) == 0 else self.radius[pair // t]
        slip = tangents(n) @ (displaced(p0, p1, -radius * n) - before.weights @ (c1 - c0))
        # A pair is one for the whole step: where it begins over a triangle, it goes on along its plane, not past an edge.
        gap = jnp.where(before.over, after.above, after.distance)
        return jnp.concatenate([(gap - radius)[None], slip])


def rim_of(triangles: Int[np.ndarray, "t 3"]) -> Bool[np.ndarray, "t 3"]:
    """Which edges `(01, 12, 20)` of triangles no other triangle has."""
    edges = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    _, which, count = np.unique(edges, axis=0, return_inverse=True, return_counts=True)
    return (count[which.reshape(-1)] == 1).reshape(-1, 3)


def _nearest_centres(points: Array, centres: Array, k: int) -> Array:
    """The numbers `(n, k)` of the centres that are nearest to each point, by SciPy."""
    shape = jax.ShapeDtypeStruct((points.shape[0], k), np.int32)
    arguments = jax.lax.stop_gradient((points, centres))
    return call_by_name(f"k-d tree {k}", _Nearest(k), (shape,), *arguments, vmap_method="sequential")[0]


class _Nearest:
    """`k` nearest neighbours, of the host."""

    def __init__(self, k: int):
        self.k = k

    def __call__(self, points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray]:
        from scipy.spatial import KDTree

        _, found = KDTree(np.asarray(centres)).query(np.asarray(points), k=self.k)
        return (np.asarray(found, np.int32).reshape(len(points), self.k),)
