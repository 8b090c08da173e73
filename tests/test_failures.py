"""Every failure that is injected ends in its own result, and is raised once, in words that name what and where."""

import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm
from jaxmech._runtime import raise_if as _raise
from jaxmech._runtime.devices import on_cpu
from jaxmech._runtime.failure_messages import describe
from jaxmech._runtime.precision import compiled

pytestmark = pytest.mark.quick

STATIC = jm.Terms(mass=False, damping=False)
# As JAX raises it: the one when a result is waited for, the other at once, out of a short program.
RAISED = (jax.errors.JaxRuntimeError, ValueError)
POINTS = np.vstack([np.zeros(3), np.eye(3)])
FINE = {"young": 100.0, "force": 1.0, "mass": 1.0, "height": 1.0, "dt": 0.02}


def built(masses):
    system = jm.System(
        {"cell": jm.Vec3()},
        forces={
            "elastic": jm.force.TetrahedronFEM(("cell", [[0, 1, 2, 3]]), POINTS, jm.material.NeoHookean(100.0, 0.3)),
            "push": jm.force.ConstantForce(("cell", [3]), [1.0, 2.0, -3.0]),
        },
        masses={"mass": jm.mass.UniformMass(("cell", range(4)), 1.0)} if masses else {},
        constraints={"base": jm.constraint.Fixed(("cell", [0, 1, 2]))},
    )
    return system, system.at_rest({"cell": POINTS})


def changed(system, state, young, force, mass, height, dt):
    system = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, jnp.asarray(young))
    system = eqx.tree_at(lambda s: s.forces["push"].force, system, force * system.forces["push"].force)
    if system.masses:
        system = eqx.tree_at(lambda s: s.masses["mass"].mass, system, jnp.asarray(mass))
    return system, eqx.tree_at(lambda s: s.position["cell"], state, state.position["cell"].at[3, 2].set(height))


def static():
    system, state = built(masses=False)
    linear_system = jm.MatrixLinearSystem.build(system, state, STATIC)
    return lambda throw, **t: (lambda found: (found.position["cell"], found.info.result))(
        jm.static_solve(*changed(system, state, **t), linear_system, load_steps=2, throw=throw)
    )


def trajectory():
    system, state = built(masses=True)
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))

    def run(throw, **t):
        found = jm.simulate(*changed(system, state, **t), integrator, t["dt"], 3, throw=throw)
        failed = found.info.result != jm.RESULTS.successful
        return found.last.position["cell"], jax.tree.map(lambda a: a[jnp.argmax(failed)], found.info.result)

    return run


RUNS = {"static_solve": static, "simulate": trajectory}
INJECTED = {
    "static_solve": [
        ({"force": np.nan}, "nonfinite_input", "'push': force has values that are not finite"),
        ({"young": np.inf}, "nonfinite_input", "'elastic': material.young has values that are not finite"),
        ({"height": -0.5}, "inverted_element", "'elastic': element 0 is inverted"),
        ({"young": 0.0}, "singular", "singular: state 'cell' can move freely .* Constrain its nodes"),
        ({"force": 1e5}, "inverted_element", "load step [12] of 2: 'elastic': element 0 is inverted"),
    ],
    "simulate": [
        ({"dt": np.nan}, "nonfinite_input", "step 0: the time step dt has values that are not finite"),
        ({"mass": np.nan}, "nonfinite_input", "step 0: 'mass': mass has values that are not finite"),
        ({"height": -0.5}, "inverted_element", "step 0: 'elastic': element 0 is inverted"),
        ({"young": 0.0, "mass": 0.0}, "singular", "step 0: .*state 'cell' can move freely .* mass"),
        ({"force": 150.0}, "inverted_element", "step [12]: 'elastic': element 0 is inverted"),
    ],
}


def alone(message, words):
    """The words in the message of a compiled program: all of it on a CPU; where the host raises, the last line."""
    (line,) = [line for line in message.splitlines() if re.search(words, line)]
    assert line == message or not on_cpu()
    return line.rpartition("FailedComputation: ")[2]


