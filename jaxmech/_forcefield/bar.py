"""Bars and cables: lines that resist a change of length."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._math.safe_norm import safe_length
from .._runtime.argument_checks import check_choice
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField, points_only

_STRAINS = ("engineering", "green", "logarithmic")


class Bar(AbstractEnergyForceField):
    """`E = L (N0 e + EA/2 e^2)` [J] of bars between two points, `L` [m] their length at `rest`.

    `strain` `e`: "engineering", `l/L - 1`; "green", `(l^2/L^2 - 1)/2`; "logarithmic", `ln(l/L)`. `axial` `EA` [N];
    `tension` `N0` [N] at rest, 0 unless given (negative: pressed). `on` is `(state, pairs of nodes)`, such as the cells
    of a mesh of kind 'edge'; `rest` `(n, d)` [m]: places of all the nodes of the state; `axial` and `tension` are
    shared, or `(e,)`. For springs of a given length, or damped, see `Springs`. Raises `ValueError` for `axial` not
    positive, another strain, and points of another dimension.
    Source: M. A. Crisfield, *Non-linear Finite Element Analysis of Solids and Structures*, vol. 1, 1991, chapter 3.

    Example:

        ends = [[0.0, 0.0], [2.0, 0.0]]
        bar = jm.force.Bar(("p", [[0, 1]]), ends, axial=100.0, tension=5.0)
        scene = jm.System({"p": jm.Vec2()}, forces={"bar": bar})
        pull = jm.total_force(scene, scene.at_rest({"p": [[0.0, 0.0], [2.2, 0.0]]}))["p"][0, 0]
        assert jnp.allclose(pull, 5.0 + 100.0 * 0.1)  # [N]
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    axial: Parameter = parameter()
    tension: Parameter = parameter(default=0.0)
    strain: str = eqx.field(static=True, default="engineering")

    def __check_init__(self):
        if len(self.on) != 1 or self.on[0].nodes.ndim != 2 or self.on[0].nodes.shape[1] != 2:
            raise ValueError(f"Bar: on must be (state, pairs of nodes), got nodes of shape {self.on[0].nodes.shape}.")
        check_choice("Bar", "strain", self.strain, _STRAINS)
        check_range(self, axial=(self.axial, lambda k: k > 0, "positive"))

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)
        if self.rest.shape[-1] != dofs[0].coord_size:
            raise ValueError(f"Bar: rest has shape {self.rest.shape}, expected {dofs[0].coord_size} coordinates.")

    def element_energy(self, x: Array) -> Scalar:
        length, d = safe_length(self.rest[1] - self.rest[0]), x[1] - x[0]
        square = d @ d / length**2
        if self.strain == "green":
            e = 0.5 * (square - 1)
        elif self.strain == "logarithmic":
            e = 0.5 * jnp.log(square)
        else:
            e = safe_length(d) / length - 1
        return length * (self.tension * e + 0.5 * self.axial * e**2)

    def element_is_valid(self, x: Array) -> Any:
        if self.strain != "logarithmic":
            return jnp.array(True)
        return jnp.sum((x[1] - x[0]) ** 2) > 0
