"""Many runs of one function: a few at a time, divided over devices."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec

from .._runtime.argument_checks import plain
from .argument_checks import check_counts
from .array_types import Array
from .devices import checked_devices
from .precision import compiled
from .processes import are_of_many_processes

_AXIS = "members"  # of a mesh of devices that have nothing to tell each other


def in_batches(
    function: Callable[..., Any], *, size: int | None = None, devices: Sequence[Any] | None = None
) -> Callable[..., Any]:
    """`function` of one member, made one of many: every array it is then given has a leading axis of members.

    `size` of them are run at a time (`vmap`), one such batch after the other, so that memory is that of `size` members,
    beside what is returned; in reverse mode too, which runs each batch a second time for it. All at once unless given.
    `devices`: each takes its share of the members, to run at the same time (`jax.devices()` for all that JAX has); members
    that are missing to a multiple are repeated, and dropped. Results have the members' axis in front, in their order. What
    `function` closes over, the members share, and derivatives by that go through as well. The program is kept for the next
    call with arrays of the same shapes, and can be part of another (`jit`, `grad`). Over several devices solvers must
    iterate: the host does not serve several at once.

    Raises `TypeError` for what cannot be called or are no devices, `ValueError` for arrays of different numbers of members.
    No units of its own. Source: JAX's documentation of `jax.lax.map` and `jax.shard_map`.

    Example:

        def thrown(v):  # [m/s]
            start = dataclasses.replace(state, velocity={"cube": v + state.velocity["cube"]})
            run = jm.simulate(system, start, jm.ImplicitEuler(linear_system), dt=0.1, steps=2, throw=False)
            return run.last.position["cube"]

        ends = jm.runtime.in_batches(thrown, size=2)(jnp.zeros((3, 3)))  # three members
        assert ends.shape == (3, 8, 3)
    """
    if not callable(function):
        raise TypeError(f"in_batches: function must be a function, got {function!r:.80}.")
    if size is not None:
        size = plain(size)
        check_counts("in_batches", size=size)
    if devices is not None:
        devices = checked_devices("in_batches", devices)

    def run(*arguments: Any) -> Any:
        arrays, static = eqx.partition(arguments, eqx.is_array)
        count = _members(arrays)

        def each(arrays: Any) -> Any:
            def one(arrays: Any) -> Any:
                return function(*eqx.combine(arrays, static))

            if size is None:
                return jax.vmap(one)(arrays)
            # Reverse mode keeps what went in, and runs each batch again: else it would keep all that all of them did.
            return jax.lax.map(jax.checkpoint(one, prevent_cse=False), arrays, batch_size=size)

        if devices is None or len(devices) == 1:
            return each(arrays)
        mesh = jax.make_mesh((len(devices),), (_AXIS,), axis_types=(AxisType.Auto,), devices=devices)
        split = PartitionSpec(_AXIS)
        whole = -(-count // len(devices)) * len(devices)
        padded = jax.tree.map(lambda a: _repeated(a, whole), arrays)
        # What other processes have cannot be looked at here: there every device gets the results of all.
        together = are_of_many_processes(devices)

        def share(arrays: Any) -> Any:
            ends = each(arrays)
            return jax.tree.map(lambda a: jax.lax.all_gather(a, _AXIS, tiled=True), ends) if together else ends

        out = PartitionSpec() if together else split
        found = jax.shard_map(share, mesh=mesh, in_specs=split, out_specs=out, check_vma=False)(padded)
        return jax.tree.map(lambda a: a[:count], found)

    return compiled(run)


def _members(arrays: Any) -> int:
    """How many members all arrays are of."""
    counts = {a.shape[0] if a.ndim else 0 for a in jax.tree.leaves(arrays)}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(
            f"in_batches: every array needs a leading axis of as many members, at least one; got {sorted(counts)} "
            "(0: none). What all share belongs into the function."
        )
    return counts.pop()


def _repeated(array: Array, count: int) -> Array:
    """The last member again, up to so many."""
    missing = count - array.shape[0]
    return array if not missing else jnp.concatenate([array, jnp.repeat(array[-1:], missing, axis=0)])
