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
from .critical_time_step import Stability
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

    def columns(self) -> np.ndarray:
        """`(stages, rows)`: the weights of the rates of a stage in the rows that are read after it: those of the stages to
        come, of the result, and of the difference of the results; then nil."""
        stages, read = len(self.rows), (*self.rows, self.weights, *([self.apart] if self.apart else []))
        all_rows = np.array([[float(a) for a in row] + [0.0] * (stages - len(row)) for row in read])
        columns = np.zeros((stages, len(read) - 1))
        for j in range(stages):
            columns[j, : len(read) - 1 - j] = all_rows[j + 1 :, j]
        return columns


# What rows of a tableau have summed so far, that of the next stage first: displacements in the chart of the start, and
# changes of velocity, `(rows, 2, nodes, d)` of every state. In one array, of which a turn of the loop reads all before it
# writes any, where that is small; two of `(rows, 1, nodes, d)` are copied in every turn.
_Sums = dict[str, tuple[Array, ...]]


class AbstractRungeKutta(AbstractExplicitScheme):
    """A scheme of stages, each of them at the start moved by the rates of those before: a subclass is its `tableau`.

    Frames move in the chart of the start, whose rates are told from velocities (Munthe-Kaas), so that rotations converge
    at the order of the scheme too. Where the last stage is the result, the carry holds the acceleration there.
    Source: H. Munthe-Kaas, BIT 38 (1998) 92, doi:10.1007/BF02510919.
    """

    tableau: ClassVar[Tableau]

    @property
    def stable(self) -> Stability:
        return Stability(self.stability, self.damped_stability, joint=False)

    @property
    def solves(self) -> int:
        return len(self.tableau.rows)

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
        sums, last = self._summed(system, start, carry, h)
        d, faster = _at(sums, 0)
        if t.apart:
            dx, dv = (project(system, e) for e in _at(sums, 1))
            error = tangents_at_end(system, start.position, project(system, d), dx), dv
        end = self.arrived(system, start, carry, d, combined((1.0, start.velocity), (1.0, faster)), h)
        return end, last if t.ends_in_a_stage else None, error

    def _summed(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[_Sums, Fields]:
        """The row of the result, and of another's difference, after all stages; and the acceleration of the last stage.

        Stages are turns of one loop, which is traced and compiled once. What a stage is made of is linear in the rates of
        those before: reverse mode keeps of a turn where its stage is.
        """
        columns, places = self.tableau.columns(), np.array([float(c) for c in self.tableau.places])
        sums, first = {s: _none(columns.shape[1], v) for s, v in start.velocity.items()}, 0
        last = {s: jnp.zeros_like(v) for s, v in start.velocity.items()}
        if self.tableau.ends_in_a_stage:
            sums, last, first = _added(sums, h * columns[0], start.velocity, carry.memory), carry.memory, 1

        @anew
        def rates(d: Fields, faster: Fields, later: Array) -> tuple[Fields, Fields]:
            at = _moved(system, start, d, faster, later)
            return chart_rates(system, start.position, d, at.velocity), self.acceleration(system, at, carry)

        def stage(known: tuple[_Sums, Fields], turn: tuple[Array, Array]) -> tuple[tuple[_Sums, Fields], None]:
            column, place = turn
            moving, a = rates(*_at(known[0], 0), place * h)
            a = {s: v.astype(known[1][s].dtype) for s, v in a.items()}
            return (_added(known[0], h * column, moving, a), a), None

        begun = differentiated_with((sums, last), (system, start, carry, h))
        turns = columns[first:].astype(h.dtype), places[first:].astype(h.dtype)
        return jax.lax.scan(stage, begun, turns)[0]


def _none(rows: int, v: Array) -> tuple[Array, ...]:
    """Room for what rows sum of a state whose velocities are `v`."""
    both = 2 * rows * v.size * v.dtype.itemsize <= SMALL
    return tuple(jnp.zeros((rows, 2 if both else 1, *v.shape), v.dtype) for _ in range(1 if both else 2))


def _at(sums: _Sums, row: int) -> tuple[Fields, Fields]:
    """The displacements and the changes of velocity that a row has summed."""
    return {s: a[0][row, 0] for s, a in sums.items()}, {s: a[-1][row, -1] for s, a in sums.items()}


def _added(sums: _Sums, column: Any, moving: Fields, speeding: Fields) -> _Sums:
    """With a stage's rates times their weights in the rows to come: the first row has been read, and the next is first."""
    w = column[:, None, None, None]

    def added(rows: Array, new: tuple[Array, ...]) -> Array:
        ahead = jnp.concatenate([rows[1:], jnp.zeros_like(rows[:1])])
        return ahead + w.astype(rows.dtype) * jnp.stack([a.astype(rows.dtype) for a in new])

    def parted(s: str) -> tuple[tuple[Array, ...], ...]:
        both = moving[s], speeding[s]
        return (both,) if len(sums[s]) == 1 else tuple((a,) for a in both)

    return {s: tuple(map(added, rows, parted(s))) for s, rows in sums.items()}


def _moved(system: System, start: State, d: Fields, faster: Fields, later: Array) -> State:
    """The start moved by displacements, faster by changes of velocity."""
    return reached(system, start, d, combined((1.0, start.velocity), (1.0, faster)), later)
