"""Displacements without their rigid motion."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._codegen import TotalSums, map_elements
from .._math.small_matrix import inverse
from .._model.dynamics import Fields
from .._model.system import System
from .._runtime.array_types import Array

HELD = 1e-9  # a resultant or torque above this share of what the forces could have is more than rounding
_NIL = 64  # rounding units of an inertia below which it is none
# `e_k x x = _TURNS[k] x`, of each axis, in the plane and in space.
_TURNS = {2: np.array([[[0.0, -1.0], [1.0, 0.0]]]), 3: np.cross(np.eye(3)[:, None], np.eye(3)[None]).transpose(0, 2, 1)}


def strained(
    system: System, position: Fields, d: Fields, free: Fields, weights: Fields, force: Fields, forces: Sequence[Fields]
) -> tuple[Fields, list[Array]]:
    """`W n`, and the sums `n . W n`, `d . W d`, and `f . d` of each of the `forces`: `n` is `free`, what of `d` nothing
    prescribes, without the rigid motion of all main states nearest to it, unless `force` has a resultant or a torque.

    What is nearest, `W` says, `(nodes, deriv_size)`, equal for all directions of a node and for all its turns. A force
    along `W n` has neither, so that it changes no momentum; a system that is held keeps none.
    Points and frames of one space move rigidly together; joint coordinates (`Vec1`) do not take part. Arms are from the
    centre of the weights, about which shifts and turns have nothing in common.
    """
    heavy, sums = {}, []
    of_nodes = {s: (d[s], free[s], weights[s], *(f[s] for f in forces)) for s in d}
    for size in _TURNS:
        states = [s for s in d if system.dofs[s].space_size == size and s not in system.multiplier_states]
        if not states:
            continue
        places = {s: position[s][:, :size] for s in states}
        moment = _added([_summed(_moment, (), places[s], weights[s])[0] for s in states])
        held = [_summed(_sums, (moment,), places[s], free[s], force[s], weights[s])[0] for s in states]
        motion = map_elements(_motion, 0, moment[None], _added(held)[None])[0]
        for s in states:
            total, heavy[s] = _summed(_left, (moment, motion), places[s], *of_nodes[s])
            sums.append(total)
    for s in d:
        if s not in heavy:
            total, heavy[s] = _summed(_weighed, (), *of_nodes[s])
            sums.append(total)
    return {s: heavy[s] for s in d}, list(_added(sums))


def _summed(function: Callable, shared: Sequence[Array], *of_nodes: Array) -> Any:
    """What a function of nodes gives, of the first of it the sum over them; `shared`: what is the same for all."""
    axes = (*(None for _ in shared), *(0 for _ in of_nodes))
    total, *rest = map_elements(function, axes, *shared, *of_nodes, sums=TotalSums.of(of_nodes[0].shape[0]))
    return jnp.sum(total, axis=0), *rest


def _added(parts: Sequence[Array]) -> Array:
    return sum(parts[1:], parts[0])


def _moment(x: Array, weight: Array) -> tuple[Array]:
    return (jnp.concatenate([weight[:1], weight[0] * x])[None],)


def _centre(moment: Array) -> tuple[Array, Array]:
    """The weight of all, and where its centre is."""
    total = moment[0]
    return total, moment[1:] / jnp.where(total > 0, total, 1.0)


def _turned(arm: Array, width: int) -> Array:
    """The turns of a node about each axis, `(1 or 3, width)`: what moves, and of a frame the turn itself."""
    turns = _TURNS[len(arm)]
    moved = [sum(float(e) * a for e, a in zip(row, arm, strict=True) if e) for turn in turns for row in turn]
    moved = jnp.stack([jnp.asarray(a, arm.dtype) for a in moved]).reshape(len(turns), len(arm))
    return jnp.concatenate([moved, jnp.eye(len(turns), dtype=arm.dtype)], axis=1)[:, :width]


def _sums(moment: Array, x: Array, d: Array, force: Array, weight: Array) -> tuple[Array]:
    """What a node adds to the resultant and the torque, the sums of their sizes, the momenta of `d`, and the inertia."""
    arm = x - _centre(moment)[1]
    m, size = _turned(arm, len(d)), len(arm)
    torques, heavy = m * force, weight * d
    held = force[:size], jnp.sum(torques, axis=1)
    most = jnp.abs(force[:size]), jnp.sum(jnp.abs(torques), axis=1)
    inertia = jnp.sum(m[:, None] * weight * m, axis=2).reshape(-1)
    return (jnp.concatenate([*held, *most, heavy[:size], jnp.sum(m * heavy, axis=1), inertia])[None],)


def _motion(moment: Array, sums: Array) -> Array:
    """The shift and the turn of all, of what nodes add up to; nil where something holds them."""
    size, total = len(moment) - 1, moment[0]
    k = len(_TURNS[size])
    held, most, momentum = (sums[i * (size + k) : (i + 1) * (size + k)] for i in range(3))
    inertia = sums[3 * (size + k) :].reshape(k, k)
    # A few nodes in a row, or a single one, can turn without moving: such a mode is nil, and its share too.
    trace = jnp.trace(inertia)
    least = jnp.where(trace > 0, _NIL * jnp.finfo(trace.dtype).eps * trace, 1.0)
    spin = inverse(inertia + least * jnp.eye(k, dtype=trace.dtype)) @ momentum[size:]
    shift = momentum[:size] / jnp.where(total > 0, total, 1.0)
    return jnp.where(jnp.all(jnp.abs(held) <= HELD * most), jnp.concatenate([shift, spin]), 0.0)


def _left(
    moment: Array, motion: Array, x: Array, d: Array, free: Array, weight: Array, *forces: Array
) -> tuple[Array, Array]:
    """What a node has of `strained`, of a motion of all."""
    arm = x - _centre(moment)[1]
    shift, spin = motion[: len(arm)], motion[len(arm) :]
    turned = jnp.sum(spin[:, None] * _turned(arm, len(d)), axis=0)
    rigid = jnp.concatenate([shift, jnp.zeros(len(d) - len(arm), d.dtype)]) + turned
    return _weighed(d, free - rigid, weight, *forces)


def _weighed(d: Array, strain: Array, weight: Array, *forces: Array) -> tuple[Array, Array]:
    heavy = weight * strain
    sums = [jnp.sum(strain * heavy), jnp.sum(weight * d * d), *(jnp.sum(f * d) for f in forces)]
    return jnp.stack(sums)[None], heavy
