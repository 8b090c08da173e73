"""Every failure that jaxmech promises to report: at construction, or as a result with advice, never as a silent NaN."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest

import jaxmech as jm

CHAIN = np.stack([np.arange(4.0), np.zeros(4), np.zeros(4)], axis=1)
STATIC = jm.Terms(mass=False, damping=False)


def chain(dtype=float, **changes):
    """Four points joined by zero-length springs, the first held, the last pulled."""
    parts = {
        "forces": {
            "springs": jm.force.Springs((("chain", [0, 1, 2]), ("chain", [1, 2, 3])), 10.0, 0.0),
            "pull": jm.force.ConstantForce(("chain", [3]), [1.0, 2.0, 0.0]),
        },
        "masses": {"mass": jm.mass.UniformMass(("chain", range(4)), 1.0)},
        "constraints": {"hook": jm.constraint.Fixed(("chain", [0]))},
    }
    system = jm.System({"chain": jm.Vec3()}, **(parts | changes))
    return system, system.at_rest({"chain": CHAIN.astype(dtype)})


# --- wrong construction --------------------------------------------------------------------------------------------

RIGID = {"frame": jm.Rigid3(), "tip": jm.Vec3()}
ARM = jm.mapping.RigidMapping(("frame", [0]), "tip", [[1.0, 0.0, 0.0]])
POSE = {"frame": [[0.0, 0, 0, 0, 0, 0, 1]]}


def system(**parts):
    return jm.System({"body": jm.Vec3()}, **parts)


def body(x=CHAIN, **parts):
    return system(**parts).at_rest({"body": x})


def pull(nodes=(0,), force=(1.0, 0.0, 0.0), state="body"):
    return {"pull": jm.force.ConstantForce((state, list(nodes)), list(force))}


def built(**constraints):
    scene = system(constraints=constraints)
    return jm.MatrixLinearSystem.build(scene, scene.at_rest({"body": CHAIN}))


def moved(nodes, **options):
    return jm.constraint.PrescribedMotion(("body", nodes), CHAIN[nodes], np.zeros((1, 3)), **options)


class Counting(jm.force.AbstractEnergyForceField):
    on: tuple = jm.stencils()

    def element_energy(self, x):
        return 3


WRONG_SCENES = {
    "unknown state": (lambda: system(forces=pull(state="hook")), "'pull' acts on state 'hook'.*['body']"),
    "unknown child": (lambda: jm.System({"frame": jm.Rigid3()}, mappings={"arm": ARM}), "'arm' maps to state 'tip'"),
    "no state": (lambda: jm.System({}), "dofs is empty"),
    "node out of range": (lambda: body(forces=pull([4])), r"'pull': node 4 is out of range for state 'body' \(4 nodes\)"),
    "negative node": (lambda: pull([-1]), "'body': node -1 is negative"),
    "force of another size": (lambda: body(forces=pull(force=(1.0, 0.0))), r"'pull': force has shape \(2,\)"),
    "one number per element": (
        lambda: jm.force.ConstantForce(("body", [0, 1]), np.ones((3, 3))),
        r"force has shape \(3, 3\)",
    ),
    "position of another size": (lambda: body(np.zeros((4, 2))), r"position of 'body' has shape \(4, 2\)"),
    "position missing": (lambda: system().at_rest({}), "position has no state 'body'"),
    "position unknown": (lambda: system().at_rest({"soul": CHAIN}), "position names state 'soul'"),
    "position not finite": (lambda: body(CHAIN * np.nan), "position of 'body': node 0 is not finite"),
    "quaternion not of length 1": (
        lambda: jm.System({"frame": jm.Rigid3()}).at_rest({"frame": np.ones((1, 7))}),
        "'frame': the quaternion of node 0",
    ),
    "parameter not finite": (
        lambda: jm.material.NeoHookean(np.nan, 0.3),
        "NeoHookean: young has values that are not finite",
    ),
    "parameter out of range": (lambda: jm.material.NeoHookean(1.0, 0.5), "NeoHookean: poisson"),
    "inverted at rest": (
        lambda: jm.force.TetrahedronFEM(
            ("body", [[0, 2, 1, 3]]), np.vstack([np.zeros(3), np.eye(3)]), jm.material.NeoHookean(1.0, 0.3)
        ),
        "TetrahedronFEM: cell 0 is inverted or flat at rest",
    ),
    "law for other states": (
        lambda: jm.System({"f": jm.Rigid2()}, masses={"m": jm.mass.UniformMass(("f", [0]), 1.0)}).at_rest(
            {"f": [[0.0] * 3]}
        ),
        "'m': UniformMass acts on points",
    ),
    "mapping cycle": (
        lambda: jm.System(
            {"a": jm.Vec3(), "b": jm.Vec3()},
            mappings={
                "ab": jm.mapping.IdentityMapping.of("a", "b", nodes=1),
                "ba": jm.mapping.IdentityMapping.of("b", "a", nodes=1),
            },
        ),
        r"\['ab', 'ba'\] form a cycle",
    ),
    "mapped twice": (
        lambda: jm.System(RIGID, mappings={"arm": ARM, "leg": ARM}),
        "state 'tip' is mapped twice, by 'arm' and 'leg'",
    ),
    "constraint on a mapped state": (
        lambda: jm.System(RIGID, mappings={"arm": ARM}, constraints={"hold": jm.constraint.Fixed(("tip", [0]))}),
        "'hold' constrains state 'tip', which mapping 'arm' gives; .* jm.constraint.Attachment .* jm.constraint.FixedJoint",
    ),
    "position of a mapped state": (
        lambda: jm.System(RIGID, mappings={"arm": ARM}).at_rest(POSE | {"tip": [[0.0] * 3]}),
        "position names state 'tip', which a mapping gives",
    ),
    "Rayleigh damping of nothing": (lambda: system(rayleigh={"pull": 0.1}), r"rayleigh\['pull'\] must name one force"),
    "negative Rayleigh damping": (lambda: system(forces=pull(), rayleigh={"pull": -0.1}), r"rayleigh\['pull'\]"),
    "a function of an element that returns whole numbers": (
        lambda: body(forces={"count": Counting(("body", [0, 1]))}),
        "'count': Counting cannot be evaluated.*it returns int64, expected real numbers",
    ),
    "gravity of four dimensions": (lambda: system(gravity=[0.0] * 4), "gravity must be a vector of 1, 2 or 3"),
    "gravity not finite": (lambda: system(gravity=[0.0, 0.0, np.nan]), "gravity has values that are not finite"),
    "a node held twice by one constraint": (
        lambda: built(a=jm.constraint.Fixed(("body", [1, 1]))),
        "'a' names node 1 of state 'body'",
    ),
    "two constraints that disagree": (
        lambda: built(a=jm.constraint.Fixed(("body", [1])), b=moved([1, 2])),
        "'a' and 'b' disagree.*node 1",
    ),
    "oblique constraints": (
        lambda: built(
            a=jm.constraint.FixedPlane(("body", [1]), [1.0, 0, 0]), b=jm.constraint.FixedPlane(("body", [1]), [1.0, 1.0, 0])
        ),
        "'a' and 'b' restrict node 1 in oblique directions",
    ),
    "times that do not increase": (
        lambda: jm.constraint.PrescribedMotion(("body", [0]), CHAIN[:1], np.zeros((2, 3)), [1.0, 0.0]),
        "PrescribedMotion: times must be increasing",
    ),
    "no stiffness to integrate with": (
        lambda: jm.ImplicitEuler(jm.solver.MatrixFreeSystem(STATIC)),
        "ImplicitEuler needs a linear system with mass",
    ),
}


@pytest.mark.parametrize("name", WRONG_SCENES)
def test_wrong_scenes_are_refused_by_name(name):
    make, message = WRONG_SCENES[name]
    with pytest.raises(ValueError, match=message):
        make()


RAGGED = [[1.0, 2.0], [3.0]]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: jm.force.ConstantForce(("body", [0, 1]), RAGGED), "ConstantForce: force must be numbers in an array, got "),
        (lambda: system().at_rest({"body": RAGGED}), "at_rest: position of 'body' must be numbers in an array, got "),
    ],
    ids=["of a parameter", "of positions"],
)
def test_rows_of_unequal_length_are_shown_whole(make, message):
    with pytest.raises(TypeError, match=message + re.escape(str(RAGGED))):
        make()


class OfTwoNumbers(jm.force.AbstractEnergyForceField):
    on: jm.Stencils = jm.stencils()

    def element_energy(self, x):
        return x[:2]


@pytest.mark.parametrize("call", [jm.energy, jm.MatrixLinearSystem.build], ids=["energy", "build"])
def test_an_element_function_is_looked_at_though_its_state_is_of_another_scene(call):
    """`at_rest` looks at element functions; a state that was made for a scene without one comes past it."""
    state = system().at_rest({"body": CHAIN})
    with pytest.raises(ValueError, match=re.escape("'wrong': OfTwoNumbers returns shapes [(2,)], expected [()].")):
        call(system(forces={"wrong": OfTwoNumbers(("body", [0]))}), state)


@pytest.mark.parametrize("time", [0.5, 1, np.float32(0.5), np.int64(1)])
def test_a_time_that_is_no_array_is_told_what_it_must_be(time):
    scene = system()
    state = dataclasses.replace(scene.at_rest({"body": np.zeros((4, 3))}), time=time)
    with pytest.raises(
        TypeError, match=re.escape(f"time of the state must be an array, as jnp.asarray(0.5), got {time!r}.")
    ):
        jm.total_force(scene, state)


def implicit_step(scene, state):
    ok = jm.System(scene.dofs, forces=pull() | HELD, masses=scene.masses, gravity=[0.0, 0.0, -9.81])
    jm.ImplicitEuler(jm.MatrixLinearSystem.build(ok, state)).step(scene, state, None, 0.01)


def explicit_steps(scene, state):
    jm.simulate(scene, state, jm.integrator.RK4(), 0.01, 2)


@pytest.mark.parametrize("jitted", [False, True])
def test_a_leaf_put_past_the_constructor_with_another_number_of_elements_is_named(jitted):
    scene, rest = chain()
    changed = eqx.tree_at(lambda s: s.forces["springs"].stiffness, scene, jnp.ones(5))
    force = eqx.filter_jit(jm.total_force) if jitted else jm.total_force
    with pytest.raises(ValueError, match=r"Springs: stiffness has shape \(5,\), expected a leading axis of 3"):
        force(changed, rest)


HELD = {"springs": jm.force.AnchoredSprings(("body", [0, 1, 2, 3]), 10.0, CHAIN)}
OF_TWO = jnp.array([0.0, -1.0])  # in a scene of three dimensions


@pytest.mark.parametrize("call", [jm.total_force, implicit_step, explicit_steps], ids=lambda c: c.__name__)
@pytest.mark.parametrize(
    ("leaf", "value", "name"),
    [(lambda s: s.gravity, [0.0, 0.0, -9.81], "gravity"), (lambda s: s.rayleigh, {"mass": [0.1]}, "rayleigh['mass']")],
    ids=["gravity", "rayleigh"],
)
def test_a_list_put_past_the_constructor_is_named(call, leaf, value, name):
    mass = {"mass": jm.mass.UniformMass(("body", range(4)), 1.0)}
    scene = system(forces=pull() | HELD, masses=mass, rayleigh={"mass": 0.1}, gravity=[0.0, 0.0, -9.81])
    with pytest.raises(TypeError, match=re.escape(f"System: {name} must be an array, got [0.")):
        call(eqx.tree_at(leaf, scene, value), scene.at_rest({"body": CHAIN}))


@pytest.mark.parametrize(
    "call", [jm.total_force, jm.energy, jm.static_solve, implicit_step, explicit_steps], ids=lambda c: c.__name__
)
@pytest.mark.parametrize(
    ("leaf", "value", "said"),
    [
        (lambda s: s.forces["pull"].force, OF_TWO, "': force has shape (2,), expected (3,) components."),
        (lambda s: s.forces["pull"].force, OF_TWO[0], "ConstantForce: force has shape (), expected an array of 1 axis"),
        (lambda s: s.forces["springs"].anchor, CHAIN[:, :1], "': anchor has shape (4, 1), expected (e, 3)."),
        (lambda s: s.gravity, OF_TWO, "System: gravity has 2 components, which no mass feels"),
        (lambda s: s.gravity, OF_TWO[0], "System: gravity must be a vector of 1, 2 or 3 components, got shape ()."),
    ],
    ids=["force of two", "one number", "anchor of one", "gravity of two", "gravity of one number"],
)
def test_a_vector_put_past_the_constructor_is_of_the_size_of_its_nodes(call, leaf, value, said):
    """`eqx.tree_at` looks at nothing, and a system may be given a state that it has not made."""
    mass = {"mass": jm.mass.UniformMass(("body", range(4)), 1.0)}
    scene = system(forces=pull() | HELD, masses=mass, gravity=[0.0, 0.0, -9.81])
    with pytest.raises(ValueError, match=re.escape(said)):
        call(eqx.tree_at(leaf, scene, value), scene.at_rest({"body": CHAIN}))


def test_an_offset_put_past_the_constructor_is_of_the_size_of_its_points():
    glue = {"glue": jm.constraint.Attachment(("body", [0]), offset=[0.0, 0.0, 0.0])}
    scene = system(forces=HELD, constraints=glue)
    other = eqx.tree_at(lambda s: s.constraints["glue"].offset, scene, jnp.ones(1))
    with pytest.raises(
        ValueError, match=re.escape("'glue': Attachment: offset has shape (1,), but the points have 3 components")
    ):
        jm.total_force(other, scene.at_rest({"body": CHAIN}))


def test_a_mask_is_told_what_makes_numbers_of_it():
    with pytest.raises(TypeError, match="must be whole numbers, got dtype bool; np.flatnonzero makes numbers of a mask"):
        jm.constraint.Fixed(("body", CHAIN[:, 0] == 0.0))


def test_a_trajectory_of_another_mesh_is_refused_by_sizes():
    """As a step by itself is: not by how many contributions were counted on."""
    scene, rest = chain()
    longer = np.arange(5)
    forces = {"springs": jm.force.Springs((("chain", longer[:-1]), ("chain", longer[1:])), 10.0, 0.0)}
    masses = {"mass": jm.mass.UniformMass(("chain", longer), 1.0)}
    other = jm.System(
        {"chain": jm.Vec3()}, forces=forces | {"pull": scene.forces["pull"]}, masses=masses, constraints=scene.constraints
    )
    start = other.at_rest({"chain": np.pad(longer[:, None], ((0, 0), (0, 2))).astype(float)})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(scene, rest))
    said = "was built for positions of shapes {'chain': (4, 3)}, and is given {'chain': (5, 3)}: build it again."
    with pytest.raises(ValueError, match=re.escape(said)):
        jm.simulate(other, start, integrator, 0.01, 2)


@pytest.mark.parametrize(("dof", "gravity"), [(jm.Vec3(), 2), (jm.Vec2(), 3), (jm.Rigid3(), 2), (jm.Vec1(), 3)])
def test_gravity_that_no_mass_feels(dof, gravity):
    masses = {
        "lump": jm.mass.RigidMass(("a", [0]), 1.0, np.eye(3)) if dof == jm.Rigid3() else jm.mass.UniformMass(("a", [0]), 1.0)
    }
    said = f"{gravity} components, which no mass feels: they act on {{'lump': {{'a': '{type(dof).__name__}'}}}}"
    with pytest.raises(ValueError, match=said):
        jm.System({"a": dof}, masses=masses, gravity=np.ones(gravity))
    # It is felt in states of its dimension, whatever stands beside them.
    both = {"lump": jm.mass.UniformMass(("x", [0]), 1.0), "angle": jm.mass.UniformMass(("q", [0]), 1.0)}
    jm.System({"x": jm.Vec3(), "q": jm.Vec1()}, masses=both, gravity=np.ones(3))
    jm.System({"a": dof}, gravity=np.ones(gravity))  # it may wait for a mass


def test_a_class_or_a_result_in_the_place_of_an_object_is_told_what_was_meant():
    """They were refused with what they are, and no word on what to give."""
    spring = jm.force.AnchoredSprings(("p", [0]), 1.0, anchor=[[0.0]])
    scene = jm.System({"p": jm.Vec1()}, forces={"spring": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
    start, scheme = scene.at_rest({"p": [[1.0]]}), jm.integrator.VelocityVerlet()
    run = jm.simulate(scene, start, scheme, 0.1, 2)
    for result, part in ((run, "last"), (jm.static_solve(scene, start), "state")):
        with pytest.raises(TypeError, match=rf"(?s)state must be of type State, got .*; give its \.{part}\.$"):
            jm.energy(scene, result)
        assert jm.energy(scene, getattr(result, part)).shape == ()
    with pytest.raises(TypeError, match=r"integrator must be of type .*; make one: VelocityVerlet\(\)\.$"):
        jm.simulate(scene, start, jm.integrator.VelocityVerlet, 0.1, 2)
    with pytest.raises(TypeError, match=r"integrator must be of type .*; make one: ImplicitEuler\(\.\.\.\)\.$"):
        jm.simulate(scene, start, jm.ImplicitEuler, 0.1, 2)
    with pytest.raises(TypeError, match=r"dofs\['p'\] must be an AbstractDof, got .*; make one: Vec1\(\)\.$"):
        jm.System({"p": jm.Vec1})
    with pytest.raises(TypeError, match=r"integrator must be of type AbstractIntegrator, got <class '.*Vec1'>\.$"):
        jm.simulate(scene, start, jm.Vec1, 0.1, 2)


def test_a_path_in_the_place_of_a_state_is_told_how_to_give_one():
    def under(load):
        spring = jm.force.AnchoredSprings(("p", [0]), 1.0, anchor=[[0.0]])
        pull = jm.force.ConstantForce(("p", [0]), [load])
        return jm.System({"p": jm.Vec1()}, forces={"spring": spring, "pull": pull})

    path = jm.follow_path(under, under(0.0).at_rest({"p": [[0.0]]}), step=1.0, steps=2)
    with pytest.raises(TypeError, match=r"(?s)got Path.*; give its \.at\(number\)\.$"):
        jm.energy(under(0.0), path)
    assert jm.energy(under(0.0), path.at(1)).shape == ()


@pytest.mark.parametrize("number", [2**32 + 1, 2**31, -(2**32) + 1, 2**63 - 1])
@pytest.mark.parametrize("of", [list, np.array, jnp.array])
def test_node_numbers_do_not_wrap(number, of):
    """A cast to 32 bits would make node 1 of 2^32 + 1."""
    with pytest.raises(ValueError, match=f"Stencil: {number} in nodes does not fit 32 bits"):
        jm.Stencil("a", of([0, number]))
    with pytest.raises(ValueError, match=f"Mesh: {number} in cells does not fit 32 bits"):
        jm.mesh.Mesh(np.eye(3), of([[0, number]]), "edge")
    with pytest.raises(ValueError, match=f"TopologicalMapping: {number} in parents and nodes does not fit 32 bits"):
        jm.mesh.TopologicalMapping(jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0)), of([[0], [number]]), range(4), 2)


CIRCLE = jm.force.Section.circle(0.1, 1e3, 0.3)
SQUARE = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0))
MADE_ON_THE_HOST = {
    "Beam.from_mesh": lambda x: jm.force.Beam.from_mesh("f", jm.mesh.Mesh(x, [[0, 1], [1, 2], [2, 3]], "edge"), CIRCLE),
    "ElasticRod.chain": lambda x: jm.force.ElasticRod.chain("x", "angle", x, CIRCLE),
    "frames_along": jm.mesh.frames_along,
    "Shell.from_mesh": lambda x: jm.force.Shell.from_mesh("f", jm.mesh.Mesh(x, [[0, 1, 2]], "triangle"), 1.0, 0.3, 0.1),
    "QuadShell.from_mesh": lambda x: jm.force.QuadShell.from_mesh(
        "f", jm.mesh.Mesh(x, [[0, 1, 2, 3]], "quad"), 1.0, 0.3, 0.1
    ),
    "BarycentricMapping.from_mesh": lambda x: jm.mapping.BarycentricMapping.from_mesh(
        "x", "y", jm.mesh.Mesh(x, [[0, 1, 2]], "triangle"), x[:1]
    ),
    "periodic_pairs": lambda x: jm.mesh.periodic_pairs(jm.mesh.Mesh(x[:, :2], SQUARE.cells, "triangle"), [1.0, 0.0]),
}


@pytest.mark.parametrize("name", MADE_ON_THE_HOST)
def test_what_is_made_of_values_on_the_host_is_told_to_be_made_outside_of_traces(name):
    with pytest.raises(TypeError, match=f"{name}: .* depend on values that are being traced: call it outside jit"):
        jax.eval_shape(lambda x: jax.tree.leaves(MADE_ON_THE_HOST[name](x))[0], jnp.asarray(CHAIN))


def test_the_pattern_is_made_outside_jit():
    scene, rest = chain()
    with pytest.raises(ValueError, match="call it outside jit"):
        jax.jit(lambda x: jm.MatrixLinearSystem.build(scene, eqx.tree_at(lambda s: s.position, rest, x)).sizes)(
            rest.position
        )


@pytest.mark.parametrize("dt", [0.0, -0.1, np.nan])
def test_time_steps_are_positive(dt):
    scene, rest = chain()
    with pytest.raises(ValueError, match="dt"):
        jm.simulate(scene, rest, jm.ImplicitEuler(jm.MatrixLinearSystem.build(scene, rest)), dt, 1)


# --- failed computation --------------------------------------------------------------------------------------------


def floating(nodes):
    """A chain that is held and, beside it, a rod of springs that is not."""
    x = CHAIN[:1] + np.arange(nodes)[:, None] * [0.0, 1.0, 0.0]
    links = jm.force.Springs((("rod", range(nodes - 1)), ("rod", range(1, nodes))), 10.0, 0.0)
    held, rest = chain()
    scene = jm.System(
        {"chain": jm.Vec3(), "rod": jm.Vec3()}, forces=held.forces | {"links": links}, constraints=held.constraints
    )
    return scene, scene.at_rest({"chain": CHAIN, "rod": x})


@pytest.mark.covering(2)
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("solver", [jm.solver.Dense(), jm.solver.SparseDirect()], ids=["dense", "sparse"])
@pytest.mark.parametrize("which", ["alone", "one of two"])
def test_a_floating_body_is_named(which, solver, jitted):
    if which == "alone":
        (scene, rest), name = chain(constraints={}), "chain"
    else:
        (scene, rest), name = floating(3), "rod"
    linear_system = jm.MatrixLinearSystem.build(scene, rest, STATIC)
    solve = eqx.filter_jit(jm.static_solve) if jitted else jm.static_solve
    with pytest.raises(Exception, match=f"singular: state '{name}' can move freely") as caught:
        solve(scene, rest, linear_system, solver)
    if not jitted:
        assert isinstance(caught.value, jm.FailedComputation)
        assert caught.value.result == jm.RESULTS.singular


@pytest.fixture(scope="module")
def cube():
    """One neo-Hookean tetrahedron held at three nodes, the fourth pushed; `push(force)` gives the scene."""
    points = np.vstack([np.zeros(3), np.eye(3)])
    element = jm.force.TetrahedronFEM(("cell", [[0, 1, 2, 3]]), points, jm.material.NeoHookean(100.0, 0.3))
    scene = jm.System(
        {"cell": jm.Vec3()},
        forces={"elastic": element, "push": jm.force.ConstantForce(("cell", [3]), [0.0, 0.0, 0.0])},
        constraints={"base": jm.constraint.Fixed(("cell", [0, 1, 2]))},
    )
    rest = scene.at_rest({"cell": points})
    linear_system = jm.MatrixLinearSystem.build(scene, rest, STATIC)

    def push(force):
        return eqx.tree_at(lambda s: s.forces["push"].force, scene, jnp.asarray(force, float))

    return push, rest, linear_system


def test_newton_that_does_not_converge_shows_its_history(cube):
    push, rest, linear_system = cube
    scene = push([30.0, 30.0, 20.0])
    solution = jm.static_solve(scene, rest, linear_system, max_steps=2, rtol=1e-12, throw=False)
    assert solution.info.result == jm.RESULTS.not_converged
    with pytest.raises(jm.FailedComputation, match="did not converge") as caught:
        jm.static_solve(scene, rest, linear_system, max_steps=2, rtol=1e-12)
    history = [r for r in np.asarray(solution.info.residuals).ravel() if r >= 0]
    assert len(history) == 3
    for residual in history:
        assert f"{residual:.3e}" in str(caught.value)


def test_an_inverted_element_under_a_logarithm(cube):
    push, rest, linear_system = cube
    inverted = eqx.tree_at(lambda s: s.position["cell"], rest, rest.position["cell"].at[3, 2].set(-0.5))
    with pytest.raises(jm.FailedComputation, match="inverted.*StableNeoHookean") as caught:
        jm.static_solve(push([0.0, 0.0, 0.0]), inverted, linear_system)
    assert caught.value.result == jm.RESULTS.inverted_element
    # Full steps run through the base; the line search shortens them
    assert (
        jm.static_solve(push([0.0, 0.0, -40.0]), rest, linear_system, line_search="none", throw=False).info.result
        == jm.RESULTS.inverted_element
    )
    assert jm.static_solve(push([0.0, 0.0, -40.0]), rest, linear_system).info.result == jm.RESULTS.successful


def test_numbers_that_are_not_finite_are_reported(cube):
    push, rest, linear_system = cube
    lost = eqx.tree_at(lambda s: s.position["cell"], rest, rest.position["cell"].at[2].set(jnp.nan))
    with pytest.raises(ValueError, match="position of 'cell': node 2 is not finite"):
        jm.static_solve(push([0.0, 0.0, 1.0]), lost, linear_system)
    for young in (jnp.nan, jnp.inf):
        scene = eqx.tree_at(lambda s: s.forces["elastic"].material.young, push([0.0, 0.0, 1.0]), jnp.asarray(young))
        with pytest.raises(jm.FailedComputation) as caught:
            jm.static_solve(scene, rest, linear_system)
        assert caught.value.result in (jm.RESULTS.not_finite, jm.RESULTS.nonfinite_input)


def test_pcg_refuses_what_it_cannot_solve():
    scene, rest = chain()
    # A follower pressure has an unsymmetric tangent
    unsymmetric = eqx.tree_at(
        lambda s: s.forces, scene, {**scene.forces, "gas": jm.force.Pressure(("chain", [[1, 2, 3]]), 1.0)}
    )
    linear_system = jm.MatrixLinearSystem.build(unsymmetric, rest, STATIC)
    with pytest.raises(ValueError, match="PCG needs a symmetric operator.*SparseDirect"):
        jm.static_solve(unsymmetric, rest, linear_system, jm.solver.PCG())

    pushed = jm.force.Springs((("chain", [0, 1, 2]), ("chain", [1, 2, 3])), 10.0, 3.0)  # compressed: it buckles sideways
    scene = eqx.tree_at(lambda s: s.forces["springs"], scene, pushed)
    scene = eqx.tree_at(lambda s: s.forces["pull"].force, scene, jnp.array([0.0, 2.0, 0.0]))
    symmetric = jm.Terms(mass=False, damping=False, symmetric=True)
    linear_system = jm.MatrixLinearSystem.build(scene, rest, symmetric)
    with pytest.raises(jm.FailedComputation) as caught:
        jm.static_solve(scene, rest, linear_system, jm.solver.PCG())
    assert caught.value.result == jm.RESULTS.indefinite


@pytest.mark.slow_cases("False-False", "True-True", "False-True")
@pytest.mark.parametrize(("assembled", "doubles"), ((True, True), (False, True), (False, False)))
def test_single_precision_ends_at_its_floor_and_says_so(assembled, doubles):
    """Without a matrix too, where Newton's method took all its steps; and where JAX has single precision alone."""
    with jax.enable_x64(doubles):
        scene, rest = chain(np.float32)
        scene = jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, scene)
        made = jm.MatrixLinearSystem.build(scene, rest, STATIC)
        linear_system = made if assembled else jm.solver.MatrixFreeSystem(STATIC)
        solution = jm.static_solve(scene, rest, linear_system)
        assert solution.position["chain"].dtype == jnp.float32
        with pytest.raises(jm.FailedComputation, match="rounding floor") as caught:
            jm.static_solve(scene, rest, linear_system, rtol=1e-12, load_steps=2)
        info = jm.static_solve(scene, rest, linear_system, rtol=1e-12, load_steps=2, throw=False).info
    assert caught.value.result == jm.RESULTS.residual_floor
    assert f"{float(info.floor):.1e}" in str(caught.value) and info.residual > 0 and info.floor > 0  # of the first load step
    assert int(info.iterations) < 20


