"""What the components of a scene have at one state, each evaluated when it is first asked for and never again."""

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

from ._assembly import Blocks, element_matrices
from ._dynamics import Fields, kinematics, map_velocity, without_idle
from ._mapping_blocks import (
    Jacobian,
    geometric_blocks,
    handed_down,
    mapped_forces,
    mapping_jacobian,
    velocity_jacobian,
)
from ._straight_line.chunks import AbstractChunkSums
from ._system import State, System


class Evaluation:
    """Element matrices, Jacobians and geometric stiffness at a state, shared by all the matrices made from them.

    It lives within one trace, or one eager call. `mappings`: those whose Jacobian will be asked for.
    """

    def __init__(self, system: System, state: State, mappings: Collection[str]):
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
        self._done: dict[tuple[str, ...], Any] = {}

    def element_matrices(self, name: str, kind: str, sums: AbstractChunkSums | None) -> Blocks:
        """`K`, `B` or `M` of every element of one component, or its sums over chunks of elements."""
        key = (kind, name, "of elements" if sums is None else "of chunks")
        return self._once(key, lambda: element_matrices(self.system, name, kind, self.x, self.v, sums))

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
        return mapped_forces(self.system, self.x, self.v, self.jacobians)

    def _once(self, key: tuple[str, ...], evaluate: Callable[[], Any]) -> Any:
        if key not in self._done:
            self._done[key] = evaluate()
        return self._done[key]
