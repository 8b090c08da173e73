"""A stack of boxes: it stands, and every contact bears the weight above it.

Corners of each box against the boxes above and below, and against the floor. How far the stack moves in a while, and by how
much the forces differ from the weights.

    python examples/stack.py [--picture output/stack.png]
"""

import argparse
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

import jaxmech as jm

try:
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle
except ImportError as error:
    raise ImportError(f'{error.name} is missing: pip install "jaxmech[viz]".') from error

jax.config.update("jax_enable_x64", True)
HALF, MASS, G = np.array([0.1, 0.1, 0.05]), 1.0, 9.81
CORNERS = HALF * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])


def scene(count):
    """Boxes of equal size, one upon the other."""
    owners = np.repeat(np.arange(count), 8)
    system = jm.System(
        {"box": jm.Rigid3(), "corners": jm.Vec3()},
        mappings={"fixed": jm.mapping.RigidMapping(("box", owners), "corners", np.tile(CORNERS, (count, 1)))},
        masses={"mass": jm.mass.RigidMass(("box", np.arange(count)), MASS, 0.01 * np.eye(3))},
        gravity=[0.0, 0.0, -G],
    )
    frames = np.zeros((count, 7))
    frames[:, 2], frames[:, 6] = HALF[2] * (1 + 2 * np.arange(count)), 1.0
    corners, near = ("corners", np.arange(8 * count)), {"friction": 0.5, "margin": 0.02}
    between = {"frames": ("box", np.arange(count)), "owners": owners, "capacity": 8 * (count - 1)}
    contacts = {
        "boxes": jm.contact.PointContact(corners, jm.contact.Box(HALF), **between, **near),
        "floor": jm.contact.PointContact(corners, jm.contact.Plane(), capacity=8, **near),
    }
    start = system.at_rest({"box": frames})
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start))
    return system, start, jm.integrator.FreeMotion(motion, contacts, tolerance=1e-11)


def main(picture="output/stack.png", count=4, steps=40, dt=0.02):
    """The largest motion [m], and the largest relative error of the force under a box."""
    system, start, scheme = scene(count)
    run = eqx.filter_jit(lambda s: jm.simulate(system, s, scheme, dt=dt, steps=steps))(start)
    drift = float(np.abs(run.position["box"] - start.position["box"]).max())
    pushes, pair = (np.asarray(a[-1]) for a in (run.info.contacts.impulse[..., 0] / dt, run.info.contacts.pair))
    boxes = 8 * (count - 1)
    lower = np.minimum(pair[:boxes] // count // 8, pair[:boxes] % count)
    under = [pushes[boxes:].sum(), *(pushes[:boxes][lower == k].sum() for k in range(count - 1))]
    weights = MASS * G * (count - np.arange(count))
    error = float(np.abs(np.array(under) / weights - 1).max())
    print(f"{count} boxes: moved by {drift:.1e} m in {steps * dt:g} s; forces differ from weights by {error:.1e}")
    draw(picture, np.asarray(run.last.position["box"]), under)
    return drift, error


def draw(picture, frames, under):
    """The boxes from the side, and the force under each."""
    figure, axes = plt.subplots(figsize=(4, 6), layout="constrained")
    for frame, force in zip(frames, under, strict=True):
        corner = frame[0] - HALF[0], frame[2] - HALF[2]
        axes.add_patch(Rectangle(corner, 2 * HALF[0], 2 * HALF[2], fc="#d9c6b0", ec="k"))
        axes.text(frame[0], frame[2] - 0.95 * HALF[2], f"{force:.2f} N", ha="center", va="bottom")
    axes.axhline(0.0, color="k")
    axes.set(xlabel="x [m]", ylabel="z [m]")
    axes.set(xlim=(-0.3, 0.3), ylim=(-0.05, 2 * HALF[2] * len(frames) + 0.05), aspect="equal", title="Forces under boxes")
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", default="output/stack.png")
    main(**vars(parser.parse_args()))
