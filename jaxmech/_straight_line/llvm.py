"""Programs in the language of LLVM, compiled by llvmlite for this CPU, and handed to XLA as foreign functions."""

import ctypes
import functools
import hashlib
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from .scalars import NoStraightLine

_NAME = "jaxmech"
_targets: dict[str, Any] = {}  # what is compiled, by the name that XLA knows it by
_lock = threading.Lock()


def is_available() -> bool:
    """Whether XLA's interface for foreign functions is the one that `handler` speaks."""
    return _interface() is not None


@functools.cache
def _interface() -> tuple[int, int] | None:
    """The version of XLA's interface; numbers behind the first one only ever add to it."""
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    if not header.is_file():
        return None
    numbers = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", header.read_text()))
    version = int(numbers.get("MAJOR", -1)), int(numbers.get("MINOR", -1))
    return version if version[0] == 0 else None


def handler(lines: Sequence[str]) -> str:
    """A function of XLA's interface, `ptr (ptr %frame)`, that runs `lines`, or says of which version of it it is."""
    assert (version := _interface()) is not None
    return "\n".join(
        [
            f"define ptr @{_NAME}(ptr %frame) {{",
            "  %asked.at = getelementptr i8, ptr %frame, i64 8",
            "  %asked = load ptr, ptr %asked.at",
            "  %runs = icmp eq ptr %asked, null",
            "  br i1 %runs, label %run, label %tell",
            "tell:",  # an extension of the frame: the place to write the version to
            "  %metadata.at = getelementptr i8, ptr %asked, i64 24",
            "  %metadata = load ptr, ptr %metadata.at",
            "  %major = getelementptr i8, ptr %metadata, i64 24",
            f"  store i32 {version[0]}, ptr %major",
            "  %minor = getelementptr i8, ptr %metadata, i64 28",
            f"  store i32 {version[1]}, ptr %minor",
            "  ret ptr null",
            "run:",
            *lines,
            "  ret ptr null",
            "}",
        ]
    )


def target(text: str, called: Sequence[str]) -> str:
    """The name by which XLA calls the `handler` of a text. `called`: the functions of the C library that it needs.

    Raises `NoStraightLine` where this machine lacks one.
    """
    import llvmlite.binding as llvm

    name = f"{_NAME}_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    with _lock:
        if name not in _targets:
            for function in called:
                llvm.add_symbol(function, _address(function))
            _targets[name] = _compiled(text)
            address = _targets[name].get_function_address(_NAME)
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
    return name


def _address(function: str) -> int:
    """Where a function of the C library is."""
    library = ctypes.CDLL(None if os.name == "posix" else "ucrtbase")
    if not hasattr(library, function):
        raise NoStraightLine(f"no {function} in this process")
    return ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0


def _compiled(text: str) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    module = llvm.parse_assembly(text)
    # Vectors are written as such: nothing is left to find.
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
