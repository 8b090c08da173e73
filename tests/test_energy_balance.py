"""What becomes of energy in a step adds up."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from own_components import Swirl
from scheme_scenes import IMPLICIT, SCENES, made

import jaxmech as jm

CLOSED = 1e-9  # the work of what Newton leaves, relative to the energies that are exchanged


def balance_of(system, state, name, newton=True, dt=0.005, steps=1):
    # Of the residual that a stage starts from, which may be small: some digits above rounding, some below `CLOSED`.
    integrator = made(name, system, state, newton, rtol=1e-11)
    carry, found = integrator.init(system, state), []
    for _ in range(steps):
        state, carry, info, balance = jm.integrator.step_with_balance(system, state, integrator, carry, dt)
        assert info.result == jm.RESULTS.successful
        found.append(jax.tree.map(np.asarray, balance))
    return found


def check(b):
    rows = sum(map(np.sum, (*b.rows.values(), *b.contacts.values())))
    taken = sum(b.loads.values()) + rows + b.motion - b.damping - b.scheme
    size = max(map(abs, (b.gained, b.damping, b.scheme, b.after.kinetic)))
    assert abs(b.gained - taken) <= CLOSED * size
    assert abs(b.gained - taken - b.defect) <= 1e-12 * max(size, abs(b.before.total))


@pytest.mark.slow
def test_the_balance_of_a_mapped_scene_closes():
    system, state = SCENES["pendulum"]()
    for b in balance_of(system, state, "EnergyMomentum", dt=0.02, steps=3):
        check(b)
        assert abs(b.scheme) < 1e-9 and b.damping == 0 and b.loads == {"spring": 0}


@pytest.mark.slow
def test_a_clamped_body_without_weight_keeps_its_energy():
    """Its forces have no resultant: the correction is without a rigid motion, and the clamp takes a part of it."""
    system, state = SCENES["body"]()
    clamp = {"clamp": jm.constraint.Fixed(("body", [0, 1]))}
    clamped = jm.System(system.dofs, forces=system.forces, masses=system.masses, constraints=clamp)
    stretched = eqx.tree_at(
        lambda s: s.velocity["body"], state, jnp.array([[0.0, 0.0], [0.0, 0.0], [0.6, 2.0], [0.2, -3.0]])
    )
    scheme = made("EnergyMomentum", clamped, stretched, True, rtol=1e-11)
    run = jm.simulate(clamped, stretched, scheme, 0.04, 20)
    levels = jax.jit(jax.vmap(lambda s: jm.integrator.energies(clamped, s).total))(run.state)
    np.testing.assert_allclose(levels, levels[0], rtol=CLOSED)


@pytest.mark.slow
def test_what_moves_a_mass_gives_it_its_kinetic_energy():
    """A hand at `0.3 t^3` that has a mass and leads a spring, in the steps of a scheme that takes nothing: the mean of its
    velocities at both ends is not that over the step, and the scheme took what is between them."""
    times = np.linspace(0.0, 1.0, 11)
    rates = np.stack([0.9 * times**2, 0.0 * times], axis=1)
    system = jm.System(
        {"p": jm.Vec2()},
        forces={"spring": jm.force.Springs((("p", [0]), ("p", [1])), 40.0, 1.0)},
        masses={"m": jm.mass.UniformMass(("p", [0, 1]), 2.0)},
        constraints={"hand": jm.constraint.PrescribedVelocity(("p", [0]), [[0.0, 0.0]], times=times, velocities=rates)},
        gravity=[0.0, -9.81],
    )
    state = system.at_rest({"p": [[0.0, 0.0], [0.3, -1.0]]})
    for b in balance_of(system, state, "EnergyMomentum", dt=0.04, steps=4):
        check(b)
        assert abs(b.scheme) < 1e-9 * b.after.kinetic and abs(b.motion) > 1e-5 * b.after.kinetic


def test_implicit_euler_takes_what_theory_says():
    """`1/2 m (v1 - v0)^2 + 1/2 k (x1 - x0)^2` of an oscillator; a dead load and a drag do the work that they do."""
    k, m, c, f, h = 40.0, 2.0, 0.7, 3.0, 0.05
    system = jm.System(
        {"x": jm.Vec1()},
        forces={
            "spring": jm.force.AnchoredSprings(("x", [0]), k, [[0.0]]),
            "drag": jm.force.VelocityDamping(("x", [0]), c),
            "push": jm.force.ConstantForce(("x", [0]), [f]),
        },
        masses={"m": jm.mass.UniformMass(("x", [0]), m)},
    )
    state = system.at_rest({"x": [[1.0]]})
    (b,) = balance_of(system, state, "ImplicitEuler", dt=h)
    v = h * (f - k) / (m + h * c + h**2 * k)
    d = h * v
    np.testing.assert_allclose(b.scheme, 0.5 * m * v**2 + 0.5 * k * d**2, rtol=1e-9)
    np.testing.assert_allclose(b.damping, c * v * d, rtol=1e-9)
    np.testing.assert_allclose(b.after.kinetic, 0.5 * m * v**2, rtol=1e-9)
    assert set(b.loads) == {"drag", "push", "spring"}
    check(b)


@pytest.mark.slow
def test_a_prescribed_motion_does_work():
    system = jm.System(
        {"x": jm.Vec1()},
        forces={"spring": jm.force.Springs((("x", [0]), ("x", [1])), 30.0, 1.0)},
        masses={"mass": jm.mass.UniformMass(("x", [0, 1]), 1.0)},
        constraints={
            "hand": jm.constraint.PrescribedMotion(("x", [0]), [[0.0]], [[0.0], [2.0]], [0.0, 1.0]),
            "wall": jm.constraint.Fixed(("x", [1])),
        },
    )
    state = system.at_rest({"x": [[0.0], [1.0]]})
    first, second = balance_of(system, state, "Midpoint", dt=0.1, steps=2)
    # From rest: `m v^2 / 2` is the mass', and the spring's is `k/2 u^2`.
    np.testing.assert_allclose(second.motion, 0.5 * 30.0 * (0.4**2 - 0.2**2), rtol=1e-9)
    np.testing.assert_allclose(second.gained, second.motion, rtol=1e-9)
    assert first.motion > second.motion / 3


def driven():
    """A mass on a spring whose other end is shaken, under a load without an energy and a drag."""
    t = np.linspace(0.0, 0.5, 501)
    hand = jm.constraint.PrescribedAcceleration(("x", [0]), np.zeros((1, 3)), np.stack([9 * np.sin(6 * t), t, 5 * t], 1), t)
    ends = (("x", [1]), ("x", [0]))
    system = jm.System(
        {"x": jm.Vec3()},
        forces={"spring": jm.force.Springs(ends, 60.0, 1.0), "swirl": Swirl(ends, axis=[0.0, 0.0, 20.0], drag=0.5)},
        masses={"mass": jm.mass.UniformMass(("x", [0, 1]), 1.0)},
        constraints={"hand": hand},
    )
    return system, system.at_rest({"x": [[0.0, 0.0, 0.0], [1.2, 0.1, 0.0]]})


def shaken():
    """A square of rubber whose mass couples its nodes, with an edge that is shaken."""
    mesh, t = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0)), np.linspace(0.0, 0.5, 501)
    edge = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    shake = np.stack([5 * np.sin(6 * t), 2 * np.cos(5 * t)], 1)
    rubber = jm.material.NeoHookean(30.0, 0.3)
    system = jm.System(
        {"body": jm.Vec2()},
        forces={"solid": jm.force.TriangleFEM.from_mesh("body", mesh, rubber, plane="strain")},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("body", mesh, density=1.0)},
        constraints={"hand": jm.constraint.PrescribedAcceleration(("body", edge), mesh.points[edge], shake, t)},
    )
    return system, system.at_rest({"body": mesh.points})


SECOND = 3.5  # by how much twice the steps divide an error of second order, at least; one of first by 2


SQUARES = [(driven, "Newmark"), (driven, "GeneralizedAlpha"), (shaken, "HHT"), (shaken, "BDF2")]


@pytest.mark.slow
@pytest.mark.parametrize(("scene", "name"), [SQUARES[0], *(pytest.param(*s, marks=pytest.mark.slow) for s in SQUARES[1:])])
def test_what_a_scheme_dissipates_falls_with_the_square_of_the_step(scene, name):
    """Of loads that change, and of motions: their work is of second order, whatever the scheme solves a balance at."""
    system, state = scene()
    coarse, fine = (sum(b.scheme for b in balance_of(system, state, name, dt=0.5 / n, steps=n)) for n in (20, 40))
    assert abs(coarse) > SECOND * abs(fine)


@pytest.mark.slow
def test_newmark_and_the_trapezoidal_rule_have_one_balance():
    """Average acceleration is the trapezoidal rule where masses are constant; a motion, and a drive within a step, jump."""
    pull = jm.constraint.LinearRelation(("p", [[1, 2]]), ("force", [0]), [-1.0, 1.0], [1.0])
    system = jm.System(
        {"p": jm.Vec1(), "force": jm.Vec1()},
        forces={
            "drag": jm.force.VelocityDamping(("p", [2]), 1.5),
            "spring": jm.force.Springs((("p", [0]), ("p", [1])), 40.0, 1.0),
        },
        masses={"mass": jm.mass.UniformMass(("p", [0, 1, 2]), 2.0)},
        constraints={
            "drive": jm.constraint.Follow(pull, values=[[0.0], [0.0], [3.0]], times=[0.0, 0.15, 1.0]),
            "hand": jm.constraint.PrescribedMotion(("p", [0]), [[0.0]], [[0.0], [2.0]], [0.0, 1.0]),
        },
    )
    state = system.at_rest({"p": [[0.0], [1.0], [2.0]], "force": [[0.0]]})
    for ours, theirs in zip(*(balance_of(system, state, n, dt=0.1, steps=2) for n in ("Newmark", "Trapezoid")), strict=True):
        check(ours)
        for part in ("motion", "damping", "scheme", "gained"):
            np.testing.assert_allclose(getattr(ours, part), getattr(theirs, part), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.rows["drive"], theirs.rows["drive"], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scene"), [("TRBDF2", "springs"), ("Midpoint", "frames_in_the_plane")])
def test_the_balance_closes_in_some_scenes(name, scene):
    made_scene = scenes.build(scene)
    for b in balance_of(made_scene.system, made_scene.state, name, steps=2):
        check(b)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "off"), [("EnergyMomentum", 1e-9), ("Midpoint", 1e-4)])
def test_rows_that_hold_do_no_work_and_what_gives_stores_it(name, off):
    """A double pendulum of rods, whose tip hangs on a spring that is a row: `-g . g / (2 C)`, `g` the means of ends."""
    C = 0.05
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"m": jm.mass.UniformMass(("p", [1, 2]), 1.0)},
        constraints={
            "nail": jm.constraint.Fixed(("p", [0])),
            "rods": jm.constraint.Distance((("p", [0, 1]), ("p", [1, 2])), length=1.0),
            "spring": jm.constraint.Distance((("p", [0]), ("p", [2])), length=1.0, compliance=C),
        },
        gravity=[0.0, -9.81],
    )
    start = system.at_rest({"p": [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]})
    integrator = made(name, system, start, True, rtol=1e-11)
    end, _, _, b = jm.integrator.step_with_balance(system, start, integrator, integrator.init(system, start), 0.02)
    check(jax.tree.map(np.asarray, b))
    g0, g1 = (np.linalg.norm(s.position["p"][2]) - 1 for s in (start, end))
    work = (g0**2 - g1**2) / (2 * C)
    assert b.rows["rods"].shape == (2, 1) and np.abs(b.rows["rods"]).max() <= 1e-9 * work  # of Midpoint by its chord
    np.testing.assert_allclose(b.rows["spring"], [[work]], rtol=off)
    np.testing.assert_allclose([b.gained, b.gained + b.scheme], work, rtol=off)


REFUSED = dict.fromkeys(("memory", "laws_with_memory", "stress_law", "beams_and_rods"), "remember")  # and why


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("scene", "name"), [(s, list(IMPLICIT)[i % len(IMPLICIT)]) for i, s in enumerate(scenes.names(scenes.STEPS))]
)
def test_the_balance_closes_in_every_scene(scene, name):
    made_scene = scenes.build(scene)
    if scene in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[scene]):
            balance_of(made_scene.system, made_scene.state, name)
        return
    for b in balance_of(made_scene.system, made_scene.state, name, steps=2):
        check(b)


def test_the_refusal_of_a_law_with_memory_asks_for_no_other_integrator():
    """`ImplicitEuler` steps it, and was what the message asked for, of those who had taken it."""
    made_scene = scenes.build("memory")
    with pytest.raises(ValueError, match="its integrator steps them, but there is no balance of their energy"):
        balance_of(made_scene.system, made_scene.state, "ImplicitEuler")


def dragged(newton, constraints=None):
    """Two points of 2 kg that a spring joins, on a floor of friction 0.3."""
    system = jm.System(
        {"p": jm.Vec3()},
        forces={"spring": jm.force.Springs((("p", [0]), ("p", [1])), 50.0, 1.0)},
        masses={"mass": jm.mass.UniformMass(("p", [0, 1]), 2.0)},
        constraints=constraints or {},
        gravity=[0.0, 0.0, -10.0],
    )
    state = system.at_rest({"p": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]})
    state = eqx.tree_at(lambda s: s.velocity["p"], state, jnp.array([[1.0, 0.2, 0.0], [1.0, -0.2, 0.0]]))
    floor = jm.contact.PointContact(("p", [0, 1]), jm.contact.Plane(), friction=0.3)
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=newton, rtol=1e-11 if newton else None)
    return system, state, jm.integrator.FreeMotion(euler, {"floor": floor})


FRICTION = 0.3 * 2.0 * 10.0  # [N]


@pytest.mark.slow
def test_what_slides_loses_what_friction_takes():
    """`mu m g` along the way of each point; and implicit Euler half of `m (v1 - v0)^2`."""
    system, state, scheme = dragged(newton=True)
    carry = scheme.init(system, state)
    for _ in range(2):
        before = state
        state, carry, _, b = jm.integrator.step_with_balance(system, state, scheme, carry, 0.01)
        way, change = (np.asarray(getattr(state, n)["p"] - getattr(before, n)["p"]) for n in ("position", "velocity"))
        work = -FRICTION * np.linalg.norm(way, axis=1).sum()
        np.testing.assert_allclose(b.contacts["floor"], [0.0, work], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(b.scheme, np.sum(change**2), rtol=1e-3)  # that of the spring is a ten thousandth
        check(jax.tree.map(np.asarray, b))


@pytest.mark.slow
@pytest.mark.parametrize("newton", [False, True])
def test_an_impact_is_booked_to_the_scheme(newton):
    """Points that fall from 3 cm at 0.9 m/s: what they lose but to friction is `m v^2 / 2`, their weight's work apart."""
    system, state, scheme = dragged(newton)
    state = eqx.tree_at(lambda s: s.position["p"], state, state.position["p"].at[:, 2].add(0.03))
    found, carry = [], scheme.init(system, state)
    for _ in range(12):
        state, carry, _, b = jm.integrator.step_with_balance(system, state, scheme, carry, 0.01)
        found.append(b)
    taken = sum(np.sum(b.contacts["floor"]) - b.scheme + b.defect for b in found)
    np.testing.assert_allclose(sum(b.gained for b in found), taken, rtol=1e-9)
    assert abs(sum(b.defect for b in found)) < (1e-12 if newton else 1e-5)
    assert max(b.scheme for b in found) > 0.14  # at the impact; 0.02 in free fall, 0.002 in sliding


