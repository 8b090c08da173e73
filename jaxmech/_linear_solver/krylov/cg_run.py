"""A run of conjugate gradients, in one call.

XLA makes a loop of each operation on vectors. On a scene of a few hundred nodes, what lies between these takes longer than
they do; on a large one each goes through memory. On a CPU a step is the product and two passes, and of a batch every matrix
takes its own number of steps, while it stays in the cache. Elsewhere a run is a loop of operations on arrays.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._llvm.ffi import compile_on_cpu
from ..._math.small_matmul import times_vectors
from ..._runtime.array_types import Array, Float
from ..._runtime.devices import device_count
from ..._runtime.jax_internals import Primitive, ShapedArray, define
from ..._runtime.loops import while_loop
from ..._runtime.precision import full_precision
from ..._sparse.block_sparse import BlockSparse
from ..._sparse.pattern import BlockPattern
from ..._sparse.spmv import block_product
from .cg_kernel_llvm import compiled_steps
from .cg_recurrence import COUNTS, NUMBERS, VECTORS, Bounds, CGState, goes_on
from .cg_step import along, towards


def run_on(
    matrix: BlockSparse, inverse: Float[Array, "m c c"], state: CGState, taken: Array, bounds: Bounds
) -> tuple[CGState, Array] | None:
    """The state after steps until one of the bounds ends them, and how many were `taken` in all. `inverse`: the
    preconditioner, a block for each node, or none at all where it is 1. None on several devices, of numbers of several
    types, and of none."""
    dtype, c = matrix.values.dtype, matrix.values.shape[-1]
    inverted = inverse.shape[0] > 0
    blocks = inverse if inverted else jnp.zeros((0, c, c), dtype)
    own = [jnp.asarray(a) for a in (matrix.values, blocks, *state, taken, *bounds)]
    alike = all(a.dtype == dtype for a in own if jnp.issubdtype(a.dtype, jnp.floating))
    if not alike or device_count() > 1 or 0 in (*matrix.values.shape, *state.d.shape):
        return None
    matrix.pattern.check_shapes("conjugate gradients", matrix.values.shape[0])
    leaves, structure = jax.tree.flatten(matrix.pattern)
    *end, taken = (a[0] for a in _run_p.bind(*(a[None] for a in own), *leaves, inverted=inverted, structure=structure))
    return CGState(*end), taken


class _Operands(NamedTuple):
    """Those of the primitive. All but the pattern have an axis of scenes, of length one where these share an array."""

    values: Array
    inverse: Array
    state: CGState
    taken: Array
    bounds: Bounds
    pattern: BlockPattern

    @classmethod
    def of(cls, operands: Sequence[Array], structure: Any) -> "_Operands":
        leaves = len(operands) - structure.num_leaves
        pattern = jax.tree.unflatten(structure, operands[leaves:])
        (values, inverse, *own), size = operands[:leaves], len(CGState._fields)
        return cls(values, inverse, CGState(*own[:size]), own[size], Bounds(*own[size + 1 :]), pattern)

    @property
    def scenes(self) -> int:
        return max(a.shape[0] for a in (self.values, self.inverse, *self.results, *self.bounds))

    @property
    def results(self) -> tuple[Array, ...]:
        """What there are results of: the state, and how many steps were taken."""
        return *self.state, self.taken


@full_precision
def _by_arrays(*operands, inverted, structure):
    given = _Operands.of(operands, structure)
    pattern, own = given.pattern, jax.tree.leaves(given[:-1])
    if given.scenes == 1:
        return [a[None] for a in _of_scene(inverted, pattern, *(a[0] for a in own))]
    shared = [a.shape[0] < given.scenes for a in own]
    one = jax.vmap(lambda *own: _of_scene(inverted, pattern, *own), [None if alone else 0 for alone in shared])
    return one(*(a[0] if alone else a for a, alone in zip(own, shared, strict=True)))


def _of_scene(inverted: bool, pattern: BlockPattern, values: Array, inverse: Array, *own: Array) -> list[Array]:
    size = len(CGState._fields)
    state, taken, bounds = CGState(*own[:size]), own[size], Bounds(*own[size + 1 :])

    def step(at: tuple[CGState, Array, Array]) -> tuple[CGState, Array, Array]:
        last, taken, line = at
        last = towards(last, times_vectors(inverse, last.r) if inverted else last.r)
        return along(last, block_product(values, pattern, last.p)), taken + 1, line * bounds.falling

    def going(at: tuple[CGState, Array, Array]) -> Array:
        return goes_on(at[0], at[1], bounds._replace(line=at[2]))

    end, taken, _ = while_loop(going, step, (state, taken, bounds.line))
    return [*end, taken]


def _by_kernel(*operands, inverted, structure):
    given = _Operands.of(operands, structure)
    values, inverse, scenes = given.values, given.inverse, given.scenes
    function = compiled_steps(values.shape[-1], values.dtype, inverted)
    own = {**given.state._asdict(), "taken": given.taken, **given.bounds._asdict()}
    own = {name: jnp.broadcast_to(a, (scenes, *a.shape[1:])) for name, a in own.items()}
    vectors = [own[name] for name in VECTORS]
    scalars = [jnp.stack([own[name] for name in names], axis=1) for names in (NUMBERS, COUNTS)]
    shared = [a.shape[0] < scenes for a in (values, inverse)]
    values, inverse = (a[0] if one else a for a, one in zip((values, inverse), shared, strict=True))
    columns, row_starts = (a.astype(jnp.int32) for a in (given.pattern.columns, given.pattern.row_starts))
    read = [values, columns, row_starts, inverse, *vectors, *scalars]
    results = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (*vectors, *scalars)]
    results[3:3] = 2 * [jax.ShapeDtypeStruct(vectors[0].shape[1:], values.dtype)]  # to work with, one scene after the other
    is_own = [not shared[0], False, False, not shared[1], *5 * [True], *3 * [True], False, False, True, True]
    found = function(read, results, [vectors[0].shape[1], columns.shape[0]], is_own)
    for names, columns in zip((NUMBERS, COUNTS), found[-2:], strict=True):
        own |= {name: columns[:, i] for i, name in enumerate(names)}
    own |= dict(zip(VECTORS, found, strict=False))
    return [own[name] for name in (*CGState._fields, "taken")]


def _abstract(*operands, inverted, structure):
    del inverted
    given = _Operands.of(operands, structure)
    return [ShapedArray((given.scenes, *a.shape[1:]), a.dtype) for a in given.results]


def _batch(operands, axes, *, inverted, structure):
    """A batch of scenes is more scenes; a matrix that all share stays one. Scenes of patterns of their own are a loop."""
    count = len(operands) - structure.num_leaves
    if any(axis is not None for axis in axes[count:]):
        one = jax.vmap(lambda *operands: _by_arrays(*operands, inverted=inverted, structure=structure), axes)
        return one(*operands), [0 for _ in range(len(CGState._fields) + 1)]
    size = next(a.shape[axis] for a, axis in zip(operands, axes, strict=True) if axis is not None)
    batched = [axis is not None for axis in axes[:count]]
    moved = [a if axis is None else jnp.moveaxis(a, axis, 0) for a, axis in zip(operands[:count], axes, strict=False)]
    scenes = max(a.shape[int(own)] for a, own in zip(moved, batched, strict=True))

    def folded(a: Array, own: bool) -> Array:
        if not own and a.shape[0] == 1:
            return a
        a = a if own else a[None]
        return jnp.broadcast_to(a, (size, scenes, *a.shape[2:])).reshape(size * scenes, *a.shape[2:])

    own = [folded(a, mine) for a, mine in zip(moved, batched, strict=True)]
    found = _run_p.bind(*own, *operands[count:], inverted=inverted, structure=structure)
    return [a.reshape(size, scenes, *a.shape[1:]) for a in found], [0 for _ in found]


_run_p = Primitive("jaxmech_cg_run")
_run_p.multiple_results = True
_run_p.def_abstract_eval(_abstract)
define(_run_p, batch=_batch)
compile_on_cpu(_run_p, _by_arrays, _by_kernel)
