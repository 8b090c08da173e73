"""Beams in space far from where they were, against the differential equations of a rod, integrated by shooting.

The equations are Reissner's and Simo's: `r' = R (e + C^-1 R^T n)`, `R' = R [k + D^-1 R^T m]`, `m' = -r' x n`, with a force
`n` that is the same all along. Cases: K.-J. Bathe, S. Bolourchi, Int. J. Numer. Methods Eng. 14 (1979) 961,
doi:10.1002/nme.1620140703 (bend; numbers of J. C. Simo, L. Vu-Quoc, Comput. Methods Appl. Mech. Eng. 58 (1986) 79,
doi:10.1016/0045-7825(86)90079-4); E. H. Dowell, J. J. Traybar, Princeton AMS reports 1194 and 1257, 1975 (a bar under an
inclined load); F. W. Williams, Q. J. Mech. Appl. Math. 17 (1964) 451, doi:10.1093/qjmam/17.4.451 (toggle); S. P. Timoshenko,
*Strength of Materials*, part 2, 3rd ed., 1956 (ring). At the end lines of points and angles, `ElasticRod`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import fsolve
from scipy.spatial.transform import Rotation

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
PUBLISHED = 1e-2  # of 8 straight elements, of the length
SHOT = 1e-3  # what our few elements leave, of the length
CONSERVED = 1e-10  # of the energy, where a scheme promises it
ORDER = 0.1  # how far from theory a measured order may be


def shot(section, frame, curvature, length, force, moment):
    """Place, rotation and moment at the end of a rod that begins at a frame; `curvature`: of rest, in its own axes."""
    C = np.array([float(section.axial), *np.asarray(section.shear)])
    D = np.array([float(section.torsion), *np.asarray(section.bending)])
    R0 = Rotation.from_quat(frame[3:]).as_matrix()

    def slopes(s, y):
        R, m = y[3:12].reshape(3, 3), y[12:]
        along = R @ (np.array([1.0, 0.0, 0.0]) + R.T @ force / C)
        return np.concatenate([along, np.cross(R, R.T @ m / D + curvature).ravel(), -np.cross(along, force)])

    start = np.concatenate([frame[:3], R0.ravel(), moment])
    return solve_ivp(slopes, (0, length), start, method="DOP853", rtol=1e-7, atol=1e-8).y[:, -1]


def solved(equations, guess):
    found, _, flag, message = fsolve(equations, guess, full_output=True, xtol=1e-9)
    assert flag == 1 or np.abs(equations(found)).max() < 1e-6, message
    return found


def free_ends(section, frame, curvature, length, forces):
    """The places of the end that dead forces pull, each found from the one before."""
    unit, moment, places = float(np.max(section.bending)) / length, np.zeros(3), []
    for force in np.asarray(forces):
        moment = solved(lambda m, n=force: shot(section, frame, curvature, length, n, m)[12:] / unit, moment)
        places.append(shot(section, frame, curvature, length, force, moment)[:3])
    return places


def clamped(rest, section, constraints=None, **forces):
    """Beams along a line of frames, the first of them held."""
    pairs = np.stack([np.arange(len(rest) - 1), np.arange(1, len(rest))], 1)
    held = {"clamp": jm.constraint.Fixed(("f", [0])), **(constraints or {})}
    beam = jm.force.Beam(("f", pairs), rest, section)
    return jm.System({"f": jm.Rigid3()}, forces={"beam": beam, **forces}, constraints=held)


def pulled(rest, section, force, load_steps, constraints=None):
    """Where the last frame goes under a force."""
    load = jm.force.ConstantForce(("f", [len(rest) - 1]), np.asarray(force, float))
    scene = clamped(rest, section, constraints, load=load)
    end = jm.static_solve(scene, scene.at_rest({"f": rest}), load_steps=load_steps)
    return np.asarray(end.position["f"])[-1]


@pytest.mark.slow
def test_bend_of_45_degrees():
    """Three loads: the tip of the differential equations, and what Simo and Vu-Quoc published of 8 straight elements."""
    angle = np.linspace(0, np.pi / 4, 9)
    rest = jm.mesh.frames_along(100 * np.stack([np.sin(angle), 1 - np.cos(angle), 0 * angle], 1), normal=[0.0, 0.0, 1.0])
    section = jm.force.Section(axial=1e7, shear=[5e6, 5e6], torsion=5e6 / 6, bending=[1e7 / 12, 1e7 / 12])
    first = np.asarray(rest[0])
    curvature = Rotation.from_quat(first[3:]).as_matrix().T @ [0.0, 0.0, 0.01]
    length = 25 * np.pi
    loads = np.array([300.0, 450.0, 600.0])
    places = free_ends(section, first, curvature, length, loads[:, None] * [0.0, 0.0, 1.0])
    numbers = [58.84, 22.33, 40.08], [52.32, 18.62, 48.39], [47.23, 15.79, 53.37]
    for load, exact, published in zip(loads, places, numbers, strict=True):
        tip = pulled(rest, section, [0.0, 0.0, load], 12)[:3]
        np.testing.assert_allclose(tip, exact, atol=SHOT * length)
        np.testing.assert_allclose(tip, published, atol=PUBLISHED * length)


@pytest.mark.slow
def test_a_bar_whose_load_is_inclined():
    """Princeton's of aluminium, 508 by 12.4 by 3.2 mm: it bends about both axes and so twists, under one to three pounds."""
    length, section = 0.508, jm.force.Section.rectangle(12.377e-3, 3.2024e-3, 71.7e9, 0.31)
    rest = jm.mesh.frames_along(np.linspace([0.0, 0.0, 0.0], [length, 0.0, 0.0], 11))
    first = np.asarray(rest[0])
    angles, pounds = np.radians([45.0, 45.0, 30.0, 60.0, 90.0]), np.array([1.0, 2.0, 3.0, 3.0, 3.0])
    forces = 4.448 * pounds[:, None] * np.stack([0 * angles, np.cos(angles), -np.sin(angles)], 1)
    for force, exact in zip(forces, free_ends(section, first, np.zeros(3), length, forces), strict=True):
        np.testing.assert_allclose(pulled(rest, section, force, 10)[:3], exact, atol=0.1 * SHOT * length)


