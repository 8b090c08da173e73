"""Programs compiled for this CPU compute what JAX computes, operation by operation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tolerances import ROUND_OFF

from jaxmech._codegen import dispatch
from jaxmech._codegen.llvm.element_kernel import kernel_text
from jaxmech._codegen.llvm.vector import vector_of
from jaxmech._codegen.map_elements import map_elements
from jaxmech._codegen.operation_count import length_as_kernel, operation_count
from jaxmech._codegen.program.element_function import forgotten
from jaxmech._codegen.program.element_jaxpr import ElementProgram
from jaxmech._codegen.program.nodal_gather import NodeRows
from jaxmech._codegen.program.scatter_plan import AbstractElementSums, Places
from jaxmech._llvm import ffi, machine_code
from jaxmech._runtime.ffi_layout import interface

pytestmark = [pytest.mark.quick, pytest.mark.cpu]


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """The kernels that are made, however few the elements and the operations."""
    kernels = []
    kind = dispatch.Kernel

    def recorded(*arguments):
        kernels.append(kind(*arguments))
        return kernels[-1]

    monkeypatch.setattr(dispatch, "Kernel", recorded)
    monkeypatch.setattr(dispatch, "_FEWEST", 1)
    monkeypatch.setattr(dispatch, "_SHORT", 0)
    return kernels


def both(function, *arrays):
    axes = (0,) * len(arrays)
    return jax.jit(lambda *a: map_elements(function, axes, *a))(*arrays), jax.vmap(function)(*arrays)


def agree(found, expected, tolerance):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=tolerance, atol=tolerance)


SPECIAL = [-np.inf, -1e3, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 1e-9, 0.3, 0.5, 1.0, 1.5, 2.5, 7.0, 1e3, np.inf, np.nan]
OF_ONE = {
    **{name: getattr(jnp, name) for name in ("abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt")},
    **{name: getattr(jnp, name) for name in ("ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor", "isfinite", "log")},
    **{name: getattr(jnp, name) for name in ("log1p", "negative", "round", "sign", "sin", "sinh", "sqrt", "square", "tan")},
    "tanh": jnp.tanh,
    "erf": lax.erf,
    "logistic": lax.logistic,
    "rsqrt": lax.rsqrt,
    "round away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "powers": lambda x: (lax.integer_pow(x, 5), lax.integer_pow(x, -2), lax.integer_pow(x, 0)),
    "as others": lambda x: (x.astype(jnp.float32), x.astype(jnp.float64), x.astype(bool)),
    "as whole numbers": lambda x: jnp.where(jnp.isnan(x), 0, x).astype(jnp.int32),
    "clamp": lambda x: lax.clamp(jnp.asarray(-1.2, x.dtype), x, jnp.asarray(0.7, x.dtype)),
}
OF_TWO = {
    "arithmetic": lambda x, y: (x + y, x - y, x * y, x / y),
    "order": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
    "extremes": lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y)),
    "choice": lambda x, y: jnp.where((x > 0) ^ (y > 0), x, -y),
    "logic": lambda x, y: (~(x > 0) & (y > 0) | (x == y), (x > 0) <= (y > 0)),
    "arctan2": jnp.arctan2,
    "pow": lambda x, y: jnp.abs(x) ** y,
    "remainder": lax.rem,
    "nextafter": lax.nextafter,
}
FUNCTIONS = {**{name: (f, 1) for name, f in OF_ONE.items()}, **{name: (f, 2) for name, f in OF_TWO.items()}}


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-13), (np.float32, 1e-5)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_operation(name, dtype, tolerance, made):
    function, operands = FUNCTIONS[name]
    numbers = np.asarray(SPECIAL, dtype)
    arrays = [jnp.asarray(a.ravel()) for a in np.meshgrid(*operands * [numbers])]
    agree(*both(function, *arrays), tolerance)
    assert made, "no kernel"


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_whole_numbers(dtype, made, rng):
    a, b = (jnp.asarray(rng.integers(-9, 9, 20).astype(dtype)) for _ in range(2))

    def function(a, b):
        bits = a & b, a | b, a ^ b, ~a
        kinds = a.astype(float), a.astype(jnp.int32), a.astype(jnp.int64), (a > b).astype(dtype), a.astype(bool)
        return a + b, a - b, a * b, -a, a * a, jnp.maximum(a, b), jnp.minimum(a, b), a <= b, a != b, bits, kinds

    agree(*both(function, a, b), 0)
    assert made


def test_truth_values_in_and_out(made, rng):
    a, b = (jnp.asarray(rng.uniform(size=21) > 0.5) for _ in range(2))

    def function(a, b):
        return a & b, a | ~b, a ^ b, a < b, a.astype(jnp.float32), jnp.where(a, 1.5, -b.astype(float))

    agree(*both(function, a, b), 0)
    assert made


@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_rows_at_nodes_and_numbers_that_all_share(integer, made, rng):
    values, nodes = jnp.asarray(rng.normal(size=(7, 2, 3))), jnp.asarray(rng.integers(0, 7, (19, 4)).astype(integer))
    shared, own = jnp.asarray(rng.normal(size=(2, 2))), jnp.asarray(rng.normal(size=19))

    def function(x, s, own):
        return jnp.einsum("ij,kjl->kil", s, x) * own

    found = jax.jit(lambda v, *a: map_elements(function, (0, None, 0), NodeRows(v, nodes), *a))(values, shared, own)
    agree(found, jax.vmap(function, (0, None, 0))(values[nodes], shared, own), ROUND_OFF)
    assert made


def layers(x, w, v, which):
    """Products with matrices that all share, of two columns, backwards, in steps, with known numbers; and with one's own."""
    y = w @ x
    mostly_known = jnp.concatenate([y[:3], jnp.ones(20)])
    return (
        v @ y,
        v @ mostly_known,
        w @ jnp.stack([x, y[:18]], 1),
        w.T[::-1] @ y,
        v[:, ::2] @ y[:12],
        jnp.where(which, w, v[:23, :18]) @ x,
    )


