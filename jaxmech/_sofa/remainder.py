"""What no time integrator moves: data, drawing, what has no effect here, and what is not translated."""

import difflib
from collections.abc import Collection

from .articulations import ARTICULATION, CENTRE, CONTAINER
from .hyperelastic import MATERIALS
from .mapping_order import is_drawn
from .mappings import MAPPING_KINDS
from .read.boxes import REGIONS
from .read.component import Component
from .read.engines import ENGINES
from .read.graph import SceneNode, SceneObject
from .read.links import STATES, is_link, linked
from .read.scene_data import GRIDS, LOADERS, SceneData
from .read.scene_error import SceneError
from .read.topological_mappings import MAPPINGS as TOPOLOGICAL
from .regularization import term
from .report import Report
from .schemes import SCHEMES, SOLVERS, SYSTEMS
from .still_kinds import (
    CONSTRAINT_LOOP,
    FREE_MOTION,
    PIPELINE,
    UNREAD,
    collides,
    collision_data,
    constrains,
    is_still,
    linked_to,
)

_DATA = (*LOADERS, *GRIDS, *TOPOLOGICAL, *REGIONS, *ENGINES, *MATERIALS, "NodalMassDensity", CONTAINER, CENTRE, ARTICULATION)


_UNMOVED = "no time integrator stands in its node or above"
GRAVITY, SUBSTEPS = "Gravity", "MultiStepAnimationLoop"


def integrators(root: SceneNode) -> list[SceneObject]:
    """The time integrators of a scene but those below another, which moves all that is below it: SOFA never asks them."""

    def is_below_another(ode: SceneObject) -> bool:
        above = ode.node.parent
        while above is not None and not any(o.kind in SCHEMES for o in above.objects):
            above = above.parent
        return above is not None

    return [o for o in root.walk() if o.kind in SCHEMES and not is_below_another(o)]


class Whole:
    """What is asked of a scene as a whole, once."""

    def __init__(
        self,
        root: SceneNode,
        schemes: Collection[SceneObject],
        translated: Collection[str],
        multipliers: Collection[str],
        of_one_state: Collection[str],
    ):
        self.any_scheme, self.translated, self.linked = bool(schemes), translated, linked_to(root)
        self.moved = {o for ode in schemes for o in ode.node.walk() if o.kind in STATES}
        kinds = {o.kind for o in root.walk()}
        self.free_motion = FREE_MOTION in kinds
        try:
            self.collides = collides(root)
        except SceneError:  # of a flag that is none: the component itself is refused
            self.collides = True
        self.couples = self.collides or bool(kinds & (set(multipliers) - set(of_one_state)))
        self.constrains = self.couples or bool(kinds & set(multipliers)) or constrains(root, translated)


def apart(object: SceneObject, data: SceneData, report: Report, scene: Whole) -> None:
    """What no part has taken: data, drawing, and what is not translated."""
    kind = object.kind
    if kind in _DATA or data.is_topology(object) or kind == GRAVITY and object.node is object.node.root:
        report.add(object, "read")
    elif kind == GRAVITY:
        report.add(object, "ignored", "the gravity of the root takes its place")
    elif is_still(kind):
        report.add(object, "ignored", "moves nothing")
    elif kind == SUBSTEPS:
        _of_one_step(object, data, report)
    elif kind in UNREAD and object not in scene.linked:
        report.add(object, "ignored", "nothing reads what it makes")
    elif kind in PIPELINE or kind.endswith("CollisionModel"):
        _of_collisions(object, data, report, scene.collides)
    elif kind in CONSTRAINT_LOOP and not scene.constrains:
        report.add(object, "ignored", "there is no constraint with multipliers: the motion is the free one")
    elif kind in CONSTRAINT_LOOP:
        _of_constraints(object, data, report)
    elif kind in MAPPING_KINDS and is_drawn(data, object):
        report.add(object, "ignored", "maps to a picture")
    elif kind in scene.translated and (moved := _between(object) & scene.moved):
        names = " and ".join(sorted(state.path for state in moved))
        reason = f"acts on {names} from outside of the node of the time integrator, as a force that SOFA does not linearise"
        report.add(object, "refused", str(object.error(reason)))
    elif scene.any_scheme and (kind in STATES or kind in scene.translated or kind in (*SOLVERS, *SYSTEMS)):
        report.add(object, "ignored", f"{_UNMOVED}: it does not move")
    else:
        report.add(object, "refused", str(object.error(_why(kind, scene))))


def _why(kind: str, scene: Whole) -> str:
    """Why a component that no part has taken is refused: nothing in its scene moves, or it is none that is known."""
    if kind in STATES or kind in scene.translated or kind in (*SOLVERS, *SYSTEMS):
        return f"{_UNMOVED}, such as EulerImplicitSolver: nothing moves it"
    if kind in MAPPING_KINDS:
        return f"{_UNMOVED}: mappings of what stands still are not translated"
    return "is not translated" + _perhaps_meant(kind, scene)


def _perhaps_meant(kind: str, scene: Whole) -> str:
    """What differs from the name of a component by a letter or two."""
    known = {*STATES, *scene.translated, *MAPPING_KINDS, *SCHEMES, *SOLVERS, *SYSTEMS, *_DATA, *PIPELINE, *CONSTRAINT_LOOP}
    near = difflib.get_close_matches(kind, sorted(known), 1, cutoff=0.92)
    return f"; did you mean '{near[0]}'?" if near else ""


def _between(object: SceneObject) -> set[SceneObject]:
    """The mechanical states between which an object acts, by its links `object1` and `object2`."""
    found = set()
    for name in ("object1", "object2"):
        try:
            target = linked(object, name, object.data[name]) if is_link(object.data.get(name, "")) else None
        except SceneError:  # of an object that nothing moves
            continue
        found |= set(target.objects) if isinstance(target, SceneNode) else {target}
    return {o for o in found if o is not None and o.kind in STATES}


def _of_constraints(object: SceneObject, data: SceneData, report: Report) -> None:
    try:
        term(data, object)
    except SceneError as problem:
        report.add(object, "refused", str(problem))
    else:
        report.add(object, "equivalent", "motion, constraints and contacts are solved together")


def _of_one_step(object: SceneObject, data: SceneData, report: Report) -> None:
    part = Component(data, object)
    try:
        part.neutral(collisionSteps=1, integrationSteps=1)
        part.done()
    except SceneError as problem:
        report.add(object, "refused", str(problem))
    else:
        report.add(object, "ignored", "a step of it is one of the time integrators")


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
