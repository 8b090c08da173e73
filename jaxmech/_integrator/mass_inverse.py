"""Accelerations of explicit steps: `a = M^-1 f`, without a matrix where masses are lumped."""

from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx

from .._linear_solver.base.derivative import derivative_solve
from .._linear_solver.krylov.pcg import PCG
from .._linear_system.matrix_free import MatrixFreeSystem
from .._model.constraint_projection import project
from .._model.dynamics import Fields, inertial_force, momentum, total_force
from .._model.system import State, System
from .._model.terms import Factors
from .displaced import combined


def has_lumped_masses(system: System) -> bool:
    """Whether every mass is of single nodes of main states, so that `M` is block-diagonal. Static."""
    main = set(system.main_states)
    return all(
        len(mass.on) == 1 and mass.on[0].nodes.ndim == 1 and mass.on[0].state in main for mass in system.masses.values()
    )


def node_masses(system: System, position: Fields) -> Fields:
    """The blocks `(nodes, d, d)` of lumped masses: products with the unit vectors of all nodes at once."""
    blocks = {}
    for s, x in position.items():
        d = system.dofs[s].deriv_size

        def column(e, s=s, n=x.shape[0], d=d):
            unit = {t: jnp.zeros((y.shape[0], system.dofs[t].deriv_size), y.dtype) for t, y in position.items()}
            return momentum(system, position, unit | {s: jnp.broadcast_to(e, (n, d))})[s]

        blocks[s] = jax.vmap(column, out_axes=2)(jnp.eye(d, dtype=x.dtype))
    return blocks


def acceleration(system: System, state: State, solver: Any, rate: Fields | None = None) -> Fields:
    """`M^-1 P (f + inertial - C v)`, or of another rate of momentum, in the free directions.

    Lumped masses are divided by, node by node; others are solved for by `solver` (conjugate gradients unless given).
    """
    free = project(system, force_of_motion(system, state) if rate is None else rate)
    if has_lumped_masses(system):
        return _divided(system, state.position, free)
    M = MatrixFreeSystem().assemble(system, state, Factors.only("mass"))
    return derivative_solve(M, free, PCG(rtol=1e-12) if solver is None else solver)


def force_of_motion(system: System, state: State) -> Fields:
    """`f + inertial - C v` [N]."""
    rate = combined((1.0, total_force(system, state)), (1.0, inertial_force(system, state)))
    if system.rayleigh:
        damping = Factors(mass=0.0, damping=0.0, stiffness=0.0, rayleigh=1.0)
        drag = MatrixFreeSystem().unconstrained(system, state, damping).mv(state.velocity)
        rate = combined((1.0, rate), (-1.0, drag))
    return rate


def _divided(system: System, position: Fields, free: Fields) -> Fields:
    if not system.constraints:
        held = {s: jnp.ones_like(a) for s, a in free.items()}
    else:
        held = None
    result = {}
    for s, M in node_masses(system, position).items():
        d = M.shape[-1]
        if d == 1:
            result[s] = free[s] / M[:, :, 0]
            continue
        if held is None:
            P = _projectors(system, s, free)
            eye = jnp.eye(d, dtype=M.dtype)
            M = jnp.einsum("nij,njk,nkl->nil", P, M, P) + eye - P
        result[s] = jnp.linalg.solve(M, free[s][..., None])[..., 0]
    return project(system, result)


def _projectors(system: System, state: str, like: Fields) -> Any:
    """`P` of every node `(n, d, d)`."""
    n, d = like[state].shape

    def column(e):
        unit = {t: jnp.zeros_like(a) for t, a in like.items()}
        return project(system, unit | {state: jnp.broadcast_to(e, (n, d))})[state]

    return jax.vmap(column, out_axes=2)(jnp.eye(d, dtype=like[state].dtype))


def is_linear_operator(operator: Any) -> bool:
    """Whether this is an operator of lineax."""
    return isinstance(operator, lx.AbstractLinearOperator)
