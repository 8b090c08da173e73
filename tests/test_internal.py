"""What force fields remember: internal variables in the state, accepted with a step; numbers for every Gauss point."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from own_components import Slider
from tolerances import CONVERGED, RECOMPILED, ROUND_OFF, TWO_MODES

import jaxmech as jm
from jaxmech._model.internal import with_internal

FINITE = 1e-7  # central differences of fourth order, of solutions converged to CONVERGED
FIRST_ORDER = 0.6  # the error of half the step, at most, of an error that halves

BOX = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
TILE = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0), kind="quad")
E, NU, YIELD, H = 1e6, 0.3, 1e3, 5e4


class Relaxing(jm.force.AbstractForceField):
    """A standard linear solid along a line, as a force: `f = -k x - k1 (x - flow)`, `flow' = (x - flow) / tau`."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    left: jax.Array = jm.parameter()  # k [N/m]
    stiffness: jax.Array = jm.parameter()  # k1 [N/m]
    tau: jax.Array = jm.parameter()  # [s]
    flow: jax.Array = jm.component.internal()  # [m]
    dt: jax.Array = jm.component.time_step()

    def element_force(self, x, v):
        return (-self.left * x[0] - self.stiffness * (x[0] - self.flow) / (1 + self.dt / self.tau),)

    def element_update(self, x, v):
        ratio = self.dt / self.tau
        return {"flow": (self.flow + ratio * x[0][0]) / (1 + ratio)}


def four_point(function, step):
    """The derivative at 0 by central differences, of fourth order."""
    near, far = ((function(k * step) - function(-k * step)) / (2 * k * step) for k in (1, 2))
    return (4 * near - far) / 3


# --- plasticity ----------------------------------------------------------------------


def pulled_cube():
    """A cube on rollers, one side of which is moved: all of it in uniaxial stress."""

    def side(axis, place):
        return BOX.nodes_where(lambda x: x[:, axis] == place)

    flags = np.eye(3, dtype=bool).tolist()
    rollers = {n: jm.constraint.FixedComponents(("cube", side(i, 0.0)), tuple(flags[i])) for i, n in enumerate("xyz")}
    moved = side(0, 1.0)
    # Loaded, unloaded and loaded the other way, and back.
    path = jm.constraint.PrescribedMotion(
        ("cube", moved), BOX.points[moved], np.outer(STRAINS, np.eye(3)[0]), np.arange(len(STRAINS)), (True, False, False)
    )
    law = jm.material.J2Plasticity(E, NU, yield_stress=YIELD, hardening=H)
    solid = jm.force.TetrahedronFEM.from_mesh("cube", BOX, law)
    system = jm.System({"cube": jm.Vec3()}, forces={"solid": solid}, constraints={**rollers, "pull": path})
    return system, system.at_rest({"cube": BOX.points}), moved


STRAINS = np.array([0.0, 0.0008, 0.004, 0.0035, -0.002, -0.003, 0.001])


def uniaxial(strains):
    """Stress and accumulated plastic strain of a bar, by hand."""
    plastic, accumulated, found = 0.0, 0.0, []
    for strain in strains:
        trial = E * (strain - plastic)
        slip = max(abs(trial) - (YIELD + H * accumulated), 0.0) / (E + H)
        plastic, accumulated = plastic + np.sign(trial) * slip, accumulated + slip
        found.append((E * (strain - plastic), accumulated))
    return np.array(found).T


def plastic_history():
    """A function of the yield stress of every cell: what happens in each step of the path."""
    system, rest, moved = pulled_cube()
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))

    def history(limits):
        scene = eqx.tree_at(lambda s: s.forces["solid"].material.yield_stress, system, limits)

        def load(state, time):
            begin = dataclasses.replace(state, time=time)
            options = {"rtol": CONVERGED, "throw": False}
            solution = jm.static_solve(scene, begin, linear_system, jm.solver.Dense(), **options)
            end, info = solution.state, solution.info
            force = jm.reactions(scene, end)["cube"][moved, 0].sum()
            during = jm.energy(scene, dataclasses.replace(begin, position=end.position))
            slipped = {k: v[:, 0] for k, v in end.internal["solid"].items()}
            dissipated = during - jm.energy(scene, end)
            return end, (force, slipped["material.accumulated"], dissipated, info.residuals[0], info.result)

        return jax.lax.scan(load, rest, jnp.arange(1.0, len(STRAINS)))[1]

    return history


