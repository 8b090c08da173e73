"""A net of springs that a controller pulls at: a scene of SOFA in Python, made for jaxmech."""

import Sofa


class Pull(Sofa.Core.Controller):
    """Makes a force grow with time, ten times."""

    def __init__(self, force, **data):
        super().__init__(**data)
        self.force, self.steps = force, 0

    def onAnimateBeginEvent(self, event):
        self.steps += 1
        self.force.forces.value = [[0.0, 0.1 * min(self.steps, 10), 0.0]]


def createScene(root):
    root.dt = 0.01
    root.gravity = [0.0, 0.0, 0.0]
    net = root.addChild("net")
    net.addObject("EulerImplicitSolver", name="scheme", rayleighMass=0.5)
    net.addObject("SparseLDLSolver", template="CompressedRowSparseMatrixMat3x3d")
    grid = net.addObject("RegularGridTopology", name="grid", n=[3, 3, 1], min=[0, 0, 0], max=[1, 1, 0])
    net.addObject("MechanicalObject", name="dofs", template="Vec3", position=grid.position.getLinkPath())
    net.addObject("UniformMass", totalMass=0.9)
    net.addObject("MeshSpringForceField", name="springs", stiffness=50.0)
    net.addObject("FixedProjectiveConstraint", indices=[0, 2])
    force = net.addObject("ConstantForceField", name="pull", indices=[7], forces=[[0.0, 0.0, 0.0]])
    root.addObject(Pull(force, name="puller"))
