"""Every solver and preconditioner on the matrix of every scene, against NumPy, in float64 and in float32.

Every matrix is padded to one size, so that a solver compiles one program for all scenes: a batch of matrices and of
right-hand sides, the solutions, their adjoints and their rates. What a solver is not for must end in a named failure.
"""

import functools
import importlib.util
import itertools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
import scenes
from covering import in_turn
from scene_matrices import matrices
from scenes import SYMMETRIC
from tolerances import SOLVE_GOAL, SOLVE_ROUNDING

import jaxmech as jm

NAMES = {int(getattr(jm.RESULTS, n)._value): n for n in jm.RESULTS._name_to_item}
SIZE = 48  # the unknowns of the largest scene
FAILURES = {"singular", "indefinite", "unsymmetric", "stagnation", "breakdown", "max_steps_reached", "not_block_tridiagonal"}


class Case(NamedTuple):
    """How a solver is made from the matrix and a tolerance, and what it is for."""

    make: Callable
    unsymmetric: bool  # takes a matrix that is not symmetric
    indefinite: bool  # takes one that is not definite
    iterative: bool = False
    needs: str | None = None  # a package
    size: int = 2  # unknowns of a node
    prepare: Callable = lambda A: None  # host work on one of the matrices


def pcg(preconditioner):
    return lambda A, rtol, M: jm.solver.PCG(rtol, preconditioner=preconditioner(A, M))


def stale(A):
    return jm.solver.StaleFactor(A.scaled(1.2), jm.solver.Dense())


