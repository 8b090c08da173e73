"""Functions in the language of LLVM, compiled by llvmlite for this CPU, and handed to XLA as foreign functions."""

import ctypes
import functools
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array
from .._runtime.devices import is_of_each
from .._runtime.element_compiler import element_form
from .._runtime.ffi_check import checked_interface
from .._runtime.ffi_layout import Interface
from .._runtime.jax_internals import Primitive, device_count_of, lower_fun, register_lowering
from .._runtime.plain_form import NotCompilable, first_that_works
from .machine_code import load, machine

TYPES = {"bool": "i1", "int32": "i32", "int64": "i64", "uint32": "i32", "float32": "float", "float64": "double"}
_TYPES = {np.dtype(name): of for name, of in TYPES.items()}  # the name of a type takes NumPy as long as a line of text

_NAME = "jaxmech"
_known: set[str] = set()  # what is compiled, by the name that XLA knows it by
_loops: dict[str, int] = {}  # and where its `@each` is
_lock = threading.Lock()


class ForeignFunction:
    """`@each(ptr %a0, ..., ptr %r0, ..., i64, ...)` of a text: pointers to `arguments` arrays and to `results`, which it
    writes, and whole numbers.

    `called`: the functions that it needs, of the C library or `each` of others; `optimised`: or rather compiled soon. Raises
    `NotCompilable` where the machine lacks one.
    """

    def __init__(
        self, text: str, arguments: int, results: int, numbers: int, called: Sequence[str] = (), *, optimised: bool = True
    ):
        xla = checked_interface()
        assert xla is not None
        handler = _handler(xla, _call(xla, arguments, results, numbers))
        self.name = _target("\n".join([text, *handler]), called, optimised)
        self.each = _each(self.name)

    def __call__(
        self,
        operands: Sequence[Array],
        results: Sequence[jax.ShapeDtypeStruct],
        numbers: Sequence[Array | int],
        own: Sequence[bool] | None = None,
    ) -> list[Array]:
        """What it writes. The numbers are of 32 bits.

        `own`: of many scenes, one after the other, which operands and results have an axis of scenes in front; the others
        they share.
        """
        steps = _steps([*operands, *results], own)
        if all(isinstance(n, int) for n in numbers):  # one constant, where there would be a dozen operations to compile
            given = np.concatenate([np.asarray(numbers, np.int32), steps])
        else:
            given = jnp.concatenate([jnp.stack([jnp.asarray(n, jnp.int32) for n in numbers]), jnp.asarray(steps)])
        return list(jax.ffi.ffi_call(self.name, list(results))(*operands, given))


def _steps(arrays: Sequence[Any], own: Sequence[bool] | None) -> np.ndarray:
    """How many scenes there are; then the entries of every array from one scene to the next, and the bytes of an entry."""
    flags = [False for _ in arrays] if own is None else own
    scenes = next((a.shape[0] for a, mine in zip(arrays, flags, strict=True) if mine), 1)
    sizes = [int(np.prod(a.shape[1:])) if mine else 0 for a, mine in zip(arrays, flags, strict=True)]
    steps = [n for size, a in zip(sizes, arrays, strict=True) for n in (size, np.dtype(a.dtype).itemsize)]
    return np.asarray([scenes, *steps], np.int32)


def number_type(dtype: Any) -> str:
    """The type of a number. Raises `NotCompilable` for one that has no instructions."""
    dtype = np.dtype(dtype)
    if dtype not in _TYPES:
        raise NotCompilable(f"instructions for {dtype.name}")
    return _TYPES[dtype]


def compile_on_cpu(primitive: Primitive, as_arrays: Callable[..., Any], as_kernel: Callable[..., Any]) -> None:
    """Says how a primitive is carried out: on one CPU by `as_kernel`, which may call foreign functions; by `as_arrays`
    elsewhere, and where XLA divides arrays over devices by itself, for it knows nothing of such functions.

    `as_arrays` too where `as_kernel` raises `NotCompilable`, or fails.
    """

    def guarded(*operands, **params):
        forms = (functools.partial(f, *operands, **params) for f in (as_kernel, as_arrays))
        return first_that_works(primitive, *forms)

    arrays, kernel = (lower_fun(f, multiple_results=primitive.multiple_results) for f in (as_arrays, guarded))

    def on_cpu(ctx, *operands, **params):
        alone = device_count_of(ctx) == 1 or is_of_each()
        uses_kernel = alone and element_form() == "llvm" and is_available()
        return (kernel if uses_kernel else arrays)(ctx, *operands, **params)

    def at_once(*operands, static):
        return primitive.bind(*operands, **dict(static))

    jitted = jax.jit(at_once, static_argnames="static")
    primitive.def_impl(lambda *operands, **params: jitted(*operands, static=tuple(sorted(params.items()))))
    register_lowering(primitive, arrays)
    register_lowering(primitive, on_cpu, platform="cpu")


