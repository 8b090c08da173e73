"""Constraints with multipliers: pendulums and beams with a closed form or another formulation, derivatives, refusals."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from scipy.integrate import solve_ivp
from tolerances import CONVERGED, FINITE_DIFFERENCE, ITERATIVE, ROUND_OFF, TWO_MODES

import jaxmech as jm

G = 9.81
GLUED = 1e-8  # relative to the deflection: two Newton solutions, each converged to less


def pendulum(length=1.0, mass=2.0, compliance=0.0):
    """A mass on a rod from the origin."""
    rod = jm.constraint.Distance((("p", [0]), ("p", [1])), ("tension", [0]), length, compliance)
    return jm.System(
        {"p": jm.Vec2(), "tension": jm.Vec1()},
        forces={"wind": jm.force.ConstantForce(("p", [1]), [3.0, 0.0])},
        masses={"bob": jm.mass.UniformMass(("p", [1]), mass)},
        constraints={"rod": rod, "nail": jm.constraint.Fixed(("p", [0]))},
        gravity=(0.0, -G),
    )


def test_a_scene_has_another_of_other_components():
    """By `dataclasses.replace`, which was a `TypeError`; the states of multipliers are those of the constraints it has."""
    rod = jm.constraint.Distance((("p", [0]), ("p", [1])), None, 1.0)  # whose multipliers stand in a state of its name
    springs = jm.force.Springs((("p", [0]), ("p", [1])), 3.0, 1.0)
    scene = jm.System({"p": jm.Vec2()}, forces={"s": springs}, constraints={"rod": rod}, rayleigh={"s": 0.1})
    assert eqx.tree_equal(dataclasses.replace(scene), scene)
    free = dataclasses.replace(scene, constraints={"nail": jm.constraint.Fixed(("p", [0]))})
    assert not free.multiplier_states and list(free.dofs) == ["p"]
    assert dataclasses.replace(free, constraints={"bar": rod}).multiplier_states == ("bar",)
    with pytest.raises(ValueError, match=r"rayleigh\['nothing'\] must name one"):
        dataclasses.replace(scene, rayleigh={"nothing": 1.0})


def test_a_scene_whose_multipliers_nothing_names_is_built_in_a_trace():
    """Under `jit`, in a load path, in a fit: Equinox calls what a tracer has not."""

    def off(length):
        rod = jm.constraint.Distance((("p", [0]), ("p", [1])), None, length)
        scene = jm.System({"p": jm.Vec2()}, constraints={"rod": rod})
        return jm.constraint.violations(scene, scene.at_rest({"p": [[0.0, 0.0], [3.0, 4.0]]}))["rod"][0, 0]

    value, slope = jax.jit(jax.value_and_grad(off))(2.0)
    np.testing.assert_allclose([value, slope], [3.0, -1.0])


def inclined(angle, tension=1.0):
    return {"p": [[0.0, 0.0], [np.sin(angle), -np.cos(angle)]], "tension": [[tension]]}


def swing(rate, angle, times):
    """`a'' = -rate sin a` from rest: angles and their rates."""
    found = solve_ivp(lambda _, y: [y[1], -rate * np.sin(y[0])], (0, times[-1]), [angle, 0.0], "DOP853", times, rtol=1e-12)
    return found.y


@pytest.fixture(scope="module")
def swings():
    """`(newton, h)` -> the trajectory over half a second of a pendulum without wind."""
    system = eqx.tree_at(lambda s: s.forces["wind"].force, pendulum(), jnp.zeros(2))
    rest = system.at_rest(inclined(0.9, 0.0))
    linear_system = jm.MatrixLinearSystem.build(system, rest)

    def run(newton, h):
        return jm.simulate(system, rest, jm.ImplicitEuler(linear_system, newton=newton), dt=h, steps=round(0.5 / h)).state

    return {(newton, h): run(newton, h) for newton in (False, True) for h in (0.005, 0.0025)}


@pytest.mark.slow
@pytest.mark.parametrize("newton", [False, True])
def test_a_rod_swings_as_an_angle_does(swings, newton):
    """The positions, and the tension `m (g cos a + L a'^2)`, of the equation of the angle: first order in the time step."""
    errors, off = [], []
    for h in (0.005, 0.0025):
        state = swings[newton, h]
        x, tension = np.asarray(state.position["p"][1:, 1]), np.asarray(state.position["tension"][1:, 0, 0])
        angle, rate = swing(G, 0.9, h * np.arange(len(x) + 1))[:, 1:]
        error = np.abs(x - np.stack([np.sin(angle), -np.cos(angle)], -1)).max()
        errors.append((error, np.abs(tension - 2.0 * (G * np.cos(angle) + rate**2)).max()))
        off.append(np.abs(np.linalg.norm(x, axis=1) - 1.0).max())
    ratios = np.log2(np.array(errors[0]) / errors[1])
    assert np.all(np.abs(ratios - 1.0) < 0.1), ratios
    if newton:
        assert max(off) < 1e-11  # of 1 m, by the criterion of Newton's iterations
    else:  # each step is off by the curvature of its own path, (h a' L)^2 / 2, and does not add to the step before
        assert max(off) < 1.1 * 0.5 * (0.005 * 3.0) ** 2 and abs(np.log2(off[0] / off[1]) - 2.0) < 0.1


@pytest.mark.slow
def test_a_rod_swings_in_single_precision():
    """Steps that are converged: what an equation may be off by was less than rounding, and every fourth step ended as not
    converged. Angles as of the equation of the angle, to the error of the step."""
    system = eqx.tree_at(lambda s: s.forces["wind"].force, pendulum(0.3), jnp.zeros(2))
    single = lambda tree: jax.tree.map(lambda a: a.astype(np.float32) if eqx.is_inexact_array(a) else a, tree)  # noqa: E731
    position = {n: np.asarray(a) * (0.3 if n == "p" else 1.0) for n, a in inclined(0.9, 0.0).items()}
    system, rest = single(system), single(system.at_rest(position))
    midpoint = jm.integrator.Midpoint(jm.MatrixLinearSystem.build(system, rest), newton=True)
    run = jm.simulate(system, rest, midpoint, dt=np.float32(0.0025), steps=60, throw=False)
    assert np.all(run.info.result == jm.RESULTS.successful)
    x = np.asarray(run.state.position["p"][:, 1])
    assert x.dtype == np.float32 and np.abs(np.linalg.norm(x, axis=1) - 0.3).max() < 3e-7
    angle = swing(G / 0.3, 0.9, 0.0025 * np.arange(61))[0]
    np.testing.assert_allclose(np.arctan2(x[:, 0], -x[:, 1]), angle, atol=1e-4)


def test_the_tension_of_a_rod_at_rest_is_that_of_the_load():
    """Along the load `(3, -2 g)`, in equilibrium; the multiplier is its magnitude, a compliance gives way by `C lambda`."""
    for compliance in (0.0, 1e-3):
        system = pendulum(compliance=compliance)
        found = jm.static_solve(system, system.at_rest(inclined(0.1, 10.0)))
        load = np.array([3.0, -2.0 * G])
        pull = np.linalg.norm(load)
        np.testing.assert_allclose(found.position["tension"], [[pull]], rtol=ITERATIVE)
        np.testing.assert_allclose(found.position["p"][1], (1.0 + compliance * pull) * load / pull, rtol=ITERATIVE)
        again = jm.static_solve(system, found.state)  # from the solution, where all that is left is rounding
        np.testing.assert_allclose(again.position["p"], found.position["p"], rtol=ITERATIVE)


@pytest.mark.slow
def test_large_forces_excuse_no_violation():
    """Newton's method goes on while an equation is off by more than the rounding of positions, whatever the forces."""
    system = pendulum()
    pull = jm.force.AnchoredSprings(("p", [1]), 1e9, [[0.0, -2.0]])
    system = jm.System(
        system.dofs, forces={**system.forces, "pull": pull}, masses=system.masses, constraints=system.constraints
    )
    found = jm.static_solve(system, system.at_rest(inclined(0.3, 10.0)), rtol=1e-2)
    np.testing.assert_allclose(np.linalg.norm(found.position["p"][1]), 1.0, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("newton", [False, True])
def test_derivatives(newton):
    """Forward, reverse, and central differences, of linearised steps and an equilibrium, or of steps by Newton's method."""
    system = pendulum()
    rest = system.at_rest(inclined(0.12, 20.0))
    linear_system = jm.MatrixLinearSystem.build(system, rest)
    integrator = jm.ImplicitEuler(linear_system, newton=newton, rtol=CONVERGED)

    def ends(parameters):
        at = lambda s: (s.constraints["rod"].length, s.masses["bob"].mass, s.constraints["rod"].compliance)  # noqa: E731
        scene = eqx.tree_at(at, system, tuple(parameters))
        states = [jm.simulate(scene, rest, integrator, dt=0.02, steps=3).last]
        if not newton:
            states.append(jm.static_solve(scene, rest, linear_system, rtol=CONVERGED).state)
        return jnp.concatenate([jnp.ravel(s.position[n][-1]) for s in states for n in ("p", "tension")])

    point, steps = np.array([1.1, 2.2, 1e-3]), np.diag([1e-3, 1e-3, 1e-5])
    shifts = [point + t * d for d in steps for t in (1, -1, 0.5, -0.5)]
    found = np.asarray(jax.jit(jax.vmap(ends))(jnp.stack(shifts))).reshape(3, 4, -1)
    whole, half = found[:, 0] - found[:, 1], found[:, 2] - found[:, 3]
    expected = (8 * half - whole) / (6 * np.diag(steps)[:, None])
    forward = np.asarray(jax.jit(jax.jacfwd(ends))(jnp.asarray(point))).T
    for rate, difference in zip(forward, expected, strict=True):
        np.testing.assert_allclose(rate, difference, rtol=0, atol=10 * FINITE_DIFFERENCE * np.abs(difference).max())
    weights = jnp.linspace(0.3, 1.7, forward.shape[1])
    reverse = jax.jit(jax.grad(lambda p: ends(p) @ weights))(jnp.asarray(point))
    np.testing.assert_allclose(reverse, forward @ weights, rtol=TWO_MODES)


def beam(glued):
    """A bent cantilever of six cells; glued, of two meshes that nothing but multipliers joins."""
    mesh = jm.mesh.box_mesh(cells=(6, 1, 1), size=(3.0, 1.0, 1.0))
    points, cells = np.asarray(mesh.points), np.array(mesh.cells)
    constraints, dofs = {"clamp": jm.constraint.Fixed(("beam", np.flatnonzero(points[:, 0] == 0.0)))}, {"beam": jm.Vec3()}
    middle = np.flatnonzero(points[:, 0] == 1.5)
    start = {}
    if glued:
        copies = len(points) + np.arange(len(middle))
        right = points[cells].mean(axis=1)[:, 0] > 1.5
        renamed = np.arange(len(points))
        renamed[middle] = copies
        cells[right] = renamed[cells[right]]
        points = np.concatenate([points, points[middle]])
        glue = jm.constraint.Attachment((("beam", middle), ("beam", copies)), ("glue", range(len(middle))))
        constraints["glue"], dofs["glue"] = glue, jm.Vec3()
        start = {"glue": np.zeros((len(middle), 3))}
    tip = np.flatnonzero(points[:, 0] == 3.0)
    solid = jm.force.TetrahedronFEM.from_mesh(
        "beam", dataclasses.replace(mesh, points=points, cells=cells), jm.material.NeoHookean(1e4, 0.3)
    )
    load = jm.force.ConstantForce(("beam", tip), [0.0, 0.0, -20.0])
    system = jm.System(dofs, forces={"solid": solid, "load": load}, constraints=constraints)
    return system, system.at_rest({"beam": points, **start}), middle


@pytest.mark.slow
def test_a_beam_glued_by_multipliers_is_the_whole_beam():
    """In large deflection; the multipliers are the forces that one half hands to the other, the load on the tip."""
    (whole, rest, middle), (glued, cut, _) = beam(False), beam(True)
    expected = jm.static_solve(whole, rest, rtol=CONVERGED).position["beam"]
    found = jm.static_solve(glued, cut, rtol=CONVERGED)
    deflection = np.abs(expected - rest.position["beam"]).max()
    assert deflection > 0.3
    x = found.position["beam"]
    np.testing.assert_allclose(x[: len(expected)], expected, rtol=0, atol=GLUED * deflection)
    np.testing.assert_allclose(x[len(expected) :], x[middle], rtol=0, atol=1e-11)
    total = -np.asarray(found.position["glue"]).sum(0)  # on the left half
    np.testing.assert_allclose(-total, [0.0, 0.0, -20.0 * 4], rtol=0, atol=1e-6)


def heavy(glued):
    system, rest, middle = beam(glued)
    solid = system.forces["solid"]
    mass = jm.mass.ConsistentMass(solid.on, solid.rest, 10.0)
    return (
        jm.System(
            {"beam": jm.Vec3()} | {s: d for s, d in system.dofs.items() if s == "glue"},
            forces=system.forces,
            masses={"mass": mass},
            constraints=system.constraints,
        ),
        rest,
        middle,
    )


@pytest.mark.slow
def test_a_glued_beam_has_the_modes_of_the_whole_one():
    """And forces between its halves that the shapes ask for; gradients of frequencies by the stiffness."""
    (whole, rest, _), (glued, cut, middle) = heavy(False), heavy(True)
    expected, found = (jm.modes(s, x, count=3) for s, x in ((whole, rest), (glued, cut)))
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=GLUED)
    shapes = found.shapes["beam"]
    count = rest.position["beam"].shape[0]
    np.testing.assert_allclose(shapes[:, count:], shapes[:, middle], atol=1e-12 * np.abs(shapes).max())
    sign = np.sign(np.sum(np.asarray(shapes[:, :count] * expected.shapes["beam"]), axis=(1, 2)))[:, None, None]
    np.testing.assert_allclose(sign * shapes[:, :count], expected.shapes["beam"], atol=1e-8 * np.abs(shapes).max())

    linear = jm.MatrixLinearSystem.build(glued, cut, jm.Terms(damping=False))
    value, slope = jax.value_and_grad(
        lambda e: jm.modes(
            eqx.tree_at(lambda s: s.forces["solid"].material.young, glued, e), cut, linear, count=1
        ).eigenvalues[0]
    )(1e4)
    np.testing.assert_allclose(slope, value / 1e4, rtol=1e-9)  # all of the stiffness is proportional to it


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [jm.integrator.Midpoint, pytest.param(jm.integrator.BDF, marks=pytest.mark.exhaustive)])
def test_a_glued_beam_moves_as_the_whole_one(scheme):
    ends = []
    for system, rest, _ in (heavy(False), heavy(True)):
        integrator = scheme(jm.MatrixLinearSystem.build(system, rest), newton=True)
        ends.append(np.asarray(jm.simulate(system, rest, integrator, dt=0.02, steps=5).last.position["beam"]))
    moved = np.abs(ends[0] - rest.position["beam"][: len(ends[0])]).max()
    np.testing.assert_allclose(ends[1][: len(ends[0])], ends[0], atol=GLUED * moved)


