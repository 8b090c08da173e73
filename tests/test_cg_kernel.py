"""Steps of conjugate gradients that a kernel takes are those that the loop of operations on arrays takes."""

import functools

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest

import jaxmech as jm
from jaxmech._linear_solver.krylov.cg_recurrence import Bounds, CGState
from jaxmech._linear_solver.krylov.cg_run import run_on
from jaxmech._sparse.pattern import BlockPattern, unique_pairs

SOLVERS = {
    "blocks": jm.solver.PCG(1e-6),
    "no preconditioner": jm.solver.PCG(1e-6, preconditioner=jm.solver.NoPreconditioner()),
    "gives up": jm.solver.PCG(1e-6, give_up=True),
    "too few steps": jm.solver.PCG(1e-6, max_steps=4),
    "gives up early": jm.solver.PCG(1e-6, max_steps=12, give_up=True, preconditioner=jm.solver.NoPreconditioner()),
    "an absolute tolerance": jm.solver.PCG(0.0, atol=1e-3),
    "below rounding": jm.solver.PCG(1e-30),
}


def chain(rng, dtype, c, kind="definite", nodes=40):
    """A chain whose nodes are tied to their neighbours by positive definite blocks of very unlike sizes."""
    ties = rng.normal(size=(nodes - 1, c, c))
    ties = np.einsum("nij,nkj,n->nik", ties, ties, 10.0 ** rng.uniform(-2, 1, nodes - 1)) / c
    dense = np.zeros((nodes, c, nodes, c))
    for i, tie in enumerate(ties):
        for row, column, sign in ((i, i, 1), (i + 1, i + 1, 1), (i, i + 1, -1), (i + 1, i, -1)):
            dense[row, :, column] += sign * tie
    own = np.eye(nodes * c).reshape(dense.shape)
    dense += {"definite": 0.05, "singular": 0.0, "indefinite": 0.05}[kind] * own
    if kind == "indefinite":
        dense[nodes // 2, :, nodes // 2] -= 40 * np.eye(c)
    there = np.argwhere(np.abs(dense).max((1, 3)) + np.eye(nodes) > 0)
    rows, columns, _ = unique_pairs(there[:, 0], there[:, 1], (nodes, nodes))
    pattern = BlockPattern.build(rows, columns, (nodes, nodes))
    values = jnp.asarray(dense[rows, :, columns], dtype)
    return jm.matrix.BlockMatrix.from_entries({("a", "a"): jm.matrix.BlockSparse(values, pattern)}, symmetric=True)


def solved(solver):
    def of(A, b):
        solution = lx.linear_solve(A, {"a": b}, solver, throw=False)
        stats = solution.stats
        return solution.value["a"], stats["num_steps"], stats["residual"], stats["reason"]._value

    return jax.jit(of)


def by_arrays(function, *arguments):
    """What a function gives where nothing is compiled."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("jaxmech._llvm.ffi.is_available", lambda: False)
        anew = jax.jit(lambda *arguments: function(*arguments))  # a program is made of kernels or not when it is lowered
        assert "jaxmech_" not in anew.lower(*arguments).as_text()
        return anew(*arguments)


def solved_by_each(names):
    """`solved` for several solvers, in one program."""
    each = {name: solved(SOLVERS[name]) for name in names}
    return jax.jit(lambda A, b: {name: solve(A, b) for name, solve in each.items()}), each


@functools.cache
def both_ways(dtype, c, seed):
    """A matrix, a load, and the solutions of every solver with the kernel and without."""
    rng = np.random.default_rng(seed)
    A, b = chain(rng, dtype, c), jnp.asarray(rng.normal(size=(40, c)), dtype)
    solve, each = solved_by_each(SOLVERS)
    kernels = {name: one.lower(A, b).as_text().count("jaxmech_") for name, one in each.items()}
    return A, b, kernels, solve(A, b), by_arrays(solve, A, b)


SIZES = [  # points in float64 are what test_cg_steps takes
    (np.float64, 1),
    pytest.param(np.float64, 3, marks=pytest.mark.exhaustive),
    pytest.param(np.float64, 6, marks=pytest.mark.slow),
    pytest.param(np.float32, 3, marks=pytest.mark.slow),
]


@pytest.mark.cpu
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(("dtype", "c"), SIZES)
def test_steps_are_those_of_the_loop(dtype, c, name, request):
    A, b, kernels, found, expected = both_ways(dtype, c, request.config.getoption("--seed"))
    assert kernels[name] >= 2, "no kernel beside that of the product"
    (x, steps, residual, why), (x_, steps_, residual_, why_) = found[name], expected[name]
    assert why == why_
    unit, size = np.finfo(dtype).eps, np.abs(x_).max()
    if name in ("too few steps", "gives up early"):
        assert steps == steps_
        np.testing.assert_allclose(x, x_, atol=1e3 * unit * size)
        np.testing.assert_allclose(residual, residual_, rtol=1e3 * unit)
        return
    # A recursion of many steps loses its directions to rounding: it may arrive somewhat sooner or later, and where it
    # looks for what is below rounding, it arrives by chance.
    assert name == "below rounding" or abs(int(steps) - int(steps_)) <= max(2, 0.2 * steps_)
    left = np.linalg.norm(np.asarray(A.to_dense(), float) @ np.ravel(x) - np.ravel(b))
    goal = {"an absolute tolerance": 1e-3, "below rounding": 1e3 * unit * np.linalg.norm(b)}.get(
        name, 1e-6 * np.linalg.norm(b)
    )
    if why == jm.RESULTS.successful._value or name == "below rounding":
        assert left <= goal + 1e2 * unit * np.linalg.norm(b)


@pytest.mark.slow
def test_flaws_are_those_of_the_loop(rng):
    names, b = ("blocks", "no preconditioner"), jnp.asarray(rng.normal(size=(40, 3)))
    flawed = {kind: chain(rng, np.float64, 3, kind) for kind in ("indefinite", "singular")}

    solve = solved_by_each(names)[0]

    @jax.jit
    def ends(flawed, b):
        return {kind: solve(A, b) for kind, A in flawed.items()}

    found, expected = ends(flawed, b), by_arrays(ends, flawed, b)
    for kind in flawed:
        for name in names:
            assert found[kind][name][3] == expected[kind][name][3] != jm.RESULTS.successful._value, (kind, name)


@pytest.mark.cpu
@pytest.mark.parametrize("bound", Bounds._fields)
def test_steps_end_at_every_bound(bound, rng):
    """At once or after some of seven steps."""
    A, r = chain(rng, np.float64, 3)["a", "a"], jnp.asarray(rng.normal(size=(40, 3)))
    zero, none, size = jnp.zeros(()), jnp.zeros((), jnp.int32), jnp.linalg.norm(r)
    begin = CGState(0 * r, r, 0 * r, zero, zero, zero, size, none)
    free = Bounds(zero, 1e9 * size, zero + jnp.inf, zero + 1, none + 7, none + 9)
    run = jax.jit(lambda bounds: run_on(A, jnp.zeros((0, 3, 3)), begin, none, bounds)[1])
    assert run(free) == 7
    ends = {
        "goal": (free._replace(goal=size), 0),
        "far": (free._replace(far=0.9 * size), 0),
        "line": (free._replace(line=zero, grace=none + 2), 3),
        "falling": (free._replace(line=1e9 * size, falling=zero, grace=none + 2), 3),
        "last": (free._replace(last=none + 3), 3),
        "grace": (free._replace(line=zero, grace=none + 4), 5),
    }
    bounds, taken = ends[bound]
    assert run(bounds) == taken


@pytest.mark.slow
def test_a_start_that_is_known_and_a_load_of_nothing(rng):
    A, b = chain(rng, np.float64, 3), jnp.asarray(rng.normal(size=(40, 3)))
    x = solved(jm.solver.PCG(1e-12))(A, b)[0]

    @jax.jit
    def near(A, b, x):
        solution = lx.linear_solve(A, {"a": b}, jm.solver.PCG(1e-6), options={"x0": {"a": x}})
        return solution.value["a"], solution.stats["num_steps"]

    found, expected = near(A, b, 1.001 * x), by_arrays(near, A, b, 1.001 * x)
    assert abs(int(found[1]) - int(expected[1])) <= 2
    np.testing.assert_allclose(found[0], x, atol=1e-3 * np.abs(x).max())
    assert near(A, b, x)[1] == 0
    nothing = solved(jm.solver.PCG(1e-6))(A, 0 * b)
    assert nothing[1] == 0 and not np.any(nothing[0])


@pytest.mark.slow
def test_members_of_batches_are_solved_as_if_alone(rng):
    """Bit by bit: of loads, of matrices, of both, one batch in another. Each takes its own number of steps."""
    solve, several = solved(SOLVERS["blocks"]), jnp.asarray(rng.normal(size=(2, 3, 40, 3)))
    A = chain(rng, np.float64, 3)
    factors = jnp.asarray([1.0, 30.0])

    def alike(found, *members):
        for part, expected in zip(found, zip(*members, strict=True), strict=True):
            assert np.array_equal(part, np.stack(expected))

    def shifted(factor, b):
        own = A["a", "a"]
        values = own.values.at[own.pattern.diagonal].add(factor * jnp.eye(3))
        return solve(
            jm.matrix.BlockMatrix.from_entries({("a", "a"): jm.matrix.BlockSparse(values, own.pattern)}, symmetric=True), b
        )

    alike(jax.jit(jax.vmap(solve, (None, 0)))(A, several[0]), *(solve(A, b) for b in several[0]))
    shifted = jax.jit(shifted)
    found = jax.jit(jax.vmap(shifted))(factors, several[:, 0])
    alike(found, *(shifted(f, b) for f, b in zip(factors, several[:, 0], strict=True)))
    assert found[1][0] > found[1][1], "as many steps for an easier matrix"
    alike(jax.jit(jax.vmap(shifted, (0, None)))(factors, several[0, 0]), *(shifted(f, several[0, 0]) for f in factors))
    nested = jax.jit(jax.vmap(jax.vmap(shifted, (None, 0))))(factors, several)
    for i in range(2):
        alike([part[i] for part in nested], *(shifted(factors[i], b) for b in several[i]))


@pytest.mark.cpu
def test_batches_have_kernels(rng):
    A, b, factors = chain(rng, np.float64, 3), jnp.asarray(rng.normal(size=(2, 40, 3))), jnp.asarray([1.0, 30.0])
    scaled = jax.vmap(lambda factor, b: solved(SOLVERS["blocks"])(A.scaled(factor), b))
    assert jax.jit(scaled).lower(factors, b).as_text().count("jaxmech_") >= 2, "no kernel beside that of the product"


@pytest.mark.slow
def test_large_blocks_take_the_loop(rng):
    A, b = chain(rng, np.float64, 37, nodes=3), jnp.asarray(rng.normal(size=(3, 37)))
    solve = solved(jm.solver.PCG(1e-10))
    assert "jaxmech_" not in solve.lower(A, b).as_text()
    dense = np.linalg.solve(np.asarray(A.to_dense()), np.ravel(b))
    np.testing.assert_allclose(np.ravel(solve(A, b)[0]), dense, atol=1e-6 * np.abs(dense).max())


@pytest.mark.slow
def test_matrices_of_patterns_of_their_own_take_the_loop(rng):
    A, b = chain(rng, np.float64, 2), jnp.asarray(rng.normal(size=(40, 2)))
    two = jax.tree.map(lambda a: jnp.stack([a, a]), A)
    found, alone = jax.jit(jax.vmap(solved(SOLVERS["blocks"])))(two, jnp.stack([b, 2 * b])), solved(SOLVERS["blocks"])(A, b)
    np.testing.assert_allclose(found[0], np.stack([alone[0], 2 * alone[0]]), atol=1e-4 * np.abs(alone[0]).max())


@pytest.mark.slow_cases("GMRES", "MINRES")
@pytest.mark.parametrize("solver", [jm.solver.PCG, jm.solver.MINRES, jm.solver.BiCGStab, jm.solver.GMRES])
def test_where_jax_makes_float32_of_everything(solver, rng):
    b = rng.normal(size=(40, 3)).astype(np.float32)
    with jax.enable_x64(False):
        A = chain(rng, np.float32, 3)
        x, _, _, why = solved(solver(1e-3))(A, jnp.asarray(b))
        assert x.dtype == np.float32 and why == jm.RESULTS.successful._value
        left = np.asarray(A.to_dense(), float) @ np.ravel(x) - np.ravel(b)
    assert np.linalg.norm(left) <= 2e-3 * np.linalg.norm(b)
