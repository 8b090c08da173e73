"""The generalised-alpha method."""

from typing import Any

import equinox as eqx

from ..._runtime.array_types import Array
from ..._scene.parameter import as_array
from .acceleration_stage import AccelerationStage
from .coefficient import check_number
from .shifted_scheme import AbstractShiftedScheme
from .stage import Setting


class GeneralizedAlpha(AbstractShiftedScheme):
    """`M a_m = f(x_f, v_f)` between the ends of a step: second order, and as much dissipation of high frequencies as asked.

    `spectral_radius` `r`, from 0 (they are gone after a step) to 1 (none is dissipated): what a step leaves of them.
    `alpha_m = (2 r - 1) / (r + 1)`, `alpha_f = r / (r + 1)`, and in Newmark's formulas `gamma = 1/2 - alpha_m + alpha_f`,
    `beta = (1 - alpha_m + alpha_f)^2 / 4`. The carry holds the acceleration, as that of `Newmark`.
    `newton=False`: one linear solve; the options are those of `ImplicitEuler`. Positions [m, rad], velocities [m/s, rad/s].
    Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: J. Chung and G. M. Hulbert, J. Appl. Mech. 60 (1993) 371, doi:10.1115/1.2900803.

    Example:

        asked = jm.integrator.GeneralizedAlpha(linear_system, spectral_radius=0.5)
        assert asked.order == 2 and asked.spectral_radius == 0.5
    """

    spectral_radius: Array = eqx.field(converter=as_array, default=0.8, kw_only=True)

    order = 2

    def __check_init__(self):
        check_number("GeneralizedAlpha", "spectral_radius", self.spectral_radius, at_least=0.0, at_most=1.0)

    @property
    def alphas(self) -> tuple[Array, Array]:
        r = self.spectral_radius
        return (2 * r - 1) / (r + 1), r / (r + 1)

    def stage(self, setting: Setting, memory: Any) -> AccelerationStage:
        alpha_m, alpha_f = self.alphas
        shift = alpha_f - alpha_m
        return self.between(setting, self.taken(setting, memory), (1 + shift) ** 2 / 4, 0.5 + shift, alpha_m, alpha_f)
