"""A drawing of the plane, by matplotlib."""

from typing import Any

import numpy as np

from ._drawing import Drawing
from ._faces import fan
from ._shading import HELD, INK, LOAD, polygon_colors


def draw_in_plane(axes: Any, picture: Drawing, style: Any) -> None:
    """Cells, lines, bodies and loads, from below to above."""
    from matplotlib.collections import LineCollection, PolyCollection

    norm, cmap = style.scale()
    colors, named = style.colors(picture), set()
    edge = INK if style.shows_edges(picture) else "none"
    for surface in picture.surfaces:
        values = None if norm is None else style.field.of(surface)
        faces = polygon_colors(surface, colors[surface.state], values, norm, cmap)
        label = None if norm is not None or surface.state in named else surface.state
        named.add(surface.state)
        if values is not None and surface.component not in style.field.cells:
            _draw_smooth(axes, surface, style, norm, cmap)
            faces = "none"
        patches = PolyCollection(surface.points[surface.polygons], facecolors=faces, edgecolors=edge, linewidths=0.4)
        patches.set(label=label, zorder=2, alpha=0.92)
        axes.add_collection(patches)
    for line in picture.lines:
        pieces = LineCollection(np.stack([line.start, line.end], 1), colors=style.line_colors(line), zorder=3)
        pieces.set_label(line.name)
        pieces.set(linewidths=2.2 if line.kind == "bar" else 1.2, linestyles=":" if line.kind == "anchor" else "-")
        axes.add_collection(pieces)
    for name, places in picture.dots.items():
        dots = style.node_colors(name, np.arange(len(places)), colors[name])
        axes.scatter(*places.T, c=dots, s=25, edgecolors=INK, linewidths=0.5, label=name, zorder=4)
    longest = picture.extent()
    for frame in picture.frames:
        _draw_axes(axes, frame, 0.09 * longest, style.node_colors(frame.name, frame.nodes, "white"))
    for wall in picture.walls:
        _draw_wall(axes, *wall, longest)
    for name, places in picture.held.items():
        axes.plot(*places.T, "^", color=HELD, ms=7, mec="white", mew=0.6, label=name, zorder=6)
    for load in picture.arrows:
        _draw_load(axes, load, longest)


def _draw_smooth(axes: Any, surface: Any, style: Any, norm: Any, cmap: Any) -> None:
    """Numbers of nodes, interpolated over the triangles of polygons."""
    axes.tripcolor(
        *surface.points.T,
        style.field.at_nodes(surface),
        triangles=fan(surface.polygons),
        shading="gouraud",
        norm=norm,
        cmap=cmap,
        zorder=2,
    )


def _draw_axes(axes: Any, frame: Any, length: float, origins: np.ndarray) -> None:
    for column, color in enumerate(("#d62728", "#2ca02c")):
        tips = frame.origins + length * frame.axes[:, :, column]
        x, y = np.stack([frame.origins, tips, np.full_like(tips, np.nan)], 1).reshape(-1, 2).T
        axes.plot(x, y, color=color, lw=1.8, zorder=5)
    axes.scatter(*frame.origins.T, c=origins, marker="s", s=25, edgecolors=INK, label=frame.name, zorder=5)


def _draw_wall(axes: Any, name: str, point: np.ndarray, normal: np.ndarray, longest: float) -> None:
    along = np.array([-normal[1], normal[0]]) * longest
    ends = np.stack([point - along, point + along])
    below = ends - 0.03 * longest * normal
    axes.plot(*ends.T, color=INK, lw=1.2, label=name, zorder=1)
    axes.fill(*np.concatenate([ends, below[::-1]]).T, facecolor="none", edgecolor="#8b949e", hatch="////", lw=0, zorder=1)


def _draw_load(axes: Any, load: Any, longest: float) -> None:
    sizes = np.linalg.norm(load.vectors, axis=1)
    if not (most := sizes.max(initial=0.0)) > 0:
        return
    u, v = (0.16 * longest / most * load.vectors).T
    axes.quiver(*load.at.T, u, v, color=LOAD, angles="xy", scale_units="xy", scale=1, width=0.005, zorder=7)
    axes.plot([], [], "-", color=LOAD, lw=1.6, label=said(load, most))  # an arrow makes a large patch of a legend


def said(load: Any, most: float) -> str:
    """The name of a load, and how large it is."""
    return f"{load.name}: {'' if len(load.at) == 1 else 'up to '}{most:.3g} {load.unit}"
