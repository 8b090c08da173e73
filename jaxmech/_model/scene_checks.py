"""What is wrong with a scene, said at build time in the words of the scene."""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._constraint.base import AbstractProjectiveConstraint
from .._constraint.multiplier import AbstractMultiplierConstraint
from .._forcefield.base import AbstractEnergyForceField, AbstractForceField
from .._mapping.base import AbstractMapping
from .._mass.base import AbstractMass
from .._runtime.argument_checks import meant
from .._runtime.array_types import structure_of
from .._scene.dof import AbstractDof
from .._scene.internal import internal_variables, remembers
from .._scene.once_per_structure import once_per_structure
from .._scene.parameter import as_array, element_leaves, is_concrete, trace_elements
from .._scene.stencil import Stencil
from .axis_checks import check_axes
from .internal import check_update
from .multiplier_checks import check_multiplier_names, check_multiplier_nodes
from .multiplier_states import begun
from .number_checks import check_numbers
from .projector_checks import check_projectors
from .state_checks import check_arrays

_FAMILIES = {
    "dofs": AbstractDof,
    "forces": AbstractForceField,
    "masses": AbstractMass,
    "mappings": AbstractMapping,
    "constraints": (AbstractProjectiveConstraint, AbstractMultiplierConstraint),
}
_HELD_BY = "jm.constraint.Attachment holds points at places, jm.constraint.FixedJoint frames"


def component_stencils(system: Any) -> list[tuple[str, tuple[Stencil, ...]]]:
    """Every component by name, with its stencils."""
    acting = [(n, c.on) for family in (system.forces, system.masses, system.constraints) for n, c in family.items()]
    acting += [(n, c.multiplier) for n, c in system.multiplier_constraints.items() if c.multiplier is not None]
    return acting + [(n, m.parents) for n, m in system.mappings.items()]


def check_names(system: Any) -> None:
    """Raise where the named parts of a scene do not fit each other."""
    if not system.dofs:
        raise ValueError("System: dofs is empty; name at least one state.")
    for family, expected in _FAMILIES.items():
        for name, item in getattr(system, family).items():
            if not isinstance(item, expected):
                kinds = " or an ".join(e.__name__ for e in (expected if isinstance(expected, tuple) else (expected,)))
                raise TypeError(f"System: {family}['{name}'] must be an {kinds}, got {item!r:.80}{meant(item, expected)}.")
    states = list(system.dofs)
    for name, stencils in component_stencils(system):
        for stencil in stencils:
            if stencil.state not in system.dofs:
                raise ValueError(f"'{name}' acts on state '{stencil.state}', which is not one of {states}.")
    _check_mappings(system)
    check_axes(system, mapping_order(system.mappings))
    check_multiplier_names(system)
    check_numbers(system)


def _check_mappings(system: Any) -> None:
    owner: dict[str, str] = {}
    for name, mapping in system.mappings.items():
        if mapping.child not in system.dofs:
            raise ValueError(f"'{name}' maps to state '{mapping.child}', which is not one of {list(system.dofs)}.")
        if mapping.child in owner:
            raise ValueError(f"state '{mapping.child}' is mapped twice, by '{owner[mapping.child]}' and '{name}'.")
        owner[mapping.child] = name
    mapping_order(system.mappings)
    for name, constraint in system.projections.items():
        if constraint.on[0].state in owner:
            raise ValueError(
                f"'{name}' constrains state '{constraint.on[0].state}', which mapping '{owner[constraint.on[0].state]}' "
                f"gives; constrain its parents, or hold it by multipliers: {_HELD_BY}."
            )


