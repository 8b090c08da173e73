"""Mapped programs of elements: the derivatives of any order are mapped programs, and scalarised, themselves."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_scalarised import close, way  # noqa: F401

from jaxmech._codegen import dispatch
from jaxmech._codegen.map_elements import map_elements
from jaxmech._codegen.map_points import map_points
from jaxmech._codegen.program.nodal_gather import NodeRows
from jaxmech._runtime.jax_internals import without_unused
from jaxmech._sparse.element_scatter import ElementSums

pytestmark = pytest.mark.quick

COUNT = 9
AXES = (0, 0, None)


@pytest.fixture(autouse=True)
def always(way, monkeypatch):  # noqa: F811
    """However few the elements and the operations; and never as arrays of all elements."""
    monkeypatch.setattr(dispatch, "_FEWEST", 1)
    monkeypatch.setattr(dispatch, "_FEW", 1)
    monkeypatch.setattr(dispatch, "_SHORT", 0)


@pytest.fixture
def only_scalarised(monkeypatch):
    """Where a program is mapped as it is, the test fails."""

    def refused(*arguments):
        raise AssertionError("a program that is not scalarised")

    monkeypatch.setattr(dispatch, "mapped", refused)


def plain(function, in_axes, *arguments):
    return jax.vmap(function, in_axes)(*arguments)


def smooth(a, b, s):
    """What reads entries in every way that a transpose writes them back."""
    picked = a[np.array([2, 0])][:, ::2] @ b[:2, :2].T + jnp.stack([b[0, :2], b[1, 1:]])
    row = jax.lax.dynamic_slice_in_dim(a, 1, 1)[0]
    return jnp.sin(s * picked) @ jnp.exp(0.1 * picked.T), jnp.flip(row) * jnp.sum(b[np.triu_indices(3)]) * s


@pytest.fixture
def given(rng):
    a, b = (jnp.asarray(rng.normal(size=(COUNT, 3, 3))) for _ in range(2))
    return a, b, jnp.asarray(0.7)


def energy(over, function=smooth):
    """A number made of all outputs, in which none of them is linear."""

    def value(a, b, s):
        return sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(over(function, AXES, a, b, s)))

    return value


ORDERS = {
    "reverse": lambda f: jax.grad(f, (0, 1, 2)),
    "forward": lambda f: jax.jacfwd(f, (0, 2)),
    "forward over reverse": lambda f: jax.jacfwd(jax.grad(f, (0, 2)), 2),
    "reverse over forward": lambda f: jax.grad(jax.jacfwd(f, 2), (0, 2)),
    "reverse over reverse": lambda f: jax.grad(lambda *x: jnp.sum(jax.grad(f)(*x) ** 2), (0, 1, 2)),
    "third": lambda f: jax.grad(lambda *x: jax.jvp(jax.grad(f, 2), x, x)[1], (0, 1, 2)),
    "of two scenes": lambda f: jax.vmap(jax.grad(lambda a, b, s: f(a, b, s), (0, 2)), (None, None, 0)),
}


@functools.cache
def plain_derivative(order, over=plain):
    """What is expected: one program, for both ways."""
    return jax.jit(ORDERS[order](energy(over)))


@pytest.mark.slow_cases("arrays-third")
@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_are_scalarised(order, given, request):
    a, b, s = given
    s = jnp.stack([s, 2 * s]) if order == "of two scenes" else s
    expected = plain_derivative(order)(a, b, s)
    request.getfixturevalue("only_scalarised")
    close(jax.jit(ORDERS[order](energy(map_elements)))(a, b, s), expected)


@pytest.mark.slow_cases("arrays")
def test_custom_rules_are_respected(given):
    @jax.custom_jvp
    def odd(x):
        return x**3

    odd.defjvp(lambda primals, tangents: (odd(*primals), 7.0 * primals[0] * tangents[0]))  # not the derivative

    for order in ("reverse", "forward", "third"):
        found, expected = (
            jax.jit(ORDERS[order](energy(over, lambda a, b, s: odd(a @ b) * s)))(*given) for over in (map_elements, plain)
        )
        close(found, expected)


def test_a_linear_program_is_transposed(given, rng):
    a, b, _ = given
    shapes = jax.eval_shape(lambda: (b, jnp.zeros(())))
    weights = jnp.asarray(rng.normal(size=(COUNT, 3, 3)))

    def linear(over, b, s):
        return over(lambda a, b, s: a @ b + s * a, AXES, a, b, s)

    found, expected = (
        jax.jit(lambda w, over=over: jax.linear_transpose(functools.partial(linear, over), *shapes)(w))(weights)
        for over in (map_elements, plain)
    )
    close(found, expected)


def test_whole_numbers_have_no_rate(given):
    a, _, s = given
    kinds = jnp.arange(COUNT) % 2

    def value(over, a, s):
        picked, kind = over(lambda a, k, s: (jnp.where(k == 0, a, s * a * a), 2 * k), AXES, a, kinds, s)
        return jnp.sum(picked * kind[:, None, None])

    found, expected = (jax.jit(jax.grad(functools.partial(value, over), (0, 1)))(a, s) for over in (map_elements, plain))
    close(found, expected)


NODES = (
    np.array([[0, 1, 2], [2, 3, 0], [1, 1, 3], [3, 2, 1], [0, 3, 1], [2, 0, 2], [0, 0, 0], [3, 1, 2], [1, 2, 0]]),
    np.array([4, 0, 0, 2, 1, 4, 3, 3, 2]),
)
BATCHES = {"values": (0, None, 0), "nodes": (None, 0, None), "both": (0, 0, None)}


def at_nodes(over, rows=lambda values, nodes: values[nodes]):
    """The elements' arguments are rows of what stands at nodes: `(4, 3)`, three of them each, and `(5, 3, 3)`, one."""

    def function(f, axes, a, b, s, nodes=NODES[0]):
        return over(f, axes, rows(a, jnp.asarray(nodes)), rows(b, jnp.asarray(NODES[1])), s)

    return function


