"""Time schemes: what a step costs beside implicit Euler's, how far energy drifts, accuracy for each second of the CPU.

    python -m benchmarks.schemes cost compile gradient batch drift accuracy
        [--cells 4] [--steps 100] [--scene top] [--only RK4]

`cost`: a step of the cantilever with one linear solve and its gradient, as ratios to implicit Euler in the same process; CPU
seconds, the shortest of five runs, each beside one of implicit Euler. `compile`: their first calls, tracing too, as such
ratios, each in a process of its own. `gradient`: small motions, and their gradients;
`batch`: 256 of each by `vmap`. `drift`: the largest and the last change of energy in 10,000 steps of a mass that swings on a
spring, ten steps in the shorter period. `accuracy`: the error of the last state over the CPU seconds of the trajectory, on a
stiff pendulum, a double pendulum, a top, a beam, free and on a stop, and a ball that bounces (`benchmarks.accuracy`).
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.accuracy import accuracy
from benchmarks.clock import report
from benchmarks.motions import EXPLICIT, IMPLICIT, SCENES, arm, cpu, on_the_ground, sliding, swinging
from benchmarks.step import cantilever

BY_NEWTON = ("ImplicitEuler", "Midpoint", "EnergyMomentum")
MOTIONS = {**SCENES, "arm": (arm, 1.0), "sliding": (sliding, 1.0)}


def costs(cells: int, steps: int) -> None:
    """A step and a gradient, over those of implicit Euler."""
    system, state = cantilever(cells)
    calls = calls_of(system, state, steps)
    of_euler = calls(jm.ImplicitEuler)
    for name, kind in IMPLICIT.items():
        made = calls(kind)
        for call in (*of_euler, *made):
            cpu(call, 1)
        euler, forward, backward = np.min([[cpu(f, 1)[1] for f in (of_euler[0], *made)] for _ in range(5)], axis=0)
        report(
            scheme=name,
            nodes=state.position["beam"].shape[0],
            step_ms=1e3 * forward / steps,
            of_euler=forward / euler,
            gradient_over_trajectory=backward / forward,
        )


def calls_of(system: jm.System, state: jm.State, steps: int) -> Callable[[Any], tuple[Callable[[], Any], Callable[[], Any]]]:
    """By scheme, its trajectory, and the gradient of that."""
    linear_system = jm.MatrixLinearSystem.build(system, state)

    def calls(kind: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        integrator = kind(linear_system, solver=jm.solver.PCG(1e-8))

        def end(state: jm.State) -> jax.Array:
            path = jm.simulate(system, state, integrator, 0.01, steps, save_every=steps, throw=False)
            return jnp.sum(path.last.position["beam"] ** 2)

        return lambda: run(end, state), lambda: gradient(end, state)

    return calls


def compilations(cells: int, steps: int, rounds: int = 2) -> None:
    """First calls, over those of implicit Euler: the shortest of some, in turns. Each in a process of its own: kernels that
    an earlier one has compiled are known, whatever JAX forgets."""
    found = [{name: [first(name, call, cells, steps) for call in (0, 1)] for name in IMPLICIT} for _ in range(rounds)]
    least = {name: np.min([turn[name] for turn in found], axis=0) for name in IMPLICIT}
    for name, seconds in least.items():
        run_of_euler, gradient_of_euler = seconds / least["ImplicitEuler"]
        report(scheme=name, first_s=seconds[0], first_of_eulers=run_of_euler, first_gradient_of_eulers=gradient_of_euler)


def first(name: str, call: int, cells: int, steps: int) -> float:
    """CPU seconds of the first trajectory, or gradient, in a new process."""
    code = f"from benchmarks.schemes import first_here; print(first_here({name!r}, {call}, {cells}, {steps}))"
    made = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(made.stdout)


def first_here(name: str, call: int, cells: int, steps: int) -> float:
    """The same in this process."""
    jax.config.update("jax_enable_x64", True)
    return cpu(calls_of(*cantilever(cells), steps)(IMPLICIT[name])[call], 1)[0]


run = eqx.filter_jit(lambda end, state: end(state))
gradient = eqx.filter_jit(
    lambda end, state: jax.grad(lambda x: end(eqx.tree_at(lambda s: s.position["beam"], state, x)))(state.position["beam"])
)


def motions(chosen: str, steps: int) -> Iterator[tuple[str, str, Any, Callable[[Any], jax.Array]]]:
    """The motions (or the chosen one) by implicit schemes, of one solve or of Newton's iterations (`+ newton`), and explicit
    ones, or with contact; a thousandth of a scene's span each step: the first positions, and the squares of the last ones as
    a function of them."""
    for name, (build, span) in MOTIONS.items():
        if chosen and chosen != name:
            continue
        system, state = build()
        linear_system = jm.MatrixLinearSystem.build(system, state)
        made = {"ImplicitEuler": jm.ImplicitEuler(linear_system)}
        made |= {
            f"{n} + newton": IMPLICIT[n](linear_system, newton=True) for n in ("ImplicitEuler", "Midpoint", "EnergyMomentum")
        }
        made |= {n: k(check_step=False) for n, k in EXPLICIT.items()}
        for scheme, integrator in ({"FreeMotion": on_the_ground(linear_system)} if name == "sliding" else made).items():
            yield name, scheme, state.position, end_of(system, state, integrator, span / 1000, steps)


def gradients(chosen: str, steps: int) -> None:
    """Trajectories of the motions, and their gradients."""
    for name, scheme, position, end in motions(chosen, steps):
        calls = [partial(jax.jit(f), position) for f in (end, jax.grad(end))]
        first = [cpu(call, 1)[0] for call in calls]
        once, back = np.median([[cpu(call, 1)[1] for call in calls] for _ in range(9)], axis=0)
        costs = {"step_us": 1e6 * once / steps, "ratio": back / once}
        report(scene=name, scheme=scheme, **costs, first_s=first[0], first_gradient_s=first[1])


def batches(chosen: str, steps: int, members: int = 256) -> None:
    """The same of many by `vmap`, for each of them."""
    for name, scheme, position, end in motions(chosen, steps):
        many = jax.tree.map(lambda a: jnp.broadcast_to(a, (members, *a.shape)), position)
        calls = [partial(jax.jit(jax.vmap(f)), many) for f in (end, jax.grad(end))]
        once, back = np.min([[cpu(call, 1)[1] for call in calls] for _ in range(5)], axis=0) / (members * steps)
        report(scene=name, scheme=scheme, members=members, step_us=1e6 * once, gradient_us=1e6 * back)


def end_of(system: jm.System, state: jm.State, integrator: Any, h: float, steps: int) -> Callable[[Any], jax.Array]:
    """The squares of the last positions as a function of the first."""

    def end(x: Any) -> jax.Array:
        start = eqx.tree_at(lambda s: s.position, state, x)
        last = jm.simulate(system, start, integrator, h, steps, save_every=steps, throw=False).last
        return sum((jnp.sum(a**2) for a in last.position.values()), jnp.zeros(()))

    return end


def drift(steps: int = 10_000, dt: float = 0.02) -> None:
    """How the energy of the swinging mass changes over many steps, relative to the range of its kinetic energy."""
    system, state = swinging()
    linear_system = jm.MatrixLinearSystem.build(system, state)
    made = {n: (k(linear_system), k(linear_system, newton=True, rtol=1e-13)) for n, k in IMPLICIT.items()}
    made |= {n: (k(),) for n, k in EXPLICIT.items()}

    def level(s: jm.State) -> jax.Array:
        return jm.energy(system, s) + jm.mass.kinetic_energy(system, s)

    for name, integrators in made.items():
        for integrator in integrators:
            path = jm.simulate(system, state, integrator, dt, steps, save_every=10, throw=False)
            change = np.asarray(jax.jit(jax.vmap(level))(path.state)) - float(level(state))
            newton = getattr(integrator, "newton", None)
            report(scheme=name, newton=newton, largest=float(np.abs(change).max()), mean_of_last=float(change[-100:].mean()))


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", choices=("cost", "compile", "gradient", "batch", "drift", "accuracy"))
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--scene", default="", choices=("", *MOTIONS))
    parser.add_argument("--only", nargs="+", default=(), help="schemes whose accuracy is measured, as they are printed")
    given = parser.parse_args()
    if "cost" in given.what:
        costs(given.cells, given.steps)
    if "compile" in given.what:
        compilations(given.cells, given.steps)
    if "gradient" in given.what:
        gradients(given.scene, given.steps)
    if "batch" in given.what:
        batches(given.scene, given.steps)
    if "drift" in given.what:
        drift()
    if "accuracy" in given.what:
        accuracy(given.scene, tuple(given.only))


if __name__ == "__main__":
    main()
