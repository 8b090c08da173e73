"""Modes of vibration and of buckling: closed forms, derivatives against differences, what is said where there are none."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import FINITE_DIFFERENCE, ROUND_OFF

import jaxmech as jm
from jaxmech._solve import buckling

EXACT = 1e-10  # eigenvalues of matrices of condition below 1e4, after a shifted factor in float64


def chain(n: int, *, stiffness=3.0, mass=0.5, held=True):
    """Masses in a row on a line, a spring between neighbours; the first is held."""
    system = jm.System(
        {"bar": jm.Vec1()},
        forces={"springs": jm.force.AnchoredSprings((("bar", range(n)), ("bar", range(1, n + 1))), jnp.full(n, stiffness))},
        masses={"mass": jm.mass.DiagonalMass(("bar", range(n + 1)), jnp.full(n + 1, mass).at[n].divide(2))},
        constraints={"wall": jm.constraint.Fixed(("bar", [0]))} if held else {},
    )
    return system, system.at_rest({"bar": np.zeros((n + 1, 1))})


def assembly(system, state):
    return jm.MatrixLinearSystem.build(system, state, jm.Terms(damping=False))


def varied(system, numbers):
    """Another stiffness and mass of each spring and node."""
    where = (lambda s: s.forces["springs"].stiffness, lambda s: s.masses["mass"].mass)
    return eqx.tree_at(lambda s: [w(s) for w in where], system, [w(system) * n for w, n in zip(where, numbers, strict=True)])


def numbers(rng, n: int):
    return tuple(jnp.asarray(rng.uniform(0.7, 1.4, size)) for size in (n, n + 1))


def difference(f, x, d, h=1e-4):
    """The derivative of `f` along `d`, to fourth order."""

    def central(h):
        ahead, behind = (jax.tree.map(lambda a, b, t=t: a + t * b, x, d) for t in (h, -h))
        return jax.tree.map(lambda a, b: (a - b) / (2 * h), f(ahead), f(behind))

    return jax.tree.map(lambda fine, coarse: (4 * fine - coarse) / 3, central(h / 2), central(h))


def test_c17_a_string_under_tension():
    """Nine masses on a string; only its tension, a geometric stiffness, holds them sideways."""
    x = np.stack([0.1 * np.arange(11), np.zeros(11)], axis=1)

    def string(tension):
        # Along itself the string is stiff, and those motions are left out.
        return jm.System(
            {"string": jm.Vec2()},
            forces={
                "springs": jm.force.Springs((("string", range(10)), ("string", range(1, 11))), 1e4, 0.1 - tension / 1e4)
            },
            masses={"mass": jm.mass.UniformMass(("string", range(11)), 0.01)},
            constraints={
                "ends": jm.constraint.Fixed(("string", [0, 10])),
                "sideways": jm.constraint.FixedComponents(("string", range(1, 10)), (True, False)),
            },
        )

    system = string(100.0)
    rest = system.at_rest({"string": x})
    linear_system = assembly(system, rest)

    @jax.jit
    def frequencies(rest_length):
        trial = eqx.tree_at(lambda s: s.forces["springs"].rest_length, system, rest_length)
        found = jm.modes(trial, rest, linear_system, count=3)
        return found.frequencies, found.shapes["string"]

    (omega, shapes), (slope, _) = jax.jvp(frequencies, (jnp.asarray(0.09),), (jnp.asarray(-1e-4),))
    np.testing.assert_allclose(omega, [98.93784282, 195.43950758, 287.12880305], rtol=0, atol=1e-8)
    np.testing.assert_allclose(slope, omega / 200, rtol=EXACT)  # one newton more: omega goes with the root of the tension
    # Sines, of unit mass, the largest component positive; nothing along the string or at its ends.
    sines = np.sin(np.pi * np.outer([1, 2, 3], np.arange(11)) / 10) * np.sqrt(2 / 10 / 0.01)
    np.testing.assert_allclose(np.abs(shapes[:, :, 1]), np.abs(sines), rtol=0, atol=1e-8)
    assert (shapes.reshape(3, -1).max(axis=1) >= -shapes.reshape(3, -1).min(axis=1) - 1e-9).all()
    np.testing.assert_allclose(shapes[:, :, 0], 0, atol=1e-12)


def test_fixed_free_bar():
    """`omega = (2j - 1) pi/2 sqrt(E A / (m L))` of the continuous bar, to second order in the length of the elements."""
    exact = 0.5 * np.pi * np.array([1, 3])
    errors = []
    for n in (8, 16):
        system, rest = chain(n, stiffness=1.0 * n, mass=1.0 / n)
        errors.append(1 - jm.modes(system, rest, count=2).frequencies / exact)
        again = jm.modes(system, rest, count=2).frequencies
        assert np.array_equal(1 - again / exact, errors[-1])
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 2, atol=0.02)


@pytest.mark.slow
def test_gradients_jit_vmap(rng):
    """Eigenvalues and shapes: both modes of differentiation against differences, second derivatives, a batch."""
    n, count = 6, 3
    system, rest = chain(n)
    linear_system = assembly(system, rest)
    weights = jnp.asarray(rng.standard_normal((count, n + 1, 1)))

    def values(x):
        return jm.modes(varied(system, x), rest, linear_system, count=count).eigenvalues

    def shapes(x):
        return jm.modes(varied(system, x), rest, linear_system, count=count).shapes["bar"]

    def number(x):
        found = jm.modes(varied(system, x), rest, linear_system, count=count)
        return found.eigenvalues[1] * jnp.sum(weights * found.shapes["bar"]) + found.frequencies[0]

    x, d = numbers(rng, n), numbers(rng, n)
    # Values and rates of one program, which all differences are of, too; and so of the gradient.
    first = jax.jit(lambda x: jax.jvp(lambda x: (values(x), shapes(x)), (x,), (d,)))
    second = jax.jit(lambda x: jax.jvp(jax.value_and_grad(number), (x,), (d,)))
    (primal, rates), ((_, gradient), (_, bend)) = first(x), second(x)
    for ours, true in zip(rates, difference(lambda x: first(x)[0], x, d), strict=True):
        np.testing.assert_allclose(ours, true, rtol=0, atol=FINITE_DIFFERENCE * np.abs(true).max())
    eager = values(x)
    np.testing.assert_allclose(primal[0], eager, rtol=1e-12)
    slope, slopes = difference(lambda x: second(x)[0], x, d)
    np.testing.assert_allclose(sum(jnp.sum(g * e) for g, e in zip(gradient, d, strict=True)), slope, rtol=FINITE_DIFFERENCE)
    for ours, true in zip(bend, slopes, strict=True):
        np.testing.assert_allclose(ours, true, rtol=0, atol=1e-6 * np.abs(true).max())
    batch = jax.jit(jax.vmap(values))(jax.tree.map(lambda a, b: jnp.stack([a, a + 0.1 * b]), x, d))
    np.testing.assert_allclose(batch[0], eager, rtol=1e-12)


def pair(gap=0.0):
    """Two oscillators that do not touch; equal unless `gap`."""
    system = jm.System(
        {"a": jm.Vec1()},
        forces={"springs": jm.force.AnchoredSprings(("a", [0, 1]), jnp.array([2.0, 2.0 + gap]), [[0.0], [0.0]])},
        masses={"mass": jm.mass.DiagonalMass(("a", [0, 1]), jnp.ones(2))},
    )
    return system, system.at_rest({"a": [[0.0], [0.0]]})


@pytest.mark.slow
def test_repeated_eigenvalues_differentiate_in_sums():
    system, rest = pair()
    linear_system = assembly(system, rest)

    def found(k):
        trial = eqx.tree_at(lambda s: s.forces["springs"].stiffness, system, k)
        return jm.modes(trial, rest, linear_system, count=2)

    def values(k):
        return found(k).eigenvalues

    k, along = jnp.array([2.0, 2.0]), (jnp.array([0.3, -0.1]),)
    slopes, rates = jax.jit(lambda k: (jax.jacrev(values)(k), jax.jvp(values, (k,), along)[1]))(k)
    np.testing.assert_allclose(slopes[0], [0.5, 0.5], rtol=EXACT)  # the mean of the copies
    np.testing.assert_allclose(slopes.sum(0), [1.0, 1.0], rtol=EXACT)
    np.testing.assert_allclose(rates.sum(), 0.2, rtol=EXACT)
    slope = jax.jit(jax.grad(lambda k: found(k).shapes["a"][0, 0, 0]))
    with pytest.raises(Exception, match="eigenvalue is repeated"):
        jax.block_until_ready(slope(k))
    assert np.isfinite(slope(jnp.array([2.0, 2.1]))).all()


def test_free_bodies_have_six_zero_modes():
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 0.8, 0.6), kind="hexahedron")
    system = jm.System(
        {"body": jm.Vec3()},
        forces={"elastic": jm.force.HexahedronFEM.from_mesh("body", mesh, jm.material.StVenantKirchhoff(2e5, 0.3))},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("body", mesh, 900.0)},
    )
    found = jm.modes(system, system.at_rest({"body": mesh.points}), count=8)
    assert (found.frequencies[:6] == 0).all() and (found.frequencies[6:] > 1).all()
    assert np.abs(found.eigenvalues[:6]).max() < 1e-10 * found.eigenvalues[6]
    assert found.unstable == 0 and (found.info.errors < 1e-14).all()


def pendulums(angle=0.0):
    """Two pendulums in a row by their angles: what holds them is gravity on mapped points, a geometric stiffness."""

    def bob(q, which):
        turned = jnp.cumsum(q[:, 0])
        along = jnp.stack([jnp.sin(turned), -jnp.cos(turned)])
        return along[:, 0] + which[0] * along[:, 1]

    system = jm.System(
        {"angles": jm.Vec1(), "bobs": jm.Vec2()},
        masses={"bobs": jm.mass.UniformMass(("bobs", [0, 1]), 0.3)},
        mappings={
            "rods": jm.mapping.FunctionMapping(("angles", [[0, 1], [0, 1]]), "bobs", bob, (jnp.array([[0.0], [1.0]]),))
        },
        gravity=(0.0, -9.81),
    )
    return system, system.at_rest({"angles": [[angle], [0.0]]})


def test_mapped_masses_vibrate_and_fall_over():
    """`omega^2 = (2 -+ sqrt 2) g / l` hanging; upside down both grow, and are reported."""
    system, hanging = pendulums()
    linear_system = assembly(system, hanging)
    found = jm.modes(system, hanging, linear_system, count=2)
    exact = 9.81 * (2 + np.sqrt(2) * np.array([-1, 1]))
    np.testing.assert_allclose(found.eigenvalues, exact, rtol=EXACT)
    upright = system.at_rest({"angles": [[np.pi], [0.0]]})
    found = jm.modes(system, upright, linear_system, count=2)
    np.testing.assert_allclose(found.eigenvalues, -exact[::-1], rtol=EXACT)
    np.testing.assert_allclose(found.frequencies, -np.sqrt(exact[::-1]), rtol=EXACT)
    assert found.unstable == 2


@pytest.mark.slow
def test_mapped_scene_equals_its_direct_twin(rng):
    """Springs and masses on a copy of the nodes, in another order, between two main states."""
    n = 4
    order = np.array([2, 0, 3, 1])
    points = rng.uniform(-1, 1, (n, 2)) + 3 * np.arange(n)[:, None]

    def scene(state, nodes, more_dofs, mappings):
        on = lambda which: (state, nodes[np.asarray(which)])  # noqa: E731
        return jm.System(
            {"points": jm.Vec2(), **more_dofs},
            forces={
                "springs": jm.force.Springs((on([0, 1, 2, 0]), on([1, 2, 3, 3])), jnp.array([4.0, 5.0, 6.0, 3.0]), 1.0),
                "home": jm.force.AnchoredSprings(on([0, 2]), 2.0, points[[0, 2]] + 0.1),
            },
            masses={"mass": jm.mass.DiagonalMass(on(range(n)), jnp.array([1.0, 2.0, 0.5, 1.5]))},
            mappings=mappings,
            constraints={"slide": jm.constraint.FixedPlane(("points", [1]), (1.0, 2.0))},
        )

    direct = scene("points", np.arange(n), {}, {})
    copy = jm.mapping.SubsetMapping(("points", order), "copy")
    mapped = scene("copy", np.argsort(order), {"copy": jm.Vec2()}, {"copy": copy})
    rest = direct.at_rest({"points": points})
    ours, theirs = (jm.modes(s, rest, count=7) for s in (mapped, direct))
    np.testing.assert_allclose(ours.eigenvalues, theirs.eigenvalues, rtol=EXACT)
    np.testing.assert_allclose(ours.shapes["points"], theirs.shapes["points"], rtol=0, atol=1e-9)
    # Seven: one of the eight directions is held, and never moves.
    normal = np.array([1.0, 2.0])
    np.testing.assert_allclose(ours.shapes["points"][:, 1] @ normal, 0, atol=ROUND_OFF)
    failed = jm.modes(direct, rest, count=8, throw=False)
    assert failed.info.result == jm.RESULTS.too_few_modes and np.isnan(failed.eigenvalues).all()


@pytest.mark.slow
def test_single_precision():
    system, rest = chain(6)
    half = jax.tree.map(lambda a: a.astype(jnp.float32) if jnp.issubdtype(jnp.asarray(a).dtype, jnp.floating) else a, rest)
    single = jm.modes(system, half, count=2)
    assert single.eigenvalues.dtype == jnp.float32 and single.shapes["bar"].dtype == jnp.float32
    np.testing.assert_allclose(single.eigenvalues, jm.modes(system, rest, count=2).eigenvalues, rtol=1e-5)


def test_what_cannot_be_is_named():
    system, rest = chain(3)
    massless = eqx.tree_at(lambda s: s.masses, system, {})
    with pytest.raises(ValueError, match="modes: the scene has no mass"):
        jm.modes(massless, rest)
    with pytest.raises(ValueError, match="count is 6, but there are only 4 unknowns"):
        jm.modes(system, rest)
    with pytest.raises(ValueError, match="count must be a whole number"):
        jm.modes(system, rest, count=0)
    with pytest.raises(TypeError, match="must be a MatrixLinearSystem"):
        jm.modes(system, rest, jm.solver.MatrixFreeSystem(), count=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"leaves out \['mass'\]; build it with Terms\(mass=True\)"):
        jm.modes(system, rest, jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False)), count=1)
    with pytest.raises(jm.FailedComputation, match="fewer modes than were asked for"):
        jm.modes(system, rest, count=4)
    linear_system = assembly(system, rest)
    with pytest.raises(Exception, match="fewer modes than were asked for"):
        eqx.filter_jit(lambda s: jm.modes(s, rest, linear_system, count=4).eigenvalues)(system)


@pytest.mark.slow
def test_the_symmetric_part_of_what_torques_do_is_not_taken_for_all_of_it():
    """A frame on springs under a torque about z that has no energy: `w^2 I = k (a +- i b)` about the other two axes."""
    rest = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])

    def turned(factor):
        torque = jm.force.ConstantTorque(("f", [0]), factor * jnp.array([0.0, 0.0, 1.0]))
        spring = jm.force.AnchoredFrames(("f", [0]), 50.0, 2.0, rest)
        mass = jm.mass.RigidMass(("f", [0]), 1.0, np.eye(3))
        return jm.System({"f": jm.Rigid3()}, forces={"torque": torque, "spring": spring}, masses={"mass": mass})

    scene = turned(1.0)
    state = jm.static_solve(scene, scene.at_rest({"f": rest})).state
    with pytest.raises(jm.FailedComputation, match="declared symmetric and is not"):
        jm.modes(scene, state, count=3)
    with pytest.raises(jm.FailedComputation, match="declared symmetric and is not"):
        jm.buckling(turned, turned(0.0).at_rest({"f": rest}))
    terms = jm.Terms(damping=False, symmetric=True)
    found = jm.modes(scene, state, jm.MatrixLinearSystem.build(scene, state, terms), count=3)
    half = 0.25  # [rad], of a turn by 1 N m / 2 N m: k half cot(half) across it, k along
    np.testing.assert_allclose(found.eigenvalues, 2.0 * np.array([*[half / np.tan(half)] * 2, 1.0]), rtol=1e-10)


@pytest.mark.slow
def test_states_without_nodes_have_no_part_in_modes_and_buckling():
    """A rod on a foot whose tip a spring holds sideways, beside a state and a constraint of nothing."""
    none = np.zeros(0, int)

    def pressed(load):
        return jm.System(
            {"p": jm.Vec2(), "empty": jm.Vec2()},
            forces={
                "rod": jm.force.Springs((("p", [0]), ("p", [1])), 100.0, 1.0),
                "side": jm.force.AnchoredSprings(("p", [1]), 1.0, [[0.0, 1.0]]),
                "load": jm.force.ConstantForce(("p", [1]), load * jnp.array([0.0, -1.0])),
            },
            masses={"mass": jm.mass.UniformMass(("p", [1]), 4.0)},
            constraints={
                "foot": jm.constraint.Fixed(("p", [0])),
                "ropes": jm.constraint.Distance((("p", none), ("p", none)), length=1.0),
            },
        )

    rest = pressed(0.0).at_rest({"p": [[0.0, 0.0], [0.0, 1.0]], "empty": np.zeros((0, 2))})
    np.testing.assert_allclose(jm.modes(pressed(0.0), rest, count=2).eigenvalues, [0.25, 25.25], rtol=1e-10)
    assert np.isclose(jm.buckling(pressed, rest).factors[0], 1.01)  # k L (k_r + k) / k_r: the spring bears a part


def test_a_loose_state_is_named():
    """A state with neither stiffness nor mass in its second node."""
    system, rest = chain(2)
    dofs = {"bar": jm.Vec1(), "cart": jm.Vec1()}
    loose = jm.System(
        dofs,
        forces={**system.forces, "cart": jm.force.AnchoredSprings(("cart", [0]), 1.0, [[0.0]])},
        masses={**system.masses, "cart": jm.mass.DiagonalMass(("cart", [0]), 1.0)},
        constraints=system.constraints,
    )
    start = loose.at_rest({**rest.position, "cart": [[0.0], [1.0]]})
    with pytest.raises(jm.FailedComputation, match="state 'cart' can move freely"):
        jm.modes(loose, start, count=2)


def column(links: int, *, stiffness=3.0, length=1.0):
    """Hencky's column: rigid links of equal length joined by springs, clamped below, and a load at its tip by a mapping."""

    def tip(q):
        turned = jnp.cumsum(q[:, 0])
        return length / links * jnp.stack([jnp.sum(jnp.cos(turned)), jnp.sum(jnp.sin(turned))])

    system = jm.System(
        {"angles": jm.Vec1(), "tip": jm.Vec2()},
        forces={
            "hinges": jm.force.AnchoredSprings(("angles", range(links)), stiffness, np.zeros((links, 1))),
            "load": jm.force.ConstantForce(("tip", [0]), jnp.zeros((1, 2))),
        },
        mappings={"tip": jm.mapping.FunctionMapping(("angles", [range(links)]), "tip", tip)},
    )
    return system, system.at_rest({"angles": np.zeros((links, 1))})


