"""The error of the last state over the CPU seconds of a trajectory: fixed steps, adaptive ones, diffrax's.

Of every scheme 12 to 204,800 equal steps; `simulate_adaptive` at tolerances from 1e-2 on, by the estimate of a scheme or by
step doubling, with extrapolation (`+`) and without; diffrax's Tsit5 and Kvaerno5 with their own steps. The reference is RK4
in 40,000 steps (more where a motion is not smooth), of the ball its closed form. CPU seconds: the median of nine runs of a
compiled trajectory, all schemes in turns (one run where it takes more than `SHORT`): a machine that is shared says now and
then that a run took a tenth. Each of them comes right after another one that does not count: what other programs leave of
caches takes longer than short trajectories. At last, of each, the CPU milliseconds at errors of 1e-4 and 1e-6: on the line,
in logarithms, between the runs on either side. What would take more than `PATIENCE`, or diffrax's more than
`PATIENCE_BESIDE` as a fiftieth of the motion foretells, is left out; the latter is said.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import report
from benchmarks.motions import EXACT, EXPLICIT, IMPLICIT, REFERENCE, SCENES, cpu

I = jm.integrator
PATIENCE, PATIENCE_BESIDE, SHORT = 1.5, 20.0, 0.1  # [CPU s]
STEPS = (12, 50, 200, 800, 3200, 12_800, 51_200, 204_800)
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
FINE = 5e-7  # the error than which no more accurate run is asked for
AIMS = (1e-4, 1e-6)


class Run:
    """A trajectory of a scheme that can be taken again: how accurate it is, the CPU seconds, and what else is told of it."""

    def __init__(self, scheme: str, call: Callable[[], jm.State], error: Callable[[jm.State], float], **told: Any):
        jax.block_until_ready(call())  # compiles, at the first
        self.scheme, self.call, self.times, self.told = scheme, call, [], told
        self.error = error(self.again())

    def again(self) -> Any:
        """Run it, and keep the time."""
        start = time.process_time()
        value = jax.block_until_ready(self.call())
        self.times.append(time.process_time() - start)
        return value

    @property
    def seconds(self) -> float:
        """The median of its times."""
        return float(np.median(self.times))


def numbers(state: jm.State) -> np.ndarray:
    """Positions and velocities of a state."""
    return np.concatenate([np.ravel(a) for a in (*state.position.values(), *state.velocity.values())])


def equal_steps(system: jm.System, state: jm.State, integrator: Any, span: float) -> Callable[[int], jm.State]:
    """A compiled function of the length of a step, for each number of steps."""

    @partial(jax.jit, static_argnums=0)
    def end(steps: int, h: jax.Array) -> jm.State:
        return jm.simulate(system, state, integrator, h, steps, save_every=steps, throw=False).last

    return lambda steps: end(steps, jnp.asarray(span / steps))


def adaptive_steps(
    system: jm.System, state: jm.State, integrator: Any, span: float, extrapolate: bool
) -> tuple[Callable[[float], jm.State], Callable[[float], Any]]:
    """Compiled functions of the tolerance: the last state, and how many steps and turns it takes."""

    def run(rtol: jax.Array) -> Any:
        options = {"rtol": rtol, "atol": 1e-2 * rtol, "extrapolate": extrapolate, "max_steps": 20_000}
        return jm.simulate_adaptive(system, state, integrator, [span], throw=False, **options)

    last, info = jax.jit(lambda rtol: run(rtol).last), jax.jit(lambda rtol: run(rtol).info)
    return lambda tolerance: last(jnp.asarray(tolerance)), lambda tolerance: info(jnp.asarray(tolerance))


def accuracy(chosen: str, only: tuple[str, ...] = ()) -> None:
    """Print all runs of the scenes (or the chosen one) and schemes (or `only` these), and what each takes for an error."""
    for name, (build, span) in SCENES.items():
        if chosen and chosen != name:
            continue
        system, state = build()
        exact = equal_steps(system, state, I.RK4(check_step=False), span)
        reference = EXACT[name](span) if name in EXACT else numbers(exact(REFERENCE.get(name, 40_000)))

        def error(last: jm.State, reference: np.ndarray = reference) -> float:
            return float(np.linalg.norm(numbers(last) - reference) / np.linalg.norm(reference))

        kinds = (fixed, adaptive, beside_diffrax)
        runs = [r for kind in kinds for r in kind(name, system, state, span, error, lambda s: not only or s in only)]
        for _ in range(8):
            for run in runs:
                if run.seconds < SHORT:
                    jax.block_until_ready(run.call())
                    run.again()
        for run in runs:
            report(scene=name, scheme=run.scheme, **run.told, cpu_ms=1e3 * run.seconds, error=run.error)
        for scheme in dict.fromkeys(run.scheme for run in runs):
            rows = [(1e3 * run.seconds, run.error) for run in runs if run.scheme == scheme]
            report(scene=name, scheme=scheme, **{f"ms at {aim:.0e}": at(rows, aim) for aim in AIMS})


def at(rows: list[tuple[float, float]], aim: float) -> float | str:
    """The least CPU milliseconds for an error, between a run that is more accurate and one that is less."""
    rows = [r for r in rows if np.isfinite(r[1]) and r[1] > 0]
    pairs = [(a, b) for a, b in pairwise(rows) if a[1] >= aim >= b[1]]
    if pairs:
        logs = [(-np.log([a[1], b[1]]), np.log([a[0], b[0]])) for a, b in pairs]
        return min(float(np.exp(np.interp(-np.log(aim), *line))) for line in logs)
    if not rows:
        return "unstable"
    ms, error = rows[0] if rows[0][1] < aim else rows[-1]
    return f"{ms:.3g} at {error:.1e}"


def goes_on(run: Run, times_as_long: float) -> bool:
    """Whether a more accurate run is of use, and takes no longer than one has patience."""
    return not run.error < FINE and times_as_long * run.seconds < PATIENCE


def fixed(
    name: str, system: jm.System, state: jm.State, span: float, error: Any, taken: Callable[[str], bool]
) -> Iterator[Run]:
    """Equal steps of every scheme."""
    linear_system = jm.MatrixLinearSystem.build(system, state)
    made = {n: k(linear_system) for n, k in IMPLICIT.items()} | {n: k(check_step=False) for n, k in EXPLICIT.items()}
    for scheme, integrator in made.items():
        if not taken(scheme):
            continue
        end = equal_steps(system, state, integrator, span)
        for steps in STEPS:
            run = Run(scheme, partial(end, steps), error, steps=steps)
            yield run
            if not goes_on(run, 4.0):
                break


def adaptive(
    name: str, system: jm.System, state: jm.State, span: float, error: Any, taken: Callable[[str], bool]
) -> Iterator[Run]:
    """Steps of the size that a tolerance asks for."""
    linear_system = jm.MatrixLinearSystem.build(system, state)
    made = {
        "TRBDF2": (I.TRBDF2(linear_system), False),
        "TRBDF2 +": (I.TRBDF2(linear_system), True),
        "TRBDF2 + newton": (I.TRBDF2(linear_system, newton=True), True),
        "ImplicitEuler +": (jm.ImplicitEuler(linear_system), True),
        "Midpoint +": (I.Midpoint(linear_system), True),
        "Midpoint + newton": (I.Midpoint(linear_system, newton=True), True),
        "VelocityVerlet +": (I.VelocityVerlet(check_step=False), True),
        "RK4 +": (I.RK4(check_step=False), True),
        "Tsitouras": (I.Tsitouras(check_step=False), False),
    }

    for scheme, (integrator, extrapolate) in made.items():
        if not taken(f"adaptive {scheme}"):
            continue
        last, info = adaptive_steps(system, state, integrator, span, extrapolate)
        for rtol in TOLERANCES:
            counts = info(rtol)
            told = {"steps": int(counts.accepted), "turns": int(counts.turns)}
            run = Run(f"adaptive {scheme}", partial(last, rtol), error, rtol=rtol, **told)
            yield run
            if not goes_on(run, 10 ** (1 / integrator.order)):
                break


def beside_diffrax(
    name: str, system: jm.System, state: jm.State, span: float, error: Any, taken: Callable[[str], bool]
) -> Iterator[Run]:
    """Its adaptive methods on the same scene."""
    import diffrax

    term, y0 = I.ode_term(system, state), (state.position, state.velocity)
    for method in (diffrax.Tsit5(), diffrax.Kvaerno5()):
        scheme = f"diffrax {type(method).__name__}"
        if not taken(scheme):
            continue

        def solve(rtol: jax.Array, end: jax.Array, method: Any = method) -> Any:
            control = diffrax.PIDController(rtol=rtol, atol=rtol * 1e-2)
            options = {"stepsize_controller": control, "max_steps": 200_000, "throw": False}
            return diffrax.diffeqsolve(term, method, 0.0, end, None, y0, saveat=diffrax.SaveAt(t1=True), **options)

        @jax.jit
        def last(rtol: jax.Array, end: jax.Array, solve: Any = solve) -> jm.State:
            x, v = jax.tree.map(lambda a: a[0], solve(rtol, end).ys)
            return jm.State(x, v, state.time)

        counts = jax.jit(lambda rtol, end, solve=solve: solve(rtol, end).stats)
        for rtol in TOLERANCES[2:]:
            _, seconds, _ = cpu(partial(last, jnp.asarray(rtol), jnp.asarray(span / 50)), 1)
            if 50 * seconds > PATIENCE_BESIDE:
                report(scene=name, scheme=scheme, rtol=rtol, left_out=f"some {50 * seconds:.0f} CPU s")
                break
            told = counts(jnp.asarray(rtol), jnp.asarray(span))
            steps = {"steps": int(told["num_accepted_steps"]), "turns": int(told["num_steps"])}
            run = Run(scheme, lambda rtol=rtol: last(jnp.asarray(rtol), jnp.asarray(span)), error, rtol=rtol, **steps)
            yield run
            if run.error < FINE:
                break
