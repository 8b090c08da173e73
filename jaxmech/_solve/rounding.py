"""What is nil to rounding, of the residual of an equilibrium."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._linear_solver.base.vectors import norm
from .._model.constraint_projection import project
from .._model.dynamics import Fields
from .._model.lever import Lever
from .._runtime.array_types import Array
from .._sparse.block_matrix import BlockMatrix, magnitude
from .equilibrium import AbstractEquilibrium

_SATISFIED = 1e-4  # roots of the rounding unit that a constraint with multipliers may be off by, relative to the positions
_ROUNDING = 4  # rounding units of the same, which are more in single precision
_GOLDEN = 2654435769  # of 2**32, the golden section: its multiples, modulo that, are spread evenly


def rounding_spread(problem: AbstractEquilibrium, A0: BlockMatrix, u: Fields) -> Fields:
    """What the rounding of `u` makes of each row of a residual that should be nil, in units of the rounding."""
    size = problem.rounding(u)
    if not problem.system.multiplier_states:
        spread = {s: jnp.einsum("nij,nj->ni", jnp.abs(blocks), size[s]) for s, blocks in A0.diagonal.items()}
        return project(problem.system, spread)
    # The forces of multipliers, and all of an equation that multipliers hold, come from off the diagonal.
    return project(problem.system, magnitude(A0).mv(size))


def rounding_floor(problem: AbstractEquilibrium, A0: Any, u: Fields, lever: Lever) -> tuple[Array, Array]:
    """What the rounding of `u` makes of a residual that should be nil, measured by a lever: `eps | |A_ii| |u| |`, and of
    what is known by its products alone, `eps |A (+-u)|` with signs in disorder. And the residual of constraints with
    multipliers that is near enough to nil, relative to the size of the positions; infinite where nobody asks."""
    dtype = jnp.result_type(*jax.tree.leaves(u))
    if not isinstance(A0, BlockMatrix):
        spread = A0.mv(jax.tree.map(_with_signs, problem.rounding(u)))
        return jnp.finfo(dtype).eps * norm(lever.forces(project(problem.system, spread))), jnp.full((), jnp.inf, dtype)
    spread, eps = rounding_spread(problem, A0, u), jnp.finfo(A0.dtype).eps
    if not problem.system.multiplier_states:
        return eps * norm(lever.forces(spread)), jnp.full((), jnp.inf, dtype)
    slack = jnp.maximum(_SATISFIED * jnp.sqrt(eps), _ROUNDING * eps)
    return eps * norm(lever.forces(spread)), slack * norm(of_multipliers(problem, spread))


def _with_signs(size: Array) -> Array:
    place = jnp.arange(size.size, dtype=jnp.uint32).reshape(size.shape)
    return jnp.where(place * np.uint32(_GOLDEN) >> 31 == 0, size, -size)


def of_multipliers(problem: AbstractEquilibrium, residual: Fields) -> Fields:
    """The part that belongs to constraints with multipliers."""
    return {s: residual[s] for s in problem.system.multiplier_states}
