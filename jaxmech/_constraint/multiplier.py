"""What a constraint with multipliers is: an equation of one element, and the unknown forces that hold it."""

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar

from .._runtime.array_types import Array, Float
from .._scene.component import Component
from .._scene.dof import AbstractDof
from .._scene.parameter import check_parameters, check_range, is_concrete
from .._scene.stencil import Stencils

AT_LEAST_NIL = (lambda c: c >= 0, "at least 0")


class AbstractMultiplierConstraint(Component):
    """An equation `g(x) = C lambda` of **one** element, with multipliers `lambda` that are unknowns of the system.

    `on` says what nodes `g` reads, one stencil for each argument, of any states, mapped too. The multipliers of a constraint
    stand in a state of its name, `(e, rows)`, which the scene makes of it and begins at nil; blocks of matrices are called
    by it. A subclass that declares more may have

    - `multiplier` `(state, (e,))`: the node, of a main state of yours, that holds the multipliers of each element: `Vec1`
      for one equation, `Vec2`, `Vec3` for two and three;
    - `compliance` `C` [m/N], 0 for a constraint that does not give, of the element or `(rows,)`;
    - `relaxation` `tau` [s]: a time step then leaves `g + tau g' = C lambda`, so that what is violated decays as
      `exp(-t / tau)` in place of being taken back at once (Baumgarte), and a compliant row is a spring of `1/C` [N/m] with a
      damper of `tau/C` [N s/m]. Of the element or `(rows,)`; statics asks for `g = C lambda`.

    The energy is `lambda . g(x) - lambda . C lambda / 2` [J]; the forces `-(dg/dx)^T lambda`, the matrix `(K, J^T; J, -C)`
    and the geometric stiffness `lambda . d2g/dx2` are derived. `g` [m] has multipliers [N], `g` [rad] [N m]; `units` names
    those of the rows.

    In statics `g = C lambda` holds at the solution. In a time step it holds at its end, `g(x1) = C lambda1` where Newton's
    method iterates (`newton=True`), and to first order in `h v1` without; it is asked for anew in every step, so that
    violations do not add up. Multipliers have no mass, and their velocities in a `State` are of no meaning. Raises
    `TypeError` where `element_constraint` is not defined, `ValueError` for a `multiplier` that does not name one node per
    element, and negative compliances; `System` for a state of another size, a multiplier named twice or by nothing, a mass
    on it.
    Source: C. Lanczos, *The Variational Principles of Mechanics*, 4th ed., 1970, ISBN 978-0-486-65067-8, chapter 2.12; E.
    Hairer and G. Wanner, *Solving Ordinary Differential Equations II*, 1996, doi:10.1007/978-3-642-05221-7, chapter VII; J.
    Baumgarte, Comput. Methods Appl. Mech. Eng. 1 (1972) 1, doi:10.1016/0045-7825(72)90018-7.

    Example:

        class OnCircle(jm.constraint.AbstractMultiplierConstraint):  # |x| = R
            on: jm.Stencils = jm.stencils()
            radius: jm.Parameter = jm.parameter()  # [m]

            def element_constraint(self, x):
                return jnp.linalg.norm(x) - self.radius

        weight = jm.force.ConstantForce(("bead", [0]), [0.0, -10.0])
        scene = jm.System({"bead": jm.Vec2()}, forces={"weight": weight}, constraints={"ring": OnCircle(("bead", [0]), 2.0)})
        down = jm.static_solve(scene, scene.at_rest({"bead": [[0.1, -1.9]], "ring": [[1.0]]}))
        assert jnp.allclose(down.position["bead"], jnp.array([[0.0, -2.0]]))
        assert jnp.allclose(down.position["ring"], 10.0)  # [N]
    """

    on: AbstractVar[Stencils]

    # What a subclass may declare as a field; a class without has what stands here.
    if TYPE_CHECKING:
        multiplier: ClassVar[Any]
        compliance: ClassVar[Any]
        relaxation: ClassVar[Any]
    else:
        multiplier, compliance, relaxation = None, 0.0, None
    units: ClassVar[tuple[str, ...]] = ("m",)  # of the rows of `g`; the last holds for those that follow
    adds_up: ClassVar[bool] = False  # whether elements that name one multiplier are the terms of one equation
    sides: ClassVar[tuple[str, ...]] = ()  # what an element with `g < 0`, `g > 0` is, where that has a word
    follows_time: ClassVar[bool] = False  # whether `at_time` says something

    @property
    def kind(self) -> str:
        """What it is called in messages, and known as by a linear system."""
        return type(self).__name__

    def __check_init__(self):
        owner = type(self).__name__
        if self.multiplier is not None:
            if len(self.multiplier) != 1 or self.multiplier[0].nodes.ndim != 1:
                raise ValueError(f"{owner}: multiplier must be (state, nodes) with one node per element, shape (e,).")
            if self.multiplier[0].elements != self.on[0].elements:
                raise ValueError(
                    f"{owner}: multiplier names {self.multiplier[0].elements} nodes for {self.on[0].elements} elements; one "
                    "each is needed."
                )
            if self.adds_up and is_concrete(self.multiplier[0].nodes) and np.unique(self.multiplier[0].nodes).size > 1:
                named = np.unique(self.multiplier[0].nodes).tolist()
                raise ValueError(
                    f"{owner}: multiplier names nodes {named}, but its elements are the terms of one equation, expected one "
                    "node for all of them; other equations are constraints of their own."
                )
        check_parameters(self, self.on)
        check_range(self, compliance=(self.compliance, *AT_LEAST_NIL), relaxation=(self.relaxation, *AT_LEAST_NIL))

    def check_dofs(self, dofs: Sequence[AbstractDof]) -> None:
        """Raise `ValueError` where the equation does not fit the degrees of freedom of `on`."""
        del dofs

    @abc.abstractmethod
    def element_constraint(self, *x: Array) -> Float[Array, " m"]:
        """`g` of one element from the positions of its nodes, one array per stencil of `on`; as many as multipliers."""

    def element_compliance(self) -> Any:
        """`C` of one element, a number or one for each row."""
        return self.compliance

    @property
    def element_share(self) -> float:
        """That of one element in its equation: all of it, or as much as each other where they are the terms of one."""
        return 1.0 / self.on[0].elements if self.adds_up else 1.0

    def element_difference(self, g: Array, value: Array) -> Array:
        """By how much a `g` that is to follow a value is off it: `g - value`; of angles, the way round that is shorter."""
        return g - self.element_share * value

    def at_time(self, time: Array) -> "AbstractMultiplierConstraint":
        """The constraint as it is at a time [s]: itself, unless it follows one."""
        del time
        return self

    def rows(self, *x: Array) -> Float[Array, " m"]:
        """`g`, as a vector also where it is one number."""
        return jnp.atleast_1d(self.element_constraint(*x))
