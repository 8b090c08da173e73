"""SOFA's mass of hexahedra that are elements too."""

import jax.numpy as jnp

from ..._mass.base import AbstractMass
from ..._runtime.array_types import Array, Scalar
from ..._runtime.field_types import Parameter
from ..._scene.parameter import check_range, parameter
from ..._scene.stencil import Stencils, stencils


class CellSumMass(AbstractMass):
    """`T = 4/27 m |sum_a v_a|^2` of a hexahedron: all entries of its matrix are `8/27 m`, 19 times its mass `m` in all.

    `mass` `m` [kg], one or one per cell. Raises `ValueError` unless positive. Source: "HexahedronFEMForceFieldAndMass" in
    SOFA, which takes the shape function of the first of two nodes for that of both.
    """

    on: Stencils = stencils()
    mass: Parameter = parameter()

    def __check_init__(self):
        check_range(self, mass=(self.mass, lambda m: m > 0, "positive"))

    def element_kinetic_energy(self, x: tuple[Array, ...], v: tuple[Array, ...]) -> Scalar:
        return 4 / 27 * self.mass * jnp.sum(jnp.sum(v[0], axis=0) ** 2)
