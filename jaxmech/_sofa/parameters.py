"""Numbers of a scene by their path in SOFA, and back into its file."""

import difflib
from os import PathLike
from pathlib import Path

import numpy as np

from .._model.system import System
from .part_builder import Leaf
from .read.graph import SceneNode, SceneObject
from .read.scene_error import SceneError, shown
from .read.values import written
from .read.xml_edit import with_attributes

Parameters = dict[tuple[str, str], Leaf]


def leaf_of(parameters: Parameters, path: str, root: SceneNode) -> Leaf:
    """The selector of `@/node/name.data`."""
    head, _, data = path.rpartition(".")
    key = (head if head.startswith("@") else f"@{head}", data)
    if key not in parameters:
        names = sorted(f"{o}.{d}" for o, d in parameters)
        near = difflib.get_close_matches(path, names, 3, 0.4) or names
        raise root.error(f"{shown(path)} is no number of the system; there are {near}")
    return parameters[key]


def replaced_in_file(
    root: SceneNode, parameters: Parameters, before: System, after: System, path: str | PathLike[str]
) -> dict[str, str]:
    """Write the file of `root` to `path` with the numbers in which `after` differs from `before`."""
    objects = {o.path: o for o in root.walk()}
    edits: dict[int, dict[str, str]] = {}
    changed: dict[str, str] = {}
    for (owner, data), leaf in parameters.items():
        old, new = np.asarray(leaf(before)), np.asarray(leaf(after))
        if old.shape == new.shape and np.array_equal(old, new):
            continue
        number = _place(root, objects, owner, data)
        edits.setdefault(number, {})[data] = changed[f"{owner}.{data}"] = written(new)
    content = Path(root.file).read_bytes()
    Path(path).write_bytes(with_attributes(content, edits))
    return changed


def _place(root: SceneNode, objects: dict[str, SceneObject], owner: str, data: str) -> int:
    """Which element of the file has the number. Raises where another file has it, or none."""
    if owner == "@/":
        return 0
    object = objects[owner]
    if object.file != root.file or object.number < 0:
        raise SceneError(f"{owner}.{data} stands in another file", file=object.file, line=object.line, component=owner)
    if object.data.get(data, "").strip().startswith("@"):
        raise object.error(f"{data} is a link: its number stands elsewhere")
    return object.number
