"""Displacements without their rigid motion."""

import jax.numpy as jnp
import numpy as np

from .._math.small_matrix import inverse
from .._model.dynamics import Fields
from .._model.system import System
from .._runtime.array_types import Array

HELD = 1e-9  # a resultant or torque above this share of what the forces could have is more than rounding
_NIL = 64  # rounding units of an inertia below which it is none
# `e_k x x = _TURNS[k] x`, of each axis, in the plane and in space.
_TURNS = {2: np.array([[[0.0, -1.0], [1.0, 0.0]]]), 3: np.cross(np.eye(3)[:, None], np.eye(3)[None]).transpose(0, 2, 1)}


def strain_unless_held(system: System, position: Fields, d: Fields, force: Fields, weights: Fields) -> Fields:
    """`d` without the rigid motion of all main states nearest to it, unless `force` has a resultant or a torque.

    What is nearest, `weights` say, `(nodes, deriv_size)`, equal for all directions of a node and for all its turns. A force
    along the rest times them has neither, so that it changes no momentum; a system that is held keeps none.
    Points and frames of one space move rigidly together; joint coordinates (`Vec1`) do not take part. Arms are from the
    centre of the weights, about which shifts and turns have nothing in common.
    """
    result = dict(d)
    for size, turns in _TURNS.items():
        states = [s for s in d if system.dofs[s].space_size == size and s not in system.multiplier_states]
        if not states:
            continue
        places = {s: position[s][:, :size] for s in states}
        total = jnp.asarray(sum(jnp.sum(weights[s][:, 0]) for s in states))
        total = jnp.where(total > 0, total, 1.0)
        middle = jnp.asarray(sum(weights[s][:, 0] @ x for s, x in places.items())) / total
        modes = {s: _turned(turns, x - middle, d[s].shape[1]) for s, x in places.items()}

        def shift(of: Fields, states: list[str] = states, size: int = size) -> Array:
            return jnp.asarray(sum(jnp.sum(of[s][:, :size], axis=0) for s in states))

        def turn(of: Fields, modes: Fields = modes) -> Array:
            return jnp.asarray(sum(jnp.einsum("nkw,nw->k", m, of[s]) for s, m in modes.items()))

        sizes = {s: jnp.abs(force[s]) for s in states}
        torques = turn(sizes, {s: jnp.abs(m) for s, m in modes.items()})
        free = jnp.all(jnp.abs(shift(force)) <= HELD * shift(sizes)) & jnp.all(jnp.abs(turn(force)) <= HELD * torques)
        inertia = jnp.asarray(sum(jnp.einsum("nkw,nw,nlw->kl", m, weights[s], m) for s, m in modes.items()))
        heavy = {s: weights[s] * d[s] for s in states}
        # A few nodes in a row, or a single one, can turn without moving: such a mode is nil, and its share too.
        trace = jnp.trace(inertia)
        least = jnp.where(trace > 0, _NIL * jnp.finfo(trace.dtype).eps * trace, 1.0)
        spin = jnp.where(free, inverse(inertia + least * jnp.eye(len(turns), dtype=trace.dtype)) @ turn(heavy), 0.0)
        drift = jnp.where(free, shift(heavy) / total, 0.0)
        for s, m in modes.items():
            moved = jnp.concatenate([drift, jnp.zeros(m.shape[2] - size, drift.dtype)])
            result[s] = d[s] - moved - jnp.einsum("k,nkw->nw", spin, m)
    return result


def _turned(turns: np.ndarray, arms: Array, width: int) -> Array:
    """The turns of every node about each axis, `(nodes, 1 or 3, width)`: what moves, and of frames the turn itself."""
    moved = jnp.einsum("kij,nj->nki", jnp.asarray(turns, arms.dtype), arms)
    axes = jnp.broadcast_to(jnp.eye(len(turns), dtype=arms.dtype), (len(arms), len(turns), len(turns)))
    return jnp.concatenate([moved, axes], axis=2)[:, :, :width]
