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


@pytest.mark.slow
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


@pytest.mark.slow
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


def body_of(name, x):
    return f"""<Node name="{name}"><MechanicalObject name="p" position="{words(x)}"/><UniformMass vertexMass="2"/>
      <SpringForceField spring="0 1 40 0 0"/></Node>"""


A, B = np.array([[0, 0, 0], [1, 0, 0.0]]), np.array([[1, 0.5, 0], [2, 0, 1.0]])
BODIES = body_of("a", A) + body_of("b", B).replace("</Node>", '<ConstantForceField indices="1" forces="0 1 3"/></Node>')
ATTACH = '<AttachProjectiveConstraint object1="@a" object2="@b" indices1="1" indices2="0" {}/>'


def attached_by_hand(steps, two_ways, share):
    """Nodes 1 and 2 of four: springs of no length are linear; the one is held (or both share what pulls at them)."""
    x, v, h = np.concatenate([A, B]), np.zeros((4, 3)), 0.1
    K = np.zeros((4, 4))
    for i in (0, 2):
        K[i : i + 2, i : i + 2] = 40 * np.array([[1, -1], [-1, 1]])
    M = 2 * np.eye(4) + (h**2 + 0.02 * h) * K
    load = np.zeros((4, 3))
    load[3] = [0, 1, 3]
    S = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1.0]]) if two_ways else np.eye(4)[:, [0, 1, 3]]
    mixed = np.array([[1 - share / 2, share / 2], [share / 2, 1 - share / 2]])
    for _ in range(steps):
        b = h * (load - K @ x - (h + 0.02) * K @ v)
        v = v + S @ np.linalg.solve(S.T @ M @ S, S.T @ b)
        x = x + h * v
        x[2] += share * (x[1] - x[2]) / 2
        v[1:3] = mixed @ v[1:3]
    return x, v


@pytest.mark.slow
@pytest.mark.parametrize(("two_ways", "share"), [(False, 1.0), (False, 0.6), (True, 1.0)])
def test_nodes_that_are_attached(tmp_path, two_ways, share):
    """The second goes half of the way to the first when a step is over, and both have the mean of their velocities."""
    solver = '<CGLinearSolver iterations="50" tolerance="1e-14" threshold="1e-30"/>' if two_ways else "<SparseLDLSolver/>"
    scheme = f'<EulerImplicitSolver rayleighStiffness="0.02"/>{solver}'
    data = f'twoWay="{int(two_ways)}"' + (f' constraintFactor="{share}"' if share != 1 else "")
    scene = load(tmp_path, BODIES + ATTACH.format(data), scheme=scheme)
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=5, save_every=5).last
    x, v = attached_by_hand(5, two_ways, share)
    for found, right in ((end.position, x), (end.velocity, v)):
        np.testing.assert_allclose(np.concatenate([found["a/p"], found["b/p"]]), right, rtol=1e-9, atol=1e-9)
    leaf = scene.where("@/b/ConstantForceField1.forces")

    def tip(f):
        system = eqx.tree_at(leaf, scene.system, f * jnp.array([0.0, 1.0, 3.0]))
        return jm.simulate(system, scene.state, scene.integrator, 0.1, steps=2, save_every=2).last.position["a/p"][0, 2]

    slope = jax.jit(jax.grad(tip))(jnp.asarray(1.0))
    np.testing.assert_allclose(slope, tip(2.0) - tip(1.0), rtol=1e-8, atol=1e-12)  # all of it is linear


@pytest.mark.slow
def test_points_that_are_attached_exactly(tmp_path):
    """They are one, with the motion of three masses in a row; one way alone is refused."""
    scene = load(tmp_path, BODIES + ATTACH.format('twoWay="1"'), solver="exact")
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=5, save_every=5).last
    np.testing.assert_allclose(end.position["a/p"][1], end.position["b/p"][0], atol=1e-9)
    with pytest.raises(jm.sofa.SceneError, match="one way alone"):
        load(tmp_path, BODIES + ATTACH.format(""), solver="exact")


