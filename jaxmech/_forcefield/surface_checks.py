"""What fields on faces are given, looked at when they are built."""

from typing import Any

from .._mesh.reference import reference_element
from .._scene.dof import Vec1


def check_faces(field: Any) -> None:
    """Raise `ValueError` unless `on` is one stencil of faces of the field's kind."""
    nodes = reference_element(field.kind).nodes
    if len(field.on) != 1 or field.on[0].nodes.ndim != 2 or field.on[0].nodes.shape[1] != nodes:
        raise ValueError(f"{type(field).__name__}: on must be (state, faces) with {nodes} nodes per {field.kind}.")


def scalars_only(field: Any, dofs: Any) -> None:
    """Raise `ValueError` unless the state has one component."""
    if not isinstance(dofs[0], Vec1):
        raise ValueError(f"{type(field).__name__} acts on scalar fields (Vec1), not on {type(dofs[0]).__name__}.")
