"""Work divided over the devices of a mesh: each does its share, and tells the others."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

from .array_types import Array
from .jax_internals import backends, manual_axes

AXIS = "jaxmech"  # of work that is divided while every device has all numbers
PARTS = "jaxmech_parts"  # of numbers that are divided: each device has those of its part


def over_devices(function: Callable[..., Any], devices: Sequence[Any] | None = None) -> Callable[..., Any]:
    """`function`, a pure one of any arguments, run on all `devices` (those that JAX has) together, to be jitted.

    Arguments and results are whole on every device. What is divided is the work that counts: the elements of a scene (on
    CPUs, from some hundred elements), and the rows of large products. Each device does its share and hands it to the others;
    matrices are sums of shares, and differ from those of one device by rounding. The rest every device does for itself,
    products of batches (`vmap`) included. Solvers must iterate: the host does not serve several at once.

    Raises `TypeError` for what cannot be called. Not to be called within itself.
    No units of its own.

    Example:

        product = jax.jit(jm.runtime.over_devices(lambda x: A.mv(x)))
        assert jnp.allclose(product(b)["cube"], A.mv(b)["cube"], atol=1e-2)
    """
    if not callable(function):
        raise TypeError(f"over_devices: function must be a function, got {function!r:.80}.")
    devices = checked_devices("over_devices", devices)
    mesh = jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)
    whole = PartitionSpec()

    def run(*arguments: Any) -> Any:
        arrays, static = eqx.partition(arguments, eqx.is_array)

        def of_device(arrays: Any) -> Any:
            return function(*eqx.combine(arrays, static))

        return jax.shard_map(of_device, mesh=mesh, in_specs=whole, out_specs=whole, check_vma=False)(arrays)

    return run


def checked_devices(who: str, devices: Sequence[Any] | None) -> Sequence[Any]:
    """These, or all that JAX has. Raises `TypeError` for what are none."""
    devices = jax.devices() if devices is None else devices
    known = isinstance(devices, list | tuple | np.ndarray) and all(isinstance(d, jax.Device) for d in devices)
    if not known or not len(devices):
        raise TypeError(f"{who}: devices must be a list of devices of JAX, got {devices!r:.80}.")
    return devices


def on_cpu() -> bool:
    """Whether all programs are compiled for CPUs. Beside another device any may be of it: where its arrays are, says JAX
    only after the trace."""
    return jax.default_backend() == "cpu" and not _are_others()


@functools.cache
def _are_others() -> bool:
    """Whether JAX has another kind of device, though CPUs are its default (`JAX_PLATFORMS=cpu,cuda`)."""
    return set(backends()) != {"cpu"}


def device_count() -> int:
    """The devices to divide work over: one, unless it is `over_devices`."""
    return jax.sharding.get_abstract_mesh().shape[AXIS] if AXIS in manual_axes() else 1


def is_of_each() -> bool:
    """Whether this is part of a program that each device of a mesh, of one or of several, runs for itself."""
    return bool(manual_axes())


def is_run_by_many() -> bool:
    """Whether several devices run it, each for itself."""
    return is_of_each() and jax.sharding.get_abstract_mesh().size > 1


def divided(function: Callable[[Sequence[Array]], Any], counts: Sequence[int]) -> Any:
    """What `function(numbers)` gives on each device, `(devices, ...)`, brought together on all of them.

    `numbers`: for each of `counts`, the share of `0, ..., count - 1` that is the device's, `ceil(count / devices)` of them
    on all; what is left over at the end repeats the last one.
    """
    devices = device_count()
    device = jax.lax.axis_index(AXIS)
    shares = [-(-count // devices) for count in counts]
    numbers = [
        jnp.minimum(device * share + jnp.arange(share, dtype=jnp.int32), count - 1)
        for share, count in zip(shares, counts, strict=True)
    ]
    return jax.tree.map(lambda a: jax.lax.all_gather(a, AXIS), function(numbers))


def in_shares(function: Callable[[Array, int], Array], count: int) -> Array:
    """The rows `0, ..., count - 1` of an array, of which `function(first, rows)` gives so many from the first on: the same
    number on each device, its share."""
    share = -(-count // device_count())
    first = jnp.minimum(share * jax.lax.axis_index(AXIS), count - share)
    return in_order(jax.lax.all_gather(function(first, share), AXIS), share, count)


def over_parts(total: Array) -> Array:
    """The sum over the devices that have a part each; what it is where nothing is divided so."""
    return jax.lax.psum(total, PARTS) if PARTS in manual_axes() else total


def part_number() -> Array:
    """Which part is this device's."""
    return jax.lax.axis_index(PARTS)


def of_all_parts(rows: Array) -> Array:
    """The rows of all parts, `(parts, ...)`."""
    return jax.lax.all_gather(rows, PARTS)


def in_order(shares: Array, length: int, count: int) -> Array:
    """`count` rows, joined from the devices' shares `(shares, length, ...)`. The last share starts early enough to be of
    full length: what it repeats, and those for which nothing was left, are left out.
    """
    shares = shares[: -(-count // length)]
    rows, done = shares.reshape(-1, *shares.shape[2:]), (shares.shape[0] - 1) * length
    again = done + length - count
    return jnp.concatenate([rows[:done], rows[done + again :]]) if again else rows
