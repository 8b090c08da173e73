"""Joints, cables, cavities and drivers: kinematics and statics with closed forms, schemes, solvers, what is said of them."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
import scipy.optimize
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation
from tolerances import CONVERGED, FINITE_DIFFERENCE, ROUND_OFF, SOLVE_GOAL, TWO_MODES

import jaxmech as jm
from jaxmech._constraint.joint.base import placed, tilt
from jaxmech._math.rotation import quaternion_conjugate, quaternion_exp, quaternion_product, rotate
from jaxmech._model.unmet import why_unmet

G = 9.81
HELD = 1e-9  # [m, rad]: what Newton's iterations leave of an equation
Y = [0.0, 1.0, 0.0]


def turned(angle, center=(0.0, 0.0, 0.0)):
    """A frame turned about y."""
    return np.array([*center, 0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2)])


def off(system, state):
    return {name: np.abs(np.asarray(g)).max() for name, g in jm.constraint.violations(system, state).items()}


def test_every_joint_leaves_its_motions_and_no_others():
    """The rank of each Jacobian, and a motion of each kind that it allows, nowhere near the rest position."""
    a = np.array([0.3, -0.2, 0.5, 0.1, 0.2, -0.3, 0.0])
    a[6] = np.sqrt(1 - np.sum(a[3:6] ** 2))
    frames = {
        "frame_a": jm.constraint.frame([0.1, 0.2, 0.3], [1.0, 2.0, 3.0]),
        "frame_b": jm.constraint.frame([0.0, 0.4, 0.0]),
    }
    allowed = {  # slides along z, turns about z, turns about x
        "BallJoint": (0, 1, 1),
        "HingeJoint": (0, 1, 0),
        "CylindricalJoint": (1, 1, 0),
        "PrismaticJoint": (1, 0, 0),
        "FixedJoint": (0, 0, 0),
    }
    dof = jm.Rigid3()
    for name, free in allowed.items():
        joint = getattr(jm.constraint, name)((("body", [0]), ("body", [1])), **frames)

        def g(x, joint=joint):
            return joint.rows(x[0], x[1])

        def place(slide, spin, tilt):
            """Body b where frame b stands in frame a with these displacements."""
            at = placed(jnp.asarray(a), frames["frame_a"])
            local = jnp.concatenate([jnp.array([0.0, 0.0, slide]), quaternion_exp(jnp.array([tilt, 0.0, spin]))])
            at = placed(at, local)
            back = quaternion_conjugate(frames["frame_b"][3:])
            q = quaternion_product(at[3:], back)
            return jnp.concatenate([at[:3] - rotate(q, frames["frame_b"][:3]), q])

        @jax.jit
        def facts(moves, g=g, place=place):
            off = jax.vmap(lambda by: g(jnp.stack([jnp.asarray(a), place(*by)])))(moves)
            x = jnp.stack([jnp.asarray(a), place(0.0, 0.0, 0.0)])
            return off, jax.jacfwd(lambda d: g(jax.vmap(dof.retract)(x, d)))(jnp.zeros((2, 6)))

        moves = np.diag([0.7, 2.5, 0.9])
        off_by, J = facts(moves)
        for move, g_of_it, good in zip(moves, off_by, free, strict=True):
            assert (np.abs(g_of_it).max() < 1e-14) == bool(good), (name, move, g_of_it)
        rows = len(joint.units)
        assert J.shape[0] == rows == np.linalg.matrix_rank(np.asarray(J).reshape(rows, 12)), name
        # Of unit force and torque of either body: rows are lengths and angles of the joint's frame.
        np.testing.assert_allclose(np.linalg.norm(J[-1, 1, 3:]) if "rad" in joint.units else 1.0, 1.0, rtol=1e-12)


@pytest.fixture(scope="module")
def pendulum():
    """A bar on a hinge about y, whose equation is `I a'' = -m g l sin a`."""
    hinge = jm.constraint.HingeJoint(
        ("bar", [0]), frame_a=jm.constraint.frame([0.0] * 3, Y), frame_b=jm.constraint.frame([0.0, 0.0, 0.5], Y)
    )
    system = jm.System(
        {"bar": jm.Rigid3()},
        masses={"bar": jm.mass.RigidMass(("bar", [0]), 2.0, np.diag([0.1, 0.2, 0.15]))},
        constraints={"hinge": hinge},
        gravity=(0.0, 0.0, -G),
    )
    angle = 0.7
    start = system.at_rest({"bar": [turned(angle, (-0.5 * np.sin(angle), 0.0, -0.5 * np.cos(angle)))]})
    return system, start, jm.MatrixLinearSystem.build(system, start), 2.0 * G * 0.5 / (0.2 + 2.0 * 0.25)


def swing(rate, angle, time):
    return solve_ivp(lambda _, y: [y[1], -rate * np.sin(y[0])], (0, time), [angle, 0.0], "DOP853", rtol=1e-12).y[:, -1]


SCHEMES = {
    "ImplicitEuler": (jm.ImplicitEuler, 1),
    "Midpoint": (jm.integrator.Midpoint, 2),
    "Trapezoid": (jm.integrator.Trapezoid, 2),
    "Newmark": (jm.integrator.Newmark, 2),
    "HHT": (jm.integrator.HHT, 2),
    "GeneralizedAlpha": (jm.integrator.GeneralizedAlpha, 2),
    "BDF": (jm.integrator.BDF, 2),
    "TRBDF2": (jm.integrator.TRBDF2, 2),
    "EnergyMomentum": (jm.integrator.EnergyMomentum, 2),
}


def hinged(pendulum, name, newton, steps):
    system, start, linear_system, rate = pendulum
    kind, order = SCHEMES[name]
    errors = []
    angle, spin = swing(rate, 0.7, 0.4)
    for n in (steps, 2 * steps):
        end = jm.simulate(system, start, kind(linear_system, newton=newton), dt=0.4 / n, steps=n).last
        x, v = np.asarray(end.position["bar"][0]), np.asarray(end.velocity["bar"][0])
        errors.append(max(abs(2 * np.arctan2(x[4], x[6]) - angle), 0.1 * abs(v[4] - spin)))
        if newton:
            assert off(system, end)["hinge"] < HELD
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.15, (name, errors)


DAMPED = ("Midpoint", "EnergyMomentum", "TRBDF2", "Trapezoid", "HHT", "GeneralizedAlpha", "BDF")


@pytest.mark.slow
def test_a_hinged_bar_swings(pendulum):
    """By one linear solve a step: the angle to `h^2`, joints to the curvature of the path; the order is measured below."""
    system, start, linear_system, rate = pendulum
    end = jm.simulate(system, start, jm.integrator.Midpoint(linear_system), dt=0.01, steps=40).last
    x, (angle, spin) = np.asarray(end.position["bar"][0]), swing(rate, 0.7, 0.4)
    np.testing.assert_allclose([2 * np.arctan2(x[4], x[6]), end.velocity["bar"][0, 4]], [angle, spin], atol=2e-4)
    assert off(system, end)["hinge"] < 1e-6


@pytest.mark.exhaustive
@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("name", SCHEMES)
def test_a_hinged_bar_swings_at_the_order_of_every_scheme(pendulum, name, newton):
    hinged(pendulum, name, newton, 40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "newton"),
    [("Midpoint", False), *(pytest.param(n, True, marks=pytest.mark.exhaustive) for n in ("HHT", "EnergyMomentum"))],
)
def test_derivatives_of_steps_that_settle(pendulum, name, newton):
    """Forward, reverse, and central differences, by a joint's place, a mass and the start; many at once."""
    system, start, linear_system, _ = pendulum
    integrator = SCHEMES[name][0](linear_system, newton=newton, rtol=1e-11)

    def ends(p):
        at = lambda s: (s.constraints["hinge"].frame_b, s.masses["bar"].mass)  # noqa: E731
        scene = eqx.tree_at(at, system, (jm.constraint.frame(p[0] * jnp.array([0.0, 0.0, 1.0]), Y), p[1]))
        begun = eqx.tree_at(lambda s: s.velocity["bar"], start, p[2] * jnp.array([[0.0, 0.0, 0.0, 0.0, 1.0, 0.0]]))
        last = jm.simulate(scene, begun, integrator, dt=0.02, steps=2).last
        return jnp.concatenate([jnp.ravel(f[n]) for f in (last.position, last.velocity) for n in ("bar", "hinge")])

    point, h = np.array([0.5, 2.0, 0.3]), 1e-3
    shifts = jnp.stack([point + t * h * e for e in np.eye(3) for t in (1, -1, 0.5, -0.5)])
    found = np.asarray(jax.jit(jax.vmap(ends))(shifts)).reshape(3, 4, -1)
    expected = (8 * (found[:, 2] - found[:, 3]) - (found[:, 0] - found[:, 1])) / (6 * h)
    weights = jnp.cos(jnp.arange(found.shape[-1]))

    @jax.jit
    def both_modes(p):
        _, push = jax.linearize(ends, p)
        return jax.vmap(push)(jnp.eye(3)), jax.linear_transpose(push, p)(weights)[0]

    rates, reverse = (np.asarray(a) for a in both_modes(jnp.asarray(point)))
    for rate, difference in zip(rates, expected, strict=True):
        np.testing.assert_allclose(rate, difference, atol=10 * FINITE_DIFFERENCE * np.abs(difference).max())
    np.testing.assert_allclose(reverse, rates @ weights, rtol=1e-8)


