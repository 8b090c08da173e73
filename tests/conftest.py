"""Every test computes in float64, with random numbers that a failure tells how to repeat."""

import zlib
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxmech._codegen.program.element_function import forget

jax.config.update("jax_enable_x64", True)
# Compiling is most of what a small scene costs, and the answers do not depend on how well it is optimised.
jax.config.update("jax_disable_most_optimizations", True)


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=0, help="seed of every random number (default 0)")
    parser.addoption("--slow", action="store_true", help="run the tests that take long to compile as well")


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: what is run on every Python and JAX that is supported, a few minutes in all")
    config.addinivalue_line("markers", "slow: half a minute or more of compilation; skipped without --slow")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="needs --slow"))


def _seed(request) -> int:
    """One seed for each test: that of the session, and the name of the test, whichever order they run in."""
    seed = request.config.getoption("--seed")
    request.node.user_properties.append(("seed", seed))
    return zlib.crc32(f"{seed} {request.node.nodeid}".encode())


@pytest.fixture
def rng(request) -> np.random.Generator:
    """NumPy's generator."""
    return np.random.default_rng(_seed(request))


@pytest.fixture
def getkey(request):
    """A function that gives a fresh JAX key at each call."""
    seed, calls = _seed(request), iter(range(10**9))
    return lambda: jax.random.fold_in(jax.random.key(seed), next(calls))


@pytest.fixture(autouse=True)
def unpatched_element_functions(request):
    """What a test has patched makes other kernels of the same element functions."""
    patched = "monkeypatch" in request.fixturenames
    if patched:
        forget()
    yield
    if patched:
        forget()


@pytest.fixture(autouse=True)
def bounded_memory_maps():
    """Let go of compiled programs before there are too many: each keeps dozens of memory maps, of which Linux gives a
    process 65,530 (`vm.max_map_count`). Beyond, compiling ends in a segmentation fault."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 40_000:
        jax.clear_caches()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    seeds = [value for name, value in item.user_properties if name == "seed"]
    if report.failed and seeds:
        report.sections.append(("random numbers", f"repeat with --seed {seeds[0]}"))
