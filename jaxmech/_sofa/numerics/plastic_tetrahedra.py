"""SOFA's corotational tetrahedra that creep."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..._forcefield.base import Arrays
from ..._math.safe_norm import safe_length
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.internal import internal
from ..._scene.parameter import check_range, nodal_parameter, parameter
from ..._scene.stencil import Stencils, stencils
from .corotational_cells import AbstractCorotationalCells, displacement, hooke
from .frames import element_rotation

_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2))


class PlasticTetrahedra(AbstractCorotationalCells):
    """`f = -V R B^T D (e - p) / (6 V)`: a CorotationalCells whose strain leaves `p` behind.

    `e` is six times the volume `V` times the strain (three lengths, three shears), which is what SOFA's thresholds are of:
    they are of a mesh. When a step ends, where `|e - p|` is more than `yields` [m^3], `p` grows by `creep (e - p)`, and
    is then no longer than `most` [m^3]. `strain` `(6,)` `p` [m^3]. Other numbers as in `CorotationalCells`. Raises
    `ValueError` for moduli and thresholds out of range.
    Source: the plasticity of J. F. O'Brien, A. W. Bargteil, J. K. Hodgins, "Graphical modeling and animation of ductile
    fracture", SIGGRAPH 2002, doi:10.1145/566570.566579, as SOFA has it.
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    young: Parameter = parameter()
    poisson: Parameter = parameter()
    yields: Parameter = parameter()
    most: Parameter = parameter()
    creep: Parameter = parameter()
    rotation: str = eqx.field(static=True)
    frozen: bool = eqx.field(static=True)
    share: Parameter = parameter(default=1.0)
    strain: Array = internal(np.zeros(6))
    kind: str = eqx.field(static=True, default="tetrahedron", init=False)

    def __check_init__(self):
        for name in ("yields", "most"):
            check_range(self, **{name: (getattr(self, name), lambda a: a >= 0, "not negative")})
        check_range(self, creep=(self.creep, lambda c: (c >= 0) & (c <= 1), "between 0 and 1"))

    def _gradient(self, nodes: Array) -> Array:
        """`6 V` times that of the displacement in the axes of the rest shape `(1, 3, 3)`."""
        gradients, volumes = self._geometry()
        u = displacement(self.kind, self.rotation, nodes, self.rest)
        return 6 * volumes[0] * jnp.einsum("ka,qkb->qab", u, gradients)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        (gradients, volumes), (lam, mu), p = self._geometry(), self._moduli(), self.strain
        left = jnp.stack([p[0], p[3] / 2, p[5] / 2, p[3] / 2, p[1], p[4] / 2, p[5] / 2, p[4] / 2, p[2]]).reshape(1, 3, 3)
        stress = hooke(self._gradient(x[0]) - left, lam, mu) / (6 * volumes[0])
        R = element_rotation(self.kind, self.rotation, x[0], self.rest)
        return (-jnp.einsum("q,qab,qkb->ka", volumes, stress, gradients) @ R.T,)

    def element_update(self, x: Arrays, v: Arrays) -> dict[str, Array]:
        H = self._gradient(x[0])[0]
        e = jnp.stack([H[a, a] if a == b else H[a, b] + H[b, a] for a, b in _PAIRS])
        elastic = e - self.strain
        grown = jnp.where(safe_length(elastic) > self.yields, self.creep, 0.0)
        p = self.strain + grown * elastic
        length = safe_length(p)
        return {"strain": p * jnp.where(length > self.most, self.most / jnp.where(length > 0, length, 1.0), 1.0)}
