"""An experiment as a value: a scene, what was done to it, and what was measured."""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._integrator.trajectory.controlled_numbers import controlled
from .._model.system import State, System, check_inputs
from .._runtime.argument_checks import check_callable, check_instance
from .._runtime.array_types import Array, Float
from .._runtime.results import RESULTS
from .measured import Measured, as_model
from .protocol import AbstractProtocol, Static
from .unknowns import as_leafless, looked_up


class Prediction(eqx.Module):
    """What a model says of an experiment: the values by name, and how the computation ended."""

    values: dict[str, Array]
    result: Any
    failed_at: Array  # [s]


class AbstractExperiment(eqx.Module):
    """Something with measured values that can be predicted from parameters."""

    measured: eqx.AbstractVar[dict[str, Measured]]

    @abc.abstractmethod
    def predict(self, parameters: Any) -> Prediction:
        """The model of all that was measured. Traced; failures are in `result`."""

    def rows(self, prediction: Prediction) -> Float[Array, " m"]:
        """The residuals in units of the noise, one after the other, in the order of names."""
        return jnp.concatenate([m.rows(prediction.values[name]) for name, m in self.measured.items()])


class Experiment(AbstractExperiment):
    """A scene, what was done to it, and what was measured.

    `system` and `state`: the scene and its start. `measured`: `{name: Measured}`. `protocol`: `Static()`, `Motion(...)` or
    `AtRest()`; one equilibrium unless given. `numbers`: what the parameters are in the scene, `{component: {field: value}}`
    and `gravity`, `field` with dots where it lies deeper (`"material.young"`): a dictionary whose values are names of
    parameters ("E", or "rubber.mu" in a tree), or a function of the parameters that returns such a dictionary of arrays, or
    another `System` of the same components. `begin(system, state, parameters)`: the state to start from, where parameters
    have a part in it. Experiments that take the same parameters share them. Units are those of the scene.
    Raises `ValueError` or `TypeError` that names what does not fit: observations of what is not there, times outside of the
    experiment.
    Source: A. Tarantola, *Inverse Problem Theory*, 2005, doi:10.1137/1.9780898717921, chapter 1 (model and data).

    Example:

        sag = jm.identify.Displacement(("cube", [6, 7]), mesh.points, components=2)
        test = jm.identify.Experiment(
            system,
            state,
            {"sag": jm.identify.Measured(sag, [[-0.006], [-0.006]], noise=1e-4, unit="m")},
            numbers={"solid": {"material.young": "E"}},
        )
        model = test.predict({"E": 1e6})
        assert model.values["sag"].shape == (2, 1) and model.result == jm.RESULTS.successful
    """

    system: System
    state: State
    measured: dict[str, Measured]
    protocol: AbstractProtocol
    numbers: Any
    begin: Callable[[System, State, Any], State] | None

    def __init__(
        self,
        system: System,
        state: State,
        measured: Mapping[str, Measured],
        *,
        protocol: AbstractProtocol | None = None,
        numbers: Any = None,
        begin: Callable[[System, State, Any], State] | None = None,
    ):
        check_inputs("Experiment", system, state)
        self.system, self.state = system, state
        self.measured = check_measured("Experiment", measured)
        protocol = Static() if protocol is None else protocol
        check_instance("Experiment", "protocol", protocol, AbstractProtocol)
        self.protocol = protocol.ready(system, state)
        self.numbers = _as_function(numbers)
        if begin is not None:
            check_callable("Experiment", "begin", begin)
        self.begin = as_leafless(begin)
        times = self.protocol.times(state)
        for name, one in self.measured.items():
            try:
                one.check_scene(system, state, times)
            except (ValueError, TypeError) as error:
                raise type(error)(f"Experiment: measured '{name}': {error}") from None

    def predict(self, parameters: Any) -> Prediction:
        system = self._scene(parameters)
        state = self.state if self.begin is None else self.begin(system, self.state, parameters)
        check_instance("Experiment", "what begin returns", state, State)

        def observe(scene: System, now: State) -> dict[str, Array]:
            return {name: _observed(name, m, scene, now) for name, m in self.measured.items()}

        course = self.protocol.run(system, state, observe, parameters)
        values = {}
        for name, one in self.measured.items():
            try:
                values[name] = one.predicted(course.seen[name], course.times, parameters)
            except ValueError as error:
                raise ValueError(f"Experiment: measured '{name}': {error}") from None
        return with_finite(Prediction(values, course.result, course.failed_at))

    def _scene(self, parameters: Any) -> System:
        if self.numbers is None:
            return self.system
        found = self.numbers(parameters)
        if isinstance(found, System):
            return found
        try:
            return controlled(self.system, found)
        except (ValueError, TypeError) as error:  # which speaks of a control
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"Experiment: numbers: {str(error).removeprefix('control ')}") from None


