"""Time schemes: what a step costs beside implicit Euler's, how far energy drifts, accuracy for each second of the CPU.

    python -m benchmarks.schemes cost compile drift accuracy [--cells 4] [--steps 100] [--scene top]

`cost`: a step of the cantilever with one linear solve and its gradient, as ratios to implicit Euler in the same process; CPU
seconds, the shortest of five runs, each beside one of implicit Euler. `compile`: their first calls, tracing too, as such
ratios, after JAX has forgotten all that it traced and compiled before. `drift`: the largest and the last change of energy in
10,000 steps of a mass that swings on a spring, ten steps in the shorter period. `accuracy`: the error of the last state over
the CPU seconds of the trajectory, on a stiff pendulum, a double pendulum, a top and a beam, and diffrax's Tsit5 and Kvaerno5
with their own steps beside; the reference is RK4 with steps of a hundredth.
"""

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import report
from benchmarks.step import cantilever

I = jm.integrator
IMPLICIT = {
    "ImplicitEuler": jm.ImplicitEuler,
    "Midpoint": I.Midpoint,
    "Trapezoid": I.Trapezoid,
    "Newmark": I.Newmark,
    "HHT": I.HHT,
    "GeneralizedAlpha": I.GeneralizedAlpha,
    "BDF2": lambda linear_system, **options: I.BDF(linear_system, order=2, **options),
    "BDF3": lambda linear_system, **options: I.BDF(linear_system, order=3, **options),
    "TRBDF2": I.TRBDF2,
    "EnergyMomentum": I.EnergyMomentum,
}
EXPLICIT = {
    "SymplecticEuler": I.SymplecticEuler,
    "VelocityVerlet": I.VelocityVerlet,
    "CentralDifference": I.CentralDifference,
    "RK4": I.RK4,
}


def cpu(function: Callable[[], Any], runs: int = 3) -> tuple[float, float, Any]:
    """CPU seconds of the first call, of the shortest of some more, and the last value."""
    times = []
    for _ in range(runs + 1):
        start = time.process_time()
        value = jax.block_until_ready(function())
        times.append(time.process_time() - start)
    return times[0], min(times[1:]), value


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
    """First calls, over those of implicit Euler: the shortest of some, in turns."""
    calls = calls_of(*cantilever(cells), steps)
    for call in calls(jm.ImplicitEuler):
        cpu(call, 1)  # kernels are compiled, which JAX does not forget

    def first(call: Callable[[], Any]) -> float:
        jax.clear_caches()
        gc.collect()
        gc.freeze()  # else some calls, and not others, go through what all before them left
        return cpu(call, 1)[0]

    found = [{name: [first(call) for call in calls(kind)] for name, kind in IMPLICIT.items()} for _ in range(rounds)]
    least = {name: np.min([turn[name] for turn in found], axis=0) for name in IMPLICIT}
    for name, seconds in least.items():
        run_of_euler, gradient_of_euler = seconds / least["ImplicitEuler"]
        report(scheme=name, first_s=seconds[0], first_of_eulers=run_of_euler, first_gradient_of_eulers=gradient_of_euler)


run = eqx.filter_jit(lambda end, state: end(state))
gradient = eqx.filter_jit(
    lambda end, state: jax.grad(lambda x: end(eqx.tree_at(lambda s: s.position["beam"], state, x)))(state.position["beam"])
)


def swinging():
    """A mass that swings on a spring; periods of 1 s and 2 s."""
    system = jm.System(
        {"p": jm.Vec2()},
        forces={"spring": jm.force.Springs((("p", [0]), ("p", [1])), 40.0, 1.0)},
        masses={"mass": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
        constraints={"nail": jm.constraint.Fixed(("p", [0]))},
        gravity=[0.0, -9.81],
    )
    return system, system.at_rest({"p": [[0.0, 0.0], [1.2, 0.1]]})


def stiff_pendulum():
    """The same on a spring a thousand times as stiff."""
    system, state = swinging()
    return eqx.tree_at(lambda s: s.forces["spring"].stiffness, system, jnp.asarray(4e4)), eqx.tree_at(
        lambda s: s.position["p"], state, jnp.array([[0.0, 0.0], [1.0, 0.0]])
    )


def double_pendulum():
    """Two joints, masses of 1 kg on rods of 1 m, both level at first: positions are functions of angles."""

    def tips(q: jax.Array) -> jax.Array:
        first = jnp.stack([jnp.sin(q[0]), -jnp.cos(q[0])])
        return jnp.concatenate([first, first + jnp.stack([jnp.sin(q[1]), -jnp.cos(q[1])])])

    def first(a: jax.Array) -> jax.Array:
        return tips(jnp.concatenate([a, a]))[:2]

    def second(a: jax.Array, b: jax.Array) -> jax.Array:
        return tips(jnp.concatenate([a, b]))[2:]

    system = jm.System(
        {"q": jm.Vec1(), "upper": jm.Vec2(), "lower": jm.Vec2()},
        masses={"upper": jm.mass.UniformMass(("upper", [0]), 1.0), "lower": jm.mass.UniformMass(("lower", [0]), 1.0)},
        mappings={
            "upper": jm.mapping.FunctionMapping(("q", [0]), "upper", first),
            "lower": jm.mapping.FunctionMapping((("q", [0]), ("q", [1])), "lower", second),
        },
        gravity=[0.0, -9.81],
    )
    return system, system.at_rest({"q": [[np.pi / 2], [np.pi / 2]]})


def top():
    """A disc that spins at 40 rad/s, on a spring at its edge."""
    system = jm.System(
        {"top": jm.Rigid3(), "eye": jm.Vec3()},
        forces={"spring": jm.force.AnchoredSprings(("eye", [0]), 150.0, [[0.0, 0.0, 0.08]])},
        masses={"disc": jm.mass.RigidMass(("top", [0]), 0.5, np.diag([1.3e-3, 1.3e-3, 2.5e-3]))},
        mappings={"edge": jm.mapping.RigidMapping(("top", [0]), "eye", [[0.1, 0.0, 0.0]])},
        gravity=[0.0, 0.0, -9.81],
    )
    state = system.at_rest({"top": [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]})
    return system, eqx.tree_at(lambda s: s.velocity["top"], state, jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 40.0]]))


