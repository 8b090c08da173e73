"""A shallow arch that snaps through, and its thickness, by the gradient of the load at which it does.

A path of equilibria is followed through the limit points of a pinned arch under a load in its middle. Then the thickness of its
links is changed, their mass kept, to raise the first limit load: steepest ascent with the exact gradient of `critical_point`.
The path of the arch that comes out is followed as well, for another instability might have come first.

    python examples/shallow_arch.py [--picture output/arch.png]
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
LINKS, SPAN, RISE, THICKNESS = 20, 1.0, 0.04, 0.03  # [m]; of a width of a metre
YOUNG = 1e6  # [Pa]


class Hinge(jm.force.AbstractEnergyForceField):
    """`E = k/2 (angle - rest)^2` of the links a-b and b-c."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jax.Array = jm.parameter()  # [N m]
    rest: jax.Array = jm.parameter()  # [rad]

    def element_energy(self, a, b, c):
        return 0.5 * self.stiffness * (turn(a, b, c) - self.rest) ** 2


def turn(a, b, c):
    """The angle from a-b to b-c."""
    u, w = b - a, c - b
    return jnp.arctan2(u[0] * w[1] - u[1] * w[0], u @ w)


POINTS = np.stack([np.linspace(0, SPAN, LINKS + 1), RISE * np.sin(np.linspace(0, np.pi, LINKS + 1))], axis=1)
LENGTHS = np.linalg.norm(np.diff(POINTS, axis=0), axis=1)
ANGLES = np.asarray(jax.vmap(turn)(*(jnp.asarray(POINTS[i : LINKS - 1 + i]) for i in range(3))))


def arch(thickness, load):
    """The arch of links of these thicknesses `(LINKS,)`, unloaded at `POINTS`, pushed down in the middle."""
    bending = YOUNG * (0.5 * (thickness[1:] + thickness[:-1])) ** 3 / 12
    nodes = range(LINKS + 1)
    return jm.System(
        {"arch": jm.Vec2()},
        forces={
            "links": jm.force.Springs((("arch", nodes[:-1]), ("arch", nodes[1:])), YOUNG * thickness / LENGTHS, LENGTHS),
            "hinges": Hinge([("arch", nodes[i : LINKS - 1 + i]) for i in range(3)], bending * LINKS / SPAN, ANGLES),
            "load": jm.force.ConstantForce(("arch", [LINKS // 2]), load * jnp.array([[0.0, -1.0]])),
        },
        constraints={"pins": jm.constraint.Fixed(("arch", [0, LINKS]))},
    )


def main(picture="output/arch.png", steps=25):
    """The first limit load before and after [N], and what comes first on the way of the arch that comes out."""
    even = jnp.full(LINKS, THICKNESS)
    rest = arch(even, jnp.zeros(())).at_rest({"arch": POINTS})
    linear_system = jm.MatrixLinearSystem.build(arch(even, jnp.zeros(())), rest, jm.Terms(mass=False, damping=False))
    middle = {"displacement": ("arch", LINKS // 2, 1)}

    def path(thickness):
        return jm.follow_path(eqx.Partial(arch, thickness), rest, linear_system, step=1.0, steps=60, to=60.0, **middle)

    @jax.jit
    @jax.value_and_grad
    def limit_load(growth, near):
        return jm.critical_point(eqx.Partial(arch, thickness_of(growth)), near, linear_system).load

    before = path(even)
    print(before.report())
    growth = jnp.zeros(LINKS)
    for step in range(steps):
        load, slope = limit_load(growth, before.critical[0])
        print(f"step {step}: limit load {float(load):.3f} N")
        growth = growth + 0.05 * slope / jnp.max(jnp.abs(slope))
    after = path(thickness_of(growth))
    draw((before, after), thickness_of(growth), Path(picture))
    return float(before.critical[0].load), float(after.critical[0].load), after.critical[0].kind


def thickness_of(growth):
    """`exp(growth)` to scale, of the mass of the even arch."""
    return THICKNESS * jnp.exp(growth) * jnp.sum(LENGTHS) / jnp.sum(jnp.exp(growth) * LENGTHS)


def draw(paths, thickness, picture):
    """The paths, and the arch at rest and at its limit point."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for path, name in zip(paths, ("even", "tuned"), strict=True):
        jm.viz.draw_path(path, axes=left, label=name)
    left.legend(frameon=False)
    left.set(xlabel="displacement of the middle [m]", ylabel="load [N]", ylim=(-40, 62))
    limit = paths[1].critical[0].state.position["arch"]
    for points, color in ((POINTS, "tab:blue"), (np.asarray(limit), "tab:red")):
        for i, t in enumerate(np.asarray(thickness)):
            right.plot(*points[i : i + 2].T, color=color, lw=200 * t, solid_capstyle="butt", alpha=0.7)
    right.set(xlabel="x [m]", ylabel="y [m]", title="tuned: at rest, and when it snaps")
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", default="output/arch.png", help="where the picture goes")
    print(main(**vars(parser.parse_args())))
