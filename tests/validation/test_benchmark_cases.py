"""Published benchmarks with the elements that they name: NAFEMS, and MacNeal and Harder's.

NAFEMS, *The Standard NAFEMS Benchmarks*, 1990 (LE1, LE7, LE10, T2, T3, T4, FV5, FV32, FV52); R. H. MacNeal and R. L. Harder,
Finite Elements in Analysis and Design 1 (1985) 3, doi:10.1016/0168-874X(85)90003-4; S. Srinivas and A. K. Rao, Int. J.
Solids Structures 6 (1970) 1463, doi:10.1016/0020-7683(70)90076-4 (plates as solids).
"""

import dataclasses

import jax
import numpy as np
import pytest
from test_static_cases import INNER
from tolerances import ITERATIVE

import jaxmech as jm

jax.config.update("jax_enable_x64", True)


def placed(cells, kind, place):
    """A grid of the unit square or cube, put in place by a function: middle nodes on curved sides too."""
    d = len(cells)
    linear = {2: {"triangle6": "triangle"}, 3: {"tetrahedron10": "tetrahedron"}}[d].get(kind, ("quad", "hexahedron")[d - 2])
    unit = jm.mesh.box_mesh(cells=cells, size=(1.0,) * d, kind=linear)
    unit = unit if kind == linear else jm.mesh.quadratic_mesh(unit, kind=kind)
    return jm.mesh.Mesh(np.stack(place(*np.asarray(unit.points).T), 1), unit.cells, kind), np.asarray(unit.points)


def side(mesh, nodes):
    """The faces of the boundary whose nodes are all among these."""
    boundary = mesh.boundary()
    inside = np.isin(np.asarray(boundary.cells), np.flatnonzero(nodes)).all(axis=1)
    return jm.mesh.Mesh(mesh.points, np.asarray(boundary.cells)[inside], boundary.kind)


def held(state, nodes, *components):
    return jm.constraint.FixedComponents((state, np.flatnonzero(nodes)), components)


def solved(solid, mesh, forces, constraints):
    dof = jm.Vec2() if mesh.points.shape[1] == 2 else jm.Vec3()
    system = jm.System({"b": dof}, forces={"solid": solid, **forces}, constraints=constraints)
    return system, jm.static_solve(system, system.at_rest({"b": mesh.points}))


def ellipses(s, t):
    """NAFEMS' quarter of an elliptic plate: `s` from the hole to the rim, `t` from the x axis to the y axis."""
    angle = np.pi / 2 * t
    return (2 + 1.25 * s) * np.cos(angle), (1 + 1.75 * s) * np.sin(angle)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cells"), [("quad8", (10, 12)), ("triangle6", (20, 24))])
def test_elliptic_membrane(kind, cells):
    """LE1: 92.7 MPa along y at the end of the hole, under a tension of 10 MPa at the rim."""
    mesh, unit = placed(cells, kind, ellipses)
    law = jm.material.LinearElastic(210e3, 0.3)
    solid = jm.force.SolidFEM.from_mesh("b", mesh, law, plane="stress", thickness=0.1)
    rim = jm.force.Pressure.from_mesh("b", side(mesh, unit[:, 0] == 1), -10.0 * 0.1)
    flat = {"x axis": held("b", unit[:, 1] == 0, False, True), "y axis": held("b", unit[:, 1] == 1, True, False)}
    system, end = solved(solid, mesh, {"rim": rim}, flat)
    fields = jm.output.gauss_fields(system, end.state, "solid")
    at = jm.output.at_nodes(fields, fields.first_piola, method="consistent")
    D = np.flatnonzero((unit == 0).all(axis=1))
    np.testing.assert_allclose(at[D, 1, 1], 92.7, rtol=0.01)


