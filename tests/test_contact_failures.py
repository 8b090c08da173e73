"""Steps with contact in a batch where some members fail: each says so, its derivatives are NaN, and others do not notice."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

FINE = {"mass": 1.0, "friction": 0.3, "level": 0.0}
FAILING = {
    "a plane that is nowhere": {"level": np.nan},
    "no friction at all": {"friction": np.nan},
    "no mass, and neither springs nor the floor to hold it": {"mass": 0.0, "level": -1.0},
    "a negative mass": {"mass": -1.0},
}
HEALTHY = [{}, {"friction": 0.1}, {"level": 0.005}]


def chain():
    """Three points on springs above a plane."""
    system = jm.System(
        {"p": jm.Vec3()},
        forces={"springs": jm.force.Springs((("p", [0, 1]), ("p", [1, 2])), 20.0, 1.0)},
        masses={"mass": jm.mass.UniformMass(("p", range(3)), 1.0)},
        gravity=[0.3, 0.0, -9.81],
    )
    state = system.at_rest({"p": [[0.0, 0.0, 0.01], [1.0, 0.0, 0.3], [2.0, 0.0, 0.0]]})
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    floor = jm.contact.PointContact(("p", range(3)), jm.contact.Plane(), friction=0.3)
    return system, state, jm.integrator.FreeMotion(motion, {"floor": floor})


@pytest.mark.slow
def test_a_member_that_fails_says_so_and_the_others_do_not_notice():
    system, state, scheme = chain()

    def end(given):
        heavy = eqx.tree_at(lambda s: s.masses["mass"].mass, system, given["mass"])
        at = jnp.zeros(7).at[6].set(1.0).at[2].set(given["level"])
        floor = eqx.tree_at(lambda f: (f.friction, f.at), scheme.contacts["floor"], (given["friction"], at))
        on = eqx.tree_at(lambda s: s.contacts["floor"], scheme, floor)
        last, _, info = on.step(heavy, state, None, 0.02, throw=False)
        weights = jnp.cos(jnp.arange(9.0)).reshape(3, 3)
        return jnp.sum(weights * (last.position["p"] + 0.1 * last.velocity["p"])), info.result

    both = jax.jit(jax.vmap(jax.value_and_grad(end, has_aux=True)))

    def batch(members):
        return both({k: jnp.array([(FINE | m)[k] for m in members]) for k in FINE})

    some = [FAILING[name] for name in reversed(FAILING)] + HEALTHY[::-1]
    (values, results), slopes = batch(some)
    (alone, fine), expected = batch([{}] * len(FAILING) + HEALTHY[::-1])
    assert (fine == jm.RESULTS.successful).all()
    n = len(FAILING)
    successful = np.asarray(results == jm.RESULTS.successful)
    assert successful.tolist() == [False] * n + [True] * len(HEALTHY)
    assert np.array_equal(values[n:], alone[n:])
    for k, slope in slopes.items():
        assert np.isnan(slope[:n]).all(), k
        assert np.array_equal(slope[n:], expected[k][n:])


@pytest.mark.parametrize("field", ["friction", "at", "radius", "depth", "margin"])
def test_a_number_of_a_contact_that_is_none_is_named(field):
    system, state, scheme = chain()
    wrong = eqx.tree_at(lambda s: getattr(s.contacts["floor"], field), scheme, replace_fn=lambda a: a * np.nan)
    with pytest.raises(ValueError, match=rf"contact 'floor' \(PointContact\): {field} has values that are not finite"):
        wrong.step(system, state, None, 0.02)
