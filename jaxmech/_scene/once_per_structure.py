"""What a trace of a component says, asked once for all components of one structure."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax

from .._runtime.array_types import Array


def once_per_structure(read: Callable) -> Callable:
    """`read(component, others)`, which looks at traces and at no number: every program of a scene asks several times, and a
    trace takes up to a second. `others`: degrees of freedom, or the shapes of arrays."""

    @functools.lru_cache(maxsize=512)
    def of_structure(structure: Any, *described: Any) -> Any:
        found = []

        def look(arrays: dict[int, Array]) -> None:
            found.append(read(*jax.tree.unflatten(structure, [arrays.get(i, a) for i, a in enumerate(described)])))

        jax.eval_shape(look, {i: a for i, a in enumerate(described) if isinstance(a, jax.ShapeDtypeStruct)})
        return found[0]

    @functools.wraps(read)
    def of(component: Any, others: Sequence[Any]) -> Any:
        leaves, structure = jax.tree.flatten((component, tuple(others)))
        described = [jax.ShapeDtypeStruct(a.shape, a.dtype) if eqx.is_array(a) else a for a in leaves]
        try:
            hash((structure, *described))
        except TypeError:  # what is static has no hash, or a leaf is no number: nothing is known again
            return of_structure.__wrapped__(structure, *described)
        return of_structure(structure, *described)

    return of
