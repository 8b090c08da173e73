"""A whole scene in one picture."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._mesh.mesh import Mesh
from .._model.system import State, System, check_inputs
from .._runtime.argument_checks import check_choice, check_flags, check_instance, real_array
from ._axes import check_axes, empty_axes, frame_axes
from ._color_field import ColorField, color_field, fields_of, is_field
from ._drawing import Drawing, Lines
from ._in_plane import draw_in_plane
from ._in_space import draw_in_space
from ._pyvista import draw_with_pyvista
from ._shading import LINES, colors_of, state_colors
from ._sketch import sketch

BACKENDS = ("matplotlib", "pyvista")


def plot(
    system: System,
    state: State,
    *,
    color: Any = None,
    label: str | None = None,
    limits: tuple[float, float] | None = None,
    reference: State | None = None,
    skins: Mapping[str, Mesh] | None = None,
    loads: bool = True,
    supports: bool = True,
    edges: bool | None = None,
    legend: bool = True,
    view: tuple[float, float] | None = None,
    cmap: str = "viridis",
    title: str | None = None,
    axes: Any = None,
    backend: str = "matplotlib",
) -> Any:
    """Draw a scene at a state, and return the matplotlib axes (or, by `backend="pyvista"`, the picture as an array).

    Cells of solids are drawn by their skin, sheets and cells of the plane whole, beams, bars, springs and cables as lines,
    rigid bodies by their axes (red, green, blue; not nodes of shells), loads as arrows, walls of `PenaltyPlane` as planes,
    the nodes that constraints hold as triangles. A field that is no place, a temperature say, is drawn on the cells at rest.

    `color`: a colour for all, or a field, with a bar that says what it is and its unit:
    "displacement" [m] (from `reference`, or the rest of the cells), "velocity" [m/s]; "von_mises" [Pa], "energy_density"
    [J/m^3], "volume_ratio" of solids, the mean of each cell; the name of a state of one component; an array of numbers of
    the nodes of a state or of the cells of a component, or several as `{name: array}`, with their name and unit in `label`.
    `limits`: of the colours. `skins`: `{state: mesh}`, cells to be drawn on nodes, mapped ones say. `edges`: of cells,
    drawn up to 4,000 of them unless given. `view`: elevation and azimuth [degree]. `axes`: where to draw, a new figure
    unless given. "pyvista" (extra `viz3d`) hides what is behind as matplotlib cannot; neither needs a display.
    Raises `ImportError` naming the extra, `ValueError` for a color that is none, arrays of other lengths, states without
    places, `TypeError` for what is no scene or no axes.
    Source: W. Schroeder, K. Martin, B. Lorensen, *The Visualization Toolkit*, 4th ed., 2006, ISBN 978-1-930934-19-1.

    Example:

        axes = jm.viz.plot(system, state, color=jnp.linspace(0.0, 1.0, 8), label="height [m]")
        assert axes.name == "3d" and axes.figure.axes[1].get_ylabel() == "height [m]"
        axes.figure.clear()
    """
    check_inputs("plot", system, state)
    check_options("plot", system, color, reference, skins, axes, backend, view, label=label, title=title, cmap=cmap)
    check_flags("plot", loads=loads, supports=supports, legend=legend, **({} if edges is None else {"edges": edges}))
    limits = check_limits("plot", limits)
    picture = sketch(system, state, dict(skins or {}), loads=loads, supports=supports)
    if not (picture.surfaces or picture.lines or picture.frames or picture.dots):
        raise ValueError(f"plot: no state has places to be drawn, of {list(system.dofs)}.")
    field = None
    if color is not None and is_field(system, color):
        field = color_field("plot", system, state, picture, color, reference=reference, label=label)
    style = Style(field, limits, color if field is None else None, edges, legend, viewed(view), cmap, title)
    if backend == "pyvista":
        return draw_with_pyvista(picture, style)
    return drawn(picture, style, axes)


class Style:
    """How a drawing is to look."""

    def __init__(
        self,
        field: ColorField | None,
        limits: tuple[float, float] | None,
        plain: str | None,
        edges: bool | None,
        legend: bool,
        view: tuple[float, float],
        cmap: str,
        title: str | None,
        box: np.ndarray | None = None,
    ):
        self.field, self.limits, self.plain, self.edges = field, limits, plain, edges
        self.legend, self.view, self.cmap, self.title, self.box = legend, view, cmap, title, box

    def colors(self, picture: Drawing) -> dict[str, str]:
        """The colour of each state."""
        return {name: self.plain or own for name, own in state_colors(picture).items()}

    def scale(self) -> tuple[Any, Any]:
        """What makes a number a colour: matplotlib's norm and map; nothing without a field."""
        if self.field is None:
            return None, None
        import matplotlib
        from matplotlib.colors import Normalize

        return Normalize(*(self.limits or self.field.limits())), matplotlib.colormaps[self.cmap]

    def line_colors(self, line: Lines) -> np.ndarray:
        """Red, green and blue of each piece: the field's where its ends have numbers, or else that of its kind."""
        values = None if self.field is None else self.field.of_line(line)
        return colors_of(len(line.start), LINES[line.kind], values, *self.scale())

    def node_colors(self, state: str, nodes: np.ndarray, plain: str) -> np.ndarray:
        """Those of these nodes of a state."""
        values = None if self.field is None else self.field.nodes.get(state)
        return colors_of(len(nodes), plain, None if values is None else values[nodes], *self.scale())

    def shows_edges(self, picture: Drawing) -> bool:
        """Whether the edges of cells are drawn."""
        return sum(len(s.polygons) for s in picture.surfaces) <= 4000 if self.edges is None else self.edges