@pytest.mark.slow
def test_a_glued_chain_moves_as_the_whole_one():
    """The corrections of `EnergyMomentum` count a node in two parts once: a free chain that stretches, turns and bends."""
    points, masses = np.array([[0.0, 0.0], [1.0, 0.1], [2.0, 0.0], [2.9, -0.3]]), np.array([1.0, 0.6, 2.0, 0.5])
    rates = np.array([[0.3, 1.0], [0.0, -0.4], [0.2, 0.3], [-0.5, 0.8]])
    ends = []
    for copy in ([], [1]):
        last, link = 3 + len(copy), [4] if copy else [1]
        parts = {"p": jm.Vec2()} | ({"glue": jm.Vec2()} if copy else {})
        pairs = (("p", [0, *link, 2]), ("p", [1, 2, 3]))
        split = masses.copy()
        split[copy] = 0.2  # the copy has the rest
        system = jm.System(
            parts,
            forces={"links": jm.force.Springs(pairs, [40.0, 90.0, 60.0], [0.9, 1.0, 1.0])},
            masses={"m": jm.mass.DiagonalMass(("p", range(last + 1)), np.concatenate([split, masses[copy] - split[copy]]))},
            constraints={"glue": jm.constraint.Attachment((("p", [1]), ("p", [4])), ("glue", [0]))} if copy else {},
        )
        start = {"p": np.concatenate([points, points[copy]])} | ({"glue": np.zeros((1, 2))} if copy else {})
        state = system.at_rest(start)
        state = eqx.tree_at(lambda s: s.velocity["p"], state, jnp.asarray(np.concatenate([rates, rates[copy]])))
        scheme = jm.integrator.EnergyMomentum(jm.MatrixLinearSystem.build(system, state), newton=True, rtol=CONVERGED)
        run = jm.simulate(system, state, scheme, dt=0.05, steps=8)
        ends.append(np.asarray(run.last.position["p"]))
    np.testing.assert_allclose(ends[1][:4], ends[0], rtol=0, atol=TWO_MODES)


