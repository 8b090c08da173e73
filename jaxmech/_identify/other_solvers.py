"""Searches by optimistix and optax."""

import importlib
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._runtime.precision import compiled
from .problem import Problem
from .search import Evaluator


def is_other(method: Any) -> bool:
    """Whether it is a solver of optimistix or an optimiser of optax."""
    return _of_optimistix(method) != "" or (
        callable(getattr(method, "init", None)) and callable(getattr(method, "update", None))
    )


def by_other(evaluate: Evaluator, method: Any, start: np.ndarray, max_steps: int) -> tuple[np.ndarray, str, bool]:
    """The unknowns, why the search ended, and whether it converged."""
    kind = _of_optimistix(method)
    if not kind:
        return _by_optax(evaluate, method, start, max_steps)
    optx = importlib.import_module("optimistix")
    squares = kind == "least squares"
    run, function = (optx.least_squares, _rows) if squares else (optx.minimise, _cost)
    q = jax.numpy.asarray(start, evaluate.problem.unknowns.dtype)
    found = _found(run, function, method, q, evaluate.problem, max_steps)
    evaluate.at(np.asarray(found.value, float))
    assert evaluate.best is not None
    words = f"{found.stats['num_steps']} steps: {optx.RESULTS[found.result] or 'converged.'}"
    return evaluate.best.q, words, bool(found.result == optx.RESULTS.successful)


@compiled
def _found(run: Any, function: Any, method: Any, q: Any, problem: Problem, max_steps: int) -> Any:
    return run(function, method, q, args=problem, max_steps=max_steps, throw=False)


def _by_optax(evaluate: Evaluator, method: Any, start: np.ndarray, max_steps: int) -> tuple[np.ndarray, str, bool]:
    optax = importlib.import_module("optax")
    method = optax.with_extra_args_support(method)
    q, problem = jax.numpy.asarray(start, evaluate.problem.unknowns.dtype), evaluate.problem
    state = method.init(q)
    value_fn = eqx.Partial(_cost_of, problem)
    for _ in range(max_steps):
        found = evaluate.at(np.asarray(q, float))
        if found.failure:
            assert evaluate.best is not None
            q = 0.5 * (q + jax.numpy.asarray(evaluate.best.q, q.dtype))  # half way back: the step is shortened
            continue
        gradient = jax.numpy.asarray(found.gradient, q.dtype)
        step, state = method.update(gradient, state, q, value=found.cost, grad=gradient, value_fn=value_fn)
        q = optax.apply_updates(q, step)
    evaluate.at(np.asarray(q, float))
    assert evaluate.best is not None
    return evaluate.best.q, f"{max_steps} steps of optax, the best of them.", True


def _of_optimistix(method: Any) -> str:
    if not type(method).__module__.startswith("optimistix") and not isinstance(method, eqx.Module):
        return ""
    optx = importlib.import_module("optimistix")
    if isinstance(method, optx.AbstractLeastSquaresSolver):
        return "least squares"
    return "minimiser" if isinstance(method, optx.AbstractMinimiser) else ""


def _rows(q: Any, problem: Problem) -> Any:
    return problem.residual(q)


def _cost(q: Any, problem: Problem) -> Any:
    return problem.cost(q)


def _cost_of(problem: Problem, q: Any) -> Any:
    return problem.cost(q)