@pytest.mark.slow
def test_thick_elliptic_plate():
    """LE10: -5.38 MPa along y at the same place, on top, under a pressure of 1 MPa."""
    mesh, unit = placed((8, 8, 3), "hexahedron20", lambda s, t, z: (*ellipses(s, t), 0.6 * z))
    solid = jm.force.SolidFEM.from_mesh("b", mesh, jm.material.LinearElastic(210e3, 0.3))
    top = jm.force.Traction.from_mesh("b", side(mesh, unit[:, 2] == 1), [0.0, 0.0, -1.0])
    rim, middle = unit[:, 0] == 1, np.isclose(unit[:, 2], 0.5)
    constraints = {
        "x axis": held("b", (unit[:, 1] == 0) & ~rim, False, True, False),
        "y axis": held("b", (unit[:, 1] == 1) & ~rim, True, False, False),
        "rim": held("b", rim & ~middle, True, True, False),
        "middle": held("b", rim & middle, True, True, True),
    }
    system, end = solved(solid, mesh, {"top": top}, constraints)
    fields = jm.output.gauss_fields(system, end.state, "solid")
    at = jm.output.at_nodes(fields, fields.first_piola, method="consistent")
    D = np.flatnonzero((unit == [0, 0, 1]).all(axis=1))
    np.testing.assert_allclose(at[D, 1, 1], -5.38, rtol=0.02)


@pytest.mark.slow
def test_vessel_under_pressure():
    """LE7: 25.86 MPa along the axis outside, 0.0966 m below a hemisphere of 1 m on a tube, 0.025 m thick; of shells, whose
    pressure acts on the middle: that of solids acts within it (other codes' solids 25.3).
    """

    def place(s, t):
        r, angle = 0.9875 + 0.025 * s, np.pi * np.maximum(t - 0.5, 0)
        return r * np.cos(angle), 1.5 * (1 - np.maximum(1 - 2 * t, 0) ** 2) + r * np.sin(angle)

    mesh, unit = placed((1, 32), "quad8", place)
    solid = jm.force.SolidFEM.from_mesh("b", mesh, jm.material.LinearElastic(210e3, 0.3), plane="axisymmetric")
    gas = jm.force.Pressure.from_mesh("b", side(mesh, unit[:, 0] == 0), 1.0, axisymmetric=True)
    ends = {"base": held("b", unit[:, 1] == 0, False, True), "axis": held("b", unit[:, 1] == 1, True, False)}
    system, end = solved(solid, mesh, {"gas": gas}, ends)
    fields = jm.output.gauss_fields(system, end.state, "solid")
    along = jm.output.at_nodes(fields, fields.first_piola, method="consistent")[:, 1, 1]
    outside = np.flatnonzero(unit[:, 0] == 1)
    outside = outside[np.argsort(unit[outside, 1])]
    at_D = np.interp(1.4034, np.asarray(mesh.points)[outside, 1], np.asarray(along)[outside])
    np.testing.assert_allclose(at_D, 25.86, rtol=0.025)
    np.testing.assert_allclose(at_D, 25.3, rtol=0.01)


@pytest.mark.slow
def test_cylinder_taper_and_sphere_that_are_warm():
    """LE11: -105 MPa along the axis at the inner edge of the foot, of a body of revolution at `r + z` degrees, held between
    two plates: a sphere of 1 m from 0 to 45 degrees and a cylinder inside; outside a sphere of 1.4 m, a cone, a cylinder.
    """
    corner, blocks = np.sqrt(0.5), [0.25, 0.5, 0.75, 1.0]  # ends of sphere, half and whole cone, cylinder outside

    def place(s, t):
        inner = (
            np.where(t < 0.5, np.cos(np.pi / 2 * t), corner),
            np.where(t < 0.5, np.sin(np.pi / 2 * t), np.interp(t, [0.5, 1.0], [corner, 1.79])),
        )
        ball = np.minimum(t, 0.25) * np.radians(120)
        r = np.where(t < 0.25, 1.4 * np.cos(ball), np.interp(t, blocks[:3], [1.4 * np.cos(np.pi / 6), 1.1062, 1.0]))
        z = np.where(t < 0.25, 1.4 * np.sin(ball), np.interp(t, blocks, [0.7, 1.045, 1.39, 1.79]))
        return tuple((1 - s) * a + s * b for a, b in zip(inner, (r, z), strict=True))

    mesh, unit = placed((8, 24), "quad8", place)
    steel = jm.material.LinearElastic(210e3, 0.3)
    shape = jm.output.gauss_fields(*at_rest(mesh, steel, "axisymmetric"), "solid")
    warm = jm.material.ThermalExpansion(steel, 2.3e-4, shape.position.sum(axis=-1))
    solid = jm.force.SolidFEM.from_mesh("b", mesh, warm, plane="axisymmetric")
    system, end = solved(solid, mesh, {}, {"plates": held("b", np.isin(unit[:, 1], (0.0, 1.0)), False, True)})
    fields = jm.output.gauss_fields(system, end.state, "solid")
    A = np.flatnonzero((unit == 0).all(axis=1))
    np.testing.assert_allclose(jm.output.at_nodes(fields, fields.first_piola, method="consistent")[A, 1, 1], -105, rtol=0.01)


