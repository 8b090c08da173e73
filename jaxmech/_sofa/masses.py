"""Masses."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._mass.consistent import ConsistentMass
from .._mass.diagonal import DiagonalMass
from .._mass.planar_rigid import PlanarRigidMass
from .._mass.rigid import RigidMass
from .._mass.uniform import UniformMass
from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._mesh.surface import rest_measures
from .numerics.edge_mass import VertexEdgeMass
from .numerics.frame_mass import FrameMass
from .part_builder import Leaf, PartBuilder, named
from .read import mesh_files, values
from .read.component import Component
from .read.graph import SceneObject

SINGULAR = {
    "edges": "edge",
    "triangles": "triangle",
    "quads": "quad",
    "tetrahedra": "tetrahedron",
    "hexahedra": "hexahedron",
}
_SOLIDS = {**SINGULAR, "prisms": "prism", "pyramids": "pyramid"}


def uniform_mass(build: PartBuilder, part: Component) -> str:
    """The same mass on every node: `vertexMass`, or its share of `totalMass`, 1 unless given."""
    state, name = build.state_of(part), named(part.object)
    nodes = build.indices(part, state, default=np.arange(len(build.position[state])))
    if build.has_frames(state):
        return _frame_mass(build, part, state, nodes)
    one = part.real(("vertexMass", "mass"))
    total = part.real(("totalMass", "totalmass"))
    one, total = (one, 1.0) if total is None else (None, total)  # the total takes the place of the other
    mass = total / len(nodes) if one is None else one
    _rayleigh(build, part)
    part.neutral(compute_mapping_inertia=False, preserveTotalMass=False, separateGravity=False, filename="")
    _positive(part, "vertexMass" if one is not None else "totalMass", mass)
    build.masses[name] = UniformMass((state, nodes), mass)
    if one is not None:
        build.parameter(part, "vertexMass", "masses", "mass")
    else:
        build.share(part, "totalMass", "masses", "mass", len(nodes))
    said = part.object.data.keys() & {"vertexMass", "mass", "totalMass", "totalmass"}
    return "" if said else "totalMass is 1, SOFA's default"


def _frame_mass(build: PartBuilder, part: Component, state: str, nodes: np.ndarray) -> str:
    """`vertexMass="mass volume [inertia per mass]"`, or a total mass, of an inertia of 1 m^2 per mass."""
    total, name = part.real(("totalMass", "totalmass")), named(part.object)
    axes = 3 if build.dofs[state].coord_size == 7 else 1
    numbers, inertia = _rigid_numbers(part), np.eye(axes)
    if axes == 3 and part.text("filename", ""):
        numbers, total = _of_file(build, part, numbers, total, len(nodes))
    numbers, total = (numbers, 1.0) if total is None else (None, total)  # the total takes the place of the other
    mass = total / len(nodes) if numbers is None else float(numbers[0])
    if numbers is not None and len(numbers) >= 2 + axes**2:  # SOFA reads no further
        inertia = numbers[2 : 2 + axes**2].reshape(axes, axes)
    elif numbers is not None and len(numbers) > 2:
        count = "nine" if axes == 3 else "one"
        raise part.error(f"vertexMass has {len(numbers)} numbers, expected mass, volume and {count} of the inertia per mass")
    _rayleigh(build, part)
    part.neutral(compute_mapping_inertia=False, preserveTotalMass=False, separateGravity=False)
    part.neutral(**({} if axes == 3 else {"filename": ""}))
    _positive(part, "totalMass" if numbers is None else "vertexMass", mass)
    if not (np.allclose(inertia, inertia.T, rtol=1e-6) and (np.linalg.eigvalsh(inertia) > 0).all()):
        raise part.error("the inertia of vertexMass is not symmetric and positive definite")
    if build.sofa:
        build.masses[name] = FrameMass((state, nodes), mass, inertia)
        return "its inertia does not turn with the body, as in SOFA"
    build.masses[name] = rigid_mass(state, nodes, mass, mass * inertia)
    return "its inertia turns with the body"


def rigid_mass(state: str, nodes: np.ndarray, mass: float, inertia: np.ndarray) -> RigidMass | PlanarRigidMass:
    """Frames of space or of the plane, with this inertia of each [kg m^2]."""
    if len(inertia) == 1:
        return PlanarRigidMass((state, nodes), mass, float(inertia[0, 0]))
    return RigidMass((state, nodes), mass, inertia)


def unit_mass(build: PartBuilder, state: str) -> UniformMass | FrameMass | RigidMass | PlanarRigidMass:
    """What a state without a mass has: 1 kg in all; frames with an inertia of 1 m^2 per mass."""
    nodes = np.arange(len(build.position[state]))
    if not build.has_frames(state):
        return UniformMass.of_total((state, nodes), 1.0)
    mass, inertia = 1.0 / len(nodes), np.eye(3 if build.dofs[state].coord_size == 7 else 1)
    return FrameMass((state, nodes), mass, inertia) if build.sofa else rigid_mass(state, nodes, mass, mass * inertia)


def _rigid_numbers(part: Component) -> np.ndarray | None:
    name = part.has("vertexMass", "mass")
    if not name or part.object.data[name].strip().startswith("@"):
        return part.reals(name) if name else None
    return values.reals(part.object, name, part.object.data[name].replace("[", " ").replace("]", " "))


def _of_file(
    build: PartBuilder, part: Component, numbers: np.ndarray | None, total: float | None, count: int
) -> tuple[np.ndarray, None]:
    """The mass of a `.rigid` file, in the place of what the scene says: mass, volume, inertia per mass."""
    name = part.text("filename", "")
    path = build.data.files.find(name, part.object.file, part.error)
    found = mesh_files.read_rigid_mass(build.data.files.read(path, part.error), path, part.error)
    given = 1.0 if numbers is None else float(numbers[0])
    mass = found.get("vertexMass", [given if total is None else total / count])
    return np.concatenate([mass, found.get("volm", [1.0]), found.get("inrt", np.eye(3).ravel())]), None


def diagonal_mass(build: PartBuilder, part: Component) -> str:
    """The mass of cells in equal parts on their nodes."""
    state, name = build.state_of(part), named(part.object)
    count = len(build.position[state])
    masses = part.reals("vertexMass")
    _rayleigh(build, part)
    part.neutral(separateGravity=False, filename="")
    places = _shape(build, part, state, on_rest=True)
    if masses is not None:
        masses = np.broadcast_to(masses, (count,)) if len(masses) == 1 else masses
        if len(masses) != count:
            raise part.error(f"vertexMass has {len(masses)} entries, expected {count}")
        build.masses[name] = DiagonalMass((state, np.arange(count)), masses)
        build.parameter(part, "vertexMass", "masses", "mass")
        return ""
    mesh, density = _density(build, part, state, places)
    build.masses[name] = DiagonalMass.from_mesh(state, mesh, density)
    return "its leaf is the mass of each node"


def vertex_edge_mass(build: PartBuilder, part: Component) -> str:
    """SOFA's mass of vertices and edges; with `lumping`, that of vertices alone."""
    state, name = build.state_of(part), named(part.object)
    _rayleigh(build, part)
    part.neutral(printMass=False, separateGravity=False, vertexMass="", edgeMass="")
    lumped, places = part.flag("lumping", False), _shape(build, part, state, on_rest=False)
    mesh, density = _density(build, part, state, places)
    if lumped:
        build.masses[name] = DiagonalMass.from_mesh(state, mesh, density)
        return "lumped"
    if not build.sofa:
        build.masses[name] = ConsistentMass((state, mesh.cells), places, density, mesh.kind)
        build.parameter(part, "massDensity", "masses", "density")
        return "the consistent mass"
    build.masses[name] = VertexEdgeMass((state, mesh.cells), places, density, mesh.kind)
    build.parameter(part, "massDensity", "masses", "density")
    simplex = mesh.kind not in ("quad", "hexahedron")
    return "the consistent mass" if simplex else "SOFA's of vertices and edges, which is not the consistent one"


