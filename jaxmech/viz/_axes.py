"""Axes to draw a scene on: made, checked, and given limits, labels, a bar of colours and a legend."""

from typing import Any

import numpy as np

from .._runtime.argument_checks import check_instance
from ._drawing import Drawing
from ._shading import INK

_LABEL = 25.0  # points from an axis of a cube in space to its label, and of these matplotlib's own
_OFFSET = 21.0
_NUMBER, _NUMBER_OFFSET = 9.0, 8.0  # the same of its numbers


def pyplot(who: str) -> Any:
    """matplotlib's pyplot, or an `ImportError` that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f'{who} draws with matplotlib: pip install "jaxmech[viz]".') from error
    return plt


def check_axes(who: str, axes: Any) -> None:
    """Raise `TypeError` for what are no axes of matplotlib."""
    pyplot(who)
    from matplotlib.axes import Axes

    if axes is not None:
        check_instance(who, "axes", axes, Axes)


def empty_axes(who: str, size: int, axes: Any) -> Any:
    """New axes in the plane or in space, unless there are some of that kind."""
    if axes is None:
        figure = pyplot(who).figure(figsize=(7.0, 4.8), layout="constrained")
        return figure.add_subplot(projection="3d" if size == 3 else None)
    if (axes.name == "3d") != (size == 3):
        raise ValueError(f"{who}: axes are {axes.name}, expected {'projection=3d' if size == 3 else 'axes in the plane'}.")
    return axes


def box_of(picture: Drawing) -> np.ndarray:
    """The corners of what is drawn with a margin, (2, size); flat directions get some room."""
    places, longest = picture.places(), picture.extent()
    low, high = places.min(0), places.max(0)
    reach = longest * (0.18 if picture.arrows else 0.12 if picture.frames else 0.04)
    return np.stack([low - reach, high + reach])


def frame_axes(axes: Any, picture: Drawing, style: Any) -> None:
    """Limits, labels, the bar of colours and the legend."""
    box, place = box_of(picture) if style.box is None else style.box, axes.get_subplotspec()
    alone = len(axes.figure.axes) == 1 and (place is None or place.get_geometry()[:2] == (1, 1))
    if picture.size == 3:
        _frame_in_space(axes, box, style.view)
    else:
        axes.set(xlim=box[:, 0], ylim=box[:, 1], xlabel="x [m]", ylabel="y [m]")
        axes.set_aspect("equal")
        axes.tick_params(labelsize=9)
        axes.grid(color="#e5e7eb", lw=0.6, zorder=0)
        axes.set_axisbelow(True)
    if style.title is not None:
        axes.set_title(style.title, fontsize=11)
    norm, cmap = style.scale()
    if norm is not None:
        from matplotlib.cm import ScalarMappable

        bar = axes.figure.colorbar(ScalarMappable(norm, cmap), ax=axes, shrink=0.8, pad=0.15 if picture.size == 3 else 0.03)
        bar.set_label(style.field.label)
        bar.formatter.set_powerlimits((-2, 4))
        bar.update_ticks()
    handles, names = axes.get_legend_handles_labels()
    if style.legend and len(names) > 0:
        more = len(names) - 12
        if more > 0:
            handles, names = handles[:12], [*names[:11], f"{names[11]} and {more} more"]
        look = {"fontsize": 8, "edgecolor": "none", "labelcolor": INK, "loc": "upper left"}
        if picture.size == 3:  # in the corner, which is empty: layouts do not know where axes in space end
            corner = axes.figure.transSubfigure if alone else axes.transAxes
            axes.legend(handles, names, bbox_to_anchor=(0.0, 1.0), bbox_transform=corner, **look).set_in_layout(False)
        elif norm is None or axes.figure.get_layout_engine() is not None:
            axes.legend(handles, names, bbox_to_anchor=(1.01, 1.0), **look)
        else:  # no layout, that would move the bar of colours out of its way
            axes.legend(handles, names, **(look | {"loc": "best"}))


def _frame_in_space(axes: Any, box: np.ndarray, view: tuple[float, float]) -> None:
    spans = box[1] - box[0]
    for setter, low, high in zip((axes.set_xlim, axes.set_ylim, axes.set_zlim), *box, strict=True):
        setter(low, high)
    axes.view_init(*view)
    axes.set_box_aspect(spans, zoom=1.0)
    away = _label_distances(spans)
    zoom = _zoom(axes, box, away)
    axes.set_box_aspect(spans, zoom=zoom)
    for axis, name, span, points in zip((axes.xaxis, axes.yaxis, axes.zaxis), "xyz", spans, away, strict=True):
        crowd, axis.labelpad = span / spans.max(), points / zoom - _OFFSET
        axis.set_major_locator(_locator(5 if crowd > 0.6 else 3 if crowd > 0.25 else 2))
        axis.set_label_text(f"{name} [m]")
        axis.set_tick_params(labelsize=8, pad=_NUMBER * points / _LABEL - _NUMBER_OFFSET)
        axis.pane.set_facecolor("#f6f7f9")
        axis.pane.set_edgecolor("#d5d9df")
        axis._axinfo["grid"].update(color="#e2e5ea", linewidth=0.6)


def _label_distances(spans: np.ndarray) -> np.ndarray:
    """How many points the label of each axis stands off it, as `_zoom` says, for numbers and label to be read.

    matplotlib takes them as shares of the two other spans: of a long body they are small, and so is the distance.
    """
    widest = np.array([np.delete(spans, i).max() for i in range(3)])
    return _LABEL * np.clip(np.linalg.norm(spans) / (3**0.5 * widest), 1.0, 3.0)


def _zoom(axes: Any, box: np.ndarray, away: np.ndarray) -> float:
    """How much of its size a box may have, at most 1, for its corners and the labels of `x` and `y` to be on the picture.

    matplotlib gives every box the same diagonal, and writes the label of an axis off the middle of an edge by a share of the
    two other spans, the larger the smaller the picture is; `away`: in points, whatever the zoom.
    """
    from mpl_toolkits.mplot3d.proj3d import proj_transform

    def heights(places: np.ndarray) -> np.ndarray:  # of 0 to 1 of the axes
        x, y, _ = proj_transform(*places.T, axes.get_proj())
        return (axes.transScale + axes.transLimits).transform(np.stack([x, y], 1))[:, 1]

    middle, reach = box.mean(0), (box[1] - box[0]) / 2
    corners = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), -1).reshape(-1, 3)
    size = axes.get_position().size @ axes.figure.get_size_inches()
    share = 2 * away * 48 / (72 * size) / 12  # as matplotlib's axis3d has it
    edges = np.concatenate([corners * (np.arange(3) != i) for i in (0, 1)])
    below = edges[:, 2] * axes.elev <= 0  # on the side of the box that one looks away from
    edges, share = edges[below], np.repeat(share[:2], len(corners))[below, None]
    off, to_labels = (np.abs(heights(middle + places * reach) - 0.5) for places in (edges, edges * (1.0 + share)))
    high = np.abs(heights(middle + corners * reach) - 0.5).max()
    return float(np.min([1.0, 0.5 / high, *((0.5 - (to_labels - off)) / off)]))


def _locator(count: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(count, steps=[1, 2, 5, 10])
