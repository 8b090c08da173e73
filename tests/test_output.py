"""Results: stresses and strains by hand, projections, resultants, probes, files; under jit, vmap and derivatives."""

import dataclasses
import os
from xml.etree import ElementTree

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import logm
from test_materials import turn
from tolerances import FINITE_DIFFERENCE, RECOMPILED, ROUND_OFF

import jaxmech as jm
from jaxmech._math.matrix_functions import half_logarithm
from jaxmech._output.tensors import principal_values, von_mises

jax.config.update("jax_enable_x64", True)
YOUNG, NU = 1000.0, 0.3
MU, LAM = YOUNG / (2 * (1 + NU)), YOUNG * NU / ((1 + NU) * (1 - 2 * NU))
F = turn([1, 2, 3], 70.0) @ np.array([[1.2, 0.1, 0.0], [0.0, 0.9, 0.05], [0.1, 0.0, 1.1]])


def solid(kind):
    """A box of two hexahedra, or of ten-node tetrahedra, and its scene."""
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind=kind.removesuffix("10"))
    mesh = jm.mesh.quadratic_mesh(mesh) if kind.endswith("10") else mesh
    field = jm.force.SolidFEM.from_mesh("b", mesh, jm.material.NeoHookean(YOUNG, NU))
    return mesh, jm.System({"b": jm.Vec3()}, forces={"solid": field})


