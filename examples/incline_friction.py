"""A block slides down an incline; its coefficient of friction is found from where it was seen.

A box of 2 kg with four corners on a plane at 30 degrees starts downhill. Seen is its place at every frame, with noise of a
tenth of a millimetre. Unknowns: the friction and the speed at the start. Gauss-Newton, with exact derivatives through all
contacts of the trajectory.

    python examples/incline_friction.py [--picture output/incline.png]
"""

import argparse
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm

try:
    import matplotlib.pyplot as plt
except ImportError as error:
    raise ImportError(f'{error.name} is missing: pip install "jaxmech[viz]".') from error

jax.config.update("jax_enable_x64", True)
ANGLE, HALF, G = np.pi / 6, np.array([0.5, 0.5, 0.25]), 9.81
TURN = np.array([0.0, np.sin(ANGLE / 2), 0.0, np.cos(ANGLE / 2)])  # about y: x falls
DOWNHILL, NORMAL = np.array([np.cos(ANGLE), 0, -np.sin(ANGLE)]), np.array([np.sin(ANGLE), 0, np.cos(ANGLE)])


def scene():
    """The box on the plane."""
    corners = HALF * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    system = jm.System(
        {"box": jm.Rigid3(), "corners": jm.Vec3()},
        mappings={"fixed": jm.mapping.RigidMapping(("box", [0] * 8), "corners", corners)},
        masses={"mass": jm.mass.RigidMass(("box", [0]), 2.0, np.diag([0.2, 0.2, 0.3]))},
        gravity=[0.0, 0.0, -G],
    )
    start = system.at_rest({"box": [[*(HALF[2] * NORMAL), *TURN]]})
    plane = jm.contact.PointContact(("corners", range(8)), jm.contact.Plane(), friction=0.1, at=[0.0, 0.0, 0.0, *TURN])
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start))
    return system, start, jm.integrator.FreeMotion(motion, {"plane": plane})


def track(unknowns, bodies, dt, steps):
    """How far downhill the box is [m] at every frame, of friction and the speed at the start."""
    system, start, scheme = bodies
    friction, speed = unknowns
    scheme = eqx.tree_at(lambda s: s.contacts["plane"].friction, scheme, friction)
    velocity = jnp.zeros((1, 6)).at[0, :3].set(speed * DOWNHILL)
    run = jm.simulate(system, jm.State(start.position, {"box": velocity}, start.time), scheme, dt=dt, steps=steps)
    return (run.position["box"][:, 0, :3] - start.position["box"][0, :3]) @ DOWNHILL


def main(picture="output/incline.png", steps=50, dt=0.02, truth=(0.3, 0.8), noise=1e-4):
    """The friction and the speed [m/s] that were found, and how they went there."""
    bodies = scene()

    def twice(unknowns, bodies):
        x = track(unknowns, bodies, dt, steps)
        return x, x

    both = eqx.filter_jit(jax.jacfwd(twice, has_aux=True))  # the Jacobian, and the track
    seen = both(jnp.array(truth), bodies)[1] + noise * np.random.default_rng(0).normal(size=steps + 1)
    unknowns, path, tracks = jnp.array([0.1, 0.3]), [], []
    for step in range(8):
        J, x = both(unknowns, bodies)
        path.append(np.asarray(unknowns))
        tracks.append(np.asarray(x))
        change = jnp.linalg.lstsq(J, seen - x)[0]
        print(f"step {step}: friction {unknowns[0]:.5f}, speed {unknowns[1]:.5f} m/s, misfit {jnp.std(seen - x):.1e} m")
        if jnp.linalg.norm(change) < 1e-8:
            break
        unknowns = unknowns + change
    draw(picture, dt, seen, tracks)
    return np.asarray(unknowns), path


def draw(picture, dt, seen, tracks):
    """What was seen, and the tracks of all steps."""
    figure, axes = plt.subplots(figsize=(6, 4))
    time = dt * np.arange(len(seen))
    axes.plot(time, seen, "k.", markersize=4, label="seen")
    for number, x in enumerate(tracks):
        axes.plot(time, x, color="#d9772b", alpha=(number + 1) / len(tracks), label=f"step {number}")
    axes.set(xlabel="time [s]", ylabel="downhill [m]", title="A block on an incline")
    axes.legend()
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", default="output/incline.png")
    main(**vars(parser.parse_args()))