def kept(system, start, dt, steps, more=lambda state: 0.0):
    """By how much energy and another number change in a run of the energy-momentum scheme, and where it ends."""
    integrator = jm.integrator.EnergyMomentum(jm.MatrixLinearSystem.build(system, start), newton=True, rtol=CONVERGED)
    run = jm.simulate(system, start, integrator, dt, steps)
    levels = jax.jit(jax.vmap(lambda s: (jm.integrator.energies(system, s).total, more(s))))(run.state)
    return [float(np.abs(np.asarray(a) - np.asarray(a)[0]).max()) for a in levels], run.last


def double_pendulum():
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"m": jm.mass.UniformMass(("p", [1, 2]), 1.0)},
        constraints={
            "nail": jm.constraint.Fixed(("p", [0])),
            "rods": jm.constraint.Distance((("p", [0, 1]), ("p", [1, 2])), length=1.0),
        },
        gravity=(0.0, -G),
    )
    return system, system.at_rest({"p": [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]})


@pytest.mark.slow
def test_the_gradient_of_a_step_that_keeps_energy():
    system, start = double_pendulum()
    integrator = jm.integrator.EnergyMomentum(jm.MatrixLinearSystem.build(system, start), newton=True, rtol=CONVERGED)

    @jax.jit
    @jax.value_and_grad
    def height(weight):
        scene = eqx.tree_at(lambda s: s.gravity, system, jnp.stack([0.0, -weight]))
        return jm.simulate(scene, start, integrator, 0.1, 2).last.position["p"][2, 1]

    h = 1e-2
    rate = (8 * (height(G + h / 2)[0] - height(G - h / 2)[0]) - (height(G + h)[0] - height(G - h)[0])) / (6 * h)
    np.testing.assert_allclose(height(G)[1], rate, rtol=FINITE_DIFFERENCE)


@pytest.mark.slow
def test_constraint_forces_do_no_work():
    """Of a double pendulum that falls over: energy is kept to what iterations leave (0.06 J by the midpoint rule)."""
    system, start = double_pendulum()
    (gained, _), end = kept(system, start, 0.02, 150)
    assert gained < 1e-9 and off(system, end)["rods"] < HELD


@pytest.mark.slow
def test_what_is_taken_back_leaves_nothing_across():
    """A pendulum whose rod begins 2 % too long: its second step and all after it keep the energy of the first one's end."""
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"m": jm.mass.UniformMass(("p", [1]), 2.0)},
        constraints={
            "nail": jm.constraint.Fixed(("p", [0])),
            "rod": jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0),
        },
        gravity=(0.0, -G),
    )
    start = system.at_rest({"p": [[0.0, 0.0], [1.0, 0.2]]})
    integrator = jm.integrator.EnergyMomentum(jm.MatrixLinearSystem.build(system, start), newton=True, rtol=CONVERGED)
    run = jm.simulate(system, start, integrator, 0.02, 10).state
    x, v = run.position["p"][1:, 1], run.velocity["p"][1:, 1]
    assert abs(x[0] @ v[0]) < HELD  # by `2 u - v0` it was 2 m/s
    levels = np.sum(np.asarray(v) ** 2, axis=1) + 2 * G * np.asarray(x)[:, 1]
    np.testing.assert_allclose(levels, levels[0], atol=1e-9)


@pytest.mark.slow
def test_bodies_of_rods_keep_energy_and_momenta_in_free_flight():
    """Two triangles, rigid by their rods, joined by a soft cord, and a rod by itself, whose motion has no strain at all."""
    system = jm.System(
        {"p": jm.Vec2()},
        forces={"cord": jm.force.Springs((("p", [2]), ("p", [3])), 30.0, 0.2)},
        masses={"m": jm.mass.UniformMass(("p", np.arange(6)), 0.5)},
        constraints={"rods": jm.constraint.Distance((("p", [0, 1, 2, 3, 4, 5]), ("p", [1, 2, 0, 4, 5, 3])), length=1.0)},
    )
    corners = np.array([[0.0, 0.0], [0.5, -np.sqrt(0.75)], [1.0, 0.0]])
    x = np.concatenate([corners, corners[[0, 2, 1]] + [1.5, 0.3]])
    turn = lambda c, w: w * np.stack([-(c[:, 1] - c[:, 1].mean()), c[:, 0] - c[:, 0].mean()], axis=1)  # noqa: E731
    v = np.concatenate([turn(x[:3], 2.0) + [0.3, 0.0], turn(x[3:], -1.0)])
    start = eqx.tree_at(lambda s: s.velocity["p"], system.at_rest({"p": x}), jnp.asarray(v))

    def momenta(state):
        q, p = state.position["p"], 0.5 * state.velocity["p"]
        return jnp.stack([*jnp.sum(p, axis=0), jnp.sum(q[:, 0] * p[:, 1] - q[:, 1] * p[:, 0])])

    (gained, pushed), end = kept(system, start, 0.02, 100, momenta)
    assert gained < 1e-9 and pushed < 1e-10 and off(system, end)["rods"] < HELD
    rod = jm.System(
        {"p": jm.Vec2()},
        masses={"m": jm.mass.UniformMass(("p", [0, 1]), 0.5)},
        constraints={"rod": jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0)},
    )
    begun = rod.at_rest({"p": [[0.0, 0.0], [1.0, 0.0]]})
    begun = eqx.tree_at(lambda s: s.velocity["p"], begun, jnp.array([[0.2, -1.0], [0.2, 1.0]]))
    (gained, pushed), end = kept(rod, begun, 0.05, 100, momenta)
    assert gained < 1e-12 and pushed < 1e-12
    np.testing.assert_allclose(end.position["rod"], 0.5 * 1.0**2 / 0.5, rtol=1e-6)  # m v^2 / r


@pytest.mark.slow
def test_a_top_of_rods_keeps_its_energy_and_its_momentum_about_the_vertical():
    """Three masses on rods, whose tip is nailed, under their weight: they nutate, and the level momentum does not stay."""
    corners = np.arange(3) * 2 * np.pi / 3
    ring = np.stack([0.1 * np.cos(corners), 0.1 * np.sin(corners), np.full(3, 0.15)], axis=1)
    x = np.concatenate([np.zeros((1, 3)), ring])
    x = x @ np.array([[1.0, 0.0, 0.0], [0.0, np.cos(0.5), np.sin(0.5)], [0.0, -np.sin(0.5), np.cos(0.5)]])
    one, other = np.triu_indices(4, 1)
    system = jm.System(
        {"p": jm.Vec3()},
        masses={"m": jm.mass.UniformMass(("p", [1, 2, 3]), 0.3)},
        constraints={
            "nail": jm.constraint.Fixed(("p", [0])),
            "rods": jm.constraint.Distance((("p", one), ("p", other)), length=np.linalg.norm(x[one] - x[other], axis=1)),
        },
        gravity=(0.0, 0.0, -G),
    )
    spin = 30.0 * x[1:].mean(axis=0) / np.linalg.norm(x[1:].mean(axis=0))
    start = eqx.tree_at(lambda s: s.velocity["p"], system.at_rest({"p": x}), jnp.asarray(np.cross(spin, x)))

    def about_the_nail(state):
        return 0.3 * jnp.sum(jnp.cross(state.position["p"], state.velocity["p"]), axis=0)

    (gained, _), end = kept(system, start, 0.01, 60)
    change = np.abs(np.asarray(about_the_nail(end) - about_the_nail(start)))
    assert gained < 1e-9 and change[2] < 1e-11 and change[:2].max() > 0.05 and off(system, end)["rods"] < HELD


