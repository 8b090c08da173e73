"""Every public callable refuses what it cannot take, in words that name the argument.

What is public is found by introspection. Of each, `valid_calls.py` holds a valid call; here every argument of it is
spoilt in some twenty ways, one at a time. The verdict: a `ValueError` or `TypeError` that names the argument, unless the
value is listed as a fair one for that kind of argument.
"""

import contextlib
import inspect
import re

import equinox as eqx
import jax
import matplotlib.pyplot as pyplot
import numpy as np
import pytest
from public_names import PUBLIC
from test_malformed_inputs import FRAME
from valid_calls import ARGUMENTS, CALLS, block, late, put_into_a_scene, scene

import jaxmech as jm

# What jaxmech, lineax or JAX calls of a component for one element, or for an operator that was checked before: under
# tracing, where there is nothing to look at and no time to lose.
HOOKS = {
    *(
        "check_dofs",
        "free_components",
        "retract",
        "local",
        "retract_near",
        "local_near",
        "coadjoint",
        "energy_density",
        "inner_gradient",
        "stress",
        "update",
        "section_forces",
        "mean_stresses",
        "in_plane_density",
        "geometry",
        "in_space",
        "is_defined",
        "point_gradients",
        "volume_ratio",
        "point_update",
        "recursion",
    ),
    *("init", "compute", "transpose", "conj", "assume_full_rank", "chosen"),
    *("as_products", "mappings", "forces", "matrix", "check", "check_shapes", "into_frames", "from_frames"),
    *("advanced", "at_time", "remembered", "resumed", "revalued", "after_event", "rows", "wanted", "where"),
    # What a scheme says of itself, asked within its steps.
    *("acceleration", "advance", "carried", "factors", "first_problem", "memory", "move", "next_memory", "recorded_move"),
    *("begun", "caught_up", "lateness", "reported", "stage", "step_with_error", "taken"),
    # What a fit asks of experiments, of what they measure, and of its unknowns.
    *("cost", "predict", "predicted", "ready", "residual", "run", "times", "value", "unknown"),
    # What a step asks of its contacts.
    *("check_scene", "coordinates", "coordinates_of", "distance", "distance_from", "of_each", "gaps", "near_of", "moved_by"),
    *("place_of", "places", "point_of", "reach", "touching"),
}
# What all implicit, and all explicit, schemes share is tried on one of each.
INHERITED = {"ImplicitEuler": ("step", "problem"), "VelocityVerlet": ("step",)}
_CONTACTS = ("PointContact", "SurfaceContact", "EdgeContact", "Limit")
# What jaxmech makes and hands out, whole.
HANDED_OUT = {
    *("AdaptiveInfo", "AdaptiveTrajectory", "Animation", "Checkpoint"),
    *("AssemblyPattern", "BlockMatrix", "BlockPattern", "BlockSparse", "Buckling", "CompositeLinearSystem"),
    *("ContactErrors", "ContactInfo", "ContactSolution", "ContactStepInfo", "StepContacts"),
    *("Energies", "EnergyBalance"),
    *("GaussFields", "Probe", "Resultant", "ShellStresses"),
    *("Fit", "Problem"),
    *("ElementForms", "FailedComputation", "LinearProblem", "MatrixLinearSystem", "Modes", "ModesInfo", "NewtonInfo"),
    *("PreconditionedMatrixFreeSystem", "PreconditionedOperator", "PrecomputedMatrixSystem", "RESULTS"),
    *("ConstraintReport", "CriticalPoint", "CutBack", "DependentRow", "Path", "PathInfo"),
    *("SceneError", "SceneGraph"),
    *("ReferenceElement", "SmoothedAggregation", "StaticSolution", "StepInfo", "Trajectory"),
}
# A state is data: what is in it is looked at where it is used (`test_a_state_is_refused_leaf_by_leaf`). The functions that
# declare fields take what `equinox.field` takes. What several processes are for has files of its own (`test_processes`,
# `test_distributed`).
ELSEWHERE = {"State", "each_element", "internal", "nodal_parameter", "parameter", "stencils", "time_step"}
ELSEWHERE |= {
    "join_processes",
    "divide",
    "divide_over_devices",
    "scatter",
    "static_solve_over_devices",
    "static_solve_over_ranks",
    "simulate_over_ranks",
    "write_mesh_over_ranks",
}


