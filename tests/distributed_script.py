"""Run by `test_distributed` under `mpiexec`: a scene over ranks, and the same by this process alone.

Arguments: "numbers"; "scatter"; "files" and a folder to write to; or "fail", in which one rank raises an error while the
others wait for it.
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from jaxmech._linear_solver.sparse import aggregated_rows

jax.config.update("jax_enable_x64", True)
SAME = 1e-10  # relative: linear solves of 1e-12, and sums in another order
aggregated_rows.COARSEST = 30  # so that a small bar has several levels
DIRECT = jm.solver.SparseDirect()


def compare(what, many, one):
    """Values and gradients."""
    for found, known in zip(jax.tree.leaves(many), jax.tree.leaves(one), strict=True):
        off = float(jnp.abs(found - known).max() / jnp.abs(known).max())
        assert off < SAME, f"{what}: {off}"
    print(what, flush=True)


def beam():
    """A clamped bar of 96 tetrahedra that bends far, each with its own modulus, damped."""
    mesh = jm.mesh.box_mesh(cells=(4, 2, 2), size=(2.0, 1.0, 1.0))
    young = jnp.linspace(900.0, 1100.0, mesh.cells.shape[0])
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={"elastic": jm.force.TetrahedronFEM.from_mesh("beam", mesh, jm.material.StVenantKirchhoff(young, 0.3))},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("beam", mesh, 0.2)},
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        rayleigh={"elastic": 0.01},
        gravity=(0.0, 0.0, -10.0),
    )
    state = system.at_rest({"beam": mesh.points})
    division = jm.distributed.divide(system, state)
    solver = jm.solver.PETSc("gamg", rtol=1e-12)

    def height(numbers, end):
        heavier = eqx.tree_at(lambda s: (s.forces["elastic"].material.young, s.gravity), system, numbers)
        return jnp.sum(end(heavier).position["beam"][-3:, 2] ** 2)

    def value_and_gradient(end):
        return jax.value_and_grad(height)((young, system.gravity), end)

    many = value_and_gradient(lambda s: jm.distributed.static_solve_over_ranks(s, state, solver=solver, rtol=1e-11))
    known = value_and_gradient(lambda s: jm.static_solve(s, state, solver=DIRECT, rtol=1e-11))
    compare("statics", many, known)
    levels = jm.solver.PETSc("mg", rtol=1e-12)
    many = value_and_gradient(lambda s: jm.distributed.static_solve_over_ranks(s, state, solver=levels, rtol=1e-11))
    compare("statics, levels of jaxmech's own", many, known)
    linear_system = jm.MatrixLinearSystem.build(system, state)
    for newton in (False, True):
        step = {"rtol": 1e-10} if newton else {}
        euler = jm.ImplicitEuler(linear_system, DIRECT, newton=newton, **step)
        over = {"division": division, "solver": solver, "newton": newton, **step}

        steps = 2 if newton else 20

        def many(s, over=over, steps=steps):
            return jm.distributed.simulate_over_ranks(s, state, 0.05, steps, **over)

        def one(s, euler=euler, steps=steps):
            return jm.simulate(s, state, euler, 0.05, steps).last

        compare(f"steps, newton={newton}", value_and_gradient(many), value_and_gradient(one))


def several_states():
    """Points in a plane and a weight in space hung on springs between them, one end moved: blocks of two sizes."""
    rng = np.random.default_rng(0)
    net = jm.mesh.box_mesh(cells=(5, 3), size=(5.0, 3.0))
    cells = np.asarray(net.cells)
    edges = np.unique(np.sort(np.concatenate([cells[:, [0, 1]], cells[:, [1, 2]]]), axis=1), axis=0)
    points = np.asarray(net.points) + 0.05 * rng.normal(size=net.points.shape)
    lengths = np.linalg.norm(points[edges[:, 1]] - points[edges[:, 0]], axis=1)
    path = {"displacements": [[0.3, 0.2], [0.3, 0.2]], "times": [0.0, 1.0]}
    system = jm.System(
        {"net": jm.Vec2(), "weight": jm.Vec1()},
        forces={
            "springs": jm.force.Springs((("net", edges[:, 0]), ("net", edges[:, 1])), 50.0, 0.8 * lengths),
            "hold": jm.force.AnchoredSprings(("weight", [0, 1, 2]), 3.0, np.ones((3, 1))),
            "tie": Tie((("net", [3, 8, 12]), ("weight", [0, 1, 2])), [1.0, 2.0, 3.0]),
            "ground": jm.force.AnchoredSprings(("net", np.arange(len(points))), 1.0, points),
        },
        constraints={
            "clamp": jm.constraint.Fixed(("net", net.nodes_where(lambda x: x[:, 0] == 0.0))),
            "pull": jm.constraint.PrescribedMotion(("net", [len(points) - 1]), points[-1:], **path),
        },
    )
    state = system.at_rest({"net": points, "weight": np.zeros((3, 1))})
    solver = jm.solver.PETSc("bjacobi", "gmres", rtol=1e-13, options={"sub_pc_type": "lu"})

    def moved(numbers, end):
        k, x = numbers
        start = eqx.tree_at(lambda s: s.position["net"], state, x)
        stiffer = eqx.tree_at(lambda s: s.forces["tie"].k, system, k)
        return sum(jnp.sum(jnp.sin(a)) for a in end(stiffer, start).position.values())

    numbers = (system.forces["tie"].k, state.position["net"])
    division = jm.distributed.divide(system, state)
    many = jax.value_and_grad(moved)(
        numbers, lambda s, x: jm.distributed.static_solve_over_ranks(s, x, division, solver, rtol=1e-12)
    )
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))
    one = jax.value_and_grad(moved)(numbers, lambda s, x: jm.static_solve(s, x, linear_system, DIRECT, rtol=1e-12))
    compare("two states", many, one)


class Tie(jm.force.AbstractEnergyForceField):
    """Between a point and a number, of which neither form is linear."""

    on: tuple = jm.stencils()
    k: jax.Array = jm.parameter()

    def element_energy(self, x, w):
        return self.k * (jnp.cosh(0.3 * (x[1] - w[0])) + 0.1 * w[0] ** 4)


def scattered():
    """Made on the first rank alone: derivatives by shared numbers, of elements that two ranks have, and of nodes, are those
    of the whole."""
    from mpi4py import MPI

    mesh = jm.mesh.box_mesh(cells=(4, 2, 1), size=(2.0, 1.0, 0.5))
    masses = jnp.linspace(0.01, 0.02, len(mesh.points))
    whole = jm.System(
        {"beam": jm.Vec3()},
        forces={"elastic": jm.force.TetrahedronFEM.from_mesh("beam", mesh, jm.material.StVenantKirchhoff(900.0, 0.3))},
        masses={"mass": jm.mass.DiagonalMass(("beam", np.arange(len(mesh.points))), masses)},
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=(0.0, 0.0, -10.0),
    )
    young = jnp.linspace(900.0, 1100.0, mesh.cells.shape[0])
    whole = eqx.tree_at(lambda s: s.forces["elastic"].material.young, whole, young)
    rest = whole.at_rest({"beam": mesh.points})
    calls = []

    def make():
        calls.append(True)
        return whole, rest

    own, start, division = jm.distributed.scatter(make)
    assert len(calls) == (MPI.COMM_WORLD.rank == 0)
    assert own.forces["elastic"].on[0].elements < mesh.cells.shape[0]
    solver = jm.solver.PETSc("bjacobi", rtol=1e-13)

    def numbers(system):
        return system.forces["elastic"].material.young, system.gravity, system.masses["mass"].mass

    def height(values, x, system, state, count, solve):
        end = solve(eqx.tree_at(numbers, system, values), eqx.tree_at(lambda s: s.position["beam"], state, x))
        return jnp.sum(jnp.sin(end.position["beam"][:count]))

    def of_part(system, state):
        return jm.distributed.static_solve_over_ranks(system, state, division, solver, rtol=1e-11)

    linear_system = jm.MatrixLinearSystem.build(whole, rest, jm.Terms(mass=False, damping=False))

    def of_all(system, state):
        return jm.static_solve(system, state, linear_system, DIRECT, rtol=1e-11)

    both = jax.value_and_grad(height, (0, 1))
    value, (mine, x_rate) = both(numbers(own), start.position["beam"], own, start, division.owned["beam"], of_part)
    known, (by_numbers, by_nodes) = both(numbers(whole), rest.position["beam"], whole, rest, None, of_all)
    kept, everywhere = division.kept, division.whole({"beam": x_rate})["beam"]
    rows = kept["forces", "elastic"], slice(None), kept["masses", "mass"]
    expected = tuple(a[r] for a, r in zip(by_numbers, rows, strict=True))
    compare("scattered", (MPI.COMM_WORLD.allreduce(float(value)), mine, everywhere), (known, expected, by_nodes))
    print("same numbers", flush=True)


def _together(path, mesh):
    """The parts of a file are a mesh, each cell once, with its number and the heights of its points."""
    from xml.etree import ElementTree

    import meshio
    from mpi4py import MPI

    root = ElementTree.parse(path).getroot()
    arrays = {(a.get("Name"), a.get("type"), a.get("NumberOfComponents", "1")) for a in root.iter("PDataArray")}
    assert arrays == {("height", "Float64", "1"), ("Points", "Float64", "3"), ("number", "Int64", "1")}, arrays
    parts = [meshio.read(path.parent / piece.get("Source")) for piece in root.iter("Piece")]
    assert len(parts) == MPI.COMM_WORLD.size
    seen = np.concatenate([part.cell_data["number"][0] for part in parts])
    np.testing.assert_array_equal(np.sort(seen), np.arange(len(mesh.cells)))
    points = np.asarray(mesh.points)[np.asarray(mesh.cells)]
    for part in parts:
        np.testing.assert_allclose(part.points[part.cells[0].data], points[part.cell_data["number"][0]], rtol=0, atol=0)
        np.testing.assert_allclose(part.point_data["height"], part.points[:, 2], rtol=0, atol=0)


def files(folder):
    """Every rank writes its cells, of the whole mesh and of the part that it was sent."""
    from pathlib import Path

    mesh = jm.mesh.box_mesh(cells=(6, 2, 2), size=(3.0, 1.0, 1.0))
    solid = jm.force.TetrahedronFEM.from_mesh("a", mesh, jm.material.LinearElastic(1.0, 0.3))
    system = jm.System({"a": jm.Vec3()}, forces={"solid": solid})
    rest = system.at_rest({"a": mesh.points})
    division = jm.distributed.divide(system, rest)
    number, height = np.arange(len(mesh.cells)), {"height": np.asarray(mesh.points)[:, 2]}
    path = Path(folder, "all.pvtu")
    jm.distributed.write_mesh_over_ranks(path, mesh, division, "a", point_data=height, cell_data={"number": number})
    _together(path, mesh)
    own, start, division = jm.distributed.scatter(lambda: (system, rest))
    part = jm.mesh.Mesh(start.position["a"], own.forces["solid"].on[0].nodes, "tetrahedron")
    numbers = {"number": division.kept["forces", "solid"].astype(np.int64)}
    height = {"height": np.asarray(part.points)[:, 2]}
    jm.distributed.write_mesh_over_ranks(
        Path(folder, "sent.pvtu"), part, division, "a", point_data=height, cell_data=numbers
    )
    _together(Path(folder, "sent.pvtu"), mesh)
    print("whole mesh", flush=True)


def fail():
    from mpi4py import MPI

    system = jm.System({"p": jm.Vec1()}, forces={"hold": jm.force.AnchoredSprings(("p", [0, 1]), 1.0, [[0.0], [1.0]])})
    state = system.at_rest({"p": [[0.0], [1.0]]})
    jm.distributed.divide(system, state)
    if MPI.COMM_WORLD.rank == 1:
        raise ValueError("this rank has had enough")
    MPI.COMM_WORLD.Barrier()


if __name__ == "__main__":
    if sys.argv[1] == "fail":
        fail()
    elif sys.argv[1] == "scatter":
        scattered()
    elif sys.argv[1] == "files":
        files(sys.argv[2])
    else:
        several_states()
        beam()
        print("same numbers")
