"""A pulled plate with a round hole: the stress at its edge, on quadratic quads whose sides follow the circle.

An infinite plate that carries 1 Pa has 3 Pa at the top of its hole (G. Kirsch, 1898). Here the tractions of his solution act
on the sides of a square cut out of it, so that 3 is the answer; two symmetries leave a quarter.

    python examples/plate_with_hole.py
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm

jax.config.update("jax_enable_x64", True)

RADIUS, SIZE, YOUNG, POISSON = 1.0, 4.0, 1000.0, 0.3  # [m], [m], [Pa], [-]


def kirsch(x):
    """The stress of the infinite plate `(n, 2, 2)` [Pa], pulled along x by 1 Pa."""
    r, t = np.hypot(*x.T), np.arctan2(x[:, 1], x[:, 0])
    q, c2, c4, s2, s4 = (RADIUS / r) ** 2, np.cos(2 * t), np.cos(4 * t), np.sin(2 * t), np.sin(4 * t)
    xx = 1 - q * (1.5 * c2 + c4) + 1.5 * q**2 * c4
    yy = -q * (0.5 * c2 - c4) - 1.5 * q**2 * c4
    xy = -q * (0.5 * s2 + s4) + 1.5 * q**2 * s4
    return np.stack([np.stack([xx, xy], -1), np.stack([xy, yy], -1)], -2)


def loads(plate):
    """The tractions on the two outer sides, each edge the mean of its own."""
    fields = {}
    for name, axis in (("right", 0), ("top", 1)):
        side = plate.faces_where(lambda x, axis=axis: np.isclose(x[:, axis], SIZE))
        stress = kirsch(np.asarray(side.points)[np.asarray(side.cells)].reshape(-1, 2)).reshape(-1, 3, 2, 2)
        mean = np.einsum("k,ekab->eab", [1 / 6, 1 / 6, 4 / 6], stress)  # Simpson's rule
        fields[name] = jm.force.Traction.from_mesh("plate", side, mean[:, :, axis])
    return fields


def stress_at_corners(solid, system, solution):
    """`sigma_xx` at the corners of every cell, from the displacements."""
    element = jm.mesh.reference_element(solid.kind)
    slopes = element.shape_gradients(np.asarray(element.vertices, float)[:4])
    cells, X = np.asarray(solid.on[0].nodes), np.asarray(solid.rest)
    x = np.asarray(solution.position["plate"])
    F = np.einsum("eka,eqkb->eqab", x[cells], slopes @ np.linalg.inv(np.einsum("eka,qkb->eqab", X[cells], slopes)))
    stress = jax.jit(jax.vmap(jax.grad(lambda F: solid.in_plane_density(F))))
    return cells[:, :4], np.asarray(stress(jnp.asarray(F.reshape(-1, 2, 2)))).reshape(F.shape)


def main(cells=(6, 6), picture=None):
    plate = jm.mesh.plate_with_hole(radius=RADIUS, size=SIZE, cells=cells, kind="quad9")
    law = jm.material.LinearElastic(YOUNG, POISSON)
    solid = jm.force.SolidFEM.from_mesh("plate", plate, law, plane="stress")
    left, bottom = (plate.nodes_where(lambda x, axis=axis: np.abs(x[:, axis]) < 1e-9) for axis in (0, 1))
    system = jm.System(
        {"plate": jm.Vec2()},
        forces={"solid": solid, **loads(plate)},
        constraints={
            "left": jm.constraint.FixedComponents(("plate", left), (True, False)),
            "bottom": jm.constraint.FixedComponents(("plate", bottom), (False, True)),
        },
    )
    solution = jm.static_solve(system, system.at_rest({"plate": plate.points}))
    corners, stress = stress_at_corners(solid, system, solution)
    top = int(np.argmin(np.linalg.norm(np.asarray(plate.points) - [0.0, RADIUS], axis=1)))
    concentration = float(np.mean(stress[corners == top][:, 0, 0]))
    if picture:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        places = np.asarray(solution.position["plate"])
        ordered = np.zeros(len(places))
        ordered[corners.ravel()] = stress[..., 0, 0].ravel()
        triangles = np.concatenate([corners[:, [0, 1, 2]], corners[:, [0, 2, 3]]])
        figure, axes = plt.subplots()
        drawn = axes.tripcolor(*places.T, triangles, ordered, shading="gouraud")
        figure.colorbar(drawn, label="stress along x [Pa]")
        axes.set(aspect="equal", xlabel="x [m]", ylabel="y [m]")
        figure.savefig(picture)
    return concentration


if __name__ == "__main__":
    print(f"stress at the top of the hole: {main(picture='plate_with_hole.png'):.4f} Pa (Kirsch: 3)")
