"""Linear buckling: the factors of a load at which a stable state would lose its stiffness."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._linear_solver.base.vectors import scattered, zeros
from .._linear_solver.eigen.eigenpairs import Eigenpairs, eigenpairs
from .._linear_system.compatibility import check_topology
from .._linear_system.matrix import MatrixLinearSystem
from .._model.dynamics import Fields, zero_forces
from .._model.failure_report import raise_failure
from .._model.internal import has_memory
from .._model.subsystem import has_dead_torques
from .._model.system import State, System, check_inputs
from .._model.terms import Terms
from .._runtime.argument_checks import check_flags, check_instance, plain
from .._runtime.array_types import Array, Float
from .._runtime.jax_internals import is_carried_out
from .._runtime.precision import compiled
from .._runtime.results import RESULTS
from .._sparse.block_matrix import BlockMatrix
from .modes import STIFFNESS, ModesInfo, check_pencil, info_of
from .multigrid_default import multigrid_solver
from .newton import load_rate
from .one_step import one_step
from .static import StaticEquilibrium, static_solve

# Nodes up to which the derivative of a matrix is compiled in haste. A plate of 8 x 8 quads takes 1.3 s instead of 3.7, and
# 55 ms to run instead of 24; three runs of 20 times as many take as long.
_FEW = 1000


class Buckling(eqx.Module):
    """Load factors `mu` and shapes `phi` of `(K + mu K_sigma) phi = 0`, and `info` on how they were found.

    Differentiable as `Modes` are: `dmu = -phi^T (dK + mu dK_sigma) phi / phi^T K_sigma phi`.
    Factors `(count,)` are multiples of the load [-]. Raises nothing; `info.result` says how it ended.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, section 6.8.2.

    Example:

        found = jm.buckling(column, column(0.0).at_rest({"p": [[0.0, 0.0], [0.0, 1.0]]}))
        assert found.shapes["p"].shape == (1, 2, 2) and jnp.allclose(found.shapes["p"][0, :, 1], 0.0, atol=1e-4)  # sideways
    """

    pairs: Eigenpairs
    info: ModesInfo

    @property
    def factors(self) -> Float[Array, " count"]:
        """The positive load factors `mu`, ascending; the first is the critical one."""
        return self.pairs.values

    @property
    def shapes(self) -> Fields:
        """`phi`, `{state: (count, nodes, deriv_size)}` of the main states, `phi^T K phi = 1` [J^-1/2], the largest component
        positive.
        """
        return self.pairs.vectors


def buckling(
    scene: Callable[[Array], System],
    state: State,
    linear_system: MatrixLinearSystem | None = None,
    *,
    count: int = 1,
    throw: bool = True,
) -> Buckling:
    """The lowest positive load factors at which a scene buckles, linearised: `(K + mu K_sigma) phi = 0`.

    `scene(mu)` is the scene under `mu` times the load, whatever the load is: forces, gravity, a pressure, a motion of
    supports. `K` is the tangent at the equilibrium near `state` under `scene(0)`, which must be stable, and
    `K_sigma = dK/dmu` its derivative along the path of equilibria: the stress stiffness of what the load does to first
    order, that of mappings included, and the stiffness of loads that follow. It does not depend on how large the reference
    load is. True where displacements before buckling are small; otherwise a first estimate, to repeat from a loaded state.
    With multipliers `K` is `(K, J^T; J, -C)`: `K_sigma` has the stiffness of their forces, and how the load turns `J`.

    `linear_system`: made with `MatrixLinearSystem.build`; built here if none is given (not under `jit`). Factors
    `(count,)`, shapes `(count, n, d)` of every state. Differentiable by everything that `scene` depends on. Raises
    `ValueError` and `TypeError` for wrong arguments, `FailedComputation` (under `jit`, JAX's run-time error) with the
    reason (`unstable_state`, `too_few_modes` where the load does not take stiffness away, and those of `modes` and
    `static_solve`) unless `throw=False`, which leaves it in `info.result`.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2014, section 6.8.2.
    Load factors are pure numbers [-], multiples of the load.

    Example:

        found = jm.buckling(column, column(0.0).at_rest({"p": [[0.0, 0.0], [0.0, 1.0]]}))
        assert jnp.allclose(found.factors, 1.0, rtol=1e-3)  # k L [N]
    """
    if not callable(scene):
        raise TypeError(f"buckling: scene must be a function of the load factor that gives a System, got {scene!r:.80}.")
    check_flags("buckling", throw=throw)
    check_instance("buckling", "state", state, State)
    check_instance("buckling", "position of the state", state.position, dict)
    # What is no array is left to `check_inputs`, which needs the scene.
    arrays = [x for x in state.position.values() if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)]
    dtype = jnp.result_type(*arrays) if arrays else jnp.result_type(float)
    unloaded = scene(jnp.zeros((), dtype))
    check_instance("buckling", "what scene returns", unloaded, System)
    check_inputs("buckling", unloaded, state)
    if linear_system is None:
        linear_system = MatrixLinearSystem.build(unloaded, state, Terms(mass=False, damping=False))
    count = plain(count)
    check_pencil("buckling", unloaded, linear_system, count, mass=False)
    check_topology("the linear system given to buckling", linear_system.built_for, unloaded)

    of_load = _rate_of_scene(scene, unloaded, dtype)
    solver = multigrid_solver(unloaded, state, linear_system)
    is_small = sum(n for _, n, _ in linear_system.sizes) <= _FEW
    linearised, motions = (_linearised_hastily, _motions_hastily) if is_small else (_linearised, _motions)
    nothing = jax.tree.map(jnp.zeros_like, of_load)
    first = partial(linearised, unloaded, nothing) if is_small else None
    at, result = _equilibrium(unloaded, state, linear_system, solver, first)
    A0 = linearised(unloaded, nothing, linear_system, at, zeros(at.position)).unconstrained
    motion, anyhow = motions(unloaded, of_load, linear_system, at, A0, solver)
    tangent = linearised(unloaded, of_load, linear_system, at, motion)
    rough = linearised(unloaded, nothing, linear_system, at, anyhow).rates
    found = _found(tangent, rough, result, count, unloaded, linear_system)
    return raise_failure(found, found.info, unloaded, "buckling") if throw else found


def _rate_of_scene(scene: Callable[[Array], System], unloaded: System, dtype: Any) -> Any:
    """How the numbers of a scene change with its load: `unloaded` with these in their places, None where nothing changes."""
    _, rate = eqx.filter_jvp(scene, (jnp.zeros((), dtype),), (jnp.ones((), dtype),))
    leaves = jax.tree.leaves(rate, is_leaf=lambda a: a is None)
    return jax.tree.unflatten(jax.tree.structure(unloaded, is_leaf=lambda a: a is None), leaves)


def _equilibrium(
    unloaded: System, state: State, linear_system: MatrixLinearSystem, solver: Any, first: Callable | None
) -> tuple[State, Any]:
    """The equilibrium near a state, at rest; and how its search ended.

    With `first` the first step is made by the matrix of that program, which is needed anyhow: most states are
    equilibria to rounding, or linear problems, and the program of an iteration takes as long to compile as all the rest.
    """
    still = replace(state, velocity=zero_forces(unloaded, state.position))
    if first is not None and not has_memory(unloaded) and is_carried_out():
        A0 = first(linear_system, still, zeros(still.position)).unconstrained
        position, is_there = _stepped(unloaded, linear_system, still, A0, solver)
        if is_there:
            return replace(still, position=position), RESULTS.successful
    solution = static_solve(unloaded, state, linear_system, solver, throw=False)
    return replace(still, position=solution.position), solution.info.result


class _Tangent(eqx.Module):
    """The stiffness at a state, before constraints and with them, and the rates of its entries."""

    unconstrained: BlockMatrix
    K: BlockMatrix
    rates: list[Array]


def _tangent(system: System, of_load: Any, linear_system: MatrixLinearSystem, state: State, motion: Fields) -> _Tangent:
    """The tangent, and its rate where the numbers of the system change as `of_load` says, and positions by `motion`."""

    def entries(system: System, position: Fields) -> tuple[list[Array], BlockMatrix, BlockMatrix]:
        A0 = linear_system.unconstrained(system, replace(state, position=position), STIFFNESS)
        K = linear_system.constrain(system, A0)
        return [e.values for e in K.entries.values()], A0, K

    (values, A0, K), (rates, _, _) = eqx.filter_jvp(entries, (system, state.position), (of_load, motion))
    return _Tangent(A0, K, [jnp.zeros_like(a) if b is None else b for a, b in zip(values, rates, strict=True)])


_linearised = compiled(_tangent)
_linearised_hastily = compiled(_tangent, hasty=True)


def _problem(system: System, linear_system: MatrixLinearSystem, state: State) -> StaticEquilibrium:
    return StaticEquilibrium(system, linear_system, state.time, internal=state.internal)


@partial(compiled, hasty=True)
def _stepped(system: System, linear_system: MatrixLinearSystem, state: State, A0: BlockMatrix, solver: Any):
    return one_step(_problem(system, linear_system, state), state.position, A0, solver)


def _motions_with(
    system: System, of_load: Any, linear_system: MatrixLinearSystem, state: State, A0: BlockMatrix, solver: Any
) -> tuple[Fields, Fields]:
    """How positions change with the load; and as large a motion without pattern, of whose many parts none cancel: where it
    leads numbers were rounded."""
    problem = _problem(system, linear_system, state)
    along = eqx.tree_at(lambda p: p.system, jax.tree.map(lambda _: None, problem), of_load, is_leaf=lambda a: a is None)
    motion = load_rate(problem, along, state.position, A0, solver)
    return motion, jax.tree.map(lambda a, b: jnp.max(jnp.abs(a), initial=0.0) * b, motion, scattered(motion, 0))


_motions = compiled(_motions_with)
_motions_hastily = compiled(_motions_with, hasty=True)


@compiled
def _found(
    tangent: _Tangent, rough: list[Array], result: Any, count: int, unloaded: System, linear_system: MatrixLinearSystem
) -> Buckling:
    size = jnp.max(jnp.stack([jnp.max(jnp.abs(r), initial=0) for r in rough]))
    # K phi = mu (-K_sigma) phi; what constraints hold is constant in K, so nil in its derivative.
    softening = eqx.tree_at(lambda A: [e.values for e in A.entries.values()], tangent.K, [-rate for rate in tangent.rates])
    held = unloaded.multiplier_states
    pairs = eigenpairs(tangent.K, softening, count, shifted=False, norm="stiffness", size=size, held=held)
    info = info_of(pairs)
    if has_dead_torques(unloaded) and not linear_system.terms.symmetric:  # whose part in `K_sigma` is skew, and not there
        result = RESULTS.unsymmetric
    info = eqx.tree_at(lambda i: i.result, info, RESULTS.where(result == RESULTS.successful, info.result, result))
    return Buckling(pairs, info)
