"""What is traced once: a time step and a static solve, over repeated calls and over meshes of equal sizes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

TRACES = {"count": 0}


class Counted(jm.AbstractEnergyForceField):
    """Anchored springs that count how often they are traced: Python runs when JAX traces, and at no other time."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jax.Array = jm.parameter()  # [N/m]
    anchor: jax.Array = jm.parameter(ndim=1)  # [m]

    def element_energy(self, x):
        TRACES["count"] += 1
        return 0.5 * self.stiffness * jnp.sum((x - self.anchor) ** 2)


def problem(order, scale: float, stiffness: float):
    """A chain whose links join other nodes, of other lengths, as often as it is asked for."""
    points = scale * np.arange(5.0)[:, None] * np.array([1.0, 0.2, 0.1]) + 0.01 * np.sin(np.arange(15.0)).reshape(5, 3)
    a, b = np.array(order[:-1]), np.array(order[1:])
    system = jm.System(
        {"chain": jm.Vec3()},
        forces={
            "counted": Counted(("chain", np.arange(5)), stiffness, points),
            "links": jm.AnchoredSprings((("chain", a), ("chain", b)), 3.0),
        },
        masses={"mass": jm.UniformMass(("chain", np.arange(5)), 1.0)},
        constraints={"hold": jm.Fixed(("chain", [order[0]]))},
        gravity=(0.0, 0.0, -9.81),
    )
    state = system.at_rest({"chain": points})
    return system, state, jm.MatrixLinearSystem.build(system, state)


def step(newton):
    @eqx.filter_jit
    def run(system, state, linear_system, dt):
        return jm.ImplicitEuler(linear_system, newton=newton).step(system, state, dt)[0]

    return run


@eqx.filter_jit
def solve(system, state, linear_system, dt):
    return jm.static_solve(system, state, linear_system).state


def trajectory(system, state, linear_system, dt):
    return jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt, 4).last


def bare_step(system, state, linear_system, dt):
    return jm.ImplicitEuler(linear_system).step(system, state, dt)[0]


RUNS = {
    "linear step": step(False),
    "newton step": step(True),
    "static solve": solve,
    "step without jit": bare_step,
    "simulate": trajectory,
}


@pytest.mark.parametrize("name", RUNS)
def test_traced_once(name):
    run = RUNS[name]
    cases = [
        (*problem([0, 1, 2, 3, 4], 1.0, 5.0), 0.01),
        (*problem([0, 1, 2, 3, 4], 1.3, 7.0), 0.02),  # other numbers
        (*problem([4, 2, 0, 1, 3], 1.0, 5.0), 0.01),  # another mesh of equal sizes
    ]
    first = run(*cases[0])
    TRACES["count"] = 0
    again = run(cases[0][0], first, cases[0][2], 0.01)  # the state that came out goes in again
    assert TRACES["count"] == 0
    for case in cases[1:]:
        run(*case)
        assert TRACES["count"] == 0, case[-1]
    assert np.isfinite(again.position["chain"]).all()


def test_another_mesh_gives_its_own_answer():
    """The trace is shared, its numbers are not."""
    order, solution = [4, 2, 0, 1, 3], {}
    for kind in ("shared", "fresh"):
        if kind == "fresh":
            jax.clear_caches()
        system, state, linear_system = problem(order, 1.0, 5.0)
        solution[kind] = np.asarray(solve(system, state, linear_system, 0.0).position["chain"])
    np.testing.assert_array_equal(solution["shared"], solution["fresh"])


def test_a_trace_does_not_hold_the_mesh():
    """Arrays of the size of the mesh are arguments, not constants."""
    system, state, linear_system = problem([0, 1, 2, 3, 4], 1.0, 5.0)
    dynamic, static = eqx.partition((system, state, linear_system), eqx.is_array)

    def run(dynamic):
        return eqx.combine(dynamic, static)[2].assemble(*eqx.combine(dynamic, static)[:2])

    constants = [np.size(c) for c in jax.make_jaxpr(run)(dynamic).consts]
    assert max(constants, default=0) <= 9, constants
