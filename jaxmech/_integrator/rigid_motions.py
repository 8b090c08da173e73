"""Displacements without their rigid motion."""

import jax.numpy as jnp

from .._model.dynamics import Fields
from .._model.system import System
from .._runtime.array_types import Array

HELD = 1e-9  # a resultant or torque above this share of what the forces could have is more than rounding


def strain_unless_held(system: System, position: Fields, d: Fields, force: Fields) -> Fields:
    """`d` without the rigid motion of all main states nearest to it, unless `force` has a resultant or a torque.

    A force along the rest has neither, so that it changes no momentum; a system that is held keeps none.
    Points and frames of one space move rigidly together; joint coordinates (`Vec1`) do not take part.
    """
    result = dict(d)
    for size in (2, 3):
        states = [s for s in d if system.dofs[s].space_size == size and s not in system.multiplier_states]
        if not states:
            continue
        modes = {s: _modes(size, position[s], d[s].shape[1]) for s in states}
        gram = jnp.asarray(sum(jnp.einsum("mni,kni->mk", m, m) for m in modes.values()))
        along, wrench = (sum(jnp.einsum("mni,ni->m", modes[s], a[s]) for s in states) for a in (d, force))
        most = sum(jnp.einsum("mni,ni->m", jnp.abs(modes[s]), jnp.abs(force[s])) for s in states)
        free = jnp.all(jnp.abs(wrench) <= HELD * most)
        # A few nodes in a row, or a single one, can turn without moving: such a mode is nil, and its share too.
        scale = jnp.trace(gram) * jnp.finfo(gram.dtype).eps
        share = jnp.where(free, jnp.linalg.solve(gram + scale * jnp.eye(gram.shape[0], dtype=gram.dtype), along), 0.0)
        for s in states:
            result[s] = d[s] - jnp.einsum("m,mni->ni", share, modes[s])
    return result


def _modes(size: int, x: Array, width: int) -> Array:
    """The translations, then the turns about the origin, of every node: `(3 or 6, nodes, width)`."""
    nodes = x.shape[0]
    space = jnp.eye(size, dtype=x.dtype)
    shifts = [jnp.broadcast_to(jnp.zeros(width, x.dtype).at[:size].set(e), (nodes, width)) for e in space]
    places = x[:, :size]
    if size == 2:
        lever = jnp.stack([-places[:, 1], places[:, 0]], axis=1)
        turns = [(lever, jnp.ones((1,), x.dtype))]
    else:
        turns = [(jnp.cross(e, places), e) for e in space]
    rows = [
        jnp.concatenate([lever, jnp.broadcast_to(axis, (nodes, axis.shape[0]))], axis=1)[:, :width] for lever, axis in turns
    ]
    return jnp.stack(shifts + rows)
