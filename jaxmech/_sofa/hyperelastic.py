"""Hyperelastic tetrahedra."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._forcefield.hexahedron import HexahedronFEM
from .._forcefield.tetrahedron import TetrahedronFEM
from .._material.arruda_boyce import ArrudaBoyce
from .._material.costa import Costa
from .._material.mooney_rivlin import MooneyRivlin
from .._material.neo_hookean import NeoHookean
from .._material.ogden import Ogden
from .._material.st_venant_kirchhoff import StVenantKirchhoff
from .._material.stable_neo_hookean import StableNeoHookean
from .._material.veronda_westmann import VerondaWestmann
from .part_builder import Leaf, PartBuilder, named
from .read.component import Component
from .read.graph import SceneObject
from .read.links import of_kind_upward


def _of_lame(law: Any) -> Callable[[np.ndarray], Any]:
    def made(numbers: np.ndarray) -> Any:
        mu, lam = numbers
        if mu <= 0 or lam + mu == 0:
            raise ValueError(f"ParameterSet is {numbers.tolist()}, expected a positive mu, and lambda")
        return law(mu * (3 * lam + 2 * mu) / (lam + mu), lam / (2 * (lam + mu)))

    return made


_LAWS: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "StVenantKirchhoff": ("mu lambda", _of_lame(StVenantKirchhoff)),
    "NeoHookean": ("mu lambda", _of_lame(NeoHookean)),
    "StableNeoHookean": ("mu lambda", _of_lame(StableNeoHookean)),
    "MooneyRivlin": ("c1 c2 k0", lambda p: MooneyRivlin(*p)),
    "VerondaWestman": ("c1 c2 k0", lambda p: VerondaWestmann(*p)),
    "ArrudaBoyce": ("mu k0", lambda p: ArrudaBoyce(*p)),
    "Ogden": ("mu alpha k0", lambda p: Ogden([p[0] / p[1]], [p[1]], p[2])),
    "Costa": ("a k0 bff bfs bss bfn bsn bnn", lambda p: Costa(*p)),
}


def hyperelastic(build: PartBuilder, part: Component) -> str:
    """TetrahedronHyperelasticityFEMForceField and StandardTetrahedralFEMForceField."""
    state, name = build.state_of(part), named(part.object)
    kind = part.choice("materialName", "ArrudaBoyce", _LAWS)
    wanted, law = _LAWS[kind]
    numbers = part.reals("ParameterSet")
    part.neutral(matrixRegularization=False, AnisotropyDirections="", rayleighStiffness=0.0, ParameterFile="")
    part.ignored("tetrahedronInfo", "edgeInfo", "meshGen")
    if numbers is None or len(numbers) != len(wanted.split()):
        count = 0 if numbers is None else len(numbers)
        raise part.error(f"ParameterSet has {count} numbers, {kind} takes {wanted!r}")
    if build.dofs[state].coord_size != 3 or not build.dofs[state].is_vector_space:
        raise part.error("acts on points of space (Vec3)")
    cells = build.topology_of(part, state, "tetrahedra").tetrahedra
    rest = build.rest[state]
    edges = rest[cells[:, 1:]] - rest[cells[:, :1]]
    inverted = np.linalg.det(edges) < 0
    cells = np.where(inverted[:, None], cells[:, [0, 2, 1, 3]], cells)
    build.forces[name] = TetrahedronFEM((state, cells), rest, law(numbers))
    return "its leaves are those of the material: young and poisson" if "lambda" in wanted else ""


def of_material(build: PartBuilder, part: Component) -> str:
    """HyperelasticityFEMForceField: the cells that its template names, of the material that stands in its node."""
    state, name = build.state_of(part), named(part.object)
    kind = part.text("template", "").split(",")[-1].strip().lower()
    if kind not in _SOLIDS:
        raise part.error(f"template names no kind of cells that is translated: {sorted(_SOLIDS)} are")
    plural, solid = _SOLIDS[kind]
    found = part.link("material") or of_kind_upward(part.object.node, lambda o: o.kind in MATERIALS)
    if not isinstance(found, SceneObject) or found.kind not in MATERIALS:
        raise part.error(f"there is no material that is translated in its node or above: {sorted(MATERIALS)} are")
    numbers = Component(build.data, found)
    law = StVenantKirchhoff(numbers.real("youngModulus", 1e6), numbers.real("poissonRatio", 0.45))
    numbers.done()
    part.neutral(rayleighStiffness=0.0)
    part.ignored("computeForceStrategy", "computeForceDerivStrategy", "elementSpace")
    cells = getattr(build.topology_of(part, state, plural), plural)
    build.forces[name] = solid((state, cells), build.rest[state], law)
    for data, field in (("youngModulus", "young"), ("poissonRatio", "poisson")):
        build.parameters[found.path, data] = Leaf("forces", name, f"material.{field}")
    return ""


_SOLIDS = {"tetrahedron": ("tetrahedra", TetrahedronFEM), "hexahedron": ("hexahedra", HexahedronFEM)}
MATERIALS = ("StVenantKirchhoffMaterial",)
HYPERELASTIC = {
    "HyperelasticityFEMForceField": of_material,
    "TetrahedronHyperelasticityFEMForceField": hyperelastic,
    "StandardTetrahedralFEMForceField": hyperelastic,
}
