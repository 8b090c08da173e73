"""What iterative solvers share: the stopping rule, restarts from a true residual, and what is said at the end."""

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from equinox import AbstractVar

from ..._runtime.argument_checks import check_counts, check_flags, check_instance, check_tolerances
from ..._runtime.array_types import Array
from ..._runtime.loops import while_loop
from ..._runtime.precision import full_precision
from ..._sparse.block_matrix import BlockMatrix
from ..._sparse.preconditioned import PreconditionedOperator
from ..base.outcome import EXHAUSTED, FINE, INDEFINITE, SINGULAR, STAGNATION, UNEQUAL, UNSYMMETRIC, outcome
from ..base.symmetry_probe import probed
from ..base.vectors import Vector, choose, dtype_of, minus, norm, plus, zeros
from ..preconditioner.base import AbstractApplied, AbstractPreconditioner
from ..preconditioner.jacobi import BlockJacobi
from ..preconditioner.none import NoPreconditioner

if TYPE_CHECKING:  # under Equinox's name, checkers take it for a field
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar

_MOST_STEPS = 20_000  # more than any system worth iterating on takes
_FATAL = (INDEFINITE, UNSYMMETRIC, SINGULAR)  # no restart helps
GRACE = 5  # steps after which a residual must have begun to fall
_FLOOR = 16.0  # rounding units of what a residual is a sum of, that it may be above nil when nothing makes it smaller
_UNLIKE = 1e3  # times that the rows with the load are larger than those with the residual


class AbstractRecursion(eqx.Module):
    """One run on `A d = r` from `d = 0`. A step: a direction, its product with `A`, what follows from it."""

    residual: AbstractVar[Array]  # the norm of `r - A d`, as the recursion believes
    flaw: AbstractVar[Array]

    @abc.abstractmethod
    def direction(self, precondition: AbstractApplied) -> tuple["AbstractRecursion", Vector]:
        """The vector to be multiplied next, and what was computed on the way."""

    @abc.abstractmethod
    def advance(self, y: Vector, Ay: Vector) -> "AbstractRecursion":
        """What follows from the product."""

    @abc.abstractmethod
    def correction(self) -> Vector:
        """`d`."""

    @abc.abstractmethod
    def restarted(self, r: Vector) -> "AbstractRecursion":
        """A new run on the residual `r`."""

    def continued(self, state: "KrylovState", limits: "Limits", steps: Array) -> tuple["AbstractRecursion", Array] | None:
        """The run after all its steps, until it has arrived, a limit or a flaw ends it; and how many the solve has taken, of
        which there were `steps` before. None unless there is a faster way than one by one."""
        del state, limits, steps

    def full(self) -> Array | bool:
        """Whether the run must end here."""
        return False

    def fall(self) -> Array | float:
        """The factor by which a run must make the true residual smaller, or the solve stagnates."""
        return 0.5


class KrylovState(eqx.Module):
    """What a solve is given."""

    operator: lx.AbstractLinearOperator
    applied: AbstractApplied
    start: Vector | None
    rows: Vector  # the size of each row
    flaw: Array


