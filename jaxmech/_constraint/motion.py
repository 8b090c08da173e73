"""What moves nodes: a displacement as a function of time."""

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar

from .._math.key_frames import if_increasing
from .._math.rotation import have_unit_quaternions
from .._runtime.array_types import Array, Float
from .._runtime.field_types import Parameter
from .._scene.dof import AbstractDof
from .._scene.parameter import check_range
from .base import AbstractProjectiveConstraint


class AbstractMotion(AbstractProjectiveConstraint):
    """Moves nodes to `retract(reference, u(t))`; a subclass says what `u` is, by a table over `times`."""

    reference: AbstractVar[Parameter]
    if TYPE_CHECKING:  # fields, which to checkers would come before the table that a subclass adds
        times: ClassVar[Any]
        components: ClassVar[Any]
    else:
        times: AbstractVar[Parameter]
        components: AbstractVar[tuple[bool, ...] | None]

    is_homogeneous = False

    @property
    @abc.abstractmethod
    def table(self) -> tuple[str, Array]:
        """The name of the field that is given at `times`, and its values `(T, d)`, `(e, T, d)` of all elements."""

    @abc.abstractmethod
    def element_displacement(self, time: Array) -> Float[Array, " d"]:
        """`u` [m, rad] of one element."""

    def __check_init__(self):
        name, values = self.table
        shapes = [getattr(a, "shape", ()) for a in (values, self.times)]
        if len(shapes[0]) < 2 or shapes[1] != shapes[0][-2:-1]:
            raise ValueError(
                f"{type(self).__name__}: {name} {shapes[0]} and times {shapes[1]} must be (T, d) or (e, T, d) and (T,)."
            )
        check_range(self, times=(self.times, lambda t: np.append(True, np.diff(t) > 0), "increasing"))
        if getattr(self.reference, "shape", ())[-1:] == (7,):
            check_range(self, reference=(self.reference, have_unit_quaternions, "frames with quaternions of unit length"))

    def check_dofs(self, dofs: Any) -> None:
        size, (name, values) = dofs[0].deriv_size, self.table
        if values.shape[-1] != size or self.reference.shape[-1] != dofs[0].coord_size:
            raise ValueError(
                f"{name} {values.shape} and reference {self.reference.shape} must have {size} and "
                f"{dofs[0].coord_size} components."
            )
        if self.components is not None and len(self.components) != size:
            raise ValueError(f"components has {len(self.components)} entries, expected {size}.")

    def element_projector(self, dof: AbstractDof) -> Array:
        return jnp.diag(jnp.array([1.0 if free else 0.0 for free in self.free_components(dof)]))

    def free_components(self, dof: AbstractDof) -> tuple[bool, ...]:
        moved = (True,) * dof.deriv_size if self.components is None else self.components
        return tuple(not constrained for constrained in moved)

    def element_target(self, dof: AbstractDof, x: Float[Array, " c"], time: Array) -> Array:
        return dof.local(x, dof.retract(self.reference, if_increasing(self.times, self.element_displacement(time))))
