"""Many steps of conjugate gradients in one call, on a CPU.

XLA makes a loop of each operation on vectors. On a scene of a few hundred nodes, what lies between these takes longer than
they do; on a large one each goes through memory. Here a step is the product and two passes, and of a batch every matrix
takes its own number of steps, while it stays in the cache.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching

from .._devices import device_count
from .._llvm.foreign import NotOfThisMachine, compile_on_cpu
from .._sparse.block_sparse import BlockSparse
from .._typing import Array, Float, Int
from ._cg_loop import compiled_steps


class Steps(NamedTuple):
    """What conjugate gradients carry from step to step: the names are those of `pcg._Run`."""

    d: Float[Array, "n c"]
    r: Float[Array, "n c"]
    p: Float[Array, "n c"]
    rz: Float[Array, ""]
    pMp: Float[Array, ""]
    steepest: Float[Array, ""]
    residual: Float[Array, ""]
    flaw: Int[Array, ""]
    taken: Int[Array, ""]  # steps, from the beginning of the solve


class Bounds(NamedTuple):
    """Where steps end: at a residual of `goal`, above one of `far`, after step number `last`; and after step number `grace`,
    above one of `line`, which falls by the factor `falling` with each step."""

    goal: Float[Array, ""]
    far: Float[Array, ""]
    line: Float[Array, ""]
    falling: Float[Array, ""]
    last: Int[Array, ""]
    grace: Int[Array, ""]


def more_steps(matrix: BlockSparse, inverse: Float[Array, "m c c"], steps: Steps, bounds: Bounds) -> Steps:
    """Steps until one of the bounds ends them, on one CPU; none elsewhere. `inverse`: the preconditioner, a block for each
    node, or none at all where it is 1."""
    dtype, c = matrix.values.dtype, matrix.values.shape[-1]
    inverted = inverse.shape[0] > 0
    numbers = [jnp.asarray(a) for a in (*steps[:7], *bounds[:4], *([inverse] if inverted else []))]
    if {a.dtype for a in numbers} != {dtype} or device_count() > 1 or 0 in (*matrix.values.shape, *steps.d.shape):
        return steps
    blocks = inverse if inverted else jnp.zeros((0, c, c), dtype)
    counts = [jnp.asarray(a, jnp.int32) for a in (*steps[7:], *bounds[4:])]
    own = (matrix.values, blocks, *numbers[:7], *counts[:2], *numbers[7:11], *counts[2:])
    plan = matrix.pattern.columns, matrix.pattern.row_starts
    return Steps(*(a[0] for a in _more_p.bind(*(a[None] for a in own), *plan, inverted=inverted)))


def _none(*operands, inverted):
    """No step: elsewhere they are taken by the loop that asks, one by one."""
    del inverted
    return [jnp.broadcast_to(a, (_scenes(operands), *a.shape[1:])) for a in operands[2:11]]


def _scenes(operands: Sequence[Array]) -> int:
    """How many there are: every array has an axis of them, or one of length one."""
    return max(a.shape[0] for a in operands[:-2])


def _by_kernel(*operands, inverted):
    values, inverse, *own, columns, row_starts = operands
    try:
        function = compiled_steps(values.shape[-1], values.dtype, inverted)
    except NotOfThisMachine:
        return _none(*operands, inverted=inverted)
    scenes = _scenes(operands)
    d, r, p, *scalars = (jnp.broadcast_to(a, (scenes, *a.shape[1:])) for a in own)
    numbers = jnp.stack([*scalars[:4], *scalars[6:10]], axis=1)
    counts = jnp.stack([*scalars[4:6], *scalars[10:]], axis=1)
    results = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (d, r, p, d, d, numbers, counts)]
    sizes = scenes, values.shape[1], d.shape[1], values.shape[0] > 1, inverse.shape[0] > 1
    d, r, p, _, _, numbers, counts = function(
        (values, columns, row_starts, inverse, d, r, p, numbers, counts), results, sizes
    )
    return [d, r, p, *(numbers[:, i] for i in range(4)), *(counts[:, i] for i in range(2))]


def _abstract(*operands, inverted):
    del inverted
    return [ShapedArray((_scenes(operands), *a.shape[1:]), a.dtype) for a in operands[2:11]]


def _batch(operands, axes, *, inverted):
    """A batch of scenes is more scenes; a matrix that all share stays one."""
    size = next(a.shape[axis] for a, axis in zip(operands, axes, strict=True) if axis is not None)
    operands = [a if axis is None else jnp.moveaxis(a, axis, 0) for a, axis in zip(operands, axes, strict=True)]
    batched = [axis is not None for axis in axes]
    scenes = max(a.shape[int(own)] for a, own in zip(operands[:-2], batched, strict=False))

    def folded(a: Array, own: bool) -> Array:
        if not own and a.shape[0] == 1:
            return a
        a = a if own else a[None]
        return jnp.broadcast_to(a, (size, scenes, *a.shape[2:])).reshape(size * scenes, *a.shape[2:])

    own = [folded(a, mine) for a, mine in zip(operands[:-2], batched, strict=False)]
    if any(batched[-2:]):  # every scene with a pattern of its own
        found = _none(*own, *operands[-2:], inverted=inverted)
    else:
        found = _more_p.bind(*own, *operands[-2:], inverted=inverted)
    return [a.reshape(size, scenes, *a.shape[1:]) for a in found], [0 for _ in found]


_more_p = Primitive("jaxmech_more_steps")
_more_p.multiple_results = True
_more_p.def_abstract_eval(_abstract)
batching.primitive_batchers[_more_p] = _batch
compile_on_cpu(_more_p, _none, _by_kernel)
