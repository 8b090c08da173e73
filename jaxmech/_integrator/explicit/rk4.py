"""The classical method of Runge and Kutta."""

from .runge_kutta import AbstractRungeKutta, Tableau


class RK4(AbstractRungeKutta):
    """The classical method of Runge and Kutta: explicit, fourth order, four evaluations of forces; `h omega < 2.82`.

    Frames move in the chart of the start, whose rates are told from velocities (Munthe-Kaas), so that rotations converge
    at the fourth order too. Where anything is damped, `h omega < 2.61`. Damps high frequencies slightly; for long motions
    without damping take `VelocityVerlet`, for steps of the size that accuracy asks for `Tsitouras`.
    Lumped masses need no matrix; `solver` for others. `check_step=False` takes any step. Positions [m, rad], velocities
    [m/s, rad/s]. Raises `TypeError` for options of another kind; a step raises `FailedComputation`.
    Source: H. Munthe-Kaas, BIT 38 (1998) 92, doi:10.1007/BF02510919.

    Example:

        assert jm.integrator.RK4().order == 4 and jm.integrator.RK4.stability > jm.integrator.VelocityVerlet.stability
    """

    order = 4
    stability = 2.82
    damped_stability = 2.61  # in any direction of the left half plane: the least is 2.615, of 0.54 of critical damping
    tableau = Tableau.of(("", "1/2", "0 1/2", "0 0 1"), "1/6 1/3 1/3 1/6")
