"""What fields on faces are given, looked at when they are built."""

from typing import Any

from .._mesh.reference import reference_element


def check_faces(field: Any) -> None:
    """Raise `ValueError` unless `on` is one stencil of faces of the field's kind."""
    nodes = reference_element(field.kind).nodes
    if len(field.on) != 1 or field.on[0].nodes.ndim != 2 or field.on[0].nodes.shape[1] != nodes:
        raise ValueError(f"{type(field).__name__}: on must be (state, faces) with {nodes} nodes per {field.kind}.")
