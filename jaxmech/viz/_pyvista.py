"""The same drawing by pyvista, off screen: what is behind is hidden, surfaces are smooth."""

from typing import Any

import numpy as np

from ._drawing import Drawing
from ._in_plane import said
from ._shading import BARE, HELD, INK, LOAD, colors_of

_SIZE = (1200, 900)


def draw_with_pyvista(picture: Drawing, style: Any) -> np.ndarray:
    """The picture as an array (height, width, 3) of bytes."""
    try:
        import pyvista  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError('backend "pyvista" draws with pyvista: pip install "jaxmech[viz3d]".') from error
    plotter: Any = pyvista.Plotter(off_screen=True, window_size=list(_SIZE))
    plotter.background_color = "white"
    colors, longest = style.colors(picture), picture.extent()
    for surface in picture.surfaces:
        _add_surface(pyvista, plotter, surface, style, colors[surface.state], style.shows_edges(picture))
    for line in picture.lines:
        ends = _in_space(np.stack([line.start, line.end], 1).reshape(-1, line.start.shape[1]))
        mesh = pyvista.line_segments_from_points(ends)
        colored = _colored(mesh.cell_data, style.line_colors(line))
        plotter.add_mesh(mesh, **colored, line_width=6 if line.kind == "bar" else 2.5, label=line.name)
    for name, places in picture.dots.items():
        _add_points(pyvista, plotter, places, style.node_colors(name, np.arange(len(places)), colors[name]), name)
    for frame in picture.frames:
        _add_points(pyvista, plotter, frame.origins, style.node_colors(frame.name, frame.nodes, INK), frame.name)
        for column, color in enumerate(("#d62728", "#2ca02c", "#1f77b4")[: picture.size]):
            arrows = 0.12 * longest * frame.axes[:, :, column]
            plotter.add_arrows(_in_space(frame.origins), _in_space(arrows), color=color)
    for name, places in picture.held.items():
        _add_points(pyvista, plotter, places, colors_of(len(places), HELD, None, None, None), name)
    for load in picture.arrows:
        most = np.linalg.norm(load.vectors, axis=1).max(initial=0.0)
        if most > 0:
            vectors = _in_space(0.18 * longest / most * load.vectors)
            plotter.add_arrows(_in_space(load.at), vectors, color=LOAD, label=said(load, most))
    return _finished(plotter, picture, style)


def _finished(plotter: Any, picture: Drawing, style: Any) -> np.ndarray:
    if style.title is not None:
        plotter.add_text(style.title, font_size=12, color=INK)
    if style.legend and plotter.renderer._labels:
        plotter.add_legend(bcolor="white", face=None, size=(0.22, 0.04 * len(plotter.renderer._labels)), loc="upper left")
    if picture.size == 2:
        plotter.view_xy()
    else:
        elevation, azimuth = np.deg2rad(style.view)
        eye = [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)]
        plotter.view_vector(eye, viewup=(0.0, 0.0, 1.0))
        plotter.show_bounds(xtitle="x [m]", ytitle="y [m]", ztitle="z [m]", font_size=10, location="outer", n_xlabels=3)
    image = np.asarray(plotter.screenshot(return_img=True))
    plotter.close()
    return image


def _in_space(rows: np.ndarray) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, 3 - rows.shape[1])))


def _add_points(pyvista: Any, plotter: Any, places: np.ndarray, colors: np.ndarray, label: str) -> None:
    points = pyvista.PolyData(_in_space(places))
    colored = _colored(points.point_data, colors)
    plotter.add_mesh(points, **colored, point_size=12, render_points_as_spheres=True, label=label)


def _colored(data: Any, colors: np.ndarray) -> dict[str, Any]:
    """Colours (n, 3) into the data of a mesh, and how it is drawn with them; the legend, which knows one, has the first."""
    data["colors"] = (255 * colors).astype(np.uint8)
    return {"scalars": "colors", "rgb": True, "color": tuple(float(c) for c in colors[0]) if len(colors) else None}


def _add_surface(pyvista: Any, plotter: Any, surface: Any, style: Any, plain: str, edges: bool) -> None:
    count = np.full((len(surface.polygons), 1), surface.polygons.shape[1])
    mesh = pyvista.PolyData(_in_space(surface.points), faces=np.hstack([count, surface.polygons]).ravel())
    look = {"show_edges": edges, "edge_color": INK, "line_width": 1}
    field = style.field
    if field is None:
        plotter.add_mesh(mesh, color=plain, label=surface.state, **look)
        return
    if (values := field.of(surface)) is None:
        plotter.add_mesh(mesh, color=BARE, **look)
        return
    if surface.component not in field.cells:
        mesh.point_data["values"] = field.at_nodes(surface)
    else:
        mesh.cell_data["values"] = values
    bar = {"title": field.label, "color": INK, "vertical": True, "title_font_size": 20, "label_font_size": 18, "fmt": "%.3g"}
    bar |= {"position_x": 0.8, "position_y": 0.3, "width": 0.06, "height": 0.45}
    limits = style.limits or field.limits()
    plotter.add_mesh(mesh, scalars="values", cmap=style.cmap, clim=limits, scalar_bar_args=bar, **look)
