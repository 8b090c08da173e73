"""Scripts as plugins of SOFA have them: prefabs, controllers with data of their own, links, files beside the script."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

PLUGIN = """
import os
import numpy as np
import Sofa, SofaRuntime
import Sofa.Gui
import Sofa.Simulation
from Sofa.constants import Key
from helpers import add_solver

SofaRuntime.importPlugin("Sofa.Component.StateContainer")
here = os.path.dirname(os.path.abspath(__file__))


class Clamp(Sofa.Prefab):
    prefabParameters = [{"name": "box", "type": "Vec6d", "help": "what is held", "default": [-9, -9, -9, 9, 9, 0]}]

    def init(self):
        self.addObject("BoxROI", name="roi", box=self.box.value, position="@../dofs.rest_position")


class Pull(Sofa.Core.Controller):
    def __init__(self, *args, **kwargs):
        Sofa.Core.Controller.__init__(self, *args, **kwargs)
        self.node = kwargs["node"]
        self.addData("speed", type="double", value=2.0, help="[N/s]")
        self.steps = 0

    def onSimulationInitDoneEvent(self, event):
        self.node.mass.totalMass = 8.0

    def onAnimateBeginEvent(self, event):
        self.steps += 1
        with self.node.pull.forces.writeable() as forces:
            forces[0] = [0, self.speed.value * self.node.getRoot().time.value, 0]
        self.speed.value = 3.0
        self.node.getRoot().VisualStyle.displayFlags = "showAll"
        self.node.fem.youngModulus.value = 1000.0 * self.steps

    def onKeypressedEvent(self, event):
        raise RuntimeError(Key.plus)


def createScene(rootNode):
    rootNode.gravity.value = [0, 0, 0]
    rootNode.findData("dt").value = rootNode.dt.value * 2
    rootNode.addObject("RequiredPlugin", pluginName=["Sofa.Component.Mass", "SofaPython3"])
    rootNode.addObject("VisualStyle", displayFlags="showForceFields")
    rootNode.VisualStyle.displayFlags.value = "hideAll"
    beam = rootNode.addChild("beam")
    beam.parts = [beam]
    add_solver(beam)
    mesh = beam.addObject("MeshOBJLoader", name="loader", filename=here + "/square.obj")
    topology = beam.addObject("TriangleSetTopologyContainer", name="topo", src=mesh.getLinkPath())
    beam.addObject("MechanicalObject", name="dofs", template="Vec3d", position=topology.position.getLinkPath())
    beam.createObject("UniformMass", name="mass", totalMass=1.0)
    fem = beam.addObject("TriangularFEMForceFieldOptim", name="fem", poissonRatio=0.3, topology=topology)
    fem.youngModulus = 1e3
    clamp = beam.addChild(Clamp(name="clamp", box=[-1, -1, -1, 0.5, 2, 1]))
    beam.addObject("FixedProjectiveConstraint", indices=clamp.roi.indices.linkpath)
    beam.addObject("ConstantForceField", name="pull", indices=[2], forces=np.zeros((1, 3)))
    assert beam.getRoot() is rootNode and beam.name.value == beam.getName() == "beam" and len(beam.pull.forces) == 1
    assert rootNode["beam.fem"].getClassName() == "TriangularFEMForceFieldOptim"
    assert beam.getMechanicalState() is beam.dofs and beam.getMass() is beam.mass
    rootNode.addObject(Pull(name="controller", node=beam))
    return rootNode


if __name__ == "__main__":
    Sofa.Gui.GUIManager.Init("scene", "qglviewer")
"""
HELPERS = """
def add_solver(node):
    node.addObject("EulerImplicitSolver", rayleighStiffness=0.1)
    node.addObject("SparseLDLSolver", template="CompressedRowSparseMatrixMat3x3d")
"""
SQUARE = "v 0 0 0\nv 0 1 0\nv 1 0 0\nv 1 1 0\nf 1 3 2\nf 3 4 2\n"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    for name, content in (("scene.py", PLUGIN), ("helpers.py", HELPERS), ("square.obj", SQUARE)):
        (folder / name).write_text(content)
    return jm.sofa.record(folder / "scene.py", steps=3)


def test_a_script_of_a_plugin_is_recorded(plugin):
    assert not plugin.report.of("refused") and plugin.dt == 0.02
    np.testing.assert_array_equal(plugin.state.position["beam/dofs"][2], [1.0, 0, 0])
    assert float(plugin.system.masses["beam/mass"].mass) == 2.0  # of 8 kg on four nodes, as written when all was there
    assert "showForceFields" not in str(plugin)


def test_what_its_controller_writes_is_played_back(plugin):
    """Numbers of the system are; data of its own, and what is drawn, are nothing to a simulation."""
    assert [step["@/beam/pull.forces"].split()[1] for step in plugin.changes] == ["0.0", "0.06", "0.12"]
    assert not any("speed" in path for step in plugin.changes for path in step)
    control = plugin.control()
    written = control(jnp.zeros(()), dataclasses.replace(plugin.state, time=jnp.asarray(0.04)), None)
    assert set(written) == {"beam/pull", "beam/fem"} and float(written["beam/fem"]["young"]) == 3000.0


SCRIPTS = {
    "a force of its own": (
        "import Sofa\nclass Magnet(Sofa.Core.ForceField):\n    def addForce(self, m, f, x, v): pass\n"
        "def createScene(root):\n    root.addObject('EulerImplicitSolver')\n"
        "    root.addObject('MechanicalObject', position=[0, 0, 0])\n    root.addObject(Magnet(name='magnet'))",
        "Magnet",
    ),
    "a helper that is not there": ("from stlib3.scene import MainHeader\ndef createScene(root): pass", "sys.path"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_is_missing_is_named(tmp_path, name):
    text, reason = SCRIPTS[name]
    (tmp_path / "scene.py").write_text(text)
    with pytest.raises(jm.sofa.SceneError, match=reason):
        _ = jm.sofa.record(tmp_path / "scene.py").system


PREFAB = """
import Sofa


