"""Which equations say what others say already, and which contradict them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_tolerances
from .._runtime.precision import compiled
from .._scene.parameter import is_concrete
from .constraint_projection import project
from .constraint_report import equations, violations, with_multipliers
from .dynamics import total_force
from .system import State, System, check_inputs

_NOTHING = 1e-14  # [the unit of the row], what a row is off by that counts nowhere
_NIL = 1e-12  # of the longest row: a gradient that is rounding
_SAME = 1e-9  # of the length of a row: what of it is left by others, where it is one of theirs
_PART = 1e-6  # of the largest coefficient: what takes part


@dataclass(frozen=True)
class DependentRow:
    """Row `row` of element `element` of the constraint `constraint` depends on `others`, `(constraint, element, row)` each.

    `residual` [the unit of the row]: by how much it asks for something else than they do. `redundant`: it asks for the same;
    otherwise they conflict. Printed, it says so. Raises nothing.

    Example:

        row = jm.constraint.DependentRow("rod", 1, 0, (("rod", 0, 0),), 0.0, True)
        assert str(row) == "row 0 of element 1 of 'rod' says what row 0 of element 0 of 'rod' says."
    """

    constraint: str
    element: int
    row: int
    others: tuple[tuple[str, int, int], ...]
    residual: float
    redundant: bool

    def __str__(self) -> str:
        mine = _named(self.constraint, self.element, self.row)
        theirs = " and ".join(_named(*other) for other in self.others)
        if not self.others:
            what = (
                "asks for nothing" if self.redundant else f"is off by {self.residual:.3g}, and nothing it acts on can move"
            )
            return f"{mine} {what}."
        if self.redundant:
            return f"{mine} says what {theirs} say{'' if len(self.others) > 1 else 's'}."
        return f"{mine} contradicts {theirs}, by {self.residual:.3g}."


def _named(constraint: str, element: int, row: int) -> str:
    return f"row {row} of element {element} of '{constraint}'"


def dependent_rows(system: System, state: State, *, tolerance: float = 1e-6) -> list[DependentRow]:
    """The equations of a scene whose gradients depend on those of others before them, redundant and conflicting ones.

    The gradients `dg/dx` are those in the free directions at `state`; compliant rows depend on nothing. A dependent row
    is redundant if it is off by what the others are off by, to `tolerance` of what it and they are made of, gradients
    times positions (and radians), or 1e-14 [the unit of the row], and conflicts with them if it is not. Redundant rows
    leave multipliers undetermined: drop them, give them a compliance, or take
    `jm.solver.SchurComplement(..., least_norm=True)`; conflicting ones hold nowhere. On the host, with a dense matrix, for
    what ended in `RESULTS.singular`. Raises `ValueError` or `TypeError` for a state that is not one of the scene, and
    traced values.
    Source: G. H. Golub, C. F. Van Loan, *Matrix Computations*, 4th ed., 2013, ISBN 978-1-4214-0794-4, section 5.2.

    Example:

        rods = jm.constraint.Distance((("p", [0, 0]), ("p", [1, 1])), length=[1.0, 1.5])
        scene = jm.System({"p": jm.Vec2()}, constraints={"rods": rods})
        (row,) = jm.constraint.dependent_rows(scene, scene.at_rest({"p": [[0.0, 0.0], [1.0, 0.0]]}))
        assert not row.redundant and row.others == (("rods", 0, 0),) and abs(row.residual) == 0.5  # [m]
    """
    check_inputs("dependent_rows", system, state)
    check_tolerances("dependent_rows", tolerance=tolerance)
    if not is_concrete(*jax.tree.leaves((system, state))):
        raise ValueError("dependent_rows: the values of the scene and of its state must be known, they are being traced.")
    if not system.multiplier_constraints:
        return []
    return _dependent(hard_rows(system, state), tolerance)


class HardRows(NamedTuple):
    """What each hard row is called, its gradient in free directions, its value, and the size of what it is made of."""

    names: list[tuple[str, int, int]]
    J: np.ndarray
    g: np.ndarray
    sizes: np.ndarray

    @property
    def parts(self) -> np.ndarray:
        """By which part of that each is off, from 0 to 1: whatever the unit, rounding is a small one. None of a point
        that is held at the origin, whose coordinates are rounding too."""
        return np.where(np.abs(self.g) > _NOTHING, np.abs(self.g) / np.maximum(self.sizes, _NOTHING), 0.0)


def hard_rows(system: System, state: State) -> HardRows:
    """The rows without compliance of all constraints with multipliers."""
    all_gradients, full = (np.asarray(J) for J in _gradients(system, state))
    of_all = np.abs(all_gradients) @ extents(system, state)
    off = violations(system, state)
    offsets, start = {}, 0
    for s in system.multiplier_states:
        offsets[s], (n, d) = start, state.position[s].shape
        start += n * d
    names, places, values = [], [], []
    for name, constraint in system.multiplier_constraints.items():
        on = system.multiplier_stencils[name]
        nodes = np.unique(np.asarray(on.nodes)) if constraint.adds_up else np.asarray(on.nodes)
        size = state.position[on.state].shape[1]
        for element, node in enumerate(nodes):
            for row in range(size):
                if _compliance(constraint, element, row, size) == 0:
                    names.append((name, element, row))
                    places.append(offsets[on.state] + node * size + row)
                    values.append(float(off[name][element, row]))
    return HardRows(names, full[places], np.asarray(values), of_all[places] + np.abs(values))


def extents(system: System, state: State) -> np.ndarray:
    """How large what each direction of the states without multipliers moves is: its coordinates [m], one radian."""
    found = []
    for s in (s for s in state.position if s not in system.multiplier_states):
        x, dof = np.asarray(state.position[s], float), system.dofs[s]
        size = np.ones((len(x), dof.deriv_size))
        size[:, : dof.space_size] = np.abs(x[:, : dof.space_size]).max(initial=0.0)
        found.append(size.ravel())
    return np.concatenate(found)


def _compliance(constraint: Any, element: int, row: int, rows: int) -> float:
    C = np.asarray(constraint.compliance)
    if C.ndim == 2:
        return float(C[element, row % C.shape[1]])
    if C.ndim == 0:
        return float(C)
    of_rows = C.shape[0] in (1, rows) and _is_of_rows(constraint)
    return float(C[row % C.shape[0]] if of_rows else C[element])


def _is_of_rows(constraint: Any) -> bool:
    field = type(constraint).__dataclass_fields__.get("compliance")
    return field is not None and field.metadata.get("jaxmech", ("", 0, 0))[1] == 1


@compiled
def _gradients(system: System, state: State) -> Any:
    """`dg/dx` of every row of the states of multipliers, over all directions of the other states, and over the free ones."""
    scene, multipliers = equations(system), {s: state.position[s] for s in system.multiplier_states}
    flat, parted = jax.flatten_util.ravel_pytree(multipliers)

    def force(values: Any) -> Any:
        f = total_force(scene, with_multipliers(system, state, parted(values)))
        free = project(system, f)
        return tuple(-jnp.concatenate([v[s].ravel() for s in v if s not in multipliers]) for v in (f, free))

    return jax.vmap(lambda e: jax.jvp(force, (jnp.zeros_like(flat),), (e,))[1])(jnp.eye(flat.size, dtype=flat.dtype))


def _dependent(rows: HardRows, tolerance: float) -> list[DependentRow]:
    names, J, g, sizes = rows
    basis: list[np.ndarray] = []
    kept: list[int] = []
    found = []
    nil = _NIL * np.linalg.norm(J, axis=1).max(initial=0.0)
    for i, row in enumerate(J):
        rest, size = row.copy(), np.linalg.norm(row)
        size = size if size > nil else 0.0
        for _ in range(2):  # twice is enough (Kahan and Parlett)
            for b in basis:
                rest -= (b @ rest) * b
        if size > 0 and np.linalg.norm(rest) > _SAME * size:
            basis.append(rest / np.linalg.norm(rest))
            kept.append(i)
            continue
        c = np.linalg.lstsq(J[kept].T, row, rcond=None)[0] if size > 0 else np.zeros(0)
        parts = [k for k, weight in zip(kept, c, strict=False) if abs(weight) > _PART * np.abs(c).max()]
        residual = float(g[i] - (c @ g[kept] if c.size else 0.0))
        size = sizes[i] + np.abs(c) @ sizes[kept] if c.size else sizes[i]
        others = tuple(names[k] for k in parts)
        found.append(DependentRow(*names[i], others, residual, bool(abs(residual) <= max(tolerance * size, _NOTHING))))
    return found
