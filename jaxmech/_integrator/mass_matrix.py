"""The mass matrix of few unknowns, all of it."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .._model.constraint_projection import project
from .._model.dynamics import kinematics, own_momenta, zero_forces
from .._model.mapping_jacobian import columns_handed_down, mapping_jacobian
from .._model.subsystem import with_only, without_unloaded
from .._model.system import System
from .._runtime.array_types import Array, Float


def whole_mass_matrix(system: System, position: Mapping[str, Array]) -> Float[Array, "N N"]:
    """`P M P + I - P`, `M` the sum of `J^T M_s J` over the states with masses of their own.

    A mapping's Jacobian is found once, where a product with `M` goes through the mapping and back again.
    """
    part = without_unloaded(with_only(system, masses=system.masses))
    x = kinematics(part, position)
    jacobians = {name: mapping_jacobian(part, name, x) for name in part.mapping_order}
    still, fields = ravel_pytree(zero_forces(system, position))
    identity = jnp.eye(still.size, dtype=still.dtype)
    free = jax.vmap(lambda e: project(system, fields(e)), out_axes=-1)(identity)
    v = {s: a for s, a in free.items() if s in x}  # (nodes, d, N) of every state
    for name in part.mapping_order:
        v[part.mappings[name].child] = columns_handed_down(part, name, jacobians[name], v)
    p = jax.vmap(lambda v: own_momenta(part, x, v), in_axes=-1, out_axes=-1)(v)
    M = sum((jnp.tensordot(v[s], p[s], ((0, 1), (0, 1))) for s in v), jnp.zeros_like(identity))
    held = identity - jnp.concatenate([free[s].reshape(-1, still.size) for s in sorted(free)])
    return M + held