@pytest.mark.slow
def test_a_hand_does_the_work_of_the_friction_that_it_overcomes():
    """One point is moved at 1 m/s, and the other held: all that the hand does, friction takes."""
    hand = jm.constraint.PrescribedMotion(("p", [0]), np.zeros((1, 3)), [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [0.0, 1.0])
    system, state, scheme = dragged(False, {"hand": hand, "wall": jm.constraint.Fixed(("p", [1]))})
    state = eqx.tree_at(lambda s: s.velocity["p"], state, jnp.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    *_, b = jm.integrator.step_with_balance(system, state, scheme, scheme.init(system, state), 0.01)
    check(jax.tree.map(np.asarray, b))
    np.testing.assert_allclose(b.motion, b.gained + b.scheme - b.contacts["floor"].sum(), rtol=1e-9)


def test_energies_by_component():
    made_scene = scenes.build("springs")
    found = jm.integrator.energies(made_scene.system, made_scene.state)
    both = jm.energy(made_scene.system, made_scene.state) + jm.mass.kinetic_energy(made_scene.system, made_scene.state)
    np.testing.assert_allclose(found.total, both, rtol=1e-12)
    assert set(found.potential) == set(made_scene.system.forces) and set(found.weight) == set(made_scene.system.masses)
    assert float(jnp.abs(found.potential["drag"])) == 0.0


@pytest.mark.slow
def test_impulses_of_constraints_that_move_do_work():
    """A mass on a rod that is reeled out from a nail that is shaken: what puts its velocity along the rod at the end of a
    step is work of both, and was booked to the scheme, to first order."""
    winch = jm.constraint.Follow(jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0), [[0.0], [0.5]], [0.0, 1.0])
    shaken = jm.constraint.PrescribedAcceleration(
        ("p", [0]), [[0.0, 0.0]], [[3.0, -4.0], [6.0, 2.0]], [0.0, 0.5], start_velocity=[0.2, 0.1]
    )
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"mass": jm.mass.UniformMass(("p", [0, 1]), 2.0)},
        constraints={"winch": winch, "hand": shaken},
        gravity=[0.0, -9.81],
    )
    begin = eqx.tree_at(
        lambda s: s.velocity["p"],
        system.at_rest({"p": [[0.0, 0.0], [0.6, -0.8]]}),
        jnp.array([[0.2, 0.1], [0.2 + 0.5 * 0.6 + 1.6, 0.1 - 0.5 * 0.8 + 1.2]]),
    )
    taken = []
    for steps in (10, 20):
        found = balance_of(system, begin, "Midpoint", dt=0.3 / steps, steps=steps)
        for b in found:
            check(b)
        taken.append(sum(b.scheme for b in found))
    worked = sum(abs(b.motion) + abs(np.sum(b.rows["winch"])) for b in found)
    assert abs(taken[1]) < 0.3 * abs(taken[0]) < 0.01 * worked
