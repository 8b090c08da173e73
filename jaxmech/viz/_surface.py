"""A surface in space, lit."""

from typing import Any

import numpy as np

from .._mesh.vertex_normals import vertex_normals
from .._runtime.argument_checks import check_instance, real_array

_LIGHT = np.array([-0.45, -0.65, 0.61])  # from the left, the viewer's side, and above
_SHADE = 0.35  # brightness of what the light does not reach


def draw_surface(points: Any, cells: Any, *, axes: Any = None, color: Any = "#d9772b", edges: Any = None) -> Any:
    """Draw triangles or quads in space, shaded by the normals at their points, and return the matplotlib 3D axes.

    `points` `(n, 3)` [m], `cells` `(m, 3)` or `(m, 4)`, counter-clockwise seen from outside; `color` of all, or one per
    cell; `edges`: the colour of the edges, none unless given. `axes`: 3D axes to draw on, a new figure unless given; their
    limits grow to hold the surface, with equal scales. Raises `ImportError` without matplotlib, `ValueError` for other
    shapes.
    Source: W. Schroeder, K. Martin, B. Lorensen, *The Visualization Toolkit*, 4th ed., 2006, ISBN 978-1-930934-19-1.

    Example:

        skin = mesh.boundary()
        axes = jm.viz.draw_surface(skin.points, skin.cells)
        assert axes.name == "3d"
        axes.figure.clear()
    """
    try:
        import matplotlib.pyplot as plt
        from matplotlib.colors import is_color_like
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection
        from mpl_toolkits.mplot3d.axes3d import Axes3D
    except ImportError as error:
        raise ImportError('draw_surface draws with matplotlib: pip install "jaxmech[viz]".') from error
    points = np.asarray(real_array("draw_surface", "points", points, (None, 3)), float)
    if axes is not None:
        check_instance("draw_surface", "axes", axes, Axes3D)
    if edges is not None and not is_color_like(edges):
        raise ValueError(f"draw_surface: edges must be a color, got {edges!r:.80}.")
    normals = np.asarray(vertex_normals(points, cells))
    cells = np.asarray(cells)
    colors = _colors(color, len(cells))
    if axes is None:
        axes = plt.figure(figsize=(6.4, 4.8), layout="constrained").add_subplot(projection="3d")
    lit = _SHADE + (1 - _SHADE) * np.clip(normals[cells].mean(1) @ (_LIGHT / np.linalg.norm(_LIGHT)), 0, 1)
    surface = Poly3DCollection(points[cells], facecolors=lit[:, None] * colors, edgecolors=edges or "none", linewidths=0.3)
    if edges is None:
        surface.set_antialiased(False)  # or hairlines of the background show between cells
    axes.add_collection3d(surface)
    _grow(axes, points)
    return axes


def _colors(color: Any, cells: int) -> np.ndarray:
    """One colour for each cell, red, green and blue."""
    from matplotlib.colors import is_color_like, to_rgb

    if is_color_like(color):
        return np.broadcast_to([to_rgb(color)], (cells, 3))
    return real_array("draw_surface", "color", color, (cells, 3))


def _grow(axes: Any, points: np.ndarray) -> None:
    """Limits that hold what was drawn before and these points, one metre as long along every axis."""
    drawn = len(axes.collections) > 1
    setters = (axes.set_xlim, axes.set_ylim, axes.set_zlim)
    limits = [axes.get_xlim(), axes.get_ylim(), axes.get_zlim()]
    low, high = points.min(0), points.max(0)
    if drawn:
        low, high = np.minimum(low, [a for a, _ in limits]), np.maximum(high, [b for _, b in limits])
    for setter, a, b in zip(setters, low, high, strict=True):
        setter(a, b)
    axes.set_box_aspect(np.maximum(high - low, 1e-12))
