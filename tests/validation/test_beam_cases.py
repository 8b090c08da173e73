"""Beams against closed forms: roll-up, the elastica, Euler's column, Greenhill, free vibration."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

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


def test_each_axis_bends_and_shears_with_its_own_stiffness():
    """`F L^3 / (3 EI) + F L / GA` at the tip of one element: along y with `EI_z` and `GA_y`, along z with `EI_y` and
    `GA_z`; a torque about x turns it by `T L / GJ`."""
    length, rest = 2.0, line(1, 2.0)
    np.testing.assert_allclose(rest[:, 3:], [[0.0, 0.0, 0.0, 1.0]] * 2, atol=1e-15)  # axes of the world
    section = jm.force.Section(axial=1e3, shear=[5.0, 8.0], torsion=0.7, bending=[1.0, 3.0])
    scene = cantilever(rest, section, flat=False)
    state = scene.at_rest({"f": rest})
    terms = jm.Terms(mass=False, damping=False)
    K = jm.MatrixLinearSystem.build(scene, state, terms).assemble(scene, state).to_dense()
    moved = np.linalg.solve(np.asarray(K)[6:, 6:], [0.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    along_y = length**3 / (3 * 3.0) + length / 5.0
    along_z = length**3 / (3 * 1.0) + length / 8.0
    np.testing.assert_allclose(moved[1:4], [along_y, along_z, length / 0.7], rtol=1e-10)


@pytest.mark.slow
def test_roll_up_by_a_tip_moment():
    """C3: to one turn and to two; constant curvature is exact, whatever the number of elements."""
    elements, rest = 10, line(10)
    scene = cantilever(rest, torque=jm.force.ConstantTorque(("f", [elements]), [0.0, 0.0, 1.0]))
    start = scene.at_rest({"f": rest})
    linear_system = jm.MatrixLinearSystem.build(scene, start, jm.Terms(mass=False, damping=False))
    state = start
    for turn in (1.0, 2.0):
        moment = 2 * np.pi * turn
        loaded = eqx.tree_at(lambda s: s.forces["torque"].torque, scene, jnp.array([0.0, 0.0, moment]))
        state = jm.static_solve(loaded, state, linear_system, load_steps=16, atol=1e-9).state
        x, s = np.asarray(state.position["f"]), np.linspace(0, 1, elements + 1)
        circle = np.stack([np.sin(moment * s), 1 - np.cos(moment * s)], 1) / moment
        np.testing.assert_allclose(x[:, :2], circle, atol=1e-9)


@pytest.mark.slow
def test_newton_bends_a_thin_beam_in_load_steps_though_its_residual_grows():
    """`F L^2 / EI = 10`; K. E. Bisshopp, D. C. Drucker, Q. Appl. Math. 3 (1945) 272, doi:10.1090/qam/13360, have 0.8106."""
    rest = line(8)
    scene = cantilever(rest, **end_load([0.0, 10.0, 0.0], 8))
    start = scene.at_rest({"f": rest})
    linear_system = jm.MatrixLinearSystem.build(scene, start, jm.Terms(mass=False, damping=False))

    def bent(**options):
        return jm.static_solve(scene, start, linear_system, throw=False, **options)

    by_load, by_region, halved = (
        bent(load_steps=20),
        bent(method="trust_region"),
        bent(load_steps=20, line_search="residual"),
    )
    for found in (by_load, by_region):
        assert found.result == jm.RESULTS.successful
        np.testing.assert_allclose(found.position["f"][8, 1], 0.8106, rtol=2e-3)  # 8 chords in place of an arc
    history = np.asarray(by_load.info.residuals[0])
    assert history.max() > 100 * history[0]  # in steps that are good
    assert halved.result == jm.RESULTS.not_converged
    advice = jm.RESULTS[jm.RESULTS.not_converged]
    assert "not for thin beams" in advice and 'load steps or method="trust_region"' in advice


def wound(elements):
    """A rod equally stiff in all ways under a torque of the world at its end."""
    rest, torque = line(elements), np.array([0.6, 0.9, 1.1])
    twist = {"torque": jm.force.ConstantTorque(("f", [elements]), torque)}
    scene = cantilever(rest, eqx.tree_at(lambda s: s.torsion, SLENDER, jnp.ones(())), flat=False, **twist)
    return elements, rest, torque, scene


@pytest.mark.slow
def test_large_steps_under_a_torque_converge():
    """Without the tangent of the torque they took 14 iterations, 12, and the third did not end in 60."""
    elements, rest, torque, scene = wound(4)
    masses = {"frames": jm.mass.RigidMass(("f", range(elements + 1)), 0.1, 0.01 * np.eye(3))}
    scene = jm.System(scene.dofs, forces=scene.forces, masses=masses, constraints=scene.constraints)
    start = scene.at_rest({"f": rest})
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(scene, start), newton=True, rtol=1e-10)
    run = jm.simulate(scene, start, euler, 0.1, 5)
    assert int(jnp.max(run.info.iterations)) <= 12


@pytest.mark.slow
def test_a_step_that_twists_a_rod_by_radians_converges_and_has_derivatives():
    """By 5 rad in one step, all along it: a Krylov space of a few vectors does not hold the tangent of so many frames."""
    elements, rest, _, scene = wound(8)
    scene = eqx.tree_at(lambda s: s.forces["torque"].torque, scene, 5.0 * jnp.asarray(rest[-1, :3] - rest[0, :3]))
    masses = {"frames": jm.mass.RigidMass(("f", range(elements + 1)), 0.1, 0.001 * np.eye(3))}
    scene = jm.System(scene.dofs, forces=scene.forces, masses=masses, constraints=scene.constraints)
    start = scene.at_rest({"f": rest})
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(scene, start), newton=True, rtol=1e-11)

    def end(number):
        loaded = eqx.tree_at(lambda s: s.forces["torque"].torque, scene, number * scene.forces["torque"].torque)
        state, _, info = euler.step(loaded, start, None, 0.5, throw=False)
        return state.position["f"][-1, 3:].sum(), info

    both = jax.jit(lambda number: jax.jvp(end, (number,), (jnp.ones(()),), has_aux=True))
    _, slope, info = both(jnp.ones(()))
    assert info.result == jm.RESULTS.successful and info.iterations <= 8
    ends = [both(jnp.asarray(1.0 + e))[0] for e in (1e-5, -1e-5)]
    assert abs(slope) > 0.1
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-6)


@pytest.mark.slow
def test_a_torque_in_space_winds_a_rod_to_a_helix():
    """Curvature and twist of a rod equally stiff in all ways are `T / EI` in axes of the world: a turn of `s T / EI` at `s`.

    The torque has no energy, and a tangent that is not symmetric: without that Newton's method did not get there.
    """
    elements, rest, torque, scene = wound(4)
    start = scene.at_rest({"f": rest})
    linear_system = jm.MatrixLinearSystem.build(scene, start, jm.Terms(mass=False, damping=False))
    solution = jm.static_solve(scene, start, linear_system, rtol=1e-11)
    turns = Rotation.from_rotvec(np.linspace(0, 1, elements + 1)[:, None] * torque)
    found = Rotation.from_quat(np.asarray(solution.position["f"][:, 3:])) * Rotation.from_quat(rest[0, 3:]).inv()
    np.testing.assert_allclose((turns.inv() * found).magnitude(), 0.0, atol=1e-12)
    along = Rotation.from_rotvec(np.linspace(0, 1, 2001)[:, None] * torque).apply([1.0, 0.0, 0.0])
    # The rod's shear and stretch are of 1e-4 of its bending; the trapezoidal rule is right to 1e-7.
    np.testing.assert_allclose(solution.position["f"][-1, :3], np.trapezoid(along, dx=1 / 2000, axis=0), atol=1e-6)
    assert solution.info.iterations < 15


@pytest.mark.slow
def test_elastica_under_an_end_force():
    """C1: Mattiasson's table, 10 elements, EA so large that it does not count."""
    rest = line(10)
    for alpha, down, back in ((1.0, 0.301721, 0.056433), (3.0, 0.603253, 0.254420)):
        scene = cantilever(rest, **end_load([0.0, alpha, 0.0], 10))
        tip = np.asarray(jm.static_solve(scene, scene.at_rest({"f": rest}), load_steps=2).position["f"][-1])
        np.testing.assert_allclose([tip[1], 1 - tip[0]], [down, back], rtol=5e-3)


