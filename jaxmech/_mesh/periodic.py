"""Nodes that are each other's images under a shift."""

from typing import Any

import numpy as np

from .._runtime.argument_checks import check_instance, check_on_host, real_array
from .._runtime.array_types import Int
from .mesh import Mesh
from .mixed import MixedMesh

_NEAR = 1e-6  # of the size of the mesh, how far an image may miss


def periodic_pairs(mesh: Mesh | MixedMesh, shift: Any) -> Int[np.ndarray, "m 2"]:
    """The pairs of nodes `(i, j)` with `x_i = x_j + shift` [m]: what `LinearRelation.from_pairs` makes periodic.

    Of a box, a corner has an image by each of the axes; those equations are independent along one axis, and along a second
    one leave out the pairs that a first one joins (the example). Raises `ValueError` for a shift of another dimension, and
    where no node has an image. Host only.
    Source: V. Kouznetsova, W. A. M. Brekelmans, F. P. T. Baaijens, Comput. Mech. 27 (2001) 37, doi:10.1007/s004660000212.

    Example:

        cell = jm.mesh.box_mesh(cells=(2, 2), size=(1.0, 1.0), kind="quad")
        across, up = (jm.mesh.periodic_pairs(cell, shift) for shift in ([1.0, 0.0], [0.0, 1.0]))
        pairs = np.vstack([across, up[~np.isin(up[:, 1], across[:, 0])]])  # the right side follows the left one
        assert across.tolist() == [[2, 0], [5, 3], [8, 6]] and len(pairs) == 5
    """
    check_instance("periodic_pairs", "mesh", mesh, (Mesh, MixedMesh))
    check_on_host("periodic_pairs", "pairs", mesh.points, shift)
    points = np.asarray(mesh.points, float)
    shift = np.asarray(real_array("periodic_pairs", "shift", shift, (points.shape[1],)), float)
    from scipy.spatial import KDTree  # imported where it is used: it takes long

    apart, image = KDTree(points).query(points + shift)
    found = np.flatnonzero(apart <= _NEAR * np.ptp(points, axis=0).max())
    if not found.size:
        raise ValueError(f"periodic_pairs: no node is the image of another under shift {shift.tolist()}.")
    return np.stack([np.asarray(image)[found], found], axis=1).astype(np.int32)
