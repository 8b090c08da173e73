"""Several matrices of a scene, assembled in one pass over its elements."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import lineax as lx

from .._assembly.evaluation import Wanted, evaluate
from .._model.arguments import checked
from .._model.dynamics import Fields
from .._model.system import State, System
from .._model.terms import PARTS, Factors, Terms
from .._runtime.argument_checks import check_choice, check_flags, check_instance
from .._sparse.block_matrix import BlockMatrix
from .base import AbstractLinearSystem
from .compatibility import BuiltFor
from .matrix import MatrixLinearSystem, on_its_topology
from .pattern_union import share_pattern

Selection = Terms | Factors | tuple[Terms, Factors]


class CompositeLinearSystem(AbstractLinearSystem):
    """The matrix of the solver, and any others beside it: `{"A": Terms(), "K": Factors.only("stiffness"), ...}`.

    `matrices(system, state, factors)` gives all of them by name: no energy and no Jacobian of a mapping is evaluated
    twice, however many matrices it is in. Where a linear system is expected, this is that of `solver`.

    Make one with `CompositeLinearSystem.build`. A matrix is selected by

    - `Terms`: its parts, with the factors that are asked for (those of a time step, say), constrained as they say;
    - `Factors`: numbers of its own, before constraints; parts whose factor is a plain zero are not in its pattern;
    - `(Terms, Factors)`: both.
    Raises `KeyError` for a matrix that is not there; `build` `ValueError` for an empty selection or a solver without a
    matrix. Units: those of the factors. Source: SOFA's CompositeLinearSystem, as `AbstractLinearSystem`.

    Example:

        both = jm.solver.CompositeLinearSystem.build(system, state, {"A": jm.Terms(), "K": jm.Factors.only("stiffness")})
        matrices = both.matrices(system, state, jm.Factors(1.0, 0.01, 1e-4))
        assert sorted(matrices) == ["A", "K"]
    """

    systems: dict[str, MatrixLinearSystem]
    factors: dict[str, Factors | None]  # None: those that are asked for
    solver: str = eqx.field(static=True)

    @classmethod
    @checked
    def build(
        cls,
        system: System,
        state: State,
        matrices: Mapping[str, Selection],
        *,
        solver: str = "A",
        shared: bool = False,
    ) -> "CompositeLinearSystem":
        """The symbolic phase of every matrix. `shared`: all have the union of their patterns (`share_pattern`).

        Raises `ValueError` for an empty selection and for a `solver` that is not one of the matrices or has factors of its
        own; what `MatrixLinearSystem.build` raises.
        """
        check_flags("CompositeLinearSystem", shared=shared)
        if not isinstance(matrices, Mapping) or not matrices:
            raise ValueError(f"CompositeLinearSystem: matrices must name at least one matrix, got {matrices!r:.80}.")
        for name in matrices:
            check_instance("CompositeLinearSystem", "a name in matrices", name, str)
        chosen = {name: _selected(name, matrices[name]) for name in sorted(matrices)}
        check_choice("CompositeLinearSystem", "solver", solver, matrices)
        if chosen[solver][1] is not None:
            raise ValueError(f"CompositeLinearSystem: '{solver}', the solver's, must be Terms: its factors are asked for.")
        built: dict[Terms, MatrixLinearSystem] = {}
        for terms, _ in chosen.values():
            if terms not in built:
                built[terms] = MatrixLinearSystem.build(system, state, terms)
        if shared:
            built = dict(zip(built, share_pattern(tuple(built.values())), strict=True))
        systems = {name: built[terms] for name, (terms, _) in chosen.items()}
        return cls(systems, {name: factors for name, (_, factors) in chosen.items()}, solver)

    @property
    def terms(self) -> Terms:
        """Those of the solver's matrix."""
        return self.systems[self.solver].terms

    @property
    def built_for(self) -> BuiltFor | None:
        return self.systems[self.solver].built_for

    def __getitem__(self, name: str) -> MatrixLinearSystem:
        if name not in self.systems:
            raise KeyError(f"no matrix '{name}'; there are {sorted(self.systems)}.")
        return self.systems[name]

    @checked
    @on_its_topology
    def matrices(self, system: System, state: State, factors: Factors = Factors()) -> dict[str, BlockMatrix]:
        """Every matrix by name, in one pass. `factors`: of those that have none of their own."""
        self.systems[self.solver].check("this CompositeLinearSystem", system, state)
        wanted = Wanted()
        for one in self.systems.values():
            wanted = wanted | one.wanted(system)
        values = evaluate(system, state, wanted)
        result = {}
        for name, one in self.systems.items():
            own = self.factors[name]
            result[name] = one.constrain(system, one.matrix(values, factors if own is None else own))
        return result

    @checked
    def assemble(self, system: System, state: State, factors: Factors = Factors()) -> BlockMatrix:
        return self.systems[self.solver].assemble(system, state, factors)

    @checked
    def unconstrained(self, system: System, state: State, factors: Factors = Factors()) -> BlockMatrix:
        return self.systems[self.solver].unconstrained(system, state, factors)

    @checked
    def linearized(
        self, system: System, state: State, factors: Factors = Factors(), *, weights: bool = True
    ) -> tuple[BlockMatrix, Fields]:
        return self.systems[self.solver].linearized(system, state, factors, weights=weights)

    @checked
    def momentum(self, system: System, state: State, velocity: Fields) -> Fields:
        return self.systems[self.solver].momentum(system, state, velocity)

    def as_products(self, system: System, state: State, factors: Factors = Factors()) -> lx.AbstractLinearOperator:
        return self.systems[self.solver].as_products(system, state, factors)

    @checked
    def constrain(self, system: System, operator: BlockMatrix) -> BlockMatrix:
        return self.systems[self.solver].constrain(system, operator)

    @checked
    def init(self, system: System, state: State) -> Any:
        """What of each matrix no motion changes, by its name."""
        return {name: one.init(system, state) for name, one in self.systems.items()}

    def using(self, carry: Any) -> "CompositeLinearSystem":
        check_instance("CompositeLinearSystem", "the carry", carry, dict)
        if set(carry) != set(self.systems):
            raise ValueError(
                f"CompositeLinearSystem: the carry is of matrices {sorted(carry)}, not of {sorted(self.systems)}."
            )
        systems = {name: one.using(carry[name]) for name, one in self.systems.items()}
        return CompositeLinearSystem(systems, self.factors, self.solver)

    @checked
    def is_exact(self, system: System) -> bool:
        return self.systems[self.solver].is_exact(system)

    @checked
    def is_rate_of_force(self, system: System) -> bool:
        return self.systems[self.solver].is_rate_of_force(system)

    def is_constant(self) -> bool:
        return self.systems[self.solver].is_constant()


def _selected(name: str, selection: Selection) -> tuple[Terms, Factors | None]:
    """The terms of a matrix, and its own factors if it has any."""
    if isinstance(selection, Terms):
        return selection, None
    if isinstance(selection, Factors):
        return Terms(**{part: selection.has(part) for part in PARTS}, constrained=False), selection
    check_instance("CompositeLinearSystem", f"matrices['{name}']", selection, tuple)
    if len(selection) != 2 or not isinstance(selection[0], Terms) or not isinstance(selection[1], Factors):
        raise TypeError(f"CompositeLinearSystem: matrices['{name}'] must be Terms, Factors or both, got {selection!r:.80}.")
    return selection
