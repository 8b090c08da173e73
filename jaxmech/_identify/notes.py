"""What looks wrong about data, start or result, in words."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .free import Free
from .problem import Problem
from .search import Evaluation

_UNITS, _FAR, _BETTER, _BAD = 200.0, 5.0, 0.1, 4.0
Part = tuple[str, np.ndarray, np.ndarray, np.ndarray]  # name, data, model, noise


def notes_on(problem: Problem, start: Evaluation, end: Evaluation, history: list[dict[str, Any]]) -> list[str]:
    """All there is to say."""
    first, last = _parts(problem, start), _parts(problem, end)
    said = [words for part in first for words in _constant(part)]
    said += [words for part in first for words in _units(part)]
    said += list(dict.fromkeys(words for parts in (last, first) for words in (*_swapped(parts), *_turned(parts))))
    if problem.huber is None:
        said += [words for part in last for words in _outliers(part)]
    said += _bounds(problem, end)
    failures = [entry["failure"] for entry in history if entry["failure"]]
    if failures:
        said.append(f"{len(failures)} steps failed and were shortened; the last: {failures[-1]}")
    return said


def _parts(problem: Problem, at: Evaluation) -> list[Part]:
    found = []
    for name, one in problem.experiments.items():
        for key, m in one.measured.items():
            model = np.asarray(at.predictions[name].values[key], float)
            label = f"{name}/{key}"
            found.append((label, np.asarray(m.values, float), model, np.asarray(m.noise, float)))
    return found


def _misfit(data: np.ndarray, model: np.ndarray, noise: np.ndarray) -> float:
    return float(np.nansum(((model - data) / noise) ** 2))


def _constant(part: Part) -> list[str]:
    label, data, _, _ = part
    read = data[np.isfinite(data)]
    if len(read) < 3 or np.ptp(read) > 0:
        return []
    return [f"'{label}': all {len(read)} measured values are {read[0]:.6g}. Is that what was read?"]


def _units(part: Part) -> list[str]:
    label, data, model, _ = part
    read = np.isfinite(data) & np.isfinite(model)
    sizes = [float(np.sqrt(np.mean(a[read] ** 2))) for a in (data, model)]
    if min(sizes) == 0 or 1 / _UNITS < sizes[0] / sizes[1] < _UNITS:
        return []
    return [f"'{label}': the data are {sizes[0] / sizes[1]:.2g} times the model at the start. Are the units the same?"]


def _swapped(parts: list[Part]) -> list[str]:
    said = []
    for i, (label, data, model, noise) in enumerate(parts):
        for other, data2, model2, noise2 in parts[i + 1 :]:
            if data.shape != data2.shape:
                continue
            now = _misfit(data, model, noise) + _misfit(data2, model2, noise2)
            then = _misfit(data2, model, noise) + _misfit(data, model2, noise2)
            if _much_better(now, then, np.isfinite(data).sum() + np.isfinite(data2).sum()):
                said.append(
                    f"'{label}' and '{other}' look swapped: exchanged, their data would be {now / max(then, 1e-300):.2g} "
                    "times nearer to the model (chi^2)."
                )
        said += _columns(label, data, model, noise)
    return said


def _columns(label: str, data: np.ndarray, model: np.ndarray, noise: np.ndarray) -> list[str]:
    if data.ndim < 2 or not 2 <= data.shape[-1] <= 3:
        return []
    now, said = _misfit(data, model, noise), []
    for i in range(data.shape[-1]):
        for j in range(i + 1, data.shape[-1]):
            order = list(range(data.shape[-1]))
            order[i], order[j] = j, i
            if _much_better(now, _misfit(data[..., order], model, noise), np.isfinite(data).sum()):
                said.append(f"'{label}': columns {i} and {j} of the values look swapped.")
    return said


def _turned(parts: list[Part]) -> list[str]:
    said = []
    for label, data, model, noise in parts:
        if _much_better(_misfit(data, model, noise), _misfit(-data, model, noise), np.isfinite(data).sum()):
            said.append(f"'{label}': the values look as if their sign were turned.")
    return said


def _much_better(now: float, then: float, count: int) -> bool:
    return now > _BAD * count and then < _BETTER * now


def _outliers(part: Part) -> list[str]:
    label, data, model, noise = part
    r = np.abs((model - data) / noise)
    far = int(np.nansum(r > _FAR))
    if not 0 < far <= 0.1 * np.isfinite(data).sum():
        return []
    return [f"'{label}': {far} residuals are over {_FAR:.0f} times the noise. Outliers? A robust loss (huber=) bounds them."]


def at_bounds(problem: Problem, end: Evaluation) -> set[str]:
    """The unknowns that have come to a bound."""
    stuck = np.zeros(len(problem.names), bool)
    for _, at, _, _, there in _stuck(problem, end):
        stuck[at] |= there.ravel()
    return {name for name, s in zip(problem.names, stuck, strict=True) if s}


def _bounds(problem: Problem, end: Evaluation) -> list[str]:
    return [
        f"'{name}' is at its {side} bound, {bound.ravel()[0]:.6g}: its error means little."
        for name, _, side, bound, there in _stuck(problem, end)
        if there.any()
    ]


def _stuck(problem: Problem, end: Evaluation) -> Iterator[tuple[str, slice, str, np.ndarray, np.ndarray]]:
    """Of every bound: name and unknowns of the parameter, side, bound, which of its values are there."""
    for name, free, at in problem.unknowns.free():
        if free.transform == "none":
            continue
        value = np.asarray(free.value(end.q[at].reshape(free.start.shape)))
        for side, bound in (("lower", free.lower), ("upper", free.upper)):
            if bound is not None:
                limit = np.asarray(bound, float)
                yield name, at, side, limit, _near(value, free, limit) & _faint(end, at, value.shape)


def _near(value: np.ndarray, free: Free, bound: np.ndarray) -> np.ndarray:
    return np.abs(value - bound) < 1e-3 * np.abs(np.asarray(free.start) - bound)


def _faint(end: Evaluation, at: slice, shape: tuple[int, ...]) -> np.ndarray:
    """Whether the data hardly tell how far a bound is. A modulus that began a thousand times too large is not at zero."""
    if end.slopes is None:
        return np.ones(shape, bool)
    return (np.linalg.norm(end.slopes[:, at], axis=0) < 1.0).reshape(shape)
