"""Shell triangles of three frames under large rotations: a plane element in axes that follow it."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._math.rotation import have_unit_quaternions, quaternion_conjugate, quaternion_log, quaternion_product, rotation_matrix
from .._mesh.mesh import Mesh
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.dof import Rigid3
from .._scene.parameter import check_parameters, check_range, is_concrete, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField
from .shell_triangle import bending_energy, membrane_energy


class Shell(AbstractEnergyForceField):
    """Thin shells of triangles, corotational: large displacements and rotations, small strains [J].

    An element follows its nodes with axes of its own, chosen so that the plane deformation has no turn in them; what is left
    there of displacements and rotations is small, and goes into a plane stress triangle with turns about the normal (OPT,
    of Felippa) and a Kirchhoff triangle (DKT, of Batoz). `on` is `(state, triangles)` of `Rigid3` frames, six numbers for
    each node; `rest`: frames of all the nodes, which may be turned as one likes (`from_mesh` takes the axes of the world).
    `young` [Pa], `poisson`, `thickness` [m]: shared, or one per element. No shear across the thickness, which counts
    where it is more than a tenth of a span. Rotations between a node and an element of less than pi.
    Raises `ValueError` for numbers out of range, triangles without area and quaternions that are not of unit length.
    Source: J.-L. Batoz, K.-J. Bathe, L.-W. Ho, Int. J. Numer. Methods Eng. 15 (1980) 1771, doi:10.1002/nme.1620151205; C. A.
    Felippa, Comput. Methods Appl. Mech. Eng. 192 (2003) 2125, doi:10.1016/S0045-7825(03)00253-6.

    Example:

        square = jm.mesh.Mesh([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]], "triangle")
        plate = jm.force.Shell.from_mesh("f", square, young=1e6, poisson=0.0, thickness=0.1)
        scene = jm.System({"f": jm.Rigid3()}, forces={"plate": plate})
        half = 0.5 * 0.02 * (square.points[:, 0] - 0.5)  # turned about y, by 0.02 rad over 1 m
        at = jnp.stack([square.points[:, 0], square.points[:, 1], 0.0 * half], axis=1)
        bent = jnp.concatenate([at, jnp.stack([0 * half, jnp.sin(half), 0 * half, jnp.cos(half)], axis=1)], axis=1)
        by_hand = 0.5 * 1e6 * 0.1**3 / 12 * 0.02**2  # E t^3/12 kappa^2 / 2 [J]
        assert jnp.allclose(jm.energy(scene, scene.at_rest({"f": bent})), by_hand, rtol=1e-3)
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    young: Parameter = parameter()
    poisson: Parameter = parameter()
    thickness: Parameter = parameter()

    def __check_init__(self):
        nodes = self.on[0].nodes
        if len(self.on) != 1 or nodes.ndim != 2 or nodes.shape[1] != 3:
            raise ValueError(f"Shell: on must be (state, triangles), got nodes of shape {nodes.shape}.")
        check_parameters(self, self.on)
        if self.rest.ndim != 2 or self.rest.shape[1] != 7:
            raise ValueError(f"Shell: rest has shape {self.rest.shape}, expected frames (nodes, 7).")
        check_range(self, rest=(self.rest, have_unit_quaternions, "frames with quaternions of unit length"))
        positive = (lambda a: a > 0, "positive")
        check_range(self, young=(self.young, *positive), thickness=(self.thickness, *positive))
        check_range(self, poisson=(self.poisson, lambda nu: (nu > -1) & (nu <= 0.5), "in (-1, 1/2]"))
        if is_concrete(self.rest, nodes) and nodes.shape[0]:
            X = np.asarray(self.rest)[np.asarray(nodes), :3]
            areas = np.linalg.norm(np.cross(X[:, 1] - X[:, 0], X[:, 2] - X[:, 0]), axis=1)
            if not areas.min() > 0:
                raise ValueError(f"Shell: triangle {int(np.argmin(areas))} is flat at rest, it has no area.")

    @classmethod
    def from_mesh(cls, state: str, mesh: Mesh, young: Any, poisson: Any, thickness: Any) -> "Shell":
        """The triangles of `mesh`, in space; frames at its points, not turned, are the rest of the nodes of `state`."""
        check_instance("Shell", "mesh", mesh, Mesh)
        if mesh.kind != "triangle" or mesh.points.shape[1] != 3:
            raise ValueError(f"Shell: mesh must have triangles in space, got cells of kind '{mesh.kind}'.")
        upright = jnp.zeros((len(mesh.points), 4), mesh.points.dtype).at[:, 3].set(1.0)
        return cls((state, mesh.cells), jnp.concatenate([mesh.points, upright], axis=1), young, poisson, thickness)

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Rigid3):
            raise ValueError("Shell acts on Rigid3 frames.")

    def element_energy(self, x: Float[Array, "3 7"]) -> Scalar:
        E0 = edge_axes(self.rest[:, :3])
        X = (self.rest[:, :3] - jnp.mean(self.rest[:, :3], axis=0)) @ E0[:, :2]
        E = edge_axes(x[:, :3])
        now = (x[:, :3] - jnp.mean(x[:, :3], axis=0)) @ E[:, :2]
        E = E @ _turn_out_of(now, X)
        u = (x[:, :3] - jnp.mean(x[:, :3], axis=0)) @ E[:, :2] - X
        turns = jnp.stack([E.T @ _turned(a, b, E @ E0.T) for a, b in zip(self.rest, x, strict=True)])
        plane = membrane_energy(X, u, turns[:, 2], self.young, self.poisson)
        plate = bending_energy(X, turns[:, :2], self.young, self.poisson)
        return self.thickness * plane + self.thickness**3 / 12 * plate


def edge_axes(x: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """Orthonormal axes as columns: along the first edge, in the plane, and along the normal."""
    first, normal = x[1] - x[0], jnp.cross(x[1] - x[0], x[2] - x[0])
    first, normal = first / jnp.sqrt(first @ first), normal / jnp.sqrt(normal @ normal)
    return jnp.stack([first, jnp.cross(normal, first), normal], axis=1)


def _turn_out_of(now: Float[Array, "3 2"], X: Float[Array, "3 2"]) -> Float[Array, "3 3"]:
    """The turn about the normal that a plane triangle has made, as the polar decomposition tells it."""
    X, now = X[1:] - X[0], now[1:] - now[0]
    inverse = jnp.array([[X[1, 1], -X[0, 1]], [-X[1, 0], X[0, 0]]])  # times the determinant, which is positive
    F = (inverse @ now).T
    c, s = F[0, 0] + F[1, 1], F[1, 0] - F[0, 1]
    size = jnp.sqrt(c * c + s * s)
    c, s, o, i = c / size, s / size, jnp.zeros_like(c), jnp.ones_like(c)
    return jnp.array([[c, -s, o], [s, c, o], [o, o, i]])


def _turned(rest: Float[Array, "7"], x: Float[Array, "7"], R: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """The rotation vector of a node, in axes of the world, beside the turn `R` of its element."""
    q = quaternion_product(x[3:], quaternion_conjugate(rest[3:]))
    left = rotation_matrix(q) @ R.T
    w = 0.5 * jnp.sqrt(1 + left[0, 0] + left[1, 1] + left[2, 2])
    vector = jnp.stack([left[2, 1] - left[1, 2], left[0, 2] - left[2, 0], left[1, 0] - left[0, 1]])
    return quaternion_log(jnp.concatenate([vector / (4 * w), w[None]]))
