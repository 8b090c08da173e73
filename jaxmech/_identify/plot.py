"""Pictures of a fit."""

from typing import Any

import numpy as np

_INK, _MODEL, _GRID = "#30363d", "#2a6fb0", "#d0d7de"
_MOST_LINES = 6


def draw_fit(fit: Any) -> Any:
    """Of every measurement: data and model above, residuals over noise below; the convergence at the end."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('Fit.plot draws with matplotlib: pip install "jaxmech[viz]".') from error
    parts = [(f"{n}/{k}", m) for n, e in fit.problem.experiments.items() for k, m in e.measured.items()]
    width = min(len(parts) + 1, 4)
    blocks = -(-(len(parts) + 1) // width)
    figure = plt.figure(figsize=(4.2 * width, 4.6 * blocks), layout="constrained")
    grid = figure.add_gridspec(2 * blocks, width, height_ratios=[2.2, 1.0] * blocks)
    for number, (label, measured) in enumerate(parts):
        row, column = 2 * (number // width), number % width
        upper, lower = figure.add_subplot(grid[row, column]), figure.add_subplot(grid[row + 1, column])
        name, key = label.split("/", 1)
        _draw_part(upper, lower, label, measured, np.asarray(fit.predictions[name].values[key]), fit.residuals[name][key])
    row, column = 2 * (len(parts) // width), len(parts) % width
    _draw_history(figure.add_subplot(grid[row : row + 2, column]), fit)
    return figure


def _draw_part(upper: Any, lower: Any, label: str, measured: Any, model: np.ndarray, residual: np.ndarray) -> None:
    data = np.asarray(measured.values)
    unit = f" [{measured.unit}]" if measured.unit else ""
    upper.set_title(label)
    if measured.times is not None and data[0].size <= _MOST_LINES:
        x, xlabel = np.asarray(measured.times), "time [s]"
        _lines(upper, x, data.reshape(len(x), -1), model.reshape(len(x), -1))
        lower.plot(x, residual.reshape(len(x), -1), ".", ms=3, color=_MODEL)
        upper.set_ylabel(f"value{unit}")
    elif data.ndim == 1 and len(data) <= 200:
        x, xlabel = np.arange(len(data)), "number of the value"
        _lines(upper, x, data[:, None], model[:, None])
        lower.plot(x, residual, ".", ms=4, color=_MODEL)
        upper.set_ylabel(f"value{unit}")
    else:
        x, xlabel = model.ravel(), f"model{unit}"
        ends = [np.nanmin(data), np.nanmax(data)]
        upper.plot(x, data.ravel(), ".", ms=2, color=_INK, alpha=0.5, label="data")
        upper.plot(ends, ends, "-", lw=1.0, color=_MODEL, label="data = model")
        lower.plot(x, residual.ravel(), ".", ms=2, color=_MODEL, alpha=0.5)
        upper.set_ylabel(f"data{unit}")
    upper.legend(frameon=False, fontsize="small")
    lower.axhline(0.0, color=_INK, lw=0.6)
    for level in (-1, 1):
        lower.axhline(level, color=_GRID, lw=0.8, zorder=0)
    lower.set(xlabel=xlabel, ylabel="residual / noise")
    for axis in (upper, lower):
        axis.spines[["top", "right"]].set_visible(False)


def _lines(axis: Any, x: np.ndarray, data: np.ndarray, model: np.ndarray) -> None:
    for column in range(data.shape[1]):
        own = column == 0
        axis.plot(x, data[:, column], "o", ms=3, mfc="none", color=_INK, label="data" if own else None)
        axis.plot(x, model[:, column], "-", lw=1.4, color=_MODEL, label="model" if own else None)


def _draw_history(axis: Any, fit: Any) -> None:
    costs = [entry["cost"] for entry in fit.history]
    numbers = np.arange(1, len(costs) + 1)
    good = np.array([entry["accepted"] for entry in fit.history])
    failed = np.array([bool(entry["failure"]) for entry in fit.history])
    costs = np.where(failed, np.nan, costs)
    axis.semilogy(numbers[good], costs[good], "o-", ms=4, color=_MODEL, label="better than all before")
    if (~good & ~failed).any():
        axis.semilogy(numbers[~good & ~failed], costs[~good & ~failed], "x", color=_INK, label="rejected")
    for number in numbers[failed]:
        axis.axvline(number, color="#d9772b", lw=0.8, label="failed" if number == numbers[failed][0] else None)
    axis.set(title="convergence", xlabel="evaluation", ylabel="cost (half chi-squared)")
    axis.legend(frameon=False, fontsize="small")
    axis.spines[["top", "right"]].set_visible(False)
