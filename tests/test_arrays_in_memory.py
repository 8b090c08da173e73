"""Loops of kernels that write to arrays at places that are computed: one element keeps these in memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxmech._codegen.llvm.element_kernel import Kernel, kernel_text
from jaxmech._codegen.program.element_jaxpr import ElementProgram

pytestmark = pytest.mark.cpu


def rounds(times, body, start):
    """As many rounds as an element says, of which each is given its number."""
    return lax.while_loop(lambda at: at[0] < times, lambda at: (at[0] + 1, body(at[0], at[1])), (jnp.int32(0), start))[1]


def written(x, times):
    """Rows and entries put, beyond the ends too, and read again; whole numbers beside."""

    def body(i, at):
        rows, line, counts = at
        rows = lax.dynamic_update_slice(rows, jnp.sin(rows[i % 5] + x)[None], (3 * i - 4, jnp.int32(0)))
        line = line.at[2 * i - 3].set(line[i] + rows[1, 0], mode="drop")
        line = line.at[i].set(x[0] * i, mode="clip")
        return rows, line, counts.at[i].add(2).at[-i].set(i)

    return rounds(times, body, (jnp.outer(jnp.arange(9.0), x), jnp.ones(12), jnp.zeros(10, jnp.int32)))


def within(x, times):
    """A loop in a loop, which goes on writing where the other did; both read."""

    def body(i, a):
        a = rounds(i, lambda j, a: a.at[i + j].set(a[j] + x[0]), a.at[i].set(x[1]))
        return a.at[11 - i].set(jnp.sum(a))

    return rounds(times, body, jnp.arange(12.0))


def exchanged(x, times):
    """Two arrays that change places in every round."""
    return rounds(times, lambda i, at: (at[1].at[i].set(x[0]), at[0].at[i].add(1.0)), (jnp.zeros(9), jnp.arange(9.0)))


def somewhere(x, times):
    """Written to in one branch, or in the other; handed through, and made anew."""

    def body(i, at):
        a, b = at
        a = lax.cond(i % 2 == 0, lambda a: a.at[i].set(x[0]), lambda a: a, a)
        a = lax.cond(a[3] > 0, lambda a: a, lambda a: a.at[i + 1].set(x[1]), a)
        a = lax.cond(i == 3, lambda a: rounds(2, lambda j, a: a.at[j].add(x[0]), a), lambda a: a, a)
        return a.at[i].add(0.5), jnp.where(i == 2, jnp.flip(a), b.at[i].set(a[0]))

    return rounds(times, body, (jnp.zeros(8), jnp.ones(8)))


def later(x, times):
    """Two loops one after the other, of which each starts with what the first has left."""
    a = rounds(times, lambda i, a: a.at[i].set(x[0] * i), jnp.zeros(16))
    return rounds(times, lambda i, b: b.at[i].set(a[i + 1] + b[i]), a), rounds(3, lambda i, b: b.at[i].set(-b[i]), a[:9])


def before_and_after(x, times):
    """An array before it is written to, and after: both are asked for."""

    def body(i, at):
        after = at[0].at[i].set(x[0])
        return after, at[0] + after

    return rounds(times, body, (jnp.zeros(9), jnp.zeros(9)))


IN_MEMORY = [written, within, exchanged, somewhere]
CASES = [*IN_MEMORY, later, before_and_after]


@pytest.mark.parametrize("count", [1, 3, 11])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", CASES)
def test_arrays_are_those_of_jax(function, dtype, count, rng):
    x, times = jnp.asarray(rng.uniform(0.5, 1.5, (count, 2)), dtype), jnp.arange(count, dtype=jnp.int32) % 7 + 2
    program = ElementProgram(jax.make_jaxpr(lambda *a: jax.tree.leaves(function(*a)))(x[0], times[0]), (0, 0))
    arrays, lanes = [x, times], count if count < 8 else None
    found = jax.jit(lambda: Kernel(program, arrays, (), lanes)(arrays, (), count))()
    expected = jax.tree.leaves(jax.jit(jax.vmap(function))(x, times))
    for f, e in zip(found, expected, strict=True):
        assert f.dtype == e.dtype
        np.testing.assert_allclose(f, e, rtol=1e-5 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("function", IN_MEMORY)
def test_they_are_in_memory(function):
    """Rounds hand on what is no array, and branches what they choose from."""
    program = ElementProgram(jax.make_jaxpr(lambda *a: jax.tree.leaves(function(*a)))(jnp.ones(2), jnp.int32(0)), (0, 0))
    text = kernel_text(program, [jnp.ones((1, 2)), jnp.zeros(1, jnp.int32)], (), 1).text
    assert text.count(" alloca ") >= 1 and (text.count(" phi ") < 20 or function is somewhere)


def test_long_arrays_take_no_more_lines():
    """A choice at each place would be as many operations in every round as there are places."""

    def function(x, size):
        return rounds(x.astype(jnp.int32), lambda i, a: a.at[i].set(a[i - 1] + x), jnp.zeros(size))

    def lines(size):
        program = ElementProgram(jax.make_jaxpr(lambda x: [function(x, size)[:3]])(jnp.ones(())), (0,))
        return kernel_text(program, [jnp.ones(1)], (), 1).text.count("\n")

    assert lines(400) - lines(200) < 3 * 200  # what it starts with is put there
