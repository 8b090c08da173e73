"""Calls of functions on the host from within a compiled program."""

from collections.abc import Callable
from typing import Any

import jax

from ..._runtime.devices import is_run_by_many
from ..._runtime.host_function import call_by_name


def call_host(
    who: str, function: Callable[..., Any], shapes: Any, *arguments: Any, vmap_method: str, name: str | None = None
) -> Any:
    """`jax.pure_callback`, one at a time. With a `name`, which must identify the function, the program can be cached.

    Arrays reach the function through the threads that run the devices. Where each of these waits for a function of its own,
    none is left (JAX 0.10), and all wait for ever. Raises `ValueError` there: in `shard_map` and `over_devices`.
    """
    if is_run_by_many():
        raise ValueError(
            f"{who} works on the host, for which several devices would wait at once, and for ever: inside shard_map and "
            "over_devices take a solver that iterates, as PCG() or AutoLinearSolver()."
        )
    if name is not None:
        return call_by_name(name, function, shapes, *arguments, vmap_method=vmap_method)
    return jax.pure_callback(function, shapes, *arguments, vmap_method=vmap_method)
