"""A mapped state that no force and no mass acts on (a skin to be drawn, a marker to be observed) changes nothing."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from scene_matrices import per_scene
from scenes import STEPS
from tolerances import CONVERGED, ITERATIVE, RECOMPILED, ROUND_OFF

import jaxmech as jm
from jaxmech._linear_system.compatibility import signature, topology
from jaxmech._model.subsystem import without_unloaded

SYSTEMS = {
    "matrix": jm.MatrixLinearSystem.build,
    "matrix-free": lambda system, state: jm.solver.MatrixFreeSystem(),
    "composite": lambda system, state: jm.solver.CompositeLinearSystem.build(
        system, state, {"A": jm.Terms(), "K": jm.Factors.only("stiffness")}
    ),
    "preconditioned": jm.solver.PreconditionedMatrixFreeSystem.build,
    "preconditioned, assembled": functools.partial(jm.solver.PreconditionedMatrixFreeSystem.build, assembled=True),
    "precomputed": jm.solver.PrecomputedMatrixSystem.build,
}
COMBINATIONS = [(kind, newton) for newton in (False, True) for kind in SYSTEMS]


def with_idle(system):
    """The scene with two idle states more, named so that one comes first and one last: of a main state and any mapped one,
    and of the first idle one."""
    sources = [system.main_states[0], *(m.child for m in system.mappings.values())][-2:]

    def first(*x):
        return sum(jnp.sum(jnp.sin(a)) for a in x)[None]

    mappings = {
        "A idle": jm.mapping.FunctionMapping(tuple((s, [0, 0]) for s in dict.fromkeys(sources)), "A idle", first),
        "z idle": jm.mapping.FunctionMapping(("A idle", [1]), "z idle", lambda a: jnp.concatenate([a, a**2])),
    }
    return jm.System(
        {**system.dofs, "A idle": jm.Vec1(), "z idle": jm.Vec2()},
        forces=system.forces,
        masses=system.masses,
        mappings={**system.mappings, **mappings},
        constraints=system.constraints,
        rayleigh=system.rayleigh,
        gravity=system.gravity,
    )


def equal(a, b, tolerance):
    """Equal trees of numbers, relative to the largest of each leaf."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert np.abs(one - other).max(initial=0) <= tolerance * max(1.0, np.abs(one).max(initial=0))


@per_scene(scenes.names())
def test_every_scene_computes_without_its_idle_states(name):
    """What is computed is made of this scene: it is the same, but for numbers of multipliers that a system makes itself."""
    scene = scenes.build(name)
    more, plain = with_idle(scene.system), without_unloaded(scene.system)
    less = without_unloaded(more)
    assert less.main_states == scene.system.main_states == more.main_states
    assert set(more.dofs) - set(less.dofs) >= {"A idle", "z idle"}
    assert jax.tree.structure(less) == jax.tree.structure(plain)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(less), jax.tree.leaves(plain), strict=True):
        made = ".multipliers[" in jax.tree_util.keystr(path) and a.dtype == np.int32
        assert a is b or (made and np.array_equal(a, b))
    assert signature(more) == signature(scene.system)
    assert (topology(more) == topology(scene.system)).all()


def pendulum():
    """A weight on a rod in the wind, its place mapped from a frame of the plane; with a spring, so that it has statics."""

    def hanging(q):
        return q[:2] + jnp.stack([jnp.sin(q[2]), -jnp.cos(q[2])])

    system = jm.System(
        {"pin": jm.Rigid2(), "bob": jm.Vec2()},
        mappings={
            "rod": jm.mapping.FunctionMapping(
                ("pin", [0]), "bob", lambda q: q[:2] + jnp.stack([jnp.sin(q[2]), -jnp.cos(q[2])])
            )
        },
        forces={
            "hold": jm.force.AnchoredFrames(("pin", [0]), 30.0, 4.0, [[0.0, 0.0, 0.3]]),
            "wind": jm.force.VelocityDamping(("bob", [0]), 0.7),
        },
        masses={"pin": jm.mass.PlanarRigidMass(("pin", [0]), 0.5, 0.1), "bob": jm.mass.UniformMass(("bob", [0]), 2.0)},
        constraints={"slide": jm.constraint.FixedComponents(("pin", [0]), (False, True, False))},
        gravity=(0.0, -9.81),
    )
    state = system.at_rest({"pin": [[0.1, 0.0, 0.4]]})
    return system, eqx.tree_at(lambda s: s.velocity["pin"], state, jnp.array([[0.2, 0.0, 1.5]]))


