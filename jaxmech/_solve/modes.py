"""Modes of vibration: small free motions about a state."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._linear_solver.eigen.eigenpairs import Eigenpairs, eigenpairs
from .._linear_solver.sparse.host_choice import host_backend
from .._linear_system.compatibility import check_topology
from .._linear_system.matrix import MatrixLinearSystem
from .._model.constraint_projection import project
from .._model.dynamics import Fields, total_force, zero_forces
from .._model.failure_report import raise_failure
from .._model.subsystem import dead_torques, weightless, with_only
from .._model.system import State, System, check_inputs
from .._model.terms import Factors, Terms
from .._runtime.argument_checks import check_counts, check_flags, plain
from .._runtime.array_types import Array, Float
from .._runtime.precision import compiled
from .._runtime.results import RESULTS
from .._sparse.block_matrix import BlockMatrix

_MASS = Factors(mass=1.0, damping=0.0, stiffness=0.0, rayleigh=0.0)
_ROUNDED = 0.75  # of the stiffness against turns, the power of the rounding unit up to which a torque is nil
STIFFNESS = Factors(mass=0.0, damping=0.0, stiffness=1.0, rayleigh=0.0)


class ModesInfo(eqx.Module):
    """What is known of modes: `result` (of `RESULTS`); `errors` (count,), the relative change of the scaled matrices that
    would make each exact; `floor` (count,), what rounding makes of an eigenvalue that should be zero; `unconstrained_state`,
    the number of the state that nothing holds, where the matrices are singular (-1 otherwise).
    `floor` in the unit of the eigenvalues, [1/s^2] of vibrations. Raises nothing: `result` says how it ended.

    Example:

        info = jm.modes(oscillator, oscillator_state, count=1).info
        assert info.result == jm.RESULTS.successful and info.errors.shape == (1,)
    """

    result: Any
    errors: Array
    floor: Array
    unconstrained_state: Array


class Modes(eqx.Module):
    """The lowest modes: `(K + G) phi = omega^2 M phi`, in ascending order, and `info` on how they were found.

    Differentiable in forward and reverse mode, to any order: `d(omega^2) = phi^T (dK - omega^2 dM) phi`. Of a repeated
    eigenvalue only functions that treat its copies alike (sums) have a derivative: each copy is given the mean, and asking
    for that of one of its shapes ends in `RESULTS.repeated_eigenvalue`.
    Frequencies [rad/s], eigenvalues [1/s^2]. Asking for what is not there raises JAX's `RuntimeError` at run time.
    Source: R. L. Fox and M. P. Kapoor, AIAA J. 6 (1968) 2426, doi:10.2514/3.5008 (derivatives).

    Example:

        found = jm.modes(oscillator, oscillator_state, count=1)
        assert jnp.allclose(2.0 * found.shapes["p"] ** 2, 1.0)  # phi^T M phi
    """

    pairs: Eigenpairs
    info: ModesInfo

    @property
    def eigenvalues(self) -> Float[Array, " count"]:
        """`omega^2` [1/s^2]; negative where the state is unstable."""
        return self.pairs.values

    @property
    def frequencies(self) -> Float[Array, " count"]:
        """`omega` [rad/s]. Minus the rate of growth [1/s] where the state is unstable, and zero, with a derivative of zero,
        where the eigenvalue is zero to rounding (bodies that are free to move).
        """
        values = self.eigenvalues
        zero = jnp.abs(values) <= self.info.floor
        return jnp.where(zero, 0.0, jnp.sign(values) * jnp.sqrt(jnp.where(zero, 1.0, jnp.abs(values))))

    @property
    def shapes(self) -> Fields:
        """`phi`, `{state: (count, nodes, deriv_size)}` of the main states, `phi^T M phi = 1` [kg^-1/2 and the like], the
        largest component positive. `velocities` makes those of mapped states of them.
        """
        return self.pairs.vectors

    @property
    def unstable(self) -> Array:
        """How many of these modes grow instead of vibrating."""
        return jnp.sum(self.eigenvalues < -self.info.floor)


def modes(
    system: System,
    state: State,
    linear_system: MatrixLinearSystem | None = None,
    *,
    count: int = 6,
    throw: bool = True,
) -> Modes:
    """The `count` lowest modes of vibration of a scene about a state: `(K + G) phi = omega^2 M phi`.

    Undamped, about the state at rest (its velocities are left out), constraints holding what they hold, those with
    multipliers too (`J phi = C l`, `l` being the shape in the state of the multipliers); `K`, `G` and `M` of all
    components, through mappings. The state should be an equilibrium. `linear_system`: made with
    `MatrixLinearSystem.build` with stiffness and mass among its terms; built here if none is given (not under `jit`). The
    eigenproblem is solved on the host by a shifted factor and Lanczos iterations in float64, and the modes are counted, so
    that none is missed. Raises `ValueError` for a scene or a linear system without mass or stiffness and a count that is no
    number of modes, `FailedComputation` (under `jit`, JAX's run-time error) with the reason (`too_few_modes`,
    `modes_not_converged`, `unsymmetric`, `singular`, `not_finite`) unless `throw=False`, which leaves it in `info.result`.
    `frequencies` `(count,)` [rad/s]; `shapes` `{state: (count, nodes, deriv_size)}` with `phi^T M phi = 1`.
    Source: R. G. Grimes, J. G. Lewis, H. D. Simon, SIAM J. Matrix Anal. Appl. 15 (1994) 228, doi:10.1137/S0895479888151111.

    Example:

        found = jm.modes(oscillator, oscillator_state, count=1)
        assert jnp.allclose(found.frequencies, 2.0)  # sqrt(k / m) [rad/s]
    """
    check_inputs("modes", system, state)
    check_flags("modes", throw=throw)
    if not system.masses:
        raise ValueError("modes: the scene has no mass; add a component to System(masses=...).")
    if linear_system is None:
        linear_system = MatrixLinearSystem.build(system, state, Terms(damping=False))
    count = plain(count)
    check_pencil("modes", system, linear_system, count, mass=True)
    check_topology("the linear system given to modes", linear_system.built_for, system)
    found = _modes(system, state, linear_system, count)
    return raise_failure(found, found.info, system, "modes") if throw else found


@compiled
def _modes(system: System, state: State, linear_system: MatrixLinearSystem, count: int) -> Modes:
    still = dataclasses.replace(state, velocity=zero_forces(system, state.position))
    K = linear_system.assemble(system, still, STIFFNESS)
    M = linear_system.unconstrained(system, still, _MASS)
    # P M P without the ones that keep a matrix regular: constrained directions, without mass, have no modes.
    constrained = linear_system.constrain(system, M.scaled(0.0))
    M = linear_system.constrain(system, M).plus(constrained.scaled(-1.0))
    pairs = eigenpairs(K, M, count, shifted=True, norm="mass", held=system.multiplier_states)
    info = info_of(pairs)
    if not linear_system.terms.symmetric:
        turned = _has_turned_torques(system, still, K)
        info = eqx.tree_at(lambda i: i.result, info, RESULTS.where(turned, RESULTS.unsymmetric, info.result))
    return Modes(pairs, info)


def _has_turned_torques(system: System, state: State, K: BlockMatrix) -> Array:
    """Whether torques that no energy has balance those of energies: then the tangent has a skew part, as large as they are,
    of which matrices of frames have nothing (`exact_slope` does). Where nothing is strained yet there is none."""
    names, found = dead_torques(system), jnp.array(False)
    if not names:
        return found
    dead = total_force(weightless(with_only(system, forces=names)), state)
    whole = total_force(system, state)
    applied = project(system, dead)
    strained = project(system, {s: whole[s] - dead[s] for s in whole})
    for s in (s for s in whole if not system.dofs[s].is_vector_space):
        d, blocks = system.dofs[s].space_size, K.diagonal[s]
        least = jnp.minimum(*(jnp.max(jnp.abs(f[s][:, d:]), axis=1) for f in (applied, strained)))
        rounding = jnp.finfo(least.dtype).eps ** _ROUNDED * jnp.max(jnp.abs(blocks[:, d:, d:]), initial=0)
        found |= jnp.any(least > rounding)
    return found


def info_of(pairs: Eigenpairs) -> ModesInfo:
    """What the search reports."""
    found = pairs.found
    return ModesInfo(found.result, found.errors, found.floor, found.unconstrained_state)


def check_pencil(who: str, system: System, linear_system: Any, count: Any, *, mass: bool) -> None:
    """Raise unless the linear system assembles what `who` needs, of a size that can be factored, and `count` fits it."""
    of_fields = set(system.multiplier_states) - {s.state for s in system.multiplier_stencils.values()}
    if of_fields and mass:
        raise ValueError(
            f"{who} takes no force fields with multipliers yet, and the scene has the states {sorted(of_fields)}: take a "
            "formulation without."
        )
    if not isinstance(linear_system, MatrixLinearSystem):
        raise TypeError(f"{who}: linear_system must be a MatrixLinearSystem, which has a matrix, got {linear_system!r:.80}.")
    missing = [name for name in ("stiffness", *(["mass"] if mass else [])) if not getattr(linear_system.terms, name)]
    if missing:
        raise ValueError(f"{who}: the linear system leaves out {missing}; build it with Terms({missing[0]}=True).")
    check_counts(who, count=count)
    size = sum(n * d for _, n, d in linear_system.sizes)
    if count > size:
        raise ValueError(f"{who}: count is {count}, but there are only {size} unknowns.")
    backend = host_backend("auto", symmetric=True)
    if size > backend.most_unknowns:
        raise ValueError(
            f"{who}: {size} unknowns are more than {backend.name} should factorise ({backend.most_unknowns}): take a "
            'coarser mesh or a faster backend (pip install "jaxmech[mkl]").'
        )