@pytest.mark.slow
def test_a_cycle_of_a_plastic_bar():
    """Against the bar by hand; then with a yield stress for each cell: quadratic convergence, dissipation."""
    run = jax.jit(plastic_history())
    force, slipped, dissipated, _, result = run(jnp.full(6, YIELD))
    assert (result == jm.RESULTS.successful).all()
    stress, accumulated = uniaxial(STRAINS[1:])
    np.testing.assert_allclose(force, stress, rtol=1e-9)
    np.testing.assert_allclose(slipped, np.repeat(accumulated[:, None], 6, axis=1), atol=1e-14)
    np.testing.assert_allclose(dissipated, YIELD * np.diff(accumulated, prepend=0.0), atol=1e-9)

    limits = YIELD * jnp.linspace(0.6, 1.4, 6)
    force, slipped, dissipated, residuals, result = run(limits)
    assert (result == jm.RESULTS.successful).all()
    work = np.einsum("te,e->t", np.diff(slipped, axis=0, prepend=0.0), limits) / 6  # of cells of equal volume
    np.testing.assert_allclose(dissipated, work, rtol=1e-9, atol=1e-12)
    assert (work >= 0).all() and (work > 1e-3).sum() >= 3
    # Where Newton's method has found which cells yield, the error of an iteration is that of the one before, squared.
    orders = []
    for row in np.asarray(residuals):
        steps = row[row > 1e-8 * row.max()]
        orders += [np.log(c / b) / np.log(b / a) for a, b, c in zip(steps, steps[1:], steps[2:], strict=False)]
    assert max(orders) > 1.8, orders


@pytest.mark.slow
def test_derivatives_of_a_load_history():
    history, limits = plastic_history(), YIELD * jnp.linspace(0.6, 1.4, 6)
    run = jax.jit(history)

    def objective(found):
        force, slipped, *_ = found
        return force @ jnp.arange(1.0, 7.0) + 1e5 * (slipped[-1] @ jnp.arange(6.0))

    direction = YIELD * jnp.asarray(np.random.default_rng(0).uniform(-1, 1, 6))

    def along(t):
        return objective(history(limits + t * direction))

    forward, reverse = jax.jit(lambda t: (jax.jvp(along, (t,), (1.0,))[1], jax.grad(along)(t)))(0.0)
    difference = four_point(lambda t: objective(run(limits + t * direction)), 1e-5)
    np.testing.assert_allclose(forward, reverse, rtol=TWO_MODES)
    np.testing.assert_allclose(reverse, difference, rtol=FINITE)


def test_the_yield_surface_is_not_crossed_by_rounding():
    """Of what has just flowed, the tangent is elastic: it stands on the surface, on which side is a matter of rounding."""
    rng = np.random.default_rng(1)
    law = jm.material.J2Plasticity(E, NU, yield_stress=YIELD, hardening=H)

    @jax.jit
    @jax.vmap
    def again(F):
        old = law.point_update(F)
        new = eqx.tree_at(lambda m: (m.plastic_strain, m.accumulated), law, (old["plastic_strain"], old["accumulated"]))
        return (
            old["accumulated"],
            new.point_update(F)["accumulated"],
            jax.grad(law.energy_density)(F),
            jax.grad(new.energy_density)(F),
        )

    first, second, during, after = again(np.eye(3) + 0.05 * rng.uniform(-1, 1, (50, 3, 3)))
    assert (first > 0).all() and (first == second).all()
    np.testing.assert_allclose(during, after, atol=1e-9 * E)


# --- viscoelasticity -----------------------------------------------------------------


