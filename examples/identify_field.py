"""Where is the stiff spot? One Young's modulus per element, found from noisy displacements by exact adjoint gradients.

A clamped block of about 2,000 tetrahedra, pulled at its far end, hides a stiff ball. The displacements of its nodes are
measured with noise; L-BFGS finds the modulus of every element. `jax.value_and_grad` through `static_solve` costs one
more linear solve (implicit function theorem), however many moduli there are. Units: mm, N, MPa.

    python examples/identify_field.py [--cells 12 7 4] [--steps 60] [--picture output/identify_field.png]
"""

import argparse
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

import jaxmech as jm

try:
    import matplotlib.pyplot as plt
    from matplotlib.patches import Circle
    from tqdm.auto import tqdm
except ImportError as error:
    raise ImportError(f'{error.name} is missing: pip install "jaxmech[fit]".') from error

jax.config.update("jax_enable_x64", True)
SIZE = np.array([60.0, 35.0, 20.0])  # [mm]
YOUNG, INCLUSION, RADIUS = 1.0, 4.0, 11.0  # [MPa], [MPa], [mm]
NOISE = 0.01  # [mm], standard deviation of a measured displacement
WEIGHT, CORNER = 1.0, 0.05  # of the regularisation [1/mm2], and the jump of ln E below which it is quadratic


def neighbours(mesh):
    """The pairs of cells that share a face, `(m, 2)`, and the areas [mm2] of these faces."""
    faces = np.sort(np.asarray(mesh.cells)[:, [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]].reshape(-1, 3), axis=1)
    order = np.lexsort(faces.T)
    shared = np.flatnonzero((faces[order][1:] == faces[order][:-1]).all(axis=1))
    a, b, c = np.asarray(mesh.points)[faces[order[shared]]].transpose(1, 0, 2)
    areas = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    return np.stack([order[shared] // 4, order[shared + 1] // 4], axis=1), areas


def block(mesh):
    """The system, its rest state and its stiffness pattern."""
    root, end = mesh.nodes_where(lambda x: x[:, 0] == 0.0), mesh.faces_where(lambda x: x[:, 0] == SIZE[0])
    system = jm.System(
        dofs={"block": jm.Vec3()},
        forces={
            "solid": jm.TetrahedronFEM.from_mesh("block", mesh, jm.NeoHookean(young=YOUNG, poisson=0.4)),
            "pull": jm.Traction.from_mesh("block", end, [0.1, 0.01, 0.0]),
        },
        constraints={"clamp": jm.Fixed(on=("block", root))},
    )
    rest = system.at_rest({"block": mesh.points})
    return system, rest, jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))


def deform(log_young, scene):
    """The positions of the nodes under the load [mm]."""
    system, rest, stiffness = scene
    system = eqx.tree_at(lambda s: s.forces["solid"].material.young, system, jnp.exp(log_young))
    return jm.static_solve(system, rest, stiffness).position["block"]


def objective(log_young, measured, scene, pairs, areas):
    """Misfit in units of the noise, plus a smoothed total variation of `ln E` over the faces between elements."""
    misfit = 0.5 * jnp.sum((deform(log_young, scene) - measured) ** 2) / NOISE**2
    jumps = log_young[pairs[:, 0]] - log_young[pairs[:, 1]]
    return misfit + WEIGHT * jnp.sum(areas * (jnp.sqrt(jumps**2 + CORNER**2) - CORNER))


def main(cells=(12, 7, 4), steps=60, picture="output/identify_field.png"):
    """Recover the field; returns the volume-weighted rms of `ln(E / E_true)`: before, after, and the misfit/noise."""
    mesh = jm.box_mesh(cells=cells, size=SIZE)
    scene, (pairs, areas) = block(mesh), neighbours(mesh)
    centres, volumes = np.asarray(mesh.points)[mesh.cells].mean(axis=1), np.asarray(mesh.cell_measures())
    inside = np.linalg.norm(centres - SIZE * [0.5, 0.5, 0.0], axis=1) < RADIUS
    truth = np.log(np.where(inside, INCLUSION, YOUNG))
    positions = jax.jit(deform)
    exact = np.asarray(positions(truth, scene))
    measured = exact + NOISE * np.random.default_rng(0).normal(size=exact.shape)

    slope = jax.jit(jax.value_and_grad(objective))
    with tqdm(total=steps, desc="L-BFGS") as progress:
        found = minimize(
            lambda q: [np.asarray(a) for a in slope(q, measured, scene, pairs, areas)],
            np.zeros(len(mesh.cells)),  # ln(1 MPa) everywhere
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "maxfun": 2 * steps},
            callback=lambda intermediate_result: (
                progress.set_postfix_str(f"objective {intermediate_result.fun:.4g}"),
                progress.update(),
            ),
        )
    error = lambda q: float(np.sqrt(np.average((q - truth) ** 2, weights=volumes)))  # noqa: E731
    misfit = float(np.sqrt(np.mean((positions(found.x, scene) - measured) ** 2))) / NOISE
    before, after = error(np.zeros_like(truth)), error(found.x)
    modulus = [np.exp(np.average(found.x[i], weights=volumes[i])) for i in (inside, ~inside)]
    print(f"{len(truth)} moduli from {exact.size} displacements, {found.nit} iterations, {found.nfev} gradients")
    print(f"{'':22} {'true':>8} {'found':>8}")
    print(f"{'E in the ball [MPa]':22} {INCLUSION:8.3f} {modulus[0]:8.3f}")
    print(f"{'E around it [MPa]':22} {YOUNG:8.3f} {modulus[1]:8.3f}")
    print(f"rms of ln(E/E_true): {before:.3f} at the start, {after:.3f} found; misfit {misfit:.2f} of the noise")
    draw(mesh, truth, found.x, Path(picture))
    return before, after, misfit


def draw(mesh, truth, found, path):
    """True and found modulus, and their ratio, on the face that cuts the ball."""
    faces, owners = jm.boundary_faces(mesh)
    points = np.asarray(mesh.points)
    cut = (points[faces][:, :, 2] == 0.0).all(axis=1)
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.4), layout="constrained", sharey=True)
    limits = {"vmin": 0.8, "vmax": 1.1 * INCLUSION, "cmap": "viridis"}
    pictures = (
        ("True modulus", np.exp(truth), limits, "E [MPa]"),
        ("Found modulus", np.exp(found), limits, "E [MPa]"),
        ("Found over true", np.exp(found - truth), {"vmin": 0.5, "vmax": 1.5, "cmap": "RdBu_r"}, "ratio [-]"),
    )
    for axis, (title, values, style, label) in zip(axes, pictures, strict=True):
        drawn = axis.tripcolor(*points[:, :2].T, faces[cut], values[owners[cut]], edgecolors="none", **style)
        axis.add_patch(Circle(SIZE[:2] / 2, RADIUS, fill=False, color="black", lw=1.0, ls="--"))
        axis.set(title=title, xlabel="x [mm]", aspect="equal")
        figure.colorbar(drawn, ax=axis, label=label, shrink=0.9)
    axes[0].set_ylabel("y [mm]")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, nargs=3, default=(12, 7, 4), help="blocks of 6 tetrahedra along each axis")
    parser.add_argument("--steps", type=int, default=60, help="iterations of L-BFGS at most")
    parser.add_argument("--picture", default="output/identify_field.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
