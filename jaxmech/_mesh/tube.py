"""Tubes around a line of frames."""

from typing import Any

import numpy as np

from .._runtime.argument_checks import check_counts, check_real, numeric_array, plain
from .._runtime.array_types import Bool, Float, Int
from .._runtime.jax_internals import Tracer
from .mesh import Mesh
from .topological_mapping import TopologicalMapping, host_cells

_ALONG = 1e-6  # cosine below which a frame is taken to stand across its edge


def edges_to_quads(mesh: Mesh, orientations: Any, *, radius: Any, sides: int = 10) -> TopologicalMapping:
    """A tube of quads around edges, open at its ends: a circle of `sides` points on every node, and `sides` quads on
    every edge, outward.

    `mesh`: edges in space, whose points are those of frames. `orientations` `(n, 4)`: the unit quaternions
    (x, y, z, w) of the frames, whose x axes follow the line, forwards or backwards. `radius` [m]: one, one per node
    `(n,)`, or the half axes along y and z of an ellipse per node `(n, 2)`. Point `j` of node `i` is child node
    `sides i + j`, at `c + R (0, a cos t, b sin t)`, `t = 2 pi j / sides`.

    A child cell's parent is its edge, and `nodes` is the frame that carries each child node:
    `RigidMapping.from_global(state, "skin", tube.nodes, frames, tube.mesh.points)` moves the tube with its frames. Host
    only. Raises `ValueError` for cells of another kind, arrays of another shape, quaternions that are not of unit
    length, a radius that is not positive, fewer than 3 sides, and a frame whose x axis stands across its edge.
    Source: SOFA's Edge2QuadTopologicalMapping.

    Example:

        line = jm.mesh.Mesh([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0, 1]], "edge")
        tube = jm.mesh.edges_to_quads(line, [[0.0, 0.0, 0.0, 1.0]] * 2, radius=0.1, sides=8)
        assert tube.mesh.points.shape == (16, 3) and tube.nodes.tolist() == [0] * 8 + [1] * 8
    """
    edges = host_cells("edges_to_quads", mesh, "edge")
    if mesh.points.shape[1] != 3:
        raise ValueError(f"edges_to_quads: mesh has points {mesh.points.shape}, expected (n, 3).")
    sides = plain(sides)
    check_counts("edges_to_quads", sides=sides)
    if sides < 3:
        raise ValueError(f"edges_to_quads: sides must be at least 3, got {sides}.")
    if isinstance(mesh.points, Tracer):
        raise TypeError("edges_to_quads: the cells it makes depend on the values of points, call it outside jit.")
    points, count = np.asarray(mesh.points), len(mesh.points)
    from scipy.spatial.transform import Rotation  # imported where it is used: it takes long

    turns = Rotation.from_quat(_quaternions(orientations, count)).as_matrix()
    axes = _half_axes(radius, count)
    angle = 2 * np.pi * np.arange(sides) / sides
    local = axes[:, None, :] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)  # (n, sides, 2)
    skin = (points[:, None, :] + local @ turns[:, :, 1:].transpose(0, 2, 1)).astype(points.dtype)

    start, end = np.where(_backwards(edges, points, turns[:, :, 0])[:, None], edges[:, ::-1], edges).T[:, :, None]
    j, following = np.arange(sides), (np.arange(sides) + 1) % sides
    quads = np.stack([start * sides + j, start * sides + following, end * sides + following, end * sides + j], axis=-1)
    parents, nodes = np.repeat(np.arange(len(edges)), sides), np.repeat(np.arange(count), sides)
    return TopologicalMapping(Mesh(skin.reshape(-1, 3), quads.reshape(-1, 4), "quad"), parents[:, None], nodes, len(edges))


def _backwards(
    edges: Int[np.ndarray, "e 2"], points: Float[np.ndarray, "n 3"], x_axes: Float[np.ndarray, "n 3"]
) -> Bool[np.ndarray, " e"]:
    """Which edges run against the x axes of their frames."""
    along = points[edges[:, 1]] - points[edges[:, 0]]
    cosines = np.einsum("ekc,ec->ek", x_axes[edges], along)
    across = np.abs(cosines) <= _ALONG * np.linalg.norm(along, axis=1, keepdims=True)
    wrong = np.flatnonzero(across.any(1) | (np.sign(cosines[:, 0]) != np.sign(cosines[:, 1])))
    if wrong.size:
        raise ValueError(
            f"edges_to_quads: edge {wrong[0]} does not follow the x axes of orientations {edges[wrong[0]].tolist()}, "
            f"both forwards or both backwards."
        )
    return cosines[:, 0] < 0


def _quaternions(orientations: Any, count: int) -> Float[np.ndarray, "n 4"]:
    array = np.asarray(numeric_array("edges_to_quads", "orientations", orientations))
    if array.shape != (count, 4):
        raise ValueError(f"edges_to_quads: orientations has shape {array.shape}, expected ({count}, 4).")
    array = array.astype(float) if array.dtype.kind in "iu" else array
    check_real("edges_to_quads", "orientations", array)
    wrong = np.flatnonzero(np.abs(np.linalg.norm(array, axis=1) - 1) > 1e-4)
    if wrong.size:
        raise ValueError(f"edges_to_quads: orientations[{wrong[0]}] is {array[wrong[0]]}, expected unit length.")
    return array


def _half_axes(radius: Any, count: int) -> Float[np.ndarray, "n 2"]:
    array = np.asarray(numeric_array("edges_to_quads", "radius", radius))
    if array.shape not in ((), (count,), (count, 2)):
        raise ValueError(f"edges_to_quads: radius has shape {array.shape}, expected (), ({count},) or ({count}, 2).")
    array = array.astype(float) if array.dtype.kind in "iu" else array
    check_real("edges_to_quads", "radius", array)
    if not (array > 0).all():
        raise ValueError(f"edges_to_quads: radius must be positive, got {array.min()}.")
    return np.broadcast_to(array if array.ndim == 2 else np.reshape(array, (-1, 1)), (count, 2))
