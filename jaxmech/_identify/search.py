"""The search for the least: SciPy's least squares with exact Jacobians, or L-BFGS with the adjoint."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares, minimize

from .._runtime.results import RESULTS
from .problem import (
    Problem,
    cost_and_gradient,
    own_cost_and_gradient,
    own_rows_and_slopes,
    rows_and_slopes,
)

_UPHILL = 10.0  # what a failure costs, in costs of the start: the line search turns back


@dataclass
class Evaluation:
    """All that is known at a vector of unknowns."""

    q: np.ndarray
    cost: float
    rows: dict[str, np.ndarray]  # residuals in units of the noise
    own: np.ndarray  # rows of priors and penalties
    slopes: np.ndarray | None  # (rows and own, unknowns)
    gradient: np.ndarray
    predictions: dict[str, Any]
    failure: str = ""


@dataclass
class Evaluator:
    """Evaluates a problem, remembers the best, and writes the history."""

    problem: Problem
    forward: bool
    progress: Callable[[str], None] | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    best: Evaluation | None = None
    _last: Evaluation | None = None

    def at(self, q: np.ndarray) -> Evaluation:
        """What is known at `q`, computed once."""
        if self._last is None or not np.array_equal(self._last.q, q):
            self._last = self._forward(q) if self.forward else self._adjoint(q)
            self._remember(self._last)
        return self._last

    def _forward(self, q: np.ndarray) -> Evaluation:
        vector = jnp.asarray(q, self.problem.unknowns.dtype)
        rows, slopes, predictions = {}, [], {}
        for name, one in self.problem.experiments.items():
            r, J, predictions[name] = rows_and_slopes(one, self.problem.unknowns, vector)
            rows[name] = np.asarray(r, float)
            slopes.append(np.asarray(J, float))
        own, own_slopes = own_rows_and_slopes(self.problem.unknowns, vector)
        J = np.vstack([*slopes, np.asarray(own_slopes, float)])
        found = Evaluation(q.copy(), 0.0, rows, np.asarray(own, float), J, np.zeros(0), predictions)
        all_rows = np.concatenate([*rows.values(), found.own])
        with np.errstate(over="ignore", invalid="ignore"):
            loss = huber_loss(self.problem, len(found.own))(all_rows**2)
            found.cost, found.gradient = 0.5 * float(np.sum(loss[0])), J.T @ (loss[1] * all_rows)
        found.failure = self._failure(found)
        return found

    def _adjoint(self, q: np.ndarray) -> Evaluation:
        vector = jnp.asarray(q, self.problem.unknowns.dtype)
        own, gradient = own_cost_and_gradient(self.problem.unknowns, vector)
        total, slope, rows, predictions = float(own), np.asarray(gradient, float), {}, {}
        for name, one in self.problem.experiments.items():
            cost, g, (r, predictions[name]) = cost_and_gradient(one, self.problem.unknowns, vector, self.problem.huber)
            total, slope, rows[name] = total + float(cost), slope + np.asarray(g, float), np.asarray(r, float)
        found = Evaluation(q.copy(), total, rows, np.zeros(0), None, slope, predictions)
        found.failure = self._failure(found)
        return found

    def _failure(self, found: Evaluation) -> str:
        for name, prediction in found.predictions.items():
            if prediction.result != RESULTS.successful:
                return f"experiment '{name}', time {float(prediction.failed_at):.6g}: {RESULTS[prediction.result]}"
        slopes = found.gradient if found.slopes is None else found.slopes
        if not np.isfinite(slopes).all():
            return "the derivatives are not finite."
        return "" if np.isfinite(found.cost) else "the residuals are so many times their noise that their squares overflow."

    def _remember(self, found: Evaluation) -> None:
        better = not found.failure and (self.best is None or found.cost < self.best.cost)
        if better:
            self.best = found
        entry = {"cost": found.cost, "accepted": better, "failure": found.failure, "unknowns": found.q}
        self.history.append(entry)
        if self.progress is not None:
            words = found.failure or f"cost {found.cost:.6g}{'' if better else ' (rejected)'}"
            self.progress(f"{len(self.history):4d}  {words}")


def huber_loss(problem: Problem, own: int) -> Callable[[np.ndarray], np.ndarray]:
    """Of squared rows, Huber's loss and its two derivatives as SciPy wants them; `own` rows at the end are squares."""

    def loss(z: np.ndarray) -> np.ndarray:
        found = np.stack([z, np.ones_like(z), np.zeros_like(z)])
        if problem.huber is not None:
            d = float(problem.huber)
            far = (z > d * d) & (np.arange(len(z)) < len(z) - own)
            size = np.sqrt(np.where(far, z, 1.0))
            found[0], found[1] = np.where(far, 2 * d * size - d * d, z), np.where(far, d / size, 1.0)
            found[2] = np.where(far, -0.5 * d / size**3, 0.0)
        return found

    return loss


def by_least_squares(
    evaluate: Evaluator, start: np.ndarray, moving: np.ndarray, max_steps: int, rtol: float
) -> tuple[np.ndarray, str, bool]:
    """The unknowns, why the search ended, and whether it converged. Only those that are `moving` move."""

    def whole(part: np.ndarray) -> np.ndarray:
        q = start.copy()
        q[moving] = part
        return q

    def rows(part: np.ndarray) -> np.ndarray:
        found = evaluate.at(whole(part))
        flat = np.concatenate([*found.rows.values(), found.own])
        return np.full_like(flat, np.inf) if found.failure else flat  # SciPy shortens a step that is not finite

    def slopes(part: np.ndarray) -> np.ndarray:
        J = evaluate.at(whole(part)).slopes
        assert J is not None
        return J[:, moving]

    own = len(evaluate.at(start).own)
    # The damped steps of L-BFGS-B and of this solver are in unknowns, whose unit is the scale of a parameter.
    found = least_squares(
        rows,
        start[moving],
        jac=slopes,
        method="trf",
        loss=huber_loss(evaluate.problem, own) if evaluate.problem.huber is not None else "linear",
        ftol=max(rtol, np.finfo(float).eps),
        xtol=max(rtol, np.finfo(float).eps),
        gtol=1e-14,
        max_nfev=max_steps,
    )
    return whole(found.x), str(found.message), found.status > 0


def by_adjoint(evaluate: Evaluator, start: np.ndarray, max_steps: int, rtol: float) -> tuple[np.ndarray, str, bool]:
    """As `by_least_squares`, by L-BFGS."""
    most = _UPHILL * max(evaluate.at(start).cost, 1.0)

    def cost(q: np.ndarray) -> tuple[float, np.ndarray]:
        found = evaluate.at(q)
        return (most, np.zeros_like(q)) if found.failure else (found.cost, found.gradient)

    options = {"maxiter": max_steps, "maxfun": 4 * max_steps, "ftol": rtol, "gtol": 1e-12, "maxcor": 20}
    found = minimize(cost, start, jac=True, method="L-BFGS-B", options=options)
    assert evaluate.best is not None
    return evaluate.best.q, str(found.message), bool(found.success)
