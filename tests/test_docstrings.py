"""Every public name has an example in its docstring, and every example is true.

An example is the indented block after `Example:`. It finds what `docs/api.md` prepares under "The scene of the examples",
the only place where that is written, and asserts something.
"""

import ast
import contextlib
import dataclasses
import inspect
import re
import sys
import textwrap
import types
from pathlib import Path

import pytest
from all_at_once import for_each

import jaxmech as jm

pytest.importorskip("matplotlib", reason='pip install "jaxmech[viz]"').use("Agg")
REFERENCE = Path(__file__).parents[1] / "docs" / "api.md"


def public_objects(module=jm) -> dict[str, object]:
    """Every public class and function by its name, those of public submodules as `module.name`; each object once."""
    found = {}
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_"):
            continue
        if inspect.ismodule(value):
            if value.__name__.startswith("jaxmech."):
                found |= {f"{name}.{inner}": v for inner, v in public_objects(value).items()}
        else:
            found[name] = value
    return {name: value for name, value in found.items() if callable(value)}


PUBLIC = {value: name for name, value in public_objects().items()}.items()


def docstring(value) -> str:
    return inspect.cleandoc((vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__) or "")


def example(value) -> str:
    """The code under `Example:`, empty where there is none."""
    _, _, rest = docstring(value).partition("\nExample:\n")
    return textwrap.dedent(rest).strip("\n")


FAMILIES = ("Material", "Mass", "ForceField", "Mapping", "ProjectiveConstraint", "Preconditioner", "Dof")


@pytest.fixture(scope="module")
def prepared() -> dict[str, object]:
    """The names that examples may use."""
    block = re.search(r"^## The scene of the examples\n.*?^```python\n(.*?)^```$", REFERENCE.read_text(), re.S | re.M)
    assert block, "docs/api.md has no scene for the examples"
    names = {}
    exec(block.group(1), names)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("value", [pytest.param(v, id=n) for v, n in PUBLIC])
def test_the_example_runs(value, prepared, tmp_path):
    code = example(value)
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(code))), "no example that asserts something"
    # A module, so that classes defined in an example find the names that their annotations use
    module = types.ModuleType("example")
    vars(module).update(prepared)
    sys.modules[module.__name__] = module
    try:
        with contextlib.chdir(tmp_path):  # files that it writes
            exec(compile(code, f"<example of {value.__name__}>", "exec"), vars(module))  # pyright: ignore
    except ImportError as missing:
        if "pip install" not in str(missing):
            raise
        pytest.skip(str(missing))
    finally:
        del sys.modules[module.__name__]  # and no other: what was imported meanwhile stays what it is


@for_each(PUBLIC, lambda of: of[1])
def test_errors_units_and_sources_are_stated(of):
    """What is raised, or that nothing is; the unit of a number, or that there is none; where a formula comes from."""
    value, _ = of
    text = docstring(value)
    assert re.search(r"\b([Rr]ais(e|es|ed|ing)|ends? in)\b", text), "no errors"
    assert re.search(r"\[[^\]]*\b(m|m\^[23]|rad|s|kg|N|J|Pa|W|1/s|-)\b[^\]]*\]|\[-\]|[Uu]nits?\b|pure number", text), (
        "no units"
    )
    bases = {base.__name__ for base in inspect.getmro(value)} if inspect.isclass(value) else set()
    gives_formula = re.search(r"`[^`]+ = [^`]+`", text.split("\n\n")[0])
    if gives_formula or bases & {f"Abstract{family}" for family in FAMILIES}:
        assert re.search(r"\bSources?( of [^:]*)?:|Formulas:", text), "no source"


NUMBERS = [
    (v, n) for v, n in PUBLIC if dataclasses.is_dataclass(v) and any("jaxmech" in f.metadata for f in dataclasses.fields(v))
]
AXIS = r"(?:\w{1,5}|branches|\.\.\.)(?: [+] \w)?"  # of a shape: `(n, 3)`, `(e,)`
SHAPE = rf"\({AXIS}(?:, ?{AXIS})*,\)|\({AXIS}(?:, ?{AXIS})+\)|\b(shared|one per|unit vector|(one|two|three) numbers?)\b"


@for_each(NUMBERS, lambda of: of[1])
def test_shapes_are_stated(of):
    """Of what has physical numbers: how many there are of each, or how they lie in an array."""
    assert re.search(SHAPE, docstring(of[0]).partition("\nExample:\n")[0], re.IGNORECASE), "no shapes"