@pytest.mark.slow
def test_a_hinged_bar_has_the_period_of_small_swings(pendulum):
    """By its mode, `omega^2 = m g l / I`, at rest; the multipliers of rest are its weight."""
    system, _, linear_system, rate = pendulum
    rest = system.at_rest({"bar": [turned(0.0, (0.0, 0.0, -0.5))], "hinge": [[0.0, 0.0, 0.0, 0.0, 0.0]]})
    pull = jm.constraint.constraint_report(system, rest)["hinge"]
    assert pull.units == ("N", "N", "N", "N m", "N m") and pull.violation_units[-1] == "rad"
    # Multipliers that balance the weight, by least squares: there statics has a matrix without a motion of its own.
    held = dataclasses.replace(rest, position=rest.position | {"hinge": _balancing(system, rest)})
    np.testing.assert_allclose(jm.total_force(system, held)["bar"], 0.0, atol=1e-12)
    found = jm.modes(system, held, linear_system, count=1)
    np.testing.assert_allclose(found.eigenvalues, [rate], rtol=1e-10)

    def frequency(mass):
        heavy = eqx.tree_at(lambda s: s.masses["bar"].mass, system, mass)
        hanging = dataclasses.replace(held, position=held.position | {"hinge": held.position["hinge"] * mass / 2.0})
        return jm.modes(heavy, hanging, linear_system, count=1).eigenvalues[0]

    expected = lambda m: m * G * 0.5 / (0.2 + m * 0.25)  # noqa: E731
    slope = (expected(2.0 + 1e-4) - expected(2.0 - 1e-4)) / 2e-4
    np.testing.assert_allclose(jax.grad(frequency)(2.0), slope, rtol=FINITE_DIFFERENCE)


def _balancing(system, state):
    columns = [
        jm.constraint.constraint_report(
            system, dataclasses.replace(state, position=state.position | {"hinge": jnp.eye(5)[i][None]})
        )["hinge"].forces["bar"]
        for i in range(5)
    ]
    weight = jm.total_force(system, state)["bar"].ravel()
    return jnp.asarray(np.linalg.lstsq(np.stack([np.ravel(c) for c in columns], 1), -np.asarray(weight), rcond=None)[0])[
        None
    ]


def four_bar():
    """A crank of 0.4, a coupler of 1.2, a rocker of 0.8 on a base of 1: hinges about y, one of them redundant in part."""
    lengths = (0.4, 1.2, 0.8)

    def eye(x):
        return jm.constraint.frame([x, 0.0, 0.0], Y)

    pins = {
        "crank": jm.constraint.HingeJoint(("bars", [0]), frame_a=eye(0.0), frame_b=eye(-0.2)),
        "knee": jm.constraint.HingeJoint((("bars", [0]), ("bars", [1])), frame_a=eye(0.2), frame_b=eye(-0.6)),
        "elbow": jm.constraint.CylindricalJoint((("bars", [1]), ("bars", [2])), frame_a=eye(0.6), frame_b=eye(-0.4)),
        "rocker": jm.constraint.BallJoint(("bars", [2]), frame_a=jm.constraint.frame([1.0, 0.0, 0.0]), frame_b=eye(0.4)),
    }
    return lengths, pins


def closed(theta, lengths, base=1.0):
    """The angles of crank, coupler and rocker about y, by the triangle of the diagonal."""
    a, b, c = lengths
    p = a * np.array([np.cos(theta), np.sin(theta)])
    d = np.array([base, 0.0]) - p
    r = np.linalg.norm(d)
    inner = np.arccos((r**2 + b**2 - c**2) / (2 * r * b))
    q = p + b * np.array([np.cos(np.arctan2(d[1], d[0]) + inner), np.sin(np.arctan2(d[1], d[0]) + inner)])
    phi = np.arctan2(q[1] - p[1], q[0] - p[0])
    psi = np.arctan2(-q[1], base - q[0])
    centers = [p / 2, (p + q) / 2, (q + np.array([base, 0.0])) / 2]
    return np.array([theta, phi, psi]), np.stack(centers)


def bars(theta, lengths):
    angles, centers = closed(theta, lengths)
    return np.stack([turned(-w, (x, 0.0, z)) for w, (x, z) in zip(angles, centers, strict=True)])


@pytest.mark.slow
def test_a_driven_four_bar_linkage_closes():
    """The angles of its bars are those of plane kinematics through whole turns, its motor's torque that of virtual work."""
    lengths, pins = four_bar()
    motor = jm.constraint.JointAngle(
        ("bars", [0]), frame_a=jm.constraint.frame([0.0] * 3, Y), frame_b=jm.constraint.frame([0.0] * 3, Y)
    )
    drive = jm.constraint.Follow(motor, [[0.0], [-4 * np.pi]], [0.0, 1.0])
    load = np.array([0.0, 0.0, -5.0])
    system = jm.System(
        {"bars": jm.Rigid3()},
        forces={"load": jm.force.ConstantForce(("bars", [2]), load)},
        constraints=pins | {"drive": drive},
    )
    state = system.at_rest({"bars": bars(0.0 + 1e-3, lengths)})
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))
    solved = jax.jit(lambda s: jm.static_solve(system, s, linear_system).state)
    for theta in np.linspace(0.2, 4 * np.pi - 0.3, 40):
        state = solved(dataclasses.replace(state, time=jnp.asarray(theta / (4 * np.pi))))
        angles, centers = closed(theta, lengths)
        x = np.asarray(state.position["bars"])
        np.testing.assert_allclose(x[:, [0, 2]], centers, atol=HELD)
        found = -2 * np.arctan2(x[:, 4], x[:, 6])
        np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * angles), atol=HELD)
        assert max(off(system, state).values()) < HELD
    rise = (closed(theta + 1e-6, lengths)[1] - closed(theta - 1e-6, lengths)[1])[2, 1] / 2e-6
    np.testing.assert_allclose(state.position["drive"], [[5.0 * rise]], rtol=1e-7)  # against the drive's own sign about y


@pytest.mark.slow
def test_a_reeled_rod_is_as_long_as_it_shall_be_at_the_end_of_a_step():
    """`EnergyMomentum` held it to its length in the middle of it. `angle = L / m integral dt / r^2`, `r = 1 + t / 2`."""
    winch = jm.constraint.Follow(jm.constraint.Distance((("p", [0]), ("p", [1])), None, 1.0), [[0.0], [0.5]], [0.0, 1.0])
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"mass": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
        constraints={"winch": winch, "nail": jm.constraint.Fixed(("p", [0]))},
    )
    state = system.at_rest({"p": [[0.0, 0.0], [1.0, 0.0]]})
    state = eqx.tree_at(lambda s: s.velocity["p"], state, jnp.array([[0.0, 0.0], [0.5, 2.0]]))
    scheme, errors = jm.integrator.EnergyMomentum(jm.MatrixLinearSystem.build(system, state), newton=True, rtol=1e-10), []
    for steps in (20, 40):
        end = jm.simulate(system, state, scheme, 0.6 / steps, steps, save_every=steps).last
        assert off(system, end)["winch"] < HELD
        (x, y), v = np.asarray(end.position["p"][1]), np.asarray(end.velocity["p"][1])
        errors.append(np.abs([np.arctan2(y, x) - 4 * (1 - 1 / 1.3), v @ [x, y] / 1.3 - 0.5, x * v[1] - y * v[0] - 2.0]))
    assert np.all(errors[1] < np.maximum(0.3 * errors[0], HELD)) and np.all(errors[1] < 1e-3)


