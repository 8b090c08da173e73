"""Shell triangles of three frames under large rotations: a plane element in axes that follow it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._math.rotation import quaternion_conjugate, quaternion_log, quaternion_product, rotation_matrix
from .._math.small_matrix import adjugate
from .._mesh.mesh import Mesh
from .._mesh.vertex_normals import COSINE_OF_FOLD
from .._runtime.argument_checks import check_on_host
from .._runtime.array_types import Array, Float, Int, Scalar
from .._runtime.field_types import Parameter
from .._runtime.precision import in_one_program
from .._scene.parameter import is_concrete, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField
from .shell_checks import check_shell, frames_of_mesh, frames_only
from .shell_triangle import AS_TENSOR, bending_energy, curvatures, mean_strain, membrane_energy, plane_stress


class Shell(AbstractEnergyForceField):
    """Shells of triangles, thin and thick, corotational: large displacements and rotations, small strains [J].

    An element follows its nodes with axes of its own, chosen so that the plane deformation has no turn in them; what is left
    there of displacements and rotations is small, and goes into a plane stress triangle with turns about the normal (OPT,
    of Felippa) and a plate that bends and shears (DKMT, of Katili). `on` is `(state, triangles)` of `Rigid3` frames, six
    numbers for each node; `rest`: frames of all the nodes, which may be turned as one likes (`from_mesh` takes the axes of
    the world). `young` [Pa], `poisson`, `thickness` [m]: shared, or one per element. Rotations between a node and an
    element of less than pi.
    `shear`: the factor of shear across the thickness, 5/6 of plates of one material; a large one (1e9) makes a shell
    that does not shear (DKT, of Batoz). Thin shells do not lock.
    `drilling`: by how much the stiffness against turns about the normal counts, beyond that of the whole element. 1 makes
    bending in the plane of flat plates exact, and locks where facets stand for a thin curved surface: `from_mesh` takes
    `1 / (1 + 4 A d^2 / t^2)`, of the area `A` and the largest angle `d` to a neighbour that is no fold (30 degrees). Where
    it is well below 0.2, the mean strain of an element does not follow the turns of its corners either.
    Raises `ValueError` for numbers out of range, triangles without area and quaternions that are not of unit length.
    Source: I. Katili, Int. J. Numer. Methods Eng. 36 (1993) 1859, doi:10.1002/nme.1620361106; J.-L. Batoz, K.-J. Bathe,
    L.-W. Ho, Int. J. Numer. Methods Eng. 15 (1980) 1771, doi:10.1002/nme.1620151205; C. A. Felippa, Comput. Methods Appl.
    Mech. Eng. 192 (2003) 2125, doi:10.1016/S0045-7825(03)00253-6.

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
    drilling: Parameter = parameter(default=1.0)
    shear: Parameter = parameter(default=5 / 6)

    def __check_init__(self):
        check_shell(self, 3)
        nodes = self.on[0].nodes
        if is_concrete(self.rest, nodes) and nodes.shape[0]:
            X = np.asarray(self.rest)[np.asarray(nodes), :3]
            areas = np.linalg.norm(np.cross(X[:, 1] - X[:, 0], X[:, 2] - X[:, 0]), axis=1)
            if not areas.min() > 0:
                raise ValueError(f"Shell: triangle {int(np.argmin(areas))} is flat at rest, it has no area.")

    @classmethod
    def from_mesh(
        cls, state: str, mesh: Mesh, young: Any, poisson: Any, thickness: Any, *, drilling: Any = None, shear: Any = 5 / 6
    ) -> "Shell":
        """The triangles of `mesh`, in space; frames at its points, not turned, are the rest of the nodes of `state`.

        `drilling`: of the curvature of the mesh unless given.
        """
        rest = frames_of_mesh("Shell", mesh, "triangle")
        shell = cls((state, mesh.cells), rest, young, poisson, thickness, shear=shear)  # which looks at the mesh first
        if drilling is None:
            check_on_host("Shell.from_mesh", "the neighbours of triangles", mesh.cells)
            drilling = _drilling(mesh.points[mesh.cells], _across(np.asarray(mesh.cells)), shell.thickness)
        return cls((state, mesh.cells), rest, young, poisson, thickness, drilling, shear)

    def check_dofs(self, dofs: Any) -> None:
        frames_only(self, dofs)

    def element_energy(self, x: Float[Array, "3 7"]) -> Scalar:
        X, u, turns, _ = self._in_the_element(x)
        plane = membrane_energy(X, u, turns[:, 2], self.young, self.poisson, self.drilling)
        plate = bending_energy(X, turns[:, :2], self.young, self.poisson, self._flexibility())
        return self.thickness * plane + self.thickness**3 / 12 * plate

    def mean_stresses(self, x: Float[Array, "3 7"]) -> tuple[Float[Array, "3 3"], Float[Array, "3 3"], Float[Array, "3"]]:
        """Of one element [Pa], in axes of the world: in its middle, what bending adds on the upper side; and the normal."""
        X, u, turns, axes = self._in_the_element(x)
        E = plane_stress(self.young, self.poisson)
        strain = mean_strain(X, u, turns[:, 2], self.drilling)
        bent = 0.5 * self.thickness * jnp.mean(curvatures(X, turns[:, :2], self._flexibility()), axis=0)
        flat, added = (axes[:, :2] @ (E @ e)[AS_TENSOR] @ axes[:, :2].T for e in (strain, bent))
        return flat, added, axes[:, 2]

    def _flexibility(self) -> Scalar:
        return 2 * self.thickness**2 / ((1 - self.poisson) * self.shear)

    def _in_the_element(self, x: Float[Array, "3 7"]) -> tuple[Array, Array, Array, Array]:
        """Rest positions, displacements and turns in axes that follow the element, and these."""
        E0, E = edge_axes(self.rest[:, :3]), edge_axes(x[:, :3])
        X = _about_middle(self.rest) @ E0[:, :2]
        E = E @ _turn_from(X, _about_middle(x) @ E[:, :2])
        u = _about_middle(x) @ E[:, :2] - X
        return X, u, _turns_beside(E @ E0.T, self.rest[:, 3:], x[:, 3:]) @ E, E


