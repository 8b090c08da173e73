"""Solids: a material in the cells of a mesh."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar

from .._codegen import declared_symmetric, map_points
from .._material.base import AbstractMaterial, density, has_limits
from .._material.narrow import narrowed
from .._material.wrapped import innermost
from .._math.small_matrix import determinant
from .._mesh.geometry import rest_geometry
from .._mesh.mesh import Mesh
from .._mesh.reference import ReferenceElement
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_parameters, is_concrete, point_axes
from .._scene.stencil import Stencils
from .base import AbstractEnergyForceField, Arrays


class AbstractSolid(AbstractEnergyForceField):
    """`E = sum_q w_q psi(F_q)` with `F_q = sum_a x_a (x) dN_a/dX`, over the quadrature points of one cell.

    A concrete solid names its reference element and says how it makes a 3 x 3 deformation gradient. Its material may have
    other numbers, and remembers others, at every point.
    """

    tangent_is_exact = True

    on: AbstractVar[Stencils]
    rest: AbstractVar[Parameter]
    material: AbstractVar[AbstractMaterial]
    if TYPE_CHECKING:
        reference: ClassVar[Any]  # or a property, but no field
    else:
        reference: AbstractVar[ReferenceElement]

    def check_dofs(self, dofs: Any) -> None:
        if dofs[0].coord_size != self.reference.dimension or not dofs[0].is_vector_space:
            raise ValueError(f"{type(self).__name__} acts on points of {self.reference.dimension} coordinates.")

    @property
    def undefined_when(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.material.undefined_when

    @property
    def quadrature_points(self) -> int:
        """How many points the quadrature of a cell has."""
        return len(self.reference.quadrature(self.rule)[1])

    @property
    def depth(self) -> Any:
        """How deep space is across the cell [m], where that is in the plane."""
        return jnp.ones((), self.rest.dtype)

    @property
    def rule(self) -> int | str:
        """The quadrature of a cell, by degree or name."""
        return "stiffness"

    def geometry(self) -> tuple[Float[Array, "q k b"], Float[Array, " q"]]:
        """Of one cell: `F_ab` is `x_ka` times the first, summed over its nodes `k`; and the volumes of its points."""
        return rest_geometry(self.reference, self.rest, self.rule)

    def volume_ratio(self, F: Float[Array, "a b"]) -> Scalar:
        """`det F` of a point, as far as the motion of the nodes gives it."""
        return determinant(F)

    def in_space(self, F: Float[Array, "a b"]) -> Float[Array, "3 3"]:
        """The deformation gradient of space at a point whose own is `F`."""
        return F

    def in_plane_density(self, F: Float[Array, "a b"]) -> Any:
        """`psi` of the deformation gradient of the cell's own dimension, times its thickness."""
        return density(self.material, F)

    def element_energy(self, x: Float[Array, "k d"]) -> Any:
        gradients, volumes = self.geometry()
        return jnp.sum(self._at_points(_energy, x, gradients, volumes))

    def element_gradient(self, x: Float[Array, "k d"]) -> Any:
        """`dE/dx = sum_q w_q P(F_q) G`, `P = dpsi/dF` the first Piola stress."""
        gradients, volumes = self.geometry()
        return _gradient(self._at_points(_stress, x, gradients, volumes), gradients)

    def element_hessian(self, x: Float[Array, "k d"]) -> Any:
        """`K = sum_q w_q G (d2psi/dF2) G^T`: nine directions per point, where the nodes of a cell have 12 or 24."""
        gradients, volumes = self.geometry()
        return _hessian(self._at_points(_elasticity, x, gradients, volumes), gradients)

    def element_derivatives(self, x: Float[Array, "k d"]) -> Any:
        """Both, with all that is of a point in one pass over the points."""
        gradients, volumes = self.geometry()

        def both(solid: AbstractSolid, F: Array, volume: Array) -> tuple[Array, Array]:
            return _stress(solid, F, volume), _elasticity(solid, F, volume)

        stress, elasticity = self._at_points(both, x, gradients, volumes)
        return _gradient(stress, gradients), _hessian(elasticity, gradients)

    def element_update(self, x: Arrays, v: Arrays) -> dict[str, Array]:
        """Those of the material, at every point."""
        del v
        gradients, volumes = self.geometry()
        return self._at_points(_update, *x, gradients, volumes)

    def _at_points(self, function: Callable, x: Array, gradients: Array, volumes: Array) -> Any:
        """`function(self, F, w)` of every point."""
        return map_points(function, self, deformation_gradients(x, gradients), volumes, axes=point_axes(self))

    def point_gradients(self, x: Float[Array, "k d"]) -> tuple[Float[Array, "q 3 3"], Float[Array, " q"]]:
        """Of one cell: the deformation gradient of space at every point, as its material sees it, and their rest volumes."""
        gradients, volumes = self.geometry()
        in_space = jax.vmap(lambda solid, F: solid.in_space(F), (point_axes(self), 0))
        return in_space(self, deformation_gradients(x, gradients)), volumes * self.depth

    def element_is_valid(self, x: Float[Array, "k d"]) -> Array:
        if not self.material.needs_positive_volume:
            return jnp.array(True)
        gradients, _ = self.geometry()
        positive = jnp.all(jax.vmap(self.volume_ratio)(deformation_gradients(x, gradients)) > 0)
        return positive & self.within_limits(x)

    def within_limits(self, x: Float[Array, "k d"]) -> Array:
        """Whether the law is defined at every point of a cell, beyond the sign of its volume."""
        if not has_limits(self.material):
            return jnp.array(True)
        defined = jax.vmap(lambda solid, F: solid.material.is_defined(F), (point_axes(self), 0))
        return jnp.all(defined(self, self.point_gradients(x)[0]))


