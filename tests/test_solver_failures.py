"""What solvers say when they cannot: singular matrices, broken promises, rounding, limits."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from small_matrices import (
    CHAIN,
    DIRECT,
    NEEDS,
    SOLVERS,
    blocks,
    chained,
    dense,
    flat,
    floating_chain,
    installed,
    named,
    near,
    reason_of,
    split,
)

import jaxmech as jm

ITERATIVE = ("PCG", "MINRES", "BiCGStab", "GMRES")


ALL = [*SOLVERS, "BlockTridiagonal"]
NEVER_FAILS = "SVD"  # the pseudo-inverse: it tells the rank
CHEAP = {n for n in ALL if not n.startswith(("PCG ", "MINRES", "BiCGStab", "GMRES"))}  # to compile


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in CHEAP else pytest.mark.slow) for n in ALL if n != NEVER_FAILS]
)
def test_singular_matrices_are_named(name, rng):
    """A chain that floats, one with a row of zeros, and one that hardly anything holds: 1e-14 of its stiffness."""
    if name in NEEDS and not installed(NEEDS[name]):
        pytest.skip(NEEDS[name])
    floating, empty, weak = floating_chain(), floating_chain(), floating_chain()
    empty[:2, :2] += np.eye(2)
    empty[7, :] = empty[:, 7] = 0.0
    weak[:2, :2] += 1e-14 * np.eye(2)
    pattern, b = blocks(floating, CHAIN, symmetric=True), split(rng.standard_normal(14), CHAIN)
    solve = eqx.filter_jit(lambda A, solver: lx.linear_solve(A, b, solver, throw=False))
    iterative = name.startswith(ITERATIVE)
    for D in (floating, empty, weak):
        A = blocks_like(pattern, D)
        solver = jm.solver.BlockTridiagonal() if name == "BlockTridiagonal" else SOLVERS[name][0](A, 1e-8)
        solution = solve(A, solver)
        assert solution.result != lx.RESULTS.successful
        allowed = {"singular", "indefinite", "stagnation", "max_steps_reached", "breakdown"} if iterative else {"singular"}
        assert named(solution.stats["reason"]) in allowed


def blocks_like(A, D):
    """A dense matrix in the pattern of another of one state."""
    (s, n, d), entry = A.sizes[0], A.entries["a", "a"]
    parts = jnp.asarray(D).reshape(n, d, n, d).swapaxes(1, 2)
    return eqx.tree_at(lambda M: M.entries[s, s].values, A, parts[entry.pattern.rows, entry.pattern.columns])


def test_what_reaches_of_a_singular_system_is_iterated_to(rng):
    """A load in equilibrium on a floating chain has a solution, and its residual is true."""
    A = floating_chain()
    b, matrix = A @ rng.standard_normal(14), blocks(A, CHAIN, symmetric=True)
    solution = jax.jit(lambda b: lx.linear_solve(matrix, b, jm.solver.PCG(1e-10), throw=False))(split(b, CHAIN))
    assert solution.result == lx.RESULTS.successful
    assert np.linalg.norm(b - A @ np.asarray(flat(solution.value))) <= 1e-10 * np.linalg.norm(b)


def test_the_pseudo_inverse_of_a_singular_matrix(rng):
    A, b = floating_chain(), rng.standard_normal(14)
    solution = lx.linear_solve(blocks(A, CHAIN, symmetric=True), split(b, CHAIN), jm.solver.SVD())
    near(flat(solution.value), np.linalg.pinv(A, rcond=1e-12) @ b, 1e-10)
    assert solution.stats["rank"] == 12 and solution.stats["condition"] > 1e14
    strict = lx.linear_solve(blocks(dense("definite"), symmetric=True), split(rng.standard_normal(14)), jm.solver.SVD(0.9))
    assert strict.stats["rank"] < 14


@pytest.mark.parametrize("name", ["PCG", "Cholesky"])
def test_indefinite_matrices_are_named(name, rng):
    A = blocks(dense("indefinite"), symmetric=True)
    assert reason_of(SOLVERS[name][0](A, 1e-8), A, split(rng.standard_normal(14))) == "indefinite"


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ["Cholesky", "SuperLU", "feral", "pardiso", *ITERATIVE])
@pytest.mark.parametrize("skew", [1e-6, 1.0])
def test_broken_promises_are_named(name, skew, rng):
    """A matrix that is said to be symmetric and is not, by whoever would give a wrong answer, or a wrong gradient of it."""
    if name in NEEDS and not installed(NEEDS[name]):
        pytest.skip(NEEDS[name])
    D = dense("definite")
    D = D + skew * np.triu(rng.standard_normal(D.shape), 1)
    A, b = blocks(D, symmetric=True), rng.standard_normal(14)
    assert reason_of(SOLVERS[name][0](A, 1e-8), A, split(b)) == "unsymmetric"


@pytest.mark.parametrize("name", ["Dense", "SVD", "BlockTridiagonal"])
def test_promises_that_nobody_believes_break_nothing(name, rng):
    """The solution and its gradient are those of the matrix, whatever it says of itself."""
    D = chained(dense("unsymmetric", CHAIN))
    A, w, b = blocks(D, CHAIN, symmetric=True), *rng.standard_normal((2, 14))
    solver = jm.solver.BlockTridiagonal() if name == "BlockTridiagonal" else SOLVERS[name][0](A, 1e-8)

    @jax.jit
    def work(b):
        x = flat(lx.linear_solve(A, split(b, CHAIN), solver).value)
        return x @ w, x

    adjoint, x = jax.grad(work, has_aux=True)(b)
    near(x, np.linalg.solve(D, b), DIRECT)
    near(adjoint, np.linalg.solve(D.T, w), DIRECT)


@pytest.mark.parametrize("solver", [jm.solver.PCG(), jm.solver.MINRES(), jm.solver.Cholesky()])
def test_symmetric_solvers_refuse_what_does_not_promise(solver, rng):
    A = blocks(dense("definite"), symmetric=False)
    with pytest.raises(ValueError, match="needs a symmetric operator.*use"):
        lx.linear_solve(A, split(rng.standard_normal(14)), solver)


def test_the_floor_of_single_precision_is_named(rng):
    A = blocks(dense("definite"), symmetric=True, dtype=jnp.float32)
    b = split(jnp.asarray(rng.standard_normal(14), jnp.float32))
    solution = jax.jit(lambda b: lx.linear_solve(A, b, jm.solver.PCG(1e-12), throw=False))(b)
    assert solution.stats["reason"] == jm.RESULTS.stagnation
    assert solution.stats["residual"] <= 1e-5


def test_too_few_steps_are_named(rng):
    A, b = blocks(dense("definite"), symmetric=True), split(rng.standard_normal(14))
    solution = jax.jit(lambda b: lx.linear_solve(A, b, jm.solver.PCG(max_steps=2), throw=False))(b)
    assert solution.stats["reason"] == jm.RESULTS.max_steps_reached and solution.stats["num_steps"] == 2


def pulled_chain(impose, weight=None):
    """A chain of 30 springs held at one end, by 0.3 m, and pulled at the other: the matrix, its load, the solution."""
    cells = np.stack([np.arange(29), np.arange(1, 30)], axis=1)
    springs = jm.matrix.assemble(cells, lambda _: 2e3 * jnp.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros((30, 1)))
    load = jnp.zeros((30, 1)).at[29].set(5.0)
    options = {} if weight is None else {"weight": weight}
    matrix, rhs = impose(springs, load, [0], 0.3, **options)
    x = 0.3 + 5.0 / 2e3 * np.arange(30.0)
    return jm.matrix.BlockMatrix.from_entries({("u", "u"): matrix}, symmetric=True), {"u": rhs}, x


@pytest.mark.parametrize(
    "solver",
    [
        jm.solver.PCG(),
        pytest.param(jm.solver.PCG(preconditioner=jm.solver.NoPreconditioner()), marks=pytest.mark.slow),
        pytest.param(jm.solver.PCG(preconditioner=jm.solver.SSOR()), marks=pytest.mark.slow),
        jm.solver.MINRES(),
        jm.solver.BiCGStab(),
        pytest.param(jm.solver.GMRES(), marks=pytest.mark.slow),
    ],
    ids=["PCG", "PCG none", "PCG SSOR", "MINRES", "BiCGStab", "GMRES"],
)
def test_a_tolerance_that_says_nothing_is_named(solver):
    """A penalty makes `|b|` so large that any residual of the other rows is small beside it."""
    solve = eqx.filter_jit(lambda A, b: lx.linear_solve(A, b, solver, throw=False))
    for weight in (1e30, 1e12):
        A, b, _ = pulled_chain(jm.matrix.impose_penalty, weight)
        solution = solve(A, b)
        assert named(solution.stats["reason"]) == "unequal_rows"
        assert solution.result == lx.RESULTS.breakdown
        assert solution.stats["residual"] <= 1e-8 * np.linalg.norm(b["u"])  # which is all that was promised


def test_a_penalty_that_is_solved_is_not_refused():
    """By an exact preconditioner, without a penalty, or with one on a value of nil."""
    solve = eqx.filter_jit(lambda A, b, solver: lx.linear_solve(A, b, solver).value["u"][:, 0])
    A, b, x = pulled_chain(jm.matrix.impose_penalty)
    near(solve(A, b, jm.solver.PCG(preconditioner=jm.solver.IncompleteFactor(drop_tolerance=0.0))), x, 1e-10)
    near(solve(A, {"u": b["u"].at[0].set(0.0)}, jm.solver.PCG()), x - 0.3, 1e-6)
    A, b, x = pulled_chain(jm.matrix.eliminate_rows_and_columns)
    near(solve(A, b, jm.solver.PCG()), x, 1e-6)


@pytest.mark.slow
def test_prescribed_motion_of_what_is_stiff_is_iterated_to():
    """A row of `I - P` among those of steel is of size 1 among 1e11: no tolerance may be asked of it.

    Without a matrix, and so without a preconditioner, which would see it.
    """
    mesh = jm.mesh.box_mesh(cells=(3, 1, 1), size=(3.0, 1.0, 1.0))
    root, tip = (mesh.nodes_where(lambda x, end=end: x[:, 0] == end) for end in (0.0, 3.0))
    pull = {"reference": mesh.points[tip], "displacements": [[0.0] * 3, [1e-3, 0.0, 0.0]], "times": [0.0, 1.0]}
    steel = jm.System(
        {"bar": jm.Vec3()},
        forces={
            "steel": jm.force.TetrahedronFEM.from_mesh("bar", mesh, jm.material.LinearElastic(young=2.1e11, poisson=0.3))
        },
        constraints={
            "clamp": jm.constraint.Fixed(("bar", root)),
            "grip": jm.constraint.PrescribedMotion(("bar", tip), **pull),
        },
    )
    start = steel.at_rest({"bar": mesh.points}, time=1.0)
    terms = jm.Terms(mass=False, damping=False)
    iterated = jm.static_solve(steel, start, jm.solver.MatrixFreeSystem(terms), jm.solver.PCG(1e-10))
    direct = jm.static_solve(steel, start, jm.MatrixLinearSystem.build(steel, start, terms), jm.solver.Dense())
    near(iterated.position["bar"] - mesh.points, direct.position["bar"] - mesh.points, 1e-8)
    assert iterated.info.iterations == direct.info.iterations == 1
