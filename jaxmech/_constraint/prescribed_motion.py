"""Nodes that are moved."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._math.rotation import have_unit_quaternions
from .._runtime.array_types import Array, Float
from .._runtime.field_types import Parameter
from .._scene.dof import AbstractDof
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractProjectiveConstraint
from .fixed_components import as_components


class PrescribedMotion(AbstractProjectiveConstraint):
    """Moves nodes to `retract(reference, u(t))`, `u` linear between key frames and constant beyond them.

    `reference` `(e, c)`: where the nodes are without displacement. `displacements` [m, rad]: `(T, d)` for all the nodes,
    or `(e, T, d)`; `times` `(T,)` [s], increasing. `components`: which are moved (all, unless given); the others are
    free. The boundary values are leaves like any other. Raises `ValueError` for times that do not increase or shapes
    that do not fit.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4 (boundary conditions).

    Example:

        path = {"displacements": [[0.0, 0.0], [0.0, 2.0]], "times": [0.0, 1.0]}
        lift = jm.constraint.PrescribedMotion(("p", [0]), [[0.0, 0.0]], **path)
        spring = jm.force.Springs((("p", [0]), ("p", [1])), 10.0, 1.0)
        constrained = {"lift": lift, "nail": jm.constraint.Fixed(("p", [1]))}
        scene = jm.System({"p": jm.Vec2()}, forces={"spring": spring}, constraints=constrained)
        half = jm.static_solve(scene, scene.at_rest({"p": [[0.0, 0.0], [0.0, 5.0]]}, time=0.5))  # [s]
        assert jnp.allclose(half.position["p"][0], jnp.array([0.0, 1.0]))  # [m]
    """

    on: Stencils = stencils()
    reference: Parameter = parameter(ndim=1)
    displacements: Parameter = parameter(ndim=2)
    times: Parameter = parameter(ndim=1, default=(0.0,))
    components: tuple[bool, ...] | None = eqx.field(
        static=True, default=None, converter=lambda c: c if c is None else as_components(c)
    )
    is_homogeneous = False

    def __check_init__(self):
        shapes = [getattr(a, "shape", ()) for a in (self.displacements, self.times)]
        if len(shapes[0]) < 2 or shapes[1] != shapes[0][-2:-1]:
            raise ValueError(
                f"PrescribedMotion: displacements {shapes[0]} and times {shapes[1]} must be (T, d) or (e, T, d) and (T,)."
            )
        check_range(self, times=(self.times, lambda t: np.append(True, np.diff(t) > 0), "increasing"))
        if getattr(self.reference, "shape", ())[-1:] == (7,):
            check_range(self, reference=(self.reference, have_unit_quaternions, "frames with quaternions of unit length"))

    def check_dofs(self, dofs: Any) -> None:
        size = dofs[0].deriv_size
        if self.displacements.shape[-1] != size or self.reference.shape[-1] != dofs[0].coord_size:
            raise ValueError(
                f"displacements {self.displacements.shape} and reference {self.reference.shape} must have {size} and "
                f"{dofs[0].coord_size} components."
            )
        if self.components is not None and len(self.components) != size:
            raise ValueError(f"components has {len(self.components)} entries, expected {size}.")

    def element_projector(self, dof: AbstractDof) -> Array:
        moved = (True,) * dof.deriv_size if self.components is None else self.components
        return jnp.diag(jnp.array([0.0 if constrained else 1.0 for constrained in moved]))

    def element_target(self, dof: AbstractDof, x: Float[Array, " c"], time: Array) -> Array:
        u = jax.vmap(lambda values: jnp.interp(time, self.times, values), in_axes=1)(self.displacements)
        return dof.local(x, dof.retract(self.reference, u))
