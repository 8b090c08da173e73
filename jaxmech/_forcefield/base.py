"""What a force field is: the energy, or the force, of one element."""

import abc
from collections.abc import Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
from equinox import AbstractVar

from .._runtime.array_types import Array, Scalar
from .._scene.component import Component
from .._scene.dof import AbstractDof, Vec1, Vec2, Vec3
from .._scene.internal import has_own_internal
from .._scene.parameter import check_parameters
from .._scene.stencil import Stencils

Arrays = tuple[Array, ...]
_OF_SOFA = {"addForce", "addDForce", "addKToMatrix", "addBToMatrix", "buildStiffnessMatrix", "buildDampingMatrix"}


class AbstractForceField(Component):
    """A force described on **one** element; `self` holds that element's parameters.

    `on` says which nodes each element touches: one stencil per group of nodes, of the same state or of different ones
    (an interaction is not a special case). Stiffness `-df/dx` and damping `-df/dv` are derived, and so is which of them
    exists at all. A class that gives a tangent of its own (`element_stiffness`; of energies `element_gradient`,
    `element_hessian` or `element_derivatives`) is taken to approximate it, unless it says `tangent_is_exact = True`:
    Newton's method iterates with it, and derivatives of solutions take the exact one, which is that of the force.
    A symmetric `element_stiffness` that says `stiffness_is_symmetric = True` is computed and summed by halves.
    `x` [m], `v` [m/s] and the force [N] (of frames rotations too: [rad], [rad/s], [N m]) have one array per stencil. Raises
    `TypeError` where `element_force` is not defined, `ValueError` for numbers that fit neither one element nor all.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapters 1 to 3.

    Example:

        class QuadraticDrag(jm.force.AbstractForceField):  # f = -c |v| v
            on: tuple = jm.stencils()
            c: jax.Array = jm.parameter()  # [N s^2/m^2]

            def element_force(self, x, v):
                return (-self.c * jnp.abs(v[0]) * v[0],)

        scene = jm.System({"p": jm.Vec1()}, forces={"drag": QuadraticDrag(("p", [0]), 2.0)})
        moving = jm.State({"p": jnp.zeros((1, 1))}, {"p": jnp.array([[3.0]])}, jnp.zeros(()))
        assert jnp.allclose(jm.total_force(scene, moving)["p"], -18.0)  # [N]
    """

    tangent_is_exact = True
    stiffness_is_symmetric = False
    undefined_when = "inverted"  # what an element is where `element_is_valid` is False, in words

    on: AbstractVar[Stencils]

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        old = sorted(_OF_SOFA & vars(cls).keys())
        if old:
            raise TypeError(
                f"{cls.__name__} defines {', '.join(old)}, as force fields of SOFA do. Here it says the force of one "
                "element, element_force(x, v), or its energy, element_energy(x); stiffness and damping are derived. A "
                "tangent of its own is element_stiffness(x, v)."
            )

    def __check_init__(self):
        check_parameters(self, self.on, self.quadrature_points)
        if has_own_internal(self) and type(self).element_update is AbstractForceField.element_update:
            raise TypeError(
                f"{type(self).__name__} has internal variables, but no element_update that says how they change."
            )

    @property
    def multiplier_states(self) -> tuple[str, ...]:
        """The states of which the energy is a maximum and not a minimum, such as pressures: the matrix is indefinite."""
        return ()

    @property
    def quadrature_points(self) -> int | None:
        """How many Gauss points an element has at which its material may have numbers of its own. None: it has no such."""
        return None

    @abc.abstractmethod
    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        """The force [N] (and torque [N m]) on the nodes of each stencil, in the shape of their velocities.

        `x`, `v`: positions and velocities, one array per stencil, `(c,)` or `(k, c)`.
        """

    def element_stiffness(self, x: Arrays, v: Arrays) -> tuple[Arrays, ...]:
        """`-df/dx` [N/m] of one element, blocks `[s][t]` of shape `(*x[s].shape, *x[t].shape)`.

        The plain definition is for points; where frames turn, the derivative in the chart is taken. One that overrides it
        gives blocks of tangent vectors, `(*v[s].shape, *v[t].shape)`, of frames in world axes.
        """
        return jax.tree.map(jnp.negative, jax.jacfwd(lambda y: self.element_force(y, v))(x))

    def element_update(self, x: Arrays, v: Arrays) -> dict[str, Array]:
        """The internal variables, by name, where an element that has arrived at `x` with `v` is accepted.

        `self` holds those of the step before, and the time step if it declares one (`time_step()`). To be overridden where
        there are any (`internal()`); those that are left out stay as they are.
        """
        del x, v
        return {}

    def stiffest(self) -> "AbstractForceField":
        """The field of its stiffest states, itself unless overridden: of a contact, the one that is closed everywhere.

        The critical step of explicit schemes is that of this one.
        """
        return self

    def check_dofs(self, dofs: Sequence[AbstractDof]) -> None:
        """Raise `ValueError` where the degrees of freedom of the stencils are not what the law is written for."""
        del dofs

    def element_is_valid(self, *x: Array) -> Any:
        """Whether the law is defined here; `False` where, say, an inverted element has no logarithm."""
        del x
        return jnp.array(True)


