"""What a foreign function reads from, and writes to, the frame that XLA calls it with."""

import ctypes

import numpy as np

from .ffi_check import word
from .ffi_layout import Interface


class _Error(ctypes.Structure):
    """`XLA_FFI_Error_Create_Args`."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("kind", ctypes.c_int),
    )


_Create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Error))


def new_error(xla: Interface, frame: int, message: str, kind: int) -> int | None:
    """What a foreign function gives back that has failed."""
    given = _Error(ctypes.sizeof(_Error), None, message.encode(), kind)
    return _Create(word(word(frame + xla.functions) + xla.create_error))(ctypes.byref(given))


def argument(xla: Interface, frame: int, number: int, dtype: np.dtype) -> np.ndarray:
    """A copy of an array that is handed over."""
    buffer = word(word(frame + xla.arguments) + 8 * number)
    shape = _shape(xla, buffer)
    count = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(ctypes.string_at(word(buffer + xla.data), count), dtype).reshape(shape)


def write_result(xla: Interface, frame: int, number: int, values: np.ndarray, dtype: np.dtype) -> None:
    """An array that is given back. Raises `ValueError` for one of another shape."""
    buffer = word(word(frame + xla.results) + 8 * number)
    shape, values = _shape(xla, buffer), np.asarray(values, dtype, order="C")
    if values.shape != tuple(shape):
        raise ValueError(f"result {number} has shape {values.shape}, expected {tuple(shape)}")
    ctypes.memmove(word(buffer + xla.data), values.ctypes.data, values.nbytes)


def _shape(xla: Interface, buffer: int) -> list[int]:
    sizes = word(buffer + xla.sizes)
    return [ctypes.c_int64.from_address(sizes + 8 * i).value for i in range(word(buffer + xla.rank))]
