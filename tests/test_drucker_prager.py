"""Drucker and Prager's cone: the equations of a step, the strengths of Mohr and Coulomb, a tube that flows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

jax.config.update("jax_enable_x64", True)

E, NU, C, PHI = 1000.0, 0.25, 2.0, 0.5
MU, BULK = E / (2 * (1 + NU)), E / (3 * (1 - 2 * NU))
EYE = np.eye(3)
DIFFERENCE = 1e-7  # of deformations
ROUNDING = 1e-10  # of stresses near 10, of strains whose stress would be 100


@jax.jit
def stepped(law, F, old):
    """The stress of many points, what they remember then, and the tangents."""
    step = lambda F, old: law.update(F, old, jnp.zeros(()))  # noqa: E731
    stress, new = jax.vmap(step)(F, old)
    return stress, new, jax.vmap(jax.jacfwd(lambda F, old: step(F, old)[0]))(F, old)


def slopes(match, angle):
    """`eta`, `xi` (de Souza Neto et al., equations 6.123, 6.124 and 6.127)."""
    s, c, t = np.sin(angle), np.cos(angle), np.tan(angle)
    if match == "plane strain":
        return 3 * t / np.sqrt(9 + 12 * t**2), 3 / np.sqrt(9 + 12 * t**2)
    sign = -1 if match == "compression" else 1
    return 6 * s / np.sqrt(3) / (3 + sign * s), 6 * c / np.sqrt(3) / (3 + sign * s)


def parts(A):
    """Trace and deviator of many matrices, and `sqrt(dev:dev/2)`."""
    trace = np.trace(A, axis1=-2, axis2=-1)
    dev = A - trace[:, None, None] / 3 * EYE
    return trace, dev, np.sqrt(0.5 * np.sum(dev * dev, axis=(-2, -1)))


@pytest.mark.parametrize(
    ("match", "friction", "dilatancy", "hardening"),
    [
        ("compression", PHI, PHI, 0.0),
        ("tension", PHI, 0.1, 150.0),
        ("plane strain", PHI, 0.0, 90.0),
        ("compression", 0.0, 0.0, 60.0),
    ],
)
def test_equations_of_a_step(match, friction, dilatancy, hardening, rng):
    """Hooke's law of what is left, the cone, and the direction of flow, on its side and at its tip."""
    n = 600
    law = jm.material.DruckerPrager(E, NU, C, friction, dilatancy, hardening, match)
    law = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float64)), law)
    past = rng.uniform(-0.0005, 0.0005, (n, 3, 3))
    past, before = past + np.swapaxes(past, 1, 2), rng.uniform(0, 0.01, n)
    size = np.repeat([1.0, 0.05], n // 2)[:, None, None]
    F = EYE + size * (0.02 * rng.uniform(-1, 1, (n, 3, 3)) + 0.03 * rng.uniform(-1, 1, (n, 1, 1)) * EYE)
    old = {"plastic_strain": jnp.asarray(past), "accumulated": jnp.asarray(before)}
    way = rng.uniform(-1, 1, (n, 3, 3))
    near = [stepped(law, F + h * way, old) for h in (0.0, DIFFERENCE, -DIFFERENCE)]
    (P, new, tangent), *_ = near
    flowed, grown = np.asarray(new["plastic_strain"]) - past, np.asarray(new["accumulated"]) - before
    P = np.asarray(P)
    elastic = 0.5 * (F + np.swapaxes(F, 1, 2)) - EYE - np.asarray(new["plastic_strain"])
    np.testing.assert_allclose(P, 2 * MU * parts(elastic)[1] + BULK * parts(elastic)[0][:, None, None] * EYE, atol=ROUNDING)

    (trace, dev, q), (opened, _, slipped) = parts(P), parts(flowed)
    (eta, xi), (widening, _) = slopes(match, friction), slopes(match, dilatancy)
    f = q + eta * trace / 3 - xi * (C + hardening * (before + grown))
    flows, tip = grown > 0, (grown > 0) & (q < ROUNDING) & (friction > 0)
    side = flows & ~tip
    assert flows.any() and side.sum() > 50 and (~flows).sum() > 5 and (tip.sum() > 50) == (friction > 0)
    assert np.all(f < ROUNDING)
    np.testing.assert_allclose(f[flows], 0.0, atol=ROUNDING)
    np.testing.assert_array_equal(flowed[~flows], 0.0)
    # On the side: `d eps_p = multiplier (s / (2 sqrt(J2)) + eta'/3 I)`, and `da = xi multiplier`.
    multiplier = 2 * slipped[side]
    direction = dev[side] / (2 * q[side])[:, None, None] + widening / 3 * EYE
    np.testing.assert_allclose(flowed[side], multiplier[:, None, None] * direction, atol=ROUNDING / E)
    np.testing.assert_allclose(grown[side], xi * multiplier, atol=ROUNDING / E)
    if friction:  # At the tip: all of the deviator flows; the rest is volume, which hardens as an associated flow does.
        rest = opened[tip] - widening * 2 * slipped[tip]
        assert np.all(rest > -ROUNDING / E)
        np.testing.assert_allclose(grown[tip], xi * 2 * slipped[tip] + xi / eta * rest, atol=ROUNDING / E)

    along = np.einsum("nabcd,ncd->nab", tangent, way)
    regime = [np.asarray(a["accumulated"] > before) * 1 + (parts(np.asarray(b))[2] < ROUNDING) for b, a, _ in near]
    same = (regime[0] == regime[1]) & (regime[0] == regime[2])
    assert same.mean() > 0.98
    difference = (np.asarray(near[1][0]) - np.asarray(near[2][0])) / (2 * DIFFERENCE)
    np.testing.assert_allclose(along[same], difference[same], atol=1e-5 * E)


def along_a_line(law, direction, steps=40):
    """The stress at the end of a history of strains in one direction, each accepted."""
    direction = jnp.asarray(direction)

    @jax.jit
    def run(law):
        def step(old, t):
            P, new = law.update(jnp.eye(3) + t * direction, old, jnp.zeros(()))
            return new, P

        start = {"plastic_strain": jnp.zeros((3, 3)), "accumulated": jnp.zeros(())}
        return jax.lax.scan(step, start, jnp.linspace(0, 1, steps + 1)[1:])[1][-1]

    return np.asarray(run(law))


def test_strengths_of_mohr_and_coulomb():
    """Strained along the flow, the stress ends where this is the way to flow: on the axis that the cone is matched for."""
    for match, sign, name in (("compression", -1, "pressed"), ("tension", 1, "pulled")):
        eta, _ = slopes(match, PHI)
        law = jm.material.DruckerPrager(E, NU, C, PHI, PHI, match=match)
        flow = np.diag(sign / np.sqrt(3) * np.array([1.0, -0.5, -0.5])) + eta / 3 * EYE
        P = along_a_line(law, 0.2 * flow)
        high, low = (P[1, 1], P[0, 0]) if sign < 0 else (P[0, 0], P[1, 1])
        assert abs(P[1, 1] - P[2, 2]) < ROUNDING, name
        # (high - low)/2 = c cos - (high + low)/2 sin
        np.testing.assert_allclose(high - low, 2 * C * np.cos(PHI) - (high + low) * np.sin(PHI), rtol=1e-9, err_msg=name)
    law = jm.material.DruckerPrager(E, NU, C, PHI, PHI, match="plane strain")
    P = along_a_line(law, 0.2 * np.diag([1 + np.sin(PHI), np.sin(PHI) - 1, 0.0]), steps=400)
    np.testing.assert_allclose(P[0, 0] - P[1, 1], 2 * C * np.cos(PHI) - (P[0, 0] + P[1, 1]) * np.sin(PHI), rtol=1e-6)
    P = along_a_line(law, 0.01 * EYE)
    np.testing.assert_allclose(P, C / np.tan(PHI) * EYE, atol=1e-9)  # the tip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["soil", "clay", "metal"])
def test_a_tube_that_flows_throughout(name):
    """Pressed from inside, in plane strain: `c cot(phi) ((b/a)^k - 1)`, `k = 2 sin(phi)/(1 + sin(phi))`; `2 c ln(b/a)`
    without friction, of clay and of a metal that yields at `sqrt(3) c`."""
    cells, wedge, phi = 10, np.radians(10), np.radians(30 if name == "soil" else 0)
    grid = jm.mesh.quadratic_mesh(jm.mesh.box_mesh(cells=(cells, 1), size=(1.0, 1.0), kind="quad"))
    s, t = np.asarray(grid.points).T
    r, angle = 1 + s, wedge * (t - 0.5)
    mesh = jm.mesh.Mesh(np.stack([r * np.cos(angle), r * np.sin(angle)], 1), grid.cells, grid.kind)
    if name == "metal":
        solid = jm.force.SolidFEM.from_mesh("b", mesh, jm.material.J2Plasticity(E, NU, np.sqrt(3) * C))
    else:
        law = jm.material.DruckerPrager(E, NU, C, phi, phi, match="plane strain")
        solid = jm.force.StressSolidFEM.from_mesh("b", mesh, law)
    inside = np.flatnonzero(s == 0)
    x = np.asarray(mesh.points)
    normals = {k: np.array([-np.sin(a), np.cos(a)]) for k, a in ((0.0, -wedge / 2), (1.0, wedge / 2))}
    sides = {
        f"side {k:.0f}": jm.constraint.FixedPlane(("b", np.flatnonzero((t == k) & (s > 0))), n) for k, n in normals.items()
    }
    push = jm.constraint.PrescribedMotion(("b", inside), x[inside], 0.2 * x[inside][:, None])
    scene = jm.System(
        {"b": jm.Vec2()},
        forces={"solid": solid},
        constraints=sides | {"inside": push},
    )
    solution = jm.static_solve(scene, scene.at_rest({"b": mesh.points}), load_steps=10)
    reaction = np.asarray(jm.reactions(scene, solution.state)["b"])[inside]
    pressure = np.sum(reaction * x[inside]) / wedge
    k = 2 * np.sin(phi) / (1 + np.sin(phi))
    exact = C / np.tan(phi) * (2.0**k - 1) if phi else 2 * C * np.log(2.0)
    np.testing.assert_allclose(pressure, exact, rtol=0.01)
    assert int(solution.info.iterations) <= 60  # of ten load steps: the tangent is consistent


def test_what_is_no_soil_is_refused():
    sound = {"young": E, "poisson": NU, "cohesion": C, "friction": PHI}
    for wrong, words in (
        ({"friction": np.pi / 2}, "friction must be from 0 to less than pi/2"),
        ({"dilatancy": -0.1}, "dilatancy must be from 0 to less than pi/2"),
        ({"dilatancy": 0.6}, r"dilatancy must be at most friction, .* got \[0.6\] with friction \[0.5\]"),
        ({"friction": [0.5, 0.2], "dilatancy": [[0.5], [0.3]]}, r"dilatancy .* got \[0.3\] with friction \[0.2\]"),
        ({"cohesion": -1.0}, "cohesion must be at least 0"),
        ({"match": "inner"}, "match must be one of"),
        ({"plastic_strain": np.zeros((2, 2))}, "plastic_strain has shape"),
    ):
        with pytest.raises(ValueError, match=f"DruckerPrager: {words}"):
            jm.material.DruckerPrager(**(sound | wrong))
