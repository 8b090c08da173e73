"""Other names of SOFA's classes and templates, states of one number, and what controllers write on the command line."""

import numpy as np
import pytest

import jaxmech as jm
from jaxmech._sofa.command_line import main

OLD = """<Node name="root" dt="0.1" gravity="0 -10 0"><{0}/><{1}/>
  <Node name="f"><MechanicalObject template="{2}" name="p" position="0 0 0 0 0 0 1"/>
  <UniformMass vertexMass="2"/></Node></Node>"""
NEW = ("EulerImplicitSolver", "CGLinearSolver", "Rigid3")


def load(tmp_path, text):
    path = tmp_path / "scene.scn"
    path.write_text(text)
    return jm.sofa.load(path)


@pytest.mark.parametrize(
    "names",
    [
        ("ImplicitEulerSolver", "ConjugateGradient", "Rigid"),
        ("ImplicitEuler", "CGSolver", "Rigid3d"),
        ("EulerImplicit", "CGLinearSolver", "Rigid3f"),
    ],
)
def test_classes_and_templates_by_their_older_names(tmp_path, names):
    new, old = (load(tmp_path, OLD.format(*n)) for n in (NEW, names))
    assert isinstance(old.system.dofs["f/p"], jm.Rigid3)
    assert type(old.integrator) is type(new.integrator)
    np.testing.assert_allclose(jm.total_force(old.system, old.state)["f/p"], [[0, -20, 0, 0, 0, 0]])
    assert names[0] in next(iter(old.root.walk())).name  # which an object is called by, unless it has a name


@pytest.mark.parametrize(
    ("old", "new"),
    [("SVD", "SVDLinearSolver"), ("MINRESSolver", "MinResLinearSolver"), ("MeshObjLoader", "MeshOBJLoader")]
    + [("JacobiSolver", "JacobiPreconditioner"), ("ProjectToLineConstraint", "LineProjectiveConstraint")]
    + [("SurfaceIdentityMapping", "SubsetMapping"), ("VariationalSolver", "VariationalSymplecticSolver")]
    + [("Viewer", "ViewerSetting"), ("RungeKutta2", "RungeKutta2Solver")]
    + [("MultiStepMasterSolver", "MultiStepAnimationLoop")],
)
def test_further_older_names(tmp_path, old, new):
    (one,) = load(tmp_path, f"<Node><{old}/></Node>").root.walk()
    assert (one.kind, one.name) == (new, f"{old}1")


def test_the_older_name_of_a_total_mass_is_read(tmp_path):
    scene = load(tmp_path, '<Node><EulerImplicitSolver/><MechanicalObject/><UniformMass name="m" totalmass="3"/></Node>')
    assert float(scene.system.masses["m"].mass) == 3.0 and "SOFA's default" not in str(scene.report)


def test_older_names_of_collision_models(tmp_path):
    models = "".join(f"<{kind}Model/>" for kind in ("Triangle", "Line", "Point", "Sphere"))
    scene = load(tmp_path, f"<Node><EulerImplicitSolver/><MechanicalObject/><UniformMass/>{models}</Node>")
    kinds = [o.kind for o in scene.root.walk()][-4:]
    assert kinds == [f"{kind}CollisionModel" for kind in ("Triangle", "Line", "Point", "Sphere")]
    assert not scene.report.of("refused")


LINE = """<Node name="root" gravity="0 0 0"><EulerImplicitSolver/><SparseLDLSolver/>
  <MechanicalObject name="p" template="Vec1" position="0 1 3" velocity="1 2 3" rest_position="0 1 2"/>
  <UniformMass/><RestShapeSpringsForceField stiffness="5"/></Node>"""


def test_states_of_one_number(tmp_path):
    scene = load(tmp_path, LINE)
    np.testing.assert_array_equal(scene.state.velocity["p"], [[1], [2], [3]])
    np.testing.assert_allclose(jm.total_force(scene.system, scene.state)["p"], [[0], [0], [-5]])