@pytest.mark.slow_cases("simulate")
@pytest.mark.parametrize("run", RUNS)
def test_each_failure_has_its_own_result_and_says_what_and_where(run, capfd):
    solve = RUNS[run]()
    raising = jax.jit(lambda t: solve(True, **t)[0])
    silent = jax.jit(jax.vmap(lambda t: solve(False, **t)[1]))
    results = silent({k: jnp.asarray([v, *(case.get(k, v) for case, _, _ in INJECTED[run])]) for k, v in FINE.items()})
    assert str(results).replace("\n", "") == f"RESULTS[successful, {', '.join(r for _, r, _ in INJECTED[run])}]"
    jax.block_until_ready(raising(FINE))
    for case, result, words in INJECTED[run]:
        with pytest.raises(RAISED, match=f"{run}, .*{words}") as caught:
            jax.block_until_ready(raising(FINE | case))
        assert len(alone(str(caught.value), words)) < 400
        if "dt" in case:
            continue  # refused at once, where it can be looked at
        with pytest.raises(jm.FailedComputation, match=f"{run}, .*{words}") as caught:
            solve(True, **(FINE | case))
        assert "\n" not in str(caught.value)
        assert caught.value.result == getattr(jm.RESULTS, result)
    assert not capfd.readouterr().err


def test_members_of_a_batch_are_named():
    """The first that failed, and how many more; the numbers are those of this member."""
    names = {"who": "solve", "given": ["load"], "states": ["state 'rope' can move freely."]}
    told = {"result": jnp.asarray(0), "time_step": jnp.asarray(7)}

    def checked(x, number):
        result = jnp.where(number > 1, jm.RESULTS.singular._value, jm.RESULTS.successful._value)
        return _raise.raise_if(x, number > 1, names, told | {"result": result, "unconstrained_state": number - 2})

    run = jax.jit(jax.vmap(jax.vmap(checked)))
    x = jnp.zeros((2, 3))
    np.testing.assert_array_equal(run(x, jnp.zeros((2, 3), int)), x)
    with pytest.raises(RAISED) as caught:
        jax.block_until_ready(run(x, jnp.array([[0, 0, 0], [0, 2, 3]])))
    assert "solve, batch member 4 and 1 more of 6, step 7: the matrix is singular: state 'rope'" in str(caught.value)


@pytest.mark.parametrize(
    "load_step, residuals, on_the_way", [(0, [3.0, -1.0], False), (0, [3.0, 2.0], True), (1, [3.0, -1.0], True)]
)
def test_a_matrix_that_became_singular_is_told_from_one_that_was(load_step, residuals, on_the_way):
    names = {"who": "solve", "load_steps": 2, "states": ["state 'rope' can move freely."]}
    told = {"failed": True, "result": jm.RESULTS.singular._value, "unconstrained_state": 0, "load_step": load_step}
    said = describe(names, *_raise.in_row(told, (jnp.array([residuals]), jnp.asarray(0.1))))
    assert "state 'rope' can move freely" in said
    assert ("became singular" in said and "more load steps" in said) == on_the_way
    laws = _raise.in_row(told | {"load_step": -1}, (jnp.array([0.0, 0.0, 0.0]), jnp.asarray(0.1)))
    assert "became" not in describe(names | {"contacts": [("floor", 2)]}, *laws)


def test_where_there_are_no_foreign_functions_the_host_raises(monkeypatch, capfd):
    monkeypatch.setattr(_raise, "_registered", lambda: False)
    run = jax.jit(lambda x: _raise.raise_if(x, x > 0, {"who": "solve"}, {"result": jm.RESULTS.singular._value}))
    assert run(-1.0) == -1.0
    with pytest.raises(RAISED, match="FailedComputation: solve: the matrix is singular"):
        jax.block_until_ready(run(1.0))
    assert not capfd.readouterr().err


def test_a_function_of_ours_that_is_compiled_says_it_in_one_line_all_the_same(monkeypatch):
    """Where the host raises, as where a foreign function does."""
    said = []
    for known in (True, False):
        if not known:
            monkeypatch.setattr(_raise, "_registered", lambda: False)
        run = compiled(lambda x: _raise.raise_if(x, x > 0, {"who": "solve"}, {"result": jm.RESULTS.singular._value}))
        with pytest.raises(RAISED) as caught:
            run(jnp.asarray(1.0))
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1] and "\n" not in said[0][1]


def test_a_program_whose_numbers_are_placeholders_does_not_fail():
    """As optimistix evaluates a linear function before it has one: with zeros in the place of all arrays."""
    at = jnp.ones(3)

    def held(x):
        return _raise.raise_if(x, jnp.sum(at) * x < 1, {"who": "held"}, {})

    program = eqx.filter_closure_convert(held, jnp.ones(()))
    nil = jax.tree.map(lambda a: np.zeros_like(a) if eqx.is_array(a) else a, program)
    assert eqx.filter_jit(nil)(jnp.ones(())) == 1
    with pytest.raises(Exception, match="held"):
        jax.block_until_ready(eqx.filter_jit(program)(jnp.zeros(())))


