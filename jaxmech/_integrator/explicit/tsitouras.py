"""The method of Tsitouras, an embedded pair of orders 5 and 4."""

from typing import Any

from ..._model.dynamics import Fields
from ..._model.system import State, System
from ..._solve.equilibrium import StepInfo
from .runge_kutta import AbstractRungeKutta, Tableau

_ROWS = (
    "",
    "0.161",
    "-0.00848065549235698854443 0.335480655492356988544",
    "2.89715305710549343213 -6.35944848997507484315 4.36229543286958141102",
    "5.32586482843925660443 -11.7488835640628278777 7.49553934288983620830 -0.0924950663617552492565",
    "5.86145544294642002866 -12.9209693178471092917 8.15936789857615864318 -0.0715849732814009972245 "
    "-0.0282690503940683829090",
    "0.0964607668180652295182 0.01 0.479889650414499574775 1.37900857410374189319 -3.29006951543608067990 "
    "2.32471052409977398242",
)
_APART = (
    "-0.00178001105222577144338 -0.000816434459656746903224 0.00788087801026199601031 -0.144711007173262909538 "
    "0.582357165452555225020 -0.458082105929186946662 1/66"
)


class Tsitouras(AbstractRungeKutta):
    """The pair of Tsitouras: explicit, fifth order, six evaluations of forces, and its error; `h omega < 0.477`.

    Two results of the same seven stages, of orders 5 and 4, differ by the error of the latter: `step_with_error` costs no
    more than a step, which is the result of order 5. The last stage is the first of the next step, so that the carry holds
    the acceleration. For `simulate_adaptive` of smooth motions without stiff parts; equal steps of undamped vibrations
    let them grow from the limit on, by 1e-4 each at twice the limit, where `RK4` damps them.
    Frames move in the chart of the start, as those of `RK4` do. Lumped masses need no matrix; `solver` for others.
    `check_step=False` takes any step, as `step_with_error` does, whose error tells of steps that are too large. Positions
    [m, rad], velocities [m/s, rad/s]. Raises `TypeError` for options of another kind; a step raises `FailedComputation`.
    Source: Ch. Tsitouras, Comput. Math. Appl. 62 (2011) 770, doi:10.1016/j.camwa.2011.06.002.

    Example:

        pair = jm.integrator.Tsitouras()
        end, _, _, (dx, dv) = pair.step_with_error(oscillator, oscillator_state, None, 0.1)
        assert pair.order == 5 and pair.estimated_order == 4 and jnp.abs(dx["p"]).max() < 1e-5  # [m]
    """

    order = 5
    stability = 0.477
    damped_stability = 3.5
    tableau = Tableau.of(_ROWS, _ROWS[-1] + " 0", _APART)

    @property
    def estimated_order(self) -> int:
        return 4

    def step_with_error(
        self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True
    ) -> tuple[State, Any, StepInfo, tuple[Fields, Fields]]:
        """`step`, and an estimate `(dx, dv)` of what the positions and velocities of the result of order 4 lack."""
        end, after, info, error = self._stepped(system, state, carry, dt, throw, True)
        assert error is not None
        return end, after, info, error