class Ball(Sofa.Prefab):
    def init(self):
        self.addObject("MechanicalObject", name="dofs", template="Rigid3", position=[0, 2, 0, 0, 0, 0, 1])
        self.addObject("UniformMass", totalMass=3)
        points = self.addChild("points")
        points.addObject("MechanicalObject", name="p", position=[1, 0, 0])
        points.addObject("RigidMapping", input=self.dofs.linkpath, output=points.p.getLinkPath())
        points.addObject("RestShapeSpringsForceField", points="0", external_rest_shape="@/goal/p", stiffness=9)


def createScene(root):
    root.addChild("goal").addObject("MechanicalObject", name="p", position=[1, 2, 0])
    world = root.addChild("world")
    world.addObject("RungeKutta4Solver")
    world.addChild(Ball(name="ball"))
"""


def test_links_of_a_prefab_are_its_own_until_it_is_added(tmp_path):
    """It was its own root when it wrote them; one that leads to nothing in it is of the scene."""
    (tmp_path / "scene.py").write_text(PREFAB)
    scene = jm.sofa.record(tmp_path / "scene.py")
    assert "input=@/world/ball/dofs" in str(scene) and "external_rest_shape=@/goal/p" in str(scene)
    np.testing.assert_allclose(jm.kinematics(scene.system, scene.state)["world/ball/points/p"], [[1, 2, 0]])


CONTROLLERS = """
import numpy as np
import Sofa


class Load(Sofa.Core.Controller):
    def __init__(self, *args, **kwargs):
        Sofa.Core.Controller.__init__(self, *args, **kwargs)
        self.node, self.moves = kwargs["node"], {Sofa.constants.Key.plus: 1.0, Sofa.constants.Key.minus: -1.0}

    def onAnimateBeginEvent(self, event):
        self.node.total.totalForce.value = self.node.total.totalForce.value + np.array([0.0, 4.0, 0.0])
        self.node.each.forces.value = self.node.each.forces.value * 2
        with self.node.more.forces.writeableArray() as forces:
            forces[0] += [0.25, 0, np.cos(0.0)]
        self.node.mass.totalMass.value = 2 * (1 + self.node.getRootContext().time.value)

    def onAnimateEndEvent(self, event):
        self.node.springs.stiffness.value = [10 * self.node.getRootContext().time.value]


def createScene(root):
    root.gravity, root.dt = "0 0 -5", 0.5
    assert root.gravity.value[2] == -5.0 and root.gravity.value.shape == (3,)
    root.addObject("EulerImplicitSolver")
    root.addObject("SparseLDLSolver")
    p = root.addObject("MechanicalObject", name="p", template="Vec3d", position="0 0 0  1 0 0")
    assert p.position.value.tolist() == [[0, 0, 0], [1, 0, 0]] and (p.position.value[:, 0] == [0, 1]).all()
    try:
        p.position.value[0] = 1.0
    except ValueError:
        root.addObject("UniformMass", name="mass", totalMass=2)
    root.addObject("RestShapeSpringsForceField", name="springs", stiffness=[0], points=[1])
    assert p.position.value[root.springs.points.value].shape == (1, 3)
    root.addObject("ConstantForceField", name="total", indices=[0, 1], totalForce=[0, 0, 0])
    root.addObject("ConstantForceField", name="each", indices=[0, 1], forces=[[0, 1, 0], [0, 0, 1]])
    root.addObject("ConstantForceField", name="more", indices=[0], forces=[[0, 0, 0]])
    root.addObject(Load(name="controller", node=root))
"""


@pytest.fixture(scope="module")
def controlled(tmp_path_factory):
    path = tmp_path_factory.mktemp("controlled") / "scene.py"
    path.write_text(CONTROLLERS)
    return jm.sofa.record(path, steps=3)


def test_lists_are_arrays_to_a_script(controlled):
    """As in SOFA's Python: sums and products are of numbers, and only `writeable` writes to them."""
    assert [step["@/each.forces"] for step in controlled.changes[:2]] == [f"0.0 {n}.0 0.0 0.0 0.0 {n}.0" for n in (2, 4)]
    assert controlled.changes[2]["@/more.forces"] == "0.75 0.0 3.0"


def test_what_is_written_at_the_end_of_a_step_is_found_by_the_next(controlled):
    stiffness = [step.get("@/springs.stiffness") for step in controlled.changes]
    assert stiffness == [None, "5.0", "10.0"]  # 10 t, at the end of the first and second step


def test_totals_that_a_controller_writes_are_shared(controlled):
    """`totalForce` 8, 12 N and `totalMass` 3, 4 kg in the last two steps, of two nodes."""
    control = controlled.control()
    for step in (1, 2):
        at = dataclasses.replace(controlled.state, time=jnp.asarray(0.5 * step))
        written = control(jnp.zeros(()), at, None)
        np.testing.assert_allclose(written["total"]["force"], [0, 2.0 * (1 + step), 0])
        np.testing.assert_allclose(written["mass"]["mass"], 1 + 0.5 * step)
