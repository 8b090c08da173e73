"""Numbers given at times, and between them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._math.key_frames import if_increasing
from ..._runtime.argument_checks import check_choice, real_array
from ..._runtime.array_types import Array
from ..._scene.parameter import as_array, is_concrete

KINDS = ("linear", "hold", "cubic")


class Table(eqx.Module):
    """A function of time from `values` `(T, ...)` at `times` `(T,)` [s]; constant before the first and after the last.

    `kind="linear"` between neighbours; `"hold"`: the value of the last time that has passed (a sampled controller);
    `"cubic"`: smooth, each piece with the slopes at its ends of the parabolas through three neighbours, exact for parabolas.
    Values in any unit; differentiable by values and times, the latter but for jumps. Raises `ValueError` for times that do
    not increase, or of another number than values, and for another kind.
    Source: C. de Boor, *A Practical Guide to Splines*, rev. ed., 2001, ISBN 978-0-387-95366-3, chapter IV (cubic Bessel
    interpolation).

    Example:

        load = jm.integrator.Table([0.0, 1.0, 2.0], [[0.0], [4.0], [0.0]])  # [N]
        assert jnp.allclose(load(0.5), 2.0) and jnp.allclose(load(9.0), 0.0)
        assert jnp.allclose(jm.integrator.Table([0.0, 1.0], [3.0, 5.0], kind="hold")(0.99), 3.0)
    """

    times: Array = eqx.field(converter=as_array)
    values: Array = eqx.field(converter=as_array)
    kind: str = eqx.field(static=True, default="linear", kw_only=True)

    def __check_init__(self):
        real_array("Table", "times", self.times, (None,))
        real_array("Table", "values", self.values)
        check_choice("Table", "kind", self.kind, KINDS)
        if self.times.shape[0] == 0 or self.values.ndim == 0 or self.values.shape[0] != self.times.shape[0]:
            raise ValueError(
                f"Table: values {self.values.shape} must have a leading axis as long as times {self.times.shape}, not zero."
            )
        if is_concrete(self.times) and not np.all(np.diff(np.asarray(self.times)) > 0):
            raise ValueError(f"Table: times must increase, got {np.asarray(self.times)}.")

    def __call__(self, time: Any) -> Array:
        """The values `(...)` at a time [s]; NaN where times that were traced do not increase. Raises `TypeError` for what is
        no number."""
        if not isinstance(time, jax.Array | float):
            real_array("Table", "time", time)
        return if_increasing(self.times, self._at(time))

    def _at(self, time: Any) -> Array:
        t = jnp.clip(time, self.times[0], self.times[-1])
        last = self.times.shape[0] - 1
        i = jnp.searchsorted(self.times, t, side="right") - 1
        if self.kind == "hold" or last == 0:
            return self.values[jnp.clip(i, 0, last)]
        i = jnp.clip(i, 0, last - 1)
        h = self.times[i + 1] - self.times[i]
        a, b, u = self.values[i], self.values[i + 1], (t - self.times[i]) / h
        if self.kind == "linear" or last == 1:
            return a + u * (b - a)
        da, db = h * self._slope(i), h * self._slope(i + 1)
        return a + u * (da + u * (3 * (b - a) - 2 * da - db + u * (da + db - 2 * (b - a))))

    def _slope(self, i: Array) -> Array:
        """That of the parabola through a place and its neighbours, at the ends through the next two."""
        m = jnp.clip(i, 1, self.times.shape[0] - 2)
        before, after = self.times[m] - self.times[m - 1], self.times[m + 1] - self.times[m]
        rise, next_rise = ((self.values[k + 1] - self.values[k]) / h for k, h in ((m - 1, before), (m, after)))
        bend = (next_rise - rise) / (before + after)
        return rise + bend * before + 2 * bend * (self.times[i] - self.times[m])
