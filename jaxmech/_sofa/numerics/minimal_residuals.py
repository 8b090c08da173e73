"""SOFA's MinResLinearSolver: minimal residuals from the last solution, which end where its estimates say so.

Source: C. C. Paige and M. A. Saunders, SIAM J. Numer. Anal. 12 (1975) 617, doi:10.1137/0712047. The estimates that end it
are in the documentation of SOFA's MinResLinearSolver.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._linear_solver.base.vectors import Vector, dot, minus, norm, plus, zeros
from ..._runtime.array_types import Array
from ..._runtime.jax_internals import bounded_loop
from ..._runtime.loops import while_loop
from .unconverged_solvers import AbstractStepSolver, Past, Solved

_ROUNDING = 2.0**-52


class MinimalResiduals(AbstractStepSolver):
    """Ends where `|r| <= tolerance |A| |x|` or `|A r| <= tolerance |A| |r|`, both norms of `A` by the Lanczos numbers so
    far, or after `iterations`."""

    tolerance: Array
    iterations: int = eqx.field(static=True)

    def solve(self, A: Any, b: Vector, past: Past) -> Solved:
        x, steps = _minimal_residuals(A, b, past.last, self)
        return Solved(x, lx.Solution(None, lx.RESULTS.successful, {"num_steps": steps}, None))


class _Run(NamedTuple):
    """Two Lanczos vectors, the last of them not of unit length; two directions; the numbers of the last rotation."""

    x: Vector
    before: Vector
    newest: Vector
    w1: Vector
    w2: Vector
    numbers: dict[str, Array]
    steps: Array
    ended: Array


def _solution(A: Any, b: Vector, x0: Vector, rules: MinimalResiduals, differentiated: bool) -> tuple[Vector, Array]:
    r = minus(b, A.mv(x0))
    first = norm(r)
    one, nil = jnp.ones_like(first), jnp.zeros_like(first)
    start = {"beta": first, "old": one, "dbar": nil, "epsilon": nil, "phi": first, "cos": -one, "sin": nil, "size": nil}
    start |= {"largest": nil, "least": jnp.full_like(first, jnp.inf)}
    begun = _Run(x0, zeros(b), r, zeros(b), zeros(b), start, jnp.zeros((), jnp.int32), ~(first > 0))

    def goes_on(run: _Run) -> Array:
        return ~run.ended & (run.steps < rules.iterations)

    def step(run: _Run) -> _Run:
        return _step(A, run, first, rules)

    end = bounded_loop(goes_on, step, begun, rules.iterations) if differentiated else while_loop(goes_on, step, begun)
    return end.x, end.steps


def _step(A: Any, run: _Run, first: Array, rules: MinimalResiduals) -> _Run:
    old = run.numbers
    beta = old["beta"]
    v = {s: a / beta for s, a in run.newest.items()}
    y = A.mv(v)
    y = plus(y, jnp.where(run.steps > 0, -beta / old["old"], 0.0), run.before)
    alpha = dot(v, y)
    y = plus(y, -alpha / beta, run.newest)
    ahead = norm(y)
    size = old["size"] + alpha**2 + beta**2 + ahead**2
    delta = old["cos"] * old["dbar"] + old["sin"] * alpha
    gbar = old["sin"] * old["dbar"] - old["cos"] * alpha
    dbar = -old["cos"] * ahead
    root = jnp.sqrt(gbar**2 + dbar**2)
    gamma = jnp.maximum(jnp.sqrt(gbar**2 + ahead**2), _ROUNDING)
    cos, sin = gbar / gamma, ahead / gamma
    w = {s: (a - old["epsilon"] * run.w1[s] - delta * run.w2[s]) / gamma for s, a in v.items()}
    x = plus(run.x, cos * old["phi"], w)
    phi = sin * old["phi"]
    numbers = {"beta": ahead, "old": beta, "dbar": dbar, "epsilon": old["sin"] * ahead, "phi": phi, "cos": cos, "sin": sin}
    numbers |= {"size": size, "largest": jnp.maximum(old["largest"], gamma), "least": jnp.minimum(old["least"], gamma)}
    ended = jax.lax.stop_gradient(_ends(numbers, root, norm(x), first, run.steps, rules))
    return _Run(x, run.newest, y, run.w2, w, numbers, run.steps + 1, ended)


def _ends(
    numbers: dict[str, Array], root: Array, length: Array, first: Array, steps: Array, rules: MinimalResiduals
) -> Array:
    whole = jnp.sqrt(numbers["size"])
    residual, slope = numbers["phi"] / (whole * length), root / whole
    invariant = (steps == 0) & (numbers["beta"] / first < 10 * _ROUNDING)
    singular = numbers["largest"] / numbers["least"] >= 0.1 / _ROUNDING
    exhausted = whole * _ROUNDING * length >= first
    return invariant | singular | exhausted | (slope <= rules.tolerance) | (residual <= rules.tolerance)


@eqx.filter_custom_jvp
def _minimal_residuals(A: Any, b: Vector, x0: Vector, rules: MinimalResiduals) -> tuple[Vector, Array]:
    return _solution(A, b, x0, rules, False)


@_minimal_residuals.def_jvp
def _jvp(primals: Any, tangents: Any) -> Any:
    return eqx.filter_jvp(lambda *all: _solution(*all, True), primals, tangents)
