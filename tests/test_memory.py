"""Asking the C library to keep freed memory."""

import platform
import subprocess
import sys

import pytest

import jaxmech as jm


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt belongs to glibc")
def test_freed_memory_is_kept():
    """In a process of its own: fewer page faults the second time."""
    program = """
import resource
import numpy as np
import jaxmech as jm

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        np.ones(4_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

fresh = faults()
assert jm.runtime.keep_freed_memory()
faults()
assert faults() < 0.1 * fresh, (faults(), fresh)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_other_systems_say_no(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert jm.runtime.keep_freed_memory() is False
