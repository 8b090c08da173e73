"""Kinds of problems that ArcaneFEM has modules for and `test_field_cases` does not hold, of what is built in.

Closed forms: a plane wave, a plate on its edges as two Laplacians, flow past a cylinder, layers of a capacitor, a source of
no net force in a body whose waves leave; a tube that is warmer inside.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

jax.config.update("jax_enable_x64", True)


def grid(cells, size, kind="quad8"):
    return jm.mesh.quadratic_mesh(jm.mesh.box_mesh(cells=cells, size=size, kind="quad"), kind=kind)


def solved(system, start, **options):
    return jm.static_solve(system, system.at_rest(start), **options).position


@pytest.mark.slow
def test_sound_of_one_frequency_leaves_through_an_impedance():
    """acoustics: Helmholtz's equation of a complex pressure, `(real, imaginary)`; a plane wave `exp(i k x)` in a duct."""
    k, duct = 5.0, grid((16, 1), (2.0, 0.3))
    x = np.asarray(duct.points)[:, 0]

    def times_ik(p):
        return k * jnp.stack([-p[1], p[0]])

    def nothing(p, slope, X, numbers):
        return 0.0 * slope

    left, right = (duct.faces_where(lambda x, a=a: x[:, 0] == a) for a in (0.0, 2.0))
    system = jm.System(
        {"p": jm.Vec2()},
        forces={
            "air": jm.force.WeakForm.from_mesh("p", duct, lambda p, g, X, n: -g, lambda p, g, X, n: k**2 * p),
            "speaker": jm.force.WeakForm.from_mesh("p", left, nothing, lambda p, g, X, n: jnp.array([0.0, -k])),  # -ik
            "open end": jm.force.WeakForm.from_mesh("p", right, nothing, lambda p, g, X, n: times_ik(p)),
        },
    )
    p = solved(system, {"p": np.zeros((len(x), 2))})["p"]
    np.testing.assert_allclose(p, np.stack([np.cos(k * x), np.sin(k * x)], 1), atol=2e-3)


@pytest.mark.slow
def test_a_plate_on_its_edges_as_two_laplacians():
    """bilaplacian: `-lap u = w`, `-lap w = f`, both nil around: `u = sin(pi x) sin(pi y)`. A saddle, of one density."""
    mesh = grid((6, 6), (1.0, 1.0))
    points = np.asarray(mesh.points)
    edge = np.unique(np.asarray(mesh.boundary().cells))

    def density(fields, slopes, X, p):
        (u, w), (du, dw) = fields, slopes
        load = 4 * jnp.pi**4 * jnp.sin(jnp.pi * X[0]) * jnp.sin(jnp.pi * X[1])
        return du @ dw - 0.5 * w**2 - load * u

    system = jm.System(
        {"u": jm.Vec1(), "w": jm.Vec1()},
        forces={"plate": jm.force.FieldEnergy.from_mesh(("u", "w"), mesh, density)},
        constraints={s: jm.constraint.Fixed((s, edge)) for s in ("u", "w")},
    )
    nothing = np.zeros((len(points), 1))
    found = solved(system, {"u": nothing, "w": nothing})
    exact = np.prod(np.sin(np.pi * points), axis=1)
    np.testing.assert_allclose(found["u"][:, 0], exact, atol=1e-3)
    np.testing.assert_allclose(found["w"][:, 0], 2 * np.pi**2 * exact, atol=2e-3 * 2 * np.pi**2)


@pytest.mark.slow
def test_flow_past_a_cylinder():
    """aerodynamics, laplace: the stream function `(r - 1 / r) sin(angle)`, given at the rim by penalty, nil at the body."""
    unit = grid((6, 8), (1.0, 1.0))
    s, t = np.asarray(unit.points).T
    r, angle = 1 + 2 * s, np.pi * t
    ring = jm.mesh.Mesh(np.stack([r * np.cos(angle), r * np.sin(angle)], 1), unit.cells, unit.kind)
    exact, rim, body = (r - 1 / r) * np.sin(angle), np.flatnonzero(s == 1), np.flatnonzero((s == 0) | (t == 0) | (t == 1))
    system = jm.System(
        {"psi": jm.Vec1()},
        forces={
            "flow": jm.force.FieldEnergy.from_mesh("psi", ring, lambda u, g, X, p: 0.5 * g @ g),
            "rim": jm.force.AnchoredSprings(("psi", rim), 1e9, exact[rim][:, None]),
        },
        constraints={"body": jm.constraint.Fixed(("psi", body))},
    )
    psi = solved(system, {"psi": np.zeros((len(r), 1))})["psi"][:, 0]
    np.testing.assert_allclose(psi, exact, atol=2e-3)