@pytest.mark.slow
def test_a_coil_pulled_out():
    """Two turns, pulled along their axis at the free end to more than twice their height."""
    turns, per_turn, rise = 2, 16, 0.5 / (2 * np.pi)
    angle = np.linspace(0, 2 * np.pi * turns, per_turn * turns + 1)
    rest = jm.mesh.frames_along(np.stack([np.cos(angle), np.sin(angle), rise * angle], 1))
    section = jm.force.Section.circle(0.05, 1e6, 0.3)
    size = np.sqrt(1 + rise**2)
    tangent, normal = np.array([0.0, 1.0, rise]) / size, np.array([-1.0, 0.0, 0.0])
    turn = Rotation.from_matrix(np.stack([tangent, normal, np.cross(tangent, normal)], 1)).as_quat()
    first = np.concatenate([[1.0, 0.0, 0.0], turn])
    forces = np.outer([0.1, 0.2, 0.3], [0.0, 0.0, 1.0])
    exact = free_ends(section, first, np.array([rise, 0.0, 1.0]) / size**2, size * angle[-1], forces)[-1]
    tip = pulled(rest, section, forces[-1], 10)[:3]
    assert exact[2] > 2 * float(rest[-1, 2])
    np.testing.assert_allclose(tip, exact, atol=SHOT * size * angle[-1])


@pytest.mark.slow
def test_a_ring_pulled_apart():
    """A quarter of it: `F R^3/EI (pi/4 - 2/pi)` of small forces, the differential equation of large ones."""
    n = 10
    angle = np.linspace(0, np.pi / 2, n + 1)
    rest = jm.mesh.frames_along(np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1), normal=[0.0, 0.0, 1.0])
    section = jm.force.Section(axial=1e6, shear=[1e6, 1e6], torsion=1.0, bending=[1.0, 1.0])
    first = np.asarray(rest[0])
    R0 = Rotation.from_quat(first[3:]).as_matrix()
    curvature = R0.T @ [0.0, 0.0, 1.0]
    guide = {"top": jm.constraint.FixedComponents(("f", [n]), (False, False, True, True, True, True))}
    small = pulled(rest, section, [0.0, 0.5e-3, 0.0], 1, guide)
    np.testing.assert_allclose(2 * (small[1] - 1), 1e-3 * (np.pi / 4 - 2 / np.pi), rtol=5e-3)
    for pulls in ((-1.0, -2.0), (1.5, 3.0, 4.0)):
        moment = [0.0]
        for pull in pulls:
            force = np.array([0.0, pull / 2, 0.0])

            def turned(m, force=force):  # the section at the top, whose tangent stays along -x
                y = shot(section, first, curvature, np.pi / 2, force, np.array([0.0, 0.0, m[0]]))
                return [np.arctan2(y[6], -y[3])]

            moment = solved(turned, moment)
        exact = shot(section, first, curvature, np.pi / 2, force, np.array([0.0, 0.0, moment[0]]))[:2]
        np.testing.assert_allclose(pulled(rest, section, force, 6, guide)[:2], exact, atol=SHOT * np.pi / 2)