@pytest.mark.slow
def test_a_branch_relaxes_and_dissipates():
    """Held at once: exp(-t/tau) at small strains; on a path, that of the differential equation; energy is lost."""
    tau, mu = 0.2, 5e5
    law = jm.material.Viscoelastic(jm.material.NeoHookean(E, 0.25), [mu], [tau])

    def point(flow, dt):
        return eqx.tree_at(lambda m: (m.flow, m.dt), law, (flow, jnp.asarray(dt)))

    @partial(jax.jit, static_argnums=2)
    def path(rate, total, steps):
        """`F = I + t rate`, held from half of the time on."""
        dt = total / steps

        def step(flow, t):
            F = jnp.eye(3) + jnp.minimum(t, 0.5 * total) * rate
            here = point(flow, dt)
            new = here.point_update(F)["flow"]
            spent = here.energy_density(F) - point(new, 0.0).energy_density(F)
            apart = jax.grad(here.energy_density)(F) - jax.grad(point(new, 0.0).energy_density)(F)
            return new, (jax.grad(here.energy_density)(F), spent, apart, jnp.linalg.det(new[0]))

        end, found = jax.lax.scan(step, law.flow, dt * jnp.arange(1.0, steps + 1))
        return end[0], found

    def sheared(gamma):
        return jnp.zeros((3, 3)).at[0, 1].set(gamma)

    # Sheared in the first of two steps, which takes no time beside `tau`; then held for the second half, by small steps.
    F = jnp.eye(3) + sheared(1e-4)

    @partial(jax.jit, static_argnums=0)
    def held(steps):
        flow = jax.lax.fori_loop(0, steps, lambda _, flow: point(flow, 0.3 / steps).point_update(F)["flow"], law.flow)
        return jax.grad(point(flow, 0.0).energy_density)(F)[0, 1] - 4e5 * 1e-4  # of E = 1e6, nu = 1/4: mu = 4e5

    stress = np.array([held(n) for n in (8, 16)]) / (mu * 1e-4)
    np.testing.assert_allclose(stress, [(1 + 0.3 / tau / n) ** -n for n in (8, 16)], rtol=1e-6)  # up to gamma^2
    error = np.abs(stress - np.exp(-0.3 / tau))
    assert error[1] < FIRST_ORDER * error[0]

    # V' = (C' - tr(C' V^-1)/3 V) / tau, by Runge and Kutta, at strains of one half.
    rate, total = jnp.array([[0.2, 1.0, 0.0], [-0.3, 0.1, 0.4], [0.0, 0.2, -0.2]]), 1.0

    def slope(t, V):
        F = np.eye(3) + min(t, 0.5 * total) * np.asarray(rate)
        C = F.T @ F / np.linalg.det(F) ** (2 / 3)
        return (C - np.trace(C @ np.linalg.inv(V)) / 3 * V) / tau

    V, h = np.eye(3), total / 400
    for t in h * np.arange(400):
        a = slope(t, V)
        b = slope(t + h / 2, V + h / 2 * a)
        c = slope(t + h / 2, V + h / 2 * b)
        V = V + h / 6 * (a + 2 * b + 2 * c + slope(t + h, V + h * c))
    (coarse, _), (fine, (stresses, spent, apart, dets)) = (path(rate, total, n) for n in (100, 200))
    error = [np.abs(np.asarray(x) - V).max() for x in (coarse, fine)]
    assert error[1] < FIRST_ORDER * error[0] and error[1] < 5e-3
    assert np.abs(2 * fine - coarse - V).max() < 1e-4
    assert (spent > 0).all()  # [J/m^3] in each step
    np.testing.assert_allclose(dets, 1.0, atol=ROUND_OFF)
    # What a step computes with the old flow and the time step is the stress of the new flow.
    assert np.abs(apart).max() < 1e-10 * np.abs(stresses).max()


# --- statics and steps ---------------------------------------------------------------


