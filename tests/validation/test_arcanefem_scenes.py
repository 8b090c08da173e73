"""The elastic cases of ArcaneFEM as scenes: meshes and named groups from their .msh files, fields of force and mass.

Upstream data (Apache-2.0) that is not part of this project: the tests are skipped where its folder is absent.
"""

import functools
import json
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree

import jaxmech as jm

FOLDER = Path(__file__).parents[3] / "shared" / "cases" / "arcanefem"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the reference cases are not at {FOLDER}")
REFERENCE = 1e-8  # of the largest reference value: the files hold 9 to 15 digits
POINTS = {2: jm.Vec2(), 3: jm.Vec3()}


def read(name):
    """The case, its mesh, and the nodes and values of its reference (tags by way of the places of the converted mesh)."""
    data = next(c for c in json.loads((FOLDER / "cases.json").read_text()) if c["id"] == name)
    mesh = jm.mesh.read_mixed_mesh(FOLDER / data["mesh"])
    converted, d = json.loads((FOLDER / data["mesh_json"]).read_text()), mesh.points.shape[1]
    place = dict(zip(converted["node_tags"], np.array(converted["x"])[:, :d], strict=True))
    reference = np.loadtxt(FOLDER / data["ref"])
    apart, nodes = KDTree(np.asarray(mesh.points)).query([place[int(tag)] for tag in reference[:, 0]])
    assert apart.max() == 0
    return data, mesh, nodes, reference[:, 1 : 1 + d]


def held(data, mesh):
    """One motion for each condition, of the nodes that no later one holds."""
    constraints, taken = {}, np.zeros(0, int)
    for name, dimension, values in reversed(data["dirichlet"]):
        nodes = np.setdiff1d(mesh.nodes(name, dimension=dimension), taken)
        taken = np.union1d(taken, nodes)
        moved = [[0.0 if v is None else v for v in values]]
        components = [v is not None for v in values]
        constraints[name] = jm.constraint.PrescribedMotion(
            ("body", nodes), np.asarray(mesh.points)[nodes], moved, components=components
        )
    return constraints


def scene_of(data, mesh, traction=None):
    if "E" in data:
        law = jm.material.LinearElastic(data["E"], data["nu"])
    else:
        mu, lam = data["mu"], data["lambda"]
        law = jm.material.LinearElastic(mu * (3 * lam + 2 * mu) / (lam + mu), lam / (2 * (lam + mu)))
    forces = {"solid": mesh.each(lambda part: jm.force.SolidFEM.from_mesh("body", part, law))}
    masses = {}
    if "body_force" in data:
        weight = data["body_force"]
        forces["weight"] = mesh.each(lambda part: jm.force.Traction.from_mesh("body", part, weight))
    for name, value in data.get("traction", []):
        t = value if traction is None else traction
        forces["pull"] = mesh.each(lambda face, t=t: jm.force.Traction.from_mesh("body", face, t), name)
    if "rho" in data:
        masses["mass"] = mesh.each(lambda part: jm.mass.ConsistentMass.from_mesh("body", part, data["rho"]))
    return jm.System({"body": POINTS[mesh.points.shape[1]]}, forces=forces, masses=masses, constraints=held(data, mesh))


def agrees(x, mesh, nodes, values):
    u = np.asarray(x) - np.asarray(mesh.points)
    np.testing.assert_allclose(u[nodes], values, rtol=0, atol=REFERENCE * np.abs(values).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param("C01", marks=pytest.mark.slow), "C03", pytest.param("C05", marks=pytest.mark.slow)]
)
def test_static_scenes(name):
    data, mesh, nodes, values = read(name)
    system = scene_of(data, mesh)
    solution = jm.static_solve(system, system.at_rest({"body": mesh.points}))
    agrees(solution.position["body"], mesh, nodes, values)


@functools.cache
def table():
    return np.loadtxt(FOLDER / "tables" / "traction_bar_test_1.txt")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["C07a", "C08a"])
def test_scenes_in_motion(name):
    """Newmark's average acceleration, from an acceleration of nil, loads at the end of each step."""
    data, mesh, nodes, values = read(name)
    tabled = data.get("traction", [("", None)])[0][1] == "table"
    system = scene_of(data, mesh, np.zeros(3) if tabled else None)
    state = system.at_rest({"body": mesh.points})
    newmark = jm.integrator.Newmark(jm.MatrixLinearSystem.build(system, state))
    carry = eqx.tree_at(lambda c: c[1].of_scheme, newmark.init(system, state), {"body": jnp.zeros_like(mesh.points)})

    @eqx.filter_jit
    def stepped(system, state, carry):
        return newmark.step(system, state, carry, data["dt"])[:2]

    for _ in range(data["steps"]):
        if tabled:
            t = np.asarray(state.time) + data["dt"]
            pull = jnp.array([np.interp(t, table()[:, 0], column) for column in table()[:, 1:].T])
            system = eqx.tree_at(lambda s: s.forces["pull.triangle"].traction, system, pull)
        state, carry = stepped(system, state, carry)
    agrees(state.position["body"], mesh, nodes, values)


@pytest.mark.slow
def test_triangles_and_quads_in_motion():
    """C10a: the right end jumps by 1, whose velocity and acceleration are Newmark's, as those of the free nodes are: the
    mass and the stiffness of the scene, and the scheme by hand."""
    data, mesh, nodes, values = read("C10a")
    system = scene_of(data, mesh)
    state = system.at_rest({"body": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, state)
    M, K = (
        np.asarray(linear_system.unconstrained(system, state, jm.Factors.only(kind)).as_matrix())
        for kind in ("mass", "stiffness")
    )
    u, free = np.zeros(len(M)), np.ones(len(M), bool)
    for name, dimension, moved in data["dirichlet"]:
        for c, value in enumerate(moved):
            if value is not None:
                dofs = 2 * mesh.nodes(name, dimension=dimension) + c
                free[dofs], u[dofs] = False, value
    h, v, a = data["dt"], np.zeros(len(M)), np.zeros(len(M))
    A, imposed, old = K + 4 / h**2 * M, u.copy(), np.zeros(len(M))
    for _ in range(data["steps"]):
        b = M @ (4 / h**2 * old + 4 / h * v + a) - A @ imposed
        new = imposed.copy()
        new[free] = np.linalg.solve(A[np.ix_(free, free)], b[free])
        rate = 2 / h * (new - old) - v
        a = 2 / h * (rate - v) - a
        old, v = new, rate
    agrees(mesh.points + old.reshape(-1, 2), mesh, nodes, values)
