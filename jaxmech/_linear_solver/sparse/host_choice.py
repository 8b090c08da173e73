"""Which host backend: the one asked for, or the fastest that is installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .feral import FeralBackend
from .host_backend import AbstractHostBackend
from .ordering import ORDERINGS
from .pardiso import PardisoBackend
from .superlu import SuperLUBackend

_FASTEST_FIRST: tuple[type[AbstractHostBackend], ...] = (PardisoBackend, FeralBackend, SuperLUBackend)


def host_backend(name: str, *, symmetric: bool, ordering: str = "auto") -> type[AbstractHostBackend]:
    """The backend called `name`, or for `"auto"` the fastest installed one that offers the `ordering`.

    An unsymmetric matrix given to a symmetric-only backend goes to the fastest one that can solve it.
    Raises `ValueError` for an unknown name or an ordering it does not offer, and `ImportError` for a backend that is not
    installed.
    """
    by_name = {backend.name: backend for backend in _FASTEST_FIRST}
    if ordering not in ORDERINGS:
        raise ValueError(f"ordering {ordering!r} is not one of {ORDERINGS}.")
    if name != "auto":
        if name not in by_name:
            raise ValueError(f"host backend {name!r} is not one of {['auto', *by_name]}.")
        chosen = by_name[name]
        if not chosen.available():
            raise ImportError(f'host backend {name!r} is not installed: pip install "jaxmech[{chosen.extra}]".')
        if ordering not in chosen.orderings:
            raise ValueError(f"host backend {name!r} does not offer the ordering {ordering!r}, only {chosen.orderings}.")
        if symmetric or chosen.handles_unsymmetric:
            return chosen
    able = [b for b in _FASTEST_FIRST if b.available() and (symmetric or b.handles_unsymmetric)]
    offering = [b for b in able if ordering in b.orderings]
    if not offering and name == "auto":
        raise ValueError(f"no installed host backend offers the ordering {ordering!r}: {[b.name for b in able]}.")
    return (offering or able)[0]


@contextmanager
def analysed(pattern: Any) -> Iterator[AbstractHostBackend]:
    """The fastest backend for symmetric matrices of a `pattern`, `indptr` and `indices` of rows, released at the end."""
    backend = host_backend("auto", symmetric=True)()
    backend.analyze(pattern.indptr, pattern.indices, True, "auto")
    try:
        yield backend
    finally:
        backend.release()
