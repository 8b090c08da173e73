"""Energies and forces where a law is undefined are named failures, and NaN only where nobody can look."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

RAISED = (jax.errors.JaxRuntimeError, ValueError)  # when the result is waited for; at once, out of a short program
MESH = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0))
INVERTED = np.array(MESH.points)
INVERTED[2] = [-2.0, 0.2]  # a corner of one cell only, [2, 4, 1], taken to the other side of it


class Log(jm.force.AbstractEnergyForceField):
    """`E = -ln x`, of a law that says nothing of its limits."""

    on: tuple[jm.Stencil, ...] = jm.stencils()

    def element_energy(self, x):
        return -jnp.log(x[0])


def sheet(**forces):
    rubber = jm.force.TriangleFEM.from_mesh("sheet", MESH, jm.material.NeoHookean(1.0, 0.3))
    return jm.System({"sheet": jm.Vec2(), "bead": jm.Vec1()}, forces={"rubber": rubber, **forces})


def at(system, points, bead=1.0):
    return system.at_rest({"sheet": points, "bead": [[2.0], [bead]]})


@pytest.mark.slow_cases("energy")
@pytest.mark.parametrize("function", [jm.energy, jm.total_force, jm.reactions])
def test_an_inverted_element_is_named(function):
    system = sheet()
    with pytest.raises(
        jm.FailedComputation, match=r"element 2 of 'rubber' \(nodes \[2, 4, 1\] of 'sheet'\) is inv"
    ) as raised:
        function(system, at(system, INVERTED))
    assert raised.value.result == jm.RESULTS.inverted_element
    function(system, at(system, MESH.points))


@pytest.mark.parametrize("function", [jm.energy, jm.total_force])
def test_what_is_not_finite_is_named(function):
    system = sheet(log=Log(("bead", [0, 1])))
    with pytest.raises(
        jm.FailedComputation, match=r"element 1 of 'log' \(nodes 1 of 'bead'\) gives a value that is"
    ) as raised:
        function(system, at(system, MESH.points, bead=0.0))
    assert raised.value.result == jm.RESULTS.not_finite
    np.testing.assert_allclose(jm.energy(system, at(system, MESH.points, bead=3.0)), -np.log(6.0))


def test_traced_it_is_nan_unless_it_shall_raise():
    system = sheet()
    fine, inverted = at(system, MESH.points), at(system, INVERTED)
    assert np.isnan(jax.jit(jm.energy)(system, inverted)) and np.isnan(jm.energy(system, inverted, throw=False))
    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), inverted, fine)
    np.testing.assert_array_equal(jax.vmap(lambda state: jm.energy(system, state))(both), [np.nan, 0.0])


def test_compiled_it_raises_what_is_wrong():
    system = sheet()
    bent = np.array(MESH.points) + 0.05 * np.sin(np.arange(12.0)).reshape(6, 2)

    @jax.jit
    def slopes(system, points):
        def work(points, throw):
            state = at(system, MESH.points)
            return jm.energy(system, jm.State({**state.position, "sheet": points}, state.velocity, state.time), throw=throw)

        return [jax.value_and_grad(work)(points, throw) for throw in (True, None)]

    (value, slope), plain = slopes(system, bent)
    np.testing.assert_array_equal(value, plain[0])
    np.testing.assert_array_equal(slope, plain[1])
    with pytest.raises(RAISED, match="energy: 'rubber': element 2 is inverted"):
        jax.block_until_ready(slopes(system, INVERTED))
    young = jnp.full_like(system.forces["rubber"].material.young, np.nan)
    soft = eqx.tree_at(lambda s: s.forces["rubber"].material.young, system, young)
    with pytest.raises(RAISED, match="energy: 'rubber': material.young has values that are not finite"):
        jax.block_until_ready(slopes(soft, bent))
    with pytest.raises(RAISED, match="energy, batch member 1 of 2: 'rubber': element 2 is inverted"):
        jax.block_until_ready(jax.vmap(slopes, (None, 0))(system, jnp.stack([bent, INVERTED])))
