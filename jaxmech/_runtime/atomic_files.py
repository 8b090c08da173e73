"""Files written whole or not at all."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = ".jaxmech-"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A place to write the file `path` to, which takes the place of an old one when the block ends without an error.

    It has the same name, in a folder of its own beside the old file: a format may tell by the suffix, write further files
    next to it, and refer to them. Interrupted at any byte, the old file is what it was. What is no regular file (a pipe,
    say) is written to directly.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    check_folder(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=_PREFIX) as folder:
        yield Path(folder, target.name)
        # The file itself last: what it refers to is there before it.
        for written in sorted(Path(folder).iterdir(), key=lambda p: p.name == target.name):
            _flush(written)
            os.replace(written, target.parent / written.name)
        _flush(target.parent)


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise `FileNotFoundError` that names `path` unless the folder of a file to be written is there."""
    if not Path(os.path.realpath(path)).parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))


def forget_interrupted(path: str | os.PathLike[str]) -> None:
    """Remove what writers of this very file left beside it when their process was killed."""
    target = Path(os.path.realpath(path))
    for folder in target.parent.glob(f"{_PREFIX}*"):
        # That of another file, or one that has just been made, is not ours.
        if folder.is_dir() and [p.name for p in folder.iterdir()] == [target.name]:
            shutil.rmtree(folder, ignore_errors=True)


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # which cannot open folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
