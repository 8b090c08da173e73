"""Beams against closed forms: roll-up, the elastica, Euler's column and its post-buckling, Greenhill, free vibration."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipk

import jaxmech as jm

IN_PLANE = (False, False, True, True, True, False)  # held so that a frame stays in the plane of x and y
SLENDER = jm.force.Section(axial=1e4, shear=[1e4, 1e4], torsion=0.7, bending=[1.0, 1.0])  # EI = 1, of length 1


def line(elements, length=1.0):
    return jm.mesh.frames_along(np.linspace([0.0, 0.0, 0.0], [length, 0.0, 0.0], elements + 1))


def cantilever(rest, section=SLENDER, flat=True, **forces):
    """A clamped beam along frames; forces by name."""
    last = len(rest) - 1
    pairs = np.stack([np.arange(last), np.arange(1, last + 1)], 1)
    constraints = {"clamp": jm.constraint.Fixed(("f", [0]))}
    if flat:
        constraints["plane"] = jm.constraint.FixedComponents(("f", range(1, last + 1)), IN_PLANE)
    beam = jm.force.Beam(("f", pairs), rest, section)
    return jm.System({"f": jm.Rigid3()}, forces={"beam": beam, **forces}, constraints=constraints)


def end_load(force, tip):
    return {"load": jm.force.ConstantForce(("f", [tip]), force)}


def test_roll_up_by_a_tip_moment():
    """C3: to one turn and to two; constant curvature is exact, whatever the number of elements."""
    elements, rest = 10, line(10)
    turns = [0.25, 1.0, 2.0]
    scene = cantilever(rest, torque=jm.force.ConstantTorque(("f", [elements]), [0.0, 0.0, 1.0]))
    start = scene.at_rest({"f": rest})
    linear_system = jm.MatrixLinearSystem.build(scene, start, jm.Terms(mass=False, damping=False))
    state = start
    for turn in turns:
        moment = 2 * np.pi * turn
        loaded = eqx.tree_at(lambda s: s.forces["torque"].torque, scene, jnp.array([0.0, 0.0, moment]))
        state = jm.static_solve(loaded, state, linear_system, load_steps=20, atol=1e-9).state
        x, s = np.asarray(state.position["f"]), np.linspace(0, 1, elements + 1)
        circle = np.stack([np.sin(moment * s), 1 - np.cos(moment * s)], 1) / moment
        np.testing.assert_allclose(x[:, :2], circle, atol=1e-9)


def test_elastica_under_an_end_force():
    """C1: Mattiasson's table, 10 elements, EA so large that it does not count."""
    rest = line(10)
    for alpha, down, back in ((1.0, 0.301721, 0.056433), (3.0, 0.603253, 0.254420)):
        scene = cantilever(rest, **end_load([0.0, alpha, 0.0], 10))
        tip = np.asarray(jm.static_solve(scene, scene.at_rest({"f": rest}), load_steps=2).position["f"][-1])
        np.testing.assert_allclose([tip[1], 1 - tip[0]], [down, back], rtol=5e-3)
        print(alpha, tip[1] / down - 1, (1 - tip[0]) / back - 1)
