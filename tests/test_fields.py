"""Fields: densities against solids, rates against a manufactured solution, schemes of first order, waves that leave."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import FINITE_DIFFERENCE, ROUND_OFF

import jaxmech as jm

EDGE = ((0, 0.0), (1, 0.0), (0, 1.0), (1, 1.0))


def everywhere_outside(x):
    return np.any([x[:, axis] == value for axis, value in EDGE], axis=0)


def conduction(u, slope, X, p):
    return 0.5 * p["k"] * jnp.sum(slope**2)


def warming(u, slope, X, p):
    return -p["k"] * (1 + u**2) * slope


@pytest.mark.slow
def test_a_density_of_the_deformation_gradient_is_a_solid():
    """Force and matrix of a neo-Hookean plate, with moduli by cell; and of the same as a flux, minus the stress."""
    mesh, young = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.2), kind="quad"), jnp.array([800.0, 1200.0])
    law = jm.material.NeoHookean(1.0, 0.3)

    def density(x, F, X, p):
        return p["young"] * law.energy_density(jnp.zeros((3, 3)).at[:2, :2].set(F).at[2, 2].set(1.0))

    def momentum(x, F, X, p):
        return -jax.grad(lambda F: density(x, F, X, p))(F)

    forces = {
        "solid": jm.force.QuadFEM.from_mesh("p", mesh, jm.material.NeoHookean(young, 0.3)),
        "density": jm.force.FieldEnergy.from_mesh("p", mesh, density, {"young": young}),
        "flux": jm.force.WeakForm.from_mesh("p", mesh, momentum, parameters={"young": young}),
    }
    rest = jm.System({"p": jm.Vec2()}).at_rest({"p": mesh.points + 0.1 * np.sin(3 * np.asarray(mesh.points)[:, ::-1])})

    @eqx.filter_jit
    def both(system):
        K = jm.matrix.component_matrix(system, rest, *system.forces, "stiffness")["p", "p"].to_dense((6, 6))
        return jm.total_force(system, rest)["p"], K

    found = [both(jm.System({"p": jm.Vec2()}, forces={name: field})) for name, field in forces.items()]
    for force, K in found[1:]:
        np.testing.assert_allclose(force, found[0][0], atol=ROUND_OFF * np.abs(found[0][0]).max())
        np.testing.assert_allclose(K, found[0][1], atol=ROUND_OFF * np.abs(found[0][1]).max())


def manufactured_error(kind, n):
    """The L2 error of `u = sin(pi x) sin(pi y)` on a grid that is not regular."""
    mesh = jm.mesh.box_mesh(cells=(n, n), size=(1.0, 1.0), kind={"triangle6": "triangle", "quad8": "quad"}.get(kind, kind))
    x = np.asarray(mesh.points)
    mesh = eqx.tree_at(lambda m: m.points, mesh, jnp.asarray(x + 0.05 * np.sin(2 * np.pi * x) * np.sin(np.pi * x[:, ::-1])))
    mesh = mesh if kind == mesh.kind else jm.mesh.quadratic_mesh(mesh, kind)

    def exact(X):
        return jnp.sin(np.pi * X[0]) * jnp.sin(np.pi * X[1])

    def poisson(u, slope, X, p):
        return 0.5 * slope @ slope - 2 * np.pi**2 * exact(X) * u

    outside = np.flatnonzero(np.any([np.isclose(np.asarray(mesh.points)[:, a], v) for a, v in EDGE], axis=0))
    field = jm.force.FieldEnergy.from_mesh("u", mesh, poisson, degree=4)
    system = jm.System({"u": jm.Vec1()}, forces={"f": field}, constraints={"c": jm.constraint.Fixed(("u", outside))})
    solution = jm.static_solve(system, system.at_rest({"u": np.zeros((len(mesh.points), 1))})).state
    squared = jm.force.FieldEnergy.from_mesh("u", mesh, lambda u, slope, X, p: (u - exact(X)) ** 2, degree=6)
    return float(jm.energy(jm.System({"u": jm.Vec1()}, forces={"e": squared}), solution)) ** 0.5


EXHAUSTIVE = pytest.mark.exhaustive
RATES = [pytest.param("triangle6", 3, marks=pytest.mark.slow)]
RATES += [pytest.param(kind, rate, marks=EXHAUSTIVE) for kind, rate in (("triangle", 2), ("quad", 2), ("quad8", 3))]


@pytest.mark.parametrize(("kind", "rate"), RATES)
def test_rates_against_a_manufactured_solution(kind, rate):
    errors = [manufactured_error(kind, n) for n in (8, 16)]
    assert abs(np.log2(errors[0] / errors[1]) - rate) < 0.1


@pytest.mark.slow
def test_derivatives_by_parameters():
    """Of the heat that flows through a bar whose conductivity depends on its temperature."""
    bar = jm.mesh.box_mesh(cells=(3, 1), size=(1.0, 0.5), kind="quad")
    ends = bar.nodes_where(lambda x: (x[:, 0] == 0.0) | (x[:, 0] == 1.0))
    air = bar.faces_where(lambda x: x[:, 1] == 0.0)
    system = jm.System(
        {"T": jm.Vec1()},
        forces={
            "heat": jm.force.WeakForm.from_mesh("T", bar, warming, parameters={"k": 2.0}),
            "air": jm.force.Convection.from_mesh("T", air, 0.7, 0.2),
        },
        constraints={"ends": jm.constraint.Fixed(("T", ends))},
    )
    start = system.at_rest({"T": bar.points[:, :1]})
    linear_system = jm.MatrixLinearSystem.build(system, start, jm.Terms(mass=False, damping=False))

    @jax.jit
    def middle(k):
        warmer = eqx.tree_at(lambda s: s.forces["heat"].parameters["k"], system, k)
        return jm.static_solve(warmer, start, linear_system, rtol=1e-12).position["T"][2, 0]

    h, slope = 1e-3, jax.jit(jax.grad(middle))(2.0)
    difference = (8 * (middle(2 + h) - middle(2 - h)) - (middle(2 + 2 * h) - middle(2 - 2 * h))) / (12 * h)
    np.testing.assert_allclose(slope, difference, rtol=FINITE_DIFFERENCE)


def cooling(integrator, steps):
    """The error at 1 s of a room of 1 J/K that loses 1 W/K, of first order in time."""
    room = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0), kind="quad")
    loss = jm.force.FieldEnergy.from_mesh("T", room, lambda T, slope, X, p: 0.5 * T**2)
    scene = jm.System({"T": jm.Vec1()}, forces={"loss": loss, "air": jm.force.Capacity.from_mesh("T", room, 1.0)})
    start = jm.State({"T": jnp.ones((4, 1))}, {"T": -jnp.ones((4, 1))}, jnp.zeros(()))
    scheme = integrator(jm.MatrixLinearSystem.build(scene, start))
    run = jm.simulate(scene, start, scheme, dt=1 / steps, steps=steps)
    return float(run.last.position["T"][0, 0]) - np.exp(-1)


SCHEMES = [pytest.param(jm.ImplicitEuler, 1, marks=pytest.mark.slow), pytest.param(jm.integrator.BDF, 2, marks=EXHAUSTIVE)]
SCHEMES += [pytest.param(jm.integrator.TRBDF2, 2, marks=EXHAUSTIVE)]


@pytest.mark.parametrize(("scheme", "order"), SCHEMES)
def test_equations_of_first_order_in_time(scheme, order):
    """A capacity instead of a mass: schemes keep their order. Backward Euler to rounding."""
    errors = [cooling(scheme, n) for n in (20, 40)]
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.1
    if order == 1:
        np.testing.assert_allclose(errors[0] + np.exp(-1), 1.05**-20, rtol=1e-9)


@pytest.mark.slow
def test_waves_leave_through_an_absorbing_boundary():
    """A pulse in a bar: with dashpots of its impedance at the end, hardly anything comes back; without, all of it."""
    bar = jm.mesh.box_mesh(cells=(60, 1), size=(3.0, 0.05), kind="quad")
    end = bar.faces_where(lambda x: x[:, 0] == 3.0)
    x = np.asarray(bar.points)[:, :1]
    pulse = np.exp(-40 * (x - 1.5) ** 2)
    left = {}
    for name, impedance in (("open", 0.0), ("absorbing", 6.0)):  # rho c of 1.5 kg/m^3 and 4 m/s
        system = jm.System(
            {"u": jm.Vec1()},
            forces={
                "waves": jm.force.FieldEnergy.from_mesh("u", bar, conduction, {"k": 1.5 * 16.0}),
                "end": jm.force.AbsorbingBoundary.from_mesh("u", end, impedance),
            },
            masses={"m": jm.mass.ConsistentMass.from_mesh("u", bar, 1.5)},
        )
        start = jm.State({"u": pulse}, {"u": 4.0 * 80 * (x - 1.5) * pulse}, jnp.zeros(()))  # all of it moves to the right
        start = jax.tree.map(jnp.asarray, start)
        scheme = jm.integrator.Trapezoid(jm.MatrixLinearSystem.build(system, start))
        last = jm.simulate(system, start, scheme, dt=0.005, steps=120).last
        left[name] = float(jm.energy(system, last) + jm.mass.kinetic_energy(system, last))
        begun = float(jm.energy(system, start) + jm.mass.kinetic_energy(system, start))
    assert left["open"] > 0.99 * begun
    assert left["absorbing"] < 2e-3 * begun


def test_wrong_fields_are_refused():
    mesh = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0))
    flat = jm.mesh.Mesh([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], [[0, 1, 2]], "triangle")
    with pytest.raises(ValueError, match="FieldEnergy: cell 0 is flat at rest"):
        jm.force.FieldEnergy.from_mesh("u", flat, conduction, {"k": 1.0})
    with pytest.raises(ValueError, match="degree 'fine'"):
        jm.force.FieldEnergy.from_mesh("u", mesh, conduction, {"k": 1.0}, degree="fine")
    with pytest.raises(ValueError, match="one per Gauss point"):
        jm.force.FieldEnergy.from_mesh("u", mesh, conduction, {"k": np.ones(5)})
    with pytest.raises(ValueError, match="flux and source are both None"):
        jm.force.WeakForm.from_mesh("u", mesh)
    heat = jm.force.FieldEnergy.from_mesh("u", mesh, conduction, {"k": 1.0})
    with pytest.raises(ValueError, match="acts on fields"):
        jm.System({"u": jm.Rigid2()}, forces={"heat": heat}).at_rest({"u": np.zeros((4, 3))})
    with pytest.raises(ValueError, match="scalar fields"):
        air = jm.force.Convection.from_mesh("u", mesh.boundary(), 1.0, 0.0)
        jm.System({"u": jm.Vec2()}, forces={"air": air}).at_rest({"u": mesh.points})
