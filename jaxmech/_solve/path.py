"""What a path of equilibria is: its points, its critical points, and a report of how it was found."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._model.dynamics import Fields
from .._model.system import State
from .._runtime.argument_checks import plain
from .._runtime.array_types import Array, Float, Int
from .._runtime.host_arrays import as_data
from .._runtime.jax_internals import index_of, names_of
from .._runtime.results import RESULTS
from .critical_point import CriticalPoint


class CutBack(eqx.Module):
    """A step that was given up: from which point, how long it was, and why (a member of `RESULTS`).

    `length` in the unit of `Path.steps`. Raises nothing.

    Example:

        rest = truss(0.0).at_rest({"p": [[0.0, 1.0]]})
        path = jm.follow_path(truss, rest, control="load", step=300.0, steps=3, throw=False)
        assert path.cutbacks[0].after == 1 and path.cutbacks[0].result != jm.RESULTS.successful  # beyond the limit load
    """

    after: int = eqx.field(static=True)
    length: float = eqx.field(static=True)
    result: Any


class PathInfo(eqx.Module):
    """Why a path ended: `result` (of `RESULTS`; `successful` where it went as far as was asked), the last `residual` and its
    rounding `floor` [N], and `unconstrained_state`, as in `NewtonInfo`. Raises nothing.

    Example:

        path = jm.follow_path(truss, truss(0.0).at_rest({"p": [[0.0, 1.0]]}), step=5.0, steps=2)
        assert path.info.result == jm.RESULTS.successful
    """

    result: Any
    residual: Array
    floor: Array
    unconstrained_state: Array


class Path(eqx.Module):
    """The equilibria found, the start first, every array with a leading axis of points.

    `loads` `(n,)`: the factors `mu` [-]; `state`: the states, stacked; `displacement`: of the coordinate that was named,
    from the start [m, rad] (nil if none was); `unstable`: the number of negative eigenvalues of the tangent, 0 where stable,
    -1 where not known (a tangent that is not symmetric); `iterations` of Newton; `steps`: the length of each step, a load, a
    displacement, or an arc length [-]; `residuals` [N]. `critical`: the limit points and bifurcations, with
    `critical_displacement`; `turns`: the points
    `(load, displacement)` where the displacement turns; `cutbacks`: the steps that were given up; `info`: why it ended.
    Raises nothing: `follow_path` does.

    Example:

        path = jm.follow_path(truss, truss(0.0).at_rest({"p": [[0.0, 1.0]]}), step=50.0, steps=12, displacement=("p", 0, 1))
        assert path.position["p"].shape == (13, 1, 2) and path.unstable[0] == 0 and path.unstable[-1] > 0
        assert "limit point" in path.report()
    """

    loads: Float[Array, " n"]
    state: State
    displacement: Float[Array, " n"]
    unstable: Int[Array, " n"]
    iterations: Int[Array, " n"]
    steps: Float[Array, " n"]
    residuals: Float[Array, " n"]
    critical: tuple[CriticalPoint, ...]
    critical_displacement: Float[Array, " m"]
    turns: tuple[tuple[Array, Array], ...]
    cutbacks: tuple[CutBack, ...]
    info: PathInfo

    @property
    def position(self) -> Fields:
        """`(n, nodes, coord_size)` of every main state [m]."""
        return self.state.position

    def at(self, number: int) -> State:
        """The state of one point: from there another path can start, with `load=path.loads[number]`."""
        number = plain(number)
        if isinstance(number, bool) or not isinstance(number, int) or not -len(self.loads) <= number < len(self.loads):
            raise ValueError(f"Path.at: number must be that of one of {len(self.loads)} points, got {number!r:.80}.")
        return jax.tree.map(lambda a: a[number], self.state)

    def report(self) -> str:
        """A table of the points, with what was given up and what was passed between them."""
        head = f"{'point':>5} {'load':>13} {'displacement':>13} {'step':>10} {'iterations':>10} {'unstable':>8}  remarks"
        lines = [head]
        columns = (self.loads, self.displacement, self.steps, self.iterations, self.unstable)
        for i, (load, w, step, iterations, unstable) in enumerate(zip(*(np.asarray(c) for c in columns), strict=True)):
            count = "?" if unstable < 0 else unstable
            row = f"{i:5d} {load:13.6g} {w:13.6g} {step:10.3g} {iterations:10d} {count:>8}  {self._cut(i - 1)}"
            lines.append(row.rstrip())
            lines += [f"{'':5} {float(c.load):13.6g} {'':45} {c.kind} point" for c in self.critical if c.after == i]
        ended = _reason(self.info.result)
        last = self._cut(len(self.loads) - 1)
        lines.append(f"ended: {ended}" + (f" ({last})" if last else ""))
        return "\n".join(lines)

    def _cut(self, after: int) -> str:
        """The steps given up after a point, in words."""
        return ", ".join(f"{c.length:.3g} cut back: {_reason(c.result)}" for c in self.cutbacks if c.after == after)


def _reason(result: Any) -> str:
    return names_of(RESULTS)[int(np.asarray(index_of(result)))].replace("_", " ")


def stacked(values: Sequence[Any]) -> Any:
    """Pytrees of one structure with a leading axis; by NumPy, for another program would be compiled for every length."""
    return jax.tree.map(lambda *a: as_data(np.stack([np.asarray(x) for x in a])), *values)