def beam():
    """A clamped strip of triangles that falls under its weight."""
    mesh = jm.mesh.box_mesh(cells=(8, 1), size=(4.0, 0.5))
    solid = jm.force.TriangleFEM.from_mesh("beam", mesh, jm.material.StVenantKirchhoff(2e4, 0.3), plane="stress")
    system = jm.System(
        {"beam": jm.Vec2()},
        forces={"solid": solid},
        masses={"mass": jm.mass.UniformMass.of_total(("beam", range(18)), 2.0)},
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=[0.0, -9.81],
    )
    return system, system.at_rest({"beam": mesh.points})


SCENES = {
    "stiff pendulum": (stiff_pendulum, 0.5),
    "double pendulum": (double_pendulum, 1.0),
    "top": (top, 0.5),
    "beam": (beam, 0.5),
}


def numbers(state: jm.State) -> np.ndarray:
    return np.concatenate([np.ravel(a) for a in (*state.position.values(), *state.velocity.values())])


def trajectory(system: jm.System, state: jm.State, integrator: Any, span: float) -> Callable[[int], jm.State]:
    """A compiled function of the number of steps."""

    @jax.jit
    def end(steps: jax.Array) -> jm.State:
        def one(_: Any, at: Any) -> Any:
            return integrator.step(system, *at, span / steps, throw=False)[:2]

        return jax.lax.fori_loop(0, steps, one, (state, integrator.init(system, state)))[0]

    return lambda steps: end(jnp.asarray(steps))


def accuracy(chosen: str) -> None:
    """Error over CPU seconds."""
    for name, (build, span) in SCENES.items():
        if chosen and chosen != name:
            continue
        system, state = build()
        linear_system = jm.MatrixLinearSystem.build(system, state)
        reference = numbers(trajectory(system, state, I.RK4(check_step=False), span)(40000))
        size = np.linalg.norm(reference)
        made = {n: k(linear_system) for n, k in IMPLICIT.items()} | {n: k(check_step=False) for n, k in EXPLICIT.items()}
        for scheme, integrator in made.items():
            end = trajectory(system, state, integrator, span)
            for steps in (50, 200, 800, 3200):
                _, seconds, last = cpu(lambda end=end, steps=steps: end(steps))
                error = np.linalg.norm(numbers(last) - reference) / size
                report(scene=name, scheme=scheme, steps=steps, cpu_ms=1e3 * seconds, error=float(error))
        beside_diffrax(name, system, state, span, reference)


def beside_diffrax(name: str, system: jm.System, state: jm.State, span: float, reference: np.ndarray) -> None:
    """Its adaptive methods on the same scene."""
    import diffrax

    term, y0 = I.ode_term(system, state), (state.position, state.velocity)
    for method in (diffrax.Tsit5(), diffrax.Kvaerno5()):

        @jax.jit
        def solve(rtol: jax.Array, method: Any = method) -> Any:
            control = diffrax.PIDController(rtol=rtol, atol=rtol * 1e-2)
            return diffrax.diffeqsolve(
                term,
                method,
                0.0,
                span,
                None,
                y0,
                stepsize_controller=control,
                max_steps=200_000,
                throw=False,
                saveat=diffrax.SaveAt(t1=True),
            )

        for rtol in (1e-4, 1e-6, 1e-8):
            _, seconds, found = cpu(lambda solve=solve, rtol=rtol: solve(jnp.asarray(rtol)))
            x, v = jax.tree.map(lambda a: a[0], found.ys)
            error = np.linalg.norm(numbers(jm.State(x, v, state.time)) - reference) / np.linalg.norm(reference)
            steps = int(found.stats["num_steps"])
            report(scene=name, scheme=type(method).__name__, steps=steps, cpu_ms=1e3 * seconds, error=float(error))


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
    parser.add_argument("what", nargs="+", choices=("cost", "compile", "drift", "accuracy"))
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--scene", default="", choices=("", *SCENES))
    given = parser.parse_args()
    if "cost" in given.what:
        costs(given.cells, given.steps)
    if "compile" in given.what:
        compilations(given.cells, given.steps)
    if "drift" in given.what:
        drift()
    if "accuracy" in given.what:
        accuracy(given.scene)


if __name__ == "__main__":
    main()
