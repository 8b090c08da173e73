"""Parameters from measurements: what is found, what is said of it, what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

I = jm.identify
SLOPE = np.linspace(0.0, 1.0, 12)
NOISE = 0.01


def line(p):
    return p["a"] + p["b"] * SLOPE


def readings(a=0.5, b=2.0, seed=0):
    return a + b * SLOPE + NOISE * np.random.default_rng(seed).normal(size=len(SLOPE))


def both(**options):
    return {"a": I.Free(1.0, **options), "b": I.Free(1.0, **options)}


def test_a_line_is_fitted_as_linear_regression_does():
    X = np.stack([np.ones_like(SLOPE), SLOPE], axis=1)
    data = readings()
    expected = np.linalg.solve(X.T @ X, X.T @ data)
    found = I.fit(I.Formula(line, data, noise=NOISE), both())
    np.testing.assert_allclose(found.values, expected, rtol=1e-8)
    chi2 = np.sum((X @ expected - data) ** 2) / NOISE**2
    covariance = np.linalg.inv(X.T @ X) * NOISE**2 * max(1.0, chi2 / 10)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-6)
    np.testing.assert_allclose(found.chi_squared, chi2, rtol=1e-8)
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    np.testing.assert_allclose(found.correlations[0, 1], correlation, rtol=1e-6)
    assert found.degrees == 10 and found.count == 12 and found.converged
    assert "forward mode" in found.method and "chi^2" in str(found)


def test_standard_errors_are_the_scatter_of_many_fits():
    fits = np.array([I.fit(I.Formula(line, readings(seed=s), noise=NOISE), both()).values for s in range(60)])
    one = I.fit(I.Formula(line, 0.5 + 2.0 * SLOPE, noise=NOISE), both())
    np.testing.assert_allclose(fits.std(axis=0, ddof=2), one.standard_errors, rtol=0.3)


def test_transforms_change_nothing_but_the_way():
    data = readings()
    values = [
        I.fit(I.Formula(line, data, noise=NOISE), both(**o)) for o in ({}, {"lower": 0.0}, {"lower": 0.0, "upper": 9.0})
    ]
    for other in values[1:]:
        np.testing.assert_allclose(other.values, values[0].values, rtol=1e-6)
        np.testing.assert_allclose(other.standard_errors, values[0].standard_errors, rtol=1e-5)
    for free in (I.Free(2.0, upper=5.0), I.Free(2.0, lower=1.0), I.Free(2.0, lower=1.0, upper=5.0), I.Free(2.0)):
        np.testing.assert_allclose(free.unknown(free.value(jnp.asarray(0.3))), 0.3, rtol=1e-12)
        assert np.allclose(free.value(jnp.asarray(0.0)), 2.0)


def test_several_experiments_share_parameters_and_have_their_own():
    one, two = (
        I.Formula(lambda p: line(p) + p["offset"][0], readings(), noise=NOISE),
        I.Formula(line, readings(), noise=NOISE),
    )
    found = I.fit({"one": one, "two": two}, both() | {"offset": [I.Free(0.1, unit="m"), 3.0]})
    assert found.names == ["a", "b", "offset[0]"] and abs(found.parameters["offset"][0]) < 1e-8
    assert found.parameters["offset"][1] == 3.0 and found.units == ["", "", "m"]


def test_missing_values_count_for_nothing():
    data = readings()
    data[4] = np.nan
    gone = I.fit(I.Formula(lambda p: line(p)[np.arange(12) != 4], data[np.arange(12) != 4], noise=NOISE), both())
    found = I.fit(I.Formula(line, data, noise=NOISE), both())
    np.testing.assert_allclose(found.values, gone.values, rtol=1e-9)
    assert found.count == 11 and np.isnan(found.residuals["experiment"]["values"][4])


def test_a_robust_loss_bounds_outliers():
    data = readings()
    data[[2, 7]] += 0.5
    pulled, found = (I.fit(I.Formula(line, data, noise=NOISE), both(), huber=h) for h in (None, 1.5))
    assert np.abs(found.values - [0.5, 2.0]).max() < 0.03 < np.abs(pulled.values - [0.5, 2.0]).max()
    assert "robust" in found.errors_from
    one = I.Formula(line, np.where(np.arange(12) == 3, 1.4, readings()), noise=0.03)
    assert any("Outliers" in note for note in I.fit(one, both()).notes)


def test_priors_join_the_residuals():
    data = readings()
    found = I.fit(
        I.Formula(line, data, noise=1e3), {"a": I.Free(1.0, prior=(0.7, 0.01)), "b": I.Free(1.0, prior=(3.0, 0.1))}
    )
    np.testing.assert_allclose(found.values, [0.7, 3.0], rtol=1e-5)
    np.testing.assert_allclose(found.standard_errors, [0.01, 0.1], rtol=1e-5)


def test_a_prior_keeps_its_deviation_where_the_data_scatter_more_than_their_noise():
    data, noise, deviation = np.array([1.0, 1.4, 0.6, 1.1, 0.9]), 0.02, 0.03
    free = {"m": I.Free(1.0, prior=(1.0, deviation)), "n": I.Free(1.0, prior=(2.0, 0.1))}
    found = I.fit(I.Formula(lambda p: p["m"] * jnp.ones(5), data, noise=noise), free)
    told, known = len(data) / noise**2, 1 / deviation**2
    scatter = found.chi_squared / found.degrees
    expected = [np.sqrt(scatter * told + known) / (told + known), 0.1]
    np.testing.assert_allclose(found.standard_errors, expected, rtol=1e-6)


@pytest.mark.parametrize("own", ["priors", "penalty"])
def test_what_a_prior_hardly_tells_takes_a_degree_of_freedom(own):
    """A line through 6 readings whose noise is three times what was said: 4 degrees of freedom, as without a prior that
    allows all, or a penalty on both of its ends. Of one that holds its parameter, 5."""
    x = np.linspace(0.0, 1.0, 6)
    data = 0.5 + 2.0 * x + 3 * NOISE * np.random.default_rng(1).normal(size=6)
    formula = I.Formula(lambda p: (1 - x) * p["ends"][0] + x * p["ends"][1], data, noise=NOISE)
    weak = {"prior": (0.0, 1e4)} if own == "priors" else {"penalty": I.Tikhonov(1e-8, pairs=[[0, 1], [0, 1], [0, 1]])}
    alone, found = (I.fit(formula, {"ends": I.Free([1.0, 1.0], **options)}) for options in ({}, weak))
    assert alone.degrees == 4
    np.testing.assert_allclose(found.degrees, 4, rtol=1e-6)
    np.testing.assert_allclose(found.standard_errors, alone.standard_errors, rtol=1e-5)
    held = I.fit(formula, {"ends": I.Free([1.0, 1.0], penalty=I.Tikhonov(1e9, pairs=[[0, 1]]))})
    np.testing.assert_allclose(held.degrees, 5, rtol=1e-3)


def test_a_parameter_at_its_bound_is_not_called_silent():
    free = {"a": I.Free(0.1, lower=0.0, upper=0.3), "b": 2.0}
    found = I.fit(I.Formula(line, readings(), noise=1e-6), free)
    assert not found.silent and not found.unidentified and any("upper bound" in note for note in found.notes)


def test_what_cannot_be_told_apart_is_named():
    found = I.fit(
        I.Formula(lambda p: p["a"] * p["b"] * (1 + SLOPE), 6 * (1 + SLOPE), noise=0.1), both(lower=0.0) | {"c": I.Free(1.0)}
    )
    assert found.silent == ["c"] and len(found.unidentified) == 1
    assert "a" in found.unidentified[0] and "b" in found.unidentified[0] and "nothing is known" in found.unidentified[0]
    np.testing.assert_allclose(found.parameters["a"] * found.parameters["b"], 6.0, rtol=1e-6)
    assert np.isinf(found.standard_errors).all() and "cannot be told apart" in str(found)


@pytest.mark.parametrize("noise", [1e-3, 1e-11])
@pytest.mark.parametrize("options", [{}, {"blocks": np.arange(12) // 3}])
def test_an_offset_of_nanometres_leaves_a_gain_its_error(noise, options):
    # An offset that starts at 0 has the scale 1 m: told a billion times better than the gain, in its own unit.
    ruler = I.Formula(lambda p: p["offset"] + p["gain"] * 100 * noise * SLOPE, 200 * noise * SLOPE, noise=noise, **options)
    found = I.fit(ruler, {"gain": I.Free(1.0, lower=0.0), "offset": I.Free(0.0, unit="m")})
    X = np.stack([100 * SLOPE, np.ones_like(SLOPE)], axis=1)
    if not options:
        np.testing.assert_allclose(found.standard_errors / [1.0, noise], np.sqrt(np.diag(np.linalg.inv(X.T @ X))), rtol=1e-6)
    assert not found.unidentified and np.isfinite(found.standard_errors).all()


def test_blocks_of_readings_share_their_error():
    rng = np.random.default_rng(1)
    blocks = np.repeat(np.arange(30), 20)
    data = 2.0 + np.repeat(rng.normal(size=30), 20) + 0.01 * rng.normal(size=600)
    mean = lambda p: p["m"] * jnp.ones(600)  # noqa: E731
    apart, together = (I.fit(I.Formula(mean, data, noise=1.0, blocks=b), {"m": I.Free(1.0)}) for b in (None, blocks))
    expected = np.std(data.reshape(30, 20).mean(axis=1), ddof=1) / np.sqrt(30)
    np.testing.assert_allclose(together.standard_errors, expected, rtol=1e-3)
    assert apart.standard_errors < 0.3 * together.standard_errors and "30 blocks" in together.errors_from


def test_the_profile_of_a_linear_model_is_a_parabola():
    found = I.fit(I.Formula(line, readings(), noise=0.02), both())
    values, rises = found.profile("b")
    np.testing.assert_allclose(rises, ((values - found.values[1]) / found.standard_errors[1]) ** 2, rtol=1e-5, atol=1e-8)
    with pytest.raises(ValueError, match="name"):
        found.profile("c")


@pytest.mark.parametrize("method", ["adjoint", "levenberg_marquardt", "bfgs", "adam"])
def test_other_searches_find_the_same(method):
    optx, optax = pytest.importorskip("optimistix"), pytest.importorskip("optax")
    chosen = {
        "adjoint": "adjoint",
        "levenberg_marquardt": optx.LevenbergMarquardt(rtol=1e-9, atol=1e-9),
        "bfgs": optx.BFGS(rtol=1e-9, atol=1e-9),
        "adam": optax.adam(0.05),
    }[method]
    ruler = I.Formula(line, readings(), noise=0.1)
    expected = I.fit(ruler, both())
    found = I.fit(ruler, both(), method=chosen, max_steps=400)
    np.testing.assert_allclose(found.values, expected.values, rtol=2e-3 if method == "adam" else 1e-4)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-3)


def test_a_problem_is_a_function_for_other_solvers():
    optx = pytest.importorskip("optimistix")
    asked = I.problem(I.Formula(line, readings(), noise=NOISE), both())
    found = optx.least_squares(
        lambda q, problem: problem.residual(q), optx.LevenbergMarquardt(1e-9, 1e-9), asked.start, args=asked
    )
    np.testing.assert_allclose(
        asked.unknowns.flat(found.value), I.fit(I.Formula(line, readings(), noise=NOISE), both()).values
    )
    assert asked.values(found.value).keys() == {"a", "b"}


# --- scenes ---------------------------------------------------------------------------


def spring(stiffness=8.0):
    """A mass of 2 kg on a spring, gravity 10 m/s^2."""
    system = jm.System(
        {"p": jm.Vec1()},
        forces={"spring": jm.force.AnchoredSprings(("p", [0]), stiffness, anchor=[[0.0]])},
        masses={"mass": jm.mass.UniformMass(("p", [0]), 2.0)},
        gravity=[-10.0],
    )
    return system, system.at_rest({"p": [[0.0]]})


SEE = I.Position(("p", [0]))
NUMBERS = {"spring": {"stiffness": "k"}, "mass": {"mass": "m"}}


@pytest.mark.slow
def test_statics_motion_and_frequencies_share_a_scene():
    system, state = spring()
    A = jm.MatrixLinearSystem.build(system, state)
    k, m = 5.0, 1.0
    times = np.array([0.05, 0.21, 0.5, 0.93])
    motion = -10 * m / k * (1 - np.cos(np.sqrt(k / m) * times))
    experiments = {
        "weight": I.Experiment(system, state, {"x": I.Measured(SEE, [[-10 * m / k]], noise=1e-3)}, numbers=NUMBERS),
        "swing": I.Experiment(
            system,
            state,
            {"x": I.Measured(SEE, motion[:, None, None], noise=1e-3, times=times + 0.02, delay="late")},
            protocol=I.Motion(jm.integrator.Trapezoid(A), dt=0.02, steps=50),
            numbers=NUMBERS,
        ),
        "tone": I.Experiment(
            system,
            state,
            {"f": I.Measured(I.Frequencies(A), [np.sqrt(k / m) / (2 * np.pi)], noise=1e-4)},
            protocol=I.AtRest(),
            numbers=NUMBERS,
        ),
    }
    free = {"k": I.Free(8.0, lower=0.0), "m": I.Free(2.0, lower=0.0, prior=(1.0, 1e-3)), "late": I.Free(0.0, scale=0.01)}
    found = I.fit(experiments, free)
    np.testing.assert_allclose([found.parameters[n] for n in ("k", "m", "late")], [k, m, 0.02], rtol=1e-2)
    figure = found.plot()
    assert len(figure.axes) == 2 * 3 + 1 and {a.get_title() for a in figure.axes} >= {"swing/x", "convergence"}
    figure.clear()


class Winding(jm.integrator.AbstractControl):
    """A spring that is stiffer with every step."""

    def init(self, system, state):
        return jnp.full((), 4.0)

    def __call__(self, time, state, parameters, memory):
        return {"spring": {"stiffness": memory}}, memory + parameters["rate"]


@pytest.mark.parametrize("remembers", [False, True])
def test_a_motion_is_observed_under_its_control(remembers):
    """It was the scene as it stands that forces were read of; and a control that remembers could not settle."""
    system, state = spring()
    verlet = jm.integrator.VelocityVerlet()

    def pull(scene, now):
        return jm.total_force(scene, now)["p"][0, 0] - 2.0 * -10.0

    control = Winding() if remembers else lambda time, state, p: {"spring": {"stiffness": 4.0 + p["rate"] * time}}
    protocol = I.Motion(verlet, dt=0.1, steps=4, control=control, settle=True)
    measured = {"pull": I.Measured(pull, np.zeros(5), noise=1.0), "x": I.Measured(SEE, np.zeros((5, 1, 1)), noise=1.0)}
    seen = I.Experiment(system, state, measured, protocol=protocol).predict({"rate": 3.0}).values
    x = np.asarray(seen["x"])[:, 0, 0]
    np.testing.assert_allclose(x[0], -2.0 * 10.0 / 4.0, rtol=1e-9)
    stiffness = 8.0 if remembers else 4.0 + 3.0 * 0.1 * np.arange(5)
    np.testing.assert_allclose(seen["pull"], -stiffness * x, rtol=1e-9)


@pytest.mark.slow
def test_friction_which_is_a_number_of_the_integrator_is_found():
    """A block that slides on a floor: `x = v t - mu g t^2 / 2`, exact to the half step by which implicit Euler is early."""
    mass = {"mass": jm.mass.UniformMass(("p", [0]), 2.0)}
    system = jm.System({"p": jm.Vec3()}, masses=mass, gravity=[0.0, 0.0, -10.0])
    state = system.at_rest({"p": [[0.0, 0.0, 0.0]]})
    state = jm.State(state.position, {"p": jnp.array([[3.0, 0.0, 0.0]])}, state.time)
    euler, h, mu = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state)), 0.02, 0.25
    floor = jm.contact.PointContact(("p", [0]), jm.contact.Plane(), friction=0.7)
    times = h * np.arange(21)
    slid = np.stack([3 * times - mu * 10 * times * (times + h) / 2, 0 * times, 0 * times], axis=1)[:, None]

    def sliding(parameters):
        contact = eqx.tree_at(lambda c: c.friction, floor, jnp.broadcast_to(parameters["mu"], floor.friction.shape))
        return jm.integrator.FreeMotion(euler, {"floor": contact})

    measured = {"x": I.Measured(SEE, slid, noise=1e-3)}
    for integrator in (sliding, lambda parameters: None):
        test = I.Experiment(system, state, measured, protocol=I.Motion(integrator, dt=h, steps=20))
        if integrator is sliding:
            found = I.fit(test, {"mu": I.Free(0.5, lower=0.0)})
            np.testing.assert_allclose(found.parameters["mu"], mu, rtol=1e-6)
        else:
            with pytest.raises(TypeError, match="Motion: what integrator returns must be of type AbstractIntegrator"):
                test.predict({})
    with pytest.raises(TypeError, match=r"Motion: integrator is called as integrator\(parameters\)"):
        I.Motion(lambda: euler, dt=h, steps=20)


def test_interpolation_between_steps_is_of_third_order():
    errors = []
    for n in (11, 21):
        times = np.linspace(0.0, 1.0, n)
        read = I.Measured(SEE, np.zeros(30), noise=1.0, times=np.linspace(0.0, 1.0, 30))
        model = read.predicted(jnp.sin(6 * times), jnp.asarray(times), {})
        errors.append(np.abs(np.asarray(model) - np.sin(6 * np.linspace(0.0, 1.0, 30))).max())
    assert errors[0] < 5e-3 and errors[1] < errors[0] / 8


def block():
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron")
    end = mesh.nodes_where(lambda x: x[:, 0] == 2.0)
    system = jm.System(
        {"u": jm.Vec3()},
        forces={"solid": jm.force.HexahedronFEM.from_mesh("u", mesh, jm.material.NeoHookean(np.ones(2), 0.3))},
        constraints={
            "clamp": jm.constraint.Fixed(("u", mesh.nodes_where(lambda x: x[:, 0] == 0.0))),
            "grip": jm.constraint.PrescribedMotion(("u", end), mesh.points[end], [[0.0] * 3, [1.0, 0.0, 0.0]], [0.0, 1.0]),
        },
    )
    return mesh, end, system, system.at_rest({"u": mesh.points})


def test_a_failed_equilibrium_shortens_the_step():
    """Of a spring that softens: beyond a load of one there is no equilibrium, and the first long step goes there."""

    def function(p):  # sqrt of a negative number stands for the equilibrium that is lost
        return jnp.sqrt(1.0 - p["load"] ** 2) * jnp.ones(3)

    found = I.fit(I.Formula(function, [0.1, 0.1, 0.1], noise=0.01), {"load": I.Free(0.3)})
    np.testing.assert_allclose(found.parameters["load"], np.sqrt(0.99), rtol=1e-6)
    assert any(entry["failure"] for entry in found.history) and any("shortened" in note for note in found.notes)
    with pytest.raises(ValueError, match="'experiment'.*not finite|fails at the start"):
        I.fit(I.Formula(function, [0.1, 0.1, 0.1], noise=0.01), {"load": I.Free(2.0)})


def test_a_node_that_a_grip_names_twice_pulls_once():
    spring = jm.force.Springs((("p", [0]), ("p", [1])), 10.0, 1.0)
    system = jm.System({"p": jm.Vec1()}, forces={"s": spring}, constraints={"nails": jm.constraint.Fixed(("p", [0, 1]))})
    state = system.at_rest({"p": [[0.0], [1.5]]})
    for nodes in ([1], [1, 1]):
        np.testing.assert_allclose(I.Reaction(("p", nodes))(system, state), [5.0])  # [N]


@pytest.mark.slow
def test_fields_by_element_with_forces_at_grips_and_strains():
    mesh, end, system, state = block()
    del mesh
    numbers = {"solid": {"material.young": "E"}}
    protocol = I.Static(times=[0.05, 0.1])
    pull, strain = I.Reaction(("u", end), direction=[1.0, 0.0, 0.0]), I.Strain("solid")
    empty = {
        "force": I.Measured(pull, [0.0, 0.0], noise=1e-4),
        "strain": I.Measured(strain, np.zeros((2, 2, 8, 3, 3)), noise=1e-3),
    }
    model = I.Experiment(system, state, empty, protocol=protocol, numbers=numbers).predict({"E": jnp.array([2.0, 5.0])})
    assert 0.05 < float(model.values["force"][0]) < 0.1 and float(model.values["strain"][1, 0, 0, 0, 0]) > 0.05
    read = {
        "force": I.Measured(pull, model.values["force"], noise=1e-4),
        "strain": I.Measured(strain, model.values["strain"], noise=1e-3),
    }
    test = I.Experiment(system, state, read, protocol=protocol, numbers=numbers)
    smooth = I.TotalVariation(1e-6, pairs=[[0, 1]])
    found = I.fit(test, {"E": I.Free([3.0, 3.0], lower=0.0, penalty=smooth)})
    np.testing.assert_allclose(found.parameters["E"], [2.0, 5.0], rtol=1e-3)
    by_adjoint = I.fit(test, {"E": I.Free([3.0, 3.0], lower=0.0, penalty=smooth)}, method="adjoint")
    np.testing.assert_allclose(by_adjoint.parameters["E"], [2.0, 5.0], rtol=1e-2)
    flat = I.fit(test, {"E": I.Free([3.0, 4.0], lower=0.0, penalty=I.Tikhonov(1e9, pairs=[[0, 1]]))})
    np.testing.assert_allclose(np.log(flat.parameters["E"][1] / 4.0), np.log(flat.parameters["E"][0] / 3.0), atol=1e-4)


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences():
    _, end, system, state = block()
    pull = I.Measured(I.Reaction(("u", end), direction=[1.0, 0.0, 0.0]), [0.1, 0.3], noise=0.01)
    test = I.Experiment(
        system, state, {"f": pull}, protocol=I.Static(times=[0.05, 0.1]), numbers={"solid": {"material.young": "E"}}
    )
    asked = I.problem(test, {"E": I.Free([1.0, 2.0], lower=0.0)}, huber=1.0)
    q, h = jnp.array([0.1, -0.2]), 1e-5
    cost = jax.jit(lambda q, problem: problem.cost(q))
    backward, forward = (jax.jit(by(cost))(q, asked) for by in (jax.grad, jax.jacfwd))
    by_hand = [(cost(q.at[i].add(h), asked) - cost(q.at[i].add(-h), asked)) / (2 * h) for i in range(2)]
    np.testing.assert_allclose(backward, by_hand, rtol=1e-6)
    np.testing.assert_allclose(forward, backward, rtol=1e-8)
    both = jax.jit(jax.vmap(cost, (0, None)))(jnp.stack([q, -q]), asked)
    np.testing.assert_allclose(both[0], cost(q, asked), rtol=1e-10)


# --- what looks wrong -----------------------------------------------------------------


def test_swapped_constant_and_turned_data_are_named():
    one, two = (I.Formula(f, np.zeros(12) + f({}), noise=0.01) for f in (lambda p: SLOPE, lambda p: 1 - SLOPE**2))
    swapped = {
        "one": I.Formula(lambda p: p["a"] * SLOPE, two.measured["values"].values, noise=0.01),
        "two": I.Formula(lambda p: p["a"] * (1 - SLOPE**2), one.measured["values"].values, noise=0.01),
    }
    notes = " ".join(I.fit(swapped, {"a": I.Free(1.1, lower=0.0)}).notes)
    assert "'one/values' and 'two/values' look swapped" in notes
    still = I.fit(I.Formula(line, np.ones(12), noise=0.1), both())
    assert any("all 12 measured values are 1" in note for note in still.notes)
    turned = I.fit(I.Formula(lambda p: p["a"] * (1 + SLOPE), -1 - SLOPE, noise=0.01), {"a": I.Free(1.0, lower=0.0)})
    assert any("sign" in note for note in turned.notes) and any("lower bound" in note for note in turned.notes)
    far = I.fit(I.Formula(lambda p: p["a"] * (1 + SLOPE), 1 + SLOPE, noise=0.01), {"a": I.Free(1e5, lower=0.0)})
    assert abs(far.parameters["a"] - 1) < 1e-6 and not any("bound" in note for note in far.notes)  # far from where it began
    units = I.fit(I.Formula(lambda p: p["a"] * (1 + SLOPE), 1e3 * (1 + SLOPE), noise=1.0), {"a": I.Free(1.0)})
    assert any("units" in note for note in units.notes)
    columns = jnp.stack([jnp.asarray(SLOPE), 1 - SLOPE], axis=1)
    crossed = I.fit(I.Formula(lambda p: p["a"] * columns, columns[:, ::-1], noise=0.01), {"a": I.Free(1.0)})
    assert any("columns 0 and 1" in note for note in crossed.notes)


def test_what_does_not_fit_is_refused_by_name():
    system, state = spring()
    read = I.Measured(SEE, [[0.0]], noise=1.0)
    motion = I.Motion(jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state)), dt=0.1, steps=4)
    late = I.Measured(SEE, np.zeros((2, 1, 1)), noise=1.0, times=[0.1, 0.9])
    for match, wrong in {
        "measured 'x'.*the experiment from": lambda: I.Experiment(system, state, {"x": late}, protocol=motion),
        "measured 'x'.*node 3": lambda: I.Experiment(
            system, state, {"x": I.Measured(I.Position(("p", [3])), [[0.0]], noise=1.0)}
        ),
        "'q' is not a parameter": lambda: I.fit(
            I.Experiment(system, state, {"x": read}, numbers={"spring": {"stiffness": "q"}}), {"k": I.Free(1.0)}
        ),
        "^Experiment: numbers: of 'spring': 'stifness' is not one of its numbers": lambda: I.fit(
            I.Experiment(system, state, {"x": read}, numbers={"spring": {"stifness": "k"}}), {"k": I.Free(1.0)}
        ),
        "^Experiment: numbers: names component 'sprong'": lambda: I.fit(
            I.Experiment(system, state, {"x": read}, numbers={"sprong": {"stiffness": "k"}}), {"k": I.Free(1.0)}
        ),
        "measured 'x'.*shape": lambda: I.fit(
            I.Experiment(system, state, {"x": I.Measured(SEE, [0.0, 1.0], noise=1.0)}), {"k": I.Free(1.0)}
        ),
        "nothing to fit": lambda: I.fit(I.Formula(line, readings(), noise=1.0), {"a": 1.0, "b": 2.0}),
        "noise must be positive": lambda: I.Measured(SEE, [1.0], noise=0.0),
        "delay='late' is of no use without times": lambda: I.Measured(SEE, [1.0, 2.0], noise=1.0, delay="late"),
        "delay=0.1 is of no use without times": lambda: I.Measured(SEE, [1.0, 2.0], noise=1.0, delay=0.1),
        "values has infinite numbers": lambda: I.Measured(SEE, [np.inf], noise=1.0),
        "no 'k' in what is no dictionary of them": lambda: I.fit(
            I.Experiment(system, state, {"x": read}, numbers={"spring": {"stiffness": "k"}}), I.Free(1.0)
        ),
        r"an optimiser of optax \(`optax.adam\(0.1\)`\), got 'adam'": lambda: I.fit(
            I.Formula(lambda p: p["a"], 1.0, noise=1.0), {"a": I.Free(1.0)}, method="adam"
        ),
        "times must increase": lambda: I.Measured(SEE, [1.0, 2.0], noise=1.0, times=[1.0, 1.0]),
        "start must be above lower": lambda: I.Free(1.0, lower=2.0),
        "real numbers, got complex128": lambda: I.fit(I.Formula(lambda p: p["a"] * 1j, 1.0, noise=1.0), {"a": I.Free(1.0)}),
        "real numbers, got None": lambda: I.fit(I.Formula(lambda p: None, 1.0, noise=1.0), {"a": I.Free(1.0)}),
        "measured 'x': the observation must be": lambda: I.Experiment(
            system, state, {"x": I.Measured(lambda system, state: "far", 0.0, noise=1.0)}
        ).predict({}),
        "squares overflow": lambda: I.fit(I.Formula(lambda p: p["a"], 1e300, noise=1.0), {"a": I.Free(1.0)}),
        "pairs name 5": lambda: I.Free(np.ones(3), penalty=I.Tikhonov(1.0, pairs=[[0, 5]])),
    }.items():
        with pytest.raises(ValueError, match=match):
            wrong()
    with pytest.raises(TypeError, match="what begin returns must be of type State"):
        I.Experiment(system, state, {"x": read}, begin=lambda system, state, parameters: None).predict({})
    # Not a warning of SciPy: the least that numbers tell apart is taken.
    least = I.fit(I.Formula(lambda p: p["a"] * jnp.ones(2), [1.0, 2.0], noise=1.0), {"a": I.Free(1.0)}, rtol=1e-300)
    assert least.converged and abs(least.parameters["a"] - 1.5) < 1e-12


def test_a_delay_leads_out_of_the_experiment_by_a_step_and_no_further():
    times = jnp.linspace(0.0, 1.0, 11)
    read = I.Measured(SEE, np.zeros(3), noise=1.0, times=[0.2, 0.5, 0.8], delay="late")
    near, far = (np.asarray(read.predicted(times**2, times, {"late": late})) for late in (-0.25, -0.35))
    np.testing.assert_allclose(near, [0.45**2, 0.75**2, 1.05**2], rtol=1e-12)
    assert np.isfinite(far).tolist() == [True, True, False]  # and so the experiment fails there


def test_blocks_leave_a_parameter_at_its_bound_without_an_error_and_the_others_with_theirs():
    """The data want `b` below nil: the search goes to where its value feels nothing any more. No warning, no NaN."""
    x, blocks = np.linspace(0.0, 1.0, 12), np.repeat(np.arange(4), 3)
    read = 1.0 - 0.5 * x + 0.1 * np.random.default_rng(0).normal(size=12)
    free = {"a": I.Free(1.0), "b": I.Free(1e-30, lower=0.0)}
    alone, both = (
        I.fit(
            I.Formula(lambda p: p["a"] + p["b"] * jnp.asarray(x), read, noise=0.1, blocks=blocks), {"a": free["a"], "b": b}
        )
        for b in (0.0, free["b"])
    )
    assert not np.isfinite(both.standard_errors[1])
    assert np.isclose(both.standard_errors[0], alone.standard_errors[0], rtol=1e-6)


def test_standard_errors_from_blocks_are_those_of_the_jackknife():
    """Of a line: what the parameters are when each block in turn is left out. A fit follows the errors of few blocks."""
    x, blocks = np.linspace(0.0, 1.0, 12), np.repeat(np.arange(4), 3)
    read = 1.0 + 2.0 * x + np.repeat([0.1, -0.2, 0.15, 0.05], 3) + 0.01 * np.sin(7 * np.arange(12))
    line = I.Formula(lambda p: p["a"] + p["b"] * jnp.asarray(x), read, noise=0.1, blocks=blocks)
    found = I.fit(line, {"a": I.Free(0.0, scale=1.0), "b": I.Free(1.0)})
    rows = np.stack([np.ones(12), x], axis=1)
    left = np.array([np.linalg.lstsq(rows[blocks != b], read[blocks != b], rcond=None)[0] for b in range(4)])
    away = left - found.values
    assert np.allclose(found.covariance, 3 / 4 * away.T @ away, rtol=1e-9)


def test_blocks_of_which_nothing_was_read_do_not_count():
    read, blocks = np.array([1.0, 1.2, 0.7, 0.9, np.nan, np.nan, np.nan]), [0, 0, 1, 1, 2, 2, 3]
    mean = I.Formula(lambda p: p["m"] * jnp.ones(7), read, noise=0.1, blocks=blocks)
    found = I.fit(mean, {"m": I.Free(1.0)})
    np.testing.assert_allclose(found.standard_errors, 0.15, rtol=1e-9)  # half of what the means differ by
    assert found.errors_from == "scatter of 2 blocks"
    with pytest.raises(ValueError, match="one block only of what was read"):
        I.Formula(lambda p: p["m"] * jnp.ones(7), read, noise=0.1, blocks=[0, 0, 0, 0, 1, 1, 2])
