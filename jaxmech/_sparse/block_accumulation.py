"""From the lists of blocks that arrive at a pair of states to the distinct blocks, each once."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Float, Int
from .._runtime.host_arrays import as_data
from .gather_reduction import Reduction
from .pattern import unique_pairs

T = TypeVar("T")
Places = tuple[np.ndarray, np.ndarray]  # rows and columns of the blocks of a list


class Lists(NamedTuple, Generic[T]):
    """What arrives at a pair of states, places or values: `whole` lists of blocks, and `upper` triangles `H` of others, for
    `H + H^T`."""

    whole: Sequence[T] = ()
    upper: Sequence[T] = ()


class PairSums(eqx.Module):
    """The plan of the sums of every list, and of what they have in common."""

    whole: tuple[Reduction, ...]
    upper: tuple[Reduction, ...]
    mirror: Int[Array, " z"] | None  # where block `(j, i)` stands, for every block `(i, j)`; of a square pattern

    @classmethod
    def build(cls, arriving: Lists[Places], shape: tuple[int, int], *, diagonal: bool) -> tuple["PairSums", Places]:
        """The plan, and the places of the distinct blocks, in row-major order. Host work.

        Where there are upper triangles every block has its mirror image. `diagonal`: the blocks of the diagonal are all
        there.
        """
        lists = [*arriving.whole, *arriving.upper]
        ends = np.cumsum([rows.size for rows, _ in lists])
        more = [(columns, rows) for rows, columns in (lists if arriving.upper else ())]
        if diagonal:
            more.append((np.arange(shape[0], dtype=np.int32),) * 2)
        nothing = np.zeros(0, np.int32)
        rows, columns = (np.concatenate([nothing, *(part[side] for part in [*lists, *more])]) for side in (0, 1))
        rows, columns, slots = unique_pairs(rows, columns, shape)
        own = np.split(slots, ends)[: len(lists)]
        return cls._of(own[: len(arriving.whole)], own[len(arriving.whole) :], rows, columns), (rows, columns)

    @classmethod
    def _of(
        cls, whole: Sequence[np.ndarray], upper: Sequence[np.ndarray], rows: np.ndarray, columns: np.ndarray
    ) -> "PairSums":
        def plans(slots: Sequence[np.ndarray]) -> tuple[Reduction, ...]:
            return tuple(Reduction.build(own, rows.size) for own in slots)

        # Sorted by columns, the blocks of a pattern that is its own mirror image are the images of those sorted by rows.
        mirror = as_data(np.lexsort((rows, columns)), np.int32) if upper else None
        return cls(plans(whole), plans(upper), mirror)

    def within(self, positions: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> "PairSums":
        """The same sums, with their blocks at `positions` among those of a larger pattern, `rows` and `columns`."""
        whole, upper = ([positions[np.asarray(total.slots)] for total in part] for part in (self.whole, self.upper))
        return PairSums._of(whole, upper, rows, columns)

    def __call__(self, arriving: Lists[Array]) -> Float[Array, "z r c"]:
        """The sum of all that arrives, one list at least."""
        whole, upper = (
            [total(values) for total, values in zip(plans, part, strict=True)]
            for plans, part in zip((self.whole, self.upper), arriving, strict=True)
        )
        if self.mirror is not None:
            total = sum(upper[1:], upper[0])
            whole.append(total + jnp.swapaxes(mirrored(total, self.mirror), 1, 2))
        return sum(whole[1:], whole[0])


def mirrored(blocks: Float[Array, "z r c"], mirror: Int[Array, " z"]) -> Float[Array, "z r c"]:
    """The blocks in the places of their mirror images: a gather, and as a reduction also when transposed."""
    each = jnp.arange(blocks.shape[0], dtype=jnp.int32)
    return Reduction(mirror, mirror, (each[:, None],)).spread(blocks)
