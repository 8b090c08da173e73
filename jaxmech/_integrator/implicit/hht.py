"""The method of Hilber, Hughes and Taylor."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._scene.parameter import as_array
from .acceleration_stage import AccelerationStage
from .coefficient import check_number
from .shifted_scheme import AbstractShiftedScheme
from .stage import Setting


class HHT(AbstractShiftedScheme):
    """`M a1 = f(x_f, v_f)`, forces `alpha` of a step before its end: second order, dissipates high frequencies.

    `alpha`, from 0 (average acceleration, no dissipation) to 1/3 (most), `gamma = 1/2 + alpha`, `beta = (1 + alpha)^2 / 4`
    in Newmark's formulas; the spectral radius at high frequencies is `(1 - alpha) / (1 + alpha)`. The carry holds the
    acceleration, as that of `Newmark`.
    `newton=False`: one linear solve; the options are those of `ImplicitEuler`. Positions [m, rad], velocities [m/s, rad/s].
    Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: H. M. Hilber, T. J. R. Hughes, R. L. Taylor, Earthq. Eng. Struct. Dyn. 5 (1977) 283, doi:10.1002/eqe.4290050306.

    Example:

        asked = jm.integrator.HHT(linear_system, alpha=0.1)
        assert asked.order == 2 and asked.alpha == 0.1
    """

    alpha: Array = eqx.field(converter=as_array, default=0.05, kw_only=True)

    order = 2

    def __check_init__(self):
        check_number("HHT", "alpha", self.alpha, at_least=0.0, at_most=1 / 3)

    @property
    def alphas(self) -> tuple[Array, Array]:
        return jnp.zeros_like(self.alpha), self.alpha

    def stage(self, setting: Setting, memory: Any) -> AccelerationStage:
        a = self.alpha
        return self.between(setting, self.taken(setting, memory), (1 + a) ** 2 / 4, 0.5 + a, *self.alphas)
