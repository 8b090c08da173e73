"""What a contact is: pairs of a point and something that it may touch, of which the nearest are looked at."""

import abc
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar

from .._mapping.frame import carried
from .._math.first_where import first_where
from .._math.rotation import quaternion_conjugate, rotate
from .._math.safe_norm import safe_length
from .._model.system import System
from .._runtime.argument_checks import check_counts
from .._runtime.array_types import Array
from .._scene.component import Component
from .._scene.dof import Rigid3, Vec2, Vec3
from .._scene.parameter import check_parameters, check_range, is_concrete
from .._scene.stencil import Stencil

Positions = Mapping[str, Array]
_IN_SPACE = "; contacts are in space: map the points there, by a jm.mapping.FunctionMapping to a state of Vec3"


class Touching(eqx.Module):
    """Which pairs are looked at: their numbers `(capacity,)`, whether they are any, and how many there should have been."""

    pair: Array
    held: Array
    count: Array


class AbstractContact(Component):
    """Points that may touch something, with friction, restitution and compliance.

    A subclass says how many pairs there are, how far each is apart at the positions of all states (`gaps`), which nodes one
    of them moves with (`places`), and what its coordinates are (`coordinates_of`): its gap and two slips [m], as functions
    of the positions of these nodes, of which Jacobians, the work of impulses and all derivatives are made. Pairs whose gap
    is less than `margin` [m] are looked at, `capacity` of them at most; if there are more, the step fails
    (`RESULTS.contact_capacity`), and so it does where a pair is deeper than `depth` [m] at its start. Raises `ValueError` or
    `TypeError` that names the contact.
    Source: G. De Saxce and Z.-Q. Feng, 1998, doi:10.1016/S0895-7177(98)00119-8.

    Example:

        floor = jm.contact.PointContact(("cube", [0, 1]), jm.contact.Plane(), friction=0.5)
        assert isinstance(floor, jm.contact.AbstractContact) and floor.pairs == 2
    """

    friction: AbstractVar[Any]
    restitution: AbstractVar[Any]
    compliance: AbstractVar[Any]
    capacity: AbstractVar[int | None]
    margin: AbstractVar[Any]
    depth: AbstractVar[Any]

    def check_numbers(self, stencils: tuple[Stencil, ...], unlimited: tuple[str, ...] = ("margin", "depth")) -> None:
        """Raise `ValueError` or `TypeError` for numbers out of range; those of `unlimited` may be infinite."""
        who = type(self).__name__
        limits = {name: getattr(self, name) for name in unlimited}
        known = {
            name: jnp.where(jnp.isinf(a), 0.0, a)
            for name, a in limits.items()
            if isinstance(a, jax.Array) and is_concrete(a) and jnp.isrealobj(a) and a.dtype != bool
        }
        finite = eqx.tree_at(lambda c: [getattr(c, n) for n in known], self, list(known.values())) if known else self
        check_parameters(finite, stencils)
        for name, limit in limits.items():
            if limit.ndim != 0 and name in ("margin", "reach"):
                raise ValueError(f"{who}: {name} must be one number, got shape {limit.shape}.")
        check_range(
            self,
            friction=(self.friction, lambda a: a >= 0, "at least 0"),
            restitution=(self.restitution, lambda a: (a >= 0) & (a <= 1), "from 0 to 1"),
            compliance=(self.compliance, lambda a: a >= 0, "at least 0"),
            margin=(self.margin, lambda a: a >= 0, "at least 0"),
            depth=(self.depth, lambda a: a > 0, "positive"),
        )
        if self.capacity is not None:
            check_counts(who, capacity=self.capacity)

    @property
    @abc.abstractmethod
    def pairs(self) -> int:
        """How many pairs there are. Static."""

    @abc.abstractmethod
    def check_scene(self, name: str, system: System) -> None:
        """Raise `ValueError` where states do not exist or are not of the right kind."""

    @abc.abstractmethod
    def gaps(self, x: Positions) -> Array:
        """The gap `(pairs,)` [m] of every pair; infinite for what is no pair."""

    @abc.abstractmethod
    def places(self, pair: Array) -> tuple[tuple[str, Array], ...]:
        """The states and the numbers of their nodes `(k,)` that one pair moves with."""

    @abc.abstractmethod
    def coordinates_of(self, pair: Array, start: Positions, moved: tuple[Array, ...]) -> Array:
        """`(3,)` [m] of one pair where its `places` are `moved`: its gap, and its slips since `start`, along two tangents
        there."""

    def coordinates(self, pair: Array, start: Positions, x: Positions) -> Array:
        """`coordinates_of` at the positions `x` of all states."""
        return self.coordinates_of(pair, start, tuple(x[state][nodes] for state, nodes in self.places(pair)))

    @abc.abstractmethod
    def point_of(self, pair: Array) -> Array:
        """The number of the point of a pair, of which parameters are."""

    @property
    def slots(self) -> int:
        """How many pairs are looked at. Static."""
        return self.pairs if self.capacity is None else min(self.capacity, self.pairs)

    def place_of(self, pair: Array) -> Array:
        """Where what is remembered of a pair stands among as many as there are `pairs`."""
        return pair

    def touching(self, x: Positions) -> Touching:
        """The pairs within the margin."""
        return self.near_of(self.gaps(x))

    def near_of(self, gaps: Array) -> Touching:
        """The first of these that are within the margin, as many as there are slots; NaN counts as near, and fails."""
        near = ~(gaps >= self.margin)
        if self.slots == gaps.shape[0]:
            return Touching(jnp.arange(self.slots), near, jnp.sum(near))
        pair, count = first_where(near, self.slots)
        return Touching(pair, jnp.arange(self.slots) < count, count)

    def of_each(self, value: Array, touching: Touching) -> Array:
        """A parameter of every slot."""
        return value if jnp.ndim(value) == 0 else value[self.point_of(touching.pair)]


