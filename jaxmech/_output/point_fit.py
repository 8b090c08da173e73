"""What lies between the Gauss points of a cell: the functions of the cell that fit their values best."""

from typing import Any

import numpy as np

from .._mesh.reference import ReferenceElement, reference_element

_LINEAR = {3: {2: "triangle"}, 4: {2: "quad", 3: "tetrahedron"}, 6: {3: "prism"}, 8: {3: "hexahedron"}}


def fit_weights(reference: ReferenceElement, rule: int | str, places: Any) -> Any:
    """Weights `(p, q)` of the values at the `q` points of a rule that give those at `places` `(p, d)` in the cell.

    By its shape functions; by those of its corners where the points are fewer than its nodes; by their mean where they are
    fewer than its corners.
    """
    points = np.asarray(reference.quadrature(rule)[0])
    kind = reference.kind
    if len(points) < reference.nodes:
        corners = len(reference.corners)
        kind = _LINEAR.get(corners, {}).get(reference.dimension) if len(points) >= corners else None
    if kind is None:
        return places[:, :1] * 0 + np.full((1, len(points)), 1 / len(points))
    fitted = reference_element(kind)
    return fitted.shape(places) @ np.linalg.pinv(np.asarray(fitted.shape(points))).astype(places.dtype)
