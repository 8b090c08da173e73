"""Pressures of enclosed volumes, gears and attached nodes of SOFA, against its formulas written anew in NumPy."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
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


GEARS = """<MechanicalObject template="Rigid3" name="p"
  position="0 0 0 0 0 0 1  1 0 0 0 0 0 1  2 0 0 0 0 0 1  3 0 0 0 0 0 1"/>
  <UniformMass vertexMass="1 1 [1 0 0,0 1 0,0 0 1]"/><GearSpringForceField name="s" spring="{}"/>"""
TOOTHED = "BEGIN_SPRING {} AXIS 1 2 KS_T 30 KS_R 7 50 KD 3 RATIO -2 END_SPRING"


def shortest(u, v):
    w = np.cross(u, v)
    return w * np.arctan2(np.linalg.norm(w), u @ v) / np.linalg.norm(w)


def gear_by_hand(x, v, start, frames):
    """Forces on the frames, and the matrix of them, of a support and a gear, twice."""
    f, K, turned, about = np.zeros((4, 6)), np.zeros((24, 24)), [], []
    places = [slice(6 * i, 6 * i + 6) for i in range(4)]
    for (base, gear), axis in zip((frames[:2], frames[2:]), (1, 2), strict=True):
        alone = base == gear
        there = start[base] if alone else x[base]
        S, R = (Rotation.from_quat(q[3:]).as_matrix() for q in (there, x[gear]))
        rate = -v[gear] if alone else v[base] - v[gear]
        pull = np.concatenate([30 * (there[:3] - x[gear, :3]), 50 * shortest(R[:, axis], S[:, axis])]) + 3 * rate
        f[gear] += pull
        turns = [shortest(S[:, j], R[:, j]) for j in range(3) if j != axis]
        turned.append(np.mean([np.linalg.norm(w) * np.sign(w @ S[:, axis]) for w in turns]))
        about.append((R[:, axis], S[:, axis], places[gear], gear))
        hard = np.where(np.arange(3) == axis, 0, 50)
        pivot = np.block([[30 * np.eye(3), np.zeros((3, 3))], [np.zeros((3, 3)), (S * hard) @ S.T]])
        K[places[gear], places[gear]] += pivot
        if not alone:
            f[base] -= pull
            K[places[base], places[base]] += pivot
            K[places[gear], places[base]] -= pivot
            K[places[base], places[gear]] -= pivot
    g = -7 * (-2 * turned[0] + turned[1])
    for (now, axis, place, gear), share in zip(about, (1, -0.5), strict=True):
        f[gear, 3:] += g * share * now
        for (_, other, column, _), factor in zip(about, (-2, 1), strict=True):
            K[place, column][3:, 3:] += 7 * share * factor * np.outer(axis, other)
    return f, K


@pytest.mark.parametrize("frames", [(0, 1, 2, 3), (0, 1, 0, 3), (1, 1, 2, 2)])
def test_gears(tmp_path, frames):
    """On two supports, on one, and each on the place where it began."""
    scene = load(tmp_path, GEARS.format(TOOTHED.format(words(frames))))
    start, rng = np.asarray(scene.state.position["p"]), np.random.default_rng(2)
    x, v = start.copy(), rng.normal(size=(4, 6))
    x[:, :3] += rng.normal(size=(4, 3))
    x[:, 3:] = Rotation.from_rotvec(rng.normal(scale=0.6, size=(4, 3))).as_quat()
    state = dataclasses.replace(scene.state, position={"p": jnp.asarray(x)}, velocity={"p": jnp.asarray(v)})
    f, K = gear_by_hand(x, v, start, frames)
    np.testing.assert_allclose(jm.total_force(scene.system, state)["p"], f, rtol=1e-12, atol=1e-12)
    found = jm.matrix.component_matrix(scene.system, state, "s", "stiffness")["p", "p"].to_dense((4, 4))
    np.testing.assert_allclose(found, K, rtol=1e-12, atol=1e-12)


def test_a_gear_turns_the_other(tmp_path):
    """Gear 1 is held turned by 0.3: at rest gear 2 has turned by 0.6, `ratio a1 + a2 = 0`; the exact tangent by differences
    at rest too, where no angle has a direction."""
    body = GEARS.format(TOOTHED.format("0 1 2 3")) + '<FixedProjectiveConstraint indices="0 1 2"/>'
    turned = f"1 0 0 {words(Rotation.from_rotvec([0, 0.3, 0]).as_quat())}"
    scene = load(tmp_path, body.replace("1 0 0 0 0 0 1", turned), scheme="<StaticSolver/><SparseLDLSolver/>", solver="exact")
    end, _, _ = scene.integrator.step(scene.system, scene.state, None, 0.1)
    q = Rotation.from_quat(np.asarray(end.position["p"])[3, 3:]).as_rotvec()
    np.testing.assert_allclose(q, [0, 0, 0.6], atol=1e-9)
    scene = load(tmp_path, GEARS.format(TOOTHED.format("0 1 2 3")), solver="exact")
    x, forces = np.asarray(scene.state.position["p"]), []
    for h in (1e-5, -1e-5):
        there = x.copy()
        there[1, 3:], there[3, 3:] = (Rotation.from_rotvec([0, a, b]).as_quat() for a, b in ((h, 0), (0, 2 * h)))
        moved = dataclasses.replace(scene.state, position={"p": jnp.asarray(there)})
        forces.append(np.asarray(jm.total_force(scene.system, moved)["p"]))
    K = jm.matrix.component_matrix(scene.system, scene.state, "s", "stiffness")["p", "p"].to_dense((4, 4))
    d = np.zeros((4, 6))
    d[1, 4], d[3, 5] = 1, 2
    np.testing.assert_allclose(K @ d.ravel(), (forces[1] - forces[0]).ravel() / 2e-5, atol=1e-7)


def test_gears_that_are_refused(tmp_path):
    for frames, change, reason in (
        ("0 1 2", ("", ""), "4 frames"),
        ("0 1 2 9", ("", ""), "frame 9"),
        ("0 1 2 3", ("AXIS 1 2", "AXIS 1 3"), "two axes"),
        ("0 1 2 3", ("RATIO -2", "RATIO 0"), "RATIO"),
    ):
        with pytest.raises(jm.sofa.SceneError, match=reason):
            load(tmp_path, GEARS.format(TOOTHED.format(frames).replace(*change)))


def test_an_integrator_below_another_moves_nothing(tmp_path):
    """The one above moves all, with the linear solver of its own node."""
    alone = '<MechanicalObject name="p" position="0 0 0"/><UniformMass/><ConstantForceField forces="1 0 0"/>'
    nested = f'<Node name="below"><EulerExplicitSolver/><CGLinearSolver iterations="1"/>{alone}</Node>'
    ends = []
    for body in (f'<Node name="below">{alone}</Node>', nested):
        scene = load(tmp_path, body)
        ends.append(jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=2).last.position["below/p"])
    np.testing.assert_array_equal(*ends)
    assert "moves what is below it" in str(scene.report) and len(scene.parts) == 1
    with pytest.raises(jm.sofa.SceneError, match="second time integrator"):
        load(tmp_path, "<EulerExplicitSolver/>" + alone)
