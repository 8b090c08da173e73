"""Points and spheres against shapes that stand in the world, or move with frames and points."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._mapping.frame import carried, seen_from
from .._math.rotation import have_unit_quaternions, quaternion_conjugate, rotate
from .._runtime.argument_checks import check_flags, check_instance, index_array
from .._runtime.array_types import Array, Int
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencil, Stencils, as_stencils, stencils
from .base import AbstractContact, check_nodes, check_stencil, tangents, unit
from .shape import AbstractShape

_WORLD = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def _maybe_stencils(on: Any) -> tuple[Stencil, ...]:
    return () if on is None else as_stencils(on)


def _numbers(owners: Any) -> Any:
    return None if owners is None else index_array("PointContact", "owners", owners)


class PointContact(AbstractContact):
    """Points `(state, (n,))`, or spheres of `radius` about them, that may touch `shape`.

    Of points of `Vec3`, mapped ones too (the corners of a box by `RigidMapping`, the surface of a body), only the place
    counts; of frames of `Rigid3` the centre, and a sphere about it turns with the frame. `frames=(state, (m,))`: the shape
    stands on every one of these frames (`Rigid3`), or about these points (`Vec3`); without, it stands in the world at the
    frame `at` `(7,)`. Every point may touch every shape, but for those that it belongs to: `owners` `(n,)`, the number among
    `frames` of the body of each point. `half=True`: only of bodies with smaller numbers than its own: of spheres among
    themselves, each pair once.

    `friction` `mu`; `restitution` `e`: an impact ends with `u_n = -e u_n` of before, unless it is so slow that the forces of
    one step make it; `compliance` [m/N] of the normal; `radius` [m]: one number each, or one for each point. `capacity`,
    `margin` and `depth` [m]: as in `AbstractContact`.
    Raises `ValueError` or `TypeError` for numbers out of range and states of other kinds.
    Source: B. Brogliato, *Nonsmooth Mechanics*, 3rd ed., 2016, doi:10.1007/978-3-319-28664-8 (impacts).

    Example:

        ramp = jm.contact.PointContact(("cube", [0, 1]), jm.contact.Plane(), friction=0.3, at=(0, 0, -1.0, 0, 0, 0, 1.0))
        assert jnp.allclose(ramp.gaps({"cube": jnp.zeros((8, 3))}), 1.0)  # [m]
    """

    points: Stencils = stencils()
    shape: AbstractShape
    frames: Any = eqx.field(converter=_maybe_stencils, default=None, kw_only=True)
    at: Parameter = parameter(ndim=1, default=_WORLD, kw_only=True)
    radius: Parameter = parameter(default=0.0, kw_only=True)
    friction: Parameter = parameter(default=0.0, kw_only=True)
    restitution: Parameter = parameter(default=0.0, kw_only=True)
    compliance: Parameter = parameter(default=0.0, kw_only=True)
    owners: Int[Array, " n"] | None = eqx.field(converter=_numbers, default=None, kw_only=True)
    half: bool = eqx.field(static=True, default=False, kw_only=True)
    capacity: int | None = eqx.field(static=True, default=None, kw_only=True)
    margin: Parameter = parameter(default=np.inf, kw_only=True)
    depth: Parameter = parameter(default=np.inf, kw_only=True)

    def __check_init__(self):
        if len(self.points) != 1 or self.points[0].nodes.ndim != 1:
            raise ValueError("PointContact: points must be (state, nodes) with node numbers of shape (n,).")
        if len(self.frames) > 1 or any(f.nodes.ndim != 1 for f in self.frames):
            raise ValueError("PointContact: frames must be (state, nodes) with node numbers of shape (m,).")
        check_instance("PointContact", "shape", self.shape, AbstractShape)
        check_flags("PointContact", half=self.half)
        self.check_numbers(self.points)
        check_range(self, radius=(self.radius, lambda r: r >= 0, "at least 0"))
        if np.shape(self.at) != (7,):
            raise ValueError(f"PointContact: at has shape {np.shape(self.at)}, expected (7,).")
        check_range(self, at=(self.at, have_unit_quaternions, "a frame with a quaternion of unit length"))
        n = self.points[0].elements
        if self.owners is not None and self.owners.shape != (n,):
            raise ValueError(f"PointContact: owners has shape {self.owners.shape}, expected ({n},).")
        if self.half and (self.owners is None or not self.frames):
            raise ValueError("PointContact: half=True asks for frames, and the owners of the points among them.")

    @property
    def bodies(self) -> int:
        """How many shapes there are. Static."""
        return self.frames[0].elements if self.frames else 1

    @property
    def pairs(self) -> int:
        return self.points[0].elements * self.bodies

    def check_scene(self, name, system):
        for stencil in (*self.points, *self.frames):
            check_stencil(f"'{name}' (PointContact)", system, stencil)

    def point_of(self, pair):
        return pair // self.bodies

    def gaps(self, x):
        for stencil in (*self.points, *self.frames):
            check_nodes("PointContact", stencil, x)
        pair = jnp.arange(self.pairs)
        gaps = jax.vmap(lambda k: self._gap(k, x, x))(pair)
        if self.owners is None:
            return gaps
        body, owner = pair % self.bodies, self.owners[self.point_of(pair)]
        return jnp.where((owner <= body) if self.half else (owner == body), jnp.inf, gaps)

    def _point(self, pair: Array, x: Any) -> Array:
        """The point or frame of a pair."""
        return x[self.points[0].state][self.points[0].nodes[self.point_of(pair)]]

    def _frame(self, pair: Array, x: Any) -> Array:
        """The frame of the shape; of a point, without turns."""
        if not self.frames:
            return self.at
        at = x[self.frames[0].state][self.frames[0].nodes[pair % self.bodies]]
        return at if at.shape[0] == 7 else jnp.concatenate([at, jnp.asarray(_WORLD[3:], at.dtype)])

    def _radius(self, pair: Array) -> Array:
        return self.radius if self.radius.ndim == 0 else self.radius[self.point_of(pair)]

    def _toward(self, pair: Array, x: Any) -> Array:
        """Where the body of the point is, seen from the shape."""
        frame, point = self._frame(pair, x), self._point(pair, x)[:3]
        if self.owners is not None and self.frames:
            owner = self.owners[self.point_of(pair)]
            other = x[self.frames[0].state][self.frames[0].nodes[jnp.maximum(owner, 0)]][:3]
            point = jnp.where(owner >= 0, other, point)
        return seen_from(frame, point)

    def _gap(self, pair: Array, start: Any, x: Any) -> Array:
        p = seen_from(self._frame(pair, x), self._point(pair, x)[:3])
        return self.shape.distance_from(p, jax.lax.stop_gradient(self._toward(pair, start))) - self._radius(pair)

    def coordinates(self, pair, start, x):
        frame, point = self._frame(pair, start), self._point(pair, start)
        p = seen_from(frame, point[:3])
        toward = jax.lax.stop_gradient(self._toward(pair, start))
        slope = unit(jax.grad(self.shape.distance_from)(p, toward))
        n = rotate(frame[3:], slope)
        on_shape = p - self.shape.distance_from(p, toward) * slope
        end_frame, end_point = self._frame(pair, x), self._point(pair, x)
        b0, b1 = carried(frame, on_shape), carried(end_frame, on_shape)
        a0, a1 = point[:3], end_point[:3]
        if point.shape[0] == 7:
            arm = rotate(quaternion_conjugate(point[3:]), -self._radius(pair) * n)
            a0, a1 = carried(point, arm), carried(end_point, arm)
        slip = tangents(n) @ ((a1 - a0) - (b1 - b0))
        return jnp.concatenate([self._gap(pair, start, x)[None], slip])
