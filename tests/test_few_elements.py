"""Kernels of fewer elements than a vector has entries, and element functions that are traced once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmech._codegen import dispatch
from jaxmech._codegen.llvm.element_kernel import kernel_text
from jaxmech._codegen.llvm.vector import WIDTH
from jaxmech._codegen.map_elements import map_elements
from jaxmech._codegen.program.element_jaxpr import ElementProgram
from jaxmech._codegen.program.nodal_gather import NodeRows

TRACES = []


def element(x, p, shared):
    """Long enough for a kernel, of a row, of rows at nodes, and of what all share; whole numbers and truth values too."""
    TRACES.append(x.shape)
    for _ in range(60):
        x = jnp.sin(x) * shared + p[::-1]
    return x @ x, x > 0, jnp.sum(p, axis=0), jnp.sum(x > 0, dtype=jnp.int32)


@pytest.mark.slow
@pytest.mark.cpu
@pytest.mark.quick
def test_a_few_elements_are_as_many(rng, monkeypatch):
    made = []
    kind = dispatch.Kernel
    monkeypatch.setattr(dispatch, "Kernel", lambda *a: made.append(a[3]) or kind(*a))
    nodes = jnp.asarray(rng.integers(0, 9, (7, 3)), jnp.int32)
    x, values = (jnp.asarray(rng.normal(size=s)) for s in ((7, 3), (9,)))
    shared = jnp.asarray(rng.uniform(0.3, 0.9, 3))  # below 1, so that rounding does not grow

    def found(count):
        def mapped(x, values, shared):
            rows = NodeRows(values, nodes[:count])
            return map_elements(element, (0, 0, None), x[:count], rows, shared)

        def plain(x, values, shared):
            return jax.vmap(element, (0, 0, None))(x[:count], values[nodes[:count]], shared)

        def all_of(f, *a):
            return f(*a), jax.grad(lambda *a: jnp.sum(f(*a)[0]), (0, 1, 2))(*a)

        return all_of(mapped, x, values, shared), all_of(plain, x, values, shared)

    both = jax.jit(lambda: [found(count) for count in (1, 2, 7)])()
    assert {1, 2, 7} <= set(made)
    for mapped, plain in both:
        for one, other in zip(jax.tree.leaves(mapped), jax.tree.leaves(plain), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.cpu
@pytest.mark.parametrize("count", [3, 11])
@pytest.mark.parametrize("each", [(), (2,)])
def test_what_elements_give_their_nodes_is_added_by_the_kernel(rng, monkeypatch, count, each):
    """Of fewer elements than it takes at once too, and of elements of one node."""
    made = []
    kind = dispatch.Kernel
    monkeypatch.setattr(dispatch, "Kernel", lambda *a: made.append(a) or kind(*a))
    nodes = jnp.asarray(rng.integers(0, 9, (count, *each)), jnp.int32)
    values = jnp.asarray(rng.uniform(0.1, 0.9, (9, 3)))

    def energy(p):
        for _ in range(25):
            p = 0.4 * jnp.sin(p) * p + 0.5 * p[..., ::-1] + 0.1
        return jnp.sum(p)

    def total(values):
        return jnp.sum(map_elements(energy, 0, NodeRows(values, nodes)))

    found = jax.jit(jax.grad(total))(values)
    expected = jax.grad(lambda values: jnp.sum(jax.vmap(energy)(values[nodes])))(values)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    (places,) = (a[2] for a in made if a[2])
    assert places[0].rows == 9 and made[-1][3] == (count if count < WIDTH else None)


@pytest.mark.cpu
def test_a_long_program_of_short_equations_is_a_kernel(rng, monkeypatch):
    """What XLA would take longer to compile; not one of as many results in a few equations, of which XLA makes loops."""
    made = []
    kind = dispatch.Kernel
    monkeypatch.setattr(dispatch, "Kernel", lambda *a: [kernel := kind(*a), made.append(a[3])] and kernel)

    def chain(x, p, rounds):
        for _ in range(rounds):
            x = x * p + 0.1
        return x

    for size, rounds, kernels in ((20, 570, [7]), (2500, 5, [])):
        x, p = (jnp.asarray(rng.uniform(0.1, 0.9, (7, size))) for _ in range(2))
        mapped = functools.partial(map_elements, functools.partial(chain, rounds=rounds), (0, 0))
        np.testing.assert_allclose(jax.jit(mapped)(x, p), chain(x, p, rounds), rtol=1e-12)
        assert made == kernels
        made.clear()


@pytest.mark.cpu
def test_the_least_of_whole_numbers_of_one_element(rng, recwarn):
    """The loop over elements asks for the lesser of two such numbers too, of one element by the same function of LLVM."""

    def least(x, n):
        for _ in range(60):
            x = jnp.sin(x) * x + 0.1
        return x[0], jnp.minimum(n, 2 * n[::-1])

    x, n = jnp.asarray(rng.normal(size=(1, 3))), jnp.asarray([[4, 7, -3]], jnp.int64)
    np.testing.assert_array_equal(jax.jit(lambda *a: map_elements(least, 0, *a))(x, n)[1], [[-6, 7, -3]])
    assert not [str(w.message) for w in recwarn if "could not compile" in str(w.message)]


def test_numbers_of_nodes_that_do_not_exist(rng):
    """Of a few elements as of many: NaN."""
    x, values = jnp.asarray(rng.normal(size=(2, 3))), jnp.asarray(rng.normal(size=9))

    @jax.jit
    def first(nodes):
        return map_elements(element, (0, 0, None), x, NodeRows(values, nodes), jnp.ones(3))[0]

    assert np.isfinite(first(jnp.asarray([[0, 1, 8], [2, 3, 4]]))).all()
    assert np.isnan(first(jnp.asarray([[0, 1, 9], [2, 3, 4]]))).any()


def test_an_element_function_is_traced_once(monkeypatch):
    """Closures of equal contents are one function; of other contents, or of arrays, they are not."""
    del monkeypatch  # asked for, so that nothing is known yet

    def closing_over(number):
        def of_one(x):
            TRACES.append(number)
            return number * x

        return of_one

    def results(*numbers):
        TRACES.clear()
        x = jnp.arange(3.0)
        found = jax.jit(lambda: [map_elements(closing_over(n), (0,), x) for n in numbers])()
        return len(TRACES), [float(np.asarray(f)[1]) for f in found]

    assert results(2.0, 2.0, 2.0) == (1, [2.0, 2.0, 2.0])
    assert results(3.0, 4.0, 3, True) == (4, [3.0, 4.0, 3.0, 1.0])
    assert results(jnp.float32(2.0), jnp.float32(3.0)) == (2, [2.0, 3.0])


@pytest.mark.cpu
def test_functions_of_the_c_library_are_called_for_the_elements_that_there_are():
    """For one element they were called eight times, of which seven were nobody's."""
    program = ElementProgram(jax.make_jaxpr(lambda x: jnp.sin(x) * jnp.cos(x))(jnp.ones(2)), (0,))
    for lanes in (1, 3, WIDTH):
        text = kernel_text(program, [jnp.zeros((lanes, 2))], (), lanes).text
        calls = 2 if lanes == 1 else lanes  # of each of two numbers directly, or within the function for all elements
        assert [text.count(f" = call double @{name}(") for name in ("sin", "cos")] == [calls, calls]