@pytest.mark.slow
def test_layers_of_a_capacitor():
    """electrostatics: of two permittivities by cell and a charge on a plate between; potentials are linear in each layer."""
    mesh = jm.mesh.box_mesh(cells=(4, 2), size=(1.0, 0.4), kind="quad")
    x = np.asarray(mesh.points)[:, 0]
    permittivity = np.where(np.asarray(mesh.points)[np.asarray(mesh.cells)].mean(1)[:, 0] < 0.5, 2.0, 6.0)
    middle = np.flatnonzero(x == 0.5)
    share = 0.4 * 3.0 * np.array([0.25, 0.5, 0.25])[:, None]  # of a charge of 3 on every metre, on three nodes
    system = jm.System(
        {"phi": jm.Vec1()},
        forces={
            "space": jm.force.FieldEnergy.from_mesh(
                "phi", mesh, lambda u, g, X, p: 0.5 * p["permittivity"] * g @ g, {"permittivity": permittivity}
            ),
            "plate": jm.force.ConstantForce(("phi", middle), share),
        },
        constraints={"ends": jm.constraint.Fixed(("phi", np.flatnonzero((x == 0) | (x == 1))))},
    )
    phi = solved(system, {"phi": np.where(x == 1, 1.0, 0.0)[:, None]})["phi"][:, 0]
    # 2 (phi - 0) / 0.5 = 3 + 6 (1 - phi) / 0.5
    np.testing.assert_allclose(phi, np.interp(x, [0.0, 0.5, 1.0], [0.0, 15.0 / 16.0, 1.0]), atol=1e-9)


@pytest.mark.slow
def test_a_double_couple_shakes_a_soil_whose_waves_leave():
    """soildynamics: two couples of forces, as a slip on a fault, by generalised alpha; dampers of both impedances around."""
    mesh = jm.mesh.box_mesh(cells=(10, 10), size=(10.0, 10.0), kind="quad")
    points = np.asarray(mesh.points)
    around = [int(np.argmin(np.linalg.norm(points - at, axis=1))) for at in ([6, 5], [4, 5], [5, 6], [5, 4])]
    couple = np.array([[0.0, 0.01], [0.0, -0.01], [0.01, 0.0], [-0.01, 0.0]])  # no net force, no net torque
    impedances = np.sqrt(3.0), 1.0  # of lambda = mu = rho = 1
    shaken = {}
    for ends in (True, False):
        forces = {
            "soil": jm.force.SolidFEM.from_mesh("u", mesh, jm.material.LinearElastic(2.5, 0.25)),
            "slip": jm.force.ConstantForce(("u", around), couple),
        }
        if ends:
            forces["ends"] = jm.force.AbsorbingBoundary.from_mesh("u", mesh.boundary(), *impedances)
        mass = jm.mass.ConsistentMass.from_mesh("u", mesh, 1.0)
        system = jm.System({"u": jm.Vec2()}, forces=forces, masses={"m": mass})
        start = system.at_rest({"u": points})
        scheme = jm.integrator.GeneralizedAlpha(jm.MatrixLinearSystem.build(system, start), spectral_radius=0.5)
        run = jm.simulate(system, start, scheme, dt=0.5, steps=60)
        v = np.asarray(run.state.velocity["u"])
        shaken[ends] = np.sqrt(np.sum(v**2, axis=(1, 2)))
        x = np.asarray(run.state.position["u"])
        np.testing.assert_allclose((x - points)[:, 55 + 5], 0.0, atol=1e-12)  # the middle, by symmetry
    left, kept = (shaken[ends][-10:].max() for ends in (True, False))
    assert left < 0.05 * shaken[True].max() and left < 0.2 * kept


