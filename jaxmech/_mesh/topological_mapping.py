"""Which cells of one mesh come from which cells of another."""

from typing import Any

import equinox as eqx
import numpy as np

from .._runtime.argument_checks import check_counts, check_instance, index_array, plain
from .._runtime.array_types import Array, Int
from .._runtime.jax_internals import Tracer
from .adjacency import listed_by
from .mesh import Mesh


def _as_numbers(values: Any) -> Array:
    return index_array("TopologicalMapping", "parents and nodes", values)


class TopologicalMapping(eqx.Module):
    """A mesh made of the cells of another one, its parent, and the index maps between the two.

    - `mesh`: the child;
    - `parents` `(m, p)`: the parent cells of each child cell, lowest number first, -1 where there are fewer than `p`
      (a face inside a solid has two, on its boundary one);
    - `nodes` `(n,)`: the parent node of each child node, which is itself unless nodes were dropped or made. With it,
      `SubsetMapping` carries the motion of the parent to the child;
    - `parent_count`: how many cells the parent has.

    A number per parent cell is carried to the child cells by `values[mapping.parent]`. Raises `ValueError` for
    arrays of other shapes and a parent that does not exist, `TypeError` for numbers that are not whole.
    Numbers, without units. Source: SOFA's topological mappings, F. Faure et al., 2012, doi:10.1007/8415_2012_125.

    Example:

        bricks = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron")
        cut = jm.mesh.hexahedra_to_tetrahedra(bricks)
        young = np.array([1e6, 5e6])  # [Pa], of each hexahedron
        assert young[cut.parent].tolist() == [1e6] * 6 + [5e6] * 6  # of its tetrahedra
    """

    mesh: Mesh
    parents: Int[Array, "m p"] = eqx.field(converter=_as_numbers)
    nodes: Int[Array, " n"] = eqx.field(converter=_as_numbers)
    parent_count: int = eqx.field(static=True, converter=plain)

    def __check_init__(self):
        check_instance("TopologicalMapping", "mesh", self.mesh, Mesh)
        check_counts("TopologicalMapping", parent_count=self.parent_count)
        cells, points = len(self.mesh.cells), len(self.mesh.points)
        if self.parents.ndim != 2 or len(self.parents) != cells or not self.parents.shape[1]:
            raise ValueError(f"TopologicalMapping: parents has shape {self.parents.shape}, expected ({cells}, p).")
        if self.nodes.shape != (points,):
            raise ValueError(f"TopologicalMapping: nodes has shape {self.nodes.shape}, expected ({points},).")
        if not isinstance(self.parents, Tracer):
            self._check_parents(np.asarray(self.parents))

    def _check_parents(self, parents: np.ndarray) -> None:
        outside = (parents < -1) | (parents >= self.parent_count)
        wrong = np.flatnonzero(outside.any(1) | (parents[:, 0] < 0))
        if wrong.size:
            raise ValueError(
                f"TopologicalMapping: parents of cell {wrong[0]} are {parents[wrong[0]].tolist()}, expected cells below "
                f"{self.parent_count}, -1 only after the first."
            )

    @classmethod
    def identity(cls, mesh: Mesh) -> "TopologicalMapping":
        """The mesh as a child of itself."""
        cells = host_cells("TopologicalMapping.identity", mesh)
        return cls(mesh, np.arange(len(cells))[:, None], np.arange(len(mesh.points)), len(cells))

    @property
    def parent(self) -> Int[Array, " m"]:
        """The first parent of each child cell: of two, the one with the lower number. Faces are outward from it."""
        return self.parents[:, 0]

    def children(self) -> Int[np.ndarray, "e q"]:
        """The child cells of each parent cell in increasing order; -1 where there are fewer than `q`. Host only.

        A child of two parents is listed by both.
        """
        if isinstance(self.parents, Tracer):
            raise TypeError("TopologicalMapping.children: the size of its result depends on values, call it outside jit.")
        parents = np.asarray(self.parents)
        child, rank = np.nonzero(parents >= 0)
        return listed_by(parents[child, rank], child, self.parent_count)


def host_cells(owner: str, mesh: Mesh, kind: str | None = None) -> Int[np.ndarray, "e k"]:
    """The cells of a mesh as NumPy's. Raises `TypeError` for what is no mesh and for traced cells, `ValueError` for
    cells that are not of the `kind`.
    """
    check_instance(owner, "mesh", mesh, Mesh)
    if kind is not None and mesh.kind != kind:
        raise ValueError(f"{owner}: mesh has cells of kind '{mesh.kind}', expected '{kind}'.")
    if isinstance(mesh.cells, Tracer):
        raise TypeError(f"{owner}: the mesh it makes depends on the values of cells, call it outside jit.")
    return np.asarray(mesh.cells)
