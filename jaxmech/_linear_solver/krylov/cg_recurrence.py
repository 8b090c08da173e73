"""The scalars of conjugate gradients, once for operations on arrays (`cg_step.py`) and for the kernel
(`cg_kernel_llvm.py`).

What is said here of numbers, each of the two says of its own: `math` is `jax.numpy`, or what writes instructions down.
"""

from typing import Any, NamedTuple

from ..base.outcome import FINE, INDEFINITE, SINGULAR

Number = Any  # a scalar that has operators


class CGState(NamedTuple):
    """What a run on `A d = r` from `d = 0` carries from step to step."""

    d: Any  # the vectors: the correction so far,
    r: Any  # what is left of the right-hand side,
    p: Any  # and the last direction
    rz: Number  # `r z` of the last direction, of its preconditioned residual `z`
    pMp: Number
    steepest: Number  # the largest Rayleigh quotient of `M^-1 A` so far
    residual: Number  # the norm of `r`
    flaw: Number


class Bounds(NamedTuple):
    """Where steps end: at a residual of `goal`, above one of `far`, after step number `last`; and after step number `grace`,
    above one of `line`, which falls by the factor `falling` with each step."""

    goal: Number
    far: Number
    line: Number
    falling: Number
    last: Number
    grace: Number


VECTORS = ("d", "r", "p")
COUNTS = ("flaw", "taken", "last", "grace")  # whole numbers; `taken`: the steps from the beginning of the solve
NUMBERS = tuple(name for name in (*CGState._fields, *Bounds._fields) if name not in (*VECTORS, *COUNTS))


def direction(math: Any, rz: Number, last_rz: Number, pMp: Number) -> tuple[Number, Number]:
    """`beta` of the next direction `p = z + beta p`, and its `pMp`: `z` and the last `p` are M-orthogonal."""
    beta = math.where(last_rz > 0, rz / last_rz, 0)
    return beta, rz + beta * beta * pMp


class Length(NamedTuple):
    """What a step along a direction is."""

    alpha: Number  # nil where there is a flaw
    steepest: Number
    flaw: Number


def length(math: Any, curvature: Number, rz: Number, pMp: Number, steepest: Number, eps: Number) -> Length:
    """The step along `p`, of which `curvature` is `p A p`."""
    quotient = curvature / pMp
    steepest = math.maximum(steepest, math.abs(quotient))
    # A quotient that is nil to rounding: the direction is one that A does not resist.
    flat = math.abs(quotient) <= 4 * eps * steepest
    flaw = math.where(flat, SINGULAR, math.where(quotient > 0, FINE, INDEFINITE))
    flaw = math.where(rz > 0, flaw, INDEFINITE)
    return Length(math.where(flaw == FINE, rz / curvature, 0), steepest, flaw)


def goes_on(state: CGState, taken: Number, bounds: Bounds) -> Number:
    """Whether there is another step."""
    late = (taken > bounds.grace) & (state.residual > bounds.line)
    within = (state.residual > bounds.goal) & (state.residual <= bounds.far)
    return (taken < bounds.last) & (state.flaw == FINE) & within & ~late
