"""Colours: one for each state, of a field, and what light makes of them."""

from typing import Any

import numpy as np

from ._drawing import Drawing, Surface
from ._faces import normals

PALETTE = ("#e08e45", "#4f86c6", "#5ba56e", "#9b72b0", "#c8574b", "#5c95a0", "#b39b3e")
BARE = "#c9ced6"  # of what a field does not colour
INK, HELD, LOAD = "#30363d", "#1f2937", "#c0262d"
LINES = {"spring": "#7a4fa3", "bar": "#8a5a2b", "constraint": "#0f7b6c", "anchor": "#7a4fa3"}
_LIGHT = np.array([-0.45, -0.65, 0.61]) / np.linalg.norm([-0.45, -0.65, 0.61])
_SHADE = 0.45  # brightness of what the light does not reach


def state_colors(picture: Drawing) -> dict[str, str]:
    """A colour for each state that is drawn as a surface or as dots."""
    names = sorted({s.state for s in picture.surfaces} | set(picture.dots))
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def polygon_colors(surface: Surface, plain: str, values: np.ndarray | None, norm: Any, cmap: Any) -> np.ndarray:
    """Red, green and blue of each polygon, before light; what is no number stays bare."""
    return colors_of(len(surface.polygons), plain if norm is None else BARE, values, norm, cmap)


def colors_of(count: int, plain: str, values: np.ndarray | None, norm: Any, cmap: Any) -> np.ndarray:
    """Red, green and blue of so many things, (count, 3): of their values, or else one for all."""
    from matplotlib.colors import to_rgb

    if norm is None or values is None:
        return np.tile(to_rgb(plain), (count, 1))
    colors = np.asarray(cmap(norm(np.ma.masked_invalid(values))))[:, :3]
    return np.where(np.isfinite(values)[:, None], colors, to_rgb(BARE))


def lit(surface: Surface, colors: np.ndarray) -> np.ndarray:
    """Colours in the light; of sheets, which have no outside, both sides alike."""
    across = normals(surface.points, surface.polygons)
    lengths = np.linalg.norm(across, axis=1, keepdims=True)
    cosine = (across / np.where(lengths > 0, lengths, 1)) @ _LIGHT
    cosine = np.clip(cosine, 0, 1) if surface.closed else np.abs(cosine)
    return (_SHADE + (1 - _SHADE) * cosine)[:, None] * colors