@pytest.mark.slow
def test_a_tube_that_is_warmer_inside():
    """Thermo-elasticity as one system of two states, in plane strain: `T = T_a ln(b/r)/ln(b/a)`, and the outside moves by
    `2 (1 + nu) alpha b I/(b^2 - a^2)`, `I` the integral of `T r` (Timoshenko and Goodier, *Theory of Elasticity*, 3rd ed.,
    section 151).
    """
    a, b, warm, E, nu, alpha, wedge = 1.0, 2.0, 50.0, 1000.0, 0.3, 1e-4, np.radians(20)
    unit = grid((8, 2), (1.0, 1.0))
    s, t = np.asarray(unit.points).T
    r, angle = a + (b - a) * s, wedge * t
    mesh = jm.mesh.Mesh(np.stack([r * np.cos(angle), r * np.sin(angle)], 1), unit.cells, unit.kind)
    mu, lam = E / (2 * (1 + nu)), E * nu / ((1 + nu) * (1 - 2 * nu))

    def thermoelastic(u, slope, X, p):
        (T, _), (warming, F) = u, slope
        strain = 0.5 * (F + F.T) - jnp.eye(2)
        stress = 2 * mu * strain + (lam * jnp.trace(strain) - (3 * lam + 2 * mu) * alpha * T) * jnp.eye(2)
        return -warming, -stress

    normal = [-np.sin(wedge), np.cos(wedge)]
    system = jm.System(
        {"T": jm.Vec1(), "x": jm.Vec2()},
        forces={"both": jm.force.WeakForm.from_mesh(("T", "x"), mesh, thermoelastic)},
        constraints={
            "given": jm.constraint.Fixed(("T", np.flatnonzero((s == 0) | (s == 1)))),
            "below": jm.constraint.FixedComponents(("x", np.flatnonzero(t == 0)), (False, True)),
            "above": jm.constraint.FixedPlane(("x", np.flatnonzero(t == 1)), normal),
        },
    )
    start = {"T": np.where(s == 0, warm, 0.0)[:, None], "x": mesh.points}
    found = solved(system, start)
    np.testing.assert_allclose(found["T"][:, 0], warm * np.log(b / r) / np.log(b / a), atol=1e-3 * warm)
    integral = warm / np.log(b / a) * ((b**2 - a**2) / 4 - a**2 / 2 * np.log(b / a))
    moved = np.linalg.norm(np.asarray(found["x"]), axis=1) - r
    np.testing.assert_allclose(moved[s == 1], 2 * (1 + nu) * alpha * b * integral / (b**2 - a**2), rtol=1e-3)


@pytest.mark.slow
def test_a_bar_that_resists_gradients_of_strain():
    """Aifantis's, of energy `E/2 (u'^2 + l^2 u''^2)`, stretched by 1: no strain at one end, no gradient of it at the other.

    The second gradient is that of a field of its own, which follows the strain by a penalty: at two points along a cell, for
    at three it would be held too much.
    """
    E, length, penalty, bar = 100.0, 0.2, 1e7, grid((16, 1), (1.0, 0.1))

    def density(u, slope, X, p):
        (_, strain), (du, gradient) = u, slope
        follows = 0.5 * p["penalty"] * (strain - du[0]) ** 2
        return 0.5 * p["E"] * (du @ du + p["length"] ** 2 * gradient @ gradient) + follows

    numbers = {"E": E, "length": length, "penalty": penalty}
    left, right = (bar.nodes_where(lambda x, at=at: x[:, 0] == at) for at in (0.0, 1.0))
    ends = jm.constraint.Fixed(("u", np.concatenate([left, right])))
    system = jm.System(
        {"u": jm.Vec1(), "strain": jm.Vec1()},
        forces={"bar": jm.force.FieldEnergy.from_mesh(("u", "strain"), bar, density, numbers, degree=3)},
        constraints={"ends": ends, "stuck": jm.constraint.Fixed(("strain", left))},
    )
    u = np.zeros((len(bar.points), 1))
    u[right] = 1.0
    found = np.asarray(solved(system, {"u": u, "strain": 0 * u})["u"])[:, 0]
    x, up, down = np.asarray(bar.points)[:, 0], np.exp(1 / length), np.exp(-1 / length)
    rows = [[1, 1, 1, 0], [up, down, 1, 1], [1 / length, -1 / length, 0, 1], [up, down, 0, 0]]
    a, b, c, d = np.linalg.solve(rows, [0, 1, 0, 0])
    np.testing.assert_allclose(found, a * np.exp(x / length) + b * np.exp(-x / length) + c + d * x, atol=2e-5)
