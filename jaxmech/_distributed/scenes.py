"""Statics and motion of a scene over ranks, as users call them: whole scenes in, whole states out."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from .._integrator.implicit.implicit_euler import EulerStep, ImplicitEuler
from .._linear_solver.sparse.petsc import PETSc
from .._linear_system.matrix import MatrixLinearSystem
from .._model.dynamics import zero_forces
from .._model.system import State, System, check_inputs
from .._model.terms import Terms
from .._runtime.argument_checks import check_counts, check_flags, check_instance, check_tolerances, plain, real_array
from .._runtime.jax_internals import is_tracing
from .._runtime.precision import compiled
from .._solve.static import StaticEquilibrium
from .division import Division, divide
from .solve import Means, linear_step_over_ranks, newton_over_ranks


def static_solve_over_ranks(
    system: System,
    state: State,
    division: Division | None = None,
    solver: PETSc | None = None,
    *,
    rtol: float = 1e-8,
    atol: float = 0.0,
    max_steps: int = 50,
) -> State:
    """The equilibrium of a whole scene, by Newton's method over all ranks of MPI: on every rank the same, whole state.

    `mpiexec -n 4 python scene.py`, in which every rank makes the same scene. `division`: of `divide`, made here unless
    given. `solver`: `jm.solver.PETSc` with its options; unless given, to 1e-10, with levels of jaxmech's own (`pc="mg"`)
    where pyamg is installed and the matrix is a symmetric one of points, else with GAMG. Converged when the residual
    over the free directions is at most `rtol` times the right-hand side of the first step, plus `atol` [N]; a step that is
    not finite, or inverts an element, is halved.

    Reverse mode gives derivatives by every number of `system` and by where constraints hold nodes of `state`, whole and the
    same on every rank; not under `jit`, for ranks speak between programs. Raises what `divide` raises, `ValueError` for
    arguments out of range or under `jit`, and on every rank `FailedComputation`.
    Source: J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, doi:10.1007/978-0-387-40065-5, chapter 11.

    Example:

        try:
            end = jm.distributed.static_solve_over_ranks(system, state, rtol=1e-10)
        except ImportError as error:
            assert "jaxmech[mpi]" in str(error)
        else:
            assert jnp.allclose(end.position["cube"], jm.static_solve(system, state).position["cube"], atol=1e-6)
    """
    who = "jm.distributed.static_solve_over_ranks"
    check_tolerances(who, rtol=rtol, atol=atol)
    max_steps = plain(max_steps)
    check_counts(who, max_steps=max_steps)
    means = _means(who, system, state, division, solver, rtol, atol, max_steps)
    own, start = means.division.part(system, state)
    linear_system = _linear_system(means.division, own, Terms(mass=False, damping=False))
    problem = StaticEquilibrium(own, linear_system, start.time, internal=start.internal)
    u = newton_over_ranks((problem, start.position), means)
    return _whole(means.division, state, replace(start, position=u, velocity=zero_forces(own, u)))


def simulate_over_ranks(
    system: System,
    state: State,
    dt: Any,
    steps: int,
    division: Division | None = None,
    solver: PETSc | None = None,
    *,
    newton: bool = False,
    rtol: float = 1e-8,
    atol: float = 0.0,
    max_steps: int = 30,
) -> State:
    """Where `steps` steps of implicit Euler of `dt` [s] lead, over all ranks of MPI: on every rank the same, whole state.

    `newton`, and the tolerances that go with it, as in `jm.ImplicitEuler`; the rest as in `static_solve_over_ranks`. Reverse
    mode keeps every step's state; derivatives are by every number of `system`, by `state` and by `dt`. Raises what
    `static_solve_over_ranks` raises.
    Source: D. Baraff and A. Witkin, SIGGRAPH 1998, doi:10.1145/280814.280821.

    Example:

        try:
            end = jm.distributed.simulate_over_ranks(system, state, 0.01, 2)
        except ImportError as error:
            assert "jaxmech[mpi]" in str(error)
        else:
            alone = jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt=0.01, steps=2).last
            assert jnp.allclose(end.position["cube"], alone.position["cube"], atol=1e-6)
    """
    who = "jm.distributed.simulate_over_ranks"
    steps, max_steps = map(plain, (steps, max_steps))
    check_counts(who, steps=steps, max_steps=max_steps)
    check_tolerances(who, rtol=rtol, atol=atol)
    check_flags(who, newton=newton)
    h = real_array(who, "dt", dt, ())
    means = _means(who, system, state, division, solver, rtol, atol, max_steps)
    own, now = means.division.part(system, state)
    h = jnp.asarray(h, state.time.dtype)
    scheme = ImplicitEuler(_linear_system(means.division, own, Terms()), newton=newton)
    for _ in range(steps):
        if newton:
            stage = _stage(scheme, own, now, h)
            now = stage.arrival(newton_over_ranks((stage, stage.predicted), means))
        else:
            step = EulerStep(scheme, own, now, h)
            now = step.end(linear_step_over_ranks(step, means))
    return _whole(means.division, state, now)


@compiled
def _stage(scheme: ImplicitEuler, system: System, state: State, h: Any) -> Any:
    return scheme.stage(scheme.setting(system, state, h), None)


def _linear_system(division: Division, system: System, terms: Terms) -> MatrixLinearSystem:
    """That of the part, built once, where nodes were when the scene was divided: what is varied has no values to look at."""
    if terms not in division.linear_systems:
        still = jax.lax.stop_gradient(system)
        division.linear_systems[terms] = MatrixLinearSystem.build(still, division.example, terms)
    return division.linear_systems[terms]


def _means(
    who: str, system: System, state: State, division: Any, solver: Any, rtol: float, atol: float, max_steps: int
) -> Means:
    check_inputs(who, system, state)
    if division is not None:
        check_instance(who, "division", division, Division)
    if solver is not None:
        check_instance(who, "solver", solver, PETSc)
    if is_tracing():
        raise ValueError(f"{who}: ranks speak between programs, not within one: call it outside of jit.")
    division = divide(system, state) if division is None else division
    division.check(who, system)
    return Means(division, solver, who, rtol, atol, max_steps)


def _whole(division: Division, before: State, end: State) -> State:
    """The state of all nodes, or of those of a part."""
    return replace(before, position=division.result(end.position), velocity=division.result(end.velocity), time=end.time)