def public():
    """The names of everything that is public, callable, and takes arguments."""
    for name, value in PUBLIC.items():
        if name in ELSEWHERE:
            continue
        if not inspect.isclass(value):
            if inspect.signature(value).parameters:
                yield name
            continue
        if not inspect.isabstract(value) and name not in HANDED_OUT and inspect.signature(value).parameters:
            yield name
        yield from (f"{name}.{action}" for action in INHERITED.get(name, ()))
        for action, kind in vars(value).items():
            if action.startswith("_") or action in HOOKS or action.startswith("element_") or inspect.isabstract(value):
                continue
            if (
                isinstance(kind, classmethod)
                or not isinstance(kind, property)
                and callable(kind)
                and len(inspect.signature(kind).parameters) > 1
            ):
                yield f"{name}.{action}"


def spoilt(value):
    """Some twenty wrong values by name, in place of a right one."""
    wrong = {
        "None": None,
        "a word": "nonsense",
        "NaN": np.nan,
        "infinite": np.inf,
        "negative": -1,
        "complex": 1j,
        "an object": object(),
        "words": ["a", "b"],
        "nested dictionaries": {"a": {"b": 1.0}},
        "huge": 10**30,
        "a flag": True,
        "a function": lambda *x: None,
        "nothing": np.zeros(0),
        "four axes": np.ones((2, 2, 2, 2)),
        "bytes": b"bytes",
        "a set": {1.0, 2.0},
        "abstract": jax.ShapeDtypeStruct((2, 3), np.float64),
        "ragged": [[1.0], [2.0, 3.0]],
        "nodes out of range": [[10**6, -1]],
        "a fraction": 0.5,
        "a class": jm.Vec3,
        "dates": np.array(["2020-01-01"], "datetime64[D]"),
        "half precision": np.float16(1.0),
    }
    if _is_array(value):
        array = np.asarray(value)
        real = array.astype(float)
        wrong |= {
            "NaN in it": np.where(np.arange(array.size).reshape(array.shape) == 0, np.nan, real),
            "complex numbers": array + 0j,
            "half precision": array.astype(np.float16),
            "text": array.astype(str),
            "an axis more": array[None],
            "a row less": array[:-1],
            "fractions": real + 0.5,
            "negative": -real - 1,
        }
    return wrong


def _is_array(value):
    """Whether it is an array of numbers, or something that becomes one."""
    if isinstance(value, str | bytes | dict) or value is None:
        return False
    try:
        return np.asarray(value).dtype.kind in "iuf" and np.ndim(value) > 0
    except (ValueError, TypeError):
        return False


def attempt(call, name, value, run=lambda made: made()):
    """What a spoilt argument ends in: an error, or what was made."""
    try:
        made = run(lambda: call.function(**(call.arguments | {name: value})))
        if call.family is not None:
            put_into_a_scene(call.family, made)
        return jax.block_until_ready(made)
    except Exception as error:
        return error


