"""A fit in words."""

import math
from typing import Any

import numpy as np

_MOST = 30  # parameters that are listed


def report(fit: Any) -> str:
    """The table of parameters, what the residuals are like, what cannot be told apart."""
    lines = [f"{len(fit.names)} unknowns, {len(fit.predictions)} experiments, {fit.count} measured values", fit.method]
    lines.append(f"{'converged' if fit.converged else 'NOT CONVERGED'} after {len(fit.history)} evaluations: {fit.message}")
    lines += ["", *_table(fit), ""]
    per = f" ({fit.chi_squared / fit.degrees:.3g} each)" if fit.degrees > 0 else ""
    lines.append(f"chi^2 = {fit.chi_squared:.6g} for {fit.degrees:.6g} degrees of freedom{per}")
    lines += [f"  {label}: rms of the residuals {rms:.3g} times the noise" for label, rms in _sizes(fit)]
    lines.append(f"standard errors: {fit.errors_from}")
    lines += _correlations(fit)
    lines += [f"changes nothing that is measured: {name}" for name in fit.silent]
    lines += [f"cannot be told apart: {words}" for words in fit.unidentified]
    lines += [f"note: {words}" for words in fit.notes]
    return "\n".join(lines)


def direction_in_words(error: float, parts: dict[str, float]) -> str:
    """A direction of unknowns and how badly it is known."""
    names = ", ".join(f"{name} {c:+.2f}" for name, c in sorted(parts.items(), key=lambda item: -abs(item[1])))
    size = "nothing is known of it" if not math.isfinite(error) else f"standard error {error:.2g} scales, or e-folds"
    return f"{names}: {size}"


def _table(fit: Any) -> list[str]:
    rows = [("parameter", "value", "standard error", "", "unit")]
    for name, value, error, unit in list(zip(fit.names, fit.values, fit.standard_errors, fit.units, strict=True))[:_MOST]:
        relative = f"({100 * abs(error / value):.2g} %)" if value and math.isfinite(error) else ""
        said = "-" if math.isnan(error) else f"{error:.3g}"
        rows.append((name, f"{value:.6g}", said, relative, unit))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = ["  ".join(word.ljust(w) for word, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    more = len(fit.names) - _MOST
    return [*lines, f"... and {more} more"] if more > 0 else lines


def _sizes(fit: Any) -> list[tuple[str, float]]:
    found = []
    for name, parts in fit.residuals.items():
        found += [(f"{name}/{key}", float(np.sqrt(np.nanmean(r**2)))) for key, r in parts.items()]
    return found


def _correlations(fit: Any) -> list[str]:
    c = fit.correlations
    if c.shape[0] < 2 or c.shape[0] > _MOST:
        return []
    pairs = [(i, j) for i in range(len(c)) for j in range(i) if np.isfinite(c[i, j]) and abs(c[i, j]) > 0.9]
    return [f"correlation of {fit.names[j]} and {fit.names[i]}: {c[i, j]:+.4f}" for i, j in pairs]