@pytest.mark.exhaustive
def test_euler_column():
    """`pi^2 EI / (4 L^2)`: 8 elements are exact to 0.5 %; the exact shear of slender beams makes it that good."""
    rest = line(8)

    def pressed(mu):
        return cantilever(rest, load=jm.force.ConstantForce(("f", [8]), mu * jnp.array([-1.0, 0.0, 0.0])))

    found = jm.buckling(pressed, pressed(jnp.zeros(())).at_rest({"f": rest}), count=1)
    np.testing.assert_allclose(found.factors[0], np.pi**2 / 4, rtol=5e-3)


def twisted_beam(elements):
    """A beam clamped at one end; the other may slide along the axis, and is turned about it."""
    rest = line(elements)
    scene = cantilever(rest, flat=False)
    slide = jm.constraint.FixedComponents(("f", [elements]), (False, True, True, True, True, True))
    scene = jm.System(scene.dofs, forces=scene.forces, constraints={**scene.constraints, "end": slide})

    def at(angle):
        turn = Rotation.from_rotvec(np.outer(np.linspace(0, angle, elements + 1), [1.0, 0.0, 0.0])).as_quat()
        return {"f": jnp.concatenate([rest[:, :3], jnp.asarray(turn)], axis=1)}

    return scene, at


def twisted_rod(elements):
    """The same of points and angles; a short first and last edge are what a clamp holds."""
    short = 1e-3 / elements
    along = np.concatenate([[-short], np.linspace(0, 1, elements + 1), [1 + short]])
    points, last = np.outer(along, [1.0, 0.0, 0.0]), elements + 2
    scene = jm.System(
        {"x": jm.Vec3(), "angle": jm.Vec1()},
        forces={"rod": jm.force.ElasticRod.chain("x", "angle", points, SLENDER)},
        constraints={
            "clamp": jm.constraint.Fixed(("x", [0, 1])),
            "slide": jm.constraint.FixedLine(("x", [last - 1, last]), (1.0, 0.0, 0.0)),
            "turn": jm.constraint.Fixed(("angle", [0, last - 1])),
        },
    )

    def at(angle):
        middles = np.clip((along[1:] + along[:-1]) / 2, 0, 1)
        return {"x": points, "angle": angle * middles[:, None]}

    return scene, at


