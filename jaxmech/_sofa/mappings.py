"""Mappings: the states that others give."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._mapping.barycentric import BarycentricMapping
from .._mapping.base import AbstractMapping
from .._mapping.distance import DistanceMapping
from .._mapping.identity import IdentityMapping
from .._mapping.rigid import RigidMapping
from .._mapping.subset import SubsetMapping
from .._mesh.mesh import Mesh
from .masses import SINGULAR
from .part_builder import PartBuilder, named
from .read.component import Component
from .read.coordinates import coordinates
from .read.graph import SceneObject
from .read.links import STATES, of_kind_upward

Maker = Callable[[PartBuilder, Component, str, SceneObject], tuple[AbstractMapping, np.ndarray]]


def mapping(build: PartBuilder, part: Component, make: Maker) -> str:
    """A mapping and the state that it gives. `make` gives the mapping, and where the child is at rest."""
    source = part.link("input") or part.link("object1")
    if source is None:
        source = of_kind_upward(part.object.node.parent, lambda o: o.kind in STATES)
    if not isinstance(source, SceneObject):
        source = of_kind_upward(source, lambda o: o.kind in STATES)
    child = part.link("output") or of_kind_upward(part.object.node, lambda o: o.kind in STATES)
    if not isinstance(child, SceneObject):
        child = of_kind_upward(child, lambda o: o.kind in STATES)
    if not isinstance(source, SceneObject) or not isinstance(child, SceneObject) or child is source:
        raise part.error("needs an input and an output, two mechanical states")
    if named(source) not in build.dofs:
        raise part.error(f"its input {source.path} is no state of this part of the scene")
    part.neutral(mapForces=True, mapConstraints=True, mapMasses=True)
    part.ignored("applyRestPosition", "mapMatrices")
    made, rest = make(build, part, named(source), child)
    build.add_state(child, {"position": rest, "rest_position": rest}, mapped=True)
    build.mappings[named(part.object)] = made
    return ""


def _geometric(build: PartBuilder, part: Component, usual: str) -> dict[str, Any]:
    """What of the geometric stiffness is in the matrix: what the scene says, or all of it where exact."""
    names = {"none": "none", "exact": "exact", "stabilized": "stabilized", "0": "none", "1": "exact", "2": "stabilized"}
    word = part.text("geometricStiffness", usual).lower()
    if word not in names:
        raise part.error(f"geometricStiffness is {word!r}, expected one of {sorted(names)}")
    return {"geometric_stiffness": names[word] if build.sofa else "symmetric"}


def _distance(build: PartBuilder, part: Component, source: str, child: SceneObject) -> tuple[AbstractMapping, np.ndarray]:
    edges, rest = build.topology_of(part, source, "edges").edges, build.rest[source]
    lengths = np.linalg.norm(rest[edges[:, 1]] - rest[edges[:, 0]], axis=1)
    given = part.reals("restLengths")
    if given is not None and len(given) not in (0, len(edges)):
        raise part.error(f"restLengths has {len(given)} entries, expected {len(edges)}")
    at = lengths if given is None or not len(given) else given
    at = np.zeros(len(edges)) if part.flag("computeDistance", False) else at
    options = _geometric(build, part, "stabilized")
    part.ignored("indices")
    made = DistanceMapping(((source, edges[:, 0]), (source, edges[:, 1])), named(child), at, **options)
    return made, (lengths - at)[:, None]


def _rigid(build: PartBuilder, part: Component, source: str, child: SceneObject) -> tuple[AbstractMapping, np.ndarray]:
    points, frames = build.data.positions(child)["position"], build.rest[source]
    numbers = part.wholes("rigidIndexPerPoint")
    index = part.whole("index", 0)
    numbers = np.full(len(points), index) if numbers is None or not len(numbers) else numbers
    if len(numbers) != len(points) or numbers.min() < 0 or numbers.max() >= len(frames):
        raise part.error(f"rigidIndexPerPoint must name one of {len(frames)} frames for each of {len(points)} points")
    options = _geometric(build, part, "none")
    part.neutral(useX0=False, indexFromEnd=False, filename="", initialPoints="")
    if not part.flag("globalToLocalCoords", False):
        made = RigidMapping((source, numbers), named(child), points, **options)
        return made, points
    made = RigidMapping.from_global(source, named(child), numbers, frames, points)
    return RigidMapping((source, numbers), named(child), made.local, **options), points


def _identity(build: PartBuilder, part: Component, source: str, child: SceneObject) -> tuple[AbstractMapping, np.ndarray]:
    rest = build.rest[source]
    if coordinates(child) != rest.shape[1]:
        raise part.error("maps between states of different kinds, which is not translated")
    return IdentityMapping.of(source, named(child), nodes=len(rest)), rest


def _subset(build: PartBuilder, part: Component, source: str, child: SceneObject) -> tuple[AbstractMapping, np.ndarray]:
    nodes = part.wholes("indices")
    part.neutral(ignoreNotFound=False, resizeToModel=False, first=-1, last=-1)
    part.ignored("handleTopologyChange", "radius")
    rest = build.rest[source]
    if nodes is None or not len(nodes) or nodes.min() < 0 or nodes.max() >= len(rest):
        raise part.error(f"indices must name nodes below {len(rest)}; other subsets are not translated")
    return SubsetMapping((source, nodes), named(child)), rest[nodes]


def _barycentric(build: PartBuilder, part: Component, source: str, child: SceneObject) -> tuple[AbstractMapping, np.ndarray]:
    points = build.data.positions(child)["position"]
    owner = part.link("input_topology") or of_kind_upward(part.object.node.parent, build.data.is_topology)
    if not isinstance(owner, SceneObject):
        raise part.error("there is no topology above that carries points")
    plural, cells = build.data.topology(owner).cells()
    part.neutral(useRestPosition=False)
    part.ignored("output_topology")
    mesh = Mesh(build.rest[source], cells, SINGULAR[plural])
    return BarycentricMapping.from_mesh(source, named(child), mesh, points), points


MAPPINGS: dict[str, Maker] = {
    "DistanceMapping": _distance,
    "RigidMapping": _rigid,
    "IdentityMapping": _identity,
    "SubsetMapping": _subset,
    "BarycentricMapping": _barycentric,
}
