"""Whatever the operation, the types of numbers and their values: a kernel computes what `jax.vmap` does, or is not made."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled_programs import AS_OF_A_USER
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from jaxmech._codegen import dispatch
from jaxmech._codegen.llvm.vector_arithmetic import Vector, VectorArithmetic
from jaxmech._codegen.map_elements import map_elements
from jaxmech._codegen.program.element_jaxpr import ElementProgram
from jaxmech._codegen.scalarize.arithmetic import NotScalarisable
from jaxmech._codegen.scalarize.array_arithmetic import entries
from jaxmech._codegen.scalarize.expansion import inner_programs
from jaxmech._codegen.scalarize.interpreter import run
from jaxmech._codegen.scalarize.rules import RULES
from jaxmech._codegen.scalarize.supported import CALLS, SUPPORTED
from jaxmech._llvm.ffi import NotCompilable, number_type
from jaxmech._runtime.jax_internals import primitives, unvmap_any

pytestmark = pytest.mark.quick

WITH_KERNELS = ("bool", "int32", "uint32", "int64", "float32", "float64")
DTYPES = (*WITH_KERNELS, "int8", "uint8", "float16", "bfloat16", "complex64")
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
DIGITS = {"float32": (8, 23), "float64": (11, 52)}
COUNT = 9  # more than a kernel takes at once: the last eight overlap the first


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """The kernels that are made, however few the operations."""
    kernels, kind = [], dispatch.Kernel
    monkeypatch.setattr(dispatch, "Kernel", lambda *a: kernels.append(kind(*a)) or kernels[-1])
    monkeypatch.setattr(dispatch, "_SHORT", 0)
    return kernels


REDUCTIONS = "sum", "prod", "max", "min", "all", "any", "argmax", "argmin"
KEY, PLACES = jax.random.key(0), np.array([0, 7, -1, -9])
OF_ONE = {
    **{
        name: getattr(lax, name)
        for name in (
            "abs",
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "atanh",
            "bitwise_not",
            "cbrt",
            "ceil",
            "cos",
            "cosh",
            "erf",
            "exp",
            "exp2",
            "expm1",
            "floor",
            "is_finite",
            "log",
            "log1p",
            "logistic",
            "neg",
            "round",
            "rsqrt",
            "sign",
            "sin",
            "sinh",
            "sqrt",
            "square",
            "tan",
            "tanh",
            "cumsum",
            "sort",
        )
    },
    "round to even": lambda a: lax.round(a, lax.RoundingMethod.TO_NEAREST_EVEN),
    **{f"power {y}": functools.partial(lax.integer_pow, y=y) for y in (-3, -1, 0, 1, 2, 7)},
    **{name: lambda a, name=name: getattr(jnp, name)(a) for name in REDUCTIONS},
    "log2": jnp.log2,
    **({"one minus square": primitives.one_minus_square_p.bind} if hasattr(primitives, "one_minus_square_p") else {}),
    "moves": lambda a: (a[::-1], a.reshape(3, 1).T, jnp.concatenate([a, a]), jnp.stack([a, a]), a[1:], lax.split(a, (1, 2))),
    "pads": lambda a: lax.pad(a, a[0], [(1, -1, 1)]),
    "barrier": lambda a: lax.optimization_barrier(a),
    **{
        f"read, {mode}, {fill}": lambda a, mode=mode, fill=fill: a.at[np.array([0, 7, -1, -9])].get(
            mode=mode, fill_value=fill
        )
        for mode, fill in (("fill", None), ("fill", 2), ("clip", None))
    },
    "dynamic slice": lambda a: lax.dynamic_slice(a, (2,), (2,)),
    "updated": lambda a: lax.dynamic_update_slice(a, a[:2], (2,)),
    "taken apart": lambda a: jnp.unstack(a),
    "added": lambda a: a.at[np.array([0, 0, 5])].add(a),
    "the larger": lambda a: a.at[np.array([0, 0, 5])].max(a),
    "the smaller": lambda a: a.at[np.array([2, 2, -1])].min(a),
    **{f"put, {mode}": lambda a, mode=mode: a.at[np.array([2, -3, 5])].set(a, mode=mode) for mode in ("drop", "clip")},
    "reduced together": lambda a: lax.reduce(
        (a, a[::-1]), (jnp.zeros((), a.dtype),) * 2, lambda x, y: (lax.max(x[0], y[0]), lax.add(x[1], y[1])), (0,)
    ),
    "named": lambda a: checkpoint_name(a, "a"),
    "in its precision": lambda a: lax.reduce_precision(a, *DIGITS[a.dtype.name]) if a.dtype.name in DIGITS else None,
    "remainders of known numbers": lambda a: None if a.dtype == bool else [lax.rem(a, jnp.full_like(a, n)) for n in (3, 1)],
    "a rare branch": lambda a: lax.cond(unvmap_any(a[0] == 0), lambda: jnp.where(a[0] == 0, a[::-1], a), lambda: a),
    "zeros told apart": lambda a: [lax.atan2(a, jnp.full(3, x, a.dtype)) for x in (0.0, -0.0)],
    "a random key": lambda a: a * jax.random.uniform(KEY, a.shape, a.dtype),
    "zeros": lambda a: (a + jnp.zeros_like(a), a - jnp.zeros_like(a), jnp.zeros_like(a) - a),
    "of numbers": lambda a: (a * 1, a - 1, 2 - a, jnp.maximum(a, 0), a > 0, lax.select(a > a, a, jnp.zeros_like(a))),
}
OF_TWO = {
    **{
        name: getattr(lax, name)
        for name in (
            "add",
            "atan2",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "div",
            "eq",
            "ge",
            "gt",
            "le",
            "lt",
            "max",
            "min",
            "mul",
            "ne",
            "nextafter",
            "pow",
            "rem",
            "shift_left",
            "shift_right_arithmetic",
            "sub",
        )
    },
    "before, in total order": lambda a, b: (lax.lt_to_p.bind(a, b), lax.le_to_p.bind(a, b)),
    "halves": lambda a, b: None if a.dtype == bool else lax.div(a, jnp.full_like(a, 2)),
    "as another": lambda a, b: a.astype(b.dtype),
    "as another and back": lambda a, b: a.astype(b.dtype).astype(a.dtype),
    "promoted": lambda a, b: (a + b, a / b, a - b, jnp.maximum(a, b), a < b),
    # XLA makes a choice of a product with truth values: nothing times infinity is zero.
    "promoted product": lambda a, b: None if bool in (a.dtype, b.dtype) else a * b,
    "promoted power": lambda a, b: a**b,
    "remainders": lambda a, b: (a // b, a % b),
    "chosen": lambda a, b: jnp.where(a > a[1], a, b),
    "chosen by another": lambda a, b: lax.select_n(a, b, -b),
    "chosen of three": lambda a, b: lax.select_n(a, b, -b, b + b) if a.dtype == jnp.int32 else None,
    "clamped": lambda a, b: lax.clamp(b[0], a, b[1]),
    "product": lambda a, b: lax.dot_general(a, b, (((0,), (0,)), ((), ()))),
    "preferred": lambda a, b: lax.dot_general(a, a, (((0,), (0,)), ((), ())), preferred_element_type=b.dtype),
    "preferred of both": lambda a, b: lax.dot_general(a, b, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float64),
    "@": lambda a, b: a @ b,
    "a branch": lambda a, b: lax.cond(a[0] > 0, lambda: b, lambda: b[::-1]),
    **{
        f"read there, {mode}": lambda a, b, mode=mode: a.at[b].get(mode=mode) if is_whole(b) else None
        for mode in ("fill", "clip")
    },
    "taken along an axis": lambda a, b: (
        jnp.take_along_axis(jnp.stack([a, a[::-1]]), jnp.stack([b, b[::-1]]), 1, mode="clip") if is_whole(b) else None
    ),
    "put at the nearest": lambda a, b: (
        (a.at[b[0]].set(a[1], mode="clip"), a.at[b].add(a, mode="clip"), a[:1].at[b[2]].set(a[1], mode="clip"))
        if is_whole(b)
        else None
    ),
    "put there": lambda a, b: (a.at[b[0]].set(a[1]), a.at[b[1]].set(a[0], mode="drop")) if is_whole(b) else None,
    "added there": lambda a, b: a.at[b].add(a) if is_whole(b) else None,
    "the larger there": lambda a, b: a.at[b].max(a) if is_whole(b) else None,
    "the smaller there": lambda a, b: a.at[b].min(a) if is_whole(b) else None,
    "updated there": lambda a, b: lax.dynamic_update_slice(a, a[:2], (b[0],)) if is_whole(b) else None,
    "sliced there": lambda a, b: lax.dynamic_slice(a, (b[0],), (2,)) if is_whole(b) else None,
    "one of three": lambda a, b: (
        lax.switch(b[0], [lambda: a, lambda: a[::-1], lambda: a + a]) if b.dtype == jnp.int32 else None
    ),
    "a loop": lambda a, b: lax.scan(lambda c, x: (jnp.where(x > 0, c, c[::-1]), c[0]), b, a),
    "a loop of unknown length": lambda a, b: lax.while_loop(
        lambda c: (c[0] < 5) & (c[1][0] <= b[0]),
        lambda c: (c[0] + 1, jnp.maximum(c[1][::-1], a), jnp.where(c[2] > b[1], b, c[2][::-1])),
        (jnp.int32(0), a, b),
    ),
}


def is_whole(a):
    return jnp.issubdtype(a.dtype, jnp.integer)


def numbers(dtype):
    """Those that are unlike others."""
    dtype = jnp.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array(
            [0, 1, 2, 3, 7, 31, info.max, info.max - 1, info.min, *([-1, -2, -7] if dtype.kind == "i" else [])], dtype
        )
    tiny = float(jnp.finfo(dtype).tiny)
    some = [0.0, 1.0, 0.3, 0.5, 1.5, 2.5, 7.0, 1e3, 1e10, 3e9, tiny, tiny / 4, float(jnp.finfo(dtype).max), np.inf]
    with np.errstate(all="ignore"):
        return np.array([*some, *(-x for x in some), np.nan]).astype(dtype)


def program(function, *dtypes):
    """What `function` is of arrays of three; None where JAX has no such function."""
    try:
        return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct((3,), dtype) for dtype in dtypes))
    except (TypeError, ValueError, NotImplementedError, Warning):
        return None


def has_kernel(closed):
    """Whether it is taken."""
    arithmetic = VectorArithmetic()
    try:
        inputs = []
        for v in closed.jaxpr.invars:
            number_type(v.aval.dtype)
            inputs.append(np.array([Vector(arithmetic.fresh(), v.aval.dtype) for _ in range(3)], object))
        run(arithmetic, closed.jaxpr, [entries(c) for c in closed.consts], inputs)
    except (NotScalarisable, NotCompilable):
        return False
    return True


def has_line(closed):
    """Whether it has a form as arrays of scalars."""
    given = (jax.ShapeDtypeStruct((COUNT, 3), v.aval.dtype) for v in closed.jaxpr.invars)
    try:
        jax.eval_shape(dispatch.in_xla(ElementProgram(closed, (0, 0))), *given)
    except NotScalarisable:
        return False
    return True


def both(functions):
    """All of them, as one function of an element."""
    return lambda a, b: {name: function(a, b) for name, function in functions.items()}


@functools.cache
def cases():
    """The functions of two arrays that have kernels, by the types of these; and the primitives of all that JAX takes."""
    found, seen = {}, set()
    for first, second in itertools.product(DTYPES, repeat=2):
        if first != second and not {first, second} <= {*WITH_KERNELS} and "float64" not in (first, second):
            continue
        of_one = {f"{name} of one": lambda a, b, f=f: f(a) for name, f in OF_ONE.items()} if first == second else {}
        for name, function in {**of_one, **OF_TWO}.items():
            if (closed := program(function, first, second)) is not None:
                seen |= names(closed.jaxpr)
                if has_kernel(closed):
                    found.setdefault((first, second), {})[name] = function
    return found, seen


def names(jaxpr):
    """Of all primitives, of programs that are called too."""
    found = {eqn.primitive.name for eqn in jaxpr.eqns}
    return found.union(*(names(getattr(p, "jaxpr", p)) for eqn in jaxpr.eqns for p in inner_programs(eqn)))


def grid(first, second):
    """Every number of one type with every one of the other, `(elements, 3)`: a whole number of times what is computed."""
    pairs = np.stack([i.ravel() for i in np.meshgrid(*(np.arange(len(numbers(t))) for t in (first, second)))])
    pairs = pairs[:, np.arange(-(-pairs.shape[1] // (3 * COUNT)) * 3 * COUNT) % pairs.shape[1]]
    return [numbers(t)[i].reshape(-1, 3) for t, i in zip((first, second), pairs, strict=True)]


def agree(what, found, expected, inputs):
    """A denormal result is itself or zero: XLA has the processor flush it, the C library does not."""
    for f, e in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        f, e = np.asarray(f), np.asarray(e)
        assert f.dtype == e.dtype and f.shape == e.shape, what
        if f.dtype.kind != "f":
            assert np.array_equal(f, e), what
            continue
        tiny = np.finfo(f.dtype).tiny
        with np.errstate(all="ignore"):
            if what[-1].startswith("log"):  # of a denormal number it is that of zero, or that of the smallest normal one
                e = np.where((np.abs(inputs[0]) < tiny) & (inputs[0] != 0), f, e)
            close = np.abs(f - e) <= TOLERANCE[f.dtype.name] * np.abs(e) + tiny
        wrong = ~((f == e) | (np.isnan(f) & np.isnan(e)) | close)
        assert not wrong.any(), (what, [(x[wrong.any(tuple(range(1, f.ndim)))][:2]) for x in (*inputs, f, e)])


def is_near(first, second):
    """Of the pairs of types, each with itself and with the next: every type on either side, and the conversions between."""
    return (WITH_KERNELS.index(second) - WITH_KERNELS.index(first)) % len(WITH_KERNELS) <= 1


@pytest.mark.cpu
@pytest.mark.parametrize("near", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_primitive_with_every_pair_of_types(near, made):
    """One kernel for each pair, at every number with every other."""
    functions = {pair: f for pair, f in cases()[0].items() if is_near(*pair) == near}
    inputs = {pair: grid(*pair) for pair in functions}

    @functools.partial(jax.jit, compiler_options=AS_OF_A_USER)  # which know all of these
    def mapped(given):
        return {pair: jax.vmap(both(functions[pair]))(*given[pair]) for pair in functions}

    @jax.jit
    def kernels(given):
        return {pair: map_elements(both(functions[pair]), (0, 0), *given[pair]) for pair in functions}

    expected = jax.tree.map(np.asarray, mapped(inputs))
    calls = max(len(a) for a, _ in inputs.values()) // COUNT
    rows = {pair: [np.arange(i * COUNT, (i + 1) * COUNT) % len(a) for i in range(calls)] for pair, (a, _) in inputs.items()}
    for i in range(calls):
        given = {pair: [x[rows[pair][i]] for x in inputs[pair]] for pair in functions}
        found = kernels(given)
        for pair in functions:
            for name in functions[pair]:
                part = jax.tree.map(lambda x, at=rows[pair][i]: x[at], expected[pair][name])
                agree((*pair, name), found[pair][name], part, given[pair])
    assert len(made) == len(functions) == len(WITH_KERNELS) * (2 if near else len(WITH_KERNELS) - 2)


@pytest.mark.parametrize("pair", [("float32", "int32"), ("int64", "float64"), ("uint32", "uint32"), ("int8", "float64")])
@pytest.mark.parametrize("count", [7, COUNT])
def test_as_arrays_of_scalars(count, pair, made, monkeypatch):
    """What XLA compiles where there are no kernels: scalarised programs of nine elements, and of seven what `vmap` makes."""
    monkeypatch.setattr("jaxmech._llvm.ffi.is_available", lambda: False)
    monkeypatch.setattr(dispatch, "_FEW", COUNT)
    straight = {name: f for name, f in OF_TWO.items() if (closed := program(f, *pair)) is not None and has_line(closed)}
    lines, scalars = [], dispatch.run
    monkeypatch.setattr(dispatch, "run", lambda *a: lines.append(scalars(*a)) or lines[-1])
    inputs = [x[: len(x) // count * count].reshape(-1, count, 3) for x in grid(*pair)]
    mapped = jax.jit(lambda a, b: map_elements(both(straight), (0, 0), a, b))
    plain = jax.jit(jax.vmap(both(straight)))
    for a, b in zip(*inputs, strict=True):
        agree((*pair, "arrays"), mapped(a, b), plain(a, b), (a, b))
    assert len(straight) > 5 and len(lines) == (count == COUNT) and not made


def test_the_pairs_hold_every_primitive_of_the_table():
    unbound = {"add_any", "copy", "copy_p", "expand_dims", "stop_gradient", *CALLS}
    unbound |= {"cholesky", "lu", "lu_pivots_to_permutation", "triangular_solve"}  # of matrices: tests/test_scalarised.py
    unbound |= {"nondifferentiable", "nondifferentiable_backward", "nontraceable"}  # of Equinox: nothing
    unbound.add("reshard")  # which is in programs of many devices only, such as tests/devices_script.py compares
    unbound |= {name for name in ("log2", "one_minus_square") if not hasattr(primitives, f"{name}_p")}  # of newer JAX
    _, seen = cases()
    assert {*SUPPORTED} == {*RULES, "cond", "reduce", "scan", "while", *CALLS}
    assert {name for name in SUPPORTED if not name.startswith("jaxmech")} - seen - unbound == set()