def deformation_gradients(x: Float[Array, "k a"], gradients: Float[Array, "q k b"]) -> Float[Array, "q a b"]:
    """`F` at every point."""
    return jnp.einsum("ka,qkb->qab", x, gradients)


def _energy(solid: AbstractSolid, F: Array, volume: Array) -> Array:
    """`w psi(F)`."""
    return volume * solid.in_plane_density(F)


def _stress(solid: AbstractSolid, F: Float[Array, "a b"], volume: Scalar) -> Float[Array, "a b"]:
    """`w P` of one point."""
    return volume * jax.grad(solid.in_plane_density)(F)


def _elasticity(solid: AbstractSolid, F: Float[Array, "a b"], volume: Scalar) -> Float[Array, "J a b L"]:
    """`w d2psi/dF2` of one point, with `J` of `dF_aJ` in front: so the products to come are of matrices as they lie."""
    d2psi = jax.hessian(narrowed(solid.in_plane_density, F))(F)
    return jnp.swapaxes(volume * declared_symmetric(d2psi.reshape(F.size, F.size)).reshape(d2psi.shape), 0, 1)


def _update(solid: AbstractSolid, F: Float[Array, "a b"], volume: Scalar) -> dict[str, Array]:
    del volume
    return {f"material.{name}": value for name, value in solid.material.point_update(solid.in_space(F)).items()}


def _gradient(stress: Float[Array, "q a b"], gradients: Float[Array, "q k b"]) -> tuple[Float[Array, "k a"]]:
    return (jnp.einsum("qab,qkb->ka", stress, gradients),)


def _hessian(elasticity: Float[Array, "q J a b L"], gradients: Float[Array, "q k L"]) -> Any:
    # A cell feels no translation: the rows of its first node are minus the sum of the others. That is less work for scalar
    # operations, and more for the products of matrices that many points are better off with.
    simple = gradients.shape[0] == 1 and gradients.shape[2] == elasticity.shape[2]  # around an axis, a cell feels it
    G = gradients[:, 1:] if simple else gradients
    half = jnp.einsum("qJabL,qjL->qJabj", elasticity, G)
    # The sum over q and J is one over both as they lie: an einsum puts J first, and so turns all of `half`.
    first = jnp.swapaxes(G, 0, 1).reshape(G.shape[1], -1)
    K = _symmetric(jnp.swapaxes(jnp.einsum("iQ,Qabj->iabj", first, half.reshape(first.shape[1], *half.shape[2:])), 2, 3))
    if simple:
        K = _symmetric(jnp.swapaxes(_with_first(jnp.swapaxes(_with_first(K), 0, 2)), 0, 2))
    return ((K,),)