@pytest.mark.slow
def test_buckling_of_a_column_of_links():
    """`P = 4 k/h sin^2((2j - 1) pi / (2 (2 N + 1)))`, on its way to Euler's `pi^2 E I / (4 L^2)`, `E I = k h`."""
    links, h, k = 12, 1 / 12, 3.0
    system, rest = column(links)
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))

    def scene(mu, k, direction=-1.0):
        numbers = (jnp.array([[direction, 0.0]]) * mu, k)
        return eqx.tree_at(lambda s: (s.forces["load"].force, s.forces["hinges"].stiffness), system, numbers)

    def critical(k, direction=-1.0, count=3, throw=True):
        return jm.buckling(lambda mu: scene(mu, k, direction), rest, linear_system, count=count, throw=throw)

    exact = 4 * k / h * np.sin((2 * np.arange(1, 4) - 1) * np.pi / (2 * (2 * links + 1))) ** 2
    factors, slopes = jax.jit(lambda k: jax.jvp(lambda k: critical(k).factors, (k,), (jnp.ones_like(k),)))(jnp.asarray(k))
    np.testing.assert_allclose(factors, exact, rtol=EXACT)
    np.testing.assert_allclose(slopes, exact / k, rtol=EXACT)
    assert factors[0] == pytest.approx(np.pi**2 * k * h / 4, rel=1 / links)
    pulled = critical(jnp.asarray(k), direction=1.0, throw=False)
    assert pulled.info.result == jm.RESULTS.too_few_modes and np.isnan(pulled.factors).all()
    with pytest.raises(jm.FailedComputation, match="not a stable one"):
        jm.buckling(lambda mu: scene(1.5 * exact[0] + mu, k), rest, linear_system)
    with pytest.raises(TypeError, match="scene must be a function of the load factor"):
        jm.buckling(system, rest, linear_system)  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
