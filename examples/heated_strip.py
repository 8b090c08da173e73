"""A strip warms up on one side, and bends: temperature and position in one system, with a law of one's own.

Heat flows in through the upper side and leaves to the air through the lower one. Temperature is of first order in time (a
capacity, and no mass), the strip is in equilibrium at every instant (neither): backward Euler steps both. In the end the
temperature is linear across the strip, by `q H / k`, and the strip is an arc of curvature `alpha q / k` without stress: its
tip has gone down by `alpha q L^2 / (2 k)`.

    python examples/heated_strip.py [--picture output/strip.png]
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

LENGTH, HEIGHT = 0.1, 0.01  # [m]
HEATING, EXCHANGE = 3e3, 50.0  # [W/m^2], [W/(m^2 K)]
STEEL = {"conductivity": 15.0, "expansion": 12e-6, "young": 200e9, "poisson": 0.3}  # [W/(m K)], [1/K], [Pa]
CAPACITY = 4e6  # [J/(m^3 K)]


def thermoelastic(u, slope, X, p):
    """What flows at a point: heat, and momentum, which is minus the stress (plane stress)."""
    (T, _), (warming, F) = u, slope
    strain = 0.5 * (F + F.T) - (1 + p["expansion"] * T) * jnp.eye(2)
    nu = p["poisson"]
    stress = p["young"] / (1 - nu**2) * ((1 - nu) * strain + nu * jnp.trace(strain) * jnp.eye(2))
    return -p["conductivity"] * warming, -stress


def strip(cells):
    """The scene, its mesh, and the node at the middle of the tip."""
    mesh = jm.mesh.quadratic_mesh(jm.mesh.box_mesh(cells=cells, size=(LENGTH, HEIGHT), kind="quad"))
    upper, lower = (mesh.faces_where(lambda x, y=y: np.isclose(x[:, 1], y)) for y in (HEIGHT, 0.0))
    root = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    system = jm.System(
        dofs={"T": jm.Vec1(), "x": jm.Vec2()},
        forces={
            "steel": jm.force.WeakForm.from_mesh(("T", "x"), mesh, thermoelastic, parameters=STEEL),
            "stored": jm.force.Capacity.from_mesh("T", mesh, CAPACITY),
            "heater": jm.force.Flux.from_mesh("T", upper, HEATING),
            "air": jm.force.Convection.from_mesh("T", lower, EXCHANGE, 0.0),
        },
        constraints={
            "slide": jm.constraint.FixedComponents(("x", root), (True, False)),
            "pin": jm.constraint.Fixed(("x", root[:1])),
        },
    )
    return system, mesh, mesh.nodes_where(lambda x: (x[:, 0] > 0.999 * LENGTH) & np.isclose(x[:, 1], 0.0))


def main(cells=(8, 1), steps=40, dt=200.0, picture="output/strip.png"):
    """The deflection of the tip at the end [m], and what it is in theory."""
    system, mesh, tip = strip(cells)
    rest = system.at_rest({"T": jnp.zeros((len(mesh.points), 1)), "x": mesh.points})
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, rest))
    run = jm.simulate(system, rest, euler, dt=dt, steps=steps, save_every=1)
    down = -np.asarray(run.state.position["x"][:, tip[0], 1])
    theory = STEEL["expansion"] * HEATING * LENGTH**2 / (2 * STEEL["conductivity"])
    print(f"the tip went down by {down[-1] * 1e6:.3f} um, in theory {theory * 1e6:.3f} um")
    draw(mesh, run, down, theory, Path(picture))
    return down[-1], theory


def draw(mesh, run, down, theory, picture):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    x, T = np.asarray(mesh.points + 800 * (run.last.position["x"] - mesh.points)), np.asarray(run.last.position["T"])[:, 0]
    triangles = np.asarray(mesh.cells)[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    shown = left.tripcolor(*x.T, T, triangles=triangles, shading="gouraud", cmap="inferno")
    figure.colorbar(shown, ax=left, label="temperature above the air [K]")
    left.set(xlabel="x [m]", ylabel="y [m]", title="at the end, displacements 800 times")
    right.plot(np.asarray(run.state.time), down * 1e6, label="tip")
    right.axhline(theory * 1e6, color="0.6", ls="--", label="in theory, in the end")
    right.set(xlabel="time [s]", ylabel="deflection [um]")
    right.legend(frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", default="output/strip.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