def _observed(name: str, measured: Measured, system: System, state: State) -> Array:
    value = measured.observe(system, state)
    try:
        return as_model(value)
    except ValueError as error:
        raise ValueError(f"Experiment: measured '{name}': {error}") from None


class Formula(AbstractExperiment):
    """An experiment without a scene: `function(parameters)` is the model of the values.

    A closed form, another program's surrogate, a measurement of a parameter. `values`, `noise`, `unit`: as in `Measured`.
    Raises what `Measured` does.
    Source: A. Tarantola, *Inverse Problem Theory*, 2005, doi:10.1137/1.9780898717921, chapter 1.

    Example:

        stretch = jnp.array([1.5, 2.0])
        pull = jm.identify.Formula(lambda p: p["mu"] * (stretch - stretch**-2), [0.42, 0.7], noise=0.01, unit="MPa")
        assert jnp.allclose(pull.predict({"mu": 0.4}).values["values"][1], 0.7)
    """

    function: Callable[[Any], Any]
    measured: dict[str, Measured]

    def __init__(self, function: Callable[[Any], Any], values: Any, *, noise: Any, blocks: Any = None, unit: str = ""):
        check_callable("Formula", "function", function)
        self.function = as_leafless(function)
        self.measured = {"values": Measured(_nothing, values, noise=noise, blocks=blocks, unit=unit)}

    def predict(self, parameters: Any) -> Prediction:
        model = self.function(parameters)
        try:
            model = self.measured["values"].predicted(as_model(model), None, parameters)
        except ValueError as error:
            raise ValueError(f"Formula: {error}") from None
        return with_finite(Prediction({"values": model}, RESULTS.successful, jnp.zeros(())))


class Named(eqx.Module):
    """The numbers of a scene as names of parameters."""

    numbers: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = eqx.field(static=True)

    def __call__(self, parameters: Any) -> dict[str, dict[str, Any]]:
        return {part: {field: looked_up(parameters, name) for field, name in fields} for part, fields in self.numbers}


def _as_function(numbers: Any) -> Any:
    """What is asked for the numbers of a scene."""
    if numbers is None or callable(numbers):
        return as_leafless(numbers)
    if not isinstance(numbers, Mapping):
        raise TypeError(f"Experiment: numbers must be a dictionary or a function, got {numbers!r:.80}.")
    for part, fields in numbers.items():
        names = fields.items() if isinstance(fields, Mapping) else [("", None)]
        if not isinstance(part, str) or not all(isinstance(f, str) and isinstance(name, str) for f, name in names):
            raise TypeError(
                f"Experiment: numbers of {part!r} must be {{field: name of a parameter}}, got {fields!r:.80}; "
                "a function of the parameters returns arrays."
            )
    return Named(tuple((part, tuple(fields.items())) for part, fields in numbers.items()))


def _nothing(system: System, state: State) -> Array:
    del system, state
    return jnp.zeros(())


def with_finite(prediction: Prediction) -> Prediction:
    """The prediction, a failure where a value is not finite."""
    finite = jnp.array([jnp.all(jnp.isfinite(a)) for a in prediction.values.values()]).all()
    ok = (prediction.result != RESULTS.successful) | finite
    return Prediction(prediction.values, RESULTS.where(ok, prediction.result, RESULTS.not_finite), prediction.failed_at)


def check_measured(owner: str, measured: Any) -> dict[str, Measured]:
    """Measurements by name, sorted as JAX does."""
    check_instance(owner, "measured", measured, Mapping)
    if not measured:
        raise ValueError(f"{owner}: measured is empty.")
    for name, one in measured.items():
        if not isinstance(name, str):
            raise TypeError(f"{owner}: the names of measured must be strings, got {name!r:.80}.")
        check_instance(owner, f"measured '{name}'", one, Measured)
    return {name: measured[name] for name in sorted(measured)}
