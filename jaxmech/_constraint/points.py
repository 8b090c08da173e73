"""What constraints between points ask of where they act."""

from collections.abc import Sequence

from .._scene.dof import AbstractDof, Vec1, Vec2, Vec3
from .multiplier import AbstractMultiplierConstraint


def check_single_nodes(constraint: AbstractMultiplierConstraint, *counts: int) -> None:
    """Raise `ValueError` unless `on` has one of these numbers of stencils, of one node per element each."""
    on = constraint.on
    if len(on) not in counts or any(s.nodes.ndim != 1 for s in on):
        raise ValueError(
            f"{type(constraint).__name__}: on must be {' or '.join(map(str, counts))} of (state, nodes), with one node per "
            f"element, shape (e,); got {[(s.state, tuple(s.nodes.shape)) for s in on]}."
        )


def check_points(constraint: AbstractMultiplierConstraint, dofs: Sequence[AbstractDof]) -> None:
    """Raise `ValueError` unless every degree of freedom is a point, all of the same dimension."""
    if not all(isinstance(dof, Vec1 | Vec2 | Vec3) for dof in dofs) or len({dof.coord_size for dof in dofs}) > 1:
        kinds = [type(dof).__name__ for dof in dofs]
        raise ValueError(f"{type(constraint).__name__} acts on points (Vec1, Vec2, Vec3) of one dimension, not on {kinds}.")
