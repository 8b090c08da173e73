"""What a step hands to the next one besides the state, and schemes that users write."""

import importlib.util
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._integrator.carried import using, varies
from jaxmech._integrator.implicit.newmark import _free_acceleration

CONSERVED = 1e-12  # rounding of some hundred steps
FINITE = 1e-6  # central differences of a step of 1e-5
NEWMARK = Path(__file__).parent.parent / "examples" / "newmark.py"
RAISED = (jax.errors.JaxRuntimeError, ValueError)  # the latter out of a program that is over when its call returns


def example():
    spec = importlib.util.spec_from_file_location("newmark", NEWMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


newmark = example()


def chain():
    """Three masses between walls, all of it linear."""
    system = jm.System(
        {"chain": jm.Vec1()},
        forces={
            "links": jm.force.Springs((("chain", [0, 1, 2]), ("chain", [1, 2, 3])), 30.0, 0.0),
            "wall": jm.force.AnchoredSprings(("chain", [3]), 10.0, [[2.0]]),
        },
        masses={"beads": jm.mass.UniformMass(("chain", np.arange(4)), 2.0)},
        constraints={"nail": jm.constraint.Fixed(("chain", [0]))},
    )
    return system, system.at_rest({"chain": [[0.0], [1.0], [1.5], [1.6]]})


def energy(system, state):
    return jm.energy(system, state) + jm.mass.kinetic_energy(system, state)


@pytest.mark.slow
def test_newmark_keeps_the_energy_of_a_linear_system_and_differentiates():
    system, state = chain()
    integrator = newmark.Newmark(jm.MatrixLinearSystem.build(system, state))

    def run(stiffness, v):
        scene = eqx.tree_at(lambda s: s.forces["links"].stiffness, system, stiffness)
        start = eqx.tree_at(lambda s: s.velocity["chain"], state, v * jnp.array([[0.0], [1.0], [-2.0], [0.5]]))
        path = jm.simulate(scene, start, integrator, 0.05, 30, throw=False)
        levels = jax.vmap(lambda x, v: energy(scene, jm.State(x, v, state.time)))(path.position, path.velocity)
        return path.last.position["chain"][1, 0], (levels, path.info.result == jm.RESULTS.successful)

    at, step = (jnp.asarray(30.0), jnp.asarray(1.0)), 1e-5
    program = eqx.filter_jit(jax.value_and_grad(run, (0, 1), has_aux=True))
    (_, (levels, successful)), slopes = program(*at)
    assert np.all(successful)
    np.testing.assert_allclose(levels, levels[0], rtol=CONSERVED)
    for number, slope in enumerate(slopes):
        ends = [program(*(a + sign * step * (i == number) for i, a in enumerate(at)))[0][0] for sign in (1, -1)]
        assert abs(slope) > 1e-3
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=FINITE)


@pytest.mark.slow
def test_newmark_is_of_second_order_where_frames_turn():
    system, state = newmark.top()
    integrator = newmark.Newmark(jm.MatrixLinearSystem.build(system, state))

    @jax.jit
    def end(steps):
        def one(_, at):
            return integrator.step(system, *at, 0.05 / steps, throw=False)[:2]

        return jax.lax.fori_loop(0, steps, one, (state, integrator.init(system, state)))[0].position["top"][0]

    x = [np.asarray(end(steps)) for steps in (40, 80, 160)]
    ratio = np.linalg.norm(x[0] - x[1]) / np.linalg.norm(x[1] - x[2])
    assert 3.8 < ratio < 4.2
    assert np.linalg.norm(x[0] - x[2]) > 1e-5


class Done(eqx.Module):
    result: jm.RESULTS


class SymplecticEuler(jm.integrator.AbstractIntegrator):
    """`v1 = v0 + h a0`, `x1 = x0 + h v1`, whose carry are the masses: a scheme without any solve."""

    def init(self, system, state):
        return jm.mass.momentum(
            system, eqx.tree_at(lambda s: s.velocity, state, jax.tree.map(jnp.ones_like, state.velocity))
        )

    def step(self, system, state, carry, dt, *, throw=True):
        f = jm.integrator.project(system, jm.total_force(system, state))
        v = {s: state.velocity[s] + dt * f[s] / carry[s] for s in f}
        x = jm.integrator.retract(system, state.position, {s: dt * v[s] for s in v})
        lost = ~jnp.isfinite(x["chain"]).all()
        result = jm.RESULTS.where(lost, jm.RESULTS.not_finite, jm.RESULTS.successful)
        return jm.State(x, v, state.time + dt), carry, Done(result)