@pytest.mark.slow
def test_rounding_of_places_across_a_rod_swings_on_in_no_step_of_energy_momentum():
    """In single precision it added up from step to step, the more the shorter they were: adaptive ones came to nothing."""
    system = pendulum()
    state = system.at_rest({"p": [[0.0, 0.0], [np.sin(0.9), -np.cos(0.9)]], "tension": [[0.0]]})
    single = jax.tree.map(lambda a: a.astype(np.float32) if eqx.is_inexact_array(a) else a, (system, state))
    ends, turns = [], []
    for scene, start in ((system, state), single):
        scheme = jm.integrator.EnergyMomentum(jm.MatrixLinearSystem.build(scene, start), newton=True)
        run = jm.simulate_adaptive(scene, start, scheme, [0.5], rtol=1e-5, atol=1e-5, max_steps=400)
        ends.append((run.last.position["p"][1], run.last.velocity["p"][1]))
        turns.append(int(run.info.turns))
    np.testing.assert_allclose(ends[1], ends[0], rtol=0, atol=1e-4)
    assert turns[1] < 3 * turns[0]


@pytest.mark.slow
def test_multipliers_at_a_place_are_its_reactions():
    """Nodes held by equations stand, and are pushed at, as nodes that are fixed."""
    whole, rest, _ = beam(False)
    nodes = whole.constraints["clamp"].on[0].nodes
    hold = jm.constraint.Attachment(("beam", nodes), ("push", range(len(nodes))), rest.position["beam"][nodes])
    held = jm.System({"beam": jm.Vec3(), "push": jm.Vec3()}, forces=whole.forces, constraints={"hold": hold})
    start = held.at_rest({"beam": rest.position["beam"], "push": np.zeros((len(nodes), 3))})
    expected, found = jm.static_solve(whole, rest, rtol=CONVERGED), jm.static_solve(held, start, rtol=CONVERGED)
    np.testing.assert_allclose(found.position["beam"], expected.position["beam"], rtol=0, atol=GLUED)
    reactions = jm.reactions(whole, expected.state)["beam"][nodes]
    np.testing.assert_allclose(-found.position["push"], reactions, rtol=0, atol=GLUED * np.abs(reactions).max())


