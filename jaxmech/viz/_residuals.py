"""How a computation converged, as a curve."""

from typing import Any

import numpy as np

from .._runtime.argument_checks import check_instance
from .._solve.equilibrium import NewtonInfo, StepInfo
from ._axes import check_axes, pyplot
from ._shading import INK, PALETTE

_MOST = 12  # curves that are told apart


def draw_residuals(info: NewtonInfo | StepInfo, *, axes: Any = None) -> Any:
    """Draw the residual over the iterations of every load step, or time step, and return the matplotlib axes.

    `info`: of `static_solve(...)`, of an implicit step, or of a trajectory `simulate(...).info`, whose steps are drawn pale
    where they are many. The dashed line is the residual that rounding alone makes. On a logarithmic scale a Newton iteration
    that converges of second order bends down. Raises `ImportError` without matplotlib, `TypeError` for what is no such info.
    Residuals [N, N s]. Source: C. T. Kelley, *Solving Nonlinear Equations with Newton's Method*, 2003,
    doi:10.1137/1.9780898718898, chapter 1.

    Example:

        axes = jm.viz.draw_residuals(jm.static_solve(system, state, linear_system).info)
        assert axes.get_yscale() == "log" and axes.get_xlabel() == "iteration"
        axes.figure.clear()
    """
    check_axes("draw_residuals", axes)
    check_instance("draw_residuals", "info", info, (NewtonInfo, StepInfo))
    if axes is None:
        axes = pyplot("draw_residuals").figure(figsize=(6.0, 4.0), layout="constrained").add_subplot()
    rows = np.atleast_2d(np.asarray(info.residuals))
    rows = rows.reshape(-1, rows.shape[-1])
    rows = [row[row >= 0] for row in rows if (row >= 0).any()]
    what = "load step" if isinstance(info, NewtonInfo) else "time step"
    for i, row in enumerate(rows):
        few = len(rows) <= _MOST
        label = f"{what} {i + 1}" if few and len(rows) > 1 else None
        color = PALETTE[i % len(PALETTE)] if few else PALETTE[1]
        axes.plot(np.arange(len(row)), np.maximum(row, 1e-300), "o-", ms=4, lw=1.2, alpha=1 if few else 0.3, color=color)
        axes.lines[-1].set_label(label)
    floor = float(np.max(np.asarray(info.floor), initial=0.0))
    if floor > 0:
        axes.axhline(floor, color=INK, lw=1, ls="--", label="rounding")
    axes.set(yscale="log", xlabel="iteration", ylabel="residual [N]")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(color="#e5e7eb", lw=0.6)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8)
    return axes