def _table() -> np.ndarray:
    """`e_ijk`, with which vector products are products of matrices: few operations, however often differentiated."""
    table = np.zeros((3, 3, 3))
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        table[i, j, k], table[i, k, j] = 1.0, -1.0
    return table


_CROSS = _table()
_FOLD = 2 * (1 - COSINE_OF_FOLD)  # the squared difference of the normals there
_TURN_PLANE = np.stack([np.diag([1.0, 1.0, 0.0]), -_CROSS[2], np.diag([0.0, 0.0, 1.0])])  # times cosine, sine, 1


@in_one_program
def _drilling(x: Float[Array, "e 3 3"], neighbours: Int[Array, "e 3"], thickness: Array) -> Float[Array, " e"]:
    """How much of the stiffness against drilling an element keeps, of how its neighbours bend away from it."""
    normals = jnp.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])
    doubled = jnp.sqrt(jnp.sum(normals**2, axis=1))
    normals = normals / doubled[:, None]
    across = normals[jnp.maximum(neighbours, 0)] - normals[:, None]
    squared = jnp.sum(across**2, axis=2)
    squared = jnp.where((neighbours >= 0) & (squared < _FOLD), squared, 0.0)
    return 1 / (1 + 2 * doubled * jnp.max(squared, axis=1) / thickness**2)


def _across(cells: np.ndarray) -> np.ndarray:
    """The triangle across each edge; -1 where there is none, or more than one, as where walls meet."""
    edges = np.sort(np.stack([cells, np.roll(cells, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    _, edge, count = np.unique(edges, axis=0, return_inverse=True, return_counts=True)
    beside = np.argsort(edge.ravel(), kind="stable")
    pairs = beside[count[edge.ravel()[beside]] == 2].reshape(-1, 2)
    found = np.full(len(edges), -1)
    found[pairs[:, 0]], found[pairs[:, 1]] = pairs[:, 1] // 3, pairs[:, 0] // 3
    return found.reshape(cells.shape)


def _about_middle(x: Float[Array, "3 7"]) -> Float[Array, "3 3"]:
    return x[:, :3] - jnp.mean(x[:, :3], axis=0)


def edge_axes(x: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """Orthonormal axes as columns: along the first edge, in the plane, and along the normal."""
    edges = x[1:] - x[0]
    cross = jnp.asarray(_CROSS.reshape(3, 9), x.dtype)
    normal = cross @ (edges[0][:, None] * edges[1]).reshape(9)
    pair = jnp.stack([edges[0], normal])
    pair = pair / jnp.sqrt(jnp.sum(pair**2, axis=1, keepdims=True))
    second = cross @ (pair[1][:, None] * pair[0]).reshape(9)
    return jnp.stack([pair[0], second, pair[1]], axis=1)


def _turn_from(X: Float[Array, "3 2"], now: Float[Array, "3 2"]) -> Float[Array, "3 3"]:
    """The turn about the normal that a plane triangle has made, as the polar decomposition tells it."""
    F = (now[1:] - now[0]).T @ adjugate((X[1:] - X[0]).T)  # times the determinant, which is positive
    parts = jnp.stack([F[0, 0] + F[1, 1], F[1, 0] - F[0, 1]])
    parts = parts / jnp.sqrt(parts @ parts)
    table = jnp.asarray(_TURN_PLANE, X.dtype)
    return parts[0] * table[0] + parts[1] * table[1] + table[2]


def _turns_beside(R: Float[Array, "3 3"], rest: Float[Array, "3 4"], q: Float[Array, "3 4"]) -> Float[Array, "3 3"]:
    """The rotation vectors of the nodes beside the turn `R` of their element, in axes of the world."""
    turned = jax.vmap(quaternion_product)(q, jax.vmap(quaternion_conjugate)(rest))
    left = jax.vmap(rotation_matrix)(turned) @ R.T
    w = 0.5 * jnp.sqrt(1 + jnp.trace(left, axis1=1, axis2=2))[:, None]
    vector = left.reshape(3, 9) @ jnp.asarray(-_CROSS.reshape(3, 9).T, q.dtype)
    return jax.vmap(quaternion_log)(jnp.concatenate([vector / (4 * w), w], axis=1))
