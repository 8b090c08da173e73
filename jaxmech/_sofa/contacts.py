"""Contact: the points and spheres of one surface against the planes, spheres and triangles of another."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from .._contact.point_contact import PointContact
from .._contact.shape import Plane, Sphere
from .._contact.surface_contact import SurfaceContact
from .part_builder import PartBuilder, named
from .read import values
from .read.component import Component
from .read.graph import SceneNode, SceneObject
from .read.links import STATES, of_kind_upward
from .read.topology import split_quads, with_faces
from .still_kinds import Model, may_touch, models

_KINDS = ("TriangleCollisionModel", "LineCollisionModel", "PointCollisionModel", "SphereCollisionModel")
_INTERSECTIONS = ("LocalMinDistance", "MinProximityIntersection", "NewProximityIntersection", "DiscreteIntersection")
_MANAGERS = ("CollisionResponse", "DefaultContactManager")
_FLAT = 1e-9  # of the extent of a surface
_MOST_BALLS = 100  # that stand still
_MOST_SURFACES, _MOST_PAIRS = 1000, 200


@dataclass
class Surface:
    """The collision models of one node: `state` names the one that moves them, `x` where its nodes are."""

    node: SceneNode
    models: list[Component]
    state: str
    moves: bool
    x: np.ndarray
    radii: np.ndarray | None  # of spheres
    triangles: np.ndarray
    skin: float
    nodes: np.ndarray | None = None  # those that may touch others, where not all do

    @property
    def points(self) -> np.ndarray:
        """The nodes that may touch others."""
        if self.nodes is not None:
            return self.nodes
        if self.radii is not None or not len(self.triangles):
            return np.arange(len(self.x))
        return np.unique(self.triangles)


@dataclass
class Law:
    """What holds between surfaces: at which distance they touch, and how they resist."""

    distance: float
    friction: float
    penalty: bool


def add_contacts(build: PartBuilder, root: SceneNode, free_motion: bool) -> None:
    """Fill `build.contacts`. Raises `SceneError` for what is not translated."""
    law = _law(build, root, free_motion)
    found: dict[int, list[Model]] = {}
    for model in models(root):
        found.setdefault(id(model.object.node), []).append(model)
        if len(found) > _MOST_SURFACES:
            raise model.object.error(f"is one of more than {_MOST_SURFACES} surfaces, which are not translated")
    surfaces: dict[int, Surface] = {}
    for key, group in found.items():
        if any(Component(build.data, m.object).flag("selfCollision", False) for m in group if m.moves):
            surfaces[key] = _surface(build, [m.object for m in group])
            _within(build, law, surfaces[key])
    for (one, first), (other, second) in combinations(found.items(), 2):
        if not any(may_touch(a, b) for a in first for b in second):
            continue
        for key, group in ((one, first), (other, second)):
            if key not in surfaces:
                surfaces[key] = _surface(build, [m.object for m in group])
        pair = surfaces[one], surfaces[other]
        if any(s.moves for s in pair):
            _between(build, law, *(pair if pair[0].moves else pair[::-1]))
        if len(build.contacts) > _MOST_PAIRS:
            raise second[0].object.error(f"there are more than {_MOST_PAIRS} pairs of surfaces that may touch")


def _law(build: PartBuilder, root: SceneNode, free_motion: bool) -> Law:
    parts = [Component(build.data, o) for o in root.walk() if o.kind in (*_INTERSECTIONS, *_MANAGERS)]
    distance, response, mu = 0.5, "PenalityContactForceField", 0.8
    for part in parts:
        if part.object.kind in _INTERSECTIONS:
            usual = 0.0 if part.object.kind == "DiscreteIntersection" else 0.5
            distance = part.real("contactDistance", usual)
            continue
        response = part.text("response", response)
        words = dict(word.split("=", 1) for word in part.text("responseParams", "").split("&") if "=" in word)
        mu = values.real(part.object, "responseParams, mu", words["mu"]) if "mu" in words else mu
        if response in ("FrictionContactConstraint", "FrictionContact"):
            if not free_motion:
                raise part.error(f"{response} needs a FreeMotionAnimationLoop, without which SOFA does not solve it")
        elif response != "PenalityContactForceField":
            raise part.error(f"the response {response!r} is not translated: FrictionContactConstraint and penalties are")
    penalty = response == "PenalityContactForceField"
    return Law(distance, 0.0 if penalty else mu, penalty)


def _surface(build: PartBuilder, objects: list[SceneObject]) -> Surface:
    parts = [Component(build.data, o) for o in objects]
    for part in parts:
        if part.object.kind not in _KINDS:
            raise part.error(f"is no collision model that is translated: {sorted(_KINDS)} are")
    first, kinds = parts[0], {o.kind: part for o, part in zip(objects, parts, strict=True)}
    state = of_kind_upward(objects[0].node, lambda o: o.kind in STATES)
    if state is None:
        raise first.error("there is no mechanical state in its node or above")
    moves = named(state) in build.dofs
    x = build.position[named(state)] if moves else build.data.positions(state)["position"]
    radii, triangles = None, np.zeros((0, 3), np.int64)
    if "SphereCollisionModel" in kinds:
        part = kinds["SphereCollisionModel"]
        given = part.reals("listRadius")
        radii = np.full(len(x), part.real("radius", 1.0)) if given is None or not len(given) else given
        if len(radii) != len(x) or not (radii > 0).all():
            raise part.error(f"needs positive radii, one or {len(x)}")
    elif "TriangleCollisionModel" in kinds:
        mesh = with_faces(build.data.topology_for(kinds["TriangleCollisionModel"]))
        triangles = mesh.triangles if len(mesh.triangles) else split_quads(mesh).triangles
        if not len(triangles) or triangles.max() >= len(x):
            raise first.error(f"its topology has no triangles between the {len(x)} nodes of its state")
    skin = max(part.real(("contactDistance", "proximity"), 0.0) for part in parts)
    return Surface(objects[0].node, parts, named(state), moves, x, radii, triangles, skin)


def _between(build: PartBuilder, law: Law, one: Surface, other: Surface) -> None:
    """The contacts of a surface that moves and another."""
    before = len(build.contacts)
    floor = None if other.moves or not len(other.triangles) else _plane(one, other)
    if floor is not None:
        _add(build, law, one, other, lambda on, **options: PointContact(on, Plane(), at=floor, **options))
        return
    if other.radii is not None:
        _balls(build, law, one, other)
    if len(other.triangles):
        _faces(build, law, one, other)
    if len(one.triangles) and (other.moves or other.radii is not None or len(other.triangles)):
        _faces(build, law, other, one)
    if len(build.contacts) == before:
        raise other.models[0].error(f"has points alone, as {one.node.path} has: these are not translated")


def _add(build: PartBuilder, law: Law, points: Surface, shapes: Surface, make: Any) -> None:
    """A contact of the points of one surface, whose shells are as thick as SOFA keeps them apart."""
    nodes = points.points
    radius = (0.0 if points.radii is None else points.radii[nodes]) + law.distance + points.skin + shapes.skin
    name = f"{points.node.path.removeprefix('@/')}|{shapes.node.path.removeprefix('@/')}"
    name += "" if name not in build.contacts else f"|{len(build.contacts)}"
    compliance = 0.0
    if law.penalty:
        stiffness = [s.models[0].real("contactStiffness", 10.0) for s in (points, shapes)]
        compliance = max(law.distance + points.skin + shapes.skin, 1e-30) / max(float(np.prod(stiffness)), 1e-30)
    options = {"radius": radius, "friction": law.friction, "compliance": compliance}
    try:
        build.contacts[name] = make((points.state, nodes), **options)
    except (ValueError, TypeError) as problem:
        raise points.models[0].error(str(problem)) from None


def _balls(build: PartBuilder, law: Law, points: Surface, balls: Surface) -> None:
    assert balls.radii is not None
    if balls.moves:
        if points.radii is not None and len(set(points.radii.tolist())) < len(set(balls.radii.tolist())):
            points, balls = balls, points
        _balls_of_each_radius(build, law, points, balls)
        return
    if len(balls.x) > _MOST_BALLS:
        raise balls.models[0].error(f"has {len(balls.x)} spheres that stand still, {_MOST_BALLS} at most are translated")
    for place, radius in zip(balls.x[:, :3], balls.radii, strict=True):
        at, ball = [*place, 0, 0, 0, 1], Sphere(float(radius))
        _add(build, law, points, balls, lambda on, at=at, ball=ball, **options: PointContact(on, ball, at=at, **options))


def _within(build: PartBuilder, law: Law, balls: Surface) -> None:
    """The spheres of one model among themselves: each touches every other, whatever lies between them at the start."""
    other = next((part for part in balls.models if part.object.kind != "SphereCollisionModel"), None)
    if balls.radii is None or other is not None:
        raise (other or balls.models[0]).error("collides with itself, which is translated of spheres alone")
    if not balls.moves:
        return
    radii, which = np.unique(np.asarray(balls.radii, float), return_inverse=True)
    if len(radii) > _MOST_BALLS:
        raise balls.models[0].error(f"has {len(radii)} radii of spheres that touch each other, {_MOST_BALLS} at most are")
    for k, radius in enumerate(radii.tolist()):
        own, larger = np.flatnonzero(which == k), np.flatnonzero(which > k)
        frames, shape = (balls.state, own), Sphere(radius)
        alike, others = replace(balls, nodes=own), replace(balls, nodes=larger)
        if len(own) > 1:
            numbers = np.arange(len(own))
            pairs = partial(PointContact, shape=shape, frames=frames, owners=numbers, half=True)
            _add(build, law, alike, balls, pairs)
        if len(larger):
            _add(build, law, others, balls, partial(PointContact, shape=shape, frames=frames))


def _balls_of_each_radius(build: PartBuilder, law: Law, points: Surface, balls: Surface) -> None:
    radii, which = np.unique(np.asarray(balls.radii, float), return_inverse=True)
    if len(radii) > _MOST_BALLS:
        raise balls.models[0].error(
            f"has {len(radii)} radii of spheres that others touch, {_MOST_BALLS} at most are translated"
        )
    for k, radius in enumerate(radii.tolist()):
        frames = balls.state, np.flatnonzero(which == k)
        _add(build, law, points, balls, partial(PointContact, shape=Sphere(radius), frames=frames))


def _faces(build: PartBuilder, law: Law, points: Surface, faces: Surface) -> None:
    """Points against triangles that deform, or stand still without being flat: these become fixed nodes."""
    for surface in (points, faces):
        if not surface.moves and surface.state not in build.dofs:
            build.hold(surface.state, surface.x[:, :3])
    on = faces.state, faces.triangles
    _add(build, law, points, faces, lambda nodes, **options: SurfaceContact(nodes, on, **options))


def _plane(one: Surface, floor: Surface) -> np.ndarray | None:
    """The frame of a surface that is flat, z away from what may touch it; None of others."""
    corners = floor.x[np.unique(floor.triangles), :3]
    centre = corners.mean(axis=0)
    spread = np.linalg.svd(corners - centre, full_matrices=False)
    if len(corners) < 3 or spread[1][1] <= _FLAT * spread[1][0]:
        raise floor.models[0].error("its triangles have no area")
    if spread[1][2] > _FLAT * spread[1][0]:
        return None
    normal = spread[2][2]
    side = float(np.mean((one.x[one.points, :3] - centre) @ normal))
    normal = normal if side >= 0 else -normal
    turn = Rotation.align_vectors(normal[None], np.array([[0.0, 0, 1]]))[0]
    return np.concatenate([centre, turn.as_quat()])
