"""One solver of contacts after another, until one of them gets there: each begins where another ended, Newton ends all."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.loops import seldom_loop, while_loop
from .gauss_seidel import gauss_seidel
from .interior_point import central_path
from .newton import newton
from .scaled import ScaledProblem

_NEWTON, _PATH = 30, 100  # steps at most of Newton, and along a path
_FURTHER = 1e-3  # of the tolerance, which Newton aims at: it is a step more
_SWEEPS, _HELD, _LAST = 4, 5, 12  # numbers of stages: after central paths; from where impulses are held; of convex problems
_ROUNDS = 40  # in which impulses are held, at most
# kappa on the way to the edges of the law, where Newton has stuck at them
_SMOOTH = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-8)
_BRIEF = 6  # steps at each
_FIRM, _LOOSER, _FIRMER, _FIRMEST = 1e-2, 0.2, 10.0, 1e8


def forgiven(rounding: Array) -> Array:
    """What rounding may leave of a residual: no more than half of its digits, as of bodies that are jammed ever more."""
    return jnp.minimum(rounding, 0.3 * jnp.sqrt(jnp.finfo(rounding.dtype).eps))


class Stage(NamedTuple):
    """`s` is the best so far, `size` its residual; `slip` that of convex problems, `spent` the steps of what comes last."""

    s: Array
    size: Array
    steps: Array
    number: Array
    slip: Array
    spent: Array
    going: Array


def by_stages(scaled: ScaledProblem, kappa: Array, s: Array, method: str, most: int, tolerance: float):
    """The solution of a scaled problem, the length of its residual, the steps, and whether it converged.

    Newton from where it starts, and where it sticks at an edge of the law, by laws that are ever less smoothed; from ends of
    central paths that begin ever farther within the cones; after sweeps; with impulses held where they are, ever more
    loosely, which is the proximal point method; and the same from solutions of convex problems, in which the slip of De
    Saxce's term is that of the problem before. There is one Newton in the program, and one central path. The residual is the
    larger of the natural map of the scaled problem and of the problem itself.
    Source: V. Acary, F. Cadoux, C. Lemarechal, J. Malick, ZAMM 91 (2011) 155, doi:10.1002/zamm.201000073 (convex problems);
    R. T. Rockafellar, SIAM J. Control Optim. 14 (1976) 877, doi:10.1137/0314056 (proximal points).
    """
    first, last = {"auto": (0, _LAST), "newton": (0, 0), "interior_point": (1, 3)}.get(method, (4, 4))
    swept_only = method in ("gauss_seidel", "nncg")
    if scaled.matrix is None:
        last = min(last, _HELD)

    def goal(s: Array, share: float = 1.0) -> Array:
        return share * tolerance + forgiven(32 * jnp.finfo(s.dtype).eps * jnp.linalg.norm(s))

    def advance(p: Stage) -> Stage:
        s, steps, slip = p.s, p.steps, p.slip
        if last > 0 and first < _SWEEPS:
            s, slip, count = _along_paths(scaled, kappa, p, most)
            steps = steps + count
        if last >= _SWEEPS and scaled.matrix is not None:
            swept = p.going & (p.number == _SWEEPS)
            end, count = gauss_seidel(scaled, s, most, goal(s), accelerated=method != "gauss_seidel", needed=swept)
            s, steps = jnp.where(swept, end, s), steps + count
        before = steps
        by_sweeps = jnp.asarray(swept_only) & (kappa == 0)
        few = most if method == "newton" else jnp.where(p.number < _HELD, _NEWTON, most - p.spent)
        few = jnp.where(p.number == 0, jnp.minimum(2 * _NEWTON, most), few) if method == "auto" else few
        end, reached, count = _held(scaled, kappa, s, few, goal, p.going, ~by_sweeps, p.number)
        better = reached < p.size
        s, size = jnp.where(better, end, p.s), jnp.where(better, reached, p.size)
        spent = jnp.where(p.number < _HELD, 0, p.spent + before - p.steps + count)
        going = ~(size <= goal(s)) & (p.number < last) & (spent < most)
        return Stage(s, size, before + count, p.number + 1, slip, spent, going)

    nil = jnp.zeros((), jnp.int32)
    start = Stage(s, jnp.full((), jnp.inf, s.dtype), nil, nil + first, jnp.zeros_like(scaled.mu), nil, jnp.array(True))
    end = while_loop(lambda p: p.going, advance, start)
    return end.s, end.size, end.steps, end.size <= goal(end.s)


def _measured(scaled: ScaledProblem, kappa: Array, s: Array, size: Array, goal: Array) -> Array:
    """`size`, unless the natural map of the problem itself is farther from its rounding; of Coulomb's law alone."""
    error, rounding = scaled.plain(s)
    return jnp.where((kappa == 0) & (error > goal + forgiven(rounding)), jnp.maximum(size, error), size)


