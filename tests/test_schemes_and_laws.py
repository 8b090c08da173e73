"""Laws with a memory, and constraints with multipliers, under the schemes that take them and those that do not."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_components import Maxwell, Slider

import jaxmech as jm

IMPLICIT = {
    "Midpoint": jm.integrator.Midpoint,
    "Newmark": jm.integrator.Newmark,
    "HHT": jm.integrator.HHT,
    "BDF": jm.integrator.BDF,
    "TRBDF2": jm.integrator.TRBDF2,
}
EXPLICIT = {
    "SymplecticEuler": jm.integrator.SymplecticEuler,
    "VelocityVerlet": jm.integrator.VelocityVerlet,
    "CentralDifference": jm.integrator.CentralDifference,
    "RK4": jm.integrator.RK4,
    "Tsitouras": jm.integrator.Tsitouras,
}
FLOWS_AT_START = {"SymplecticEuler", "CentralDifference"}
FIRST_ORDER = 0.02  # of the amplitude: what memory, by implicit Euler, leaves of it at 400 steps


def pulled(law):
    """A mass of 1 kg at 1 m/s on a spring of 1 N/m that gives way, for half a period or so."""
    ends = (("p", [0]), ("p", [1]))
    system = jm.System(
        {"p": jm.Vec2()},
        forces={"law": law(ends), "spring": jm.force.Springs(ends, 0.5, 0.0)},
        masses={"m": jm.mass.UniformMass(("p", [1]), 1.0)},
        constraints={"wall": jm.constraint.Fixed(("p", [0]))},
    )
    state = system.at_rest({"p": [[0.0, 0.0], [0.0, 0.0]]})
    return system, dataclasses.replace(state, velocity={"p": jnp.array([[0.0, 0.0], [1.0, 0.0]])})


def by_hand(slips, steps, h):
    """The motion by symplectic Euler with tiny steps, one coordinate: the law of `Slider` or of `Maxwell`."""
    x, v, inner = 0.0, 1.0, 0.0
    for _ in range(steps):
        pull = x - inner
        v -= h * (0.5 * x + (np.clip(pull, -0.3, 0.3) if slips else pull))
        x += h * v
        pull = x - inner
        inner += np.sign(pull) * max(abs(pull) - 0.3, 0.0) if slips else h * pull / (1 + h)
    return x, inner


LAWS = {
    "slider": (lambda on: Slider(on, 1.0, 0.3), "slip"),
    "maxwell": (lambda on: Maxwell(on, 1.0, 1.0), "flow"),
}


EVERY = {*IMPLICIT, *EXPLICIT}
LIKE_OTHERS = {
    "Newmark",
    "VelocityVerlet",
    "CentralDifference",
    "Tsitouras",
}  # accept a step where HHT, RK4 and SymplecticEuler do
SLOW = [pytest.param("slider", LIKE_OTHERS, marks=pytest.mark.slow), pytest.param("maxwell", EVERY, marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize(("law", "names"), [("slider", EVERY - LIKE_OTHERS), *SLOW], ids=["slider", "others", "maxwell"])
def test_every_scheme_follows_a_law_with_memory(law, names):
    """The end of the motion, and what is remembered there, by all these schemes in one program."""
    make, variable = LAWS[law]
    system, state = pulled(make)
    linear_system = jm.MatrixLinearSystem.build(system, state)
    schemes = {name: scheme(linear_system, newton=True) for name, scheme in IMPLICIT.items()}
    schemes |= {name: scheme() for name, scheme in EXPLICIT.items() if law == "slider" or name in FLOWS_AT_START}
    schemes = {name: scheme for name, scheme in schemes.items() if name in names}
    steps, span = 400, 3.0

    @jax.jit
    def ends(state):
        found = {}
        for name, scheme in schemes.items():
            last = jm.simulate(system, state, scheme, span / steps, steps, save_every=steps, throw=False).last
            found[name] = last.position["p"][1, 0], last.internal["law"][variable][0, 0]
        return found

    x, inner = by_hand(law == "slider", 60_000, span / 60_000)
    assert abs(inner) > 2 * FIRST_ORDER  # the law has given way
    for name, (found, remembered) in ends(state).items():
        assert abs(found - x) < FIRST_ORDER and abs(remembered - inner) < FIRST_ORDER, (name, found, x, remembered, inner)


@pytest.mark.slow
def test_a_law_with_memory_beside_masses_that_are_solved_for():
    """Before it gives way, a slider is a spring: the same explicit steps, with a rod's mass, and the same largest step."""

    def ends(law):
        system, state = pulled(law)
        rod = jm.mass.ConsistentMass(("p", [[0, 1]]), [[0.0, 0.0], [1.0, 0.0]], 3.0, "edge")
        system = jm.System(system.dofs, forces=system.forces, masses={"rod": rod}, constraints=system.constraints)
        run = jm.simulate(system, state, jm.integrator.VelocityVerlet(), 0.05, 4, save_every=4)
        return run.last.position["p"], jm.integrator.critical_time_step(system, state)

    slider, spring = ends(lambda on: Slider(on, 1.0, 10.0)), ends(lambda on: jm.force.Springs(on, 1.0, 0.0))
    assert slider[0][1, 0] > 0.1
    for a, b in zip(slider, spring, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_a_scheme_says_what_it_does_not_take():
    system, state = pulled(LAWS["maxwell"][0])
    linear_system = jm.MatrixLinearSystem.build(system, state)
    for scheme in (jm.integrator.VelocityVerlet(), jm.integrator.RK4(), jm.integrator.EnergyMomentum(linear_system)):
        with pytest.raises(ValueError, match=rf"{type(scheme).__name__}.*'law'"):
            scheme.step(system, state, None, 0.1)
    with pytest.raises(ValueError, match="step_with_balance.*'law'"):
        jm.integrator.step_with_balance(system, state, jm.ImplicitEuler(linear_system), None, 0.1)
    rod = jm.System(
        {"p": jm.Vec2(), "tension": jm.Vec1()},
        masses={"m": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
        constraints={"rod": jm.constraint.Distance((("p", [0]), ("p", [1])), ("tension", [0]), 1.0)},
    )
    start = rod.at_rest({"p": [[0.0, 0.0], [1.0, 0.0]], "tension": [[0.0]]})
    with pytest.raises(ValueError, match="VelocityVerlet.*'rod'.*an implicit scheme"):
        jm.simulate(rod, start, jm.integrator.VelocityVerlet(), 0.1, 2)


@pytest.mark.slow
def test_newton_goes_to_and_fro_under_plasticity_unless_it_halves_its_steps():
    mesh = jm.mesh.box_mesh(cells=(2, 1), size=(0.5, 0.25), kind="quad")
    metal = jm.material.J2Plasticity(1e6, 0.3, 2e3, 5e4)
    system = jm.System(
        {"x": jm.Vec2()},
        forces={"metal": jm.force.SolidFEM.from_mesh("x", mesh, metal)},
        masses={"lumped": jm.mass.UniformMass(("x", range(6)), 0.5)},
        constraints={"wall": jm.constraint.Fixed(("x", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    hit = np.where(mesh.points[:, :1] == 0.5, [0.0, 1.0], 0.0)  # [m/s]: 1 % of shear in a step, which yields at 0.3 %
    state = dataclasses.replace(system.at_rest({"x": mesh.points}), velocity={"x": jnp.asarray(hit)})
    assert 'line_search="residual"' in jm.RESULTS[jm.RESULTS.not_converged]  # which is how it ends without
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=True, line_search="residual")
    assert euler.step(system, state, None, 0.0025)[2].iterations == 2
