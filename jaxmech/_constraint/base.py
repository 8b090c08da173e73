"""What a projective constraint is: directions in which a node may not move freely."""

import abc
from collections.abc import Sequence
from typing import ClassVar

import jax.numpy as jnp
from equinox import AbstractVar

from .._runtime.array_types import Array, Float
from .._scene.component import Component
from .._scene.dof import AbstractDof
from .._scene.parameter import check_parameters
from .._scene.stencil import Stencils


class AbstractProjectiveConstraint(Component):
    """A projector `P` of **one** node: displacements `P d` are free, `(I - P) d` is prescribed.

    Symmetric (`P = P^T`) and idempotent (`P = P^2`), so that points, axes and planes are the same code, and the
    assembled system stays symmetric: `A <- P A P + (I - P)`, `b <- P (b - A u) + (I - P) u`.
    Displacements `d` [m, rad]. Raises `TypeError` where `element_projector` is not defined, `ValueError` unless
    `on=(state, nodes)` names one node per constraint.
    Source: D. Baraff and A. Witkin, "Large steps in cloth simulation", SIGGRAPH 1998, doi:10.1145/280814.280821, section 5.

    Example:

        class NoSpin(jm.constraint.AbstractProjectiveConstraint):  # frames that move, but do not turn
            on: tuple = jm.stencils()

            def element_projector(self, dof):
                return jnp.diag(jnp.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]))

        P = NoSpin(("frame", [0])).element_projector(jm.Rigid3())
        assert jnp.allclose(P @ P, P) and P.shape == (6, 6)
    """

    on: AbstractVar[Stencils]
    is_homogeneous: ClassVar[bool] = True  # the prescribed displacement is zero
    always_projects: ClassVar[bool] = False  # whether `P` is a projector whatever the numbers; a scene looks at it, unless

    @property
    def kind(self) -> str:
        """What it is called in messages, and known as by a linear system."""
        return type(self).__name__

    def __check_init__(self):
        owner = type(self).__name__
        if len(self.on) != 1 or self.on[0].nodes.ndim != 1:
            raise ValueError(f"{owner}: on must be (state, nodes) with one node per constraint, shape (e,).")
        check_parameters(self, self.on)

    def check_dofs(self, dofs: Sequence[AbstractDof]) -> None:
        """Raise `ValueError` where the constraint does not fit the degrees of freedom it acts on."""
        del dofs

    @abc.abstractmethod
    def element_projector(self, dof: AbstractDof) -> Float[Array, "d d"]:
        """`P`, on the tangent space of `dof`."""

    def free_components(self, dof: AbstractDof) -> tuple[bool, ...] | None:
        """Which components are free where `P` is `diag(free)` of every node, whatever the numbers of the constraint: vectors
        are then projected by one product. None of any other `P`, and by default."""
        del dof

    def element_target(self, dof: AbstractDof, x: Float[Array, " c"], time: Array) -> Float[Array, " d"]:
        """The displacement that takes the node from `x` to where it is prescribed to be at `time`; zero by default."""
        del x, time
        return jnp.zeros(dof.deriv_size)
