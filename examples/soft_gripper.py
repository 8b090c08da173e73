"""A soft gripper takes hold: where to stand and how hard to pull, by the gradient of a grasp.

Two fingers of soft tetrahedra are described in the axes of a rigid palm (`DeformableOnRigidFrameMapping`), their roots held
in it. A cable runs along the inside of each finger: its length is a mapped state, the sum of the distances of its eyelets,
and its tension is a constant force on that length. Wanted: the fingertips on two opposite points of a box that stands askew.
Unknowns: place and turn of the palm in the plane, and both tensions; every number comes through mappings, and so does the
misfit. Gauss-Newton with the exact Jacobian of the equilibrium.

    python examples/soft_gripper.py [--picture output/soft_gripper.png]
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
LENGTH, WIDTH, GAP = 0.1, 0.02, 0.06  # [m] of a finger, its section, between the fingers
MESH = jm.box_mesh(cells=(10, 2, 2), size=(LENGTH, WIDTH, WIDTH), kind="tetrahedron")
BOX, TILT = np.array([0.115, 0.01]), 0.15  # [m], [rad]: centre and turn of a box of 30 mm
X = np.asarray(MESH.points)
SIDES = {"left": 1.0, "right": -1.0}


def finger_points(side):
    """The rest positions of a finger in the axes of the palm: along x, `GAP` apart along y; the inside faces y = 0."""
    y = 0.5 * GAP + X[:, 1]
    return np.stack([X[:, 0], SIDES[side] * y, X[:, 2] - 0.5 * WIDTH], axis=1)


def scene():
    """The gripper at rest: the state `left` is in palm axes, `left finger` in the world, `left cable` a length."""
    cells = {"left": MESH.cells, "right": np.asarray(MESH.cells)[:, [0, 2, 1, 3]]}  # a mirror image turns cells inside out
    eyelets = MESH.nodes_where(lambda x: (x[:, 1] == 0.0) & (np.abs(x[:, 2] - 0.5 * WIDTH) < 1e-9))
    eyelets = eyelets[np.argsort(X[eyelets, 0])]
    nodes, n = np.arange(len(X)), len(eyelets) - 1
    root, tip = MESH.nodes_where(lambda x: x[:, 0] == 0.0), eyelets[-1:]
    dofs, forces, mappings, constraints = {"palm": jm.Rigid3()}, {}, {}, {"palm": jm.Fixed(("palm", [0]))}
    for side in SIDES:
        finger, links, cable = f"{side} finger", f"{side} links", f"{side} cable"
        dofs |= {side: jm.Vec3(), finger: jm.Vec3(), links: jm.Vec1(), cable: jm.Vec1(), f"{side} tip": jm.Vec3()}
        mappings |= {
            finger: jm.DeformableOnRigidFrameMapping((("palm", np.zeros(len(X), int)), (side, nodes)), finger),
            links: jm.DistanceMapping(((finger, eyelets[:-1]), (finger, eyelets[1:])), links),
            cable: jm.SumMapping((links, np.arange(n)[None]), cable, np.ones(n)),
            f"{side} tip": jm.SubsetMapping((finger, tip), f"{side} tip"),
        }
        forces |= {
            finger: jm.TetrahedronFEM((finger, cells[side]), finger_points(side), jm.NeoHookean(1e5, 0.4)),
            cable: jm.ConstantForce((cable, [0]), [0.0]),
        }
        constraints[side] = jm.Fixed((side, root))
    system = jm.System(dofs, forces=forces, mappings=mappings, constraints=constraints)
    rest = {"palm": np.array([[0.0] * 6 + [1.0]]), **{side: finger_points(side) for side in SIDES}}
    return system, system.at_rest(rest)


def targets():
    """Where the tips should be: the middles of two opposite sides of the box."""
    out = 0.015 * np.array([-np.sin(TILT), np.cos(TILT)])
    return {side: np.array([*(BOX + sign * out), 0.0]) for side, sign in SIDES.items()}


def grasp(unknowns, system, rest, linear_system):
    """The equilibrium for `(x, y, turn, tension, tension)` of palm [m, rad] and cables [N]."""
    x, y, turn, *tensions = unknowns
    palm = jnp.stack([x, y, 0.0 * x, 0.0 * x, 0.0 * x, jnp.sin(0.5 * turn), jnp.cos(0.5 * turn)])
    for side, tension in zip(SIDES, tensions, strict=True):
        system = eqx.tree_at(lambda s, c=f"{side} cable": s.forces[c].force, system, -tension[None])
    start = eqx.tree_at(lambda s: s.position["palm"], rest, palm[None])
    return jm.static_solve(system, start, linear_system, rtol=1e-10).state


def main(picture="output/soft_gripper.png", iterations=8):
    """The unknowns found and the distance [m] that the tips are still away."""
    system, rest = scene()
    terms = jm.Terms(mass=False, damping=False)
    linear_system = jm.MatrixLinearSystem.build(system, rest, terms)
    wanted = jnp.concatenate([jnp.asarray(t[:2]) for t in targets().values()])

    def misfit(unknowns, scene):
        tips = jm.kinematics(system, grasp(unknowns, *scene))
        return jnp.concatenate([tips[f"{side} tip"][0, :2] for side in SIDES]) - wanted

    both = eqx.filter_jit(lambda u, scene: (misfit(u, scene), jax.jacrev(misfit)(u, scene)))
    unknowns, scale = jnp.array([0.0, 0.0, 0.0, 0.5, 0.5]), jnp.array([0.01, 0.01, 0.1, 0.5, 0.5])
    for i in range(iterations):
        r, J = both(unknowns, (system, rest, linear_system))
        print(f"iteration {i}: tips {1e3 * float(jnp.linalg.norm(r)):9.5f} mm away, unknowns {np.round(unknowns, 4)}")
        if jnp.linalg.norm(r) < 1e-9:
            break
        # Four equations, five unknowns: the smallest step, each unknown in its own scale.
        unknowns = unknowns - scale * jnp.linalg.lstsq(J * scale, r)[0]
    draw(system, grasp(unknowns, system, rest, linear_system), Path(picture))
    return np.asarray(unknowns), float(jnp.linalg.norm(r))


def draw(system, state, path):
    """Fingers, cables, box, seen along z."""
    x = jm.kinematics(system, state)
    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    corners = 0.015 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    turn = np.array([[np.cos(TILT), -np.sin(TILT)], [np.sin(TILT), np.cos(TILT)]])
    axis.fill(*(BOX[:, None] + turn @ corners.T), color="tab:gray", alpha=0.4, label="box")
    for side in SIDES:
        finger = np.asarray(x[f"{side} finger"])
        for a, b in finger[MESH.edges()][:, :, :2]:
            axis.plot(*zip(a, b, strict=True), color="tab:blue", lw=0.3)
        line = system.mappings[f"{side} links"].parents
        nodes = np.append(np.asarray(line[0].nodes), np.asarray(line[1].nodes)[-1:])
        axis.plot(*finger[nodes, :2].T, "o-", color="tab:red", ms=2, lw=1, label=f"{side} cable")
    axis.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", title="The grasp that the gradient found")
    axis.legend(frameon=False, loc="center left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", default="output/soft_gripper.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
