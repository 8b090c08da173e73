"""A shallow arch that snaps through, its thickness tuned by the gradient of the load at which it does.

The equilibria of a pinned arch under a load in its middle are followed through limit points. Then the thickness of its links
is changed, their mass kept, to raise the first limit load by its exact gradient; another instability might come first then.

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
LINKS, RISE, THICKNESS, YOUNG = 20, 0.04, 0.03, 1e6  # [m], [m], [Pa]; spans a metre, and is a metre wide
POINTS = np.stack([np.linspace(0, 1, LINKS + 1), RISE * np.sin(np.linspace(0, np.pi, LINKS + 1))], axis=1)
LENGTHS = np.linalg.norm(np.diff(POINTS, axis=0), axis=1)
ANGLES = np.diff(np.arctan2(*np.diff(POINTS, axis=0).T[::-1]))  # between links at rest


class Hinge(jm.force.AbstractEnergyForceField):
    """`E = k/2 (angle - rest)^2` of the links a-b and b-c."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jax.Array = jm.parameter()  # [N m]
    rest: jax.Array = jm.parameter()  # [rad]

    def element_energy(self, a, b, c):
        u, w = b - a, c - b
        return 0.5 * self.stiffness * (jnp.arctan2(u[0] * w[1] - u[1] * w[0], u @ w) - self.rest) ** 2


def arch(growth, load):
    """The arch of links `exp(growth)` times as thick, to scale, pushed down in the middle."""
    t, bent = thickness(growth), YOUNG * LINKS / 12 * (0.5 * (thickness(growth)[1:] + thickness(growth)[:-1])) ** 3
    return jm.System(
        {"arch": jm.Vec2()},
        forces={
            "links": jm.force.Springs((("arch", range(LINKS)), ("arch", range(1, LINKS + 1))), YOUNG * t / LENGTHS, LENGTHS),
            "hinges": Hinge([("arch", range(i, LINKS - 1 + i)) for i in range(3)], bent, ANGLES),
            "load": jm.force.ConstantForce(("arch", [LINKS // 2]), load * jnp.array([[0.0, -1.0]])),
        },
        constraints={"pins": jm.constraint.Fixed(("arch", [0, LINKS]))},
    )


def thickness(growth):
    return THICKNESS * jnp.exp(growth) * jnp.sum(LENGTHS) / jnp.sum(jnp.exp(growth) * LENGTHS)


def main(picture="output/arch.png", steps=7):
    """The first limit load before and after [N], and what comes first on the path of the arch that comes out."""
    growth = jnp.zeros(LINKS)
    rest = arch(growth, 0.0).at_rest({"arch": POINTS})
    linear_system = jm.MatrixLinearSystem.build(arch(growth, 0.0), rest, jm.Terms(mass=False, damping=False))
    options = {"step": 1.0, "to": 30.0, "displacement": ("arch", LINKS // 2, 1)}
    before = jm.follow_path(eqx.Partial(arch, growth), rest, linear_system, **options)

    @jax.jit
    @jax.value_and_grad
    def limit_load(growth):
        return jm.solver.critical_point(eqx.Partial(arch, growth), before.critical[0], linear_system).load

    for step in range(steps):
        load, slope = limit_load(growth)
        print(f"step {step}: limit load {float(load):.3f} N")
        growth += 0.05 * slope / jnp.max(jnp.abs(slope))
    after = jm.follow_path(eqx.Partial(arch, growth), rest, linear_system, **options)
    draw((before, after), thickness(growth), Path(picture))
    return float(before.critical[0].load), float(after.critical[0].load), after.critical[0].kind


def draw(paths, t, picture):  # both, and the tuned arch at rest and at its limit point
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    jm.viz.draw_path(paths[0], axes=left, label="even", color="#8a919a")
    jm.viz.draw_path(paths[1], axes=left, label="tuned").legend(frameon=False)
    left.set(xlabel="displacement of the middle [m]", ylabel="load [N]", ylim=(-8, 30))
    for points, color in ((POINTS, "tab:blue"), (paths[1].critical[0].state.position["arch"], "tab:red")):
        (x, y), half = np.repeat(points, 2, axis=0)[1:-1].T, np.repeat(np.asarray(t) / 2, 2)
        right.fill_between(x, y - half, y + half, color=color, alpha=0.5, lw=0)
    right.set(xlabel="x [m]", ylabel="y [m]", title="The tuned arch at rest, and where it snaps")
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", default="output/arch.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