# Numbers of either sign; the others are refused where they are negative, or the sign makes no sense at all.
SIGNED = {
    *("force", "torque", "point", "pressure", "traction", "normal", "direction", "anchor", "reference", "displacements"),
    *("velocities", "accelerations", "start", "start_velocity"),
    *("ambient", "carried_twist", "curvature", "directors", "flux", "natural_twist", "tangents", "tension"),
    *(
        "local",
        "local_a",
        "local_b",
        "points",
        "origin",
        "time",
        "gravity",
        "angle",
        "rest",
        "target",
        "offset",
        "rest_volume",
    ),
    *("position", "positions", "velocity", "acceleration", "u", "forces", "x", "xi", "rhs", "values", "vector", "factor"),
    *("mass_factor", "lam", "blocks", "placement", "axis", "tension", "volume"),
    *("about", "directions", "times", "point_data", "cell_data"),
}
INDICES = {
    "on",
    "parents",
    "nodes",
    "dofs",
    "cells",
    "connectivity",
    "rows",
    "columns",
    "frames",
    "beams",
    "lines",
    "before",
}
INDICES |= {"components", "shape"}
LAWS = ("LinearElastic", "StVenantKirchhoff", "Corotational", "NeoHookean", "StableNeoHookean", "MooneyRivlin", "Ogden")
_ORTHOTROPIC = ("a", "bff", "bfs", "bss", "bfn", "bsn", "bnn")
RUBBERS = {
    "ArrudaBoyce": ("mu", "segments"),
    "Gent": ("mu", "limit"),
    "Yeoh": (),
    "VerondaWestmann": ("c1", "c2"),
    "Costa": _ORTHOTROPIC,
    "HolzapfelGasserOgden": ("mu", "k1", "k2", "dispersion"),
    "ActiveStress": ("tension",),
    "ThermalExpansion": ("warming",),
    "Damage": ("threshold", "toughness", "most", "viscosity", "worst"),
}
DIRICHLET = ("eliminate_rows", "eliminate_rows_and_columns", "impose_penalty", "impose_weak_penalty")
PLACES = {"four axes", "nodes out of range", "NaN in it", "an axis more"}
TOLERANCES = {"kappa", "kappa_grad", "tolerance"} | {"rtol", "atol", "rcond", "omega", "drop_tolerance", "fill"}
# Fewer rows of these are fewer things.
LISTS = {"points", "coordinates", "gravity", "cells", "connectivity", "nodes", "dofs", "components"}
_BATCH = {"nothing", "four axes", "nodes out of range", "negative"}
# What else is fair, and why.
FAIR = {
    # A material does not know its elements: one value for each of none, or each of one.
    **{(law, name): {"nothing"} for law in LAWS for name in ("young", "poisson", "c10", "c01", "bulk")},
    **{("NeoHookean.from_lame", name): {"nothing"} for name in ("mu", "lam")},
    **{("Ogden", name): {"nodes out of range", "an axis more"} for name in ("mu", "alpha")},
    **{("J2Plasticity", name): {"nothing"} for name in ("young", "poisson", "yield_stress", "hardening", "accumulated")},
    ("J2Plasticity", "plastic_strain"): {"an axis more", "negative"},
    **{("HenckyPlasticity", name): {"nothing"} for name in ("young", "poisson", "yield_stress", "hardening", "accumulated")},
    ("HenckyPlasticity", "plastic_gradient"): {"an axis more"},
    **{("DruckerPrager", name): {"nothing"} for name in ("young", "poisson", "cohesion", "hardening")},
    **{("DruckerPrager", name): {"nothing"} for name in ("friction", "dilatancy")},
    **{("Viscoelastic", name): {"an axis more"} for name in ("modulus", "relaxation_time", "flow")},
    **{(law, "bulk"): {"nothing"} for law in RUBBERS},
    **{(law, name): {"nothing"} for law, names in RUBBERS.items() for name in names},
    ("Yeoh", "coefficients"): {"nodes out of range", "an axis more", "a row less"},
    **{(law, "directions"): {"an axis more"} for law in ("Costa", "HolzapfelGasserOgden")},
    **{("ActiveStress", "direction"): {"an axis more"}, ("ActiveStress", "tension"): {"nothing", "nodes out of range"}},
    ("ThermalExpansion", "expansion"): {"nothing", "nodes out of range", "negative"},  # of carbon fibres it is negative
    ("Probe.build", "points"): {"nodes out of range"},  # far outside, extrapolated
    # One value for the single element of these calls.
    **{("DistanceFromTargetMapping", "target"): {"an axis more"}, ("DistanceToPlaneMapping", "normal"): {"an axis more"}},
    ("LinearRelation", "weights"): {"negative", "nodes out of range", "an axis more"},
    ("LinearRelation", "value"): {"negative"},
    **{("LinearRelation.from_pairs", "gradient"): {"negative"}, ("LinearRelation.from_pairs", "rest"): {"a row less"}},
    ("CenterOfMassMapping.of", "masses"): {"an axis more"},
    ("SumMapping", "weights"): {"negative", "nodes out of range"},
    ("FunctionMapping", "numbers"): {"nodes out of range"},
    ("LineSetSkinningMapping", "place"): {"negative", "nodes out of range"},
    ("assemble", "each"): {"nodes out of range"},
    # Points that no element needs; numbers of each element; axes of a rod.
    **{(name, "rest"): {"a row less"} for name in ("Bar", "Beam", "ElasticRod.chain", "HingeBending", "Shell")},
    **{("ElasticRod", name): {"an axis more"} for name in ("length", "tangents", "directors")},
    ("ElasticRod", "curvature"): {"an axis more", "nodes out of range"},
    ("ElasticRod", "share"): {"negative"},
    **{(name, "dissipation"): {"a function"} for name in ("FieldEnergy", "FieldEnergy.from_mesh")},
    **{(name, of): {"a function"} for name in ("WeakForm", "WeakForm.from_mesh") for of in ("flux", "source")},
    **{("Section", name): {"nothing", "an axis more"} for name in ("axial", "shear", "torsion", "bending")},
    **{("Section.circle", name): {"nothing"} for name in ("radius", "young", "poisson")},
    **{("Section.rectangle", name): {"nothing"} for name in ("width", "height", "young", "poisson")},
    **{("Section.tube", name): {"nothing"} for name in ("outer", "inner", "young", "poisson")},
    **{("Section.i_beam", name): {"nothing"} for name in ("width", "height", "flange", "web", "young", "poisson")},
    # One value for all elements.
    **{(name, "mass"): {"huge", "a fraction"} for name in ("DiagonalMass",)},
    **{("TubularMapping", "angle"): {"huge", "a fraction"}, ("BeamMapping", "place"): {"a fraction"}},
    **{(name, "values"): {"a fraction"} for name in DIRICHLET},
    # States are looked for in a matrix; frames may be one for each of no joints.
    ("SchurComplement", "multipliers"): {"a word", "words"},
    # Any name is one until it is looked for; a stencil may be of no elements, or of several nodes for each.
    ("Stencil", "state"): {"a word"},
    ("Stencil", "nodes"): {"nothing", "an axis more"},
    # A choice of nothing.
    **{("compliance_matrix", "dofs"): {"nothing"}},
    **{("StateLayout.dofs", name): {"nothing"} for name in ("nodes", "components")},
    # A batch, for vmap.
    **{("Factors", name): _BATCH for name in ("mass", "damping", "stiffness", "rayleigh", "geometric")},
    # Vectors are what they are: NaN stays NaN, and a solve that meets it says so.
    **{(name, "rhs"): {"NaN in it"} for name in DIRICHLET},
    **{("StateLayout.unravel", "vector"): {"NaN in it"}, ("Triplets", "blocks"): {"NaN in it", "half precision"}},
    **{("Triplets.add", "block"): {"negative"}, ("Triplets.add_element", "matrix"): {"negative"}},
    **{("BlockSparse.mv", "x"): {"NaN in it", "half precision"}},
    ("BlockPattern.at_columns", "x"): {"NaN in it", "half precision", "complex numbers", "text"},
    # Any number of places, and of leading axes.
    **{(f"ReferenceElement.{name}", "xi"): PLACES for name in ("shape", "shape_gradients")},
    # A step by itself, and a matrix of which nothing is kept.
    **{(name, "carry"): {"None"} for name in ("ImplicitEuler.step", "VelocityVerlet.step", "MatrixLinearSystem.using")},
    **{(name, "carry"): {"None"} for name in ("ImplicitEuler.problem", "step_with_balance")},
    # Which way; from the end; any words.
    **{("follow_path", name): {"negative"} for name in ("to", "load", "direction")},
    **{("Path.at", "number"): {"negative"}, ("draw_path", "label"): {"a word"}},
    **{(name, "label"): {"a word"} for name in ("plot", "animate", "show")},
    ("plot", "title"): {"a word"},
    **{(name, "view"): {"negative"} for name in ("plot", "animate", "draw_modes")},
    **{(name, "limits"): {"half precision"} for name in ("plot", "animate", "show")},
    # Functions of the user's are called where they are needed.
    **{(name, "control"): {"a function", "a class"} for name in ("simulate", "simulate_adaptive")},
    **{(name, "observe"): {"a function", "a class"} for name in ("simulate", "simulate_adaptive")},
    **{(name, "function"): {"a function", "a class"} for name in ("Event", "function_of_invariants")},
    **{("Event", "direction"): {"negative"}, ("Event", "tolerance"): {"half precision"}},
    **{(name, number): {"half precision"} for name, number in (("dependent_rows", "tolerance"), ("sharp_edges", "angle"))},
    ("simulate_adaptive", "times"): {"a row less"},
    ("Table", "values"): {"four axes"},
    **{("PIDController", name): {"half precision"} for name in ("p", "i", "d")},
    # What is run over devices is the user's.
    **{(name, "function"): {"a function", "a class"} for name in ("over_devices", "in_batches")},
    ("element_forms", "function"): {"a function", "a class"},
    # No limit; a matrix and numbers of either sign; one coefficient for all contacts; points of no body.
    **{(name, limit): {"infinite"} for name in _CONTACTS for limit in ("margin", "depth", "reach")},
    **{("Limit", name): {"infinite", "negative"} for name in ("lower", "upper")},
    **{("ContactProblem", name): {"negative"} for name in ("W", "q")},
    ("ContactProblem", "friction"): {"a fraction", "huge"},
    **{("ContactProblem.product", "r"): {"negative"}, ("contact_errors", "impulse"): {"negative"}},
    **{
        ("HeightField", "heights"): {"negative"},
        ("PointContact", "owners"): {"negative"},
        ("EdgeContact", "owners"): {"negative"},
    },
    ("FreeMotion.step", "carry"): {"None"},
    # Functions of an experiment are called in a fit; readings may be missing; names are looked for there.
    **{("Experiment", name): {"a function"} for name in ("numbers", "begin")},
    **{("Static", name): {"a function"} for name in ("control", "guess")},
    **{
        ("Motion", "integrator"): {"a function"},
        ("Motion", "control"): {"a function"},
        ("Static", "times"): {"a row less"},
        ("Strain", "field"): {"a word"},
    },
    **{("Formula", "function"): {"a function"}, ("Formula", "values"): {"NaN in it"}, ("Formula", "unit"): {"a word"}},
    **{("Measured", name): {"a function"} for name in ("observe", "adjust")},
    **{("Measured", "values"): {"NaN in it", "four axes"}, ("Measured", "delay"): {"a word", "negative"}},
    **{(name, "unit"): {"a word"} for name in ("Measured", "Free")},
    **{("Free", "lower"): {"negative"}, ("Fit.profile", "values"): {"a row less"}, ("Problem.values", "q"): {"negative"}},
    **{("SectionForce", "about"): {"a row less"}, ("Displacement", "rest"): {"a row less", "nodes out of range"}},
}
SOLVES = {"static_solve", "modes", "buckling", "simulate", "ImplicitEuler.step", "compliance_matrix", "LinearProblem.solve"}
SOLVES |= {"solve_equilibrium", "follow_path", "critical_point", "simulate_adaptive"}
SOLVES |= {"FreeMotion.step", "solve_contacts"}
SOLVES |= {"VelocityVerlet.step", "critical_time_step", "step_with_balance", "ImplicitEuler.problem"}
LONG = {"critical_point", "follow_path", "draw_modes", "draw_path", "animate", "show", "buckling", "simulate_adaptive"}
LONG |= {"PreconditionedOperator.mv", "Path.at", "step_with_balance", "FreeMotion.step", "FreeMotion.precompute"}
LONG |= {"VelocityVerlet.step", "ImplicitEuler.step", "BlockJacobi.build", "WarpedFactor.build", "StaleFactor.build"}
LONG |= {f"MatrixLinearSystem.{name}" for name in ("assemble", "constrain", "linearized", "load")}
LONG |= {"CompositeLinearSystem.linearized", "CompositeLinearSystem.matrices"}
LONG |= {"PointContact", "EdgeContact", "HingeJoint", "ElasticRod"}  # half a second and more
WALKS = {"follow_path"}  # from one point to the next on the host; the others are traced here, and run by their examples
# What an argument is called in the message, where not by its own name.
ALIASES = {name: ("Stencil",) for name in ("on", "multiplier", "parents", "parent", "state", "joints", "nodes", "frames")}
ALIASES |= {"points": ("nodes", "Stencil"), "triangles": ("Stencil",), "edges": ("Stencil",), "alpha": ("alpha_i",)}


