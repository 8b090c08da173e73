"""What methods of Runge and Kutta share: a scheme is its tableau."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ..._model.constraint_projection import project
from ..._model.dynamics import Fields
from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..._runtime.loops import SMALL, differentiated_with
from ..._runtime.reverse_mode import anew
from ..displaced import chart_rates, combined, tangents_at_end
from ..mass_inverse import acceleration
from ..step_doubling import Error
from .explicit_scheme import AbstractExplicitScheme, ExplicitCarry, reached

_Row = tuple[Fraction, ...]


@dataclass(frozen=True)
class Tableau:
    """The coefficients of an explicit method: those of each stage, the weights of the result, and these less the weights of
    another result of the same stages (of an embedded pair), with which it is compared.

    Rows of stages are as long as there are stages before.
    """

    rows: tuple[_Row, ...]
    weights: _Row
    apart: _Row = ()

    @classmethod
    def of(cls, rows: Sequence[str], weights: str, apart: str = "") -> "Tableau":
        """Of decimals and fractions, with blanks between."""
        a, b, e = ([tuple(map(Fraction, row.split())) for row in part] for part in (rows, [weights], [apart]))
        return cls(tuple(a), b[0], e[0])

    @property
    def ends_in_a_stage(self) -> bool:
        """Whether the last stage is the result, so that its forces are those of the first stage of the next step."""
        return (*self.rows[-1], Fraction(0)) == self.weights

    @property
    def places(self) -> tuple[Fraction, ...]:
        """Where in the step each stage is."""
        return tuple(sum(row, Fraction(0)) for row in self.rows)

    def numbers(self, row: _Row) -> np.ndarray:
        """A row as long as there are stages."""
        return np.array([float(a) for a in row] + [0.0] * (len(self.rows) - len(row)))


# The rates of displacements in the chart of the start, and of velocities: `(stages, 2, nodes, d)` of every state. In one
# array, of which a turn of the loop reads all before it writes any, where that is small; two of `(stages, 1, nodes, d)` are
# copied in every turn.
_Rates = dict[str, tuple[Array, ...]]


class AbstractRungeKutta(AbstractExplicitScheme):
    """A scheme of stages, each of them at the start moved by the rates of those before: a subclass is its `tableau`.

    Frames move in the chart of the start, whose rates are told from velocities (Munthe-Kaas), so that rotations converge
    at the order of the scheme too. Where the last stage is the result, the carry holds the acceleration there.
    Source: H. Munthe-Kaas, BIT 38 (1998) 92, doi:10.1007/BF02510919.
    """

    tableau: ClassVar[Tableau]

    def memory(self, system: System, state: State, inverse: Fields | None) -> Fields | None:
        if not self.tableau.ends_in_a_stage:
            return None
        a = acceleration(system, state, inverse, self.solver)
        return {s: a[s].astype(v.dtype) for s, v in state.velocity.items()}  # as steps hand it on

    def move(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[State, Any]:
        return self.told_move(system, start, carry, h)[:2]

    def told_move(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[State, Any, Error | None]:
        """`move`, and what the other result lacks of this one, a tangent at the end."""
        t, error = self.tableau, None
        rates = self._rates(system, start, carry, h)
        d, end = _stage(system, start, rates, t.numbers(t.weights), h, h)
        if t.apart:
            dx, dv = (project(system, e) for e in _weighted(rates, t.numbers(t.apart), h))
            error = tangents_at_end(system, start.position, project(system, d), dx), dv
        return end, {s: a[-1][-1, -1] for s, a in rates.items()} if t.ends_in_a_stage else None, error

    def _rates(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> _Rates:
        """Those of all stages. Stages are turns of one loop, which is traced and compiled once."""
        t, before = self.tableau, start.velocity
        known, first = {s: _none(len(t.rows), v) for s, v in before.items()}, 0
        if t.ends_in_a_stage:
            known, first = _with(known, 0, before, carry.memory), 1

        def stage(known: _Rates, turn: tuple[Array, Array, Array]) -> tuple[_Rates, None]:
            number, row, place = turn
            d, at = _stage(system, start, known, row, h, place * h)
            moving = chart_rates(system, start.position, d, at.velocity)
            return _with(known, number, moving, self.acceleration(system, at, carry)), None

        begun = differentiated_with(known, (system, start, carry, h))
        rows, places = np.stack([t.numbers(row) for row in t.rows]), np.array([float(c) for c in t.places])
        turns = np.arange(first, len(rows)), rows[first:].astype(h.dtype), places[first:].astype(h.dtype)
        return jax.lax.scan(anew(stage), begun, turns)[0]


def _none(stages: int, v: Array) -> tuple[Array, ...]:
    """Room for the rates of a state whose velocities are `v`."""
    both = 2 * stages * v.size * v.dtype.itemsize <= SMALL
    return tuple(jnp.zeros((stages, 2 if both else 1, *v.shape), v.dtype) for _ in range(1 if both else 2))


def _with(known: _Rates, number: Any, moving: Fields, speeding: Fields) -> _Rates:
    """With the rates of displacements and of velocities of a stage."""

    def written(rows: Array, new: tuple[Array, ...]) -> Array:
        return jax.lax.dynamic_update_index_in_dim(rows, jnp.stack([a.astype(rows.dtype) for a in new]), number, 0)

    def parted(s: str) -> tuple[tuple[Array, ...], ...]:
        both = moving[s], speeding[s]
        return (both,) if len(known[s]) == 1 else tuple((a,) for a in both)

    return {s: tuple(map(written, rows, parted(s))) for s, rows in known.items()}


def _weighted(rates: _Rates, weights: Any, h: Array) -> tuple[Fields, Fields]:
    """`h` times the sum of the rates times their weights, of displacements and of velocities."""
    w = (h * weights)[:, None, None, None]
    totals = {s: [jnp.sum(w.astype(a.dtype) * a, axis=0) for a in parts] for s, parts in rates.items()}
    return {s: a[0][0] for s, a in totals.items()}, {s: a[-1][-1] for s, a in totals.items()}


def _stage(system: System, start: State, rates: _Rates, row: Any, h: Array, later: Array) -> tuple[Fields, State]:
    """The displacement that a row gives, and the state there."""
    d, faster = _weighted(rates, row, h)
    return d, reached(system, start, d, combined((1.0, start.velocity), (1.0, faster)), later)
