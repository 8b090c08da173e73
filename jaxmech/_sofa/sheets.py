"""Elastic sheets: triangles and quads in space."""

import numpy as np

from .elements import FROZEN, POISSON, YOUNG, rayleigh_stiffness, stresses_are_ignored
from .numerics.corotational_cells import MembraneTriangles
from .numerics.fibre_triangles import FibreTriangles
from .numerics.sheets import BendingQuads, QuadraticSpringTriangles, TensorMassTriangles
from .part_builder import EQUIVALENT, PartBuilder, named
from .read.component import Component
from .read.topology import split_quads


def _moduli(build: PartBuilder, part: Component, young: float = YOUNG, poisson: float = POISSON) -> tuple[float, float]:
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
    part.neutral(damping=0.0)
    scale = part.real("restScale", 1.0)
    if not scale > 0:
        raise part.error(f"restScale is {scale}, expected a positive factor")
    _watched(part)
    young, poisson = _moduli(build, part)
    cells = build.topology_of(part, state, "triangles").triangles
    turns = _turns(build, part, cells)
    rest, frozen = scale * build.rest[state], build.sofa and turns
    build.forces[name] = MembraneTriangles((state, cells), rest, young, poisson, frozen, turns=turns)
    return _remark(build, turns)


def _watched(part: Component) -> None:
    """Data of triangles that are watched or drawn; those of elements that start turned are refused."""
    part.neutral(rotatedInitialElements="", initialTransformation="")
    part.ignored("triangleInfo", "vertexInfo", "triangleState", "hosfordExponant", "criteriaValue", "id")
    part.ignored("graphMaxStress", "graphCriteria", "graphOrientation")
    stresses_are_ignored(part)


def fibre_sheet(build: PartBuilder, part: Component) -> str:
    """TriangularAnisotropicFEMForceField: fibres along a direction of x and y, or in circles about a centre."""
    state, name = build.state_of(part), named(part.object)
    part.neutral(method="large")
    part.ignored("localFiberDirection")
    _watched(part)
    young, poisson = _moduli(build, part)
    across, angle = part.real("transverseYoungModulus", 1000.0), np.deg2rad(part.real("fiberAngle", 0.0))
    centre = part.reals("fiberCenter", np.zeros((0, 3)), width=3)
    build.parameter(part, "transverseYoungModulus", "forces", "across")
    if young > 0 and not poisson**2 * across < young:
        raise part.error(f"poissonRatio is {poisson}: its square times transverseYoungModulus must be below youngModulus")
    cells, rest = build.topology_of(part, state, "triangles").triangles, build.rest[state]
    a, b, c = np.moveaxis(rest[cells], 1, 0)
    normal = np.cross(b - a, c - a)
    along = np.broadcast_to([np.cos(angle), np.sin(angle), 0.0], a.shape)
    if len(centre):
        along = np.cross(normal, centre[0] - (a + b + c) / 3)
    beside = np.cross(normal, b - a)
    axes = [edge / np.linalg.norm(edge, axis=1, keepdims=True) for edge in (b - a, beside)]
    fibres = np.stack([np.sum(along * axis, axis=1) for axis in axes], axis=1)
    length = np.linalg.norm(fibres, axis=1, keepdims=True)
    if not (length > 1e-12 * np.linalg.norm(along, axis=1, keepdims=True)).all():
        raise part.error(f"its fibres stand across triangle {int(np.argmin(length))}")
    build.forces[name] = FibreTriangles((state, cells), rest, young, across, poisson, fibres / length, build.sofa)
    return FROZEN if build.sofa else ""


def _remark(build: PartBuilder, turns: bool, beside: str = "") -> str:
    return _SMALL if not turns else "; ".join(word for word in (beside, FROZEN if build.sofa else "") if word)


def present_membrane(build: PartBuilder, part: Component) -> str:
    """TriangleFEMForceField: strains of the present triangle; quads are split if there is no other."""
    state, name = build.state_of(part), named(part.object)
    part.neutral(initialPoints="")
    thickness, strain = part.real("thickness", 1.0), part.flag("planeStrain", False)
    young, poisson = _moduli(build, part)
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
    "TriangularAnisotropicFEMForceField": fibre_sheet,
    "TriangleFEMForceField": present_membrane,
    "TriangularTensorMassForceField": tensor_mass,
    "QuadBendingFEMForceField": bending_quads,
    "TriangularQuadraticSpringsForceField": quadratic_springs,
    "TriangularBiquadraticSpringsForceField": quadratic_springs,
}
