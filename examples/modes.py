"""A cantilever tuned like a bar of a marimba: its thickness, by the gradient of its frequencies.

The second bending frequency of a straight cantilever is 6.27 times the first. Wanted: six times, with the first as it was
and no gram more. Unknowns: the logarithm of the thickness of every column of cells. Each step is the smallest change that
meets the three targets to first order, with the exact gradient of `modes`.

    python examples/modes.py [--picture output/modes.png]
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
LENGTH, HEIGHT = 0.3, 0.01  # [m] along x, and in the plane of bending
WOOD, DENSITY, THICKNESS = jm.material.LinearElastic(1.2e10, 0.3), 700.0, 0.04  # [Pa], [kg/m^3], [m]


def scene(columns):
    """The bar, clamped at x = 0, one thickness per cell."""
    mesh = jm.mesh.box_mesh(cells=(columns, 2), size=(LENGTH, HEIGHT), kind="quad")
    thickness = jnp.full(len(mesh.cells), THICKNESS)
    system = jm.System(
        {"bar": jm.Vec2()},
        forces={"elastic": jm.force.QuadFEM.from_mesh("bar", mesh, WOOD, plane="stress", thickness=thickness)},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("bar", mesh, DENSITY * thickness)},
        constraints={"clamp": jm.constraint.Fixed(("bar", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    column = (np.asarray(mesh.points)[np.asarray(mesh.cells), 0].mean(axis=1) / (LENGTH / columns)).astype(int)
    return mesh, column, system, system.at_rest({"bar": mesh.points})


def vibrations(growth, bar):
    """The first two modes of the bar whose columns are `exp(growth)` times as thick."""
    column, system, rest, linear_system = bar
    numbers = [scale * jnp.exp(growth)[column] for scale in (THICKNESS, DENSITY * THICKNESS)]
    system = eqx.tree_at(lambda s: [s.forces["elastic"].thickness, s.masses["mass"].density], system, numbers)
    return jm.modes(system, rest, linear_system, count=2)


def main(picture="output/modes.png", columns=24, steps=8):
    """The ratio of the frequencies before and after, and how far [relative] the targets are missed in the end."""
    mesh, column, system, rest = scene(columns)
    bar = (jnp.asarray(column), system, rest, jm.MatrixLinearSystem.build(system, rest, jm.Terms(damping=False)))
    growth = jnp.zeros(columns)
    before = eqx.filter_jit(vibrations)(growth, bar)

    def misfit(growth, bar):
        omega = vibrations(growth, bar).frequencies
        r = jnp.log(jnp.stack([omega[0] / before.frequencies[0], omega[1] / omega[0] / 6, jnp.mean(jnp.exp(growth))]))
        return r, r

    both = eqx.filter_jit(jax.jacrev(misfit, has_aux=True))  # the Jacobian, and what it is of
    for step in range(steps):
        J, r = both(growth, bar)
        print(f"step {step}: misfit {float(jnp.linalg.norm(r)):.1e}")
        if jnp.linalg.norm(r) < 1e-8:
            break
        growth = growth - jnp.linalg.lstsq(J, r)[0]
    after = eqx.filter_jit(vibrations)(growth, bar)
    draw(mesh, growth, (before, after), Path(picture))
    return *(float(m.frequencies[1] / m.frequencies[0]) for m in (before, after)), float(jnp.linalg.norm(r))


def draw(mesh, growth, found, path):
    """The thickness along the bar, and its middle line in both modes."""
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5.5), sharex=True, layout="constrained")
    edges = np.linspace(0, LENGTH, len(growth) + 1)
    half = 0.5e3 * THICKNESS * np.exp(np.asarray(growth))
    top.stairs(half, edges, baseline=-half, fill=True, color="tab:brown", alpha=0.6, label="tuned")
    top.plot(LENGTH * np.array([0, 1, 1, 0]), 500 * THICKNESS * np.array([1, 1, -1, -1]), "k--", lw=1, label="as it was")
    top.set(ylabel="half thickness [mm]", title="A tuned bar: its thickness, and how it swings")
    top.legend(frameon=False, loc="center")
    middle = mesh.nodes_where(lambda x: np.abs(x[:, 1] - 0.5 * HEIGHT) < 1e-9)  # sorted along x, as boxes are numbered
    for modes, styles, name in zip(found, (("k--", "k:"), ("tab:blue", "tab:red")), ("as it was", "tuned"), strict=True):
        for i, style in enumerate(styles):
            shape, hertz = np.asarray(modes.shapes["bar"][i, middle, 1]), float(modes.frequencies[i]) / 2 / np.pi
            bottom.plot(mesh.points[middle, 0], shape * np.sign(shape[-1]), style, lw=1.2, label=f"{name}: {hertz:.1f} Hz")
    bottom.set(xlabel="x [m]", ylabel="mode shape [kg$^{-1/2}$]")
    bottom.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", default="output/modes.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