def test_buckling_and_vibration_of_a_solid_cantilever():
    """Euler's load and Euler and Bernoulli's frequency of a slender strip of quads, whose bending stiffness is too large by
    `1 + (dx / height)^2 / 2` (the parasitic shear of a bilinear cell; zero Poisson ratio); shear adds a quarter percent.
    """
    length, height, young = 16.0, 1.0, 1000.0
    mesh = jm.mesh.box_mesh(cells=(32, 1), size=(length, height), kind="quad")
    root, tip = mesh.nodes_where(lambda x: x[:, 0] == 0.0), mesh.faces_where(lambda x: x[:, 0] == length)
    system = jm.System(
        {"strip": jm.Vec2()},
        forces={
            "elastic": jm.force.QuadFEM.from_mesh("strip", mesh, jm.material.StVenantKirchhoff(young, 0.0), plane="stress"),
            "push": jm.force.Traction.from_mesh("strip", tip, (0.0, 0.0)),
        },
        masses={"mass": jm.mass.ConsistentMass.from_mesh("strip", mesh, 1.0)},
        constraints={"clamp": jm.constraint.Fixed(("strip", root))},
    )
    rest = system.at_rest({"strip": mesh.points})
    bending = young * height**3 / 12 * (1 + 0.5 * (0.5 / height) ** 2)
    shear = 5 / 6 * 0.5 * young * height
    euler = np.pi**2 * bending / (4 * length**2)

    def scene(mu):
        return eqx.tree_at(lambda s: s.forces["push"].traction, system, mu * jnp.array([-1.0, 0.0]))

    critical = jm.buckling(scene, rest).factors[0]
    assert float(critical) == pytest.approx(euler / (1 + euler / shear), rel=2e-3)
    omega = jm.modes(system, rest, count=1).frequencies[0]
    assert float(omega) == pytest.approx(1.8751040687**2 * np.sqrt(bending / height) / length**2, rel=5e-3)