def test_a_probe_reads_the_cells_that_it_was_built_of():
    """Of two regions of a mesh, each a solid of its own: the cells of another region, of the same number, were read."""
    whole = jm.mesh.box_mesh(cells=(4, 1), size=(4.0, 1.0), kind="quad")
    parts = [jm.mesh.Mesh(whole.points, np.asarray(whole.cells)[rows], "quad") for rows in ([0, 1], [2, 3])]
    law = jm.material.LinearElastic(YOUNG, NU)
    solids = {name: jm.force.SolidFEM.from_mesh("b", part, law) for name, part in zip("lr", parts, strict=True)}
    system = jm.System({"b": jm.Vec2()}, forces=solids)
    x = np.asarray(whole.points)
    state = system.at_rest({"b": np.column_stack([x[:, 0] + 0.01 * x[:, 0] ** 2, x[:, 1]])})
    left, right = (jm.output.gauss_fields(system, state, name) for name in "lr")
    probes = [jm.output.Probe.build(mesh, [[at, 0.5]]) for mesh, at in ((parts[0], 1.5), (parts[1], 3.5), (whole, 3.5))]
    stretch = [p.of_points(f, f.gradient[..., 0, 0]) for p, f in zip(probes, (left, right), strict=False)]
    np.testing.assert_allclose(stretch, [[1.03], [1.07]], rtol=ROUND_OFF)
    for probe, fields in ((probes[2], right), (probes[0], right)):
        with pytest.raises(ValueError, match="region of a mesh, build it of the cells of that"):
            probe.of_points(fields, fields.gradient)
    traced = jax.jit(lambda state: probes[0].of_points(jm.output.gauss_fields(system, state, "r"), right.volume))
    assert np.isnan(traced(state)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hexahedron", pytest.param("tetrahedron10", marks=pytest.mark.slow)])
def test_a_homogeneous_deformation_by_hand(kind):
    mesh, system = solid(kind)
    state = system.at_rest({"b": np.asarray(mesh.points) @ F.T})
    places = np.array([[0.3, 0.4, 0.5], [1.7, 0.2, 0.1]])
    probe = jm.output.Probe.build(mesh, places)
    J, inverse = np.linalg.det(F), np.linalg.inv(F)
    P = MU * (F - inverse.T) + LAM * np.log(J) * inverse.T
    cauchy = P @ F.T / J
    deviator = cauchy - np.trace(cauchy) / 3 * np.eye(3)
    by_hand = {
        "gradient": F,
        "first_piola": P,
        "second_piola": inverse @ P,
        "cauchy": cauchy,
        "green_lagrange": 0.5 * (F.T @ F - np.eye(3)),
        "logarithmic": logm(F.T @ F).real / 2,
        "volume_ratio": J,
        "von_mises": np.sqrt(1.5 * np.sum(deviator**2)),
        "principal_stresses": np.linalg.eigvalsh(cauchy)[::-1],
        "principal_stretches": np.linalg.svd(F)[1],
        "energy_density": 0.5 * MU * (np.sum(F * F) - 3 - 2 * np.log(J)) + 0.5 * LAM * np.log(J) ** 2,
    }

    @jax.jit
    def program(state):
        fields = jm.output.gauss_fields(system, state, "solid")
        read = {name: getattr(fields, name) for name in by_hand}
        nodal = jm.output.at_nodes(fields, fields.position, method="consistent")
        lumped = jm.output.at_nodes(fields, fields.position[..., 0]), jm.output.at_nodes(fields, fields.cauchy)
        probed = probe.of_nodes(state.position["b"]), probe.of_points(fields, fields.position)
        return fields, read, nodal, lumped, probed, jm.energy(system, state)

    fields, read, nodal, (lumped, stress), probed, energy = program(state)
    for name, expected in by_hand.items():
        found = read[name]
        assert found.shape[:2] == fields.volume.shape, name
        np.testing.assert_allclose(
            found, np.broadcast_to(expected, found.shape), rtol=1e-11, atol=1e-11 * YOUNG, err_msg=name
        )
    np.testing.assert_allclose(fields.volume.sum(), 2.0, rtol=ROUND_OFF)
    np.testing.assert_allclose(jnp.sum(fields.volume * fields.energy_density), energy, rtol=ROUND_OFF)
    # Linear fields are kept by the consistent projection and by probes; constants, and bounds, by the lumped one.
    np.testing.assert_allclose(nodal, state.position["b"], atol=1e-11)
    assert fields.position[..., 0].min() <= lumped.min() and lumped.max() <= fields.position[..., 0].max()
    np.testing.assert_allclose(stress, np.tile(cauchy, (len(mesh.points), 1, 1)))
    for found in probed:
        np.testing.assert_allclose(found, places @ F.T, atol=ROUND_OFF)


def bar(young=YOUNG, load=4.0):
    """A bar in plane stress, quads on the left and triangles on the right, clamped at the left and pulled at the right."""
    mesh = jm.mesh.box_mesh(cells=(4, 1), size=(4.0, 1.0), kind="quad")
    left, right = np.asarray(mesh.cells)[:2], jm.mesh.quads_to_triangles(mesh).mesh
    right = np.asarray(right.cells)[4:]
    law = jm.material.LinearElastic(young, 0.0)
    x = mesh.points
    fields = {
        "quads": jm.force.SolidFEM(("b", left), x, law, "quad", 0.5, "stress"),
        "triangles": jm.force.SolidFEM(("b", right), x, law, "triangle", 0.5, "stress"),
        "load": jm.force.ConstantForce(("b", np.flatnonzero(np.asarray(x)[:, 0] == 4.0)), load * jnp.array([0.5, 0.0])),
    }
    clamp = np.flatnonzero(np.asarray(x)[:, 0] == 0.0)
    return mesh, jm.System({"b": jm.Vec2()}, forces=fields, constraints={"clamp": jm.constraint.Fixed(("b", clamp))})


@pytest.mark.parametrize(
    ("of_solid", "means", "total"),
    [({"plane": "stress", "thickness": [1.0, 3.0]}, 3 / 4, 3.0), ({"plane": "axisymmetric"}, 2 / 3, 3 * np.pi)],
)
def test_nodal_values_are_means_of_volumes(of_solid, means, total):
    """Of cells of two thicknesses, and of rings: cells counted by their area, whatever they are thick, a ring as a plate."""
    mesh = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0), kind="quad")
    field = jm.force.SolidFEM.from_mesh("b", mesh, jm.material.LinearElastic(YOUNG, NU), **of_solid)
    system = jm.System({"b": jm.Vec2()}, forces={"solid": field})
    fields = jm.output.gauss_fields(system, system.at_rest({"b": mesh.points}), "solid")
    values = np.repeat([[0.0], [1.0]], 4, axis=1)  # of each cell one
    lumped, fitted = (np.asarray(jm.output.at_nodes(fields, values, method=m)) for m in ("lumped", "consistent"))
    np.testing.assert_allclose(lumped, np.tile([0.0, means, 1.0], 2), atol=ROUND_OFF)
    quad = jm.mesh.reference_element("quad")
    shapes = np.asarray(quad.shape(quad.quadrature(fields.rule)[0]))
    of_cells = fitted[np.asarray(mesh.cells)] @ shapes.T
    np.testing.assert_allclose(np.sum(np.asarray(fields.volume) * of_cells), total, rtol=1e-11)  # as of the values


