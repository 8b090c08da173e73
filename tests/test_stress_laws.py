"""Laws that say a stress: beside the same law of an energy, without one, and in solves."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_components import Twisting

import jaxmech as jm

jax.config.update("jax_enable_x64", True)


class Rubber(jm.material.AbstractStressLaw):
    """The stress of `NeoHookean`."""

    mu: jm.Parameter = jm.parameter()
    lam: jm.Parameter = jm.parameter()
    needs_positive_volume = True

    def update(self, F, old, dt):
        back = jnp.linalg.inv(F).T
        return self.mu * (F - back) + self.lam * jnp.log(jnp.linalg.det(F)) * back, {}


def cantilever(solid, mesh, load):
    d = mesh.points.shape[1]
    return jm.System(
        {"b": (jm.Vec2() if d == 2 else jm.Vec3())},
        forces={
            "solid": solid,
            "load": jm.force.ConstantForce(("b", mesh.nodes_where(lambda x: x[:, 0] == 2.0)), jnp.asarray(load)),
        },
        constraints={"clamp": jm.constraint.Fixed(("b", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["quad", "hexahedron"])
def test_the_stress_of_an_energy_gives_the_same_solution(kind):
    d = 2 if kind == "quad" else 3
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1)[:d], size=(2.0, 1.0, 1.0)[:d], kind=kind)
    law, load = jm.material.NeoHookean(100.0, 0.3), (0.0, -1.0, 0.5)[:d]
    mu, lam = 100 / 2.6, 30 / 1.3 / 0.4
    options = {"thickness": 0.5} if d == 2 else {}
    found = []

    def drawn(law):  # warm, and with muscles: laws around laws of both families
        return jm.material.ThermalExpansion(jm.material.ActiveStress(law, 2.0, [1.0, 1.0, 0.0]), 1e-2, 3.0)

    for solid in (
        jm.force.SolidFEM.from_mesh("b", mesh, drawn(law), **options),
        jm.force.StressSolidFEM.from_mesh("b", mesh, drawn(Rubber(mu, lam)), **options),
    ):
        scene = cantilever(solid, mesh, load)
        bent = jm.static_solve(scene, scene.at_rest({"b": mesh.points}))
        fields = jm.output.gauss_fields(scene, bent.state, "solid")
        found.append((bent.position["b"], fields.cauchy, bent.info.iterations))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-8)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)
    assert abs(int(np.sum(found[0][2])) - int(np.sum(found[1][2]))) <= 1  # the tangent is consistent


@pytest.mark.slow
def test_a_law_without_an_energy_is_solved_remembered_and_differentiated():
    mesh = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0))
    solid = jm.force.StressSolidFEM.from_mesh("b", mesh, Twisting(100.0, 0.3, 0.2))
    scene = cantilever(solid, mesh, (0.5, -1.0))
    rest = scene.at_rest({"b": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(scene, rest, jm.Terms(mass=False, damping=False))
    A = linear_system.assemble(scene, rest, jm.Factors.only("stiffness"))
    K = np.asarray(A.to_dense())
    assert np.abs(K - K.T).max() > 1.0 and not A.symmetric

    def tip(stiffness):
        now = eqx.tree_at(lambda s: s.forces["solid"].material.stiffness, scene, stiffness)
        one = jm.static_solve(now, rest, linear_system, dt=0.1)
        two = jm.static_solve(now, one.state, linear_system, dt=0.1)
        return two.position["b"][-1, 1], two.state.internal["solid"]["material.flow"]

    @jax.jit
    def both(k):
        return jax.value_and_grad(tip, has_aux=True)(k), jax.jvp(lambda k: tip(k)[0], (k,), (jnp.ones_like(k),))[1]

    step = 1e-3
    ((value, flow), slope), forward = both(jnp.asarray(100.0))
    values = [both(jnp.asarray(100.0 + k * step))[0][0][0] for k in (1, -1)]
    difference = (values[0] - values[1]) / (2 * step)
    np.testing.assert_allclose([slope, forward], difference, rtol=1e-6)
    assert np.abs(flow).max() > 1e-3 and value < 1.0


def test_what_a_stress_law_is_not_is_refused():
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
    law = Rubber(1.0, 1.0)
    with pytest.raises(TypeError, match="StressSolidFEM: material must be"):
        jm.force.StressSolidFEM.from_mesh("b", mesh, jm.material.NeoHookean(1.0, 0.3))
    with pytest.raises(TypeError, match="SolidFEM: material must be"):
        jm.force.SolidFEM.from_mesh("b", mesh, jm.material.ThermalExpansion(law, 1e-5, 10.0))
    with pytest.raises(TypeError, match="Damage: elastic must be"):
        jm.material.Damage(jm.material.ActiveStress(law, 1.0, [1.0, 0.0, 0.0]), 1.0, 1.0)
    with pytest.raises(TypeError, match="ThermalExpansion: cold must be"):
        jm.material.ThermalExpansion(1.0, 1e-5, 10.0)
    with pytest.raises(ValueError, match="thickness is of cells in the plane"):
        jm.force.StressSolidFEM.from_mesh("b", mesh, law, thickness=2.0)
    with pytest.raises(ValueError, match="inverted"):
        jm.force.StressSolidFEM(("b", mesh.cells), -np.asarray(mesh.points), law, "tetrahedron")
    solid = jm.force.StressSolidFEM.from_mesh("b", mesh, law)
    scene = jm.System({"b": jm.Vec3()}, forces={"solid": solid})
    folded = dataclasses.replace(
        scene.at_rest({"b": mesh.points}), position={"b": mesh.points * jnp.array([-1.0, 1.0, 1.0])}
    )
    with pytest.raises(jm.FailedComputation, match="inverted"):
        jm.total_force(scene, folded)


@pytest.mark.slow
def test_tables_drive_any_number_of_a_scene():
    """A load that rises and rests, on a group of a mesh; its derivative by the table is that of the end load."""
    mesh = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0))
    body = jm.mesh.MixedMesh.from_mesh(mesh, {"end": lambda x: x[:, 0] == 2.0, "root": lambda x: x[:, 0] == 0.0})
    scene = jm.System(
        {"b": jm.Vec2()},
        forces={
            "solid": jm.force.SolidFEM.from_mesh("b", mesh, jm.material.LinearElastic(100.0, 0.3)),
            "pull": body.each(lambda end: jm.force.Traction.from_mesh("b", end, [0.0, 0.0]), "end"),
        },
        masses={"m": jm.mass.ConsistentMass.from_mesh("b", mesh, 1e-4)},
        constraints={"root": jm.constraint.Fixed(("b", body.nodes("root")))},
    )
    start = scene.at_rest({"b": mesh.points})
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(scene, start))

    def end(size):
        table = jm.integrator.Table([0.0, 1.0], [[0.0, 0.0], [size, 0.0]])
        run = jm.simulate(
            scene, start, euler, 0.25, 6, control=jm.integrator.table_control, parameters={"pull.edge": {"traction": table}}
        )
        return run.last.position["b"][-1, 0] - 2.0

    value, slope = jax.value_and_grad(end)(1.0)
    assert 0.015 < value < 0.02  # sigma L / E = 0.02, less what the clamp holds
    np.testing.assert_allclose(slope, value, rtol=1e-6)  # linear
    with pytest.raises(TypeError, match="parameters of 'pull' 'traction' must be a Table, got float"):
        jm.integrator.table_control(0.0, None, {"pull": {"traction": 1.0}})
    with pytest.raises(TypeError, match="parameters must be"):
        jm.integrator.table_control(0.0, None, [1.0])
