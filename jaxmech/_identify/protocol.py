"""How an experiment is carried out: at rest, through equilibria, or in motion."""

import abc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._integrator.base import AbstractIntegrator
from .._integrator.time_step import check_time_step
from .._integrator.trajectory.control import AbstractControl, check_control
from .._integrator.trajectory.controlled_numbers import controlled
from .._integrator.trajectory.simulate import simulate
from .._linear_system.base import AbstractLinearSystem
from .._linear_system.matrix import MatrixLinearSystem
from .._model.system import State, System
from .._model.terms import Terms
from .._runtime.argument_checks import (
    check_callable,
    check_choice,
    check_counts,
    check_flags,
    check_instance,
    plain,
    real_array,
)
from .._runtime.array_types import Array
from .._runtime.results import RESULTS
from .._solve.static import static_solve
from .unknowns import as_leafless

_METHODS = ("newton", "trust_region", "dynamic_relaxation")
Control = Callable[[Array, State, Any], Any]


class Course(eqx.Module):
    """What a protocol saw: observations, with an axis of times where it has some, and its first failure."""

    seen: Any
    times: Array | None
    result: Any
    failed_at: Array  # [s]


class AbstractProtocol(eqx.Module):
    """How the states come about that are observed."""

    @abc.abstractmethod
    def run(self, system: System, state: State, observe: Callable[[System, State], Any], parameters: Any) -> Course:
        """The observations. Traced; failures are in `result`."""

    @abc.abstractmethod
    def ready(self, system: System, state: State) -> "AbstractProtocol":
        """The protocol with what it needs of a scene."""

    @abc.abstractmethod
    def times(self, state: State) -> np.ndarray | None:
        """The instants that are observed [s]; None for the one of the state."""


class AtRest(AbstractProtocol):
    """The start itself is observed: frequencies, say, or what a mapping makes of parameters.

    Of no unit; raises nothing.

    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 10 (vibration).

    Example:

        assert jm.identify.AtRest().times(state) is None
    """

    def run(self, system: System, state: State, observe: Callable[[System, State], Any], parameters: Any) -> Course:
        del parameters
        return Course(observe(system, state), None, RESULTS.successful, state.time)

    def ready(self, system: System, state: State) -> "AtRest":
        del system, state
        return self

    def times(self, state: State) -> np.ndarray | None:
        del state


class Static(AbstractProtocol):
    """Equilibria by `jm.static_solve`: one at the time of the start, or one at each of `times` [s], from one to the next.

    Loads and prescribed motions follow `state.time`, or `control(time, state, parameters)` gives numbers of the scene, as in
    `jm.simulate`; `time` may be a stretch, or the number of a load. `guess(time, state, parameters)`: positions
    `{state: array}` from which to solve, those of the equilibrium before unless given. `method`, `load_steps`, `max_steps`:
    of `static_solve`. `linear_system`: built of the scene unless given. Raises `ValueError` or `TypeError` for times that do
    not increase, and what `static_solve` refuses.
    Source: J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, doi:10.1007/978-0-387-40065-5, chapter 11.

    Example:

        pulls = jm.identify.Static(times=[0.0, 0.5, 1.0], load_steps=2)
        assert pulls.times(state).tolist() == [0.0, 0.5, 1.0]
    """

    instants: Array | None
    control: Control | None
    guess: Control | None
    linear_system: AbstractLinearSystem | None
    method: str = eqx.field(static=True)
    load_steps: int = eqx.field(static=True)
    max_steps: int | None = eqx.field(static=True)

    def __init__(
        self,
        times: Any = None,
        *,
        control: Control | None = None,
        guess: Control | None = None,
        linear_system: AbstractLinearSystem | None = None,
        method: str = "newton",
        load_steps: int = 1,
        max_steps: int | None = None,
    ):
        self.instants = None if times is None else increasing("Static", times)
        for name, function in (("control", control), ("guess", guess)):
            if function is not None:
                check_callable("Static", name, function, "time", "state", "parameters")
        if linear_system is not None:
            check_instance("Static", "linear_system", linear_system, AbstractLinearSystem)
        check_choice("Static", "method", method, _METHODS)
        load_steps = plain(load_steps)
        check_counts("Static", load_steps=load_steps)
        if max_steps is not None:
            max_steps = plain(max_steps)
            check_counts("Static", max_steps=max_steps)
        self.control, self.guess, self.linear_system = as_leafless(control), as_leafless(guess), linear_system
        self.method, self.load_steps, self.max_steps = method, load_steps, max_steps

    def run(self, system: System, state: State, observe: Callable[[System, State], Any], parameters: Any) -> Course:
        def at(start: State, time: Array) -> tuple[State, Any]:
            end, result = self._solved(system, replace(start, time=time), parameters)
            seen = observe(with_control(system, self.control, end, parameters), end)
            ok = result == RESULTS.successful
            return jax.tree.map(lambda a, b: jnp.where(ok, a, b), end, start), (seen, result)

        if self.instants is None:
            _, (seen, result) = at(state, state.time)
            return Course(seen, None, result, state.time)
        times = self.instants.astype(state.time.dtype)
        _, (seen, results) = jax.lax.scan(at, state, times)
        return Course(seen, times, *first_failure(results, times))

    def _solved(self, system: System, start: State, parameters: Any) -> tuple[State, Any]:
        scene = with_control(system, self.control, start, parameters)
        if self.guess is not None:
            start = replace(start, position=start.position | self.guess(start.time, start, parameters))
        options: Any = {"method": self.method, "load_steps": self.load_steps, "max_steps": self.max_steps}
        found = static_solve(scene, start, self.linear_system, **options, throw=False)
        return found.state, found.info.result

    def ready(self, system: System, state: State) -> "Static":
        return self if self.linear_system is not None else replace_linear_system(self, system, state)

    def times(self, state: State) -> np.ndarray | None:
        del state
        return None if self.instants is None else np.asarray(self.instants)