def drawn(picture: Drawing, style: Style, axes: Any) -> Any:
    """The drawing by matplotlib."""
    axes = empty_axes("plot", picture.size, axes)
    (draw_in_space if picture.size == 3 else draw_in_plane)(axes, picture, style)
    frame_axes(axes, picture, style)
    return axes


def viewed(view: Any) -> tuple[float, float]:
    """Elevation and azimuth [degree] from which scenes are seen."""
    if view is None:
        return 22.0, -60.0
    elevation, azimuth = np.asarray(view, float).tolist()
    return elevation, azimuth


def check_limits(who: str, limits: Any) -> tuple[float, float] | None:
    """Two numbers, the smaller first, or None."""
    if limits is None:
        return None
    low, high = np.asarray(real_array(who, "limits", limits, (2,))).tolist()
    if not low < high:
        raise ValueError(f"{who}: limits must be two numbers, the smaller first, got {limits!r:.80}.")
    return low, high


def check_options(
    who: str,
    system: System,
    color: Any,
    reference: Any,
    skins: Any,
    axes: Any,
    backend: Any,
    view: Any,
    *,
    cmap: Any,
    **words: Any,
) -> None:
    """Raise `ValueError` or `TypeError` for what cannot be an option of a picture."""
    check_choice(who, "backend", backend, BACKENDS)
    check_axes(who, axes)
    for name, value in words.items():
        if value is not None:
            check_instance(who, name, value, str)
    import matplotlib
    from matplotlib.colors import is_color_like

    check_choice(who, "cmap", cmap, tuple(matplotlib.colormaps))
    if isinstance(color, str) and not is_field(system, color) and not is_color_like(color):
        raise ValueError(f"{who}: color {color!r:.80} is neither a colour nor a field, one of {fields_of(system)}.")
    if reference is not None:
        check_instance(who, "reference", reference, State)
        check_inputs(f"{who}: reference", system, reference)
    if view is not None:
        real_array(who, "view", view, (2,))
    if skins is None:
        return
    check_instance(who, "skins", skins, Mapping)
    for state, mesh in skins.items():
        if state not in system.dofs or system.dofs[state].space_size < 2:
            raise ValueError(f"{who}: skins has {state!r:.80}, which is no state of points of this scene.")
        check_instance(who, f"skins['{state}']", mesh, Mesh)
        if int(np.asarray(mesh.cells).max()) >= len(mesh.points):
            raise ValueError(f"{who}: skins['{state}'] has cells without nodes.")
