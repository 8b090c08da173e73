"""Which solver to take where none was named, and why."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._runtime.argument_checks import check_choice, check_flags, check_instance, check_tolerances
from .._runtime.devices import is_run_by_many
from .._sparse.block_matrix import BlockMatrix
from .._sparse.indefinite import is_indefinite
from .base.vectors import dtype_of
from .dense.lu import Dense
from .fallback import Fallback
from .krylov.bicgstab import BiCGStab
from .krylov.gmres import GMRES
from .krylov.minres import MINRES
from .krylov.pcg import PCG
from .sparse import cudss as _cudss
from .sparse.block_tridiagonal import BlockTridiagonal
from .sparse.host_choice import host_backend
from .sparse.sparse_direct import SparseDirect

_ITERATIONS = 150  # that take about as long as a sparse factor, on a cable, a plate or a body
_OF_A_POINT = 3  # unknowns at most: of frames, as beams have, iterations gave up in every step, at a quarter of its time
_DENSE = 60  # unknowns below which a dense factor is faster than anything sparse, also in a batch


class AutoLinearSolver(lx.AbstractLinearSolver):
    """The rule that `default_solver` follows, as a solver. `choose(operator)` says what it takes, and why.

    | operator | solver |
    |---|---|
    | at most 60 unknowns | `Dense` |
    | a matrix of a chain | `BlockTridiagonal` |
    | a matrix in a batch, or on several CPU devices (`shard_map`, `over_devices`) | `PCG` if symmetric, else `BiCGStab` |
    | a matrix of a time step, of points | the same while it converges fast, with the next as `Fallback` |
    | any other matrix | `SparseDirect` |
    | the same, on a GPU | `SparseDirect("cudss")` with spineax; without it `PCG` if symmetric, else `GMRES` |
    | products only | `PCG` if symmetric, else `GMRES` |
    | declared indefinite (constraints with multipliers) | the same with `MINRES` for `PCG`; in time steps no iterations |

    `chain`: nodes touch only their neighbours in number, as in rods and cables. `batched`: many matrices at once, under
    `vmap`. `inertial`: of a time step, with mass, and other values in the next one: iterations go on for as long as they
    seem to take less time than a factor. The caller says these three: a pattern is data, and a program is traced once for
    all patterns of its size. `rtol`: of iterative solvers; theirs unless given, and 1e-10 (float32: 1e-5) with
    `inertial`, so that results do not show which solver it was. `platform`: `"cpu"`, `"gpu"` or `"tpu"`; that of JAX unless
    given. Raises `ValueError` for a matrix larger than the installed backend of `SparseDirect` factorises in reasonable time
    and memory, with advice; not of a time step, where it iterates.
    No units; `rtol` is relative.

    Example:

        solver = jm.solver.AutoLinearSolver()
        chosen, why = solver.choose(A)
        assert isinstance(chosen, jm.solver.Dense) and why.startswith("24 unknowns")
        x = lx.linear_solve(A, b, solver).value
        assert jnp.allclose(A.mv(x)["cube"], b["cube"], atol=1.0)  # [N]
    """

    chain: bool = eqx.field(static=True, default=False, kw_only=True)
    batched: bool = eqx.field(static=True, default=False, kw_only=True)
    inertial: bool = eqx.field(static=True, default=False, kw_only=True)
    rtol: float | None = eqx.field(static=True, default=None, kw_only=True)
    platform: str | None = eqx.field(static=True, default=None, kw_only=True)

    def __check_init__(self):
        check_flags("AutoLinearSolver", chain=self.chain, batched=self.batched, inertial=self.inertial)
        check_tolerances("AutoLinearSolver", rtol=self.rtol)
        if self.platform is not None:
            check_choice("AutoLinearSolver", "platform", self.platform, ("cpu", "gpu", "tpu"))

    def choose(self, operator: lx.AbstractLinearOperator) -> tuple[lx.AbstractLinearSolver, str]:
        """The solver for an operator, and the reason in words. Looks at what is static only."""
        check_instance("AutoLinearSolver", "operator", operator, lx.AbstractLinearOperator)
        size, symmetric = operator.in_size(), bool(lx.is_symmetric(operator))
        indefinite = is_indefinite(operator)
        kind = ("indefinite" if indefinite else "symmetric") if symmetric else "unsymmetric"
        of_symmetric = MINRES if indefinite else PCG
        if size <= _DENSE:
            return Dense(), f"{size} unknowns: a dense factor is the fastest to {_DENSE}."
        if not isinstance(operator, BlockMatrix):
            if symmetric:
                return of_symmetric(self.rtol), f"a {kind} operator known by its products only."
            return GMRES(self._tight(operator)), f"an {kind} operator known by its products only."
        if self.chain:
            return BlockTridiagonal(), "nodes in a row: solved exactly in linear time."
        iteration = of_symmetric if symmetric else BiCGStab
        if self.batched:
            return iteration(self.rtol), f"a batch of matrices, {kind}: few iterations, in parallel."
        platform = jax.default_backend() if self.platform is None else self.platform
        if platform == "cpu" and is_run_by_many():
            return iteration(self._tight(operator)), f"{kind}, on several devices, which the host does not serve at once."
        if not self.inertial:
            return self._of_any(operator, symmetric, platform)
        if platform == "cpu" and size > host_backend("auto", symmetric=symmetric).most_unknowns:
            return iteration(self.rtol), f"{size} unknowns, {kind}, of a time step: too many to be factorised."
        otherwise, why = self._of_any(operator, symmetric, platform)
        if indefinite or not isinstance(otherwise, SparseDirect) or any(b > _OF_A_POINT for _, _, b in operator.sizes):
            return otherwise, why
        first = iteration(self._tight(operator), max_steps=_ITERATIONS, give_up=True)
        return Fallback(first, otherwise), f"a matrix of a time step, {kind}: iterations if few are enough. Otherwise: {why}"

    def _of_any(self, operator: BlockMatrix, symmetric: bool, platform: str) -> tuple[lx.AbstractLinearSolver, str]:
        """For a matrix of which nothing else is known."""
        size, kind = operator.in_size(), "symmetric" if symmetric else "unsymmetric"
        if platform != "cpu":
            return self._beside_the_host(operator, symmetric, platform)
        backend = host_backend("auto", symmetric=symmetric)
        if size > backend.most_unknowns:
            raise ValueError(
                f"AutoLinearSolver: {size} unknowns are more than {backend.name} should factorise "
                f"({backend.most_unknowns}). For a definite matrix take "
                "PCG(preconditioner=SmoothedAggregation.from_matrix(matrix, positions)), in small time steps PCG(); or a "
                'faster backend (pip install "jaxmech[mkl]"); or insist with SparseDirect().'
            )
        return SparseDirect(), f"{size} unknowns, {kind}: a sparse factor ({backend.name})."

    def _beside_the_host(self, operator: BlockMatrix, symmetric: bool, platform: str) -> tuple[lx.AbstractLinearSolver, str]:
        """For a matrix that lives on an accelerator, and would have to travel to the host to be factored there."""
        if platform == "gpu" and _cudss.available():
            return SparseDirect("cudss"), f"{operator.in_size()} unknowns on a GPU: a sparse factor there (cuDSS)."
        lacking = f"no sparse factor on a {platform.upper()}"
        if platform == "gpu":
            lacking += f" without spineax ({_cudss.NEEDS})"
        on_host = "SparseDirect() factors it on the host."
        if symmetric:
            if is_indefinite(operator):
                return MINRES(self.rtol), f"{lacking}: iterations; {on_host}"
            return PCG(self.rtol), f"{lacking}: iterations, for which the matrix must be definite; {on_host}"
        return GMRES(self._tight(operator)), f"{lacking}: iterations; {on_host}"

    def _tight(self, operator: lx.AbstractLinearOperator) -> float:
        double = jnp.finfo(dtype_of(operator.in_structure())).bits == 64
        return (1e-10 if double else 1e-5) if self.rtol is None else self.rtol

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        solver, _ = self.choose(operator)
        known = options if isinstance(solver, PCG | MINRES | BiCGStab | GMRES | Fallback) else {}
        return _Chosen(solver), solver.init(operator, known)

    def compute(self, state, vector, options: dict[str, Any]):
        chosen, inner = state
        return chosen.solver.compute(inner, vector, options)

    def transpose(self, state, options: dict[str, Any]):
        chosen, inner = state
        inner, options = chosen.solver.transpose(inner, options)
        return (chosen, inner), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True


class _Chosen(eqx.Module):
    solver: lx.AbstractLinearSolver = eqx.field(static=True)
