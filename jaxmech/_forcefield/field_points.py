"""What is common to fields on cells: values and gradients at Gauss points, and back to the nodes.

At a point a field `u` of `c` components is the matrix `z = (u, du/dX)`, `(c, 1 + d)`, linear in the nodal values:
`z = sum_a u_a (x) b_a` with `b_a = (N_a, dN_a/dX)`. What acts on `z` there acts on the nodes through the same `b`.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar

from .._codegen import map_points
from .._mesh.geometry import field_geometry
from .._mesh.mesh import Mesh
from .._mesh.reference import ReferenceElement, reference_element
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Float
from .._runtime.field_types import Parameter
from .._scene.component import Component
from .._scene.parameter import check_parameters, is_concrete, point_axes
from .._scene.stencil import Stencils

Arrays = tuple[Array, ...]


class AbstractFieldTerm(Component):
    """Cells of a mesh, and functions of what fields are at a point of them: `f(u, du/dX, X, parameters)`."""

    on: AbstractVar[Stencils]
    rest: AbstractVar[Parameter]
    parameters: AbstractVar[Any]
    kind: AbstractVar[str]
    degree: AbstractVar[int | str]

    @property
    def cell(self) -> ReferenceElement:
        """The cell before it is placed."""
        return reference_element(self.kind)

    @property
    def quadrature_points(self) -> int:
        """How many Gauss points a cell has."""
        return len(self.cell.quadrature(self.degree)[1])

    def asked(self, function: Callable[..., Any], X: Array, *z: Array) -> Any:
        """`function` of the user's at a point: of one field its value and gradient, of several, tuples of those.

        Of a field of one component the value is a number and the gradient a vector `(d,)`.
        """
        fields = [(a[0, 0], a[0, 1:]) if a.shape[0] == 1 else (a[:, 0], a[:, 1:]) for a in z]
        u, slope = fields[0] if len(z) == 1 else tuple(zip(*fields, strict=True))
        return function(u, slope, X, self.parameters)


def at_points(term: AbstractFieldTerm, x: Arrays, function: Callable[..., Any]) -> tuple[Any, Float[Array, "q k b"]]:
    """`function(term, w, X, *z)` of every Gauss point of one cell, and the `b` that lead back to the nodes."""
    shapes, gradients, measures = field_geometry(term.cell, term.rest, term.degree)
    b = jnp.concatenate([shapes[..., None], gradients], axis=-1)
    z = (jnp.einsum("kc,qkb->qcb", a, b) for a in x)
    return map_points(function, term, measures, shapes @ term.rest, *z, axes=point_axes(term)), b


def nodal(dual: Float[Array, "q c b"], b: Float[Array, "q k b"]) -> Float[Array, "k c"]:
    """What is conjugate to the nodal values, of what is conjugate to `z` at the points."""
    return jnp.einsum("qcb,qkb->kc", dual, b)


def nodal_matrix(tangent: Float[Array, "q c b C B"], b: Float[Array, "q k b"]) -> Float[Array, "k c K C"]:
    """The same of its derivative by the `z` of the same, or another, field."""
    half = jnp.einsum("qcbCB,qKB->qcbKC", tangent, b)
    return jnp.einsum("qcbKC,qkb->kcKC", half, b)


def check_cells(term: AbstractFieldTerm) -> None:
    """Raise `ValueError` where the stencils, or the places of the nodes, are not those of the kind of cell."""
    name, cell = type(term).__name__, term.cell
    if any(s.nodes.ndim != 2 or s.nodes.shape[1] != cell.nodes for s in term.on):
        raise ValueError(
            f"{name}: on must be (state, cells), or several of those, with {cell.nodes} nodes per {term.kind}, got "
            f"{[s.nodes.shape for s in term.on]}."
        )
    cell.quadrature(term.degree)
    check_parameters(term, term.on, term.quadrature_points)
    if term.rest.ndim != 2 or term.rest.shape[1] < cell.dimension:
        raise ValueError(f"{name}: rest has shape {term.rest.shape}, too few dimensions for cells of kind '{term.kind}'.")
    nodes = term.on[0].nodes
    if not is_concrete(term.rest, nodes) or nodes.shape[0] == 0:
        return
    places = np.asarray(term.rest)[np.asarray(nodes)]  # (e, k, d)
    tangents = np.einsum("ekd,qka->eqda", places, cell.shape_gradients(cell.quadrature(term.degree)[0]))
    size = np.sqrt(np.abs(np.linalg.det(np.swapaxes(tangents, -1, -2) @ tangents))).min(axis=1)
    if not size.min() > 0:
        raise ValueError(f"{name}: cell {int(np.argmin(size))} is flat at rest, it has no length, area or volume.")


def stencils_of(name: str, states: Any, mesh: Any) -> tuple[tuple[str, Array], ...]:
    """The cells of a mesh on one state, or on each of several."""
    check_instance(name, "mesh", mesh, Mesh)
    names = (states,) if isinstance(states, str) else states
    if not isinstance(names, tuple | list) or not names or not all(isinstance(n, str) for n in names):
        raise TypeError(f"{name}: state must be the name of a state, or a tuple of names, got {states!r:.80}.")
    return tuple((n, mesh.cells) for n in names)


def check_fields(term: AbstractFieldTerm, dofs: Any) -> None:
    """Raise `ValueError` where a state has frames."""
    if not all(dof.is_vector_space and dof.space_size == dof.deriv_size for dof in dofs):
        raise ValueError(f"{type(term).__name__} acts on fields (Vec1, Vec2, Vec3), not on {dofs}.")
