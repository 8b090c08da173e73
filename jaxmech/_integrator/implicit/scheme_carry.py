"""The carry of an implicit scheme: what its linear system keeps, and what the scheme itself remembers."""

from typing import Any

from ..._math.indexing import asked_once
from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..._runtime.precision import compiled
from ..carried import Scheme, using


def prepared_for(scheme: Scheme, system: System, state: State, carry: Any, h: Array) -> tuple[Scheme, Any, Any]:
    """The scheme with what its linear system keeps, that itself, and the scheme's own memory."""
    kept, memory = parted(scheme, system, state, carry)
    if carry is None:
        return scheme, kept, memory
    if scheme.linear_system.has_updates:
        kept = scheme.linear_system.updated(system, state, kept, scheme.factors(system, state, memory, h))
    return using(scheme, kept), kept, memory


def joined_carry(scheme: Any, carry: Any, kept: Any, memory: Any) -> Any:
    """The carry of the next step; None after a step by itself."""
    if carry is None:
        return None
    return (kept, memory) if scheme.remembers else kept


def parted(scheme: Any, system: System, state: State, carry: Any) -> tuple[Any, Any]:
    """Both parts of a carry; where there is none, what the scheme would remember at first."""
    if not scheme.remembers:
        return carry, None
    if carry is None:
        return None, first_memory(scheme, system, state)
    if not (isinstance(carry, tuple) and len(carry) == 2):
        raise TypeError(f"{type(scheme).__name__}: the carry must be what init or a step gave, got {carry!r:.80}.")
    return carry


@compiled
def first_memory(scheme: Any, system: System, state: State) -> Any:
    """What the first step is to remember."""
    with asked_once((scheme, system)) as asked:
        memory = scheme.memory(system, state)
    return asked.marked(memory)[0]
