"""Products of many small blocks, one beside the other.

XLA's CPU backend makes a call of every batched product and a loop of every sum, both slow over an axis of three entries.
Written out, the sum joins the reads before it and the writes after it in one loop: three times faster. Not for what is
written back to where it was read (`_model/constraint_projection.py`).
"""

from .._runtime.array_types import Array, Float

_SHORT = 12  # a longer sum is better left to the library


def times_blocks(left: Float[Array, "... r s"], right: Float[Array, "... s c"]) -> Float[Array, "... r c"]:
    """`L R` of the blocks in the last two axes; the axes before them broadcast."""
    if not 0 < right.shape[-2] <= _SHORT:
        return left @ right
    total = left[..., :, 0, None] * right[..., None, 0, :]
    for i in range(1, right.shape[-2]):
        total = total + left[..., :, i, None] * right[..., None, i, :]
    return total


def times_vectors(blocks: Float[Array, "... r s"], vectors: Float[Array, "... s"]) -> Float[Array, "... r"]:
    """`A x` of the blocks in the last two axes and the vectors in the last; the axes before them broadcast."""
    return times_blocks(blocks, vectors[..., None])[..., 0]
