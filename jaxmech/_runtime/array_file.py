"""Arrays in a file, and a description of what they are in JSON: written whole or not at all, read only if nothing of it has
changed. An `.npz`; nothing is pickled."""

import hashlib
import json
from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np

from .argument_checks import check_path
from .atomic_files import replacing

_HEADER = "jaxmech"


def write_arrays(path: str | PathLike[str], version: Any, described: Any, arrays: list[np.ndarray]) -> None:
    """Write arrays, and what describes them, to a file that takes the place of an old one when it is whole."""
    check_path("save", path)
    header = json.dumps({"version": version, "tree": described, "digest": _digest(described, arrays)})
    with replacing(path) as whole, open(whole, "wb") as file:
        np.savez(file, **{_HEADER: np.array(header)}, **{f"a{i}": array for i, array in enumerate(arrays)})


def read_arrays(path: str | PathLike[str], version: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """What `write_arrays` wrote: the description, and the arrays `a0`, `a1`, ...

    Raises `ValueError` for a file that is damaged, not of this kind, or of another version.
    """
    check_path("load", path)
    with open(path, "rb") as file:
        try:
            data = np.load(file, allow_pickle=False)
            header = json.loads(str(data[_HEADER]))
            arrays = {name: data[name] for name in data.files if name != _HEADER}
            header = {key: header.get(key) for key in ("version", "tree", "digest")}
        except Exception as error:  # whatever zipfile, zlib, NumPy and JSON find wrong, too little memory for it included
            raise ValueError(f"{str(path)!r} is not a file that jaxmech saved: {error!r:.200}.") from error
    if header.get("version") != version:
        raise ValueError(f"{str(path)!r} is of version {header.get('version')}, this jaxmech reads version {version}.")
    if header.get("digest") != _digest(header["tree"], [arrays.get(f"a{i}") for i in range(len(arrays))]):
        raise ValueError(f"{str(path)!r} does not hold what was saved to it: its contents have changed. Build it again.")
    return header["tree"], arrays


def _digest(described: Any, arrays: Iterable[Any]) -> str:
    """SHA-256 of all that is in a file."""
    digest = hashlib.sha256(json.dumps(described).encode())
    for array in map(np.asarray, arrays):
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
