"""Functions of the host within compiled programs, by names that are the same in every process.

JAX's compilation cache keeps no program that calls back into Python, for the address of the callback is in it: what factors
a matrix on the host would be compiled anew in every process. A foreign function is known to XLA by its name; which function
of Python is meant is said by a hash, among what it is given.
"""

import atexit
import contextlib
import ctypes
import functools
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .devices import on_cpu
from .ffi_check import register, tells_version
from .ffi_frame import argument, new_error, write_result
from .ffi_layout import interface

_TARGET = "jaxmech.host"
_INTERNAL = 13  # of XLA's kinds of errors
_HASH = np.dtype(np.uint8)
_functions: dict[bytes, tuple[Callable, tuple[np.dtype, ...], tuple[np.dtype, ...]]] = {}  # and the types it takes and gives


def call_by_name(name: str, function: Callable, shapes: tuple[Any, ...], *arguments: Any, vmap_method: str) -> Any:
    """`jax.pure_callback`, of a function of NumPy arrays that is the same in every process where it has this name.

    A callback where foreign functions are not to be had, and on several devices, which a callback is told about.
    """
    if not (on_cpu() and jax.device_count() == 1 and _registered()):
        return jax.pure_callback(function, shapes, *arguments, vmap_method=vmap_method)
    given, made = (tuple(np.dtype(a.dtype) for a in arrays) for arrays in (arguments, shapes))
    key = hashlib.sha256(repr((name, [d.str for d in (*given, *made)], len(given))).encode()).digest()
    _functions[key] = function, given, made
    return tuple(jax.ffi.ffi_call(_TARGET, shapes, vmap_method=vmap_method)(np.frombuffer(key, np.uint8), *arguments))


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def _handler(frame: int) -> int | None:
    """Of XLA's interface."""
    xla = interface()
    assert xla is not None
    if tells_version(xla, frame):
        return None
    try:
        function, given, made = _functions[argument(xla, frame, 0, _HASH).tobytes()]
        answer = function(*(argument(xla, frame, 1 + i, dtype) for i, dtype in enumerate(given)))
        for i, (values, dtype) in enumerate(zip(answer, made, strict=True)):
            write_result(xla, frame, i, values, dtype)
    except BaseException as error:  # nothing may pass through XLA but its own kind of error
        return new_error(xla, frame, f"{type(error).__name__}: {error}", _INTERNAL)
    return None


@functools.cache
def _registered() -> bool:
    if not register(_TARGET, _handler):
        return False
    atexit.register(wait_for_results)
    return True


def wait_for_results() -> None:
    """Until every array that is still held has been computed, or has failed.

    JAX runs a program with a loop in a thread of its own, and does not wait for it when Python ends. A thread that enters
    Python then is ended where it stands, in the midst of XLA, which ends the process: "FATAL: exception not rethrown".
    """
    for array in jax.live_arrays():
        with contextlib.suppress(Exception):  # who wanted to know why has asked
            array.block_until_ready()
