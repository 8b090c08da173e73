"""The fit: parameters that make experiments and models agree, and how well they are known."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_counts, check_flags, plain, real_array
from .experiment import Prediction
from .notes import at_bounds, notes_on
from .other_solvers import by_other, is_other
from .penalty import positive
from .plot import draw_fit
from .problem import Problem, problem
from .report import direction_in_words, report
from .search import Evaluation, Evaluator, by_adjoint, by_least_squares
from .statistics import uncertainty

MOST_FORWARD = 24  # unknowns for which a Jacobian in forward mode is worth its tangents
_METHODS = ("auto", "least_squares", "adjoint")


@dataclass(frozen=True, eq=False)
class Fit:
    """What `jm.identify.fit` found. `str(fit)` is a report, `fit.plot()` draws data, model, residuals and convergence.

    `parameters`: the tree with numbers. Of every unknown: `names`, `values`, `standard_errors`, `units`; `correlations`
    (n, n), `covariance` of the values. `chi_squared` for `degrees` of freedom, `count` measured values: of the data, whose
    number less that of the unknowns, each as far as no prior or penalty tells it. `residuals`:
    `{experiment: {measured: (model - values)/noise}}`, NaN where nothing was read; `predictions`: the models.
    `unidentified`:
    directions of unknowns that the data do not tell, in words; `silent`: parameters that change nothing that is measured;
    `notes`: what looks wrong. `history`: of every evaluation cost, whether it was the best so far, failure, unknowns.
    `method`, `message`, `converged`: how it went; `errors_from`: what the standard errors are made of. Where there are more
    than 24 unknowns no Jacobian is made, and standard errors are NaN.
    Values have the units of their parameters. Raises nothing: `fit` does.
    Source: G. A. F. Seber, C. J. Wild, *Nonlinear Regression*, 1989, doi:10.1002/0471725315, chapters 2 and 5.

    Example:

        ruler = jm.identify.Formula(lambda p: p["length"] * jnp.ones(4), [1.0, 1.2, 0.8, 1.0], noise=0.2, unit="m")
        found = jm.identify.fit(ruler, {"length": jm.identify.Free(2.0, unit="m")})
        assert jnp.allclose(found.values, 1.0) and jnp.allclose(found.standard_errors, 0.2 / 2)
        assert "length" in str(found)
    """

    problem: Problem
    parameters: Any
    names: list[str]
    values: np.ndarray
    standard_errors: np.ndarray
    units: list[str]
    covariance: np.ndarray
    correlations: np.ndarray
    chi_squared: float
    degrees: float
    count: int
    residuals: dict[str, dict[str, np.ndarray]]
    predictions: dict[str, Prediction]
    unidentified: list[str]
    silent: list[str]
    notes: list[str]
    history: list[dict[str, Any]]
    method: str
    message: str
    converged: bool
    errors_from: str
    unknowns: np.ndarray

    def __str__(self) -> str:
        return report(self)

    def plot(self) -> Any:
        """The figure of matplotlib (extra `viz`)."""
        return draw_fit(self)

    def profile(self, name: str, values: Any = None, *, max_steps: int = 50) -> tuple[np.ndarray, np.ndarray]:
        """The profile likelihood of one parameter: values, and by how much chi-squared rises when it is held at each of them
        while all others are fitted anew. A rise of 1 bounds 68 % confidence, of 3.84 95 %, whatever the curvature.

        `values`: seven within three standard errors unless given. Raises `ValueError` for a name that is no unknown,
        values out of bounds, and a fit of more unknowns than have a Jacobian.
        """
        if not isinstance(name, str) or name not in self.names:
            raise ValueError(f"Fit.profile: name must be one of {self.names[:20]}, got {name!r:.80}.")
        max_steps = plain(max_steps)
        check_counts("Fit.profile", max_steps=max_steps)
        if len(self.names) > MOST_FORWARD:
            raise ValueError(f"Fit.profile: {len(self.names)} unknowns are more than {MOST_FORWARD}, for which it is made.")
        at = self.names.index(name)
        free, inner = next((f, at - s.start) for _, f, s in self.problem.unknowns.free() if s.start <= at < s.stop)
        if values is None:
            error = self.standard_errors[at]
            if not np.isfinite(error):
                raise ValueError(f"Fit.profile: '{name}' has no standard error, so values must be given.")
            values = self.values[at] + error * np.linspace(-3.0, 3.0, 7)
        held = np.asarray(real_array("Fit.profile", "values", values, (None,)), float)
        if not len(held):
            raise ValueError("Fit.profile: values are none.")
        rises = [self._held(at, free, inner, value, max_steps) for value in held]
        return held, np.array(rises)

    def _held(self, at: int, free: Any, inner: int, value: float, max_steps: int) -> float:
        evaluate = Evaluator(self.problem, forward=True)
        all_values = np.array(free.value(jnp.asarray(self._of(free))), float)
        all_values.flat[inner] = value
        q = self.unknowns.copy()
        q[at] = float(np.asarray(free.unknown(all_values)).flat[inner])
        moving = np.arange(len(q)) != at
        if moving.any() and not evaluate.at(q).failure:
            by_least_squares(evaluate, q, moving, max_steps, 1e-9)
        evaluate.at(q)
        return np.inf if evaluate.best is None else 2 * (evaluate.best.cost - min(e["cost"] for e in self.history))

    def _of(self, free: Any) -> np.ndarray:
        where = next(s for _, f, s in self.problem.unknowns.free() if f is free)
        return self.unknowns[where].reshape(free.start.shape)


def fit(
    experiments: Any,
    parameters: Any,
    *,
    method: Any = "auto",
    huber: Any = None,
    max_steps: int = 100,
    rtol: float = 1e-9,
    progress: bool = False,
) -> Fit:
    """The parameters that make the models agree with what was measured: the least squares of `(model - values)/noise`.

    `experiments`: one, or `{name: Experiment}`; `parameters`: a tree of `Free` and fixed numbers that all of them share.
    `method`: "least_squares", a trust region (SciPy) with the exact Jacobian in forward mode, all parameters at once;
    "adjoint", L-BFGS with the gradient in reverse mode; "auto": the first up to 24 unknowns, the second above; or a
    solver of optimistix, or an optimiser of optax. `huber`: as in `jm.identify.problem`, against outliers. `max_steps`:
    evaluations, or iterations; `rtol`: by which part cost or unknowns change at the end. `progress`: prints evaluations.

    A model that fails on the way (an equilibrium that is not found, a step that inverts an element) shortens the step, and
    the fit goes on; `notes` count these. Raises `ValueError` where it fails at the start, says which experiment and why.
    Units are those of the experiments.
    Source: J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, doi:10.1007/978-0-387-40065-5, chapters 7 and 10.

    Example:

        stretch = jnp.array([1.2, 1.6, 2.0])
        pull = jm.identify.Formula(lambda p: p["mu"] * (stretch - stretch**-2), [0.2, 0.49, 0.7], noise=0.01, unit="MPa")
        found = jm.identify.fit(pull, {"mu": jm.identify.Free(1.0, lower=0.0, unit="MPa")})
        assert found.converged and abs(found.parameters["mu"] - 0.4) < 0.01
    """
    asked = problem(experiments, parameters, huber=huber)
    if not is_other(method) and not (isinstance(method, str) and method in _METHODS):
        raise ValueError(
            f"fit: method must be one of {_METHODS}, a solver of optimistix or an optimiser of optax (`optax.adam(0.1)`), "
            f"got {method!r:.80}."
        )
    max_steps = plain(max_steps)
    check_counts("fit", max_steps=max_steps)
    rtol = float(positive("fit", "rtol", rtol))
    check_flags("fit", progress=progress)
    count = asked.unknowns.count
    if isinstance(method, str) and method == "auto":
        method = "least_squares" if count <= MOST_FORWARD else "adjoint"
    evaluate = Evaluator(asked, forward=method != "adjoint" and count <= MOST_FORWARD, progress=print if progress else None)
    start = np.zeros(count)
    first = evaluate.at(start)
    if first.failure:
        raise ValueError(f"fit: the model fails at the start of the parameters, {first.failure}")
    if method == "least_squares":
        evaluate.forward = True
        ended = by_least_squares(evaluate, start, np.ones(count, bool), max_steps, rtol)
    elif method == "adjoint":
        ended = by_adjoint(evaluate, start, max_steps, rtol)
    else:
        ended = by_other(evaluate, method, start, max_steps)
    best = evaluate.best
    assert best is not None
    if best.slopes is None and count <= MOST_FORWARD:
        best = Evaluator(asked, forward=True).at(best.q)
    return _told(asked, first, best, evaluate.history, _words(method, evaluate.forward, count), ended[1], ended[2])


def _told(asked: Problem, first: Evaluation, best: Evaluation, history: Any, how: str, why: str, done: bool) -> Fit:
    q = jnp.asarray(best.q, asked.unknowns.dtype)
    values, n = np.asarray(asked.unknowns.flat(q), float), len(best.q)
    nothing = np.full((n, n), np.nan) if n <= MOST_FORWARD else np.zeros((0, 0))
    residuals = {name: _residuals(e, best.predictions[name]) for name, e in asked.experiments.items()}
    count = int(sum(np.isfinite(r).sum() for parts in residuals.values() for r in parts.values()))
    covariance, correlations, errors = nothing, nothing, np.full(n, np.nan)
    unidentified, silent, source = [], [], f"not made for {n} unknowns"
    chi2 = float(sum(np.nansum(r**2) for parts in residuals.values() for r in parts.values()))
    degrees = count - n
    if best.slopes is not None:
        _, slope = jax.jvp(asked.unknowns.flat, (q,), (jnp.ones_like(q),))
        known = uncertainty(asked, best, np.asarray(slope, float))
        covariance, chi2, degrees, silent, source = (
            known.of_values,
            known.chi_squared,
            known.degrees,
            known.silent,
            known.how,
        )
        errors = np.sqrt(np.abs(np.diag(covariance)))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlations = covariance / np.outer(errors, errors)
        stuck = at_bounds(asked, best)  # they move nothing that is measured, but not because the data are silent of them
        silent, still = [name for name in silent if name not in stuck], {*silent, *stuck}
        weak = [(e, parts) for e, parts in known.directions if not e < 1.0 and not set(parts) <= still]
        unidentified = [direction_in_words(e, parts) for e, parts in weak]
    return Fit(
        problem=asked,
        parameters=asked.values(q),
        names=asked.names,
        values=values,
        standard_errors=errors,
        units=asked.unknowns.units,
        covariance=covariance,
        correlations=correlations,
        chi_squared=chi2,
        degrees=degrees,
        count=count,
        residuals=residuals,
        predictions=best.predictions,
        unidentified=unidentified,
        silent=silent,
        notes=notes_on(asked, first, best, history),
        history=history,
        method=how,
        message=why,
        converged=done,
        errors_from=source,
        unknowns=best.q,
    )


def _residuals(experiment: Any, prediction: Prediction) -> dict[str, np.ndarray]:
    found = {}
    for key, m in experiment.measured.items():
        found[key] = (np.asarray(prediction.values[key], float) - np.asarray(m.values, float)) / np.asarray(m.noise, float)
    return found


def _words(method: Any, forward: bool, count: int) -> str:
    if method == "least_squares":
        return f"least squares by a trust region; exact Jacobian in forward mode, {count} tangents at once"
    if method == "adjoint":
        return f"L-BFGS; gradient in reverse mode (adjoint) for {count} unknowns"
    mode = "forward" if forward else "reverse"
    return f"{type(method).__module__.split('.')[0]}: {type(method).__name__}; derivatives in {mode} mode where we make them"
