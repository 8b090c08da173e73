"""States of a run in files."""

from pathlib import Path
from typing import Any

import numpy as np

from .._model.dynamics import kinematics
from .read.links import of_kind_upward
from .read.topology import CELLS, Topology
from .scene_graph import SceneGraph

_VTK = {"edges": "line", "triangles": "triangle", "quads": "quad", "tetrahedra": "tetra", "hexahedra": "hexahedron"}
_VTK |= {"prisms": "wedge", "pyramids": "pyramid"}
_AXES = {"Vec2": 2, "Vec3": 3, "Rigid2": 2, "Rigid3": 3}  # of the place of a node


def check_recordable(path: Path) -> None:
    """Raise, before a scene runs, where `write_frames` could not write this file."""
    if not path.parent.is_dir():
        raise ValueError(f"--record is {path}: there is no folder {path.parent}")
    if path.suffix != ".npz" and path.suffix.lower() not in _meshio(path).extension_to_filetypes:
        raise ValueError(f"--record is {path}: expected .npz, .vtu or what else meshio writes")


def left_out(path: Path, scene: SceneGraph) -> list[tuple[str, str]]:
    """The states that `write_frames` leaves out of this file, and why. Raises `ValueError` where none is left."""
    if path.suffix == ".npz":
        return []
    kinds = {s: type(d).__name__ for part in scene.parts.values() for s, d in part.system.dofs.items()}
    found = [
        (s, f"its nodes ({kind}) are no points of space or the plane") for s, kind in kinds.items() if kind not in _AXES
    ]
    if len(found) == len(kinds):
        raise ValueError(f"--record is {path}: no state of the scene has points to draw, .npz holds all numbers")
    return found


def _meshio(path: Path) -> Any:
    try:
        import meshio
    except ImportError:
        raise ImportError(f"{path.name} is written by meshio: install jaxmech[mesh], or record an .npz") from None
    return meshio


def write_frames(path: Path, scene: SceneGraph, frames: dict[str, tuple[Any, Any]]) -> None:
    """The states of all times in an `.npz`; the last points and cells in what meshio writes (the extra `mesh`), those of
    the plane at z = 0."""
    if path.suffix == ".npz":
        arrays = {}
        for _, run in frames.values():
            arrays |= {f"{s}|position": np.asarray(x) for s, x in run.position.items()}
            arrays |= {f"{s}|velocity": np.asarray(v) for s, v in run.velocity.items()}
            arrays["time"] = np.asarray(run.time)
        np.savez(path, **arrays)
        return
    points, cells, count = [], [], 0
    for part, run in frames.values():
        x = kinematics(part.system, run.last.position)
        for object in scene.root.walk():
            state = object.path.removeprefix("@/")
            axes = _AXES.get(type(part.system.dofs[state]).__name__, 0) if state in x else 0
            if object.kind != "MechanicalObject" or not axes:
                continue
            at = np.pad(np.asarray(x[state])[:, :axes], ((0, 0), (0, 3 - axes)))
            cells += [(_VTK[name], array + count) for name, array in _cells(scene, object, len(at))]
            points.append(at)
            count += len(at)
    whole = np.concatenate(points)
    _meshio(path).write(path, _meshio(path).Mesh(whole, cells or [("vertex", np.arange(len(whole))[:, None])]))


def _cells(scene: SceneGraph, state: Any, count: int) -> list[tuple[str, np.ndarray]]:
    data = scene.data
    mesh = of_kind_upward(state.node, data.is_topology)
    topology: Topology | None = data.topology(mesh) if mesh is not None else None
    if topology is None or len(topology.position) != count:
        return []
    return [(name, getattr(topology, name)) for name in CELLS if len(getattr(topology, name))]
