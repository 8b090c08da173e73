"""Statics from where Newton's method fails: a trust region, and dynamic relaxation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import TWO_MODES

import jaxmech as jm


def chain(links, stiffness, span=8.0, length=10.0, weight=1.0):
    """Links of 1 N/m weight, unless another is said, pushed together on a straight line between two pins."""
    ends = ("p", range(links)), ("p", range(1, links + 1))
    weights = np.tile([0.0, -weight * length / links], (links + 1, 1))
    system = jm.System(
        {"p": jm.Vec2()},
        forces={
            "links": jm.force.Springs(ends, stiffness * links / length, length / links),
            "weight": jm.force.ConstantForce(("p", range(links + 1)), weights),
        },
        constraints={"pins": jm.constraint.Fixed(("p", [0, links]))},
    )
    points = np.stack([np.linspace(0.0, span, links + 1), np.zeros(links + 1)], axis=1)
    return system, system.at_rest({"p": points})


def stable(system, state):
    K = jm.MatrixLinearSystem.build(system, state).assemble(system, state, jm.Factors.only("stiffness"))
    return np.linalg.eigvalsh(np.asarray(K.to_dense())).min() > 0


@pytest.mark.slow
def test_both_methods_find_the_hanging_chain_where_newton_finds_the_pressed_one():
    system, flat = chain(20, 1e3)
    linear_system = jm.MatrixLinearSystem.build(system, flat, jm.Terms(mass=False, damping=False))
    pressed = jm.static_solve(system, flat, linear_system)
    assert np.min(pressed.position["p"][:, 1]) >= 0 and not stable(system, pressed.state)
    hung = {m: jm.static_solve(system, flat, linear_system, method=m) for m in ("trust_region", "dynamic_relaxation")}
    by_region, relaxed = (hung[m].state for m in hung)
    np.testing.assert_allclose(by_region.position["p"], relaxed.position["p"], atol=1e-7)
    assert stable(system, relaxed) and float(relaxed.position["p"][10, 1]) < -2.6
    # Newton agrees, from near there.
    np.testing.assert_allclose(jm.static_solve(system, relaxed).position["p"], by_region.position["p"], atol=1e-9)
    assert hung["trust_region"].info.iterations < 100 < hung["dynamic_relaxation"].info.iterations
    with pytest.raises(jm.FailedComputation, match="trust region did not converge"):
        jm.static_solve(system, flat, linear_system, method="trust_region", max_steps=5)


@pytest.mark.parametrize("unit", [1e-12, 1e12])  # [N]
def test_a_trust_region_takes_as_many_steps_in_any_unit(unit):
    """What is held stands in the matrix with ones, of no unit: they say nothing of how stiff the rest is."""
    found = [jm.static_solve(*chain(4, 1e3 * f, weight=f), method="trust_region") for f in (1.0, unit)]
    assert int(found[0].info.iterations) == int(found[1].info.iterations)
    np.testing.assert_allclose(found[1].position["p"], found[0].position["p"], atol=1e-8)


@pytest.mark.slow
def test_relaxation_without_a_matrix_hangs_a_catenary():
    """Case C9, and the derivative of its solution, which is that of any method."""
    system, flat = chain(100, 1e5)
    options = {"method": "dynamic_relaxation", "max_steps": 100_000}
    hung = jm.static_solve(system, flat, jm.solver.MatrixFreeSystem(), **options)
    force = np.abs(jm.reactions(system, hung.state)["p"][0])
    np.testing.assert_allclose(force[0], 3.38201879, rtol=2e-3)
    np.testing.assert_allclose(-float(hung.position["p"][50, 1]), 2.65437509, rtol=2e-3)
    # The links at the end carry half a link's weight less than the pin.
    np.testing.assert_allclose(np.hypot(force[0], force[1]), 6.03639388, rtol=1e-2)


@pytest.mark.slow
def test_derivatives_do_not_depend_on_the_method():
    system, flat = chain(10, 1e3)
    near = jm.static_solve(system, flat, method="dynamic_relaxation", rtol=1e-4).state
    linear_system = jm.MatrixLinearSystem.build(system, flat, jm.Terms(mass=False, damping=False))

    @jax.jit
    def sags(scale):
        scene = eqx.tree_at(lambda s: s.forces["weight"].force, system, replace_fn=lambda force: scale * force)
        methods = ("newton", "trust_region", "dynamic_relaxation")
        solutions = [jm.static_solve(scene, near, linear_system, method=m) for m in methods]
        return jnp.stack([solution.position["p"][5, 1] for solution in solutions])

    slopes = jax.jacfwd(sags)(1.0)
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6)  # of solutions to the root of rounding
    np.testing.assert_allclose(jax.jacrev(sags)(1.0), slopes, rtol=TWO_MODES)


@pytest.mark.slow
def test_a_trust_region_finds_the_other_side_of_a_snap():
    """Beyond its limit load a shallow truss of springs has one equilibrium left, far away."""
    bars = jm.force.Springs((("p", [0, 1]), ("p", [1, 2])), 1e4, np.sqrt(1.04))
    for load in (100.0, 1000.0):
        system = jm.System(
            {"p": jm.Vec2()},
            forces={"bars": bars, "load": jm.force.ConstantForce(("p", [1]), [[0.0, -load]])},
            constraints={"pins": jm.constraint.Fixed(("p", [0, 2]))},
        )
        start = system.at_rest({"p": [[-1.0, 0.0], [0.0, 0.2], [1.0, 0.0]]})
        there = jm.static_solve(system, start, method="trust_region")
        y = float(there.position["p"][1, 1])
        np.testing.assert_allclose(2e4 * (np.hypot(1, y) - np.sqrt(1.04)) * -y / np.hypot(1, y), load, rtol=1e-7)
        assert y < -0.2 and stable(system, there.state)


class Chirp(jm.force.AbstractForceField):
    """`f = F - sin x^2`, which is nil nowhere for `F > 1`, and stiffer the farther out."""

    on: jm.Stencils = jm.stencils()
    push: jm.Parameter = jm.parameter()

    def element_force(self, x, v):
        del v
        return (self.push - jnp.sin(x[0] ** 2),)


def test_a_method_that_fails_gives_its_own_advice():
    """It was Newton's, which spoke of a line search that others do not have."""
    system, flat = chain(3, 1e3)
    for method, said in (
        ("dynamic_relaxation", "relaxation did not come to rest"),
        ("trust_region", "region did not"),
    ):
        with pytest.raises(jm.FailedComputation, match=said) as failure:
            jm.static_solve(system, flat, method=method, max_steps=2)
        assert "line_search" not in str(failure.value) and failure.value.result == jm.RESULTS.not_converged
        with pytest.raises(ValueError, match=f"line_search has no effect on method '{method}'"):
            jm.static_solve(system, flat, method=method, line_search="residual")