def stepped(system, state, kind, newton, rtol=CONVERGED):
    integrator = jm.ImplicitEuler(SYSTEMS[kind](system, state), newton=newton, rtol=rtol if newton else None)
    return integrator.step(system, state, None, 0.02, throw=False)


@functools.cache
def plain_step(newton):
    return stepped(*pendulum(), "matrix", newton)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "newton"),
    [
        *(pytest.param(kind, False, marks=() if kind == "matrix" else pytest.mark.slow) for kind in SYSTEMS),
        pytest.param("matrix", True, marks=pytest.mark.slow),
        ("matrix-free", True),
    ],
)
def test_steps_of_every_integrator_and_linear_system(kind, newton):
    """Equal to the plain scene's, by whatever route."""
    system, state = pendulum()
    (end, _, info), (expected, *_) = stepped(with_idle(system), state, kind, newton), plain_step(newton)
    assert info.result == jm.RESULTS.successful
    equal(end, expected, ITERATIVE)


@pytest.mark.slow
def test_statics_with_derivatives_trajectories_and_modes():
    plain, state = pendulum()
    results = []
    for system in (plain, with_idle(plain)):
        linear_system = jm.MatrixLinearSystem.build(system, state)

        def turned(k, system=system, linear_system=linear_system):
            stiffer = eqx.tree_at(lambda s: s.forces["hold"].angular_stiffness, system, k)
            return jm.static_solve(stiffer, state, linear_system).position

        rest = jax.jvp(turned, (4.0,), (1.0,))
        path = jm.simulate(system, state, jm.ImplicitEuler(linear_system), 0.02, 3)
        results.append((rest, path.position, path.velocity, jm.modes(system, state, linear_system, count=1).eigenvalues))
    equal(*results, RECOMPILED)


def test_a_skin_that_is_only_drawn_follows():
    """Free fall from rest: `v = g h`, `x = x0 + g h^2` after one step of implicit Euler, of all points alike."""
    box = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
    places = np.array([[0.5, 0.5, 0.5], [0.2, 0.3, 0.4], [2.0, -1.0, 0.5]])
    system = jm.System(
        {"body": jm.Vec3(), "skin": jm.Vec3()},
        forces={"solid": jm.force.TetrahedronFEM.from_mesh("body", box, jm.material.LinearElastic(1e3, 0.3))},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("body", box, 2.0)},
        mappings={"skin": jm.mapping.BarycentricMapping.from_mesh("body", "skin", box, places)},
        gravity=(0.0, 0.0, -10.0),
    )
    start = system.at_rest({"body": box.points})
    end, _, _ = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start)).step(system, start, None, 0.1)
    np.testing.assert_allclose(jm.kinematics(system, end)["skin"], places - [0.0, 0.0, 0.1], atol=ROUND_OFF)
    np.testing.assert_allclose(jm.mapping.velocities(system, end)["skin"], np.tile([0.0, 0.0, -1.0], (3, 1)), atol=ROUND_OFF)


@pytest.mark.exhaustive
@per_scene(scenes.names(STEPS))
def test_steps_of_every_scene(name):
    """Of the same programs: equal, and not only nearly. One of the twelve integrators a scene, in turn: what they compute
    with is the same scene, as `test_every_scene_computes_without_its_idle_states` says of all."""
    scene = scenes.build(name)
    kind, newton = COMBINATIONS[scenes.names().index(name) % len(COMBINATIONS)]
    both = (stepped(s, scene.state, kind, newton, None) for s in (scene.system, with_idle(scene.system)))
    equal(*both, RECOMPILED)