@pytest.mark.slow
def test_a_bar_of_two_kinds_of_cells():
    """Reactions, section forces and nodal stresses of a bar that is pulled, and derivatives of them."""
    mesh, system = bar()
    strain = 4.0 / 0.5 / YOUNG
    state = system.at_rest({"b": np.asarray(mesh.points) * [1 + strain, 1.0]})
    names = ("quads", "triangles")

    @jax.jit
    def results(young, position):
        where = lambda s: [s.forces[n].material.young for n in names]  # noqa: E731
        scene = eqx.tree_at(where, system, [young, young])
        now = dataclasses.replace(state, position={"b": position})
        fields = [jm.output.gauss_fields(scene, now, n) for n in names]
        nodal = {m: jm.output.at_nodes(fields, [f.von_mises for f in fields], method=m) for m in ("lumped", "consistent")}
        cuts = [
            jm.output.section_force(scene, now, {"quads": [1]}),
            jm.output.section_force(scene, now, {"quads": np.array([True, True]), "triangles": []}),
            jm.output.section_force(scene, now, {"quads": [], "triangles": np.arange(4)}, about=[2.0, 0.0]),
        ]
        held = jm.output.reaction_resultants(scene, now, {"all": np.arange(10), "top": [9]}, about=[0.0, 0.5])
        return fields, nodal, cuts, held

    fields, nodal, cuts, held = results(YOUNG, state.position["b"])
    for part in fields:
        np.testing.assert_allclose(part.first_piola[..., 0, 0], 8.0, rtol=1e-11)
        np.testing.assert_allclose(part.cauchy[..., 2, 2], 0.0, atol=1e-11)
    for values in nodal.values():
        np.testing.assert_allclose(values, 8.0, rtol=1e-11)
    for cut, sign in zip(cuts, (-1.0, 1.0, -1.0), strict=True):
        np.testing.assert_allclose(cut.force, [4.0 * sign, 0.0], atol=1e-11)
    # About the middle of the cut nothing turns; about the lower side the force does, half a metre above it.
    np.testing.assert_allclose([c.moment for c in cuts], [0.0, 0.0, 4.0 * 0.5], atol=1e-11)
    np.testing.assert_allclose(held["all"].force, [-4.0, 0.0], atol=1e-11)
    np.testing.assert_allclose([held["all"].moment, *held["top"].force], [0.0, 0.0, 0.0], atol=1e-11)

    def mean(young, position):
        fields, nodal, cuts, held = results(young, position)
        return sum(jnp.mean(v) for v in nodal.values()) + cuts[2].moment + held["all"].force[0]

    rng = np.random.default_rng(2)
    x = state.position["b"] + 0.02 * rng.uniform(-1, 1, (10, 2))
    u = 0.05 * rng.uniform(-1, 1, (10, 2))
    reverse = jax.jit(jax.grad(mean, argnums=(0, 1)))(YOUNG, x)
    forward = jax.jvp(mean, (YOUNG, x), (10.0, u))[1]
    np.testing.assert_allclose(10.0 * reverse[0] + jnp.sum(reverse[1] * u), forward, rtol=RECOMPILED)
    h = 1e-3
    values = [mean(YOUNG + k * h * 10.0, x + k * h * u) for k in (-2, -1, 1, 2)]
    difference = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
    np.testing.assert_allclose(forward, difference, rtol=FINITE_DIFFERENCE)
    together = jax.jit(jax.vmap(lambda x: results(YOUNG, x)[1]))(jnp.stack([x, x + u]))
    for name, values in results(YOUNG, x + u)[1].items():
        np.testing.assert_allclose(together[name][1], values, rtol=1e-11)