class AbstractKrylov(lx.AbstractLinearSolver):
    """An iterative solver. Subclasses bring one recursion; the rest is here.

    Stops when the *true* residual meets `||b - A x|| <= rtol ||b|| + atol` (2-norm). A recursion that claims to have
    arrived is checked; where it was wrong, it starts again from the true residual, and where that did not halve the
    residual (a tolerance below what rounding allows) the solve ends in `RESULTS.stagnation`. Where rows are so unequal (a
    penalty of 1e30) that the tolerance says nothing of the small ones, and these are not solved, it ends in
    `RESULTS.unequal_rows`. `rtol=None` takes 1e-8 in float64, 1e-4 in float32. `max_steps`: ten times the number of
    unknowns, 20 000 at most, unless given. `give_up=True` ends in `RESULTS.max_steps_reached`
    as soon as the residual falls too slowly to arrive within `max_steps`: after five steps it must keep below the straight
    line, in logarithms, that leads there.

    The option `x0` is where to start; a start worse than zero is dropped. `stats`: `num_steps`, `residual` (its norm),
    `floor` (what rounding makes of it) and `reason`, a member of `jaxmech.RESULTS`.
    """

    rtol: AbstractVar[float | None]
    atol: AbstractVar[float]
    max_steps: AbstractVar[int | None]
    preconditioner: AbstractVar[AbstractPreconditioner | None]
    give_up: AbstractVar[bool]
    symmetric: AbstractClassVar[bool]  # needs a symmetric operator
    definite: AbstractClassVar[bool]  # needs a positive definite one

    @abc.abstractmethod
    def recursion(self, r: Vector) -> AbstractRecursion:
        """A run on the residual `r`."""

    @full_precision
    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        name = type(self).__name__
        unknown = sorted(options.keys() - {"x0"})
        if unknown:
            raise ValueError(f"{name} knows the option 'x0', not {unknown}.")
        if self.symmetric and not lx.is_symmetric(operator):
            raise ValueError(
                f"{name} needs a symmetric operator, and this one is not declared so: use SparseDirect, Dense or GMRES, "
                "or build the linear system with Terms(symmetric=True)."
            )
        is_symmetric, rows = probed(operator)
        # A solver that takes any operator believes the declaration too: where it is asked for the transposed system.
        flaw = jnp.where(is_symmetric | (not lx.is_symmetric(operator)), FINE, UNSYMMETRIC)
        applied = _chosen(self, operator).build(operator)
        seen = applied.flaw if self.definite else jnp.where(applied.flaw == INDEFINITE, FINE, applied.flaw)
        flaw = jnp.where(flaw == FINE, seen, flaw)
        return KrylovState(operator, applied, options.get("x0"), rows, flaw.astype(jnp.int32))

    @full_precision
    def compute(self, state: KrylovState, vector: Vector, options: dict[str, Any]):
        del options
        dtype = dtype_of(vector)
        rtol = (1e-8 if jnp.finfo(dtype).bits == 64 else 1e-4) if self.rtol is None else self.rtol
        scale = norm(vector)
        goal = jnp.asarray(rtol * scale + self.atol, dtype)
        unknowns = sum(leaf.size for leaf in jax.tree.leaves(vector))
        limit = min(10 * unknowns, _MOST_STEPS) if self.max_steps is None else self.max_steps

        begin = _begun(self.recursion(vector), state, vector, goal)
        unit = jnp.finfo(dtype).eps
        limits = Limits(goal, jnp.maximum(goal, scale * unit / 16), scale * unit**-0.5, limit, scale, self.give_up)
        last = while_loop(lambda i: ~i.ended, lambda i: _step(i, state, vector, limits), begin)
        blind = (last.residual > self.atol) & _overlooked(last, state.rows, vector, rtol)
        flaw = jnp.where(last.residual <= goal, jnp.where(blind, UNEQUAL, FINE), last.flaw)
        # An operator that is declared symmetric and is not is never solved, whatever the residual.
        flaw = jnp.where(state.flaw == FINE, flaw, state.flaw)
        flaw = jnp.where(jnp.isfinite(last.residual) | (flaw == UNSYMMETRIC), flaw, SINGULAR)
        result, reason = outcome(flaw)
        floor = _FLOOR * unit * (scale + norm(jax.tree.map(jnp.multiply, state.rows, last.x)))
        return last.x, result, {"num_steps": last.steps, "residual": last.residual, "floor": floor, "reason": reason}

    def transpose(self, state: KrylovState, options: dict[str, Any]):
        if self.symmetric:
            return state, options
        operator = state.operator.transpose()
        return KrylovState(operator, state.applied.transpose(), state.start, probed(operator)[1], state.flaw), options

    def conj(self, state: KrylovState, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True


class Limits(eqx.Module):
    """Where a run ends: at a residual of `claim`, above one of `far`, after `steps` steps; and if it gives up, above the
    straight line, in logarithms, that leads from `scale` to the goal in these steps. `claim` is the `goal`, or one below
    rounding, in which the recursion alone believes."""

    goal: Array
    claim: Array
    far: Array
    steps: Array | int
    scale: Array
    gives_up: bool = eqx.field(static=True)

    def over(self, steps: Array, residual: Array) -> Array:
        """Whether no step is left, or the residual is above the line."""
        return (steps >= self.steps) | ((steps > GRACE) & (residual > self.line(steps)))

    def line(self, steps: Array | int) -> Array:
        """Where the residual must be after so many steps: anywhere, unless the run gives up."""
        if not self.gives_up:
            return jnp.full_like(self.scale, jnp.inf)
        return self.scale * self.falling() ** (steps - GRACE)

    def falling(self) -> Array:
        """The factor from one step of the line to the next."""
        way = jnp.maximum(self.steps - GRACE, 1) if self.gives_up else jnp.inf
        return (self.goal / self.scale) ** (1 / jnp.asarray(way, self.scale.dtype))

    def none_if(self, condition: Array) -> "Limits":
        """The same, or no step at all."""
        return eqx.tree_at(lambda own: own.steps, self, jnp.where(condition, 0, self.steps))


class _Progress(eqx.Module):
    x: Vector
    run: AbstractRecursion
    residual: Array  # the norm of the last true one
    equilibrated: Array  # the same, each row relative to its size
    steps: Array
    rounds: Array
    ended: Array
    flaw: Array


def _begun(run: AbstractRecursion, state: KrylovState, b: Vector, goal: Array) -> _Progress:
    """Where to begin. The residual of no start is `b`; that of a start is not known, and looked at in round 0."""
    none, unknown = jnp.zeros((), jnp.int32), jnp.ones_like(goal)
    if state.start is not None:
        return _Progress(state.start, run, unknown, unknown, none, none, jnp.zeros((), bool), state.flaw)
    residual, equilibrated = norm(b), norm(_relative(b, state.rows))
    ended = (residual <= goal) | (state.flaw != FINE)
    return _Progress(zeros(b), run, residual, equilibrated, none, none + 1, ended, state.flaw)


def _step(i: _Progress, state: KrylovState, b: Vector, limits: Limits) -> _Progress:
    """A step of the recursion; or, where it claims to have arrived or cannot go on, a look at the true residual. Where all
    of its steps can be taken at once, they are, and then there is a look.

    Both multiply the operator with one vector, so that the compiled loop holds one product and one preconditioner.
    """
    first = i.rounds == 0
    # Not within a branch: of a batch, branches have whatever they read, patterns too, once for every member.
    whole = i.run.continued(state, limits if state.start is None else limits.none_if(first), i.steps)
    if whole is not None:
        i = eqx.tree_at(lambda a: (a.run, a.steps), i, whole)
        x = plus(i.x, 1, i.run.correction())
        return _looked(i, state, b, limits, x, state.operator.mv(x))
    over = limits.over(i.steps, i.run.residual)
    look = first | ~(i.run.residual <= limits.far) | (i.run.flaw != FINE) | (i.run.residual <= limits.claim)
    look |= i.run.full() | over
    x = jax.lax.cond(look, lambda: plus(i.x, 1, i.run.correction()), lambda: i.x)
    run, y = i.run.direction(state.applied)
    Ay = state.operator.mv(choose(look, x, y))

    def advanced() -> _Progress:
        return _Progress(
            x, run.advance(y, Ay), i.residual, i.equilibrated, i.steps + 1, i.rounds, jnp.zeros((), bool), i.flaw
        )

    return jax.lax.cond(look, lambda: _looked(i, state, b, limits, x, Ay), advanced)


def _looked(i: _Progress, state: KrylovState, b: Vector, limits: Limits, x: Vector, Ax: Vector) -> _Progress:
    """With the true residual of `x`, and a run on that."""
    first, over, r = i.rounds == 0, limits.over(i.steps, i.run.residual), minus(b, Ax)
    kept, left = (x, r) if state.start is None else _better(x, r, b, first)
    residual, diverged = norm(left), ~(i.run.residual <= limits.far)
    stuck = ~first & ~(residual <= i.run.fall() * i.residual)
    fatal = jnp.any(i.run.flaw == jnp.asarray(_FATAL))
    flaw = jnp.where(stuck & (i.run.flaw == FINE), jnp.where(diverged, SINGULAR, STAGNATION), i.run.flaw)
    flaw = jnp.where((flaw == FINE) | (over & ~fatal), EXHAUSTED, flaw).astype(jnp.int32)
    ended = (residual <= limits.goal) | stuck | fatal | over | (state.flaw != FINE)
    equilibrated = norm(_relative(left, state.rows))
    return _Progress(kept, i.run.restarted(left), residual, equilibrated, i.steps, i.rounds + 1, ended, flaw)


def _better(x: Vector, r: Vector, b: Vector, first: Array) -> tuple[Vector, Vector]:
    """Where a solve is and its residual, or zero and `b` where its start is worse than that: one that suits one right-hand
    side misleads another, that of a derivative, of a transposed solve."""
    worse = first & ~(norm(r) <= norm(b))
    return choose(worse, zeros(x), x), choose(worse, b, r)


def _chosen(solver: AbstractKrylov, operator: lx.AbstractLinearOperator) -> AbstractPreconditioner:
    """The preconditioner named, or block Jacobi for a matrix and none for products."""
    if solver.preconditioner is not None:
        return solver.preconditioner
    matrix = operator.near if isinstance(operator, PreconditionedOperator) else operator
    if not isinstance(matrix, BlockMatrix) or any((s, s) not in matrix.entries for s, _, _ in matrix.sizes):
        return NoPreconditioner()
    return BlockJacobi(absolute=matrix.indefinite or (solver.symmetric and not solver.definite))


def _relative(r: Vector, rows: Vector) -> Vector:
    """Each component over the size of its row, nil where there is nothing in it."""
    return jax.tree.map(lambda a, size: jnp.where(size > 0, a / jnp.where(size > 0, size, 1), 0), r, rows)


def _overlooked(last: _Progress, rows: Vector, b: Vector, rtol: float | Array) -> Array:
    """Whether a residual that is small beside `b` is so only because `b` is of rows far larger than those not solved.

    Beside rows of 1e30 (a penalty) any residual of the others is nothing. Relative to their rows, a residual must be
    smaller than `b` as well, if only by the root of the tolerance; but where rows are not very unlike, a loose tolerance
    is what was asked for.
    """
    small, equilibrated = last.residual / norm(b), last.equilibrated / norm(_relative(b, rows))
    return (equilibrated > jnp.sqrt(rtol)) & (equilibrated > _UNLIKE * small)


def check_krylov(solver: AbstractKrylov) -> None:
    """Raise unless the options of an iterative solver are what they should be."""
    name = type(solver).__name__
    check_tolerances(name, rtol=solver.rtol, atol=solver.atol)
    check_flags(name, give_up=solver.give_up)
    if solver.max_steps is not None:
        check_counts(name, max_steps=solver.max_steps)
    M = solver.preconditioner
    if M is None:
        return
    check_instance(name, "preconditioner", M, AbstractPreconditioner)
    if (solver.definite and not M.definite) or (solver.symmetric and not solver.definite and not M.indefinite):
        raise ValueError(
            f"{name}: the preconditioner {type(M).__name__} is not symmetric positive definite, which {name} needs; "
            "use GMRES or BiCGStab with it, or another preconditioner."
        )
