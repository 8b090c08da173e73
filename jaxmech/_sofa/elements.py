"""Elastic solids and sheets."""

import re
from functools import partial
from typing import Any

import numpy as np

from .numerics.corotational_cells import CorotationalCells
from .numerics.frame_beam import FrameBeam, FrozenFrameBeam
from .numerics.plastic_tetrahedra import PlasticTetrahedra
from .part_builder import PartBuilder, named
from .read.component import Component
from .read.topology import cut_into_tetrahedra

FROZEN = "its tangent leaves out how rotations change, as SOFA's does"
YOUNG, POISSON = 5000.0, 0.45  # of SOFA's linear elements that say none
_METHODS = {"small": "small", "large": "large", "polar": "polar", "svd": "svd"}
_FAST = {"qr": "large", "large": "large", "none": "small", "small": "small", "polar": "gradient", "polar2": "polar"}
_GENERIC = {
    "Edge": "edges",
    "Triangle": "triangles",
    "Quad": "quads",
    "Tetrahedron": "tetrahedra",
    "Hexahedron": "hexahedra",
    "Prism": "prisms",
    "Pyramid": "pyramids",
}
_SVD = "'svd' is 'polar' until an element is nearly inverted"


def _solid(
    build: PartBuilder,
    part: Component,
    kind: str,
    cells: np.ndarray,
    method: str,
    young: Any,
    poisson: Any,
    share: Any = 1.0,
    plastic: tuple[float, float, float] | None = None,
) -> str:
    state, name = build.state_of(part), named(part.object)
    rest = build.rest[state]
    widths = (2, 3) if kind in ("triangle", "quad", "edge") else (3,)
    if build.dofs[state].coord_size not in widths or not build.dofs[state].is_vector_space:
        raise part.error(f"acts on points of space (Vec3){' or the plane (Vec2)' if 2 in widths else ''}")
    young, poisson = _per_cell(part, "youngModulus", young, cells), _per_cell(part, "poissonRatio", poisson, cells)
    if not (np.asarray(young) > 0).all() or not ((np.asarray(poisson) > -1) & (np.asarray(poisson) < 0.5)).all():
        raise part.error(f"youngModulus must be positive and poissonRatio between -1 and 0.5, got {young} and {poisson}")
    rotation = {"svd": "polar", "none": "small"}.get(method, method)
    if plastic is None:
        field = CorotationalCells((state, cells), rest, young, poisson, kind, rotation, build.sofa, share)
    else:
        _plastic_is_translated(build, part, state)
        field = PlasticTetrahedra((state, cells), rest, young, poisson, *plastic, rotation, build.sofa, share)
    build.forces[name] = field
    build.parameter(part, "youngModulus", "forces", "young")
    build.parameter(part, "poissonRatio", "forces", "poisson")
    remarks = [_SVD] if method == "svd" else []
    remarks += [] if plastic is None else ["thresholds are of six times the volume times the strain, as in SOFA"]
    return "; ".join(remarks + ([FROZEN] if build.sofa and rotation != "small" else []))


def _plastic_is_translated(build: PartBuilder, part: Component, state: str) -> None:
    if not np.array_equal(build.position[state], build.rest[state]):
        raise part.error("plasticity of nodes that do not start at rest is not translated")
    if part.flag("computeGlobalMatrix", False):
        raise part.error("computeGlobalMatrix with plasticity has no forces in SOFA")
    for data, field in (("plasticYieldThreshold", "yields"), ("plasticMaxThreshold", "most"), ("plasticCreep", "creep")):
        build.parameter(part, data, "forces", field)


def _per_cell(part: Component, name: str, values: np.ndarray, cells: np.ndarray) -> Any:
    if len(values) == 1:
        return float(values[0])
    if len(values) != len(cells):
        raise part.error(f"{name} has {len(values)} entries, expected 1 or {len(cells)}")
    return values