@pytest.mark.slow
def test_a_body_on_a_ball_joint_is_a_compound_pendulum():
    """`a'' = -m g l / (I + m l^2) sin a`, of a rigid body hung at a point that a mapping carries."""
    turned = np.array([0.0, np.sin(0.35), 0.0, np.cos(0.35)])  # 0.7 rad about y
    system = jm.System(
        {"body": jm.Rigid3(), "eye": jm.Vec3(), "force": jm.Vec3()},
        mappings={"eye": jm.mapping.RigidMapping(("body", [0]), "eye", [[0.0, 0.0, 0.5]])},
        masses={"body": jm.mass.RigidMass(("body", [0]), 3.0, np.diag([0.2, 0.4, 0.3]))},
        constraints={"ball": jm.constraint.Attachment(("eye", [0]), ("force", [0]))},
        gravity=(0.0, 0.0, -G),
    )
    center = -0.5 * np.array([np.sin(0.7), 0.0, np.cos(0.7)])
    rest = system.at_rest({"body": [[*center, *turned]], "force": [[0.0, 0.0, 0.0]]})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, rest), newton=True)
    ends = [jm.simulate(system, rest, integrator, dt=0.4 / n, steps=n).last for n in (160, 320)]
    for end in ends:
        eye = jm.kinematics(system, end)["eye"]
        np.testing.assert_allclose(eye, np.zeros((1, 3)), rtol=0, atol=1e-10)
    coarse, fine = (np.asarray(end.position["body"][0]) for end in ends)
    angle = swing(3.0 * G * 0.5 / (0.4 + 3.0 * 0.25), 0.7, np.array([0.0, 0.4]))[0, -1]
    exact = -0.5 * np.array([np.sin(angle), 0.0, np.cos(angle)])
    errors = [np.abs(x[:3] - exact).max() for x in (coarse, fine)]
    assert abs(np.log2(errors[0] / errors[1]) - 1.0) < 0.05
    assert np.abs(2 * fine[:3] - coarse[:3] - exact).max() < 0.05 * errors[1]


