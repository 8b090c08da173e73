"""Whether XLA's frame is the one that its header describes: asked of a first call, before anything relies on it.

Every structure of the interface begins with its size. These sizes are compared, each before anything behind it is read.
"""

import ctypes
import functools
import threading
import warnings
from typing import Any

import jax
import numpy as np

from .ffi_layout import Interface, interface

_TARGET = "jaxmech.check"
_differences: list[str] = []  # of the call that is being made
_calls: list[int] = []


@functools.cache
def checked_interface() -> Interface | None:
    """The interface of the header, if a call of XLA's agrees with it. None, and one `RuntimeWarning`, where it does not."""
    xla = interface()
    if xla is None:
        return None
    # In a thread of its own, where nothing is being traced, and no context of the caller's holds.
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(_difference()))
    thread.start()
    thread.join()
    if found != [""]:
        warnings.warn(
            f"XLA's interface for foreign functions is not as its header says, and jaxmech calls none: all runs as arrays, "
            f"which is slower. Please report it, with the version of jaxlib: {', '.join(found) or 'the check failed'}.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return xla


def word(address: int) -> int:
    """Eight bytes of memory."""
    return ctypes.c_uint64.from_address(address).value


def tells_version(xla: Interface, frame: int) -> bool:
    """Whether a call only asks for the version, which it is then told."""
    asked = word(frame + xla.asked)
    if asked:
        told = word(asked + xla.metadata)
        for place, number in zip((xla.major, xla.minor), xla.version, strict=True):
            ctypes.c_int32.from_address(told + place).value = number
    return bool(asked)


def _difference() -> str:
    """What differs in a call, if anything does."""
    _differences.clear()
    _calls.clear()
    try:
        _register()
        given = jax.device_put(np.zeros(3, np.float32), jax.local_devices(backend="cpu")[0])
        call = jax.ffi.ffi_call(_TARGET, jax.ShapeDtypeStruct((3,), np.float32), has_side_effect=True)
        jax.block_until_ready(jax.jit(lambda x: call(x))(given))
    except Exception as error:
        _differences.append(f"{type(error).__name__}: {error}")
    return ", ".join(_differences) if _calls or _differences else "it was not called"


@functools.cache
def _register() -> None:
    address = ctypes.cast(_handler, ctypes.c_void_p).value
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(address), platform="cpu")


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def _handler(frame: int) -> None:
    """Compares the sizes that the structures of a frame say with those of the header."""
    xla = interface()
    assert xla is not None
    expected = {kind: size for kind, _, size in xla.sizes_of}

    def differs(kind: str, address: int) -> bool:
        said = word(address)
        if said != expected[kind]:
            _differences.append(f"{kind} of {said} bytes, not {expected[kind]}")
        return said != expected[kind]

    if differs("CallFrame", frame):
        return
    asked = word(frame + xla.asked)
    if asked:
        if not differs("Metadata_Extension", asked):
            tells_version(xla, frame)
        return
    _calls.append(frame)
    if any([differs(kind, frame + place) for kind, place, _ in xla.sizes_of if place]):
        return
    for buffers in (xla.arguments, xla.results):
        buffer = word(word(frame + buffers))
        if not differs("Buffer", buffer) and word(buffer + xla.rank) != 1:
            _differences.append(f"a vector of {word(buffer + xla.rank)} axes")


def register(target: str, handler: Any) -> bool:
    """Tell XLA a function of ctypes by this name. Whether it knows it: if its interface is one that can be spoken."""
    if checked_interface() is None:
        return False
    address = ctypes.cast(handler, ctypes.c_void_p).value
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(address), platform="cpu")
    return True
