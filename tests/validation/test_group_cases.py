"""Loads, supports and results by the name of a group of a mesh, each against a closed form.

M. Hetenyi, *Beams on Elastic Foundation*, 1946, section 2 (foundation); S. P. Timoshenko, J. N. Goodier, *Theory of
Elasticity*, 3rd ed., 1970 (bar under its weight, cantilever); J. E. Adkins, R. S. Rivlin, Phil. Trans. R. Soc. A 244 (1952)
505, doi:10.1098/rsta.1952.0013 (balloon); R. M. Jones, *Mechanics of Composite Materials*, 2nd ed., 1999, chapter 3
(layers).
"""

import jax
import numpy as np
import pytest

import jaxmech as jm

jax.config.update("jax_enable_x64", True)


def named_box(cells, size, kind, **groups):
    """A box with names, of linear or quadratic cells."""
    linear = kind.rstrip("0123456789")
    mesh = jm.mesh.box_mesh(cells=cells, size=size, kind=linear)
    mesh = mesh if kind == linear else jm.mesh.quadratic_mesh(mesh, kind=kind)
    return jm.mesh.MixedMesh.from_mesh(mesh, groups)


@pytest.mark.slow
def test_a_bar_of_two_parts_under_its_weight_and_an_end_load():
    """`u = F L/(EA) + sum of gamma l (l/2 + what hangs below)/E`: body forces by part, a traction, held by name."""
    mesh = named_box(
        (4, 1),
        (4.0, 0.5),
        "quad8",
        top=lambda x: x[:, 0] == 0.0,
        end=lambda x: x[:, 0] == 4.0,
        middle=lambda x: x[:, 1] == 0,
    )
    mesh = jm.mesh.MixedMesh(
        mesh.points, mesh.blocks, mesh.groups | {"light": {"quad8": [0, 1]}, "heavy": {"quad8": [2, 3]}}
    )
    law, (light, heavy, pull) = jm.material.LinearElastic(1000.0, 0.0), (2.0, 6.0, 3.0)
    scene = jm.System(
        {"b": jm.Vec2()},
        forces={
            "bar": mesh.each(lambda part: jm.force.SolidFEM.from_mesh("b", part, law)),
            "light": mesh.each(lambda part: jm.force.Traction.from_mesh("b", part, [light, 0.0]), "light"),
            "heavy": mesh.each(lambda part: jm.force.Traction.from_mesh("b", part, [heavy, 0.0]), "heavy"),
            "pull": mesh.each(lambda part: jm.force.Traction.from_mesh("b", part, [pull, 0.0]), "end"),
        },
        constraints={"top": jm.constraint.Fixed(("b", mesh.nodes("top")))},
    )
    end = jm.static_solve(scene, scene.at_rest({"b": mesh.points}))
    longer = np.asarray(end.position["b"] - mesh.points)[mesh.nodes("end"), 0]
    np.testing.assert_allclose(longer, (pull * 4 + heavy * 2 * 1 + light * 2 * 1 + heavy * 2 * 2) / 1000, rtol=1e-9)
    held = jm.output.reaction_resultants(scene, end.state, {"top": mesh.nodes("top")})["top"]
    np.testing.assert_allclose(held.force, [-0.5 * (pull + 2 * light + 2 * heavy), 0.0], atol=1e-9)


@pytest.mark.slow
def test_a_beam_on_an_elastic_foundation():
    """`w = P b/(2 k)` under a force in the middle of a long beam, `b^4 = k/(4 EI)` (Hetenyi); the bed is named "bed"."""
    length, high, k = 40.0, 0.5, 2.0
    mesh = named_box((40, 1), (length, high), "quad8", bed=lambda x: x[:, 1] == 0.0)
    x = np.asarray(mesh.points)
    middle = np.flatnonzero((np.abs(x[:, 0] - length / 2) < 1e-9) & (x[:, 1] == high))
    law = jm.material.LinearElastic(1000.0, 0.0)
    scene = jm.System(
        {"b": jm.Vec2()},
        forces={
            "beam": jm.force.SolidFEM.from_mesh("b", mesh.part(), law, plane="stress"),
            "bed": mesh.each(lambda part: jm.force.ElasticFoundation.from_mesh("b", part, normal=k), "bed"),
            "load": jm.force.ConstantForce(("b", middle), [0.0, -1.0]),
        },
        constraints={"guide": jm.constraint.FixedComponents(("b", mesh.nodes("bed")[:1]), (True, False))},
    )
    down = -(np.asarray(jm.static_solve(scene, scene.at_rest({"b": mesh.points})).position["b"]) - x)[:, 1]
    b = (k / (4 * 1000.0 * high**3 / 12)) ** 0.25
    s = np.abs(x[:, 0] - length / 2)
    exact = b / (2 * k) * np.exp(-b * s) * (np.cos(b * s) + np.sin(b * s))
    line = np.flatnonzero((x[:, 1] == 0) & (s < length / 4))
    np.testing.assert_allclose(down[line], exact[line], atol=0.02 * exact.max())  # shear is 1 % of it


