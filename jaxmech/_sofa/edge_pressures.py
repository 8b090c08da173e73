"""Pressures on edges."""

import numpy as np

from .._forcefield.constant_force import ConstantForce
from .numerics.edge_pressure import EdgePressure, LateEdgePressure
from .part_builder import PartBuilder, named
from .read.component import Component
from .read.links import of_kind_upward
from .read.topology import Topology, with_faces

# Containers that are one of triangles, of which SOFA's looks for the nearest one.
_OF_TRIANGLES = ("TriangleSetTopologyContainer", "TetrahedronSetTopologyContainer")


def between_planes(part: Component, rest: np.ndarray) -> np.ndarray | None:
    """Which nodes lie between `dmin` and `dmax` along `normal`, which SOFA leaves as long as it is; None without one."""
    normal, low, high = part.reals("normal", np.zeros(3), count=3), part.real("dmin", 0.0), part.real("dmax", 0.0)
    along = rest @ normal
    return (along > low) & (along < high) if normal.any() else None


def edge_pressure(build: PartBuilder, part: Component) -> str:
    """EdgePressureForceField: a dead load per length at rest, half of it on each end of an edge, or one across it."""
    state, rest = build.state_of(part), build.rest[build.state_of(part)]
    load = part.reals("pressure", None, count=3)
    given = part.reals("p_intensity", np.zeros(0))
    binormal = part.reals("binormal", None, count=3)
    part.neutral(rayleighStiffness=0.0)
    part.ignored("edgePressureMap", "arrowSizeCoef", "showForces")
    edges, listed = _edges(build, part, state)
    length = np.linalg.norm(rest[edges[:, 1]] - rest[edges[:, 0]], axis=1)
    if load is not None and load.any():
        forces = np.zeros_like(rest)
        np.add.at(forces, edges, (length[:, None] * load / 2)[:, None])
        build.forces[named(part.object)] = ConstantForce((state, np.arange(len(rest))), forces)
        return "as forces of the nodes; it has no leaf"
    if not len(given):
        raise part.error("has no pressure and no p_intensity")
    if build.sofa:  # whose lengths are those of the first edges of the topology, whichever of them are chosen
        if len(listed) < len(edges):
            raise part.error(f"chooses {len(edges)} edges, but its topology has {len(listed)}")
        length = np.linalg.norm(rest[listed[:, 1]] - rest[listed[:, 0]], axis=1)[: len(edges)]
    each = np.arange(len(edges))
    intensity = given[np.where(each < len(given), each, 0)] if len(given) > 1 else float(given[0])
    on, inward = edges, binormal is None
    if binormal is None:
        on, kept = _with_corners(build, part, edges)
        intensity = intensity[kept] if isinstance(intensity, np.ndarray) else intensity
        length = length[kept]
    elif not binormal.any():
        raise part.error("binormal is nil")
    across = np.array([0.0, 0, 1]) if binormal is None else binormal / np.linalg.norm(binormal)
    name, start = named(part.object), build.position[state][on]
    if build.sofa:
        seen = np.stack([start, start], axis=1)
        build.forces[name] = LateEdgePressure((state, on), intensity, length, across, inward, seen=seen)
    else:
        build.skew = True
        build.forces[name] = EdgePressure((state, on), intensity, length, across, inward)
    if isinstance(intensity, float):
        build.parameter(part, "p_intensity", "forces", "intensity")
    return "along the normals of the step before, without stiffness, as in SOFA" if build.sofa else ""


def _edges(build: PartBuilder, part: Component, state: str) -> tuple[np.ndarray, np.ndarray]:
    """The edges that a load names, or that lie between two planes, and all those of its topology."""
    rest = build.rest[state]
    between = between_planes(part, rest)
    edges, chosen = part.wholes("edges", None, width=2), part.wholes("edgeIndices")
    mesh = build.topology_of(part, state)
    listed = mesh.edges if len(mesh.edges) else mesh.all_edges()
    if edges is None or not len(edges):
        if chosen is not None and len(chosen):
            if chosen.min() < 0 or chosen.max() >= len(listed):
                raise part.error(f"edgeIndices names edge {chosen.max()}, but there are {len(listed)}")
            edges = listed[chosen]
        elif between is not None:
            edges = listed[between[listed].all(1)]
        else:
            raise part.error("has no edges, edgeIndices or dmin and dmax that choose some")
    if not len(edges) or edges.min() < 0 or edges.max() >= len(rest):
        raise part.error(f"needs edges between the {len(rest)} nodes of its state")
    return edges, listed


def _with_corners(build: PartBuilder, part: Component, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges at the border of the nearest triangles with the third corner there, and which edges these are."""
    owner = of_kind_upward(part.object.node, lambda o: o.kind in _OF_TRIANGLES)
    triangles = Topology(np.zeros((0, 3))).triangles if owner is None else with_faces(build.data.topology(owner)).triangles
    if not len(triangles):
        raise part.error(f"p_intensity without binormal needs a {_OF_TRIANGLES[0]} in its node or above")
    apart: dict[tuple[int, ...], list[int]] = {}
    for triangle in triangles.tolist():
        for corner in triangle:
            apart.setdefault(tuple(sorted(n for n in triangle if n != corner)), []).append(corner)
    found = [apart.get(tuple(sorted(edge)), []) for edge in edges.tolist()]
    kept = np.array([i for i, corners in enumerate(found) if len(corners) == 1], np.int64)
    if not len(kept):
        raise part.error("names no edge at the border of triangles, which p_intensity without binormal presses on")
    return np.column_stack([edges[kept], [found[i][0] for i in kept]]), kept