@pytest.mark.slow
def test_strains_have_derivatives_at_rest():
    """Where principal values are equal, and a stress is nil: in both modes, and the second ones of a logarithm."""
    u = jnp.asarray(np.random.default_rng(3).normal(size=(3, 3)))
    u = u + u.T

    def along(t):
        C = jnp.eye(3) + t * u
        return half_logarithm(C), von_mises(C - jnp.eye(3)), jnp.sum(principal_values(C))

    forward, reverse, second = jax.jit(
        lambda t: (
            jax.jvp(along, (t,), (1.0,))[1],
            jax.grad(lambda t: sum(jnp.sum(a) for a in along(t)))(t),
            jax.jvp(jax.grad(lambda t: jnp.sum(u * along(t)[0])), (t,), (1.0,))[1],
        )
    )(0.0)
    np.testing.assert_allclose(forward[0], u / 2, atol=ROUND_OFF)
    np.testing.assert_allclose(forward[1:], [0.0, jnp.trace(u)], atol=ROUND_OFF)
    np.testing.assert_allclose(reverse, jnp.sum(u) / 2 + jnp.trace(u), rtol=RECOMPILED)
    np.testing.assert_allclose(second, -0.5 * jnp.sum(u * (u @ u)), rtol=1e-11)


def test_logarithms():
    # The last has a condition number of 1e8: the roots keep half of the digits
    C = np.stack([np.eye(3), np.diag([4.0, 4.0, 0.01]), F.T @ F, np.diag([1e4, 1.0, 1e-4])])
    np.testing.assert_allclose(jax.jit(half_logarithm)(C), [logm(c).real / 2 for c in C], atol=1e-10)


def test_metal_that_has_flowed_stands_on_its_yield_surface():
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0), kind="hexahedron")
    law = jm.material.J2Plasticity(YOUNG, NU, 10.0, 50.0)
    system = jm.System({"b": jm.Vec3()}, forces={"metal": jm.force.HexahedronFEM.from_mesh("b", mesh, law)})
    rest = system.at_rest({"b": mesh.points})
    end = dataclasses.replace(rest, position={"b": mesh.points * jnp.array([1.05, 0.98, 0.98])})
    flowed = jm.integrator.accepted(system, rest, end)
    P = jm.output.gauss_fields(system, flowed, "metal").first_piola
    s = P - jnp.trace(P, axis1=2, axis2=3)[..., None, None] / 3 * jnp.eye(3)
    accumulated = flowed.internal["metal"]["material.accumulated"]
    assert accumulated.min() > 0.01
    np.testing.assert_allclose(jnp.sqrt(1.5 * jnp.sum(s * s, axis=(2, 3))), 10.0 + 50.0 * accumulated, rtol=1e-11)