@pytest.mark.slow
def test_solvers_for_definite_matrices_are_not_chosen():
    """By the operator itself: assembled, constrained, added, and known by its products."""
    glued, cut, _ = beam(True)
    linear_system = jm.MatrixLinearSystem.build(glued, cut, jm.Terms(mass=False, damping=False))
    K = linear_system.assemble(glued, cut)
    products = jm.solver.MatrixFreeSystem(linear_system.terms).assemble(glued, cut)
    wanted = {
        "MINRES": [
            (jm.solver.AutoLinearSolver(batched=True), K),
            (jm.solver.AutoLinearSolver(platform="tpu"), K),
            (jm.solver.AutoLinearSolver(), products),
        ],
        "SparseDirect": [
            (jm.solver.AutoLinearSolver(platform="cpu"), K),
            (jm.solver.AutoLinearSolver(inertial=True, platform="cpu"), K.plus(K).scaled(2.0).transpose()),
        ],
    }
    for name, cases in wanted.items():
        for solver, operator in cases:
            chosen, why = solver.choose(operator)
            assert type(chosen).__name__ == name, why
    assert K.indefinite and not jm.MatrixLinearSystem.build(*beam(False)[:2]).assemble(*beam(False)[:2]).indefinite


def test_equations_that_say_the_same_are_named():
    rods = jm.constraint.Distance((("p", [0, 0]), ("p", [1, 1])), ("tension", [0, 1]), 1.0)
    system = eqx.tree_at(lambda s: s.constraints["rod"], pendulum(), rods)
    rest = system.at_rest(inclined(0.1) | {"tension": [[1.0], [2.0]]})
    with pytest.raises(
        jm.FailedComputation,
        match=r"multipliers in state 'tension', of 'rod', are not determined. Here row 0 of element 1 of 'rod' says",
    ):
        jm.static_solve(system, rest)


def test_a_plain_number_takes_the_place_of_an_array():
    """As it does in a force field: finite differences are often written so."""
    system = pendulum()
    rest, tension = system.at_rest(inclined(0.3)), []
    for length in (1.1, jnp.asarray(1.1)):
        longer = eqx.tree_at(lambda s: s.constraints["rod"].length, system, length)
        tension.append(float(jm.static_solve(longer, rest).position["tension"][0, 0]))
    assert tension[0] == tension[1]


def test_small_steps_and_small_compliances_are_not_singular():
    """A step's rows of multipliers are of the size of `h^2`, the Schur complement of `h^4`."""
    system = pendulum()
    rest = system.at_rest(inclined(0.9))
    linear_system = jm.MatrixLinearSystem.build(system, rest)
    for h in (1e-2, 1e-5, 1e-7):
        for compliance in (0.0, 1e-20):
            scene = eqx.tree_at(lambda s: s.constraints["rod"].compliance, system, jnp.asarray(compliance))
            end = jm.ImplicitEuler(linear_system).step(scene, rest, None, h)[0]
            pull = 2.0 * G * np.cos(0.9) + 3.0 * np.sin(0.9)
            np.testing.assert_allclose(end.position["tension"], [[pull]], rtol=max(100 * h**2, 1e-4))


def test_a_scene_made_of_another_has_the_rows_of_its_own_constraints():
    """Of a rod that it has, and not of one that it has not, whose state nothing names."""
    rod = jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0)
    nail = {"nail": jm.constraint.Fixed(("p", [0]))}
    held = jm.System({"p": jm.Vec2()}, masses=pendulum().masses, constraints={"rod": rod, **nail})
    again = jm.System(held.dofs, masses=held.masses, constraints=held.constraints)
    assert eqx.tree_equal(again, held) and again.main_states == ("p", "rod")
    loose = jm.System(held.dofs, masses=held.masses, constraints=nail)
    assert loose.main_states == ("p",)
    assert set(loose.at_rest({"p": np.zeros((2, 2))}).position) == {"p"}


