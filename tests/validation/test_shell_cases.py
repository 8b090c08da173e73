"""Shell triangles against the published obstacle course, plates, and rigid turns."""

import numpy as np

import jaxmech as jm

FREE = {"x": 0, "y": 1, "z": 2, "turn x": 3, "turn y": 4, "turn z": 5}


def grid(n, m, place, alternate=True):
    """Triangles of an n by m grid of the unit square, put into space by `place(s, t)`."""
    s, t = np.meshgrid(np.linspace(0, 1, n + 1), np.linspace(0, 1, m + 1), indexing="ij")
    number = np.arange((n + 1) * (m + 1)).reshape(n + 1, m + 1)
    a, b, c, d = number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]
    cells = [np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)]
    return jm.mesh.Mesh(np.stack(place(s.ravel(), t.ravel()), 1), np.concatenate(cells), "triangle"), number


def held(nodes, *names):
    return jm.constraint.FixedComponents(("f", np.asarray(nodes).ravel()), tuple(name in names for name in FREE))


def displacements(mesh, shell, constraints, forces):
    """Those of small loads, linear: frames' translations and turns."""
    system = jm.System({"f": jm.Rigid3()}, forces={"shell": shell, **forces}, constraints=constraints)
    start = system.at_rest({"f": shell.rest})
    linear_system = jm.MatrixLinearSystem.build(system, start, jm.Terms(mass=False, damping=False))
    problem = jm.solver.static_problem(system, start, linear_system)
    d = np.linalg.solve(np.asarray(problem.A.as_matrix()), np.asarray(problem.b["f"]).ravel())
    return d.reshape(-1, 6)


def areas_of_nodes(mesh):
    share = np.zeros(len(mesh.points))
    np.add.at(share, np.asarray(mesh.cells), np.repeat(np.asarray(mesh.cell_measures())[:, None] / 3, 3, 1))
    return share


def scordelis_lo(n):
    """A quarter of the roof; the middle of the free edge comes down by 0.3024."""
    mesh, number = grid(n, n, lambda s, t: (25 * np.sin(np.radians(40) * s), 25 * t, 25 * np.cos(np.radians(40) * s)))
    shell = jm.force.Shell.from_mesh("f", mesh, 4.32e8, 0.0, 0.25)
    weight = np.zeros((len(mesh.points), 3))
    weight[:, 2] = -90 * areas_of_nodes(mesh)
    load = {"weight": jm.force.ConstantForce(("f", range(len(weight))), weight)}
    constraints = {
        "diaphragm": held(number[:, 0], "x", "z", "turn y"),
        "middle": held(number[:, -1], "y", "turn x", "turn z"),
        "crown": held(number[0], "x", "turn y", "turn z"),
    }
    return -displacements(mesh, shell, constraints, load)[number[-1, -1], 2] / 0.3024


def pinched_cylinder(n):
    """An eighth, with diaphragms: 1.8248e-5 under the unit force."""
    mesh, number = grid(n, n, lambda s, t: (300 * np.sin(np.pi / 2 * s), 300 * t, 300 * np.cos(np.pi / 2 * s)))
    shell = jm.force.Shell.from_mesh("f", mesh, 3e6, 0.3, 3.0)
    load = {"pinch": jm.force.ConstantForce(("f", [number[0, -1]]), [0.0, 0.0, -0.25])}
    constraints = {
        "diaphragm": held(number[:, 0], "x", "z", "turn y"),
        "middle": held(number[:, -1], "y", "turn x", "turn z"),
        "top": held(number[0], "x", "turn y", "turn z"),
        "side": held(number[-1], "z", "turn x", "turn y"),
    }
    return -displacements(mesh, shell, constraints, load)[number[0, -1], 2] / 1.8248e-5


def hemisphere(n):
    """A quarter with a hole of 18 degrees: 0.094 under two pairs of forces."""

    def place(s, t):
        up, around = np.radians(72) * t, np.pi / 2 * s
        return 10 * np.cos(up) * np.cos(around), 10 * np.cos(up) * np.sin(around), 10 * np.sin(up)

    mesh, number = grid(n, n, place)
    shell = jm.force.Shell.from_mesh("f", mesh, 6.825e7, 0.3, 0.04)
    ends = [number[0, 0], number[-1, 0]]
    load = {"pairs": jm.force.ConstantForce(("f", ends), [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])}
    constraints = {
        "y": held(number[0], "y", "turn x", "turn z"),
        "x": held(number[-1], "x", "turn y", "turn z"),
        "height": held([number[0, 0]], "z"),
    }
    return displacements(mesh, shell, constraints, load)[ends[0], 0] / 0.094