plainly_at_nodes = at_nodes(plain)


@pytest.mark.covering(1)
@pytest.mark.parametrize("chunk", [1024, 3])
@pytest.mark.parametrize("order", ORDERS)
def test_arguments_are_read_at_nodes(order, chunk, rng, request, monkeypatch):
    monkeypatch.setattr(dispatch, "_CHUNK", chunk)
    a, b, s = jnp.asarray(rng.normal(size=(4, 3))), jnp.asarray(rng.normal(size=(5, 3, 3))), jnp.asarray(0.7)
    s = jnp.stack([s, 2 * s]) if order == "of two scenes" else s
    expected = plain_derivative(order, plainly_at_nodes)(a, b, s)
    request.getfixturevalue("only_scalarised")
    close(jax.jit(ORDERS[order](energy(at_nodes(map_elements, NodeRows))))(a, b, s), expected)


@pytest.mark.parametrize("batch", BATCHES)
def test_scenes_have_their_own_nodes_or_what_stands_there(batch, rng):
    values, nodes, of_s = BATCHES[batch]
    a = jnp.asarray(rng.normal(size=(4, 3) if values is None else (2, 4, 3)))
    numbers = jnp.asarray(NODES[0] if nodes is None else np.stack([NODES[0], NODES[0][::-1]]))
    b, s = jnp.asarray(rng.normal(size=(5, 3, 3))), jnp.asarray(0.7 if of_s is None else [0.7, 0.2])

    def value(over):
        def of(a, s, numbers):
            return sum(jnp.sum(jnp.sin(x)) for x in over(smooth, AXES, a, b, s, numbers))

        return jax.vmap(jax.grad(of, (0, 1)), (values, of_s, nodes))

    close(jax.jit(value(at_nodes(map_elements, NodeRows)))(a, s, numbers), jax.jit(value(plainly_at_nodes))(a, s, numbers))


