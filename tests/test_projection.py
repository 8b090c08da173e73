"""Vectors are projected by a product where a constraint says what is free, and to the same as by its projectors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._sofa.numerics.given_motions import Oscillators

FLAGS = (True, False, True)
HELD = {
    "Fixed": lambda: jm.constraint.Fixed(("p", [0, 3])),
    "FixedComponents": lambda: jm.constraint.FixedComponents(("p", [0, 3]), FLAGS),
    "PrescribedMotion": lambda: jm.constraint.PrescribedMotion(("p", [1]), np.zeros(3), np.zeros((2, 3)), [0.0, 1.0]),
    "some of it": lambda: jm.constraint.PrescribedMotion(("p", [1]), np.zeros(3), np.zeros((2, 3)), [0.0, 1.0], FLAGS),
    "FixedPlane": lambda: jm.constraint.FixedPlane(("p", [2, 3]), (1.0, 2.0, 2.0)),
    "FixedLine": lambda: jm.constraint.FixedLine(("p", [2, 3]), (1.0, 2.0, 2.0)),
}


def scene(*names):
    return jm.System({"p": jm.Vec3()}, constraints={name: HELD[name]() for name in names})


def expected(system, v):
    """`P v` by the projectors of the nodes, one after the other."""
    v = np.array(v)
    for constraint in system.constraints.values():
        for node in np.asarray(constraint.on[0].nodes):
            v[node] = np.asarray(constraint.element_projector(jm.Vec3())) @ v[node]
    return v


@pytest.mark.parametrize(
    "names", [(n,) for n in HELD] + [("FixedComponents", "some of it"), ("Fixed", "FixedPlane")], ids=str
)
def test_a_vector_and_its_transpose(rng, names):
    system, (v, w) = scene(*names), rng.standard_normal((2, 5, 3))
    project = jax.jit(lambda v: jm.integrator.project(system, {"p": v})["p"])
    np.testing.assert_allclose(project(v), expected(system, v), rtol=0, atol=ROUND_OFF)
    back = jax.jit(lambda v, w: jax.vjp(project, v)[1](w)[0])(v, w)
    np.testing.assert_allclose(back, expected(system, w), rtol=0, atol=ROUND_OFF)


def test_what_is_said_to_be_free_is_what_projectors_leave():
    oscillator = Oscillators(("p", [1]), np.zeros(3), np.zeros(3), 1.0, 0.0)
    for constraint in (*(make() for make in HELD.values()), oscillator):
        free = constraint.free_components(jm.Vec3())
        if free is not None:
            np.testing.assert_array_equal(constraint.element_projector(jm.Vec3()), np.diag(np.asarray(free, float)))
    assert [name for name, make in HELD.items() if make().free_components(jm.Vec3()) is None] == ["FixedPlane", "FixedLine"]


def test_a_product_takes_no_rows():
    """Neither does its transpose: a mask, which loops of steps find once, and a product."""
    v = jnp.ones((5, 3))

    def rows_taken(name):
        project = jax.jit(lambda v: jm.integrator.project(scene(name), {"p": v})["p"])
        text = jax.jit(lambda v: jax.vjp(project, v)[1](v)).lower(v).as_text()
        return text.count("stablehlo.gather") + text.count("stablehlo.dot_general")

    assert rows_taken("Fixed") == rows_taken("FixedComponents") == 0 < rows_taken("FixedPlane")


def test_a_node_that_does_not_exist_leaves_no_numbers(rng):
    system = eqx.tree_at(lambda s: s.constraints["Fixed"].on[0].nodes, scene("Fixed"), jnp.array([0, 9]))
    found = jax.jit(lambda s, v: jm.integrator.project(s, {"p": v})["p"])(system, rng.standard_normal((5, 3)))
    assert np.isnan(found).any()