def _moduli(part: Component, young: float = YOUNG, poisson: float = POISSON) -> tuple[np.ndarray, np.ndarray]:
    return part.reals("youngModulus", np.array([young])), part.reals("poissonRatio", np.array([poisson]))


def stresses_are_ignored(part: Component) -> None:
    part.ignored("computeVonMisesStress", "vonMisesPerElement", "vonMisesPerNode", "computeGlobalMatrix", "gatherPt")
    part.ignored("gatherBsize", "updateStiffness", "computePrincipalStress", "stressMaxValue")


def tetrahedra(build: PartBuilder, part: Component) -> str:
    """TetrahedronFEMForceField and TetrahedralCorotationalFEMForceField; hexahedra are cut where there is nothing else."""
    fast = part.object.kind.endswith("FastTetrahedralCorotationalForceField")
    names = _FAST if fast else _METHODS
    method = names[part.choice("method", "qr" if fast else "large", names)]
    young, poisson = _moduli(part)
    stresses_are_ignored(part)
    rayleigh_stiffness(build, part)
    part.ignored("pointInfo", "edgeInfo", "tetrahedronInfo")
    part.neutral(updateStiffnessMatrix=False, initialPoints="")
    most, creep = part.real("plasticMaxThreshold", 0.0), part.real("plasticCreep", 0.9)
    plastic = (part.real("plasticYieldThreshold", 1e-4), most, creep) if most > 0 else None
    mesh = build.topology_of(part, build.state_of(part), "tetrahedra", "hexahedra")
    if not len(mesh.tetrahedra):
        build.cut.add(named(part.object))
    cut = "" if len(mesh.tetrahedra) else "of the hexahedra of its topology, six each"
    cells = (mesh if len(mesh.tetrahedra) else cut_into_tetrahedra(mesh, False)).tetrahedra
    share = part.reals("localStiffnessFactor", np.zeros(0))
    if (share < 0).any():
        raise part.error(f"localStiffnessFactor is {share.min()}, expected factors that are not negative")
    share = share[np.arange(len(cells)) * len(share) // len(cells)] if len(share) else 1.0
    remark = _solid(build, part, "tetrahedron", cells, method, young, poisson, share, plastic)
    return "; ".join(r for r in (cut, remark) if r)


def tensor_mass(build: PartBuilder, part: Component) -> str:
    """TetrahedralTensorMassForceField: linear elasticity, sorted by edges."""
    young, poisson = _moduli(part, 1000.0, 0.3)
    part.ignored("edgeInfo")
    rayleigh_stiffness(build, part)
    cells = build.topology_of(part, build.state_of(part), "tetrahedra").tetrahedra
    return _solid(build, part, "tetrahedron", cells, "small", young, poisson)


def hexahedra(build: PartBuilder, part: Component) -> str:
    """HexahedronFEMForceField."""
    method = part.choice("method", "large", ("small", "large", "polar"))
    young, poisson = _moduli(part)
    stresses_are_ignored(part)
    rayleigh_stiffness(build, part)
    part.ignored("hexahedronInfo", "stiffnessMatrices")
    part.neutral(updateStiffnessMatrix=False, initialPoints="")
    mesh = build.topology_of(part, build.state_of(part), "hexahedra")
    share = 1.0 if mesh.share is None else mesh.share
    return _solid(build, part, "hexahedron", mesh.hexahedra, method, young, poisson, share)


def generic(build: PartBuilder, part: Component, *, corotational: bool) -> str:
    """LinearSmallStrainFEMForceField and CorotationalFEMForceField, of the cells that the template names."""
    named_cells = re.match("|".join(_GENERIC), part.object.kind)
    found = named_cells[0] if named_cells else part.text("template", "").split(",")[-1].strip()
    if found not in _GENERIC:
        raise part.error(f"template names no kind of cells that is translated: {', '.join(_GENERIC)} are")
    plural, kind, method = _GENERIC[found], found.lower(), "small"
    part.ignored("computeForceStrategy", "computeForceDerivStrategy", "elementSpace")
    if corotational:
        method = _rotation_of(build, part, kind)
    young, poisson = _moduli(part)
    rayleigh_stiffness(build, part)
    part.ignored("elementStiffness")
    cells = getattr(build.topology_of(part, build.state_of(part), plural), plural)
    return _solid(build, part, kind, cells, method, young, poisson)


def _rotation_of(build: PartBuilder, part: Component, kind: str) -> str:
    """The rotation of a CorotationalFEMForceField; each kind of cells has a usual one."""
    names = {"stable_polar": "fitted", "polar": "fitted", "identity": "small"}
    in_space = build.dofs[build.state_of(part)].coord_size == 3
    if kind in ("tetrahedron", "hexahedron") or kind == "triangle" and in_space:
        names = {"hexahedron" if kind == "hexahedron" else "triangle": "large"} | names
    method = names[part.choice("rotationMethod", next(iter(names)), names)]
    if kind == "edge" and method != "small":
        raise part.error("edges have no rotation that their nodes fit: rotationMethod='identity' is translated")
    return method


def beams(build: PartBuilder, part: Component) -> str:
    """BeamFEMForceField, on the edges of its topology."""
    state, name = build.state_of(part), named(part.object)
    if build.dofs[state].coord_size != 7:
        raise part.error("acts on frames (Rigid3)")
    young, poisson = part.real("youngModulus", YOUNG), part.real("poissonRatio", POISSON)
    radius, inner = part.real("radius", 0.1), part.real("radiusInner", 0.0)
    chosen = part.wholes("listSegment")
    part.ignored("useSymmetricAssembly", "beamsData")
    rayleigh_stiffness(build, part)
    mesh = build.topology_of(part, state)
    edges = mesh.all_edges()
    if not len(edges) or edges.max() >= len(build.rest[state]):
        raise part.error(f"its topology has no edges between the {len(build.rest[state])} frames of its state")
    if chosen is not None and len(chosen):
        if chosen.min() < 0 or chosen.max() >= len(edges):
            raise part.error(f"listSegment names segment {chosen.max()}, but there are {len(edges)}")
        edges = edges[chosen]
    if not 0 <= inner < radius:
        raise part.error(f"radius is {radius} and radiusInner {inner}, expected the first to be larger")
    kind = FrozenFrameBeam if build.sofa else FrameBeam
    build.forces[name] = kind((state, edges), build.rest[state], young, poisson, radius, inner)
    for data, field in (("youngModulus", "young"), ("poissonRatio", "poisson"), ("radius", "radius")):
        build.parameter(part, data, "forces", field)
    build.parameter(part, "radiusInner", "forces", "inner_radius")
    return FROZEN if build.sofa else ""


def rayleigh_stiffness(build: PartBuilder, part: Component) -> None:
    factor = part.real("rayleighStiffness", 0.0)
    if factor:
        build.rayleigh[named(part.object)] = factor
        build.parameter(part, "rayleighStiffness", "rayleigh")


ELEMENTS = {
    "TetrahedronFEMForceField": tetrahedra,
    "TetrahedralCorotationalFEMForceField": tetrahedra,
    "FastTetrahedralCorotationalForceField": tetrahedra,
    "HexahedronFEMForceField": hexahedra,
    "HexahedralFEMForceField": hexahedra,
    "LinearSmallStrainFEMForceField": partial(generic, corotational=False),
    "CorotationalFEMForceField": partial(generic, corotational=True),
    **{f"{cell}LinearSmallStrainFEMForceField": partial(generic, corotational=False) for cell in _GENERIC},
    **{f"{cell}CorotationalFEMForceField": partial(generic, corotational=True) for cell in _GENERIC},
    "BeamFEMForceField": beams,
    "TetrahedralTensorMassForceField": tensor_mass,
}
