"""Every public callable refuses what it cannot take, in words that name the argument.

What is public is found by introspection. Of each, `valid_calls.py` holds a valid call; here every argument of it is
spoilt in some twenty ways, one at a time. The verdict: a `ValueError` or `TypeError` that names the argument, unless the
value is listed as a fair one for that kind of argument.
"""

import inspect
import re

import jax
import numpy as np
from valid_calls import put_into_a_scene

import jaxmech as jm

# What jaxmech, lineax or JAX calls of a component for one element, or for an operator that was checked before: under
# tracing, where there is nothing to look at and no time to lose.
HOOKS = {
    *("check_dofs", "retract", "local", "retract_near", "local_near", "coadjoint", "energy_density", "recursion"),
    *("init", "compute", "transpose", "conj", "assume_full_rank"),
    *("as_products", "mappings", "forces", "matrix", "into_frames", "from_frames"),
}
# What jaxmech makes and hands out, whole.
HANDED_OUT = {
    *("AssemblyPattern", "BlockMatrix", "BlockPattern", "BlockSparse", "Buckling", "CompositeLinearSystem"),
    *("FailedComputation", "LinearProblem", "MatrixLinearSystem", "Modes", "ModesInfo", "NewtonInfo"),
    *("PreconditionedMatrixFreeSystem", "PreconditionedOperator", "PrecomputedMatrixSystem", "RESULTS"),
    *("ReferenceElement", "SmoothedAggregation", "StaticSolution", "Trajectory"),
}
# A state is data: what is in it is looked at where it is used (`test_a_state_is_refused_leaf_by_leaf`). The functions that
# declare fields take what `equinox.field` takes.
ELSEWHERE = {"State", "each_element", "nodal_parameter", "parameter", "stencils"}


def public():
    """The names of everything that is public, callable, and takes arguments."""
    names = {n: v for n, v in vars(jm).items() if not n.startswith("_") and n != "viz"}
    names |= {f"viz.{n}": v for n, v in vars(jm.viz).items() if not n.startswith("_")}
    for name, value in names.items():
        if name in ELSEWHERE:
            continue
        if not inspect.isclass(value):
            if inspect.signature(value).parameters:
                yield name
            continue
        if not inspect.isabstract(value) and name not in HANDED_OUT and inspect.signature(value).parameters:
            yield name
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
        "a function": lambda x: None,
        "nothing": np.zeros(0),
        "four axes": np.ones((2, 2, 2, 2)),
        "bytes": b"bytes",
        "a set": {1.0, 2.0},
        "abstract": jax.ShapeDtypeStruct((2, 3), np.float64),
        "ragged": [[1.0], [2.0, 3.0]],
        "nodes out of range": [[10**6, -1]],
        "a fraction": 0.5,
        "a class": int,
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


def attempt(call, name, value):
    """What a spoilt argument ends in: an error, or what was made."""
    try:
        made = call.function(**(call.arguments | {name: value}))
        if call.family is not None:
            put_into_a_scene(call.family, made)
        return jax.block_until_ready(made)
    except Exception as error:
        return error


def verdict(name, argument, label, value, result):
    who = f"{name}({argument}={value!r:.60})  [{label}]"
    if not isinstance(result, Exception):
        return f"{who} was accepted"
    if not isinstance(result, ValueError | TypeError):
        return f"{who} ended in {type(result).__name__}: {str(result)[:150]}"
    if not any(re.search(rf"\b{re.escape(word)}\b", str(result)) for word in (argument, *ALIASES.get(argument, ()))):
        return f"{who} is not named: {type(result).__name__}: {str(result)[:150]}"
    return None


ALIASES = {}
FAIR = {}
