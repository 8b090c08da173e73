"""A linear system that was built for another scene of equal sizes is refused by all that takes one, before it is used."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

import jaxmech as jm
from jaxmech._linear_system.compatibility import check_topology, signature, topology
from jaxmech._model.scene_checks import component_stencils
from jaxmech._model.subsystem import without_unloaded

STATICS = jm.Factors(mass=0.0, damping=0.0)


def square(edges):
    """Four points in the plane, two of them fixed, and five springs between them."""
    a, b = np.array(edges).T
    system = jm.System(
        {"net": jm.Vec2()},
        forces={
            "springs": jm.force.Springs((("net", a), ("net", b)), 10.0, 0.9),
            "push": jm.force.ConstantForce(("net", [3]), [0.1, 0]),
        },
        masses={"mass": jm.mass.UniformMass(("net", range(4)), 1.0)},
        constraints={"pins": jm.constraint.Fixed(("net", [0, 1]))},
    )
    return system, system.at_rest({"net": [[0.0, 0], [1, 0], [1, 1], [0, 1]]})


BRACED, STATE = square([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
OTHERWISE, _ = square([(0, 1), (1, 2), (2, 3), (3, 0), (1, 3)])


def stencils(system):
    return [s for _, on in component_stencils(system) for s in on]


def with_nodes(system, number, nodes):
    return eqx.tree_at(lambda s: stencils(s)[number].nodes, system, nodes)


@pytest.mark.parametrize("name", scenes.names())
def test_every_node_number_of_every_scene_counts(name):
    system = scenes.build(name).system
    built_for = signature(system), topology(system)
    check_topology("this", built_for, jax.tree.map(lambda a: jax.device_put(np.array(a)), system))  # in other arrays
    system = without_unloaded(system)  # what nothing acts on has no part in the matrix
    for number, stencil in enumerate(stencils(system)):
        nodes = np.array(stencil.nodes)
        nodes.flat[-1] = 0 if nodes.flat[-1] else 1
        with pytest.raises(ValueError, match="this was built for a scene of the same sizes with other node numbers"):
            check_topology("this", built_for, with_nodes(system, number, jnp.array(nodes)))


def linear_systems():
    terms = {"A": jm.Terms(), "K": jm.Factors.only("stiffness")}
    yield jm.MatrixLinearSystem.build(BRACED, STATE)
    yield jm.solver.share_pattern([jm.MatrixLinearSystem.build(s, STATE) for s in (BRACED, OTHERWISE)])[0]
    yield jm.solver.CompositeLinearSystem.build(BRACED, STATE, terms)
    yield jm.solver.PrecomputedMatrixSystem.build(BRACED, STATE)
    yield jm.solver.PreconditionedMatrixFreeSystem.build(BRACED, STATE)
    yield jm.solver.PreconditionedMatrixFreeSystem.build(BRACED, STATE, assembled=True)


@pytest.mark.slow
def test_whatever_takes_a_linear_system_refuses_it(tmp_path):
    built = list(linear_systems())
    jm.static_solve(BRACED, STATE, built[0])
    for linear_system in built:
        euler = jm.ImplicitEuler(linear_system)
        carry, operator = linear_system.init(BRACED, STATE), linear_system.unconstrained(BRACED, STATE, STATICS)
        calls = [
            lambda ls=linear_system: ls.assemble(OTHERWISE, STATE, STATICS),
            lambda ls=linear_system: ls.unconstrained(OTHERWISE, STATE, STATICS),
            lambda ls=linear_system: ls.linearized(OTHERWISE, STATE, STATICS),
            lambda ls=linear_system: ls.init(OTHERWISE, STATE),
            lambda ls=linear_system, carry=carry: ls.updated(OTHERWISE, STATE, carry, STATICS),
            lambda ls=linear_system: ls.momentum(OTHERWISE, STATE, STATE.velocity),
            lambda ls=linear_system, operator=operator: ls.constrain(OTHERWISE, operator),
            lambda ls=linear_system: jm.static_solve(OTHERWISE, STATE, ls),
            lambda ls=linear_system: jm.solver.static_problem(OTHERWISE, STATE, ls),
            lambda euler=euler: euler.step(OTHERWISE, STATE, None, 0.01),
            lambda euler=euler: euler.problem(OTHERWISE, STATE, 0.01),
            lambda euler=euler: jm.simulate(OTHERWISE, STATE, euler, 0.01, 2),
        ]
        if isinstance(linear_system, jm.solver.CompositeLinearSystem):
            calls.append(lambda ls=linear_system: ls.matrices(OTHERWISE, STATE))
        if isinstance(linear_system, jm.MatrixLinearSystem):
            calls.append(lambda ls=linear_system: jm.modes(OTHERWISE, STATE, ls, count=1))
            calls.append(lambda ls=linear_system: jm.buckling(lambda mu: OTHERWISE, STATE, ls))
        for call in calls:
            with pytest.raises(ValueError, match="other node numbers"):
                call()
    built[0].save(tmp_path / "square")
    with pytest.raises(ValueError, match="other node numbers"):
        jm.MatrixLinearSystem.load(tmp_path / "square", OTHERWISE, STATE)


def test_constants_of_a_trace_are_looked_at():
    """And a derivative outside `jit` is a call like any other."""
    linear_system = jm.MatrixLinearSystem.build(BRACED, STATE)

    def tip(young, system=OTHERWISE):
        stiffer = eqx.tree_at(lambda s: s.forces["springs"].stiffness, system, young)
        return jm.static_solve(stiffer, STATE, linear_system).position["net"][3, 0]

    one, two = jnp.array(10.0), jnp.array([10.0, 20.0])
    for transformed, young in ((jax.jit(tip), one), (jax.grad(tip), one), (jax.vmap(tip), two)):
        with pytest.raises(ValueError, match="other node numbers"):
            transformed(young)


def test_arrays_that_are_gone_are_not_remembered():
    """A new array may stand where an old one stood."""
    built_for = signature(BRACED), topology(BRACED)
    first = np.asarray(stencils(BRACED)[0].nodes)
    for shift in range(1, 30):
        nodes = first.copy()
        nodes[shift % nodes.size] = (nodes[shift % nodes.size] + 1 + shift % 3) % 4
        with pytest.raises(ValueError, match="other node numbers"):
            check_topology("this", built_for, with_nodes(BRACED, 0, jnp.array(nodes)))
        check_topology("this", built_for, with_nodes(BRACED, 0, jnp.array(first)))


def test_a_component_that_is_put_in_the_place_of_another_is_seen():
    """What was read of a scene is known by its components: the dictionary that holds them can change under it."""
    system, _ = square([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    built_for = signature(system), topology(system)
    check_topology("this", built_for, system)
    system.forces["springs"] = OTHERWISE.forces["springs"]
    with pytest.raises(ValueError, match="other node numbers"):
        check_topology("this", built_for, system)
    system.forces["springs"] = eqx.tree_at(lambda f: f.on[0].nodes, BRACED.forces["springs"], np.array([0, 1, 2, 3, 0]))
    check_topology("this", built_for, system)
    np.asarray(system.forces["springs"].on[0].nodes)[0] = 1  # an array of NumPy's can change too
    with pytest.raises(ValueError, match="other node numbers"):
        check_topology("this", built_for, system)