@pytest.mark.slow
def test_a_cavity_is_as_stiff_as_its_pressure():
    """Volume controlled and pressure controlled are one another's inverse, with equal derivatives."""
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0))
    skin = mesh.boundary()
    solid = jm.force.TetrahedronFEM.from_mesh("box", mesh, jm.material.NeoHookean(1e3, 0.2))
    wall = jm.constraint.Fixed(("box", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))
    pump = jm.constraint.CavityVolume.from_mesh("box", skin, 2.1)
    by_volume = jm.System({"box": jm.Vec3()}, forces={"solid": solid}, constraints={"wall": wall, "pump": pump})
    start = by_volume.at_rest({"box": mesh.points})
    assert start.position["pump"].shape == (1, 1)
    linear_system = jm.MatrixLinearSystem.build(by_volume, start, jm.Terms(mass=False, damping=False))

    def pumped(volume):
        scene = eqx.tree_at(lambda s: s.constraints["pump"].volume, by_volume, volume)
        return jm.static_solve(scene, start, linear_system).state

    state, rate = jax.jit(lambda v: jax.jvp(pumped, (v,), (jnp.ones(()),)))(jnp.asarray(2.1))
    assert off(by_volume, state)["pump"] < 1e-12
    pressure = state.position["pump"][0, 0]
    gas = jm.force.Pressure.from_mesh("box", skin, -pressure)  # against the normals
    by_pressure = jm.System({"box": jm.Vec3()}, forces={"solid": solid, "gas": gas}, constraints={"wall": wall})

    def blown(p):
        scene = eqx.tree_at(lambda s: s.forces["gas"].pressure, by_pressure, -p)
        return jm.static_solve(scene, by_pressure.at_rest({"box": mesh.points})).position["box"]

    same, slope = jax.jit(lambda p: jax.jvp(blown, (p,), (jnp.ones(()),)))(pressure)
    np.testing.assert_allclose(same, state.position["box"], atol=1e-9)
    np.testing.assert_allclose(slope * rate.position["pump"][0, 0], rate.position["box"], atol=1e-7)


@pytest.mark.slow
def test_pressures_of_two_chambers_between_bounds():
    """A beam with two cavities: the pressures that bring its tip to a target, within bounds and at one, and the volumes that
    mean the same pressures, whose derivatives are those of a potential."""
    full = jm.mesh.box_mesh(cells=(7, 3, 5), size=(0.7, 0.3, 0.5))
    points, cells = np.asarray(full.points), np.asarray(full.cells)
    centre, lows = points[cells].mean(axis=1), {"up": 0.3, "low": 0.1}
    hollow = {n: np.all((centre > [0.1, 0.1, z]) & (centre < [0.6, 0.2, z + 0.1]), axis=1) for n, z in lows.items()}
    used, numbers = np.unique(cells[~(hollow["up"] | hollow["low"])], return_inverse=True)
    mesh = jm.mesh.Mesh(points[used], numbers.reshape(-1, 4), "tetrahedron")
    new = np.zeros(len(points), int)
    new[used] = np.arange(len(used))
    faces = {n: new[jm.mesh.boundary_faces(jm.mesh.Mesh(points, cells[of], "tetrahedron"))[0]] for n, of in hollow.items()}
    solid = {"solid": jm.force.TetrahedronFEM.from_mesh("b", mesh, jm.material.NeoHookean(1e5, 0.4))}
    wall = {"wall": jm.constraint.Fixed(("b", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))}
    gas = {n: jm.force.Pressure(("b", f[:, ::-1]), 0.0) for n, f in faces.items()}  # against its normals, out of the gas
    blown = jm.System({"b": jm.Vec3()}, forces=solid | gas, constraints=wall)
    start = blown.at_rest({"b": mesh.points})
    statics = jm.Terms(mass=False, damping=False)
    linear_system, tip = (
        jm.MatrixLinearSystem.build(blown, start, statics),
        mesh.nodes_where(lambda x: np.isclose(x[:, 0], 0.7)),
    )

    def at(p):
        scene = eqx.tree_at(lambda s: [s.forces[n].pressure for n in gas], blown, list(p))
        return jm.static_solve(scene, start, linear_system).position["b"]

    place = jax.jit(lambda p: 100 * at(p)[tip].mean(0))
    slopes, right = jax.jit(jax.jacfwd(place)), np.array([3000.0, 1000.0])
    target, exact = place(right), {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14, "x_scale": 1000.0}
    for most in (4000.0, 2500.0):
        found = scipy.optimize.least_squares(
            lambda p: np.asarray(place(p) - target), [500.0, 500.0], lambda p: np.asarray(slopes(p)), (0.0, most), **exact
        )
        if most > right.max():
            np.testing.assert_allclose(found.x, right, rtol=1e-8)
        else:  # more would bring it nearer: it is at its bound, and the other where it can do no better
            np.testing.assert_allclose(found.x[0], most, rtol=1e-6)
            assert found.grad[0] < -1e-8 and abs(found.grad[1]) < 1e-12 and 0 < found.x[1] < right[1]

    end = np.asarray(at(right))
    volumes = [np.linalg.det(end[f]).sum() / 6 for f in faces.values()]
    pumps = {n: jm.constraint.CavityVolume(("b", f), v) for (n, f), v in zip(faces.items(), volumes, strict=True)}
    pumped = jm.System({"b": jm.Vec3()}, forces=solid, constraints=wall | pumps)
    rest = pumped.at_rest({"b": mesh.points})
    system = jm.MatrixLinearSystem.build(pumped, rest, statics)

    def pressures(volumes):
        scene = eqx.tree_at(lambda s: [s.constraints[n].volume for n in pumps], pumped, list(volumes))
        state = jm.static_solve(scene, rest, system).state
        return jnp.concatenate([state.position[n][0] for n in pumps]), state.position["b"]

    given = jnp.asarray(volumes)
    p, x = jax.jit(pressures)(given)
    np.testing.assert_allclose(p, right, rtol=1e-9)
    np.testing.assert_allclose(x, end, atol=1e-12)
    stiffness = jax.jit(jax.jacrev(lambda v: pressures(v)[0]))(given)
    np.testing.assert_allclose(stiffness, stiffness.T, rtol=1e-9, atol=1e-9 * float(jnp.abs(stiffness).max()))


def gripped(length=1.9, tension=None):
    """An elastic bar with eyelets along its upper side, bent by a cable from the wall."""
    mesh = jm.mesh.box_mesh(cells=(4, 1, 1), size=(2.0, 0.5, 0.5))
    x = np.asarray(mesh.points)
    eyes = np.flatnonzero((x[:, 1] == 0.0) & (x[:, 2] == 0.5))
    eyes = eyes[np.argsort(x[eyes, 0])]
    solid = jm.force.TetrahedronFEM.from_mesh("bar", mesh, jm.material.NeoHookean(1e4, 0.3))
    wall = jm.constraint.Fixed(("bar", mesh.nodes_where(lambda p: p[:, 0] == 0.0)))
    forces, constraints = {"solid": solid}, {"wall": wall}
    if tension is None:
        constraints["cable"] = jm.constraint.Cable(("bar", eyes[None]), length)
    else:
        forces["cable"] = jm.force.CableTension(("bar", eyes[None]), tension)
    system = jm.System({"bar": jm.Vec3()}, forces=forces, constraints=constraints)
    return system, system.at_rest({"bar": x}), np.flatnonzero(x[:, 0] == 2.0)