def is_fair(name, call, argument, label):
    """Whether a value is a right one for this kind of argument, so that nothing needs to be refused."""
    right = call.arguments[argument]
    if label in FAIR.get((name, argument), ()):
        return True
    if label == "None":
        return inspect.signature(call.function).parameters[argument].default is None
    if label == "a flag":
        return isinstance(right, bool)
    if label == "a word":
        return argument in ("child", "path")
    if label == "a class":
        return callable(right)
    if label == "a row less":
        return argument in LISTS
    if isinstance(right, float):
        signed = label == "negative" and argument in SIGNED
        return signed or label in ("a fraction", "huge") or (label == "half precision" and argument in TOLERANCES)
    if _is_array(right) and argument not in INDICES:
        return label == "fractions" or (label == "negative" and argument in SIGNED)
    return False


def verdict(name, call, argument, label, value):
    """What is wrong with the way in which a spoilt argument was met; `None` if nothing is."""
    result = attempt(call, argument, value)
    if isinstance(result, FileNotFoundError) and argument == "path" and label == "a word":
        return None
    who = f"{name}({argument}={value!r:.60}) [{label}]"
    if not isinstance(result, Exception):
        return None if is_fair(name, call, argument, label) else f"{who} was accepted"
    if not isinstance(result, ValueError | TypeError):
        return f"{who} ended in {type(result).__name__}: {str(result)[:150]}"
    words = (argument, "culprit", *ALIASES.get(argument, ()))
    if label in ("None", "a row less", "an axis more", "four axes", "nothing"):
        words = (*words, *call.arguments)  # where two disagree about a size, either may be named
    if label == "a class" and callable(call.arguments[argument]):
        return None  # a function of the user's, which raises what it raises
    if not any(re.search(rf"\b{word}\b", str(result)) for word in words):
        return f"{who} is not named: {type(result).__name__}: {str(result)[:150]}"
    return None


