"""Follow a path of equilibria: predict, correct, cut back or grow, and see what was passed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import lineax as lx

from .._linear_system.matrix import MatrixLinearSystem
from .._model.dynamics import zero_forces
from .._model.failure_report import raise_failure
from .._model.fault import given
from .._model.system import State, System
from .._runtime.argument_checks import check_choice, check_counts, check_flags, check_instance, plain
from .._runtime.array_types import Array
from .critical_point import CriticalPoint, critical_point_of
from .path import Path, PathInfo, stacked
from .path_arguments import extent, finite_number, path_problem
from .path_step import CONTROLS, PathOptions
from .path_walk import Walk, WalkOptions


def follow_path(
    scene: Callable[[Array], System],
    start: State | CriticalPoint,
    linear_system: MatrixLinearSystem | None = None,
    solver: lx.AbstractLinearSolver | None = None,
    *,
    control: str = "arc_length",
    step: float = 0.1,
    steps: int = 30,
    to: float | None = None,
    load: float | None = None,
    displacement: tuple[str, int, int] | None = None,
    direction: int | None = None,
    amplitude: float | None = None,
    iterations: int = 4,
    max_iterations: int = 12,
    shortest: float = 1e-4,
    longest: float = 100.0,
    rtol: float | None = None,
    atol: float = 0.0,
    critical: bool = True,
    throw: bool = True,
) -> Path:
    """The equilibria of `scene(mu)` as the load factor `mu` changes, from `start`, in at most `steps` steps.

    `scene(mu)` is the scene under `mu` times the load, as in `buckling`: forces, gravity, a pressure, a motion of supports.
    Arrays that it closes over are compiled in: for another scene of equal sizes pass `eqx.Partial(scene, arrays)`.

    `control`: what is prescribed in a step. `"load"`, `mu`: stable parts, up to a limit point; adaptive load steps.
    `"displacement"`, the coordinate `(state, node, component)` named by `displacement`, of a main or a mapped state (of a
    frame in space, 3 to 5 are its turns about the axes of the world, added up over the steps): through limit points.
    `"arc_length"` (Crisfield): through limit points, and where the displacement turns. Each step predicts along the tangent
    and corrects by Newton's method. A step whose iteration fails, or that leaves its tangent by more than 60 degrees, is
    halved, and the reason kept in `Path.cutbacks`; the next one is longer by `sqrt(iterations / iterations taken)`, by at
    most 1.5. `step`: the first one, in units of `mu`, or of the displacement
    [m, rad]; none is less than `shortest` nor more than `longest` times that. `to`: the load factor (the displacement, from
    `start`, under displacement control) at which the path ends, exactly. `direction`: 1 or -1, up or down, which way the
    first step goes: unless given, and but for arc length, towards `to`. Beyond a limit point the load falls on, and a path
    that goes on from there begins with -1.

    Limit points and bifurcations are found where the number of negative eigenvalues of the tangent changes, and located
    exactly, for symmetric tangents, unless `critical=False`. Multipliers of constraints do not count in the length of a
    step. `start` is a state near the equilibrium under `load` (0 unless
    given), or a `CriticalPoint`: then the path is the branch that leaves there, along its mode (1) or against it (-1), the
    first step `amplitude` long [m] (a hundredth of the largest extent of the scene unless given), shorter where the
    load of the branch changes with its first order.

    `linear_system`: made with `MatrixLinearSystem.build`; built here if none is given. `rtol`: of the residual, relative to
    the force of the first load step, `eps^(2/3)` or rounding unless given; `atol` [N]. The loop runs on the host, each step
    is one compiled program: it cannot be traced. Derivatives are those of `static_solve(scene(mu), path.at(i))` at fixed
    load and of `critical_point`. Raises `ValueError` and `TypeError` for wrong arguments, `FailedComputation` with the last
    reason when the shortest step fails, unless `throw=False`, which leaves it in `info.result`.
    Source: M. A. Crisfield, *Non-linear Finite Element Analysis of Solids and Structures*, vol. 1, 1991, chapter 9.

    Example:

        path = jm.follow_path(truss, truss(0.0).at_rest({"p": [[0.0, 1.0]]}), step=5.0, steps=20, displacement=("p", 0, 1))
        y = 1 + path.displacement  # [m]
        assert jnp.allclose(path.loads, 1e6 * y * (1 - y**2) / 101**1.5, atol=1e-6)  # von Mises's truss [N]
    """
    who = "follow_path"
    check_choice(who, "control", control, CONTROLS)
    steps, iterations, max_iterations, direction = map(plain, (steps, iterations, max_iterations, direction))
    check_counts(who, steps=steps, iterations=iterations)
    check_flags(who, critical=critical, throw=throw)
    if solver is not None:
        check_instance(who, "solver", solver, lx.AbstractLinearSolver)
    if direction is not None and (not isinstance(direction, int) or isinstance(direction, bool) or direction not in (1, -1)):
        raise ValueError(f"{who}: direction must be 1 or -1, got {direction!r:.80}.")
    check_instance(who, "start", start, (State, CriticalPoint))
    branch = start if isinstance(start, CriticalPoint) else None
    if branch is not None and (load is not None or control != "arc_length"):
        raise ValueError(f"{who}: from a CriticalPoint control is 'arc_length', and load that of the point.")
    begin = float(branch.load) if branch is not None else 0.0 if load is None else finite_number(who, "load", load)
    state = start.state if isinstance(start, CriticalPoint) else start
    problem, mu, system = path_problem(who, scene, state, linear_system, begin, displacement, on_host=True)
    if control == "displacement" and displacement is None:
        raise ValueError(f"{who}: displacement control needs displacement=(state, node, component).")
    sizes = {"step": step, "shortest": shortest, "longest": longest}
    step, shortest, longest = (finite_number(who, name, value, positive=True) for name, value in sizes.items())
    size = (
        0.01 * extent(system, state.position)
        if amplitude is None
        else finite_number(who, "amplitude", amplitude, positive=True)
    )
    end = None if to is None else finite_number(who, "to", to)
    options = WalkOptions(control, step, steps, end, direction, iterations, shortest, longest, critical)
    walk = Walk(problem, PathOptions(rtol, atol, max_iterations), solver, options)
    walk.go(state.position, mu, None if branch is None else (branch, size))
    path = _path(walk, state)
    if not throw:
        return path
    where = f"{who}, after point {len(path.loads) - 1} at load {float(path.loads[-1]):.6g}"
    return raise_failure(path, path.info, system, where, lambda: given(system, state))


def _path(walk: Walk, start: State) -> Path:
    still = zero_forces(walk.problem.scene(walk.places[0].point.load), start.position)

    def state(u: Any) -> State:
        return replace(start, position=u, velocity=still)

    points, last = [place.point for place in walk.places], walk.last
    columns = [stacked([getattr(p, name) for p in points]) for name in ("load", "measured", "iterations", "residual")]
    loads, measured, iterations, residuals = columns
    marks = [(points[after].mark, c) for _, after, c, _ in walk.critical]
    at_critical = [mark.measured + walk.problem.way(mark, c.u, c.load) for mark, c in marks]
    critical = tuple(
        critical_point_of(kind, c, state(c.u), (after, passed), walk.problem) for kind, after, c, passed in walk.critical
    )
    return Path(
        loads,
        stacked([state(p.u) for p in points]),
        measured - measured[0],
        jnp.asarray([place.unstable for place in walk.places], jnp.int32),
        iterations,
        jnp.asarray(walk.lengths, loads.dtype),
        residuals,
        critical,
        jnp.asarray(at_critical, loads.dtype) - measured[0],
        tuple(walk.turns),
        tuple(walk.cutbacks),
        PathInfo(walk.result, last.residual, last.floor, last.unconstrained_state),
    )
