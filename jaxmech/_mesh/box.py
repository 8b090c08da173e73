"""Boxes and rectangles cut into cells: the meshes of examples and of tests."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .._runtime.argument_checks import numeric_array, real_array
from .._runtime.array_types import Array, Float, Int
from .._runtime.jax_internals import Tracer
from .mesh import Mesh
from .reference import reference_element
from .split_tables import block_corners, corner_numbers, split_tables

_KINDS = {2: ("triangle", "quad"), 3: ("tetrahedron", "hexahedron")}
_MOST_NODES = 2**31 - 1
_SPLITS = {"triangle": ("alternating", "kuhn"), "tetrahedron": ("alternating", "kuhn", "sofa")}


def box_mesh(
    *, cells: Sequence[int], size: Any, origin: Any = 0.0, kind: str | None = None, split: str | None = None
) -> Mesh:
    """A box from `origin` to `origin + size` [m], cut into `cells` along each axis.

    Nodes are numbered x first, then y, then z. Three axes give 'tetrahedron' (default) or 'hexahedron', two
    give 'triangle' (default) or 'quad'. `split` says how a hexahedron becomes 6 tetrahedra, or a quad 2
    triangles:

    - 'alternating' (default): neighbours are mirror images, so that the mesh has no preferred diagonal: with
      one, a coarse beam under a straight load bends sideways;
    - 'kuhn': the same diagonal everywhere, a mesh that repeats from cell to cell;
    - 'sofa': the split of SOFA's hexahedron-to-tetrahedron mapping (three dimensions), to compare with its
      results.

    Other meshes of hexahedra or quads are cut by `hexahedra_to_tetrahedra` and `quads_to_triangles`.

    `size` and `origin` may be traced: derivatives with respect to them are those of the points. Raises
    `ValueError` for a number of axes, of cells, a size, a kind or a split that does not fit, `TypeError` for
    cells that are not whole numbers.
    Source of the 'kuhn' split: H. W. Kuhn, "Some combinatorial lemmas in topology", 1960, doi:10.1147/rd.45.0518.

    Example:

        beam = jm.mesh.box_mesh(cells=(4, 1, 1), size=(2.0, 0.5, 0.5), kind="hexahedron")
        assert beam.points.shape == (20, 3) and beam.cells.shape == (4, 8)
        assert jnp.allclose(beam.measure(), 0.5)  # [m^3]
    """
    counts = _checked_counts(cells)
    dimension = len(counts)
    kind = _KINDS[dimension][0] if kind is None else kind
    if not isinstance(kind, str) or kind not in _KINDS[dimension]:
        raise ValueError(
            f"box_mesh: kind {kind!r} with the {dimension} axes of cells is not one of {list(_KINDS[dimension])}."
        )
    block = _KINDS[dimension][1]
    corners = np.asarray(reference_element(block).vertices) > 0
    steps = np.cumprod([1, *(counts[:-1] + 1)])
    places = _lattice(counts)
    blocks = (places @ steps)[:, None] + corners @ steps
    if kind == block:
        if split is not None:
            raise ValueError(f"box_mesh: split {split!r} is for {list(_SPLITS)}, and kind is '{kind}'.")
    else:
        blocks = _simplices(blocks, places, kind, "alternating" if split is None else split)
    return Mesh(_points(counts, size, origin), blocks.astype(np.int32), kind)


def _checked_counts(cells: Sequence[int]) -> Int[np.ndarray, " d"]:
    counts = np.asarray(numeric_array("box_mesh", "cells", cells))
    if counts.shape not in ((2,), (3,)):
        raise ValueError(f"box_mesh: cells must be 2 or 3 numbers, got {cells!r}.")
    if counts.dtype.kind not in "iu":
        raise TypeError(f"box_mesh: cells must be whole numbers, got {cells!r}.")
    if counts.min() < 1:
        raise ValueError(f"box_mesh: cells must be at least 1 along each axis, got {cells!r}.")
    if math.prod(int(n) + 1 for n in counts) > _MOST_NODES:
        raise ValueError(f"box_mesh: {cells!r:.80} cells have more nodes than 32-bit numbers can name.")
    return counts.astype(np.int64)


def _lattice(counts: Int[np.ndarray, " d"]) -> Int[np.ndarray, "n d"]:
    """Every tuple of whole numbers below `counts`, the first axis running fastest."""
    grid = np.meshgrid(*[np.arange(count) for count in counts], indexing="ij")
    return np.stack([axis.ravel(order="F") for axis in grid], axis=-1)


def _points(counts: Int[np.ndarray, " d"], size: Any, origin: Any) -> Float[Array, "n d"]:
    size, origin = _lengths("size", size), _lengths("origin", origin)
    if size.shape != counts.shape:
        raise ValueError(f"box_mesh: size has shape {size.shape}, expected ({len(counts)},): one length per axis.")
    if origin.shape not in ((), counts.shape):
        raise ValueError(f"box_mesh: origin has shape {origin.shape}, expected () or ({len(counts)},).")
    if not isinstance(size, Tracer) and not np.all((size > 0) & np.isfinite(size)):
        raise ValueError(f"box_mesh: size must be positive, got {size}.")
    if not isinstance(origin, Tracer) and not np.all(np.isfinite(origin)):
        raise ValueError(f"box_mesh: origin must be finite, got {origin}.")
    dtype = size.dtype
    # Fractions first: the last one is exactly 1, so that the far side is exactly at origin + size.
    fractions = (_lattice(counts + 1) / counts).astype(dtype)
    return origin.astype(dtype) + fractions * size


def _lengths(name: str, value: Any) -> Any:
    """Of NumPy, unless they are traced."""
    lengths = real_array("box_mesh", name, value, finite=False)
    return lengths if isinstance(lengths, Tracer) else np.asarray(lengths, jax.dtypes.canonicalize_dtype(lengths.dtype))


def _simplices(blocks: np.ndarray, places: np.ndarray, kind: str, split: str) -> np.ndarray:
    if not isinstance(split, str) or split not in _SPLITS[kind]:
        raise ValueError(f"box_mesh: split {split!r} of kind '{kind}' is not one of {list(_SPLITS[kind])}.")
    # A block in an odd place along an axis is mirrored along it. Neighbours then put the same diagonal on the
    # face they share: it is mirrored by both, or its points are where the mirror is.
    mirrored = places % 2 if split == "alternating" else 0 * places
    return split_tables(kind, split).cut(blocks, corner_numbers(mirrored, block_corners(kind)))