@pytest.fixture(autouse=True)
def no_figures_left_open():
    yield
    pyplot.close("all")


@pytest.fixture
def elsewhere(tmp_path):
    """A folder for files: a word is the name of one."""
    with contextlib.chdir(tmp_path):
        yield


# What is refused is said by an error in any case, whatever Equinox says beforehand.
@pytest.mark.filterwarnings("ignore:A JAX array is being set as static", "ignore:More than 20 figures")
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in public()])
def test_malformed_arguments_are_refused_by_name(name, elsewhere, pytestconfig):
    """All that is wrong with --slow; by default every third in turn, of one argument other values than of the next."""
    assert name in CALLS, f"no valid call of {name}: add one to valid_calls.py"
    call = CALLS[name]()
    run = {"run": eqx.filter_eval_shape} if name in SOLVES - WALKS else {}
    valid = attempt(call, *next(iter(call.arguments.items())), **run)
    if isinstance(valid, ImportError) and "pip install" in str(valid):
        pytest.skip(str(valid))
    assert not isinstance(valid, Exception), f"the valid call fails: {valid!r}"
    wrong = [(a, label, value) for a, right in call.arguments.items() for label, value in spoilt(right).items()]
    if name in SOLVES:  # each fair value is compiled anew
        wrong = [(a, label, value) for a, label, value in wrong if not is_fair(name, call, a, label)]
    wrong = wrong if pytestconfig.getoption("--slow") else wrong[::3]
    failures = [v for a, label, value in wrong if (v := verdict(name, call, a, label, value))]
    assert not failures, "\n".join(failures)