def test_files_of_a_series(tmp_path):
    meshio = pytest.importorskip("meshio", reason='pip install "jaxmech[mesh]"')
    mesh, _ = bar()
    u, s = np.random.default_rng(0).normal(size=(3, 10, 2)), np.random.default_rng(1).normal(size=(3, 4, 3, 3))
    times, data = [0.0, 0.5, 2.0], {"point_data": {"u": u}, "cell_data": {"s": s}}
    for suffix in (".pvd", ".xdmf"):
        jm.output.write_series(tmp_path / f"run{suffix}", mesh, times, **data)
    told = (tmp_path / "run.pvd").read_text()
    assert told.count("<DataSet") == 3 and 'timestep="0.5"' in told and 'file="run/run_0002.vtu"' in told
    last = meshio.read(tmp_path / "run" / "run_0002.vtu")
    np.testing.assert_array_equal(last.point_data["u"][:, :2], u[2])
    np.testing.assert_array_equal(last.cell_data["s"][0], s[2].reshape(4, 9))
    with meshio.xdmf.TimeSeriesReader(tmp_path / "run.xdmf") as reader:
        points, cells = reader.read_points_cells()
        t, on_points, on_cells = reader.read_data(1)
    (domain,) = ElementTree.parse(tmp_path / "run.xdmf").getroot()
    (series,) = domain  # and no grid beside it, which ParaView would draw as well
    assert [[child.tag for child in grid].count("Geometry") for grid in series] == [1, 0, 0]
    np.testing.assert_array_equal(cells[0].data, mesh.cells)
    assert t == 0.5 and points.shape == (10, 3)
    np.testing.assert_allclose(on_points["u"][:, :2], u[1], rtol=1e-15)
    np.testing.assert_allclose(on_cells["s"][0].reshape(4, 3, 3), s[1], rtol=1e-15)

    # A series that fails leaves the old one, and nothing else; a shorter one takes its place whole.
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    for suffix in (".pvd", ".xdmf"):
        with pytest.raises(ValueError, match="point_data 'u' has shape"):
            jm.output.write_series(tmp_path / f"run{suffix}", mesh, times, point_data={"u": u[:, :3]})
    real = jm.output.write_series.__globals__["write_mesh"]

    def breaks(path, *args, **kwargs):
        if "0001" in os.fspath(path):
            raise ValueError("no space left")
        real(path, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(jm.output.write_series.__globals__, "write_mesh", breaks)
        with pytest.raises(ValueError, match="no space left"):
            jm.output.write_series(tmp_path / "run.pvd", mesh, times, **data)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    jm.output.write_series(tmp_path / "run.pvd", mesh, [1.0])
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["run_0000.vtu"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "run.pvd", "run.xdmf"]
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="no folder of VTU files"):
        jm.output.write_series(tmp_path / "run.pvd", mesh, [1.0])


def test_rows_that_an_xdmf_file_cannot_keep_are_refused_by_name(tmp_path):
    """Quaternions, say. An old series stays."""
    pytest.importorskip("meshio")
    mesh = jm.mesh.Mesh([[0.0, 0.0], [1.0, 0.0]], [[0, 1]], "edge")
    jm.output.write_series(tmp_path / "run.xdmf", mesh, [0.0], point_data={"u": np.zeros((1, 2, 3))})
    before = (tmp_path / "run.xdmf").read_bytes()
    for data in ({"point_data": {"turn": np.zeros((1, 2, 4))}}, {"cell_data": {"turn": np.zeros((1, 1, 4))}}):
        with pytest.raises(ValueError, match=r"'turn' has 4 components, but a file '.xdmf' keeps \(1, 2, 3, 6, 9\)"):
            jm.output.write_series(tmp_path / "run.xdmf", mesh, [0.0], **data)
        jm.output.write_series(tmp_path / "run.pvd", mesh, [0.0], **data)
    assert (tmp_path / "run.xdmf").read_bytes() == before


