"""Shells of quads of four frames, geometrically exact: a surface with directors under large rotations."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._math.rotation import are_of_unit_length, quaternion_conjugate, quaternion_product, rotation_matrix
from .._math.small_matrix import inverse
from .._mesh.mesh import Mesh
from .._mesh.vertex_normals import corner_normals
from .._runtime.argument_checks import check_on_host, real_array
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, is_concrete, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField
from .membrane import surface_stretch
from .shell_checks import check_shell, frames_of_mesh, frames_only
from .shell_quad import RestQuad, mean_drilling, mean_over, middle_gradient, mixed_energy, quad_strains, rest_quad
from .shell_triangle import AS_TENSOR, plane_stress


class QuadShell(AbstractEnergyForceField):
    """Shells of quads, thin and thick, geometrically exact: large displacements and rotations, small strains [J].

    `E = t W(e) + t^3/12 W(kappa) + t/2 k G integral of |gamma|^2` of Green's strains of the surface and the directors that
    turn with its frames. Shear is linear between the sides (MITC4, of Dvorkin and Bathe), and plane stress, of membrane
    and bending alike, of five parameters (Pian and Sumihara): no locking, in thin plates, bending in the plane or
    warped quads. `on` is `(state, quads)` of `Rigid3` frames, six numbers for each node; `rest`: frames of all the nodes,
    which may be turned as one likes (`from_mesh` takes the axes of the world). `normals` `(4, 3)`: unit vectors across the
    surface at rest, at the corners of every quad, in axes of the world; shared, or one for each element `(e, 4, 3)`.
    `young` [Pa], `poisson`, `thickness` [m]: shared, or one per element. `shear`: the factor of shear across the thickness.
    `drilling`: what ties the turns of frames about the normal to the surface, `drilling G t^3 / 2 mean of w^2`. It serves
    nothing but that a frame does not spin, and is no stiffer than bending; where a beam is to turn a plate about its normal,
    `A / t^2` of the area of a quad is the stiffness of the plate in its plane.
    Raises `ValueError` for numbers out of range, quads without area or that are not convex, quaternions and normals that are
    not of unit length, and normals on two sides of a quad.
    Source: F. Gruttmann, W. Wagner, Int. J. Numer. Methods Eng. 64 (2005) 635, doi:10.1002/nme.1387; E. N. Dvorkin, K.-J.
    Bathe, Eng. Comput. 1 (1984) 77, doi:10.1108/eb023562; T. H. H. Pian, K. Sumihara, Int. J. Numer. Methods Eng. 20 (1984)
    1685, doi:10.1002/nme.1620200911.

    Example:

        square = jm.mesh.Mesh([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2, 3]], "quad")
        plate = jm.force.QuadShell.from_mesh("f", square, young=1e6, poisson=0.0, thickness=0.1)
        scene = jm.System({"f": jm.Rigid3()}, forces={"plate": plate})
        half = 0.5 * 0.02 * (square.points[:, 0] - 0.5)  # turned about y, by 0.02 rad over 1 m
        at = jnp.stack([square.points[:, 0], square.points[:, 1], 0.0 * half], axis=1)
        bent = jnp.concatenate([at, jnp.stack([0 * half, jnp.sin(half), 0 * half, jnp.cos(half)], axis=1)], axis=1)
        by_hand = 0.5 * 1e6 * 0.1**3 / 12 * 0.02**2  # E t^3/12 kappa^2 / 2 [J]
        assert jnp.allclose(jm.energy(scene, scene.at_rest({"f": bent})), by_hand, rtol=1e-3)
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    normals: Parameter = parameter(ndim=2)
    young: Parameter = parameter()
    poisson: Parameter = parameter()
    thickness: Parameter = parameter()
    drilling: Parameter = parameter(default=1.0)
    shear: Parameter = parameter(default=5 / 6)

    def __check_init__(self):
        check_shell(self, 4)
        if self.normals.shape[-2:] != (4, 3):
            raise ValueError(f"QuadShell: normals has shape {self.normals.shape}, expected (4, 3) or (e, 4, 3).")
        nodes = self.on[0].nodes
        if is_concrete(self.rest, self.normals, nodes) and nodes.shape[0]:
            X = np.asarray(self.rest)[np.asarray(nodes), :3]
            ahead = np.roll(X, -1, axis=1) - X
            across = np.cross(X[:, 2] - X[:, 0], X[:, 3] - X[:, 1])  # twice the area, along the normal
            corners = np.einsum("ekc,ec->ek", np.cross(np.roll(ahead, 1, axis=1), ahead), across).min(axis=1)
            if not corners.min() > 0:
                raise ValueError(f"QuadShell: quad {int(np.argmin(corners))} has no area at rest, or is not convex.")
            check_range(self, normals=(self.normals, are_of_unit_length, "of unit length"))
            side = np.einsum("ekc,ec->ek", np.broadcast_to(np.asarray(self.normals), X.shape), across).min(axis=1)
            if not side.min() > 0:
                raise ValueError(f"QuadShell: a normal of quad {int(np.argmin(side))} does not point to its upper side.")

    @classmethod
    def from_mesh(
        cls,
        state: str,
        mesh: Mesh,
        young: Any,
        poisson: Any,
        thickness: Any,
        *,
        normals: Any = None,
        drilling: Any = 1.0,
        shear: Any = 5 / 6,
    ) -> "QuadShell":
        """The quads of `mesh`, in space; frames at its points, not turned, are the rest of the nodes of `state`.

        `normals` `(n, 3)`: unit vectors across a smooth surface at the points of `mesh`. Unless given they are the mean of
        the quads around a point that are no fold (30 degrees) away.
        """
        rest = frames_of_mesh("QuadShell", mesh, "quad")
        if normals is None:
            check_on_host("QuadShell.from_mesh", "the neighbours of quads", mesh.cells)
            normals = corner_normals(mesh.points, np.asarray(mesh.cells))
        else:
            normals = jnp.asarray(real_array("QuadShell", "normals", normals, (len(mesh.points), 3)))[mesh.cells]
        return cls((state, mesh.cells), rest, normals, young, poisson, thickness, drilling, shear)

    def check_dofs(self, dofs: Any) -> None:
        frames_only(self, dofs)

    def element_energy(self, x: Float[Array, "4 7"]) -> Scalar:
        rest, R, (strain, curvature, shear) = self._strains(x)
        law, modulus, t = (self.young, self.poisson), self.young / (2 * (1 + self.poisson)), self.thickness
        plate = t * mixed_energy(rest, strain, *law) + t**3 / 12 * mixed_energy(rest, curvature, *law)
        sheared = 0.5 * self.shear * rest.areas @ jnp.sum(shear**2, axis=1)
        return plate + t * modulus * (sheared + 0.5 * self.drilling * t**2 * mean_drilling(rest, x[:, :3], R))

    def mean_stresses(self, x: Float[Array, "4 7"]) -> tuple[Float[Array, "3 3"], Float[Array, "3 3"], Float[Array, "3"]]:
        """Of one element [Pa], in axes of the world: in its middle, what bending adds on the upper side; and the normal."""
        rest, _, (strain, curvature, _) = self._strains(x)
        E, F = plane_stress(self.young, self.poisson), middle_gradient(rest, x[:, :3])
        axes = F @ inverse(surface_stretch(F))
        means = mean_over(rest, strain), 0.5 * self.thickness * mean_over(rest, curvature)
        flat, added = (axes @ (E @ mean)[AS_TENSOR] @ axes.T for mean in means)
        return flat, added, jnp.cross(axes[:, 0], axes[:, 1])

    def _strains(self, x: Float[Array, "4 7"]) -> tuple[RestQuad, Float[Array, "4 3 3"], tuple[Array, Array, Array]]:
        """The quad at rest, the turns of its corners, and strains."""
        turned = jax.vmap(quaternion_product)(x[:, 3:], jax.vmap(quaternion_conjugate)(self.rest[:, 3:]))
        R, X = jax.vmap(rotation_matrix)(turned), self.rest[:, :3]
        directors = jnp.einsum("kab,kb->ka", R, self.normals)
        rest = rest_quad(X)
        return rest, R, quad_strains(rest, X, self.normals, x[:, :3], directors)
