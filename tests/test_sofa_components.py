"""Springs, sheets, loads and motions of SOFA that are rarer, against numbers worked out by hand or other elements."""

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
TWO = '<MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass/>'
SHEET = """<RegularGridTopology name="g" n="3 3 1" min="0 0 0" max="2 1 0"/><MechanicalObject name="p"/>
  <UniformMass totalMass="9"/>"""


def load(tmp_path, body, **options) -> Any:
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root" dt="0.05" gravity="0 0 0"><DefaultAnimationLoop/>{EULER}{body}</Node>')
    scene = jm.sofa.load(path, **options)
    assert not scene.report.of("refused"), scene.report
    return scene


def moved(scene, **position):
    return dataclasses.replace(
        scene.state, position=scene.state.position | {s: jnp.asarray(x, float) for s, x in position.items()}
    )


def stiffness(scene, state, name, pair):
    found = jm.matrix.component_matrix(scene.system, state, name, "stiffness")[pair]
    shape = (*(scene.state.position[s].shape[0] for s in pair),)
    return np.asarray(found.to_dense(shape))


def test_a_polynomial_spring(tmp_path):
    """Stretched from 1 to 1.5: F = 10 s + 4 s^2 = 6, dF/ds = 14; compressed it does nothing."""
    body = (
        TWO
        + """<PolynomialSpringsForceField name="s" firstObjectPoints="0" secondObjectPoints="1"
      polynomialStiffness="10 4" polynomialDegree="2"/>"""
    )
    scene = load(tmp_path, body)
    there = moved(scene, p=[[0, 0, 0], [1.5, 0, 0]])
    np.testing.assert_allclose(jm.total_force(scene.system, there)["p"], [[6, 0, 0], [-6, 0, 0]], rtol=ROUND_OFF)
    np.testing.assert_allclose(stiffness(scene, there, "s", ("p", "p"))[:3, :3], np.diag([14, 4, 4]), rtol=ROUND_OFF)
    short = moved(scene, p=[[0, 0, 0], [0.5, 0, 0]])
    assert not np.asarray(jm.total_force(scene.system, short)["p"]).any()
    pushed = load(tmp_path, body.replace("polynomialDegree", 'compressible="1" polynomialDegree')).system
    np.testing.assert_allclose(jm.total_force(pushed, short)["p"][0], [-6, 0, 0], rtol=ROUND_OFF)


def test_a_polynomial_anchor(tmp_path):
    body = (
        TWO
        + """<PolynomialRestShapeSpringsForceField name="s" points="1" polynomialStiffness="10 4"
      polynomialDegree="2" initialLength="2" smoothShift="-1" smoothScale="3"/>"""
    )
    scene = load(tmp_path, body)
    there = moved(scene, p=[[0, 0, 0], [1, 1, 0]])
    e = np.exp(-1 - 3)
    n, P, slope = np.sqrt(1 + e), 10 * 0.5 + 4 * 0.25, 10 + 8 * 0.5
    np.testing.assert_allclose(jm.total_force(scene.system, there)["p"][1], [0, -P / n, 0], rtol=ROUND_OFF)
    K = np.diag([P / n, P / n + (slope / 2 - P / n) * (1 - 3 * e) / n**2, P / n])
    np.testing.assert_allclose(stiffness(scene, there, "s", ("p", "p"))[3:, 3:], K, rtol=ROUND_OFF)


def test_springs_of_vectors(tmp_path):
    body = (
        TWO
        + """<MeshTopology edges="0 1"/><VectorSpringForceField name="s" useTopology="1" stiffness="10"
      viscosity="2"/>"""
    )
    scene = load(tmp_path, body)
    there = dataclasses.replace(moved(scene, p=[[0, 0, 0], [1, 2, 0]]), velocity={"p": jnp.array([[0.0, 0, 0], [0, 0, 3]])})
    np.testing.assert_allclose(jm.total_force(scene.system, there)["p"][0], [0, 20, 6], rtol=ROUND_OFF)


def test_springs_of_orientations(tmp_path):
    """The second frame, turned by 0.4 about z from the first, feels -k 0.4; the first nothing."""
    body = """<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  1 0 0 0 0 0 1"/><UniformMass/>
      <AngularSpringForceField name="s" indices="0 1" angularStiffness="5 7"/>"""
    scene = load(tmp_path, body)
    there = moved(scene, p=[[0, 0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, np.sin(0.2), np.cos(0.2)]])
    force = np.asarray(jm.total_force(scene.system, there)["p"])
    np.testing.assert_allclose(force, [[0] * 6, [0, 0, 0, 0, 0, -2.8]], atol=1e-13)
    K = stiffness(scene, there, "s", ("p", "p"))
    np.testing.assert_allclose(np.diag(K), [0, 0, 0, 5, 5, 5, 0, 0, 0, 7, 7, 7])


