"""A shallow cylindrical roof that snaps through under a force in its middle.

Hinged along its straight edges, free along the curved ones: the classical test of geometrically nonlinear shells. A quarter
of it, in triangles of frames; the path goes through two limit points, and the load is down to a fraction between them.

    python examples/snapping_shell.py [--picture output/roof.png]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm

try:
    import matplotlib.pyplot as plt
except ImportError as error:
    raise ImportError(f'{error.name} is missing: pip install "jaxmech[viz]".') from error

jax.config.update("jax_enable_x64", True)
RADIUS, ANGLE, HALF, THICKNESS = 2.54, 0.1, 0.254, 0.0127  # [m], [rad] from the middle to a hinge, half the length [m]
YOUNG, POISSON = 3.10275e9, 0.3


def roof(n):
    """A quarter of the roof: its mesh, and the numbers of its nodes, around (0: the middle) and along."""
    a, y = np.meshgrid(np.linspace(0, ANGLE, n + 1), np.linspace(0, HALF, n + 1), indexing="ij")
    number = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    p, q, r, s = number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]
    cells = np.concatenate([np.stack(c, -1).reshape(-1, 3) for c in ((p, q, r), (p, r, s))])
    x = np.stack([RADIUS * np.sin(a), y, RADIUS * (np.cos(a) - 1)], axis=-1).reshape(-1, 3)
    return jm.mesh.Mesh(x, cells, "triangle"), number


def held(nodes, *components):
    return jm.constraint.FixedComponents(("roof", nodes), tuple(i in components for i in range(6)))


def main(n=6, steps=60, picture="output/roof.png"):
    """The load at the first limit point [N], and the least load after it."""
    mesh, number = roof(n)
    shell = jm.force.Shell.from_mesh("roof", mesh, YOUNG, POISSON, THICKNESS)
    constraints = {
        "hinge": held(number[-1], 0, 1, 2),
        "middle, across": held(number[0], 0, 4, 5),
        "middle, along": held(number[:, 0], 1, 3, 5),
    }

    def scene(load):
        down = load * jnp.array([0.0, 0.0, -0.25])  # a quarter of it [N]
        forces = {"shell": shell, "load": jm.force.ConstantForce(("roof", number[:1, 0]), down)}
        return jm.System({"roof": jm.Rigid3()}, forces=forces, constraints=constraints)

    rest = scene(0.0).at_rest({"roof": shell.rest})
    path = jm.follow_path(scene, rest, step=200.0, steps=steps, to=3000.0, displacement=("roof", int(number[0, 0]), 2))
    limits = [float(c.load) for c in path.critical if c.kind == "limit"]
    print(f"limit loads {[f'{load:.0f} N' for load in limits]}")
    draw(mesh, path, number, Path(picture))
    return limits[0], limits[-1]


def draw(mesh, path, number, picture):
    figure = plt.figure(figsize=(10, 4.2), layout="constrained")
    left = jm.viz.draw_path(path, axes=figure.add_subplot(1, 2, 1))
    left.set(xlabel="displacement of the middle [m]", ylabel="load [N]")
    right = figure.add_subplot(1, 2, 2, projection="3d")
    last = np.asarray(path.state.position["roof"][-1, :, :3])
    for x, color in ((np.asarray(mesh.points), "tab:blue"), (last, "tab:red")):
        for signs in ((1, 1, 1), (-1, 1, 1), (1, -1, 1), (-1, -1, 1)):
            right.plot_trisurf(*(x * signs).T, triangles=np.asarray(mesh.cells), color=color, alpha=0.5)
    right.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]", title="at rest, and at the end of the path")
    right.zaxis.labelpad = 12  # beside its numbers
    right.set_box_aspect(None, zoom=0.85)  # ... and within the figure
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", default="output/roof.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
