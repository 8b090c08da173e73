"""What shells are given, looked at when they are built."""

from typing import Any

from .._math.rotation import have_unit_quaternions
from .._mesh.frames import upright_frames
from .._mesh.mesh import Mesh
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array
from .._scene.dof import Rigid3
from .._scene.parameter import check_parameters, check_range


def check_shell(shell: Any, corners: int) -> None:
    """Raise `ValueError` unless `on`, `rest` and the numbers of a material are those of shells of so many corners."""
    name, nodes = type(shell).__name__, shell.on[0].nodes
    if len(shell.on) != 1 or nodes.ndim != 2 or nodes.shape[1] != corners:
        cells = {3: "triangles", 4: "quads"}[corners]
        raise ValueError(f"{name}: on must be (state, {cells}), got nodes of shape {nodes.shape}.")
    check_parameters(shell, shell.on)
    if shell.rest.ndim != 2 or shell.rest.shape[1] != 7:
        raise ValueError(f"{name}: rest has shape {shell.rest.shape}, expected frames (nodes, 7).")
    check_range(shell, rest=(shell.rest, have_unit_quaternions, "frames with quaternions of unit length"))
    positive = (lambda a: a > 0, "positive")
    check_range(shell, **{n: (getattr(shell, n), *positive) for n in ("young", "thickness", "drilling", "shear")})
    check_range(shell, poisson=(shell.poisson, lambda nu: (nu > -1) & (nu <= 0.5), "in (-1, 1/2]"))


def frames_of_mesh(name: str, mesh: Any, kind: str) -> Array:
    """Frames at the points of a mesh of cells of a kind in space, not turned. Raises `ValueError` for another."""
    check_instance(name, "mesh", mesh, Mesh)
    if mesh.kind != kind or mesh.points.shape[1] != 3:
        raise ValueError(f"{name}: mesh must have {kind}s in space, got cells of kind '{mesh.kind}'.")
    return upright_frames(mesh.points)


def frames_only(shell: Any, dofs: Any) -> None:
    """Raise `ValueError` unless a shell acts on frames of space."""
    if not isinstance(dofs[0], Rigid3):
        raise ValueError(f"{type(shell).__name__} acts on Rigid3 frames.")
