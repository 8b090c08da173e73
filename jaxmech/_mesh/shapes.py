"""Structured meshes of simple shapes: a plate with a hole, a cylinder, a ball."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._runtime.argument_checks import check_choice, check_counts, plain, real_array, whole_numbers
from .._runtime.array_types import Float
from .adjacency import row_keys
from .box import box_mesh
from .mesh import Mesh
from .quadratic import quadratic_mesh

_SQUARE_IN_DISC = 0.5  # how far the square in the middle of a disc, and the cube in that of a ball, reach


def plate_with_hole(*, radius: Any, size: Any, cells: tuple[int, int], kind: str = "quad") -> Mesh:
    """A quarter of a square plate with a round hole: `x, y >= 0`, outside the circle of `radius` [m], inside `[0, size]^2`.

    `cells`: along a half of the arc, and from the hole to the sides, towards which they grow. `kind`: "quad", or "quad8" or
    "quad9", whose middle nodes lie on the circle. Raises `ValueError` unless `0 < radius < size`.
    Source: P. J. Frey, P. L. George, *Mesh Generation*, 2nd ed., 2008, ISBN 978-1-84821-029-5, chapter 3 (algebraic meshes).

    Example:

        plate = jm.mesh.plate_with_hole(radius=1.0, size=4.0, cells=(6, 6), kind="quad9")
        assert jnp.allclose(plate.measure(), 16.0 - np.pi / 4, rtol=1e-5)  # [m^2]
    """
    radius, size = positive_length("plate_with_hole", "radius", radius), positive_length("plate_with_hole", "size", size)
    if not radius < size:
        raise ValueError(f"plate_with_hole: radius {radius} is not smaller than size {size}.")
    around, out = _counts("plate_with_hole", cells)

    def placed(grid: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
        angle, away = grid[:, 0] * np.pi / 4, grid[:, 1]
        inner = radius * np.column_stack([np.cos(angle), np.sin(angle)])
        # The side x = size up to the corner, then the side y = size back to the axis.
        outer = size * np.column_stack([np.minimum(1, 2 - grid[:, 0]), np.minimum(1, grid[:, 0])])
        growth = away * (radius / size + (1 - radius / size) * away)
        return inner + growth[:, None] * (outer - inner)

    return _mapped("plate_with_hole", (2 * around, out), (2.0, 1.0), kind, placed, flipped=True)


def cylinder_mesh(
    *, radius: Any, height: Any, cells: tuple[int, int], inner_radius: Any = 0.0, kind: str = "hexahedron"
) -> Mesh:
    """A cylinder about the z axis, from `z = 0` to `height` [m]; with an `inner_radius`, a tube.

    `cells`: along a quarter of the rim, and along the axis; a tube is as many thick as along a quarter of the rim.
    `kind`: "hexahedron", or "hexahedron20" or "hexahedron27" with nodes on the round sides. Raises `ValueError` unless the
    lengths are positive, and the inner radius is smaller.
    Source: P. J. Frey, P. L. George, *Mesh Generation*, 2nd ed., 2008, ISBN 978-1-84821-029-5, chapter 3 (algebraic meshes).

    Example:

        rod = jm.mesh.cylinder_mesh(radius=1.0, height=2.0, cells=(4, 3), kind="hexahedron27")
        assert jnp.allclose(rod.measure(), 2 * np.pi, rtol=1e-3)  # [m^3]
    """
    owner = "cylinder_mesh"
    radius, height = positive_length(owner, "radius", radius), positive_length(owner, "height", height)
    around, along = _counts(owner, cells)
    inner = float(np.asarray(real_array(owner, "inner_radius", inner_radius, ())))
    if not 0 <= inner < radius:
        raise ValueError(f"cylinder_mesh: inner_radius must be 0 or more, and less than radius {radius}, got {inner}.")
    if inner:

        def tube(grid: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
            r, angle = inner + grid[:, 0] * (radius - inner), grid[:, 1] * np.pi / 2
            return np.column_stack([r * np.cos(angle), r * np.sin(angle), height * grid[:, 2]])

        return _mapped(owner, (around, 4 * around, along), (1.0, 4.0, 1.0), kind, tube)

    def disc(grid: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
        return np.column_stack([radius * _round(grid[:, :2]), height * grid[:, 2]])

    return _mapped(owner, (around, around, along), (2.0, 2.0, 1.0), kind, disc, origin=(-1.0, -1.0, 0.0))


def ball_mesh(*, radius: Any, cells: int, kind: str = "hexahedron") -> Mesh:
    """A ball about the origin, `radius` [m]: a cube of `cells` along each side, made round.

    `kind`: "hexahedron", or "hexahedron20" or "hexahedron27" with nodes on the sphere. Raises `ValueError` for a radius that
    is not positive.
    Source: P. J. Frey, P. L. George, *Mesh Generation*, 2nd ed., 2008, ISBN 978-1-84821-029-5, chapter 3 (algebraic meshes).

    Example:

        ball = jm.mesh.ball_mesh(radius=1.0, cells=4, kind="hexahedron27")
        assert jnp.allclose(ball.measure(), 4 / 3 * np.pi, rtol=5e-3)  # [m^3]
    """
    radius = positive_length("ball_mesh", "radius", radius)
    cells = plain(cells)
    check_counts("ball_mesh", cells=cells)
    placed = lambda grid: radius * _round(grid)  # noqa: E731
    return _mapped("ball_mesh", (cells,) * 3, (2.0,) * 3, kind, placed, origin=(-1.0,) * 3)


def _round(grid: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """The cube `[-1, 1]^d` made a ball: a smaller cube in the middle bulges, what is around it becomes shells."""
    reach = np.max(np.abs(grid), axis=1)
    length = np.linalg.norm(grid, axis=1)
    sphere = grid * (reach / np.where(length > 0, length, 1))[:, None]
    return (1 - reach[:, None]) * _SQUARE_IN_DISC * grid * np.sqrt(2) + reach[:, None] * sphere


def _mapped(
    owner: str,
    cells: tuple[int, ...],
    size: tuple[float, ...],
    kind: str,
    placed: Callable[[np.ndarray], np.ndarray],
    *,
    origin: Any = 0.0,
    flipped: bool = False,
) -> Mesh:
    """The image of a box, points that fall together made one; `flipped`: the map turns cells inside out."""
    kinds = ("quad", "quad8", "quad9") if len(cells) == 2 else ("hexahedron", "hexahedron20", "hexahedron27")
    check_choice(owner, "kind", kind, kinds)
    linear = kinds[0]
    box = box_mesh(cells=cells, size=size, origin=origin, kind=linear)
    if flipped:
        box = Mesh(box.points, np.asarray(box.cells)[:, [0, 3, 2, 1]], linear)
    box = box if kind == linear else quadratic_mesh(box, kind)
    points = placed(np.asarray(box.points, float))
    return Mesh(*_merged(points, np.asarray(box.cells)), kind)


def _merged(points: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points within 1e-9 of the size of the mesh as one, and cells of those."""
    steps = np.round((points - points.min(axis=0)) / (1e-9 * np.ptp(points, axis=0).max())).astype(np.int64)
    _, first, which = np.unique(row_keys(steps, int(steps.max()) + 1), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return points[first[order]], rank[which.ravel()][cells]


def positive_length(owner: str, name: str, value: Any) -> float:
    number = float(np.asarray(real_array(owner, name, value, ())))
    if not number > 0:
        raise ValueError(f"{owner}: {name} must be positive, got {number}.")
    return number


def _counts(owner: str, cells: Any) -> tuple[int, int]:
    first, second = whole_numbers(owner, "cells", cells, (2,)).tolist()
    if min(first, second) < 1:
        raise ValueError(f"{owner}: cells must be at least 1, got {cells!r:.80}.")
    return first, second
