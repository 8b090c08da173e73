"""Links between objects: `@../name`, `@/node/name`, `@[-1]`, `@name.data`, a bare name."""

import re

from .graph import SceneNode, SceneObject
from .scene_error import shown

STATES = ("MechanicalObject",)
_BEFORE = re.compile(r"\[(-?\d{1,6})\]$")


def is_link(text: str) -> bool:
    """Whether a piece of data is a link to another."""
    return text.strip().startswith("@")


def linked_object(owner: SceneObject, name: str, text: str) -> SceneObject:
    """The object that the data `name` of `owner` links to."""
    found = _found(owner, _path(owner, name, text))
    if not isinstance(found, SceneObject):
        raise owner.error(f"{name} links to {shown(text)}, where there is no object")
    return found


def linked(owner: SceneObject, name: str, text: str) -> SceneNode | SceneObject:
    """The object or node that the data `name` of `owner` links to."""
    found = _found(owner, _path(owner, name, text))
    if found is None:
        raise owner.error(f"{name} links to {shown(text)}, which is not in the scene")
    return found


def linked_data(owner: SceneObject, name: str, text: str) -> tuple[SceneObject, str]:
    """The object that a link `@path.data` leads to, and the name of its data (that of the same name unless given)."""
    path = _path(owner, name, text)
    head, dot, data = path.rpartition(".")
    if dot and "/" not in data and head.strip("./"):
        found = _found(owner, head)
        if isinstance(found, SceneObject):
            return found, data
    found = _found(owner, path)
    if isinstance(found, SceneObject):
        return found, name
    raise owner.error(f"{name} links to {shown(text)}, which is not in the scene")


def _path(owner: SceneObject, name: str, text: str) -> str:
    words = text.split()
    if len(words) != 1:
        raise owner.error(f"{name} is {shown(text)}, expected one link")
    return words[0].removeprefix("@")


def _found(owner: SceneObject, path: str) -> SceneNode | SceneObject | None:
    before = _BEFORE.match(path)
    if before:
        objects = owner.node.objects
        place = objects.index(owner) + int(before[1])
        return objects[place] if 0 <= place < len(objects) else None
    node: SceneNode | None = owner.node
    based = path.startswith(("/", "."))
    if path.startswith("/"):
        node = node.root
    parts = [part for part in path.split("/") if part and part != "."]
    while parts and parts[0] == "..":
        node = None if node is None else node.parent
        parts = parts[1:]
    while node is not None:
        found = _below(node, parts)
        if found is not None or based:
            return found
        node = node.parent  # a name may stand further up
    return None


def _below(node: SceneNode, parts: list[str]) -> SceneNode | SceneObject | None:
    if not parts:
        return node
    for item in node.content:
        if item.name != parts[0]:
            continue
        if isinstance(item, SceneNode):
            found = _below(item, parts[1:])
            if found is not None:
                return found
        elif len(parts) == 1:
            return item
    return None


def of_kind_upward(node: SceneNode | None, is_wanted) -> SceneObject | None:
    """The last object of a kind in a node, else in those above it."""
    while node is not None:
        for item in reversed(node.objects):
            if is_wanted(item):
                return item
        node = node.parent
    return None
