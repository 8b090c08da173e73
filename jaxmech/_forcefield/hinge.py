"""Bending of thin sheets without rotations: pairs of triangles that share an edge."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._math.safe_norm import safe_length
from .._mesh.adjacency import cell_faces, opposite_faces
from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._runtime.argument_checks import check_choice, check_instance
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.dof import Vec3
from .._scene.parameter import check_parameters, check_range, is_concrete, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField

_MODELS = ("angle", "quadratic")


class HingeBending(AbstractEnergyForceField):
    """Bending of a sheet at the edges between its triangles, `E = D/2 sum |e|^2 / (A_0 + A_1) theta^2` [J].

    `stiffness` `D = E t^3 / (12 (1 - nu^2))` [N m]; `e` the edge, `A` the areas of its two triangles at `rest` [m]. `model`:
    "angle" (discrete shells), `theta` the angle [rad] between the normals less that at rest; "quadratic", the same with
    `|e|^2 theta^2` replaced by `|K x|^2`, quadratic in the positions of the four nodes with a constant matrix: for sheets
    that are flat at rest and hardly stretch. `on` is `(state, (e, 4))`: the ends of the edge, the third node on its left
    and that on its right. `from_mesh` finds the edges. Goes with a `Membrane`. On grids of squares or of equilateral
    triangles it is `D/2 kappa^2` per area for cylinders along edges; otherwise it depends on the grid and does not converge:
    for numbers of engineering take `Shell`.
    Raises `ValueError` for another model, a negative stiffness, and nodes that coincide or triangles that are flat at rest.
    Source: E. Grinspun, A. N. Hirani, M. Desbrun, P. Schroeder, "Discrete shells", SCA 2003, doi:10.5555/846276.846284;
    M. Bergou, M. Wardetzky, D. Harmon, D. Zorin, E. Grinspun, "A quadratic bending model for inextensible surfaces", SGP
    2006; H. S. Seung, D. R. Nelson, Phys. Rev. A 38 (1988) 1005, doi:10.1103/PhysRevA.38.1005 (the factor).

    Example:

        sheet = jm.mesh.Mesh([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0]], [[0, 1, 2], [1, 0, 3]], "triangle")
        hinge = jm.force.HingeBending.from_mesh("p", sheet, stiffness=2.0)
        scene = jm.System({"p": jm.Vec3()}, forces={"hinge": hinge})
        folded = sheet.points.at[2].set(jnp.array([0.0, 0.0, 1.0]))  # by 90 degrees
        energy = jm.energy(scene, scene.at_rest({"p": folded}))
        assert jnp.allclose(energy, 0.5 * 2.0 * 1.0 / 1.0 * (np.pi / 2) ** 2)  # |e| = 1 m, A_0 + A_1 = 1 m^2
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    stiffness: Parameter = parameter()
    model: str = eqx.field(static=True, default="angle")

    def __check_init__(self):
        nodes = self.on[0].nodes
        if len(self.on) != 1 or nodes.ndim != 2 or nodes.shape[1] != 4:
            raise ValueError(f"HingeBending: on must be (state, (e, 4)), got nodes of shape {nodes.shape}.")
        check_choice("HingeBending", "model", self.model, _MODELS)
        check_parameters(self, self.on)
        check_range(self, stiffness=(self.stiffness, lambda k: k >= 0, "at least 0"))
        if self.rest.ndim != 2 or self.rest.shape[1] != 3:
            raise ValueError(f"HingeBending: rest has shape {self.rest.shape}, expected (nodes, 3).")
        if is_concrete(self.rest, nodes) and nodes.shape[0]:
            X = np.asarray(self.rest)[np.asarray(nodes)]
            e = X[:, 1] - X[:, 0]
            areas = [np.linalg.norm(np.cross(e, X[:, k] - X[:, 0]), axis=1) for k in (2, 3)]
            if not np.minimum(*areas).min() > 0:
                raise ValueError(f"HingeBending: a triangle of hinge {int(np.argmin(np.minimum(*areas)))} is flat at rest.")

    @classmethod
    def from_mesh(cls, state: str, mesh: Mesh, stiffness: Any, *, model: str = "angle") -> "HingeBending":
        """At every edge that two triangles of `mesh` share; its points are the rest positions of the nodes of `state`."""
        check_instance("HingeBending", "mesh", mesh, Mesh)
        return cls((state, hinges(mesh)), mesh.points, stiffness, model)

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Vec3):
            raise ValueError("HingeBending acts on points of space (Vec3).")

    def element_energy(self, x: Float[Array, "4 3"]) -> Scalar:
        X = self.rest
        e = X[1] - X[0]
        twice = safe_length(jnp.cross(e, X[2] - X[0])) + safe_length(jnp.cross(e, X[3] - X[0]))
        if self.model == "quadratic":
            bend = _cotangents(X) @ x
            square = bend @ bend
        else:
            square = (e @ e) * _folded(x, X) ** 2
        return self.stiffness * square / twice


def _folded(x: Float[Array, "4 3"], X: Float[Array, "4 3"]) -> Scalar:
    """The angle from `X` to `x`, between -pi and pi: two sines and cosines, taken together."""

    def parts(x: Array) -> tuple[Scalar, Scalar]:
        e = x[1] - x[0]
        left, right = jnp.cross(e, x[2] - x[0]), jnp.cross(x[3] - x[0], e)
        return jnp.cross(left, right) @ e / safe_length(e), left @ right

    (s, c), (S, C) = parts(x), parts(X)
    return jnp.arctan2(s * C - c * S, c * C + s * S)


def _cotangents(X: Float[Array, "4 3"]) -> Float[Array, "4"]:
    """`K`: what of the four positions is the Laplacian at the edge, nil where they lie in a plane."""

    def cot(at: int, a: int, b: int) -> Scalar:
        u, w = X[a] - X[at], X[b] - X[at]
        return (u @ w) / safe_length(jnp.cross(u, w))

    at0, at1 = (cot(0, 1, 2), cot(0, 1, 3)), (cot(1, 0, 2), cot(1, 0, 3))
    return jnp.stack([sum(at1), sum(at0), -at0[0] - at1[0], -at0[1] - at1[1]])


def hinges(mesh: Mesh) -> np.ndarray:
    """`(e, 4)`: the ends of every inner edge of triangles, and the third nodes on its left and right. Host only."""
    if mesh.kind != "triangle" or mesh.points.shape[1] != 3:
        raise ValueError(f"HingeBending: mesh must have triangles in space, got cells of kind '{mesh.kind}'.")
    if not is_concrete(mesh.cells):
        raise TypeError("HingeBending.from_mesh: the number of edges depends on values, call it outside jit.")
    cells, triangle = np.asarray(mesh.cells), reference_element("triangle")
    other = opposite_faces(cells, triangle, len(mesh.points))
    edges = cell_faces(cells, triangle, len(mesh.points))
    third = np.roll(cells, -2, axis=1).reshape(-1)  # of faces (0, 1), (1, 2), (2, 0)
    own = np.flatnonzero(other > np.arange(len(other)))
    if not own.size:
        raise ValueError("HingeBending: mesh has no edge that two triangles share.")
    return np.column_stack([edges[own], third[own], third[other[own]]]).astype(np.int32)