def turntable(stiffness, turn):
    """Points in polar coordinates, tied to places that the load turns by `turn` rad: `J^T k J = k diag(r^2, 1)` wherever
    they are. Beside them a mass on a spring of 2 N/m that the load pushes away with 1 N/m.
    """
    angles, reach = np.array([0.3, 1.1, 2.3, -0.7, -2.9]), np.array([1.0, 0.7, 1.3, 0.9, 1.7])

    def in_plane(q):
        return q[1] * jnp.stack([jnp.cos(q[0]), jnp.sin(q[0])])

    def scene(mu):
        places = jax.vmap(in_plane)(jnp.stack([angles + turn * mu, reach], axis=1))
        return jm.System(
            {"polar": jm.Vec2(), "place": jm.Vec2(), "x": jm.Vec1(), "square": jm.Vec1()},
            mappings={
                "place": jm.mapping.FunctionMapping(("polar", range(5)), "place", in_plane),
                "square": jm.mapping.SquareMapping(("x", [0]), "square"),
            },
            forces={
                "ties": jm.force.AnchoredSprings(("place", range(5)), stiffness, places),
                "spring": jm.force.AnchoredSprings(("x", [0]), 2.0, [[0.0]]),
                "push": jm.force.ConstantForce(("square", [0]), (0.5 * mu)[None]),
            },
        )

    return scene, scene(jnp.zeros(())).at_rest({"polar": np.stack([angles, reach], axis=1), "x": [[0.0]]})


