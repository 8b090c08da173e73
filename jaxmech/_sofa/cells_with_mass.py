"""Elements that are masses too."""

import numpy as np

from .._forcefield.constant_force import ConstantForce
from .._mass.consistent import ConsistentMass
from .active_directions import is_matrix_free
from .elements import hexahedra
from .numerics.cell_sum_mass import CellSumMass
from .part_builder import PartBuilder, named
from .read.component import Component
from .schemes import SOLVERS


def hexahedra_with_mass(build: PartBuilder, part: Component) -> str:
    """HexahedronFEMForceFieldAndMass and HexahedralFEMForceFieldAndMass: `CellSumMass`, and a weight of `m g / 8` a node."""
    density = part.real("density", 1.0)
    part.neutral(lumpedMass=False, massMatrices="", rayleighMass=0.0)
    part.ignored("totalMass", "particleMasses", "lumpedMasses")
    if not density > 0:
        raise part.error(f"density is {density}, expected a positive number")
    remark = hexahedra(build, part)
    state, name = build.state_of(part), named(part.object)
    mesh, rest = build.topology_of(part, state, "hexahedra"), build.rest[state]
    share = np.ones(len(mesh.hexahedra)) if mesh.share is None else mesh.share
    if not build.sofa:
        build.masses[f"{name}/mass"] = ConsistentMass((state, mesh.hexahedra), rest, density * share, "hexahedron")
        return "with the consistent mass"
    solvers = [o for o in build.within if o.kind in SOLVERS]
    if part.object.kind.startswith("Hexahedral") and not all(is_matrix_free(o) for o in solvers):
        raise part.error("puts diagonals alone into matrices in SOFA: translated with a CGLinearSolver that assembles none")
    corners = rest[mesh.hexahedra]
    sides = [np.linalg.norm(corners[:, i] - corners[:, 0], axis=1) for i in (1, 3, 4)]
    masses = density * share * np.prod(sides, axis=0)
    build.masses[f"{name}/mass"] = CellSumMass((state, mesh.hexahedra), masses)
    of_nodes = np.bincount(mesh.hexahedra.ravel(), np.repeat(masses / 8, 8), len(rest))
    build.weights[f"{name}/weight"] = (state, of_nodes)
    return "; ".join(r for r in (remark, "with SOFA's mass, 19 times that of its cells, and their weight; no leaf") if r)


def weights(build: PartBuilder, gravity: np.ndarray) -> dict[str, ConstantForce]:
    """The weights of masses that are not as heavy as they are slow, as forces of the nodes: gravity is in no other."""
    if build.weights and len(build.weights) < len(build.masses):
        raise ValueError("a mass whose weight is not that of its matrix, beside other masses, is not translated")
    return {
        name: ConstantForce((state, np.arange(len(masses))), np.outer(masses, gravity))
        for name, (state, masses) in build.weights.items()
    }


CELLS_WITH_MASS = {
    "HexahedronFEMForceFieldAndMass": hexahedra_with_mass,
    "HexahedralFEMForceFieldAndMass": hexahedra_with_mass,
}
