"""The front door: few names, one path for each, documented, in units, options by keyword; and light to open."""

import dataclasses
import inspect
import subprocess
import sys

import lineax as lx
import pytest
from all_at_once import for_each
from public_names import MODULES, PATHS, PUBLIC, TOP

import jaxmech as jm

MOST_AT_THE_TOP = 30
TOO_GENERAL = {"assemble", "build", "jacobian", "load", "matrix", "project", "retract", "save", "solve", "step", "sum"}
CLASSES = {name: c for name, c in PUBLIC.items() if inspect.isclass(c)}
FUNCTIONS = {name: f for name, f in PUBLIC.items() if callable(f) and not inspect.isclass(f)}  # the compiled ones too
# Weights and directions are pure numbers; what a function makes of its own is its own affair.
UNITLESS = {"BarycentricMapping", "FixedLine", "FixedPlane", "FunctionMapping", "SumMapping"}
ASKED_FOR = {("component_matrix", "kind")}  # what is asked for, though most ask for one thing
OPTIONAL = ("pypardiso", "feral", "spineax", "pyamg", "meshio", "matplotlib", "optimistix", "tqdm", "pyvista", "viser")


def test_every_name_has_one_path():
    assert len(PUBLIC) == len(PATHS), "a name in two modules"
    assert len({id(v) for v in PUBLIC.values()}) == len(PUBLIC), "a thing under two names"
    for name, value in PUBLIC.items():
        assert value.__name__ == name
        assert value.__module__.startswith(("jaxmech._", *(f"jaxmech.{m}._" for m in MODULES)))


def test_the_top_is_small_and_says_what_it_is_of():
    assert len(TOP) <= MOST_AT_THE_TOP, sorted(TOP)
    assert not TOO_GENERAL & set(TOP)
    assert {n for n in dir(jm) if not n.startswith("_")} == {*TOP, *MODULES}, "an old name is shown"


FAMILIES = {
    "constraint": jm.constraint.AbstractProjectiveConstraint,
    "force": jm.force.AbstractForceField,
    "integrator": jm.integrator.AbstractIntegrator,
    "mapping": jm.mapping.AbstractMapping,
    "mass": jm.mass.AbstractMass,
    "material": jm.material.AbstractMaterial,
    "solver": (lx.AbstractLinearSolver, jm.solver.AbstractPreconditioner, jm.solver.AbstractLinearSystem),
}
FIRST_OF_THEIR_KIND = {"ImplicitEuler", "MatrixLinearSystem"}  # met in every script, and so at the top


@pytest.mark.parametrize("module", FAMILIES)
def test_every_member_of_a_family_stands_in_its_module(module):
    members = {p for p, v in PATHS.items() if inspect.isclass(v) and issubclass(v, FAMILIES[module])}
    assert len(members) > 1
    assert {p for p in members - FIRST_OF_THEIR_KIND if not p.startswith(f"{module}.")} == set()


def test_functions_of_a_scene_take_a_system_and_a_state():
    of_no_state = {"in_step", "project", "retract", "animate", "show", "draw_energies"}  # the last three: of many states
    for name, function in FUNCTIONS.items():
        names = list(inspect.signature(function).parameters)
        if names and names[0] == "system" and name not in of_no_state:
            assert names[1] == "state", name


@for_each([*CLASSES, *FUNCTIONS])
def test_every_name_is_documented(name):
    doc = vars(PUBLIC[name]).get("__doc__") if name in CLASSES else PUBLIC[name].__doc__
    assert doc and len(doc.strip()) > 20, "no docstring"
    # A dataclass writes a docstring of its own, its signature, where there is none.
    assert not doc.startswith(name + "("), "no docstring of its own"


@for_each(CLASSES)
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


@for_each(n for n, c in CLASSES.items() if parameters(c) and n not in UNITLESS)
def test_physical_numbers_have_units(name):
    doc = CLASSES[name].__doc__
    units = ("[m]", "[m^2]", "[m^3]", "[Pa]", "[N", "[kg", "[J", "[W]", "[s]", "[1/s]")
    assert any(unit in doc for unit in units), "names no unit"


@for_each(FUNCTIONS)
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
jaxmech.solver.SparseDirect("superlu")
print(jaxmech.__version__)
""")
    assert output.strip() == jm.__version__


@pytest.mark.slow
def test_what_few_scripts_need_is_imported_when_it_is_asked_for():
    """A third of the time of the import was that of these modules and of what they import."""
    run("""
import sys
import jaxmech as jm
from jaxmech._runtime.moved_names import ON_DEMAND
private = ("_contact", "_distributed", "_identify", "_sofa")
rooms = (*(f"jaxmech.{n}" for n in (*ON_DEMAND, *private)), "scipy.optimize")
loaded = [m for m in sys.modules if m.startswith(rooms)]
assert not loaded, loaded
assert set(ON_DEMAND) <= set(dir(jm))
assert callable(jm.identify.fit) and callable(jm.sofa.load) and jm.viz is sys.modules["jaxmech.viz"]
""")
