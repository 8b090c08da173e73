"""The data of one component, taken by name: what nobody asks for is unknown, and an error."""

import difflib
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from . import values
from .graph import SceneObject
from .links import is_link, linked, linked_data
from .scene_error import SceneError, shown

# A name that begins with "_" is how scenes put data out of use: SOFA knows none of that name, warns, and goes on.
# Of every component of SOFA: what it is called, what it prints and draws, and on how many threads. None of it is mechanics.
EVERYWHERE = {"name", "template", "printLog", "tags", "bbox", "listening", "componentState", "help", "src", "verbose"}
EVERYWHERE |= {"nbThreads", "taskSchedulerType"}
DRAWING = ("show", "draw", "display", "color", "arrowSize", "isToPrint", "graph", "listenMouse")


class LinkedData(Protocol):
    """What a link leads to, as numbers (`SceneData`)."""

    def linked(self, owner: SceneObject, name: str, text: str) -> np.ndarray: ...


class Component:
    """Reads the data of an object; `done` refuses what was not asked for."""

    def __init__(self, data: LinkedData, object: SceneObject):
        self.data, self.object, self.asked = data, object, set[str]()

    def error(self, reason: str) -> SceneError:
        return self.object.error(reason)

    def has(self, *names: str) -> str:
        """The first of these names under which data are given, or none."""
        self.asked |= set(names)
        return next((name for name in names if name in self.object.data), "")

    def text(self, names: str | Iterable[str], default: str) -> str:
        """A word; of a link to text, what stands there."""
        name = self.has(*((names,) if isinstance(names, str) else names))
        if not name:
            return default
        text = self.object.data[name]
        if is_link(text) and "." in text:
            other, theirs = linked_data(self.object, name, text)
            return other.data.get(theirs, default)
        return text.strip()

    def reals(self, names: str | Iterable[str], default: Any = None, width: int = 1, count: int | None = None) -> Any:
        """Numbers, written here or linked from elsewhere."""
        name = self.has(*((names,) if isinstance(names, str) else names))
        if not name:
            return default
        text = self.object.data[name]
        if not is_link(text):
            return values.reals(self.object, name, text, width, count)
        found = self._rows(name, np.asarray(self.data.linked(self.object, name, text), float), width)
        if count is not None and len(found) != count:
            raise self.error(f"{name} links to {len(found)} entries, expected {count}")
        return found

    def _rows(self, name: str, found: np.ndarray, width: int) -> np.ndarray:
        """Linked numbers `(n, width)`. Frames are the points where they stand, points of the plane lie at z = 0."""
        if width == 1:
            return found
        columns = found.shape[1] if found.ndim == 2 else width
        if width == 3 and columns in (1, 2, 7):
            found = np.pad(found[:, :3], ((0, 0), (0, max(0, 3 - columns))))
        elif columns != width or found.size % width:
            raise self.error(f"{name} links to {found.shape} numbers, expected {width} in a row")
        return found.reshape(-1, width)

    def real(self, names: str | Iterable[str], default: Any = None) -> Any:
        """One number."""
        found = self.reals(names, None, count=1)
        return default if found is None else float(np.ravel(found)[0])

    def single(self, name: str, default: float) -> float:
        """One number in single precision, as SOFA reads what is no data of a component; of several, the default."""
        if not self.has(name):
            return default
        text = self.object.data[name]
        found = values.reals(self.object, name, text)
        return float(np.float32(found[0])) if len(found) == 1 and text[-1:].strip() else default

    def wholes(self, names: str | Iterable[str], default: Any = None, width: int = 1) -> Any:
        """Whole numbers, written here or linked from elsewhere."""
        name = self.has(*((names,) if isinstance(names, str) else names))
        if not name:
            return default
        text = self.object.data[name]
        if is_link(text):
            found = self._rows(name, np.asarray(self.data.linked(self.object, name, text)), width)
            return found.astype(np.int64).reshape((-1, width) if width > 1 else -1)
        return values.wholes(self.object, name, text, width)

    def whole(self, names: str | Iterable[str], default: Any = None) -> Any:
        found = self.wholes(names)
        if found is not None and len(found) != 1:
            raise self.error(f"{names} has {len(found)} numbers, expected one")
        return default if found is None else int(found[0])

    def first_whole(self, name: str, default: int) -> int:
        """One whole number; of several the first, which is all that SOFA reads of what it takes for a number."""
        found = self.wholes(name)
        return default if found is None or not len(found) else int(found[0])

    def flag(self, name: str, default: bool) -> bool:
        if not self.has(name):
            return default
        return values.flag(self.object, name, self.text(name, ""))

    def link(self, name: str) -> Any:
        """The object or node that data link to; None unless given, or of an empty link."""
        text = self.object.data[name] if self.has(name) else ""
        return linked(self.object, name, text) if text.strip() else None

    def links(self, name: str) -> list[Any]:
        """The objects or nodes that data link to, several where there are several words."""
        words = self.object.data[name].split() if self.has(name) else []
        return [linked(self.object, name, word) for word in words]

    def choice(self, name: str, default: str, choices: Iterable[str]) -> str:
        word = self.text(name, default)
        if word not in choices:
            raise self.error(f"{name} is {shown(word)}, expected one of {sorted(choices)}")
        return word

    def neutral(self, **defaults: Any) -> None:
        """Data of SOFA's that are translated at one value alone, its default: another one is refused."""
        for name, default in defaults.items():
            if not self.has(name):
                continue
            text = self.object.data[name].strip()
            same = text.lower() == str(default).lower()
            if isinstance(default, bool):
                same = values.flag(self.object, name, text) == default
            elif isinstance(default, int | float):
                same = values.real(self.object, name, text) == default
            if not same:
                raise self.error(f"{name}={shown(text)} is not translated: only {default!r} is")

    def ignored(self, *names: str) -> None:
        """Data of SOFA's that no motion depends on."""
        self.asked |= set(names)

    def done(self) -> None:
        """Refuse what was not asked for."""
        for name in self.object.data:
            if name not in self.asked | EVERYWHERE and not name.startswith((*DRAWING, "_")):
                near = difflib.get_close_matches(name, sorted(self.asked), 1)
                hint = f"; did you mean '{near[0]}'?" if near else f"; it has {sorted(self.asked)}"
                raise self.error(f"unknown data '{name}'{hint}")
