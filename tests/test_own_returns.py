"""What functions of a user return, of other forms than asked for: named, with what came and what was expected."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

BALL = jm.System(
    {"ball": jm.Vec2()},
    forces={"spring": jm.force.AnchoredSprings(("ball", [0]), 40.0, [[0.0, 0.0]])},
    masses={"mass": jm.mass.UniformMass(("ball", [0]), 1.0)},
    gravity=[0.0, -9.81],
)
START = BALL.at_rest({"ball": [[1.0, 0.5]]})
STEPS = jm.integrator.SymplecticEuler(check_step=False)


class Own(jm.integrator.AbstractIntegrator):
    """Symplectic Euler, of which something else is returned."""

    changed: callable = eqx.field(static=True)

    def step(self, system, state, carry, dt, *, throw=True):
        return self.changed(*STEPS.step(system, state, STEPS.init(system, state), dt, throw=throw), state)


class OwnError(Own):
    """The same, with an error of its own."""

    error: callable = eqx.field(static=True)

    def step_with_error(self, system, state, carry, dt, *, throw=True):
        return self.error(self.step(system, state, carry, dt, throw=throw))


def with_position(state, x):
    return dataclasses.replace(state, position={"ball": x})


def right(end, carry, info, start):
    return end, None, info


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda end, carry, info, start: (end, None, None), "whose `result` is of RESULTS (StepInfo, say), got None"),
        (lambda end, carry, info, start: (end, None, {"result": 0}), "whose `result` is of RESULTS"),
        (lambda end, carry, info, start: (end, info), "must return (state, carry, info), got (a State, StepInfo("),
        (lambda end, carry, info, start: None, "must return (state, carry, info), got None"),
        (lambda end, carry, info, start: (end.position, None, info), "must return a State, got dict"),
        (lambda end, carry, info, start: (with_position(end, jnp.zeros(2)), None, info), "made position['ball'] float64 of"),
        (
            lambda end, carry, info, start: (end, end.velocity, info),
            "a carry of the form of that of `init`, None, got {",
        ),
    ],
    ids=["no info", "no result", "two", "nothing", "no state", "another shape", "a carry that init has not"],
)
def test_a_step_of_another_form_is_told_what_it_must_return(changed, said):
    with pytest.raises((TypeError, ValueError), match=re.escape("Own.step ") + ".*" + re.escape(said)):
        jm.simulate(BALL, START, Own(changed), 0.01, 2)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (lambda step: step, "must return (state, carry, info, (dx, dv)), got (a State"),
        (lambda step: (*step, 0.1), "must return an error (dx, dv) of two dictionaries of shapes {'ball': (1, 2)}, got 0.1"),
        (lambda step: (*step, ({}, {})), "must return an error (dx, dv)"),
    ],
    ids=["none", "a number", "of no state"],
)
def test_an_error_of_another_form_is_told_what_it_must_be(error, said):
    with pytest.raises(TypeError, match=re.escape(f"OwnError.step_with_error {said}")):
        jm.simulate_adaptive(BALL, START, OwnError(right, error), [0.1], rtol=1e-3, atol=1e-3)


def test_adaptive_steps_count_the_time_for_a_scheme_that_does_not():
    """As `simulate` does: steps that were taken at one time would be taken until the first output time."""

    def timeless(end, carry, info, start):
        return dataclasses.replace(end, time=start.time), None, info

    runs = [
        jm.simulate_adaptive(BALL, START, Own(changed), [0.2], rtol=1e-3, atol=1e-3, max_steps=300)
        for changed in (right, timeless)
    ]
    assert int(runs[0].info.accepted) > 5
    assert eqx.tree_equal(*runs)


# --- control, events ---------------------------------------------------------------------------------------------------


class Remembering(jm.integrator.AbstractControl):
    first: callable = eqx.field(static=True)
    returned: callable = eqx.field(static=True)

    def init(self, system, state):
        return self.first()

    def __call__(self, time, state, parameters, memory):
        return self.returned(memory)


@pytest.mark.parametrize(
    ("first", "returned", "said"),
    [
        (lambda: 0, lambda m: ({}, m + 0.5), "a memory of the types of `init`: int64, got float64"),
        (lambda: 0.0, lambda m: {}, "must return (numbers, memory), got {}"),
        (lambda: 0.0, lambda m: ({}, m, m), "must return (numbers, memory)"),
    ],
    ids=["a memory cut to whole numbers", "no memory", "three"],
)
def test_a_control_that_remembers_is_told_what_it_must_return(first, returned, said):
    with pytest.raises(TypeError, match=re.escape(said)):
        jm.simulate(BALL, START, STEPS, 0.01, 2, control=Remembering(first, returned))


def test_control_takes_whole_numbers_and_refuses_truth_values():
    """Whether what a linear system keeps depends on them is read from derivatives, which whole numbers have not."""
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(BALL, START))

    def end(stiffness, gravity):
        values = {"spring": {"stiffness": stiffness}, "gravity": gravity}
        return jm.simulate(BALL, START, euler, 0.01, 2, control=lambda time, state, parameters: values).last

    assert eqx.tree_equal(end(30, [0, -8]), end(30.0, jnp.array([0.0, -8.0])))
    with pytest.raises(TypeError, match="control of 'spring': stiffness must be real numbers, got True"):
        end(True, [0, -8])


@pytest.mark.parametrize("value", [None, (1.0, 2.0)])
def test_an_event_that_is_no_number_is_told_so(value):
    event = jm.integrator.Event(lambda system, state: value)
    with pytest.raises(TypeError, match=re.escape(f"Event: function must return one number, got {value}")):
        jm.simulate_adaptive(BALL, START, STEPS, [0.1], rtol=1e-3, atol=1e-3, events=[event])


# --- components --------------------------------------------------------------------------------------------------------


class Push(jm.force.AbstractForceField):
    on: jm.Stencils = jm.stencils()
    given: callable = eqx.field(static=True)

    def element_force(self, x, v):
        return self.given(x)


class Store(jm.force.AbstractEnergyForceField):
    on: jm.Stencils = jm.stencils()

    def element_energy(self, x):
        return (x @ x,)


@pytest.mark.parametrize(
    ("component", "said"),
    [
        (Push(("ball", [0]), lambda x: -x[0]), "it returns one array, expected a tuple of arrays, one for each stencil"),
        (Push(("ball", [0]), lambda x: {"ball": -x[0]}), "it returns dict, expected a tuple of arrays, one for each"),
        (Store(("ball", [0])), "it returns tuple, expected one array"),
    ],
    ids=["a force by itself", "forces by name", "an energy in brackets"],
)
def test_an_element_function_is_told_what_it_must_return(component, said):
    with pytest.raises(ValueError, match=re.escape("'own': ") + ".*" + re.escape(said)):
        jm.System({"ball": jm.Vec2()}, forces={"own": component}).at_rest({"ball": [[1.0, 0.5]]})


class Law(jm.material.AbstractMaterial):
    stiffness: jm.Parameter = jm.parameter()
    given: callable = eqx.field(static=True)
    needs_positive_volume = False

    def energy_density(self, F):
        return self.given(F)


class UpdateLaw(jm.material.AbstractUpdateLaw):
    given: callable = eqx.field(static=True)
    count: jm.Parameter = jm.component.internal()
    needs_positive_volume = False

    def update(self, F, old, dt):
        return self.given(F)


class StressLaw(jm.material.AbstractStressLaw):
    given: callable = eqx.field(static=True)
    count: jm.Parameter = jm.component.internal()
    needs_positive_volume = False

    def update(self, F, old, dt):
        return self.given(F)


CUBE = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))


def solid(law):
    kind = jm.force.StressSolidFEM if isinstance(law, StressLaw) else jm.force.SolidFEM
    scene = jm.System({"cube": jm.Vec3()}, forces={"solid": kind.from_mesh("cube", CUBE, law)})
    return scene, scene.at_rest({"cube": CUBE.points})


@pytest.mark.parametrize(
    ("law", "said"),
    [
        (Law(1.0, lambda F: jnp.sum((F - jnp.eye(3)) ** 2, axis=0)), "Law returns float64 of shape (3,), expected one real"),
        (Law(1.0, lambda F: 3), "energy_density of Law returns 3, expected one real number"),
        (Law(1.0, lambda F: None), "energy_density of Law returns None, expected one real number"),
        (UpdateLaw(lambda F: jnp.sum(F)), "update of UpdateLaw must return (psi, new), new a dictionary, got"),
        (UpdateLaw(lambda F: (F, {})), "energy_density of UpdateLaw returns float64 of shape (3, 3), expected one real"),
        (StressLaw(lambda F: F), "update of StressLaw must return (P, new), new a dictionary, got"),
        (StressLaw(lambda F: (jnp.zeros(6), {})), "update of StressLaw returns a stress of shape (6,), expected (3, 3)"),
    ],
    ids=["three energies", "a whole number", "nothing", "no memory", "a stress", "no new", "six stresses"],
)
def test_a_law_is_told_what_it_must_return(law, said):
    with pytest.raises(ValueError, match=re.escape("'solid': ") + ".*" + re.escape(said)):
        solid(law)


@pytest.mark.parametrize("law", [UpdateLaw(lambda F: (jnp.sum(F), {"count": 1})), StressLaw(lambda F: (F, {"count": 1.0}))])
def test_what_a_law_remembers_may_be_a_plain_number(law):
    scene, rest = solid(law)
    after = jm.integrator.accepted(scene, rest, rest, 0.1).internal["solid"]["material.count"]
    assert after.dtype == rest.internal["solid"]["material.count"].dtype and (after == 1.0).all()


class Rail(jm.constraint.AbstractProjectiveConstraint):
    on: jm.Stencils = jm.stencils()
    projector: callable = eqx.field(static=True)
    target: callable = eqx.field(static=True, default=lambda: jnp.zeros(2))
    is_homogeneous = False

    def element_projector(self, dof):
        return self.projector()

    def element_target(self, dof, x, time):
        return self.target()


@pytest.mark.parametrize(
    ("rail", "said"),
    [
        (Rail(("ball", [0]), lambda: None), "element_projector of Rail returns None, expected an array of shape (2, 2)"),
        (Rail(("ball", [0]), lambda: jnp.array([1.0, 0.0])), "returns float64 of shape (2,), expected real (2, 2)"),
        (Rail(("ball", [0]), lambda: jnp.ones((2, 2))), "at node 0, which is no projector (P = P^T, P = P P): divide"),
        (Rail(("ball", [0]), lambda: jnp.eye(2), lambda: (0.0, 0.1)), "element_target of Rail returns (0.0, 0.1), expected"),
    ],
    ids=["nothing", "its diagonal", "a direction that is not of length 1", "a target in brackets"],
)
def test_a_projective_constraint_is_told_what_it_must_return(rail, said):
    with pytest.raises(ValueError, match=re.escape("'rail': ") + ".*" + re.escape(said)):
        jm.System({"ball": jm.Vec2()}, constraints={"rail": rail}).at_rest({"ball": [[1.0, 0.5]]})


def test_a_projector_of_a_unit_direction_passes_in_both_precisions():
    n = np.array([1.0, 1.0]) / np.sqrt(2.0)
    for dtype in (jnp.float32, jnp.float64):
        rail = Rail(("ball", [0]), lambda dtype=dtype: jnp.asarray(np.outer(n, n), dtype))
        jm.System({"ball": jm.Vec2()}, constraints={"rail": rail}).at_rest({"ball": jnp.ones((1, 2), dtype)})
        jax.jit(lambda x, rail=rail: jm.System({"ball": jm.Vec2()}, constraints={"rail": rail}).at_rest({"ball": x}))(
            jnp.ones((1, 2), dtype)
        )


# --- equations of one's own --------------------------------------------------------------------------------------------


class Rest(jm.solver.AbstractEquilibrium):
    """Where the ball hangs; what its residual returns is made of the forces."""

    system: jm.System
    linear_system: jm.solver.AbstractLinearSystem
    given: callable = eqx.field(static=True)
    factors = jm.Factors(mass=0.0, damping=0.0, stiffness=1.0)

    def state(self, u):
        return with_position(START, START.position["ball"] + u["ball"])

    def residual(self, u):
        return self.given(jm.total_force(self.system, self.state(u)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda f: None, "got None"),
        (lambda f: [f["ball"]], "got [ShapeDtypeStruct("),
        (lambda f: {"ball": f["ball"][0]}, "{state: (nodes, deriv_size)}, {'ball': (1, 2)}, got {'ball': (2,)}"),
        (lambda f: {}, "got {}"),
    ],
    ids=["nothing", "a list", "another shape", "no state"],
)
def test_a_residual_is_told_what_it_must_return(given, said):
    rest = Rest(BALL, jm.MatrixLinearSystem.build(BALL, START), given)
    with pytest.raises(TypeError, match=re.escape("Rest.residual must return") + ".*" + re.escape(said)):
        jm.solver.solve_equilibrium(rest, {"ball": jnp.zeros((1, 2))})


@pytest.mark.parametrize("name", ["flux", "source"])
def test_a_weak_form_that_forgets_to_return_is_not_taken_for_nothing(name):
    plate = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0))
    heat = jm.force.WeakForm.from_mesh("u", plate, **{name: lambda *at: None})
    with pytest.raises(ValueError, match=f"'heat': .*{name} returns None, expected numbers"):
        jm.System({"u": jm.Vec1()}, forces={"heat": heat}).at_rest({"u": np.zeros((4, 1))})
