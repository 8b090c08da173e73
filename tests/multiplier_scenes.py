"""Small motions that multipliers hold: rods, joints, rails, a loop. Each has no more than 16 unknowns."""

import jax.numpy as jnp
import numpy as np

import jaxmech as jm

G2, G3 = (0.0, -9.81), (0.0, 0.0, -9.81)
INERTIA = np.diag([0.2, 0.4, 0.3])
Y = [0.0, 1.0, 0.0]
LEVEL = [[-0.5, 0.0, 0.0, 0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)]]


def rod(relaxation=None, compliance=0.0):
    """A mass on a rod from a nail: 5 unknowns, the nail among them."""
    held = jm.constraint.Distance((("nail", [0]), ("p", [0])), length=1.0, relaxation=relaxation, compliance=compliance)
    return _of_points({"rod": held}, [[np.sin(0.9), -np.cos(0.9)]])


def relaxed_rod():
    """The same, by Baumgarte's stabilisation."""
    return rod(relaxation=0.05)


def soft_rod():
    """The same, of a rod that gives."""
    return rod(0.02, 1e-4)


def two_rods():
    """A double pendulum of points: 8 unknowns."""
    first = jm.constraint.Distance((("nail", [0]), ("p", [0])), length=1.0)
    second = jm.constraint.Distance((("p", [0]), ("p", [1])), length=0.5)
    return _of_points({"first": first, "second": second}, [[1.0, 0.0], [1.3, 0.4]])


def bead():
    """A point on a straight rail, and a weight that hangs from it: 8 unknowns."""
    rail = jm.constraint.OnPlane(("p", [0]), normal=[0.6, 0.8])
    string = jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0)
    return _of_points({"rail": rail, "string": string}, [[0.0, 0.0], [0.6, -0.8]])


def four_bars():
    """A crank, a coupler and a rocker of points, with the ground: 11 unknowns."""
    crank = jm.constraint.Distance((("nail", [0]), ("p", [0])), length=0.5)
    coupler = jm.constraint.Distance((("p", [0]), ("p", [1])), length=np.hypot(1.0, 0.3))
    rocker = jm.constraint.Distance((("p", [1]), ("nail", [1])), length=np.hypot(0.3, 0.8))
    return _of_points({"crank": crank, "coupler": coupler, "rocker": rocker}, [[0.0, 0.5], [1.0, 0.8]], nails=2)


def ball():
    """A body on a ball joint: 9 unknowns."""
    return _of_a_body({"ball": jm.constraint.BallJoint(("bar", [0]), frame_b=jm.constraint.frame([0.0, 0.0, 0.5]))})


def hinge():
    """A body on a hinge: 11 unknowns."""
    world, own = (jm.constraint.frame(at, axis=Y) for at in ([0.0, 0.0, 0.0], [0.0, 0.0, 0.5]))
    return _of_a_body({"hinge": jm.constraint.HingeJoint(on=("bar", [0]), frame_a=world, frame_b=own)})


def slider():
    """A body that slides along an axis of the world and does not turn: 11 unknowns."""
    axis = jm.constraint.frame([0.0, 0.0, 0.0], axis=[0.6, 0.0, 0.8])
    rail = jm.constraint.PrismaticJoint(on=("bar", [0]), frame_a=axis, frame_b=axis)
    return _of_a_body({"rail": rail}, [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])


def two_bars():
    """A double pendulum of bodies in the plane, pinned by points that they carry: 10 unknowns."""
    carried = jm.mapping.RigidMapping(("bar", [0, 0, 1]), "eye", [[0.0, 0.5], [0.0, -0.5], [0.0, 0.5]])
    pins = {"pin": jm.constraint.Attachment(("eye", [0])), "joint": jm.constraint.Attachment((("eye", [1]), ("eye", [2])))}
    system = jm.System(
        {"bar": jm.Rigid2(), "eye": jm.Vec2()},
        masses={"bar": jm.mass.PlanarRigidMass(("bar", [0, 1]), 2.0, 0.2)},
        mappings={"eyes": carried},
        constraints=pins,
        gravity=G2,
    )
    a, b = 0.6, 1.1
    first, second = np.array([np.sin(a), -np.cos(a)]), np.array([np.sin(b), -np.cos(b)])
    return system, system.at_rest({"bar": [[*(0.5 * first), a], [*(first + 0.5 * second), b]]})


def _of_points(constraints, points, nails=1):
    system = jm.System(
        {"p": jm.Vec2(), "nail": jm.Vec2()},
        masses={"p": jm.mass.UniformMass(("p", range(len(points))), 2.0)},
        constraints={**constraints, "nails": jm.constraint.Fixed(("nail", range(nails)))},
        gravity=G2,
    )
    return system, system.at_rest({"p": points, "nail": [[1.3 * n, 0.0] for n in range(nails)]})


def _of_a_body(constraints, at=LEVEL):
    system = jm.System(
        {"bar": jm.Rigid3()},
        masses={"bar": jm.mass.RigidMass(("bar", [0]), 2.0, INERTIA)},
        constraints=constraints,
        gravity=G3,
    )
    return system, system.at_rest({"bar": jnp.asarray(at)})


SCENES = {
    scene.__name__: scene for scene in (rod, relaxed_rod, soft_rod, two_rods, bead, four_bars, ball, hinge, slider, two_bars)
}
