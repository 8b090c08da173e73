"""Pressures of enclosed volumes, gears and attached nodes of SOFA, against its formulas written anew in NumPy."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm

EULER = "<EulerImplicitSolver/><SparseLDLSolver/>"
OCTAHEDRON = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], float)
FACES = np.array([[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]])


def load(tmp_path, body, scheme=EULER, **options) -> Any:
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root" dt="0.1" gravity="0 0 0"><DefaultAnimationLoop/>{scheme}{body}</Node>')
    scene = jm.sofa.load(path, **options)
    _ = scene.parts  # raises the first refusal
    return scene


def words(numbers) -> str:
    return " ".join(map(repr, np.ravel(numbers).tolist()))


def volume_and_gradient(x):
    """Of the octahedron, about the mean of its nodes, and half a sixth of the area of each face at its nodes."""
    a, b, c = np.moveaxis((x - x.mean(0))[FACES], 1, 0)
    gradient = np.zeros_like(x)
    np.add.at(gradient, FACES, (np.cross(b - a, c - a) / 6)[:, None])
    return np.sum(np.cross(a, b) * c) / 6, gradient


def tait(tmp_path, data, **options):
    body = f"""<MeshTopology position="{words(OCTAHEDRON)}" triangles="{words(FACES)}"/><MechanicalObject name="p"/>
      <UniformMass vertexMass="1"/><TaitSurfacePressureForceField name="s" {data}/>"""
    return load(tmp_path, body, **options)


@pytest.mark.parametrize(
    ("solver", "laws"), [("sofa", ((3.0, 20.0, 5.0), (3.0, 20.0, 1.0))), ("exact", ((3.0, 20.0, 0.0), (0.0, 7.0, 1.4)))]
)
def test_the_pressure_of_what_is_enclosed(tmp_path, solver, laws):
    """`f = p dV/dx`, `df/dx = dp/dV dV/dx dV/dx^T + p d2V/dx2`; of gamma 1 and of none too."""
    x = OCTAHEDRON * [1.1, 0.9, 1.2] + np.random.default_rng(0).normal(scale=0.1, size=(6, 3)) + 0.3
    V, slope = volume_and_gradient(x)
    V0 = volume_and_gradient(OCTAHEDRON)[0]
    for p0, B, gamma in laws:
        scene = tait(tmp_path, f'p0="{p0}" B="{B}" gamma="{gamma}"', solver=solver)
        state = dataclasses.replace(scene.state, position={"p": jnp.asarray(x)})
        p, dp = p0 - B * ((V / V0) ** gamma - 1), -B * gamma * (V / V0) ** gamma / V
        np.testing.assert_allclose(jm.total_force(scene.system, state)["p"], p * slope, rtol=ROUND_OFF, atol=ROUND_OFF)
        hessian = [(volume_and_gradient(x + h)[1] - volume_and_gradient(x - h)[1]).ravel() / 2e-3 for h in _unit(1e-3)]
        A = np.asarray(scene.integrator.problem(scene.system, state, 0.1).A.to_dense())
        K = dp * np.outer(slope, slope) + p * np.array(hessian)
        np.testing.assert_allclose(A, np.eye(18) - 0.01 * K, rtol=1e-9, atol=1e-9)  # the gradient is quadratic


def _unit(h):
    return h * np.eye(18).reshape(18, 6, 3)


def test_volume_that_is_injected_at_a_rate(tmp_path):
    """In the n-th step as much as n steps bring, and no more than is to be; by the gradient too."""
    V0 = volume_and_gradient(OCTAHEDRON)[0]
    data = 'B="20" gamma="2" injectedVolume="-0.25" maxInjectionRate="1"'
    scene = tait(tmp_path, data + ' /><FixedProjectiveConstraint fixAll="1"')
    state, carry = scene.state, None
    for step in range(4):
        rest = V0 + max(-0.25, -0.1 * step)  # what the step before has brought
        p = -20 * ((V0 / rest) ** 2 - 1)
        force = jm.total_force(scene.system, state)["p"]
        np.testing.assert_allclose(force, p * volume_and_gradient(OCTAHEDRON)[1], rtol=ROUND_OFF, atol=ROUND_OFF)
        state, carry, _ = scene.integrator.step(scene.system, state, carry, 0.1)
    moving = tait(tmp_path, data.replace('Rate="1"', 'Rate="100"'))
    leaf = moving.where("@/s.injectedVolume")

    def end(goal):
        system = eqx.tree_at(leaf, moving.system, goal)
        return jm.simulate(system, moving.state, moving.integrator, 0.1, steps=2, save_every=2).last.position["p"][0, 0]

    goal = jnp.asarray(-0.25)
    slope = jax.jit(jax.grad(end))(goal)
    np.testing.assert_allclose(slope, (end(goal + 1e-4) - end(goal - 1e-4)) / 2e-4, rtol=1e-6)


def test_what_encloses_nothing_is_refused(tmp_path):
    body = f"""<MeshTopology position="{words(OCTAHEDRON)}" triangles="{{}}"/><MechanicalObject/><UniformMass/>
      <TaitSurfacePressureForceField B="1" gamma="1"/>"""
    turned = FACES.copy()
    turned[0] = turned[0, ::-1]
    for faces in (FACES[1:], turned):
        with pytest.raises(jm.sofa.SceneError, match="closed surface"):
            load(tmp_path, body.format(words(faces)))
    with pytest.raises(jm.sofa.SceneError, match="encloses"):
        tait(tmp_path, 'B="1" gamma="1" injectedVolume="-100"')