def test_a_series_on_several_kinds_of_cells_keeps_groups(tmp_path):
    meshio = pytest.importorskip("meshio", reason='pip install "jaxmech[mesh]"')
    points = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    blocks = {"quad": [[0, 1, 4, 3]], "triangle": [[1, 2, 4]], "edge": [[3, 0]]}
    sheet = jm.mesh.MixedMesh(points, blocks, {"left": {"edge": [0], "node": [0, 3]}, "soft": {"quad": [0]}})
    worst, u = np.array([[0.0], [1.0]]), np.arange(20.0).reshape(2, 5, 2)  # at two times
    data = {"point_data": {"u": u}, "cell_data": {"worst": {"quad": worst, "triangle": 2 * worst}}}
    for suffix in (".pvd", ".xdmf"):
        jm.output.write_series(tmp_path / f"run{suffix}", sheet, [0.0, 1.0], **data)
        with pytest.raises(ValueError, match="cell_data 'soft' has the name of a group"):
            jm.output.write_series(tmp_path / f"run{suffix}", sheet, [0.0], cell_data={"soft": {"quad": np.zeros((1, 1))}})
        with pytest.raises(TypeError, match="by kind of cell"):
            jm.output.write_series(tmp_path / f"run{suffix}", sheet, [0.0], cell_data={"worst": np.zeros((1, 2))})
    last = meshio.read(tmp_path / "run" / "run_0001.vtu")
    assert [block.type for block in last.cells] == ["line", "quad", "triangle", "vertex"]
    assert sorted(jm.mesh.read_mixed_mesh(tmp_path / "run" / "run_0001.vtu").groups) == ["left", "soft"]
    found = {name: np.concatenate(arrays) for name, arrays in last.cell_data.items()}
    np.testing.assert_array_equal(found["worst"], [np.nan, 1.0, 2.0, np.nan, np.nan])
    np.testing.assert_array_equal([found["left"], found["soft"]], [[1, 0, 0, 1, 1], [0, 1, 0, 0, 0]])
    (series,) = ElementTree.parse(tmp_path / "run.xdmf").getroot()[0]
    mixed = series[0].find("Topology/DataItem").text.split()  # lines and points say how many nodes they have
    assert [int(n) for n in mixed] == [2, 2, 3, 0, 5, 0, 1, 4, 3, 4, 1, 2, 4, 1, 1, 0, 1, 1, 3]
    for name, values in (found | {"u": last.point_data["u"]}).items():
        written = series[1].find(f"Attribute[@Name='{name}']/DataItem").text.split()
        np.testing.assert_array_equal(np.array(written, float), values.ravel())


@pytest.mark.slow
def test_beams_and_shells_have_section_forces():
    """What is beyond a cut is in balance, however far it has moved: force and moment of the load, about the cut."""
    angle = np.linspace(0, np.pi / 2, 7)
    line = jm.mesh.frames_along(np.stack([np.sin(angle), 1 - np.cos(angle), 0.3 * angle], 1))
    section = jm.force.Section.circle(0.05, 2e6, 0.3)
    strip = jm.mesh.box_mesh(cells=(6, 2), size=(2.0, 0.5))
    sheet = jm.mesh.Mesh(np.pad(strip.points, ((0, 0), (0, 1))), strip.cells, "triangle")
    shell = jm.force.Shell.from_mesh("f", sheet, 1e6, 0.3, 0.05)
    pairs = np.stack([np.arange(6), np.arange(1, 7)], 1)
    right = np.asarray(sheet.points)[np.asarray(sheet.cells)].mean(axis=1)[:, 0] > 1.0
    cases = (
        (jm.force.Beam(("f", pairs), line, section), line, [6], [0], [3, 4, 5], [3], [0.4, -0.3, 0.8]),
        (shell, shell.rest, [6, 20], [0, 7, 14], right, [3, 10, 17], [0.1, 0.2, 0.9]),
    )
    for field, rest, loaded, held, side, cut, force in cases:
        system = jm.System(
            {"f": jm.Rigid3()},
            forces={"it": field, "load": jm.force.ConstantForce(("f", loaded), force)},
            constraints={"clamp": jm.constraint.Fixed(("f", held))},
        )
        state = jm.static_solve(system, system.at_rest({"f": rest}), load_steps=2).state
        x = np.asarray(state.position["f"])[:, :3]
        assert np.linalg.norm(x[loaded] - np.asarray(rest)[loaded, :3]) > 0.1
        at = x[cut].mean(axis=0)
        found = jm.output.section_force(system, state, {"it": side})
        np.testing.assert_allclose(found.force, -len(loaded) * np.asarray(force), atol=1e-6)
        np.testing.assert_allclose(found.moment, -np.cross(x[loaded] - at, force).sum(axis=0), atol=1e-5)
        root = jm.output.reaction_resultants(system, state, {"root": held}, about=at)["root"]
        np.testing.assert_allclose(root.force, -len(loaded) * np.asarray(force), atol=1e-6)
        np.testing.assert_allclose(root.moment, found.moment, atol=1e-5)
    plane = jm.System(
        {"f": jm.Rigid2()},
        forces={"load": jm.force.ConstantForce(("f", [1]), [0.0, 2.0, 5.0])},
        constraints={"both": jm.constraint.Fixed(("f", [0, 1]))},
    )
    state = plane.at_rest({"f": [[0.0, 0.0, 0.0], [3.0, 0.0, 0.4]]})
    held = jm.output.reaction_resultants(plane, state, {"both": [0, 1]})["both"]
    np.testing.assert_allclose([*held.force, held.moment], [0.0, -2.0, -11.0])