def multigrid(A):
    positions = np.random.default_rng(5).standard_normal((SIZE // 2, 2))
    return jm.solver.SmoothedAggregation.from_matrix(matrix(A, (SIZE // 2, 2), True), {"a": positions})


def sparse(backend):
    return lambda A, rtol, M: jm.solver.SparseDirect(backend)


FEW = {
    "Dense": Case(lambda A, rtol, M: jm.solver.Dense(), True, True),
    "SuperLU": Case(sparse("superlu"), True, True),
    "PCG": Case(lambda A, rtol, M: jm.solver.PCG(rtol), False, False, True),
    "BiCGStab": Case(lambda A, rtol, M: jm.solver.BiCGStab(rtol), True, False, True),
}
REST = {
    "Cholesky": Case(lambda A, rtol, M: jm.solver.Cholesky(), False, False),
    "SVD": Case(lambda A, rtol, M: jm.solver.SVD(), True, True),
    "BlockTridiagonal": Case(lambda A, rtol, M: jm.solver.BlockTridiagonal(), True, False, size=8),
    "feral": Case(sparse("feral"), False, True, needs="feral"),
    "pardiso": Case(sparse("pardiso"), True, True, needs="pypardiso"),
    "MINRES": Case(lambda A, rtol, M: jm.solver.MINRES(rtol), False, True, True),
    "GMRES": Case(lambda A, rtol, M: jm.solver.GMRES(rtol, restart=SIZE), True, True, True),
}
PRECONDITIONED = {
    "PCG none": Case(pcg(lambda A, M: jm.solver.NoPreconditioner()), False, False, True),
    "PCG Jacobi": Case(pcg(lambda A, M: jm.solver.Jacobi()), False, False, True),
    "PCG SSOR": Case(pcg(lambda A, M: jm.solver.SSOR(1.2)), False, False, True),
    "PCG incomplete": Case(pcg(lambda A, M: jm.solver.IncompleteFactor()), False, False, True),
    "PCG stale": Case(pcg(lambda A, M: stale(A)), False, False, True),
    "PCG multigrid": Case(pcg(lambda A, M: M), False, False, True, "pyamg", prepare=multigrid),
    "MINRES Jacobi": Case(lambda A, rtol, M: jm.solver.MINRES(rtol, preconditioner=jm.solver.Jacobi()), False, True, True),
    "BiCGStab SSOR": Case(lambda A, rtol, M: jm.solver.BiCGStab(rtol, preconditioner=jm.solver.SSOR()), True, False, True),
    "GMRES incomplete": Case(
        lambda A, rtol, M: jm.solver.GMRES(rtol, preconditioner=jm.solver.IncompleteFactor(), restart=SIZE), True, True, True
    ),
}
CASES = FEW | REST | PRECONDITIONED


@functools.cache
def entry(nodes):
    """All blocks of a matrix, to be filled."""
    rows, columns = (a.ravel() for a in np.indices((nodes, nodes)))
    blocks = jnp.zeros((nodes**2, SIZE // nodes, SIZE // nodes))
    return jm.matrix.Triplets(("a", "a"), jnp.asarray(rows), jnp.asarray(columns), blocks).assemble((nodes, nodes))


def matrix(A, shape, symmetric):
    """A dense matrix as a `BlockMatrix` that holds every block."""
    n, d = shape
    with jax.ensure_compile_time_eval():
        nothing = entry(n)
    values = jnp.asarray(A).reshape(n, d, n, d).swapaxes(1, 2).reshape(-1, d, d)
    filled = eqx.tree_at(lambda e: e.values, nothing, values)
    return jm.matrix.BlockMatrix({("a", "a"): filled}, (("a", n, d),), symmetric, values.dtype)


@functools.cache
def program(name, symmetric, derivatives):
    """`(A (m, n, n), b (k, n), w (n,), M)` -> the solutions `(m, k, n)` and why they ended; with derivatives, the gradients
    of `w x` by `b` and the rates of `x` as `A` grows, which raise where they fail."""
    case = CASES[name]
    shape = (SIZE // case.size, case.size)

    def solution(A, b, M):
        A = matrix(A, shape, symmetric)
        solver = case.make(A, SOLVE_GOAL[b.dtype.name], M)
        found = lx.linear_solve(A, {"a": b.reshape(shape)}, solver, throw=False)
        return found.value["a"].ravel(), found.stats["reason"]._value

    def everything(A, b, w, M):
        if not derivatives:
            return solution(A, b, M)
        x, back, reason = jax.vjp(lambda b: solution(A, b, M), b, has_aux=True)
        rate = jax.jvp(lambda A: solution(A, b, M)[0], (A,), (A,))[1]
        return x, reason, back(w)[0], rate

    over_vectors = jax.vmap(everything, (None, 0, None, None))
    return jax.jit(jax.vmap(over_vectors, (0, None, None, None)))


def near(x, reference, tolerance):
    error = np.linalg.norm(np.asarray(x, np.float64) - reference)
    assert error <= tolerance * np.linalg.norm(reference), (error / np.linalg.norm(reference), tolerance)


def is_for(case, A):
    """Whether a solver takes a matrix."""
    symmetric = (A == A.T).all()
    rows, columns = np.nonzero(A)
    beside = case.size == 8 and (np.abs(rows // 8 - columns // 8) > 1).any()
    definite = np.linalg.eigvalsh(0.5 * (A + A.T)).min() > 0
    return (symmetric or case.unsymmetric) and (definite or case.indefinite) and not beside


def must_succeed(case, A):
    """Whether a solver is for a matrix, and the matrix not too ill-conditioned for what is asked of an iteration."""
    dtype = A.dtype.name
    A = A.astype(np.float64)
    return is_for(case, A) and not (case.iterative and np.linalg.cond(A) * np.finfo(dtype).eps > SOLVE_GOAL[dtype])


def judge(case, A, b, w, x, reason, *derivatives):
    """Right, or a failure with a name."""
    ended, dtype = NAMES[int(reason)], A.dtype.name
    if ended != "successful":
        assert ended in FAILURES
        assert not must_succeed(case, A), (ended, np.linalg.cond(A))
        return
    A = A.astype(np.float64)
    tolerance = np.linalg.cond(A) * (SOLVE_ROUNDING[dtype] + (SOLVE_GOAL[dtype] if case.iterative else 0.0))
    near(x, np.linalg.solve(A, b), tolerance)
    if derivatives:
        near(derivatives[0], np.linalg.solve(A.T, w), tolerance)
        near(derivatives[1], -np.asarray(x, np.float64), tolerance)


def differentiated(name, dtype):
    """Preconditioners make no other derivatives; nor does float32 of what two iterations in float32 have shown."""
    return name in FEW or (name in REST and not (CASES[name].iterative and dtype == "float32"))


def of_scene(name):
    """The matrix of a scene, and one that differs from it on the diagonal; whether it is declared symmetric."""
    full = np.asarray(matrices(name)[1].to_dense())
    n, A = len(full), np.eye(SIZE)
    A[:n, :n] = full / np.abs(full).max()
    declared = SYMMETRIC in scenes.build(name).tags
    A = 0.5 * (A + A.T) if declared else A
    return np.stack([A, A + 0.3 * np.diag(np.diag(A))]), declared


GROUPS = {"few": FEW, "rest": REST, "preconditioned": PRECONDITIONED}
TYPES = ("float64", "float32")


def runs():
    """By default the few solvers in float64 on every scene. Slow: every third scene has one of the other groups of solvers
    and types in turn, and one process all that share programs. Exhaustive: the rest of the product."""
    others = [(g, d) for g, d in itertools.product(GROUPS, TYPES) if (g, d) != ("few", "float64")]
    turn = {(scene, *other) for scene, other in in_turn(scenes.names()[::3], others)}
    for scene in scenes.names():
        yield scene, "few", "float64"
        for group, dtype in others:
            stage = pytest.mark.slow if (scene, group, dtype) in turn else pytest.mark.exhaustive
            yield pytest.param(scene, group, dtype, marks=stage)


@pytest.mark.slow_cases(
    "every_constraint-few-float64", "linkage_of_the_plane-few-float64", "frames_in_the_plane-few-float64"
)
@pytest.mark.parametrize(("scene", "group", "dtype"), list(runs()))
def test_every_solver_on_every_scene(scene, group, dtype, rng):
    """The solution, its adjoint, and `dx = -x` for `dA = A`, to what the condition number allows."""
    cases = GROUPS[group]
    both, declared = of_scene(scene)
    both, several, w = (a.astype(dtype) for a in (both, rng.standard_normal((2, SIZE)), rng.standard_normal(SIZE)))
    for name, case in cases.items():
        if case.needs and not importlib.util.find_spec(case.needs):
            continue
        # A solver for symmetric matrices is given the promise, true or not; of the others only SparseDirect looks at it.
        symmetric = not case.unsymmetric or (declared and name in ("SuperLU", "pardiso"))
        derivatives = differentiated(name, dtype) and all(must_succeed(case, A) for A in both)
        found = program(name, symmetric, derivatives)(both, several, w, case.prepare(both[1]))
        found = [np.asarray(a) for a in found]
        for i, A in enumerate(both):
            for k, b in enumerate(several):
                judge(case, A, b, w, *(a[i, k] for a in found))
