"""Solids around an axis, of other quadratures, and against locking; fields on faces; equations between nodes."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

YOUNG, POISSON = 100.0, 0.3
LINEAR, FINITE = jm.material.LinearElastic(YOUNG, POISSON), jm.material.NeoHookean(YOUNG, POISSON)
POINTS = {2: jm.Vec2(), 3: jm.Vec3()}
AFFINE = np.array([[1.1, 0.15, -0.05], [0.02, 0.95, 0.1], [0.06, -0.04, 1.05]])


def patch(kind):
    """Two cells along each axis, the node in the middle moved."""
    base = kind.rstrip("0123456789")
    d = jm.mesh.reference_element(base).dimension
    mesh = jm.mesh.box_mesh(cells=(2,) * d, size=(1.0, 1.2, 0.9)[:d], kind=base)
    points = np.array(mesh.points)
    points[3**d // 2] += np.array([0.07, -0.05, 0.04])[:d]
    mesh = jm.mesh.Mesh(points, mesh.cells, base)
    return (mesh if base == kind else jm.mesh.quadratic_mesh(mesh, kind)), 3**d // 2


CASES = {
    "f-bar": ("quad", FINITE, {"formulation": "f-bar"}),
    "b-bar": ("quad", LINEAR, {"formulation": "b-bar"}),
    "reduced": ("quad", FINITE, {"formulation": "reduced"}),
    "f-bar linear": ("quad9", FINITE, {"formulation": "f-bar"}),
    "finer": ("triangle6", FINITE, {"quadrature": 5}),
}
SOLID = {
    "f-bar": ("hexahedron", FINITE, {"formulation": "f-bar"}),
    "b-bar": ("hexahedron", LINEAR, {"formulation": "b-bar"}),
    "reduced": ("hexahedron", FINITE, {"formulation": "reduced"}),
    "f-bar linear": ("hexahedron27", FINITE, {"formulation": "f-bar"}),
}


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(CASES, id="plane", marks=pytest.mark.slow),
        pytest.param(SOLID, id="space", marks=pytest.mark.exhaustive),
    ],
)
def test_a_constant_strain_has_its_energy_and_pulls_at_no_node_inside(cases):
    """And the tangent is the derivative of the force, at places that are no constant strain."""
    meshes = {name: patch(kind) for name, (kind, _, _) in cases.items()}
    d = next(iter(meshes.values()))[0].points.shape[1]
    system = jm.System(
        dict.fromkeys(cases, POINTS[d]),
        forces={n: jm.force.SolidFEM.from_mesh(n, meshes[n][0], law, **how) for n, (_, law, how) in cases.items()},
    )
    state = system.at_rest({name: mesh.points @ AFFINE[:d, :d].T for name, (mesh, _) in meshes.items()})
    rng = np.random.default_rng(1)
    bent = {n: x + 0.02 * rng.normal(size=x.shape) for n, x in state.position.items()}
    along = {n: rng.normal(size=x.shape) for n, x in state.position.items()}

    @jax.jit
    def found(position, bent, along):
        at = lambda x: dataclasses.replace(state, position=x)  # noqa: E731
        energies = {n: jm.energy(eqx.tree_at(lambda s: s.forces, system, {n: f}), at(position)) for n, f in solids.items()}
        force = lambda x: jm.total_force(system, at(x))  # noqa: E731
        return energies, force(position), jax.jvp(force, (bent,), (along,))[1]

    solids = system.forces
    with jm.runtime.element_compiler("off"):  # less to compile
        energies, forces, slope = found(state.position, bent, along)
        A = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False)).assemble(
            system, dataclasses.replace(state, position=bent)
        )
        product = A.mv(along)
    for name, (mesh, inner) in meshes.items():
        F = np.eye(3)
        F[:d, :d] = AFFINE[:d, :d]
        expected = cases[name][1].energy_density(jnp.asarray(F)) * mesh.measure()
        np.testing.assert_allclose(energies[name], expected, rtol=1e-12)
        largest = np.abs(forces[name]).max()
        np.testing.assert_allclose(forces[name][inner], 0.0, atol=1e-12 * largest)
        np.testing.assert_allclose(product[name], -slope[name], atol=1e-11 * np.abs(slope[name]).max())


@pytest.mark.parametrize(("kind", "d", "share"), [("quad", 2, 4.0), ("hexahedron", 3, 6.0)])
def test_shapes_that_one_point_does_not_see_by_hand(kind, d, share):
    """`u_x = a h`, the signs `h` at the corners of a unit cell: `E = 1/2 c mu V |b|^2 / k (h . u)^2`. Of a square with
    `k = 4` corners `|b|^2 = 2`, of a cube with 8 it is 3/2: `c mu a^2` times 4, times 6."""
    a, c, young, poisson = 0.01, 0.25, 260.0, 0.3
    cell = jm.mesh.box_mesh(cells=(1,) * d, size=(1.0,) * d, kind=kind)
    law = jm.material.LinearElastic(young, poisson)
    solid = jm.force.SolidFEM.from_mesh("p", cell, law, formulation="reduced", hourglass=c)
    system = jm.System({"p": POINTS[d]}, forces={"solid": solid})
    X = np.asarray(cell.points)
    shape = np.prod(2 * X - 1, axis=1, keepdims=True) * np.eye(d)[0]
    energy = jm.energy(system, system.at_rest({"p": X + a * shape}))
    np.testing.assert_allclose(energy, share * c * young / (2 * (1 + poisson)) * a**2, rtol=1e-10)


def test_a_pressure_in_a_tube_acts_all_around():
    """`2 pi r h p` on a wall of height `h` at `r`, and what closes the tube above it, `pi (b^2 - a^2) p`."""
    wall = jm.mesh.box_mesh(cells=(2, 2), size=(1.5, 3.0), origin=(2.0, 0.0), kind="quad")
    loads = {
        "inside": (wall.faces_where(lambda x: x[:, 0] == 2.0), [2 * np.pi * 2.0 * 3.0, 0.0]),
        "lid": (wall.faces_where(lambda x: x[:, 1] == 3.0), [0.0, -np.pi * (3.5**2 - 2.0**2)]),
    }
    for faces, expected in loads.values():
        gas = jm.force.Pressure.from_mesh("p", faces, 5.0, axisymmetric=True)
        system = jm.System({"p": jm.Vec2()}, forces={"gas": gas})
        total = jm.total_force(system, system.at_rest({"p": wall.points}))["p"].sum(axis=0)
        np.testing.assert_allclose(total, 5.0 * np.array(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "law", [jm.material.LinearElastic(90.0, 0.4), jm.material.NeoHookean(90.0, 0.4)], ids=["linear", "large"]
)
def test_a_mixed_solid_at_its_own_pressure_is_the_material(law):
    """`p = lambda v` of a uniform stretch, `v` the change of volume, or its logarithm: the energy of the material, and no
    equation of a pressure is left open."""
    mesh = jm.mesh.quadratic_mesh(jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 2.0)))
    solid = jm.force.MixedSolidFEM.from_mesh("u", "p", mesh, law)
    system = jm.System({"u": jm.Vec2(), "p": jm.Vec1()}, forces={"solid": solid})
    F = np.array([[1.02, 0.01], [0.0, 1.03]])
    v = np.trace(F) - 2 if isinstance(law, jm.material.LinearElastic) else np.log(np.linalg.det(F))
    pressure = 90.0 * 0.4 / (1.4 * 0.2) * v  # lambda v
    state = system.at_rest({"u": mesh.points @ F.T, "p": np.full((len(solid.pressure_nodes(mesh)), 1), pressure)})
    density = law.energy_density(jnp.asarray(np.pad(F, (0, 1)) + np.diag([0.0, 0.0, 1.0])))
    np.testing.assert_allclose(jm.energy(system, state), 2.0 * density, rtol=1e-10)
    np.testing.assert_allclose(jm.total_force(system, state)["p"], 0.0, atol=1e-12)


@pytest.mark.slow
def test_lame_s_cylinder_around_its_axis():
    """B6: a thick tube under pressure, in plane strain: `u_r(a) = 1.9066666667e-3`; what a ring weighs, and carries."""
    tube = jm.mesh.quadratic_mesh(jm.mesh.box_mesh(cells=(4, 1), size=(1.0, 0.5), origin=(1.0, 0.0), kind="quad"))
    inside = tube.faces_where(lambda x: x[:, 0] == 1.0)
    rows = tube.nodes_where(lambda x: (x[:, 1] == 0.0) | (x[:, 1] == 0.5))
    system = jm.System(
        {"p": jm.Vec2()},
        forces={
            "solid": jm.force.SolidFEM.from_mesh("p", tube, jm.material.LinearElastic(1000.0, 0.3), plane="axisymmetric"),
            "gas": jm.force.Traction.from_mesh("p", inside, [1.0, 0.0], axisymmetric=True),
        },
        masses={"mass": jm.mass.ConsistentMass.from_mesh("p", tube, 2.0, axisymmetric=True)},
        constraints={"slide": jm.constraint.FixedComponents(("p", rows), (False, True))},
    )
    gas, mass = jm.force.Pressure.from_mesh("p", inside, 1.0), jm.mass.ConsistentMass.from_mesh("p", tube, 2.0)
    for name, flat in (("gas", {"forces": system.forces | {"gas": gas}}), ("mass", {"masses": {"mass": mass}})):
        with pytest.raises(ValueError, match=f"'solid' is a body of revolution, and '{name}' on its state 'p' is of the pl"):
            jm.System(**({"dofs": {"p": jm.Vec2()}, "forces": system.forces} | flat))
    rest = system.at_rest({"p": tube.points})
    solution = jm.static_solve(system, rest)
    inner = tube.nodes_where(lambda x: x[:, 0] == 1.0)
    u = np.asarray(solution.position["p"] - tube.points)[inner, 0]
    np.testing.assert_allclose(u, 1.9066666667e-3, rtol=5e-4)
    loads = jm.total_force(system, rest)["p"].sum(axis=0)
    np.testing.assert_allclose(loads, [2 * np.pi * 0.5, 0.0], atol=1e-12)  # p 2 pi a h
    moving = dataclasses.replace(rest, velocity={"p": jnp.ones_like(tube.points) * jnp.array([0.0, 1.0])})
    np.testing.assert_allclose(jm.mass.momentum(system, moving)["p"].sum(axis=0), [0.0, 2.0 * np.pi * 3.0 * 0.5], atol=1e-12)


def test_what_acts_on_rings_acts_on_all_of_each():
    """Beds, dashpots and lumped masses of a tube; what is of the plane is refused beside it, where it was taken."""
    tube = jm.mesh.box_mesh(cells=(3, 1), size=(1.0, 0.5), origin=(1.0, 0.0), kind="quad")
    six = jm.mesh.quadratic_mesh(tube)
    outside = tube.faces_where(lambda x: x[:, 0] == 2.0)
    law, F, around = jm.material.LinearElastic(1000.0, 0.3), jm.force, {"axisymmetric": True}
    solid = F.SolidFEM.from_mesh("p", tube, law, plane="axisymmetric")
    bed = F.ElasticFoundation.from_mesh("p", outside, normal=3.0, tangential=5.0, **around)
    shore = F.AbsorbingBoundary.from_mesh("p", outside, 3.0, 5.0, **around)
    mass = jm.mass.DiagonalMass.from_mesh("p", tube, 2.0, **around)
    np.testing.assert_allclose(mass.mass.sum(), 2.0 * np.pi * 3.0 * 0.5, rtol=1e-14)
    rest = jm.System({"p": jm.Vec2()}, forces={"solid": solid}).at_rest({"p": tube.points})
    area, way = 2 * np.pi * 2.0 * 0.5, jnp.array([0.1, 0.2])
    moved = dataclasses.replace(rest, position={"p": tube.points + way}, velocity={"p": jnp.zeros_like(tube.points) + way})
    for name, field, at in (("bed", bed, {}), ("shore", shore, {"position": rest.position})):
        system = jm.System({"p": jm.Vec2()}, forces={"solid": solid, name: field})
        alone = jm.System({"p": jm.Vec2()}, forces={name: field})
        force = jm.total_force(alone, dataclasses.replace(moved, **at))["p"].sum(axis=0)
        np.testing.assert_allclose(force, -area * np.array([3.0, 5.0]) * way, rtol=1e-12)
        assert system.forces[name] is field
    six_solid = F.SolidFEM.from_mesh("p", six, law, plane="axisymmetric")
    flat = {
        "bed": (solid, F.ElasticFoundation.from_mesh("p", outside, normal=3.0)),
        "shore": (solid, F.AbsorbingBoundary.from_mesh("p", outside, 3.0)),
        "plate": (solid, F.QuadFEM.from_mesh("p", tube, law, plane="stress")),
        "strip": (solid, F.SolidFEM.from_mesh("p", tube, law)),
        "soil": (solid, F.StressSolidFEM.from_mesh("p", tube, jm.material.DruckerPrager(900.0, 0.3, 5.0, 0.4, 0.1, 80.0))),
        "mixed": (six_solid, F.MixedSolidFEM.from_mesh("p", "pressure", six, law)),
    }
    for name, (of_rings, field) in flat.items():
        with pytest.raises(ValueError, match=f"'solid' is a body of revolution, and '{name}' on its state 'p' is of the pl"):
            jm.System({"p": jm.Vec2(), "pressure": jm.Vec1()}, forces={"solid": of_rings, name: field})


def test_what_is_of_the_plane_is_refused_on_states_of_the_same_axes():
    """A skin that is mapped from a tube, of its edges; and a coarse grid that carries it."""
    tube = jm.mesh.box_mesh(cells=(3, 1), size=(1.0, 0.5), origin=(1.0, 0.0), kind="quad")
    outside = np.asarray(tube.faces_where(lambda x: x[:, 0] == 2.0).cells)
    edge = jm.mesh.Mesh(np.asarray(tube.points)[outside[0]], [[0, 1]], "edge")
    solid = jm.force.SolidFEM.from_mesh("p", tube, jm.material.LinearElastic(1000.0, 0.3), plane="axisymmetric")
    coarse = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 0.5), origin=(1.0, 0.0), kind="quad")
    mappings = {
        "grid": jm.mapping.BarycentricMapping.from_mesh("grid", "p", coarse, tube.points),
        "skin": jm.mapping.SubsetMapping(("p", outside[0]), "skin"),
    }

    def made(**parts):
        return jm.System({"grid": jm.Vec2(), "p": jm.Vec2(), "skin": jm.Vec2()}, mappings=mappings, **parts)

    gas = jm.force.Pressure.from_mesh("skin", edge, 3.0, axisymmetric=True)
    system = made(forces={"solid": solid, "gas": gas})
    pressed = np.asarray(jm.total_force(system, system.at_rest({"grid": coarse.points}))["grid"]).sum(axis=0)
    np.testing.assert_allclose(pressed, [-3.0 * 2 * np.pi * 2.0 * 0.5, 0.0], atol=1e-12)
    flat = {"forces": {"solid": solid, "other": jm.force.Pressure.from_mesh("skin", edge, 3.0)}}
    with pytest.raises(ValueError, match="'other' on state 'skin', of the same axes as its 'p', is of the plane"):
        made(**flat)
    with pytest.raises(ValueError, match="'other' on state 'grid', of the same axes as its 'p', is of the plane"):
        made(forces={"solid": solid}, masses={"other": jm.mass.ConsistentMass.from_mesh("grid", coarse, 2.0)})


def test_what_a_formulation_does_not_have_is_refused():
    quad, _ = patch("quad")
    triangle = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0))
    cases = [
        (quad, {"formulation": "magic"}, "formulation"),
        (quad, {"formulation": "f-bar", "plane": "stress"}, "not of plane stress, where nothing locks"),
        (triangle, {"formulation": "f-bar"}, "changes nothing in cells of one point"),
        (triangle, {"formulation": "reduced"}, "kind of formulation 'reduced'"),
        (quad, {"plane": "axisymmetric", "thickness": 2.0}, "around an axis it is 2 pi r"),
        (jm.mesh.Mesh(quad.points - 0.7, quad.cells, "quad"), {"plane": "axisymmetric"}, "on the far side of the axis"),
        (quad, {"quadrature": "finest"}, "neither a degree"),
    ]
    for mesh, how, says in cases:
        with pytest.raises(ValueError, match=says):
            jm.force.SolidFEM.from_mesh("p", mesh, LINEAR, **how)
    with pytest.raises(ValueError, match="kind 'quad' is not of quadratic cells"):
        jm.force.MixedSolidFEM.from_mesh("u", "p", quad, LINEAR)


@pytest.mark.slow
def test_a_periodic_cell_under_a_mean_stretch():
    """Of one material, the mean deformation gradient is that of every point."""
    cell = jm.mesh.box_mesh(cells=(2, 2), size=(1.0, 1.0), kind="quad")
    across, up = (jm.mesh.periodic_pairs(cell, shift) for shift in ([1.0, 0.0], [0.0, 1.0]))
    pairs = np.vstack([across, up[~np.isin(up[:, 1], across[:, 0])]])
    F = np.array([[1.1, 0.2], [0.0, 0.95]])
    forces = np.arange(len(pairs))
    relation = jm.constraint.LinearRelation.from_pairs("p", pairs, ("hold", forces), cell.points, gradient=F)
    system = jm.System(
        {"p": jm.Vec2(), "hold": jm.Vec2()},
        forces={"solid": jm.force.SolidFEM.from_mesh("p", cell, FINITE)},
        constraints={"periodic": relation, "corner": jm.constraint.Fixed(("p", [0]))},
    )
    solution = jm.static_solve(system, system.at_rest({"p": cell.points, "hold": np.zeros((len(pairs), 2))}))
    np.testing.assert_allclose(solution.position["p"], cell.points @ F.T, atol=1e-12)


@pytest.mark.slow
def test_cook_s_membrane():
    """23.96 at the tip: R. D. Cook, 1974; E = 1, nu = 1/3, plane stress, a shear of 1 on the right side."""
    box = jm.mesh.box_mesh(cells=(8, 8), size=(1.0, 1.0), kind="quad")
    s, t = np.asarray(box.points).T
    skew = jm.mesh.Mesh(np.column_stack([48 * s, 44 * s + t * (44 - 28 * s)]), box.cells, "quad")
    mesh = jm.mesh.quadratic_mesh(skew, "quad9")
    system = jm.System(
        {"p": jm.Vec2()},
        forces={
            "solid": jm.force.SolidFEM.from_mesh("p", mesh, jm.material.LinearElastic(1.0, 1 / 3), plane="stress"),
            "shear": jm.force.Traction.from_mesh("p", mesh.faces_where(lambda x: x[:, 0] == 48.0), [0.0, 1 / 16]),
        },
        constraints={"wall": jm.constraint.Fixed(("p", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    solution = jm.static_solve(system, system.at_rest({"p": mesh.points}))
    tip = np.argmin(np.linalg.norm(np.asarray(mesh.points) - [48.0, 52.0], axis=1))
    assert float(solution.position["p"][tip, 1]) - 52.0 == pytest.approx(23.96, rel=0.005)


@pytest.mark.slow
def test_a_wave_leaves_through_an_absorbing_boundary():
    """A pulse along a bar whose sides slide: at normal incidence nothing of it comes back."""
    n, lame, mu, rho = 60, 1.0, 1.0, 1.0
    bar = jm.mesh.box_mesh(cells=(n, 1), size=(1.0, 1.0 / n), kind="quad")
    speed = np.sqrt((lame + 2 * mu) / rho)
    end = bar.faces_where(lambda x: x[:, 0] == 1.0)
    law = jm.material.LinearElastic(mu * (3 * lame + 2 * mu) / (lame + mu), lame / 2 / (lame + mu))
    slide = jm.constraint.FixedComponents(("p", np.arange(len(bar.points))), (False, True))
    system = jm.System(
        {"p": jm.Vec2()},
        forces={
            "solid": jm.force.SolidFEM.from_mesh("p", bar, law),
            "outlet": jm.force.AbsorbingBoundary.from_mesh("p", end, rho * speed, rho * 1.0),
        },
        masses={"mass": jm.mass.ConsistentMass.from_mesh("p", bar, rho)},
        constraints={"slide": slide},
    )
    X = np.asarray(bar.points)
    hump = np.exp(-(((X[:, :1] - 0.5) / 0.08) ** 2)) * [1e-3, 0.0]
    rate = -speed * np.gradient(hump[: n + 1, 0], X[: n + 1, 0])  # a wave that runs to the right
    start = dataclasses.replace(
        system.at_rest({"p": X + hump}), velocity={"p": jnp.asarray(np.tile(rate, 2)[:, None] * [1.0, 0.0])}
    )
    newmark = jm.integrator.Newmark(jm.MatrixLinearSystem.build(system, start), newton=False)
    run = jm.simulate(system, start, newmark, dt=0.25 / n / speed, steps=6 * n)  # 1.5 lengths: there, and back if it came
    energy = lambda s: float(jm.energy(system, s) + jm.mass.kinetic_energy(system, s))  # noqa: E731
    assert energy(run.last) < 1e-3 * energy(start)