def check_stencil(who: str, system: System, stencil: Any, kinds: tuple[type, ...] = (Vec3, Rigid3)) -> None:
    """Raise `ValueError` unless a state exists and is of one of these kinds."""
    if stencil.state not in system.dofs:
        raise ValueError(f"contact {who}: there is no state '{stencil.state}', only {sorted(system.dofs)}.")
    found = type(system.dofs[stencil.state])
    if found not in kinds:
        names, hint = " or ".join(k.__name__ for k in kinds), _IN_SPACE if found is Vec2 else ""
        raise ValueError(f"contact {who}: state '{stencil.state}' must be of {names}, got {found.__name__}{hint}.")


def check_nodes(who: str, stencil: Any, x: Positions) -> None:
    """Raise `ValueError` for a node that does not exist."""
    nodes = stencil.nodes
    if is_concrete(nodes) and nodes.size and int(np.max(np.asarray(nodes))) >= x[stencil.state].shape[0]:
        raise ValueError(f"contact {who}: node {int(np.max(np.asarray(nodes)))} of '{stencil.state}' does not exist.")


def tangents(n: Array) -> Array:
    """Two unit vectors `(2, 3)` that make a right-handed frame with the unit normal `n`; smooth but where `n_z` is nil.

    Source: T. Duff et al., "Building an orthonormal basis, revisited", J. Comput. Graph. Tech. 6(1) (2017).
    """
    sign = jnp.where(n[2] >= 0, 1.0, -1.0).astype(n.dtype)
    a = -1.0 / (sign + n[2])
    b = n[0] * n[1] * a
    return jnp.stack(
        [
            jnp.stack([1 + sign * n[0] ** 2 * a, sign * b, -sign * n[0]]),
            jnp.stack([b, sign + n[1] ** 2 * a, -n[1]]),
        ]
    )


def displaced(start: Array, end: Array, away: Array) -> Array:
    """How far `(3,)` [m] a point moves; of a frame `(7,)`, what stands `away` `(3,)` [m] from it and turns with it."""
    if start.shape[0] != 7:
        return end - start
    arm = rotate(quaternion_conjugate(start[3:]), away)
    return carried(end, arm) - carried(start, arm)


def unit(d: Array) -> Array:
    """`d / |d|`, upwards where it is nil."""
    length = safe_length(d)
    up = jnp.array([0.0, 0.0, 1.0], d.dtype)
    return jnp.where(length > 0, d / jnp.where(length > 0, length, 1.0), up)