def test_any_scheme_runs_in_a_trajectory():
    system, state = chain()
    found = jm.simulate(system, state, SymplecticEuler(), 0.01, 4)
    K = np.array([[60.0, -30.0, 0.0], [-30.0, 60.0, -30.0], [0.0, -30.0, 40.0]])
    x, v = np.array([1.0, 1.5, 1.6]), np.zeros(3)
    for _ in range(4):
        v = v - 0.01 * (K @ x - [0.0, 0.0, 20.0]) / 2.0
        x = x + 0.01 * v
    np.testing.assert_allclose(found.last.position["chain"][1:, 0], x, rtol=CONSERVED)
    with pytest.raises(jm.FailedComputation, match="simulate"):
        jm.simulate(system, state, SymplecticEuler(), 1e200, 4)


def bead(mass):
    """Two nodes on springs, of masses `(1, mass)` [kg]."""
    scene = jm.System(
        {"p": jm.Vec1()},
        forces={"springs": jm.force.AnchoredSprings(("p", [0, 1]), 4.0, np.zeros((2, 1)))},
        masses={"mass": jm.mass.DiagonalMass(("p", [0, 1]), [1.0, 1.0])},
    )
    return eqx.tree_at(lambda s: s.masses["mass"].mass, scene, jnp.stack([1.0, mass])), scene.at_rest({"p": np.ones((2, 1))})


def pendulum(mass):
    """One on a rod, whose multiplier the first acceleration has to find."""
    scene = jm.System(
        {"p": jm.Vec2()},
        masses={"mass": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
        constraints={
            "nail": jm.constraint.Fixed(("p", [0])),
            "rod": jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0),
        },
        gravity=(0.0, -9.81),
    )
    scene = eqx.tree_at(lambda s: s.masses["mass"].mass, scene, mass)
    return scene, scene.at_rest({"p": [[0.0, 0.0], [1.0, 0.0]]})


NO_START = "no acceleration .*first state"


@pytest.mark.slow_cases("bead-HHT", "bead-GeneralizedAlpha", "pendulum")
@pytest.mark.parametrize("scheme", ["Newmark", "HHT", "GeneralizedAlpha"])
@pytest.mark.parametrize("scene", [bead, pendulum])
def test_a_start_without_an_acceleration_is_a_result_as_a_failed_step_is(scene, scheme):
    """A member without mass leaves the others of its batch alone, and its derivatives alone are no numbers."""
    integrator = getattr(jm.integrator, scheme)(jm.MatrixLinearSystem.build(*scene(jnp.asarray(2.0))))

    def run(mass):
        path = jm.simulate(*scene(mass), integrator, 0.01, 3, throw=False)
        return path.last.position["p"][1].sum(), path.result

    slopes = jax.jit(jax.vmap(jax.value_and_grad(run, has_aux=True)))
    (ends, results), gradients = slopes(jnp.array([2.0, 0.0, 3.0]))
    (alone, _), of_these = slopes(jnp.array([2.0, 2.0, 3.0]))
    assert str(results) == "RESULTS[successful, no_first_acceleration, successful]"
    np.testing.assert_array_equal(ends[::2], alone[::2])
    np.testing.assert_array_equal(gradients[::2], of_these[::2])
    assert np.isnan(gradients[1]) and np.isfinite(gradients[0])


def test_a_start_without_an_acceleration_says_so():
    """Of two nodes one has a mass: `M a = f` has no solution."""
    scene, start = bead(jnp.asarray(0.0))
    newmark = jm.integrator.Newmark(jm.MatrixLinearSystem.build(scene, start))
    with pytest.raises(jm.FailedComputation, match=f"simulate, step 0: {NO_START}"):
        jm.simulate(scene, start, newmark, 0.01, 2)
    for carry in (None, newmark.init(scene, start)):
        with pytest.raises(jm.FailedComputation, match=f"Newmark: {NO_START}"):
            newmark.step(scene, start, carry, 0.01)
    with pytest.raises(RAISED, match=f"simulate, step 0: {NO_START}"):
        jax.block_until_ready(jax.jit(lambda s: jm.simulate(s, start, newmark, 0.01, 2).last)(scene))


