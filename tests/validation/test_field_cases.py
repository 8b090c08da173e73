"""Scalar fields against ArcaneFEM's reference solutions, from its meshes; as in `test_arcanefem_cases.py`."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

FOLDER = Path(__file__).parents[3] / "shared" / "cases" / "arcanefem"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the reference cases are not at {FOLDER}")
REFERENCE = 1e-8  # of the largest reference value: the files hold 9 to 15 digits
GMSH_EDGES = "01 03 04 12 15 23 26 37 45 47 56 67"  # of a hexahedron, in its order; VTK's is that of the table
VTK_EDGES = "01 12 23 30 45 56 67 74 04 15 26 37"
KINDS = {"quad8": "quad8", "hex20": "hexahedron20", "tet4": "tetrahedron", "line3": "edge3", "tri3": "triangle"}


def in_vtk_order(cells, kind):
    """The nodes of cells as jaxmech, and VTK, number them."""
    if kind != "hex20":
        return cells
    place = {frozenset(edge): 8 + i for i, edge in enumerate(GMSH_EDGES.split())}
    return cells[:, [*range(8), *(place[frozenset(edge)] for edge in VTK_EDGES.split())]]


class Case:
    """Parameters, mesh with groups, and reference values by node."""

    def __init__(self, name):
        self.data = next(c for c in json.loads((FOLDER / "cases.json").read_text()) if c["id"] == name)
        listed = json.loads((FOLDER / self.data["mesh_json"]).read_text())
        self.points, self.groups = np.array(listed["x"])[:, : listed["dim"]], listed["groups"]
        ((kind, cells),) = listed["cells"].items()
        self.mesh = jm.mesh.Mesh(self.points, in_vtk_order(np.array(cells), kind), KINDS[kind])
        tagged = np.loadtxt(FOLDER / self.data["ref"])
        row = {tag: i for i, tag in enumerate(listed["node_tags"])}
        self.nodes, self.values = np.array([row[int(tag)] for tag in tagged[:, 0]]), tagged[:, 1]

    def group(self, name, dim):
        """The cells of a named part of the mesh, and of what kind they are."""
        found = next(g for g in self.groups if g["name"] == name and g["dim"] == dim)
        return np.array(found["conn"]), KINDS.get(found["type"])

    def faces(self, name):
        cells, kind = self.group(name, self.points.shape[1] - 1)
        return jm.mesh.Mesh(self.points, cells, kind)

    def held(self):
        """Nodes and values of the Dirichlet conditions; the later one has a node that is in two groups."""
        taken = {}
        for name, dim, (value,) in self.data["dirichlet"]:
            taken |= dict.fromkeys(np.unique(self.group(name, dim)[0]).tolist(), value)
        return np.array([*taken]), np.array([*taken.values()])

    def agrees(self, u):
        found = np.asarray(u)[self.nodes, 0]
        np.testing.assert_allclose(found, self.values, rtol=0, atol=REFERENCE * np.abs(self.values).max())


def conduction(u, slope, X, p):
    return 0.5 * p["k"] * jnp.sum(slope**2) - p["f"] * u


@pytest.mark.slow_cases("C12a")
@pytest.mark.parametrize("name", ["C11a", "C12a"])
def test_poisson(name):
    """Quadratic quads and hexahedra of 20 nodes, a source, a flux."""
    case = Case(name)
    forces = {"field": jm.force.FieldEnergy.from_mesh("u", case.mesh, conduction, {"k": 1.0, "f": case.data["f"]})}
    for group, (value,) in case.data["neumann"]:
        forces[f"flux {group}"] = jm.force.Flux.from_mesh("u", case.faces(group), value)
    nodes, values = case.held()
    system = jm.System({"u": jm.Vec1()}, forces=forces, constraints={"held": jm.constraint.Fixed(("u", nodes))})
    start = np.zeros((len(case.points), 1))
    start[nodes, 0] = values
    case.agrees(jm.static_solve(system, system.at_rest({"u": start})).position["u"])


@pytest.mark.slow
def test_transient_heat_with_convection():
    """C14: backward Euler, the held temperatures jump in the first step."""
    case = Case("C14")
    data, h = case.data, case.data["dt"]
    ((top, coefficient, ambient),) = data["convection"]
    nodes, values = case.held()
    begin = data["T_initial"]
    system = jm.System(
        {"T": jm.Vec1()},
        forces={
            "field": jm.force.FieldEnergy.from_mesh("T", case.mesh, conduction, {"k": data["conductivity"], "f": 0.0}),
            "stored": jm.force.Capacity.from_mesh("T", case.mesh, 1.0),
            "air": jm.force.Convection.from_mesh("T", case.faces(top), coefficient, ambient),
        },
        constraints={
            "held": jm.constraint.PrescribedMotion(
                ("T", nodes), np.full((len(nodes), 1), begin), np.stack([0 * values, values - begin], 1)[..., None], [0.0, h]
            )
        },
    )
    start = system.at_rest({"T": np.full((len(case.points), 1), begin)})
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start))
    case.agrees(jm.simulate(system, start, euler, dt=h, steps=data["steps"]).last.position["T"])
