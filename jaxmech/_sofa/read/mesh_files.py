"""Meshes in the files that SOFA's loaders read: Gmsh (versions 1 and 2, text), OBJ; VTK and others by meshio.

SOFA numbers points as the file does; what a file announces is compared with what it holds.
"""

from pathlib import Path

import numpy as np

from .topology import Topology

_GMSH_CELLS = {1: ("edges", 2), 2: ("triangles", 3), 3: ("quads", 4), 4: ("tetrahedra", 4), 5: ("hexahedra", 8)}
_GMSH_CELLS |= {6: ("prisms", 6), 7: ("pyramids", 5), 15: ("", 1)}


class _Words:
    """The words of a text, taken one after the other, with the line that each stands on."""

    def __init__(self, content: bytes, path: Path, error):
        try:
            self.lines = [line.split() for line in content.decode("ascii").splitlines()]
        except UnicodeDecodeError:
            raise error(f"{path.name} is not text: binary mesh files are not read") from None
        self.at, self.path, self._error = 0, path, error

    def error(self, reason: str):
        return self._error(f"{self.path.name}, line {min(self.at, len(self.lines))}: {reason}")

    def line(self, what: str) -> list[str]:
        while self.at < len(self.lines) and not self.lines[self.at]:
            self.at += 1
        if self.at >= len(self.lines):
            raise self.error(f"the file ends where {what} should be")
        self.at += 1
        return self.lines[self.at - 1]

    def count(self, what: str) -> int:
        words = self.line(f"the number of {what}")
        if len(words) != 1 or not words[0].isdecimal() or len(words[0]) > 9:
            raise self.error(f"expected the number of {what}, got {' '.join(words)[:60]!r}")
        if int(words[0]) > len(self.lines) - self.at:
            raise self.error(f"announces {int(words[0])} {what}, and has {len(self.lines) - self.at} lines left")
        return int(words[0])

    def expect(self, word: str) -> None:
        words = self.line(word)
        if words != [word]:
            raise self.error(f"expected {word}, got {' '.join(words)[:60]!r}")

    def wholes(self, words: list[str]) -> list[int]:
        if not all(word.isdecimal() and len(word) < 10 for word in words):
            raise self.error(f"expected whole numbers, got {' '.join(words)[:60]!r}")
        return [int(word) for word in words]

    def reals(self, words: list[str], count: int) -> list[float]:
        try:
            numbers = [float(word) for word in words[:count]]
        except ValueError:
            numbers = []
        if len(numbers) != count or not np.isfinite(numbers).all():
            raise self.error(f"expected {count} finite numbers, got {' '.join(words)[:60]!r}")
        return numbers


def read_gmsh(content: bytes, path: Path, error) -> Topology:
    """Gmsh's format 1 (`$NOD`, `$ELM`) and 2 (`$Nodes`, `$Elements`), in text."""
    words = _Words(content, path, error)
    start = words.line("$NOD or $MeshFormat")
    if start == ["$MeshFormat"]:
        version = words.line("the version")
        if not version[0].startswith("2") or version[1:2] != ["0"]:
            raise words.error(f"Gmsh format {' '.join(version)[:40]!r} is not read: 1 and 2 in text are")
        words.expect("$EndMeshFormat")
        while (start := words.line("$Nodes")) != ["$Nodes"]:
            pass
    elif start != ["$NOD"]:
        raise words.error("expected $NOD or $MeshFormat, the beginning of a Gmsh file")
    old = start == ["$NOD"]
    numbers: dict[int, int] = {}
    position = []
    for place in range(words.count("nodes")):
        line = words.line("a node")
        numbers[words.wholes(line[:1])[0]] = place
        position.append(words.reals(line[1:], 3))
    words.expect("$ENDNOD" if old else "$EndNodes")
    words.expect("$ELM" if old else "$Elements")
    cells: dict[str, list[list[int]]] = {}
    for _ in range(words.count("elements")):
        line = words.wholes(words.line("an element"))
        if len(line) < 5 and old or len(line) < 3:
            raise words.error("an element is cut short")
        name, size = _GMSH_CELLS.get(line[1], ("?", 0))
        if name == "?":
            raise words.error(f"elements of Gmsh's type {line[1]} are not read")
        nodes = line[5:] if old else line[3 + line[2] :]
        if len(nodes) != size or not set(nodes) <= numbers.keys():
            raise words.error(f"element {line[0]} names nodes {nodes}, expected {size} that exist")
        if name:
            cells.setdefault(name, []).append([numbers[node] for node in nodes])
    return Topology(np.array(position).reshape(-1, 3), **{k: np.array(v, np.int64) for k, v in cells.items()})


