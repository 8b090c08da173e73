"""Equations and what they hold, solved one after the other: a factor of `A`, and the dense compliance of the rows."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._runtime.argument_checks import check_flags, check_instance
from .._runtime.array_types import Array
from .._runtime.precision import full_precision
from .._runtime.results import RESULTS
from .._sparse.block_matrix import BlockMatrix
from .base.outcome import FINE, SINGULAR, outcome, reason
from .base.vectors import Vector, norm
from .default import default_solver
from .dense.whole_matrix import is_rounding_alone

_NIL = 1e-11  # of the largest eigenvalue of W, scaled: what a row has less that others say already
_CONFLICT = 1e-9  # of what its terms are of, what such a row may ask for


def _as_names(names: Any) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else names
    if not isinstance(given, tuple | list) or not given or not all(isinstance(name, str) for name in given):
        raise TypeError(f"SchurComplement: multipliers must be names of states, got {names!r:.80}.")
    return tuple(given)


class SchurComplement(lx.AbstractLinearSolver):
    """`(A, B; J, -C) (x, l) = (f, g)` by `W l = J A^-1 f - g`, `W = J A^-1 B + C`, then `A x = f - B l`.

    `multipliers`: the names of the states of `l`, `system.multiplier_states` say; `solver`: for `A`, the block of all
    other states, which must be regular by itself, as that of a time step and of bodies that are held is; `default_solver`
    unless given. A direct one factors once for all rows. `W`, `(m, m)` and dense, is SOFA's compliance of the constraints
    [m/N]; it fits a few hundred rows, and the factor of `A` stays one of a definite matrix.

    `least_norm`: of multipliers that redundant rows leave undetermined, those of least norm; rows that conflict with
    others are violated together, by least squares. `RESULTS.singular` unless it is given, or where rows conflict by more
    than rounding. A row that nothing moves, across the plane of an arm, is left as far off as it is. Raises
    `ValueError` for an operator that is not a `BlockMatrix`, or has no such states.
    Source: M. Benzi, G. H. Golub, J. Liesen, Acta Numerica 14 (2005) 1, doi:10.1017/S0962492904000212, section 5.

    Example:

        pin = jm.constraint.Attachment(("p", [0, 0]), offset=[1.0, 2.0])  # twice the same
        spring = jm.force.AnchoredSprings(("p", [0]), 10.0, [[0.0, 0.0]])
        scene = jm.System({"p": jm.Vec2()}, forces={"spring": spring}, constraints={"pin": pin})
        solver = jm.solver.SchurComplement(scene.multiplier_states, least_norm=True)
        found = jm.static_solve(scene, scene.at_rest({"p": [[0.0, 0.0]]}), solver=solver)
        assert jnp.allclose(found.position["p"], jnp.array([[1.0, 2.0]]))
        assert jnp.allclose(found.position["pin"], -0.5 * jnp.array([[10.0, 20.0]] * 2))  # [N], half of it each
    """

    multipliers: tuple[str, ...] = eqx.field(static=True, converter=_as_names)
    solver: lx.AbstractLinearSolver | None = None
    least_norm: bool = eqx.field(static=True, default=False, kw_only=True)

    def __check_init__(self):
        if self.solver is not None:
            check_instance("SchurComplement", "solver", self.solver, lx.AbstractLinearSolver)
        check_flags("SchurComplement", least_norm=self.least_norm)

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        del options
        if not isinstance(operator, BlockMatrix):
            raise ValueError(
                f"SchurComplement takes a BlockMatrix, not a {type(operator).__name__}: use MatrixLinearSystem."
            )
        states = [s for s, _, _ in operator.sizes]
        missing = [name for name in self.multipliers if name not in states]
        if missing or set(states) == set(self.multipliers):
            raise ValueError(
                f"SchurComplement: multipliers {self.multipliers} must name some of the states {states}, not all."
            )
        return operator, False

    @full_precision
    def compute(self, state, vector: Vector, options: dict[str, Any]):
        del options
        operator, transposed = state
        A, B, J, C = self._parts(operator.transpose() if transposed else operator)
        solver = default_solver(A) if self.solver is None else self.solver
        f, g = ({s: v for s, v in vector.items() if (s in self.multipliers) == of} for of in (False, True))

        def solved(b: Vector) -> lx.Solution:
            return lx.linear_solve(A, b, solver, throw=False)

        start = solved(f)
        columns = _columns(B, {s: a.shape for s, a in g.items()})
        Y = jax.vmap(lambda b: solved(b).value)(columns)  # A^-1 B, (m, ...)
        JY = jax.vmap(lambda y: _flat(_product(J, y, g)))(Y).T
        of_start = _flat(_product(J, start.value, g))
        W, q = JY + C, of_start - _flat(g)
        terms = jnp.abs(of_start) + jnp.abs(_flat(g))
        l, flaw = _multipliers(W, q, terms, _rounding_alone(J, C, g), self.least_norm)
        x = {s: a - jnp.tensordot(l, Y[s], 1) for s, a in start.value.items()}
        pieces = _parted(l, g)
        answer = {s: x[s] if s in x else pieces[s] for s in vector}
        result, why = outcome(flaw)
        failed = start.result != lx.RESULTS.successful
        result = lx.RESULTS.where(failed, start.result, result)
        why = RESULTS.where(failed, reason(start), why)
        left = {s: vector[s] - a for s, a in (operator.transpose() if transposed else operator).mv(answer).items()}
        unknown = jnp.full((), -1, jnp.int32)
        names = [s for s, _, _ in A.sizes]
        inner = start.stats.get("unconstrained_state", unknown)
        places = jnp.asarray([[s for s, _, _ in operator.sizes].index(s) for s in names], jnp.int32)
        own = jnp.asarray([s for s, _, _ in operator.sizes].index(self.multipliers[0]), jnp.int32)
        said = jnp.where(failed, jnp.where(inner >= 0, places[inner], -1), jnp.where(flaw == SINGULAR, own, -1))
        stats = {"num_steps": jnp.asarray(start.stats["num_steps"], jnp.int32), "residual": norm(left)}
        return answer, result, stats | {"unconstrained_state": said, "reason": why}

    def _parts(self, operator: BlockMatrix) -> tuple[BlockMatrix, dict, dict, Array]:
        """`A`, `B` and `J` by pairs of states, and `C` dense."""
        mine = set(self.multipliers)
        of = {p: e for p, e in operator.entries.items()}
        inner = {p: e for p, e in of.items() if not mine & set(p)}
        sizes = tuple(z for z in operator.sizes if z[0] not in mine)
        A = replace(operator, entries=inner, sizes=sizes, indefinite=False)
        B = {p: e for p, e in of.items() if p[0] not in mine and p[1] in mine}
        J = {p: e for p, e in of.items() if p[0] in mine and p[1] not in mine}
        held = tuple(z for z in operator.sizes if z[0] in mine)
        rows = [
            [of[r, c].to_dense() if (r, c) in of else jnp.zeros((n * d, m * e), operator.dtype) for c, m, e in held]
            for r, n, d in held
        ]
        return A, B, J, -jnp.block(rows)

    def transpose(self, state, options: dict[str, Any]):
        operator, transposed = state
        return (operator, not transposed and not operator.symmetric), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return not self.least_norm


def _columns(B: dict, shapes: dict[str, tuple[int, ...]]) -> Vector:
    """`B` times every unit vector of the multipliers, `(m, nodes, size)` by state."""
    size = sum(n * d for n, d in shapes.values())
    total: Vector = {}
    start = 0
    for state in sorted(shapes):
        n, d = shapes[state]
        units = jnp.eye(size)[:, start : start + n * d].reshape(size, n, d)
        start += n * d
        for (row, column), entry in B.items():
            if column == state:
                part = jax.vmap(entry.mv)(units.astype(entry.values.dtype))
                total[row] = total[row] + part if row in total else part
    return total


def _product(J: dict, x: Vector, like: Vector) -> Vector:
    total = {s: jnp.zeros_like(a) for s, a in like.items()}
    for (row, column), entry in J.items():
        total[row] = total[row] + entry.mv(x[column])
    return total


def _flat(fields: Vector) -> Array:
    return jnp.concatenate([fields[s].ravel() for s in sorted(fields)])


def _parted(l: Array, like: Vector) -> Vector:
    parts, start = {}, 0
    for s in sorted(like):
        parts[s] = l[start : start + like[s].size].reshape(like[s].shape)
        start += like[s].size
    return parts


def _rounding_alone(J: dict, C: Array, like: Vector) -> Array:
    """Which rows nothing answers to but rounding, beside the largest of their state: across the plane of an arm, say.

    `W` has the square of it, which scaled to one would count. A state is a constraint, so that rows beside each other
    differ by a length, of forces and moments, at most; those of different constraints may by any power of it.
    """
    sizes = {p: replace(e, values=jnp.abs(e.values)) for p, e in J.items()}
    ones = {p[1]: jnp.ones((e.pattern.shape[1], e.values.shape[-1]), e.values.dtype) for p, e in J.items()}
    of_rows = _product(sizes, ones, like)
    nil = {s: is_rounding_alone(a, jnp.max(a, initial=0.0)) for s, a in of_rows.items()}
    return _flat(nil) & (jnp.diagonal(C) == 0)


def _multipliers(W: Array, q: Array, terms: Array, nil: Array, least_norm: bool) -> tuple[Array, Array]:
    """`W l = q`, and what is wrong. `W` is scaled to ones on its diagonal: rows may be of different units.

    Rows that are `nil` are left out. What they ask for is rounding of positions, whose size is not known here, or what no
    motion gives: Newton's method, and a step that looks at its equations, say so of the latter.
    """
    W, q, terms = jnp.where(nil[:, None] | nil, 0.0, W), jnp.where(nil, 0.0, q), jnp.where(nil, 0.0, terms)
    size = jnp.sqrt(jnp.abs(jnp.diagonal(W)))
    d = jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1.0), 1.0)
    scaled = d[:, None] * W * d
    if not least_norm:
        l = d * jnp.linalg.solve(scaled, d * q)
        values = jnp.abs(jnp.linalg.eigvalsh(0.5 * (scaled + scaled.T)))
        return l, jnp.where(jnp.min(values) > _NIL * jnp.max(values), FINE, SINGULAR)
    values, vectors = jnp.linalg.eigh(0.5 * (scaled + scaled.T))
    held = jnp.abs(values) > _NIL * jnp.max(jnp.abs(values))
    parts = vectors.T @ (d * q)
    l = d * (vectors @ jnp.where(held, parts / jnp.where(held, values, 1.0), 0.0))
    nothing = jnp.where(held, 0.0, d[:, None] * vectors)  # multipliers that do nothing
    share = jnp.linalg.solve(nothing.T @ nothing + jnp.diag(held.astype(l.dtype)), nothing.T @ l)
    # What terms cancel in is rounded before it comes here, and no more exact than the largest of the whole.
    rounding = 32 * jnp.finfo(l.dtype).eps * jnp.linalg.norm(d * terms) + jnp.finfo(l.dtype).tiny
    conflict = jnp.where(held, 0.0, jnp.abs(parts)) > _CONFLICT * (jnp.abs(vectors).T @ (d * terms)) + rounding
    return l - nothing @ share, jnp.where(jnp.any(conflict), SINGULAR, FINE)
