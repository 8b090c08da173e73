"""Data of the stand-in for SOFA's Python: values by name, links, and what controllers write.

It imports nothing of jaxmech: it is run in a process of its own, by `recorder_child.py`.
"""

import copy
from typing import Any

COMPUTED = ("position", "velocity", "force", "free_position", "free_velocity", "derivX")
# Endings of what holds numbers of nodes and cells; other numbers that are written as whole ones are real.
_NUMBERS = ("indices", "indices1", "indices2", "index", "points", "edges", "lines", "triangles", "quads", "tetrahedra")
_NUMBERS += ("tetras", "hexahedra", "hexas", "list")
_WIDE = {"Rigid3": (7, 6), "Rigid2": (3, 3), "Vec2": (2, 2), "Vec1": (1, 1)}  # of a position, of a velocity; else three
OF_THE_ROOT = {"dt": 0.01, "time": 0.0, "gravity": [0.0, -9.81, 0.0]}  # which any node has, and what they are unless given


class Events:
    """Whether events are being recorded, and what was written in each step: `{path.data: text}`."""

    running = False
    changes: list[Any] = []


def text(value: Any) -> str:
    """A value as SOFA writes it."""
    if isinstance(value, Data):
        return value.getLinkPath() if value.name not in value.owner._data else text(value.owner._data[value.name])
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "getLinkPath"):
        return value.getLinkPath()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(float(value))  # of NumPy too
    if hasattr(value, "tolist"):
        return text(value.tolist())
    if isinstance(value, (list, tuple)):
        return " ".join(text(one) for one in value)
    return str(value)


def as_array(owner: Any, name: str, value: Any) -> Any:
    """A value as SOFA's Python hands it out: lists of numbers are arrays, which only `writeable` lets a script write to."""
    if isinstance(value, str) and (name == "gravity" or name.endswith(("position", "velocity"))):
        try:
            value = [float(word) for word in value.split()]
        except ValueError:  # a link
            return value
        wide = _WIDE.get(text(owner._data.get("template", "")).rstrip("fd"), (3, 3))[name.endswith("velocity")]
        if name != "gravity" and len(value) % wide == 0:
            value = [value[start : start + wide] for start in range(0, len(value), wide)]
    if not (isinstance(value, (list, tuple)) and value):
        return value
    import numpy  # not before a script reads numbers: it takes a while

    try:
        found = numpy.array(value)
    except ValueError:  # rows of several lengths
        return value
    if found.dtype.kind not in "if":
        return value
    found = found if name.lower().endswith(_NUMBERS) or found.dtype.kind == "f" else found.astype(float)
    found.flags.writeable = False
    return found


def is_node(item: Any) -> bool:
    """Whether this is a node: an object has data of any name that is asked for."""
    return "_content" in getattr(item, "__dict__", ())


def rebase(node: Any, top: Any, path: str) -> None:
    """Links of a node that was its own root, and now is at `path`: those that lead to what is in it."""
    for item in node._content:
        for name, value in item._data.items():
            if isinstance(value, str) and value.startswith("@/"):
                item._data[name] = " ".join(word if _at(top, word) is None else path + word[1:] for word in value.split())
        if is_node(item):
            rebase(item, top, path)


def _at(top: Any, link: str) -> Any:
    """What a link `@/node/object.data` leads to in `top`: an object or a node, or None."""
    found: Any = top
    *nodes, last = link.removeprefix("@/").split("/")
    for name in (*nodes, last.split(".")[0]):
        found = next((item for item in (found._content if is_node(found) else ()) if item._name == name), None)
    return found


def leads_to(value: Any, top: Any) -> "Data | None":
    """The data that a value is, or links to; None where it is no link to data."""
    if isinstance(value, Data):
        return value
    if not (isinstance(value, str) and value.startswith("@/") and "." in value):
        return None
    found, name = _at(top, value.strip()), value.strip().rpartition(".")[2]
    return Data(found, name) if found is not None and name in found._data else None


def _that_follow(data: "Data", top: Any) -> "list[Data]":
    """What links to data of the script's own, or to what links to them."""
    found: list[Data] = []
    waiting = [top]
    while waiting:
        item = waiting.pop()
        waiting += item._content if is_node(item) else []
        for name, value in item._data.items():
            to = leads_to(value, data.owner.getRoot())
            if to is None or to.owner is not data.owner or to.name != data.name or item is data.owner:
                continue
            other = Data(item, name)
            found += _that_follow(other, top) if name in item._added else [other]
    return found


class Data:
    """One piece of data of an object or a node."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name

    @property
    def value(self):
        if Events.running and self.name in COMPUTED:
            raise RuntimeError(f"{self.getLinkPath()} is computed by a simulation, and this only records what is written")
        if self.name in OF_THE_ROOT and is_node(self.owner):
            return as_array(self.owner, self.name, self.owner.getRoot()._data.get(self.name, OF_THE_ROOT[self.name]))
        if self.name not in self.owner._data:
            raise AttributeError(f"{self.owner.getLinkPath()} has no data '{self.name}' that was given")
        return as_array(self.owner, self.name, self.owner._data[self.name])

    @value.setter
    def value(self, new):
        self.owner._data[self.name] = new
        if Events.running:
            for data in [self] if self.name not in self.owner._added else _that_follow(self, self.owner.getRoot()):
                Events.changes[-1][data.getLinkPath()] = text(new)

    def getLinkPath(self):
        return f"{self.owner.getLinkPath()}.{self.name}"

    linkpath = property(getLinkPath)

    def getValueString(self):
        return text(self.value)

    def getName(self):
        return self.name

    def getOwner(self):
        return self.owner

    def isSet(self):
        return self.name in self.owner._data

    def setParent(self, other):
        self.value = other if isinstance(other, str) else other.getLinkPath()

    def setValue(self, new):
        self.value = new

    def array(self):
        return self.value

    def toList(self):
        value = self.value
        return value.tolist() if hasattr(value, "tolist") else value

    def __call__(self, *_, **__):
        raise AttributeError(f"{self.owner.getLinkPath()} has no method '{self.name}' that is known here")

    def __iter__(self):
        return iter(self.value)

    def __array__(self, dtype=None, copy=None):
        import numpy  # of the script's, which alone asks for it

        return numpy.array(self.value, dtype)

    def writeable(self):
        return _Writing(self)

    writeableArray = writeable

    def __str__(self):
        return text(self.value)

    def __len__(self):
        return len(self.value)

    def __getitem__(self, index):
        return self.value[index]

    def __setitem__(self, index, new):
        with self.writeable() as value:
            value[index] = new

    def __float__(self):
        return float(self.value)


class _Writing:
    def __init__(self, data):
        self.data = data

    def __enter__(self):
        value = self.data.value
        self.copy = copy.deepcopy(value)
        return self.copy

    def __exit__(self, *_):
        self.data.value = self.copy


class Name(str):
    """The name of a node or an object: a word, which has a `value` as other data have."""

    owner: Any

    def __new__(cls, owner):
        made = super().__new__(cls, owner._name)
        made.owner = owner
        return made

    @property
    def value(self):
        return str(self)

    def getLinkPath(self):
        return f"{self.owner.getLinkPath()}.name"

    linkpath = property(getLinkPath)
