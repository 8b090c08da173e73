"""Whether a file holds what was written: writers leave out what their format does not know, some in silence."""

from pathlib import Path
from typing import Any

import numpy as np

from .meshio_files import content_of, import_meshio

KEEP_ALL = (".vtu", ".vtk", ".xdmf", ".msh", ".inp")  # cells of all kinds that they do not refuse; not read again
_SINGLE = 1e-5  # rounding of formats of few digits, of the size of the mesh


def check_kept(path: Path, written: Any, failed: str) -> None:
    """Raise `ValueError` unless the file `path` has the cells and the arrays of the content `written`, which may be ordered
    as its format likes: the corners of cells are compared, not the numbers of points.
    """
    suffix = path.suffix.lower()
    readable = {end for end, names in import_meshio().extension_to_filetypes.items() if "svg" not in names}
    if suffix in KEEP_ALL or suffix not in readable:  # pictures are for the eye
        return
    said, others = f"{failed}: a file '{suffix}'", ", ".join(KEEP_ALL)
    try:
        points, blocks, content = content_of("write_mesh", path)
    except ValueError as error:
        raise ValueError(f"{said} of these cells is not read again; write {others}.") from error
    size = np.ptp(written.points, axis=0).max()
    found, expected = _corners(points, blocks), _corners(written.points, [(b.type, b.data) for b in written.cells])
    for kind, corners in expected.items():
        there = found.get(kind, np.zeros(0))
        if there.shape != corners.shape or not np.abs(there - corners).max() <= _SINGLE * size:
            raise ValueError(f"{said} does not keep cells of kind '{kind}'; write {others}.")
    for name, data in (("point_data", written.point_data), ("cell_data", written.cell_data)):
        if lost := sorted(set(data) - set(getattr(content, name))):
            raise ValueError(f"{said} does not keep {name} {lost}; write {', '.join(KEEP_ALL[:3])}.")


def _corners(points: np.ndarray, blocks: Any) -> dict[str, np.ndarray]:
    """Where the nodes of cells are, by kind."""
    points = np.pad(points, ((0, 0), (0, 3 - points.shape[1])))
    kinds = dict.fromkeys(kind for kind, cells in blocks if len(cells))
    return {kind: points[np.vstack([cells for name, cells in blocks if name == kind])] for kind in kinds}
