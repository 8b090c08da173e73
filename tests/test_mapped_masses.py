"""Masses that are mapped: their accelerations, what inertia itself adds, and what reverse mode evaluates of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from tolerances import TWO_ROUTES

import jaxmech as jm
from jaxmech._integrator.mass_inverse import mass_operator
from jaxmech._integrator.mass_matrix import whole_mass_matrix
from jaxmech._model.dynamics import force_at
from jaxmech._model.force_ahead import forces_ahead
from jaxmech._model.inertia import force_in_motion, momentum_supply

ROUNDING = 1e-12
CONJUGATE_GRADIENTS = jm.solver.PCG(rtol=1e-13)
THIRD = [0.0, 0.3, 0.0]  # [m], where a third mass is off the axis of two


def pendulum():
    """Two hinges, both bodies level at first, and an explicit step of either solver."""
    tree = jm.mapping.ArticulatedMapping.tree("q", "bodies", [-1, 0], [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]], [0.0, 1.0, 0.0])
    system = jm.System(
        {"q": jm.Vec1(), "bodies": jm.Rigid3()},
        masses={"bodies": jm.mass.RigidMass(("bodies", [0, 1]), 1.0, np.diag([0.01, 0.02, 0.02]))},
        mappings={"tree": tree},
        gravity=[0.0, 0.0, -9.81],
    )
    state = system.at_rest({"q": [[0.3], [0.4]]})
    return system, eqx.tree_at(lambda s: s.velocity["q"], state, jnp.array([[1.0], [-2.0]]))


def points_on_a_frame(third, torque=(0.0, 0.0, 0.0)):
    """Three masses on a frame, of which two are on its axis, and a torque [N m] on it."""
    places = jnp.stack([jnp.array([-0.5, 0.0, 0.0]), jnp.array([0.5, 0.0, 0.0]), jnp.asarray(third)])
    system = jm.System(
        {"frame": jm.Rigid3(), "points": jm.Vec3()},
        forces={
            "load": jm.force.ConstantForce(("frame", [0]), [0.0, 0.0, 1.0]),
            "torque": jm.force.ConstantTorque(("frame", [0]), torque),
        },
        masses={"points": jm.mass.UniformMass(("points", [0, 1, 2]), 1.0)},
        mappings={"fixed": jm.mapping.RigidMapping(("frame", [0, 0, 0]), "points", places)},
    )
    turned = [[0.0, 0.0, 0.0, *(np.sin(0.2) * np.array([0.6, 0.0, 0.8])), np.cos(0.2)]]
    state = system.at_rest({"frame": turned})
    return system, eqx.tree_at(lambda s: s.velocity["frame"], state, jnp.array([[0.1, 0.2, 0.3, 0.4, -0.5, 0.6]]))


def stepped(system, state, solver, scheme=jm.integrator.VelocityVerlet):
    """Its velocities after a step [m/s, rad/s]."""
    end = scheme(solver, check_step=False).step(system, state, None, 1e-2)[0]
    return next(iter(end.velocity.values()))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [jm.integrator.VelocityVerlet, jm.integrator.RK4])
def test_few_unknowns_are_solved_for_as_by_conjugate_gradients(scheme):
    system, state = pendulum()

    def end(state, solver):
        return jnp.sum(stepped(system, state, solver, scheme) ** 2)

    values = [jax.value_and_grad(end, allow_int=True)(state, solver) for solver in (None, CONJUGATE_GRADIENTS)]
    for few, iterated in zip(*map(jax.tree.leaves, values), strict=True):
        if eqx.is_inexact_array(few):
            np.testing.assert_allclose(few, iterated, rtol=ROUNDING, atol=ROUNDING)


def test_masses_on_a_line_turn_about_it_as_nothing_says():
    """No mass resists, and no force asks: of all motions that move the masses so it is the shortest."""
    system, state = points_on_a_frame(jnp.zeros(3))
    found, iterated = (stepped(system, state, solver) for solver in (None, CONJUGATE_GRADIENTS))
    assert np.abs(found - state.velocity["frame"]).max() > 1e-3
    np.testing.assert_allclose(found, iterated, rtol=0, atol=ROUNDING)


def test_a_torque_about_a_line_of_masses_is_a_failure():
    system, state = points_on_a_frame(jnp.zeros(3), torque=(1.0, 2.0, 0.5))
    with pytest.raises(jm.FailedComputation):
        stepped(system, state, None)


def test_one_of_a_batch_lacks_a_motion():
    """Of all members LAPACK factors, and of the one without a factor alone the answer is another."""
    thirds = jnp.array([THIRD, [0.0, 0.0, 0.0], [0.1, -0.2, 0.4]])

    def end(third):
        return stepped(*points_on_a_frame(third), None)

    each = np.stack([end(third) for third in thirds])
    np.testing.assert_allclose(jax.jit(jax.vmap(end))(thirds), each, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("name", ["frames_on_frames", "articulated_arm"])
def test_inertial_forces_are_lagranges(name):
    """`-(dM/dt) v + dT/dx + coadjoint` of the kinetic energy as a function of the main states."""
    scene = scenes.build(name)
    system, state = scene.system, scene.state

    def kinetic(x, v):
        return jm.mass.kinetic_energy(system, eqx.tree_at(lambda s: (s.position, s.velocity), state, (x, v)))

    dofs = {s: system.dofs[s] for s in state.position}

    def moved(d):
        return {s: jax.vmap(dofs[s].retract)(x, d[s]) for s, x in state.position.items()}

    def momentum(d):
        return jax.grad(kinetic, 1)(moved(d), state.velocity)

    none = jax.tree.map(jnp.zeros_like, state.velocity)
    p, rate = jax.jvp(momentum, (none,), (state.velocity,))
    varies = jax.grad(lambda d: kinetic(moved(d), state.velocity))(none)
    found, supply = jm.mass.inertial_force(system, state), momentum_supply(system, state.position, state.velocity)
    for s, force in found.items():
        supplied = varies[s] + jax.vmap(dofs[s].coadjoint)(state.velocity[s], p[s])
        for made, expected in ((supply[s], supplied), (force, supplied - rate[s])):
            np.testing.assert_allclose(made, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", ["embedded_points", "points_on_frames", "diamond_of_mappings", "articulated_arm"])
def test_the_whole_mass_matrix_is_that_of_products(name):
    """`P M P + I - P` by Jacobians of mappings, and column by column."""
    scene = scenes.build(name)
    by_columns = jax.jit(lambda y, s: mass_operator(y, s).as_matrix())(scene.system, scene.state)
    found = jax.jit(whole_mass_matrix)(scene.system, scene.state.position)
    np.testing.assert_allclose(found, by_columns, rtol=0, atol=TWO_ROUTES * np.abs(by_columns).max())


@pytest.mark.parametrize("name", ["frames_on_frames", "articulated_arm", "chain_of_mappings"])
def test_all_forces_go_back_through_the_mappings_together(name):
    scene = scenes.build(name)
    system, state = scene.system, scene.state
    apart = jm.total_force(system, state), jm.mass.inertial_force(system, state)
    for s, force in force_in_motion(system, state).items():
        expected = apart[0][s] + apart[1][s]
        np.testing.assert_allclose(force, expected, rtol=0, atol=TWO_ROUTES * max(1.0, np.abs(expected).max()))


@pytest.mark.slow
def test_the_only_mapped_mass_need_not_feel_gravity():
    """Two points that fall, and a mass on how far they are apart: it was refused as one that gravity misses."""
    apart = jm.mapping.DistanceMapping((("p", [0]), ("p", [1])), "apart")
    system = jm.System(
        {"p": jm.Vec3(), "apart": jm.Vec1()},
        forces={"spring": jm.force.AnchoredSprings(("apart", [0]), 4.0, [[1.5]])},
        masses={"points": jm.mass.UniformMass(("p", [0, 1]), 2.0), "apart": jm.mass.UniformMass(("apart", [0]), 0.5)},
        mappings={"apart": apart},
        gravity=[0.0, 0.0, -9.81],
    )
    state = system.at_rest({"p": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]})
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=True)
    h = 0.01
    end, _, _, balance = jm.integrator.step_with_balance(system, state, euler, None, h)
    # Each point is pulled by -k (l + 2 h v - l0) = (m + 2 m_l) dv / dt, l its way from the other.
    rate = h * 4.0 * 0.5 / (2.0 + 2 * 0.5 + 2 * 4.0 * h**2)
    expected = [[-rate, 0.0, -9.81 * h], [rate, 0.0, -9.81 * h]]
    np.testing.assert_allclose(end.velocity["p"], expected, rtol=1e-6, atol=ROUNDING)
    of = jm.integrator.energies(system, end)
    lost = 2 * 2.0 * 9.81 * h * 9.81 * h
    weights = of.weight["apart"], of.weight["points"], balance.after.weight["points"]
    np.testing.assert_allclose(weights, [0.0, -lost, -lost])


MAPPED = ["frames_on_frames", "articulated_arm", "chain_of_mappings", "diamond_of_mappings", "points_on_frames"]


@pytest.mark.parametrize("name", MAPPED)
def test_forces_ahead_are_those_to_first_order(name, rng):
    """By one pass through the mappings, as by the derivative of the force in the chart; and what inertia adds to them."""
    scene = scenes.build(name)
    system, state = scene.system, scene.state
    d, u, a = ({s: jnp.asarray(rng.normal(size=v.shape)) for s, v in state.velocity.items()} for _ in range(3))

    @jax.jit
    def found(system, state):
        none = jax.tree.map(jnp.zeros_like, d)
        both = jax.jvp(lambda d, v: force_at(system, state, d, v), (none, state.velocity), (d, u))
        inertia = force_in_motion(system, state, a)
        moving = {s: inertia[s] - both[0][s] for s in d}
        return both, moving, forces_ahead(system, state, d, u), forces_ahead(system, state, d, u, a)[1]

    (force, rate), moving, made, with_inertia = found(system, state)
    for s in d:
        ahead = force[s] + rate[s]
        pairs = (made[0][s], force[s]), (made[1][s], ahead), (with_inertia[s], ahead + moving[s])
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=0, atol=TWO_ROUTES * max(1.0, np.abs(other).max()))


@pytest.mark.slow
def test_second_derivatives_of_mapped_masses_are_those_of_gradients():
    """Accelerations are differentiated as what fulfils `f = M a`, in either mode, and so are their derivatives."""
    system, state = pendulum()

    def end(q, gravity):
        moved = eqx.tree_at(lambda s: s.position["q"], state, q)
        scene = eqx.tree_at(lambda y: y.gravity, system, gravity * jnp.array([0.0, 0.0, -1.0]))
        return jnp.sum(jnp.sin(stepped(scene, moved, None)))

    gradient, q, g, h = jax.jit(jax.grad(end)), state.position["q"], jnp.asarray(9.81), 1e-5
    differences = [(gradient(q + e, g) - gradient(q - e, g)) / (2 * h) for e in h * jnp.eye(2)[..., None]]
    differences.append((gradient(q, g + h) - gradient(q, g - h)) / (2 * h))
    for mode in (jax.jacfwd, jax.jacrev):
        by_q, by_g = jax.jit(mode(jax.grad(end), (0, 1)))(q, g)
        for found, expected in zip((by_q[:, :, 0, 0], by_q[:, :, 1, 0], by_g), differences, strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


class Swing(jm.force.AbstractForceField):
    """The force `-sin(x)`, whose derivative has no sine."""

    on: tuple[jm.Stencil, ...] = jm.stencils()

    def element_force(self, x, v):
        return (-jnp.sin(x[0]),)


@pytest.mark.parametrize("scheme", ["RK4", "Tsitouras"])
def test_reverse_mode_evaluates_no_forces_anew(scheme):
    """Those of stages were evaluated once more."""
    system = jm.System(
        {"x": jm.Vec1()},
        forces={"swing": Swing((jm.Stencil("x", [0]),))},
        masses={"m": jm.mass.UniformMass(("x", [0]), 1.0)},
    )
    start, of = system.at_rest({"x": [[1.0]]}), getattr(jm.integrator, scheme)(check_step=False)

    def end(x):
        begun = eqx.tree_at(lambda s: s.position["x"], start, x)
        return jm.simulate(system, begun, of, 1e-2, 8, throw=False).last.position["x"][0, 0]

    with jm.runtime.element_compiler("xla"):  # else a step of so few numbers is one kernel
        program = jax.jit(jax.grad(end)).lower(start.position["x"]).compile().as_text() or ""
    made_by = {op: [line for line in program.splitlines() if f" {op}(" in line] for op in ("sine", "cosine")}
    assert all(made_by.values()) and all("transpose" in line for line in made_by["cosine"])
    assert not any("transpose" in line for line in made_by["sine"])


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["VelocityVerlet", "ImplicitEuler"])
def test_reverse_mode_keeps_the_factor_of_few_unknowns(scheme):
    """It was made anew in every step, with the matrix. Of up to eight unknowns none is kept (`test_few_unknowns`)."""
    places = np.arange(9.0).reshape(3, 3) ** 2
    system = jm.System(
        {"q": jm.Vec3()},
        forces={"holds": jm.force.AnchoredSprings(("q", range(3)), 4.0, places + 0.1)},
        masses={"m": jm.mass.ConsistentMass(("q", [[0, 1], [1, 2]]), places, 1.0, "edge")},
    )
    state = system.at_rest({"q": places})
    of = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    if scheme == "VelocityVerlet":
        of = jm.integrator.VelocityVerlet(check_step=False)

    def end(q):
        begun = eqx.tree_at(lambda s: s.position["q"], state, q)
        return jnp.sum(jm.simulate(system, begun, of, 1e-2, 8, throw=False).last.position["q"] ** 2)

    program = jax.jit(jax.grad(end)).lower(state.position["q"]).compile().as_text() or ""
    factors = [line for line in program.splitlines() if "potrf" in line or "getrf" in line]
    assert factors and not any("rematted" in line for line in factors)
