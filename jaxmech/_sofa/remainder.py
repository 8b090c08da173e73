"""What no time integrator moves: data, drawing, what has no effect here, and what is not translated."""

from collections.abc import Collection, Container

from .hyperelastic import MATERIALS
from .mapping_order import is_drawn
from .mappings import MAPPING_KINDS
from .read.boxes import REGIONS
from .read.component import Component
from .read.engines import ENGINES
from .read.graph import SceneNode, SceneObject
from .read.links import STATES
from .read.scene_data import GRIDS, LOADERS, SceneData
from .read.scene_error import SceneError
from .read.topological_mappings import MAPPINGS as TOPOLOGICAL
from .report import Report
from .schemes import SOLVERS, SYSTEMS
from .still_kinds import (
    CONSTRAINT_LOOP,
    DRAWN_BEGINNINGS,
    DRAWN_ENDS,
    FREE_MOTION,
    NO_MECHANICS,
    PIPELINE,
    UNREAD,
    collides,
    collision_data,
    constrains,
    linked_to,
)

_DATA = (*LOADERS, *GRIDS, *TOPOLOGICAL, *REGIONS, *ENGINES, *MATERIALS, "NodalMassDensity")


GRAVITY = "Gravity"


class Whole:
    """What is asked of a scene as a whole, once."""

    def __init__(self, root: SceneNode, any_scheme: bool, translated: Container[str], multipliers: Collection[str]):
        self.any_scheme, self.translated, self.linked = any_scheme, translated, linked_to(root)
        kinds = {o.kind for o in root.walk()}
        self.free_motion = FREE_MOTION in kinds
        try:
            self.collides = collides(root)
        except SceneError:  # of a flag that is none: the component itself is refused
            self.collides = True
        self.couples = self.collides or bool(kinds & set(multipliers))
        self.constrains = self.couples or constrains(root, translated)


def apart(object: SceneObject, data: SceneData, report: Report, scene: Whole) -> None:
    """What no part has taken: data, drawing, and what is not translated."""
    kind = object.kind
    if kind in _DATA or data.is_topology(object) or kind == GRAVITY and object.node is object.node.root:
        report.add(object, "read")
    elif kind == GRAVITY:
        report.add(object, "ignored", "the gravity of the root takes its place")
    elif kind in NO_MECHANICS or kind.startswith(DRAWN_BEGINNINGS) or kind.endswith(DRAWN_ENDS):
        report.add(object, "ignored", "moves nothing")
    elif kind in UNREAD and object not in scene.linked:
        report.add(object, "ignored", "nothing reads what it makes")
    elif kind in PIPELINE or kind.endswith("CollisionModel"):
        _of_collisions(object, data, report, scene.collides)
    elif kind in CONSTRAINT_LOOP and not scene.constrains:
        report.add(object, "ignored", "there is no constraint with multipliers: the motion is the free one")
    elif kind in CONSTRAINT_LOOP:
        report.add(object, "equivalent", "motion, constraints and contacts are solved together")
    elif kind in MAPPING_KINDS and is_drawn(data, object):
        report.add(object, "ignored", "maps to a picture")
    elif scene.any_scheme and (kind in STATES or kind in scene.translated or kind in (*SOLVERS, *SYSTEMS)):
        report.add(object, "ignored", "no time integrator stands in its node or above: it does not move")
    else:
        report.add(object, "refused", str(object.error("is not translated")))


def _of_collisions(object: SceneObject, data: SceneData, report: Report, collides: bool) -> None:
    part, known = Component(data, object), collision_data(object.kind)
    try:
        if known is not None:
            part.ignored(*known)
            part.done()
    except SceneError as problem:
        report.add(object, "refused", str(problem))
    else:
        report.add(object, *(("read", "") if collides else ("ignored", "nothing of the scene collides")))
