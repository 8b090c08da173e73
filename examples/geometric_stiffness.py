"""What the geometric stiffness of a mapping is for: a falling chain whose springs know distances only.

Twenty masses in a row, the first one fixed; the elongation of each link is a mapped state, and the only springs act there.
Their stiffness pulled back, `J^T K J`, knows nothing across the links: what holds a taut chain sideways is `G`, the tension
times the curvature of the distance. The same motion with and without it: tip, Newton iterations, and how long a step of one
linear solve may be. Case of SOFA's `PendulumDistanceMapping` scenes: k = 1000 N/m, 1e-3 kg in all, gravity -10 m/s2.
Draws output/geometric_stiffness.png.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
NODES, STIFFNESS, MASS, GRAVITY, DT = 20, 1000.0, 1e-3, -10.0, 0.01
FORMS = {"symmetric": "with G", "stabilized": "with G, positive part", "none": "without G"}


def chain(form):
    """The scene with one form of geometric stiffness, and its rest state: a horizontal row of 1 m."""
    x = np.stack([np.linspace(0.0, 1.0, NODES), np.zeros(NODES), np.zeros(NODES)], axis=1)
    a, b = np.arange(NODES - 1), np.arange(1, NODES)
    links = jm.mapping.DistanceMapping((("chain", a), ("chain", b)), "links", 1.0 / (NODES - 1), geometric_stiffness=form)
    system = jm.System(
        dofs={"chain": jm.Vec3(), "links": jm.Vec1()},
        mappings={"links": links},
        forces={"springs": jm.force.AnchoredSprings(("links", a), STIFFNESS, np.zeros((NODES - 1, 1)))},
        masses={"mass": jm.mass.UniformMass(("chain", np.arange(NODES)), MASS / NODES)},
        constraints={"nail": jm.constraint.Fixed(("chain", [0]))},
        gravity=(0.0, 0.0, GRAVITY),
    )
    return system, system.at_rest({"chain": x})


@jax.jit
def energy_of(system, states):
    """Potential plus kinetic energy [J] of every frame."""
    return jax.vmap(lambda state: jm.energy(system, state) + jm.mass.kinetic_energy(system, state))(states)


def fall(system, rest, dt, steps, *, newton):
    """The trajectory; steps that fail leave their reason in `info`."""
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, rest), newton=newton, max_steps=30)
    return jm.simulate(system, rest, integrator, dt, steps, throw=False)


def longest_step(system, rest):
    """The longest of some steps [s] with which one linear solve each loses energy over 1 s, as implicit Euler should."""
    longest = 0.0
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, rest))
    for dt in (5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2):
        run = jm.simulate(system, rest, integrator, dt, 256, throw=False)
        energy = energy_of(system, run.state)
        # Nothing feeds the chain: a total above the start (of which the fall of 1 m is the measure) is made by the steps.
        good = jnp.all(jnp.isfinite(energy)) & (jnp.max(energy) <= energy[0] + 0.01 * MASS * abs(GRAVITY))
        longest = dt if good and longest == dt / 2 or (good and dt == 5e-4) else longest
    return longest


def main(steps=200, picture="output/geometric_stiffness.png"):
    """`{form: (mean Newton iterations, failed steps, longest linear step [s], trajectory)}`."""
    results = {}
    print(f"{'':24} {'Newton iterations':>18} {'failed steps':>13} {'longest linear step':>20}")
    for form, label in FORMS.items():
        system, rest = chain(form)
        run = fall(system, rest, DT, steps, newton=True)
        failed = int(jnp.sum(run.info.result != jm.RESULTS.successful))
        iterations = float(jnp.mean(run.info.iterations))
        results[form] = (iterations, failed, longest_step(system, rest), run)
        print(f"{label:24} {iterations:18.2f} {failed:13} {1e3 * results[form][2]:17.1f} ms")
    draw(results, Path(picture))
    return results


def draw(results, path):
    """The chain every 50 ms, and the Newton iterations of every step."""
    figure, axes = plt.subplots(1, len(results) + 1, figsize=(14, 4), layout="constrained")
    for axis, (form, (_, _, _, run)) in zip(axes, results.items(), strict=False):
        x = np.asarray(run.position["chain"])[:101:5]
        for i, frame in enumerate(x):
            axis.plot(frame[:, 0], frame[:, 2], color=plt.get_cmap("viridis")(i / len(x)), lw=0.9)
        axis.set(title=FORMS[form], xlabel="x [m]", ylabel="z [m]", aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.2, 0.3))
        axes[-1].plot(run.info.iterations, label=FORMS[form], lw=0.9)
    axes[-1].set(title="Newton iterations of a step", xlabel="step")
    axes[-1].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
