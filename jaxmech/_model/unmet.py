"""Why equations with multipliers are not met, in words: looked for on the host, after a computation that failed."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._runtime.precision import compiled
from .constraint_projection import prescribed, project
from .constraint_report import row_units
from .dependent_rows import HardRows, dependent_rows, extents, hard_rows
from .dynamics import retract
from .system import State, System

_MOST_ROWS = 500  # whose gradients are a dense matrix
_TURNS = 60
_MET = 1e-8  # of what a row is made of
_FAR = 1e-2  # of the same, a start that Newton's method may not come back from
_STILL = 1e-9  # of the squares of violations, what a step must take off
_PART = 1e-3  # of the largest violation: what is told
_MOST_TOLD = 4


def why_unmet(system: System, state: State, *, singular: bool) -> str:
    """What of the equations of a scene explains a failure from `state`, a sentence or more; nothing if nothing does.

    `singular`: the failure was that multipliers were not determined; then rows that depend on each other come first.
    """
    if not _few_rows(system, state):
        return ""
    dependent = why_undetermined(system, state) if singular else ""
    return dependent or _how_far(system, _where_prescribed(system, state))


def why_undetermined(system: System, state: State) -> str:
    """The rows that depend on each other at `state`, a sentence or two; nothing if there are none."""
    dependent = (
        [row for row in dependent_rows(system, state) if row.others or row.redundant] if _few_rows(system, state) else []
    )
    if not dependent:
        return ""
    told = _some([str(row).removesuffix(".") for row in dependent], "; ")
    advice = (
        "Leave such out, or give them a compliance" if all(row.redundant for row in dependent) else "No motion fulfils both"
    )
    return f" Here {told}. {advice}."


def _few_rows(system: System, state: State) -> bool:
    return 0 < sum(state.position[s].size for s in system.multiplier_states) <= _MOST_ROWS


def nowhere_met(system: System, state: State) -> str:
    """What is off of the hard equations where they are nearest to holding, a sentence; nothing if they hold near `state`."""
    rows = sum(state.position[s].size for s in system.multiplier_states)
    return (
        _nowhere(system, _least(system, _Violated.of(system, _where_prescribed(system, state))))
        if rows <= _MOST_ROWS
        else ""
    )


@compiled
def _where_prescribed(system: System, state: State) -> State:
    to = prescribed(system, state.position, state.time)
    return replace(state, position=retract(system.dofs, state.position, to))


def _how_far(system: System, state: State) -> str:
    start = _Violated.of(system, state)
    if nowhere := _nowhere(system, _least(system, start)):
        return nowhere
    if start.most < _FAR:
        return ""
    worst = _off(system, start.rows, int(np.argmax(start.rows.parts)))
    return f" Where it starts, {worst}: start nearer to where the equations hold."


def _nowhere(system: System, best: "_Violated") -> str:
    if best.most <= _MET:
        return ""
    told = [_off(system, best.rows, i) for i in np.flatnonzero(best.rows.parts > _PART * best.most)]
    return (
        f" No position was found in which the equations hold: at best {_some(told, ', ')}. Look at what they ask for "
        "(lengths, frames, targets), at each other, and at what holds the nodes that they act on."
    )


class _Violated(NamedTuple):
    """A state, and its hard rows."""

    state: State
    rows: HardRows

    @classmethod
    def of(cls, system: System, state: State) -> "_Violated":
        return cls(state, hard_rows(system, state))

    @property
    def most(self) -> float:
        return float(self.rows.parts.max(initial=0.0))

    @property
    def squares(self) -> float:
        return float(self.rows.g @ self.rows.g)


def _least(system: System, start: _Violated) -> _Violated:
    """Where the squares of the violations are least near `start`.

    Where a violation is greatest its gradient vanishes: so it is looked for once more from a little beside.
    """
    found = _descended(system, start)
    if found.most <= _MET:
        return found
    shake = 0.1 * start.most * extents(system, start.state) * np.random.default_rng(0).normal(size=start.rows.J.shape[1])
    again = _descended(system, _Violated.of(system, _moved(system, start.state, shake)))
    return min(found, again, key=lambda v: v.squares)


def _descended(system: System, at: _Violated) -> _Violated:
    """The end of steps `(J^T J + s) d = -J^T g` of Levenberg and Marquardt (J. Nocedal and S. J. Wright, section 10.3)."""
    damping = 1e-3
    for _ in range(_TURNS):
        J, g = at.rows.J, at.rows.g
        W = J @ J.T
        if at.most <= _MET or damping > 1e3 or not W.any():
            break
        W += damping * np.trace(W) / len(W) * np.eye(len(W))
        trial = _Violated.of(system, _moved(system, at.state, -J.T @ np.linalg.solve(W, g)))
        gain = at.squares - trial.squares
        if 0 <= gain < _STILL * at.squares:
            break
        at, damping = (trial, max(0.1 * damping, 1e-10)) if gain > 0 else (at, 10 * damping)
    return at


@compiled
def _moved(system: System, state: State, d: Any) -> State:
    """`state` moved by a vector of the directions that gradients are taken in."""
    moves, begin = {}, 0
    for s, x in state.position.items():
        size = (x.shape[0], system.dofs[s].deriv_size)
        if s in system.multiplier_states:
            moves[s] = jnp.zeros(size, x.dtype)
            continue
        end = begin + size[0] * size[1]
        moves[s], begin = d[begin:end].reshape(size).astype(x.dtype), end
    return replace(state, position=retract(system.dofs, state.position, project(system, moves)))


def _off(system: System, rows: HardRows, i: int) -> str:
    """By how much a row is off, in words."""
    (constraint, element, row), g = rows.names[i], float(rows.g[i])
    of = system.multiplier_constraints[constraint]
    unit = row_units(of, row + 1)[row]
    which = "" if of.sides else f"row {row} of "
    side = of.sides[g > 0] if of.sides else "off"
    amount = f"{abs(g) if of.sides else g:.3g} {unit}"
    where = f"{which}element {element} of '{constraint}' ({of.kind})"
    return f"{where} is {amount} {side}" if of.sides else f"{where} is {side} by {amount}"


def _some(told: list[str], between: str) -> str:
    more = len(told) - _MOST_TOLD
    return between.join(told[:_MOST_TOLD]) + (f"{between}and {more} more" if more > 0 else "")
