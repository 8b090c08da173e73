"""What a picture of a scene holds, whoever draws it: arrays of the host, and names."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Surface:
    """Polygons on the nodes of one state: cells of the plane or of sheets, or the skin of solids.

    `polygons` (m, k): corners in their order round the polygon; `owners` (m,): the cell of `component` each belongs to.
    """

    component: str
    state: str
    points: np.ndarray  # (n, d)
    polygons: np.ndarray
    owners: np.ndarray
    cells: int  # how many there are, seen or not
    closed: bool  # outward normals, nothing to be seen from within
    carries: tuple[str, ...] = ()  # states of numbers on the same nodes


@dataclass
class Lines:
    """Straight pieces from `start` to `end` (m, d): springs, bars, cables, whatever joins nodes.

    `nodes`: those that elements join, one after the other: a state, and the node of every element. One alone is held.
    """

    name: str
    kind: str  # "spring", "bar", "constraint" or "anchor"
    start: np.ndarray
    end: np.ndarray
    nodes: list[tuple[str, np.ndarray]]


@dataclass
class Arrows:
    """A load: vectors at places (m, d), in `unit`."""

    name: str
    at: np.ndarray
    vectors: np.ndarray
    unit: str


@dataclass
class Frames:
    """Rigid bodies: origins (n, d), and their axes as columns (n, d, d); `nodes` (n,): which of the state they are."""

    name: str
    nodes: np.ndarray
    origins: np.ndarray
    axes: np.ndarray


@dataclass
class Drawing:
    """All of a scene at a state, in the plane (`size` 2) or in space (3)."""

    size: int
    surfaces: list[Surface] = field(default_factory=list)
    lines: list[Lines] = field(default_factory=list)
    arrows: list[Arrows] = field(default_factory=list)
    frames: list[Frames] = field(default_factory=list)
    dots: dict[str, np.ndarray] = field(default_factory=dict)  # the nodes of states that nothing else shows
    held: dict[str, np.ndarray] = field(default_factory=dict)  # places of the nodes that a constraint holds, by its name
    walls: list[tuple[str, np.ndarray, np.ndarray]] = field(default_factory=list)  # name, point, unit normal

    def places(self) -> np.ndarray:
        """Everything that must be within the picture, (n, size)."""
        rows = [s.points[np.unique(s.polygons)] for s in self.surfaces]
        rows += [p for line in self.lines for p in (line.start, line.end)]
        rows += [f.origins for f in self.frames] + list(self.dots.values()) + list(self.held.values())
        rows += [a.at for a in self.arrows]
        found = np.concatenate([np.asarray(r, float).reshape(-1, self.size) for r in rows]) if rows else np.zeros((1, 3))
        return found[np.isfinite(found).all(1)] if np.isfinite(found).any() else np.zeros((1, self.size))

    def extent(self) -> float:
        """The longest side of the box around it [m], never nil."""
        places = self.places()
        longest = float(np.max(places.max(0) - places.min(0)))
        return longest if longest > 0 else 1.0