@pytest.mark.slow
def test_a_balloon_under_a_pressure_that_follows():
    """`p = t psi'(l) / (R l^2)`, `psi` of two equal stretches in plane stress: an eighth of a sphere, three names."""
    ball = jm.mesh.ball_mesh(radius=1.0, cells=6, kind="hexahedron27")
    skin = ball.faces_where(lambda x: np.linalg.norm(x, axis=1) > 0.999)
    x = np.asarray(ball.points)
    skin = jm.mesh.submesh(skin, (x[np.asarray(skin.cells)] > -1e-9).all(axis=(1, 2))).mesh
    names = {axis: (lambda x, k=k: np.abs(x[:, k]) < 1e-9) for k, axis in enumerate("xyz")}
    mesh = jm.mesh.MixedMesh.from_mesh(skin, names)
    mu, thickness, stretch = 100.0, 0.01, 1.3
    law = jm.material.MooneyRivlin(0.4 * mu, 0.1 * mu, 1e5)

    def density(l):  # of one that keeps its volume
        return 0.4 * mu * (2 * l**2 + l**-4 - 3) + 0.1 * mu * (2 * l**-2 + l**4 - 3)

    pressure = thickness * (density(stretch + 1e-5) - density(stretch - 1e-5)) / 2e-5 / stretch**2
    planes = {
        axis: jm.constraint.FixedComponents(("s", mesh.nodes(axis)), tuple(k == i for k in range(3)))
        for i, axis in enumerate("xyz")
    }
    scene = jm.System(
        {"s": jm.Vec3()},
        forces={
            "skin": mesh.each(lambda part: jm.force.Membrane.from_mesh("s", part, law, thickness=thickness)),
            "gas": mesh.each(lambda part: jm.force.Pressure.from_mesh("s", part, -pressure)),
        },
        constraints=planes,
    )
    end = jm.static_solve(scene, scene.at_rest({"s": 1.02 * mesh.points}), load_steps=4)
    np.testing.assert_allclose(np.linalg.norm(end.position["s"], axis=1), stretch, rtol=2e-3)


def test_a_pull_that_two_nodes_share_by_a_lever():
    """`u_b = -2 u_a`: a linear relation makes a force on one node twice as large on the other, and back."""
    springs = {
        "a": jm.force.AnchoredSprings(("p", [0]), 10.0, [[0.0]]),
        "b": jm.force.AnchoredSprings(("p", [1]), 3.0, [[0.0]]),
    }
    load = {"load": jm.force.ConstantForce(("p", [0]), [1.0])}
    lever = jm.constraint.LinearRelation(("p", [[0, 1]]), weights=[2.0, 1.0], value=[0.0], multiplier=("hold", [0]))
    scene = jm.System({"p": jm.Vec1(), "hold": jm.Vec1()}, forces=springs | load, constraints={"lever": lever})
    moved = jm.static_solve(scene, scene.at_rest({"p": [[0.0], [0.0]], "hold": [[0.0]]})).position["p"][:, 0]
    np.testing.assert_allclose(moved, np.array([1.0, -2.0]) / (10.0 + 4 * 3.0), rtol=1e-9)


