"""Conjugate gradients in operations on arrays and in LLVM are the same ones: state by state, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_cg_kernel import chain

from jaxmech._linear_solver.base.outcome import FINE, INDEFINITE, SINGULAR
from jaxmech._linear_solver.krylov.cg_recurrence import Bounds, CGState
from jaxmech._linear_solver.krylov.cg_run import run_on
from jaxmech._linear_solver.krylov.pcg import _Run
from jaxmech._llvm.ir_builder import Text
from jaxmech._llvm.ir_scalars import Scalar, ScalarMath

pytestmark = pytest.mark.cpu

STEPS, NODES, C = 9, 40, 3
ROUNDING = 1e-9  # relative: rounding grows from step to step, a formula that differs is off by far more


def free(r):
    """Bounds that end nothing but a run that has taken its steps."""
    zero, size, none = jnp.zeros((), r.dtype), jnp.linalg.norm(r), jnp.zeros((), jnp.int32)
    return Bounds(goal=zero, far=1e30 * size, line=zero + jnp.inf, falling=zero + 1, last=none, grace=none + STEPS)


@jax.jit
def by_kernel(matrix, inverse, r):
    """The states after 0, 1, ... steps, a batch of runs that end at different ones."""
    begin, none = _Run.begin(r).state, jnp.zeros((), jnp.int32)
    ended = jax.vmap(lambda last: run_on(matrix, inverse, begin, none, free(r)._replace(last=last)))
    return ended(jnp.arange(STEPS, dtype=jnp.int32))


@jax.jit
def by_loop(matrix, inverse, r):
    """The same, one step of the loop after the other, which ends at a flaw."""

    def step(carry, _):
        run, taken = carry
        goes_on = (run.flaw == FINE) & (run.residual > 0)
        moved, p = run.direction(lambda r: jnp.einsum("nij,nj->ni", inverse, r) if len(inverse) else r)
        moved = moved.advance(p, matrix.mv(p))
        after = jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), moved, run), taken + goes_on
        return after, (run.state, taken)

    return jax.lax.scan(step, (_Run.begin(r), jnp.zeros((), jnp.int32)), length=STEPS)[1]


def close(found, expected):
    for name in CGState._fields:
        a, b = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING * np.abs(b).max(), err_msg=name)


def positive(matrix):
    own = matrix.values[matrix.pattern.diagonal]
    return jnp.linalg.inv(own)


CASES = {  # the matrix, the sign of the preconditioner (0: none), the flaw at the end
    "definite": ("definite", 1, FINE),
    "without preconditioner": ("definite", 0, FINE),
    "indefinite": ("indefinite", 0, INDEFINITE),
    "preconditioner breaks down": ("definite", -1, INDEFINITE),
    "singular": ("singular", 0, SINGULAR),
    "no load": ("definite", 1, FINE),
}


@pytest.mark.parametrize("case", CASES)
def test_both_go_the_same_way(case, rng):
    kind, sign, flaw = CASES[case]
    # The second direction of two nodes on a spring is the translation that it does not resist.
    nodes, c = (2, 1) if case == "singular" else (NODES, C)
    matrix = chain(rng, np.float64, c, kind, nodes)["a", "a"]
    r = jnp.asarray(rng.normal(size=(nodes, c))) * (case != "no load")
    inverse = sign * positive(matrix) if sign else jnp.zeros((0, c, c))
    (found, taken), (expected, taken_) = by_kernel(matrix, inverse, r), by_loop(matrix, inverse, r)
    assert np.array_equal(taken, taken_) and np.array_equal(found.flaw, expected.flaw) and found.flaw[-1] == flaw
    assert case != "definite" or np.array_equal(taken, np.arange(STEPS))
    close(found, expected)


def test_a_batch_of_matrices_goes_the_way_of_each(rng):
    matrix, r = chain(rng, np.float64, C)["a", "a"], jnp.asarray(rng.normal(size=(2, NODES, C)))
    factors, none = jnp.asarray([1.0, 3.0]), jnp.zeros((0, C, C))

    def scaled(factor, r):
        return by_kernel(jax.tree.map(lambda a: factor * a if a.ndim == 3 else a, matrix), none, r)[0]

    found = jax.jit(jax.vmap(scaled))(factors, r)
    for i in range(2):
        alone = by_loop(jax.tree.map(lambda a, i=i: factors[i] * a if a.ndim == 3 else a, matrix), none, r[i])[0]
        close(jax.tree.map(lambda a, i=i: a[i], found), alone)


def test_scalars_of_other_types_are_refused():
    math = ScalarMath(Text(), np.float64)
    with pytest.raises(TypeError, match="an operand of type i32, not double"):
        math.number("%x") + Scalar(math, "i32", "%i")
    with pytest.raises(TypeError, match="an operand of type double, not i1"):
        math.where(math.number("%x"), 1.0, 2.0)