@pytest.mark.slow_cases("21-float32-0.0001", "21-float64-1e-12")
@pytest.mark.parametrize("dtype, tolerance", [(np.float64, ROUND_OFF), (np.float32, 1e-4)])
@pytest.mark.parametrize("count", [3, 21])
def test_products_with_matrices_that_all_share(count, dtype, tolerance, made, rng):
    shapes, axes = ((count, 18), (23, 18), (41, 23)), (0, None, None, 0)
    x, w, v = (jnp.asarray(rng.normal(size=shape).astype(dtype)) for shape in shapes)
    which = jnp.asarray(rng.normal(size=count) > 0)
    found = jax.jit(lambda *a: map_elements(layers, axes, *a))(x, w, v, which)
    agree(found, jax.vmap(layers, axes)(x, w, v, which), tolerance)
    assert made


def test_the_loop_of_a_product_is_compiled_once_and_not_written_out(rng):
    """Two layers of 32: their 2048 products are three calls, forward and back, of one function, and count as few."""

    def element(x, w):
        return jnp.sum(jnp.tanh(w @ jnp.tanh(w @ x)))

    shapes = [jax.ShapeDtypeStruct(shape, np.float64) for shape in ((32,), (32, 32))]
    program = ElementProgram(jax.make_jaxpr(jax.grad(element))(*shapes), (0, None))
    text = kernel_text(program, [jnp.zeros((8, 32)), jnp.zeros((32, 32))], ()).text
    assert text.count("call void @product.double(") == 4 and text.count("define internal void @product.double(") == 1
    assert text.count("fmul") < 300 and length_as_kernel(program) < 1500 < 4096 < operation_count(program.jaxpr)
    assert length_as_kernel(program.with_axes((0, 0))) == operation_count(program.jaxpr)


