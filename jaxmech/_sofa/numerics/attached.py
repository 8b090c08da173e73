"""Nodes of one state that SOFA attaches to those of another."""

import equinox as eqx

from ..._linear_solver.base.vectors import Vector
from ..._model.dynamics import Fields
from ..._model.system import State
from ..._runtime.array_types import Array
from ..._scene.stencil import Stencil
from .unconverged_solvers import AbstractStepSolver, Past, Solved


class Attached(eqx.Module):
    """Pairs of nodes, when a step is over: AttachProjectiveConstraint.

    Of points the second goes half of the way to the first, and both take half of what their velocities differ by:
    `x2 += s (x1 - x2) / 2`, `v1 += s (v2 - v1) / 2`, `v2 -= s (v2 - v1) / 2`; a frame takes place and velocity of the
    first, without its turn where it is free (`turns`). Where it goes `two_ways`, forces and solutions are mixed as
    velocities are, those of frames added. `place`, `rate`, `response` `(e,)`: the factors `s` of each.
    """

    first: Stencil
    second: Stencil
    place: Array
    rate: Array
    response: Array
    two_ways: bool = eqx.field(static=True)
    frames: bool = eqx.field(static=True)
    turns: bool = eqx.field(static=True)

    def mixed(self, r: Vector) -> Vector:
        """Forces, as the two nodes of each pair share them."""
        if not self.frames:
            return self._halved(r, self.response)
        taken = slice(None) if self.turns else slice(0, 3)
        total = r[self.first.state][self.first.nodes, taken] + r[self.second.state][self.second.nodes, taken]
        r = dict(r)
        for end in (self.first, self.second):
            r[end.state] = r[end.state].at[end.nodes, taken].set(total)
        return r

    def joined(self, end: State) -> State:
        """The end of a step."""
        x, v = dict(end.position), dict(end.velocity)
        (one, a), (other, b) = ((s.state, s.nodes) for s in (self.first, self.second))
        if self.frames:
            x[other] = x[other].at[b, : 7 if self.turns else 3].set(x[one][a, : 7 if self.turns else 3])
            v[other] = v[other].at[b, : 6 if self.turns else 3].set(v[one][a, : 6 if self.turns else 3])
        else:
            x[other] = x[other].at[b].add(-0.5 * self.place[:, None] * (x[other][b] - x[one][a]))
            v = self._halved(v, self.rate)
        return eqx.tree_at(lambda s: (s.position, s.velocity), end, (x, v))

    def _halved(self, r: Fields, share: Array) -> Fields:
        (one, a), (other, b) = ((s.state, s.nodes) for s in (self.first, self.second))
        gap = 0.5 * share[:, None] * (r[other][b] - r[one][a])
        r = dict(r)
        r[one] = r[one].at[a].add(gap)
        r[other] = r[other].at[b].add(-gap)
        return r


def joined(attached: tuple[Attached, ...], end: State) -> State:
    """The end of a step, one attachment after the other."""
    for pairs in attached:
        end = pairs.joined(end)
    return end


class _Mixed(eqx.Module):
    """`r -> mixed(A r)`."""

    A: Vector
    attached: tuple[Attached, ...]

    def mv(self, r: Vector) -> Vector:
        return _mixed(self.attached, self.A.mv(r))


def _mixed(attached: tuple[Attached, ...], r: Vector) -> Vector:
    for pairs in attached:
        r = pairs.mixed(r)
    return r


class SolvedTwoWays(AbstractStepSolver):
    """Conjugate gradients in the forces that the nodes of each pair share."""

    solver: AbstractStepSolver
    attached: tuple[Attached, ...]

    def solve(self, A: Vector, b: Vector, past: Past) -> Solved:
        return self.solver.solve(_Mixed(A, self.attached), _mixed(self.attached, b), past)