def test_a_free_strip_that_is_warmer_above_bends_without_a_force():
    """`T = 50 y` K: quadratic cells have `u = 50 alpha (x y, (y^2 - x^2) / 2)`, which is without stress."""
    mesh, _ = placed((3, 1), "quad8", lambda s, t: (3 * s, t))
    steel, growth = jm.material.LinearElastic(210e9, 0.3), 12e-6
    warming = 50 * jm.output.gauss_fields(*at_rest(mesh, steel, "stress"), "solid").position[..., 1]
    system, rest = at_rest(mesh, jm.material.ThermalExpansion(steel, growth, warming), "stress")
    x, y = np.asarray(mesh.points).T
    bent = system.at_rest({"b": mesh.points + growth * 50 * np.stack([x * y, (y**2 - x**2) / 2], 1)})
    forces = [np.abs(jm.total_force(system, state)["b"]).max() for state in (bent, rest)]
    assert forces[0] < ITERATIVE * forces[1]


def at_rest(mesh, law, plane):
    system = jm.System({"b": jm.Vec2()}, forces={"solid": jm.force.SolidFEM.from_mesh("b", mesh, law, plane=plane)})
    return system, system.at_rest({"b": mesh.points})


def conducts(T, slope, X, p):
    return 0.5 * p["k"] * slope @ slope


def temperatures(system, start):
    return np.asarray(jm.static_solve(system, system.at_rest({"T": start})).position["T"])[:, 0]


@pytest.mark.slow
def test_convection_from_two_sides():
    """T4: 18.25 C at (0.6, 0.2), of a corner held at 100 C and air of 0 C."""
    mesh, unit = placed((12, 20), "quad8", lambda s, t: (0.6 * s, t))
    air = [side(mesh, unit[:, 0] == 1), side(mesh, unit[:, 1] == 1)]
    warm = unit[:, 1] == 0
    system = jm.System(
        {"T": jm.Vec1()},
        forces={
            "heat": jm.force.FieldEnergy.from_mesh("T", mesh, conducts, {"k": 52.0}),
            "right": jm.force.Convection.from_mesh("T", air[0], 750.0, 0.0),
            "top": jm.force.Convection.from_mesh("T", air[1], 750.0, 0.0),
        },
        constraints={"warm": jm.constraint.Fixed(("T", np.flatnonzero(warm)))},
    )
    T = temperatures(system, np.where(warm, 100.0, 0.0)[:, None])
    x = np.asarray(mesh.points)
    E = np.argmin(np.linalg.norm(x - [0.6, 0.2], axis=1))
    np.testing.assert_allclose(T[E], 18.25, rtol=0.01)


@pytest.mark.slow
def test_radiation_into_the_dark():
    """T2: 927 K at the end of a bar that radiates, 1000 K at the other."""
    mesh = jm.mesh.box_mesh(cells=(10, 1), size=(0.1, 0.01), kind="quad")
    end = mesh.faces_where(lambda x: x[:, 0] == 0.1)

    def radiates(T, slope, X, p):
        return 5.67e-8 * 0.98 * (T**5 / 5 - 300.0**4 * T)

    warm = np.asarray(mesh.points)[:, 0] == 0
    system = jm.System(
        {"T": jm.Vec1()},
        forces={
            "heat": jm.force.FieldEnergy.from_mesh("T", mesh, conducts, {"k": 55.6}),
            "dark": jm.force.FieldEnergy.from_mesh("T", end, radiates),
        },
        constraints={"warm": jm.constraint.Fixed(("T", np.flatnonzero(warm)))},
    )
    T = temperatures(system, np.full((len(warm), 1), 1000.0))
    np.testing.assert_allclose(T[-1], 927.0, rtol=1e-3)


