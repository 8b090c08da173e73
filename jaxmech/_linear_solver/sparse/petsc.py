"""Krylov methods and preconditioners of PETSc: GAMG, Hypre's BoomerAMG, MUMPS, whatever it was built with."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from ..._runtime.argument_checks import check_choice, check_counts, check_instance, check_tolerances, plain, real_array
from ..._runtime.precision import full_precision
from ..._sparse.block_matrix import BlockMatrix
from ..base.outcome import outcome
from .host_call import call_host
from .petsc_session import check_installed, solve

_PRECONDITIONERS = (
    *("gamg", "mg", "hypre", "ml", "jacobi", "pbjacobi", "vpbjacobi", "bjacobi"),
    *("asm", "gasm", "sor", "eisenstat", "ilu", "icc"),
    *("lu", "cholesky", "qr", "kaczmarz", "none"),
)
_SAID = {"pc_type": "pc", "ksp_type": "ksp", "ksp_rtol": "rtol", "ksp_max_it": "max_steps"}
_METHODS = (
    *("cg", "fcg", "pipecg", "cr", "pipecr", "minres", "symmlq", "gmres", "fgmres", "lgmres", "gcr", "preonly"),
    *("bcgs", "bcgsl", "fbcgs", "ibcgs", "cgs", "tfqmr", "chebyshev", "richardson"),
)


class PETSc(lx.AbstractLinearSolver):
    """A solver of PETSc, of one process: any `BlockMatrix` goes to it, its pattern once, later its values only (extra
    `petsc`).

    `pc`: PETSc's name of a preconditioner, `"gamg"`, `"hypre"`, `"bjacobi"`, `"lu"`, ...; `ksp`: of a method, unless given
    `"cg"` for a symmetric matrix and `"gmres"` for others. It stops at `||b - A x|| <= rtol ||b||`, or after `max_steps`.
    `options`: more of PETSc's, `{"pc_gamg_threshold": "0.02"}`, or `{"pc_factor_mat_solver_type": "mumps"}` with `pc="lu"`
    and `ksp="preonly"`. `positions` `{state: (nodes, coordinates)}` [m]: their rigid-body modes are the near null space of a
    matrix of one state. `pc="mg"`: levels of smoothed aggregation made by jaxmech (with pyamg, extra `amg`), which PETSc
    cycles through, for a symmetric matrix of one state, of `positions`. `stats`: `num_steps`, `residual`, `reason`: PETSc's
    reasons as members of `RESULTS`.

    Works on the host, the matrices of a batch one after the other, a matrix that a batch shares being set up once.
    Derivatives are solves with the same. A solve raises `ImportError` without petsc4py and `ValueError` for what is no
    `BlockMatrix`; names that are not PETSc's, options that are no strings or are said by an argument raise `ValueError` too.
    What PETSc cannot do (a package that it was built without) is an error in its words, of a solve within a program a
    `JaxRuntimeError`, as errors of the host are. Options that nothing reads PETSc ignores.
    Source: S. Balay et al., *PETSc/TAO Users Manual*, ANL-21/39 Revision 3.18, 2022. `rtol` is relative.

    Example:

        solver = jm.solver.PETSc(pc="gamg", positions=state.position)
        try:
            x = lx.linear_solve(A, b, solver).value
        except ImportError as error:
            assert "jaxmech[petsc]" in str(error)
        else:
            assert jnp.allclose(A.mv(x)["cube"], b["cube"], atol=1.0)  # [N]
    """

    pc: str = eqx.field(static=True, default="gamg")
    ksp: str | None = eqx.field(static=True, default=None)
    rtol: float = eqx.field(static=True, default=1e-8)
    max_steps: int = eqx.field(static=True, converter=plain, default=10_000)
    options: tuple[tuple[str, str], ...] = eqx.field(static=True, default=(), converter=lambda o: _pairs(o))
    positions: dict[str, jax.Array] | None = None

    def __check_init__(self):
        check_choice("PETSc", "pc", self.pc, _PRECONDITIONERS)
        if self.ksp is not None:
            check_choice("PETSc", "ksp", self.ksp, _METHODS)
        check_instance("PETSc", "rtol", self.rtol, (int, float))
        check_tolerances("PETSc", rtol=self.rtol)
        check_counts("PETSc", max_steps=self.max_steps)
        for name, _ in self.options:
            if argument := _SAID.get(name.lstrip("-")):
                raise ValueError(f"PETSc: the option '{name}' is the argument {argument}=.")
        if self.positions is not None:
            check_instance("PETSc", "positions", self.positions, dict)
            for s, x in self.positions.items():
                real_array("PETSc", f"positions['{s}']", x)

    def chosen(self, symmetric: bool) -> dict[str, Any]:
        """The method for a matrix, the preconditioner, and their options."""
        ksp = self.ksp or ("cg" if symmetric else "gmres")
        return {"ksp": ksp, "pc": self.pc, "rtol": self.rtol, "max_steps": self.max_steps, "more": self.options}

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        del options
        check_installed()
        if not isinstance(operator, BlockMatrix):
            raise ValueError(f"PETSc takes a BlockMatrix, not a {type(operator).__name__}: use MatrixLinearSystem.")
        return operator, False

    @full_precision
    def compute(self, state, vector: dict[str, jax.Array], options: dict[str, Any]):
        del options
        operator, transposed = state
        sizes, entries = operator.sizes, operator.entries.values()
        rhs = jnp.concatenate([vector[s].reshape(-1) for s, _, _ in sizes])
        values = jnp.concatenate([e.values.reshape(-1) for e in entries])
        places = jnp.concatenate([a for e in entries for a in (e.pattern.rows, e.pattern.columns)])
        alone = len(sizes) == 1 and self.positions is not None and sizes[0][0] in self.positions
        points = jnp.asarray(self.positions[sizes[0][0]]) if alone and self.positions is not None else jnp.zeros((0, 0))
        what = self.chosen(operator.symmetric)
        matrix = tuple(operator.entries), tuple(e.values.shape for e in entries), sizes
        number = jax.ShapeDtypeStruct((), np.int32)
        shapes = (jax.ShapeDtypeStruct(rhs.shape, rhs.dtype), number, number, jax.ShapeDtypeStruct((), rhs.dtype))
        ask = partial(solve, *matrix, what, operator.symmetric, transposed)
        arrays = jax.lax.stop_gradient((values, places, points))
        x, flaw, steps, residual = call_host("PETSc", ask, shapes, *arrays, rhs, vmap_method="sequential")
        result, reason = outcome(flaw, finite=jnp.isfinite(residual))
        ends = np.cumsum([n * d for _, n, d in sizes])[:-1]
        parts = zip(sizes, jnp.split(x, ends), strict=True)
        solution = {s: part.reshape(n, d) for (s, n, d), part in parts}
        return solution, result, {"num_steps": steps, "residual": residual, "reason": reason}

    def transpose(self, state, options: dict[str, Any]):
        operator, transposed = state
        return (operator, not transposed and not operator.symmetric), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True


def _pairs(options: Any) -> tuple[tuple[str, str], ...]:
    """What is given to PETSc's data base, sorted."""
    pairs = tuple(sorted(options.items())) if isinstance(options, dict) else options
    if not isinstance(pairs, tuple) or not all(
        isinstance(p, tuple) and len(p) == 2 and all(isinstance(text, str) for text in p) for p in pairs
    ):
        raise ValueError(f"PETSc: options must be a dictionary of strings, got {options!r:.80}.")
    return pairs
