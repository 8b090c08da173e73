"""Machine code, kept where JAX keeps compiled programs, by its rules: in its folder, if compiling took long enough."""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

_HASH = 32  # bytes, before the code that they are of


def kept_or_made(description: str, compiled: Callable[[], bytes]) -> bytes:
    """The code that `description` says all of, from the folder or else by `compiled`."""
    settings: Any = jax.config
    folder = settings.jax_compilation_cache_dir if settings.jax_enable_compilation_cache else None
    if not folder or "://" in folder:  # a bucket somewhere
        return compiled()
    path = Path(folder, f"jaxmech-{hashlib.sha256(description.encode()).hexdigest()}.o")
    try:
        kept = path.read_bytes()
    except OSError:
        kept = b""
    if kept and kept[:_HASH] == hashlib.sha256(kept[_HASH:]).digest():  # nothing else shall be run
        return kept[_HASH:]
    started = time.perf_counter()
    code = compiled()
    if time.perf_counter() - started >= settings.jax_persistent_cache_min_compile_time_secs:
        _write(path, hashlib.sha256(code).digest() + code)
    return code


def _write(path: Path, contents: bytes) -> None:
    """Write a file whole; or not, where there is no room for it: it is made again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=".jaxmech-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(contents)
        os.replace(beside, path)
    except OSError:
        return