def test_derivatives_pass_a_check():
    """In both modes, and twice."""

    def cubed(x):
        return _raise.raise_if(x**3, x < 0, {"who": "cube"}, {})

    assert jax.grad(jax.grad(cubed))(2.0) == 12.0
    assert jax.jit(jax.jvp, static_argnums=0)(cubed, (2.0,), (1.0,))[1] == 12.0


@pytest.mark.slow_cases("True", "False")
@pytest.mark.parametrize("throw", [True, False])
def test_a_derivative_that_fails_alone(throw):
    """An equilibrium that was there from the start takes no linear solve; its adjoint does, and more steps than allowed."""
    chain = jm.force.AnchoredSprings((("rope", range(9)), ("rope", range(1, 10))), jnp.linspace(1.0, 2.0, 9))
    load = jm.force.ConstantForce(("rope", range(10)), np.zeros((10, 2)))
    hold = {"end": jm.constraint.Fixed(("rope", [0]))}
    system = jm.System({"rope": jm.Vec2()}, forces={"chain": chain, "load": load}, constraints=hold)
    state = system.at_rest({"rope": np.zeros((10, 2))})
    linear_system = jm.MatrixLinearSystem.build(system, state, STATIC)

    @jax.jit
    def slope(force):
        def place(force):
            loaded = eqx.tree_at(lambda s: s.forces["load"].force, system, force)
            found = jm.static_solve(loaded, state, linear_system, jm.solver.PCG(max_steps=2), throw=throw)
            return found.position["rope"][-1, 0]

        return jax.grad(place)(force)

    if throw:
        with pytest.raises(RAISED, match="the derivative of static_solve: .* as many steps as it may"):
            jax.block_until_ready(slope(jnp.zeros((10, 2))))
    else:
        assert np.isnan(slope(jnp.zeros((10, 2)))).all()


def test_a_step_in_which_a_frame_turns_too_far_says_so():
    """A top on its pin: at 36 rad/s a tenth of a second is more than half a turn, and a failed step says so."""
    pin = jm.constraint.BallJoint(("top", [0]), frame_b=jm.constraint.frame([0.0, 0.0, -0.15]))
    system = jm.System(
        {"top": jm.Rigid3()},
        masses={"m": jm.mass.RigidMass(("top", [0]), 1.0, np.diag([0.02, 0.01, 0.004]))},
        constraints={"pin": pin},
        gravity=(0.0, 0.0, -9.81),
    )
    rest = system.at_rest({"top": [[0.0, 0.0, 0.15, 0.0, 0.0, 0.0, 1.0]]})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, rest), newton=True, max_steps=3)

    def result(speed, dt):
        spin = speed * np.array([0.3, 20.0, 30.0])
        motion = jnp.array([[*np.cross(spin, [0.0, 0.0, 0.15]), *spin]])
        start = eqx.tree_at(lambda s: s.velocity["top"], rest, motion)
        return integrator.step(system, start, None, dt, throw=False)[2].result

    assert result(1.0, 0.1) == jm.RESULTS.more_than_half_a_turn
    assert result(1.0, 0.05) == jm.RESULTS.not_converged  # 1.8 rad, in too few iterations as well


def test_results_print_their_names():
    assert str(jm.RESULTS.successful) == repr(jm.RESULTS.successful) == "RESULTS.successful"
    both = jax.vmap(lambda p: jm.RESULTS.where(p, jm.RESULTS.singular, jm.RESULTS.successful))(jnp.array([True, False]))
    assert str(both) == "RESULTS[singular, successful]"
    jax.jit(lambda p: str(jm.RESULTS.where(p, jm.RESULTS.singular, jm.RESULTS.successful)))
    for name, item in jm.RESULTS._name_to_item.items():
        assert str(item) == f"RESULTS.{name}" and "restart" not in jm.RESULTS[item]


def test_every_result_is_documented():
    page = (Path(__file__).parents[1] / "docs" / "precision_and_errors.md").read_text()
    table = page[page.index("| `RESULTS` |") : page.index("## How failures")]
    assert [name for name in jm.RESULTS._name_to_item if f"`{name}`" not in table] == []