@pytest.mark.slow
def test_a_bar_under_an_oscillating_temperature():
    """T3: 36.60 C at 0.08 m after 32 s, the end at 100 sin(pi t/40) C."""
    mesh = jm.mesh.box_mesh(cells=(20, 1), size=(0.1, 0.005), kind="quad")
    x = np.asarray(mesh.points)[:, 0]
    cold, warm = np.flatnonzero(x == 0), np.flatnonzero(x == x.max())
    times = np.linspace(0, 32, 129)
    swing = np.broadcast_to(100 * np.sin(np.pi * times / 40)[None, :, None], (len(warm), len(times), 1))
    system = jm.System(
        {"T": jm.Vec1()},
        forces={
            "heat": jm.force.FieldEnergy.from_mesh("T", mesh, conducts, {"k": 35.0}),
            "stored": jm.force.Capacity.from_mesh("T", mesh, 7200.0 * 440.5),
        },
        constraints={
            "cold": jm.constraint.Fixed(("T", cold)),
            "warm": jm.constraint.PrescribedMotion(("T", warm), np.zeros((len(warm), 1)), swing, times),
        },
    )
    start = system.at_rest({"T": np.zeros((len(x), 1))})
    scheme = jm.integrator.TRBDF2(jm.MatrixLinearSystem.build(system, start))
    T = jm.simulate(system, start, scheme, dt=0.25, steps=128).last.position["T"]
    np.testing.assert_allclose(T[np.argmin(np.abs(x - 0.08)), 0], 36.60, rtol=0.01)


def hertz(system, state, count):
    return np.asarray(jm.modes(system, state, count=count).frequencies) / (2 * np.pi)


@pytest.mark.slow
def test_tapered_membrane():
    """FV32: six frequencies of a cantilever that narrows from 5 m to 1 m."""
    mesh, unit = placed((8, 4), "quad8", lambda s, t: (10 * s, (t - 0.5) * (5 - 4 * s)))
    law = jm.material.LinearElastic(200e9, 0.3)
    system = jm.System(
        {"b": jm.Vec2()},
        forces={"solid": jm.force.SolidFEM.from_mesh("b", mesh, law, plane="stress", thickness=0.05)},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("b", mesh, 8000.0 * 0.05)},
        constraints={"root": jm.constraint.Fixed(("b", np.flatnonzero(unit[:, 0] == 0)))},
    )
    found = hertz(system, system.at_rest({"b": mesh.points}), 6)
    np.testing.assert_allclose(found, [44.623, 130.03, 162.70, 246.05, 379.90, 391.44], rtol=0.01)


def thick_plate(constraints):
    """`count -> frequencies` of 10 x 10 x 1 m of steel; `constraints` are a function of the places in the unit cube."""
    mesh, unit = placed((8, 8, 1), "hexahedron20", lambda s, t, z: (10 * s, 10 * t, z))
    system = jm.System(
        {"b": jm.Vec3()},
        forces={"solid": jm.force.SolidFEM.from_mesh("b", mesh, jm.material.LinearElastic(200e9, 0.3))},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("b", mesh, 8000.0)},
        constraints=constraints(unit),
    )
    return lambda count: hertz(system, system.at_rest({"b": mesh.points}), count)


@pytest.mark.slow
def test_thick_square_plate():
    """FV52: simply supported along the lower edges; the three motions in its plane are free.

    The published numbers are of a plate that does not twist along its edges. A solid held at its lower edges does: 0.960 of
    the first with 8 x 8 x 1 cells, 0.955 with 12 x 12 x 1, so that it is not the mesh. The next test holds it as a plate.
    """

    def lower_edges(unit):
        low = (unit[:, 2] == 0) & np.isin(unit[:, :2], [0, 1]).any(axis=1)
        return {"edges": held("b", low, False, False, True)}

    found = thick_plate(lower_edges)(10)
    np.testing.assert_allclose(found[3:], [45.897, 109.44, 109.44, 167.89, 193.59, 206.19, 206.19], rtol=0.045)
    np.testing.assert_allclose(found[7], 193.59, rtol=1e-3)  # in its plane


@pytest.mark.slow
def test_thick_square_plate_whose_sides_do_not_slide():
    """The same, its sides held across and along: 0.0932, 0.2226 (twice), 0.3421 of `sqrt(G / rho) / h` (exact, in space)."""

    def sides(unit):
        x, y = (np.isin(unit[:, k], [0, 1]) for k in (0, 1))
        return {"x": held("b", x, False, True, True), "y": held("b", y, True, False, True)}

    found = thick_plate(sides)(6)[[0, 1, 2, 5]]  # between: two in its plane
    unit_frequency = np.sqrt(200e9 / 2.6 / 8000.0) / (2 * np.pi)
    np.testing.assert_allclose(found / unit_frequency, [0.0932, 0.2226, 0.2226, 0.3421], rtol=0.015)