def mapping_order(mappings: Mapping[str, AbstractMapping]) -> tuple[str, ...]:
    """The names of the mappings, parents before children, ties in alphabetical order. `ValueError` for a cycle."""
    waiting = {name: mappings[name] for name in sorted(mappings)}
    order: list[str] = []
    while waiting:
        unknown = {m.child for m in waiting.values()}
        ready = [n for n, m in waiting.items() if not any(p.state in unknown for p in m.parents)]
        if not ready:
            raise ValueError(f"the mappings {sorted(waiting)} form a cycle: each needs the position of another's child.")
        order += ready
        for name in ready:
            del waiting[name]
    return tuple(order)


def check_position(system: Any, position: Mapping[str, Any]) -> dict[str, jax.Array]:
    """The positions of the main states as arrays, or an error that says which is wrong and why."""
    if not isinstance(position, Mapping):
        raise TypeError(f"position must be a dictionary of arrays by state, got {type(position).__name__}.")
    main, arrays = system.main_states, {}
    for state in position:
        if state not in system.dofs:
            raise ValueError(f"position names state '{state}', which is not one of {list(system.dofs)}.")
        if state not in main:
            raise ValueError(f"position names state '{state}', which a mapping gives.")
    for state in main:
        if state in position:
            arrays[state] = as_array(position[state])
        elif state not in system.multipliers:
            raise ValueError(f"position has no state '{state}'.")
    if all(isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating) for x in arrays.values()):
        arrays = {s: x for s, x in sorted(begun(system, arrays).items())}
    check_arrays("at_rest", "position", arrays, system, "coord_size")
    check_nodes(system, {s: x.shape[0] for s, x in arrays.items()})
    check_elements(system, jnp.result_type(*arrays.values()))
    check_updates(system, jnp.result_type(*arrays.values()))
    check_projectors(system, jnp.result_type(*arrays.values()))
    return arrays


def node_counts(system: Any, main: Mapping[str, int]) -> dict[str, int]:
    """The number of nodes of every state, mapped ones included."""
    counts = dict(main)
    for name in system.mapping_order:
        counts[system.mappings[name].child] = system.mappings[name].parents[0].elements
    return counts


def check_nodes(system: Any, main: Mapping[str, int]) -> None:
    """Raise where a component names a node that its state does not have."""
    counts = node_counts(system, main)
    check_multiplier_nodes(system, counts)
    for name, stencils in component_stencils(system):
        for stencil in stencils:
            if is_concrete(stencil.nodes) and stencil.nodes.size:
                numbers = np.asarray(stencil.nodes)
                worst = int(numbers.min() if numbers.min() < 0 else numbers.max())
                if not 0 <= worst < counts[stencil.state]:
                    raise ValueError(
                        f"'{name}': node {worst} is out of range for state '{stencil.state}' "
                        f"({counts[stencil.state]} nodes)."
                    )


def check_elements(system: Any, dtype: Any) -> None:
    """Evaluate the shape of every element function, so that a wrong one is named rather than met inside a trace."""

    element = functools.partial(_at_elements, system, dtype)

    def attempt(name: str, component: Any, shapes_of: Any, expected: Any, *args: Any):
        try:
            found = shapes_of(component, args)
        except Exception as error:
            kind = type(component).__name__
            shapes = jax.tree.map(lambda a: tuple(a.shape[1:]), args)  # as they are nested: x and v may be tuples of arrays
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"'{name}': {kind} cannot be evaluated on element arrays of shapes {shapes}: {reason}"
            ) from error
        if found != expected:
            raise ValueError(f"'{name}': {type(component).__name__} returns shapes {found}, expected {expected}.")

    check_forces(system, system.forces)
    for name, field in system.forces.items():
        x, v = element(field.on, "coord_size"), element(field.on, "deriv_size")
        if isinstance(field, AbstractEnergyForceField):
            attempt(name, field, _of_energy, [()], *x)
        else:
            attempt(name, field, _of_force, [tuple(u.shape[1:]) for u in v], x, v)
    for name, mass in system.masses.items():
        _of_right_kind(name, mass.check_dofs, [system.dofs[s.state] for s in mass.on])
        attempt(name, mass, _of_kinetic_energy, [()], element(mass.on, "coord_size"), element(mass.on, "deriv_size"))
    for name, mapping in system.mappings.items():
        size = system.dofs[mapping.child].coord_size
        parents = [system.dofs[s.state] for s in mapping.parents]
        _of_right_kind(name, mapping.check_dofs, parents, system.dofs[mapping.child])
        attempt(name, mapping, _of_child, [(size,)], *element(mapping.parents, "coord_size"))
    for name, constraint in system.constraints.items():
        _of_right_kind(name, constraint.check_dofs, [system.dofs[s.state] for s in constraint.on])
    for name, constraint in system.multiplier_constraints.items():
        shape = (system.dofs[system.multiplier_stencils[name].state].deriv_size,)
        attempt(name, constraint, _of_rows, [shape], *element(constraint.on, "coord_size"))


