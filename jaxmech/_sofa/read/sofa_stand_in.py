"""A stand-in for SOFA's Python: nodes, objects, data, links and controllers, which only remember what they are given.

It imports nothing of jaxmech: it is run in a process of its own, by `recorder_child.py`.
"""

import copy
import sys
import types
from typing import Any

COMPUTED = ("position", "velocity", "force", "free_position", "free_velocity", "derivX")


class Events:
    """Whether events are being recorded, and what was written in each step: `{path.data: text}`."""

    running = False
    changes: list = []


def text(value):
    """A value as SOFA writes it."""
    if isinstance(value, Data):
        return value.getLinkPath() if value.name not in value.owner._data else text(value.owner._data[value.name])
    if isinstance(value, (Object, Node)):
        return value.getLinkPath()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if hasattr(value, "tolist"):
        return text(value.tolist())
    if isinstance(value, (list, tuple)):
        return " ".join(text(one) for one in value)
    return str(value)


class Data:
    """One piece of data of an object or a node."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name

    @property
    def value(self):
        if Events.running and self.name in COMPUTED:
            raise RuntimeError(f"{self.getLinkPath()} is computed by a simulation, and this only records what is written")
        if self.name not in self.owner._data:
            raise AttributeError(f"{self.owner.getLinkPath()} has no data '{self.name}' that was given")
        return self.owner._data[self.name]

    @value.setter
    def value(self, new):
        self.owner._data[self.name] = new
        if Events.running:
            Events.changes[-1][self.getLinkPath()] = text(new)

    def getLinkPath(self):
        return f"{self.owner.getLinkPath()}.{self.name}"

    linkpath = property(getLinkPath)

    def getValueString(self):
        return text(self.value)

    def getName(self):
        return self.name

    def setParent(self, other):
        self.value = other if isinstance(other, str) else other.getLinkPath()

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


class _Base:
    _name: str
    _data: dict[str, Any]
    _line: int

    def findData(self, name):
        return Data(self, name)

    getData = findData

    def addData(self, name, value=None, **_):
        self._data[name] = value
        return Data(self, name)

    addNewData = addData

    def getName(self):
        return self._name

    def setDataValues(self, **values):
        self._data.update(values)

    def init(self, *_, **__):
        pass

    reinit = bwdInit = init


class Object(_Base):
    """A component."""

    _kind: str
    _node: Any

    def __init__(self, *arguments, **data):
        name = arguments[0] if arguments and isinstance(arguments[0], str) else data.get("name", "")
        line = sys._getframe(1).f_lineno
        self.__dict__.update(_kind=type(self).__name__, _name=name, _data=dict(data), _node=None, _line=line)

    def getLinkPath(self):
        above = self._node.getLinkPath().rstrip("/") if self._node else "@"
        return f"{above}/{self._name}"

    linkpath = property(getLinkPath)

    def getContext(self):
        return self._node

    def getClassName(self):
        return self._kind

    def __getattr__(self, name) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Data(self, name)

    def __setattr__(self, name, value):
        if name.startswith("_") or isinstance(self, Controller):
            self.__dict__[name] = value
        else:
            Data(self, name).value = value


class Controller(Object):
    """What is called back as a simulation runs."""

    def __getattr__(self, name) -> Any:
        if name in self.__dict__.get("_data", {}):
            return self._data[name]
        raise AttributeError(name)


class Node(_Base):
    """A node, to which objects and nodes are added."""

    _content: list[Any]
    _parent: Any

    def __init__(self, name="root"):
        self.__dict__.update(_name=name, _data={}, _content=[], _parent=None, _line=sys._getframe(1).f_lineno)

    def getLinkPath(self):
        return "@/" if self._parent is None else f"{self._parent.getLinkPath().rstrip('/')}/{self._name}"

    linkpath = property(getLinkPath)

    def addObject(self, kind, **data):
        if isinstance(kind, Object):
            object = kind
        else:
            object = Object(**data)
            object.__dict__["_kind"] = str(kind)
        object.__dict__.update(_node=self, _line=sys._getframe(1).f_lineno)
        if not object._name:
            same = [o for o in self._content if isinstance(o, Object) and o._kind == object._kind]
            object.__dict__["_name"] = f"{object._kind}{len(same) + 1}"
        self._content.append(object)
        return object

    createObject = addObject

    def addChild(self, child):
        child = child if isinstance(child, Node) else Node(str(child))
        child.__dict__.update(_parent=self)
        self._content.append(child)
        return child

    createChild = addNewChild = addChild

    @property
    def children(self):
        return [c for c in self._content if isinstance(c, Node)]

    @property
    def objects(self):
        return [o for o in self._content if isinstance(o, Object)]

    @property
    def parents(self):
        return [] if self._parent is None else [self._parent]

    def getRoot(self):
        return self if self._parent is None else self._parent.getRoot()

    def _find(self, name):
        return next((c for c in self._content if c._name == name), None)

    def getChild(self, name):
        return self._find(name)

    getObject = getChild

    def hasObject(self, name):
        return self._find(name) is not None

    def removeObject(self, item):
        self._content.remove(item)

    removeChild = removeObject

    def __getitem__(self, path):
        found = self
        for name in path.split("."):
            found = getattr(found, name)
        return found

    def __getattr__(self, name) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._find(name)
        return Data(self, name) if found is None else found

    def __setattr__(self, name, value):
        Data(self, name).value = value


def stand_in():
    """The modules that a scene imports."""

    def module(name, **content):
        made = types.ModuleType(name)
        made.__dict__.update(content)
        sys.modules[name] = made
        return made

    def nothing(*_, **__):
        return None

    names = {"msg_info": nothing, "msg_warning": nothing, "msg_error": nothing, "msg_deprecated": nothing}
    core = module("Sofa.Core", Node=Node, Object=Object, Controller=Controller, ObjectDeprecated=Object, **names)
    simulation = module("Sofa.Simulation", init=nothing, initRoot=nothing, animate=nothing, print=nothing)
    helper = module("Sofa.Helper", **names)
    module("Sofa", Core=core, Simulation=simulation, Helper=helper, PythonScriptController=Controller, **names)
    module("SofaRuntime", importPlugin=nothing, PluginRepository=types.SimpleNamespace(addFirstPath=nothing), Sofa=None)
