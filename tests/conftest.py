"""Every test computes in float64, with random numbers that a failure tells how to repeat."""

import collections
import contextlib
import gc
import os
import sys
import zlib

import compiled_programs
import jax
import numpy as np
import process_groups
import pytest
from covering import cover

from jaxmech._codegen.program.element_function import forgotten

jax.config.update("jax_enable_x64", True)
compiled_programs.in_less_time()
# Of every error that passes through JAX it looks at each frame's path, of which those below pytest have many.
jax.config.update("jax_traceback_filtering", "off")
# Traces are made of very many small objects, among which Python looks for circles again and again: a seventh of the time.
gc.set_threshold(100_000, 10, 10)

MOST_MAPS = 30_000
MEMORY_OF_ALL, AT_LEAST = 0.6, 2_000  # of the machine's memory for all processes, and programs before they are let go of
ELSEWHERE = "of a CPU alone: its compiled kernels, its programs, and what is chosen there"
STAGES = {
    "slow": "examples, notebooks, and what takes long to trace; skipped without --slow",
    "exhaustive": "the whole of a product of which a part is run otherwise; skipped without --exhaustive",
}


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=0, help="seed of every random number (default 0)")
    for stage, what in STAGES.items():
        parser.addoption(f"--{stage}", action="store_true", help=f"run as well: {what.split(';')[0]}")
    parser.addoption(
        "--part", type=process_groups.Part.of, help="with --slow, 1/2 say: the first of two parts of that stage"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: what is run on every Python and JAX that is supported, a few minutes in all")
    config.addinivalue_line("markers", f"cpu: {ELSEWHERE}; skipped where JAX computes elsewhere")
    for stage, what in STAGES.items():
        config.addinivalue_line("markers", f"{stage}: {what}")
    config.addinivalue_line("markers", "slow_cases(*begins): of the slow stage are the cases whose ids begin so")
    config.addinivalue_line("markers", "covering(strength): choices of so many parameters meet; the rest is exhaustive")
    compiled_programs.keep(prune=not hasattr(config, "workerinput"))


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config, items):
    thin(items)
    late = {s: set(sys.modules["scenes"].names(s) if "scenes" in sys.modules else ()) for s in ("slow", "exhaustive")}
    for item in items:
        for stage, names in late.items():
            if hasattr(item, "callspec") and names.intersection(
                v for v in item.callspec.params.values() if isinstance(v, str)
            ):
                item.add_marker(getattr(pytest.mark, stage))
    mark_cases(config, items)
    for stage in STAGES:
        at = [item for item in items if item.get_closest_marker(stage)]
        if not config.getoption(f"--{stage}"):
            leave_out(config, items, at, f"needs --{stage}")
        elif stage == "slow" and (part := config.getoption("--part")) is not None:
            inside = part.of_all(item.nodeid for item in at)
            leave_out(config, items, [item for item in at if item.nodeid not in inside], f"not in --part {part}")
    of_cpu = [item for item in items if item.get_closest_marker("cpu")]
    if of_cpu and jax.default_backend() != "cpu":
        leave_out(config, items, of_cpu, ELSEWHERE)


def leave_out(config, items, those, why):
    """Skip tests, which somebody may have named; among several processes, where each costs milliseconds, forget them."""
    if hasattr(config, "workerinput"):
        out = set(those)
        items[:] = [item for item in items if item not in out]
    for item in those:
        item.add_marker(pytest.mark.skip(reason=why))


def thin(items):
    """Of a test marked `covering(strength)`, leave a cover of its parameters, and mark the rest exhaustive."""
    families = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("covering") and not any(item.get_closest_marker(stage) for stage in STAGES):
            families[item.path, item.originalname].append(item)
    for family in families.values():
        (strength,) = family[0].get_closest_marker("covering").args
        # A product holds each of its values once: the same choice is the same object, which need not have a hash.
        rows = [tuple(map(id, item.callspec.params.values())) for item in family]
        chosen = set(cover(rows, strength))
        for item, row in zip(family, rows, strict=True):
            if row not in chosen:
                item.add_marker(pytest.mark.exhaustive)


def mark_cases(config, items):
    """Of a test marked `slow_cases(*begins)`, mark the cases whose ids begin so: of whole files, each must have some."""
    families = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow_cases"):
            families[item.path, item.originalname].append(item)
    for (path, name), family in families.items():
        for begin in family[0].get_closest_marker("slow_cases").args:
            cases = [item for item in family if item.callspec.id.startswith(begin)]
            if not cases and not any("::" in argument for argument in config.args):
                raise pytest.UsageError(f"{path.name}::{name}: no case begins with {begin!r}")
            for item in cases:
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """What shares programs goes to one process. Of pytest 9.2, xdist 3.8 loses the groups that marks name."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return process_groups.group_of(nodeid)

    config.option.loadscopereorder = False  # by how many tests there are: they are in order, see below
    return ByGroup(config, log)


@pytest.hookimpl(tryfirst=True)  # before a process tells which tests it has, in which order
def pytest_collection_finish(session):
    """Let no process be left with a long group in the end. What is there by now stays: no need to look at it again."""
    if hasattr(session.config, "workerinput"):
        by_name = {item.nodeid: item for item in session.items}
        skipped = {name for name, item in by_name.items() if item.get_closest_marker("skip")}
        session.items[:] = [by_name[name] for name in process_groups.longest_first(by_name, skipped)]
    register_generators()
    gc.collect()
    gc.freeze()


def register_generators():
    """At its first test Hypothesis looks among all objects for those that refer to its generator: seconds where there are
    traces, and nothing before."""
    if "hypothesis" in sys.modules:
        hypothesis = sys.modules["hypothesis"]
        once = hypothesis.settings(derandomize=True, database=None, max_examples=1)
        once(hypothesis.given(hypothesis.strategies.none())(lambda _: None))()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """What is lost is found here once: pytest, and Python as it ends, look again and again."""
    gc.collect()
    gc.freeze()


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
    """What a test has patched makes other kernels of the same element functions, which are all traced and compiled anew. Who
    patches nothing of jaxmech does without `monkeypatch`, with `contextlib.chdir` say."""
    with forgotten() if "monkeypatch" in request.fixturenames else contextlib.nullcontext():
        yield


made = collections.Counter()  # programs: new ones since memory was last looked at, and those kept before


def count_programs(event, *_, **__):
    if event == "/jax/core/compile/backend_compile_duration":
        made["new"] += 1


jax.monitoring.register_event_duration_secs_listener(count_programs)


@pytest.fixture(autouse=True)
def bounded_memory():
    """Let go of compiled programs and traces before they take more than a process may have: of memory, and of memory maps,
    of which Linux gives 65,530 (`vm.max_map_count`). Beyond, compiling ends in a segmentation fault."""
    yield
    if made["new"] < 100:
        return
    made["kept"] += made.pop("new")
    if compiled_programs.count_maps() > MOST_MAPS:
        compiled_programs.merge_maps()
    most = MEMORY_OF_ALL / max(2, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 0))) * compiled_programs.whole_memory()
    full = made["kept"] >= AT_LEAST and compiled_programs.resident_memory() > most
    if full or compiled_programs.count_maps() > MOST_MAPS:
        made.clear()
        jax.clear_caches()
        gc.collect()
        compiled_programs.return_memory()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    seeds = [value for name, value in item.user_properties if name == "seed"]
    if report.failed and seeds:
        report.sections.append(("random numbers", f"repeat with --seed {seeds[0]}"))
