"""What the data of a scene amount to: positions, cells and indices, through loaders, grids, containers and links."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from . import mesh_files, values
from .boxes import REGIONS, chosen
from .component import Component
from .coordinates import as_coordinates, coordinates
from .cube import cube
from .engines import ENGINES, computed
from .graph import SceneNode, SceneObject
from .grids import GRIDS as REGULAR
from .links import STATES, linked_data, linked_object, of_kind_upward
from .made_meshes import MADE
from .scene_error import shown
from .scene_files import SceneFiles
from .topological_mappings import linked_topology, mapped_into
from .topology import ALIASES, CELL_NAMES, CELLS, Topology, split_quads, with_faces
from .transform import moved, placed

GRIDS = REGULAR | {"CubeTopology": cube, "Cube": cube}
LOADERS = ("MeshGmshLoader", "MeshOBJLoader", "MeshVTKLoader", "MeshSTLLoader", "MeshOffLoader", *MADE)
CONTAINERS = ("MeshTopology", "Mesh")
CONTAINERS += tuple(
    f"{kind}SetTopologyContainer" for kind in ("Point", "Edge", "Triangle", "Quad", "Tetrahedron", "Hexahedron")
)
_OWN_CELLS = {
    "Point": (),
    "Edge": ("edges",),
    "Triangle": ("edges", "triangles"),
    "Quad": ("edges", "quads"),
    "Tetrahedron": ("edges", "triangles", "tetrahedra"),
    "Hexahedron": ("edges", "quads", "hexahedra"),
}


_AWAKE = {"activated": "1", "sleeping": "0"}  # of a node whose objects SOFA asks


class SceneData:
    """Evaluates data of the objects of one graph, each once. A circle of links is an error."""

    def __init__(self, root: SceneNode, files: SceneFiles):
        self.root, self.files = root, files
        self._known: dict[tuple[SceneObject, str], Any] = {}
        self._open: list[tuple[SceneObject, str]] = []
        for node in root.nodes():
            activated, sleeping = (values.flag(node, name, node.data.get(name, usual)) for name, usual in _AWAKE.items())
            node.active = activated and not sleeping

    def _once(self, object: SceneObject, what: str, make: Callable[[], Any]) -> Any:
        key = object, what
        if key in self._known:
            return self._known[key]
        if key in self._open:
            circle = " -> ".join(f"{o.path}.{n}" for o, n in (*self._open[self._open.index(key) :], key))
            raise object.error(f"its data depend on themselves: {circle}")
        if len(self._open) > 100:
            raise object.error("its data hang on a chain of more than 100 links")
        self._open.append(key)
        try:
            self._known[key] = make()
        finally:
            self._open.pop()
        return self._known[key]

    def linked(self, owner: SceneObject, name: str, text: str) -> np.ndarray:
        """What the link `text`, the data `name` of `owner`, leads to, as numbers."""
        return self.produced(*linked_data(owner, name, text))

    def produced(self, object: SceneObject, name: str) -> np.ndarray:
        """Data of an object: as given, or as it computes them."""
        name = ALIASES.get(name, name)
        return self._once(object, name, lambda: self._produced(object, name))

    def _produced(self, object: SceneObject, name: str) -> np.ndarray:
        kind = object.kind
        if kind in STATES and name in ("position", "rest_position"):
            return self.positions(object)[name]
        if kind in REGIONS:
            return chosen(self, object, name)
        if kind in ENGINES:
            return computed(self, object, name)
        if self.is_mesh(object) and (name in CELLS or name == "position"):
            mesh = self.topology(object)
            return getattr(with_faces(mesh) if name in ("triangles", "quads") else mesh, name)
        if self.is_mesh(object) and name == "n" and self.topology(object).lattice is not None:
            return np.asarray(self.topology(object).lattice)
        if name in object.data:
            return Component(self, object).reals(name)
        if name in _PLACED and (kind in STATES or kind in LOADERS):
            return np.full(3, _PLACED[name])
        raise object.error(f"has no data '{name}' that a link can read")

    @staticmethod
    def is_mesh(object: SceneObject) -> bool:
        return object.kind in LOADERS or SceneData.is_topology(object)

    @staticmethod
    def is_topology(object: SceneObject) -> bool:
        return object.kind in GRIDS or object.kind in CONTAINERS

    def topology_for(self, part: Component) -> Topology:
        """The topology that a component works on: the one it links to, or the nearest, in its node or above."""
        found = linked_topology(self, part, "topology")
        if found is None:
            found = of_kind_upward(part.object.node, self.is_topology)
        if not isinstance(found, SceneObject):
            raise part.error("there is no topology in its node or above, and it links to none")
        return self.topology(found)

    def topology(self, object: SceneObject) -> Topology:
        """Points and cells of a loader, a grid or a container."""
        if not self.is_mesh(object):
            raise object.error("is no loader, grid or container of a mesh that is translated")
        return self._once(object, "topology", lambda: self._topology(object))

    def _topology(self, object: SceneObject) -> Topology:
        part = Component(self, object)
        if object.kind in GRIDS:
            mesh = GRIDS[object.kind](self, part)
            part.done()
            return _checked(part, mesh)
        if object.kind in LOADERS:
            return _checked(part, self._loaded(part))
        return _checked(part, self._contained(part))

    def _loaded(self, part: Component) -> Topology:
        if part.object.kind in MADE:
            return _placed(part, MADE[part.object.kind](part))
        name = part.text("filename", "")
        if name.startswith("@"):
            raise part.error(f"filename is {shown(name)}, expected a file")
        if not name:
            return Topology(**self._given(part))
        path = self.files.find(name, part.object.file, part.error)
        content = self.files.read(path, part.error)
        readers = {"MeshGmshLoader": mesh_files.read_gmsh, "MeshOBJLoader": mesh_files.read_obj}
        if part.object.kind in readers:
            mesh = readers[part.object.kind](content, path, part.error)
        else:
            mesh = mesh_files.read_other(path, part.error)
        return _placed(part, mesh)

    def _given(self, part: Component) -> dict[str, np.ndarray]:
        given = {name: part.wholes(names, None, width=CELLS[name]) for name, names in CELL_NAMES.items()}
        position = part.reals(("position", "points", "vertices"), None, width=3)
        found = {name: cells for name, cells in given.items() if cells is not None}
        return found | ({"position": position} if position is not None else {"position": np.zeros((0, 3))})

    def _contained(self, part: Component) -> Topology:
        base: dict[str, Any] = {}
        if part.has("src"):
            base = _copied(part.object.kind, self.topology(linked_object(part.object, "src", part.object.data["src"])))
        given = self._given(part)
        base |= {name: a for name, a in given.items() if name != "position" or len(a) or "position" not in base}
        filled = mapped_into(self, part.object)
        if filled is not None:
            base = dict(vars(filled))
        name = part.text(("filename", "fileTopology"), "")
        if name:
            path = self.files.find(name, part.object.file, part.error)
            base |= vars(mesh_files.read(self.files.read(path, part.error), path, part.error))
        part.done()
        if not len(base["position"]):
            state = of_kind_upward(part.object.node, lambda o: o.kind in STATES)  # one that a mapping gives says no points
            if state is not None and "position" in state.data:
                base["position"] = self.produced(state, "position")
        return Topology(**base)

    def positions(self, state: SceneObject) -> dict[str, np.ndarray]:
        """`position` and `rest_position` `(n, c)` of a mechanical state that no mapping gives."""
        return self._once(state, "positions", lambda: self._positions(state))

    def _positions(self, state: SceneObject) -> dict[str, np.ndarray]:
        part, width = Component(self, state), coordinates(state)
        source = None
        if part.has("position"):
            text = state.data["position"]
            source = part.reals("position", None, width=1 if text.strip().startswith("@") else width)
        elif part.has("src"):
            source = self.topology(linked_object(state, "src", state.data["src"])).position
        else:
            own = [o for o in state.node.objects if self.is_topology(o)] if part.flag("useTopology", True) else []
            mesh = part.link("topology") or (own[-1] if own else None)
            source = self.topology(mesh).position if isinstance(mesh, SceneObject) else None
        rest = self._rest(part, width)
        if len(rest) > 1 and not part.has("position", "src"):
            source = rest  # of a state that says where it is at rest, and not where it is
        if source is None or not np.size(source):
            if part.whole("size", 1) > 1 or part.has("position", "src"):
                raise part.error("has no position, and no topology in its node gives one")
            source = np.zeros((1, width))  # a state that says nothing has one node, in the origin
            source[:, 6:] = 1.0  # of frames, the last of the quaternion
        x = placed(part)(_of_unit_turns(as_coordinates(part, np.asarray(source, float), width)))
        rest = rest if len(rest) else x
        if len(rest) != len(x):
            raise part.error(f"rest_position has {len(rest)} entries, position {len(x)}")
        wide = {7: 6}.get(width, width)
        velocity = np.reshape(part.reals("velocity", (), width=wide), (-1, wide))
        if 0 < len(velocity) < len(x):  # the last one is that of all that follow
            velocity = np.concatenate([velocity, np.tile(velocity[-1], (len(x) - len(velocity), 1))])
        part.neutral(restScale=1)
        part.ignored("size", "reserve", "force", "externalForce", "derivX", "free_position", "free_velocity")
        part.done()
        return {"position": x, "rest_position": rest} | ({"velocity": velocity} if len(velocity) else {})

    def _rest(self, part: Component, width: int) -> np.ndarray:
        """Where a state says that it is at rest; nothing where it does not."""
        linked = part.object.data.get("rest_position", "").strip().startswith("@")
        found = np.asarray(part.reals("rest_position", (), width=1 if linked else width), float)
        return _of_unit_turns(as_coordinates(part, found, width)) if found.size else np.zeros((0, width))


_PLACED = {"translation": 0.0, "rotation": 0.0, "scale3d": 1.0}  # unless said


def _of_unit_turns(x: np.ndarray) -> np.ndarray:
    """Frames whose quaternions are of unit length, as SOFA makes them; others as they are."""
    if x.shape[1] != 7:
        return x
    length = np.linalg.norm(x[:, 3:], axis=1, keepdims=True)
    return np.concatenate([x[:, :3], x[:, 3:] / np.where(length > 0, length, 1.0)], axis=1)


def _placed(part: Component, mesh: Topology) -> Topology:
    """What a loader has read, where it says that it shall be."""
    part.ignored("handleSeams", "loadMaterial", "computeMaterialFaces", "texcoords", "normals", "material")  # of pictures
    part.ignored("createSubelements", "onlyAttachedPoints", "headerSize", "forceBinary", *CELLS, "position")
    order = slice(None, None, -1 if part.flag("flipNormals", False) else 1)
    mesh = replace(moved(mesh, placed(part)), triangles=mesh.triangles[:, order], quads=mesh.quads[:, order])
    if part.flag("triangulate", False):
        split = split_quads(mesh).triangles[:, order]  # turned once more, as SOFA does
        mesh = replace(mesh, triangles=np.concatenate([mesh.triangles, split]), quads=mesh.quads[:0])
    part.done()
    return mesh


def _copied(kind: str, mesh: Topology) -> dict[str, Any]:
    """What a container takes over. A copy of a grid is no grid: Hexa2TetraTopologicalMapping mirrors its cells by other
    rules."""
    own = next((cells for start, cells in _OWN_CELLS.items() if kind.startswith(start)), tuple(CELLS))
    mesh = with_faces(mesh) if kind.startswith(("Triangle", "Quad")) else mesh
    return {"position": mesh.position} | {name: getattr(mesh, name) for name in own}


def _checked(part: Component, mesh: Topology) -> Topology:
    """`mesh`, whose cells name points that exist."""
    for name in CELLS:
        cells = getattr(mesh, name)
        if cells.size and len(mesh.position) and not 0 <= cells.min() <= cells.max() < len(mesh.position):
            wrong = cells.max() if cells.min() >= 0 else cells.min()
            raise part.error(f"{name} name node {wrong}, but there are {len(mesh.position)} points")
    return mesh