def test_every_valid_call_is_of_something_public():
    assert set(CALLS) <= set(public())


# --- states, leaf by leaf -------------------------------------------------------------


def mutations(state):
    """States with one leaf spoilt, and what must be named."""
    whole = {"position": state.position, "velocity": state.velocity, "time": state.time}
    for leaf in ("position", "velocity"):
        arrays = whole[leaf]
        for name, x in arrays.items():
            for label, value in spoilt_leaf(np.asarray(x), leaf).items():
                yield leaf, label, jm.State(**(whole | {leaf: arrays | {name: value}}))
            yield leaf, "a state less", jm.State(**(whole | {leaf: {s: a for s, a in arrays.items() if s != name}}))
        for label, value in {"a state more": arrays | {"nowhere": x}, "a mapped state": arrays | {"tips": x}}.items():
            yield leaf, label, jm.State(**(whole | {leaf: value}))
        for label, value in {"None": None, "an array": x}.items():
            yield leaf, label, jm.State(**(whole | {leaf: value}))
    for label, value in {"None": None, "NaN": np.asarray(np.nan), "two": np.zeros(2), "whole": np.array(1)}.items():
        yield "time", label, jm.State(**(whole | {"time": value}))


def spoilt_leaf(x, leaf):
    """Wrong arrays by name, in place of the right one."""
    wrong = {
        "not an array": [[0.0]],
        "missing": None,
        "flat": x[0],
        "one axis more": x[None],
        "a column less": x[:, :-1],
        "a column more": np.pad(x, ((0, 0), (0, 1))),
        "whole numbers": x.astype(int),
        "complex": x + 0j,
        "half precision": x.astype(np.float16),
        "another precision than the rest": x.astype(np.float32),
        "flags": x.astype(bool),
        "NaN": x * np.nan,
        "infinite": x + np.inf,
    }
    if leaf == "velocity":
        return wrong | {"a node less": x[:-1]}
    if x.shape[1] == 7:
        for label, factor in {"no turn": 0.0, "twice a turn": 2.0, "not quite a turn": 1 + 1e-4}.items():
            wrong[label] = np.where(np.arange(7) < 3, x, factor * x)
    return wrong