def test_what_does_not_fit_is_refused():
    points, rod = {"p": jm.Vec2(), "t": jm.Vec1()}, (("p", [0]), ("p", [1]))
    distance = jm.constraint.Distance(rod, ("t", [0]), 1.0)
    spring = jm.force.Springs(rod, 1.0, 1.0)
    where = {"p": [[0.0, 0.0], [1.0, 0.0]], "t": [[0.0]]}
    copy = jm.mapping.IdentityMapping(("p", [0, 1]), "t")
    cases = [
        ("names 2 nodes for 1 elements", lambda: jm.constraint.Distance(rod, ("t", [0, 1]), 1.0)),
        ("multiplier must be", lambda: jm.constraint.Distance(rod, ("t", [[0]]), 1.0)),
        ("on must be 2 of", lambda: jm.constraint.Distance(("p", [0]), ("t", [0]), 1.0)),
        ("length must be at least 0", lambda: jm.constraint.Distance(rod, ("t", [0]), -1.0)),
        ("compliance must be at least 0", lambda: jm.constraint.Attachment(rod, ("t", [0]), compliance=-1.0)),
        ("offset has shape", lambda: scene(jm.constraint.Attachment(rod, ("t", [0]), [1.0]))),
        ("returns shapes", lambda: scene(jm.constraint.Attachment(rod, ("t", [0])))),
        ("points .* of one dimension", lambda: scene(jm.constraint.Distance((("p", [0]), ("t", [0])), ("s", [0]), 1.0))),
        ("holds its own multipliers", lambda: scene(jm.constraint.Distance((("p", [0]), ("t", [0])), ("t", [0]), 1.0))),
        ("which mass 'm' acts on", lambda: scene(distance, masses={"m": jm.mass.UniformMass(("t", [0]), 1.0)})),
        ("both a force field and a constraint", lambda: scene(distance, forces={"rod": spring})),
        ("which mapping 'copy' gives", lambda: scene(distance, mappings={"copy": copy})),
        ("kind Vec1, Vec2 or Vec3", lambda: scene(distance, t=jm.Rigid3())),
        ("of 0 elements", lambda: scene(distance, t_positions=[[0.0], [0.0]])),
    ]

    def scene(constraint, t=None, t_positions=None, **components):
        dofs = points | {"s": jm.Vec1()} if constraint.multiplier[0].state == "s" else points
        system = jm.System(dofs | ({} if t is None else {"t": t}), constraints={"rod": constraint}, **components)
        extra = {"s": [[0.0]]} if "s" in dofs else {}
        return system.at_rest(where | extra | ({} if t_positions is None else {"t": t_positions}))

    for words, build in cases:
        with pytest.raises(ValueError, match=words):
            build()


def links(count, stiffness, tilt=0.0):
    """A straight chain of rigid links on a bed of springs, pushed along; `tilt` turns the first one out of line."""
    x = np.stack([0.7 * np.arange(count + 1), np.zeros(count + 1)], -1)
    x[1:] += 0.7 * np.array([np.cos(tilt) - 1.0, np.sin(tilt)])
    rods = jm.constraint.Distance((("p", range(count)), ("p", range(1, count + 1))), ("t", range(count)), 0.7)
    inner = range(1, count)
    held = {
        "links": rods,
        "pin": jm.constraint.Fixed(("p", [0])),
        "rail": jm.constraint.FixedComponents(("p", [count]), (False, True)),
    }

    def scene(mu):
        push = jm.force.ConstantForce(("p", [count]), jnp.stack([-mu, jnp.zeros_like(mu)]))
        bed = jm.force.AnchoredSprings(("p", inner), stiffness, x[1:count])
        return jm.System({"p": jm.Vec2(), "t": jm.Vec1()}, forces={"bed": bed, "push": push}, constraints=held)

    return scene, scene(jnp.zeros(())).at_rest({"p": x, "t": np.zeros((count, 1))})


@pytest.mark.slow
@pytest.mark.parametrize("count", [pytest.param(5, marks=pytest.mark.slow), 90])
def test_a_chain_of_rigid_links_buckles_as_its_angles_do(count):
    """`k L = P (2 - 2 cos(j pi / n))`, the shortest wave first; by LAPACK, and by Lanczos and a count."""

    def first(k):
        found = jm.buckling(*links(count, k), count=3)
        return found.factors[0], found

    if count == 5:
        (_, found), rate = jax.value_and_grad(first, has_aux=True)(50.0)
        np.testing.assert_allclose(rate, found.factors[0] / 50.0, rtol=1e-10)
    else:
        _, found = first(50.0)
    waves = np.pi * np.arange(count - 1, count - 4, -1) / count
    np.testing.assert_allclose(found.factors, 50.0 * 0.7 / (2 - 2 * np.cos(waves)), rtol=1e-10)
    tops = np.asarray(found.shapes["p"])[:, :, 1]
    expected = np.sin(np.outer(waves, np.arange(count + 1)))
    cosine = np.sum(tops * expected, axis=1) / np.linalg.norm(tops, axis=1) / np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose(np.abs(cosine), 1.0, rtol=1e-9)


