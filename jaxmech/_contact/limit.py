"""Limits of what a constraint measures: the stops of a joint, a rope that only pulls."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._constraint.multiplier import AbstractMultiplierConstraint
from .._runtime.argument_checks import check_instance, plain
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._runtime.precision import in_one_program
from .._scene.parameter import check_range, element_of, parameter
from .base import AbstractContact, check_stencil


class Limit(AbstractContact):
    """`lower <= g(x) <= upper`: what a constraint would hold at zero may move between stops, which push and never pull.

    `constraint`: of one row `g`, which is measured and not held: `JointAngle` for the stops of a hinge [rad, from -pi to
    pi], `OnPlane` of a point of a body for those of a slider [m], `Distance` and `Cable` of length `L` with `upper=0` for a
    rope that is slack or taut. Its own compliance, relaxation and multiplier have no part. `lower`, `upper` [the unit of
    `g`]: one number each, or one for each element, infinite where there is no stop. There are two pairs for each element,
    the lower stop, then the upper; an impulse [N s, N m s] is that along `g`.

    `restitution`, `compliance` [m/N, rad/(N m)], `capacity`, `margin`, `depth` [the unit of `g`]: as in `AbstractContact`;
    without friction. Raises `ValueError` or `TypeError` for numbers out of range, a `lower` above `upper`, constraints of
    more rows than one, of one equation for all elements (`CavityVolume`), and one that follows time.
    Source: D. E. Stewart and J. C. Trinkle, Int. J. Numer. Meth. Eng. 39 (1996) 2673.

    Example:

        angle = jm.constraint.JointAngle(("body", [0]))
        stops = jm.contact.Limit(angle, lower=-0.5, upper=1.0)
        x = {"body": jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, np.sin(0.2), np.cos(0.2)]])}  # turned by 0.4
        assert jnp.allclose(stops.gaps(x), jnp.array([0.9, 0.6]))  # [rad]
    """

    constraint: AbstractMultiplierConstraint
    lower: Parameter = parameter(default=-np.inf, kw_only=True)
    upper: Parameter = parameter(default=np.inf, kw_only=True)
    restitution: Parameter = parameter(default=0.0, kw_only=True)
    compliance: Parameter = parameter(default=0.0, kw_only=True)
    capacity: int | None = eqx.field(static=True, converter=plain, default=None, kw_only=True)
    margin: Parameter = parameter(default=np.inf, kw_only=True)
    depth: Parameter = parameter(default=np.inf, kw_only=True)

    @property
    def friction(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """There is none."""
        return jnp.zeros((), self.restitution.dtype)

    def __check_init__(self):
        check_instance("Limit", "constraint", self.constraint, AbstractMultiplierConstraint)
        if self.constraint.follows_time:
            raise ValueError("Limit: the constraint must not follow time.")
        if self.constraint.adds_up:
            kind = type(self.constraint).__name__
            raise ValueError(f"Limit: the elements of {kind} are the terms of one equation, expected one equation for each.")
        self.check_numbers(self.constraint.on, ("margin", "depth", "lower", "upper"))
        check_range(self, upper=(self.upper, lambda u: u >= np.asarray(self.lower), "at least the lower limit"))

    @property
    def pairs(self) -> int:
        return 2 * self.constraint.on[0].elements

    def check_scene(self, name, system):
        for stencil in self.constraint.on:
            check_stencil(f"'{name}' (Limit)", system, stencil, tuple({type(dof) for dof in system.dofs.values()}))
        dofs = [system.dofs[s.state] for s in self.constraint.on]
        self.constraint.check_dofs(dofs)
        places = [
            jax.ShapeDtypeStruct((*s.nodes.shape[1:], d.coord_size), self.restitution.dtype)
            for s, d in zip(self.constraint.on, dofs, strict=True)
        ]
        rows = jax.eval_shape(lambda *x: element_of(self.constraint, self.constraint.on, 0).rows(*x), *places).shape
        if rows != (1,):
            raise ValueError(f"contact '{name}' (Limit): the constraint has {rows[0]} rows, expected 1.")

    def point_of(self, pair):
        return pair // 2

    @in_one_program
    def gaps(self, x):
        pair = jnp.arange(self.pairs)
        gaps = jax.vmap(lambda k: self.coordinates(k, x, x)[0])(pair)
        return jnp.where(jnp.isinf(jax.vmap(self._limit)(pair)), jnp.inf, gaps)

    def places(self, pair):
        return tuple((s.state, jnp.atleast_1d(s.nodes[pair // 2])) for s in self.constraint.on)

    def coordinates_of(self, pair, start, moved):
        del start
        on, limit = self.constraint.on, self._limit(pair)
        x = [a[0] if s.nodes.ndim == 1 else a for s, a in zip(on, moved, strict=True)]
        g = element_of(self.constraint, on, pair // 2).rows(*x)[0]
        gap = (g - jnp.where(jnp.isinf(limit), 0.0, limit)) * jnp.where(pair % 2 == 0, 1.0, -1.0)
        return jnp.zeros(3, gap.dtype).at[0].set(gap)

    def _limit(self, pair: Array) -> Array:
        lower, upper = (a if jnp.ndim(a) == 0 else a[pair // 2] for a in (self.lower, self.upper))
        return jnp.where(pair % 2 == 0, lower, upper)
