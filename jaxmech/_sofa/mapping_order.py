"""Which states mappings give, and in which order."""

from .mappings import MAPPING_KINDS
from .multi_mappings import inputs
from .read.component import Component
from .read.graph import SceneNode, SceneObject
from .read.links import STATES
from .read.scene_data import SceneData
from .still_kinds import DRAWN_BEGINNINGS


def is_drawn(data: SceneData, object: SceneObject) -> bool:
    """Whether a mapping goes to a picture."""
    part = Component(data, object)
    output = part.link("output")
    if isinstance(output, SceneObject):
        return output.kind.startswith(DRAWN_BEGINNINGS)
    node = object.node if output is None else output
    return not any(o.kind in STATES for o in node.objects)


def mapped_states(data: SceneData, within: list[SceneObject]) -> set[SceneObject]:
    """The states that a mapping gives: its output, or the state of its node."""
    found = set()
    for object in within:
        if object.kind in MAPPING_KINDS and not is_drawn(data, object):
            output = Component(data, object).link("output")
            node = output if isinstance(output, SceneNode) else object.node
            states = [output] if isinstance(output, SceneObject) else [o for o in node.objects if o.kind in STATES]
            found.update(states[-1:])
    return found


def in_order(data: SceneData, waiting: list[SceneObject], mapped: set[SceneObject]) -> list[SceneObject]:
    """Mappings, those of main states first."""
    order, left = [], list(waiting)
    given = {state for state in mapped}
    while left:
        ready = [o for o in left if not given.intersection(inputs(Component(data, o)))]
        ready = ready or left  # a circle, which the system refuses
        for object in ready:
            output = Component(data, object).link("output")
            given.discard(output)  # pyright: ignore[reportArgumentType]
            given -= {o for o in object.node.objects if o.kind in STATES} if output is None else set()
        order += ready
        left = [o for o in left if o not in ready]
    return order
