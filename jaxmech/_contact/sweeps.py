"""Sweeps over the contacts between bodies that nothing but contacts couples: much for little, before Newton's method.

One contact after the other is for a processor, not for arrays: it is a kernel, and on other platforms there is none.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._codegen import expand
from .._linear_solver.dense.elimination import inverse_by_elimination
from .._llvm.ffi import compile_on_cpu, is_available
from .._math.small_matmul import times_blocks
from .._model.dynamics import Fields
from .._runtime.array_types import Array
from .._runtime.devices import device_count, is_run_by_many, on_cpu
from .._runtime.element_compiler import element_form
from .._runtime.jax_internals import Primitive, ShapedArray, define
from .._sparse.block_matrix import BlockMatrix
from .groups import FreeContacts
from .sparse_rows import SparseRows
from .sweep_kernel import compiled_sweeps

_SWEEPS = 10_000  # at most, over each group of bodies that touch
_MOST = 1200  # unknowns of a group up to which it is solved by Newton's method too


def are_swept(A: BlockMatrix) -> bool:
    """Whether nothing but contacts couples nodes, and there is a kernel for the programs that are traced."""
    own = [(e.pattern.diagonal is not None and e.values.shape[0] == e.pattern.shape[0]) for e in A.entries.values()]
    if not all(own) or any(row != column for row, column in A.entries):
        return False
    return on_cpu() and device_count() == 1 and not is_run_by_many() and element_form() == "llvm" and is_available()


class Swept(NamedTuple):
    """Changes of velocity, impulses `(n, 3)`, and of every contact the number of its group `(n,)`, -1 of one that is solved.
    Without a kernel nothing is: all are one group, where they began."""

    x: Fields
    r: Array
    label: Array


def free_contacts(A: BlockMatrix, rows: SparseRows, u0: Array, mu: Array, give: Array) -> tuple[FreeContacts, Fields]:
    """Contacts of bodies that `A` couples to nothing, and the inverses of its blocks."""
    inverse = {s: inverse_by_elimination(blocks) for s, blocks in A.diagonal.items()}
    moved = {}
    for s, (nodes, blocks) in rows.parts.items():
        moved[s] = nodes, jnp.swapaxes(times_blocks(jnp.swapaxes(blocks, 1, 2), inverse[s][nodes]), 1, 2)
    return FreeContacts(A, rows, SparseRows(moved), u0, mu, give), inverse


def swept(contacts: FreeContacts, x: Fields, r: Array, held: Array, goal: Array) -> Swept:
    """From velocities `x` after impulses `r`: sweeps over contacts that are `held`, to where the natural map of every group
    is as small as its part of `goal`, or for as long as is reasonable.

    Accelerated as `gauss_seidel` is, one group of bodies that hang together after the other; what sweeps do not solve in as
    much time as it takes, by rounds of Newton's method with a sweep between. Where more contacts hold a body than it takes,
    and their gaps say that not all of them can, sweeps alone would creep to the edges of cones.
    """
    A, rows, V = contacts.A, contacts.rows, contacts.moved
    places, H = rows.flat(A.offsets())
    # A kernel would leave its arrays for nodes that do not exist: NaN, where they are asked for.
    are_there = jnp.all((places >= 0) & (places < A.in_size()), axis=1)
    u0 = jnp.where(are_there[:, None], contacts.u0, jnp.nan)
    places = jnp.clip(places, 0, A.in_size() - 1)
    parts = [(rows.parts[s][1][:, :, None], V.parts[s][1][:, None]) for s in V.parts]
    own = jnp.asarray(sum(jnp.sum(P * Q, axis=(3, 4)) for P, Q in parts))
    own = own.at[:, 0, 0].add(contacts.give[:, 0])
    flat = jnp.concatenate([x[s].reshape(-1) for s, _, _ in A.sizes])
    ready = [H, V.flat(A.offsets())[1], places.astype(jnp.int32), _nodes(A, rows), own, u0, contacts.mu]
    operands = [*ready, held.astype(jnp.int32), contacts.give[:, 0], flat, r, jnp.reshape(goal, (1,))]
    operands = [a.astype(H.dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a for a in operands]
    found, r, label = (a[0] for a in _swept_p.bind(*(a[None] for a in operands)))
    first = A.offsets()
    return Swept({s: found[first[s] : first[s] + n * d].reshape(n, d) for s, n, d in A.sizes}, r, label)


def _nodes(A: BlockMatrix, rows: SparseRows) -> Array:
    """The nodes `(n, k)` of every contact, numbered through all states; in the place of those that it does not move, one
    that it does."""
    first, count = {}, 0
    for s, n, _ in A.sizes:
        first[s], count = count, count + n
    numbers = jnp.concatenate([first[s] + nodes for s, (nodes, _) in rows.parts.items()], axis=1)
    moves = jnp.concatenate([jnp.any(blocks != 0, axis=(1, 3)) for _, blocks in rows.parts.values()], axis=1)
    one = jnp.take_along_axis(numbers, jnp.argmax(moves, axis=1)[:, None], axis=1)
    return jnp.clip(jnp.where(moves, numbers, one), 0, count - 1).astype(jnp.int32)


def _none(*operands):
    """No sweep, and no contact that is called solved."""
    held, (x, r) = operands[7], operands[9:11]
    return [x, r, (held > 0).astype(jnp.int32) - 1]


def _by_kernel(*operands):
    H, nodes, x, r = operands[0], operands[3], operands[9], operands[10]
    scenes, n, _, m = H.shape
    function = compiled_sweeps(m, nodes.shape[2], H.dtype)
    size, most = x.shape[1], min(x.shape[1], _MOST)
    # Nodes are no more than unknowns. In the order of `kernel_arrays`, from the labels of nodes on.
    work = [((size,), jnp.int32), ((n,), jnp.int32), *4 * [((n, 3), H.dtype)], ((n, m), jnp.int32), ((size,), jnp.int32)]
    work += [((size,), H.dtype), *2 * [((n, 3), H.dtype)], *3 * [((size,), H.dtype)], ((most, most + 1), H.dtype)]
    results = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, r)]
    results += [jax.ShapeDtypeStruct((scenes, n), jnp.int32), *(jax.ShapeDtypeStruct(s, t) for s, t in work)]
    own = [*(len(operands) + 3) * [True], *len(work) * [False]]
    return function(operands, results, [n, size, size, _SWEEPS, most], own)[:3]


def _abstract(*operands):
    x, r = operands[9:11]
    return [ShapedArray(x.shape, x.dtype), ShapedArray(r.shape, r.dtype), ShapedArray(r.shape[:2], jnp.int32)]


def _batch(operands, axes):
    """A batch of scenes is more scenes."""
    size = next(a.shape[axis] for a, axis in zip(operands, axes, strict=True) if axis is not None)
    moved = [
        jnp.broadcast_to(a, (size, *a.shape)) if axis is None else jnp.moveaxis(a, axis, 0)
        for a, axis in zip(operands, axes, strict=True)
    ]
    found = _swept_p.bind(*(a.reshape(-1, *a.shape[2:]) for a in moved))
    return [a.reshape(size, -1, *a.shape[1:]) for a in found], [0 for _ in found]


_swept_p = Primitive("jaxmech_contact_sweeps")
_swept_p.multiple_results = True
_swept_p.def_abstract_eval(_abstract)
define(_swept_p, batch=_batch)
compile_on_cpu(_swept_p, _none, _by_kernel)
expand(_swept_p, _none)
