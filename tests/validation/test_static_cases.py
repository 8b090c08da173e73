"""Statics with known answers: independent codes, closed forms and textbook benchmarks.

Every number is the one that the case was published or recomputed with elsewhere; none is an earlier output of jaxmech.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import jaxmech as jm

STATIC = jm.Terms(mass=False, damping=False)


def work_of_load(system, rest, solution):
    """`f . u` of the dead load named 'load'."""
    alone = eqx.tree_at(lambda s: s.forces, system, {"load": system.forces["load"]})
    return float(jm.energy(alone, rest) - jm.energy(alone, solution.state))


def cantilever(n, kind, material, **options):
    """The box 4 x 1 x 1 in 4n x n x n blocks, clamped at x = 0, a dead traction (0, 0, -2) at x = 4."""
    mesh = jm.mesh.box_mesh(cells=(4 * n, n, n), size=(4.0, 1.0, 1.0), kind=kind, **options)
    solid = {"hexahedron": jm.force.HexahedronFEM, "tetrahedron": jm.force.TetrahedronFEM}[kind]
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={
            "elastic": solid.from_mesh("beam", mesh, material),
            "load": jm.force.Traction.from_mesh("beam", mesh.faces_where(lambda x: x[:, 0] == 4.0), [0.0, 0.0, -2.0]),
        },
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    return mesh, system, system.at_rest({"beam": mesh.points})


def test_a1_neo_hookean_cantilever_of_hexahedra():
    mesh, system, rest = cantilever(4, "hexahedron", jm.material.NeoHookean(1000.0, 0.3))
    solution = jm.static_solve(system, rest, rtol=1e-8)
    elastic = eqx.tree_at(lambda s: s.forces, system, {"elastic": system.forces["elastic"]})
    tip = mesh.nodes_where(lambda x: (x == [4.0, 0.5, 0.5]).all(axis=1))
    displacement = np.asarray(solution.position["beam"] - mesh.points)[tip][0]
    np.testing.assert_allclose(work_of_load(system, rest, solution), 0.99778426202296, rtol=1e-10)
    np.testing.assert_allclose(jm.energy(elastic, solution.state), 0.495377784313, rtol=1e-10)
    np.testing.assert_allclose(displacement, [-0.035179499, 0.0, -0.498784731], rtol=0, atol=6e-10)  # nine decimals
    assert int(solution.info.iterations) == 5


@pytest.mark.slow
def test_a3_neo_hookean_cantilever_of_tetrahedra():
    mesh, system, rest = cantilever(2, "tetrahedron", jm.material.NeoHookean(1000.0, 0.3), split="kuhn")
    assert (len(mesh.points), len(mesh.cells)) == (81, 192)
    solution = jm.static_solve(system, rest, rtol=1e-8)
    np.testing.assert_allclose(work_of_load(system, rest, solution), 0.547009136500, rtol=1e-9)


@pytest.mark.slow
def test_a7_compliance_scales_with_the_modulus():
    """Linear elasticity: `C(s E) = C / s`, and by self-adjointness `sum_e E_e dC/dE_e = -C`."""
    mesh, system, rest = cantilever(1, "tetrahedron", jm.material.LinearElastic(np.full(24, 1000.0), 0.3))
    stiffness = jm.MatrixLinearSystem.build(system, rest, STATIC)
    modulus = 1000.0 * (1 + 0.5 * np.random.default_rng(0).uniform(size=len(mesh.cells)))

    @eqx.filter_jit
    def compliance(young, stiffness):
        scene = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, young)
        moved = jm.static_solve(scene, rest, stiffness).state
        load = eqx.tree_at(lambda s: s.forces, scene, {"load": scene.forces["load"]})
        return jm.energy(load, rest) - jm.energy(load, moved)

    C, slope = eqx.filter_value_and_grad(compliance)(jnp.asarray(modulus), stiffness)
    np.testing.assert_allclose(compliance(3.7 * modulus, stiffness), C / 3.7, rtol=1e-10)
    np.testing.assert_allclose(slope @ modulus, -C, rtol=1e-10)


INNER = [
    [0.249, 0.342, 0.192],
    [0.826, 0.288, 0.288],
    [0.850, 0.649, 0.263],
    [0.273, 0.750, 0.230],
    [0.320, 0.186, 0.643],
    [0.677, 0.305, 0.683],
    [0.788, 0.693, 0.644],
    [0.165, 0.745, 0.702],
]


@pytest.mark.slow
def test_a10_macneal_harder_patch():
    cube = jm.mesh.reference_element("hexahedron")
    outer = (np.asarray(cube.vertices) + 1) / 2
    faces = np.asarray(cube.faces)
    points = np.concatenate([outer, INNER])
    cells = np.concatenate([np.hstack([faces + 8, faces]), [np.arange(8, 16)]])
    gradient = 1e-3 * (np.eye(3) + np.ones((3, 3))) / 2
    material = jm.material.LinearElastic(1e6, 0.25)
    mesh = jm.mesh.Mesh(points, cells, "hexahedron")
    system = jm.System(
        {"cube": jm.Vec3()},
        forces={"elastic": jm.force.HexahedronFEM.from_mesh("cube", mesh, material)},
        constraints={
            "skin": jm.constraint.PrescribedMotion(("cube", np.arange(8)), outer, (outer @ gradient)[:, None], [0.0])
        },
    )
    found = jm.static_solve(system, system.at_rest({"cube": points})).position["cube"]
    np.testing.assert_allclose(found - points, points @ gradient, rtol=0, atol=1e-10 * 2e-3)

    at = cube.quadrature("stiffness")[0]
    local = cube.shape_gradients(at)
    jacobian = np.einsum("eki,qkj->eqij", points[cells], local)
    F = np.einsum("eki,qkj->eqij", np.asarray(found)[cells], local) @ np.linalg.inv(jacobian)
    stress = jax.vmap(jax.grad(material.energy_density))(F.reshape(-1, 3, 3))
    expected = np.where(np.eye(3) > 0, 2000.0, 400.0)
    np.testing.assert_allclose(stress, np.broadcast_to(expected, stress.shape), rtol=1e-10)


@pytest.mark.slow
def test_b6_lame_cylinder():
    """Plane strain, inner pressure 1: `u_r(a) = p (1+nu)/E a ((1-2nu) a^2 + b^2) / (b^2 - a^2)`."""
    square = jm.mesh.box_mesh(cells=(8, 12), size=(1.0, 1.0), kind="quad")
    radius, angle = 1 + np.asarray(square.points)[:, 0], np.pi / 2 * (1 - np.asarray(square.points)[:, 1])
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    mesh = jm.mesh.Mesh(points, np.asarray(square.cells)[:, ::-1], "quad")
    inside = mesh.faces_where(lambda x: np.hypot(*x.T) < 1 + 1e-9)
    middles = points[np.asarray(inside.cells)].mean(axis=1)
    system = jm.System(
        {"wall": jm.Vec2()},
        forces={
            "elastic": jm.force.QuadFEM.from_mesh("wall", mesh, jm.material.LinearElastic(1000.0, 0.3)),
            "pressure": jm.force.Traction.from_mesh("wall", inside, middles / np.hypot(*middles.T)[:, None]),
        },
        constraints={
            "x": jm.constraint.FixedPlane(("wall", mesh.nodes_where(lambda x: abs(x[:, 0]) < 1e-9)), [1.0, 0.0]),
            "y": jm.constraint.FixedPlane(("wall", mesh.nodes_where(lambda x: abs(x[:, 1]) < 1e-9)), [0.0, 1.0]),
        },
    )
    moved = jm.static_solve(system, system.at_rest({"wall": points})).position["wall"]
    nodes = mesh.nodes_where(lambda x: np.hypot(*x.T) < 1 + 1e-9)
    np.testing.assert_allclose(np.hypot(*np.asarray(moved)[nodes].T) - 1, 1.9066666667e-3, rtol=5e-3)


@pytest.fixture(scope="module")
def cube_in_tension():
    """One hexahedron between three planes of symmetry, its face x = 1 moved to the stretch `1 + time`."""
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0), kind="hexahedron")
    end = mesh.nodes_where(lambda x: x[:, 0] == 1.0)
    planes = {
        axis: jm.constraint.FixedPlane(("cube", mesh.nodes_where(lambda x, i=i: x[:, i] == 0.0)), np.eye(3)[i])
        for i, axis in enumerate("xyz")
    }
    pull = jm.constraint.PrescribedMotion(
        ("cube", end), np.asarray(mesh.points)[end], [[-0.5, 0, 0], [1.0, 0, 0]], [-0.5, 1.0], (True, False, False)
    )
    system = jm.System(
        {"cube": jm.Vec3()},
        forces={"elastic": jm.force.HexahedronFEM.from_mesh("cube", mesh, jm.material.NeoHookean(1000.0, 0.3))},
        constraints={**planes, "pull": pull},
    )
    rest = system.at_rest({"cube": mesh.points})
    return system, rest, jm.MatrixLinearSystem.build(system, rest, STATIC), end


@pytest.mark.slow_cases("0.7-")
@pytest.mark.parametrize(
    ("stretch", "stress", "lateral"),
    [(0.7, -405.23042431, 1.1079347328), (1.2, 174.92914740, 0.9456326243), (2.0, 646.74466017, 0.7980775445)],
)
def test_b8_uniaxial_stretch_with_free_faces(cube_in_tension, stretch, stress, lateral):
    system, rest, stiffness, end = cube_in_tension
    pulled = eqx.tree_at(lambda s: s.time, rest, jnp.asarray(stretch - 1))
    solution = jm.static_solve(system, pulled, stiffness, load_steps=4, rtol=1e-12, atol=1e-9)
    held = jm.reactions(system, solution.state)["cube"]
    np.testing.assert_allclose(jnp.sum(held[end, 0]), stress, rtol=1e-8)
    np.testing.assert_allclose(np.asarray(solution.position["cube"]).max(axis=0), [stretch, lateral, lateral], rtol=1e-8)


class GreenBars(jm.force.AbstractEnergyForceField):
    """`E = EA L0/2 ((l^2 - L0^2) / (2 L0^2))^2`: a bar of axial rigidity `EA` [N] in the Green strain."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    rigidity: jax.Array = jm.parameter()
    rest_length: jax.Array = jm.parameter()

    def element_energy(self, a, b):
        strain = ((b - a) @ (b - a) - self.rest_length**2) / (2 * self.rest_length**2)
        return 0.5 * self.rigidity * self.rest_length * strain**2


