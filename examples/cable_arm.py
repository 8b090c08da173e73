"""A soft arm with three cables reaches for a target: which lengths of the cables lead its tip there?

The cables run through eyelets along the arm, as in SoftRobots; each has a length, which a motor would set between bounds.
The equilibrium is a differentiable function of the three lengths, so the inverse problem is a least-squares problem with
bounds, solved by SciPy with exact Jacobians of the same scene. Prints the lengths, the tensions that the motors feel, and
how near the tip came.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import jaxmech as jm

jax.config.update("jax_enable_x64", True)

LENGTH, WIDTH = 0.24, 0.04  # [m]
YOUNG, POISSON, DENSITY = 2e5, 0.4, 1070.0  # a silicone [Pa, -, kg/m^3]
RADIUS, EYELETS = 0.015, 6  # of the circle on which cables run [m], and how many eyelets each has
TARGET = np.array([0.05, 0.03, -0.205])  # where the tip shall be [m]; it hangs straight down at (0, 0, -0.24)
BOUNDS = 0.15, LENGTH  # of a cable's length [m]


def arm(cells):
    """The arm, the state in which it hangs straight, its linear system, and the nodes of its tip."""
    mesh = jm.mesh.box_mesh(cells=cells, size=(WIDTH, WIDTH, LENGTH), kind="hexahedron")
    points = np.asarray(mesh.points) - np.array([WIDTH / 2, WIDTH / 2, LENGTH])
    top, tip = np.flatnonzero(points[:, 2] > -1e-9), np.flatnonzero(points[:, 2] < -LENGTH + 1e-9)
    around = 2 * np.pi * np.arange(3) / 3
    circle = RADIUS * np.stack([np.cos(around), np.sin(around)], 1)
    heights = np.linspace(0.0, -LENGTH, EYELETS)
    eyelets = np.concatenate([[[*xy, z] for z in heights] for xy in circle])
    shift, size = np.array([WIDTH / 2, WIDTH / 2, LENGTH]), np.array([WIDTH, WIDTH, LENGTH])
    holes = jm.mapping.BarycentricMapping.from_grid(
        "arm", "eyelets", eyelets + shift, origin=np.zeros(3), spacing=size / np.array(cells), cells=cells
    )
    rest = jm.mesh.Mesh(points, mesh.cells, mesh.kind)
    material = jm.material.NeoHookean(YOUNG, POISSON)
    system = jm.System(
        dofs={"arm": jm.Vec3(), "eyelets": jm.Vec3()},
        forces={"solid": jm.force.HexahedronFEM.from_mesh("arm", rest, material)},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("arm", rest, DENSITY)},
        mappings={"holes": holes},
        constraints={
            "ceiling": jm.constraint.Fixed(("arm", top)),
            "cables": jm.constraint.Cable(("eyelets", np.arange(3 * EYELETS).reshape(3, -1)), [LENGTH] * 3),
        },
        gravity=(0.0, 0.0, -9.81),
    )
    state = system.at_rest({"arm": points})
    return system, state, jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False)), tip


def main(cells=(2, 2, 8), target=TARGET, picture="cable_arm.png"):
    """How far the tip is from the target at the end [m], the lengths [m] and the tensions [N] of the cables."""
    system, straight, linear_system, tip = arm(cells)

    def miss(lengths):
        pulled = eqx.tree_at(lambda s: s.constraints["cables"].length, system, lengths)
        end = jm.static_solve(pulled, straight, linear_system, load_steps=6).state
        off = jnp.mean(end.position["arm"][tip], axis=0) - target
        return off, (off, end)

    both = jax.jit(jax.jacfwd(miss, has_aux=True))  # the Jacobian, and what it is of
    values, slopes = lambda x: np.asarray(both(x)[1][0]), lambda x: np.asarray(both(x)[0])
    found = least_squares(values, np.full(3, 0.99 * LENGTH), slopes, BOUNDS, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    end = both(found.x)[1][1]
    tensions = np.asarray(end.position["cables"][:, 0])
    error = float(np.linalg.norm(found.fun))
    print(f"lengths  {np.round(1e3 * found.x, 2)} mm\ntensions {np.round(tensions, 3)} N\nmiss     {error:.1e} m")
    draw(system, straight, end, target, picture)
    return error, found.x, tensions


def draw(system, straight, end, target, picture):
    """The cables before and after, and the target."""
    axes = plt.figure(figsize=(5, 5)).add_subplot(projection="3d")
    for state, color in ((straight, "lightgray"), (end, "#d9772b")):
        for cable in np.asarray(jm.kinematics(system, state)["eyelets"]).reshape(3, -1, 3):
            axes.plot(*cable.T, "o-", color=color, markersize=3)
    axes.plot(*target[:, None], "x", color="black", markersize=10)
    axes.set_box_aspect((1, 1, 1.6), zoom=0.9)
    axes.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]", title="cables: straight, and at the target (x)")
    axes.locator_params(nbins=4)
    for axis in (axes.yaxis, axes.zaxis):
        axis.labelpad = 12
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(picture, dpi=150)
    plt.close()


if __name__ == "__main__":
    main()
