"""What is compiled before anything is computed: a scene is made of host arrays, and its structure is read from traces."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    programs = compiled_by(scene_of_the_readme())
    assert len(programs) <= MOST, programs


def test_programs_are_counted():
    assert len(compiled_by("import jax.numpy as jnp\nfor n in range(1, 4): jnp.zeros(n) + 1")) >= 6
