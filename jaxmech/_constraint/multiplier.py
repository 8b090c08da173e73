"""What a constraint with multipliers is: an equation of one element, and the unknown forces that hold it."""

import abc
from collections.abc import Sequence

from equinox import AbstractVar

from .._runtime.array_types import Array, Float
from .._runtime.field_types import Parameter
from .._scene.component import Component
from .._scene.dof import AbstractDof
from .._scene.parameter import check_parameters
from .._scene.stencil import Stencils


class AbstractMultiplierConstraint(Component):
    """An equation `g(x) = C lambda` of **one** element, with multipliers `lambda` that are unknowns of the system.

    `on` says what nodes `g` reads, one stencil for each argument, of any states, mapped too. `multiplier` `(state, (e,))`
    names the node, of a main state of its own, that holds the multipliers of each element: `Vec1` for one equation, `Vec2`,
    `Vec3` for two and three. `compliance` `C` [m/N], 0 for a constraint that does not give. The energy is
    `lambda . g(x) - lambda . C lambda / 2` [J]; the forces `-(dg/dx)^T lambda`, the matrix `(K, J^T; J, -C)` and the
    geometric stiffness `lambda . d2g/dx2` are derived. `g` [m] has multipliers [N], `g` [rad] [N m].

    In statics `g = C lambda` holds at the solution. In a time step multipliers are taken at its end: `g(x1) = C lambda1` by
    `ImplicitEuler(newton=True)`, and to first order in `h v1` without; it is asked for anew in every step, so that
    violations do not add up. Multipliers have no mass, and their velocities in a `State` are their rates.
    Raises `TypeError` where `element_constraint` is not defined, `ValueError` for a `multiplier` that does not name one node
    per element; `System` for a state of another size, a multiplier named twice or by nothing, a mass on it.
    Source: C. Lanczos, *The Variational Principles of Mechanics*, 4th ed., 1970, ISBN 978-0-486-65067-8, chapter 2.12; E.
    Hairer and G. Wanner, *Solving Ordinary Differential Equations II*, 1996, doi:10.1007/978-3-642-05221-7, chapter VII.

    Example:

        class OnCircle(jm.constraint.AbstractMultiplierConstraint):  # |x| = R
            on: jm.Stencils = jm.stencils()
            multiplier: jm.Stencils = jm.stencils()
            radius: jm.Parameter = jm.parameter()  # [m]
            compliance: jm.Parameter = jm.parameter(default=0.0)

            def element_constraint(self, x):
                return (jnp.linalg.norm(x) - self.radius)[None]

        ring = OnCircle(("bead", [0]), ("tension", [0]), 2.0)
        weight = jm.force.ConstantForce(("bead", [0]), [0.0, -10.0])
        dofs = {"bead": jm.Vec2(), "tension": jm.Vec1()}
        scene = jm.System(dofs, forces={"weight": weight}, constraints={"ring": ring})
        down = jm.static_solve(scene, scene.at_rest({"bead": [[0.1, -1.9]], "tension": [[1.0]]}))
        assert jnp.allclose(down.position["bead"], jnp.array([[0.0, -2.0]]))
        assert jnp.allclose(down.position["tension"], 10.0)  # [N]
    """

    on: AbstractVar[Stencils]
    multiplier: AbstractVar[Stencils]
    compliance: AbstractVar[Parameter]

    def __check_init__(self):
        owner = type(self).__name__
        if len(self.multiplier) != 1 or self.multiplier[0].nodes.ndim != 1:
            raise ValueError(f"{owner}: multiplier must be (state, nodes) with one node per element, shape (e,).")
        if self.multiplier[0].elements != self.on[0].elements:
            raise ValueError(
                f"{owner}: multiplier names {self.multiplier[0].elements} nodes for {self.on[0].elements} elements; one "
                "each is needed."
            )
        check_parameters(self, self.on)

    def check_dofs(self, dofs: Sequence[AbstractDof]) -> None:
        """Raise `ValueError` where the equation does not fit the degrees of freedom of `on`."""
        del dofs

    @abc.abstractmethod
    def element_constraint(self, *x: Array) -> Float[Array, " m"]:
        """`g` of one element from the positions of its nodes, one array per stencil of `on`; as many as multipliers."""