@pytest.mark.slow
def test_layers_in_a_periodic_cell():
    """Two layers by name: stiff in their plane as the mean of their moduli, in shear as the harmonic mean (nu = 0)."""
    moduli = {"soft": 100.0, "hard": 900.0}
    cell = jm.mesh.box_mesh(cells=(2, 4), size=(1.0, 1.0), kind="quad")
    middles = np.asarray(cell.points)[np.asarray(cell.cells)].mean(axis=1)[:, 1]
    layers = {"soft": {"quad": np.flatnonzero(middles < 0.5)}, "hard": {"quad": np.flatnonzero(middles > 0.5)}}
    mesh = jm.mesh.MixedMesh(cell.points, {"quad": cell.cells}, layers)
    across, up = (jm.mesh.periodic_pairs(cell, shift) for shift in ([1.0, 0.0], [0.0, 1.0]))
    pairs = np.concatenate([across, up[~np.isin(up[:, 1], across[:, 0])]])  # one corner follows from the others
    forces = np.arange(len(pairs))
    solids = {
        name: jm.force.SolidFEM.from_mesh("p", mesh.part(name), jm.material.LinearElastic(E, 0.0))
        for name, E in moduli.items()
    }
    for gradient, modulus in (
        (np.array([[1e-3, 0.0], [0.0, 0.0]]), 500.0),
        (np.array([[0.0, 0.0], [0.0, 1e-3]]), 180.0),
        (np.array([[0.0, 1e-3], [1e-3, 0.0]]), 2 * 180.0),
    ):
        relation = jm.constraint.LinearRelation.from_pairs(
            "p", pairs, ("hold", forces), cell.points, gradient=np.eye(2) + gradient
        )
        scene = jm.System(
            {"p": jm.Vec2(), "hold": jm.Vec2()},
            forces=solids,
            constraints={"periodic": relation, "corner": jm.constraint.Fixed(("p", [0]))},
        )
        start = scene.at_rest({"p": cell.points, "hold": np.zeros((len(pairs), 2))})
        energy = float(jm.energy(scene, jm.static_solve(scene, start).state))
        np.testing.assert_allclose(energy, 0.5 * modulus * 1e-6, rtol=1e-6)


@pytest.mark.slow
def test_results_of_a_cantilever_in_space():
    """Its section forces, the stress at a section and at nodes, what probes see between, and what its clamp carries."""
    length, b, h, load = 8.0, 0.5, 1.0, 3.0
    mesh = named_box(
        (16, 1, 2), (length, b, h), "hexahedron20", root=lambda x: x[:, 0] == 0.0, end=lambda x: x[:, 0] == length
    )
    solid = jm.force.SolidFEM.from_mesh("b", mesh.part(dimension=3), jm.material.LinearElastic(1e5, 0.0))
    scene = jm.System(
        {"b": jm.Vec3()},
        forces={
            "solid": solid,
            "load": mesh.each(lambda part: jm.force.Traction.from_mesh("b", part, [0, 0, -load / b / h]), "end"),
        },
        constraints={"root": jm.constraint.Fixed(("b", mesh.nodes("root")))},
    )
    state = jm.static_solve(scene, scene.at_rest({"b": mesh.points})).state
    root = jm.output.reaction_resultants(scene, state, {"root": mesh.nodes("root")}, about=[0.0, b / 2, h / 2])["root"]
    np.testing.assert_allclose(root.force, [0.0, 0.0, load], atol=1e-6 * load)
    np.testing.assert_allclose(root.moment, [0.0, -load * length, 0.0], atol=1e-3 * load * length)
    middle = np.asarray(mesh.points)[np.asarray(solid.on[0].nodes)].mean(axis=1)[:, 0]
    cut = jm.output.section_force(scene, state, {"solid": np.flatnonzero(middle > 4.0)}, about=[4.0, b / 2, h / 2])
    np.testing.assert_allclose(cut.force, [0.0, 0.0, load], atol=1e-6 * load)
    np.testing.assert_allclose(cut.moment, [0.0, -load * 4, 0.0], atol=1e-3 * load * 4)
    fields = jm.output.gauss_fields(scene, state, "solid")
    inertia, places = b * h**3 / 12, np.array([[3.3, 0.2, 0.9], [5.1, 0.3, 0.2], [4.0, 0.25, 0.5]])
    exact = load * (length - places[:, 0]) * (places[:, 2] - h / 2) / inertia
    stress = fields.first_piola[..., 0, 0]
    probe = jm.output.Probe.build(mesh.part(dimension=3), places)
    np.testing.assert_allclose(probe.of_points(fields, stress), exact, atol=0.02 * np.abs(exact).max())
    nodal = jm.output.at_nodes(fields, stress, method="consistent")
    x = np.asarray(mesh.points)
    inside = (x[:, 0] > 1) & (x[:, 0] < 7)
    expected = load * (length - x[:, 0]) * (x[:, 2] - h / 2) / inertia
    np.testing.assert_allclose(np.asarray(nodal)[inside], expected[inside], atol=0.02 * np.abs(expected).max())