def _shapes_of(function: Any, stencils_of: Any = lambda c: c.on, several: bool = False) -> Any:
    """`(component, arguments) -> shapes` of what a function of one element gives, one array or `several` in a tuple; of
    components that differ in numbers alone, in one scene or in several, one is traced."""

    @once_per_structure
    def read(component: Any, args: Any) -> list[tuple[int, ...]]:
        returned = trace_elements(component, stencils_of(component), function, *args)
        if isinstance(returned, dict) or isinstance(returned, tuple | list) != several:
            kind = "one array" if isinstance(returned, jax.Array) else type(returned).__name__
            raise TypeError(
                f"it returns {kind}, expected {'a tuple of arrays, one for each stencil' if several else 'one array'}"
            )
        given = jax.tree.leaves(returned)
        for leaf in given:
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                raise TypeError(f"it returns {leaf.dtype}, expected real numbers")
        return [tuple(leaf.shape[1:]) for leaf in given]

    return read


_of_energy = _shapes_of(lambda c, *x: c.element_energy(*x))
_of_force = _shapes_of(lambda c, x, v: c.element_force(x, v), several=True)
_of_kinetic_energy = _shapes_of(lambda c, x, v: c.element_kinetic_energy(x, v))
_of_child = _shapes_of(lambda c, *x: c.element_apply(*x), lambda c: c.parents)
_of_rows = _shapes_of(lambda c, *x: c.rows(*x))


def check_forces(system: Any, fields: Mapping[str, AbstractForceField]) -> None:
    """Raise `ValueError` where the numbers of a force field do not fit its nodes.

    Asked again whenever forces are traced: numbers may have been replaced since `at_rest`, or the state is of another scene,
    and NumPy's rules would stretch what is short.
    """
    for name, field in fields.items():
        element_leaves(field, field.on)
        _of_right_kind(name or type(field).__name__, field.check_dofs, [system.dofs[s.state] for s in field.on])


def _of_right_kind(name: str, check: Any, *dofs: Any) -> None:
    try:
        check(*dofs)
    except ValueError as error:
        raise ValueError(f"'{name}': {error}") from error


def check_updates(system: Any, dtype: Any) -> None:
    """The same of what elements remember after a step."""
    for name, field in system.forces.items():
        if not remembers(field):
            continue
        x, v = (_at_elements(system, dtype, field.on, size) for size in ("coord_size", "deriv_size"))
        try:
            new = _update(field, (x, v))
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"'{name}': element_update of {type(field).__name__} cannot be evaluated: {reason}") from error
        check_update(name, field, new, {key: variable.shape for key, variable in internal_variables(field).items()})


@once_per_structure
def _update(field: Any, args: Any) -> Any:
    given = trace_elements(field, field.on, lambda c, x, v: c.element_update(x, v), *args)
    return structure_of(given)


def _at_elements(system: Any, dtype: Any, on: tuple[Stencil, ...], size: str) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(jax.ShapeDtypeStruct((*s.nodes.shape, getattr(system.dofs[s.state], size)), dtype) for s in on)
