"""The directions in which springs to the rest shape pull, and what their matrix is where SOFA has it otherwise."""

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
    if not build.sofa or not assembles(build, part, "activeDirections"):
        return active, active
    assembled = active.copy()
    assembled[:3] = 1.0
    return active, assembled


def assembles(build: PartBuilder, part: Component, what: str) -> bool:
    """Whether the linear solver has a matrix, in which `what` differs from what the force has."""
    solvers = [o for o in build.within if o.kind in SOLVERS]
    free = [is_matrix_free(o) for o in solvers]
    if any(free) != all(free) or any("PCG" in o.kind for o in solvers):
        raise part.error(f"{what} with several linear solvers are translated with solver='exact' alone")
    return not free or not all(free)


def assembled_stiffness(
    build: PartBuilder, part: Component, state: str, nodes: np.ndarray, k: np.ndarray, angular: np.ndarray
) -> np.ndarray | None:
    """Stiffness and angular stiffness of each spring in the matrix that SOFA assembles, where they differ from the force's.

    `k[i]` and `angular[i]`, or the first ones beyond their end, are of spring `i` in the force, of node `i` in the matrix.
    """
    if not build.sofa:
        return None
    there, here = (np.stack([_entries(k, i), _entries(angular, i)], 1) for i in (nodes, np.arange(len(nodes))))
    if np.array_equal(there, here) or not assembles(build, part, "several numbers of stiffness"):
        return None
    if build.has_frames(state) and build.dofs[state].coord_size != 7:
        raise part.error("several numbers of stiffness at frames of the plane are translated with solver='exact' alone")
    return there


def _entries(a: np.ndarray, number: np.ndarray) -> np.ndarray:
    return a[np.where(number < len(a), number, 0)]