@pytest.mark.slow
def test_a_cable_pulls_with_its_multiplier():
    """Length controlled and force controlled are one another's inverse; length and gradients by finite differences."""
    system, start, tip = gripped()
    linear_system = jm.MatrixLinearSystem.build(system, start, jm.Terms(mass=False, damping=False))

    def ends(length):
        scene = eqx.tree_at(lambda s: s.constraints["cable"].length, system, length)
        found = jm.static_solve(scene, start, linear_system, rtol=1e-9)
        return jnp.append(found.position["bar"][tip].mean(0), found.position["cable"][0, 0])

    both = jax.jit(jax.vmap(ends))
    h = 1e-3
    at = both(jnp.asarray([1.9, 1.9 + h, 1.9 - h, 1.9 + h / 2, 1.9 - h / 2]))
    difference = (8 * (at[3] - at[4]) - (at[1] - at[2])) / (6 * h)
    rate = jax.jit(jax.jacfwd(ends))(1.9)
    np.testing.assert_allclose(rate, difference, atol=10 * FINITE_DIFFERENCE * np.abs(difference).max())
    weights = jnp.array([0.3, 1.0, -2.0, 0.01])
    np.testing.assert_allclose(jax.jit(jax.grad(lambda l: ends(l) @ weights))(1.9), rate @ weights, rtol=TWO_MODES)
    pulled, rest, _ = gripped(tension=at[0, 3])
    same = jm.static_solve(pulled, rest).position["bar"]
    np.testing.assert_allclose(same[tip].mean(0), at[0, :3], atol=1e-8)
    assert at[0, 3] > 0 and at[0, 2] > 0.3  # it pulls, and lifts the tip


def chain(bodies):
    """Bodies in a row on ball joints and hinges, from a point of the world."""
    at = np.stack([np.array([0.1 + 0.2 * i, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]) for i in range(bodies)])
    left, right = jm.constraint.frame([-0.1, 0.0, 0.0], Y), jm.constraint.frame([0.1, 0.0, 0.0], Y)
    links = (("b", range(bodies - 1)), ("b", range(1, bodies)))
    held = {
        "top": jm.constraint.BallJoint(("b", [0]), frame_b=left),
        "links": jm.constraint.HingeJoint(links, frame_a=right, frame_b=left),
    }
    mass = jm.mass.RigidMass(("b", range(bodies)), 0.5, np.diag([1e-3, 2e-3, 2e-3]))
    system = jm.System({"b": jm.Rigid3()}, masses={"m": mass}, constraints=held, gravity=(0.0, 0.0, -G))
    return system, system.at_rest({"b": at})


@pytest.mark.slow
def test_a_chain_of_twenty_bodies_holds_for_ten_seconds():
    system, start = chain(20)
    linear_system = jm.MatrixLinearSystem.build(system, start)
    run = jm.simulate(
        system,
        start,
        jm.ImplicitEuler(linear_system, newton=True),
        dt=0.04,
        steps=250,
        observe=lambda s, x: {n: jnp.abs(g).max() for n, g in jm.constraint.violations(s, x).items()},
    )
    worst = {n: float(np.max(g)) for n, g in run.observed.items()}
    assert max(worst.values()) < 1e-9, worst
    assert run.last.time > 9.99 and np.abs(run.last.position["b"][-1, 2]) > 1.0


@pytest.mark.slow
def test_the_compliance_of_the_rows_solves_what_a_factor_solves():
    """A step's matrix with multipliers, whose blocks are named by states and constraints."""
    system, start = chain(4)
    linear_system = jm.MatrixLinearSystem.build(system, start)
    A = linear_system.assemble(system, start, jm.Factors(1.0, 0.0, 1e-4))
    assert ("b", "links") in A.entries and A["links", "b"].shape == (15, 24)
    rng = np.random.default_rng(0)
    b = {s: jnp.asarray(rng.normal(size=(n, d))) for s, n, d in A.sizes}
    direct = lx.linear_solve(A, b, jm.solver.SparseDirect()).value
    schur = jm.solver.SchurComplement(system.multiplier_states)
    for solver in (schur, dataclasses.replace(schur, least_norm=True)):
        found = lx.linear_solve(A, b, solver).value
        for s in b:
            np.testing.assert_allclose(found[s], direct[s], atol=1e-10 * np.abs(direct[s]).max())
    assert not jm.constraint.dependent_rows(system, start)


def test_redundant_and_conflicting_rows_are_told_apart():
    on = (("p", [0, 0]), ("p", [1, 1]))
    for lengths, redundant in (([1.0, 1.0], True), ([1.0, 1.2], False)):
        rods = jm.constraint.Distance(on, length=lengths)
        system = jm.System(
            {"p": jm.Vec2()},
            forces={"load": jm.force.ConstantForce(("p", [1]), [3.0, -4.0])},
            masses={"m": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
            constraints={"rods": rods, "nail": jm.constraint.Fixed(("p", [0]))},
        )
        state = system.at_rest({"p": [[0.0, 0.0], [0.6, -0.8]]})
        (row,) = jm.constraint.dependent_rows(system, state)
        assert row.redundant is redundant and row.others == (("rods", 0, 0),)
        assert ("says what" in str(row)) is redundant and ("contradicts" in str(row)) is not redundant
        np.testing.assert_allclose(row.residual, lengths[0] - lengths[1], atol=1e-12)
        linear_system = jm.MatrixLinearSystem.build(system, state)
        solver = jm.solver.SchurComplement(("rods",), least_norm=True)
        step = jm.ImplicitEuler(linear_system, solver).step
        if redundant:
            end = step(system, state, None, 0.01)[0]
            np.testing.assert_allclose(end.position["rods"], [[2.5], [2.5]], rtol=1e-12)  # half of the load each
        else:
            with pytest.raises(jm.FailedComputation, match="are not determined. Here .*contradicts.*, by -0.2. No motion"):
                step(system, state, None, 0.01)


def test_a_first_acceleration_without_multipliers_names_the_row_that_asks_for_nothing():
    """The tip of an arm that moves in a plane is held by a ball joint, a row of which is across the plane."""
    hinge = jm.mapping.ArticulatedMapping.tree("q", "bodies", [-1], [[0.0, 0.0, 0.0]], [0.0, 1.0, 0.0])
    eye = jm.constraint.frame([1.0, 0.0, 0.0])
    system = jm.System(
        {"q": jm.Vec1(), "bodies": jm.Rigid3()},
        mappings={"hinge": hinge},
        masses={"m": jm.mass.RigidMass(("bodies", [0]), 1.0, np.eye(3))},
        constraints={"pin": jm.constraint.BallJoint(("bodies", [0]), eye, eye)},
    )
    state = system.at_rest({"q": [[0.0]]})
    scheme = jm.integrator.Newmark(jm.MatrixLinearSystem.build(system, state))
    with pytest.raises(
        jm.FailedComputation, match="no acceleration .*first state.* not determined. Here .*row 1 of element 0 of 'pin' asks"
    ):
        jm.simulate(system, state, scheme, 0.01, 1)
    run = jm.simulate(system, state, scheme, 0.01, 1, throw=False)
    assert (run.info.result == jm.RESULTS.no_first_acceleration).all()


@pytest.mark.slow_cases("1.0", "1e-06")
@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e-9])  # [m]
def test_rows_conflict_in_scenes_of_any_size(unit):
    """Two rods along a line between nails that are a thousandth too far apart, and the last state of a run is NaN."""
    rods = jm.constraint.Distance((("p", [0, 1]), ("p", [1, 2])), length=unit)
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"m": jm.mass.UniformMass(("p", [0, 1, 2]), 1.0)},
        constraints={"rods": rods, "nails": jm.constraint.Fixed(("p", [0, 2]))},
        gravity=(0.0, -9.81),
    )
    state = system.at_rest({"p": unit * np.array([[0.0, 0.0], [1.0005, 0.0], [2.001, 0.0]])})
    (row,) = jm.constraint.dependent_rows(system, state)
    assert not row.redundant and row.others == (("rods", 0, 0),)
    scheme = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    with pytest.raises(jm.FailedComputation, match="step 0: .* not determined. Here .* contradicts row 0 of"):
        jm.simulate(system, state, scheme, 1e-3, 3)


