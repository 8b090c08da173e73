"""Where is the stiff spot? One Young's modulus per element, found from noisy displacements by exact adjoint gradients.

A clamped block of about 2,000 tetrahedra, pulled at its far end, hides a stiff ball. The displacements of its nodes are
measured with noise; L-BFGS finds the modulus of every element. `jax.value_and_grad` through `static_solve` costs one
more linear solve (implicit function theorem), however many moduli there are. Units: mm, N, MPa; output/identify_field.png.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle
from scipy.optimize import minimize

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
SIZE = np.array([60.0, 35.0, 20.0])  # [mm]
YOUNG, INCLUSION, RADIUS = 1.0, 4.0, 11.0  # [MPa], [MPa], [mm]
NOISE = 0.01  # [mm], standard deviation of a measured displacement
WEIGHT, CORNER = 1.0, 0.05  # of the regularisation [1/mm2], and the jump of ln E below which it is quadratic


def neighbours(mesh):
    """The pairs of cells that share a face, `(m, 2)`, and the areas [mm2] of these faces."""
    faces = jm.mesh.tetrahedra_to_triangles(mesh)
    pairs, areas = np.asarray(faces.parents), np.asarray(faces.mesh.cell_measures())
    return pairs[pairs[:, 1] >= 0], areas[pairs[:, 1] >= 0]


def block(mesh):
    """The system, its rest state and its stiffness pattern."""
    system = jm.System(
        dofs={"block": jm.Vec3()},
        forces={
            "solid": jm.force.TetrahedronFEM.from_mesh("block", mesh, jm.material.NeoHookean(young=YOUNG, poisson=0.4)),
            "pull": jm.force.Traction.from_mesh("block", mesh.faces_where(lambda x: x[:, 0] == SIZE[0]), [0.1, 0.01, 0.0]),
        },
        constraints={"clamp": jm.constraint.Fixed(on=("block", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    rest = system.at_rest({"block": mesh.points})
    return system, rest, jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))


def deform(log_young, system, rest, stiffness):
    """The positions of the nodes under the load [mm]."""
    system = eqx.tree_at(lambda s: s.forces["solid"].material.young, system, jnp.exp(log_young))
    return jm.static_solve(system, rest, stiffness).position["block"]


def objective(log_young, measured, scene, pairs, areas):
    """Misfit in units of the noise, plus a smoothed total variation of `ln E` over the faces between elements."""
    misfit = 0.5 * jnp.sum((deform(log_young, *scene) - measured) ** 2) / NOISE**2
    jumps = log_young[pairs[:, 0]] - log_young[pairs[:, 1]]
    return misfit + WEIGHT * jnp.sum(areas * (jnp.sqrt(jumps**2 + CORNER**2) - CORNER))


def main(cells=(12, 7, 4), steps=60, picture="output/identify_field.png"):
    """Recover the field; returns the volume-weighted rms of `ln(E / E_true)`: before, after, and the misfit/noise."""
    mesh = jm.mesh.box_mesh(cells=cells, size=SIZE)
    scene, (pairs, areas) = block(mesh), neighbours(mesh)
    volumes, centres = np.asarray(mesh.cell_measures()), np.asarray(mesh.points)[mesh.cells].mean(axis=1)
    inside = np.linalg.norm(centres - SIZE * [0.5, 0.5, 0.0], axis=1) < RADIUS
    truth = np.log(np.where(inside, INCLUSION, YOUNG))
    positions, slope = jax.jit(deform), jax.jit(jax.value_and_grad(objective))
    exact = np.asarray(positions(truth, *scene))
    measured = exact + NOISE * np.random.default_rng(0).normal(size=exact.shape)
    start, data = np.zeros(len(mesh.cells)), (measured, scene, pairs, areas)  # ln(1 MPa) everywhere
    found = minimize(slope, start, data, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxfun": 2 * steps})
    before, after = (float(np.sqrt(np.average((q - truth) ** 2, weights=volumes))) for q in (start, found.x))
    misfit = float(np.sqrt(np.mean((positions(found.x, *scene) - measured) ** 2))) / NOISE
    ball, around = (np.exp(np.average(found.x[i], weights=volumes[i])) for i in (inside, ~inside))
    print(f"{len(truth)} moduli, {exact.size} displacements, {found.nit} iterations, {found.nfev} gradients")
    print(f"E in the ball {ball:.3f} MPa (true {INCLUSION}), around it {around:.3f} MPa (true {YOUNG})")
    print(f"rms of ln(E/E_true): {before:.3f} at the start, {after:.3f} found; misfit {misfit:.2f} of the noise")
    draw(mesh, truth, found.x, Path(picture))
    return before, after, misfit


def draw(mesh, truth, found, path):
    """True and found modulus, and their ratio, on the face that cuts the ball."""
    (faces, owners), points = jm.mesh.boundary_faces(mesh), np.asarray(mesh.points)
    cut = (points[faces][:, :, 2] == 0.0).all(axis=1)
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.4), layout="constrained", sharey=True)
    modulus, ratio = {"vmin": 0.8, "vmax": 1.1 * INCLUSION, "cmap": "viridis"}, {"vmin": 0.5, "vmax": 1.5, "cmap": "RdBu_r"}
    panels = ("True modulus [MPa]", truth, modulus), ("Found [MPa]", found, modulus), ("Found / true", found - truth, ratio)
    for axis, (title, values, style) in zip(axes, panels, strict=True):
        drawn = axis.tripcolor(*points[:, :2].T, faces[cut], np.exp(values)[owners[cut]], edgecolors="none", **style)
        axis.add_patch(Circle(SIZE[:2] / 2, RADIUS, fill=False, color="black", lw=1.0, ls="--"))
        axis.set(title=title, xlabel="x [mm]", ylabel="y [mm]" if axis is axes[0] else "", aspect="equal")
        figure.colorbar(drawn, ax=axis, shrink=0.9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
