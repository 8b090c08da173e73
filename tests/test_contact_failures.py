"""Steps with contact in a batch where some members fail: each says so, its derivatives are NaN, and others do not notice."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

FINE = {"mass": 1.0, "friction": 0.3, "level": 0.0}
FAILING = {
    "a plane that is nowhere": {"level": np.nan},
    "no friction at all": {"friction": np.nan},
    "no mass, and neither springs nor the floor to hold it": {"mass": 0.0, "level": -1.0},
    "a negative mass": {"mass": -1.0},
}
HEALTHY = [{}, {"friction": 0.1}, {"level": 0.005}]


def test_owners_are_among_the_frames():
    """Another number would be read as that of the last."""
    of = {"frames": ("balls", [0, 1]), "radius": 0.4}
    jm.contact.PointContact(("balls", [0, 1, 2]), jm.contact.Sphere(0.4), owners=[0, 1, -1], **of)
    with pytest.raises(ValueError, match="owners names body 2, but frames has 2; -1 is none of them"):
        jm.contact.PointContact(("balls", [0, 1, 2]), jm.contact.Sphere(0.4), owners=[0, 1, 2], **of)


def chain():
    """Three points on springs above a plane."""
    system = jm.System(
        {"p": jm.Vec3()},
        forces={"springs": jm.force.Springs((("p", [0, 1]), ("p", [1, 2])), 20.0, 1.0)},
        masses={"mass": jm.mass.UniformMass(("p", range(3)), 1.0)},
        gravity=[0.3, 0.0, -9.81],
    )
    state = system.at_rest({"p": [[0.0, 0.0, 0.01], [1.0, 0.0, 0.3], [2.0, 0.0, 0.0]]})
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    floor = jm.contact.PointContact(("p", range(3)), jm.contact.Plane(), friction=0.3)
    return system, state, jm.integrator.FreeMotion(motion, {"floor": floor})


@pytest.mark.slow
def test_a_member_that_fails_says_so_and_the_others_do_not_notice():
    system, state, scheme = chain()

    def end(given):
        heavy = eqx.tree_at(lambda s: s.masses["mass"].mass, system, given["mass"])
        at = jnp.zeros(7).at[6].set(1.0).at[2].set(given["level"])
        floor = eqx.tree_at(lambda f: (f.friction, f.at), scheme.contacts["floor"], (given["friction"], at))
        on = eqx.tree_at(lambda s: s.contacts["floor"], scheme, floor)
        last, _, info = on.step(heavy, state, None, 0.02, throw=False)
        weights = jnp.cos(jnp.arange(9.0)).reshape(3, 3)
        return jnp.sum(weights * (last.position["p"] + 0.1 * last.velocity["p"])), info.result

    both = jax.jit(jax.vmap(jax.value_and_grad(end, has_aux=True)))

    def batch(members):
        return both({k: jnp.array([(FINE | m)[k] for m in members]) for k in FINE})

    some = [FAILING[name] for name in reversed(FAILING)] + HEALTHY[::-1]
    (values, results), slopes = batch(some)
    (alone, fine), expected = batch([{}] * len(FAILING) + HEALTHY[::-1])
    assert (fine == jm.RESULTS.successful).all()
    n = len(FAILING)
    successful = np.asarray(results == jm.RESULTS.successful)
    assert successful.tolist() == [False] * n + [True] * len(HEALTHY)
    assert np.array_equal(values[n:], alone[n:])
    for k, slope in slopes.items():
        assert np.isnan(slope[:n]).all(), k
        assert np.array_equal(slope[n:], expected[k][n:])


@pytest.mark.parametrize("field", ["friction", "at", "radius", "depth", "margin"])
def test_a_number_of_a_contact_that_is_none_is_named(field):
    system, state, scheme = chain()
    wrong = eqx.tree_at(lambda s: getattr(s.contacts["floor"], field), scheme, replace_fn=lambda a: a * np.nan)
    with pytest.raises(ValueError, match=rf"contact 'floor' \(PointContact\): {field} has values that are not finite"):
        wrong.step(system, state, None, 0.02)


def test_a_contact_of_nothing_is_named():
    """As `nodes_where` finds it where there are none; it was an index out of bounds."""
    system, state, scheme = chain()
    floor = jm.contact.PointContact(("p", np.zeros(0, int)), jm.contact.Plane())
    nothing = eqx.tree_at(lambda s: s.contacts["floor"], scheme, floor)
    with pytest.raises(ValueError, match=r"contact 'floor' \(PointContact\): it has no pairs"):
        nothing.step(system, state, None, 0.02)


RIGHT = 1e-6  # of values and gradients, in units of what they would be without friction
FRICTION, MASSES, PULLS = (1e-4, 0.5, 1e3, 1e6), (1e-6, 1.0, 1e6), (0.0, 0.5, 2.0)


@pytest.mark.slow
def test_a_point_that_holds_or_slips_is_right_or_says_so_whatever_its_friction_and_mass():
    g, h = 10.0, 0.01
    system = jm.System(
        {"p": jm.Vec3()},
        forces={"pull": jm.force.ConstantForce(("p", [0]), [0.0, 0.0, 0.0])},
        masses={"mass": jm.mass.UniformMass(("p", [0]), 1.0)},
        gravity=[0.0, 0.0, -g],
    )
    state = system.at_rest({"p": np.zeros((1, 3))})
    floor = jm.contact.PointContact(("p", [0]), jm.contact.Plane())
    scheme = jm.integrator.FreeMotion(jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state)), {"floor": floor})

    def speed(friction, pull, mass):
        pulled = eqx.tree_at(
            lambda s: (s.masses["mass"].mass, s.forces["pull"].force), system, (mass, jnp.stack([pull, 0.0, 0.0]))
        )
        rough = eqx.tree_at(lambda s: s.contacts["floor"].friction, scheme, friction)
        end, _, info = rough.step(pulled, state, None, h, throw=False)
        return end.velocity["p"][0, 0], info.result

    mu, mass, part = (a.ravel() for a in np.meshgrid(FRICTION, MASSES, PULLS, indexing="ij"))
    both = jax.jit(jax.vmap(jax.value_and_grad(speed, (0, 1), has_aux=True)))
    (value, result), (by_friction, by_pull) = both(mu, part * mu * mass * g, mass)
    # What is pulled harder than friction holds it slips, by the rest of the pull.
    slips, fine = part > 1, np.asarray(result == jm.RESULTS.successful)
    assert fine[~slips | (mu <= 1e3)].all()
    error = np.stack(
        [
            (value - slips * (part - 1) * mu * g * h) / ((part + 1) * mu * g * h),
            (by_friction + slips * g * h) / (g * h),
            (by_pull - slips * h / mass) / (h / mass),
        ]
    )
    # What slips is on the edge of a cone whose slopes are `mu` and `1 / mu`: rounding is seen through its square.
    within = RIGHT + 4 * slips * np.finfo(float).eps * mu**2
    assert (np.abs(error) < within)[:, fine].all()
    assert np.isnan(by_pull[~fine]).all()


@pytest.mark.slow
def test_a_motion_that_went_on_after_a_failure_has_failed():
    """A ball that begins too deep is pushed out at once, and lies there well: whoever asks the last step alone is misled."""
    mass = jm.mass.UniformMass(("ball", [0]), 1.0)
    system = jm.System({"ball": jm.Vec3()}, masses={"mass": mass}, gravity=(0.0, 0.0, -10.0))
    start = system.at_rest({"ball": [[0.0, 0.0, -0.5]]})
    floor = jm.contact.PointContact(("ball", [0]), jm.contact.Plane(), depth=0.1)
    scheme = jm.integrator.FreeMotion(jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start)), {"floor": floor})

    def run(height):
        state = dataclasses.replace(start, position={"ball": jnp.array([[0.0, 0.0, 1.0]]) * height})
        return jm.simulate(system, state, scheme, 0.01, 3, throw=False)

    runs = jax.jit(jax.vmap(run))(jnp.array([-0.5, 0.5]))
    deep, free = jm.RESULTS.interpenetration, jm.RESULTS.successful
    assert (runs.info.result == free).tolist() == [[False, True, True], [True, True, True]]
    assert (runs.result == deep).tolist() == [True, False] and (runs.result == free).tolist() == [False, True]


@pytest.mark.slow
def test_too_many_contacts_and_too_deep_ones_are_named():
    """In a compiled program, by the numbers that it met. Outside of one: `test_capacity_and_depth_are_reported`."""
    system, state, scheme = chain()
    few = jm.contact.PointContact(("p", range(3)), jm.contact.Plane(), capacity=2, margin=0.5)
    shallow = jm.contact.PointContact(("p", [1, 2]), jm.contact.Plane(), depth=0.1)
    scheme = jm.integrator.FreeMotion(scheme.motion, {"edge": shallow, "floor": few})

    @jax.jit
    def end(heights):
        at = dataclasses.replace(state, position={"p": state.position["p"].at[:, 2].set(heights)})
        return scheme.step(system, at, None, 0.02)[0].position["p"]

    with pytest.raises((ValueError, RuntimeError), match="'edge', pair 1: bodies are deeper"):
        jax.block_until_ready(end(jnp.array([1.0, 1.0, -0.2])))
    with pytest.raises((ValueError, RuntimeError), match="'floor' has room for 2 pairs, and at least 3 are near"):
        jax.block_until_ready(end(jnp.full(3, 0.01)))


@pytest.mark.slow
def test_newton_with_contact_says_that_a_matrix_is_singular():
    """A node that nothing holds and that has no mass; its first step of infinite length was called a force that is none."""
    system = jm.System(
        {"p": jm.Vec3()},
        forces={"push": jm.force.ConstantForce(("p", [0]), [[0.0, 0.0, -1.0]])},
        masses={"m": jm.mass.UniformMass(("p", [1]), 1.0)},
    )
    state = system.at_rest({"p": [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]})
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=True)
    floor = jm.contact.PointContact(("p", range(2)), jm.contact.Plane())
    with pytest.raises(jm.FailedComputation, match="singular: state 'p' can move freely"):
        jm.integrator.FreeMotion(motion, {"floor": floor}).step(system, state, None, 0.01)


@pytest.mark.slow
def test_rows_of_contacts_that_an_iteration_does_not_solve_are_not_blamed_on_friction():
    """Two springs that fly in line: the motion takes no iteration, the compliance of a contact more than there may be."""
    system, state, scheme = chain()
    system = eqx.tree_at(lambda s: s.gravity, system, jnp.zeros(3))
    line = jnp.array([[0.0, 0.0, 0.01], [1.0, 0.0, 0.01], [2.0, 0.0, 0.01]])
    state = jm.State({"p": line}, {"p": jnp.full((3, 3), -2.0)}, state.time)
    motion = jm.ImplicitEuler(scheme.motion.linear_system, solver=jm.solver.PCG(max_steps=1))
    assert motion.step(system, state, None, 0.02, throw=False)[2].result == jm.RESULTS.successful
    scheme = jm.integrator.FreeMotion(motion, scheme.contacts, method="newton")
    info = scheme.step(system, state, None, 0.02, throw=False)[2]
    assert info.result == info.motion.result == jm.RESULTS.max_steps_reached


@pytest.mark.slow
def test_derivatives_of_steps_with_contact_that_an_iteration_does_not_solve_are_nan():
    """By a push on the first of three points that fly in line above a floor that they do not reach."""
    system, state, scheme = chain()
    push = jm.force.ConstantForce(("p", [0]), jnp.zeros((1, 3)))
    system = jm.System(system.dofs, forces={**system.forces, "push": push}, masses=system.masses)
    state = jm.State({"p": jnp.arange(3.0)[:, None] * jnp.array([1.0, 0.0, 0.0]) + 1.0}, state.velocity, state.time)
    floor = eqx.tree_at(lambda f: f.margin, scheme.contacts["floor"], jnp.asarray(0.5))
    linear_system = jm.MatrixLinearSystem.build(system, state)

    def far(push, steps):
        trial = eqx.tree_at(lambda s: s.forces["push"].force, system, push)
        motion = jm.ImplicitEuler(linear_system, solver=jm.solver.PCG(max_steps=steps))
        own = jm.integrator.FreeMotion(motion, {"floor": floor}, method="newton")
        end, _, info = own.step(trial, state, None, 0.02, throw=False)
        return end.position["p"][2, 0], info.result

    slopes, how = zip(*(jax.grad(far, has_aux=True)(push.force, steps) for steps in (1, 100)), strict=True)
    assert all(result == jm.RESULTS.successful for result in how)
    assert np.isnan(slopes[0]).all() and np.isfinite(slopes[1]).all() and slopes[1][0, 0] > 0