def test_what_no_position_fulfils_is_told_in_scenes_of_any_size():
    rope, hooks = jm.constraint.Cable(("p", [[0, 1, 2]]), length=0.999e-8), jm.constraint.Fixed(("p", [0, 2]))
    hung = jm.System({"p": jm.Vec2()}, constraints={"rope": rope, "hooks": hooks})
    start = hung.at_rest({"p": 1e-8 * np.array([[0.0, 0.0], [0.5, -0.1], [1.0, 0.0]])})
    assert "element 0 of 'rope' (Cable) is 1e-11 m too short" in why_unmet(hung, start, singular=False)


def test_rows_that_differ_by_what_was_rounded_do_not_conflict():
    """Two joints of the same two points: along x nothing acts, and the gaps of the two are what positions cancel in."""
    joints = {name: jm.constraint.Attachment((("p", [0]), ("p", [1]))) for name in ("a", "b")}
    system = jm.System({"p": jm.Vec2()}, masses={"m": jm.mass.UniformMass(("p", [0, 1]), 1.0)}, constraints=joints)
    state = system.at_rest({"p": [[0.6, -0.8], [0.6, -0.8]]})
    A = jm.MatrixLinearSystem.build(system, state).assemble(system, state, jm.Factors(1.0, 0.0, 1e-4))
    solver = jm.solver.SchurComplement(("a", "b"), least_norm=True)
    for gap, fine in ((1e-20, True), (1e-9, False)):
        b = {"p": jnp.asarray([[0.0, 1.0], [0.0, 0.0]]), "a": jnp.asarray([[gap, 0.0]]), "b": jnp.asarray([[-gap, 0.0]])}
        found = lx.linear_solve(A, b, solver, throw=False)
        assert bool(found.result == lx.RESULTS.successful) == fine
        np.testing.assert_allclose(np.ravel(found.value["a"] + found.value["b"]), [0.0, -5e3], atol=1e-8)


def test_what_makes_a_solve_of_constraints_fail_is_named():
    """A cable between nails that are 1.2 m apart, through an eyelet that hangs in it; a hinge far from its axis."""
    rope, hooks = jm.constraint.Cable(("p", [[0, 1, 2]]), length=1.0), jm.constraint.Fixed(("p", [0, 2]))
    load = jm.force.ConstantForce(("p", [1]), [0.0, -10.0])
    hung = jm.System({"p": jm.Vec2()}, forces={"load": load}, constraints={"rope": rope, "hooks": hooks})
    with pytest.raises(jm.FailedComputation, match=r"element 0 of 'rope' \(Cable\) is 0.2 m too short"):
        jm.static_solve(hung, hung.at_rest({"p": [[0.0, 0.0], [0.5, -0.7], [1.2, 0.0]], "rope": [[5.0]]}))

    hinge = jm.constraint.HingeJoint(("bar", [0]))
    scene = jm.System({"bar": jm.Rigid3()}, constraints={"hinge": hinge})
    leaning = scene.at_rest({"bar": [[0.0, 0.0, 0.0, 0.6, 0.0, 0.0, 0.8]]})
    assert "row 3 of element 0 of 'hinge' (HingeJoint) is off by 1.2 rad: start nearer" in why_unmet(
        scene, leaning, singular=True
    )
    assert why_unmet(scene, scene.at_rest({"bar": [[0.0] * 6 + [1.0]]}), singular=False) == ""


@pytest.mark.slow
def test_a_linear_step_says_what_no_position_fulfils():
    """A cable between nails 1.2 m apart; one that is long enough, but starts far off; one pulled in."""
    start = [[0.0, 0.0], [0.5, -0.7], [1.2, 0.0]]

    def hung(**how):
        rope, hooks = jm.constraint.Cable(("p", [[0, 1, 2]]), **how), jm.constraint.Fixed(("p", [0, 2]))
        weight = jm.mass.UniformMass(("p", [0, 1, 2]), 1.0)
        held = {"rope": rope, "hooks": hooks}
        system = jm.System({"p": jm.Vec2()}, masses={"m": weight}, constraints=held, gravity=(0.0, -9.81))
        state = system.at_rest({"p": start})
        return system, state, jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))

    system, state, scheme = hung(length=1.0)
    for run in (lambda: scheme.step(system, state, None, 0.05), lambda: jm.simulate(system, state, scheme, 0.05, 3)):
        with pytest.raises(jm.FailedComputation, match=r"element 0 of 'rope' \(Cable\) is 0.2 m too short") as failure:
            run()
        assert failure.value.result == jm.RESULTS.equations_unmet
    assert jm.simulate(system, state, scheme, 0.05, 3, throw=False).info.unmet[0]
    for how in ({"length": 1.25}, {"length": 1.25, "relaxation": 0.5}):
        system, state, scheme = hung(**how)
        jm.simulate(system, state, scheme, 0.05, 20)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1.0, 1e-6])  # [m]
def test_a_rope_of_a_body_that_is_too_short_is_told_in_scenes_of_any_size(size):
    """The length of a quaternion is not that of a scene."""
    ball = jm.constraint.BallJoint(("bar", [0]), frame_b=jm.constraint.frame([-0.5 * size, 0.0, 0.0]))
    rope = jm.constraint.Distance((("tip", [0]), ("nail", [0])), length=0.5 * size)
    system = jm.System(
        {"bar": jm.Rigid3(), "tip": jm.Vec3(), "nail": jm.Vec3()},
        mappings={"tip": jm.mapping.RigidMapping(("bar", [0]), "tip", [[0.5 * size, 0.0, 0.0]])},
        masses={"m": jm.mass.RigidMass(("bar", [0]), 1.0, 0.1 * size**2 * np.eye(3))},
        constraints={"ball": ball, "rope": rope, "nail": jm.constraint.Fixed(("nail", [0]))},
    )
    bar, nail = np.array([[0.5 * size, *5 * [0.0], 1.0]]), size * np.array([[1.6, 0.1, 0.2]])
    state = system.at_rest({"bar": bar, "nail": nail})
    scheme = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    with pytest.raises(jm.FailedComputation, match=r"element 0 of 'rope' \(Distance\) is .* too short"):
        jm.simulate(system, state, scheme, 0.01, 3)


def test_a_tilt_grows_up_to_half_a_turn_and_forgets_turns_about_its_axis():
    for angle, about in ((1e-4, 0.0), (0.7, 2.0), (np.pi / 2, -1.0), (3.0, 0.5), (np.pi, 0.0)):
        lean = np.array([np.sin(angle / 2) * 0.6, np.sin(angle / 2) * 0.8, 0.0, np.cos(angle / 2)])
        spin = np.array([0.0, 0.0, np.sin(about / 2), np.cos(about / 2)])
        found, slope = jax.value_and_grad(lambda q: jnp.linalg.norm(tilt(q)))(quaternion_product(lean, spin))
        np.testing.assert_allclose(found, 2 * np.sin(angle / 2), rtol=1e-12)
        assert np.isfinite(slope).all()
    np.testing.assert_allclose(tilt(jnp.array([5e-4 * 0.6, 5e-4 * 0.8, 0.0, 1.0])), [6e-4, 8e-4], rtol=1e-6)


