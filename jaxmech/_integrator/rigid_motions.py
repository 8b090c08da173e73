"""Displacements without their rigid motion."""

import jax.numpy as jnp
import numpy as np

from .._codegen import map_elements
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
    for size in _TURNS:
        states = [s for s in d if system.dofs[s].space_size == size and s not in system.multiplier_states]
        if not states:
            continue
        places = {s: position[s][:, :size] for s in states}
        total, *moment = _summed([map_elements(_moment, 0, x, weights[s][:, 0]) for s, x in places.items()])
        middle = jnp.stack(moment) / jnp.where(total > 0, total, 1.0)
        of_nodes = ((x - middle, d[s], force[s], weights[s]) for s, x in places.items())
        sums = _summed([map_elements(_sums, 0, *of_each) for of_each in of_nodes])
        moved = map_elements(_motion, 0, middle[None], total[None], sums[None])[0]
        for s, x in places.items():
            result[s] = map_elements(_left, (0, 0, None), x - middle, d[s], moved)
    return result


def _summed(parts: list[Array]) -> Array:
    """The sum of what all nodes of all states have."""
    each = [jnp.sum(a, axis=0) for a in parts]
    return sum(each[1:], each[0])


def _moment(x: Array, weight: Array) -> Array:
    return jnp.concatenate([weight[None], weight * x])


def _turned(arm: Array, width: int) -> Array:
    """The turns of a node about each axis, `(1 or 3, width)`: what moves, and of a frame the turn itself."""
    turns = _TURNS[len(arm)]
    moved = [sum(float(e) * a for e, a in zip(row, arm, strict=True) if e) for turn in turns for row in turn]
    moved = jnp.stack([jnp.asarray(a, arm.dtype) for a in moved]).reshape(len(turns), len(arm))
    return jnp.concatenate([moved, jnp.eye(len(turns), dtype=arm.dtype)], axis=1)[:, :width]


def _sums(arm: Array, d: Array, force: Array, weight: Array) -> Array:
    """What a node adds to the resultant and the torque, the sums of their sizes, the momenta of `d`, and the inertia."""
    m, size = _turned(arm, len(d)), len(arm)
    torques, heavy = m * force, weight * d
    held = force[:size], jnp.sum(torques, axis=1)
    most = jnp.abs(force[:size]), jnp.sum(jnp.abs(torques), axis=1)
    inertia = jnp.sum(m[:, None] * weight * m, axis=2).reshape(-1)
    return jnp.concatenate([*held, *most, heavy[:size], jnp.sum(m * heavy, axis=1), inertia])


def _motion(middle: Array, total: Array, sums: Array) -> Array:
    """The shift and the turn of all, of what nodes add up to; nil where something holds them."""
    size = len(middle)
    k = len(_TURNS[size])
    held, most, momentum = (sums[i * (size + k) : (i + 1) * (size + k)] for i in range(3))
    inertia = sums[3 * (size + k) :].reshape(k, k)
    # A few nodes in a row, or a single one, can turn without moving: such a mode is nil, and its share too.
    trace = jnp.trace(inertia)
    least = jnp.where(trace > 0, _NIL * jnp.finfo(trace.dtype).eps * trace, 1.0)
    spin = inverse(inertia + least * jnp.eye(k, dtype=trace.dtype)) @ momentum[size:]
    shift = momentum[:size] / jnp.where(total > 0, total, 1.0)
    return jnp.where(jnp.all(jnp.abs(held) <= HELD * most), jnp.concatenate([shift, spin]), 0.0)


def _left(arm: Array, d: Array, motion: Array) -> Array:
    """What is left of the displacement of a node without a motion of all."""
    shift, spin = motion[: len(arm)], motion[len(arm) :]
    turned = jnp.sum(spin[:, None] * _turned(arm, len(d)), axis=0)
    return d - jnp.concatenate([shift, jnp.zeros(len(d) - len(arm), d.dtype)]) - turned
