"""The front door: one canonical path for every name, documented, in units, options by keyword; and light to open."""

import dataclasses
import inspect
import subprocess
import sys

import pytest

import jaxmech as jm

MODULES = {"viz": jm.viz}  # what is public under a name of its own
PUBLIC = {name: value for name, value in vars(jm).items() if not name.startswith("_") and name not in MODULES}
PUBLIC |= {n: v for m in MODULES.values() for n, v in vars(m).items() if not n.startswith("_")}
CLASSES = {name: c for name, c in PUBLIC.items() if inspect.isclass(c)}
FUNCTIONS = {name: f for name, f in PUBLIC.items() if callable(f) and not inspect.isclass(f)}  # the compiled ones too
# Weights and directions are pure numbers; what a function makes of its own is its own affair.
UNITLESS = {"BarycentricMapping", "FixedLine", "FixedPlane", "FunctionMapping", "SumMapping"}
ASKED_FOR = {("component_matrix", "kind")}  # what is asked for, though most ask for one thing
OPTIONAL = ("pypardiso", "feral", "spineax", "pyamg", "meshio", "matplotlib", "optimistix", "tqdm")


def test_every_name_has_one_path():
    own = {n: v for n, v in PUBLIC.items() if not inspect.ismodule(v)}
    assert len({id(v) for v in own.values()}) == len(own)
    for name, value in own.items():
        assert value.__name__ == name
        assert value.__module__.startswith(("jaxmech._", *(f"jaxmech.{m}._" for m in MODULES)))
    assert not [n for n, v in PUBLIC.items() if inspect.ismodule(v)]


@pytest.mark.parametrize("name", [*CLASSES, *FUNCTIONS])
def test_every_name_is_documented(name):
    doc = vars(PUBLIC[name]).get("__doc__") if name in CLASSES else PUBLIC[name].__doc__
    assert doc
    assert len(doc.strip()) > 20
    # A dataclass writes a docstring of its own, its signature, where there is none.
    assert not doc.startswith(name + "(")


@pytest.mark.parametrize("name", CLASSES)
def test_methods_are_documented(name):
    """What a class defines in public; a method that fills in an abstract one is documented there."""
    for method, value in vars(CLASSES[name]).items():
        if method.startswith("_") or not (callable(value) or isinstance(value, (property, classmethod))):
            continue
        inherited = any(inspect.getdoc(vars(base).get(method)) for base in CLASSES[name].__mro__[1:])
        assert inspect.getdoc(value) or inherited, method


def parameters(cls) -> list[str]:
    if not dataclasses.is_dataclass(cls):
        return []
    return [f.name for f in dataclasses.fields(cls) if "jaxmech" in f.metadata]


@pytest.mark.parametrize("name", [n for n, c in CLASSES.items() if parameters(c) and n not in UNITLESS])
def test_physical_numbers_have_units(name):
    doc = CLASSES[name].__doc__
    assert "[" in doc
    for unit in ("[m]", "[m^2]", "[m^3]", "[Pa]", "[N", "[kg", "[J", "[W]", "[s]", "[1/s]"):
        if unit in doc:
            return
    pytest.fail(f"{name} names no unit")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_options_are_keywords(name):
    """A default that is a switch, a number or a name is an option, and options are named by the caller."""
    for parameter in inspect.signature(FUNCTIONS[name]).parameters.values():
        assert parameter.kind is not inspect.Parameter.VAR_POSITIONAL or name == "__init__"
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and (name, parameter.name) not in ASKED_FOR:
            assert not isinstance(parameter.default, bool | int | float | str), parameter.name


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_needs_no_optional_package_and_changes_nothing():
    output = run(f"""
import sys
for name in {OPTIONAL!r}:
    sys.modules[name] = None  # an import of it now raises
import os
import jax
import numpy as np
import equinox, lineax, scipy
config, environment, state = dict(jax.config.values), dict(os.environ), np.geterr()
import jaxmech
assert dict(jax.config.values) == config
assert dict(os.environ) == environment and np.geterr() == state
assert not jax.config.jax_enable_x64
jaxmech.SparseDirect("superlu")
print(jaxmech.__version__)
""")
    assert output.strip() == jm.__version__
