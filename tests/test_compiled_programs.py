"""The folder of compiled programs is bounded, and a user's own is left alone."""

import os
import platform

import compiled_programs
import jax
import jax.numpy as jnp
import numpy as np
import pytest


def test_old_programs_go_first(tmp_path):
    for age, name in enumerate(["new", "used", "old", "oldest"]):
        path = tmp_path / name
        path.write_bytes(bytes(100))
        os.utime(path, times=(10**9 - age, 10**9 - age))
    os.utime(tmp_path / "used", times=(2 * 10**9, 0))
    compiled_programs.forget_old(tmp_path, 250)
    assert {p.name for p in tmp_path.iterdir()} == {"new", "used"}
    compiled_programs.forget_old(tmp_path, 250)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
@pytest.mark.cpu
@pytest.mark.skipif(not compiled_programs.count_maps(), reason="the system does not say which maps there are")
def test_merged_programs_keep_fewer_maps_and_still_run():
    x = np.linspace(0.0, 1.0, 11)
    programs = [jax.jit(lambda x, k=k: jnp.sort(jnp.sin(k * x))) for k in range(40)]
    before, maps = [np.asarray(run(x)) for run in programs], compiled_programs.count_maps()
    compiled_programs.merge_maps()
    assert compiled_programs.count_maps() < maps - len(programs)
    assert 2**26 < compiled_programs.resident_memory() < compiled_programs.whole_memory() < 2**45
    np.testing.assert_array_equal([run(x) for run in programs], before)
    np.testing.assert_allclose(jax.jit(lambda x: -programs[1](x))(x), -before[1], rtol=1e-15)


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="another C library")
def test_what_was_let_go_of_is_given_back():
    pieces = [bytes(1000) for _ in range(10**5)]
    last, before = pieces.pop(), compiled_programs.resident_memory()
    pieces.clear()
    compiled_programs.return_memory()
    assert compiled_programs.resident_memory() < before - 5 * 10**7 and len(last) == 1000


@pytest.fixture
def settings(monkeypatch):
    """As if nothing were set; what is set is put back afterwards."""
    before = {name: getattr(jax.config, name) for name in ("jax_compilation_cache_dir", *compiled_programs.SETTINGS)}
    for name in before:
        monkeypatch.setenv(name.upper(), "")
        monkeypatch.delenv(name.upper())
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_programs_are_kept_in_the_users_cache(tmp_path, monkeypatch, settings):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled_programs.keep(prune=True)
    folder = jax.config.jax_compilation_cache_dir
    assert folder.startswith(str(tmp_path)) and jax.__version__ in folder and os.path.isdir(folder)
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == folder


def test_a_folder_of_the_user_is_taken(tmp_path, monkeypatch, settings):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/somewhere/else")
    before = jax.config.jax_compilation_cache_dir
    compiled_programs.keep(prune=True)
    assert jax.config.jax_compilation_cache_dir == before and not list(tmp_path.iterdir())


def test_flags_of_the_user_are_kept(monkeypatch):
    """And those that make compiling cheap are added once, for processes that know them."""
    for value in ("--one=1 --xla_cpu_parallel_codegen_split_count=3", ""):
        monkeypatch.setenv("XLA_FLAGS", value)
        for _ in range(2):
            compiled_programs.in_less_time()
        flags = os.environ["XLA_FLAGS"].split()
        assert flags[: len(value.split())] == value.split() and len({f.partition("=")[0] for f in flags}) == len(flags)
        assert (compiled_programs.DIRECTLY in flags) == (jax.__version_info__ < (0, 11))
        assert (compiled_programs.WHOLE in flags) == (value == "")


def test_programs_share_a_context_for_a_while():
    """And compute what they should."""
    contexts = set()
    for n in range(2 * compiled_programs.PROGRAMS_OF_A_CONTEXT):
        lowered = jax.jit(lambda x, n=n: x + n).lower(1.0)
        contexts.add(id(lowered.compiler_ir().context))
    assert float(lowered.compile()(1.0)) == 1.0 + n
    assert 2 <= len(contexts) <= 3
