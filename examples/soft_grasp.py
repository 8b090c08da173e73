"""Two soft fingers grasp a box and lift it; the friction between them is found from how the box was seen to move.

Fingers of silicone hang from roots that are led together, then up: a weak grip slips, and the firmer it gets, the less.
Seen is the height of the box at every frame, with noise of a tenth of a millimetre. Gauss-Newton, with the exact derivative
through the contacts of two soft bodies with a rigid one, and of that with the floor. Draws output/soft_grasp.png.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
LENGTH, WIDTH, THICK, HALF = 0.06, 0.02, 0.012, 0.015  # of a finger, half a side of the box [m]
MESH = jm.mesh.box_mesh(cells=(1, 1, 5), size=(THICK, WIDTH, LENGTH))
LEANING = (np.asarray(MESH.points) + [HALF + 0.001, -WIDTH / 2, 0.005]) @ [
    [1, 0, 0],
    [0, 1, 0],
    [0.1, 0, 1],
]  # outwards: tips touch first
X = np.concatenate([LEANING, LEANING * [-1, 1, 1]])  # the left finger is the mirror image of the right one
CELLS = np.concatenate([MESH.cells, np.asarray(MESH.cells)[:, [0, 2, 1, 3]] + len(LEANING)])
ROOT = np.flatnonzero(X[:, 2] > LENGTH)
SKIN = np.flatnonzero((np.abs(X[:, 0]) - 0.1 * X[:, 2] < HALF + 0.002) & (X[:, 2] < 0.04))  # looks at the box
CORNERS = HALF * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])


def scene():
    """Fingers and box at rest, and the steps with contact."""
    inwards, up = -0.003 * np.sign(X[ROOT, :1]) * [[1.0, 0.0, 0.0]], np.array([0.0, 0.0, 0.03])
    led = {"displacements": np.stack([0 * inwards, inwards, 2.5 * inwards + up], axis=1), "times": [0.0, 0.1, 0.5]}
    system = jm.System(
        {"fingers": jm.Vec3(), "box": jm.Rigid3(), "corners": jm.Vec3()},
        forces={"silicone": jm.force.TetrahedronFEM(("fingers", CELLS), X, jm.material.NeoHookean(7e5, 0.3))},
        masses={
            "fingers": jm.mass.ConsistentMass(("fingers", CELLS), X, 1070.0),
            "box": jm.mass.RigidMass(("box", [0]), 0.02, 0.02 * HALF**2 * 2 / 3 * np.eye(3)),
        },
        mappings={"corners": jm.mapping.RigidMapping(("box", [0] * 8), "corners", CORNERS)},
        constraints={"hand": jm.constraint.PrescribedMotion(("fingers", ROOT), X[ROOT], **led)},
        rayleigh={"silicone": 0.01},
        gravity=[0.0, 0.0, -9.81],
    )
    start = system.at_rest({"fingers": X, "box": [[0.0, 0.0, HALF, 0.0, 0.0, 0.0, 1.0]]})
    contacts = {
        "grip": jm.contact.PointContact(("fingers", SKIN), jm.contact.Box([HALF] * 3), frames=("box", [0])),
        "floor": jm.contact.PointContact(("corners", range(8)), jm.contact.Plane(), friction=0.3),
    }
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start))
    return system, start, jm.integrator.FreeMotion(motion, contacts)


def lifted(slippery, hand, dt, steps, throw=True):
    """Heights of the box [m] and the trajectory by 1 / friction of the fingers: nearly linear, as the grip grows."""
    system, start, scheme = hand
    scheme = eqx.tree_at(lambda s: s.contacts["grip"].friction, scheme, 1 / slippery)
    run = jm.simulate(system, start, scheme, dt=dt, steps=steps, throw=throw)
    return run.position["box"][:, 0, 2], run


def main(picture="output/soft_grasp.png", steps=50, dt=0.01, truth=0.3, noise=1e-4):
    """The friction that was found, and the heights of the box [m] with it."""
    hand, one = scene(), jnp.ones(())
    both = jax.jit(lambda s: jax.jvp(lambda s: lifted(s, hand, dt, steps), (s,), (one,), has_aux=True))
    seen = both(one / truth)[0] + noise * np.random.default_rng(0).normal(size=steps + 1)
    slippery, tried, run = 2.0 * one, [], None  # of a weak type, it were another program
    for step in range(6):
        z, slope, run = both(slippery)
        tried.append(z)
        print(f"step {step}: friction {1 / slippery:.5f}, misfit {jnp.std(seen - z):.1e} m")
        slippery = slippery + slope @ (seen - z) / (slope @ slope)
    draw(picture, run, np.asarray(seen), tried, dt)
    return float(1 / slippery), np.asarray(tried[-1])


def draw(picture, run, seen, tried, dt):
    """The hand at three instants, and the heights that were seen and tried."""
    figure, axes = plt.subplots(1, 4, figsize=(11, 4), width_ratios=[1, 1, 1, 2.2], layout="constrained")
    last, edges = len(seen) - 1, np.concatenate([MESH.edges(), MESH.edges() + len(LEANING)])
    for axis, frame in zip(axes, (0, last // 2, last), strict=False):
        axis.plot(*1e3 * np.asarray(run.position["fingers"][frame])[edges][..., [0, 2]].T, "#d9772b", lw=1)
        corner = 1e3 * (np.asarray(run.position["box"][frame, 0])[[0, 2]] - HALF)
        axis.add_patch(Rectangle(corner, 2e3 * HALF, 2e3 * HALF, fc="#d9c6b0", ec="k"))
        axis.axhline(0.0, color="k")
        axis.set(xlim=(-40, 40), ylim=(-5, 110), aspect="equal", title=f"{frame * dt:g} s", xlabel="x [mm]", ylabel="z [mm]")
    axes[3].plot(dt * np.arange(last + 1), 1e3 * np.stack(tried, axis=1), color="#d9772b", alpha=0.5)
    axes[3].plot(dt * np.arange(last + 1), 1e3 * seen, "k.", ms=4)
    axes[3].set(xlabel="time [s]", ylabel="height of the box [mm]", title="Tried (lines), and seen (dots)")
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    main()
