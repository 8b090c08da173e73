"""The directions in which springs to the rest shape pull."""

import numpy as np

from .part_builder import PartBuilder
from .read.component import Component
from .read.graph import SceneObject
from .schemes import SOLVERS

_MATRIX_FREE = ("", "GraphScattered")


def is_matrix_free(solver: SceneObject) -> bool:
    """Whether a linear solver of SOFA's multiplies by forces, and has no matrix."""
    return solver.kind == "CGLinearSolver" and solver.data.get("template", "").strip() in _MATRIX_FREE


def active_directions(build: PartBuilder, part: Component, state: str) -> tuple[np.ndarray, np.ndarray] | None:
    """1 or 0 for each direction, of the force and of the matrix; None where all are active.

    In the matrix that SOFA assembles all translations are active; what it multiplies by without a matrix is as the force is.
    """
    dof = build.dofs[state]
    flags = part.reals("activeDirections", np.ones(dof.coord_size))
    if len(flags) < dof.coord_size:
        raise part.error(f"activeDirections has {len(flags)} entries, expected {dof.coord_size}")
    active = (flags[: dof.deriv_size] != 0).astype(float)
    if active.all():
        return None
    if not build.sofa:
        return active, active
    solvers = [o for o in build.within if o.kind in SOLVERS]
    free = [is_matrix_free(o) for o in solvers]
    if any(free) != all(free) or any("PCG" in o.kind for o in solvers):
        raise part.error("activeDirections with several linear solvers are translated with solver='exact' alone")
    assembled = active.copy()
    assembled[:3] = 1.0
    return active, active if free and all(free) else assembled
