"""Pressures on triangles and quads."""

import numpy as np

from .._forcefield.constant_force import ConstantForce
from .._forcefield.pressure import Pressure
from .._forcefield.traction import Traction
from .._mapping.sum import SumMapping
from .._mapping.volume import VolumeMapping
from .._scene.dof import Vec1
from .edge_pressures import between_planes, edge_pressure
from .numerics.surface_pressure import PulsingPressure
from .numerics.tait import TaitPressure
from .part_builder import PartBuilder, named
from .read.component import Component


def quad_pressure(build: PartBuilder, part: Component) -> str:
    """QuadPressureForceField: a dead load per area at rest."""
    state, name = build.state_of(part), named(part.object)
    load = part.reals("pressure", None, count=3)
    part.neutral(rayleighStiffness=0.0)
    part.ignored("showForces", "quadPressureMap")
    quads = build.topology_of(part, state, "quads").quads
    if load is None:
        raise part.error("has no pressure")
    chosen = _chosen(part, "quad", quads, build.rest[state])
    a, b, c, d = (build.rest[state][quads[chosen][:, i]] for i in range(4))
    areas = 0.5 * (np.linalg.norm(np.cross(b - a, c - a), axis=1) + np.linalg.norm(np.cross(c - a, d - a), axis=1))
    forces = np.zeros_like(build.rest[state])
    np.add.at(forces, quads[chosen], (areas[:, None, None] / 4) * load)
    build.forces[name] = ConstantForce((state, np.arange(len(forces))), forces)
    return "as forces of the nodes; it has no leaf"


