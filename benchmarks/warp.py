"""Preconditioners on a soft bar that bends under gravity: iterations of every time step, the matrix kept.

    python -m benchmarks.warp [--every 1000] [--steps 100] [--picture docs/figures/warp.svg]

The bar of SOFA's scenes: 4 x 4 x 20 nodes, corotational hexahedra, E = 4000 Pa, nu = 0.3, 320 kg, clamped at one end, steps
of 0.02 s, Rayleigh damping 0.1 and 0.1; conjugate gradients to a relative residual of 1e-8. Prints one line for each
preconditioner: iterations in all, and of the last step.
"""

import argparse
from pathlib import Path

import jax
import matplotlib
import numpy as np

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
DT = 0.02  # [s]


def bar():
    """The scene and its state at rest."""
    mesh = jm.mesh.box_mesh(cells=(3, 3, 19), size=(3.0, 3.0, 19.0), kind="hexahedron")
    nodes = len(mesh.points)
    system = jm.System(
        {"bar": jm.Vec3()},
        forces={
            "elastic": jm.force.HexahedronFEM.from_mesh("bar", mesh, jm.material.Corotational(young=4000.0, poisson=0.3))
        },
        masses={"mass": jm.mass.UniformMass(("bar", np.arange(nodes)), 320.0 / nodes)},
        constraints={"clamp": jm.constraint.Fixed(("bar", mesh.nodes_where(lambda x: x[:, 2] == 0.0)))},
        gravity=(0.0, -9.81, 0.0),
    )
    return system, system.at_rest({"bar": mesh.points})


def iterations(every: int, steps: int) -> dict[str, np.ndarray]:
    """The iterations of every step, by preconditioner; and how far the tip has come down."""
    system, state = bar()
    kept = jm.solver.PreconditionedMatrixFreeSystem.build(system, state, every=every, assembled=True)
    cases = {
        "block Jacobi, of the present": (kept.matrix, jm.solver.BlockJacobi()),
        "StaleFactor": (kept, jm.solver.StaleFactor()),
        "WarpedFactor": (kept, jm.solver.WarpedFactor()),
    }
    found = {}
    for name, (linear_system, preconditioner) in cases.items():
        solver = jm.solver.PCG(1e-8, preconditioner=preconditioner)
        euler = jm.ImplicitEuler(linear_system, solver, rayleigh_stiffness=0.1, rayleigh_mass=0.1)
        trajectory = jm.simulate(system, state, euler, DT, steps)
        found[name] = np.asarray(trajectory.info.linear_steps)
        print(f"{name:30s} {found[name].sum():6d} iterations, {found[name][-1]:3d} in the last step")
    found["tip"] = np.asarray(trajectory.position["bar"])[1:, :, 1].min(axis=1)
    return found


def draw(found: dict[str, np.ndarray], every: int, picture: str) -> None:
    """Iterations over time, and the tip."""
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.4), layout="constrained")
    tip = found.pop("tip")
    time = DT * np.arange(1, len(tip) + 1)
    middle = len(tip) // 2
    for (name, counts), colour, above in zip(found.items(), ("#777777", "#d95f02", "#1b6ca8"), (6, 12, -16), strict=True):
        axes.plot(time, counts, color=colour, drawstyle="steps-mid")
        place = (time[middle], counts[middle])
        axes.annotate(name, place, xytext=(0, above), textcoords="offset points", ha="center", color=colour)
    kept = "assembled once" if every >= len(tip) else f"assembled at every {every}th step"
    axes.set(xlabel="time [s]", ylabel="iterations of one step", ylim=(0, 60), title=f"A bending bar, its matrix {kept}")
    below = axes.twinx()
    below.plot(time, tip, color="black", linestyle=":", linewidth=1)
    below.set_ylabel("height of the tip [m] (dotted)")
    for side in (axes, below):
        side.spines["top"].set_visible(False)
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, metadata={"Date": None} if picture.endswith("svg") else None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1000, help="steps from one assembly of the kept matrix to the next")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--picture", help="where to draw it")
    options = parser.parse_args()
    numbers = iterations(options.every, options.steps)
    if options.picture:
        draw(numbers, options.every, options.picture)
