"""What was measured: the numbers of an instrument, how much they scatter, and when they were read."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._model.system import State, System
from .._runtime.argument_checks import check_callable, check_choice, numeric_array, real_array
from .._runtime.array_types import Array
from .._runtime.host_arrays import as_data
from .._scene.parameter import is_concrete
from .observation import AbstractObservation
from .unknowns import as_leafless, looked_up

_INTERPOLATIONS = ("cubic", "linear")


class Measured(eqx.Module):
    """Values of an instrument, and the observation that they are of.

    `observe`: one of `jm.identify`'s observations, or any function `(system, state) -> array`. `values`: what was read, of
    the shape of the observation, with an axis of instants in front where there are several; NaN: not read. `noise`: its
    standard deviation, a number or an array that broadcasts to `values` [their unit]: the residuals are `(model -
    values)/noise`. `times` [s]: of the values, which need not be those of the experiment: the model is interpolated between
    its own, `interpolation` "cubic" (through four instants) or "linear"; None: they are those of the experiment. `delay`
    [s]: how much later the instrument's clock begins than the model's, a number or the name of a parameter. `adjust(model,
    parameters)`: what lies between the model and the reading, as the rigid motion of a camera, a gain, an offset.
    `blocks`: whole numbers of the shape of the first axes of `values`: readings of one block share their error, as
    neighbouring points of a picture do; the standard errors of a fit then come from the scatter of blocks. `unit`: words for
    reports. Raises `ValueError` or `TypeError` for noise that is not positive, values all missing, times that do not
    increase, a delay without times.
    Source: A. Tarantola, *Inverse Problem Theory*, 2005, doi:10.1137/1.9780898717921, section 3.2 (Gaussian noise).

    Example:

        tip = jm.identify.Displacement(("cube", [6]), mesh.points, components=2)
        read = jm.identify.Measured(tip, [[[-0.1]], [[jnp.nan]]], noise=1e-3, times=[0.0, 0.5], unit="m")
        assert read.count == 1
    """

    observe: Callable[[System, State], Any]
    values: Array
    noise: Array
    times: Array | None
    delay: Array
    adjust: Callable[[Array, Any], Any] | None
    blocks: Array | None
    delayed_by: str | None = eqx.field(static=True)
    interpolation: str = eqx.field(static=True)
    unit: str = eqx.field(static=True)

    def __init__(
        self,
        observe: Callable[[System, State], Any],
        values: Any,
        *,
        noise: Any,
        times: Any = None,
        delay: Any = 0.0,
        adjust: Callable[[Array, Any], Any] | None = None,
        blocks: Any = None,
        interpolation: str = "cubic",
        unit: str = "",
    ):
        check_callable("Measured", "observe", observe)
        self.observe = as_leafless(observe)
        self.values = as_data(real_array("Measured", "values", values, finite=False))
        if np.isinf(np.asarray(self.values)).any():
            raise ValueError("Measured: values has infinite numbers; NaN stands for what was not read.")
        if not np.isfinite(np.asarray(self.values)).any():
            raise ValueError("Measured: values has not one number: all are NaN, or there are none.")
        self.noise = self._noise(noise)
        self.times = None if times is None else self._times(times)
        self.delayed_by = delay if isinstance(delay, str) else None
        self.delay = jnp.asarray(real_array("Measured", "delay", 0.0 if isinstance(delay, str) else delay, ()))
        if times is None and (self.delayed_by is not None or not is_concrete(self.delay) or float(self.delay) != 0):
            raise ValueError(
                f"Measured: delay={delay!r:.80} is of no use without times: give the times that the values were read at."
            )
        if adjust is not None:
            check_callable("Measured", "adjust", adjust)
        self.adjust = as_leafless(adjust)
        self.blocks = None if blocks is None else self._blocks(blocks)
        check_choice("Measured", "interpolation", interpolation, _INTERPOLATIONS)
        self.interpolation = interpolation
        if not isinstance(unit, str):
            raise TypeError(f"Measured: unit must be words, got {unit!r:.80}.")
        self.unit = unit

    @property
    def count(self) -> int:
        """How many numbers were read."""
        return int(np.isfinite(np.asarray(self.values)).sum())

    def predicted(self, frames: Array, times: Array | None, parameters: Any) -> Array:
        """The model of the values, from observations at the times of an experiment (None: at its one instant)."""
        model = frames if self.times is None else self._interpolated(frames, times, parameters)
        if self.adjust is not None:
            model = as_model(self.adjust(model, parameters))
        if model.shape != self.values.shape:
            raise ValueError(f"the observation has shape {model.shape}, the measured values have {self.values.shape}.")
        return model

    def rows(self, model: Array) -> Array:
        """`(model - values)/noise`, nil where nothing was read."""
        read = jnp.isfinite(self.values)
        return (jnp.where(read, model - jnp.where(read, self.values, 0), 0) / self.noise).ravel()

    def check_scene(self, system: System, state: State, times: np.ndarray | None) -> None:
        """Raise unless the scene has what is observed, while the experiment lasts."""
        if isinstance(self.observe, AbstractObservation):
            self.observe.check_scene(system, state)
        if self.times is None:
            return
        if times is None:
            raise ValueError("times are of no use where the experiment has one instant.")
        if self.delayed_by is not None or not is_concrete(self.times, self.delay):
            return
        read, slack = np.asarray(self.times) - float(self.delay), 1e-9 * (times[-1] - times[0])
        if read[0] < times[0] - slack or read[-1] > times[-1] + slack:
            raise ValueError(
                f"times go from {read[0]:.6g} to {read[-1]:.6g} s, the experiment from {times[0]:.6g} to {times[-1]:.6g} s."
            )

    def _interpolated(self, frames: Array, times: Array | None, parameters: Any) -> Array:
        assert times is not None and self.times is not None
        delay = self.delay if self.delayed_by is None else looked_up(parameters, self.delayed_by)
        at = self.times - delay
        width = 4 if self.interpolation == "cubic" and len(times) >= 4 else min(2, len(times))
        first = jnp.clip(jnp.searchsorted(times, at, side="right") - width // 2, 0, len(times) - width)
        near = first[:, None] + jnp.arange(width)
        model = jnp.einsum("tk,tk...->t...", lagrange_weights(times[near], at), frames[near])
        # A delay that is fitted may lead out of the experiment: by a step, not to where cubics go.
        step = jnp.max(jnp.diff(times), initial=0.0)
        within = (at >= times[0] - step) & (at <= times[-1] + step)
        return jnp.where(within.reshape(-1, *[1] * (model.ndim - 1)), model, jnp.nan)

    def _noise(self, noise: Any) -> Array:
        array = jnp.asarray(real_array("Measured", "noise", noise))
        if not bool(jnp.all(array > 0)):
            raise ValueError(f"Measured: noise must be positive, the least is {float(jnp.min(array))}.")
        try:
            return jnp.broadcast_to(array, self.values.shape)
        except ValueError:
            shapes = f"{array.shape}, which does not broadcast to that of values, {self.values.shape}"
            raise ValueError(f"Measured: noise has shape {shapes}.") from None

    def _times(self, times: Any) -> Array:
        array = np.asarray(real_array("Measured", "times", times, (None,)))
        if self.values.shape[:1] != array.shape:
            raise ValueError(
                f"Measured: times are {len(array)}, the first axis of values has shape {self.values.shape[:1]}."
            )
        if not (np.diff(array) > 0).all():
            raise ValueError("Measured: times must increase.")
        return jnp.asarray(array)

    def _blocks(self, blocks: Any) -> Array:
        array = np.asarray(numeric_array("Measured", "blocks", blocks))
        if array.dtype.kind not in "iu" or array.ndim == 0 or self.values.shape[: array.ndim] != array.shape:
            raise ValueError(
                f"Measured: blocks must be whole numbers of the shape of the first axes of values {self.values.shape}, got "
                f"{array.dtype} of shape {array.shape}."
            )
        _, numbers = np.unique(array, return_inverse=True)
        read = np.isfinite(np.asarray(self.values)).any(axis=tuple(range(array.ndim, self.values.ndim)))
        if len(np.unique(array[read])) == 1:
            raise ValueError("Measured: blocks has one block only of what was read; there must be at least two.")
        return jnp.asarray(numbers.reshape(array.shape), jnp.int32)


def as_model(value: Any) -> Array:
    """What a model returned, an array of real numbers. Raises `ValueError` for anything else."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError):
        raise ValueError(f"the observation must be an array of real numbers, got {value!r:.80}.") from None
    if array.dtype.kind not in "fiu":
        raise ValueError(f"the observation must be an array of real numbers, got {array.dtype}.")
    return array


def lagrange_weights(nodes: Array, at: Array) -> Array:
    """Of every row of nodes `(t, k)`, the weights of the polynomial through them at `(t,)`."""
    size = nodes.shape[1]
    weights = []
    for i in range(size):
        others = [j for j in range(size) if j != i]
        factors = [(at - nodes[:, j]) / (nodes[:, i] - nodes[:, j]) for j in others]
        weights.append(jnp.prod(jnp.stack([jnp.ones_like(at), *factors]), axis=0))
    return jnp.stack(weights, axis=1)
