"""The same element function, known again: what was traced of it once is not traced a second time.

A time step evaluates a component in several places: its force in the residual, at the start, after the step; its derivatives
of these. Each place makes a closure of its own, and JAX knows functions by identity. Two closures are the same function if
they are of the same code and close over equal values; one that closes over arrays, or over what is being traced, is like no
other.
"""

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import equinox as eqx

from .nodal_gather import is_rows

_KEPT = 1024  # functions, with their programs some 0.3 MB each, of which those used longest ago are forgotten


class ElementFunction:
    """A function of the arrays among its arguments' leaves; the other leaves are as they were given."""

    def __init__(self, function: Callable, structure: Any, leaves: Sequence[Any]):
        self._function, self._structure = function, structure
        self._where = [i for i, leaf in enumerate(leaves) if eqx.is_array(leaf) or is_rows(leaf)]
        self._others = [None if i in self._where else leaf for i, leaf in enumerate(leaves)]
        self._made: dict[Hashable, Any] = {}

    def same(self) -> "ElementFunction":
        """The first function made that equals this one: the same code over equal values."""
        try:
            key = _key(self._function), self._structure, tuple(self._where), _key(self._others)
            return _first(_Keyed(key, self))
        except TypeError:  # it cannot be hashed: it is of arrays, or of an object that may change
            return self

    def once(self, what: Hashable, make: Callable[[], Any]) -> Any:
        """What is made of it, when it is first asked for."""
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]

    def __call__(self, *values: Any) -> Any:
        leaves = list(self._others)
        for i, value in zip(self._where, values, strict=True):
            leaves[i] = value
        return self._function(*self._structure.unflatten(leaves))


class _Keyed:
    """A function known by what it is made of."""

    def __init__(self, key: Hashable, function: ElementFunction):
        self.key, self.function = key, function

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.key == other.key


def _none_known() -> Callable[[_Keyed], ElementFunction]:
    return functools.lru_cache(maxsize=_KEPT)(lambda keyed: keyed.function)


_first = _none_known()


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Within, no function is known, nor what was made of it; afterwards those are that were before."""
    global _first
    before, _first = _first, _none_known()
    try:
        yield
    finally:
        _first = before


def _key(value: Any) -> Hashable:
    """What a value is, by which another is known to be the same. The types are a part of it: `1 == 1.0 == True`."""
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        kept = (value.__defaults__, value.__kwdefaults__, cells)
        return value.__code__, id(value.__globals__), *(_key(part) for part in kept)
    if isinstance(value, tuple | list):
        return type(value), tuple(_key(part) for part in value)
    if isinstance(value, Mapping):
        return type(value), tuple((key, _key(part)) for key, part in value.items())
    if isinstance(value, functools.partial):
        return functools.partial, _key(value.func), _key(value.args), _key(value.keywords)
    return type(value), value