class Motion(AbstractProtocol):
    """A motion by `jm.simulate`: `steps` steps of `dt` [s] with an integrator, observed at the start and after every
    `save_every`-th step.

    `integrator`: one, or a function of the parameters that returns one, where its numbers are to be found (the friction of
    contacts). `control(time, state, parameters)` gives numbers of the scene for every step, and for what is observed of a
    state; of one that remembers, the scene is observed as it is. `settle=True`: it begins at the equilibrium under the loads
    of the start, a tool that is taken away, say, and not at the state as it is; `linear_system` is for that.
    Raises `ValueError` or `TypeError` for what `simulate` refuses.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 9 (time schemes).

    Example:

        fall = jm.identify.Motion(jm.ImplicitEuler(linear_system), dt=0.01, steps=2)
        assert jnp.allclose(fall.times(state), jnp.array([0.0, 0.01, 0.02]))
    """

    integrator: AbstractIntegrator | Callable[[Any], AbstractIntegrator]
    dt: Array
    control: Control | None
    linear_system: AbstractLinearSystem | None
    steps: int = eqx.field(static=True)
    save_every: int = eqx.field(static=True)
    settle: bool = eqx.field(static=True)

    def __init__(
        self,
        integrator: AbstractIntegrator | Callable[[Any], AbstractIntegrator],
        *,
        dt: Any,
        steps: int,
        save_every: int = 1,
        control: Control | None = None,
        settle: bool = False,
        linear_system: AbstractLinearSystem | None = None,
    ):
        if callable(integrator) and not isinstance(integrator, type):
            check_callable("Motion", "integrator", integrator, "parameters")
            integrator = as_leafless(integrator)
        else:
            check_instance("Motion", "integrator", integrator, AbstractIntegrator)
        check_time_step(dt)
        self.dt = jnp.asarray(real_array("Motion", "dt", dt, ()))
        steps, save_every = map(plain, (steps, save_every))
        check_counts("Motion", steps=steps, save_every=save_every)
        if steps % save_every:
            raise ValueError(f"Motion: save_every={save_every} does not divide steps={steps}.")
        check_flags("Motion", settle=settle)
        if control is not None:
            check_control("Motion", control)
        if linear_system is not None:
            check_instance("Motion", "linear_system", linear_system, AbstractLinearSystem)
        self.integrator, self.control, self.linear_system = integrator, as_leafless(control), linear_system
        self.steps, self.save_every, self.settle = steps, save_every, settle

    def run(self, system: System, state: State, observe: Callable[[System, State], Any], parameters: Any) -> Course:
        settled = RESULTS.successful
        if self.settle:
            found = static_solve(
                with_control(system, self.control, state, parameters), state, self.linear_system, throw=False
            )
            state, settled = found.state, found.info.result

        def seen(scene: System, now: State) -> Any:
            remembers = isinstance(self.control, AbstractControl)  # what, no state tells
            return observe(scene if remembers else with_control(scene, self.control, now, parameters), now)

        run = simulate(
            system,
            state,
            self._integrator(parameters),
            self.dt.astype(state.time.dtype),
            self.steps,
            save_every=self.save_every,
            control=self.control,
            parameters=None if self.control is None else parameters,
            observe=seen,
            throw=False,
        )
        h = self.dt.astype(state.time.dtype)
        frames = state.time + h * self.save_every * jnp.arange(self.steps // self.save_every + 1)
        result, at = first_failure(run.info.result, state.time + h * jnp.arange(1, self.steps + 1))
        result = RESULTS.where(settled == RESULTS.successful, result, settled)
        return Course(run.observed, frames, result, jnp.where(settled == RESULTS.successful, at, state.time))

    def _integrator(self, parameters: Any) -> AbstractIntegrator:
        if isinstance(self.integrator, AbstractIntegrator):
            return self.integrator
        made = self.integrator(parameters)
        check_instance("Motion", "what integrator returns", made, AbstractIntegrator)
        return made

    def ready(self, system: System, state: State) -> "Motion":
        kept = self.linear_system is not None or not self.settle
        return self if kept else replace_linear_system(self, system, state)

    def times(self, state: State) -> np.ndarray | None:
        frames = np.arange(self.steps // self.save_every + 1)
        return np.asarray(state.time) + np.asarray(self.dt) * self.save_every * frames


def increasing(owner: str, times: Any) -> Array:
    """Instants, one at least, each later than the one before."""
    array = np.asarray(real_array(owner, "times", times, (None,)))
    if not len(array) or not (np.diff(array) > 0).all():
        raise ValueError(f"{owner}: times must be one at least, and increase.")
    return jnp.asarray(array)


def with_control(system: System, control: Control | None, state: State, parameters: Any) -> System:
    """The scene with the numbers that control gives at a state, at first if it remembers."""
    if control is None:
        return system
    if isinstance(control, AbstractControl):
        return controlled(system, control(state.time, state, parameters, control.init(system, state))[0])
    return controlled(system, control(state.time, state, parameters))


def first_failure(results: Any, times: Array) -> tuple[Any, Array]:
    """Of many results the first that is a failure, and its time."""
    first = jnp.argmax(results != RESULTS.successful)
    return jax.tree.map(lambda a: a[first], results), times[first]


def replace_linear_system(protocol: Any, system: System, state: State) -> Any:
    """The protocol with a linear system of the scene for equilibria."""
    built = MatrixLinearSystem.build(system, state, Terms(mass=False, damping=False))
    return eqx.tree_at(lambda p: p.linear_system, protocol, built, is_leaf=lambda leaf: leaf is None)