@pytest.mark.slow_cases("arrays-third-True")
@pytest.mark.covering(2)
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("order", ["reverse", "forward", "third", "of two scenes"])
def test_sums_of_elements(order, half, rng):
    """Blocks that are summed where they are made, and an output that is not; in numbers that are no multiple of eight."""
    count = 27
    nodes = tuple(rng.integers(0, 3, size=(count, 4)) for _ in range(2))
    built = ElementSums.build([nodes], [(3, 3)], [half])
    assert built is not None
    sums, ((rows, columns),) = built
    a, b = (jnp.asarray(rng.normal(size=(count, 3, 3))) for _ in range(2))
    weights = jnp.asarray(rng.normal(size=(4, 1, 1)))
    s = jnp.array([0.2, 0.7]) if order == "of two scenes" else jnp.asarray(0.7)

    def blocks(a, b, s):
        return weights * jnp.sin(a @ b * s), s * jnp.trace(a)

    def value(over):
        def of(a, b, s):
            summed, rest = over(a, b, s)
            return jnp.sum(jnp.cos(summed)) + jnp.sum(rest**2)

        return ORDERS[order](of)

    found = jax.jit(value(lambda a, b, s: map_elements(blocks, AXES, a, b, s, sums=sums)))(a, b, s)
    expected, each = jax.jit(
        lambda a, b, s: (value(lambda *x: sums.applied(plain(blocks, AXES, *x)))(a, b, s), plain(blocks, AXES, a, b, 0.7)[0])
    )(a, b, s)
    close(found, expected)

    matrix = np.zeros((3, 3, 3, 3))
    np.add.at(matrix, nodes, np.asarray(each))
    if half:
        np.add.at(matrix, nodes[::-1], np.asarray(each).swapaxes(-1, -2))
    close(sums.of_all([each])[0], jnp.asarray(matrix[rows, columns]))


@pytest.mark.slow_cases("arrays-rows and a number", "kernels-rows of two batches", "kernels-rows", "kernels-a number")
@pytest.mark.covering(1)
@pytest.mark.parametrize("own", ["rows", "rows and a number", "a number", "all", "rows of two batches"])
def test_sums_of_many_scenes(own, way, rng):  # noqa: F811
    """Some of what they are made of is each scene's own, the rest they share; derivatives within and around the batch."""
    count, scenes = 27, 4
    nodes = tuple(rng.integers(0, 3, size=(count, 4)) for _ in range(2))
    sums, _ = ElementSums.build([nodes], [(3, 3)], [True])
    numbers = jnp.asarray(rng.integers(0, 5, size=(count, 2)), jnp.int32)
    axes = {"a number": (None, None, 0), "rows": (0, None, None), "all": (0, 0, 0)}.get(own, (0, None, 0))
    given = tuple(
        jnp.asarray(rng.normal(size=shape if axis is None else (scenes, *shape)))
        for shape, axis in zip([(5, 3), (count, 3, 3), ()], axes, strict=True)
    )
    weights = jnp.asarray(rng.normal(size=(4, 1, 1)))

    def blocks(x, b, s):
        return weights * jnp.sin(jnp.outer(x[0], x[1]) @ b * s), s * jnp.trace(b) + x[0]

    def together(v, b, s):
        return map_elements(blocks, AXES, NodeRows(v, numbers), b, s, sums=sums)

    def plainly(v, b, s):
        return tuple(sums.applied(plain(blocks, AXES, v[numbers], b, s)))

    def number(found):
        return sum(jnp.sum(jnp.cos(a)) for a in found)

    def batch(function):
        if own == "rows of two batches":
            return jax.vmap(jax.vmap(function, (0, None, None)), (None, None, 0))
        return jax.vmap(function, axes)

    every = (0, 1, 2)
    orders = {
        "values": batch,
        "rates": lambda f: lambda *given: jax.jvp(batch(f), given, given)[1],
        "around": lambda f: jax.grad(lambda *given: number(batch(f)(*given)), every),
        "within": lambda f: batch(jax.grad(lambda *given: number(f(*given)), every)),
    }
    for order, of in orders.items():
        made = jax.jit(of(together))
        close(made(*given), jax.jit(of(plainly))(*given))
        if way == "kernels" and order == "values" and own != "rows of two batches":
            text = made.lower(*given).as_text()
            assert text.count("custom_call") == 1 and "while" not in text, "a loop over scenes"


