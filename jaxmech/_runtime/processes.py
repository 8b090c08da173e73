"""Several processes of JAX, on one host or on many, that compute together."""

import os
from typing import Any

import jax
import numpy as np

from .argument_checks import check_counts, check_instance

_START = 300  # [s] that a process waits for the others to start
_ALONE = "coordinator_address should be defined"  # what JAX says where nothing tells of others


def join_processes(
    coordinator: str | None = None, count: int | None = None, number: int | None = None, *, lost_after: int = 60
) -> int:
    """Make this process one of those that compute together: the first line of a script, before any array. How many they are.

    Then `jax.devices()` are those of all processes, and `in_batches(..., devices=jax.devices())` and `over_devices` divide
    work over all of them; every process runs the same script and has the same results. Under SLURM, Open MPI and on cloud
    TPUs and GKE nothing has to be said. Elsewhere: `coordinator`, `"host:port"` of process 0; `count`, how many processes;
    `number`, which one this is. Where nothing tells of others, there is one, and nothing happens.

    A process that is lost, killed say, ends the others after at most some `lost_after` [s], with a message of JAX. On CPUs
    they speak by gloo. Raises `RuntimeError` where JAX has already computed something or processes do not meet within five
    minutes, `ValueError` or `TypeError` for arguments that are none.
    Source: JAX's documentation, "Introduction to multi-controller JAX".

    Example:

        # of the script that every process runs: jm.runtime.join_processes()
        assert jax.process_count() == 1
    """
    who = "join_processes"
    check_counts(who, lost_after=lost_after)
    if coordinator is not None or count is not None or number is not None:
        check_instance(who, "coordinator", coordinator, str)
        check_counts(who, count=count)
        each = range(int(count or 0))
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number not in each:
            raise ValueError(f"{who}: number must be one of 0, ..., {len(each) - 1}, got {number!r}.")
        if ":" not in str(coordinator):
            raise ValueError(f'{who}: coordinator must be "host:port", got {coordinator!r}.')
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            coordinator,
            count,
            number,
            initialization_timeout=_START,
            heartbeat_timeout_seconds=lost_after,
            shutdown_timeout_seconds=lost_after,
        )
    except ValueError as error:
        if _ALONE not in str(error) or "JAX_COORDINATOR_ADDRESS" in os.environ:
            raise
        jax.config.update("jax_cpu_collectives_implementation", "none")
    return jax.process_count()


def are_of_many_processes(devices: Any) -> bool:
    """Whether devices belong to more than one process."""
    return len({d.process_index for d in devices}) > 1
