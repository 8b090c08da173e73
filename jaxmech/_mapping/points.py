"""What most mappings ask of the degrees of freedom that they join."""

from collections.abc import Sequence

from .._scene.dof import AbstractDof, Rigid2, Rigid3, Vec1, Vec2, Vec3
from .base import AbstractMapping

POINTS = (Vec1, Vec2, Vec3)
POINTS_ON = {Rigid2: Vec2, Rigid3: Vec3}  # which points a frame carries


def check_points(
    mapping: AbstractMapping,
    parents: Sequence[AbstractDof],
    child: AbstractDof,
    *,
    child_size: int | None = None,
    sizes: tuple[int, ...] = (1, 2, 3),
) -> None:
    """Raise `ValueError` unless all are points, parents of one dimension out of `sizes`, the child of `child_size`.

    Without `child_size`, the child is of the dimension of its parents.
    """
    kinds = [type(dof).__name__ for dof in (*parents, child)]
    name = type(mapping).__name__
    if not all(isinstance(dof, POINTS) for dof in (*parents, child)):
        raise ValueError(f"{name} maps points to points (Vec1, Vec2, Vec3), got {kinds[:-1]} and the child {kinds[-1]}.")
    size = parents[0].coord_size
    if any(dof.coord_size != size for dof in parents) or size not in sizes:
        raise ValueError(f"{name} needs parents of one dimension out of {sizes}, got {kinds[:-1]}.")
    wanted = size if child_size is None else child_size
    if child.coord_size != wanted:
        raise ValueError(f"{name} makes a child of kind Vec{wanted}, got {kinds[-1]}.")


def check_frames(mapping: AbstractMapping, parents: Sequence[AbstractDof], child: AbstractDof) -> None:
    """Raise `ValueError` unless the parents are frames of one kind and the child a point that such a frame carries."""
    kinds = [type(dof).__name__ for dof in (*parents, child)]
    frame = type(parents[0])
    if frame not in POINTS_ON or any(type(p) is not frame for p in parents) or type(child) is not POINTS_ON[frame]:
        raise ValueError(
            f"{type(mapping).__name__} maps Rigid3 to Vec3 or Rigid2 to Vec2, got {kinds[:-1]} and the child {kinds[-1]}."
        )
