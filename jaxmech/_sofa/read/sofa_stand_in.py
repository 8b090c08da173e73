"""A stand-in for SOFA's Python: nodes, objects, data, links and controllers, which only remember what they are given.

It imports nothing of jaxmech: it is run in a process of its own, by `recorder_child.py`.
"""

import sys
from typing import Any

from stand_in_data import Data, Events, Name, rebase


class _Base:
    _name: str
    _data: dict[str, Any]
    _line: int
    _added: set[str]  # data that are the script's own
    getLinkPath: Any

    def findData(self, name):
        return self.name if name == "name" else Data(self, name)

    getData = findData

    def addData(self, name, value=None, default=None, help="", group="", type="", **_):
        del help, group, type
        value = default if value is None else value
        self._added.add(name)
        if value is not None or name not in self._data:
            self._data[name] = value
        return Data(self, name)

    addNewData = addData

    def getName(self):
        return self._name

    @property
    def name(self):
        return Name(self)

    def setName(self, name):
        self.__dict__["_name"] = str(name)

    def getPathName(self):
        return self.getLinkPath().removeprefix("@")

    def setDataValues(self, **values):
        for name, value in values.items():
            Data(self, name).value = value

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
        own = {"_kind": type(self).__name__, "_name": str(name), "_data": dict(data), "_node": None, "_line": line}
        self.__dict__.update(own, _added=set())

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
        if name == "name":
            self.setName(value)
        elif name.startswith("_") or (isinstance(self, Scripted) and name not in self._added):
            self.__dict__[name] = value
        else:
            Data(self, name).value = value

    def getRoot(self):
        return self._node.getRoot()

    getRootContext = getRoot


class Scripted(Object):
    """A component that is written in Python: its attributes are its own, but for the data that it adds."""

    def __getattr__(self, name) -> Any:
        if name in self.__dict__.get("_added", ()):
            return Data(self, name)
        if name in self.__dict__.get("_data", {}):
            return self._data[name]
        raise AttributeError(name)


class Controller(Scripted):
    """What is called back as a simulation runs."""


class ForceField(Scripted):
    """Forces of a script's own, which are refused by the name of their class."""


class Mapping(Scripted):
    """A mapping of a script's own."""


class DataEngine(Scripted):
    """An engine of a script's own."""


class Node(_Base):
    """A node, to which objects and nodes are added."""

    _content: list[Any]
    _parent: Any

    def __init__(self, name="root", **data):
        own = {"_data": dict(data), "_content": [], "_parent": None, "_line": sys._getframe(1).f_lineno}
        self.__dict__.update(own, _name=str(name), _added=set())

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

    def addChild(self, child, **data):
        child = child if isinstance(child, Node) else Node(str(child), **data)
        was_root = child._parent is None
        child.__dict__.update(_parent=self)
        if was_root:
            rebase(child, child, child.getLinkPath())
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

    getRootContext = getRoot

    def _find(self, name):
        found = next((c for c in self._content if c._name == name), None)
        return found or next((o for o in self.objects if o._kind == name), None)  # one without a name is called by its kind

    def _nearest(self, *ends):
        return next((o for o in reversed(self.objects) if o._kind.endswith(ends)), None)

    def getMechanicalState(self):
        return self._nearest("MechanicalObject")

    def getMass(self):
        return self._nearest("Mass")

    def getMechanicalMapping(self):
        return self._nearest("Mapping")

    def getForceField(self, number):
        return [o for o in self.objects if o._kind.endswith(("ForceField", "Springs"))][number]

    def getTime(self):
        return self.time.value

    def isInitialized(self):
        return Events.running

    def sendEvent(self, *_):
        pass

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
        for name in path.replace("/", ".").split("."):
            found = getattr(found, name)
        return found

    def __getattr__(self, name) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._find(name)
        return Data(self, name) if found is None else found

    def __setattr__(self, name, value):
        if name == "name":
            self.setName(value)
        elif name in type(self).__dict__ or name.startswith("_") or not self._takes(name, value):
            self.__dict__[name] = value
        else:
            Data(self, name).value = value

    def _takes(self, name, value):
        """Whether a value is data, and no note of the script's, such as a list of nodes or a function."""
        del name
        some = value[0] if isinstance(value, (list, tuple)) and value else value
        return not (callable(some) or isinstance(some, (Node, Object, Data, dict)))


class Prefab(Node):
    """A node that fills itself: `prefabParameters` become its data, then `init` is called."""

    prefabParameters: Any = ()
    prefabData: Any = ()
    properties: Any = ()

    def __init__(self, *arguments, **data):
        name = arguments[0] if arguments and isinstance(arguments[0], str) else data.get("name", type(self).__name__)
        super().__init__(name)
        for one in (*self.prefabParameters, *self.prefabData, *self.properties):
            self.addData(one["name"], data.get(one["name"], one.get("default")))
        for key, value in data.items():
            if key != "name" and key not in self._data:
                self.addData(key, value)
        self.init()
