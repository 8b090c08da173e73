"""Contact problems `u = W r + q`: the cone, the laws, all solvers, derivatives, failures, and two closed forms."""

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from contact_problems import arch, capsules, chain, natural, table
from scipy.special import ellipe, ellipkm1
from tolerances import FINITE_DIFFERENCE, TWO_MODES

import jaxmech as jm
from jaxmech._contact.cone import dual, longest_step, scaling_point, smoothed_projection
from jaxmech._contact.triangle import seen_from_triangle
from jaxmech._math.first_where import first_where

NATURAL = 1e-8  # the residual of the natural map, relative to the velocities: what is asked of every problem
SOLVERS = 1e-6  # impulses of two solvers whose residuals are below NATURAL, where the matrix is well conditioned


def dense(n, condition, mu, seed):
    """A positive definite `W` of this condition, between unrelated contacts."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(3 * n, 3 * n)))[0]
    W = Q * np.logspace(0, -np.log10(condition), 3 * n) @ Q.T
    return jm.contact.ContactProblem((W + W.T) / 2, rng.normal(size=(n, 3)) - [0.3, 0.0, 0.0], np.full(n, mu))


def pile(bodies, each, mu, ratio, seed):
    """A column of rigid bodies, of masses up to `ratio` apart, `each` contacts between two: `W` has no full rank."""
    rng = np.random.default_rng(seed)
    H, v = np.zeros((bodies * each, 3, bodies, 6)), 0.3 * rng.normal(size=(bodies, 6))
    mass = ratio ** rng.uniform(-0.5, 0.5, bodies)
    for k, body in enumerate(np.repeat(np.arange(bodies), each)):
        n = np.array([0.0, 0.0, 1.0]) + 0.3 * rng.normal(size=3)
        t = np.cross(n, [1.0, 0.0, 0.0])
        frame = np.stack([n, t, np.cross(n, t)])
        frame /= np.linalg.norm(frame, axis=1)[:, None]
        arm = np.array([*rng.uniform(-0.5, 0.5, 2), -0.5])
        H[k, :, body] = np.concatenate([frame, np.cross(arm, frame)], axis=1)
        if body:
            H[k, :, body - 1] = -np.concatenate([frame, np.cross(arm + [0.0, 0.0, 1.0], frame)], axis=1)
    v[:, 2] -= 1.0
    H = H.reshape(3 * len(H), -1)
    weights = np.repeat(mass, 6) * np.tile([1.0, 1.0, 1.0, 0.1, 0.1, 0.1], bodies)
    return jm.contact.ContactProblem(H / weights @ H.T, (H @ v.ravel()).reshape(-1, 3), np.full(len(H) // 3, mu))


PROBLEMS = {
    **{f"3, {c:.0e}, {mu}": (dense, 3, c, mu, 1) for c in (1e1, 1e4) for mu in (0.0, 0.3, 1.5)},
    **{f"12, {c:.0e}, {mu}": (dense, 12, c, mu, 1) for c in (1e2, 1e6) for mu in (0.0, 0.3, 1.5)},
    **{f"pile of 3, {mu}, {r:.0e}": (pile, 3, 4, mu, r, 1) for r in (1.0, 1e4) for mu in (0.0, 0.3, 1.5)},
    **{f"pile of 12, {mu}, {r:.0e}": (pile, 12, 4, mu, r, 2) for r in (1.0, 1e3) for mu in (0.0, 0.3, 1.5)},
    **{f"100, {c:.0e}, {mu}": (dense, 100, c, mu, 1) for c in (1e2, 1e8) for mu in (0.3, 1.0)},
    "600, 1e+04, 0.3": (dense, 600, 1e4, 0.3, 1),
    "pile of 75, 0.5": (pile, 75, 8, 0.5, 1.0, 1),  # 600 contacts
}
LARGE = {name for name, (make, n, *_) in PROBLEMS.items() if n > 3 or make is pile}
EASY = {"100, 1e+02, 0.3", "100, 1e+02, 1.0", "600, 1e+04, 0.3"}  # of the same sizes there are worse conditions, and a pile


def stage_of(name):
    return pytest.mark.exhaustive if name in EASY else [pytest.mark.slow] * (name in LARGE)


@pytest.mark.parametrize("name", [pytest.param(n, marks=stage_of(n)) for n in PROBLEMS])
def test_every_problem_is_solved(name):
    make, *numbers = PROBLEMS[name]
    problem = make(*numbers)
    found = jm.contact.solve_contacts(problem)
    r, u, mu = np.asarray(found.impulse), np.asarray(found.velocity), np.asarray(problem.mu)
    assert float(found.info.errors.natural) < NATURAL
    # The laws themselves, in words of their own: impulses in the cone, open contacts without, and slip against friction.
    size = max(np.abs(r).max(), 1.0)
    slip, hold = np.linalg.norm(u[:, 1:], axis=1), np.linalg.norm(r[:, 1:], axis=1)
    assert r[:, 0].min() >= -1e-9 * size and u[:, 0].min() > -1e-7
    assert (hold <= mu * r[:, 0] + 1e-7 * size).all() and np.abs(r[:, 0] * u[:, 0]).max() < 1e-6 * size
    assert np.abs((r[:, 1:] * u[:, 1:]).sum(1) + mu * r[:, 0] * slip).max() < 1e-6 * size


@pytest.mark.slow
@pytest.mark.parametrize("mass", [1e-12, 1e12])  # [kg]
def test_masses_in_any_unit_have_the_same_solution(mass):
    """Impulses are as many times larger, and so is what rounding leaves of them."""
    problem = pile(3, 4, 0.3, 1.0, 1)
    heavy = jm.contact.ContactProblem(problem.W / mass, problem.q, problem.mu)
    found, other = (jm.contact.solve_contacts(p) for p in (problem, heavy))
    assert float(other.info.errors.natural) < NATURAL and int(other.info.steps) == int(found.info.steps)
    np.testing.assert_allclose(other.velocity, found.velocity, atol=1e-9)


HARD = (arch, capsules, chain, table)


def of_hard_problems(make, n):
    """Names and residuals of the problems whose solution is not one: by a natural map of its own, and by what is said."""
    wrong = []
    for mu in (0.0, 0.3, 0.8, 1.5, "mixed"):
        for ratio in (1.0, 1e3, 1e6):
            for seed in (0, 1):
                W, q, friction = make(n, mu, ratio, seed)
                found = jm.contact.solve_contacts(jm.contact.ContactProblem(W, q, friction), throw=False)
                residual = natural(W, q, friction, np.asarray(found.impulse))
                said = bool(found.info.result == jm.RESULTS.successful)
                if not said or residual > NATURAL:
                    wrong.append((mu, ratio, seed, said, residual))
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("make", HARD)
def test_mass_ratios_of_a_million_and_more_contacts_than_hold(make):
    """Of thirty each, all but one of capsules, which is said. Nothing is called a solution that is none."""
    wrong = of_hard_problems(make, 12)
    assert not any(said for *_, said, _ in wrong)
    assert len(wrong) <= (make is capsules)


def test_errors_without_friction_are_those_of_a_half_line():
    """What pulls apart, along the normal alone, has no impulse: no error."""
    problem = jm.contact.ContactProblem(np.eye(3), [[1.0, 0.0, 0.0]], 0.0)
    errors = jax.jit(lambda r: jm.contact.contact_errors(problem, r))(jnp.zeros((1, 3)))
    assert float(errors.natural) == 0.0 and float(errors.coulomb) == 0.0


def test_the_smoothed_projection_is_on_the_central_path():
    rng = np.random.default_rng(0)
    w = jnp.asarray(rng.normal(size=(50, 3)))

    def facts(w, kappa):
        s = smoothed_projection(w, kappa)
        y = s - w
        product = jnp.concatenate([(s @ y)[None], s[0] * y[1:] + y[0] * s[1:]])
        return s, y, product

    every = jax.jit(jax.vmap(facts, in_axes=(0, None)))
    for kappa in (0.0, 1e-3, 0.5):
        s, y, product = (np.asarray(a) for a in every(w, kappa))
        for x in (s, y):
            assert (np.linalg.norm(x[:, 1:], axis=1) <= x[:, 0] + 1e-12).all()
        np.testing.assert_allclose(product, np.broadcast_to([kappa**2, 0.0, 0.0], product.shape), rtol=0, atol=1e-12)
    # At the tip, on the axis and on the edge there are numbers, not NaN.
    corners = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    slopes = jax.jit(jax.vmap(jax.jacfwd(lambda w: smoothed_projection(w, 0.0))))(corners)
    assert np.isfinite(slopes).all()
    np.testing.assert_allclose(slopes[1], np.eye(3), atol=1e-12)


def test_steps_within_cones_and_the_scaling_of_two_points():
    rng = np.random.default_rng(1)
    s, y, d = rng.normal(size=(3, 40, 3))
    for x in (s, y):
        x[:, 0] = np.linalg.norm(x[:, 1:], axis=1) + rng.uniform(0.01, 1.0, 40)
    Q = np.asarray(jax.jit(scaling_point)(s, y))
    np.testing.assert_allclose(np.einsum("nij,nj->ni", Q, s), y, rtol=1e-10, atol=1e-12)
    a = np.asarray(jax.jit(longest_step)(s, 3 * d))[:, None]

    def within(x):
        return x[:, 0] - np.linalg.norm(x[:, 1:], axis=1)

    assert (within(s + 0.999 * a * 3 * d) > 0).all()
    assert (within(s + 1.001 * a * 3 * d)[a[:, 0] < 1] < 0).all() and (a < 1).any() and (a == 1).any()


@pytest.mark.parametrize("method", ["newton", "interior_point", "gauss_seidel", "nncg", "products"])
@pytest.mark.covering(1)
@pytest.mark.slow
def test_all_solvers_find_the_same(method):
    problem = dense(12, 1e2, 0.4, 3)
    expected = np.asarray(jm.contact.solve_contacts(problem).impulse)
    if method == "products":
        W = jnp.asarray(problem.W)
        like = jax.ShapeDtypeStruct((12, 3), W.dtype)
        operator = lx.FunctionLinearOperator(lambda r: (W @ r.reshape(-1)).reshape(12, 3), like)
        problem, method = jm.contact.ContactProblem(operator, problem.q, problem.friction), "auto"
    found = jm.contact.solve_contacts(problem, method=method, max_steps=2000)
    np.testing.assert_allclose(found.impulse, expected, rtol=0, atol=SOLVERS)


def differences(f, x, h=1e-4):
    """The gradient by central differences of fourth order."""
    rows = []
    for e in h * np.eye(x.size):
        rows.append((8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * h))
    return np.stack(rows)


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [0.1, 0.0])
def test_derivatives_of_impulses(kappa):
    given = dense(3, 10.0, 0.4, 5)

    def solved(x, kappa_grad=None):
        problem = jm.contact.ContactProblem(given.W * (1 + x[1]), given.q.at[0].add(x[2:5]), 0.4 + x[0])
        found = jm.contact.solve_contacts(problem, kappa=kappa, kappa_grad=kappa_grad, tolerance=1e-12)
        return jnp.sum(jnp.sin(found.impulse) * jnp.arange(1.0, 10.0).reshape(3, 3))

    def twice(x):
        value = solved(x)
        return value, value

    program, x = jax.jit(lambda x: (*jax.jacfwd(twice, has_aux=True)(x), jax.jacrev(solved)(x))), jnp.zeros(5)
    forward, _, reverse = program(x)
    np.testing.assert_allclose(forward, reverse, rtol=TWO_MODES, atol=TWO_MODES)
    scale = np.abs(forward).max()
    np.testing.assert_allclose(forward, differences(lambda x: program(x)[1], x), rtol=0, atol=FINITE_DIFFERENCE * scale)
    if kappa:
        second = jax.jit(jax.jacfwd(jax.jacrev(solved)))(x)
        np.testing.assert_allclose(second, second.T, rtol=0, atol=1e-8 * np.abs(second).max())
        expected = differences(lambda x: program(x)[2], x)
        np.testing.assert_allclose(second, expected, rtol=0, atol=1e-6 * np.abs(second).max())
    else:
        # The value is Coulomb's, the derivative that of the smoothed law.
        smooth = jax.jit(jax.jacfwd(lambda x: solved(x, 0.1)))(x)
        assert np.abs(smooth - forward).max() > 1e-3 * scale


@pytest.mark.parametrize("against", [[1.0], [0.5, 0.2, 0.3]], ids=["opposed", "four"])
def test_gaps_that_contradict_each_other_are_told_from_what_does_not_converge(against):
    """Contacts of a rigid body whose normals are in balance, and which all close; the same that open enough."""
    rng = np.random.default_rng(0)
    rows, mobility = rng.normal(size=(6, 3, 6)), np.diag(rng.uniform(0.5, 2.0, 6))
    parts = 1 + np.arange(len(against))
    rows[0, 0] = -np.tensordot(against, rows[parts, 0], 1)
    J = rows.reshape(18, 6)
    q, mu = rng.normal(size=(6, 3)), rng.uniform(0.0, 2.0, 6)  # [m/s]
    q[[0, *parts], 0] = -0.5
    ends = []
    for opening in (0.0, 2.0):
        q[0, 0] += opening
        problem = jm.contact.ContactProblem(J @ mobility @ J.T, q, mu)
        ends.append(jm.contact.solve_contacts(problem, throw=False).info.result)
    assert ends[0] == jm.RESULTS.contacts_infeasible != ends[1]


def test_what_cannot_be_solved_is_said_law_by_law():
    wedged = jm.contact.ContactProblem(np.zeros((9, 9)), np.full((3, 3), -1.0), np.full(3, 0.3))
    info = jm.contact.solve_contacts(wedged, throw=False).info
    assert info.result in (jm.RESULTS.contacts_infeasible, jm.RESULTS.contacts_not_converged)
    with pytest.raises(jm.FailedComputation, match=r"Signorini .* N s, Coulomb .* N s, dissipation .* J, natural map"):
        jm.contact.solve_contacts(wedged)
    with pytest.raises(Exception, match=r"Signorini .* N s, Coulomb"):
        jax.block_until_ready(jax.jit(jm.contact.solve_contacts)(wedged))


def disc(r, a):
    """Displacement [m] at `r` by unit pressure on a disc of radius `a` on an elastic half space with `E* = 1`.

    S. P. Timoshenko and J. N. Goodier, *Theory of Elasticity*, 3rd ed., 1970, section 139.
    """
    k = np.minimum(r, a) / np.maximum(r, a)
    outside = r * (ellipe(k**2) - (1 - k**2) * ellipkm1(1 - k**2))
    return 4 / np.pi * np.where(r < a, a * ellipe(k**2), outside)


def rings(n, width):
    """Radii of the middles of `n` rings, their areas, and displacements there by unit forces on each."""
    edges = width / n * np.arange(1, n + 1)
    area = np.pi * np.diff(edges**2, prepend=0.0)
    W = np.diff(disc(edges[:, None] - 0.5 * width / n, edges), axis=1, prepend=0.0) / area
    return edges - 0.5 * width / n, area, 0.5 * (W + W.T)


def ends(r, traction):
    """Where a traction that is a semi-ellipse over the radius, its square a line over the square of that, is nil."""
    inner = traction > 0.2 * traction.max()
    slope, middle = np.polyfit(r[inner] ** 2, traction[inner] ** 2, 1)
    return np.sqrt(-middle / slope)


@pytest.mark.slow
def test_hertz_and_cattaneo_mindlin():
    """A sphere on a half space, `E* = E / (1 - nu^2)`, `R = 1`: `F = 4 E* a^3 / 3`; under a force `Q = mu P / 2` along the
    surface the middle sticks, to `0.5^(1/3)` of the radius."""
    E, a, mu = 1000.0 / (1 - 0.3**2), 0.1, 0.4
    exact = 4 * E * a**3 / 3
    assert exact == pytest.approx(1.46520, rel=1e-5)
    # How far the sphere is shifted by Q = mu P / 2: of the same kernel, 3 mu P / (4 a E*) (1 - (1/2)^(2/3)).
    shift, off = mu * a**2 * (1 - 0.5 ** (2 / 3)), []
    for n in (10, 40):
        r, area, W = rings(n, 0.11)
        W = np.kron(W / E, np.eye(3))  # kernels of normal and tangential forces are the same where nu is nil
        q = np.stack([0.5 * r**2 - a**2, np.full(n, -shift), np.zeros(n)], axis=1)
        found = jm.contact.solve_contacts(jm.contact.ContactProblem(W, q, np.full(n, mu)))
        P, Q = np.asarray(found.impulse[:, 0]), np.asarray(found.impulse[:, 1])
        stuck = ends(r, (mu * P - Q) / area)  # what friction leaves unused is a semi-ellipse too
        off.append(np.abs([P.sum() / exact - 1, Q.sum() / (0.5 * mu * P.sum()) - 1, stuck / ends(r, P / area) - 0.793701]))
    assert (off[1] < [1e-3, 1e-3, 1e-3]).all() and (off[1] < off[0]).all(), off


def test_shapes_are_distances():
    """Their gradients are of length 1, and a step along them ends on the surface."""
    rng = np.random.default_rng(2)
    shapes = {
        "plane": jm.contact.Plane(),
        "sphere": jm.contact.Sphere(0.5),
        "capsule": jm.contact.Capsule(0.4, 0.2),
        "box": jm.contact.Box([0.3, 0.4, 0.5]),
        "slope": jm.contact.HeightField(0.2 * np.add.outer(np.arange(3.0), 2 * np.arange(3.0)), 1.0),
    }
    points = jnp.asarray(rng.uniform(-1.0, 1.0, (40, 3)))
    box = jm.contact.Box([0.1, 0.1, 0.1])

    def measured(shape):
        d, n = jax.vmap(jax.value_and_grad(shape.distance))(points)
        return d, n, jax.vmap(shape.distance)(points - d[:, None] * n)

    @jax.jit
    def facts():
        edges = 0.1 + 1e-12 * jnp.array([[0, 0, 1], [1, 0, -1], [1, 1, 1], [0, 0, 0], [1, -1, -1]])
        above = jnp.array([0.0, 0.0, 0.2])
        at_edge = jax.vmap(jax.grad(box.distance_from), in_axes=(0, None))(edges, above)
        return {name: measured(shape) for name, shape in shapes.items()}, at_edge

    found, at_edge = facts()
    for name, (d, n, ends) in found.items():
        length = np.linalg.norm(n, axis=1)[d > 1e-3]
        np.testing.assert_allclose(length, 1.0, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(ends, 0.0, atol=1e-12, err_msg=name)
    # A corner exactly on the edge of a box of equal size below it: the face that looks at the other body.
    np.testing.assert_allclose(at_edge, np.tile([0.0, 0.0, 1.0], (5, 1)), atol=1e-12)


@pytest.mark.parametrize("entries", [0, 1, 32, 33, 1000])
def test_the_first_that_are_near_in_their_order(entries, rng):
    """Few, many, all or none of a mask, of fewer and more slots than are true."""
    masks = rng.random((4, entries)) < np.array([[0.0], [0.05], [0.6], [1.0]])
    for size in {1, 7, entries}:
        found, counts = jax.jit(jax.vmap(lambda mask, n=size: first_where(mask, n)))(masks)
        for mask, pairs, count in zip(masks, np.asarray(found), np.asarray(counts), strict=True):
            held = np.flatnonzero(mask)[:size]
            assert count == mask.sum()
            assert np.array_equal(pairs, np.pad(held, (0, size - held.size)))


def test_the_nearest_point_of_a_triangle():
    """Against the smallest of many."""
    corners = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.2, 0.0], [0.1, 0.9, 0.3]])
    rng = np.random.default_rng(3)
    points = jnp.asarray(rng.uniform(-1.0, 1.5, (30, 3)))
    rim = jnp.zeros(3, bool)
    seen = jax.jit(jax.vmap(lambda p: seen_from_triangle(p, corners, rim)))(points)
    weights, over, beyond, distance = (np.asarray(a) for a in (seen.weights, seen.over, seen.beyond, jnp.abs(seen.distance)))
    grid = np.array([(i, j, 200 - i - j) for i in range(201) for j in range(201 - i)]) / 200
    least = np.linalg.norm(np.asarray(points)[:, None] - grid @ np.asarray(corners), axis=2).min(1)
    assert (distance <= least + 1e-12).all() and (distance >= least - 1e-2).all()
    assert over.any() and not over.all() and not beyond.any() and np.allclose(weights.sum(1), 1.0)


def test_nothing_is_behind_the_rim_of_a_surface():
    """Points beside a square of two triangles, behind it, and within: one beside it was taken for as deep as it is far.
    What is a hundredth beyond the rim is over it still, as nodes of meshes are that lie edge on edge, unless it is deep."""
    square = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    points = jnp.array([[-0.1, 0.5, -0.05], [-0.1, 0.5, 0.05], [0.5, 0.5, -0.05], [1.2, 1.2, -0.1], [1.2, -0.2, -0.1]])
    points = jnp.concatenate([points, jnp.array([[-0.01, 0.5, -0.03], [0.5, -0.01, 0.2], [0.5, -0.01, -0.2]])])
    of = {"p": points, "square": square}
    skin = jm.contact.SurfaceContact(("p", range(8)), ("square", [[0, 1, 2], [1, 3, 2]]))
    assert np.array_equal(skin.rim, [[True, False, True], [True, True, False]])
    np.testing.assert_allclose(
        skin.gaps(of), [*2 * [np.hypot(0.1, 0.05)], -0.05, 0.3, 0.3, -0.03, 0.2, np.hypot(0.01, 0.2)], rtol=1e-12
    )
    away = jax.jit(jax.jacrev(lambda at: skin.coordinates(jnp.asarray(0), of, {**of, "p": at})))(points)
    np.testing.assert_allclose(away[0, 0], np.array([-0.1, 0.0, -0.05]) / np.hypot(0.1, 0.05), atol=1e-12)


def test_the_dual_of_a_velocity():
    """`s . y = r . (u + mu |u_T| n)`."""
    u, s, mu = jnp.array([0.3, -0.2, 0.5]), jnp.array([1.0, 0.2, -0.4]), 0.7
    r = s * jnp.array([1.0, mu, mu])
    term = mu * jnp.linalg.norm(u[1:])
    np.testing.assert_allclose(s @ dual(u, jnp.asarray(mu)), r @ u + r[0] * term, rtol=1e-14)


@pytest.mark.slow
def test_newton_goes_round_the_edges_of_the_law():
    """From no impulses, by itself: where it sticks it goes on along smoothed laws. It stuck at 21 of these."""
    problems = [capsules(12, 0.5, 1.0, seed) for seed in range(24)]
    W, q = (jnp.asarray([problem[k] for problem in problems]) for k in (0, 1))

    def error(W, q):
        problem = jm.contact.ContactProblem(W, q, 0.5)
        return jm.contact.solve_contacts(problem, method="newton", throw=False).info.errors.natural

    assert np.max(jax.jit(jax.vmap(error))(W, q)) < NATURAL
