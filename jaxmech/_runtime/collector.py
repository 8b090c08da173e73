"""Python's collector of cycles, at rest where a great many objects are made that live on: in a trace, of a long file.

It walks through all there are whenever a quarter more have come: a fifth of the time that a long program takes to trace, for
next to no garbage (of the gradient of an arm of seven hinges, 13 such walks, 2.4 of 12 s, and no byte less at the end).
"""

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_within, _was_on = 0, False


@contextlib.contextmanager
def collector_at_rest() -> Iterator[None]:
    """Within, no cycle is looked for, in any thread; afterwards, if any was before."""
    global _within, _was_on
    with _lock:
        if _within == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _within += 1
    try:
        yield
    finally:
        with _lock:
            _within -= 1
            if _within == 0 and _was_on:
                gc.enable()
