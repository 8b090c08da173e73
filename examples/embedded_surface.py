"""One body, three representations: what deforms, what presses, and what is drawn.

A rubber ring between two plates. The mechanics is done by a few tetrahedra around it. The fine surface of the ring is a
mapped state, carried by those tetrahedra: it has no force, costs nothing in the matrix, and is what one looks at, lit by its
own normals. Its points near the top and the bottom are a third state, on which the plates act (penalty planes). The plates
close step by step. Draws output/embedded_surface.png.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
RADIUS, THICKNESS = 1.0, 0.35  # [m] of the ring's circle, and of its section
CLOSED = 0.45  # how far each plate moves inwards [m]
OUTER, HALF = RADIUS + THICKNESS + 1e-3, THICKNESS + 1e-3  # [m] from the middle to the sides of a box around the ring
SIDES = {"bottom": -1.0, "top": 1.0}


def torus(around, across):
    """Points, quads and exact normals of the ring, whose axis is y: it stands on its edge."""
    u, v = np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in (around, across)), indexing="ij")
    outward = np.stack([np.cos(u) * np.cos(v), np.sin(v), np.sin(u) * np.cos(v)], -1)
    points = RADIUS * np.stack([np.cos(u), 0 * u, np.sin(u)], -1) + THICKNESS * outward
    number = np.arange(around * across).reshape(around, across)
    right, up = np.roll(number, -1, 0), np.roll(number, -1, 1)
    quads = np.stack([number, up, np.roll(up, -1, 0), right], -1)
    return points.reshape(-1, 3), quads.reshape(-1, 4), outward.reshape(-1, 3)


def volume(points, quads):
    """Inside a closed surface [m^3], by the divergence theorem."""
    corners = jnp.asarray(points)[jnp.asarray(quads)]
    areas = 0.5 * jnp.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
    return float(jnp.sum(areas * corners.mean(1)) / 3)


def scene(cells, points):
    """The tetrahedra that the ring touches, its skin, and the points that the plates may touch."""
    box = jm.mesh.box_mesh(cells=cells, size=(2 * OUTER, 2 * HALF, 2 * OUTER), origin=(-OUTER, -HALF, -OUTER))
    centres = np.asarray(box.points)[np.asarray(box.cells)].mean(1)
    distance = np.hypot(np.hypot(centres[:, 0], centres[:, 2]) - RADIUS, centres[:, 1])
    body = jm.mesh.submesh(box, distance < THICKNESS + 1.2 * OUTER / cells[0]).mesh
    touching = np.flatnonzero(np.abs(points[:, 2]) > 0.7 * RADIUS)
    plates = {
        name: jm.force.PenaltyPlane(
            ("touching", np.flatnonzero(side * points[touching, 2] > 0)), [0.0, 0.0, side * OUTER], [0.0, 0.0, -side], 30.0
        )
        for name, side in SIDES.items()
    }
    system = jm.System(
        dofs={"body": jm.Vec3(), "skin": jm.Vec3(), "touching": jm.Vec3()},
        forces={"rubber": jm.force.TetrahedronFEM.from_mesh("body", body, jm.material.NeoHookean(1e3, 0.4)), **plates},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("body", body, 1.0)},
        mappings={
            "skin": jm.mapping.BarycentricMapping.from_mesh("body", "skin", body, points),
            "touching": jm.mapping.SubsetMapping(("skin", touching), "touching"),
        },
        rayleigh={"mass": 20.0},
    )
    return system, body


def main(cells=(12, 3, 12), fine=(96, 32), steps=25, picture="output/embedded_surface.png"):
    """Return the largest error of the normals at rest [rad], the loss of height [m] and the relative change of volume."""
    points, quads, exact = torus(*fine)
    system, body = scene(cells, points)
    state = system.at_rest({"body": body.points})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=True)
    step = eqx.filter_jit(lambda s, x: jm.simulate(s, x, integrator, 0.02, 1).last)
    for closed in np.linspace(0, CLOSED, steps):
        heights = [jnp.array([0.0, 0.0, side * (OUTER - closed)]) for side in SIDES.values()]
        system = eqx.tree_at(lambda s: [s.forces[plate].point for plate in SIDES], system, heights)
        state = step(system, state)
    skin = np.asarray(jm.kinematics(system, state)["skin"])
    angle = np.arccos(np.clip(np.sum(np.asarray(jm.mesh.vertex_normals(points, quads)) * exact, 1), -1, 1)).max()
    lost, change = np.ptp(points[:, 2]) - np.ptp(skin[:, 2]), volume(skin, quads) / volume(points, quads) - 1
    print(f"{len(body.points)} nodes carry a surface of {len(points)} points: {lost:.2f} m lower, volume {change:+.1%}")
    figure, frames = plt.subplots(1, 2, subplot_kw={"projection": "3d"}, figsize=(10, 4.6), layout="constrained")
    for axes, surface, nodes in zip(frames, (points, skin), (body.points, state.position["body"]), strict=True):
        jm.viz.draw_surface(surface, quads, axes=axes)
        edges = np.asarray(nodes)[jm.mesh.boundary_of(body).mesh.edges()]  # of the cells that carry it
        lines = np.pad(edges, ((0, 0), (0, 1), (0, 0)), constant_values=np.nan)  # one line with gaps, which is drawn sooner
        axes.plot(*lines.reshape(-1, 3).T, color="#4d5561", linewidth=0.3, alpha=0.7)
        axes.set(title="at rest" if surface is points else "pressed")
        axes.set_axis_off()
        axes.view_init(12, -62)
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    return angle, lost, change


if __name__ == "__main__":
    main()
