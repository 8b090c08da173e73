"""Meshes of several kinds of cells, with named groups."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_callable, check_instance, index_array, plain
from .._runtime.array_types import Array, Float, Int
from .._runtime.jax_internals import Tracer
from .adjacency import cell_faces, distinct_rows
from .mesh import Mesh, as_points
from .reference import reference_element

NODES = "node"  # the kind under which a group lists nodes instead of cells
FACE_KINDS = {1: {2: "edge", 3: "edge3"}, 2: {3: "triangle", 4: "quad", 6: "triangle6", 8: "quad8", 9: "quad9"}}
T = TypeVar("T")


def _as_blocks(blocks: Any) -> dict[str, Array]:
    check_instance("MixedMesh", "blocks", blocks, Mapping)
    return {str(kind): index_array("MixedMesh", f"blocks['{kind}']", blocks[kind]) for kind in sorted(blocks)}


def _as_groups(groups: Any) -> dict[str, dict[str, Array]]:
    check_instance("MixedMesh", "groups", groups, Mapping)
    for name, members in groups.items():
        check_instance("MixedMesh", f"groups['{name}']", members, Mapping)
    return {
        str(name): {
            str(kind): index_array("MixedMesh", f"groups['{name}']['{kind}']", groups[name][kind])
            for kind in sorted(groups[name])
        }
        for name in sorted(groups)
    }


class MixedMesh(eqx.Module):
    """Points `(n, d)` [m], blocks of cells of several kinds on them, and groups of cells and nodes by name.

    `blocks`: `{kind: (e, k)}`, the cells of each kind of `Mesh`; kinds of fewer dimensions (faces, edges) are there for
    groups to name them. `groups`: `{name: {kind: numbers}}`, numbers of cells of the block of that kind, or of nodes under
    the kind "node". Components act on cells of one kind: `parts` gives a `Mesh` of each, `each` makes a component of each,
    on the same points, and `System` takes them under one name. All of it is on the host.
    Raises `ValueError` for a block that `Mesh` would refuse, a group of a kind that is not there, and numbers beyond the
    cells or points; `TypeError` for what is no dictionary, and numbers that are not whole.
    Source: W. Schroeder, K. Martin, B. Lorensen, *The Visualization Toolkit*, 4th ed., 2006, ISBN 978-1-930934-19-1
    (unstructured grids; order of nodes).

    Example:

        points = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
        blocks = {"quad": [[0, 1, 4, 3]], "triangle": [[1, 2, 4]], "edge": [[3, 0]]}
        plate = jm.mesh.MixedMesh(points, blocks, {"left": {"edge": [0]}})
        law = jm.material.LinearElastic(1e6, 0.25)
        scene = jm.System(
            {"plate": jm.Vec2()},
            forces={"solid": plate.each(lambda part: jm.force.SolidFEM.from_mesh("plate", part, law))},
            constraints={"clamp": jm.constraint.Fixed(("plate", plate.nodes("left")))},
        )
        assert list(scene.forces) == ["solid.quad", "solid.triangle"]
        assert plate.nodes("left").tolist() == [0, 3]
    """

    points: Float[Array, "n d"] = eqx.field(converter=as_points)
    blocks: dict[str, Int[Array, "e k"]] = eqx.field(converter=_as_blocks)
    groups: dict[str, dict[str, Int[Array, " m"]]] = eqx.field(converter=_as_groups, default_factory=dict)

    def __check_init__(self):
        if not self.blocks:
            raise ValueError("MixedMesh: blocks is empty, expected cells of at least one kind.")
        for kind, cells in self.blocks.items():
            Mesh(self.points, cells, kind)  # which looks at them
        for name, members in self.groups.items():
            for kind, numbers in members.items():
                self._check_group(name, kind, numbers)

    def _check_group(self, name: str, kind: str, numbers: Array) -> None:
        if kind != NODES and kind not in self.blocks:
            raise ValueError(f"MixedMesh: group '{name}' names cells of kind '{kind}', but blocks has {list(self.blocks)}.")
        count = len(self.points if kind == NODES else self.blocks[kind])
        if numbers.ndim != 1:
            raise ValueError(f"MixedMesh: group '{name}' of kind '{kind}' has shape {numbers.shape}, expected (m,).")
        if not isinstance(numbers, Tracer):
            wrong = [n for n in np.asarray(numbers).tolist() if not 0 <= n < count]
            if wrong:
                raise ValueError(f"MixedMesh: group '{name}' names {kind} {wrong[0]}, but there are {count}.")

    @classmethod
    def from_mesh(cls, mesh: Mesh, groups: Mapping[str, Any] | None = None) -> "MixedMesh":
        """A mesh of one kind. `groups`: of `{name: predicate}` of its points, the nodes and the boundary faces where it
        holds (see `Mesh.faces_where`), or the nodes alone where it holds on no face.
        """
        check_instance("MixedMesh.from_mesh", "mesh", mesh, Mesh)
        check_instance("MixedMesh.from_mesh", "groups", {} if groups is None else groups, Mapping)
        faces = cls(mesh.points, {mesh.kind: mesh.cells}).boundary()
        blocks = {mesh.kind: mesh.cells} | {part.kind: part.cells for part in faces if groups}
        named = {}
        for name, predicate in (groups or {}).items():
            check_callable("MixedMesh.from_mesh", f"groups['{name}']", predicate)
            nodes = mesh.nodes_where(predicate)
            inside = {part.kind: np.flatnonzero(np.isin(np.asarray(part.cells), nodes).all(1)) for part in faces}
            named[name] = {kind: numbers for kind, numbers in inside.items() if numbers.size} | {NODES: nodes}
        return cls(mesh.points, blocks, named)

    @property
    def dimension(self) -> int:
        """How many dimensions its cells have at most."""
        return max(reference_element(kind).dimension for kind in self.blocks)

    @property
    def dimensions(self) -> dict[str, tuple[int, ...]]:
        """For every group, the dimensions of what it names: 0 of nodes, 1 of edges, and so on."""
        return {name: tuple(sorted({_dimension(kind) for kind in group})) for name, group in self.groups.items()}

    def parts(self, name: str | None = None, *, dimension: int | None = None) -> tuple[Mesh, ...]:
        """The cells of the group `name`, or all of the highest dimension: a `Mesh` for each kind, on the same points.

        `dimension`: of those only, where a name stands for several. Raises `ValueError` for an unknown name, listing the
        known ones, a group without such cells, and one whose cells are of several dimensions unless one is chosen.
        """
        _check_dimension(dimension)
        if name is None:
            dimension = self.dimension if dimension is None else dimension
            chosen = {kind: np.arange(len(cells)) for kind, cells in self.blocks.items() if _dimension(kind) == dimension}
        else:
            chosen = {kind: numbers for kind, numbers in self._group(name, dimension).items() if kind != NODES}
            several = sorted({_dimension(kind) for kind in chosen})
            if len(several) > 1:
                raise ValueError(f"MixedMesh: group '{name}' has cells of dimensions {several}: pass dimension=.")
        if not chosen:
            of = "the mesh" if name is None else f"group '{name}'"
            raise ValueError(f"MixedMesh: {of} has no cells" + (f" of dimension {dimension}." if dimension else "."))
        return tuple(Mesh(self.points, np.asarray(self.blocks[k])[np.asarray(n)], k) for k, n in chosen.items())

    def part(self, name: str | None = None, *, dimension: int | None = None) -> Mesh:
        """`parts`, where it is one: raises `ValueError` besides for cells of several kinds."""
        found = self.parts(name, dimension=dimension)
        if len(found) > 1:
            kinds = [part.kind for part in found]
            raise ValueError(f"MixedMesh: there are cells of kinds {kinds}, take parts, or each, instead of part.")
        return found[0]

    def each(self, component: Callable[[Mesh], T], name: str | None = None, *, dimension: int | None = None) -> dict[str, T]:
        """`{kind: component(part)}` of every part (see `parts`): what `System` takes under one name."""
        check_callable("MixedMesh.each", "component", component)
        made = {part.kind: component(part) for part in self.parts(name, dimension=dimension)}
        if nothing := [kind for kind, item in made.items() if item is None]:
            raise TypeError(f"MixedMesh.each: component gave None for the cells of kind '{nothing[0]}'.")
        return made

    def nodes(self, name: str, *, dimension: int | None = None) -> Int[np.ndarray, " m"]:
        """The nodes of a group, those of its cells too, in increasing order; `dimension`: of such cells only (0: nodes)."""
        found = [
            np.asarray(numbers) if kind == NODES else np.asarray(self.blocks[kind])[np.asarray(numbers)].ravel()
            for kind, numbers in self._group(name, dimension).items()
        ]
        return np.unique(np.concatenate(found)).astype(np.int32)

    def boundary(self) -> tuple[Mesh, ...]:
        """The faces that belong to one cell only, outward: a `Mesh` for each kind of them; empty for a closed surface."""
        faces: dict[str, list[np.ndarray]] = {}
        for part in self.parts():
            element = reference_element(part.kind)
            if not element.faces:
                raise ValueError(f"MixedMesh.boundary: cells of kind '{part.kind}' have no faces.")
            kinds = FACE_KINDS[element.dimension - 1]
            rows = cell_faces(np.asarray(part.cells), element, len(self.points))
            sizes = (rows < len(self.points)).sum(1)
            for size in np.unique(sizes).tolist():
                faces.setdefault(kinds[size], []).append(rows[sizes == size][:, :size])
        alone = {}
        for kind, lists in sorted(faces.items()):
            rows = np.concatenate(lists)
            first, which = distinct_rows(rows, len(self.points))
            alone[kind] = rows[np.sort(first[np.bincount(which) == 1])]
        return tuple(Mesh(self.points, rows, kind) for kind, rows in alone.items() if len(rows))

    def measure(self) -> Array:
        """Total length, area or volume of the cells of the highest dimension [m, m^2, m^3]."""
        return jnp.sum(jnp.stack([part.measure() for part in self.parts()]))

    def _group(self, name: str, dimension: int | None) -> dict[str, Array]:
        check_instance("MixedMesh", "name", name, str)
        _check_dimension(dimension)
        if name not in self.groups:
            raise ValueError(f"MixedMesh: name '{name:.80}' is that of no group, there is only {list(self.groups)}.")
        group = {kind: n for kind, n in self.groups[name].items() if dimension in (None, _dimension(kind))}
        if not group:
            raise ValueError(
                f"MixedMesh: group '{name}' has nothing of dimension {dimension}, only of {list(self.dimensions[name])}."
            )
        return group


def _check_dimension(dimension: Any) -> None:
    if not (dimension is None or (type(plain(dimension)) is int and 0 <= dimension <= 3)):
        raise ValueError(f"MixedMesh: dimension must be 0, 1, 2, 3 or None, got {dimension!r:.80}.")


def _dimension(kind: str) -> int:
    return 0 if kind == NODES else reference_element(kind).dimension