def chain():
    """Two points of the plane with sliders to a wall and to each other, and a standard linear solid beside them."""
    links = Slider((("p", [0, 1]), ("p", [1, 2])), jnp.array([30.0, 40.0]), jnp.array([2.0, 3.0]))
    system = jm.System(
        {"p": jm.Vec2(), "q": jm.Vec1()},
        forces={
            "links": links,
            "hold": jm.force.AnchoredSprings(("p", [1, 2]), 60.0, [[1.0, 0.0], [2.0, 0.0]]),
            "load": jm.force.ConstantForce(("p", [2]), (30.0, 20.0)),
            "relaxing": Relaxing(("q", [0]), 5.0, 20.0, 0.3),
            "weight": jm.force.ConstantForce(("q", [0]), [2.0]),
        },
        masses={"p": jm.mass.UniformMass(("p", range(3)), 0.5), "q": jm.mass.UniformMass(("q", [0]), 0.1)},
        constraints={"wall": jm.constraint.Fixed(("p", [0]))},
    )
    start = eqx.tree_at(lambda s: s.forces["links"].slip, system, jnp.array([1.0, 0.0])).at_rest(
        {"p": [[0.0, 0.0], [1.0, 0.1], [2.0, -0.1]], "q": [[0.0]]}
    )
    return system, start


def numbers(system, theta):
    """The scene with other numbers: the limit of a slider, the modulus of a branch, a load."""
    return eqx.tree_at(
        lambda s: (s.forces["links"].limit, s.forces["relaxing"].stiffness, s.forces["load"].force),
        system,
        (theta[0] * system.forces["links"].limit, 20.0 * theta[1], theta[2] * system.forces["load"].force),
    )


@jax.jit
def outcome(state):
    """A number that depends on all that is in a state."""
    leaves = jax.tree.leaves((state.position, state.velocity, state.internal))
    return sum(jnp.sum(jnp.sin((i + 1) * a)) for i, a in enumerate(leaves))


def check_derivatives(function, at):
    """Forward equals reverse equals differences, in one direction, of a compiled `function(at)` of a state."""
    flat, back = jax.flatten_util.ravel_pytree(at)
    direction = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, flat.size))

    def along(t):
        return outcome(function(back(flat + t * direction)).state)

    forward, reverse = jax.jit(lambda t: (jax.jvp(along, (t,), (1.0,))[1], jax.grad(along)(t)))(0.0)
    np.testing.assert_allclose(forward, reverse, rtol=TWO_MODES)
    np.testing.assert_allclose(reverse, four_point(along, 1e-4), rtol=FINITE)


