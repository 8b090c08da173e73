"""What is compiled before anything is computed: a scene is made of host arrays, and its structure is read from traces."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from jaxmech._llvm.object_cache import kept_or_made

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]
MOST = 5  # programs that a scene may compile before its first solve
COUNTED = """
import jax

programs = []


def heard(event, seconds, **details):
    if event.endswith("backend_compile_duration"):
        programs.append(details.get("fun_name", "?"))


jax.monitoring.register_event_duration_secs_listener(heard)
exec(open(0).read(), {})
print("PROGRAMS", *programs, sep=";")
"""


def compiled_by(code: str) -> list[str]:
    """The programs that a script compiles in a process of its own, where nothing is compiled yet."""
    run = subprocess.run([sys.executable, "-c", COUNTED], input=code, capture_output=True, text=True, check=True, cwd=ROOT)
    return run.stdout.split("PROGRAMS")[1].strip().split(";")[1:]


def scene_of_the_readme() -> str:
    """The first snippet of the README as far as the linear system."""
    snippet = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    scene, solve = snippet.split("def sag")
    assert "static_solve" in solve and "MatrixLinearSystem.build" in scene
    return scene


def test_a_scene_is_made_on_the_host():
    """Without SciPy's special functions, whose import takes a tenth of jaxmech's."""
    without = "\nimport sys\nassert 'scipy.special' not in sys.modules"
    programs = compiled_by(scene_of_the_readme() + without)
    assert len(programs) <= MOST, programs


FRAMES = """
import jax, numpy as np
import jaxmech as jm

frames = np.array([[float(i), 0.0, 0.0, 0.0, 0.0, 0.6, 0.8] for i in range(3)])
points = np.array([[0.1, 0.2, 0.3], [1.5, 0.2, 0.0]])
jm.mapping.RigidMapping.from_global("frames", "points", [0, 1], jax.device_put(frames), points)
jm.mapping.RigidMapping.from_global("frames", "bodies", [0, 1], frames, frames[1:])
jm.mapping.SkinningMapping.from_rest("frames", "points", frames, points)
jm.mapping.BeamMapping.from_rest("frames", "points", [[0, 1], [1, 2]], frames, points)
jm.mapping.LineSetSkinningMapping.from_rest("frames", "points", [[0, 1], [1, 2]], frames, points)
jm.constraint.frame([0.0, 0.0, 1.0], [0.0, 1.0, 1.0])
"""


def test_what_is_made_at_rest_of_frames_takes_a_program_each():
    """Where each operation was one, it was some twenty."""
    programs = compiled_by(FRAMES)
    assert len(programs) <= 6, programs


def test_programs_are_counted():
    assert len(compiled_by("import jax.numpy as jnp\nfor n in range(1, 4): jnp.zeros(n) + 1")) >= 6


def test_machine_code_is_kept_where_programs_are_and_nothing_else_is_run(tmp_path):
    """By JAX's settings; a damaged file is made anew."""
    made = []

    def compiled():
        made.append(1)
        return b"code"

    settings = {"jax_compilation_cache_dir": str(tmp_path / "new"), "jax_persistent_cache_min_compile_time_secs": 0}
    before = {name: getattr(jax.config, name) for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        assert [kept_or_made("text", compiled) for _ in range(2)] == [b"code"] * 2 and len(made) == 1
        assert kept_or_made("another", compiled) == b"code" and len(made) == 2
        for path in (tmp_path / "new").iterdir():
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        assert kept_or_made("text", compiled) == b"code" and len(made) == 3
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 100.0)
        assert all(kept_or_made("quick", compiled) == b"code" for _ in range(2)) and len(made) == 5
        jax.config.update("jax_compilation_cache_dir", None)
        assert kept_or_made("text", compiled) == b"code" and len(made) == 6
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


ENDING = """
import sys
import time

import jax
import jax.numpy as jnp

from jaxmech._runtime.host_function import call_by_name


def add(x):
    time.sleep(0.01)
    sys.stderr.write("+")
    return (x + 1.0,)


@jax.jit
def program(x):  # a loop of large products, and so in a thread of its own
    for _ in range(20):
        (x,) = call_by_name("add", add, (jax.ShapeDtypeStruct((3,), x.dtype),), x, vmap_method="sequential")
    begin = jnp.int32(0), x[0] * jnp.ones((200, 200))
    return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] @ c[1]), begin)[1]


first = jax.block_until_ready(program(jnp.zeros(3)))
sys.stderr.write("again")
second = program(jnp.zeros(3))
sys.stderr.write("end")
"""


@pytest.mark.slow
def test_python_waits_for_programs_that_call_it():
    """Where it ends: one that called it later would be stopped in the midst of XLA, and so the process."""
    run = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stderr.count("+") == 40, run.stderr
    assert run.stderr.index("end") < 30 + len("again"), "the program was over before"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "name"), [("jax.jit(jax.value_and_grad(sag))", "sag"), ("jax.value_and_grad(sag)", "_solve")]
)
def test_the_solve_is_kept_by_the_compilation_cache(call, name, tmp_path):
    """Programs that factor on the host too, of which JAX keeps none that calls back: the next process compiles nothing."""
    snippet = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    assert "jax.jit(jax.value_and_grad(sag))" in snippet
    snippet = snippet.replace("jax.jit(jax.value_and_grad(sag))", call)
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    found = [missed_by(snippet, os.environ | cache) for _ in range(2)]
    assert all(any(word in path.name for path in tmp_path.iterdir()) for word in (name, "jaxmech-"))
    assert found[0] > 0 == found[1], found


def missed_by(code: str, environment: dict[str, str]) -> int:
    """How many programs XLA compiles for a script."""
    counted = """
import jax
from jax._src import compiler

compile_and_load, programs = compiler.backend_compile_and_load, []
compiler.backend_compile_and_load = lambda *a, **k: programs.append(1) or compile_and_load(*a, **k)
exec(open(0).read(), {})
print("PROGRAMS", len(programs))
"""
    run = subprocess.run(
        [sys.executable, "-c", counted], input=code, capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    return int(run.stdout.split("PROGRAMS")[1])