def test_scenes_of_a_gpu_are_summed_together(rng, monkeypatch):
    """Where no cache would be too small for them: there is no loop over scenes."""
    monkeypatch.setattr("jaxmech._codegen.primitive.on_cpu", lambda: False)
    nodes = tuple(rng.integers(0, 3, size=(11, 2)) for _ in range(2))
    sums, _ = ElementSums.build([nodes], [(3, 3)], [False])
    a, s = jnp.asarray(rng.normal(size=(2, 11, 3))), jnp.asarray(0.7)

    def blocks(a, s):
        return jnp.stack([jnp.outer(a, s * a), jnp.outer(a, a)]), jnp.sum(a)

    mapped = jax.jit(jax.vmap(lambda a: map_elements(blocks, (0, None), a, s, sums=sums)))
    close(mapped(a), jax.jit(jax.vmap(lambda a: sums.applied(plain(blocks, (0, None), a, s))))(a))
    assert "while" not in mapped.lower(a).as_text()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5)])
@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_what_elements_give_their_nodes_is_added_where_it_is_made(integer, shape, dtype, way, rng):  # noqa: F811
    values = jnp.asarray(rng.normal(size=(6, *shape)).astype(dtype))
    nodes = jnp.asarray(rng.integers(0, 6, (21, 4)).astype(integer))

    def energy(values, read):
        return jnp.sum(map_elements(lambda x: jnp.sum(jnp.sin(x) * x), (0,), read(values)))

    slope = jax.jit(jax.grad(lambda values: energy(values, lambda v: NodeRows(v, nodes))))
    expected = jax.jit(jax.grad(lambda values: jnp.sum(jnp.sin(values[nodes]) * values[nodes])))(values)
    np.testing.assert_allclose(slope(values), expected, rtol=1e3 * np.finfo(dtype).eps, atol=1e2 * np.finfo(dtype).eps)
    assert ("scatter" in slope.lower(values).as_text()) == (way == "arrays")


@pytest.mark.slow_cases("arrays-third")
@pytest.mark.parametrize("order", ["reverse", "forward over reverse", "third"])
def test_points_inside_elements(order, given, request):
    """Points that are mapped inside a program of elements, as scalars of the elements and as elements of their own."""
    a, b, s = given

    def of_points(mapped):
        def function(a, b, s):
            return mapped(lambda shared, row, other: jnp.sin(shared * row) * jnp.sum(other * row), s, a, b)

        return function

    by_vmap = of_points(lambda f, shared, *arrays: jax.vmap(f, (None, 0, 0))(shared, *arrays))
    expected = jax.jit(ORDERS[order](energy(plain, by_vmap)))(a, b, s)
    close(jax.jit(ORDERS[order](energy(plain, of_points(map_points))))(a, b, s), expected)
    request.getfixturevalue("only_scalarised")
    close(jax.jit(ORDERS[order](energy(map_elements, of_points(map_points))))(a, b, s), expected)


def test_what_nobody_reads_is_left_out(given):
    """A trace says which inputs an output is made of, through a mapped program too."""
    a, b, s = given
    traced = jax.make_jaxpr(lambda a, b, s: map_elements(lambda a, b, s: (a * s, b + 1), AXES, a, b, s))(a, b, s)
    assert without_unused(traced.jaxpr, [True, False])[1] == [True, False, True]
    assert without_unused(traced.jaxpr, [False, True])[1] == [False, True, False]
    shapes = jnp.ones((4, 3)), jnp.ones((5, 3, 3)), NODES[0], NODES[1], s

    def read(a, b, of_a, of_b, s):
        return map_elements(lambda a, b, s: (a * s, b + 1, a @ b), AXES, NodeRows(a, of_a), NodeRows(b, of_b), s)

    traced = jax.make_jaxpr(read)(*shapes)
    assert without_unused(traced.jaxpr, [True, False, False])[1] == [True, False, True, False, True]
    assert without_unused(traced.jaxpr, [False, True, False])[1] == [False, True, False, True, False]
    assert without_unused(traced.jaxpr, [False, False, True])[1] == [True, True, True, True, False]
    kept = without_unused(traced.jaxpr, [False, True, False])[0]
    found = jax.jit(lambda b, nodes: jax.core.eval_jaxpr(kept, (), b, nodes))(shapes[1], jnp.asarray(NODES[1]))
    close(found, [shapes[1][NODES[1]] + 1])