def test_adaptive_steps_look_for_no_smaller_one_where_there_is_no_first_acceleration():
    scene, start = bead(jnp.asarray(0.0))
    newmark = jm.integrator.Newmark(jm.MatrixLinearSystem.build(scene, start))
    run = jm.simulate_adaptive(scene, start, newmark, [0.1], rtol=1e-3, atol=1e-3, throw=False)
    assert run.info.result == jm.RESULTS.no_first_acceleration and run.info.turns == 1


def heavy_bar(density):
    """Consistent masses of cells whose sizes and densities are far apart, that fall beside a wall."""
    points = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.1], [1.01, 0.0], [1.01, 1.0], [9.0, 0.2], [9.0, 0.8]])
    mesh = jm.mesh.Mesh(points, [[0, 2, 3, 1], [2, 4, 5, 3], [4, 6, 7, 5]], "quad")
    scene = jm.System(
        {"p": jm.Vec2()},
        forces={"solid": jm.force.QuadFEM.from_mesh("p", mesh, jm.material.StVenantKirchhoff(2e4, 0.3), plane="stress")},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("p", mesh, density)},
        constraints={"wall": jm.constraint.Fixed(("p", [0, 1]))},
        gravity=[0.0, -9.81],
    )
    return scene, eqx.tree_at(lambda s: s.position["p"], scene.at_rest({"p": points}), jnp.asarray(1.01 * points))


@pytest.mark.slow
def test_the_first_acceleration_balances_the_forces_and_so_does_its_derivative():
    scene, start = heavy_bar([1.0, 1e4, 1e-3])
    newmark = jm.integrator.Newmark(jm.MatrixLinearSystem.build(scene, start))

    def first(young):
        softer = eqx.tree_at(lambda s: s.forces["solid"].material.young, scene, young)
        return newmark.init(softer, start)[1].of_scheme["p"]

    one = jnp.ones(3)
    a, rate = jax.jit(lambda E: jax.jvp(first, (E,), (one,)))(jnp.full(3, 2e4))
    slope = jax.jit(jax.jacrev(first))(jnp.full(3, 2e4)) @ one
    free = slice(4, None)
    M = np.asarray(newmark.linear_system.assemble(scene, start, jm.Factors.only("mass")).to_dense())[free, free]
    bare = jm.System(scene.dofs, masses=scene.masses, gravity=scene.gravity)
    f, weight = (np.ravel(jm.total_force(s, start)["p"])[free] for s in (scene, bare))
    for found, expected in ((a, f), (rate, (f - weight) / 2e4), (slope, (f - weight) / 2e4)):
        expected = np.linalg.solve(M, expected)
        np.testing.assert_allclose(np.ravel(found)[free], expected, rtol=ROUND_OFF, atol=ROUND_OFF * abs(expected).max())


@pytest.mark.slow
def test_the_first_acceleration_is_along_a_plane_that_no_axis_is_normal_to():
    """Conjugate gradients go on within the plane, in single precision too."""
    scene, start = heavy_bar([1.0, 10.0, 0.1])
    slope = jm.constraint.FixedPlane(("p", [6, 7]), (1.0, 2.0))
    parts = {"forces": scene.forces, "masses": scene.masses, "gravity": scene.gravity}
    scene = jm.System(scene.dofs, **parts, constraints={**scene.constraints, "slope": slope})
    newmark = jm.integrator.Newmark(jm.MatrixLinearSystem.build(scene, start))
    M = np.asarray(newmark.linear_system.assemble(scene, start, jm.Factors.only("mass")).to_dense())
    f = np.ravel(jm.integrator.project(scene, jm.total_force(scene, start))["p"])
    single, begun, short = jax.tree.map(
        lambda a: a.astype(np.float32) if eqx.is_inexact_array(a) else a, (scene, start, newmark)
    )
    for a, rtol in ((newmark.init(scene, start), ROUND_OFF), (short.init(single, begun), 1e-4)):
        expected = np.linalg.solve(M, f)
        np.testing.assert_allclose(np.ravel(a[1].of_scheme["p"]), expected, rtol=rtol, atol=rtol * abs(expected).max())