def _along_paths(scaled: ScaledProblem, kappa: Array, p: Stage, most: int) -> tuple[Array, Array, Array]:
    """Where a central path ends, the slip there, and how many steps it took: one path, or one for each convex problem."""
    convex = p.number > _HELD
    needed = p.going & (((p.number >= 1) & (p.number < _SWEEPS)) | convex)
    far = jnp.where(convex, 1.0, 10.0 ** (2.0 * jnp.maximum(p.number - 1, 0).astype(p.s.dtype)))
    rounds = jnp.where(convex, jnp.where(p.number == _HELD + 1, 5, 10), 1)
    share = jnp.where(p.number % 2 == 0, 1.0, 0.6)  # how far the slip follows

    def advance(c: Any) -> Any:
        s, slip, count, done = c
        s, more = central_path(scaled, kappa, far, jnp.minimum(most, _PATH), needed, convex, slip)
        apart = scaled.mu * jnp.linalg.norm(scaled.velocity(s)[:, 1:], axis=1) - slip
        return s, jnp.where(convex, slip + share * apart, slip), count + more, done + 1

    start = p.s, p.slip, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
    s, slip, count, _ = seldom_loop(lambda c: needed & (c[3] < rounds), advance, start)
    return jnp.where(needed, s, p.s), slip, count


class _Round(NamedTuple):
    s: Array
    best: Array
    size: Array
    measured: Array
    alpha: Array
    steps: Array
    number: Array
    going: Array


def _held(
    scaled: ScaledProblem, kappa: Array, s: Array, most: Any, goal: Any, needed: Array, by_newton: Array, stage: Array
) -> tuple[Array, Array, Array]:
    """Newton's best iterate, as it is `_measured`, and its steps, none unless `by_newton`. In rounds: at the first stage by
    laws that are ever less smoothed, from `_HELD` on held to where it begins.

    Source: L. Qi, D. Sun, G. Zhou, Math. Program. 87 (2000) 1, doi:10.1007/s101079900127 (smoothing).
    """
    held, smoothed = stage >= _HELD, (stage == 0) & by_newton
    path = jnp.asarray((0.0, *_SMOOTH, 0.0), s.dtype)

    def advance(p: _Round) -> _Round:
        near, law = scaled.held_at(p.s, p.alpha), jnp.maximum(kappa, jnp.where(smoothed, path[p.number], 0.0))
        few = jnp.minimum(jnp.where(held, _NEWTON, jnp.where(law > kappa, _BRIEF, most)), most - p.steps)
        # What is held ends with a step that has no length: what it rounds to, the problem itself may need.
        enough = jnp.maximum(jnp.where(held, 1e-3, 1.0) * goal(p.s, _FURTHER), jnp.where(law > kappa, 0.1 * law, 0.0))
        end, size, count = newton(near, law, p.s, few, enough, by_newton)
        left = jnp.linalg.norm(scaled.residual(end, kappa))
        left = jnp.where(jnp.isfinite(left), left, jnp.inf)
        better = left < p.size
        follows = size <= jnp.maximum(1e-11, 0.1 * left)
        alpha = jnp.where(follows, jnp.maximum(_LOOSER * p.alpha, 1e-12), jnp.minimum(_FIRMER * p.alpha, _FIRMEST))
        best, least = jnp.where(better, end, p.best), jnp.where(better, left, p.size)
        rounds = jnp.where(held, _ROUNDS, jnp.where(smoothed, path.size, 1))
        going = needed & (p.number + 1 < rounds) & (p.steps + count < most)
        measured = _measured(scaled, kappa, best, least, goal(best))
        going = going & ~(measured <= goal(best))
        return _Round(
            jnp.where(follows | ~held, end, p.s), best, least, measured, alpha, p.steps + count, p.number + 1, going
        )

    nil = jnp.zeros((), jnp.int32)
    alpha = jnp.where(held, _FIRM, 0.0).astype(s.dtype)
    far = jnp.full((), jnp.inf, s.dtype)
    start = _Round(s, s, far, far, alpha, nil, nil, needed)
    end = while_loop(lambda p: p.going, advance, start)
    return end.best, end.measured, end.steps
