"""Many steps of conjugate gradients in one call, on a CPU.

XLA makes a loop of each operation on vectors. On a scene of a few hundred nodes, what lies between these takes longer than
they do; on a large one each goes through memory. Here a step is the product and two passes, and of a batch every matrix
takes its own number of steps, while it stays in the cache.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..._llvm.ffi import compile_on_cpu
from ..._runtime.array_types import Array, Float
from ..._runtime.devices import device_count
from ..._runtime.jax_internals import Primitive, ShapedArray, define
from ..._sparse.block_sparse import BlockSparse
from .cg_kernel_llvm import compiled_steps
from .cg_recurrence import COUNTS, NUMBERS, VECTORS, Bounds, CGState


def more_steps(
    matrix: BlockSparse, inverse: Float[Array, "m c c"], state: CGState, taken: Array, bounds: Bounds
) -> tuple[CGState, Array]:
    """The state after steps until one of the bounds ends them, on one CPU; none elsewhere; and how many were `taken` in all.
    `inverse`: the preconditioner, a block for each node, or none at all where it is 1."""
    dtype, c = matrix.values.dtype, matrix.values.shape[-1]
    inverted = inverse.shape[0] > 0
    blocks = inverse if inverted else jnp.zeros((0, c, c), dtype)
    own = [jnp.asarray(a) for a in (matrix.values, blocks, *state, taken, *bounds)]
    alike = all(a.dtype == dtype for a in own if jnp.issubdtype(a.dtype, jnp.floating))
    if not alike or device_count() > 1 or 0 in (*matrix.values.shape, *state.d.shape):
        return state, taken
    matrix.pattern.check_shapes("conjugate gradients", matrix.values.shape[0])
    plan = matrix.pattern.columns.astype(jnp.int32), matrix.pattern.row_starts.astype(jnp.int32)
    *end, taken = (a[0] for a in _more_p.bind(*(a[None] for a in own), *plan, inverted=inverted))
    return CGState(*end), taken


class _Operands(NamedTuple):
    """Those of the primitive. All but the last two have an axis of scenes, of length one where these share an array."""

    values: Array
    inverse: Array
    state: CGState
    taken: Array
    bounds: Bounds
    columns: Array
    row_starts: Array

    @classmethod
    def of(cls, operands: Sequence[Array]) -> "_Operands":
        values, inverse, *own, columns, row_starts = operands
        size = len(CGState._fields)
        return cls(values, inverse, CGState(*own[:size]), own[size], Bounds(*own[size + 1 :]), columns, row_starts)

    @property
    def scenes(self) -> int:
        return max(a.shape[0] for a in (self.values, self.inverse, *self.results, *self.bounds))

    @property
    def results(self) -> tuple[Array, ...]:
        """What there are results of: the state, and how many steps were taken."""
        return *self.state, self.taken


def _none(*operands, inverted):
    """No step: on other platforms the calling loop takes them one by one."""
    del inverted
    given = _Operands.of(operands)
    return [jnp.broadcast_to(a, (given.scenes, *a.shape[1:])) for a in given.results]


def _by_kernel(*operands, inverted):
    given = _Operands.of(operands)
    values, inverse, scenes = given.values, given.inverse, given.scenes
    function = compiled_steps(values.shape[-1], values.dtype, inverted)
    own = {**given.state._asdict(), "taken": given.taken, **given.bounds._asdict()}
    own = {name: jnp.broadcast_to(a, (scenes, *a.shape[1:])) for name, a in own.items()}
    vectors = [own[name] for name in VECTORS]
    scalars = [jnp.stack([own[name] for name in names], axis=1) for names in (NUMBERS, COUNTS)]
    shared = [a.shape[0] < scenes for a in (values, inverse)]
    values, inverse = (a[0] if one else a for a, one in zip((values, inverse), shared, strict=True))
    read = [values, given.columns, given.row_starts, inverse, *vectors, *scalars]
    results = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (*vectors, *scalars)]
    results[3:3] = 2 * [jax.ShapeDtypeStruct(vectors[0].shape[1:], values.dtype)]  # to work with, one scene after the other
    is_own = [not shared[0], False, False, not shared[1], *5 * [True], *3 * [True], False, False, True, True]
    found = function(read, results, [vectors[0].shape[1], given.columns.shape[0]], is_own)
    for names, columns in zip((NUMBERS, COUNTS), found[-2:], strict=True):
        own |= {name: columns[:, i] for i, name in enumerate(names)}
    own |= dict(zip(VECTORS, found, strict=False))
    return [own[name] for name in (*CGState._fields, "taken")]


def _abstract(*operands, inverted):
    del inverted
    given = _Operands.of(operands)
    return [ShapedArray((given.scenes, *a.shape[1:]), a.dtype) for a in given.results]


def _batch(operands, axes, *, inverted):
    """A batch of scenes is more scenes; a matrix that all share stays one."""
    size = next(a.shape[axis] for a, axis in zip(operands, axes, strict=True) if axis is not None)
    batched = [axis is not None for axis in axes]
    operands = [a if axis is None else jnp.moveaxis(a, axis, 0) for a, axis in zip(operands, axes, strict=True)]
    scenes = max(a.shape[int(own)] for a, own in zip(operands[:-2], batched, strict=False))

    def folded(a: Array, own: bool) -> Array:
        if not own and a.shape[0] == 1:
            return a
        a = a if own else a[None]
        return jnp.broadcast_to(a, (size, scenes, *a.shape[2:])).reshape(size * scenes, *a.shape[2:])

    own = [folded(a, mine) for a, mine in zip(operands[:-2], batched, strict=False)]
    takes = _none if any(batched[-2:]) else _more_p.bind  # none where every scene has a pattern of its own
    found = takes(*own, *operands[-2:], inverted=inverted)
    return [a.reshape(size, scenes, *a.shape[1:]) for a in found], [0 for _ in found]


_more_p = Primitive("jaxmech_more_steps")
_more_p.multiple_results = True
_more_p.def_abstract_eval(_abstract)
define(_more_p, batch=_batch)
compile_on_cpu(_more_p, _none, _by_kernel)