def unchanged(internal, start):
    for one, other in zip(jax.tree.leaves(internal), jax.tree.leaves(start.internal), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("newton", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_derivatives_of_a_trajectory_that_remembers(newton):
    """By numbers, by what was remembered at the start, and by the time step; what is saved, and what a failure leaves."""
    system, start = chain()
    linear_system = jm.MatrixLinearSystem.build(system, start)
    options = {"rtol": CONVERGED} if newton else {}
    integrator = jm.ImplicitEuler(linear_system, jm.solver.Dense(), newton=newton, **options)

    @jax.jit
    def run(inputs):
        theta, internal, dt = inputs
        begin = dataclasses.replace(start, internal=internal)
        return jm.simulate(numbers(system, theta), begin, integrator, dt, 4, checkpoint_every=4, throw=False)

    inputs = jnp.ones(3), start.internal, jnp.asarray(0.07)
    found = run(inputs)
    assert (found.info.result == jm.RESULTS.successful).all()
    slips = found.state.internal["links"]["slip"]
    assert slips.shape == (5, 2, 2) and np.ptp(slips, axis=0).max() > 0.05
    np.testing.assert_array_equal(slips[-1], found.last.internal["links"]["slip"])
    assert np.all(np.diff(found.state.internal["relaxing"]["flow"][:, 0]) > 0)
    check_derivatives(run, inputs)
    failed = run((jnp.array([1.0, 1.0, jnp.nan]), *inputs[1:]))
    assert (failed.info.result == jm.RESULTS.nonfinite_input).any()
    unchanged(failed.last.internal, start)


@pytest.mark.slow
def test_load_steps_go_through_what_lies_between():
    """A slip that a lesser load has caused stays; each step is accepted before the next; derivatives know all of them."""
    system, start = chain()
    linear_system = jm.MatrixLinearSystem.build(system, start, jm.Terms(mass=False, damping=False))
    options = {"rtol": CONVERGED, "throw": False, "dt": 0.6, "load_steps": 3}

    @jax.jit
    def end(inputs):
        begin = dataclasses.replace(start, internal=inputs[1])
        return jm.static_solve(numbers(system, inputs[0]), begin, linear_system, jm.solver.Dense(), **options)

    inputs = jnp.ones(3), start.internal
    steps = end(inputs)
    assert steps.info.result == jm.RESULTS.successful and steps.info.residuals.shape[0] == 3
    assert steps.state.time == 0.6

    # The same by hand, of thirds of the force that was out of balance at the start.
    missing = jm.total_force(jm.integrator.in_step(system, 0.2), start)
    brakes = {s: jm.force.ConstantForce((s, np.arange(len(f))), f) for s, f in missing.items()}
    braked = jm.System(system.dofs, forces=system.forces | brakes, constraints=system.constraints)
    state = start
    for load in (1 / 3, 2 / 3, 1.0):
        left = [(load - 1) * f for f in missing.values()]
        scene = eqx.tree_at(lambda s: [s.forces[n].force for n in missing], braked, left)
        state = jm.static_solve(scene, state, solver=jm.solver.Dense(), rtol=CONVERGED, dt=0.2).state
    for one, other in zip(jax.tree.leaves(steps.state), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    check_derivatives(end, inputs)
    failed = end((jnp.array([1.0, 1.0, jnp.nan]), start.internal))
    assert failed.info.result == jm.RESULTS.nonfinite_input and int(failed.info.fault.load_step) == 0
    assert (failed.info.residuals[1:] == -1).all()  # none is begun after it
    unchanged(failed.state.internal, start)


def test_creep_under_a_load_is_that_of_the_differential_equation():
    """`x = F/k (1 - k1/(k + k1) exp(-k t / (tau (k + k1))))` of a standard linear solid, to first order in the step."""
    system, start = chain()
    linear_system = jm.MatrixLinearSystem.build(system, start, jm.Terms(mass=False, damping=False))

    @partial(jax.jit, static_argnums=0)
    def crept(steps):
        def step(state, _):
            solution = jm.static_solve(system, state, linear_system, jm.solver.Dense(), dt=0.5 / steps, throw=False)
            return solution.state, solution.info.result == jm.RESULTS.successful

        end, good = jax.lax.scan(step, start, length=steps)
        return jnp.where(good.all(), end.position["q"][0, 0], jnp.nan)

    exact = 2.0 / 5.0 * (1 - 20.0 / 25.0 * np.exp(-5.0 * 0.5 / (0.3 * 25.0)))
    error = [abs(float(crept(n)) - exact) for n in (20, 40)]
    assert error[1] < FIRST_ORDER * error[0] and error[1] < 2e-3 * exact


@pytest.mark.slow
def test_batches_and_operators_remember():
    """`vmap` over what is remembered equals a loop; matrix-free products are those of the matrix."""
    system, start = chain()
    linear_system = jm.MatrixLinearSystem.build(system, start)
    integrator = jm.ImplicitEuler(linear_system, jm.solver.Dense())
    internal = jax.tree.map(lambda a: jnp.stack([a, a - 0.02, 0.5 * a]), start.internal)

    @jax.jit
    def step(internal):
        state = dataclasses.replace(start, internal=internal)
        end = integrator.step(system, state, None, 0.1, throw=False)[0]
        u = jax.tree.map(lambda v: jnp.ones_like(v), state.velocity)
        scene = jm.integrator.in_step(system, 0.1)
        products = [s.assemble(scene, state).mv(u) for s in (linear_system, jm.solver.MatrixFreeSystem())]
        own = jm.matrix.component_matrix(scene, state, "relaxing")["q", "q"].blocks
        return end, products, own, jm.energy(system, state)

    together = jax.jit(jax.vmap(step))(internal)
    for i in range(3):
        alone = step(jax.tree.map(lambda a, i=i: a[i], internal))
        for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(one[i], other, rtol=RECOMPILED, atol=RECOMPILED)
        for one, other in zip(*map(jax.tree.leaves, alone[1]), strict=True):
            np.testing.assert_allclose(one, other, rtol=RECOMPILED)
        np.testing.assert_allclose(alone[2], 5.0 + 20.0 / (1 + 0.1 / 0.3), rtol=ROUND_OFF)
    assert len(set(np.asarray(together[3]).tolist())) == 3


# --- numbers of Gauss points ---------------------------------------------------------


class Fibres(jm.material.AbstractMaterial):
    """`psi = k/2 ((F a)^2 - 1)^2` of fibres along `a`."""

    stiffness: jax.Array = jm.parameter()  # [Pa]
    direction: jax.Array = jm.parameter(ndim=1)
    needs_positive_volume = False

    def energy_density(self, F):
        stretched = F @ self.direction
        return 0.5 * self.stiffness * (stretched @ stretched - 1) ** 2


@pytest.mark.slow
def test_numbers_of_gauss_points():
    """Young's moduli and fibre directions of every point, against the sum over points by hand; and their derivatives."""
    mesh = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0), kind="quad")
    rng = np.random.default_rng(0)
    young, direction = jnp.asarray(rng.uniform(1, 2, (2, 4))), jnp.asarray(rng.uniform(-1, 1, (2, 4, 3)))
    x = mesh.points + 0.1 * rng.uniform(-1, 1, mesh.points.shape)

    laws = {"elastic": jm.material.LinearElastic(young, 0.3), "fibres": Fibres(3.0, direction)}
    scene = jm.System({"p": jm.Vec2()}, forces={n: jm.force.QuadFEM.from_mesh("p", mesh, law) for n, law in laws.items()})
    state = scene.at_rest({"p": x})

    @jax.jit
    def of_scene(young, direction):
        where = lambda s: (s.forces["elastic"].material.young, s.forces["fibres"].material.direction)  # noqa: E731
        system = eqx.tree_at(where, scene, (young, direction))
        linear_system = jm.solver.MatrixFreeSystem()
        zero = {"p": jnp.ones((6, 2)).at[0].set(2.0)}
        return jm.energy(system, state), (jm.total_force(system, state), linear_system.assemble(system, state).mv(zero))

    reference = jm.mesh.reference_element("quad")

    def by_hand(young, direction, x):
        points, weights = reference.quadrature("stiffness")
        gradients = reference.shape_gradients(points)
        total = 0.0
        for cell in range(2):
            for q in range(4):
                J = mesh.points[mesh.cells[cell]].T @ gradients[q]
                F = jnp.eye(3).at[:2, :2].set(x[mesh.cells[cell]].T @ gradients[q] @ jnp.linalg.inv(J))
                e = 0.5 * (F + F.T) - jnp.eye(3)
                mu, lam = young[cell, q] / 2.6, young[cell, q] * 0.3 / (1.3 * 0.4)
                a = F @ direction[cell, q]
                psi = mu * jnp.sum(e * e) + 0.5 * lam * jnp.trace(e) ** 2 + 1.5 * (a @ a - 1) ** 2
                total += weights[q] * jnp.linalg.det(J) * psi
        return total

    (value, (force, product)), slopes = jax.value_and_grad(of_scene, argnums=(0, 1), has_aux=True)(young, direction)
    force_of = jax.grad(by_hand, argnums=2)
    expected = jax.jit(jax.value_and_grad(by_hand, argnums=(0, 1, 2)))(young, direction, jnp.asarray(x))
    np.testing.assert_allclose(value, expected[0], rtol=ROUND_OFF)
    for one, other in zip((*slopes, -force["p"]), expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
    u = jnp.ones((6, 2)).at[0].set(2.0)
    Ku = jax.jit(lambda u: jax.jvp(lambda x: force_of(young, direction, x), (jnp.asarray(x),), (u,))[1])(u)
    np.testing.assert_allclose(product["p"], Ku, rtol=1e-11, atol=1e-11)


# --- what is refused -----------------------------------------------------------------


class Forgetful(jm.force.AbstractEnergyForceField):
    on: tuple[jm.Stencil, ...] = jm.stencils()
    slip: jax.Array = jm.component.internal()

    def element_energy(self, x):
        return jnp.sum((x - self.slip) ** 2)


class Wrong(Forgetful):
    def element_update(self, x, v):
        return {"slip": x[0]}


class Misspelt(Forgetful):
    def element_update(self, x, v):
        return {"slipp": self.slip}


class ForgetfulLaw(jm.material.AbstractMaterial):
    memory: jax.Array = jm.component.internal()
    needs_positive_volume = False

    def energy_density(self, F):
        return self.memory * F[0, 0]


def test_states_are_checked_leaf_by_leaf():
    system, start = chain()
    links = start.internal["links"]

    def with_links(**changes):
        return dataclasses.replace(start, internal=start.internal | {"links": links | changes})

    slip = links["slip"]
    only = {"links": links}
    cases = {
        "no internal variables of 'links'": jm.State(start.position, start.velocity, start.time),
        "no internal variables of 'relaxing'": dataclasses.replace(start, internal=only),
        "names 'nobody'": dataclasses.replace(start, internal=start.internal | {"nobody": {}}),
        r"'links' has the internal variables \['slip'\]": with_links(more=slip),
        r"slip of 'links' has shape \(1, 2\), expected \(2, 2\)": with_links(slip=slip[:1]),
        "slip of 'links' is not finite in element 1": with_links(slip=slip.at[1].set(jnp.nan)),
    }
    for message, state in cases.items():
        for function in (jm.total_force, jm.energy, jm.static_solve):
            with pytest.raises(ValueError, match=message):
                function(system, state)
    with pytest.raises(TypeError, match="slip of 'links' has dtype int"):
        jm.total_force(system, with_links(slip=slip.astype(int)))
    with pytest.raises(TypeError, match="internal of the state"):
        jm.total_force(system, dataclasses.replace(start, internal=None))


IMPOSSIBLE = [
    (jm.material.J2Plasticity(100.0, 0.3, 1.0), "accumulated", lambda a: a - 1, "accumulated must be at least 0"),
    (jm.material.J2Plasticity(100.0, 0.3, 1.0), "plastic_strain", lambda e: e + 0.1, "symmetric and without trace"),
    (jm.material.HenckyPlasticity(100.0, 0.3, 1.0), "plastic_gradient", lambda F: 2 * F, "of determinant 1"),
    (
        jm.material.ThermalExpansion(
            jm.material.ActiveStress(jm.material.J2Plasticity(100.0, 0.3, 1.0), 0.0, [1.0, 0.0, 0.0]), 0.0, 0.0
        ),
        "cold.passive.accumulated",
        lambda a: a - 1,
        "accumulated must be at least 0",
    ),
    (jm.material.Damage(jm.material.NeoHookean(100.0, 0.3), 0.01, 0.1), "worst", lambda k: k - 1, "worst must be"),
    (jm.material.Viscoelastic(jm.material.NeoHookean(100.0, 0.3), [50.0], [0.1]), "flow", lambda V: -V, "flow must be"),
]


def remembered(law, variable, change):
    """A cube, its state at rest, and that state with something that its law cannot have come to."""
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0), kind="hexahedron")
    system = jm.System(
        {"b": jm.Vec3()},
        forces={"solid": jm.force.HexahedronFEM.from_mesh("b", mesh, law)},
        masses={"mass": jm.mass.UniformMass(("b", range(8)), 1.0)},
        constraints={"clamp": jm.constraint.Fixed(("b", range(4)))},
    )
    start = system.at_rest({"b": mesh.points})
    of_solid = start.internal["solid"]
    changed = of_solid | {f"material.{variable}": change(of_solid[f"material.{variable}"])}
    return system, start, dataclasses.replace(start, internal={"solid": changed})


