"""Some cells of a mesh, with their own points only."""

from typing import Any

import numpy as np

from .._runtime.argument_checks import numeric_array
from .._runtime.array_types import Int
from .._runtime.jax_internals import Tracer
from .mesh import Mesh
from .topological_mapping import TopologicalMapping, host_cells


def submesh(mesh: Mesh, cells: Any = None) -> TopologicalMapping:
    """The chosen `cells` (numbers `(m,)`, or one boolean per cell), in the order given, and the points they use.

    Points are renumbered in increasing order: child node `i` is parent node `nodes[i]`. Without `cells`, all of
    them, so that only points that no cell uses are dropped (as inside a boundary).

    Raises `ValueError` for a selection that is empty, of another shape, out of range or that names a cell twice,
    `TypeError` for one that is neither whole numbers nor booleans.
    Points keep their unit [m].

    Example:

        corner = jm.mesh.submesh(mesh, [0])
        assert corner.mesh.cells.tolist() == [[0, 1, 2, 3]]
        assert jnp.array_equal(corner.nodes, jnp.sort(mesh.cells[0]))
    """
    every = host_cells("submesh", mesh)
    chosen = np.arange(len(every)) if cells is None else _chosen(cells, len(every))
    nodes, local = np.unique(every[chosen], return_inverse=True)
    # Known points are taken on the host, where another size costs no compilation.
    points = mesh.points if isinstance(mesh.points, Tracer) else np.asarray(mesh.points)
    child = Mesh(points[nodes], local.reshape(len(chosen), -1), mesh.kind)
    return TopologicalMapping(child, chosen[:, None], nodes, len(every))


def _chosen(cells: Any, count: int) -> Int[np.ndarray, " m"]:
    chosen = np.asarray(numeric_array("submesh", "cells", cells))
    if chosen.dtype == np.bool_:
        if chosen.shape != (count,):
            raise ValueError(f"submesh: cells has shape {chosen.shape}, expected ({count},): one boolean per cell.")
        chosen = np.flatnonzero(chosen)
    if chosen.dtype.kind not in "iu":
        raise TypeError(f"submesh: cells must be whole numbers or booleans, got dtype {chosen.dtype}.")
    if chosen.ndim != 1 or not chosen.size:
        raise ValueError(f"submesh: cells selects {chosen.shape} cells, expected a list of at least one.")
    wrong = chosen[(chosen < 0) | (chosen >= count)]
    if wrong.size:
        raise ValueError(f"submesh: cells names {wrong[0]}, but there are {count} cells.")
    numbers, times = np.unique(chosen, return_counts=True)
    if times.max() > 1:
        raise ValueError(f"submesh: cells names {numbers[times > 1][0]} more than once.")
    return chosen
