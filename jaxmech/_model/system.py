"""The scene: named states, components that act on them, and the state that changes in time."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._constraint.base import AbstractProjectiveConstraint
from .._constraint.multiplier import AbstractMultiplierConstraint
from .._forcefield.base import AbstractForceField
from .._mapping.base import AbstractMapping
from .._mass.base import AbstractMass
from .._runtime.argument_checks import check_instance, check_real
from .._runtime.array_types import Array
from .._runtime.host_arrays import as_data, zeros
from .._scene.dof import AbstractDof
from .._scene.parameter import as_array, is_concrete
from .._scene.stencil import Stencil
from .internal import begins
from .mass_checks import check_masses
from .multiplier_force import MultiplierForce
from .multiplier_states import check_unnamed, rows_of, unnamed, without_rows
from .number_checks import check_no_lists
from .scene_checks import check_names, check_position, mapping_order
from .state_checks import check_state

Constraint = AbstractProjectiveConstraint | AbstractMultiplierConstraint


class State(eqx.Module):
    """Positions and velocities of the main (unmapped) states, the time [s], and what force fields remember: what the next
    step needs, no more.

    `position`: `{state: (nodes, coord_size)}`; `velocity`: `{state: (nodes, deriv_size)}`; `internal`: of force fields with
    internal variables, `{force field: {variable: (elements, ...)}}` as they were last accepted, or `(elements, points, ...)`
    of a material, as "material.plastic_strain". Made by `System.at_rest`; `dataclasses.replace(state, position=...)` hands
    on the rest. Positions [m, rad], velocities [m/s, rad/s]. Nothing is checked here, and nothing raised: functions that
    take a state look at it.

    Example:

        moving = jm.State({"cube": mesh.points}, {"cube": jnp.ones((8, 3))}, jnp.asarray(0.5))
        assert moving.position["cube"].shape == (8, 3) and float(moving.time) == 0.5
        assert jm.mass.inertial_force(system, moving)["cube"].shape == (8, 3)
    """

    position: dict[str, Array]
    velocity: dict[str, Array]
    time: Array
    internal: dict[str, dict[str, Array]] = eqx.field(default_factory=dict)


class System(eqx.Module):
    """The scene: one frozen pytree of named components; every physical number in it is a differentiable leaf.

    `dofs`: every state, mapped ones included. A dictionary of force fields, masses or constraints in place of one, as
    `MixedMesh.each` makes of a mesh of several kinds of cells, is each of them: those of "solid" are "solid.triangle",
    "solid.quad" and so on, and `rayleigh` may name all as "solid". `gravity` [m/s^2]: the acceleration that every mass
    feels through its translations, in states of the same dimension. `rayleigh`: for a force field, the coefficient [s] of
    its stiffness-proportional damping `c K v`; for a mass, the coefficient [1/s] of `c M v`. A constraint with multipliers
    has them in a state of its own name, which need not be among `dofs`, unless it names another.

    Raises `ValueError` or `TypeError` that names the component: an unknown state, a cycle of mappings, a state mapped
    twice, a projective constraint (`Fixed`) on a mapped state, which multipliers can hold (`Attachment`), a Rayleigh
    coefficient of nothing, gravity that none of its masses feels (of a scene without any it pulls at nothing).
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (scenes of components).

    Example:

        spring = jm.force.AnchoredSprings(("p", [0]), 100.0, anchor=[[0.0, 0.0]])  # [N/m]
        mass = jm.mass.UniformMass(("p", [0]), 2.0)  # [kg]
        scene = jm.System({"p": jm.Vec2()}, forces={"spring": spring}, masses={"mass": mass}, gravity=(0.0, -10.0))
        hanging = jm.static_solve(scene, scene.at_rest({"p": [[0.0, 0.0]]}))
        assert jnp.allclose(hanging.position["p"], jnp.array([[0.0, -0.2]]))  # m g / k [m]
    """

    dofs: dict[str, AbstractDof]
    forces: dict[str, AbstractForceField]
    masses: dict[str, AbstractMass]
    mappings: dict[str, AbstractMapping]
    constraints: dict[str, Constraint]
    rayleigh: dict[str, Array]
    gravity: Array | None
    multipliers: dict[str, Stencil] = eqx.field(init=False)  # of the constraints that name none themselves

    def __init__(
        self,
        dofs: Mapping[str, AbstractDof],
        *,
        forces: Mapping[str, AbstractForceField | Mapping[str, AbstractForceField]] | None = None,
        masses: Mapping[str, AbstractMass | Mapping[str, AbstractMass]] | None = None,
        mappings: Mapping[str, AbstractMapping] | None = None,
        constraints: Mapping[str, Constraint | Mapping[str, Constraint]] | None = None,
        rayleigh: Mapping[str, Any] | None = None,
        gravity: Any = None,
    ):
        # JAX sorts the keys of a dictionary when it flattens one: sorted from the start, no order can change later.
        self.dofs = _sorted("dofs", dofs)
        self.forces = _flat("forces", forces)
        self.masses = _flat("masses", masses)
        self.mappings = _sorted("mappings", mappings)
        self.constraints = _flat("constraints", constraints)
        damped = _each_of_several("rayleigh", rayleigh, forces, masses)
        self.rayleigh = {name: as_array(c) for name, c in damped.items()}
        self.gravity = None if gravity is None else as_array(gravity)
        held = unnamed(self.constraints)
        check_unnamed(self, held)
        with jax.ensure_compile_time_eval():  # Equinox looks at what a field holds that is no argument: at no tracers
            self.multipliers = {name: Stencil(name, nodes) for name, nodes in held.items()}
        check_names(self)
        self.dofs = _sorted("dofs", without_rows(self) | rows_of(self, held))

    @property
    def projections(self) -> dict[str, AbstractProjectiveConstraint]:
        """The constraints that hold directions of nodes, by name."""
        return {name: c for name, c in self.constraints.items() if isinstance(c, AbstractProjectiveConstraint)}

    @property
    def multiplier_constraints(self) -> dict[str, AbstractMultiplierConstraint]:
        """The constraints that multipliers hold, by name."""
        return {name: c for name, c in self.constraints.items() if isinstance(c, AbstractMultiplierConstraint)}

    @property
    def multiplier_stencils(self) -> dict[str, Stencil]:
        """Where the multipliers of each constraint stand, by name."""
        own = {name: c.multiplier for name, c in self.multiplier_constraints.items()}
        return {name: self.multipliers[name] if at is None else at[0] for name, at in own.items()}

    @property
    def multiplier_states(self) -> tuple[str, ...]:
        """The states of multipliers, of constraints and of force fields that have some, sorted."""
        of_fields = {state for field in self.forces.values() for state in field.multiplier_states}
        return tuple(sorted(of_fields | {s.state for s in self.multiplier_stencils.values()}))

    @property
    def force_fields(self) -> dict[str, AbstractForceField]:
        """All that has a force, by name: the force fields, and constraints with multipliers as the energies they are."""
        at = self.multiplier_stencils
        held = {name: MultiplierForce(c, at[name]) for name, c in self.multiplier_constraints.items()}
        return self.forces | held if held else self.forces

    @property
    def mapping_order(self) -> tuple[str, ...]:
        """The names of the mappings, parents before children."""
        return mapping_order(self.mappings)

    @property
    def main_states(self) -> tuple[str, ...]:
        """The states that no mapping gives, sorted."""
        mapped = {m.child for m in self.mappings.values()}
        return tuple(s for s in self.dofs if s not in mapped)

    def at_rest(self, position: Mapping[str, Any], *, time: Any = 0.0) -> State:
        """The state at these positions `{state: (nodes, coord_size)}`, without velocity, and nothing has happened yet.

        Multipliers that a constraint has in a state of its name are nil unless given.

        Raises `ValueError` for a missing, unknown or mapped state, wrong shapes, values that are not finite, a
        quaternion that is not of unit length, or a component that names a node that does not exist.
        """
        arrays = check_position(self, position)
        velocity = {s: zeros((x.shape[0], self.dofs[s].deriv_size), x.dtype) for s, x in arrays.items()}
        time = as_array(time)
        check_real("at_rest", "time", time)
        if time.ndim != 0:
            raise ValueError(f"at_rest: time must be one number of seconds, got shape {time.shape}.")
        dtype = jnp.result_type(*arrays.values()) if arrays else jnp.result_type(float)
        time = as_data(np.asarray(time), dtype) if is_concrete(time) else time.astype(dtype)
        return State(arrays, velocity, time, begins(self, dtype, arrays, velocity))


def force_field(system: System, name: str) -> AbstractForceField:
    """One of `force_fields`, without the others."""
    if name in system.forces:
        return system.forces[name]
    constraint = system.multiplier_constraints[name]
    at = constraint.multiplier
    return MultiplierForce(constraint, system.multipliers[name] if at is None else at[0])


def check_inputs(who: str, system: Any, state: Any) -> None:
    """Raise unless these are a scene and one of its states, with values that can be where they can be looked at."""
    check_instance(who, "system", system, System)
    check_instance(who, "state", state, State)
    check_no_lists(system)
    check_masses(system)
    check_state(who, system, state)


def _sorted(what: str, items: Mapping[str, Any] | None) -> dict[str, Any]:
    if items is None:
        return {}
    if not isinstance(items, Mapping):
        raise TypeError(f"System: {what} must be a dictionary of named components, got {type(items).__name__}.")
    if not all(isinstance(name, str) for name in items):
        raise TypeError(f"System: the names of {what} must be strings, got {list(items)}.")
    return {name: items[name] for name in sorted(items)}


def _flat(what: str, items: Mapping[str, Any] | None) -> dict[str, Any]:
    """The components by name, each of a dictionary of them as "name.key"."""
    flat: dict[str, Any] = {}
    for name, item in _sorted(what, items).items():
        own = {f"{name}.{key}": member for key, member in item.items()} if isinstance(item, Mapping) else {name: item}
        if twice := flat.keys() & own.keys():
            raise ValueError(f"System: {what} has two components named '{min(twice)}'.")
        flat |= own
    return _sorted(what, flat)


def _each_of_several(what: str, numbers: Mapping[str, Any] | None, *families: Mapping[str, Any] | None) -> dict[str, Any]:
    """The numbers by name, that of a dictionary of components for each of them."""
    groups = {n: item for items in families for n, item in (items or {}).items() if isinstance(item, Mapping)}
    shared = _sorted(what, numbers).items()
    return _flat(what, {n: dict.fromkeys(groups[n], number) if n in groups else number for n, number in shared})