@pytest.mark.slow
def test_buckling_knows_how_the_load_turns_the_equations():
    """Of a chain that is out of line the load turns the rods at once: the pencil is that of differences along the path."""
    scene, rest = links(4, 50.0, 0.3)
    start = jm.static_solve(scene(jnp.zeros(())), rest).state
    linear_system = jm.MatrixLinearSystem.build(scene(jnp.zeros(())), start, jm.Terms(mass=False, damping=False))
    h = 1e-4 * 9.0

    def tangent(mu):
        state = jm.static_solve(scene(jnp.asarray(mu)), start, linear_system).state
        K = linear_system.assemble(scene(jnp.asarray(mu)), state, jm.Factors(mass=0.0, damping=0.0, stiffness=1.0))
        return np.asarray(K.to_dense())

    minus, K, plus = tangent(-h), tangent(0.0), tangent(h)
    rate = (plus - minus) / (2 * h)
    turned = np.abs(rate[10:, :10]).max()  # 10 displacements before 4 multipliers
    assert turned > 1e-4
    mu = scipy.linalg.eigvals(K, -rate)
    mu = np.sort(mu[np.isfinite(mu) & (np.abs(mu.imag) < 1e-6 * np.abs(mu)) & (mu.real > 0)].real)
    found = jm.buckling(scene, start, linear_system).factors
    np.testing.assert_allclose(found[0], mu[0], rtol=FINITE_DIFFERENCE)
    rate[10:], rate[:, 10:] = 0.0, 0.0  # without the turn it is another number
    other = scipy.linalg.eigvals(K, -rate)
    other = np.min(other[np.isfinite(other) & (np.abs(other.imag) < 1e-6 * np.abs(other)) & (other.real > 0)].real)
    assert abs(other / mu[0] - 1.0) > 1e-2


@pytest.mark.slow
def test_a_column_with_a_pressure_of_its_own_buckles():
    """A mixed solid, whose multipliers are of a force field: near the same cells without, and softer."""
    coarse = jm.mesh.box_mesh(cells=(10, 1), size=(10.0, 1.0))
    mesh, law = jm.mesh.quadratic_mesh(coarse), jm.material.NeoHookean(1e3, 0.3)
    end = mesh.faces_where(lambda x: x[:, 0] == 10.0)
    clamp = {"clamp": jm.constraint.Fixed(("u", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))}
    solids = {
        "plain": (jm.force.SolidFEM.from_mesh("u", mesh, law), {}, {}),
        "mixed": (
            jm.force.MixedSolidFEM.from_mesh("u", "p", mesh, law),
            {"p": jm.Vec1()},
            {"p": np.zeros((len(coarse.points), 1))},
        ),
    }
    factor = {}
    for name, (solid, dofs, start) in solids.items():

        def scene(mu, solid=solid, dofs=dofs):
            push = jm.force.Traction.from_mesh("u", end, jnp.stack([-mu, jnp.zeros_like(mu)]))
            return jm.System({"u": jm.Vec2(), **dofs}, forces={"solid": solid, "push": push}, constraints=clamp)

        rest = scene(jnp.zeros(())).at_rest({"u": mesh.points, **start})
        factor[name] = float(jm.buckling(scene, rest).factors[0])
    euler = np.pi**2 / (4 * 10.0**2) * 1e3 / (1 - 0.3**2) / 12
    np.testing.assert_allclose(factor["plain"], euler, rtol=0.02)
    assert 0.995 < factor["mixed"] / factor["plain"] < 1.0


@pytest.mark.slow
def test_a_glued_column_buckles_as_the_whole_one():
    """By `Attachment`, under its end load."""
    factors = []
    for glued in (False, True):
        system, rest, _ = beam(glued)

        def scene(mu, system=system):
            along = jnp.stack([-mu, jnp.zeros_like(mu), jnp.zeros_like(mu)])
            return eqx.tree_at(lambda s: s.forces["load"].force, system, along)

        factors.append(jm.buckling(scene, rest, count=2).factors)
    np.testing.assert_allclose(factors[1], factors[0], rtol=GLUED)


@pytest.mark.slow
@pytest.mark.parametrize("newton", [False, True])
def test_damping_of_all_stiffness_lets_no_equation_give(newton):
    """Violations stay what they are without damping; derivatives by the damping, and products, are of the same step."""
    system = pendulum()
    spring = jm.force.AnchoredSprings(("p", [1]), 50.0, [[0.0, -1.5]])
    system = jm.System(system.dofs, forces={"spring": spring}, masses=system.masses, constraints=system.constraints)
    rest = system.at_rest(inclined(0.9))
    linear_system = jm.MatrixLinearSystem.build(system, rest)
    integrator = jm.ImplicitEuler(linear_system, newton=newton, rayleigh_stiffness=0.05, rayleigh_mass=0.1)
    run = jm.simulate(system, rest, integrator, dt=0.005, steps=100).position["p"][:, 1]
    off = np.abs(np.linalg.norm(run, axis=1) - 1.0).max()
    assert off < (1e-11 if newton else 0.5 * (0.005 * 5.0) ** 2)

    def length(damping):
        damped = eqx.tree_at(lambda i: i.rayleigh_stiffness, integrator, damping)
        return jm.simulate(system, rest, damped, dt=0.005, steps=3).last.position["p"][1, 0]

    if not newton:
        lengths = jax.jit(jax.vmap(length))(jnp.array([0.051, 0.049]))
        np.testing.assert_allclose(jax.jit(jax.grad(length))(jnp.asarray(0.05)), (lengths[0] - lengths[1]) / 2e-3, rtol=1e-4)
    products = dataclasses.replace(integrator, linear_system=jm.solver.MatrixFreeSystem(), solver=jm.solver.Dense())
    ends = [jax.tree.leaves(i.step(system, rest, None, 0.005)[0]) for i in (integrator, products)]
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, rtol=ITERATIVE, atol=ITERATIVE)