# Of these a word names a state, and is no state.
TAKE_A_STATE = [name for name in public() if isinstance(ARGUMENTS.get(name, {}).get("state"), jm.State | late)]


@pytest.mark.slow_cases("MatrixLinearSystem.load")
@pytest.mark.parametrize("name", TAKE_A_STATE)
def test_a_state_is_refused_leaf_by_leaf(name):
    call = CALLS[name]()
    failures = []
    for leaf, label, state in mutations(call.arguments["state"]):
        result = attempt(call, "state", state)
        if not isinstance(result, ValueError | TypeError) or not re.search(rf"\b{leaf}\b", str(result)):
            failures.append(f"{leaf}, {label}: {result!r:.200}")
    assert not failures, "\n".join(failures)


class Rude:
    """What cannot be looked at."""

    def __array__(self, *_, **__):
        raise RuntimeError("no")


def test_what_numpy_takes_for_numbers_and_jax_does_not():
    """By each of the ways in which numbers are taken in."""
    wrong = [np.longdouble(2.0), np.ones(3, np.longdouble), np.timedelta64(2, "s"), np.ones(3, "timedelta64[s]")]
    wrong += [np.ma.masked_array([1.0, 2.0, 3.0], [True, False, False]), bytearray(3), memoryview(b"abc"), jax.random.key(0)]
    wrong += [Rude()]
    takes = {
        "mass": jm.Factors,
        "young": lambda young: jm.material.NeoHookean(young, 0.3),
        "gravity": lambda gravity: jm.System({"box": jm.Vec3()}, gravity=gravity),
        "nodes": lambda nodes: jm.Stencil("box", nodes),
        "points": lambda points: jm.mesh.Mesh(points, [[0, 1]], "edge"),
        "rhs": lambda rhs: jm.matrix.eliminate_rows(block(), rhs, [0], [0.0]),
        "x": lambda x: block().mv(x),
        "position": lambda position: scene()[0].at_rest({"box": position, "frame": FRAME[:1]}),
    }
    for name, take in takes.items():
        for value in wrong:
            with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b"):
                take(value)
    for value in (np.timedelta64(2, "s"), jax.random.key(0), np.ones((), "timedelta64[s]")):
        with pytest.raises(ValueError, match="rtol"):
            jm.solver.PCG(value)
    with pytest.raises(ValueError, match="path is empty"):
        jm.mesh.read_mesh("")