def test_without_throw_the_result_is_returned():
    scene, rest = chain(constraints={})
    solution = jm.static_solve(scene, rest, throw=False)
    assert solution.info.result == jm.RESULTS.singular
    massless, rest = chain(masses={}, constraints={}, forces=chain()[0].forces | {})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(massless, rest))
    _, _, info = integrator.step(massless, rest, None, 0.1, throw=False)
    assert info.result == jm.RESULTS.singular
    with pytest.raises(jm.FailedComputation, match="ImplicitEuler: the matrix is singular: state 'chain'"):
        integrator.step(massless, rest, None, 0.1)


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_simulate_names_the_step_that_failed(cube, jitted):
    """A tetrahedron without damping, its free node shot through the base: a step of Euler ends on the other side."""
    push, rest, _ = cube
    scene = eqx.tree_at(
        lambda s: s.masses, push([0.0, 0.0, 0.0]), {"mass": jm.mass.UniformMass(("cell", [0, 1, 2, 3]), 1e3)}
    )
    shot = eqx.tree_at(lambda s: s.velocity["cell"], rest, jnp.zeros((4, 3)).at[3, 2].set(-4.0))
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(scene, rest))
    run = eqx.filter_jit(jm.simulate) if jitted else jm.simulate
    # 0.1 s at 4 m/s are 0.4 m of the 1 m there are: steps 0 and 1 are fine, step 2 is not
    expected = "simulate, step 2: 'elastic': element 0 is inverted"
    with pytest.raises(Exception, match=expected) as caught:
        run(scene, shot, integrator, 0.1, 5)
    if not jitted:
        assert isinstance(caught.value, jm.FailedComputation)
    trajectory = jm.simulate(scene, shot, integrator, 0.1, 5, throw=False)
    results = trajectory.info.result
    assert list(np.asarray(results == jm.RESULTS.successful)[:3]) == [True, True, False]


def test_results_give_advice():
    for result in (jm.RESULTS.not_converged, jm.RESULTS.not_finite, jm.RESULTS.inverted_element, jm.RESULTS.residual_floor):
        assert len(jm.RESULTS[result]) > 60
    assert isinstance(jm.RESULTS.promote(lx.RESULTS.singular), type(jm.RESULTS.singular))
    for name in ("successful", "singular", "stagnation", "nonfinite_input"):
        assert bool(jm.RESULTS.promote(getattr(lx.RESULTS, name)) == getattr(jm.RESULTS, name)), name
    with pytest.raises(ValueError, match="promote"):
        jm.RESULTS.promote(3)
