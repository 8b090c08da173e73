"""A notched metal bar, pulled beyond its yield stress, unloaded, and pressed: what stays, and how it hardens.

Isotropic and kinematic hardening. Far from the notches the strain that stays is known: (stress - yield stress) / (H + C).

    python examples/plastic_bar.py [--picture output/bar.png] [--series output/bar.pvd]
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
YOUNG, POISSON, YIELD, ISOTROPIC, KINEMATIC = 200e3, 0.3, 250.0, 500.0, 1500.0  # [MPa], a nu among them
LENGTH, HEIGHT, DEPTH = 60.0, 10.0, 0.3  # [mm]; how much of the height the notches take
LOADS = [*np.linspace(0.0, 270.0, 10), *np.linspace(240.0, -270.0, 18), *np.linspace(-230.0, 0.0, 6)]  # [MPa] far away


def quarter():
    """The upper right quarter, squeezed under the notch above `x = 0`."""
    mesh = jm.mesh.box_mesh(cells=(18, 6), size=(LENGTH / 2, HEIGHT / 2), kind="quad")
    x, y = np.asarray(mesh.points).T
    x = LENGTH / 2 * (x / (LENGTH / 2)) ** 1.5  # finer at the notch
    return jm.mesh.Mesh(np.stack([x, y * (1 - DEPTH * np.exp(-((4 * x / HEIGHT) ** 2)))], axis=1), mesh.cells, "quad")


def scene(mesh):
    """Symmetric at the left and below, pulled at the right, a millimetre thick, in plane stress."""
    law = jm.material.J2Plasticity(YOUNG, POISSON, YIELD, ISOTROPIC, KINEMATIC)
    end = mesh.faces_where(lambda x: np.isclose(x[:, 0], LENGTH / 2))
    return jm.System(
        {"bar": jm.Vec2()},
        forces={
            "metal": jm.force.SolidFEM.from_mesh("bar", mesh, law, plane="stress"),
            "load": jm.force.Traction.from_mesh("bar", end, [0.0, 0.0]),
        },
        constraints={
            "left": jm.constraint.FixedPlane(("bar", mesh.nodes_where(lambda x: x[:, 0] == 0)), (1.0, 0.0)),
            "below": jm.constraint.FixedPlane(("bar", mesh.nodes_where(lambda x: x[:, 1] == 0)), (0.0, 1.0)),
        },
    )


def main(picture="output/bar.png", series=None, loads=LOADS):
    """The strain that stays far from the notch after the first load, measured and by hand, and the highest stress left."""
    mesh = quarter()
    bar = scene(mesh)
    state = bar.at_rest({"bar": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(bar, state, jm.Terms(mass=False, damping=False))
    far = jm.output.Probe.build(mesh, [[0.80 * LENGTH / 2, 1.0], [0.95 * LENGTH / 2, 1.0]])
    apart = far.of_nodes(mesh.points)[1, 0] - far.of_nodes(mesh.points)[0, 0]

    def step(state, load):
        system = eqx.tree_at(lambda s: s.forces["load"].traction, bar, load * jnp.array([1.0, 0.0]))
        state = jm.static_solve(system, state, linear_system).state
        fields = jm.output.gauss_fields(system, state, "metal")
        moved = far.of_nodes(state.position["bar"] - mesh.points)[:, 0]
        nodal = jm.output.at_nodes(fields, fields.von_mises)
        return state, ((moved[1] - moved[0]) / apart, nodal, state.position["bar"] - mesh.points)

    _, rows = jax.lax.scan(step, state, jnp.asarray(loads))
    strain, stress, moves = (np.asarray(row) for row in rows)
    if series:
        data = {"displacement": moves, "von Mises": stress}
        jm.output.write_series(series, mesh, np.arange(float(len(loads))), point_data=data)
    top = int(np.argmax(loads))
    draw(mesh, loads, strain, stress[top], Path(picture))
    measured, expected = strain[top] - loads[top] / YOUNG, (loads[top] - YIELD) / (ISOTROPIC + KINEMATIC)
    print(f"plastic strain far from the notch: {measured:.5f}, by hand {expected:.5f}; at the end {strain[-1]:.5f}")
    return float(measured), float(expected), float(stress[-1].max())


def draw(mesh, loads, strain, stress, picture):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    left.plot(100 * strain, loads, color="tab:blue")
    left.set(xlabel="strain far from the notch [%]", ylabel="stress there [MPa]", title="Pulled, unloaded, pressed")
    triangles = np.asarray(jm.mesh.quads_to_triangles(mesh).mesh.cells)
    drawn = right.tripcolor(*np.asarray(mesh.points).T, triangles, stress, shading="gouraud", cmap="viridis")
    figure.colorbar(drawn, ax=right, label="von Mises stress [MPa]", orientation="horizontal")
    right.set(aspect="equal", xlabel="x [mm]", ylabel="y [mm]", title="A quarter of it, under the highest load")
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", default="output/bar.png")
    parser.add_argument("--series", help="files for ParaView, .pvd or .xdmf")
    main(**vars(parser.parse_args()))
