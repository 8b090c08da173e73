"""Scenes in XML (`.scn`, `.xml`): untrusted input. Nothing is executed, fetched or expanded."""

from pathlib import Path
from xml.parsers import expat

from ..._runtime.collector import collector_at_rest
from .graph import SceneNode, SceneObject, finish
from .scene_error import SceneError, shown
from .scene_files import SceneFiles

MOST_ELEMENTS = 100_000
MOST_DEPTH = 50
MOST_INCLUDES_WITHIN = 8
MOST_INCLUDES = 200
MOST_TEXT = 16 * 2**20  # characters of one attribute


class _Element:
    """An element of XML, with the line on which it begins."""

    __slots__ = ("attributes", "children", "file", "line", "number", "tag")

    def __init__(self, tag: str, attributes: dict[str, str], file: str, line: int, number: int):
        self.tag, self.attributes, self.file, self.line, self.number = tag, attributes, file, line, number
        self.children: list[_Element] = []

    def error(self, reason: str) -> SceneError:
        name = self.attributes.get("name")
        return SceneError(reason, file=self.file, line=self.line, component=f"<{self.tag}{f' {name}' if name else ''}>")


def read_xml(path: str | Path, tree: str | Path | None = None) -> tuple[SceneNode, SceneFiles]:
    """The scene of a file, what it includes put in place, and the files that it may read."""
    path = Path(path)
    if not path.exists():
        raise SceneError("there is no such file at this path", file=path)
    files = SceneFiles(path, tree)
    reader = _Reader(files)
    with collector_at_rest():  # what is read has no cycles: two thirds of the time of long files
        top = reader.parsed(path.resolve(), (), lambda reason: SceneError(reason, file=path))
    if top.tag != "Node":
        raise top.error("a scene is a <Node>")
    root = SceneNode(top.attributes.get("name", "root"), top.attributes, top.file, top.line)
    _fill(root, top)
    finish(root)
    return root, files


class _Reader:
    """Parses files and counts what they hold in all."""

    def __init__(self, files: SceneFiles):
        self.files, self.elements, self.includes = files, 0, 0

    def parsed(self, path: Path, within: tuple[Path, ...], error) -> _Element:
        if path in within:
            raise error(f"includes itself: {' -> '.join(p.name for p in (*within, path))}")
        if len(within) > MOST_INCLUDES_WITHIN:
            raise error(f"includes are nested more than {MOST_INCLUDES_WITHIN} deep")
        top = self._elements(self.files.read(path, error), str(path))
        return self._included(top, (*within, path))

    def _elements(self, content: bytes, file: str) -> _Element:
        parser = expat.ParserCreate()
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        open_elements: list[_Element] = []
        done: list[_Element] = []
        count = 0

        def fail(reason: str) -> SceneError:
            at = open_elements[-1] if open_elements else None
            component = f"<{at.tag}>" if at else ""
            return SceneError(reason, file=file, line=parser.CurrentLineNumber, component=component)

        def start(tag: str, attributes: dict[str, str]) -> None:
            nonlocal count
            count += 1
            self.elements += 1
            if self.elements > MOST_ELEMENTS:
                raise fail(f"the scene has more than {MOST_ELEMENTS} elements")
            if len(open_elements) >= MOST_DEPTH:
                raise fail(f"elements are nested more than {MOST_DEPTH} deep")
            element = _Element(tag, attributes, file, parser.CurrentLineNumber, count - 1)
            for name, text in attributes.items():
                if len(text) > MOST_TEXT:
                    raise element.error(f"{name} has {len(text)} characters, {MOST_TEXT} at most are read")
            (open_elements[-1].children if open_elements else done).append(element)
            open_elements.append(element)

        def doctype(*_) -> None:
            raise fail("a document type (DOCTYPE), and with it entities, is refused")

        parser.StartElementHandler = start
        parser.EndElementHandler = lambda _: open_elements.pop()
        parser.StartDoctypeDeclHandler = doctype
        parser.EntityDeclHandler = doctype
        parser.ExternalEntityRefHandler = doctype  # pyright: ignore[reportAttributeAccessIssue]
        parser.buffer_text = False
        try:
            parser.Parse(content, True)
        except expat.ExpatError as problem:
            reason = f"no well-formed XML: {expat.ErrorString(problem.code)}"
            raise SceneError(reason, file=file, line=problem.lineno, component=_opened(open_elements)) from None
        except (UnicodeError, LookupError, ValueError) as problem:
            if isinstance(problem, SceneError):
                raise
            raise fail(f"no text in XML: {problem}") from None
        return done[0]

    def _included(self, element: _Element, within: tuple[Path, ...]) -> _Element:
        """`element` with what it includes in place of its includes."""
        children: list[_Element] = []
        for child in element.children:
            if child.tag != "include":
                children.append(self._included(child, within))
                continue
            self.includes += 1
            if self.includes > MOST_INCLUDES:
                raise child.error(f"the scene includes more than {MOST_INCLUDES} files")
            name = child.attributes.get("href")
            if not name:
                raise child.error("has no href, the file to include")
            path = self.files.find(name, child.file, child.error)
            top = self.parsed(path, within, child.error)
            _override(top, self._included(child, within), 0)
            for data, value in child.attributes.items():
                owner, _, inner = data.rpartition("__")
                _replace(top, inner or data, value, owner)
            name = top.attributes.get("name")
            if name == "_Merge_":
                element.children = children
                _override(element, top, 1)
                children = element.children
            else:
                children += top.children if name in _GROUPS else [top]
        element.children = children
        return element


_GROUPS = ("Group", "_Group_")  # what stands in these takes the place of the include, without a node of its own


def _replace(element: _Element, data: str, value: str, owner: str) -> None:
    """Data of an include replace those of the same name of all that it includes, or of what is called `owner`."""
    if data in element.attributes and data not in ("name", "href") and owner in ("", element.attributes.get("name")):
        element.attributes[data] = value
    for child in element.children:
        _replace(child, data, value, owner)


def _opened(elements: list[_Element]) -> str:
    return f"<{elements[-1].tag}>, opened on line {elements[-1].line}" if elements else ""


def _override(element: _Element, by: _Element, depth: int) -> None:
    """What stands within an include replaces data of what it includes, by name; what has no like there is added."""
    kept = {k: v for k, v in by.attributes.items() if k not in ("href", "name") and not (depth == 0 and "__" in k)}
    element.attributes.update(kept)
    if depth == 0 and "name" in by.attributes:
        element.attributes["name"] = by.attributes["name"]
    for child in by.children:
        same = [c for c in element.children if c.attributes.get("name", object()) == child.attributes.get("name")]
        if same:
            _override(same[0], child, depth + 1)
        else:
            element.children.append(child)


def _fill(node: SceneNode, element: _Element) -> None:
    for child in element.children:
        if child.tag == "Node":
            name = child.attributes.get("name") or f"Node{len(node.children) + 1}"
            if "/" in name or name.startswith("@"):
                raise child.error(f"{shown(name)} is no name of a node: '/' and '@' are of links")
            below = SceneNode(name, child.attributes, child.file, child.line, node)
            node.content.append(below)
            _fill(below, child)
            continue
        kind = child.attributes.get("type") if child.tag == "Object" else child.tag
        if not kind:
            raise child.error("has no type")
        if child.children:
            raise child.children[0].error(f"stands within the object {child.tag}, where only nodes hold others")
        data = {k: v for k, v in child.attributes.items() if not (child.tag == "Object" and k == "type")}
        node.content.append(SceneObject(kind, data, child.file, child.line, node, number=child.number))
