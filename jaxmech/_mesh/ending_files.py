"""Files that end: readers that wait for a word which a file cut short does not hold would ask for more of it for ever."""

import builtins
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_PATIENCE = 1000  # times that the end of a file may be read over again: a reader looks ahead once or twice
_lock = threading.Lock()


class _EndingFile(io.FileIO):
    """A file to read, which raises `EOFError` for who does not notice its end."""

    _asked = 0

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self._asked = 0 if count else self._asked + 1
        if self._asked > _PATIENCE:
            raise EOFError("the file ends too early")
        return count


def _opened(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
    """`open`; of what is only read, by way of an `_EndingFile`."""
    if mode not in ("r", "rb") or arguments or options:
        return builtins.open(path, mode, *arguments, **options)
    data = io.BufferedReader(_EndingFile(path))
    return data if mode == "rb" else io.TextIOWrapper(data)


@contextmanager
def ending(*modules: ModuleType) -> Iterator[None]:
    """While some modules of another library read files: what they open ends."""
    with _lock:
        for module in modules:
            module.open = _opened  # pyright: ignore[reportAttributeAccessIssue]
        try:
            yield
        finally:
            for module in modules:
                del module.open  # pyright: ignore[reportAttributeAccessIssue]
