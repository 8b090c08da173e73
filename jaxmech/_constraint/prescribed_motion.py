"""Nodes that are moved."""

import equinox as eqx
import jax
import jax.numpy as jnp

from .._runtime.array_types import Array, Float
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .._scene.stencil import Stencils, stencils
from .fixed_components import as_components
from .motion import AbstractMotion


class PrescribedMotion(AbstractMotion):
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

    @property
    def table(self) -> tuple[str, Array]:
        return "displacements", self.displacements

    def element_displacement(self, time: Array) -> Float[Array, " d"]:
        return jax.vmap(lambda values: jnp.interp(time, self.times, values), in_axes=1)(self.displacements)