@pytest.mark.slow
def test_deep_simply_supported_beam():
    """FV5: bending twice, torsion, stretch, of a beam of 10 m whose section is 2 m wide."""
    n, E, rho = 40, 200e9, 8000.0
    rest = jm.mesh.frames_along(np.linspace([0.0, 0.0, 0.0], [10.0, 0.0, 0.0], n + 1))
    section = jm.force.Section.rectangle(2.0, 2.0, E, 0.3)
    section = dataclasses.replace(section, torsion=E / 2.6 * 16 / 6)  # as published: of the polar moment
    share = np.full(n + 1, 10.0 / n)
    share[[0, -1]] /= 2
    per_metre = rho * np.diag([16 / 6, 16 / 12, 16 / 12])
    system = jm.System(
        {"f": jm.Rigid3()},
        forces={"beam": jm.force.Beam(("f", np.stack([np.arange(n), np.arange(1, n + 1)], 1)), rest, section)},
        masses={"m": jm.mass.RigidMass(("f", range(n + 1)), share * rho * 4, share[:, None, None] * per_metre)},
        constraints={
            "A": jm.constraint.FixedComponents(("f", [0]), (True, True, True, True, False, False)),
            "B": jm.constraint.FixedComponents(("f", [n]), (False, True, True, False, False, False)),
        },
    )
    found = hertz(system, system.at_rest({"f": rest}), 6)
    np.testing.assert_allclose(found, [42.649, 42.649, 77.542, 125.00, 148.31, 148.31], rtol=0.015)


@pytest.mark.slow_cases("hexahedron-reduced")
@pytest.mark.parametrize(
    ("kind", "formulation"),
    [
        ("hexahedron", "b-bar"),
        ("hexahedron", "reduced"),
        pytest.param("hexahedron20", "standard", marks=pytest.mark.slow),
        pytest.param("hexahedron27", "b-bar", marks=pytest.mark.exhaustive),
    ],
)
def test_macneal_patch(kind, formulation):
    """Seven cells follow a linear displacement of the boundary, with 2000 and 400 of stress everywhere."""
    cube = jm.mesh.reference_element("hexahedron")
    faces = np.asarray(cube.faces)
    points = np.concatenate([(np.asarray(cube.vertices) + 1) / 2, INNER])
    cells = np.concatenate([np.hstack([faces + 8, faces]), [np.arange(8, 16)]])
    mesh = jm.mesh.Mesh(points, cells, "hexahedron")
    mesh = mesh if kind == "hexahedron" else jm.mesh.quadratic_mesh(mesh, kind=kind)
    X = np.asarray(mesh.points)
    gradient = 1e-3 * (np.eye(3) + np.ones((3, 3))) / 2
    skin = np.unique(np.asarray(mesh.boundary().cells))
    law = jm.material.LinearElastic(1e6, 0.25)
    solid = jm.force.SolidFEM.from_mesh("b", mesh, law, formulation=formulation)
    moves = jm.constraint.PrescribedMotion(("b", skin), X[skin], (X[skin] @ gradient)[:, None])
    system, end = solved(solid, mesh, {}, {"skin": moves})
    np.testing.assert_allclose(end.position["b"], X + X @ gradient, atol=1e-12)
    stress = jm.output.gauss_fields(system, end.state, "solid").first_piola
    exact = np.full((3, 3), 400.0) + np.diag([1600.0] * 3)
    np.testing.assert_allclose(stress, np.broadcast_to(exact, stress.shape), rtol=1e-9)


def straight(x, y, z):
    return 6 * x, 0.2 * y, 0.1 * z


def arc(x, y, z):
    radius, angle = 4.12 + 0.2 * y, np.pi / 2 * x
    return radius * np.sin(angle), radius * np.cos(angle), 0.1 * z


def twisted(x, y, z):
    a, b, angle = 1.1 * (y - 0.5), 0.32 * (z - 0.5), np.pi / 2 * x
    return 12 * x, a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)


