"""SOFA's linear sheets: triangles by their edges, and rectangles in the plane of x and y."""

import equinox as eqx
import jax.numpy as jnp

from ..._forcefield.base import AbstractEnergyForceField, Arrays, points_only
from ..._math.safe_norm import safe_length
from ..._runtime.array_types import Array, Scalar
from ..._runtime.field_types import Parameter
from ..._scene.parameter import check_range, nodal_parameter, parameter
from ..._scene.stencil import Stencils, stencils
from .polynomial_springs import AbstractFrozen


class AbstractSheet(AbstractEnergyForceField):
    """Triangles in plane stress, by their edges. `young` [N/m], `poisson`. Raises `ValueError` for moduli out of range."""

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    young: Parameter = parameter()
    poisson: Parameter = parameter()

    def __check_init__(self):
        check_range(self, young=(self.young, lambda E: E > 0, "positive"))
        check_range(self, poisson=(self.poisson, lambda nu: (nu > -1) & (nu < 1), "between -1 and 1"))

    def moduli(self) -> tuple[Array, Array]:
        """`E nu / (1 - nu^2)` and `E / (1 + nu)`."""
        return self.young * self.poisson / (1 - self.poisson**2), self.young / (1 + self.poisson)


class TensorMassTriangles(AbstractSheet):
    """`E = ((lam + mu) W : W - lam W : W^T - mu/2 (tr W)^2) / (8 A)`, `W = sum_k e_k (x) u_k` over nodes and opposite edges.

    SOFA's TriangularTensorMassForceField: plane stress in the plane of the triangle at rest, and stiff across it too;
    `lam = E nu / (1 - nu^2)`, `mu = E / (1 + nu)`. `young` [N/m], `poisson`. Raises `ValueError` for moduli out of range.
    Source: H. Delingette, "Triangular springs for modeling nonlinear membranes", IEEE TVCG 14 (2008) 329,
    doi:10.1109/TVCG.2007.70431.
    """

    def element_energy(self, x: Array) -> Scalar:
        X, (lam, mu) = self.rest, self.moduli()
        edges = jnp.roll(X, 1, axis=0) - jnp.roll(X, -1, axis=0)  # opposite to each node
        area = 0.5 * safe_length(jnp.cross(X[1] - X[0], X[2] - X[0]))
        W = edges.T @ (x - X)
        energy = (lam + mu) * jnp.sum(W**2) - lam * jnp.sum(W * W.T) - 0.5 * mu * jnp.trace(W) ** 2
        return energy / (8 * area)


class QuadraticSpringTriangles(AbstractSheet):
    """`E = sum_j k_j s_j^2 / 2 + g_j s_k s_l` over the sides of a triangle, `s = L (l - L)` of lengths at rest and now:
    TriangularQuadraticSpringsForceField. `biquadratic`: `s = (l^2 - L^2) / 2`, and if it is `compressible` besides
    `3 (lam + mu) A0 (A/A0 - 1)^4 / 4` of a triangle that is smaller than at rest.

    `young` [N/m], `poisson`; `angles`: 0 leaves out what links two sides. Raises `ValueError` for moduli out of range.
    Source: H. Delingette, "Triangular springs for modeling nonlinear membranes", IEEE TVCG 14 (2008) 329,
    doi:10.1109/TVCG.2007.70431.
    """

    angles: Parameter = parameter(default=1.0)
    biquadratic: bool = eqx.field(static=True, default=False)
    compressible: bool = eqx.field(static=True, default=False)

    def element_energy(self, x: Array) -> Scalar:
        lam, mu = self.moduli()
        now, then = (jnp.sum((jnp.roll(X, -1, 0) - jnp.roll(X, -2, 0)) ** 2, axis=1) for X in (x, self.rest))
        others = jnp.roll(then, -1) + jnp.roll(then, -2) - then
        area = jnp.sqrt(then @ others) / 4
        cot = others / (4 * area)
        k = (2 * cot**2 * (lam + mu) + mu) / (8 * area)
        g = (2 * jnp.roll(cot, -1) * jnp.roll(cot, -2) * (lam + mu) - mu) / (8 * area)
        s = (now - then) / 2 if self.biquadratic else jnp.sqrt(then * now) - then
        energy = 0.5 * k @ s**2 + self.angles * g @ (jnp.roll(s, -1) * jnp.roll(s, -2))
        if not self.compressible:
            return energy
        J = 0.5 * safe_length(jnp.cross(x[1] - x[0], x[2] - x[0])) / area
        return energy + jnp.where(J < 1, 0.75 * (lam + mu) * area * (J - 1) ** 4, 0.0)


class BendingQuads(AbstractFrozen):
    """`f = -K u`: SOFA's QuadBendingFEMForceField, rectangles along x and y that resist in their plane and shear across it.

    `K` is that of the rectangle of the present lengths of two sides, which SOFA's stiffness leaves alone. `young` [Pa],
    `poisson`, `thickness` [m]. Source: E. Hinton and D. R. J. Owen, *Finite Element Software for Plates and Shells*, 1984,
    chapter 4 (bilinear plates, the shear at one point).
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    young: Parameter = parameter()
    poisson: Parameter = parameter()
    thickness: Parameter = parameter()
    frozen: bool = eqx.field(static=True)

    def check_dofs(self, dofs) -> None:
        points_only(self, dofs)

    def _matrix(self, x: Array) -> Array:
        a, b = (0.5 * safe_length(x[i] - x[0]) for i in (1, 3))
        E, nu, t = self.young, self.poisson, self.thickness
        m, n = jnp.array([-1.0, 1, 1, -1], x.dtype), jnp.array([-1.0, -1, 1, 1], x.dtype)
        D = E * t / (1 - nu**2) * jnp.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 0]], x.dtype)
        D = D + nu * E * t / (1 - nu**2) * jnp.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]], x.dtype)
        D = D + E * t / (2 + 2 * nu) * jnp.array([[0.0, 0, 0], [0, 0, 0], [0, 0, 1]], x.dtype)
        K = jnp.zeros((4, 3, 4, 3), x.dtype)
        zero = jnp.zeros_like(m)
        for r in (-(3**-0.5), 3**-0.5):
            for s in (-(3**-0.5), 3**-0.5):
                gx, gy = m * (1 + n * s) / (4 * a), n * (1 + m * r) / (4 * b)
                B = jnp.stack([jnp.stack([gx, zero, zero], 1), jnp.stack([zero, gy, zero], 1), jnp.stack([gy, gx, zero], 1)])
                K = K + a * b * jnp.einsum("eik,ef,fjl->ikjl", B, D, B)
        shear = 5 / 6 * E * t / (2 + 2 * nu) * 4 * a * b
        across = shear * (jnp.outer(m, m) / (16 * a**2) + jnp.outer(n, n) / (16 * b**2))
        return K.at[:, 2, :, 2].add(across)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        (nodes,) = x
        return (-jnp.einsum("ikjl,jl->ik", self._matrix(nodes), nodes - self.rest),)

    def element_stiffness(self, x: Arrays, v: Arrays):
        return ((self._matrix(x[0]),),) if self.frozen else super().element_stiffness(x, v)