def test_a_loop_that_is_long_when_it_is_written_out_stays_one(made, rng):
    """Its body is compiled once, however many the rounds."""

    def looped(x, p, rounds):
        return lax.scan(lambda x, _: (x * p + 0.1, None), x, None, rounds)[0]

    x, p = (jnp.asarray(rng.uniform(0.1, 0.9, (20, 300))) for _ in range(2))
    for rounds in (60, 500, 20_000):
        program = ElementProgram(jax.make_jaxpr(lambda x, p, rounds=rounds: looped(x, p, rounds))(x[0], p[0]), (0, 0))
        text = kernel_text(program, [x, p], ()).text
        assert text.count("fmul") == 300 and text.count("icmp") < 10, rounds
        if rounds <= 500:
            agree(*both(lambda x, p, rounds=rounds: looped(x, p, rounds), x, p), ROUND_OFF)
            assert len(made) == 1, rounds
            made.clear()


def test_a_kernel_is_tidied_to_the_numbers_of_all_passes(made, monkeypatch, rng):
    """The whole row of LLVM's passes takes six times as long; only a text with loops of its own has use for it."""

    def force(x):
        F = x[1:] - x[:1]
        return jax.grad(lambda F: jnp.sum((F.T @ F - jnp.eye(3)) ** 2) - jnp.log(1 + jnp.sum(F * F)))(F)

    def layer(x, w):
        return jnp.tanh(w @ x)

    x, y, w = (jnp.asarray(rng.normal(size=shape)) for shape in ((31, 4, 3), (31, 32), (32, 32)))
    tidying, asked = machine_code._tidying, []
    monkeypatch.setattr(machine_code, "kept_or_made", lambda key, make: make())  # not what another run left on disk
    monkeypatch.setattr(machine_code, "_tidying", lambda text: asked.append(True) or tidying(text))
    tidied = jax.jit(lambda x: map_elements(force, (0,), x))(x)
    assert made and asked
    jax.jit(lambda x, w: map_elements(layer, (0, None), x, w))(y, w)
    assert len(made) == 2 and len(asked) == 1, "a product in a loop of its own"
    monkeypatch.setattr(machine_code, "_MEMORY", "")  # as if every text had some, and variables
    monkeypatch.setattr(machine_code, "_VARIABLE", re.compile(""))
    target = ffi._target
    monkeypatch.setattr(ffi, "_target", lambda text, *more: target(f"{text}\n; all passes", *more))
    with forgotten():
        by_all = jax.jit(lambda x: map_elements(force, (0,), x))(x)
    assert len(made) == 3 and len(asked) == 1 and np.array_equal(tidied, by_all)


class Sums(AbstractElementSums):
    """Rows of several sizes, each element's to slots of its own."""

    slots: jax.Array

    @property
    def summed(self):
        return 1

    def of_all(self, outputs):
        flat = outputs[0].reshape(-1, *outputs[0].shape[2:])
        return [jnp.zeros((5, *flat.shape[1:]), flat.dtype).at[self.slots].add(flat)]

    def places(self):
        return [Places(self.slots, None, 5)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1, 4, 8, 9, 36])
@pytest.mark.parametrize("count", [8, 9, 31])
@pytest.mark.parametrize("register", [32, 64])
def test_rows_are_added_in_their_order(register, count, size, dtype, made, rng, monkeypatch):
    """A few elements at a time, their first rows first; each once, although the last few overlap those before."""
    monkeypatch.setattr("jaxmech._codegen.llvm.vector.register_bytes", lambda: register)
    width = 4 if (register, dtype) == (32, np.float64) else 8
    slots, a = rng.integers(0, 5, 2 * count), rng.normal(size=(count, 2, size)).astype(dtype)
    sums = Sums(jnp.asarray(slots, jnp.int32))
    found, rest = jax.jit(lambda a: map_elements(lambda a: (-a, a.sum()), (0,), a, sums=sums))(jnp.asarray(a))
    expected = np.zeros((5, size), dtype)
    for first in range(0, count, width):
        for k in range(2):
            for e in range(first, min(first + width, count)):
                expected[slots[2 * e + k]] -= a[e, k]
    assert np.array_equal(found, expected)
    agree(rest, jnp.asarray(a.sum((1, 2))), 1e-5)
    assert made


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 40])
@pytest.mark.parametrize("register, width", [(32, 4), (64, 8)])
def test_values_of_elements_fill_one_register(count, register, width, monkeypatch):
    """Eight numbers of float64 are two registers of AVX2: twice the instructions. Of a handful as few as hold all."""
    monkeypatch.setattr("jaxmech._codegen.llvm.vector.register_bytes", lambda: register)
    of_handful = {1: 1, 2: 2, 3: 4, 4: 4}.get(count, 8)
    for dtype, name, of_many in ((np.float64, "double", width), (np.float32, "float", 8)):
        shapes = [jax.ShapeDtypeStruct((count, 3), dtype), jax.ShapeDtypeStruct((3,), dtype)]
        program = ElementProgram(jax.make_jaxpr(lambda x, p: x * p)(shapes[1], shapes[1]), (0, None))
        text = kernel_text(program, shapes, (), count if count < 8 else None).text
        kind = vector_of(name, of_handful if count < 8 else of_many)
        products = [line for line in text.splitlines() if " = fmul " in line]
        assert len(products) == 3 and all(f" {kind} " in line for line in products)


