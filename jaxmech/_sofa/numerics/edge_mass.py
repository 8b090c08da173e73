"""SOFA's mass of vertices and edges."""

import equinox as eqx
import jax.numpy as jnp

from ..._mass.base import AbstractMass
from ..._mesh.reference import reference_element
from ..._mesh.surface import rest_measures
from ..._runtime.array_types import Array, Scalar
from ..._runtime.field_types import Parameter
from ..._scene.parameter import check_range, nodal_parameter, parameter
from ..._scene.stencil import Stencils, stencils

# What share of the mass of a cell its vertices and edges have: the consistent mass in simplices, and not in others.
_SHARES = {
    "edge": (1 / 3, 1 / 6),
    "triangle": (1 / 6, 1 / 12),
    "quad": (1 / 8, 1 / 16),
    "tetrahedron": (1 / 10, 1 / 20),
    "hexahedron": (1 / 20, 1 / 40),
}


class VertexEdgeMass(AbstractMass):
    """`T = rho V (a/2 sum_i |v_i|^2 + b sum_edges v_i . v_j)`: SOFA's MeshMatrixMass, `a`, `b` by the kind of cell.

    `density` [kg/m^3] of rest volumes (areas, lengths), one or one per cell. Raises `ValueError` unless positive.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, chapter 7; the shares are those of
    "MeshMatrixMass" in SOFA's documentation.
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    density: Parameter = parameter()
    kind: str = eqx.field(static=True)

    def __check_init__(self):
        check_range(self, density=(self.density, lambda d: d > 0, "positive"))

    def element_kinetic_energy(self, x: tuple[Array, ...], v: tuple[Array, ...]) -> Scalar:
        element = reference_element(self.kind)
        _, measures = rest_measures(element, self.rest)
        edges = jnp.asarray(element.edges)
        own, shared = _SHARES[self.kind]
        pairs = jnp.sum(v[0][edges[:, 0]] * v[0][edges[:, 1]])
        return self.density * jnp.sum(measures) * (0.5 * own * jnp.sum(v[0] ** 2) + shared * pairs)