def consistent_mass(build: PartBuilder, part: Component) -> str:
    """FEMMass: the consistent mass of cells of the kind that its template names, with the nodal density of its node."""
    state, name = build.state_of(part), named(part.object)
    kind = part.text("template", "").split(",")[-1].strip().lower()
    plural = next((cells for cells, one in _SOLIDS.items() if one == kind), None)
    if plural is None:
        raise part.error(f"template names no kind of cells of {sorted(_SOLIDS.values())}")
    density = part.link("nodalMassDensity")
    given = [density] if density else [o for o in part.object.node.objects if o.kind == "NodalMassDensity"]
    if not given:
        raise part.error("there is no NodalMassDensity in its node")
    values = Component(build.data, given[0]).reals("property")
    if values is None or len(set(values.tolist())) != 1:
        raise part.error("a nodal mass density that varies is not translated")
    lumped = part.flag("lumping", False)
    part.neutral(separateGravity=False)
    _rayleigh(build, part)
    cells = getattr(build.topology_of(part, state, plural), plural)
    if lumped:
        nodal = _sums_of_rows(build.rest[state], cells, kind) * float(values[0])
        nodes = np.unique(cells)
        build.masses[name] = DiagonalMass((state, nodes), nodal[nodes])
        return "the sum of each row; its leaf is the mass of each node"
    build.masses[name] = ConsistentMass((state, cells), build.rest[state], float(values[0]), kind)
    build.parameters[given[0].path, "property"] = Leaf("masses", name, "density")
    return ""