@pytest.mark.parametrize(("law", "variable", "change", "words"), IMPOSSIBLE)
def test_what_a_law_refuses_it_refuses_in_a_state(law, variable, change, words):
    system, start, state = remembered(law, variable, change)
    for function in (jm.total_force, jm.energy):
        with pytest.raises(ValueError, match=f"'solid'.*{words}"):
            function(system, state)
    jm.energy(system, start)


@pytest.mark.slow
@pytest.mark.parametrize(("law", "variable", "change", "words"), IMPOSSIBLE)
def test_what_a_law_refuses_ends_a_traced_step_with_a_result_of_its_own(law, variable, change, words):
    """Of the one member of a batch that has it, and nothing that this one remembers changes."""
    del words
    system, start, state = remembered(law, variable, change)
    scheme = jm.integrator.SymplecticEuler()
    step = jax.jit(jax.vmap(lambda s: scheme.step(system, s, None, 1e-4, throw=False)))
    last, _, info = step(jax.tree.map(lambda a, b: jnp.stack([a, b]), start, state))
    assert (info.result == jm.RESULTS.successful).tolist() == [True, False]
    assert (info.result == jm.RESULTS.internal_out_of_range).tolist() == [False, True]
    key = f"material.{variable}"
    assert jnp.array_equal(last.internal["solid"][key][1], state.internal["solid"][key])


