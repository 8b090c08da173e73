"""From the vector that a search moves to the tree of parameters, and back."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Float
from .free import Free


class Unknowns(eqx.Module):
    """A tree of parameters, some of which are `Free`; the others are fixed."""

    tree: Any

    def __init__(self, tree: Any):
        self.tree = tree
        if not any(True for _ in self.free()):
            raise ValueError("parameters: none of them is Free, so there is nothing to fit.")

    def free(self) -> Iterator[tuple[str, Free, slice]]:
        """Name, parameter, and where its unknowns stand in the vector."""
        at = 0
        for path, leaf in jax.tree_util.tree_flatten_with_path(self.tree, is_leaf=_is_free)[0]:
            if isinstance(leaf, Free):
                yield _name(path), leaf, slice(at, at + leaf.start.size)
                at += leaf.start.size

    @property
    def count(self) -> int:
        return sum(free.start.size for _, free, _ in self.free())

    @property
    def names(self) -> list[str]:
        """Of every unknown."""
        found = []
        for name, free, _ in self.free():
            inner = [""] if free.start.ndim == 0 else [str(list(i)).replace(" ", "") for i in np.ndindex(free.start.shape)]
            found += [name + i for i in inner]
        return found

    @property
    def units(self) -> list[str]:
        return [free.unit for _, free, at in self.free() for _ in range(at.stop - at.start)]

    @property
    def dtype(self) -> Any:
        return jnp.result_type(*(free.start for _, free, _ in self.free()))

    def values(self, q: Float[Array, " n"]) -> Any:
        """The tree with numbers in place of `Free`."""
        places = iter(list(self.free()))

        def number(leaf: Any) -> Any:
            if not _is_free(leaf):
                return leaf
            _, free, at = next(places)
            return free.value(q[at].reshape(free.start.shape))

        return jax.tree.map(number, self.tree, is_leaf=_is_free)

    def flat(self, q: Float[Array, " n"]) -> Float[Array, " n"]:
        """The values of the unknowns, one after the other."""
        return jnp.concatenate([free.value(q[at].reshape(free.start.shape)).ravel() for _, free, at in self.free()])

    def rows(self, q: Float[Array, " n"]) -> Float[Array, " m"]:
        """Those of priors and penalties."""
        rows = [jnp.zeros(0, q.dtype)]
        for _, free, at in self.free():
            if free.prior is not None:
                mean, deviation = free.prior
                rows.append(((free.value(q[at].reshape(free.start.shape)) - mean) / deviation).ravel())
            if free.penalty is not None:
                rows.append(free.penalty.rows(q[at]))
        return jnp.concatenate(rows)


def looked_up(values: Any, name: Any) -> Any:
    """What a word of a scene stands for: the parameter of this name, with dots where it lies deeper."""
    found = values
    for part in name.split("."):
        if not isinstance(found, dict) or part not in found:
            known = f"among {sorted(found)}" if isinstance(found, dict) else "in what is no dictionary of them by name"
            raise ValueError(f"'{name}' is not a parameter: no '{part}' {known}.")
        found = found[part]
    return found


def as_leafless(function: Any) -> Any:
    """A function as a pytree, so that what holds it goes through `jax.jit`: a module of Equinox is one already."""
    return function if function is None or isinstance(function, eqx.Module) else jax.tree_util.Partial(function)


def _is_free(leaf: Any) -> bool:
    return isinstance(leaf, Free)


def _name(path: Any) -> str:
    words = ""
    for key in path:
        if isinstance(key, jax.tree_util.SequenceKey):
            words += f"[{key.idx}]"
        else:
            words += "." + str(getattr(key, "key", getattr(key, "name", key)))
    return words.removeprefix(".") or "parameter"