@pytest.mark.slow
def test_relaxed_and_compliant_rows():
    """A violation decays by `h / (h + tau)` a step; a compliant, relaxed row is a spring with a damper."""
    rod = jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0, relaxation=0.1)
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"m": jm.mass.UniformMass(("p", [1]), 2.0)},
        constraints={"rod": rod, "nail": jm.constraint.Fixed(("p", [0]))},
    )
    start = system.at_rest({"p": [[0.0, 0.0], [1.5, 0.0]]})
    linear_system = jm.MatrixLinearSystem.build(system, start)
    run = jm.simulate(system, start, jm.ImplicitEuler(linear_system), dt=0.02, steps=5).state.position["p"][:, 1, 0]
    np.testing.assert_allclose(run[1:] - 1.0, 0.5 * (0.1 / 0.12) ** np.arange(1, 6), rtol=1e-10)
    soft = eqx.tree_at(lambda s: s.constraints["rod"].compliance, system, jnp.asarray(1 / 50.0))
    spring = jm.force.Springs((("p", [0]), ("p", [1])), 50.0, 1.0, damping=5.0)  # tau / C
    same = jm.System(
        {"p": jm.Vec2()}, forces={"spring": spring}, masses=system.masses, constraints={"nail": system.constraints["nail"]}
    )
    other = same.at_rest({"p": start.position["p"]})
    ends = [
        jm.simulate(s, x, jm.ImplicitEuler(jm.MatrixLinearSystem.build(s, x)), dt=0.02, steps=5).last.position["p"][1, 0]
        for s, x in ((soft, start), (same, other))
    ]
    np.testing.assert_allclose(*ends, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Newmark", *DAMPED])
def test_a_row_that_gives_and_is_relaxed_is_a_spring_with_a_damper(name):
    """`m x'' = -(g + tau g') / C dg/dx`, whose multiplier is that force; of a pendulum, so that `g` is not linear."""
    C, tau, T = 0.02, 0.05, 0.5
    rod = jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0, compliance=C, relaxation=tau)
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"m": jm.mass.UniformMass(("p", [1]), 1.0)},
        constraints={"nail": jm.constraint.Fixed(("p", [0])), "rod": rod},
        gravity=(0.0, -G),
    )
    start = system.at_rest({"p": [[0.0, 0.0], [1.3, 0.0]]})
    start = eqx.tree_at(lambda s: s.velocity["p"], start, jnp.array([[0.0, 0.0], [0.5, 3.0]]))

    def force(x, v):
        length = np.hypot(*x)
        return (length - 1 + tau * (x @ v) / length) / C

    def rate(t, y):
        x, v = y[:2], y[2:]
        return [*v, *(-force(x, v) * x / np.hypot(*x) - [0.0, G])]

    y = solve_ivp(rate, (0.0, T), [1.3, 0.0, 0.5, 3.0], method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    exact = np.array([*y, C * force(y[:2], y[2:])])
    integrator = getattr(jm.integrator, name)(jm.MatrixLinearSystem.build(system, start))

    @jax.jit
    def ended(n):
        """One program for both numbers of steps."""
        step = lambda _, at: integrator.step(system, *at, T / n, throw=False)[:2]  # noqa: E731
        return jax.lax.fori_loop(0, n, step, (start, integrator.init(system, start)))[0]

    errors = []
    for n in (160, 320):
        end = ended(jnp.asarray(n))
        found = [*end.position["p"][1], *end.velocity["p"][1], C * end.position["rod"][0, 0]]
        errors.append(np.linalg.norm(np.asarray(found) - exact))
    assert errors[1] < 0.002 and np.log2(errors[0] / errors[1]) > 2 - 0.15, errors


@pytest.mark.slow
def test_lines_planes_and_batches():
    """A bead on a rod and on a plane, many scenes at once: where they meet, and what the plane takes of the pull."""
    bead = jm.constraint.OnLine((("p", [0]), ("p", [1]), ("p", [2])))
    table = jm.constraint.OnPlane(("p", [0]), [0.0, 0.6, 0.8], [0.0, 0.0, 1.0])
    held = {"bead": bead, "table": table, "rod": jm.constraint.Fixed(("p", [1, 2]))}
    pull = jm.force.AnchoredSprings(("p", [0]), 3.0, [[0.5, 0.5, 0.5]])
    system = jm.System({"p": jm.Vec3()}, forces={"pull": pull}, constraints=held)
    start = system.at_rest({"p": [[0.4, 0.4, 0.4], [0.0, 0.0, 0.0], [1.0, 0.2, 0.9]]})

    def place(end):
        scene = eqx.tree_at(lambda s: s.constraints["table"].origin, system, end)
        found = jm.static_solve(scene, start)
        return found.position["p"][0], found.position["table"][0]

    heights = jnp.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.5], [0.0, 1.0, 0.2]])
    x, force = jax.jit(jax.vmap(place))(heights)
    d, n = np.array([1.0, 0.2, 0.9]), np.array([0.0, 0.6, 0.8])
    np.testing.assert_allclose(x, (heights @ n / (n @ d))[:, None] * d, atol=1e-10)
    # What springs, bead and table do to the point is nothing, by hand: along the rod only the table can balance.
    pull = 3.0 * (0.5 - np.asarray(x))
    np.testing.assert_allclose(pull @ d, np.asarray(force)[:, 0] * (n @ d), atol=1e-9)


def test_a_surface_that_bounds_no_cavity_is_refused():
    """Open ones had a volume that depends on where the origin is; one inside out has less than none."""
    skin = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0)).boundary()
    cells = np.asarray(skin.cells)
    one_turned = np.concatenate([cells[:1, ::-1], cells[1:]])
    for wrong, words in (
        (cells[2:], "is open"),
        (one_turned, "turned alike"),
        (cells[:, ::-1], "inside out: its volume is -2 "),
    ):
        with pytest.raises(ValueError, match=words):
            jm.constraint.CavityVolume.from_mesh("box", jm.mesh.Mesh(skin.points, wrong, "triangle"), 2.0)
    flat = jm.mesh.Mesh(np.asarray(skin.points)[:, :2], cells, "triangle")
    with pytest.raises(ValueError, match="points of space"):
        jm.constraint.CavityVolume.from_mesh("box", flat, 2.0)
    empty = np.asarray(skin.points) * [1.0, 1.0, 0.0] + 7.0  # a pouch before it is filled, and far away
    jm.constraint.CavityVolume.from_mesh("box", jm.mesh.Mesh(empty, cells, "triangle"), 2.0)


def test_what_constraints_do_not_take_is_refused():
    pair = (("b", [0]), ("b", [1]))
    cases = [
        ("frame_b must be", lambda: jm.constraint.BallJoint(pair, frame_b=[0.0] * 3)),
        ("unit length", lambda: jm.constraint.HingeJoint(pair, frame_b=[0.0] * 7)),
        ("expected 1 or 5", lambda: jm.constraint.HingeJoint(pair, compliance=[0.1, 0.2])),
        ("in parentheses of their own", lambda: jm.constraint.Attachment(("p", [0]), ("p", [1]))),
        ("axis must have a length", lambda: jm.constraint.frame([0.0] * 3, [0.0] * 3)),
        (
            "joins bodies",
            lambda: jm.System({"b": jm.Vec3()}, constraints={"j": jm.constraint.BallJoint(pair)}).at_rest(
                {"b": np.zeros((2, 3))}
            ),
        ),
        (
            "names both a state and a constraint",
            lambda: jm.System({"b": jm.Rigid3()}, constraints={"b": jm.constraint.BallJoint(pair)}),
        ),
        ("values .* and times", lambda: jm.constraint.Follow(jm.constraint.BallJoint(pair), [0.0], [0.0])),
        ("must name some of the states", lambda: jm.solver.SchurComplement(("x",)).init(_matrix(), {})),
        ("VelocityVerlet takes no constraints with multipliers", _explicit),
    ]
    for words, build in cases:
        with pytest.raises(ValueError, match=words):
            build()


def _hanging():
    system, start = chain(2)
    return system, start, jm.MatrixLinearSystem.build(system, start)


def _matrix():
    system, start, linear_system = _hanging()
    return linear_system.assemble(system, start)


def _explicit():
    system, start, _ = _hanging()
    jm.integrator.VelocityVerlet().init(system, start)