@pytest.mark.exhaustive
@pytest.mark.parametrize(("make", "elements"), [(twisted_beam, 20), (twisted_rod, 32)])
def test_greenhill(make, elements):
    """A clamped rod leaves its axis at a torque of 8.9868 EI / L: where its stiffness becomes singular."""
    scene, at = make(elements)
    linear_system = jm.MatrixLinearSystem.build(scene, scene.at_rest(at(0.0)), jm.Terms(mass=False, damping=False))

    @eqx.filter_jit
    def matrix(position):
        return linear_system.assemble(scene, scene.at_rest(position)).to_dense()

    def stable(torque):
        return np.linalg.eigvalsh(np.asarray(matrix(at(torque / 0.7))))[0] > 0

    low, high = 8.0, 10.0
    assert stable(low) and not stable(high)
    for _ in range(6):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if stable(middle) else (low, middle)
    np.testing.assert_allclose(0.5 * (low + high), 8.9868, rtol=1e-2)


@pytest.mark.slow
def test_elements_do_not_feel_rigid_motions(rng):
    """Beams, rods, membranes, hinges and shells: energy and torque of a state, and of the same state moved at random."""
    dof, turn = jm.Rigid3(), Rotation.from_rotvec([2.0, -1.5, 1.0])
    shift = np.array([3.0, -1.0, 2.0])
    sheet = jm.mesh.Mesh([[0.0, 0, 0], [1, 0, 0.1], [0.2, 1, 0], [1, 1, 0.3]], [[0, 1, 2], [1, 3, 2]], "triangle")
    points = np.asarray(sheet.points)
    rest = jm.mesh.frames_along(points[[0, 1, 3, 2]])
    system = jm.System(
        {"f": jm.Rigid3(), "x": jm.Vec3(), "angle": jm.Vec1(), "s": jm.Rigid3()},
        forces={
            "beam": jm.force.Beam(("f", [[0, 1], [1, 2], [2, 3]]), rest, SLENDER),
            "rod": jm.force.ElasticRod.chain("x", "angle", points[[0, 1, 3]], SLENDER),
            "skin": jm.force.Membrane.from_mesh("x", sheet, jm.material.StVenantKirchhoff(100.0, 0.3)),
            "hinge": jm.force.HingeBending.from_mesh("x", sheet, 3.0),
            "flat hinge": jm.force.HingeBending.from_mesh("x", sheet, 3.0, model="quadratic"),
            "shell": jm.force.Shell.from_mesh("s", sheet, 100.0, 0.3, 0.2),
        },
    )
    upright = np.concatenate([points, np.tile([0.0, 0.0, 0.0, 1.0], (4, 1))], 1)
    start = {"f": rest, "x": points, "s": jnp.asarray(upright)}
    one = {s: jax.vmap(dof.retract)(x, jnp.asarray(rng.uniform(-0.3, 0.3, (4, 6)))) for s, x in start.items() if s != "x"}
    one |= {"x": points + rng.uniform(-0.2, 0.2, (4, 3)), "angle": np.array([[0.3], [-0.4]])}

    def moved(frames):
        q = (turn * Rotation.from_quat(np.array(frames[:, 3:]))).as_quat()
        return np.concatenate([turn.apply(np.array(frames[:, :3])) + shift, q], 1)

    other = {"f": moved(one["f"]), "s": moved(one["s"]), "x": turn.apply(np.array(one["x"])) + shift, "angle": one["angle"]}
    # The axes that a rod remembers are of the material, and turn as it does.
    axes = jax.tree.map(lambda a: a if a.ndim < 3 else jnp.asarray(a @ turn.as_matrix().T), system.at_rest(one).internal)

    @eqx.filter_jit
    def both(system, state):
        return jm.energy(system, state), jm.total_force(system, state)

    (E, f), (E2, f2) = both(system, system.at_rest(one)), both(system, replace(system.at_rest(other), internal=axes))
    np.testing.assert_allclose(E, E2, rtol=1e-12)
    for s in ("f", "s"):
        turned = np.concatenate([turn.apply(np.array(f[s])[:, k : k + 3]) for k in (0, 3)], 1)
        np.testing.assert_allclose(f2[s], turned, atol=1e-9 * np.abs(turned).max())


