"""Kernels of one element, which are written in scalars: against JAX's own programs, of every kind of input and output."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxmech._codegen.llvm.element_kernel import Kernel, kernel_text
from jaxmech._codegen.program.element_jaxpr import ElementProgram
from jaxmech._codegen.program.nodal_gather import NodeRows
from jaxmech._codegen.program.scatter_plan import Places
from jaxmech._codegen.scalarize import loops
from jaxmech._llvm import machine_code

pytestmark = pytest.mark.cpu
ROUNDING = {"float32": 3e-6, "float64": 4e-15}  # of a few operations, and of other polynomials than the C library's
AWAY, EVEN = lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN
TYPES = [bool, np.int32, np.int64, np.float32, np.float64]
# fmt: off
OF_FLOATS = {
    "lines": lambda x, y: (x + y, x - y, x * y, x / y, -x, x * x * x, jnp.maximum(x, y), jnp.minimum(x, y)),
    "comparisons": lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y, jnp.isfinite(x), jnp.where(x < y, x, y)),
    "intrinsic": lambda x, y: (jnp.abs(x), jnp.sqrt(jnp.abs(x)), jnp.floor(x), jnp.ceil(x), jnp.sign(x), lax.rsqrt(y * y)),
    "rounded": lambda x, y: (lax.round(x, AWAY), lax.round(y, EVEN), lax.round(x + 0.5, EVEN)),
    "powers": lambda x, y: (lax.integer_pow(x, 5), lax.integer_pow(y, -3), jnp.abs(x) ** y, lax.clamp(-y * y, x, y * y)),
    "circular": lambda x, y: (jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arcsin(x / 9), jnp.arccos(x / 9), jnp.arctan2(x, y)),
    "hyperbolic": lambda x, y: (jnp.sinh(x), jnp.cosh(x), jnp.tanh(x), jnp.arcsinh(x), jnp.arccosh(x * x), jnp.arctan(y)),
    "growing": lambda x, y: (jnp.exp(x), jnp.exp2(x), jnp.expm1(x), jnp.log(y * y), jnp.log1p(y * y), jnp.arctanh(x / 9)),
    "others": lambda x, y: (jnp.cbrt(x), lax.erf(x), lax.logistic(x), lax.rem(x, y), lax.nextafter(x, y), jnp.square(x)),
}
# fmt: on
OF_WHOLE = {
    "lines": lambda x, y: (x + y, x - y, x * y, -x, jnp.maximum(x, y), jnp.minimum(x, y), lax.clamp(x, y, x + 2)),
    "bits": lambda x, y: (x & y, x | y, x ^ y, ~x),
    "comparisons": lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y),
    "cases": lambda x, y: (lax.select_n(x.astype(np.int32), x, y, x + y, x * y),),
}


def _row(a, axis):
    if axis is None:
        return a
    return a.values[a.nodes][0] if isinstance(a, NodeRows) else a[0]


def of_one(function, axes, *arrays, places=()):
    """The results of a kernel of one element, and those of the function without."""
    rows = [_row(a, axis) for a, axis in zip(arrays, axes, strict=True)]
    program = ElementProgram(jax.make_jaxpr(lambda *a: jax.tree.leaves(function(*a)))(*rows), axes)
    text = kernel_text(program, arrays, places, 1).text
    assert not re.search(r"<\d+ x ", text), "a vector"
    found = jax.jit(lambda: Kernel(program, arrays, places, 1)(arrays, places, 1))()
    return found, jax.tree.leaves(jax.jit(function)(*rows))


def agree(found, expected):
    for f, e in zip(found, expected, strict=True):
        assert f.dtype == e.dtype
        tolerance = ROUNDING.get(e.dtype.name, 0)
        np.testing.assert_allclose(f, e, tolerance, tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", OF_FLOATS)
def test_operations_of_floating_point(name, dtype):
    x = jnp.asarray([[-2.5, -1.0, 0.5, 0.3, 3.5, 1.0]], dtype)
    y = jnp.asarray([[2.0, -1.0, 1.5, -0.7, 2.5, jnp.nan]], dtype)
    function = OF_FLOATS[name]
    found, expected = of_one(function, (0, 0), x, y)
    agree([f[0] for f in found], expected)


@pytest.mark.parametrize("dtype", TYPES[:3])
@pytest.mark.parametrize("name", OF_WHOLE)
def test_operations_of_whole_numbers_and_truth_values(name, dtype):
    if dtype is bool and name in ("lines", "cases"):
        pytest.skip("truth values are not added")
    x, y = jnp.asarray([[-1, 0, 1, 2, 3, 9]]).astype(dtype), jnp.asarray([[1, 0, 5, -2, 3, 4]]).astype(dtype)
    found, expected = of_one(OF_WHOLE[name], (0, 0), x, y)
    agree([f[0] for f in found], expected)


@pytest.mark.parametrize("before", TYPES)
def test_conversions(before):
    x = jnp.asarray([[-1.7, 0.0, 1.0, 2.6]]).astype(before)
    found, expected = of_one(lambda x: [x.astype(after) for after in TYPES] + [jnp.where(x != 0, x, x)], (0,), x)
    agree([f[0] for f in found], expected)


def chosen(x, i, w):
    """Branches within branches, of numbers known while tracing, and of what is shared; the number of a branch."""

    def turned(x):
        return lax.cond(x[1] > 0, lambda x: (jnp.sin(x), w), lambda x: (jnp.ones(3), x * w), x)

    first = lax.cond(x[0] > 0, turned, lambda x: (jnp.exp(x) * w, jnp.zeros(3)), x)
    second = lax.cond(i, lambda x: (x[0], i, True), lambda x: (jnp.exp(x[1]), 7 - i, x[0] > x[1]), x)
    return first, second, x + first[0]


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_conditionals(signs):
    x, w = jnp.asarray([[*(0.5 * s for s in signs), 0.25]]), jnp.asarray([2.0, 3.0, 4.0])
    found, expected = of_one(chosen, (0, 0, None), x, jnp.asarray([max(signs[1], 0)], jnp.int32), w)
    agree([f[0] for f in found], expected)


def root(x, w):
    """Rounds within rounds, with a branch in them, from a start that is known: of each element another number."""

    def round_of_inner(at):
        number, y = at
        return number + 1, lax.cond(y > w[1], lambda y: 0.5 * (y + x[0] / y), lambda y: y + jnp.exp(-y), y)

    def round_of_outer(at):
        number, total = at
        return number + 1, total + lax.while_loop(lambda at: at[0] < number, round_of_inner, (jnp.int32(0), 1 + x[1]))[1]

    return lax.while_loop(lambda at: jnp.abs(at[1]) < x[0], round_of_outer, (jnp.int32(0), 0.0))


@pytest.mark.parametrize("count", [1, 3, 8, 11])
def test_loops_of_unknown_length(count):
    """Of fewer elements than a kernel takes at once, what stands for the others would go on for ever."""
    x = jnp.stack([jnp.linspace(9.0, -2.0, 11)[:count], jnp.linspace(0.0, 1.0, 11)[:count]], 1)
    w = jnp.asarray([2.0, 1.5])
    program = ElementProgram(jax.make_jaxpr(root)(x[0], w), (0, None))
    found = jax.jit(lambda: Kernel(program, [x, w], (), count if count < 8 else None)([x, w], (), count))()
    expected = jax.vmap(root, (0, None))(x, w)
    assert count < 8 or len({*np.asarray(expected[0]).tolist()}) > 3, "rounds as if all were alike"
    agree(found, expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_long_loops_stay_loops(rng, reverse, monkeypatch):
    """What rounds read and write, they choose by their number."""
    monkeypatch.setattr(loops, "_LONG_OF_ELEMENTS", 0)

    def function(x, rows, w):
        def turn(carry, row):
            a, flag = carry
            for _ in range(9):
                a = jnp.sin(a) @ w
            return (a + row[0], ~flag), (a[0] * row[1], flag, row[2] > 0)

        return lax.scan(turn, (x, True), (rows, jnp.arange(5.0), rows[:, 0]), reverse=reverse)

    x, rows, w = (jnp.asarray(rng.normal(size=size)) for size in ((1, 3), (1, 5, 3), (3, 3)))
    arrays = x, rows, 0.3 * w
    rows = [arrays[0][0], arrays[1][0], arrays[2]]
    program = ElementProgram(jax.make_jaxpr(lambda *a: jax.tree.leaves(function(*a)))(*rows), (0, 0, None))
    assert kernel_text(program, arrays, (), 1).text.count("@sin(") < 3 * 9 + 3, "a loop written out"
    found, expected = of_one(function, (0, 0, None), *arrays)
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f[0], e, 1e-12)  # after 45 products


def test_a_product_with_a_matrix_that_is_shared(rng):
    x, w, flags = jnp.asarray(rng.normal(size=(1, 17))), jnp.asarray(rng.normal(size=(19, 17))), jnp.arange(19) % 2 == 0
    found, expected = of_one(lambda x, w, flags: jnp.where(flags, jnp.tanh(w @ x), 0), (0, None, None), x, w, flags)
    np.testing.assert_allclose(found[0][0], expected[0], 1e-13)


@pytest.mark.parametrize("integer", [np.int32, np.int64])
@pytest.mark.parametrize("node", [4, 8, 9, -1])
def test_what_stands_at_nodes(rng, integer, node):
    """Numbers of nodes that do not exist: NaN, -1 of whole numbers."""
    values, flags = jnp.asarray(rng.normal(size=(9, 3))), jnp.asarray(rng.normal(size=9) > 0)
    nodes = jnp.asarray([[0, 7, node]], integer)

    def function(p, f):
        return p @ p.T, f, jnp.sum(p > 0, dtype=jnp.int32), ~f[0]

    found, expected = of_one(function, (0, 0), NodeRows(values, nodes), NodeRows(flags, nodes))
    if 0 <= node < 9:
        agree([f[0] for f in found], expected)
    else:
        assert np.isnan(found[0]).all() and found[2][0] == -1


@pytest.mark.parametrize("row", [5, 6, -1])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums(rng, mirrored, row, dtype):
    """Two rows of three go to one place; a row that does not exist makes all NaN. Mirror images get the transposes."""
    x = jnp.asarray(rng.normal(size=(1, 3)), dtype)
    slots, images = jnp.asarray([2, row, 2], jnp.int32), jnp.asarray([0, 3, 4, 1, 2, 5], jnp.int32)
    alone = jnp.asarray([1], jnp.int32)

    def function(x):
        blocks = jnp.stack([jnp.outer(x, x[::-1] + k) for k in range(3)])
        return blocks, jnp.sum(x), x * x

    places = Places(slots, images if mirrored else None, 6), Places(alone, None, 3, single=True)
    found, (blocks, total, squares) = of_one(function, (0,), x, places=places)
    if not 0 <= row < 6:
        assert all(np.isnan(f).all() for f in found)
        return
    expected = np.zeros((6, 3, 3), dtype)
    np.add.at(expected, np.asarray(slots), blocks)
    if mirrored:
        np.add.at(expected, np.asarray(images)[np.asarray(slots)], np.swapaxes(blocks, 1, 2))
    agree(found, [expected, np.array([0, total, 0], dtype), squares[None]])


def test_the_functions_of_the_c_library_stay_those_that_are_asked_for():
    """LLVM knows them: the sine and the cosine of one number would be one call, a power of 2 a product."""
    program = ElementProgram(jax.make_jaxpr(lambda x: (jnp.sin(x), jnp.cos(x), x ** jnp.float64(2.5)))(1.0), (0,))
    text = kernel_text(program, [jnp.ones(1)], (), 1)
    assert sorted(text.called) == ["cos", "pow", "sin"] and text.text.count(" nobuiltin") == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_program_is_divided_into_blocks_and_chooses_without_jumps(dtype):
    """LLVM takes longer for a line of a long block, and makes blocks of their own of every choice between real numbers."""

    def function(x, y):
        for _ in range(200):
            x = jnp.where(x > 8, x - 5, x + y)  # exactly, of halves
        return (x, jnp.where(x > y, -0.0, x))

    x, y = jnp.asarray([[0.5, -3.0, jnp.nan, jnp.inf]], dtype), jnp.asarray([[1.5, 0.5, 1.0, 2.0]], dtype)
    found, expected = of_one(function, (0, 0), x, y)
    agree(found, [e[None] for e in expected])
    assert np.array_equal(np.signbit(found[1]), np.signbit(expected[1])[None]), "which zero is chosen"
    text = kernel_text(ElementProgram(jax.make_jaxpr(function)(x[0], y[0]), (0, 0)), [x, y], (), 1).text
    assert text.count("select i1") > 800 and not re.search(r"select i1 [^,]+, (float|double)", text)
    assert max(block.count("\n") for block in re.split(r"\n[\w.]+:\n", text)) < 600 < text.count("\n") / 5


@pytest.mark.parametrize("lanes", [1, 2])
def test_only_vectors_are_put_together_before_they_become_machine_code(lanes):
    llvm = pytest.importorskip("llvmlite.binding")
    program = ElementProgram(jax.make_jaxpr(lambda x: x / (x @ x))(jnp.ones(3)), (0,))
    text = kernel_text(program, [jnp.ones((lanes, 3))], (), lanes).text
    builder = llvm.create_pass_builder(machine_code.machine(), llvm.create_pipeline_tuning_options())
    with llvm.parse_assembly(text) as module:
        before = str(module)
        machine_code._tidying(text).run(module, builder)
        assert (str(module) == before) == (lanes == 1)