@pytest.mark.parametrize("method", ["newton", "trust_region"])
def test_positions_that_run_away_are_no_equilibrium(method):
    """The rounding of 1e9 m is thousands of newtons there, and what does not vanish must not pass for it."""
    system = jm.System({"x": jm.Vec1()}, forces={"chirp": Chirp(("x", [0]), 1.5)})
    solution = jm.static_solve(system, system.at_rest({"x": [[np.sqrt(np.pi / 2) - 1e-12]]}), method=method, throw=False)
    assert abs(solution.position["x"][0, 0]) > 1e9 and solution.info.result == jm.RESULTS.not_converged


@pytest.mark.slow
def test_a_net_relaxes_soon():
    """Where kinetic energies are compared, a mode with a period of four steps shows no peak, and swings on for 20,000."""
    x, y = (a.ravel() for a in np.meshgrid(np.arange(5.0), np.arange(5.0), indexing="ij"))
    numbers = np.arange(25).reshape(5, 5)
    ends = [
        np.concatenate([a.ravel(), b.ravel()]) for a, b in ((numbers[:-1], numbers[:, :-1]), (numbers[1:], numbers[:, 1:]))
    ]
    net = jm.System(
        {"net": jm.Vec3()},
        forces={"cords": jm.force.Springs((("net", ends[0]), ("net", ends[1])), 500.0, 1.0)},
        masses={"knots": jm.mass.UniformMass(("net", np.arange(25)), 1.0)},
        constraints={"corners": jm.constraint.Fixed(("net", [0, 4, 20, 24]))},
        gravity=[0.0, 0.0, -9.81],
    )
    flat = net.at_rest({"net": np.stack([x, y, 0 * x], axis=1)})
    relaxed = jm.static_solve(net, flat, method="dynamic_relaxation", max_steps=1000)
    sunk = jm.static_solve(net, flat, method="trust_region").state
    np.testing.assert_allclose(relaxed.state.position["net"], sunk.position["net"], atol=1e-6)
