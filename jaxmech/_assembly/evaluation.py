"""What the components of a scene have at one state, each evaluated when it is first asked for and never again."""

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

from .._codegen import AbstractElementSums
from .._model.dynamics import Fields, applied_forces, field_force, kinematics, map_velocity, pull_back, zero_forces
from .._model.mapping_jacobian import (
    Jacobian,
    geometric_blocks,
    handed_down,
    mapped_forces,
    mapping_jacobian,
    on_mapped,
    velocity_jacobian,
)
from .._model.subsystem import weightless, without_idle
from .._model.system import State, System
from .._runtime.array_types import Array
from .element_matrices import Blocks, element_matrices, stiffness_and_force


class Evaluation:
    """Element matrices, Jacobians and geometric stiffness at a state, shared by all the matrices made from them.

    It lives within one trace, or one eager call. `mappings`: those whose Jacobian will be asked for; `forces`: the force
    fields whose forces will be, which come with their stiffness for less than alone.
    """

    def __init__(self, system: System, state: State, mappings: Collection[str], forces: Collection[str] = ()):
        self._wanted = frozenset(forces)
        self.system = without_idle(system)
        self.x: Fields = kinematics(self.system, state.position)
        self.jacobians: dict[str, Jacobian] = {n: mapping_jacobian(system, n, self.x) for n in sorted(mappings)}
        self.v: Fields = dict(state.velocity)
        for name in self.system.mapping_order:
            mapping = self.system.mappings[name]
            if name in self.jacobians:
                self.v[mapping.child] = handed_down(self.system, name, self.jacobians[name], self.v)
            else:
                self.v[mapping.child] = map_velocity(mapping, self.system.dofs, self.x, self.v)
        self._done: dict[tuple[Any, ...], Any] = {}

    def element_matrices(
        self, name: str, kind: str, halves: tuple[int, ...] = (), sums: AbstractElementSums | None = None
    ) -> Blocks:
        """`K`, `B` or `M` of every element of one component, or its sums over the elements; see `_assembly`."""

        def evaluate() -> Blocks:
            if kind != "stiffness" or name not in self._wanted:
                return element_matrices(self.system, name, kind, self.x, self.v, halves, sums)
            blocks, force = stiffness_and_force(self.system, name, self.x, self.v, halves, sums)
            self._done["force", name] = force
            return blocks

        return self._once((kind, name, halves, sums is None), evaluate)

    def geometric_blocks(self, name: str, form: str) -> Blocks:
        """`G` of every child node of one mapping, in one of its forms."""
        child = self.system.mappings[name].child
        return self._once((form, name), lambda: geometric_blocks(self.system, name, self.x, self.forces[child], form))

    def velocity_jacobian(self, name: str) -> Jacobian:
        """`d(J v)/dq` of every child node of one mapping."""
        return self._once(("turning", name), lambda: velocity_jacobian(self.system, name, self.x, self.v))

    @cached_property
    def forces(self) -> Fields:
        """The forces on the mapped states."""
        known = self._forces_of_elements(on_mapped(self.system, self.system.forces))
        return mapped_forces(self.system, self.x, self.v, self.jacobians, known=known)

    def total_force(self, *, weights: bool = True) -> Fields:
        """The force on the main states; `weights`: with them."""
        zero, acted_on = zero_forces(self.system, self.x), self.system if weights else weightless(self.system)
        acting = applied_forces(acted_on, self.x, zero, self.v, self._forces_of_elements(self.system.forces))
        main = {s: zero[s] for s in self.system.main_states}
        return pull_back(self.system, self.x, main, lambda _: acting) if self.system.mappings else acting

    def _forces_of_elements(self, names: Collection[str]) -> dict[str, tuple[Array, ...]]:
        zero = zero_forces(self.system, self.x)

        def evaluate(name: str) -> tuple[Array, ...]:
            return field_force(self.system, self.system.forces[name], self.x, zero, self.v)

        return {name: self._once(("force", name), lambda name=name: evaluate(name)) for name in names}

    def _once(self, key: tuple[Any, ...], evaluate: Callable[[], Any]) -> Any:
        if key not in self._done:
            self._done[key] = evaluate()
        return self._done[key]
