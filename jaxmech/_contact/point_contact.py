"""Points and spheres against shapes that stand in the world, or move with frames and points."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._mapping.frame import carried, seen_from
from .._math.first_where import first_where
from .._math.rotation import have_unit_quaternions, rotate
from .._runtime.argument_checks import check_flags, check_instance, index_array, plain
from .._runtime.array_types import Array, Int
from .._runtime.field_types import Parameter
from .._runtime.precision import in_one_program
from .._scene.parameter import check_range, is_concrete, parameter
from .._scene.stencil import Stencil, Stencils, as_stencils, stencils
from .base import AbstractContact, Touching, check_nodes, check_stencil, displaced, tangents, unit
from .shape import AbstractShape

_CANDIDATES = 8  # pairs that are measured, for each slot
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
    `frames` of the body of each point, -1 where it is none of them. Of bodies that are stacked edge on edge they tell which
    face a corner is on (`Box`), so that such bodies are one contact. `half=True`: only of bodies with smaller numbers than
    its own: of spheres among themselves, each pair once.

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
    capacity: int | None = eqx.field(static=True, converter=plain, default=None, kw_only=True)
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
        most = int(np.asarray(self.owners).max()) if n and self.owners is not None and is_concrete(self.owners) else -1
        if self.frames and most >= self.bodies:
            raise ValueError(f"PointContact: owners names body {most}, but frames has {self.bodies}; -1 is none of them.")
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
        return self._gaps_of(jnp.arange(self.pairs), x)

    def touching(self, x):
        """Of bodies that end somewhere, only pairs whose point is within the sphere about the body are measured."""
        ends = type(self.shape).reach is not AbstractShape.reach
        most = _CANDIDATES * self.slots
        if not self.frames or not ends or most >= self.pairs:
            return self.near_of(self.gaps(x))
        points = x[self.points[0].state][self.points[0].nodes, :3]
        bodies = x[self.frames[0].state][self.frames[0].nodes, :3]
        square = sum((points[:, None, i] - bodies[None, :, i]) ** 2 for i in range(3))
        near = ~(square >= (self.shape.reach() + jnp.atleast_1d(self.radius)[:, None] + self.margin) ** 2)
        if self.owners is not None:
            owner, body = self.owners[:, None], jnp.arange(self.bodies)
            near = near & ((owner > body) if self.half else (owner != body))
        pair, count = first_where(near.reshape(-1), most)
        found = self.near_of(jnp.where(jnp.arange(most) < count, self._gaps_of(pair, x), jnp.inf))
        # More than can be measured are more than can be held.
        count = jnp.where(count > most, self.slots + 1, found.count)
        return Touching(pair[found.pair], found.held, count)

    def _gaps_of(self, pair: Array, x: Any) -> Array:
        for stencil in (*self.points, *self.frames):
            check_nodes("PointContact", stencil, x)
        return self._measured(pair, x)

    @in_one_program
    def _measured(self, pair: Array, x: Any) -> Array:
        gaps = jax.vmap(lambda k: self._gap(k, self._toward(k, x), self._frame(k, x), self._point(k, x)))(pair)
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
        return _as_frame(x[self.frames[0].state][self.frames[0].nodes[pair % self.bodies]])

    def _radius(self, pair: Array) -> Array:
        return self.radius if jnp.ndim(self.radius) == 0 else self.radius[self.point_of(pair)]

    def _toward(self, pair: Array, x: Any) -> Array:
        """Where the body of the point is, seen from the shape; no derivatives."""
        x = jax.lax.stop_gradient(x)
        frame, point = self._frame(pair, x), self._point(pair, x)[:3]
        if self.owners is not None and self.frames:
            owner = self.owners[self.point_of(pair)]
            other = x[self.frames[0].state][self.frames[0].nodes[jnp.maximum(owner, 0)]][:3]
            point = jnp.where(owner >= 0, other, point)
        return seen_from(frame, point)

    def _gap(self, pair: Array, toward: Array, frame: Array, point: Array) -> Array:
        return self.shape.distance_from(seen_from(frame, point[:3]), toward) - self._radius(pair)

    def places(self, pair):
        on = [(self.points[0], self.point_of(pair)), *((f, pair % self.bodies) for f in self.frames)]
        return tuple((stencil.state, stencil.nodes[number][None]) for stencil, number in on)

    def coordinates_of(self, pair, start, moved):
        frame, point = self._frame(pair, start), self._point(pair, start)
        p, toward = seen_from(frame, point[:3]), self._toward(pair, start)
        distance, slope = jax.value_and_grad(self.shape.distance_from)(p, toward)
        slope = unit(slope)
        n, on_shape = rotate(frame[3:], slope), p - distance * slope
        end_point, end_frame = moved[0][0], _as_frame(moved[1][0]) if self.frames else self.at
        b0, b1 = carried(frame, on_shape), carried(end_frame, on_shape)
        slip = tangents(n) @ (displaced(point, end_point, -self._radius(pair) * n) - (b1 - b0))
        return jnp.concatenate([self._gap(pair, toward, end_frame, end_point)[None], slip])


def _as_frame(at: Array) -> Array:
    """A frame; of a point, without turns."""
    return at if at.shape[0] == 7 else jnp.concatenate([at, jnp.asarray(_WORLD[3:], at.dtype)])
