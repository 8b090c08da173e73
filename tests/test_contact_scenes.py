"""Scenes of contact: edges on edges, the smoothness of gradients, what fails by name."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_contact import differences
from test_contact_steps import G, X, soft_scene
from tolerances import FINITE_DIFFERENCE

import jaxmech as jm

CORNERS = np.array([[i, j, k] for i in (-1.0, 1.0) for j in (-1.0, 1.0) for k in (-1.0, 1.0)])
FACES = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
TRIANGLES = np.concatenate([FACES[:, [0, 1, 2]], FACES[:, [0, 2, 3]]])


def boxes_with_edges(half, number, **options):
    """Boxes whose corners and edges may touch each other and a floor: dofs, mappings, and contacts by name."""
    owners = np.repeat(np.arange(number), 8)
    local = np.tile(half * CORNERS, (number, 1))
    one = jm.contact.sharp_edges(half * CORNERS, TRIANGLES)
    assert one.shape == (12, 4)
    edges = np.concatenate([one + 8 * k for k in range(number)])
    mappings = {"fixed": jm.mapping.RigidMapping(("box", owners), "corners", local)}
    points = ("corners", np.arange(8 * number))
    thickness = float(np.min(half))
    contacts = {
        "edges": jm.contact.EdgeContact(
            ("corners", edges), owners=np.repeat(np.arange(number), 12), reach=thickness, capacity=12 * number, **options
        ),
        "floor": jm.contact.PointContact(points, jm.contact.Plane(), **options),
        "points": jm.contact.PointContact(
            points, jm.contact.Box(half), frames=("box", np.arange(number)), owners=owners, capacity=8 * number, **options
        ),
    }
    return mappings, contacts


@pytest.mark.slow
def test_a_beam_lies_across_another():
    """Two bars, crosswise: no corner is near the other, their edges hold the upper one."""
    half = np.array([1.0, 0.1, 0.1])
    mappings, contacts = boxes_with_edges(half, 2, friction=0.5, margin=0.02)
    system = jm.System(
        {"box": jm.Rigid3(), "corners": jm.Vec3()},
        mappings=mappings,
        masses={"mass": jm.mass.RigidMass(("box", [0, 1]), 2.0, np.diag([0.02, 0.7, 0.7]))},
        gravity=[0.0, 0.0, -G],
    )
    turned = [0.0, 0.0, np.sin(0.3 * np.pi), np.cos(0.3 * np.pi)]
    state = system.at_rest({"box": [[0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0], [0.05, 0.02, 0.302, *turned]]})
    scheme = jm.integrator.FreeMotion(jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state)), contacts)
    run = jm.simulate(system, state, scheme, dt=0.01, steps=40)
    end = np.asarray(run.last.position["box"])
    np.testing.assert_allclose(end[:, 2], [0.1, 0.3], atol=1e-3)  # lies on it, to second order in its last motion
    np.testing.assert_allclose(end[1, 3:], turned, atol=1e-3)
    assert np.abs(run.last.velocity["box"]).max() < 1e-6
    info = run.info.contacts
    by_edges = np.asarray(info.impulse)[-1, :24, 0].sum()
    np.testing.assert_allclose(by_edges, 2.0 * G * 0.01, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("newton", [False, True])
def test_the_smoothness_of_gradients_is_their_own(newton):
    """Values of Coulomb's law, derivatives of the smoothed one: as differences of it, step by step."""
    sharp, smooth = soft_scene(newton), soft_scene(newton, kappa=1e-2)
    mixed = soft_scene(newton, kappa=0.0, kappa_grad=1e-2)

    def one(scene, x):
        system, state, scheme = scene
        floor = scheme.contacts["floor"]
        scheme = eqx.tree_at(lambda i: i.contacts["floor"].friction, scheme, x[0])
        scheme = eqx.tree_at(lambda i: i.contacts["floor"].at, scheme, floor.at.at[2].set(x[3]))
        system = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, 1e3 * x[1])
        state = eqx.tree_at(lambda s: s.velocity, state, {"solid": state.velocity["solid"].at[:, 0].set(x[2])})
        end = scheme.step(system, state, None, 0.02)[0].position["solid"]
        return jnp.sum(end[:, 0]) + 2 * jnp.sum(end[:, 2])  # linear, so that it has one derivative at both ends

    value, slope = jax.jit(jax.value_and_grad(lambda x: one(mixed, x)))(X)
    np.testing.assert_allclose(value, jax.jit(lambda x: one(sharp, x))(X), rtol=1e-11)
    wanted = differences(jax.jit(lambda x: one(smooth, x)), X)
    np.testing.assert_allclose(slope, wanted, rtol=0, atol=FINITE_DIFFERENCE * np.abs(wanted).max())
    if not newton:
        forward = jax.jit(jax.jacfwd(lambda x: one(mixed, x)))(X)
        np.testing.assert_allclose(forward, slope, rtol=0, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.slow
def test_what_fails_says_its_own_name():
    system, state, scheme = soft_scene(newton=True)
    hasty = eqx.tree_at(lambda i: i.contacts, scheme, scheme.contacts)
    hasty = jm.integrator.FreeMotion(scheme.motion, scheme.contacts, contact_iterations=1)
    with pytest.raises(jm.FailedComputation, match="contact_iterations=") as failure:
        hasty.step(system, state, None, 0.02)
    assert failure.value.result == jm.RESULTS.contact_motion_not_converged and "load steps" not in str(failure.value)
    # A ball between two floors that come nearer than it is wide, and nothing gives way.
    ball = jm.System({"ball": jm.Vec3()}, masses={"mass": jm.mass.UniformMass(("ball", [0]), 1.0)})
    rest = ball.at_rest({"ball": [[0.0, 0.0, 0.0]]})
    plane = {"radius": 0.5}
    wedge = {
        "below": jm.contact.PointContact(("ball", [0]), jm.contact.Plane(), at=[0, 0, -0.4, 0, 0, 0, 1.0], **plane),
        "above": jm.contact.PointContact(("ball", [0]), jm.contact.Plane(), at=[0, 0, 0.4, 1.0, 0, 0, 0], **plane),
    }
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(ball, rest))
    _, _, info = jm.integrator.FreeMotion(motion, wedge).step(ball, rest, None, 0.01, throw=False)
    assert info.result in (jm.RESULTS.contacts_infeasible, jm.RESULTS.contacts_not_converged)