def test_one_velocity_is_that_of_all_points(tmp_path):
    body = """<Node name="root"><EulerImplicitSolver/><RegularGridTopology n="2 2 1"/><MechanicalObject name="p" {}
      velocity="1 2 3"/><UniformMass/></Node>"""
    np.testing.assert_array_equal(load(tmp_path, body.format("")).state.velocity["p"], [[1, 2, 3]] * 4)
    two = load(tmp_path, body.format('position="0 0 0  1 0 0"')).state
    np.testing.assert_array_equal(two.velocity["p"], [[1, 2, 3]] * 2)


def test_a_topology_of_more_points_than_the_state(tmp_path):
    """A state in a node of its own has no points of the topology above: SOFA's rule."""
    text = """<Node name="root"><EulerImplicitSolver/><MeshTopology position="0 0 0  1 0 0" edges="0 1"/><Node name="n">
      <MechanicalObject/><UniformMass/><MeshSpringForceField stiffness="1"/></Node></Node>"""
    with pytest.raises(jm.sofa.SceneError, match="edges of its topology name node 1, but its state has 1"):
        _ = load(tmp_path, text).system


def test_a_topology_beside_a_mapped_state_has_as_many_points_as_that(tmp_path):
    """They are those of two states, and no matter how many points a state above has."""
    text = """<Node name="root"><EulerImplicitSolver/><SparseLDLSolver/>
      <Node name="a"><MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass/><Node name="both">
        <MechanicalObject name="q"/><SubsetMultiMapping input="@../p @../../b/p" output="@q" indexPairs="0 1  1 0  1 1"/>
        <MeshTopology edges="0 1  1 2"/><MeshSpringForceField name="springs" stiffness="100"/></Node></Node>
      <Node name="b"><MechanicalObject name="p" position="2 0 0  3 0 0"/><UniformMass/></Node></Node>"""
    scene = load(tmp_path, text)
    assert scene.state.position.keys() == {"a/p", "b/p"}
    first, second = scene.system.forces["a/both/springs"].on
    assert first.state == "a/both/q"
    assert [np.ravel(s.nodes).tolist() for s in (first, second)] == [[0, 1], [1, 2]]


SCRIPT = """
import Sofa
class Push(Sofa.Core.Controller):
    def __init__(self, node, **kwargs):
        super().__init__(**kwargs)
        self.node, self.time = node, 0.0
    def onAnimateBeginEvent(self, event):
        self.time += event["dt"]
        self.node.push.forces = [[2 * self.time, 0, 0]]
def createScene(root):
    root.gravity, root.dt = [0, 0, 0], 0.1
    root.addObject("EulerImplicitSolver")
    root.addObject("SparseLDLSolver")
    root.addObject("MechanicalObject", name="p", position=[[0, 0, 0]])
    root.addObject("UniformMass", totalMass=4)
    root.addObject("ConstantForceField", name="push", indices=[0], forces=[[0, 0, 0]])
    root.addObject(Push(node=root, name="controller"))
"""


def test_controllers_write_on_the_command_line(tmp_path, capsys, monkeypatch):
    """`v_n = sum_k h 2 k h / m`; what they write belongs to steps of the script's own length."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scene.py").write_text(SCRIPT)
    run = ["run", "scene.py", "--python", "-n", "3"]
    assert main([*run, "--record", "out.npz"]) == 0
    np.testing.assert_allclose(np.load("out.npz")["p|velocity"][:, 0, 0], 0.1 * 0.2 / 4 * np.array([0, 1, 3, 6]), atol=1e-15)
    assert main([*run[:3], "--compare", "out.npz", "--threshold", "0"]) == 0
    assert "3 steps" in capsys.readouterr().out
    assert main([*run, "--dt", "0.05"]) == 1
    assert "--export and --dt are not for it" in capsys.readouterr().err
