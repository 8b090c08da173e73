"""First and second derivatives of steps with contact at fixed smoothness, by all that a scene has, against differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from test_contact import differences
from tolerances import FINITE_DIFFERENCE, ROUND_OFF

import jaxmech as jm
from jaxmech._contact import eliminated
from jaxmech._contact.eliminated import Eliminated
from jaxmech._contact.eliminated_solver import EliminatedSolver
from jaxmech._contact.schur import IMPULSES
from jaxmech._contact.sparse_rows import SparseRows

NAMES = ("friction", "stiffness", "rest mesh", "radius", "shape", "height", "speed", "push")
POINT = jnp.array([0.3, 1.0, 1.2, 0.02, 5.0, 0.01, 0.5, 1.5])
CORNERS = np.array([[0.0, 0.0, 0.01], [1.0, 0.0, -0.09], [0.0, 1.0, -0.1], [0.3, 0.3, 1.0]])


def pushed_tetrahedron(kappa):
    """A soft tetrahedron on a ball, of which one corner is pushed."""
    system = jm.System(
        {"p": jm.Vec3()},
        forces={
            "solid": jm.force.TetrahedronFEM(("p", [[0, 1, 2, 3]]), CORNERS, jm.material.NeoHookean(50.0, 0.3)),
            "push": jm.force.ConstantForce(("p", [1]), [0.0, 0.0, 0.0]),
        },
        masses={"mass": jm.mass.UniformMass(("p", range(4)), 1.0)},
        gravity=[0.3, 0.0, -9.81],
    )
    state = system.at_rest({"p": CORNERS})
    ball = jm.contact.PointContact(("p", range(4)), jm.contact.Sphere(5.0), at=[0.0, 0.0, -5.0, 0.0, 0.0, 0.0, 1.0])
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    # Newton alone makes the smaller program; derivatives are of the equations, whatever solves them.
    return system, state, jm.integrator.FreeMotion(motion, {"ball": ball}, kappa=kappa, tolerance=1e-12, method="newton")


def smooth_end(x, scene):
    """A number of the end of a step, of `NAMES`."""
    system, state, scheme = scene
    forces = system.forces
    at = lambda s: (s.forces["solid"].material.young, s.forces["solid"].rest, s.forces["push"].force)  # noqa: E731
    numbers = 50.0 * x[1], forces["solid"].rest.at[3, 2].set(x[2]), x[7] * jnp.array([1.0, 0.5, -1.0])
    ball = eqx.tree_at(lambda b: (b.friction, b.radius, b.shape.radius), scheme.contacts["ball"], (x[0], x[3], x[4]))
    scheme = eqx.tree_at(lambda s: s.contacts["ball"], scheme, ball)
    place = {"p": state.position["p"].at[0, 2].set(x[5])}
    start = jm.State(place, {"p": state.velocity["p"].at[:, 0].set(x[6])}, state.time)
    end = scheme.step(eqx.tree_at(at, system, numbers), start, None, 0.05, throw=False)[0]
    return jnp.sum(jnp.cos(jnp.arange(12.0)).reshape(4, 3) * (10 * end.position["p"] + end.velocity["p"]))


@pytest.mark.slow
def test_first_and_second_derivatives_of_steps_by_all_that_a_scene_has():
    """At `kappa` of the size of what moves, so that friction, its edge and the lift-off are smooth. One program for all."""
    scene = pushed_tetrahedron(kappa=0.05)

    def slopes(x):
        value, slope = jax.value_and_grad(smooth_end)(x, scene)
        return slope, (value, slope)

    found = jax.jit(jax.jacfwd(slopes, has_aux=True))
    second, (_, gradient) = jax.tree.map(np.asarray, found(POINT))
    assert (np.abs(gradient) > 1e-3).all(), dict(zip(NAMES, gradient, strict=True))  # each counts
    wanted = differences(lambda x: np.append(*found(x)[1]), POINT)
    np.testing.assert_allclose(gradient, wanted[:, 0], rtol=0, atol=FINITE_DIFFERENCE * np.abs(gradient).max())
    largest = np.abs(second).max()
    np.testing.assert_allclose(second, second.T, rtol=0, atol=1e-8 * largest)
    np.testing.assert_allclose(second, wanted[:, 1:], rtol=0, atol=1e-6 * largest)


@pytest.mark.slow
def test_what_sticks_on_a_slope_stands_still_however_it_came(rng):
    """Slips that rounding leaves have no direction: derivatives of what stands still were as large as what came in."""
    points, friction, tilt = 12, 0.8, 0.3
    normal = np.array([np.sin(tilt) * np.cos(0.4), np.sin(tilt) * np.sin(0.4), np.cos(tilt)])
    frame = jm.constraint.frame([0.0, 0.0, 0.0], normal)
    along = lambda v: v - np.outer(v @ normal, normal)  # noqa: E731
    system = jm.System(
        {"p": jm.Vec3()},
        masses={"mass": jm.mass.DiagonalMass(("p", range(points)), rng.uniform(0.5, 2.0, points))},
        gravity=(0.0, 0.0, -9.81),
    )
    state = system.at_rest({"p": along(rng.normal(size=(points, 3)))})
    floor = jm.contact.PointContact(("p", range(points)), jm.contact.Plane(), at=frame, friction=friction)
    scheme = jm.integrator.FreeMotion(jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state)), {"floor": floor})

    def end(velocity):
        came = eqx.tree_at(lambda s: s.velocity["p"], state, velocity)
        found, _, info = scheme.step(system, came, None, 0.01)
        return found.velocity["p"], info.contacts.impulse

    came, rate = (along(rng.normal(size=(points, 3))) for _ in range(2))
    (_, r), (moved, pushed) = jax.jit(lambda v, d: jax.jvp(end, (v,), (d,)))(0.01 * came, rate)
    assert (np.hypot(r[:, 1], r[:, 2]) < 0.9 * friction * r[:, 0]).all()
    assert np.abs(moved).max() < ROUND_OFF and np.abs(pushed[:, 0]).max() < ROUND_OFF


@pytest.mark.slow
def test_what_no_iteration_solves_a_factor_does(monkeypatch, rng):
    """The system of motion and impulses, and its transpose, with products that give up at once, beside the dense one."""
    monkeypatch.setattr(eliminated, "_MOST", 1)
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
    system = jm.System(
        {"block": jm.Vec3()},
        forces={"solid": jm.force.TetrahedronFEM.from_mesh("block", mesh, jm.material.NeoHookean(2e4, 0.3))},
        masses={"mass": jm.mass.DiagonalMass.from_mesh("block", mesh, 1000.0)},
    )
    state = system.at_rest({"block": mesh.points})
    A = jm.MatrixLinearSystem.build(system, state).assemble(system, state, jm.Factors(1.0, 0.0, 1e-2))
    n, lowest = 4, mesh.nodes_where(lambda x: x[:, 2] == 0.0)
    H = rng.normal(size=(n, 3, 3))
    rows = SparseRows({"block": (jnp.asarray(lowest)[:, None], jnp.asarray(H)[:, :, None, :])})
    P, B = (jnp.asarray(rng.normal(size=(n, 3, 3))) for _ in range(2))
    mobility = jnp.asarray(rng.uniform(1.0, 2.0, n))
    mu = jnp.asarray(rng.uniform(0.1, 1.0, n))
    zero = jnp.zeros((n, 3))
    whole = Eliminated.of_law(A, rows, mu, (P, B), zero, mobility, "iterative")
    for taken in (whole, whole.transposed):

        def product(x, taken=taken):
            left = taken.left({"block": x[:24].reshape(8, 3)}, x[24:].reshape(n, 3), {"block": jnp.zeros((8, 3))}, zero)
            return -ravel_pytree(left)[0]

        dense = jax.jit(jax.vmap(product))(jnp.eye(24 + 3 * n)).T
        b = rng.normal(size=24 + 3 * n)
        vector = {"block": jnp.asarray(b[:24].reshape(8, 3)), IMPULSES: jnp.asarray(b[24:].reshape(n, 3))}
        found, result, _ = jax.jit(lambda v, taken=taken: EliminatedSolver(taken).compute(taken, v, {}))(vector)
        assert result == lx.RESULTS.successful
        x = np.concatenate([np.ravel(found["block"]), np.ravel(found[IMPULSES])])
        np.testing.assert_allclose(x, np.linalg.solve(dense, b), rtol=0, atol=1e-9 * np.abs(x).max())