def _symmetric(K: Float[Array, "k a k b"]) -> Float[Array, "k a k b"]:
    size = K.shape[0] * K.shape[1]
    return declared_symmetric(K.reshape(size, size)).reshape(K.shape)


def _with_first(others: Float[Array, "k-1 ..."]) -> Float[Array, "k ..."]:
    return jnp.concatenate([-jnp.sum(others, axis=0, keepdims=True), others])


def check_rest(solid: AbstractSolid) -> None:
    """Raise `ValueError` for stencils that do not fit, and for a cell whose rest shape is inverted or flat."""
    name, reference = type(solid).__name__, solid.reference
    nodes = solid.on[0].nodes
    if len(solid.on) != 1 or nodes.ndim != 2 or nodes.shape[1] != reference.nodes:
        check_parameters(solid, solid.on, solid.quadrature_points)
        raise ValueError(f"{name}: on must be (state, cells) with {reference.nodes} nodes per cell, got {nodes.shape}.")
    check_material(solid, nodes, solid.rule)


def check_material(solid: Any, nodes: Array, rule: int | str = "stiffness", family: type = AbstractMaterial) -> None:
    """The same, of a field on `nodes` that has a `material` of a `family`, `rest` positions and a `reference`."""
    check_parameters(solid, solid.on, solid.quadrature_points)
    name, reference = type(solid).__name__, solid.reference
    check_instance(name, "material", innermost(solid.material), family)
    rest = solid.rest
    if rest.ndim != 2 or rest.shape[1] != reference.dimension:
        raise ValueError(f"{name}: rest has shape {rest.shape}, expected (nodes, {reference.dimension}).")
    if not is_concrete(rest, nodes) or nodes.shape[0] == 0:
        return
    last = int(np.max(np.asarray(nodes)))
    if last >= rest.shape[0]:
        raise ValueError(f"{name}: a cell names node {last}, but there are {rest.shape[0]} rest positions.")
    volumes = _rest_volumes(reference, np.asarray(rest)[np.asarray(nodes)], rule)
    worst = int(np.argmin(volumes))
    if not volumes[worst] > 0:
        raise ValueError(
            f"{name}: cell {worst} is inverted or flat at rest (measure {volumes[worst]:.3g}); its nodes are "
            f"{np.asarray(nodes[worst]).tolist()}."
        )


def _rest_volumes(reference: ReferenceElement, corners: np.ndarray, rule: int | str) -> np.ndarray:
    """The least volume of a point of each cell, without a program: `w det(dX/dxi)`."""
    points, weights = reference.quadrature(rule)
    least = np.full(len(corners), np.inf)
    for slopes, weight in zip(reference.shape_gradients(points), weights, strict=True):
        J = np.moveaxis(np.tensordot(corners, slopes, axes=(1, 0)), 0, -1)
        if len(J) == 3:
            volume = np.sum(J[0] * np.cross(J[1], J[2], axis=0), axis=0)
        else:
            volume = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0] if len(J) == 2 else J[0, 0]
        least = np.minimum(least, weight * volume)
    return least


def check_mesh(name: str, mesh: Any, kind: str) -> None:
    """Raise unless `mesh` is a `Mesh` of cells of `kind`."""
    check_instance(name, "mesh", mesh, Mesh)
    if mesh.kind != kind:
        raise ValueError(f"{name}: the mesh has cells of kind '{mesh.kind}', expected '{kind}'.")
