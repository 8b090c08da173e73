"""How far every node has turned between two positions of a scene."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from .._math.indexing import put_rows, take_rows
from .._math.rotation import quaternion_conjugate, quaternion_product, rotation_matrix
from .._model.dynamics import Fields
from .._model.system import System
from .._runtime.array_types import Array, Float
from .._runtime.precision import compiled
from .._scene.dof import AbstractDof, Rigid2, Rigid3, Vec2, Vec3
from .._sparse.block_matrix import Pair
from .._sparse.pattern import BlockPattern

_LEAST_TURN = 1e-3  # weight of "no turn", which decides about an axis that no neighbour lies off


@compiled
def nodal_rotations(
    system: System, patterns: Mapping[Pair, BlockPattern], before: Mapping[str, Array], now: Mapping[str, Array]
) -> Fields:
    """The rotations `{state: (n, d, d)}` of velocities and forces that took the nodes from `before` to `now`.

    Of a point, the rotation that best takes the directions to its neighbours in the matrix to what they are now,
    `max_R tr(R^T sum_j (y_j - y_i)(x_j - x_i)^T)`, and of those the least; of a frame, its own. A node that is constrained
    keeps its axes, those of its constraint, and so does one without neighbours or of another kind of state.
    Source: W. Kabsch, Acta Cryst. A32 (1976) 922, doi 10.1107/S0567739476001873.
    """
    result = {}
    for state in before:
        dof = system.dofs[state]
        turned = _of_state(dof, patterns[state, state], before[state], now[state])
        for constraint in system.projections.values():
            if constraint.on[0].state == state:
                nodes, own = constraint.on[0].nodes, jnp.eye(dof.deriv_size, dtype=turned.dtype)
                turned = put_rows(turned, nodes, jnp.broadcast_to(own, (nodes.shape[0], *own.shape)))
        result[state] = jax.lax.stop_gradient(turned)
    return result


def _of_state(dof: AbstractDof, pattern: BlockPattern, x: Array, y: Array) -> Float[Array, "n d d"]:
    if isinstance(dof, Rigid3):
        turns = jax.vmap(lambda p, q: rotation_matrix(quaternion_product(q[3:], quaternion_conjugate(p[3:]))))(x, y)
        return jax.vmap(lambda R: jax.scipy.linalg.block_diag(R, R))(turns)
    identity = jnp.broadcast_to(jnp.eye(dof.deriv_size, dtype=x.dtype), (x.shape[0], dof.deriv_size, dof.deriv_size))
    if isinstance(dof, Rigid2):
        c, s = jnp.cos(y[:, 2] - x[:, 2]), jnp.sin(y[:, 2] - x[:, 2])
        turns = jnp.stack([jnp.stack([c, -s], axis=-1), jnp.stack([s, c], axis=-1)], axis=-2)
        return identity.at[:, :2, :2].set(turns)
    if isinstance(dof, Vec2 | Vec3):
        edges = (take_rows(a, pattern.columns) - take_rows(a, pattern.rows) for a in (y, x))
        F = pattern.by_row(jnp.einsum("zi,zj->zij", *edges))
        size = jnp.linalg.norm(F, axis=(1, 2), keepdims=True)
        return _nearest_rotation(F + _LEAST_TURN * jnp.where(size > 0, size, 1.0) * identity)
    return identity


def _nearest_rotation(F: Float[Array, "n d d"]) -> Float[Array, "n d d"]:
    """`R` that maximises `R:F`. Nothing is differentiated here, so that a singular value decomposition will do."""
    U, _, V = jnp.linalg.svd(F)
    sign = jnp.sign(jnp.linalg.det(U) * jnp.linalg.det(V))
    return jnp.matmul(U.at[:, :, -1].multiply(sign[:, None]), V)