def tip_sag(cells, kind, place, young, poisson, way, seen=lambda unit: unit[:, 0] == 1):
    """How far the end, or what is seen of it, moves along a unit force on it."""
    mesh, unit = placed(cells, kind, place)
    end = side(mesh, unit[:, 0] == 1)
    size = float(end.measure())
    solid = jm.force.SolidFEM.from_mesh("b", mesh, jm.material.LinearElastic(young, poisson))
    load = jm.force.Traction.from_mesh("b", end, np.asarray(way) / size)
    clamp = {"root": jm.constraint.Fixed(("b", np.flatnonzero(unit[:, 0] == 0)))}
    _, bent = solved(solid, mesh, {"load": load}, clamp)
    return float(np.mean((np.asarray(bent.position["b"]) - np.asarray(mesh.points))[seen(unit)] @ np.asarray(way)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hexahedron20", pytest.param("hexahedron27", marks=pytest.mark.exhaustive)])
def test_macneal_beams(kind):
    """Slender, curved and twisted, one row of quadratic hexahedra. Of those of 20 nodes, all integrated, MacNeal and Harder
    published 0.970 and 0.961 of the straight beam's deflections, and 0.875 of the curved one's in its plane: what so few of
    them lack, and finer meshes do not.
    """
    y, z = [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    six, steel = (6, 1, 1), (1e7, 0.3)
    rows = {
        "stretched": (tip_sag(six, kind, straight, *steel, [1.0, 0.0, 0.0]), 3e-5, 0.01),
        "in plane": (tip_sag(six, kind, straight, *steel, y), 0.1081, 0.04),
        "across": (tip_sag(six, kind, straight, *steel, z), 0.4321, 0.05),
        "curved in plane": (tip_sag(six, kind, arc, 1e7, 0.25, [1.0, 0.0, 0.0]), 0.08734, 0.14),
        "curved across": (tip_sag(six, kind, arc, 1e7, 0.25, z), 0.5022, 0.08),
        "twisted in plane": (tip_sag((12, 2, 1), kind, twisted, 29e6, 0.22, z), 0.005424, 0.02),
        "twisted across": (tip_sag((12, 2, 1), kind, twisted, 29e6, 0.22, y), 0.001754, 0.02),
    }
    if kind == "hexahedron20":
        for name, published in (("in plane", 0.970), ("across", 0.961), ("curved in plane", 0.875)):
            assert abs(rows[name][0] / rows[name][1] - published) < 1e-3, (name, rows[name])
        # 0.946 is published of the last: of the outer edge, as it seems, for the end twists, and its middle is at 0.930.
        outside = tip_sag(six, kind, arc, 1e7, 0.25, z, lambda unit: (unit[:, :2] == 1).all(axis=1))
        np.testing.assert_allclose(outside / 0.5022, 0.946, atol=4e-3)
        finer = [tip_sag((12, 2, 2), kind, arc, 1e7, 0.25, way) for way in ([1.0, 0.0, 0.0], z)]
        np.testing.assert_allclose(finer, [0.08734, 0.5022], rtol=0.03)
    for name, (found, exact, slack) in rows.items():
        assert abs(found / exact - 1) < slack, (name, found / exact)


@pytest.mark.slow
@pytest.mark.parametrize(("poisson", "exact"), [(0.49, 5.0399e-3), (0.499, 5.0602e-3), (0.4999, 5.0623e-3)])
@pytest.mark.covering(1)
def test_thick_cylinder_that_keeps_its_volume(poisson, exact):
    """MacNeal's, of five quads with B-bar over ten degrees: the radial displacement inside under a unit pressure."""
    radii = np.array([3.0, 3.5, 4.2, 5.2, 6.75, 9.0])

    def place(s, t):
        r, angle = radii[np.round(5 * s).astype(int)], np.radians(10) * t
        return r * np.cos(angle), r * np.sin(angle)

    mesh, unit = placed((5, 1), "quad", place)
    solid = jm.force.SolidFEM.from_mesh("b", mesh, jm.material.LinearElastic(1000.0, poisson), formulation="b-bar")
    inside = jm.force.Pressure.from_mesh("b", side(mesh, unit[:, 0] == 0), 1.0)
    normal = np.array([[-np.sin(np.radians(10)), np.cos(np.radians(10))]])
    constraints = {
        "x axis": held("b", unit[:, 1] == 0, False, True),
        "ten degrees": jm.constraint.FixedPlane(("b", np.flatnonzero(unit[:, 1] == 1)), normal[0]),
    }
    _, end = solved(solid, mesh, {"inside": inside}, constraints)
    u = np.linalg.norm(end.position["b"] - mesh.points, axis=1)[unit[:, 0] == 0]
    np.testing.assert_allclose(u, exact, rtol=0.025)