def is_available() -> bool:
    """Whether functions can be compiled and called here. Asked in this one place: where not, all runs as arrays."""
    return machine() is not None and checked_interface() is not None


def _handler(xla: Interface, lines: Sequence[str]) -> list[str]:
    """A function of XLA's interface, `ptr (ptr %frame)`, that runs `lines`, or says of which version of it it is."""
    return [
        f"define ptr @{_NAME}(ptr %frame) {{",
        f"  %asked.at = getelementptr i8, ptr %frame, i64 {xla.asked}",
        "  %asked = load ptr, ptr %asked.at",
        "  %runs = icmp eq ptr %asked, null",
        "  br i1 %runs, label %run, label %tell",
        "tell:",  # an extension of the frame: the place to write the version to
        f"  %metadata.at = getelementptr i8, ptr %asked, i64 {xla.metadata}",
        "  %metadata = load ptr, ptr %metadata.at",
        f"  %major = getelementptr i8, ptr %metadata, i64 {xla.major}",
        f"  store i32 {xla.version[0]}, ptr %major",
        f"  %minor = getelementptr i8, ptr %metadata, i64 {xla.minor}",
        f"  store i32 {xla.version[1]}, ptr %minor",
        "  ret ptr null",
        "run:",
        *lines,
        "  ret ptr null",
        "}",
    ]


def _call(xla: Interface, arguments: int, results: int, numbers: int) -> list[str]:
    """What reads where XLA's buffers are, and the numbers from the last of them, and calls `@each` scene after scene."""
    lines = []

    def read(name: str, at: str, offset: int) -> str:
        lines.append(f"  {name}.at = getelementptr i8, ptr {at}, i64 {offset}")
        lines.append(f"  {name} = load ptr, ptr {name}.at")
        return name

    places = {"a": read("%arguments", "%frame", xla.arguments), "r": read("%results", "%frame", xla.results)}
    names = [*(("a", i) for i in range(arguments + 1)), *(("r", i) for i in range(results))]
    for kind, i in names:
        read(f"%{kind}{i}.data", read(f"%{kind}{i}", places[kind], 8 * i), xla.data)
    arrays = [f"%{kind}{i}" for kind, i in names if (kind, i) != ("a", arguments)]
    for i in range(numbers + 1 + 2 * len(arrays)):
        lines += [
            f"  %n{i}.at = getelementptr i32, ptr %a{arguments}.data, i64 {i}",
            f"  %n{i}.short = load i32, ptr %n{i}.at",
            f"  %n{i} = sext i32 %n{i}.short to i64",
        ]
    lines += ["  br label %scene", "scene:", "  %number = phi i64 [ 0, %run ], [ %next, %scene ]"]
    for i, array in enumerate(arrays):
        step = numbers + 1 + 2 * i
        lines += [
            f"  {array}.step = mul i64 %n{step}, %n{step + 1}",
            f"  {array}.offset = mul i64 %number, {array}.step",
            f"  {array}.scene = getelementptr i8, ptr {array}.data, i64 {array}.offset",
        ]
    given = [*(f"ptr {array}.scene" for array in arrays), *(f"i64 %n{i}" for i in range(numbers))]
    return [
        *lines,
        f"  call void @each({', '.join(given)})",
        "  %next = add i64 %number, 1",
        f"  %more = icmp slt i64 %next, %n{numbers}",
        "  br i1 %more, label %scene, label %ended",
        "ended:",
    ]


def _target(text: str, called: Sequence[str], optimised: bool) -> str:
    """The name by which XLA calls the handler of a text."""
    name = f"{_NAME}_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    with _lock:
        if name not in _known:
            symbols = {function: _address(function) for function in called}
            each = _each(name)
            named = text.replace(f"@{_NAME}(", f"@{name}(").replace("call void @each(", f"call void @{each}(")
            named = named.replace("define internal void @each(", f"define void @{each}(")
            address, _loops[each] = load(named, (name, each), symbols, optimised=optimised)
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
            _known.add(name)
    return name


def _each(name: str) -> str:
    """The name by which other texts call what a handler calls."""
    return f"{name}.each"


def _address(function: str) -> int:
    """Where a function is: `each` of another text, or one of the C library."""
    if function in _loops:
        return _loops[function]
    library = ctypes.CDLL(None if os.name == "posix" else "ucrtbase")
    if not hasattr(library, function):
        raise NotCompilable(f"no {function} in this process")
    return ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0