@pytest.mark.slow
def test_forces_in_beams_and_stresses_in_shells():
    """A cantilever under a force and a torque at its end, by statics in the middle of elements; a strip, by `6 M/t^2`."""
    n, length = 4, 2.0
    line = jm.mesh.frames_along(np.linspace([0.0, 0.0, 0.0], [0.0, length, 0.0], n + 1), normal=[0.0, 0.0, 1.0])
    pairs = np.stack([np.arange(n), np.arange(1, n + 1)], 1)
    section = jm.force.Section.rectangle(0.1, 0.2, 1e7, 0.3)
    force, torque = np.array([3.0, 5.0, -4.0]), 0.7
    system = jm.System(
        {"f": jm.Rigid3()},
        forces={
            "beam": jm.force.Beam(("f", pairs), line, section),
            "load": jm.force.ConstantForce(("f", [n]), force * 1e-3),
            "twist": jm.force.ConstantTorque(("f", [n]), [0.0, torque * 1e-3, 0.0]),
        },
        constraints={"clamp": jm.constraint.Fixed(("f", [0]))},
    )
    state = jm.static_solve(system, system.at_rest({"f": line})).state
    found = 1e3 * np.asarray(jm.output.beam_forces(system, state, "beam"))
    arm = length * (1 - (np.arange(n) + 0.5) / n)  # x along the world's y, y of the section along z, z of it along x
    exact = np.stack([0 * arm + 5, 0 * arm - 4, 0 * arm + 3, 0 * arm + torque, -3 * arm, -4 * arm], 1)
    np.testing.assert_allclose(found, exact, atol=2e-3)

    wide, thick = 0.5, 0.05
    strip = jm.mesh.box_mesh(cells=(8, 2), size=(length, wide))
    sheet = jm.mesh.Mesh(np.pad(strip.points, ((0, 0), (0, 1))), strip.cells, "triangle")
    shell = jm.force.Shell.from_mesh("f", sheet, 1e7, 0.0, thick)
    x = np.asarray(sheet.points)
    end = np.flatnonzero(x[:, 0] == length)
    pull = np.array([0.25, 0.5, 0.25])[:, None] * [3e-2, 0.0, 4e-3]
    system = jm.System(
        {"f": jm.Rigid3()},
        forces={"shell": shell, "load": jm.force.ConstantForce(("f", end), pull)},
        constraints={"clamp": jm.constraint.Fixed(("f", np.flatnonzero(x[:, 0] == 0)))},
    )
    state = jm.static_solve(system, system.at_rest({"f": shell.rest})).state
    stresses = jm.output.shell_stresses(system, state, "shell")
    middles = x[np.asarray(sheet.cells)].mean(axis=1)[:, 0]
    bent = -6 * 4e-3 * (length - middles) / (wide * thick**2)  # pushed up: the upper side is pressed
    np.testing.assert_allclose(stresses.bending[:, 0, 0], bent, atol=0.05 * np.abs(bent).max())
    away = middles < 0.7 * length  # from where the load comes in
    np.testing.assert_allclose(stresses.middle[away, 0, 0], 3e-2 / (wide * thick), rtol=0.01)
    np.testing.assert_allclose(stresses.upper + stresses.lower, 2 * stresses.middle, atol=1e-9)
    for function, words in (
        (
            lambda: jm.output.beam_forces(system, state, "shell"),
            "name 'shell' is not that of a Beam, expected one of \\[\\]",
        ),
        (lambda: jm.output.shell_stresses(system, state, "load"), "name 'load' is not that of a Shell, expected one of"),
    ):
        with pytest.raises(ValueError, match=words):
            function()