LARGEST = 160  # lines; 260 of a loop of operations, 450 of a solver with reasons, by a matrix with its constraints


@pytest.mark.slow
@pytest.mark.cpu
def test_the_first_acceleration_is_a_small_program():
    scene, start = heavy_bar([1.0, 10.0, 0.1])
    newmark = jm.integrator.Newmark(jm.MatrixLinearSystem.build(scene, start))
    ready = using(newmark, newmark.init(scene, start)[0])
    solve = jax.jit(lambda scene, start, force: _free_acceleration(ready, scene, start, force)[0])
    text = solve.lower(scene, start, jm.total_force(scene, start)).as_text()
    assert "while" not in text and text.count("\n") < LARGEST


@pytest.mark.slow
def test_a_consistent_mass_that_is_nil_somewhere_has_no_first_acceleration():
    scene, start = heavy_bar([1.0, 1.0, 1.0])
    scene = eqx.tree_at(lambda s: s.masses["mass"].density, scene, jnp.array([1.0, 1.0, 0.0]))
    with pytest.raises(jm.FailedComputation, match=f"Newmark: {NO_START}"):
        jm.integrator.Newmark(jm.MatrixLinearSystem.build(scene, start)).step(scene, start, None, 0.01)


@pytest.mark.parametrize("lumped", [False, True])
def test_forces_that_are_no_numbers_are_not_called_singular_masses(lumped):
    scene, start = heavy_bar([1.0, 1.0, 1.0])
    if lumped:
        masses = {"mass": jm.mass.UniformMass(("p", np.arange(8)), 1.0)}
        scene = jm.System(scene.dofs, forces=scene.forces, masses=masses, gravity=scene.gravity)
    fast = eqx.tree_at(lambda s: s.gravity, scene, jnp.array([0.0, np.nan]))
    newmark = jm.integrator.Newmark(jm.MatrixLinearSystem.build(scene, start))
    with pytest.raises(jm.FailedComputation, match="Newmark: gravity has values that are not finite"):
        newmark.step(fast, start, newmark.init(fast, start), 0.01)


def test_what_no_step_changes_is_no_part_of_the_loop():
    system, state = chain()
    linear_system = jm.MatrixLinearSystem.build(system, state)
    preconditioned = jm.solver.PreconditionedMatrixFreeSystem.build(system, state)
    h = jnp.asarray(0.1)
    for system_of, changes in ((linear_system, False), (preconditioned, True)):
        integrator = jm.ImplicitEuler(system_of)
        carry = integrator.init(system, state)
        found = varies(lambda s, c, i=integrator: i.advanced(system, s, c, h), state, carry)
        assert jax.tree.leaves(carry) and all(v == changes for v in jax.tree.leaves(found))


def test_a_step_by_itself_and_a_step_with_a_carry_are_one_step():
    system, state = chain()
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    with_carry, carry, _ = integrator.step(system, state, integrator.init(system, state), 0.1)
    alone, nothing, _ = integrator.step(system, state, None, 0.1)
    assert nothing is None and carry is not None
    np.testing.assert_allclose(with_carry.position["chain"], alone.position["chain"], rtol=CONSERVED)


def test_calls_of_before_say_what_to_write():
    system, state = chain()
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    with pytest.raises(TypeError, match=r"carry = integrator.init\(system, state\)"):
        integrator.step(system, state, 0.1)
    for old in ("prepared", "refreshed"):
        for owner in (integrator, integrator.linear_system):
            with pytest.raises(AttributeError, match="init"):
                getattr(owner, old)
    with pytest.raises(AttributeError, match="nonsense"):
        integrator.nonsense  # noqa: B018
    with pytest.raises(TypeError, match="carry"):
        integrator.step(system, state, {"chain": 1.0}, 0.1)
    pulled = eqx.tree_at(
        lambda s: s.constraints,
        system,
        {"nail": jm.constraint.PrescribedMotion(("chain", [0]), [[0.0]], [[0.0], [1.0]], [0.0, 1.0])},
    )
    with pytest.raises(ValueError, match="prescribes a motion"):
        newmark.Newmark(jm.solver.MatrixFreeSystem()).step(pulled, state, state.velocity, 0.1)
