"""A drawing in space, by matplotlib: all polygons sorted together by their distance, the rest in front of them."""

from typing import Any

import numpy as np

from ._drawing import Drawing
from ._in_plane import said
from ._shading import HELD, INK, LOAD, lit, polygon_colors

_AXES = ("#d62728", "#2ca02c", "#1f77b4")  # of x, y and z


def draw_in_space(axes: Any, picture: Drawing, style: Any) -> None:
    """Surfaces, lines, bodies and loads."""
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    axes.computed_zorder = False  # or whole collections hide one another
    longest = picture.extent()
    colors = style.colors(picture)
    for name, point, normal in picture.walls:
        _draw_wall(axes, picture, name, point, normal)
    _draw_surfaces(axes, picture, style, colors)
    for line in picture.lines:
        pieces = Line3DCollection(np.stack([line.start, line.end], 1), colors=style.line_colors(line), zorder=3)
        pieces.set(linewidths=2.4 if line.kind == "bar" else 1.2, linestyles=":" if line.kind == "anchor" else "-")
        pieces.set_label(line.name)
        axes.add_collection3d(pieces, autolim=False)
    for name, places in picture.dots.items():
        dots = style.node_colors(name, np.arange(len(places)), colors[name])
        axes.scatter(*places.T, c=dots, s=25, edgecolors=INK, linewidths=0.5, depthshade=False, label=name, zorder=4)
    for frame in picture.frames:
        for column, color in enumerate(_AXES):
            tips = frame.origins + 0.09 * longest * frame.axes[:, :, column]
            pieces = Line3DCollection(np.stack([frame.origins, tips], 1), colors=color, linewidths=1.8, zorder=5)
            axes.add_collection3d(pieces, autolim=False)
        origins = style.node_colors(frame.name, frame.nodes, "white")
        look = {"marker": "s", "s": 16, "edgecolors": INK, "depthshade": False}
        axes.scatter(*frame.origins.T, c=origins, label=frame.name, zorder=5, **look)
    for name, places in picture.held.items():
        axes.plot(*places.T, "^", color=HELD, ms=6, mec="white", mew=0.6, label=name, zorder=6)
    for load in picture.arrows:
        sizes = np.linalg.norm(load.vectors, axis=1)
        if (most := sizes.max(initial=0.0)) > 0:
            vectors = 0.16 * longest / most * load.vectors
            arrows = axes.quiver(*load.at.T, *vectors.T, color=LOAD, lw=1.3, arrow_length_ratio=0.3, zorder=7)
            arrows.set_label(said(load, most))


def _draw_surfaces(axes: Any, picture: Drawing, style: Any, colors: dict[str, str]) -> None:
    """One collection of all polygons, of triangles and quads alike."""
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    norm, cmap = style.scale()
    polygons, faces = [], []
    for surface in picture.surfaces:
        values = None if norm is None else style.field.of(surface)
        flat = polygon_colors(surface, colors[surface.state], values, norm, cmap)
        polygons += list(surface.points[surface.polygons])
        faces.append(lit(surface, flat) if norm is None else 0.25 * lit(surface, flat) + 0.75 * flat)
    if not polygons:
        return
    edges = style.shows_edges(picture)
    collection = Poly3DCollection(polygons, facecolors=np.concatenate(faces), linewidths=0.35, zorder=2)
    collection.set_edgecolor((0.15, 0.17, 0.2, 0.55) if edges else "none")
    collection.set_antialiased(edges)  # without edges, hairlines of the background would show between cells
    axes.add_collection3d(collection, autolim=False)
    if norm is None:
        for state in sorted({s.state for s in picture.surfaces}):
            axes.plot([], [], [], "s", color=colors[state], label=state)


def _draw_wall(axes: Any, picture: Drawing, name: str, point: np.ndarray, normal: np.ndarray) -> None:
    """A square of the plane, under what is drawn."""
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    places = picture.places()
    middle = 0.5 * (places.min(0) + places.max(0))
    middle = middle - ((middle - point) @ normal) * normal
    first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    first /= np.linalg.norm(first)
    side = 0.6 * picture.extent()
    corners = [middle + side * (a * first + b * np.cross(normal, first)) for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
    wall = Poly3DCollection([np.array(corners)], facecolors=(0.55, 0.58, 0.62, 0.25), edgecolors="#8b949e", zorder=1)
    wall.set_label(name)
    axes.add_collection3d(wall, autolim=False)
