"""Plane stress, by numbers worked out by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._codegen.map_elements import map_elements
from jaxmech._forcefield.plane import free_log_stretch, is_linear_law, with_thickness_stretch

YOUNG, POISSON = 2.0, 0.3


class Orthotropic(jm.material.AbstractMaterial):
    """A linear law of a user's, which declares nothing: stiff along x, with a thickness that gives way."""

    stiff: jax.Array = jm.parameter()
    soft: jax.Array = jm.parameter()
    needs_positive_volume = False

    def energy_density(self, F):
        H = F - jnp.eye(3, dtype=F.dtype)
        across = H[1, 1] ** 2 + (H[2, 2] + 0.5 * H[0, 0]) ** 2 + (H[0, 1] + H[1, 0]) ** 2
        return 0.5 * (self.stiff * H[0, 0] ** 2 + self.soft * across)


def pulled(material, traction):
    """A unit square of quads and triangles, 0.5 m thick, pulled along x; its equilibrium, and how it was found."""
    fields = {}
    for kind, field in (("quad", jm.force.QuadFEM), ("triangle", jm.force.TriangleFEM)):
        mesh = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0), kind=kind)
        fields[kind] = field.from_mesh(kind, mesh, material, plane="stress", thickness=0.5)
    end, left = mesh.faces_where(lambda x: x[:, 0] == 1.0), mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    system = jm.System(
        {kind: jm.Vec2() for kind in fields},
        forces={
            **fields,
            **{f"pull {kind}": jm.force.Traction.from_mesh(kind, end, [0.5 * traction, 0.0]) for kind in fields},
        },
        constraints={
            **{f"wall {kind}": jm.constraint.FixedComponents((kind, left), (True, False)) for kind in fields},
            **{f"rail {kind}": jm.constraint.FixedComponents((kind, [1]), (False, True)) for kind in fields},
        },
    )
    solution = jm.static_solve(system, system.at_rest({kind: mesh.points for kind in fields}))
    return [np.asarray(solution.position[kind] - mesh.points) for kind in fields], solution.info


@pytest.mark.slow_cases("0.001", "2.0")
@pytest.mark.parametrize("traction", [1e-3, 2.0, 200.0, -200.0])
def test_hooke_is_linear_however_far_it_is_pulled(traction):
    """`eps_xx = t/E`, `eps_yy = -nu t/E`, in one iteration; beyond `t = E/nu` the thickness is negative, as in space."""
    moved, info = pulled(jm.material.LinearElastic(YOUNG, POISSON), traction)
    for u in moved:
        np.testing.assert_allclose(u[1], [traction / YOUNG, 0.0], rtol=ROUND_OFF, atol=ROUND_OFF * abs(traction))
        np.testing.assert_allclose(u[3], traction / YOUNG * np.array([1, -POISSON]), rtol=ROUND_OFF)
    assert info.iterations == 1


@pytest.mark.slow
def test_linear_laws_are_told_from_their_trace():
    laws = [
        jm.material.NeoHookean(1.0, 0.3),
        jm.material.Corotational(1.0, 0.3),
        jm.material.StVenantKirchhoff(1.0, 0.3),
        jm.material.StableNeoHookean(1.0, 0.3),
    ]
    assert not any(is_linear_law(law, jnp.float64) for law in laws)
    assert is_linear_law(jm.material.LinearElastic(1.0, 0.3), jnp.float32)
    moved, info = pulled(Orthotropic(4.0, 1.0), 400.0)  # what the thickness feels is relaxed away: `t = E_x eps`
    for u in moved:
        np.testing.assert_allclose(u[3], [100.0, 0.0], rtol=ROUND_OFF, atol=100 * ROUND_OFF)
    assert info.iterations == 1


STRETCHES = [(1.0, 1.0), (1.001, 1.0), (1.2, 1.1), (0.7, 1.0), (3.0, 1.0), (4.0, 0.5), (0.2, 0.3)]
LAWS = {
    "st venant": jm.material.StVenantKirchhoff(YOUNG, POISSON),
    "neo-hookean": jm.material.NeoHookean(YOUNG, POISSON),
    "nearly incompressible": jm.material.NeoHookean(YOUNG, 0.499),
    "stable": jm.material.StableNeoHookean(YOUNG, POISSON),
}


@pytest.mark.slow_cases("off-nearly incompressible", "off-neo-hookean", "off-stable", "llvm-neo-hookean")
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("form", ["off", "llvm"])
def test_nothing_presses_on_the_faces_however_far_it_is_stretched(law, form):
    """By few steps where strains are small, and by more where they are not: among elements of one kernel both."""
    material = LAWS[law]
    F = np.stack([[[0.8, -0.6], [0.6, 0.8]] @ np.diag(pair) for pair in STRETCHES * 3])
    square = 1 - POISSON / (1 - POISSON) * (np.sum(F**2, axis=(1, 2)) - 2)  # of the thickness, of St. Venant's law
    F, square = (a[square > 0.1] for a in (F, square)) if law == "st venant" else (F, square)

    def of_one(F):
        s = jnp.exp(free_log_stretch(material, F))
        P, scale = (jax.grad(material.energy_density)(with_thickness_stretch(F, a))[2, 2] for a in (s, 1.5 * s))
        return s, P / jnp.abs(scale)

    with jm.runtime.element_compiler(form):
        s, across = jax.jit(lambda F: map_elements(of_one, (0,), F))(F)
    assert len(F) > 8 and np.abs(across).max() < ROUND_OFF
    if law == "st venant":
        np.testing.assert_allclose(s**2, square, rtol=ROUND_OFF)


@pytest.mark.slow_cases("stress")
@pytest.mark.cpu
@pytest.mark.parametrize(
    ("field", "plane"),
    [(jm.force.TriangleFEM, "strain"), (jm.force.TriangleFEM, "stress"), (jm.force.SolidFEM, "axisymmetric")],
    ids=["strain", "stress", "axisymmetric"],
)
def test_solids_of_the_plane_have_kernels(field, plane):
    """They put a third row and column around a matrix, of which there was no form in scalars: 30 to 60 times as slow."""
    mesh = jm.mesh.box_mesh(cells=(2, 2), size=(1.0, 1.0), kind="triangle")
    system = jm.System(
        {"p": jm.Vec2()},
        forces={"solid": field.from_mesh("p", mesh, jm.material.StVenantKirchhoff(YOUNG, POISSON), plane=plane)},
    )
    state = system.at_rest({"p": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))
    assert "jaxmech_" in jax.jit(linear_system.unconstrained).lower(system, state).as_text()


def test_what_has_just_flowed_flows_no_further_where_its_thickness_is_found_anew():
    """It stood on the yield surface, and the last digits of the thickness decided whether metal that is unloaded flowed on:
    Newton's method then did not converge."""
    rng = np.random.default_rng(0)
    law = jm.material.J2Plasticity(200e3, 0.3, 250.0, 500.0, 1500.0)
    stretched = np.eye(2) + 5e-3 * rng.uniform(-1, 1, (500, 2, 2))

    def flowed(law, F):
        return law.point_update(with_thickness_stretch(F, jnp.exp(free_log_stretch(law, F))))

    @jax.jit
    @jax.vmap
    def twice(F):
        once = flowed(law, F)
        again = flowed(eqx.tree_at(lambda m: (m.plastic_strain, m.accumulated), law, tuple(once.values())), F)
        return once["accumulated"], again["accumulated"]

    once, again = twice(stretched)
    assert (once > 0).sum() > 300
    np.testing.assert_array_equal(again, once)
