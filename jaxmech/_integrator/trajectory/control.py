"""Control in the loop: numbers of the scene that a function of time and state gives before every step."""

import abc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._constraint.integrated_motion import AbstractIntegratedMotion
from ..._constraint.moving import MovingMotion, MovingRows
from ..._constraint.multiplier import AbstractMultiplierConstraint
from ..._constraint.prescribed_motion import PrescribedMotion
from ..._forcefield.chart import varies_with
from ..._linear_system.compatibility import BuiltFor
from ..._model.dynamics import Fields
from ..._model.mass_checks import any_negative
from ..._model.system import State, System
from ..._runtime.argument_checks import check_callable
from ..._runtime.array_types import Array
from ..._runtime.results import RESULTS
from ..base import AbstractIntegrator
from .controlled_numbers import Values, controlled, found_at, path_of


class AbstractControl(eqx.Module):
    """A control that remembers: `init(system, state)` is its memory at first, a pytree of arrays; `control(time, state,
    parameters, memory)` gives the numbers of a step, as a function without memory does, and the memory of the next one.

    Both kinds of runs take it, and hand the memory on from step to step, through events and restarts, and to derivatives; a
    step that is taken again begins with the memory that it began with. Where it moves constraints, it is asked again in
    every step, for its middle and its end (for the middle, where it gives rates of a motion), and what it would remember of
    that is dropped. `time` [s]. Raises `TypeError` in a run for a memory that changes its form.
    Source: K. J. Astrom and R. M. Murray, *Feedback Systems*, 2nd ed., 2021, ISBN 978-0-691-21347-7, chapter 11.

    Example:

        class Once(jm.integrator.AbstractControl):  # pulls in the first step only
            def init(self, system, state):
                return {"done": jnp.zeros(())}

            def __call__(self, time, state, parameters, memory):
                return {"gravity": jnp.stack([0.0, 0.0, memory["done"] - 1.0])}, {"done": jnp.ones(())}

        run = jm.simulate(system, state, jm.ImplicitEuler(linear_system), 0.01, 3, control=Once())
        assert run.last.velocity["cube"].shape == (8, 3)
    """

    @abc.abstractmethod
    def init(self, system: System, state: State) -> Any:
        """The memory of a run that begins at `state`."""

    @abc.abstractmethod
    def __call__(self, time: Array, state: State, parameters: Any, memory: Any) -> tuple[Values, Any]:
        """The numbers of a step, and the memory of the next one."""


class ControlCarry(NamedTuple):
    """The carry of the integrator, the memory of the control, and what it gave of constraints: where they are, and were."""

    kept: Any
    memory: Any
    before: Values
    earlier: Values
    span: Array | None  # how long ago that was [s]; 0: nothing is known of it; None: control moves no constraint


