"""Springs between nodes, of meshes, to the rest shape, and against bending."""

from itertools import combinations
from typing import Any

import numpy as np

from .._forcefield.anchored_springs import AnchoredSprings
from .._forcefield.springs import Springs
from .numerics.spring_laws import FastBendingSprings, LinearisedSprings
from .part_builder import PartBuilder, named
from .read.component import Component


def _springs(build: PartBuilder, part: Component, state: str, pairs: np.ndarray, k: Any, c: Any, length: Any) -> str:
    name, ends = named(part.object), ((state, pairs[:, 0]), (state, pairs[:, 1]))
    damped = bool(np.any(np.asarray(c) != 0))
    build.parameter(part, "stiffness", "forces", "stiffness")
    if build.sofa:
        build.forces[name] = LinearisedSprings(ends, k, c, length)
        return "their damping is in no matrix, as in SOFA" if damped else ""
    build.forces[name] = Springs(ends, k, length, c if damped else None)
    return ""


def springs(build: PartBuilder, part: Component) -> str:
    """SpringForceField and StiffSpringForceField: lines "a b stiffness damping length"."""
    state = build.state_of(part)
    rows = part.reals("spring", None, width=5)
    part.neutral(elongationOnly=False, enabled=True, isCompliance=False, rayleighStiffness=0.0)
    part.neutral(object1="@./", object2="@./")
    if rows is None:
        first, second = build.indices(part, state, "springsIndices1"), build.indices(part, state, "springsIndices2")
        k, c = part.reals("stiffness", np.array([100.0])), part.reals("damping", np.array([5.0]))
        lengths = part.reals("lengths")
        if len(first) != len(second) or lengths is None:
            raise part.error("needs `spring`, or springsIndices1, springsIndices2 and lengths, as many of each")
        rows = np.stack(np.broadcast_arrays(first, second, k, c, lengths), axis=1)
    pairs, count = rows[:, :2].astype(np.int64), len(build.position[state])
    if not len(rows) or (pairs != rows[:, :2]).any() or pairs.min() < 0 or pairs.max() >= count:
        raise part.error(f"spring names nodes {rows[:, :2].tolist()[:3]}, expected whole numbers below {count}")
    return _springs(build, part, state, pairs, rows[:, 2], rows[:, 3], rows[:, 4])


def mesh_springs(build: PartBuilder, part: Component) -> str:
    """MeshSpringForceField: between the nodes of lines, along the edges of cells, between all nodes of a cube."""
    state = build.state_of(part)
    mesh = build.topology_of(part, state)
    part.neutral(noCompression=False, rayleighStiffness=0.0)
    both, drag = part.real("stiffness", 0.0), part.real("damping", 0.0)
    names = {"edges": "lines", "triangles": "triangles", "quads": "quads", "tetrahedra": "tetrahedra", "hexahedra": "cubes"}
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for cells, name in names.items():
        k, c = part.real(f"{name}Stiffness", both), part.real(f"{name}Damping", drag)
        array = getattr(mesh, cells)
        if not (k or c) or not len(array):
            continue
        for a, b in combinations(range(array.shape[1]), 2):
            for pair in zip(*(array[:, i].tolist() for i in (a, b)), strict=True):
                found.setdefault((min(pair), max(pair)), (k, c))
    if not found:
        raise part.error("has no stiffness, or its topology no cells that have one")
    pairs, numbers = np.array(list(found)), np.array(list(found.values()))
    rest = build.rest[state]
    length = np.linalg.norm(rest[pairs[:, 1]] - rest[pairs[:, 0]], axis=1)
    numbers = numbers / length[:, None]
    k, c = (float(a[0]) if len(set(a.tolist())) == 1 else a for a in numbers.T)
    return _springs(build, part, state, pairs, k, c, length)


def rest_shape_springs(build: PartBuilder, part: Component) -> str:
    """RestShapeSpringsForceField of points: `f = -k (x - x0)`."""
    state, name = build.state_of(part), named(part.object)
    if not build.dofs[state].is_vector_space:
        raise part.error("springs of frames are not translated yet")
    nodes = build.indices(part, state, "points", default=np.arange(len(build.position[state])))
    k = part.reals("stiffness", np.array([100.0]))
    part.neutral(external_points="", recompute_indices=True, rayleighStiffness=0.0, activeDirections="1 1 1 1 1 1 1")
    part.ignored("angularStiffness", "springColor")
    if len(k) not in (1, len(nodes)):
        raise part.error(f"stiffness has {len(k)} entries, expected 1 or {len(nodes)}")
    stiffness = float(k[0]) if len(k) == 1 else k
    other = part.link("external_rest_shape")
    if other is not None:
        raise part.error("external_rest_shape is not translated yet")
    build.forces[name] = AnchoredSprings((state, nodes), stiffness, build.rest[state][nodes])
    build.parameter(part, "stiffness", "forces", "stiffness")
    return ""


def bending_springs(build: PartBuilder, part: Component) -> str:
    """FastTriangularBendingSprings."""
    state, name = build.state_of(part), named(part.object)
    stiffness = part.real("bendingStiffness", 1.0)
    part.neutral(minDistValidity=1e-6, rayleighStiffness=0.0)
    triangles = build.topology_of(part, state, "triangles").triangles
    across: dict[tuple[int, int], list[int]] = {}
    for triangle in triangles.tolist():
        for i in range(3):
            c, d = triangle[(i + 1) % 3], triangle[(i + 2) % 3]
            across.setdefault((min(c, d), max(c, d)), []).append(triangle[i])
    stencils = [(*apart, *edge) for edge, apart in across.items() if len(apart) == 2]
    if not stencils:
        raise part.error("no two triangles of its topology share an edge")
    build.forces[name] = FastBendingSprings((state, np.array(stencils)), build.rest[state], stiffness)
    build.parameter(part, "bendingStiffness", "forces", "bending_stiffness")
    return ""


SPRINGS = {
    "SpringForceField": springs,
    "StiffSpringForceField": springs,
    "MeshSpringForceField": mesh_springs,
    "RestShapeSpringsForceField": rest_shape_springs,
    "FastTriangularBendingSprings": bending_springs,
}