def test_what_is_refused():
    mesh, system = bar()
    state = system.at_rest({"b": mesh.points})
    fields = jm.output.gauss_fields(system, state, "quads")
    cases = {
        "name 'load' is not that of a solid": lambda: jm.output.gauss_fields(system, state, "load"),
        "method": lambda: jm.output.at_nodes(fields, fields.von_mises, method="best"),
        "values have shape": lambda: jm.output.at_nodes(fields, fields.von_mises.T),
        "there are 1 fields and 2 values": lambda: jm.output.at_nodes([fields], [1.0, 2.0]),
        "share no node": lambda: jm.output.section_force(system, state, {"quads": [0, 1]}),
        "side names": lambda: jm.output.section_force(system, state, {"nobody": [0]}),
        "names 7": lambda: jm.output.section_force(system, state, {"quads": [7]}),
        "on must be a state of points": lambda: jm.output.reaction_resultants(system, state, {}, on="nobody"),
        "times must increase": lambda: jm.output.write_series("never.pvd", mesh, [1.0, 0.0]),
        "must end in": lambda: jm.output.write_series("never.vtu", mesh, [1.0]),
        "on cells of kind 'triangle'": lambda: jm.output.Probe.build(mesh, [[0.5, 0.5]]).of_points(
            jm.output.gauss_fields(system, state, "triangles"), np.zeros((2, 4))
        ),
        "points have shape": lambda: jm.output.Probe.build(mesh, [[0.5, 0.5, 0.5]]),
        "a name in point_data must be printable": lambda: jm.output.write_series(
            "never.xdmf", mesh, [1.0], point_data={"a\x01": np.zeros((1, 10))}
        ),
        "'a' has dtype complex128": lambda: jm.output.write_series(
            "never.pvd", mesh, [1.0], cell_data={"a": 1j * np.ones((1, 4))}
        ),
        "'a' has dtype float16": lambda: jm.mesh.write_mesh("never.vtu", mesh, cell_data={"a": np.ones(4, np.float16)}),
        r"No such file or directory: 'nowhere.run\.pvd'": lambda: jm.output.write_series("nowhere/run.pvd", mesh, [1.0]),
    }
    for message, function in cases.items():
        with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
            function()


@pytest.mark.slow
def test_a_node_that_is_named_twice_holds_once():
    mesh, system = bar()
    state = jm.static_solve(system, system.at_rest({"b": mesh.points})).state
    held = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    found = jm.output.reaction_resultants(system, state, {"once": held, "twice": [*held, *held]})
    assert float(jnp.linalg.norm(found["once"].force)) > 0.1
    assert jnp.array_equal(found["once"].force, found["twice"].force)