@pytest.mark.slow
def test_a_toggle_snaps():
    """Williams' of two bars, clamped, of which he measured and computed a limit near 34 pounds."""
    length, rise, n = 12.943, 0.386, 8
    section = jm.force.Section(axial=1.885e6, shear=[7e5, 7e5], torsion=7e3, bending=[9.27e3, 9.27e3])
    top = np.array([np.sqrt(length**2 - rise**2), rise, 0.0])
    rest = jm.mesh.frames_along(np.linspace(np.zeros(3), top, n + 1), normal=[0.0, 0.0, 1.0])
    first, last = np.asarray(rest[0]), np.asarray(rest[-1:])
    turn = Rotation.from_quat(first[3:]).as_matrix()
    downs, loads, unknowns = np.arange(1, 11) * 0.06, [], np.zeros(3)

    def lowered(down):
        moves = {"top": jm.constraint.PrescribedMotion(("f", [n]), last, [[0.0, -down, 0.0, 0.0, 0.0, 0.0]])}
        return clamped(rest, section, moves)

    state = lowered(0.0).at_rest({"f": rest})
    linear_system = jm.MatrixLinearSystem.build(lowered(0.0), state, jm.Terms(mass=False, damping=False))
    for down in downs:
        state = jm.static_solve(lowered(down), state, linear_system).state
        loads.append(-2 * float(jm.reactions(lowered(down), state)["f"][n, 1]))
        if len(loads) % 3 != 1:
            continue

        def ends(u, down=down):  # of force along x and y [100 lbf], moment at the clamp
            y = shot(section, first, np.zeros(3), length, [100 * u[0], 100 * u[1], 0.0], np.array([0.0, 0.0, 100 * u[2]]))
            tilt = turn.T @ y[3:12].reshape(3, 3)[:, 0]
            return [y[0] - top[0], y[1] - (rise - down), tilt[1] + tilt[2]]

        unknowns = solved(ends, unknowns)
        np.testing.assert_allclose(loads[-1], -200 * unknowns[1], atol=2e-3 * 34)
    np.testing.assert_allclose(max(loads[:6]), 34.0, rtol=0.02)
    assert loads[6] < max(loads[:6]) < loads[-1]  # back a little, and then it stretches


@pytest.mark.slow
def test_a_rod_whose_end_is_turned_about_itself_and_pulled():
    """The angle of the last edge takes a moment about it, wherever it points: no potential has that."""
    n, torque, force = 24, 0.8, np.array([0.0, 0.5, 1.0])
    section = jm.force.Section(axial=1e4, shear=[1e4, 1e4], torsion=1.0, bending=[1.0, 2.0])
    along = np.concatenate([[-1e-4], np.linspace(0.0, 1.0, n + 1), [1.0 + 1e-4]])  # short edges: clamped, turned
    points = np.outer(along, [1.0, 0.0, 0.0])
    scene = jm.System(
        {"x": jm.Vec3(), "angle": jm.Vec1()},
        forces={
            "rod": jm.force.ElasticRod.chain("x", "angle", points, section, normal=[0.0, 1.0, 0.0]),
            "torque": jm.force.ConstantForce(("angle", [n + 1]), [torque]),
            "pull": jm.force.ConstantForce(("x", [n + 1]), force),
        },
        constraints={"clamp": jm.constraint.Fixed(("x", [0, 1])), "turned": jm.constraint.Fixed(("angle", [0]))},
    )
    start = scene.at_rest({"x": points, "angle": np.zeros((n + 2, 1))})
    once, by_steps = (jm.static_solve(scene, start, load_steps=steps) for steps in (1, 6))
    np.testing.assert_allclose(once.position["x"], by_steps.position["x"], atol=1e-6)
    assert once.info.iterations <= 10  # by the tangent without the moment 18

    frame = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])

    def end(moment):
        return shot(section, frame, np.zeros(3), 1.0, force, moment)

    moment = solved(lambda m: end(m)[12:] - torque * end(m)[3:12].reshape(3, 3)[:, 0], np.array([torque, -1.0, 0.5]))
    np.testing.assert_allclose(once.position["x"][n + 1], end(moment)[:3], atol=SHOT)