def test_the_matrix_is_the_saddle_point_matrix():
    """Its blocks by states: `J^T`, `-C`, and the geometric stiffness `lambda d2g/dx2`."""
    system = pendulum(compliance=0.25)
    rest = system.at_rest(inclined(0.0, 7.0))
    K = jm.MatrixLinearSystem.build(system, rest, jm.Terms(constrained=False)).assemble(
        system, rest, jm.Factors.only("stiffness")
    )
    J = np.array([[0.0, 1.0, 0.0, -1.0]])  # of |b - a|, at (0, -1)
    np.testing.assert_allclose(K["tension", "p"].to_dense(), J, atol=ROUND_OFF)
    np.testing.assert_allclose(K["p", "tension"].to_dense(), J.T, atol=ROUND_OFF)
    np.testing.assert_allclose(K["tension", "tension"].to_dense(), [[-0.25]], atol=ROUND_OFF)
    np.testing.assert_allclose(K["p", "p"].to_dense()[2:, 2:], np.diag([7.0, 0.0]), atol=ROUND_OFF)


def test_a_row_keeps_its_digits_beside_a_large_multiplier():
    """`J v` to rounding, whatever the unit of the multiplier: `P A P + I - P` adds nothing where nothing is held."""
    system = pendulum()
    rest = system.at_rest(inclined(0.0))
    moved = {"p": jnp.array([[0.0, 0.0], [0.2, -0.3]]), "tension": jnp.array([[1e12]])}
    A = jm.solver.MatrixFreeSystem().assemble(system, rest, jm.Factors.only("stiffness"))
    np.testing.assert_allclose(jnp.abs(A.mv(moved)["tension"]), 0.3, rtol=ROUND_OFF)


@pytest.mark.slow
def test_an_adaptive_run_from_far_off_its_equations():
    """`ImplicitEuler` says so: the shorter a step, the faster it takes a violation back, so that none is accurate enough.
    What `TRBDF2` hands on has no such velocity: it goes on from where they are fulfilled, as with equal steps."""
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"mass": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
        constraints={
            "rod": jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0),
            "nail": jm.constraint.Fixed(("p", [0])),
        },
    )
    state = system.at_rest({"p": [[0.0, 0.0], [1.2, 0.0]]})
    linear_system = jm.MatrixLinearSystem.build(system, state)
    with pytest.raises(jm.FailedComputation, match="Where it starts, element 0 of 'rod' .* is 0.2 m"):
        jm.simulate_adaptive(system, state, jm.ImplicitEuler(linear_system), [0.1], rtol=1e-3, atol=1e-3)
    last = jm.simulate_adaptive(system, state, jm.integrator.TRBDF2(linear_system), [0.1], rtol=1e-3, atol=1e-3).last
    np.testing.assert_allclose(last.position["p"][1], [1.0, 0.0], atol=ROUND_OFF)
    np.testing.assert_allclose(last.velocity["p"][1], 0.0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("extrapolate", [False, True])
@pytest.mark.parametrize(
    ("scheme", "allowed", "off"),
    [(jm.ImplicitEuler, 1e-2, (0.015, 0.25, 0.07)), (jm.integrator.TRBDF2, 1e-3, (0.01, 0.045, 0.01))],
)
def test_adaptive_steps_follow_motions_and_not_multipliers(scheme, allowed, off, extrapolate):
    """A pendulum that falls from the level: below after `K(1/sqrt 2) sqrt(L / g)`, at `sqrt(2 g L)`; it pulls by `3 m g`."""
    g = 9.81
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"m": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
        constraints={
            "nail": jm.constraint.Fixed(("p", [0])),
            "rod": jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0),
        },
        gravity=[0.0, -g],
    )
    state = system.at_rest({"p": [[0.0, 0.0], [1.0, 0.0]]})
    integrator = scheme(jm.MatrixLinearSystem.build(system, state), newton=True)
    below = [1.8540746773013719 / np.sqrt(g)]
    options = {"rtol": allowed, "atol": allowed, "max_steps": 100, "extrapolate": extrapolate}
    run = jm.simulate_adaptive(system, state, integrator, below, **options)
    # Of some 30 steps and 13, each off by what is allowed: in places [m], velocities [m/s] and tension.
    np.testing.assert_allclose(run.last.position["p"][1], [0.0, -1.0], atol=off[0])
    np.testing.assert_allclose(run.last.velocity["p"][1], [-np.sqrt(2 * g), 0.0], atol=off[1])
    np.testing.assert_allclose(run.last.position["rod"], 3 * g, rtol=off[2])