@pytest.mark.parametrize("free", [False, True])
def test_frames_that_are_attached(tmp_path, free):
    """The second has the place, the velocity and, unless it is free, the turn of the first."""
    frame = """<Node name="{0}"><MechanicalObject template="Rigid3" name="p" position="{1} 0 0 0 0 0 1" velocity="{2}"/>
      <UniformMass vertexMass="2 1 [1 0 0,0 1 0,0 0 1]"/></Node>"""
    bodies = frame.format("a", 0, "1 0 0 0 0 0.5") + frame.format("b", 3, "0 0 0 0.7 0 0")
    attach = ATTACH.format(f'freeRotations="{int(free)}"').replace('indices1="1"', 'indices1="0"')
    scene = load(tmp_path, bodies + attach)
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=3, save_every=3).last
    (x, y), (v, w) = ([np.asarray(of[f"{name}/p"])[0] for name in "ab"] for of in (end.position, end.velocity))
    np.testing.assert_allclose(x[:3], [0.3, 0, 0], rtol=1e-12)
    np.testing.assert_array_equal(y[:3], x[:3])
    np.testing.assert_array_equal(w[:3], v[:3])
    turn, spin = (Rotation.from_rotvec([0.21, 0, 0]).as_quat(), [0.7, 0, 0]) if free else (x[3:], v[3:])
    np.testing.assert_allclose(y[3:], turn, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(w[3:], spin, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("free", [False, True])
def test_frames_that_are_attached_both_ways(tmp_path, free):
    """Forces and torques of two frames move both, or the forces alone: one mass of two, on one's springs to rest."""
    frame = """<Node name="{0}"><MechanicalObject template="Rigid3" name="p" position="1 0 0 0 0 0 1"/>
      <UniformMass vertexMass="2 1 [1 0 0,0 2 0,0 0 3]"/>{1}</Node>"""
    pushed, springs = '<ConstantForceField forces="3 0 1 0 0.5 0.4"/>', 'stiffness="50" angularStiffness="20"'
    bodies = frame.format("a", pushed) + frame.format("b", f"<RestShapeSpringsForceField {springs}/>")
    attach = ATTACH.format(f'twoWay="1" freeRotations="{int(free)}"').replace('indices1="1"', 'indices1="0"')
    scheme = '<EulerImplicitSolver rayleighMass="0.1"/><CGLinearSolver iterations="50" tolerance="1e-14" threshold="1e-30"/>'
    scene = load(tmp_path, bodies + attach, scheme=scheme)
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=4, save_every=4).last
    M, K = np.stack([np.diag([2, 2, 2, 2, 4, 6.0])] * 2), np.stack([np.zeros((6, 6)), np.diag([50, 50, 50, 20, 20, 20.0])])
    f, h = np.array([3, 0, 1, 0, 0.5, 0.4]), 0.1
    x, turns, v = np.tile([1.0, 0, 0], (2, 1)), [Rotation.identity()] * 2, np.zeros((2, 6))
    shared = np.arange(6) < (3 if free else 6)
    for _ in range(4):
        pull = -np.concatenate([x[1] - [1.0, 0, 0], turns[1].as_rotvec()]) @ K[1]
        b = h * (np.stack([f, pull]) - h * np.einsum("kij,kj->ki", K, v) - 0.1 * np.einsum("kij,kj->ki", M, v))
        A = (1 + h * 0.1) * M + h**2 * K
        alone, both = (np.linalg.solve(A[i], b[i]) for i in (0, 1)), np.linalg.solve(A.sum(0), b.sum(0))
        v = v + np.where(shared, both, np.stack(list(alone)))
        x, turns = x + h * v[:, :3], [Rotation.from_rotvec(h * v[i, 3:]) * turns[i] for i in (0, 1)]
        x[1], v[1, :3] = x[0], v[0, :3]
        if not free:
            turns[1], v[1, 3:] = turns[0], v[0, 3:]
    for i, name in enumerate("ab"):
        found = np.asarray(end.position[f"{name}/p"])[0]
        np.testing.assert_allclose(found[:3], x[i], rtol=1e-9)
        np.testing.assert_allclose((Rotation.from_quat(found[3:]) * turns[i].inv()).as_rotvec(), 0, atol=1e-9)
        np.testing.assert_allclose(end.velocity[f"{name}/p"][0], v[i], rtol=1e-9, atol=1e-12)


def test_attachments_that_are_refused(tmp_path):
    both = ATTACH.format('twoWay="1"')
    for body, scheme, reason in (
        (both, EULER, "CGLinearSolver"),
        (both, "<NewmarkImplicitSolver/><CGLinearSolver/>", "EulerImplicitSolver alone"),
        (both.replace('indices2="0"', 'indices2="0 0"'), EULER, "twice"),
        (both.replace('indices2="0"', 'indices2="7"'), EULER, "node 7"),
        (both.replace("twoWay", "lastDir"), EULER, "lastDir"),
    ):
        with pytest.raises(jm.sofa.SceneError, match=reason):
            load(tmp_path, BODIES + body, scheme=scheme)


def test_a_state_that_nothing_maps(tmp_path):
    """It stands, whatever pulls at it, and holds the other end of a spring: the period of one mass on it."""
    body = """<MechanicalObject name="p" position="0 0 0"/><UniformMass vertexMass="2"/><Node name="held">
      <MechanicalObject name="q" position="1 0 0" velocity="5 0 0"/><UniformMass vertexMass="3"/><VoidMapping/>
      <ConstantForceField forces="7 7 7"/></Node>
      <SpringForceField object1="@p" object2="@held/q" spring="0 0 40 0 0"/>"""
    scene = load(tmp_path, body)
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=2, save_every=2).last
    x, v = 0.0, 0.0
    for _ in range(2):
        v += 0.1 * (40 * (1 - x) - 0.1 * 40 * v) / (2 + 0.01 * 40)
        x += 0.1 * v
    np.testing.assert_allclose(end.position["p"], [[x, 0, 0]], rtol=1e-12)
    np.testing.assert_array_equal(end.position["held/q"], [[1, 0, 0]])