def test_springs_against_the_bending_of_quads(tmp_path):
    """Two quads in a row share an edge: over it, or along their diagonals."""
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0  2 0 0  0 1 0  1 1 0  2 1 0"/><UniformMass/>
      <MeshTopology quads="0 1 4 3  1 2 5 4"/><{} name="s"/>"""
    over = load(tmp_path, body.format("QuadBendingSprings")).system.forces["s"]
    assert {tuple(sorted(p)) for p in zip(*(s.nodes.tolist() for s in over.on), strict=True)} == {(0, 2), (3, 5)}
    assert float(over.stiffness) == 100.0
    across = load(tmp_path, body.format("QuadularBendingSprings")).system.forces["s"]
    assert {tuple(sorted(p)) for p in zip(*(s.nodes.tolist() for s in across.on), strict=True)} == {(0, 4), (1, 5)}
    assert float(across.stiffness) == 1e5


def in_plane(scene, name):
    """The stiffness of a sheet at rest between its nodes in x and y."""
    count = len(scene.state.position["p"])
    K = stiffness(scene, scene.state, name, ("p", "p")).reshape(count, 3, count, 3)
    return K[:, :2, :, :2].reshape(2 * count, -1), K[:, 2, :, 2]


def test_sheets_are_the_same_in_their_plane(tmp_path):
    """Plane stress of triangles, by their edges, in the frame of the present triangle, and in that of the one at rest."""
    kinds = ("TriangularTensorMassForceField", "TriangleFEMForceField", "TriangularFEMForceFieldOptim")
    found = [
        in_plane(load(tmp_path, f'{SHEET}<{kind} name="f" youngModulus="7" poissonRatio="0.2"/>'), "f") for kind in kinds
    ]
    for plane, _ in found[:2]:
        np.testing.assert_allclose(plane, found[2][0], atol=1e-12)
    assert (
        np.linalg.eigvalsh(found[0][1])[1] > 1e-3 and not found[1][1].any()
    )  # across it, stiff but for a motion as a whole


def test_the_present_triangle_gives_the_strains(tmp_path):
    """A triangle twice as long in x: u = (-x, 0) there in its own frame, gradients half as large."""
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0  0 1 0"/><UniformMass/><MeshTopology triangles="0 1 2"/>
      <TriangleFEMForceField name="f" youngModulus="8" poissonRatio="0" thickness="3" {}/>"""
    scene = load(tmp_path, body.format(""))
    force = jm.total_force(scene.system, moved(scene, p=[[0, 0, 0], [2, 0, 0], [0, 1, 0]]))["p"]
    np.testing.assert_allclose(force, [[3, 0, 0], [-3, 0, 0], [0, 0, 0]], atol=1e-12)  # 1/2 3 (8 * 1/2) 1/2
    turned = jm.total_force(scene.system, moved(scene, p=[[0, 0, 0], [0, 0, 2], [0, 1, 0]]))["p"]
    np.testing.assert_allclose(turned, [[0, 0, 3], [0, 0, -3], [0, 0, 0]], atol=1e-12)
    strained = load(tmp_path, body.format('planeStrain="1"')).system.forces["f"]
    assert strained.plane_strain


