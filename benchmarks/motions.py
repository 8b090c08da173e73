"""The schemes, and the scenes on which they are compared, each with its span [s]: pendulums, a top, beams, a ball."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm

I = jm.integrator
IMPLICIT = {
    "ImplicitEuler": jm.ImplicitEuler,
    "Midpoint": I.Midpoint,
    "Trapezoid": I.Trapezoid,
    "Newmark": I.Newmark,
    "HHT": I.HHT,
    "GeneralizedAlpha": I.GeneralizedAlpha,
    "BDF2": lambda linear_system, **options: I.BDF(linear_system, order=2, **options),
    "BDF3": lambda linear_system, **options: I.BDF(linear_system, order=3, **options),
    "TRBDF2": I.TRBDF2,
    "EnergyMomentum": I.EnergyMomentum,
}
EXPLICIT = {
    "SymplecticEuler": I.SymplecticEuler,
    "VelocityVerlet": I.VelocityVerlet,
    "CentralDifference": I.CentralDifference,
    "RK4": I.RK4,
    "Tsitouras": I.Tsitouras,
}


def cpu(function: Callable[[], Any], runs: int = 3) -> tuple[float, float, Any]:
    """CPU seconds of the first call, of the shortest of some more, and the last value."""
    times = []
    for _ in range(runs + 1):
        start = time.process_time()
        value = jax.block_until_ready(function())
        times.append(time.process_time() - start)
    return times[0], min(times[1:]), value


def swinging():
    """A mass that swings on a spring; periods of 1 s and 2 s."""
    system = jm.System(
        {"p": jm.Vec2()},
        forces={"spring": jm.force.Springs((("p", [0]), ("p", [1])), 40.0, 1.0)},
        masses={"mass": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
        constraints={"nail": jm.constraint.Fixed(("p", [0]))},
        gravity=[0.0, -9.81],
    )
    return system, system.at_rest({"p": [[0.0, 0.0], [1.2, 0.1]]})


def stiff_pendulum():
    """The same on a spring a thousand times as stiff."""
    system, state = swinging()
    return eqx.tree_at(lambda s: s.forces["spring"].stiffness, system, jnp.asarray(4e4)), eqx.tree_at(
        lambda s: s.position["p"], state, jnp.array([[0.0, 0.0], [1.0, 0.0]])
    )


def double_pendulum():
    """Two joints, masses of 1 kg on rods of 1 m, both level at first: positions are functions of angles."""

    def tips(q: jax.Array) -> jax.Array:
        first = jnp.stack([jnp.sin(q[0]), -jnp.cos(q[0])])
        return jnp.concatenate([first, first + jnp.stack([jnp.sin(q[1]), -jnp.cos(q[1])])])

    def first(a: jax.Array) -> jax.Array:
        return tips(jnp.concatenate([a, a]))[:2]

    def second(a: jax.Array, b: jax.Array) -> jax.Array:
        return tips(jnp.concatenate([a, b]))[2:]

    system = jm.System(
        {"q": jm.Vec1(), "upper": jm.Vec2(), "lower": jm.Vec2()},
        masses={"upper": jm.mass.UniformMass(("upper", [0]), 1.0), "lower": jm.mass.UniformMass(("lower", [0]), 1.0)},
        mappings={
            "upper": jm.mapping.FunctionMapping(("q", [0]), "upper", first),
            "lower": jm.mapping.FunctionMapping((("q", [0]), ("q", [1])), "lower", second),
        },
        gravity=[0.0, -9.81],
    )
    return system, system.at_rest({"q": [[np.pi / 2], [np.pi / 2]]})


def top():
    """A disc that spins at 40 rad/s, on a spring at its edge."""
    system = jm.System(
        {"top": jm.Rigid3(), "eye": jm.Vec3()},
        forces={"spring": jm.force.AnchoredSprings(("eye", [0]), 150.0, [[0.0, 0.0, 0.08]])},
        masses={"disc": jm.mass.RigidMass(("top", [0]), 0.5, np.diag([1.3e-3, 1.3e-3, 2.5e-3]))},
        mappings={"edge": jm.mapping.RigidMapping(("top", [0]), "eye", [[0.1, 0.0, 0.0]])},
        gravity=[0.0, 0.0, -9.81],
    )
    state = system.at_rest({"top": [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]})
    return system, eqx.tree_at(lambda s: s.velocity["top"], state, jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 40.0]]))


def beam():
    """A clamped strip of triangles that falls under its weight."""
    mesh = jm.mesh.box_mesh(cells=(8, 1), size=(4.0, 0.5))
    solid = jm.force.TriangleFEM.from_mesh("beam", mesh, jm.material.StVenantKirchhoff(2e4, 0.3), plane="stress")
    system = jm.System(
        {"beam": jm.Vec2()},
        forces={"solid": solid},
        masses={"mass": jm.mass.UniformMass.of_total(("beam", range(18)), 2.0)},
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=[0.0, -9.81],
    )
    return system, system.at_rest({"beam": mesh.points})


def beam_on_a_stop():
    """The same, damped, whose lower corner falls on a stiff stop 0.2 m below, again and again."""
    system, state = beam()
    x = state.position["beam"]
    corner = [int(jnp.argmax(x[:, 0] - x[:, 1]))]
    stop = jm.force.PenaltyPlane(("beam", corner), (0.0, -0.2), (0.0, 1.0), STIFF)
    return replace(system, forces={**system.forces, "stop": stop}, rayleigh={"solid": 1e-3}), state


def arm(hinges: int = 7):
    """An arm of hinges in one plane, each with a spring as its motor."""
    bodies = range(hinges)
    placement = [[0.0, 0.0, 0.0], *([0.5, 0.0, 0.0] for _ in bodies[1:])]
    tree = jm.mapping.ArticulatedMapping.tree("joints", "bodies", [j - 1 for j in bodies], placement, [0.0, 1.0, 0.0])
    system = jm.System(
        {"joints": jm.Vec1(), "bodies": jm.Rigid3()},
        mappings={"arm": tree},
        masses={"bodies": jm.mass.RigidMass(("bodies", bodies), 1.0, np.diag([0.01, 0.02, 0.02]))},
        forces={"motors": jm.force.AnchoredSprings(("joints", bodies), 5.0, [[0.1] for _ in bodies])},
        gravity=[0.0, 0.0, -9.81],
    )
    return system, system.at_rest({"joints": [[0.2] for _ in bodies]})


def sliding():
    """A body that falls on the ground, and slides to a stop on it."""
    system = jm.System(
        {"body": jm.Vec3()}, masses={"mass": jm.mass.UniformMass(("body", [0]), 1.0)}, gravity=[0.0, 0.0, -9.81]
    )
    state = system.at_rest({"body": [[0.0, 0.0, 0.01]]})
    return system, eqx.tree_at(lambda s: s.velocity["body"], state, jnp.array([[2.0, 1.0, 0.0]]))


def on_the_ground(linear_system: Any) -> Any:
    """The scheme of that."""
    ground = jm.contact.PointContact(("body", [0]), jm.contact.Plane(), friction=0.4)
    return I.FreeMotion(jm.ImplicitEuler(linear_system), {"ground": ground})


STIFF, HEIGHT, GRAVITY = 1e5, 0.2, 9.81  # of the ground [N/m], of the fall [m]


def bouncing_ball():
    """A ball of 1 kg that falls on stiff ground: a second of two bounces, which take a hundredth each."""
    system = jm.System(
        {"ball": jm.Vec1()},
        forces={"ground": jm.force.PenaltyPlane(("ball", [0]), (0.0,), (1.0,), STIFF)},
        masses={"mass": jm.mass.UniformMass(("ball", [0]), 1.0)},
        gravity=[-GRAVITY],
    )
    return system, system.at_rest({"ball": [[HEIGHT]]})


def bounced(span: float) -> np.ndarray:
    """Where the ball is after some bounces [m], and its velocity [m/s]: parabolas, and arcs of sines on the ground."""
    speed, omega = np.sqrt(2 * GRAVITY * HEIGHT), np.sqrt(STIFF)
    contact = 2 * (np.pi - np.arctan(speed * omega / GRAVITY)) / omega
    since = (span - speed / GRAVITY) % (contact + 2 * speed / GRAVITY)  # the last touch-down
    if since >= contact:
        t = since - contact
        return np.array([speed * t - GRAVITY * t**2 / 2, speed - GRAVITY * t])
    sine, cosine, sag = np.sin(omega * since), np.cos(omega * since), GRAVITY / omega**2
    return np.array([sag * (cosine - 1) - speed / omega * sine, -GRAVITY / omega * sine - speed * cosine])


SCENES = {
    "stiff pendulum": (stiff_pendulum, 0.5),
    "double pendulum": (double_pendulum, 1.0),
    "top": (top, 0.5),
    "beam": (beam, 0.5),
    "beam on a stop": (beam_on_a_stop, 1.0),
    "bouncing ball": (bouncing_ball, 1.0),
}
REFERENCE = {"beam on a stop": 640_000}  # steps of RK4, whose order is lost at a stop; 40,000 of others
EXACT = {"bouncing ball": bounced}  # where they end