def read_obj(content: bytes, path: Path, error) -> Topology:
    """Wavefront's OBJ: vertices, and faces of three or four; larger ones as fans of triangles."""
    words = _Words(content, path, error)
    position: list[list[float]] = []
    faces: dict[str, list[list[int]]] = {"triangles": [], "quads": []}
    for number, line in enumerate(words.lines, start=1):
        words.at = number
        if line[:1] == ["v"]:
            position.append(words.reals(line[1:], 3))
        elif line[:1] in (["f"], ["l"]):
            nodes = []
            for word in line[1:]:
                text = word.split("/")[0]
                if not text.lstrip("-").isdecimal() or len(text) > 10:
                    raise words.error(f"expected node numbers, got {word[:40]!r}")
                nodes.append(int(text) - 1 if int(text) > 0 else len(position) + int(text))
            if line[0] == "l":
                continue
            if len(nodes) < 3 or not all(0 <= node < len(position) for node in nodes):
                raise words.error(f"a face names nodes {nodes}, expected at least 3 of {len(position)}")
            if len(nodes) == 4:
                faces["quads"].append(nodes)
            else:
                faces["triangles"] += [[nodes[0], nodes[i], nodes[i + 1]] for i in range(1, len(nodes) - 1)]
    if not position:
        raise words.error("there is no vertex")
    made = {k: np.array(v, np.int64) for k, v in faces.items() if v}
    return Topology(np.array(position), **made)


def read_spheres(content: bytes, path: Path, error) -> np.ndarray:
    """SOFA's spheres, `(n, 4)`: centres and radii. After the first line, lines `sphe number x y z radius`; others are not
    asked for."""
    words, found = _Words(content, path, error), []
    for number, line in enumerate(words.lines[1:], start=2):
        words.at = number
        if line[:1] == ["sphe"]:
            found.append(words.reals(line[2:6], 4))
    if not found:
        raise words.error("there is no sphere")
    return np.array(found)


_RIGID = {"inrt": 9, "cntr": 3, "center": 3, "vertexMass": 1, "volm": 1, "frme": 4, "grav": 3, "visc": 1, "stck": 1}
_RIGID |= {"step": 1, "prec": 1}


def read_rigid_mass(content: bytes, path: Path, error) -> dict[str, list[float]]:
    """SOFA's masses of frames (`.rigid`): after the first line, words with their numbers; `inrt`, the inertia per mass,
    `vertexMass` and `volm` count. Lines of other words are left out, as there."""
    words, found = _Words(content, path, error), {}
    every = [(word, at) for at, line in enumerate(words.lines[1:], start=2) for word in line]
    while every:
        (word, words.at), every = every[0], every[1:]
        count = _RIGID.get(word)
        if count is None:
            every = [(w, at) for w, at in every if at != words.at]
            continue
        found[word], every = words.reals([w for w, _ in every[:count]], count), every[count:]
    return found


def read(content: bytes, path: Path, error) -> Topology:
    """A mesh, by the ending of its file."""
    readers = {".msh": read_gmsh, ".obj": read_obj}
    kind = path.suffix.lower()
    return readers[kind](content, path, error) if kind in readers else read_other(path, error)


def read_other(path: Path, error) -> Topology:
    """What meshio reads (VTK, STL, OFF, ...). Raises unless it is installed (the extra `mesh`)."""
    try:
        import meshio
    except ImportError:
        raise error(f"{path.name} is read by meshio: install jaxmech[mesh]") from None
    try:
        mesh = meshio.read(path)
    except (Exception, SystemExit) as problem:  # whatever a reader of untrusted bytes trips over
        raise error(f"meshio cannot read {path.name}: {str(problem)[:200]}") from None
    names = {"line": "edges", "triangle": "triangles", "quad": "quads", "tetra": "tetrahedra", "hexahedron": "hexahedra"}
    names |= {"wedge": "prisms", "pyramid": "pyramids"}
    cells: dict[str, np.ndarray] = {}
    for block in mesh.cells:
        if block.type in names:
            found = np.asarray(block.data, np.int64)
            name = names[block.type]
            cells[name] = np.concatenate([cells[name], found]) if name in cells else found
    points = np.zeros((len(mesh.points), 3))
    points[:, : mesh.points.shape[1]] = mesh.points
    return Topology(points, **cells)
