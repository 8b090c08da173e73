"""Elastic sheets: triangles and quads in space."""

import numpy as np

from .elements import FROZEN, rayleigh_stiffness, stresses_are_ignored
from .numerics.corotational_cells import MembraneTriangles
from .numerics.sheets import BendingQuads, QuadraticSpringTriangles, TensorMassTriangles
from .part_builder import EQUIVALENT, PartBuilder, named
from .read.component import Component
from .read.topology import split_quads


def _moduli(build: PartBuilder, part: Component, young: float, poisson: float) -> tuple[float, float]:
    rayleigh_stiffness(build, part)
    build.parameter(part, "youngModulus", "forces", "young")
    build.parameter(part, "poissonRatio", "forces", "poisson")
    return part.real("youngModulus", young), part.real("poissonRatio", poisson)


_SMALL = EQUIVALENT + "in the plane of x and y, linear in displacements; SOFA's method 'small' reads what it does not fill"


def _turns(build: PartBuilder, part: Component, cells: np.ndarray) -> bool:
    """Whether triangles are corotational: of the method "small" they deform in the axes of the world, along x and y."""
    if part.choice("method", "large", ("large", "small")) == "large":
        return True
    a, b, c = np.moveaxis(build.rest[build.state_of(part)][cells], 1, 0)
    normals = np.cross(b - a, c - a)
    if np.any(np.abs(normals[:, 2]) <= 0.5 * np.linalg.norm(normals, axis=1)):
        raise part.error("method='small' is of sheets along x and y: a triangle stands across that plane")
    return False


def membrane(build: PartBuilder, part: Component) -> str:
    """TriangularFEMForceFieldOptim, and TriangularFEMForceField."""
    state, name = build.state_of(part), named(part.object)
    part.neutral(damping=0.0, rotatedInitialElements="", initialTransformation="")
    scale = part.real("restScale", 1.0)
    if not scale > 0:
        raise part.error(f"restScale is {scale}, expected a positive factor")
    part.ignored("triangleInfo", "vertexInfo", "triangleState", "hosfordExponant", "criteriaValue", "id")
    part.ignored("graphMaxStress", "graphCriteria", "graphOrientation")
    stresses_are_ignored(part)
    young, poisson = _moduli(build, part, 1000.0, 0.45)
    cells = build.topology_of(part, state, "triangles").triangles
    turns = _turns(build, part, cells)
    rest, frozen = scale * build.rest[state], build.sofa and turns
    build.forces[name] = MembraneTriangles((state, cells), rest, young, poisson, frozen, turns=turns)
    return _remark(build, turns)


def _remark(build: PartBuilder, turns: bool, beside: str = "") -> str:
    return _SMALL if not turns else "; ".join(word for word in (beside, FROZEN if build.sofa else "") if word)


def present_membrane(build: PartBuilder, part: Component) -> str:
    """TriangleFEMForceField: strains of the present triangle; quads are split if there is no other."""
    state, name = build.state_of(part), named(part.object)
    part.neutral(initialPoints="")
    thickness, strain = part.real("thickness", 1.0), part.flag("planeStrain", False)
    young, poisson = _moduli(build, part, 1000.0, 0.3)
    build.parameter(part, "thickness", "forces", "thickness")
    mesh = build.topology_of(part, state, "triangles", "quads")
    cells = mesh.triangles if len(mesh.triangles) else split_quads(mesh).triangles
    turns = _turns(build, part, cells)
    options = {"thickness": thickness, "present": turns, "plane_strain": strain, "turns": turns}
    build.forces[name] = MembraneTriangles(
        (state, cells), build.rest[state], young, poisson, build.sofa and turns, **options
    )
    return _remark(build, turns, "strains of the present triangle")


def tensor_mass(build: PartBuilder, part: Component) -> str:
    """TriangularTensorMassForceField."""
    state, name = build.state_of(part), named(part.object)
    part.ignored("edgeInfo")
    young, poisson = _moduli(build, part, 1000.0, 0.3)
    cells = build.topology_of(part, state, "triangles").triangles
    build.forces[name] = TensorMassTriangles((state, cells), build.rest[state], young, poisson)
    return "linear, and stiff across the sheet too"


def bending_quads(build: PartBuilder, part: Component) -> str:
    """QuadBendingFEMForceField."""
    state, name = build.state_of(part), named(part.object)
    part.ignored("quadInfo", "vertexInfo", "edgeInfo", "method")  # there is no other than "small"
    part.neutral(rayleighStiffness=0.0)
    thickness = part.real("thickness", 1.0)
    young, poisson = _moduli(build, part, 1000.0, 0.45)
    build.parameter(part, "thickness", "forces", "thickness")
    cells = build.topology_of(part, state, "quads").quads
    build.forces[name] = BendingQuads((state, cells), build.rest[state], young, poisson, thickness, build.sofa)
    return "in the axes of the world, as SOFA's is"


def quadratic_springs(build: PartBuilder, part: Component) -> str:
    """TriangularQuadraticSpringsForceField and TriangularBiquadraticSpringsForceField."""
    state, name = build.state_of(part), named(part.object)
    part.neutral(dampingRatio=0.0, initialPoints="")
    part.ignored("triangleInfo", "edgeInfo")
    angles, twice = part.flag("useAngularSprings", True), "Biquadratic" in part.object.kind
    compressible = twice and part.flag("compressible", True) and angles
    part.ignored(*(("matrixRegularization",) if twice else ()))
    young, poisson = _moduli(build, part, 1000.0, 0.3)
    cells = build.topology_of(part, state, "triangles").triangles
    options = {"biquadratic": twice, "compressible": compressible}
    build.forces[name] = QuadraticSpringTriangles(
        (state, cells), build.rest[state], young, poisson, float(angles), **options
    )
    return EQUIVALENT + "the derivative of the force, where SOFA's matrix is made more regular" if twice else ""


SHEETS = {
    "TriangularFEMForceFieldOptim": membrane,
    "TriangularFEMForceField": membrane,
    "TriangleFEMForceField": present_membrane,
    "TriangularTensorMassForceField": tensor_mass,
    "QuadBendingFEMForceField": bending_quads,
    "TriangularQuadraticSpringsForceField": quadratic_springs,
    "TriangularBiquadraticSpringsForceField": quadratic_springs,
}
