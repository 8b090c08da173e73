"""One body, three representations: what deforms, what presses, and what is drawn.

A rubber ring between two plates. The mechanics is done by a few tetrahedra around it. The fine surface of the ring is a
mapped state, carried by those tetrahedra: it has no force, costs nothing in the matrix, and is what one looks at, lit by its
own normals. Its points near the top and the bottom are a third state, on which the plates act (penalty planes). The plates
close step by step.

    python examples/embedded_surface.py [--picture output/embedded_surface.png]
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
RADIUS, THICKNESS = 1.0, 0.35  # [m] of the ring's circle, and of its section
CLOSED = 0.45  # how far each plate moves inwards [m]


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
    outer = RADIUS + THICKNESS + 1e-3
    box = jm.box_mesh(cells=cells, size=(2 * outer, 2 * (THICKNESS + 1e-3), 2 * outer), kind="tetrahedron")
    box = jm.Mesh(np.asarray(box.points) - [outer, THICKNESS + 1e-3, outer], box.cells, box.kind)
    centres = np.asarray(box.points)[np.asarray(box.cells)].mean(1)
    size = 2 * outer / cells[0]
    near = np.hypot(np.hypot(centres[:, 0], centres[:, 2]) - RADIUS, centres[:, 1]) < THICKNESS + 0.6 * size
    body = jm.submesh(box, np.flatnonzero(near)).mesh
    touching = np.flatnonzero(np.abs(points[:, 2]) > 0.7 * RADIUS)
    below, above = (np.flatnonzero(side * points[touching, 2] > 0) for side in (-1, 1))
    plates = {
        name: jm.PenaltyPlane(("touching", nodes), point=[0.0, 0.0, side * outer], normal=[0.0, 0.0, -side], stiffness=30.0)
        for name, nodes, side in (("bottom", below, -1.0), ("top", above, 1.0))
    }
    system = jm.System(
        dofs={"body": jm.Vec3(), "skin": jm.Vec3(), "touching": jm.Vec3()},
        forces={"rubber": jm.TetrahedronFEM.from_mesh("body", body, jm.NeoHookean(1e3, 0.4)), **plates},
        masses={"mass": jm.ConsistentMass.from_mesh("body", body, 1.0)},
        mappings={
            "skin": jm.BarycentricMapping.from_mesh("body", "skin", body, points),
            "touching": jm.SubsetMapping(("skin", touching), "touching"),
        },
        rayleigh={"mass": 20.0},
    )
    return system, body, outer


def main(cells=(12, 3, 12), fine=(96, 32), steps=25, picture=None):
    """Return the largest error of the normals at rest [rad], the loss of height [m] and the relative change of volume."""
    points, quads, exact = torus(*fine)
    system, body, outer = scene(cells, points)
    state = system.at_rest({"body": body.points})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=True)
    step = eqx.filter_jit(lambda s, x: integrator.step(s, x, None, 0.02)[0])
    for closed in np.linspace(0, CLOSED, steps):
        heights = [jnp.array([0.0, 0.0, side * (outer - closed)]) for side in (-1, 1)]
        system = eqx.tree_at(lambda s: [s.forces[plate].point for plate in ("bottom", "top")], system, heights)
        state = step(system, state)
    skin = np.asarray(jm.kinematics(system, state.position)["skin"])
    angle = np.arccos(np.clip(np.sum(np.asarray(jm.vertex_normals(points, quads)) * exact, 1), -1, 1)).max()
    lost = np.ptp(points[:, 2]) - np.ptp(skin[:, 2])
    change = volume(skin, quads) / volume(points, quads) - 1
    print(f"{len(body.points)} nodes carry a surface of {len(points)} points: {lost:.2f} m lower, volume {change:+.1%}")
    if picture:
        draw(picture, [(points, body.points), (skin, state.position["body"])], quads, body)
    return angle, lost, change


def draw(picture, shapes, quads, body):
    """The ring at rest and pressed, in the cells that carry it."""
    figure, frames = plt.subplots(1, 2, subplot_kw={"projection": "3d"}, figsize=(10, 4.6), layout="constrained")
    faces = np.asarray(jm.boundary_of(body).mesh.cells)
    for axes, (skin, nodes), title in zip(frames, shapes, ("at rest", "pressed"), strict=True):
        jm.viz.draw_surface(skin, quads, axes=axes)
        triangles = np.asarray(nodes)[faces]
        for side in ([0, 1], [1, 2], [2, 0]):
            for a, b in triangles[:, side]:
                axes.plot(*np.stack([a, b], 1), color="#4d5561", linewidth=0.25, alpha=0.5)
        axes.set_title(title)
        axes.set_axis_off()
        axes.view_init(12, -62)
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", default="output/embedded_surface.png")
    main(picture=parser.parse_args().picture)