def _chosen(part: Component, kind: str, cells: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The numbers of the cells that a load names, or that lie between two planes; all of them unless it says so, and none of
    an empty list."""
    named_by, between = part.wholes(f"{kind}List"), between_planes(part, rest)
    chosen = np.arange(len(cells)) if named_by is None and between is None else named_by
    chosen = np.zeros(0, np.int64) if chosen is None else chosen
    if chosen.min(initial=0) < 0 or chosen.max(initial=-1) >= len(cells):
        raise part.error(f"{kind}List must name {kind}s below {len(cells)}, got {chosen.tolist()[:5]}")
    return chosen if between is None else np.union1d(chosen, np.flatnonzero(between[cells].all(1)))


def triangle_pressure(build: PartBuilder, part: Component) -> str:
    """TrianglePressureForceField: a dead load per area at rest."""
    state, name = build.state_of(part), named(part.object)
    load = part.reals("pressure", None, count=3)
    part.neutral(useConstantForce=True, rayleighStiffness=0.0)
    part.ignored("showForces", "trianglePressureMap")
    triangles = build.topology_of(part, state, "triangles").triangles
    if load is None:
        raise part.error("has no pressure; a Cauchy stress is not translated")
    chosen = _chosen(part, "triangle", triangles, build.rest[state])
    build.forces[name] = Traction((state, triangles[chosen]), build.rest[state], load)
    build.parameter(part, "pressure", "forces", "traction")
    return ""


def surface_pressure(build: PartBuilder, part: Component) -> str:
    """SurfacePressureForceField: a pressure on the present area of triangles and quads, along the normal."""
    state, name = build.state_of(part), named(part.object)
    value = part.real("pressure", 0.0)
    part.neutral(volumeConservationMode=False, rayleighStiffness=0.0, mainDirection="0 0 0")
    part.ignored("defaultVolume")
    box = [part.reals(corner, np.zeros(3), count=3) for corner in ("min", "max")]
    boxed = any(corner.any() for corner in box)
    pulses, least = part.flag("pulseMode", False), part.real("pressureLowerBound", 0.0)
    speed = part.real("pressureSpeed", 0.0) or abs(value)  # what SOFA takes where none is given
    stiff = part.flag("useTangentStiffness", True)
    found = _pressed(build, part, state)
    build.skew |= stiff  # of a surface that is not closed
    if list(found) == ["triangle"] and not (boxed or pulses) and stiff:
        build.forces[name] = Pressure((state, found["triangle"]), -value)
        return "its leaf is minus the pressure"
    low, high = box if boxed else (np.full(3, -1e30), np.full(3, 1e30))
    for kind, cells in found.items():
        bare = build.sofa and (kind == "quad" or not stiff)
        rates = {"speed": speed, "least": least, "pulses": True} if pulses else {}
        field = name if len(found) == 1 else f"{name}/{kind}s"
        build.forces[field] = PulsingPressure((state, cells), low=low, high=high, pressure=value, bare=bare, **rates)
    if len(found) == 1:
        build.parameter(part, "pressure", "forces", "pressure")
    return "quads have no stiffness, as in SOFA" if build.sofa and "quad" in found else ""


def _pressed(build: PartBuilder, part: Component, state: str) -> dict[str, np.ndarray]:
    """The triangles under pressure, and two of every quad."""
    mesh = build.topology_of(part, state, "triangles", "quads")
    found = {}
    for kind in ("triangle", "quad"):
        cells, chosen = getattr(mesh, f"{kind}s"), part.wholes(f"{kind}Indices")
        if chosen is not None and len(chosen):
            if chosen.min() < 0 or chosen.max() >= len(cells):
                raise part.error(f"{kind}Indices names {kind} {chosen.max()}, but there are {len(cells)}")
            cells = cells[chosen]
        if len(cells):
            found[kind] = cells if kind == "triangle" else _halves(cells)
    return found


def _halves(quads: np.ndarray) -> np.ndarray:
    """The two triangles of every quad."""
    return quads[:, ((0, 1, 2), (0, 2, 3))].reshape(-1, 3)


def tait_pressure(build: PartBuilder, part: Component) -> str:
    """TaitSurfacePressureForceField: a force on the volume inside a surface, which is the sum over its triangles."""
    state, name = build.state_of(part), named(part.object)
    law = {data: part.real(data, 0.0) for data in ("p0", "B", "gamma")}
    goal, rate = part.real("injectedVolume", 0.0), part.real("maxInjectionRate", 1000.0)
    started = part.real("currentInjectedVolume", 0.0)
    part.neutral(rayleighStiffness=0.0)
    part.ignored("initialVolume", "v0", "currentVolume", "currentPressure", "currentStiffness", "pressureTriangles")
    part.ignored("initialSurfaceArea", "currentSurfaceArea", "volumeAfterTC", "surfaceAreaAfterTC")
    mesh = build.topology_of(part, state, "triangles", "quads")
    skin = np.concatenate([mesh.triangles.reshape(-1, 3), _halves(mesh.quads.reshape(-1, 4))])
    _check_closed(part, skin)
    a, b, c = np.moveaxis(build.rest[state][skin], 1, 0)
    volume = float(np.sum(a * np.cross(b, c)) / 6)
    if law["B"] * law["gamma"] and not (volume + started) * (volume + goal) > 0:
        raise part.error(f"encloses {volume} and {goal} more at rest: it has no pressure there")
    volumes, total = f"{name}/volumes", f"{name}/volume"
    exactly = {"geometric_stiffness": "exact" if build.sofa else "symmetric"}
    for child, count in ((volumes, len(skin)), (total, 1)):
        build.dofs[child] = Vec1()
        build.position[child] = build.rest[child] = np.zeros((count, 1))
    build.mappings[volumes] = VolumeMapping((state, skin), volumes, **exactly)
    build.mappings[total] = SumMapping((volumes, np.arange(len(skin))[None]), total, np.ones(len(skin)))
    numbers = {"volume": volume or 1.0, "injected": goal, "started": started, "rate": rate}
    build.forces[name] = TaitPressure((total, [0]), **law, **numbers)
    for data in law:
        build.parameter(part, data, "forces", data)
    build.parameter(part, "injectedVolume", "forces", "injected")
    return "as a force on the volume inside, a state of its own"


def _check_closed(part: Component, triangles: np.ndarray) -> None:
    """Raise unless every edge of a surface is there once each way."""
    edges = triangles[:, ((0, 1), (1, 2), (2, 0))].reshape(-1, 2)
    ways, back = (np.unique(e, axis=0, return_counts=True) for e in (edges, edges[:, ::-1]))
    if len(ways[0]) != len(back[0]) or not all(np.array_equal(one, other) for one, other in zip(ways, back, strict=True)):
        raise part.error("its triangles are no closed surface whose normals point one way: no volume is inside")


PRESSURES = {
    "TrianglePressureForceField": triangle_pressure,
    "QuadPressureForceField": quad_pressure,
    "SurfacePressureForceField": surface_pressure,
    "EdgePressureForceField": edge_pressure,
    "TaitSurfacePressureForceField": tait_pressure,
}