@pytest.fixture(scope="module")
def truss():
    """The downward force at the apex of the von Mises truss when it is moved down by `w` (the time of the state)."""
    points = np.array([[-10.0, 0.0], [0.0, 1.0], [10.0, 0.0]])
    system = jm.System(
        {"truss": jm.Vec2()},
        forces={"bars": GreenBars((("truss", [0, 2]), ("truss", [1, 1])), 1e6, 101**0.5)},
        constraints={
            "feet": jm.constraint.Fixed(("truss", [0, 2])),
            "apex": jm.constraint.PrescribedMotion(
                ("truss", [1]), points[1:2], [[0.0, 0.0], [0.0, -3.0]], [0.0, 3.0], (False, True)
            ),
        },
    )
    rest = system.at_rest({"truss": points})
    stiffness = jm.MatrixLinearSystem.build(system, rest, STATIC)

    def force(w):
        solution = jm.static_solve(system, eqx.tree_at(lambda s: s.time, rest, w), stiffness)
        return -jm.reactions(system, solution.state)["truss"][1, 1]

    return force


def exact_truss_force(w):
    y = 1 - w
    return 1e6 * y * (1 - y**2) / 101**1.5


def test_c7_von_mises_truss_through_snap_and_back(truss):
    w = jnp.linspace(0.1, 2.3, 12)
    np.testing.assert_allclose(jax.jit(jax.vmap(truss))(w), exact_truss_force(w), rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_c7_limit_point_by_the_derivative_of_the_solution(truss):
    slope = jax.jit(jax.value_and_grad(truss))
    at = brentq(lambda w: float(slope(jnp.asarray(w))[1]), 0.2, 0.7, xtol=1e-10)
    np.testing.assert_allclose(at, 0.422650, atol=5e-7)  # six decimals are given
    np.testing.assert_allclose(slope(jnp.asarray(at))[0], 379.198013, rtol=1e-6)


def test_c17_string_under_tension():
    """Nine masses on ten links: the geometric stiffness alone, `omega_k = 2 sqrt(T/(m a)) sin(k pi / 20)`."""
    x = np.stack([0.1 * np.arange(11), np.zeros(11)], axis=1)
    system = jm.System(
        {"string": jm.Vec2()},
        # A spring of rest length 0 and stiffness T / a is under the tension T at every length a
        forces={"links": jm.force.Springs((("string", np.arange(10)), ("string", np.arange(1, 11))), 1000.0, 0.0)},
        masses={"mass": jm.mass.UniformMass(("string", np.arange(11)), 0.01)},
    )
    rest = system.at_rest({"string": x})
    linear_system = jm.MatrixLinearSystem.build(system, rest)
    stiffness = linear_system.assemble(system, rest, jm.Factors(mass=0.0, damping=0.0)).as_matrix()
    across = np.asarray(stiffness).reshape(11, 2, 11, 2)[1:-1, 1, 1:-1, 1]
    omega = np.sqrt(np.linalg.eigvalsh(across / 0.01))
    np.testing.assert_allclose(omega[:3], [98.93784282, 195.43950758, 287.12880305], rtol=1e-8)


def test_s1_stiffness_of_a_spring():
    system = jm.System({"ends": jm.Vec3()}, forces={"spring": jm.force.Springs((("ends", [0]), ("ends", [1])), 1.0, 0.0)})
    rest = system.at_rest({"ends": [[0.0, 0, 0], [0, 0, 1.0]]})
    K = jm.MatrixLinearSystem.build(system, rest, STATIC).assemble(system, rest).as_matrix()
    expected = np.kron([[1.0, -1.0], [-1.0, 1.0]], np.eye(3))
    np.testing.assert_allclose(K, expected, rtol=0, atol=1e-15)


def test_s2_force_of_a_damped_spring():
    spring = jm.force.Springs((("ends", [0]), ("ends", [1])), 1.0, 1.0, 0.1)
    system = jm.System({"ends": jm.Vec3()}, forces={"spring": spring})
    rest = system.at_rest({"ends": [[0.0, 0, 0], [1.0, 0, 0]]})
    moving = eqx.tree_at(lambda s: s.velocity["ends"], rest, jnp.array([[-1.0, 0, 0], [1.0, 0, 0]]))
    force = jm.total_force(system, moving)["ends"]
    np.testing.assert_allclose(force, [[0.2, 0, 0], [-0.2, 0, 0]], rtol=0, atol=1e-12)


def test_s5_st_venant_kirchhoff_beam():
    mesh = jm.mesh.box_mesh(cells=(2, 2, 8), size=(15.0, 15.0, 80.0), origin=(-7.5, -7.5, 0.0), split="sofa")
    end = mesh.faces_where(lambda x: x[:, 2] == 80.0)
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={
            "elastic": jm.force.TetrahedronFEM.from_mesh(
                "beam", mesh, jm.material.StVenantKirchhoff(3000.0, 0.0)
            ),  # mu 1500, lambda 0
            "load": jm.force.Traction.from_mesh("beam", end, [0.0, -10.0, 0.0]),
        },
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 2] == 0.0)))},
    )
    solution = jm.static_solve(system, system.at_rest({"beam": mesh.points}), rtol=1e-8)
    np.testing.assert_allclose(solution.info.residuals[0, 0], 848.942, rtol=1e-6)
    assert int(solution.info.iterations) <= 6
    expected = [[-6.39487497568, -22.26563567789, 76.369937731382], [8.44484344111, -7.583134194278, 80.223486462322]]
    np.testing.assert_allclose(solution.position["beam"][np.array([72, 80])], expected, rtol=1e-7)
