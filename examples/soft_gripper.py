"""A soft gripper takes hold: where to stand and how hard to pull, by the gradient of a grasp.

Two fingers of soft tetrahedra are described in the axes of a rigid palm (`DeformableOnRigidFrameMapping`), their roots fixed
in it. A cable runs along the inside of each finger: its length is a mapped state, the sum of the distances of its eyelets,
and its tension is a constant force on that length. Wanted: the fingertips on two opposite points of a box that stands askew.
Unknowns: place and turn of the palm in the plane, and both tensions; every number comes through mappings, and so does the
misfit. Gauss-Newton with the exact Jacobian of the equilibrium. Draws output/soft_gripper.png.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
LENGTH, WIDTH, GAP = 0.1, 0.02, 0.06  # [m] of a finger, its section, between the fingers
MESH = jm.mesh.box_mesh(cells=(10, 2, 2), size=(LENGTH, WIDTH, WIDTH), origin=(0.0, 0.5 * GAP, -0.5 * WIDTH))
RUBBER = jm.material.NeoHookean(1e5, 0.4)  # [Pa]
X = np.asarray(MESH.points)  # of the left finger in the axes of the palm: along x, the inside faces the plane y = 0
EYELETS = MESH.nodes_where(lambda x: (x[:, 1] == 0.5 * GAP) & (np.abs(x[:, 2]) < 1e-9))
EYELETS = EYELETS[np.argsort(X[EYELETS, 0])]
BOX, SIZE, TILT = np.array([0.115, 0.01]), 0.03, 0.15  # [m], [m], [rad]: centre, side and turn of a box
TURN = np.array([[np.cos(TILT), -np.sin(TILT)], [np.sin(TILT), np.cos(TILT)]])
SIDES = {"left": 1.0, "right": -1.0}
TARGETS = jnp.concatenate([BOX + sign * 0.5 * SIZE * TURN[:, 1] for sign in SIDES.values()])  # where the tips should be


def scene():
    """The gripper at rest: the state `left` is in palm axes, `left finger` in the world, `left cable` a length."""
    nodes, n, root = np.arange(len(X)), len(EYELETS) - 1, MESH.nodes_where(lambda x: x[:, 0] == 0.0)
    dofs, forces, mappings, constraints = {"palm": jm.Rigid3()}, {}, {}, {"palm": jm.constraint.Fixed(("palm", [0]))}
    rest = {"palm": np.array([[0.0] * 6 + [1.0]])}
    for side, sign in SIDES.items():
        finger, links, cable, tip = (f"{side} {part}" for part in ("finger", "links", "cable", "tip"))
        rest[side] = X * [1.0, sign, 1.0]
        order = [0, 1, 2, 3] if sign > 0 else [0, 2, 1, 3]  # a mirror image turns cells inside out
        dofs |= {side: jm.Vec3(), finger: jm.Vec3(), links: jm.Vec1(), cable: jm.Vec1(), tip: jm.Vec3()}
        mappings |= {
            finger: jm.mapping.DeformableOnRigidFrameMapping((("palm", 0 * nodes), (side, nodes)), finger),
            links: jm.mapping.DistanceMapping(((finger, EYELETS[:-1]), (finger, EYELETS[1:])), links),
            cable: jm.mapping.SumMapping((links, np.arange(n)[None]), cable, np.ones(n)),
            tip: jm.mapping.SubsetMapping((finger, EYELETS[-1:]), tip),
        }
        forces[finger] = jm.force.TetrahedronFEM((finger, MESH.cells[:, order]), rest[side], RUBBER)
        forces[cable] = jm.force.ConstantForce((cable, [0]), [0.0])
        constraints[side] = jm.constraint.Fixed((side, root))
    system = jm.System(dofs, forces=forces, mappings=mappings, constraints=constraints)
    state = system.at_rest(rest)
    return system, state, jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))


def grasp(unknowns, system, rest, linear_system):
    """All positions in equilibrium for `(x, y, turn, tension, tension)` of palm [m, rad] and cables [N]."""
    x, y, turn, *tensions = unknowns
    palm = jnp.stack([x, y, 0.0 * x, 0.0 * x, 0.0 * x, jnp.sin(0.5 * turn), jnp.cos(0.5 * turn)])
    pulled = eqx.tree_at(lambda s: [s.forces[f"{side} cable"].force for side in SIDES], system, [-t[None] for t in tensions])
    start = eqx.tree_at(lambda s: s.position["palm"], rest, palm[None])
    return jm.kinematics(pulled, jm.static_solve(pulled, start, linear_system, rtol=1e-10).state)


def misfit(unknowns, gripper):
    """How far the tips are from their targets [m]; and once more, with all positions."""
    x = grasp(unknowns, *gripper)
    away = jnp.concatenate([x[f"{side} tip"][0, :2] for side in SIDES]) - TARGETS
    return away, (away, x)


def main(picture="output/soft_gripper.png", iterations=8):
    """The unknowns found and the distance [m] that the tips are still away."""
    gripper = scene()
    both = eqx.filter_jit(jax.jacrev(misfit, has_aux=True))
    unknowns, scale = jnp.array([0.0, 0.0, 0.0, 0.5, 0.5]), jnp.array([0.01, 0.01, 0.1, 0.5, 0.5])
    for i in range(iterations):
        J, (r, x) = both(unknowns, gripper)
        print(f"iteration {i}: tips {1e3 * float(jnp.linalg.norm(r)):9.5f} mm away, unknowns {np.round(unknowns, 4)}")
        if jnp.linalg.norm(r) < 1e-9:
            break
        # Four equations, five unknowns: the smallest step, each unknown in its own scale.
        unknowns = unknowns - scale * jnp.linalg.lstsq(J * scale, r)[0]
    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    corners = 0.5 * SIZE * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    axis.fill(*(BOX[:, None] + TURN @ corners.T), color="tab:gray", alpha=0.4, label="box")
    for side in SIDES:
        finger = np.asarray(x[f"{side} finger"])[:, :2]
        axis.plot(*finger[MESH.edges()].transpose(2, 1, 0), color="tab:blue", lw=0.3)
        axis.plot(*finger[EYELETS].T, "o-", color="tab:red", ms=2, lw=1, label=f"{side} cable")
    axis.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", title="The grasp that the gradient found")
    axis.legend(frameon=False, loc="center left")
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    return np.asarray(unknowns), float(jnp.linalg.norm(r))


if __name__ == "__main__":
    main()
