"""Batches of which some members fail: what the others give, values and derivatives, and what the failed ones say.

Every number of a member is its own, so nothing that happens to one may be seen in another: bit for bit in the same program,
to rounding in the program of a single run, whose kernels add in another order.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from tolerances import RECOMPILED

import jaxmech as jm

MEMBERS, ROUNDS = 6, 4
STATIC = jm.Terms(mass=False, damping=False)
# What each member is multiplied by: all that resists (stiffness, mass), its load, and one coordinate of one node.
FINE = (1.0, 1.0, 1.0)
INJECTED = {
    "nan": (1.0, np.nan, 1.0),
    "nothing resists": (0.0, 1.0, 1.0),
    "huge": (1.0, 1e5, 1.0),
    "inverted": (1.0, 1.0, -1.0),
}


def tetrahedron():
    """One neo-Hookean tetrahedron on its base, pushed at the top."""
    points = np.vstack([np.zeros(3), np.eye(3)])
    system = jm.System(
        {"cell": jm.Vec3()},
        forces={
            "elastic": jm.force.TetrahedronFEM(("cell", [[0, 1, 2, 3]]), points, jm.material.NeoHookean(100.0, 0.3)),
            "push": jm.force.ConstantForce(("cell", [3]), [1.0, 2.0, -3.0]),
        },
        masses={"mass": jm.mass.UniformMass(("cell", range(4)), 1.0)},
        constraints={"base": jm.constraint.Fixed(("cell", [0, 1, 2]))},
    )
    places = (
        lambda s: [s.forces["elastic"].material.young, s.masses["mass"].mass],
        lambda s: [s.forces["push"].force],
        lambda s: s.position["cell"],
    )
    return system, system.at_rest({"cell": points}), places


def catalogued(name, resisting, loads):
    """A scene of the catalogue, with the places of its numbers; the first state is the one that is changed."""
    scene = scenes.build(name)
    first = scene.system.main_states[0]
    return scene.system, scene.state, (resisting, loads, lambda s: s.position[first])


SCENES = {
    "tetrahedron": tetrahedron,
    "springs": lambda: catalogued(
        "springs",
        lambda s: [s.forces["springs"].stiffness, s.forces["springs"].damping, s.masses["mass"].mass],
        lambda s: [s.gravity],
    ),
    "triangles": lambda: catalogued(
        "pressed_triangles",
        lambda s: [s.forces["solid"].material.young, s.forces["pressure"].pressure],
        lambda s: [s.forces["traction"].traction],
    ),
    "net": lambda: catalogued(
        "anchored_springs",
        lambda s: [s.forces[n].stiffness for n in ("angle", "pairs", "place")] + [m.mass for m in s.masses.values()],
        lambda s: [s.forces["push"].force],
    ),
    "turned body": lambda: catalogued("hanging_body", lambda s: [s.forces["anchored"].stiffness], lambda s: [s.gravity]),
}


def static(linear_system, **options):
    def solve(system, state):
        solution = jm.static_solve(system, state, linear_system, throw=False, **options)
        return solution.position, solution.info.result

    return solve


def steps(linear_system, number=1, **options):
    integrator = jm.ImplicitEuler(linear_system, **options)

    def solve(system, state):
        if number == 1:
            end, _, info = integrator.step(system, state, None, 0.02, throw=False)
            return end.position, info.result
        run = jm.simulate(system, state, integrator, 0.02, number, save_every=number, throw=False)
        failed = run.info.result != jm.RESULTS.successful
        return run.last.position, jax.tree.map(lambda a: a[jnp.argmax(failed)], run.info.result)

    return solve


EVERY = {
    "nan": "nonfinite_input",
    "nothing resists": "singular",
    "huge": "inverted_element",
    "inverted": "inverted_element",
}
LOOSE = {name: EVERY[name] for name in ("nan", "nothing resists")}
CASES = {
    "statics": ("tetrahedron", static, {}, EVERY),
    "step": ("net", steps, {}, LOOSE),
    "trajectory": ("net", steps, {"number": 3}, LOOSE),
    "trajectory of a solid": ("tetrahedron", steps, {"number": 3}, EVERY),
    "newton": ("springs", steps, {"newton": True}, LOOSE),
    "factored": (
        "triangles",
        static,
        {"solver": jm.solver.SparseDirect()},
        LOOSE,
    ),
    "iterated": ("net", static, {"solver": jm.solver.PCG(1e-12)}, {"nan": "nonfinite_input"}),
    "turned": ("turned body", static, {}, {"nan": "nonfinite_input"}),
}
STAGE = dict.fromkeys(("step", "newton", "factored", "trajectory of a solid"), pytest.mark.slow)
STAGE |= dict.fromkeys(("iterated", "trajectory", "turned"), pytest.mark.exhaustive)


def prepared(case):
    """`theta -> (number, result)` of a case, with theta the three factors of one member."""
    scene, kind, options, _ = CASES[case]
    system, state, (resisting, loads, position) = SCENES[scene]()
    linear_system = jm.MatrixLinearSystem.build(system, state, *([STATIC] if kind is static else []))
    solve = kind(linear_system, **options)

    def value(theta):
        changed = eqx.tree_at(resisting, system, [theta[0] * a for a in resisting(system)])
        changed = eqx.tree_at(loads, changed, [theta[1] * a for a in loads(system)])
        x = position(state)
        end, result = solve(changed, eqx.tree_at(position, state, x.at[-1, -1].multiply(theta[2])))
        x = jnp.concatenate([a.reshape(-1) for a in end.values()])
        return jnp.sum(jnp.sin(1.0 + jnp.arange(x.size)) * x), result

    def derivatives(theta, direction):
        (number, result), gradient = jax.value_and_grad(value, has_aux=True)(theta)
        along = jax.jvp(lambda t: value(t)[0], (theta,), (direction,))[1]
        return number, gradient, along, result

    return value, derivatives


def members(rng):
    """Factors near one, and a direction for each."""
    return jnp.asarray(1 + 0.1 * rng.uniform(-1, 1, (MEMBERS, 3))), jnp.asarray(rng.uniform(0.5, 1, (MEMBERS, 3)))


@pytest.mark.slow_cases("statics")
@pytest.mark.parametrize("case", [pytest.param(c, marks=STAGE.get(c, ())) for c in CASES])
def test_members_that_fail_leave_the_others_alone(case, rng):
    value, derivatives = prepared(case)
    theta, direction = members(rng)
    batch = jax.jit(jax.vmap(derivatives))
    whole = [np.asarray(a) for a in batch(theta, direction)[:3]]
    assert all(np.isfinite(a).all() for a in whole)
    expected = CASES[case][3]
    for _ in range(ROUNDS):
        kinds = rng.choice(["", *expected], MEMBERS)
        injected = jnp.asarray([INJECTED.get(kind, FINE) for kind in kinds])
        number, gradient, along, result = batch(theta * injected, direction)
        fine = kinds == ""
        for kind, name in zip(kinds, np.asarray(result._value), strict=True):
            assert name == getattr(jm.RESULTS, expected.get(kind, "successful"))._value, kind
        for found, alone in zip((number, gradient, along), whole, strict=True):
            np.testing.assert_array_equal(np.asarray(found)[fine], alone[fine])
        assert np.isnan(np.asarray(gradient)[~fine]).all()
        assert np.isnan(np.asarray(along)[~fine]).all()
    single = jax.jit(derivatives)
    for k in range(2):
        for found, alone in zip(single(theta[k], direction[k])[:3], whole, strict=True):
            np.testing.assert_allclose(found, alone[k], rtol=RECOMPILED, atol=RECOMPILED)


@pytest.mark.slow
def test_what_is_not_asked_of_failed_members_is_nil(rng):
    """A sum over those that succeeded has the gradient of these; a sum over all is lost with the first that failed."""
    value, _ = prepared("step")
    theta, shared = members(rng)[0].at[1, 1].set(jnp.nan), jnp.asarray(1.0)

    def total(theta, shared, masked):
        numbers, results = jax.vmap(lambda t: value(t * shared))(theta)
        fine = jax.vmap(lambda r: r == jm.RESULTS.successful)(results)
        return jnp.sum(jnp.where(fine | ~masked, numbers, 0.0))

    both = jax.jit(jax.vmap(jax.grad(total, argnums=(0, 1)), (None, None, 0)))(theta, shared, jnp.array([True, False]))
    each, all_of_them = (np.asarray(a) for a in both)
    assert np.isfinite(each[0][[0, 2, 3, 4, 5]]).all() and (each[0][1] == 0).all()
    np.testing.assert_allclose(each[1][[0, 2, 3, 4, 5]], each[0][[0, 2, 3, 4, 5]], rtol=RECOMPILED)
    assert np.isnan(each[1][1]).all() and np.isnan(all_of_them[1])


def bar(dtype):
    """A bar of tetrahedra, held at one end, soft or stiff, pushed at three nodes: `theta -> number`, of one dtype."""
    mesh = jm.mesh.box_mesh(cells=(8, 1, 1), size=(8.0, 1.0, 1.0))
    system = jm.System(
        {"bar": jm.Vec3()},
        forces={
            "solid": jm.force.TetrahedronFEM.from_mesh("bar", mesh, jm.material.StVenantKirchhoff(1e4, 0.3)),
            "push": jm.force.ConstantForce(("bar", [3, 9, 20]), np.zeros((3, 3))),
        },
        constraints={"clamp": jm.constraint.Fixed(("bar", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    system, state = jax.tree.map(
        lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, (system, system.at_rest({"bar": mesh.points}))
    )
    linear_system = jm.MatrixLinearSystem.build(system, state, STATIC)

    def value(young, push, weights):
        where = (lambda s: s.forces["solid"].material.young, lambda s: s.forces["push"].force)
        changed = eqx.tree_at(where[0], eqx.tree_at(where[1], system, push), young)
        solver = jm.solver.PCG() if dtype == jnp.float32 else jm.solver.Dense()
        solution = jm.static_solve(changed, state, linear_system, solver, throw=False)
        return jnp.sum(weights * solution.position["bar"]), solution.info.result

    return value


@pytest.mark.slow
def test_single_precision_adjoints_end_at_rounding(rng):
    """Of 240 random bars all whose equilibria are found have a gradient, near that of double precision; one in twenty
    adjoint systems cannot be solved to the tolerance of the iterations."""
    many = 240
    theta = 10 ** rng.uniform(3, 5, many), rng.normal(size=(many, 3, 3)), rng.normal(size=(many, 36, 3))
    gradients = {}
    for dtype in (jnp.float32, jnp.float64):
        given = [jnp.asarray(a, dtype) for a in theta]
        gradient, result = jax.jit(jax.vmap(jax.grad(bar(dtype), argnums=1, has_aux=True)))(*given)
        fine = np.asarray(result._value) == 0
        np.testing.assert_array_equal(np.isfinite(gradient).all(axis=(1, 2)), fine)
        gradients[dtype] = np.asarray(gradient), fine
    (single, fine), (double, _) = gradients[jnp.float32], gradients[jnp.float64]
    assert fine.sum() >= 200
    error = np.linalg.norm(single - double, axis=(1, 2)) / np.linalg.norm(double, axis=(1, 2))
    assert np.median(error[fine]) < 1e-3 and error[fine].max() < 0.05


def test_in_batches_is_a_loop_of_any_size():
    """Members that do not divide, what they share, derivatives by both, and refusals by name."""
    x = jnp.arange(5.0)

    def of_one(x, w):
        return {"a": w * jnp.sin(x), "b": x[None] * w**2}

    for size in (None, 1, 2, 7):
        many = jm.runtime.in_batches(lambda x: of_one(x, 3.0), size=size)
        np.testing.assert_allclose(many(x)["a"], 3 * np.sin(np.arange(5.0)), rtol=1e-14)
        assert many(x)["b"].shape == (5, 1)

        def total(x, w, size=size):
            return jnp.sum(jm.runtime.in_batches(lambda x: of_one(x, w), size=size)(x)["a"])

        by_x, by_w = jax.grad(total, argnums=(0, 1))(x, 3.0)
        np.testing.assert_allclose(by_x, 3 * np.cos(np.arange(5.0)), rtol=1e-14)
        np.testing.assert_allclose(by_w, np.sin(np.arange(5.0)).sum(), rtol=1e-14)
    with pytest.raises(ValueError, match=r"leading axis of as many members, at least one; got \[3, 5\]"):
        jm.runtime.in_batches(of_one)(x, jnp.ones(3))


def test_reverse_mode_of_batches_keeps_one_batch():
    """A chain of a hundred steps of many numbers: whole, all of them are kept; in batches those of one."""

    def chain(x):
        return jax.lax.scan(lambda c, _: (jnp.sin(c), None), jnp.full(1000, x), length=100)[0].sum()

    x = jnp.linspace(0.1, 1.0, 32)
    kept = []
    for size in (None, 4):
        program = jax.jit(jax.grad(lambda x, size=size: jm.runtime.in_batches(chain, size=size)(x).sum()))
        kept.append(program.lower(x).compile().memory_analysis().temp_size_in_bytes)
    assert kept[0] > 32 * 100 * 1000 * 8 and kept[1] < 0.2 * kept[0]
