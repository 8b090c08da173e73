"""What a linear system is: it turns a scene at a state into the operator that a linear solver takes."""

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx
import lineax as lx
from equinox import AbstractVar

from .._model.arguments import checked
from .._model.dynamics import Fields, momentum, total_force
from .._model.subsystem import weightless
from .._model.system import State, System
from .._model.terms import Factors, Terms
from .._sparse.block_matrix import BlockMatrix
from .compatibility import BuiltFor, check_topology, no_attribute


class AbstractLinearSystem(eqx.Module):
    """`assemble(system, state, factors)` gives the operator `m M + b B + k K + g G + c C` of a scene at a state.

    `K = -df/dx`, `B = -df/dv`, `M = d2T/dv2`, `G` the geometric stiffness of mappings, `C` the Rayleigh damping of
    components; on the main states. `unconstrained` is `A`, `constrain` makes it `P A P + (I - P)`, `assemble` is both.
    What is worth keeping from step to step (a constant part, a matrix for a preconditioner) is no part of this object, but
    of the carry of an integrator: `init` makes it, `updated` brings it up to date before a step, `using` is this linear
    system with it.
    Units: those of the factors, `K` [N/m] alone. `assemble` raises `ValueError` for a scene it does not fit.
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (combinations of `M`, `B` and `K`).

    Example:

        M = linear_system.assemble(system, state, jm.Factors.only("mass"))
        assert isinstance(linear_system, jm.solver.AbstractLinearSystem) and M.to_dense().shape == (24, 24)
        whole = linear_system.unconstrained(system, state, jm.Factors.only("mass")).to_dense()
        assert jnp.allclose(whole.sum(), 3000.0)  # a tonne in each direction [kg]
    """

    terms: AbstractVar[Terms]

    @abc.abstractmethod
    def assemble(self, system: System, state: State, factors: Factors = Factors()) -> lx.AbstractLinearOperator:
        """The operator, projective constraints included if `terms.constrained`."""

    @abc.abstractmethod
    def unconstrained(self, system: System, state: State, factors: Factors = Factors()) -> lx.AbstractLinearOperator:
        """The operator before projective constraints."""

    @abc.abstractmethod
    def constrain(self, system: System, operator: lx.AbstractLinearOperator) -> lx.AbstractLinearOperator:
        """`P A P + (I - P)`."""

    @property
    def built_for(self) -> BuiltFor | None:
        """The scene that this was built for, which `check_topology` compares with another. None: it serves every scene."""
        return None

    @checked
    def linearized(
        self, system: System, state: State, factors: Factors = Factors(), *, weights: bool = True
    ) -> tuple[lx.AbstractLinearOperator, Fields]:
        """`unconstrained`, and the force on the main states [N, N m]; together they may cost less than apart.

        `weights`: whether gravity has a part in the force.
        """
        return self.unconstrained(system, state, factors), total_force(system if weights else weightless(system), state)

    @checked
    def momentum(self, system: System, state: State, velocity: Fields) -> Fields:
        """`M u` of the main states, of any velocities `u`; by what is kept of the matrix, if that has all masses."""
        check_topology(f"this {type(self).__name__}", self.built_for, system)
        return momentum(system, state.position, velocity)

    def kept_masses(self, system: System) -> BlockMatrix | None:
        """The mass matrix before constraints, if all of it is kept from step to step; None unless overridden."""
        del system

    def as_products(self, system: System, state: State, factors: Factors = Factors()) -> lx.AbstractLinearOperator:
        """What `unconstrained` gives, to be differentiated: products with it, in the form whose derivatives cost least."""
        return self.unconstrained(system, state, factors)

    @abc.abstractmethod
    def is_exact(self, system: System) -> bool:
        """Whether the stiffness leaves out nothing of the derivative of the force."""

    @checked
    def is_rate_of_force(self, system: System) -> bool:
        """Whether `-K` and `-B` are the derivatives of `total_force` at the very state. Static; False unless overridden."""
        del system
        return False

    def is_constant(self) -> bool:
        """Whether no motion changes the matrix, so that one factor serves every step. Static; False unless overridden."""
        return False

    @checked
    def init(self, system: System, state: State) -> Any:
        """What is kept from step to step of a motion that begins at `state`, a pytree; None, unless overridden: nothing.

        Made of the numbers of this very scene: another one has its own.
        """
        del state
        check_topology(f"this {type(self).__name__}", self.built_for, system)

    @property
    def has_updates(self) -> bool:
        """Whether what is kept changes from step to step. Static; False unless overridden."""
        return False

    @checked
    def updated(self, system: System, state: State, carry: Any, factors: Factors) -> Any:
        """What is kept, ready for a step from `state` whose matrix has these factors; itself unless overridden."""
        del state, factors
        check_topology(f"this {type(self).__name__}", self.built_for, system)
        return carry

    @checked
    def revalued(self, system: System, state: State, carry: Any) -> Any:
        """What is kept, for a scene whose numbers have changed since: `init`, unless overridden."""
        del carry
        return self.init(system, state)

    def using(self, carry: Any) -> "AbstractLinearSystem":
        """This linear system with what `init` and `updated` gave in place of evaluating it.

        Itself unless overridden; raises `TypeError` for a carry that it has not made.
        """
        if carry is not None:
            raise TypeError(f"{type(self).__name__} keeps nothing: the carry must be None, got {carry!r:.80}.")
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(no_attribute(self, name))