class AbstractEnergyForceField(AbstractForceField):
    """A force field with an energy `E` [J], and possibly a dissipation `D` [W]: `f = -dE/dx - dD/dv` [N].

    Its stiffness is the Hessian of `E`, symmetric by construction, and its damping that of `D`. A dissipation that depends
    on positions adds `d(dD/dv)/dx` to the stiffness, which is not symmetric where nodes move.
    Raises `TypeError` where `element_energy` is not defined, `ValueError` for numbers that fit neither one element nor all.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, section 1.5.

    Example:

        class Stiffening(jm.force.AbstractEnergyForceField):  # E = k/4 q^4
            on: tuple = jm.stencils()
            k: jax.Array = jm.parameter()  # [N/m^3]

            def element_energy(self, q):
                return 0.25 * self.k * q[0] ** 4

        scene = jm.System({"q": jm.Vec1()}, forces={"spring": Stiffening(("q", [0]), 2.0)})
        assert jnp.allclose(jm.total_force(scene, scene.at_rest({"q": [[3.0]]}))["q"], -54.0)  # -k q^3 [N]
    """

    tangent_is_exact = True

    @property
    def is_dissipative(self) -> bool:
        """Whether `element_dissipation` is more than nothing. Static; `is_dissipative = True` in a class will do."""
        return False

    @abc.abstractmethod
    def element_energy(self, *x: Array) -> Scalar:
        """The energy [J] of one element from the positions of its nodes, one array per stencil."""

    def element_at(self, *x: Array) -> Self:
        """The element of which derivatives at `x` are taken, itself unless overridden.

        For a law that remembers nothing but axes, which go along with the nodes (a rod's, which do not turn about it): with
        these carried to `x`, as `element_update` carries them once a step is accepted. Held there, a virtual displacement
        turns nothing by itself.
        """
        del x
        return self

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        """Rayleigh's dissipation function `D` [W]: the damping force is `-dD/dv`. Nothing unless overridden."""
        del x, v
        return jnp.zeros(())

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        """Minus the gradient of the energy and of the dissipation, where coordinates form a vector space."""
        force = jax.tree.map(jnp.negative, self.element_gradient(*x))
        if self.is_dissipative:
            force = jax.tree.map(jnp.subtract, force, jax.grad(lambda u: self.element_dissipation(x, u))(v))
        return force

    def element_stiffness(self, x: Arrays, v: Arrays) -> tuple[Arrays, ...]:
        """`element_hessian`, and of a dissipation `d(dD/dv)/dx`."""
        stiffness = self.element_hessian(*x)
        if self.is_dissipative:
            drag = jax.jacfwd(lambda y: jax.grad(lambda u: self.element_dissipation(y, u))(v))
            stiffness = jax.tree.map(jnp.add, stiffness, drag(x))
        return stiffness

    def element_gradient(self, *x: Array) -> Arrays:
        """`dE/dx` of one element, blocks `[s]` of the shape of `x[s]`: the plain definition, see `element_hessian`."""
        return jax.grad(lambda y: self.element_energy(*y))(x)

    def element_hessian(self, *x: Array) -> tuple[Arrays, ...]:
        """`d2E/dx2` of one element, blocks `[s][t]` of shape `(*x[s].shape, *x[t].shape)`.

        The plain definition. A field whose energy has a structure worth using (a density of a deformation gradient that
        is linear in the positions) overrides it with the same matrix, computed faster, and says `tangent_is_exact = True`.
        One whose matrix is another (a modified Newton method's) does not. It must be symmetric.
        """
        return jax.hessian(lambda y: self.element_energy(*y))(x)

    def element_derivatives(self, *x: Array) -> tuple[Arrays, tuple[Arrays, ...]]:
        """`element_gradient` and `element_hessian`; together they may cost less than one after the other."""
        return self.element_gradient(*x), self.element_hessian(*x)


_TANGENTS = ("element_stiffness", "element_gradient", "element_hessian", "element_derivatives")


def tangent_is_exact(field: AbstractForceField) -> bool:
    """Whether the stiffness of a force field is the derivative of its force, as far as its class says."""
    return _promised(field, "tangent_is_exact", _TANGENTS)


def stiffness_is_symmetric(field: AbstractForceField) -> bool:
    """Whether a class that overrides `element_stiffness` says that it is symmetric."""
    return _promised(field, "stiffness_is_symmetric", ("element_stiffness",))


def _promised(field: AbstractForceField, promise: str, tangents: tuple[str, ...]) -> bool:
    """Whoever overrides a tangent says so anew: what a parent class says of its own is no promise for another's."""
    owners = (owner for owner in type(field).__mro__ if any(name in vars(owner) for name in (promise, *tangents)))
    return promise in vars(next(owners)) and bool(getattr(field, promise))


def goes_along(field: AbstractForceField) -> bool:
    """Whether derivatives are taken of an element that depends on where: they are those of a chart, as of frames."""
    is_energy = isinstance(field, AbstractEnergyForceField)
    return is_energy and type(field).element_at is not AbstractEnergyForceField.element_at


def has_own_stiffness(field: AbstractForceField) -> bool:
    """Whether a class overrides `element_stiffness` itself."""
    plain = AbstractForceField.element_stiffness, AbstractEnergyForceField.element_stiffness
    return type(field).element_stiffness not in plain


def points_only(field: AbstractForceField, dofs: Sequence[AbstractDof]) -> None:
    """Raise `ValueError` unless every degree of freedom is a point, all of the same dimension."""
    if not all(isinstance(dof, Vec1 | Vec2 | Vec3) for dof in dofs) or len({dof.coord_size for dof in dofs}) > 1:
        kinds = [type(dof).__name__ for dof in dofs]
        raise ValueError(f"{type(field).__name__} acts on points (Vec1, Vec2, Vec3) of one dimension, not on {kinds}.")
