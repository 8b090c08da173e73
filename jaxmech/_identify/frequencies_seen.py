"""The frequencies of free vibration."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._linear_system.matrix import MatrixLinearSystem
from .._model.system import State, System
from .._runtime.argument_checks import check_counts, check_instance, plain
from .._runtime.array_types import Array, Float
from .._runtime.results import RESULTS
from .._solve.modes import check_pencil, modes
from .observation import AbstractObservation


class Frequencies(AbstractObservation):
    """The `count` lowest frequencies `(count,)` [Hz] of undamped vibration about the state that is observed, by `jm.modes`.

    `linear_system`: made with `MatrixLinearSystem.build` of the scene, with stiffness and mass. Frequencies come in their
    order: two that cross while parameters change take each other's place; NaN where none are
    found. The unit is the hertz, 2 pi [rad/s]. Raises `ValueError` or `TypeError` for a count that is none, and, of an
    experiment, a scene without mass.
    Source: R. G. Grimes, J. G. Lewis, H. D. Simon, SIAM J. Matrix Anal. Appl. 15 (1994) 228, doi:10.1137/S0895479888151111.

    Example:

        see = jm.identify.Frequencies(jm.MatrixLinearSystem.build(oscillator, oscillator_state), count=1)
        assert jnp.allclose(see(oscillator, oscillator_state), 2.0 / (2 * jnp.pi))  # sqrt(k / m) / 2 pi [Hz]
    """

    linear_system: MatrixLinearSystem
    count: int = eqx.field(static=True)

    def __init__(self, linear_system: MatrixLinearSystem, count: int = 1):
        check_instance("Frequencies", "linear_system", linear_system, MatrixLinearSystem)
        count = plain(count)
        check_counts("Frequencies", count=count)
        self.linear_system, self.count = linear_system, count

    def __call__(self, system: System, state: State) -> Float[Array, " count"]:
        found: Any = modes(system, state, self.linear_system, count=self.count, throw=False)
        ok = found.info.result == RESULTS.successful
        return jnp.where(ok, found.frequencies / (2 * jnp.pi), jnp.nan)

    def check_scene(self, system: System, state: State) -> None:
        check_pencil("Frequencies", system, self.linear_system, self.count, mass=True)