class ControlledIntegrator(AbstractIntegrator):
    """An integrator whose steps are of the scene with the numbers that `control(time, state, parameters)` gives.

    `state`: that at the start of a step; `time`: `AbstractIntegrator.control_at` of the way through it. What the integrator
    keeps of numbers that are controlled is made anew for every step. The carry has the memory of a control that remembers.
    """

    integrator: AbstractIntegrator
    control: Callable[..., Any]
    parameters: Any

    @property
    def order(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return min(self.integrator.order, 2)  # of what a step holds constant

    @property
    def has_inertia(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.integrator.has_inertia

    @property
    def solves(self) -> int:
        return self.integrator.solves

    @property
    def restarts_at_events(self) -> bool:
        return self.integrator.restarts_at_events

    @property
    def built_for(self) -> BuiltFor | None:
        return self.integrator.built_for

    def init(self, system: System, state: State) -> ControlCarry:
        memory = jax.tree.map(jnp.array, self.control.init(system, state)) if self.remembers else None
        given, _ = self._values(state, 0.0, memory)
        scene = controlled(system, given)
        before = _of_constraints(scene, given)
        span = jnp.zeros_like(state.time) if before else None
        return ControlCarry(self.integrator.init(scene, state), memory, before, before, span)

    def revalued(self, system: System, state: State, carry: ControlCarry) -> ControlCarry:
        scene = self._scene(system, state, carry.memory)
        return carry._replace(kept=self.integrator.revalued(scene, state, carry.kept))

    def after_event(self, system: System, state: State, carry: ControlCarry) -> ControlCarry:
        scene = self._scene(system, state, carry.memory)
        return carry._replace(kept=self.integrator.after_event(scene, state, carry.kept))

    def step(
        self, system: System, state: State, carry: ControlCarry, dt: Any, *, throw: bool = True
    ) -> tuple[State, ControlCarry, Any]:
        scene, ready, is_wrong = self._ready(system, state, carry, dt)
        end, kept, info = self.integrator.step(scene, state, ready.kept, dt, throw=throw)
        return end, ready._replace(kept=kept), _unless(is_wrong, info)

    def advanced(
        self, system: System, state: State, carry: ControlCarry, h: Any, derivatives_of: str = ""
    ) -> tuple[State, ControlCarry, Any]:
        scene, ready, is_wrong = self._ready(system, state, carry, h)
        end, kept, info = self.integrator.advanced(scene, state, ready.kept, h, derivatives_of)
        return end, ready._replace(kept=kept), _unless(is_wrong, info)

    @property
    def remembers(self) -> bool:
        """Whether the control has a memory. Static."""
        return isinstance(self.control, AbstractControl)

    def _of_step(self, system: System, state: State, h: Any, memory: Any) -> tuple[Values, Values, Any]:
        """The numbers of a step, those that move constraints as they are at its end, rates of motions, of which a step is
        the integral, as they are in its middle; where constraints are there; and the memory of the next step."""
        given, after = self._values(state, self.integrator.control_at * h, memory)
        scene = controlled(system, given)
        moved, driven = _moved_by(scene, given), _driven_by(scene, given)
        if not moved and not driven:
            return given, {}, after
        middle = self._values(state, 0.5 * h, memory)[0]
        end = self._values(state, h, memory)[0] if moved else given
        given = {**given, **{n: end[n] for n in moved}, **{n: middle[n] for n in driven}}
        return given, _of_constraints(controlled(system, middle), middle), after

    def _values(self, state: State, later: Any, memory: Any) -> tuple[Values, Any]:
        at = state.time + later, state, self.parameters
        if not self.remembers:
            return self.control(*at), None
        returned = self.control(*at, memory)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeError(f"control that remembers must return (numbers, memory), got {returned!r:.80}.")
        given, new = returned
        forms = [jax.tree.map(jnp.shape, m) for m in (memory, new)]
        if jax.tree.structure(memory) != jax.tree.structure(new) or forms[0] != forms[1]:
            raise TypeError(f"control must return a memory of the form of `init`, {forms[0]}, got {forms[1]}.")
        return given, jax.tree.map(_as_before, memory, new)

    def _scene(self, system: System, state: State, memory: Any) -> System:
        return controlled(system, self._values(state, 0.0, memory)[0])

    def _ready(self, system: System, state: State, carry: ControlCarry, h: Any) -> tuple[System, ControlCarry, Array | None]:
        """The scene of a step, the carry that its integrator takes to it, with what is for the next one, and whether its
        masses are negative."""
        given, middle, memory = self._of_step(system, state, h, carry.memory)
        scene, kept = controlled(system, given), carry.kept
        now = _of_constraints(scene, given)
        scene = _moving(system, scene, given, _known(carry, middle, now, h), state.time, h)
        if jax.tree.leaves(kept) and _depends(partial(self._kept, system, state), given):
            kept = self.integrator.revalued(scene, state, kept)
        return scene, ControlCarry(kept, memory, now, *_was(carry, h)), any_negative(system, given)

    def _kept(self, system: System, state: State, given: Values) -> Fields:
        """What is kept of a scene's numbers, as a function of those that are controlled."""
        kept = self.integrator.init(controlled(system, given), state)
        return {str(i): leaf for i, leaf in enumerate(jax.tree.leaves(eqx.filter(kept, eqx.is_inexact_array)))}


_OF_ROWS = {"compliance", "relaxation"}  # numbers of constraints that move nothing


def _moved_by(scene: System, given: Values) -> dict[str, Mapping[str, Any]]:
    """The constraints that control moves by numbers that know no time: key frames at other times know their own."""
    found = {name: given[name] for name in given if name in scene.constraints}
    kinds = AbstractMultiplierConstraint, PrescribedMotion
    moved = {n: f for n, f in found.items() if isinstance(scene.constraints[n], kinds)}
    return {n: f for n, f in moved.items() if "times" not in f and not f.keys() <= _OF_ROWS}


def _driven_by(scene: System, given: Values) -> list[str]:
    """The constraints whose rates control gives."""
    return [n for n in given if isinstance(scene.constraints.get(n), AbstractIntegratedMotion)]


def _of_constraints(scene: System, given: Values) -> Values:
    """What control has given of the constraints that it moves, as it stands in the scene."""
    moved = _moved_by(scene, given).items()
    return {n: {field: found_at(scene, path_of(scene, n, field)) for field in sorted(fields)} for n, fields in moved}


def _moving(system: System, scene: System, given: Values, carry: ControlCarry, since: Array, h: Any) -> System:
    """The scene whose constraints move within the step from where they were to where control has them."""
    changed = dict(scene.constraints)
    scenes = scene, controlled(system, carry.before), controlled(system, carry.earlier)
    for name in _moved_by(scene, given):
        new, before, earlier = (s.constraints[name] for s in scenes)
        kind = MovingRows if isinstance(new, AbstractMultiplierConstraint) else MovingMotion
        changed[name] = kind(new, before, earlier, since, jnp.asarray(h, since.dtype), carry.span)
    return eqx.tree_at(lambda s: s.constraints, scene, changed)


def _known(carry: ControlCarry, middle: Values, now: Values, h: Any) -> ControlCarry:
    """The carry, in which the first step has, in the place of one before it, the parabola through its own middle."""
    if carry.span is None:
        return carry
    is_first = carry.span == 0

    def number(earlier: Array, before: Array, middle: Array, now: Array) -> Array:
        is_held = (middle == before) | (middle == now)  # from sample to sample, and of no rate between them
        bend = jnp.where(is_held, 0.0, 2 * (before - 2 * middle + now))
        return jnp.where(is_first, 2 * before - now + 2 * bend, earlier)

    earlier = jax.tree.map(number, carry.earlier, carry.before, middle, now)
    return carry._replace(earlier=earlier, span=jnp.where(is_first, jnp.asarray(h, carry.span.dtype), carry.span))


def _was(carry: ControlCarry, h: Any) -> tuple[Values, Array | None]:
    """Where constraints were before a step, and for how long then. The mean rate of a step that is very short, as one to an
    event may be, is that of rounding: after it, where they were before the one before."""
    if carry.span is None:
        return carry.earlier, None
    h = jnp.asarray(h, carry.span.dtype)
    short = h <= float(jnp.finfo(h.dtype).eps) ** (1 / 3) * carry.span
    earlier = jax.tree.map(lambda a, b: jnp.where(short, a, b), carry.earlier, carry.before)
    return earlier, jnp.where(short, carry.span + h, h)


def _unless(is_wrong: Array | None, info: Any) -> Any:
    """What happened; a failure where control gives masses that are negative."""
    if is_wrong is None:
        return info
    return eqx.tree_at(lambda i: i.result, info, RESULTS.where(is_wrong, RESULTS.negative_mass, info.result))


def in_the_loop(
    who: str, integrator: Any, control: Any, parameters: Any, observe: Any
) -> tuple[AbstractIntegrator, Callable]:
    """The integrator with its control, and what is recorded of a state: all of it, unless an observation is given."""
    if control is not None:
        check_control(who, control)
    if observe is not None:
        check_callable(who, "observe", observe, "system", "state")
    if control is None and parameters is not None:
        raise ValueError(f"{who}: parameters are of no use without a control.")
    controlling = integrator if control is None else ControlledIntegrator(integrator, control, parameters)
    return controlling, whole_state if observe is None else observe


def check_control(who: str, control: Any) -> None:
    """Raise `TypeError` unless it is a function of time, state and parameters, and of a memory where it has one."""
    memory = ("memory",) if isinstance(control, AbstractControl) else ()
    check_callable(who, "control", control, "time", "state", "parameters", *memory)


def whole_state(system: System, state: State) -> State:
    """The observation of everything."""
    del system
    return state


def _as_before(old: Array, new: Any) -> Array:
    """A number of the memory in the type that it began with. Raises where that would lose what it is."""
    kinds = [jnp.result_type(a) for a in (old, new)]
    if not jnp.can_cast(kinds[1], kinds[0], "same_kind"):
        raise TypeError(f"control must return a memory of the types of `init`: {kinds[0]}, got {kinds[1]}. Begin with such.")
    return jnp.asarray(new, old.dtype)


def _depends(kept: Callable[[Values], Fields], given: Values) -> bool:
    """Whether what is kept depends on any of the numbers; read from a trace."""

    def real(number: Any) -> Array:  # whole ones have no derivatives that would tell
        return jnp.asarray(number, jnp.result_type(number, float))

    return varies_with(kept, jax.tree.map(real, dict(given)))[0]