def _sums_of_rows(x: np.ndarray, cells: np.ndarray, kind: str) -> np.ndarray:
    """The integral of the shape function of each node: the sums of the rows of a consistent mass of density 1."""
    shapes, measures = jax.vmap(partial(rest_measures, reference_element(kind)))(jnp.asarray(x[cells], float))
    found = np.zeros(len(x))
    np.add.at(found, cells, np.einsum("eqk,eq->ek", np.asarray(shapes), np.asarray(measures)))
    return found


def _shape(build: PartBuilder, part: Component, state: str, *, on_rest: bool) -> np.ndarray:
    """The nodes of the cells that have mass: at rest, or as they are at the start."""
    return (build.rest if part.flag("computeMassOnRest", on_rest) else build.position)[state]


def _density(build: PartBuilder, part: Component, state: str, places: np.ndarray) -> tuple[Mesh, Any]:
    """The cells that have mass, and their density: as given, or such that the total is that given."""
    plural, cells = build.topology_of(part, state).cells()
    if not len(cells):
        raise part.error("its topology has no cells")
    if build.dofs[state].coord_size not in (2, 3) or int(cells.max()) >= len(places):
        raise part.error("its topology is not one of points of its state")
    mesh = Mesh(places, cells, SINGULAR[plural])
    total, densities = part.real("totalMass"), part.reals("massDensity")
    if total is not None or densities is None or not len(densities):  # the total takes the place of the other
        size = float(np.sum(np.abs(np.asarray(mesh.cell_measures()))))
        if not size > 0:
            raise part.error(f"the {plural} of its topology have no size, which a total mass could be shared by")
        density = (1.0 if total is None else total) / size
        _positive(part, "totalMass", density)
        return mesh, density
    if len(densities) not in (1, len(cells)):
        raise part.error(f"massDensity has {len(densities)} entries, expected 1 or {len(cells)}")
    _positive(part, "massDensity", float(densities.min()))
    density = float(densities[0]) if len(densities) == 1 else densities
    return mesh, density


def _positive(part: Component, name: str, value: float) -> None:
    if not value > 0:
        raise part.error(f"{name} is {value}, expected a positive number")


def _rayleigh(build: PartBuilder, part: Component) -> None:
    factor = part.real("rayleighMass", 0.0)
    if factor:
        build.rayleigh[named(part.object)] = factor
        build.parameter(part, "rayleighMass", "rayleigh")


def felt_gravity(build: PartBuilder, ode: SceneObject, gravity: np.ndarray) -> np.ndarray | None:
    """What of gravity masses feel: its first components, as many as their states have; None where none does."""
    sizes = {build.dofs[s.state].space_size for mass in build.masses.values() for s in mass.on}
    pulled = {size for size in sizes if np.any(gravity[:size])} or sizes & {3}
    if len(pulled) > 1:
        raise ode.error(
            f"masses of states of {sorted(pulled)} dimensions feel gravity: those of one dimension are translated"
        )
    return gravity[: pulled.pop()] if pulled else None


MASSES = {
    "UniformMass": uniform_mass,
    "DiagonalMass": diagonal_mass,
    "MeshMatrixMass": vertex_edge_mass,
    "FEMMass": consistent_mass,
}