@pytest.mark.slow
def test_what_cancels_in_the_stress_stiffness_is_no_asymmetry():
    """Turning brings the stiffness of the ties to entries of `dK/dmu`, in parts that cancel: what is left are 1 N/m of the
    load, and rounding. The spring is overcome at `mu = 2`.
    """
    found = jm.buckling(*turntable(1e9, 1.0))
    np.testing.assert_allclose(found.factors, [2.0], rtol=ROUND_OFF)


@pytest.mark.slow
def test_what_rests_is_not_iterated_on(monkeypatch):
    """The program of an iteration takes as long to compile as all else; the step to a rest that rounding missed has none."""
    monkeypatch.setattr(buckling, "static_solve", lambda *_, **__: pytest.fail("a whole iteration is compiled"))
    scene, rest = turntable(1e3, 0.1)
    near = rest.position["polar"] * (1 + 4 * np.finfo(float).eps)
    found = jm.buckling(scene, replace(rest, position=rest.position | {"polar": near}))
    np.testing.assert_allclose(found.factors, [2.0], rtol=ROUND_OFF)


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 1000])
def test_buckling_from_a_state_that_does_not_rest(few, monkeypatch):
    """Where one step does not arrive: as under `jit`, and as from the equilibrium; in scenes of many nodes as well."""
    monkeypatch.setattr(buckling, "_FEW", few)
    scene, rest = turntable(1e3, 0.1)
    linear_system = jm.MatrixLinearSystem.build(scene(jnp.zeros(())), rest, jm.Terms(mass=False, damping=False))
    off = replace(rest, position=rest.position | {"polar": rest.position["polar"] + jnp.array([0.3, 0.1])})
    jitted = jax.jit(lambda state: jm.buckling(scene, state, linear_system, count=1).factors)
    for state in (rest, off):
        for found in (jm.buckling(scene, state, linear_system).factors, jitted(state)):
            np.testing.assert_allclose(found, [2.0], rtol=ROUND_OFF)
    free = replace(rest, position=rest.position | {"polar": jnp.zeros((5, 2))})  # where nothing holds angles
    assert jm.buckling(scene, free, linear_system, throw=False).info.result != jm.RESULTS.successful


@pytest.mark.slow
def test_a_load_of_no_stress_does_not_buckle():
    """A motion of all supports together: `dK/dmu` is nil, and what rounding leaves of it is no softening."""
    mesh = jm.mesh.box_mesh(cells=(1, 2), size=(1.0, 2.0), kind="quad")
    foot = mesh.nodes_where(lambda x: x[:, 1] == 0)
    solid = jm.force.QuadFEM.from_mesh("b", mesh, jm.material.StVenantKirchhoff(1e3, 0.3))

    def scene(mu):
        motion = jnp.stack([jnp.zeros(2), jnp.stack([mu, 0.7 * mu])])
        drive = jm.constraint.PrescribedMotion(("b", foot), mesh.points[foot], motion, (0.0, 1.0))
        return jm.System({"b": jm.Vec2()}, forces={"solid": solid}, constraints={"drive": drive})

    state = scene(jnp.zeros(())).at_rest({"b": mesh.points}, time=1.0)
    assert jm.buckling(scene, state, throw=False).info.result == jm.RESULTS.too_few_modes
