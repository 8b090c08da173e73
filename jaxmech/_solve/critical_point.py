"""Critical points as users see them: what a path found, and the same points in scenes that change."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._linear_solver.base.derivative import mark_failure
from .._linear_solver.base.vectors import norm
from .._linear_system.matrix import MatrixLinearSystem
from .._model.dynamics import Fields, zero_forces
from .._model.failure_report import raise_failure
from .._model.fault import given
from .._model.system import State, System
from .._runtime.argument_checks import check_flags, check_instance
from .._runtime.array_types import Array
from .._runtime.precision import compiled
from .._runtime.results import RESULTS
from .bordered_system import Critical, critical_load
from .path_arguments import path_problem
from .path_problem import PathProblem
from .path_step import PathOptions, Way


class CriticalPoint(eqx.Module):
    """A point of a path where the tangent is singular: `kind` `"limit"` (the load turns) or `"bifurcation"` (paths cross).

    `load`: the factor `mu` [-]; `state`: the equilibrium; `mode`: `{state: (nodes, deriv_size)}`, `K mode = 0`, of unit
    length (of its displacements, where there are multipliers), a constant for differentiation; `after`: the number of the
    point of the path after which it lies. Start `follow_path` from a bifurcation to follow the other branch;
    `critical_point` finds it again in a changed scene, and differentiates it. `passed`: the step of the path in which it
    lies, `({state: (nodes, deriv_size)}, load)`, by which the other path is told from this one.
    Raises nothing. Source: J. M. T. Thompson and G. W. Hunt, *A General Theory of Elastic Stability*, 1973.

    Example:

        path = jm.follow_path(truss, truss(0.0).at_rest({"p": [[0.0, 1.0]]}), step=50.0, steps=12)
        assert path.critical[0].kind == "limit" and jnp.allclose(path.critical[0].load, 379.198, rtol=1e-6)  # [N]
    """

    kind: str = eqx.field(static=True)
    load: Array
    state: State
    mode: Fields
    after: int = eqx.field(static=True)
    passed: Way | None = None


def critical_point_of(
    kind: str, found: Critical, state: State, within: tuple[int, Way | None], problem: PathProblem
) -> CriticalPoint:
    """A critical point as users see it. `within`: after which point of its path it lies, and the step from there."""
    size = norm(problem.displacement(found.mode))
    return CriticalPoint(kind, found.load, state, {s: a / size for s, a in found.mode.items()}, *within)


def critical_point(
    scene: Callable[[Array], System],
    near: CriticalPoint,
    linear_system: MatrixLinearSystem | None = None,
    solver: lx.AbstractLinearSolver | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    throw: bool = True,
) -> CriticalPoint:
    """The limit point or bifurcation of `scene(mu)` near one that is known (of another scene, say), differentiable.

    Solves `f(x, mu) = 0` and `w^T K(x, mu) w = 0` together, `w` the mode, by Newton's method. `load` and `state` of what is
    returned have derivatives of any order, in both modes, by everything that `scene` depends on and by the positions at
    which constraints hold nodes: at a limit point `dmu = -w^T df / w^T df/dmu`. At a bifurcation those that keep it one; a
    parameter that breaks its symmetry (an imperfection) moves the load as its power 2/3, has no derivative, and is given
    that of the part that does not break it. Where several modes are as soft (a column of equal axes) there is none, and it
    fails as `RESULTS.several_modes`.

    `near`: from `Path.critical`. `linear_system`: as in `follow_path`. Raises `ValueError` and `TypeError` for wrong
    arguments, `FailedComputation` (under `jit`, JAX's run-time error) where the iteration fails, unless `throw=False`.
    Loads [-], positions [m].
    Source: W. J. F. Govaerts, *Numerical Methods for Bifurcations of Dynamical Equilibria*, 2000,
    doi:10.1137/1.9780898719543, chapter 3.

    Example:

        limit = jm.follow_path(truss, truss(0.0).at_rest({"p": [[0.0, 1.0]]}), step=50.0, steps=12).critical[0]

        def stiffer(factor):
            return jm.solver.critical_point(lambda mu: truss(mu / factor), limit).load

        assert jnp.allclose(jax.grad(stiffer)(1.0), limit.load)  # proportional to the stiffness [N]
    """
    who = "critical_point"
    check_instance(who, "near", near, CriticalPoint)
    check_flags(who, throw=throw)
    if solver is not None:
        check_instance(who, "solver", solver, lx.AbstractLinearSolver)
    state = near.state
    problem, load, system = path_problem(who, scene, state, linear_system, near.load, None)
    # What the scene is made of, as arguments: its derivatives are those of the point.
    traced = _TracedScene(eqx.filter_closure_convert(scene, load))
    problem = eqx.tree_at(lambda p: p.scene, problem, traced, is_leaf=callable)
    position, mu, end = _found(problem, near, load, PathOptions(rtol, atol), solver)
    end_state = replace(state, position=position, velocity=zero_forces(system, position))
    point = critical_point_of(
        near.kind, eqx.tree_at(lambda c: c.load, end, mu), end_state, (near.after, near.passed), problem
    )
    return raise_failure(point, end, system, who, lambda: given(system, state)) if throw else point


class _TracedScene(eqx.Module):
    """A scene from its trace, in which numbers that no load changes are arrays again, as components were given them."""

    scene: Callable[[Array], System]

    def __call__(self, load: Array) -> System:
        def array(leaf: Any) -> Any:  # JAX's literals are Python's numbers, with a dtype
            return jnp.asarray(leaf, leaf.dtype) if hasattr(leaf, "dtype") and not eqx.is_array(leaf) else leaf

        return jax.tree.map(array, self.scene(load))


@compiled
def _found(
    problem: PathProblem, near: CriticalPoint, load: Array, options: PathOptions, solver: Any
) -> tuple[Fields, Array, Critical]:
    mode, mu = jax.lax.stop_gradient((near.mode, load))
    start = mu, mode, jnp.where(mu == 0, 1.0, jnp.abs(mu))
    u, mu, end = critical_load(problem, near.state.position, start, options, solver, near.kind)
    u, mu = mark_failure((u, mu), end.result != RESULTS.successful)
    return u, mu, end
