"""Multigrid as the solver of a large static problem: it needs positions and node numbers, which a matrix does not tell."""

import importlib.util
from typing import Any

import jax
import lineax as lx

from .._linear_solver.fallback import Fallback
from .._linear_solver.krylov.pcg import PCG
from .._linear_solver.preconditioner.amg import SmoothedAggregation
from .._linear_solver.sparse.host_choice import host_backend
from .._linear_solver.sparse.sparse_direct import SparseDirect
from .._linear_system.matrix import MatrixLinearSystem
from .._model.system import State, System
from .._runtime.devices import is_run_by_many
from .._runtime.results import is_traced

# Unknowns from which a first solve by multigrid, compiled for it, takes less time than one by a factor (`feral`): of a
# clamped cantilever of hexahedra with 24,843 unknowns 12.6 CPU seconds for 6.6, with 56,355 9.1 for 10.0.
LARGE = 60_000
_RTOL = 1e-10  # so that results do not show which solver it was


def multigrid_solver(system: System, state: State, linear_system: Any) -> lx.AbstractLinearSolver | None:
    """Conjugate gradients with `SmoothedAggregation`, and a factor where they fail, for many points of one state; or None.

    None too within `jit`, without pyamg, for matrices that are not symmetric, and with multipliers.
    """
    if not isinstance(linear_system, MatrixLinearSystem):
        return None
    size = sum(n * d for _, n, d in linear_system.sizes)
    if size < LARGE or is_traced((state.position, linear_system)) or is_run_by_many():
        return None
    if len(linear_system.sizes) != 1 or system.multiplier_states or not linear_system.plan.symmetric:
        return None
    name, _, d = linear_system.sizes[0]
    x = state.position[name]
    if x.dtype.itemsize < 8 or x.shape[-1] != d or d > 3 or importlib.util.find_spec("pyamg") is None:
        return None
    amg = SmoothedAggregation.from_pattern({name: linear_system.patterns[name, name]}, {name: x})
    iterations = PCG(_RTOL, preconditioner=amg)
    if jax.default_backend() != "cpu" or size > host_backend("auto", symmetric=True).most_unknowns:
        return iterations
    return Fallback(iterations, SparseDirect())