def test_equal_programs_are_one_kernel_by_one_name(made):
    """So that a compilation cache finds the program that calls it in another process."""
    for _ in range(2):
        with forgotten():
            jax.jit(lambda x: map_elements(lambda x: x * jnp.sin(x), (0,), x))(jnp.arange(9.0))
    assert len(made) == 2 and made[0]._function.name == made[1]._function.name


CACHED = """
import jax, jax.numpy as jnp
from jaxmech._codegen.llvm.element_kernel import kernel_text
from jaxmech._codegen.map_elements import map_elements
from jaxmech._codegen.operation_count import length_as_kernel, operation_count

def of_one(x):
    return jnp.outer(x, jnp.sin(x)) @ jnp.outer(x, x)

mapped = jax.jit(lambda x: jnp.sum(map_elements(of_one, (0,), x)))
x = jnp.ones((300, 9))
assert "jaxmech_" in mapped.lower(x).as_text(), "no kernel"
print(mapped(x))
"""


def test_a_cached_program_finds_its_kernel_in_another_process(tmp_path):
    """Nothing is written to the cache by the second process: it runs what the first one compiled."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    command, environment = [sys.executable, "-c", CACHED], {**os.environ, **cache}
    said, files = [], []
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        said.append(done.stdout)
        files.append({f.name for f in tmp_path.iterdir() if "-atime" not in f.name})
    assert said[0] == said[1] and files[0] == files[1]
    assert any("jit__lambda" in name for name in files[0])


def test_a_function_that_the_machine_lacks_is_left_to_xla(made, monkeypatch):
    monkeypatch.setattr(ffi.ctypes, "CDLL", lambda name: type("Nothing", (), {})())
    agree(*both(lambda x: jnp.sinh(x) + 0.12345, jnp.arange(9.0)), 1e-14)
    assert not made


def test_without_the_interface_that_is_spoken_there_are_no_kernels(tmp_path, monkeypatch):
    known, own = (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text(), interface()
    header = tmp_path / "xla" / "ffi" / "api" / "c_api.h"
    header.parent.mkdir(parents=True)
    monkeypatch.setattr(jax.ffi, "include_dir", lambda: str(tmp_path))
    for text, version in (("0 / 4", (0, 4)), ("1 / 0", None)):
        major, minor = text.split(" / ")
        numbers = f"#define XLA_FFI_API_MAJOR {major}\n#define XLA_FFI_API_MINOR {minor}\n"
        header.write_text(re.sub(r"#define XLA_FFI_API_(MAJOR|MINOR) \d+", "", known) + numbers)
        found = interface.__wrapped__()
        assert version is None and found is None or found == own._replace(version=version)
    # What is not where it was thought to be is found where it is; what is not there at all is not looked for.
    header.write_text(known.replace("int64_t rank;", "").replace("void* data;", "int64_t rank; void* data;"))
    assert interface.__wrapped__() == own._replace(data=own.data + 8, rank=own.rank - 8)
    header.write_text(known.replace("void* data;", "unknown_t data;"))
    assert interface.__wrapped__() is None
    header.unlink()
    assert interface.__wrapped__() is None