@pytest.mark.slow
def test_stretched_string_and_free_beam():
    """C17 to rounding; and the first bending frequency of a free beam, `4.7300^2 sqrt(EI / (m L^4))`."""
    places = np.stack([np.linspace(0, 1, 11), np.zeros(11)], 1)
    pairs = np.stack([np.arange(10), np.arange(1, 11)], 1)
    string = jm.System(
        {"p": jm.Vec2()},
        forces={"string": jm.force.Bar(("p", pairs), places, axial=1e6, tension=100.0)},
        masses={"beads": jm.mass.UniformMass(("p", range(11)), 0.01)},
        constraints={"ends": jm.constraint.Fixed(("p", [0, 10]))},
    )
    found = jm.modes(string, string.at_rest({"p": places}), count=3)
    np.testing.assert_allclose(found.frequencies, [98.93784282, 195.43950758, 287.12880305], rtol=1e-8)

    n, rest = 20, line(20)
    share = np.full(n + 1, 1.0 / n)
    share[[0, -1]] /= 2
    scene = jm.System(
        {"f": jm.Rigid3()},
        forces={"beam": jm.force.Beam(("f", np.stack([np.arange(n), np.arange(1, n + 1)], 1)), rest, SLENDER)},
        masses={"m": jm.mass.RigidMass(("f", range(n + 1)), share, share[:, None, None] * 1e-5 * np.eye(3))},
    )
    found = np.asarray(jm.modes(scene, scene.at_rest({"f": rest}), count=8).frequencies)
    assert np.abs(found[:6]).max() < 1e-2
    np.testing.assert_allclose(found[6:], 4.730041**2, rtol=1e-2)
