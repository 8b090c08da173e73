"""Kernels of steps of scenes with many elements: loops over these are called, and numbers are put and read by place."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nested_loops import nested_loops
from scheme_scenes import SCENES, made
from test_step_kernels import agree, both_ways, kernels_of_steps, motion
from tolerances import RECOMPILED

import jaxmech as jm
from jaxmech._codegen import in_one_kernel
from jaxmech._codegen.llvm import stored
from jaxmech._codegen.operation_count import length_as_kernel

pytestmark = pytest.mark.cpu
SEVERAL = 20  # entries, and places


def strip():
    """Sixteen triangles, clamped at one end."""
    mesh = jm.mesh.box_mesh(cells=(8, 1), size=(4.0, 0.5))
    solid = jm.force.TriangleFEM.from_mesh("x", mesh, jm.material.NeoHookean(2e4, 0.3), plane="strain")
    return held(jm.Vec2(), {"solid": solid}, mesh, [0.0, -9.81])


def bar():
    """Twelve tetrahedra, clamped at one end."""
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0))
    solid = jm.force.TetrahedronFEM.from_mesh("x", mesh, jm.material.StVenantKirchhoff(1e4, 0.3))
    return held(jm.Vec3(), {"solid": solid}, mesh, [0.0, -9.81, 0.0])


def held(kind, forces, mesh, gravity):
    system = jm.System(
        {"x": kind},
        forces=forces,
        masses={"mass": jm.mass.UniformMass.of_total(("x", range(len(mesh.points))), 2.0)},
        constraints={"held": jm.constraint.Fixed(("x", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=gravity,
    )
    return system, system.at_rest({"x": mesh.points})


def net():
    """Nine points and twelve springs, held at two corners."""
    rows = np.arange(9).reshape(3, 3)
    pairs = np.concatenate([np.stack([rows[:, :-1], rows[:, 1:]], -1), np.stack([rows[:-1].T, rows[1:].T], -1)])
    first, second = pairs.reshape(-1, 2).T.tolist()
    system = jm.System(
        {"x": jm.Vec3()},
        forces={"net": jm.force.Springs((("x", first), ("x", second)), 50.0, 0.1)},
        masses={"mass": jm.mass.UniformMass(("x", range(9)), 0.05)},
        constraints={"held": jm.constraint.Fixed(("x", [0, 2]))},
        gravity=[0.0, 0.0, -9.81],
    )
    return system, system.at_rest({"x": [[0.1 * i, 0.1 * j, 0.0] for i in range(3) for j in range(3)]})


LARGE = {"strip": strip, "bar": bar, "net": net}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scene", "name"), [("strip", "VelocityVerlet"), ("strip", "Tsitouras"), ("bar", "RK4"), ("net", "Tsitouras")]
)
def test_motions_and_derivatives_are_those_of_ordinary_steps(scene, name):
    system, state = LARGE[scene]()
    scheme = made(name, system, state, False)

    def end(velocity):
        run = motion(system, scheme, dataclasses.replace(state, velocity={"x": velocity}))
        return jnp.sum(jnp.sin(run.last.position["x"])), run

    velocity = jnp.asarray(np.random.default_rng(0).normal(size=state.velocity["x"].shape))
    velocity = velocity.at[system.constraints["held"].on[0].nodes].set(0.0)
    assert kernels_of_steps(lambda v: end(v)[0], velocity) == 1
    (slope, run), (plain_slope, plain) = both_ways(jax.grad(end, has_aux=True), velocity)
    agree((run.state, run.info), (plain.state, plain.info))
    agree(slope, plain_slope, 10 * RECOMPILED)
    rate = jax.jit(lambda v, t: jax.jvp(lambda v: end(v)[0], (v,), (t,))[1])(velocity, jnp.sin(velocity))
    agree(rate, jnp.sum(slope * jnp.sin(velocity)), 10 * RECOMPILED)
    several = velocity * jnp.linspace(0.5, 1.0, 3)[:, None, None]
    ends, slopes = jax.jit(jax.vmap(jax.value_and_grad(lambda v: end(v)[0])))(several)
    singles = [jax.jit(jax.value_and_grad(lambda v: end(v)[0]))(v) for v in several]
    agree((ends, slopes), jax.tree.map(lambda *a: jnp.stack(a), *singles), 10 * RECOMPILED)


def of_velocities(scene, name, newton=False):
    """The end of a motion as a function of its first velocities, and some of these."""
    system, state = (LARGE | SCENES)[scene]()
    scheme = made(name, system, state, newton, rtol=1e-12)

    def end(velocity):
        run = motion(system, scheme, dataclasses.replace(state, velocity=velocity))
        return sum(jnp.sum(jnp.sin(x)) for x in run.last.position.values())

    draw = np.random.default_rng(1)
    return end, {s: jnp.asarray(draw.normal(size=v.shape)) for s, v in state.velocity.items()}


@pytest.mark.parametrize("name", ["RK4", "Tsitouras"])
def test_reverse_mode_computes_no_force_anew(name):
    """It has as many operations as the step, and half as many more for what is cheap."""
    end, velocity = of_velocities("strip", name)
    there, back = (
        max(
            length_as_kernel(eqn.params["call"], rounds=True)
            for _, eqn in nested_loops(jax.make_jaxpr(function)(velocity).jaxpr, "jaxmech_mapped")
            if eqn.params["call"].is_whole
        )
        for function in (end, jax.grad(end))
    )
    assert there < back < 1.5 * there


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scene", "name", "newton"), [("strip", "VelocityVerlet", False), ("rigid", "EnergyMomentum", True)]
)
def test_second_derivatives_of_what_is_kept_are_those_of_ordinary_steps(scene, name, newton):
    end, velocity = of_velocities(scene, name, newton)

    def curvature(v, along):
        return jax.jvp(jax.grad(end), (v,), (along,))[1], jax.grad(lambda v: jax.jvp(end, (v,), (along,))[1])(v)

    found, plain = both_ways(curvature, velocity, jax.tree.map(jnp.sin, velocity))
    agree(found, plain, 1e2 * RECOMPILED)
    agree(*found, 1e2 * RECOMPILED)


@pytest.mark.slow
def test_adaptive_motions_are_those_of_ordinary_steps():
    system, state = strip()
    scheme = made("Tsitouras", system, state, False)

    def end(stiffness):
        scene = eqx.tree_at(lambda s: s.forces["solid"].material.young, system, stiffness)
        run = jm.simulate_adaptive(scene, state, scheme, [0.02, 0.05], rtol=1e-5, atol=1e-7)
        return jnp.sum(jnp.sin(run.last.position["x"])), run

    (slope, run), (plain_slope, plain) = both_ways(jax.grad(end, has_aux=True), 2e4)
    assert int(run.info.turns) == int(plain.info.turns) > 5
    agree((run.state, slope), (plain.state, plain_slope), 1e3 * RECOMPILED)  # step by step an error of rounding decides


def of_one(function, *arguments):
    """What a kernel of a function of arrays gives, and the function."""
    kernel = in_one_kernel(jax.make_jaxpr(function)(*arguments))
    made = jax.jit(lambda *given: kernel(*given)).lower(*arguments).compile()
    text = made.as_text() or ""
    assert text.count("custom-call") == 1 and " scatter(" not in text and " while(" not in text, "no kernel"
    return made(*arguments), jax.tree.leaves(jax.jit(function)(*arguments))


@pytest.mark.parametrize("mode", ["drop", "clip"])
@pytest.mark.parametrize("name", ["add", "max", "min", "set"])
@pytest.mark.parametrize("shape", [(SEVERAL,), (SEVERAL, 2)])
def test_entries_are_put_where_numbers_say(name, mode, shape):
    """Also outside, from either end; those that are added, at a place again."""
    draw = np.random.default_rng(3)
    places = [3, -1, 19, 0, 40, -30, 7] + ([3, 3, 19] if name != "set" else [])
    if name == "set" and mode == "clip":
        places = [3, 19, 0, 7]  # of two at one place either may be there
    x, new = draw.normal(size=shape), draw.normal(size=(len(places), *shape[1:]))
    found, expected = of_one(
        lambda x, at, new: [getattr(x.at[at], name)(new, mode=mode), x.at[at].get(mode=mode, fill_value=7.0)],
        *map(jnp.asarray, (x, np.asarray(places), new)),
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=RECOMPILED)
    np.testing.assert_array_equal(found[1], expected[1])


def test_a_kernel_that_takes_more_memory_than_there_is_is_none(monkeypatch):
    """The program is XLA's then."""
    monkeypatch.setattr(stored, "_STACK", 100)
    x, at = jnp.arange(30.0), jnp.array([3, 5, 3])
    kernel = in_one_kernel(jax.make_jaxpr(lambda x, at: x.at[at].add(1.0))(x, at))
    made = jax.jit(lambda *given: kernel(*given)).lower(x, at).compile()
    assert "custom-call" not in (made.as_text() or "")
    np.testing.assert_array_equal(made(x, at)[0], np.arange(30.0) + 2 * (np.arange(30) == 3) + (np.arange(30) == 5))


@pytest.mark.parametrize("reverse", [False, True])
def test_long_loops_read_and_write_rows(reverse):
    """Of states, of numbers that are known, of arguments; truth values too; and their derivatives."""
    known = np.random.default_rng(4).normal(size=(7, 3))

    def turn(state, row):
        given, number = row
        for _ in range(4):
            state = jnp.sin(state) + 0.1 * given + number[0]
        return state, (jnp.cos(state), state > 0, number)

    def function(state, rows):
        end, (cosines, signs, numbers) = jax.lax.scan(turn, state, (rows, jnp.asarray(known)), reverse=reverse)
        again = jax.lax.scan(lambda s, row: (turn(s, row)[0], s), end, (cosines, numbers))[0]
        return jnp.sum(again) + jnp.sum(cosines**2) + jnp.sum(jnp.where(signs, cosines, 0.0))

    draw = np.random.default_rng(5)
    arguments = jnp.asarray(draw.normal(size=20)), jnp.asarray(draw.normal(size=(7, 20)))
    found, expected = of_one(jax.value_and_grad(function, (0, 1)), *arguments)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=10 * RECOMPILED)
