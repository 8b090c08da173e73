"""Two soft fingers grasp a box and lift it; how rough it is, is found from how it slipped.

The fingers are blocks of silicone whose backs are led along a path: they close, and rise. At first the box is slower than
they are and slips down between them, then friction holds it. Seen is its height at every frame, with a little noise; unknown
is the friction. Gauss-Newton, with the derivative through all steps, sticking and slipping.

    python examples/soft_grasp.py  # draws output/soft_grasp.png
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
HALF, MASS, G = np.array([0.02, 0.015, 0.02]), 0.2, 9.81  # of the box [m], [kg], [m/s^2]
DEEP, CLOSED, LIFTED = 2.5e-3, 0.1, 0.06  # how far the fingers close [m], when they have [s], how far they rise [m]
TABLE = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def scene(end=0.4):
    """The fingers beside a box on a table."""
    dofs, forces, masses, constraints, points = {"box": jm.Rigid3(), "corners": jm.Vec3()}, {}, {}, {}, {}
    rubber = jm.material.NeoHookean(8e4, 0.4)  # [Pa]
    contacts = {"table": jm.contact.PointContact(("corners", range(8)), jm.contact.Plane(), friction=0.3)}
    for side, sign in (("left", -1.0), ("right", 1.0)):
        inner, outer = HALF[0] + 5e-4, HALF[0] + 0.0205
        origin = (inner if sign > 0 else -outer, -0.01, 0.01)
        mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(0.02, 0.02, 0.02), origin=origin)
        x = np.asarray(mesh.points)
        back = np.flatnonzero(np.isclose(x[:, 0], sign * outer))
        front = np.flatnonzero(np.isclose(x[:, 0], sign * inner))
        way = [[0.0, 0.0, 0.0], [-sign * DEEP, 0.0, 0.0], [-sign * DEEP, 0.0, 0.15 * LIFTED], [-sign * DEEP, 0.0, LIFTED]]
        path = {"displacements": way, "times": [0.0, CLOSED, CLOSED + 0.03, end]}
        dofs[side], points[side] = jm.Vec3(), x
        forces[side] = jm.force.TetrahedronFEM.from_mesh(side, mesh, rubber)
        masses[side] = jm.mass.DiagonalMass.from_mesh(side, mesh, 1100.0)
        constraints[side] = jm.constraint.PrescribedMotion((side, back), x[back], **path)
        box = jm.contact.Box(HALF)
        contacts[side] = jm.contact.PointContact((side, front), box, frames=("box", [0]), friction=0.3)
    corners = HALF * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    mappings = {"fixed": jm.mapping.RigidMapping(("box", [0] * 8), "corners", corners)}
    masses["box"] = jm.mass.RigidMass(("box", [0]), MASS, MASS * 1.5e-4 * np.eye(3))
    gravity = [0.0, 0.0, -G]
    system = jm.System(dofs, forces=forces, masses=masses, mappings=mappings, constraints=constraints, gravity=gravity)
    start = system.at_rest({"box": (TABLE + [0, 0, HALF[2], 0, 0, 0, 0])[None], **points})
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start))
    return system, start, jm.integrator.FreeMotion(motion, contacts)


def grasp(friction, bodies, dt, steps):
    """The trajectory of a grasp by fingers of this friction."""
    system, start, scheme = bodies
    rough = eqx.tree_at(lambda s: [s.contacts[side].friction for side in ("left", "right")], scheme, [friction] * 2)
    return jm.simulate(system, start, rough, dt=dt, steps=steps)


def main(picture="output/soft_grasp.png", steps=40, dt=0.01, truth=0.42, guess=0.6, noise=1e-5):
    """The friction that was found, how it went there, and how high the box is lifted [m]."""
    bodies = scene(dt * steps)

    def height(friction, bodies):
        return grasp(friction, bodies, dt, steps).position["box"][:, 0, 2]

    both = eqx.filter_jit(lambda mu, bodies: jax.jvp(lambda mu: height(mu, bodies), (mu,), (jnp.ones_like(mu),)))
    exact = both(jnp.asarray(truth), bodies)[0]
    seen = exact + noise * np.random.default_rng(0).normal(size=steps + 1)
    friction, path, tracks = guess, [], []
    for step in range(12):
        z, slope = both(jnp.asarray(friction), bodies)
        path, tracks = [*path, friction], [*tracks, np.asarray(z)]
        print(f"step {step}: friction {friction:.5f}, misfit {np.std(seen - z):.1e} m")
        change = float(slope @ (seen - z) / jnp.maximum(slope @ slope, 1e-12))
        if abs(change) < 1e-7:
            break
        friction = np.clip(friction + np.clip(change, -0.1, 0.1), 0.05, 1.0)
    draw(picture, dt, seen, tracks)
    return friction, path, float(exact[-1] - exact[0])


def draw(picture, dt, seen, tracks):
    """What was seen, and the heights of all steps."""
    figure, axes, time = *plt.subplots(figsize=(6, 4)), dt * np.arange(len(seen))
    axes.plot(time, 1e3 * seen, "k.", markersize=4, label="seen")
    for number, z in enumerate(tracks):
        axes.plot(time, 1e3 * z, color="#d9772b", alpha=(number + 1) / len(tracks), label=f"step {number}")
    axes.set(xlabel="time [s]", ylabel="height of the box [mm]", title="A soft grasp")
    axes.legend()
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
