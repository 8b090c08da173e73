"""The load over a displacement, along a path of equilibria."""

from typing import Any

import numpy as np

from .._runtime.argument_checks import check_instance
from .._solve.path import Path

_STABLE, _UNSTABLE, _INK = "#2a6fb0", "#d9772b", "#30363d"
_MARKS = {"limit": "o", "bifurcation": "D"}


def draw_path(path: Path, *, axes: Any = None, label: str | None = None, color: str | None = None) -> Any:
    """Draw the load factor over the displacement that the path followed, and return the matplotlib axes.

    Stable parts are whole lines, unstable ones dashed; limit points are circles, bifurcations diamonds, points where the
    displacement turns crosses. `axes`: where to draw, a new figure unless given, so that branches can share one; `label`: of
    the path in a legend; `color`: of the whole path (otherwise one for stable parts, one for unstable ones). Raises
    `ImportError` without matplotlib, `TypeError` for what is no path.
    Loads [-], displacements [m, rad]. Source: the equilibrium diagrams of J. M. T. Thompson and G. W. Hunt, 1973.

    Example:

        rest = truss(0.0).at_rest({"p": [[0.0, 1.0]]})
        axes = jm.viz.draw_path(jm.follow_path(truss, rest, step=5.0, steps=20, displacement=("p", 0, 1)))
        assert axes.get_xlabel() == "displacement"
        axes.figure.clear()
    """
    try:
        import matplotlib.pyplot as plt
        from matplotlib.axes import Axes
    except ImportError as error:
        raise ImportError('draw_path draws with matplotlib: pip install "jaxmech[viz]".') from error
    check_instance("draw_path", "path", path, Path)
    if axes is not None:
        check_instance("draw_path", "axes", axes, Axes)
    for name, value in (("label", label), ("color", color)):
        if value is not None:
            check_instance("draw_path", name, value, str)
    if axes is None:
        axes = plt.figure(figsize=(6.4, 4.8), layout="constrained").add_subplot()
    for stable, x, y in _parts(path):
        style = {"color": color or (_STABLE if stable else _UNSTABLE), "ls": "-" if stable else (0, (4, 2))}
        axes.plot(x, y, lw=1.6, label=label, **style)
        label = None
    for c, w in zip(path.critical, path.critical_displacement, strict=True):
        axes.plot(float(w), float(c.load), _MARKS[c.kind], color=_INK, mfc="white", ms=6, zorder=3)
    for load, x in path.turns:
        axes.plot(float(x), float(load), "x", color=_INK, ms=6, zorder=3)
    axes.axhline(0, color=_INK, lw=0.6, zorder=0)
    axes.set(xlabel="displacement", ylabel="load factor")
    return axes


def _parts(path: Path) -> list[tuple[bool, list[float], list[float]]]:
    """Runs of points that are alike in stability, each from one critical point to the next."""
    w, loads, unstable = (np.asarray(a).tolist() for a in (path.displacement, path.loads, path.unstable))
    ends = [[] for _ in w]
    for c, x in zip(path.critical, np.asarray(path.critical_displacement).tolist(), strict=True):
        ends[c.after].append((x, float(c.load)))
    parts = [(unstable[0] <= 0 if unstable[0] >= 0 or len(w) < 2 else unstable[1] <= 0, [w[0]], [loads[0]])]
    for i in range(1, len(w)):
        for x, load in ends[i - 1]:
            parts[-1][1].append(x)
            parts[-1][2].append(load)
            parts.append((unstable[i] <= 0, [x], [load]))
        parts[-1][1].append(w[i])
        parts[-1][2].append(loads[i])
    return parts
