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


def check_recordable(path: Path) -> None:
    """Raise, before a scene runs, where `write_frames` could not write this file."""
    if not path.parent.is_dir():
        raise ValueError(f"--record is {path}: there is no folder {path.parent}")
    if path.suffix != ".npz" and path.suffix.lower() not in _meshio(path).extension_to_filetypes:
        raise ValueError(f"--record is {path}: expected .npz, .vtu or what else meshio writes")


def _meshio(path: Path) -> Any:
    try:
        import meshio
    except ImportError:
        raise ImportError(f"{path.name} is written by meshio: install jaxmech[mesh], or record an .npz") from None
    return meshio


def write_frames(path: Path, scene: SceneGraph, frames: dict[str, tuple[Any, Any]]) -> None:
    """All states in an `.npz`; the points and cells of the last one in what meshio writes (the extra `mesh`)."""
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
            if object.kind != "MechanicalObject" or state not in x or x[state].shape[1] < 3:
                continue
            at = np.asarray(x[state])[:, :3]
            cells += [(_VTK[name], array + count) for name, array in _cells(scene, object, len(at))]
            points.append(at)
            count += len(at)
    if not points:
        raise ValueError("no state of the scene has points in space to record")
    whole = np.concatenate(points)
    _meshio(path).write(path, _meshio(path).Mesh(whole, cells or [("vertex", np.arange(len(whole))[:, None])]))


def _cells(scene: SceneGraph, state: Any, count: int) -> list[tuple[str, np.ndarray]]:
    data = scene.data
    mesh = of_kind_upward(state.node, data.is_topology)
    topology: Topology | None = data.topology(mesh) if mesh is not None else None
    if topology is None or len(topology.position) != count:
        return []
    return [(name, getattr(topology, name)) for name in CELLS if len(getattr(topology, name))]
