"""A user's type checker, set up as it comes, finds nothing in what a user writes, and what is wrong in what is wrong."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typed_user_script

HERE = Path(__file__).parent
PYRIGHT = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
WRONG = """
import jaxmech as jm

jm.Springs  # stood there up to 0.1
jm.force.Sprungs
jm.material.NeoHookean(young=1e3)
jm.material.NeoHookean(young="stiff", poisson=0.3)
jm.constraint.Fixed(("body", 0.5))
jm.constraint.Fixed("body")
jm.force.ConstantForce(("body", [0]), load=[1.0])
jm.mass.kinetic_energy(1.0, 2.0)
"""


@pytest.mark.slow
def test_the_script_runs():
    assert abs(typed_user_script.main()) < 1e9


def errors(folder: Path) -> dict[str, set[int]]:
    """The lines of each file at which pyright finds something."""
    settings = {"include": ["."], "extraPaths": [str(HERE.parent)], "typeCheckingMode": "basic"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [PYRIGHT, "-p", str(folder), "--pythonpath", sys.executable]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    assert re.search(r"\d+ errors, 0 warnings", said), said
    found: dict[str, set[int]] = {}
    for name, line in re.findall(r"(\w+\.py):(\d+):\d+ - (?:error|warning)", said):
        found.setdefault(name, set()).add(int(line))
    return found


@pytest.mark.slow
@pytest.mark.skipif(PYRIGHT is None, reason='pip install "jaxmech[dev]"')
def test_a_type_checker_without_exceptions(tmp_path):
    shutil.copy(HERE / "typed_user_script.py", tmp_path / "right.py")
    (tmp_path / "wrong.py").write_text(WRONG.lstrip())
    readme = (HERE.parent / "README.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    (tmp_path / "readme.py").write_text("\n".join(snippets))
    calls = [i for i, line in enumerate(WRONG.lstrip().splitlines(), 1) if line.startswith("jm.")]
    assert errors(tmp_path) == {"wrong.py": set(calls)}
