"""Files of Wavefront (.obj): points, lines, faces and the names of their groups; what renderers want is left aside."""

import os
from typing import Any

import numpy as np

_CORNERS = {2: "line", 3: "triangle", 4: "quad"}


def read_obj(path: str | os.PathLike) -> Any:
    """The content as meshio has it, with a set of cells for every group (`g`) and object (`o`).

    Raises `ValueError` for faces of more than four corners, and for corners that are not there. (meshio's own reader refuses
    files whose texture has other points than the surface, and drops names.)
    """
    import meshio

    points: list[list[float]] = []
    cells: dict[str, list[list[int]]] = {}
    sets: dict[str, dict[str, list[int]]] = {}
    names: dict[str, list[str]] = {}
    inside = set[str]()
    with open(path) as file:
        for line in file.read().replace("\\\n", " ").splitlines():
            key, *words = line.partition("#")[0].split() or [""]
            if key == "v":
                points.append([float(word) for word in words[:3]])
            elif key in ("g", "o"):
                names[key] = words
                inside = {name for given in names.values() for name in given}
            elif key in ("f", "l"):
                corners = [_number(word, len(points)) for word in words]
                parts = [corners] if key == "f" else [corners[i : i + 2] for i in range(len(corners) - 1)]
                for part in parts:
                    kind = _kind(part, key)
                    for name in inside:
                        sets.setdefault(name, {}).setdefault(kind, []).append(len(cells.get(kind, [])))
                    cells.setdefault(kind, []).append(part)
    of_blocks = {name: [np.array(of.get(kind, []), int) for kind in cells] for name, of in sets.items()}
    blocks = [(kind, np.array(rows)) for kind, rows in cells.items()]
    return meshio.Mesh(np.array(points), blocks, cell_sets=of_blocks)


def _kind(corners: list[int], key: str) -> str:
    if len(corners) not in _CORNERS or (key == "f" and len(corners) == 2):
        raise ValueError(f"a face has {len(corners)} corners, expected 3 or 4")
    return _CORNERS[len(corners)]


def _number(word: str, count: int) -> int:
    """Of `corner/texture/normal`: from 1, or from the last point backwards."""
    number = int(word.partition("/")[0])
    index = number - 1 if number > 0 else count + number
    if number == 0 or index < 0:
        raise ValueError(f"a corner names point {number}, numbers begin with 1")
    return index
