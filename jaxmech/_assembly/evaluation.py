"""The first part of the pass: what the components of a scene have at one state, each evaluated once.

What is wanted is said before (`Wanted`), by each matrix that will be made; what is found is values (`LocalValues`).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from .._codegen import AbstractElementSums
from .._model.dynamics import Fields, applied_forces, given_forces, kinematics, map_velocity
from .._model.internal import with_internal
from .._model.mapping_jacobian import (
    Jacobian,
    geometric_blocks,
    handed_down,
    mapped_forces,
    mapping_jacobian,
    velocity_jacobian,
)
from .._model.on_main_states import on_main_states
from .._model.scene_checks import check_forces
from .._model.subsystem import weightless, without_unloaded
from .._model.system import State, System
from .._scene.nodal_sums import Given
from .element_matrices import Blocks, element_matrices, matrices_of_several, node_blocks, stiffness_and_force
from .structure import MatrixKind


@dataclass(frozen=True)
class LocalMatrix:
    """One matrix of one component, in the form in which it is wanted."""

    component: str
    kind: MatrixKind
    upper: tuple[int, ...] = ()  # the stencils of whose own matrices the upper triangle is wanted
    summed: bool = False  # over the elements


@dataclass(frozen=True)
class Wanted:
    """What is to be evaluated. `a | b` is what serves both: nothing in it is evaluated twice."""

    matrices: Mapping[LocalMatrix, AbstractElementSums | None] = field(default_factory=dict)  # and the plan of their sums
    forces: frozenset[str] = frozenset()  # force fields; their forces come with their stiffness for less than alone
    jacobians: frozenset[str] = frozenset()  # mappings
    rates: frozenset[str] = frozenset()  # mappings whose `d(J v)/dq` is wanted
    geometric: frozenset[tuple[str, str]] = frozenset()  # mappings, and the form of their geometric stiffness

    def __or__(self, other: "Wanted") -> "Wanted":
        return Wanted(
            {**self.matrices, **other.matrices},
            self.forces | other.forces,
            self.jacobians | other.jacobians,
            self.rates | other.rates,
            self.geometric | other.geometric,
        )


@dataclass(frozen=True)
class LocalValues:
    """What was wanted, of a scene at a state: without factors, on the states that the components name."""

    system: System  # without the mapped states that nothing acts on
    x: Fields
    v: Fields
    matrices: Mapping[LocalMatrix, Blocks]
    forces: Mapping[str, Given]  # by force field
    jacobians: Mapping[str, Jacobian]
    rates: Mapping[str, Jacobian]  # `d(J v)/dq`
    geometric: Mapping[tuple[str, str], Blocks]


def evaluate(system: System, state: State, wanted: Wanted) -> LocalValues:
    """Every local matrix, force and Jacobian that is wanted."""
    # Whoever was given the state has compared its internal variables with the scene (`check_inputs`).
    remembers = state.internal or system.multiplier_constraints  # ... or follows the time of the state
    system = without_unloaded(with_internal(system, state) if remembers else system)
    check_forces(system, {name: field for name, field in system.force_fields.items() if name in wanted.forces})
    x = kinematics(system, state.position)
    jacobians = {name: mapping_jacobian(system, name, x) for name in sorted(wanted.jacobians)}
    v = _velocities(system, state, x, jacobians)
    matrices, forces = _of_elements(system, x, v, wanted)
    rates = {name: velocity_jacobian(system, name, x, v) for name in sorted(wanted.rates)}
    geometric = {}
    if wanted.geometric:
        acting = mapped_forces(system, x, v, jacobians, known=forces)
        for name, form in sorted(wanted.geometric):
            mapping = system.mappings[name]
            blocks = geometric_blocks(system, name, x, acting[mapping.child], form)
            geometric[name, form] = node_blocks(mapping.parents, blocks)
    return LocalValues(system, x, v, matrices, forces, jacobians, rates, geometric)


def _velocities(system: System, state: State, x: Fields, jacobians: Mapping[str, Jacobian]) -> Fields:
    v = dict(state.velocity)
    for name in system.mapping_order:
        mapping = system.mappings[name]
        if name in jacobians:
            v[mapping.child] = handed_down(system, name, jacobians[name], v)
        else:
            v[mapping.child] = map_velocity(mapping, system.dofs, x, v)
    return v


def _of_elements(system: System, x: Fields, v: Fields, wanted: Wanted) -> tuple[dict[LocalMatrix, Blocks], dict[str, Given]]:
    """The local matrices, and the forces: together where both are wanted of one force field."""
    matrices, forces, together, there = {}, {}, defaultdict(list), set()
    for which, sums in wanted.matrices.items():
        first = which.kind is MatrixKind.STIFFNESS and which.component in wanted.forces - there
        there |= {which.component} if first else set()
        together[which.kind, which.upper, first, which if sums is not None else None].append(which)
    for (kind, upper, with_force, _), asked in together.items():
        names, sums = [which.component for which in asked], wanted.matrices[asked[0]]
        if len(names) > 1:
            found = matrices_of_several(system, names, kind, x, v, upper, forces=with_force)
        elif with_force:
            found = [stiffness_and_force(system, *names, x, v, upper, sums)]
        else:
            found = [(element_matrices(system, *names, kind, x, v, upper, sums), None)]
        for which, (blocks, force) in zip(asked, found, strict=True):
            matrices[which] = blocks
            forces |= {which.component: force} if with_force else {}
    others = {name: system.force_fields[name] for name in sorted(wanted.forces - there)}
    return matrices, forces | (given_forces(system, others, x, None, v) if others else {})


def total_force(local: LocalValues, *, weights: bool = True) -> Fields:
    """The force on the main states, of local values that have all forces; `weights`: with them."""
    system, x = local.system, local.x
    acting = applied_forces(system if weights else weightless(system), x, None, local.v, local.forces)
    return on_main_states(system, x, acting)