def test_joints_read_the_frames_that_they_are_given():
    """`frame`: its axis, opposite to z too, and its derivative."""
    for axis in ([1.0, 2.0, -3.0], [0.0, 0.0, 1.0], [0.0, 0.0, -1.0]):
        at = np.asarray(jm.constraint.frame([1.0, 2.0, 3.0], axis))
        np.testing.assert_allclose(np.linalg.norm(at[3:]), 1.0, rtol=1e-15)
        x, y, z, w = at[3:]
        np.testing.assert_allclose(
            [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
            np.asarray(axis) / np.linalg.norm(axis),
            atol=ROUND_OFF,
        )


@pytest.mark.slow
def test_cables_that_only_pull_reach_a_target_or_end_at_their_bounds():
    """A point on a spring, pulled by two cables of tensions in [0, 60] N: the conditions of Karush, Kuhn and Tucker."""
    scene = jm.System(
        {"p": jm.Vec2()},
        forces={
            "spring": jm.force.AnchoredSprings(("p", [0]), 100.0, [[0.0, 0.0]]),
            "cables": jm.force.CableTension(("p", [[0, 1], [0, 2]]), [0.0, 0.0]),
        },
        constraints={"pulleys": jm.constraint.Fixed(("p", [1, 2]))},
    )
    pulleys = np.array([[3.0, 0.0], [0.0, 4.0]])
    rest = scene.at_rest({"p": [[0.0, 0.0], *pulleys]})

    def place(tensions):
        pulled = eqx.tree_at(lambda s: s.forces["cables"].tension, scene, tensions)
        found = jm.static_solve(pulled, rest).position["p"][0]
        return found, found

    both = jax.jit(jax.jacfwd(place, has_aux=True))
    exact = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
    # Of each cable, how it ends: 1 pulls its most, -1 is slack.
    for target, bounds in (([0.3, 0.2], (0, 0)), ([1.0, 0.1], (1, 0)), ([-0.2, 0.3], (-1, 0))):
        goal, ends = np.array(target), np.array(bounds)
        miss, slopes = lambda t, goal=goal: np.asarray(both(t)[1]) - goal, lambda t: np.asarray(both(t)[0])
        found = scipy.optimize.least_squares(miss, [20.0, 20.0], slopes, (0.0, 60.0), **exact)
        np.testing.assert_allclose(found.x[ends != 0], np.where(ends[ends != 0] > 0, 60.0, 0.0), atol=1e-9)
        gradient = found.jac.T @ found.fun  # nil between the bounds; at them it points out
        np.testing.assert_allclose(gradient[ends == 0], 0.0, atol=1e-10)
        assert (gradient * ends)[ends != 0].max(initial=-1.0) < -1e-3
        assert ends.any() or np.abs(found.fun).max() < 1e-12
        away = pulleys - (goal + found.fun)
        pull = found.x @ (away / np.linalg.norm(away, axis=1, keepdims=True))
        np.testing.assert_allclose(pull, 100.0 * (goal + found.fun), atol=1e-9)


def closed_arm(joint):
    """Three links about one axis, which a joint closes: what its rows hold across the plane is rounding."""
    axis = np.array([-0.29, 0.93, 0.22]) / np.linalg.norm([-0.29, 0.93, 0.22])
    down = np.cross(axis, [1.0, 0.0, 0.0])
    along = np.cross(down, axis)
    arm = jm.mapping.ArticulatedMapping.tree("q", "bodies", [-1, 0, 1], [np.zeros(3), along, along], axis)
    start = {"q": jnp.asarray([[0.3], [-0.8], [1.0]])}
    bare = jm.System({"q": jm.Vec1(), "bodies": jm.Rigid3()}, mappings={"arm": arm})
    x, y, z, *turn = np.asarray(jm.kinematics(bare, bare.at_rest(start))["bodies"][2])
    tip = np.array([x, y, z]) + Rotation.from_quat(turn).apply(along)
    frames = jm.constraint.frame(tip, axis=axis), jm.constraint.frame(along, axis=axis)
    closed = jm.System(
        bare.dofs,
        mappings=bare.mappings,
        masses={"m": jm.mass.RigidMass(("bodies", [0, 1, 2]), 1.0, 0.1 * np.eye(3))},
        constraints={"tip": joint(("bodies", [2]), *frames)},
        gravity=tuple(9.81 * down),
    )
    return closed, closed.at_rest(start)


@pytest.mark.parametrize("joint", [jm.constraint.HingeJoint, jm.constraint.BallJoint])
def test_rows_across_the_plane_of_an_arm_count_for_nothing(joint):
    system, state = closed_arm(joint)
    A = jm.MatrixLinearSystem.build(system, state).assemble(system, state, jm.Factors(1.0, 0.0, 1e-4))
    b = {"q": jnp.asarray([[1.0], [-2.0], [0.5]]), "tip": jnp.zeros(state.position["tip"].shape).at[0, :2].set(1e-3)}
    solver = jm.solver.SchurComplement(("tip",), least_norm=True)
    found = A.layout.ravel(lx.linear_solve(A, b, solver).value)
    exact = np.linalg.lstsq(np.asarray(A.to_dense()), np.asarray(A.layout.ravel(b)), rcond=1e-12)[0]
    np.testing.assert_allclose(found, exact, rtol=1e-8, atol=1e-9 * np.abs(exact).max())
    undetermined = lx.linear_solve(A, b, dataclasses.replace(solver, least_norm=False), throw=False)
    assert undetermined.stats["reason"] == jm.RESULTS.singular


@pytest.mark.parametrize("joint", [jm.constraint.HingeJoint, jm.constraint.BallJoint])
def test_to_a_dense_factor_an_arm_that_a_joint_closes_is_singular(joint):
    """Rows across its plane were scaled to one: of a ball joint steps were a success, with multipliers of 1e16 N."""
    system, state = closed_arm(joint)
    scheme = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), jm.solver.Dense())
    info = scheme.step(system, state, None, 0.01, throw=False)[2]
    assert info.result == jm.RESULTS.singular
    with pytest.raises(jm.FailedComputation, match="tip"):
        scheme.step(system, state, None, 0.01)


@pytest.mark.parametrize(
    "solver",
    [jm.solver.Dense(), jm.solver.SchurComplement(("weld",)), jm.solver.SchurComplement(("weld",), least_norm=True)],
)
def test_angles_count_beside_distances_of_a_thousand_kilometres_in_single_precision(solver):
    """They are 1e-6 of the rows beside them, and were taken for rounding: singular, or a weld that turns, in a success."""
    L = 1e6  # [m]
    with jax.enable_x64(False):
        at = np.array([0.3, 0.2, -0.1], np.float32) * L
        rest = np.array([[*at, 0, 0, 0, 1], [*(3 * at), 0, 0, 0, 1]], np.float32)
        system = jm.System(
            {"b": jm.Rigid3()},
            forces={"a": jm.force.AnchoredFrames(("b", [0, 1]), anchor=rest, stiffness=L, angular_stiffness=L**3)},
            constraints={"weld": jm.constraint.FixedJoint((("b", [0]), ("b", [1])), *map(jm.constraint.frame, (at, -at)))},
        )
        state = system.at_rest({"b": jnp.asarray(rest)})
        A = jm.MatrixLinearSystem.build(system, state).assemble(system, state, jm.Factors(0.0, 0.0, 1.0))
        turned = jnp.zeros((2, 6)).at[0, 3:].set(L**3 * jnp.array([1.0, 2.0, 3.0]))  # [N m]
        b = {"b": turned, "weld": jnp.zeros_like(state.position["weld"])}
        found = jax.jit(lambda A, b: lx.linear_solve(A, b, solver, throw=False).value["b"])(A, b)
    np.testing.assert_allclose(found[0, 3:], found[1, 3:], rtol=SOLVE_GOAL["float32"], atol=0)
    assert np.abs(found[0, 3:]).min() > 0.1  # [rad]


@pytest.mark.slow
def test_an_arm_that_a_full_hinge_closes_keeps_its_energy():
    system, state = closed_arm(jm.constraint.HingeJoint)
    solver = jm.solver.SchurComplement(("tip",), least_norm=True)
    scheme = jm.integrator.EnergyMomentum(jm.MatrixLinearSystem.build(system, state), solver, newton=True)
    run = jm.simulate(system, state, scheme, 0.01, 100)
    off = jax.vmap(lambda s: jm.constraint.violations(system, s)["tip"])(run.state)
    energy = jax.vmap(lambda s: jm.integrator.energies(system, s).total)(run.state)
    assert np.abs(off).max() < HELD and np.ptp(run.position["q"]) > 1.0  # [rad]
    assert np.ptp(energy) < 1e-6  # [J], of 100 steps to the tolerance of Newton's method
