"""Mappings with known answers: chart Hessians by hand, and the Hessian of the composed energy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm
from jaxmech._model.dynamics import retract, zero_forces

STATIC = jm.Terms(mass=False, damping=False)


def chart_hessian(system, state):
    """`d2 E(x (+) d) / dd2` at `d = 0`, as one matrix over the main states in order."""
    flat, unravel = jax.flatten_util.ravel_pytree(zero_forces(system, state.position))

    def composed(d):
        moved = retract(system.dofs, state.position, unravel(d))
        return jm.energy(system, eqx.tree_at(lambda s: s.position, state, moved))

    return jax.jit(jax.hessian(composed))(flat)


def assembled(system, state, terms=STATIC):
    """The stiffness matrix, geometric stiffness included unless `terms` leaves it out."""
    linear_system = jm.MatrixLinearSystem.build(system, state, terms)
    return eqx.filter_jit(lambda a, s, x: a.assemble(s, x).as_matrix())(linear_system, system, state)


def test_d6_a_dead_force_on_a_point_of_a_rigid_frame():
    p, f = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    system = jm.System(
        {"frame": jm.Rigid3(), "point": jm.Vec3()},
        mappings={"arm": jm.mapping.RigidMapping(("frame", [0]), "point", [p])},
        forces={"load": jm.force.ConstantForce(("point", [0]), f)},
    )
    state = system.at_rest({"frame": [[0.0, 0, 0, 0, 0, 0, 1]]})
    K = assembled(system, state)
    expected = [[28, -6.5, -9], [-6.5, 22, -13.5], [-9, -13.5, 14]]
    np.testing.assert_allclose(K[3:, 3:], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(chart_hessian(system, state)[3:, 3:], expected, rtol=0, atol=1e-12)

    def torque(turn):
        displaced = retract(system.dofs, state.position, {"frame": jnp.zeros((1, 6)).at[0, 3:].set(turn)})
        return jm.total_force(system, eqx.tree_at(lambda s: s.position, state, displaced))["frame"][0, 3:]

    slope = jax.jit(jax.jacfwd(torque))(jnp.zeros(3))
    np.testing.assert_allclose(slope, np.outer(p, f) - (f @ p) * np.eye(3), rtol=0, atol=1e-12)


class Gaps(jm.mapping.AbstractMapping):
    """`p = (|b - a|^2 + 1)^(1/2)`, a smooth scalar of two points of different states."""

    parents: tuple[jm.Stencil, ...] = jm.stencils()
    child: str = eqx.field(static=True)
    is_linear = False

    def element_apply(self, a, b):
        return jnp.sqrt((b - a) @ (b - a) + 1.0)[None]


@pytest.mark.slow
def test_d7_nested_mappings_give_the_hessian_of_the_composed_energy():
    """Frames and points; points on the frames, points between those, and scalars between both: four levels."""
    rng = np.random.default_rng(5)
    system = jm.System(
        {"frame": jm.Rigid3(), "cloud": jm.Vec3(), "tip": jm.Vec3(), "middle": jm.Vec3(), "gap": jm.Vec1()},
        mappings={
            "arms": jm.mapping.RigidMapping(("frame", [0, 0, 1, 1]), "tip", rng.normal(size=(4, 3))),
            "between": jm.mapping.BarycentricMapping(
                ("tip", [[0, 2], [1, 3], [0, 3]]), "middle", [[0.3, 0.7], [0.5, 0.5], [-0.2, 1.2]]
            ),
            "gaps": Gaps((("middle", [0, 1, 2, 2]), ("cloud", [0, 1, 1, 0])), "gap"),
        },
        forces={
            "springs": jm.force.Springs((("tip", [0, 1, 3]), ("cloud", [1, 0, 1])), [30.0, 20.0, 10.0], 0.4),
            "scalar": jm.force.AnchoredSprings(("gap", range(4)), 50.0, rng.normal(size=(4, 1))),
            "across": jm.force.Springs((("middle", [0]), ("tip", [3])), 15.0, 0.2),
            "load": jm.force.ConstantForce(("middle", [0, 1]), [3.0, -2.0, 5.0]),
        },
    )
    turns = rng.normal(size=(2, 4))
    frames = np.hstack([rng.normal(size=(2, 3)), turns / np.linalg.norm(turns, axis=1, keepdims=True)])
    state = system.at_rest({"frame": frames, "cloud": rng.normal(size=(2, 3))})
    expected = chart_hessian(system, state)
    np.testing.assert_allclose(assembled(system, state), expected, rtol=0, atol=1e-10 * float(jnp.abs(expected).max()))
    without = assembled(system, state, jm.Terms(mass=False, damping=False, geometric=False))
    assert np.abs(without - expected).max() > 1  # the test would notice


def test_c9_a_catenary_of_stiff_links():
    """Span 8 m, length 10 m, 1 N/m: horizontal tension, sag and largest tension, to 0.2 % with 100 links.

    H = w a with sinh(4 / a) = 5 / a; sag a (cosh(4 / a) - 1); T = H cosh(4 / a).
    """
    n, stiffness = 100, 1e6
    s = np.linspace(-4.0, 4.0, n + 1)
    start = np.stack([s, 0 * s, 0.17 * (s**2 - 16.0)], axis=1)
    a, b = np.arange(n), np.arange(1, n + 1)
    system = jm.System(
        {"chain": jm.Vec3(), "links": jm.Vec1()},
        mappings={"links": jm.mapping.DistanceMapping((("chain", a), ("chain", b)), "links", 10.0 / n)},
        forces={"stiff": jm.force.AnchoredSprings(("links", a), stiffness, np.zeros((n, 1)))},
        masses={"weight": jm.mass.UniformMass(("chain", np.arange(n + 1)), 10.0 / n)},
        constraints={"ends": jm.constraint.Fixed(("chain", [0, n]))},
        gravity=(0.0, 0.0, -1.0),
    )
    solution = jm.static_solve(system, system.at_rest({"chain": start}), line_search="residual", max_steps=200)
    x = np.asarray(solution.position["chain"])
    links = np.diff(x, axis=0)
    lengths = np.linalg.norm(links, axis=1)
    tension = stiffness * (lengths - 10.0 / n)
    horizontal = tension * links[:, 0] / lengths
    np.testing.assert_allclose(horizontal, 3.38201879, rtol=2e-3)
    assert abs(-x[:, 2].min() / 2.65437509 - 1) < 2e-3
    # The last link is half a link away from the support: the support itself bears its node's half weight more.
    assert abs(np.hypot(horizontal[0], 0.5 * 10.0) / 6.03639388 - 1) < 2e-3
    assert abs(tension[0] / 6.03639388 - 1) < 1e-2
