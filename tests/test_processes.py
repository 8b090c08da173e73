"""Several processes of JAX on one host, over the loopback: the same numbers, and no waiting for one that is lost."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

import jaxmech as jm

SCRIPT = Path(__file__).with_name("processes_script.py")
PATIENCE = 1200  # [s], of a busy machine


def start(count, what):
    """The script in so many processes that have never computed anything."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    flags = f"{os.environ['XLA_FLAGS']} --xla_backend_optimization_level=0"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    each = [[sys.executable, SCRIPT, port, str(count), str(number), what] for number in range(count)]
    return [subprocess.Popen(command, env=environment, **pipes) for command in each]


def ends(processes):
    """What each said, and its status; none of them is left behind."""
    try:
        return [(*p.communicate(timeout=PATIENCE), p.returncode) for p in processes]
    finally:
        for p in processes:
            p.kill()


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.exhaustive)])
def test_batches_and_one_system_over_processes(count):
    for said, error, status in ends(start(count, "numbers")):
        assert status == 0, error[-3000:]
        assert "same numbers" in said


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_process_ends_the_others(lost):
    """The one that the others meet at, or another: they end by themselves, and say why."""
    processes = start(2, str(lost))
    processes[lost].wait(timeout=PATIENCE)
    began = time.monotonic()
    left = ends(processes)[1 - lost]
    assert time.monotonic() - began < 200  # ten seconds until it is missed, as many for the way out, and a busy machine
    assert left[2] != 0 and "nobody told" not in left[0]
    said = left[1].lower()
    assert "closed by peer" in said or "heartbeat" in said or "unavailable" in said, left[1][-2000:]


def test_alone_there_is_one_process():
    assert jm.runtime.join_processes.__name__ == "join_processes" and jax.process_count() == 1
    with pytest.raises(ValueError, match='coordinator must be "host:port"'):
        jm.runtime.join_processes("somewhere", 2, 0)
    with pytest.raises(ValueError, match=r"number must be one of 0, ..., 1, got 2"):
        jm.runtime.join_processes("here:1", 2, 2)
    with pytest.raises(TypeError, match="coordinator"):
        jm.runtime.join_processes(count=2)