@pytest.mark.slow
def test_an_equilibrium_from_what_a_law_refuses_has_a_result_of_its_own():
    system, start, state = remembered(*IMPOSSIBLE[0][:3])
    matrix = jm.MatrixLinearSystem.build(system, start, jm.Terms(mass=False, damping=False))
    found = jax.jit(lambda s: jm.static_solve(system, s, matrix, throw=False).info.result)(state)
    assert found == jm.RESULTS.internal_out_of_range


def test_components_are_checked_where_they_are_built():
    with pytest.raises(TypeError, match="Forgetful has internal variables, but no element_update"):
        Forgetful(("p", [0, 1]))
    with pytest.raises(TypeError, match="ForgetfulLaw has internal variables, but no point_update"):
        ForgetfulLaw()
    with pytest.raises(ValueError, match=r"Wrong: slip has shape \(3,\), expected one number"):
        Wrong(("p", [0, 1]), slip=jnp.zeros(3))
    for law, message in ((Wrong, r"returns slip of shape \(1,\), expected \(\)"), (Misspelt, r"returns \['slipp'\]")):
        system = jm.System({"p": jm.Vec1()}, forces={"law": law(("p", [0, 1]), slip=[0.5, 1.0])})
        with pytest.raises(ValueError, match="'law'.*" + message):
            system.at_rest({"p": jnp.zeros((2, 1))})
    plastic = jm.material.J2Plasticity(jnp.ones((1, 3)), NU, YIELD)
    with pytest.raises(ValueError, match=r"QuadFEM: material.young has shape \(1, 3\), .*\(1, 4\) \(one per Gauss point\)"):
        jm.force.QuadFEM.from_mesh("p", TILE, plastic)
    with pytest.raises(ValueError, match=r"thickness has shape \(1, 4\)"):
        jm.force.QuadFEM.from_mesh("p", TILE, jm.material.NeoHookean(E, NU), thickness=jnp.ones((1, 4)))


def test_scenes_without_memory_are_as_they_were():
    system, start = chain()
    plain = jm.System(system.dofs, forces={n: system.forces[n] for n in ("hold", "load")}, masses=system.masses)
    state = plain.at_rest(start.position)
    assert state.internal == {} and len(jax.tree.leaves(state)) == 5
    assert with_internal(plain, state) is plain
    assert jm.integrator.in_step(plain, 0.1) is plain
    assert jm.integrator.accepted(plain, state, state, 0.1) is state
    assert jm.State(state.position, state.velocity, state.time).internal == {}


@pytest.mark.parametrize("internal", [None, (), 0])
def test_internal_variables_that_are_no_mapping_are_refused_in_any_scene(internal):
    """Of a scene without memory too, where nobody looks for them."""
    system = jm.System({"p": jm.Vec1()}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
    rest = system.at_rest({"p": [[0.0]]})
    with pytest.raises(TypeError, match="internal of the state"):
        jm.total_force(system, jm.State(rest.position, rest.velocity, rest.time, internal))
