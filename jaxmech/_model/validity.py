"""Whether every law of a scene is defined where its elements are."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._forcefield.base import AbstractForceField
from .._material.base import AbstractMaterial
from .._material.stress_law import AbstractStressLaw
from .._runtime.array_types import Array
from .._runtime.results import RESULTS, FailedComputation, is_traced
from .._scene.parameter import over_elements
from .._scene.stencil import at_nodes
from .system import System

_LAWS = (AbstractMaterial, AbstractStressLaw)


def limited(system: System) -> list[str]:
    """The force fields whose laws are not defined everywhere."""
    plain = AbstractForceField.element_is_valid
    return [name for name, field in system.force_fields.items() if type(field).element_is_valid is not plain]


def element_validity(system: System, x: Mapping[str, Array]) -> dict[str, Array]:
    """For every force field with limits: of each element, whether its law is defined at the positions `x`."""

    def of(field: Any) -> Array:
        return over_elements(field, field.on, lambda c, *a: c.element_is_valid(*a), *at_nodes(field.on, x))

    return {name: of(system.force_fields[name]) for name in limited(system)}


def memories_hold(system: System) -> Array:
    """Whether internal variables, put in place, are within the ranges that their laws know."""
    laws = [law for f in system.forces.values() if isinstance(law := getattr(f, "material", None), _LAWS)]
    held = [jnp.all(holds(value)) for law in laws for value, holds, _ in law.internal_ranges().values()]
    return jnp.stack(held).all() if held else jnp.array(True)


def laws_hold(system: System, x: Mapping[str, Array]) -> Array:
    """Whether all of them are, and what they remember is possible."""
    valid = memories_hold(system)
    for each in element_validity(system, x).values():
        valid &= jnp.all(each)
    return valid


def check_one_number(components: Mapping[str, Any], values: Mapping[str, Array]) -> None:
    """Raise a `ValueError` unless elements give one number each. `at_rest` looks at that in its own scene alone."""
    for name, each in values.items():
        if each.ndim != 1:
            kind = type(components[name]).__name__
            raise ValueError(f"'{name}': {kind} returns shapes [{each.shape[1:]}], expected [()].")


def raise_undefined(who: str, system: System, x: Mapping[str, Array], values: Mapping[str, Any]) -> None:
    """Raise `FailedComputation` that names the first element with a value that is not finite, where that can be seen.

    `values`: what each force field gives at the positions `x`, element axis first.
    """
    if is_traced((x, values)):
        return
    for name, of_elements in values.items():
        arrays = [np.asarray(a) for a in jax.tree.leaves(of_elements)]
        bad = np.any([~np.isfinite(a.reshape(len(a), -1)).all(axis=1) for a in arrays], axis=0)
        if not bad.any():
            continue
        element, field = int(np.argmax(bad)), system.force_fields[name]
        nodes = " and ".join(f"{np.asarray(s.nodes[element]).tolist()} of '{s.state}'" for s in field.on)
        where = f"{who}: element {element} of '{name}' (nodes {nodes})"
        if not np.asarray(element_validity(system, x).get(name, np.ones(len(bad), bool)))[element]:
            raise FailedComputation(
                f"{where} is {field.undefined_when}, where its law is undefined.", RESULTS.inverted_element
            )
        raise FailedComputation(f"{where} gives a value that is not finite.", RESULTS.not_finite)
