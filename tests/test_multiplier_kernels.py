"""A step of a small scene with multipliers as one kernel: motions, derivatives and failures are those of ordinary steps."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from multiplier_scenes import SCENES
from scheme_scenes import made
from test_step_kernels import DT, agree, both_ways, check_pages, kernels_of_steps, motion
from tolerances import RECOMPILED

import jaxmech as jm

pytestmark = pytest.mark.cpu
SCHEMES = "ImplicitEuler", "Midpoint", "Newmark", "BDF2", "EnergyMomentum"


def compared(system, run):
    """A motion, its multipliers by what they do to positions in a step: those take the rounding of positions over `h^2`."""
    held = system.multiplier_states
    moving = [{s: a for s, a in of.items() if s not in held} for of in (run.position, run.velocity)]
    said = [a for a in jax.tree.leaves(run.info) if not jnp.issubdtype(a.dtype, jnp.inexact)]
    return moving, {s: DT**2 * run.position[s] for s in held}, said


@pytest.mark.parametrize(
    ("scene", "name"),
    [
        pytest.param("rod", "ImplicitEuler", marks=pytest.mark.slow),
        ("hinge", "ImplicitEuler"),
        ("slider", "Midpoint"),  # 50 operations for each of XLA's, but those of single elements are kernels there too
    ],
)
def test_a_step_is_a_kernel(scene, name):
    system, state = SCENES[scene]()
    scheme = made(name, system, state, False)
    assert kernels_of_steps(lambda s: motion(system, scheme, s).last, state) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scene", "name"),
    [(scene, name) for scene in SCENES for name in SCHEMES[: 5 if scene == "rod" else 2]],
)
def test_motions_and_gradients_are_those_of_ordinary_steps(scene, name):
    system, state = SCENES[scene]()
    scheme = made(name, system, state, False)

    def end(x):
        run = motion(system, scheme, dataclasses.replace(state, position=x))
        shown = compared(system, run)
        return sum(jnp.sum(jnp.sin(a)) for a in jax.tree.leaves(shown[0])), shown

    assert kernels_of_steps(lambda x: end(x)[0], state.position) == 1
    (slope, shown), (plain_slope, plain) = both_ways(jax.grad(end, has_aux=True), state.position)
    agree(shown, plain)
    agree(slope, plain_slope, 10 * RECOMPILED)


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["two_rods", "ball"])
def test_members_of_a_batch_are_carried_out_together(scene):
    """Each with a start of its own, and its derivatives."""
    system, state = SCENES[scene]()
    scheme = made("ImplicitEuler", system, state, False)
    name = next(iter(state.position.keys() - {"nail", *system.multiplier_states}))

    def end(velocity):
        start = eqx.tree_at(lambda s: s.velocity[name], state, velocity)
        return motion(system, scheme, start).last.position[name]

    velocities = state.velocity[name] + 0.1 * jnp.arange(9.0)[:, None, None]
    of_one = jax.jit(end)
    agree(jax.jit(jax.vmap(end))(velocities), jnp.stack([of_one(v) for v in velocities]))
    forward, back = (jax.jit(jax.vmap(of(end)))(velocities) for of in (jax.jacfwd, jax.jacrev))
    agree(forward, back, 10 * RECOMPILED)


def doubled(scene):
    """The same scene, one of whose constraints stands there twice."""
    system, state = SCENES[scene]()
    name = next(iter(system.multiplier_constraints))
    constraints = {**system.constraints, "again": system.constraints[name]}
    twice = jm.System(
        {s: d for s, d in system.dofs.items() if s not in system.multiplier_states},
        masses=system.masses,
        constraints=constraints,
        gravity=system.gravity,
    )
    return twice, twice.at_rest({s: a for s, a in state.position.items() if s not in system.multiplier_states})


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["rod", "ball"])
def test_constraints_that_say_the_same_are_named(scene):
    """Of a factor of up to eight unknowns, and of one of more."""
    system, state = doubled(scene)
    scheme = made("ImplicitEuler", system, state, False)
    assert kernels_of_steps(lambda s: motion(system, scheme, s).last, state) == 1
    found, plain = both_ways(lambda s: motion(system, scheme, s).info, state)
    assert int(found.result._value[0]) == int(plain.result._value[0]) == jm.RESULTS.singular._value
    assert int(found.unconstrained_state[0]) == int(plain.unconstrained_state[0])
    for form in ("llvm", "off"):
        with jm.runtime.element_compiler(form), pytest.raises(jm.FailedComputation, match="again"):
            jax.block_until_ready(motion(system, scheme, state, throw=True))


@pytest.mark.slow
def test_adaptive_turns_are_those_of_ordinary_steps():
    system, state = SCENES["rod"]()
    scheme = made("TRBDF2", system, state, False)

    def end(x):
        start = dataclasses.replace(state, position=x)
        options = {"rtol": 1e-6, "atol": 1e-8, "max_steps": 256, "throw": False}
        run = jm.simulate_adaptive(system, start, scheme, [0.05, 0.2], **options)
        return jnp.sum(jnp.sin(run.last.position["p"])), run

    (slope, run), (plain_slope, plain) = both_ways(jax.grad(end, has_aux=True), state.position)
    assert not run.info.result._value.any() and int(run.info.accepted) == int(plain.info.accepted)
    agree(run.state.position["p"], plain.state.position["p"], 1e-8)  # sizes of steps magnify rounding
    agree(slope, plain_slope, 1e-6)
    check_pages(lambda x: end(x)[0], state.position)
