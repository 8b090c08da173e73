"""One mapped node and its parents: how it moves with them, and how what acts on it acts on them. All by derivatives."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from .._codegen import NodeRows
from .._forcefield.chart import Arrays, no_displacement, retract_each
from .._mapping.base import AbstractMapping
from .._runtime.array_types import Array
from .._scene.dof import AbstractDof
from .._scene.stencil import Stencil

Parents = Sequence[AbstractDof]
Some = tuple[Array | None, ...]  # of the nodes of stencils; None is nil
T = TypeVar("T")


def of_mapping(function: Callable[..., T], mapping: AbstractMapping, dofs: Mapping[str, AbstractDof]) -> Callable[..., T]:
    """A function of a node of this mapping: it is told what the child is and what its parents are."""
    return partial(function, dofs[mapping.child], tuple(dofs[s.state] for s in mapping.parents))


def at_some_nodes(stencils: tuple[Stencil, ...], fields: Mapping[str, Array]) -> tuple[NodeRows | None, ...]:
    """What stands at the nodes of each stencil; None where its state has nothing."""
    return tuple(NodeRows(fields[s.state], s.nodes) if s.state in fields else None for s in stencils)


def displacement(child: AbstractDof, parents: Parents, m: AbstractMapping, q: Arrays, d: Arrays) -> Array:
    """That of the node, where its parents are displaced by `d`; for derivatives at `d = 0`."""
    return child.local_near(m.element_apply(*q), m.element_apply(*retract_each(parents, q, d)))


def velocity(child: AbstractDof, parents: Parents, m: AbstractMapping, q: Arrays, u: Arrays) -> Array:
    """`J u`."""
    return with_rate(lambda t: displacement(child, parents, m, q, tuple(t * w for w in u)), q)[1]


def motion(
    child: AbstractDof, parents: Parents, m: AbstractMapping, q: Arrays, u: Arrays, a: Some
) -> tuple[Array, Array, Array]:
    """Position, velocity `J u` and acceleration `J a + dJ/dt u`."""

    def moving(t: Array) -> Array:
        return velocity(child, parents, m, moved(parents, q, u, t), faster(u, a, t))

    return m.element_apply(*q), *with_rate(moving, q)


def motion_ahead(
    child: AbstractDof, parents: Parents, m: AbstractMapping, q: Arrays, v: Arrays, d: Arrays, u: Arrays, a: Some = ()
) -> tuple[Array, ...]:
    """Position and velocity, and to first order how it is displaced and faster where its parents are by `d` and `u`; with
    accelerations of these its own too."""

    def ahead(t: Array) -> tuple[Array, Array]:
        now = velocity(child, parents, m, moved(parents, q, d, t), faster(v, u, t))
        return displacement(child, parents, m, q, tuple(t * e for e in d)), now

    (_, now), (displaced, gained) = with_rate(ahead, q)
    accelerations = motion(child, parents, m, q, v, a)[2:] if a else ()
    return m.element_apply(*q), now, displaced, gained, *accelerations


def pulled(child: AbstractDof, parents: Parents, m: AbstractMapping, q: Arrays, f: Array) -> tuple[Arrays]:
    """`J^T f`."""
    return (_pulled_at(child, parents, m, q, no_displacement(parents, q), f),)


def pulled_ahead(
    child: AbstractDof, parents: Parents, m: AbstractMapping, q: Arrays, d: Arrays, f: Array, ahead: Array
) -> tuple[Arrays, Arrays]:
    """`J^T f`, and what it is to first order where the parents are displaced by `d` and the force is `ahead`."""

    def turned(t: Array) -> Arrays:
        return _pulled_at(child, parents, m, q, tuple(t * e for e in d), f)

    force, rate = with_rate(turned, q)
    later = _pulled_at(child, parents, m, q, no_displacement(parents, q), ahead)
    return force, jax.tree.map(jnp.add, later, rate)


def pulled_momentum(
    child: AbstractDof, parents: Parents, m: AbstractMapping, q: Arrays, v: Arrays, p: Array, f: Array
) -> tuple[Arrays, Arrays]:
    """`J^T p`, and `J^T f + (d(J v)/dq)^T p`: the derivatives of a kinetic energy by velocities and positions, from those
    by the node's own."""

    def work(d: Arrays, v: Arrays) -> Array:
        there = retract_each(parents, q, d)
        return f @ displacement(child, parents, m, q, d) + p @ velocity(child, parents, m, there, v)

    force, momentum = jax.grad(work, argnums=(0, 1))(no_displacement(parents, q), v)
    return momentum, force


def _pulled_at(child: AbstractDof, parents: Parents, m: AbstractMapping, q: Arrays, d: Arrays, f: Array) -> Arrays:
    return jax.vjp(lambda d: displacement(child, parents, m, q, d), d)[1](f)[0]


def moved(dofs: Parents, x: Arrays, v: Arrays, t: Array) -> Arrays:
    """Where nodes have got to, to first order in time."""
    return retract_each(dofs, x, tuple(t * u for u in v))


def faster(v: Arrays, a: Some, t: Array) -> Arrays:
    """The velocities that they have there."""
    return tuple(u if b is None else u + t * b for u, b in zip(v, a, strict=True))


def with_rate(function: Callable[[Array], Any], like: Arrays) -> tuple[Any, Any]:
    """A function of time now, and its rate."""
    zero = jnp.zeros((), like[0].dtype)
    return jax.jvp(function, (zero,), (jnp.ones_like(zero),))