def twisted_points():
    """Two edges of points that are bent, twisted and in motion, the first of them clamped: the other is free to turn."""
    points = np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [1.0, 0.1, -0.05]])
    section = jm.force.Section(axial=30.0, shear=[1.0, 1.0], torsion=2.0, bending=[1.0, 3.0])
    scene = jm.System(
        {"x": jm.Vec3(), "angle": jm.Vec1()},
        forces={"rod": jm.force.ElasticRod.chain("x", "angle", points, section)},
        masses={"x": jm.mass.UniformMass(("x", range(3)), 1.0), "angle": jm.mass.UniformMass(("angle", range(2)), 0.1)},
        constraints={"clamp": jm.constraint.Fixed(("x", [0, 1])), "turned": jm.constraint.Fixed(("angle", [0]))},
    )
    start = scene.at_rest({"x": points + [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.1, 0.1]], "angle": [[0.0], [0.4]]})
    velocity = {"x": jnp.zeros((3, 3)).at[2].set(jnp.array([0.1, 1.0, -0.8])), "angle": jnp.array([[0.0], [1.5]])}
    return scene, eqx.tree_at(lambda s: s.velocity, start, velocity)


def test_forces_and_moments_of_a_rod_balance():
    """Also where its edges are not along the axes that it remembers: of energies that know no rigid motion."""
    scene, state = twisted_points()
    x = state.position["x"] + jnp.array([[0.0, 0.1, 0.0], [0.1, 0.0, 0.2], [-0.2, 0.2, 0.3]])
    f = jm.total_force(scene, eqx.tree_at(lambda s: s.position["x"], state, x))
    edges = x[1:] - x[:-1]
    moments = f["angle"] * edges / jnp.linalg.norm(edges, axis=1, keepdims=True)
    assert jnp.abs(moments).max() > 0.1
    np.testing.assert_allclose(jnp.sum(f["x"], axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(jnp.sum(jnp.cross(x, f["x"]), axis=0) + moments.sum(0), 0.0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RK4", "VelocityVerlet", "Newmark", "BDF", "EnergyMomentum"])
def test_time_steps_of_a_rod_are_of_second_order(name):
    """An edge that moves, and a moment about it that only inertia balances."""
    scene, start = twisted_points()
    kind = getattr(jm.integrator, name)
    implicit = name in ("Newmark", "BDF", "EnergyMomentum")
    scheme = kind(jm.MatrixLinearSystem.build(scene, start)) if implicit else kind()

    def end(steps):
        last = jm.simulate(scene, start, scheme, 0.4 / steps, steps, save_every=steps).last
        return np.concatenate([np.ravel(a) for a in (*last.position.values(), *last.velocity.values())])

    first, second, third = (end(n) for n in (256, 512, 1024))
    order = np.log2(np.linalg.norm(first - second) / np.linalg.norm(second - third))
    np.testing.assert_allclose(order, 2.0, atol=ORDER)


@pytest.mark.slow
def test_a_rod_keeps_its_energy():
    """By the scheme that keeps it; its axes take no part, which a step leaves where it found them."""
    scene, start = twisted_points()
    scheme = jm.integrator.EnergyMomentum(jm.MatrixLinearSystem.build(scene, start), newton=True, rtol=1e-12)
    run = jm.simulate(scene, start, scheme, 0.01, 100, save_every=20)
    energies = [jm.integrator.energies(scene, jax.tree.map(lambda a, i=i: a[i], run.state)) for i in range(6)]
    total = [e.total for e in energies]
    assert np.ptp([e.kinetic for e in energies]) > 0.1
    np.testing.assert_allclose(total, total[0], rtol=CONSERVED)
