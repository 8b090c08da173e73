"""A number, or a field of numbers, that a fit may change."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_choice, check_instance, real_array
from .._runtime.array_types import Array
from .penalty import AbstractPenalty

_TRANSFORMS = ("none", "log", "logit")


class Free(eqx.Module):
    """A parameter to be found: where the search starts, where it may go, and what is known of it before.

    `start`: a number or an array, whose entries are all free: one for each region, or each element. The search moves
    unknowns `u`, zero at the start:

        none   value = start + scale u
        log    value = lower + (start - lower) exp(u); value = upper - (upper - start) exp(u) where only `upper` is given
        logit  value = lower + (upper - lower) / (1 + exp(-(u_0 + u)))

    `transform`: "logit" where both bounds are given, "log" where one is, "none" otherwise, unless it says "log" (of positive
    values: `lower = 0`). `scale`: how far the values may be from their start, its size unless given. `prior`: `(mean,
    deviation)`, a measurement of the value made before; its row `(value - mean)/deviation` joins the residuals. `penalty`:
    `Tikhonov` or `TotalVariation` of a field. `unit`: words for reports. Raises `ValueError` or `TypeError` for a start
    outside of its bounds, bounds in the wrong order, deviations that are not positive.
    Source: A. Tarantola, *Inverse Problem Theory*, 2005, doi:10.1137/1.9780898717921, section 1.2 (positive quantities).

    Example:

        young = jm.identify.Free(2e5, lower=0.0, unit="Pa")
        assert young.transform == "log" and jnp.allclose(young.value(jnp.log(2.0)), 4e5)
    """

    start: Array
    lower: Array | None
    upper: Array | None
    scale: Array
    prior: tuple[Array, Array] | None
    penalty: AbstractPenalty | None
    transform: str = eqx.field(static=True)
    unit: str = eqx.field(static=True)

    def __init__(
        self,
        start: Any,
        *,
        lower: Any = None,
        upper: Any = None,
        transform: str | None = None,
        scale: Any = None,
        prior: Any = None,
        penalty: AbstractPenalty | None = None,
        unit: str = "",
    ):
        self.start = jnp.asarray(real_array("Free", "start", start))
        if self.start.size == 0:
            raise ValueError("Free: start is empty.")
        self.lower, self.upper = self._bound("lower", lower), self._bound("upper", upper)
        if transform is not None:
            check_choice("Free", "transform", transform, _TRANSFORMS)
        bounds = (self.lower is not None) + (self.upper is not None)
        self.transform = transform or ("none", "log", "logit")[bounds]
        if self.transform == "log" and not bounds:
            self.lower = jnp.zeros_like(self.start)
        self._check_bounds(bounds)
        size = np.max(np.abs(np.asarray(self.start)))
        own = np.where(np.asarray(self.start) == 0, size or 1.0, np.abs(np.asarray(self.start)))
        self.scale = self._positive("scale", own if scale is None else scale)
        self.prior = self._prior(prior)
        if penalty is not None:
            check_instance("Free", "penalty", penalty, AbstractPenalty)
            penalty.check(self.start.size, "Free")
        self.penalty = penalty
        check_instance("Free", "unit", unit, str)
        self.unit = unit

    def value(self, u: Array) -> Array:
        """The values at unknowns of the shape of the start [its unit]."""
        if self.transform == "none":
            return self.start + self.scale * u
        if self.lower is None or self.upper is None:
            bound = self.upper if self.lower is None else self.lower
            assert bound is not None
            return bound + (self.start - bound) * jnp.exp(u)
        first = jnp.log((self.start - self.lower) / (self.upper - self.start))
        return self.lower + (self.upper - self.lower) * jax.nn.sigmoid(first + u)

    def unknown(self, value: Any) -> Array:
        """The unknowns at which the values are these: the inverse of `value`."""
        value = jnp.asarray(real_array("Free", "value", value))
        if self.transform == "none":
            return (value - self.start) / self.scale
        below, above = (None if b is None else (value - b) / (self.start - b) for b in (self.lower, self.upper))
        ratio = above if below is None else below if above is None else below / above
        if ratio is None or not bool(jnp.all(ratio > 0)):
            raise ValueError(f"Free: value must be within the bounds, got {np.asarray(value)!r:.80}.")
        return jnp.log(ratio)

    def _bound(self, name: str, value: Any) -> Array | None:
        if value is None:
            return None
        array = jnp.asarray(real_array("Free", name, value))
        if array.shape not in ((), self.start.shape):
            raise ValueError(f"Free: {name} has shape {array.shape}, expected () or {self.start.shape}, that of start.")
        return jnp.broadcast_to(array, self.start.shape)

    def _check_bounds(self, bounds: int) -> None:
        wanted = {"none": (0,), "log": (0, 1), "logit": (2,)}[self.transform]
        if bounds not in wanted:
            raise ValueError(f"Free: transform '{self.transform}' does not go with {bounds} bounds (lower, upper).")
        for name, bound, sign in (("lower", self.lower, 1), ("upper", self.upper, -1)):
            if bound is not None and not bool(jnp.all(sign * (self.start - bound) > 0)):
                side = "above" if sign > 0 else "below"
                raise ValueError(f"Free: start must be {side} {name} = {np.min(np.asarray(bound))}, got {self.start!r:.80}.")

    def _positive(self, name: str, value: Any) -> Array:
        array = jnp.asarray(real_array("Free", name, value))
        if array.shape not in ((), self.start.shape) or not bool(jnp.all(array > 0)):
            raise ValueError(f"Free: {name} must be positive and of shape () or {self.start.shape}, got {value!r:.80}.")
        return jnp.broadcast_to(array, self.start.shape)

    def _prior(self, prior: Any) -> tuple[Array, Array] | None:
        if prior is None:
            return None
        if not isinstance(prior, tuple | list) or len(prior) != 2:
            raise TypeError(f"Free: prior must be (mean, deviation), got {prior!r:.80}.")
        mean = jnp.asarray(real_array("Free", "the mean of prior", prior[0]))
        if mean.shape not in ((), self.start.shape):
            raise ValueError(f"Free: the mean of prior has shape {mean.shape}, expected that of start, {self.start.shape}.")
        return mean, self._positive("the deviation of prior", prior[1])
