"""Three beams in one implicit system, and its matrix: one carried by rigid sections, one free, and a second carried one.

Each beam is a grid of 4 x 4 x 20 nodes (hexahedra, E = 1e4 Pa, nu = 0.45). Of the carried ones the 320 nodes ride on 20
rigid frames, so that their 960 unknowns become 120; the free one keeps its 960. Rayleigh damping 0.1/0.1, dt = 0.02 s, the
first section constrained, gravity across: the composite example of SOFA's linear systems, 1,200 unknowns.

    python examples/rigid_sections.py [--steps 50] [--picture output/rigid_sections.png]
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm

try:
    import matplotlib.pyplot as plt
except ImportError as error:
    raise ImportError(f'{error.name} is missing: pip install "jaxmech[viz]".') from error

jax.config.update("jax_enable_x64", True)
YOUNG, POISSON, NODE_MASS, DT = 1e4, 0.45, 1.0, 0.02
MESH = jm.mesh.box_mesh(cells=(3, 3, 19), size=(3.0, 3.0, 19.0), kind="hexahedron")
SECTIONS = 20
SECTION_OF = np.rint(np.asarray(MESH.points)[:, 2]).astype(int)
CENTRES = np.stack([np.full(SECTIONS, 1.5), np.full(SECTIONS, 1.5), np.arange(float(SECTIONS))], axis=1)
FRAMES = np.concatenate([CENTRES, np.tile([0.0, 0.0, 0.0, 1.0], (SECTIONS, 1))], axis=1)


def scene():
    """The system, its rest state, and how many unknowns each main state has."""
    solid = jm.material.Corotational(YOUNG, POISSON)
    shift = {"carried": 0.0, "free": 6.0, "second": 12.0}
    points = {name: np.asarray(MESH.points) + [x, 0.0, 0.0] for name, x in shift.items()}
    frames = {name: FRAMES + np.array([shift[name], *[0.0] * 6]) for name in ("carried", "second")}
    carried = {n: jm.mapping.RigidMapping.from_global(f"{n} sections", n, SECTION_OF, frames[n], points[n]) for n in frames}
    system = jm.System(
        dofs={**{n: jm.Vec3() for n in shift}, **{f"{n} sections": jm.Rigid3() for n in frames}},
        forces={n: jm.force.HexahedronFEM((n, MESH.cells), p, solid) for n, p in points.items()},
        masses={f"{n} mass": jm.mass.UniformMass((n, np.arange(len(p))), NODE_MASS) for n, p in points.items()},
        mappings=carried,
        constraints={
            "free clamp": jm.constraint.Fixed(("free", np.flatnonzero(SECTION_OF == 0))),
            **{f"{n} clamp": jm.constraint.Fixed((f"{n} sections", [0])) for n in frames},
        },
        gravity=(0.0, -10.0, 0.0),
    )
    rest = {"free": points["free"], **{f"{n} sections": x for n, x in frames.items()}}
    return system, system.at_rest(rest)


def main(steps=50, picture="output/rigid_sections.png"):
    """Tip deflections [m] of the three beams at the end, and milliseconds of one step."""
    system, rest = scene()
    linear_system = jm.MatrixLinearSystem.build(system, rest)
    integrator = jm.ImplicitEuler(linear_system, rayleigh_stiffness=0.1, rayleigh_mass=0.1)
    jm.simulate(system, rest, integrator, DT, steps, save_every=steps)  # compiles
    start = time.perf_counter()
    end = jm.simulate(system, rest, integrator, DT, steps, save_every=steps).last
    jax.block_until_ready(end)
    step = 1e3 * (time.perf_counter() - start) / steps
    x0, x1 = jm.kinematics(system, rest), jm.kinematics(system, end)
    drops = {n: float(jnp.mean((x1[n] - x0[n])[SECTION_OF == SECTIONS - 1, 1])) for n in ("carried", "free", "second")}
    A = linear_system.assemble(system, rest)
    print(f"{sum(n * d for _, n, d in A.sizes)} unknowns, {step:.1f} ms per step; tips after {steps * DT:g} s:")
    for name, drop in drops.items():
        print(f"  {name:8} {drop:8.4f} m")
    draw(A, x1, Path(picture))
    return drops, step


def draw(A, x, path):
    """The matrix, state by state; and the beams, every element edge."""
    figure = plt.figure(figsize=(12, 5), layout="constrained")
    jm.viz.spy(A, axes=figure.add_subplot(1, 2, 1, title="The matrix of one step"))
    space = figure.add_subplot(1, 2, 2, projection="3d")
    for name, color in (("carried", "tab:orange"), ("free", "tab:blue"), ("second", "tab:green")):
        edges = np.asarray(x[name])[MESH.edges()][:, :, [0, 2, 1]]
        lines = np.pad(edges, ((0, 0), (0, 1), (0, 0)), constant_values=np.nan)  # one line with gaps: 900 take seconds
        space.plot(*lines.reshape(-1, 3).T, color=color, lw=0.3)
        space.plot([], [], [], color=color, label=name)
    space.set(title="The beams", xlabel="x [m]", ylabel="z [m]", zlabel="y [m]")
    space.set_aspect("equal")
    space.legend(frameon=False, loc="upper right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=50, help="how many steps of 20 ms")
    parser.add_argument("--picture", default="output/rigid_sections.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
