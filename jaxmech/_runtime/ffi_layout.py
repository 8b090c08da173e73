"""XLA's interface for foreign functions, as the header that comes with jaxlib describes it."""

import functools
import re
import struct
from pathlib import Path
from typing import NamedTuple

import jax

_SIZES = {"size_t": 8, "int64_t": 8, "uint64_t": 8, "int32_t": 4, "uint32_t": 4, "int": 4, "unsigned": 4}  # bytes


class Interface(NamedTuple):
    """The version, and where things are [bytes]: arrays of pointers to buffers in a frame, and their data, rank and sizes in
    these; what makes an error, in the functions that a frame points to; where to write the version to that XLA asks for.

    `sizes_of`: where in a frame structures lie that say their size, by name, and that size; "Buffer" and
    "Metadata_Extension" are elsewhere. A frame that says otherwise is not the one described (`ffi_check.py`).
    """

    version: tuple[int, int]
    arguments: int
    results: int
    data: int
    rank: int
    sizes: int
    functions: int
    create_error: int
    asked: int  # in the frame: what asks, if anything does
    metadata: int  # in what asks
    major: int  # in the metadata
    minor: int
    sizes_of: tuple[tuple[str, int | None, int], ...]


@functools.cache
def interface() -> Interface | None:
    """The interface that the header describes, if its version is known; later minor versions only append to structures.

    None for another version, and for a header that does not describe all of it: what is not where it was thought to be
    would be read and written.
    """
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    if not header.is_file() or struct.calcsize("P") != 8:
        return None
    try:
        return described(header.read_text())
    except KeyError:
        return None


def described(header: str) -> Interface | None:
    """The interface of a header. Raises `KeyError` where something is not in it."""
    numbers = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", header))
    version = int(numbers["MAJOR"]), int(numbers["MINOR"])
    if version[0] != 0:
        return None
    header = re.sub(r"//[^\n]*|/\*.*?\*/", "", header, flags=re.DOTALL)
    header = re.sub(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\)", r"void* \1", header)

    def at(kind: str, field: str) -> int:
        return _layout(header, f"XLA_FFI_{kind}")[0][field][0]

    def said(kind: str, place: int | None) -> tuple[str, int | None, int]:
        return kind, place, _said_size(header, f"XLA_FFI_{kind}")

    return Interface(
        version,
        at("CallFrame", "args") + at("Args", "args"),
        at("CallFrame", "rets") + at("Rets", "rets"),
        at("Buffer", "data"),
        at("Buffer", "rank"),
        at("Buffer", "dims"),
        at("CallFrame", "api"),
        at("Api", "XLA_FFI_Error_Create"),
        at("CallFrame", "extension_start"),
        at("Metadata_Extension", "metadata"),
        at("Metadata", "api_version") + at("Api_Version", "major_version"),
        at("Metadata", "api_version") + at("Api_Version", "minor_version"),
        (
            said("CallFrame", 0),
            said("Args", at("CallFrame", "args")),
            said("Rets", at("CallFrame", "rets")),
            said("Buffer", None),
            said("Metadata_Extension", None),
        ),
    )


def _said_size(header: str, name: str) -> int:
    """What a structure says its size is: up to the end of the field that the header names as the last."""
    found = re.search(rf"XLA_FFI_DEFINE_STRUCT_TRAITS\({name},\s*(\w+)\)", header)
    if found is None:
        raise KeyError(name)
    return _layout(header, name)[0][found[1]][1]


def _layout(header: str, name: str) -> tuple[dict[str, tuple[int, int]], int, int]:
    """Where the fields of a structure begin and end, its size, and what it is aligned to, by the rules of C. `KeyError` for
    a type that is not known."""
    found = re.search(rf"struct {name} \{{(.*?)\}}", header, flags=re.DOTALL)
    if found is None:
        raise KeyError(name)
    places, end, widest = {}, 0, 1
    for declaration in filter(None, map(str.strip, found[1].split(";"))):
        kind, field = declaration.rsplit(None, 1)
        if "*" in declaration:
            size, align = 8, 8
        else:
            size, align = _size(header, kind.removeprefix("const ").removeprefix("struct "))
        end = -(-end // align) * align
        places[field.lstrip("*")] = end, end + size
        end, widest = end + size, max(widest, align)
    return places, -(-end // widest) * widest, widest


def _size(header: str, kind: str) -> tuple[int, int]:
    """Size and alignment of a field."""
    if kind in _SIZES:
        return _SIZES[kind], _SIZES[kind]
    if re.search(rf"typedef enum[^{{]*\{{[^}}]*\}} {kind};", header):
        return 4, 4
    if alias := re.search(rf"typedef (\w+) {kind};", header):
        return _size(header, alias[1])
    return _layout(header, kind)[1:]
