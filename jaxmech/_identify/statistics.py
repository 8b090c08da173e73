"""What the rows and slopes at the end of a fit say about its parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .problem import Problem
from .search import Evaluation, huber_loss

_TOGETHER = 0.25  # components of a direction that are named
_NOTHING = 1e-6  # errors of a measurement by which an e-fold changes the model, at a bound: nothing is known of its unknown


@dataclass(frozen=True)
class Uncertainty:
    """Covariance of the unknowns and of the values, chi-squared, and the directions that are badly known."""

    covariance: np.ndarray  # of the unknowns
    of_values: np.ndarray
    chi_squared: float
    degrees: float  # a whole number unless there are priors or penalties
    directions: list[tuple[float, dict[str, float]]]  # standard error of the unknowns along it; components by name
    silent: list[str]  # parameters that change nothing
    how: str


def uncertainty(problem: Problem, found: Evaluation, slope: np.ndarray) -> Uncertainty:
    """`slope`: d value/d unknown, of each."""
    J, sizes = _of_equal_size(problem, found)
    r = np.concatenate([*found.rows.values(), found.own])
    data = np.arange(len(r)) < len(r) - len(found.own)
    weights = huber_loss(problem, len(found.own))(r**2)[1]
    read = np.concatenate([_read(e) for e in problem.experiments.values()])
    count = int(read.sum())
    loss = huber_loss(problem, len(found.own))(r**2)[0]
    chi2 = float(loss[data].sum())
    silent = [name for name, column in zip(problem.names, J.T, strict=True) if not np.abs(column).max(initial=0) > 0]
    blocks = _blocks(problem)
    known = J[~data].T @ J[~data]  # a prior has the deviation that it says, whatever the data scatter by
    inner = np.abs(weights - 1.0) < 1e-12
    A = J[inner].T @ J[inner]
    inverse, nothing = _inverse(A)
    # What a prior, or a penalty, tells of an unknown the data need not: a part of one, as far as they tell of it too.
    degrees = count - len(found.q) + (float(np.trace(inverse @ known)) if len(found.own) else 0)
    scatter = max(1.0, chi2 / degrees) if degrees >= 1 else 1.0
    if blocks is not None:
        blocks = np.unique(blocks[read], return_inverse=True)[1]  # of which nothing was read there is none
        scattered = _scattered(J[data][read], (weights * r)[data][read], blocks, inner[data][read], A) + known
        covariance, how = inverse @ scattered @ inverse, f"scatter of {blocks.max() + 1} blocks"
    elif problem.huber is not None:
        g = np.where(data, weights * r, 1.0)[:, None] * J
        covariance, how = inverse @ g.T @ g @ inverse, "scatter of the residuals (robust)"
    else:
        covariance = inverse @ (scatter * (J[data].T @ J[data]) + known) @ inverse if scatter > 1.0 else inverse
        how = "noise as given" if scatter == 1.0 else f"noise as given, times {np.sqrt(scatter):.3g} = sqrt(chi^2/degrees)"
    directions = [
        (float(e * np.sqrt(scatter)), {n: float(c) for n, c in zip(problem.names, v, strict=True) if abs(c) > _TOGETHER})
        for e, v in _directions(inverse / np.outer(sizes, sizes), nothing / sizes[:, None])
    ]
    covariance = covariance / np.outer(sizes, sizes)
    lost = (np.abs(nothing) > 1e-6).any(axis=1)
    covariance[lost, lost] = np.inf
    with np.errstate(invalid="ignore"):  # at a bound the value does not feel its unknown, of which nothing is known: NaN
        of_values = slope[:, None] * covariance * slope[None, :]
    return Uncertainty(covariance, of_values, chi2, degrees, directions, silent, how)


def _of_equal_size(problem: Problem, found: Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """The slopes, each divided by its size: rounding takes no known unknown for lost, in whatever unit; and these sizes."""
    assert found.slopes is not None
    sizes = np.linalg.norm(found.slopes, axis=0)
    bounded = np.concatenate([np.full(at.stop - at.start, f.transform != "none") for _, f, at in problem.unknowns.free()])
    told = (sizes > 0) & ~(bounded & (sizes < _NOTHING))
    sizes = np.where(told, sizes, 1.0)
    return np.where(told, found.slopes, 0.0) / sizes, sizes


def _inverse(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of `A` where it has one, and the directions that it says nothing of, as columns."""
    s, V = np.linalg.eigh(0.5 * (A + A.T))
    known = s > max(s[-1], 0.0) * len(s) * np.finfo(float).eps
    return (V[:, known] / s[known]) @ V[:, known].T, V[:, ~known]


def _directions(inverse: np.ndarray, nothing: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """Standard errors along orthogonal directions of unknowns, the worst first: infinite where nothing is known."""
    lost, told = np.split(np.linalg.qr(nothing, mode="complete")[0], [nothing.shape[1]], axis=1)
    s, W = np.linalg.eigh(told.T @ inverse @ told)
    errors = np.sqrt(np.maximum(s, 0.0))
    return [*((np.inf, v) for v in lost.T), *zip(errors[::-1], (told @ W[:, ::-1]).T, strict=True)]


def _scattered(J: np.ndarray, g: np.ndarray, blocks: np.ndarray, inner: np.ndarray, A: np.ndarray) -> np.ndarray:
    """`(G - 1)/G sum_b s_b s_b^T`, `s_b = A (A - A_b)^-1 sum_{i in b} g_i j_i`: the scatter of the gradient among blocks.

    The fit follows the error of a block, the more the fewer there are: `A_b`, its part of `A = J^T J`, says how much, and
    the factor makes of a residual what it would be had the block been left out (the jackknife; "CR3").
    Source: R. M. Bell, D. F. McCaffrey, Survey Methodology 28 (2002) 169.
    """
    count = int(blocks.max()) + 1
    sums = np.zeros((count, J.shape[1]))
    np.add.at(sums, blocks, g[:, None] * J)
    parts = np.zeros((count, *A.shape))
    np.add.at(parts, blocks[inner], J[inner][:, :, None] * J[inner][:, None, :])
    left = A - parts
    s, V = np.linalg.eigh(0.5 * (left + np.swapaxes(left, 1, 2)))
    least = len(A) * np.finfo(float).eps * np.trace(A)  # told by one block alone: nothing else says how much it errs
    sums = np.einsum("ij,bjk,bk,blk,bl->bi", A, V, 1 / np.maximum(s, least), V, sums)
    return sums.T @ sums * (count - 1) / count


def _blocks(problem: Problem) -> np.ndarray | None:
    """The block of every row of the data, those without being one each; None where there are no blocks."""
    parts: list[Any] = [m for e in problem.experiments.values() for m in e.measured.values()]
    if all(m.blocks is None for m in parts):
        return None
    numbers, at = [], 0
    for m in parts:
        shape = m.values.shape
        own_numbers = np.arange(m.values.size) if m.blocks is None else np.asarray(m.blocks)
        if m.blocks is not None:
            own_numbers = np.broadcast_to(
                own_numbers.reshape(own_numbers.shape + (1,) * (len(shape) - own_numbers.ndim)), shape
            )
        numbers.append(own_numbers.ravel() + at)
        at += int(own_numbers.max()) + 1
    return np.concatenate(numbers)


def _read(experiment: Any) -> np.ndarray:
    return np.concatenate([np.isfinite(np.asarray(m.values)).ravel() for m in experiment.measured.values()])
