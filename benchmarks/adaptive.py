"""Adaptive steps against the best fixed one, at equal accuracy: a ball that falls on a stiff floor, and bounces.

    python -m benchmarks.adaptive [--stiffness N/m]

Free flight asks for long steps, contact (a penalty plane) for short ones. Both take the same extrapolated steps of implicit
Euler (three solves each), so that only the choice of their sizes differs; the reference is SciPy's DOP853. Printed for every
tolerance: the error of the height at the output times, the steps and the CPU seconds of the adaptive run, and those of the
fewest equal steps that are as accurate.
"""

import argparse
import time
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
from scipy.integrate import solve_ivp

import jaxmech as jm
from benchmarks.clock import report

jax.config.update("jax_enable_x64", True)
TIMES = np.array([0.3, 0.6, 0.9])  # [s]
MASS, G = 1.0, 9.81


class FixedSteps(jm.integrator.AbstractIntegrator):
    """The same extrapolated step, for `simulate`."""

    inner: jm.integrator.AbstractIntegrator

    def step(self, system: jm.System, state: jm.State, carry: Any, dt: Any, *, throw: bool = True) -> tuple[Any, Any, Any]:
        end, carry, info, (dx, dv) = self.inner.step_with_error(system, state, carry, dt, throw=throw)
        x = jm.integrator.retract(system, end.position, dx)
        v = {s: end.velocity[s] + dv[s] for s in dv}
        return eqx.tree_at(lambda s: (s.position, s.velocity), end, (x, v)), carry, info


def scene(stiffness: float) -> tuple[jm.System, jm.State, jm.ImplicitEuler]:
    system = jm.System(
        {"ball": jm.Vec2()},
        forces={"floor": jm.force.PenaltyPlane(("ball", [0]), [0.0, 0.0], [0.0, 1.0], stiffness)},
        masses={"mass": jm.mass.UniformMass(("ball", [0]), MASS)},
        gravity=[0.0, -G],
    )
    state = system.at_rest({"ball": [[0.0, 0.1]]})
    return system, state, jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), jm.solver.Dense(), newton=True)


def reference(stiffness: float) -> np.ndarray:
    """Heights by DOP853."""

    def rate(_: float, y: np.ndarray) -> list[float]:
        return [y[1], -G - stiffness / MASS * min(y[0], 0.0)]

    return solve_ivp(rate, (0, TIMES[-1]), [0.1, 0.0], "DOP853", TIMES, rtol=1e-12, atol=1e-13, max_step=1e-3).y[0]


def seconds(run: Any) -> tuple[Any, float]:
    """What a run gives, and its CPU time once compiled."""
    run()
    start = time.process_time()
    found = jax.block_until_ready(run())
    return found, time.process_time() - start


def main() -> list[dict[str, Any]]:
    """Print a row for every tolerance, and return them: error, steps and CPU seconds, and those of equal steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stiffness", type=float, default=1e5)
    return measured(parser.parse_args().stiffness)


def measured(stiffness: float, tolerances: tuple[float, ...] = (1e-3, 3e-4, 1e-4)) -> list[dict[str, Any]]:
    system, state, euler = scene(stiffness)
    exact, rows = reference(stiffness), []

    def error(heights: Any) -> float:
        return float(np.abs(np.asarray(heights) - exact).max())

    def equal(steps: int) -> Any:
        return jm.simulate(system, state, FixedSteps(euler), TIMES[-1] / steps, steps, save_every=steps // 3)

    for tolerance in tolerances:
        adaptive = partial(
            jm.simulate_adaptive, system, state, euler, TIMES, rtol=0.0, atol=(tolerance, 30 * tolerance), extrapolate=True,
            max_steps=20_000,
        )  # fmt: skip
        run, cpu = seconds(adaptive)
        wanted, steps = error(run.state.position["ball"][:, 0, 1]), 96
        while error(equal(steps).position["ball"][1:, 0, 1]) > wanted and steps < 3e5:
            steps *= 2  # within a factor of two of the fewest
        _, fixed_cpu = seconds(partial(equal, steps))
        row = {"N/m": stiffness, "error m": wanted, "steps": int(run.info.turns), "s": cpu, "equal steps": steps}
        rows.append(row | {"equal s": fixed_cpu, "equal / adaptive": fixed_cpu / cpu})
        report(**rows[-1])
    return rows


if __name__ == "__main__":
    main()
