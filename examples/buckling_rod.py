"""A rod under its end load: Euler's load, and the elastica that it becomes.

The straight rod is followed until a bifurcation, the branch that leaves it until the tip has turned round. Beams of constant
strain and of any rotation; the load at which the tip has moved aside by some distance is known in elliptic integrals.

    python examples/buckling_rod.py [--picture output/rod.png]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ellipe, ellipk

import jaxmech as jm

try:
    import matplotlib.pyplot as plt
except ImportError as error:
    raise ImportError(f'{error.name} is missing: pip install "jaxmech[viz]".') from error

jax.config.update("jax_enable_x64", True)
LENGTH, STIFFNESS = 1.0, 1.0  # [m], EI [N m^2]
SECTION = jm.force.Section(axial=1e4, shear=[1e4, 1e4], torsion=0.8, bending=[STIFFNESS, STIFFNESS])
EULER = np.pi**2 * STIFFNESS / (4 * LENGTH**2)  # of a rod that is clamped at one end [N]
IN_PLANE = (False, False, True, True, True, False)


def rod(rest, load):
    """Clamped at its first frame, pressed along x by `load` newton at its last."""
    last = len(rest) - 1
    pairs = np.stack([np.arange(last), np.arange(1, last + 1)], axis=1)
    return jm.System(
        dofs={"rod": jm.Rigid3()},
        forces={
            "beam": jm.force.Beam(("rod", pairs), rest, SECTION),
            "load": jm.force.ConstantForce(("rod", [last]), load * jnp.array([-1.0, 0.0, 0.0])),
        },
        constraints={
            "clamp": jm.constraint.Fixed(("rod", [0])),
            "plane": jm.constraint.FixedComponents(("rod", range(1, last + 1)), IN_PLANE),
        },
    )


def elastica(angle):
    """Load [N] and place of the tip [m] at which the tip has turned by `angle`."""
    k = np.sin(angle / 2)
    K, E = ellipk(k**2), ellipe(k**2)
    return 4 / np.pi**2 * K**2 * EULER, LENGTH * (2 * E / K - 1), LENGTH * 2 * k / K


def main(elements=10, steps=40, picture="output/rod.png"):
    """The critical load in units of Euler's, and the largest error of the tip's place on the branch [m]."""
    rest = jm.mesh.frames_along(np.linspace([0.0, 0.0, 0.0], [LENGTH, 0.0, 0.0], elements + 1))

    def scene(load):
        return rod(rest, load)

    straight = scene(0.0).at_rest({"rod": rest})
    linear_system = jm.MatrixLinearSystem.build(scene(jnp.ones(())), straight, jm.Terms(mass=False, damping=False))
    aside = ("rod", elements, 1)
    before = jm.follow_path(scene, straight, linear_system, step=0.5, steps=8, to=1.2 * EULER, displacement=aside)
    critical = before.critical[0]
    branch = jm.follow_path(
        scene, critical, linear_system, step=0.1, steps=steps, to=2.2 * EULER, displacement=aside, amplitude=0.05
    )
    places, loads = np.asarray(branch.state.position["rod"]), np.asarray(branch.loads)
    tips = np.abs(places[:, -1, :2])
    angles = np.linspace(1e-3, 0.9 * np.pi, 2000)
    theory = np.array([elastica(a) for a in angles])
    bent = loads > 1.02 * EULER  # nearer the critical load the place is ill-conditioned in the load
    known = np.stack([np.interp(loads[bent], theory[:, 0], np.abs(column)) for column in theory.T[1:]], axis=1)
    error = np.abs(tips[bent] - known).max()
    print(f"critical load {float(critical.load) / EULER:.5f} of Euler's; error of the tip at most {error:.2e} m")
    draw(places, loads, theory, Path(picture))
    return float(critical.load) / EULER, error


def draw(places, loads, theory, picture):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for x, load in zip(places[::3], loads[::3], strict=True):
        left.plot(x[:, 0], np.abs(x[:, 1]), color=plt.get_cmap("viridis")((load / EULER - 1) / 1.2))
    left.set(xlabel="x [m]", ylabel="y [m]", title="the rod on its branch")
    left.set_aspect("equal", adjustable="datalim")
    right.plot(theory[:, 2], theory[:, 0] / EULER, color="0.6", label="elastica")
    right.plot(np.abs(places[:, -1, 1]), loads / EULER, "o", ms=4, label="beams")
    right.set(xlabel="deflection of the tip [m]", ylabel="load / Euler's", ylim=(0.9, 2.3))
    right.legend(frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", default="output/rod.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
