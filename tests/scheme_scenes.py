"""Motions that schemes are held to: each smooth, none at rest, none linear."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import jaxmech as jm

INERTIA = np.diag([1.0, 2.0, 3.0])


def spring():
    """A mass on a spring that swings and stretches."""
    system = jm.System(
        {"p": jm.Vec2()},
        forces={"spring": jm.force.Springs((("p", [0]), ("p", [1])), 40.0, 1.0)},
        masses={"mass": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
        constraints={"nail": jm.constraint.Fixed(("p", [0]))},
        gravity=[0.0, -9.81],
    )
    return system, system.at_rest({"p": [[0.0, 0.0], [1.2, 0.1]]})


def body():
    """A free hyperelastic square that turns and is stretched."""
    mesh = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0))
    system = jm.System(
        {"body": jm.Vec2()},
        forces={"solid": jm.force.TriangleFEM.from_mesh("body", mesh, jm.material.NeoHookean(100.0, 0.3), plane="strain")},
        masses={"mass": jm.mass.UniformMass(("body", range(4)), 0.5)},
    )
    state = system.at_rest({"body": 1.1 * np.asarray(mesh.points)})
    turn = 2.0 * np.asarray(mesh.points) @ np.array([[0.0, 1.0], [-1.0, 0.0]]) + [0.3, -0.2]
    return system, eqx.tree_at(lambda s: s.velocity["body"], state, jnp.asarray(turn))


def rigid():
    """A free rigid body that tumbles."""
    system = jm.System({"body": jm.Rigid3()}, masses={"body": jm.mass.RigidMass(("body", [0]), 1.0, INERTIA)})
    state = system.at_rest({"body": [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]})
    return system, eqx.tree_at(lambda s: s.velocity["body"], state, jnp.array([[0.1, 0.2, 0.3, 1.0, 2.0, -1.5]]))


def pendulum():
    """A pinned frame with masses on mapped points, and a spring on one of them."""
    system = jm.System(
        {"frame": jm.Rigid2(), "tips": jm.Vec2()},
        forces={"spring": jm.force.AnchoredSprings(("tips", [1]), 30.0, [[0.5, -1.0]])},
        masses={"tips": jm.mass.UniformMass(("tips", [0, 1]), 1.0)},
        mappings={"arm": jm.mapping.RigidMapping(("frame", [0, 0]), "tips", [[1.0, 0.0], [0.5, 0.3]])},
        constraints={"pin": jm.constraint.FixedComponents(("frame", [0]), (True, True, False))},
        gravity=[0.0, -9.81],
    )
    return system, system.at_rest({"frame": [[0.0, 0.0, 0.3]]})


SCENES = {"spring": spring, "body": body, "rigid": rigid, "pendulum": pendulum}
_SCHEMES = jm.integrator
IMPLICIT = {
    "ImplicitEuler": (jm.ImplicitEuler, {}),
    "Midpoint": (_SCHEMES.Midpoint, {}),
    "Trapezoid": (_SCHEMES.Trapezoid, {}),
    "Newmark": (_SCHEMES.Newmark, {}),
    "HHT": (_SCHEMES.HHT, {"alpha": 0.1}),
    "GeneralizedAlpha": (_SCHEMES.GeneralizedAlpha, {"spectral_radius": 0.6}),
    "BDF1": (_SCHEMES.BDF, {"order": 1}),
    "BDF2": (_SCHEMES.BDF, {"order": 2}),
    "BDF3": (_SCHEMES.BDF, {"order": 3}),
    "TRBDF2": (_SCHEMES.TRBDF2, {}),
    "EnergyMomentum": (_SCHEMES.EnergyMomentum, {}),
}
_NAMES = ("SymplecticEuler", "VelocityVerlet", "CentralDifference", "RK4", "Tsitouras")
EXPLICIT = {name: getattr(_SCHEMES, name) for name in _NAMES}
CONVERGED = 1e-12  # what Newton is asked for: the schemes are compared, not the tolerance
KINDS = [*((name, newton) for name in IMPLICIT for newton in (False, True)), *((name, False) for name in EXPLICIT)]


def made(name, system, state, newton, rtol=CONVERGED):
    """The scheme of a name, for a scene."""
    if name in EXPLICIT:
        return EXPLICIT[name]()
    kind, options = IMPLICIT[name]
    linear_system = jm.MatrixLinearSystem.build(system, state)
    return kind(linear_system, newton=newton, **options, **({"rtol": rtol} if newton else {}))


def numbers(state):
    """All positions and velocities of a state."""
    return jnp.concatenate([jnp.ravel(a) for a in (*state.position.values(), *state.velocity.values())])