def test_quaternions_are_refused_wherever_a_frame_is_given():
    """Anchors, frames on frames, placements, references: what turns is a unit quaternion."""
    bad = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0]])
    makers = {
        "anchor": lambda: jm.force.AnchoredFrames(("frame", [0]), 1.0, 1.0, bad),
        "local": lambda: jm.mapping.RigidMapping(("frame", [0]), "copy", bad),
        "coordinates": lambda: jm.mapping.RigidMapping.from_global("frame", "copy", [0], bad, [[0.0, 0.0, 1.0]]),
        "points": lambda: jm.mapping.RigidMapping.from_global("frame", "copy", [0], bad / 2, bad),
        "placement": lambda: jm.mapping.ArticulatedMapping.tree("angle", "bodies", [-1], bad, [0.0, 0.0, 1.0]),
        "reference": lambda: jm.constraint.PrescribedMotion(("frame", [0]), bad, np.zeros((1, 6))),
        "position": lambda: scene()[0].at_rest({"box": np.zeros((2, 3)), "frame": bad}),
    }
    for what, make in makers.items():
        with pytest.raises(ValueError, match=rf"(?s){what}.*(quaternion|of length 1|unit)"):
            make()


@pytest.mark.slow_cases(
    "draw_modes", "Path.at", "simulate", "simulate_adaptive", "solve_contacts", "solve_equilibrium", "static_solve"
)
@pytest.mark.parametrize("name", [name for name, given in ARGUMENTS.items() if int in map(type, given.values())])
def test_whole_numbers_of_numpy_are_taken(name, tmp_path, monkeypatch):
    """As `mesh.cells.max()` and `len` of an array make them; most counts were refused, and fields that hold them warned."""
    monkeypatch.chdir(tmp_path)  # films and pages are written there
    call = CALLS[name]()
    counts = {k: np.int64(v) for k, v in call.arguments.items() if type(v) is int}
    jax.block_until_ready(call.function(**(call.arguments | counts)))
    pyplot.close("all")