def test_tetrahedra_by_their_edges_are_linear_ones(tmp_path):
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0  0 1 0  0 0 1"/><UniformMass/>
      <MeshTopology tetrahedra="0 1 2 3"/><{} name="f" youngModulus="5" poissonRatio="0.3" {}/>"""
    one, other = (
        stiffness(s, s.state, "f", ("p", "p"))
        for s in (
            load(tmp_path, body.format("TetrahedralTensorMassForceField", "")),
            load(tmp_path, body.format("TetrahedronFEMForceField", 'method="small"')),
        )
    )
    np.testing.assert_allclose(one, other, atol=1e-14)


@pytest.mark.slow
def test_quads_that_bend(tmp_path):
    """In their plane, those of the bilinear element; across it, the shear of the middle: an hourglass is free."""
    body = """<MechanicalObject name="p" position="0 0 0  2 0 0  2 1 0  0 1 0"/><UniformMass/><MeshTopology quads="0 1 2 3"/>
      <QuadBendingFEMForceField name="f" youngModulus="6" poissonRatio="0.2" thickness="0.5"/>"""
    scene = load(tmp_path, body)
    points = np.asarray(scene.state.position["p"])[:, :2]
    mesh = jm.mesh.Mesh(points, [[0, 1, 2, 3]], "quad")
    material = jm.material.LinearElastic(6.0, 0.2)
    other = jm.System(
        {"p": jm.Vec2()}, forces={"f": jm.force.QuadFEM.from_mesh("p", mesh, material, thickness=0.5, plane="stress")}
    )
    rest = other.at_rest({"p": points})
    expected = jm.matrix.component_matrix(other, rest, "f", "stiffness")["p", "p"].to_dense((4, 4))
    plane, across = in_plane(scene, "f")
    np.testing.assert_allclose(plane, expected, atol=1e-12)
    w = np.array([1.0, -1, 1, -1])
    np.testing.assert_allclose(across @ w, 0, atol=1e-13)
    slope = np.array([0.0, 1, 1, 0])  # w,x = 1/2: 5/6 G t A / 4
    np.testing.assert_allclose(slope @ across @ slope, 5 / 6 * 6 / 2.4 * 0.5 * 2 / 4, rtol=1e-12)
    pushed = moved(scene, p=[[0, 0, 0], [2, 0, 1], [2, 1, 1], [0, 1, 0]])
    assert np.asarray(jm.total_force(scene.system, pushed)["p"])[1, 2] < 0


@pytest.mark.slow
def test_a_force_that_changes_with_time(tmp_path):
    """0 to 4 N within 0.1 s, twice as much of it, then 4 N: as each step begins."""
    body = TWO + '<LinearForceField name="f" points="1" times="0 0.1" forces="0 0 0  4 0 0" force="2"/>'
    scene = load(tmp_path, body)
    run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=4)
    speed = np.asarray(run.state.velocity["p"])[:, 1, 0]
    pulls = np.diff(np.concatenate([[0.0], speed])) * 0.5 / 0.05
    np.testing.assert_allclose(pulls[-4:], [0, 4, 4, 4], atol=1e-12)
    factor = scene.where("@/f.force")

    def last(value):
        system = eqx.tree_at(factor, scene.system, value)
        return jm.simulate(system, scene.state, scene.integrator, scene.dt, 3, save_every=3).last.velocity["p"][1, 0]

    np.testing.assert_allclose(jax.grad(last)(2.0), 0.05 / 0.5 * 2, rtol=1e-12)
    exact = load(tmp_path, body, solver="exact")
    run = jm.simulate(exact.system, exact.state, exact.integrator, exact.dt, steps=1)
    np.testing.assert_allclose(run.last.velocity["p"][1, 0], 0.05 / 0.5 * 4, rtol=1e-9)  # the end of the step


MOTIONS = {
    "oscillator": (
        '<OscillatorProjectiveConstraint oscillators="1  1 0 0  0 2 0  3 0.5"/>',
        lambda t: [1, 2 * np.sin(3 * t + 0.5), 0],
    ),
    "parabola": (
        '<ParabolicProjectiveConstraint indices="1" P1="0 0 0" P2="1 1 0" P3="2 0 0" BeginTime="0" EndTime="1"/>',
        lambda t: [2 * t, 2 * t * (2 - 2 * t), 0],
    ),
    "spline": (
        """<HermiteSplineProjectiveConstraint indices="1" BeginTime="0" EndTime="1" X0="1 0 0" dX0="0 6 0" X1="2 0 0"
        dX1="0 0 0" SX0="0 1" SX1="0 1"/>""",
        lambda t: [1 + 3 * t**2 - 2 * t**3, 6 * (t - 2 * t**2 + t**3), 0],
    ),
    "affine": (
        """<AffineMovementProjectiveConstraint indices="1" rotation="0 -1 0  1 0 0  0 0 1" translation="0 0 2"
        beginConstraintTime="0" endConstraintTime="1"/>""",
        lambda t: [1 - t, t, 2 * t],
    ),
}


@pytest.mark.slow_cases("affine", "oscillator")
@pytest.mark.parametrize("kind", MOTIONS)
def test_motions_by_formulas(tmp_path, kind):
    body, place = MOTIONS[kind]
    for solver in ("sofa", "exact"):
        scene = load(tmp_path, TWO + body, solver=solver)
        run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=3)
        for t, x in zip(np.asarray(run.state.time), np.asarray(run.state.position["p"]), strict=True):
            if t > 0:
                late = scene.dt if solver == "sofa" else 0.0  # SOFA's clock moves on after its constraints
                np.testing.assert_allclose(x[1], place(t - late), atol=1e-12)
        np.testing.assert_allclose(x[0], [0, 0, 0], atol=1e-12)
