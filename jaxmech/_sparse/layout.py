"""Where every state stands in the flat system; from dictionaries of vectors to one flat vector and back."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_choice, check_instance, numeric_array, real_array
from .._runtime.array_types import Array, Float, Int
from .._runtime.host_arrays import as_data

Sizes = tuple[tuple[str, int, int], ...]


class StateLayout(eqx.Module):
    """The order of the unknowns in the flat system: state by state in sorted order, node by node, component by component.

    Unknown number `offset[state] + deriv_size * node + component`, the order of `BlockMatrix.to_scipy()` and
    `to_dense()`. `sizes` lists `(state, nodes, deriv_size)`. Made by `StateLayout.of(vectors)`, or taken from a matrix,
    `A.layout`. (A dictionary of vectors is SOFA's multi-vector, the flat vector its BaseVector.)
    No units [-]: numbers. Raises `TypeError` for other sizes, `ValueError` for unknown states and vectors of other shapes.

    Example:

        layout = jm.matrix.StateLayout.of({"a": np.zeros((2, 3)), "b": np.zeros((1, 6))})
        assert layout.size == 12 and layout.offsets() == {"a": 0, "b": 6}
        assert layout.dofs("b", [0], [5]).tolist() == [11]
    """

    sizes: Sizes = eqx.field(static=True)

    def __check_init__(self):
        check_instance("StateLayout", "sizes", self.sizes, tuple)
        for size in self.sizes:
            if not (isinstance(size, tuple) and len(size) == 3 and isinstance(size[0], str) and _are_counts(size[1:])):
                raise TypeError(f"StateLayout: sizes must list (state, nodes, deriv_size), got {size!r:.80} in it.")

    @classmethod
    def of(cls, vectors: Mapping[str, Any]) -> "StateLayout":
        """The layout of vectors `{state: (nodes, deriv_size)}`: of `state.velocity`, or of forces.

        Raises `ValueError` for an array of other than two axes.
        """
        check_instance("StateLayout", "vectors", vectors, Mapping)
        for state, vector in vectors.items():
            check_instance("StateLayout", "a state of vectors", state, str)
            if len(np.shape(vector)) != 2:
                raise ValueError(
                    f"StateLayout: vectors['{state}'] has shape {np.shape(vector)}, expected (nodes, deriv_size)."
                )
        return cls(tuple((s, *map(int, np.shape(vectors[s]))) for s in sorted(vectors)))

    @property
    def size(self) -> int:
        """How many unknowns there are."""
        return sum(n * d for _, n, d in self.sizes)

    def dimensions(self) -> dict[str, int]:
        """How many unknowns each state has."""
        return {s: n * d for s, n, d in self.sizes}

    def offsets(self) -> dict[str, int]:
        """The number of the first unknown of each state."""
        ends = np.cumsum([0, *(n * d for _, n, d in self.sizes)])
        return {s: int(o) for (s, _, _), o in zip(self.sizes, ends, strict=False)}

    def dofs(self, state: str, nodes: Any = None, components: Any = None) -> Int[np.ndarray, " k"]:
        """The numbers of the unknowns of some nodes (all unless given), node by node, of some components (all).

        Raises `ValueError` for an unknown state, a node or a component that does not exist.
        """
        check_choice("StateLayout", "state", state, [s for s, _, _ in self.sizes])
        known = {s: (n, d) for s, n, d in self.sizes}
        n, d = known[state]
        rows = _numbers("nodes", nodes, n, state)
        columns = _numbers("components", components, d, state)
        return (self.offsets()[state] + d * rows[:, None] + columns).reshape(-1)

    def ravel(self, vectors: Mapping[str, Array]) -> Float[Array, " N"]:
        """The flat vector of a dictionary `{state: (nodes, deriv_size)}`. Raises `ValueError` for other states or shapes."""
        check_instance("StateLayout", "vectors", vectors, Mapping)
        if set(vectors) != {s for s, _, _ in self.sizes}:
            raise ValueError(f"StateLayout: vectors of {list(vectors)}, expected {[s for s, _, _ in self.sizes]}.")
        for s, n, d in self.sizes:
            if np.shape(vectors[s]) != (n, d):
                raise ValueError(f"StateLayout: vectors['{s}'] has shape {np.shape(vectors[s])}, expected {(n, d)}.")
        return jnp.concatenate([jnp.reshape(vectors[s], -1) for s, _, _ in self.sizes])

    def unravel(self, vector: Any) -> dict[str, Array]:
        """The dictionary `{state: (nodes, deriv_size)}` of a flat vector, JAX's or NumPy's.

        Raises `ValueError` unless the vector has shape `(size,)`.
        """
        vector = as_data(real_array("StateLayout", "vector", vector, (self.size,), finite=False))
        start = self.offsets()
        return {s: vector[start[s] : start[s] + n * d].reshape(n, d) for s, n, d in self.sizes}


def _are_counts(numbers: Any) -> bool:
    return all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 0 for n in numbers)


def _numbers(what: str, given: Any, count: int, state: str) -> np.ndarray:
    if given is None:
        return np.arange(count)
    numbers = np.atleast_1d(np.asarray(numeric_array("StateLayout", what, given)))
    if numbers.size == 0:
        return numbers.astype(int)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= count:
        raise ValueError(f"StateLayout: {what} of '{state}' must be whole numbers from 0 to {count - 1}, got {given!r:.80}.")
    return numbers
