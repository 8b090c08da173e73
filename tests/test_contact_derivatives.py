"""First and second derivatives of steps with contact at fixed smoothness, by all that a scene has, against differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_contact import differences
from test_contact_failures import chain
from tolerances import FINITE_DIFFERENCE

import jaxmech as jm

NAMES = ("friction", "stiffness", "rest length", "radius", "height", "speed", "push")
POINT = jnp.array([0.3, 1.0, 1.0, 0.02, 0.01, 0.5, 1.5])


def pushed_chain(kappa):
    """Three points on springs above a plane, of which one is pushed."""
    system, state, scheme = chain()
    push = jm.force.ConstantForce(("p", [1]), [0.0, 0.0, 0.0])
    system = jm.System(system.dofs, forces={**system.forces, "push": push}, masses=system.masses, gravity=system.gravity)
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    return system, state, jm.integrator.FreeMotion(motion, scheme.contacts, kappa=kappa, tolerance=1e-12)


def smooth_end(x, scene):
    """A number of two steps, of `NAMES`; the push is that of a control."""
    system, state, scheme = scene
    springs = system.forces["springs"]
    springs = eqx.tree_at(lambda s: (s.stiffness, s.rest_length), springs, (20.0 * x[1], x[2]))
    system = eqx.tree_at(lambda s: s.forces["springs"], system, springs)
    floor = eqx.tree_at(lambda f: (f.friction, f.radius), scheme.contacts["floor"], (x[0], x[3]))
    scheme = eqx.tree_at(lambda s: s.contacts["floor"], scheme, floor)
    place = {"p": state.position["p"].at[0, 2].set(x[4])}
    start = jm.State(place, {"p": state.velocity["p"].at[:, 0].set(x[5])}, state.time)

    def control(time, state, push):
        return {"push": {"force": push * jnp.array([1.0, 0.5, -1.0])}}

    end = jm.simulate(system, start, scheme, dt=0.02, steps=2, control=control, parameters=x[6]).last
    return jnp.sum(jnp.cos(jnp.arange(9.0)).reshape(3, 3) * (10 * end.position["p"] + end.velocity["p"]))


@pytest.mark.slow
def test_first_and_second_derivatives_of_steps_by_all_that_a_scene_has():
    """At `kappa` of the size of what moves, so that friction, its edge and the lift-off are smooth."""
    scene = pushed_chain(kappa=0.05)

    def slope(x):
        value, gradient = jax.value_and_grad(lambda x: smooth_end(x, scene))(x)
        return gradient, (value, gradient)

    @jax.jit
    def program(x):
        """All in one: compiling it is what this test costs."""
        second, (value, gradient) = jax.jacfwd(slope, has_aux=True)(x)
        return value, gradient, second

    _, gradient, second = (np.asarray(a) for a in program(POINT))
    assert (np.abs(gradient) > 1e-3).all(), dict(zip(NAMES, gradient, strict=True))  # each counts
    around = differences(lambda x: np.append(*program(x)[:2]), POINT)
    np.testing.assert_allclose(gradient, around[:, 0], rtol=0, atol=FINITE_DIFFERENCE * np.abs(gradient).max())
    largest = np.abs(second).max()
    np.testing.assert_allclose(second, second.T, rtol=0, atol=1e-8 * largest)
    np.testing.assert_allclose(second, around[:, 1:], rtol=0, atol=1e-6 * largest)
