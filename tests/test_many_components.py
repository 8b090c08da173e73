"""Scenes of many components: what is asked of each once is not asked again of others of the same shape."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._constraint.joint import hinge


def chain(ends):
    forces = {f"s{i}": jm.force.Springs((("p", [i]), ("p", [e])), 10.0, 1.0) for i, e in enumerate(ends)}
    return jm.System({"p": jm.Vec3()}, forces=forces, masses={"m": jm.mass.UniformMass(("p", range(4)), 1.0)})


def test_components_that_differ_in_numbers_are_traced_once(monkeypatch):
    """In one scene, and in another."""
    shape, asked = jax.eval_shape, []
    monkeypatch.setattr(jax, "eval_shape", lambda f, *args: asked.append(f) or shape(f, *args))

    def traces(*scenes):
        """Where scenes begin that have so many forces of a new class."""

        class Own(jm.force.AbstractEnergyForceField):
            on: tuple = jm.stencils()
            k: jax.Array = jm.parameter()

            def element_energy(self, x):
                return 0.5 * self.k * x @ x

        before = len(asked)
        for count in scenes:
            forces = {f"own {i}": Own(("p", [i]), 1.0 + i) for i in range(count)}
            jm.System({"p": jm.Vec3()}, forces=forces).at_rest({"p": np.zeros((4, 3))})
        return len(asked) - before

    assert traces(3) == traces(1, 4) == traces(1) > 0


class Odd(jm.force.AbstractForceField):
    """A force of the wrong shape."""

    on: tuple = jm.stencils()
    k: jax.Array = jm.parameter()

    def element_force(self, x, v):
        return (self.k * x[0][:2],)


def test_a_wrong_one_among_many_is_named():
    forces = {"a": jm.force.ConstantForce(("p", [0]), [1.0, 0, 0]), "odd": Odd(("p", [0]), 1.0), "z": Odd(("p", [1]), 1.0)}
    scene = jm.System({"p": jm.Vec3()}, forces=forces)
    with pytest.raises(ValueError, match="'odd': Odd returns shapes"):
        scene.at_rest({"p": [[0.0, 0, 0], [1.0, 0, 0]]})


def hinges(names):
    """Three bars in a row, held to the world and to each other; hinges are one component or three."""
    ends = {n: jm.constraint.frame([x, 0.0, 0.0], axis=[0.0, 1.0, 0.0]) for n, x in (("right", 0.5), ("left", -0.5))}
    held = {"wall": jm.constraint.HingeJoint(("b", [0]), jm.constraint.frame([0.0] * 3, [0.0, 1.0, 0.0]), ends["left"])}
    for k, pairs in enumerate(names):
        a, b = zip(*pairs, strict=True)
        held[f"h{k}"] = jm.constraint.HingeJoint((("b", a), ("b", b)), ends["right"], ends["left"])
    bars = jm.mass.RigidMass(("b", range(4)), 1.0, np.diag([0.01, 0.1, 0.1]))
    return jm.System({"b": jm.Rigid3()}, masses={"bars": bars}, constraints=held, gravity=(0.0, 0.0, -9.81))


@pytest.mark.slow
def test_a_component_for_each_joint_is_traced_as_one_for_all(monkeypatch):
    """Functions of an element are not traced more often, and a step leads to the same place with the same multipliers."""
    traced = []
    tilt = hinge.tilt
    monkeypatch.setattr(hinge, "tilt", lambda q: traced.append(q) or tilt(q))
    row = [(0, 1), (1, 2), (2, 3)]
    ends, counts = [], []
    for names in ([row], [[pair] for pair in row]):
        scene = hinges(names)
        start = scene.at_rest({"b": [[i + 0.5, 0, 0, 0, 0, 0, 1] for i in range(4)]})
        euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(scene, start))
        traced.clear()
        ends.append(jax.jit(lambda s, e=euler, scene=scene: e.step(scene, s, None, 0.01, throw=False)[0])(start))
        counts.append(len(traced))
    assert 0 < counts[0] >= counts[1]
    together, apart = (dict(end.position) for end in ends)
    assert_allclose(together["b"], apart["b"], rtol=0, atol=ROUND_OFF)
    assert_allclose(together["h0"], np.concatenate([apart[f"h{k}"] for k in range(3)]), rtol=ROUND_OFF, atol=ROUND_OFF)


class Shared(jm.force.AbstractForceField):
    """A load shared by as many points as there are."""

    on: tuple = jm.stencils()
    total: jax.Array = jm.parameter()

    def element_force(self, x, v):
        return (jnp.zeros(3).at[0].set(self.total / self.on[0].elements),)


def test_what_depends_on_the_number_of_elements_is_that_of_each():
    """Two cavities, and two loads shared by their points: of several that are alike, each was given the number of all."""
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
    faces, box = np.asarray(mesh.boundary().cells), np.asarray(mesh.points)
    cavities = {n: jm.constraint.CavityVolume(("p", faces + 8 * i), 1.0 + i) for i, n in enumerate(("low", "up"))}
    loads = {f"load{i}": Shared(("p", on), 6.0) for i, on in enumerate(([0, 1], [8, 9, 10]))}
    scene = jm.System({"p": jm.Vec3()}, forces=loads, constraints=cavities)
    start = scene.at_rest({"p": np.concatenate([box, 2.0 * box])})
    held = jax.jit(jm.constraint.violations)(scene, start)
    assert_allclose([held["low"][0, 0], held["up"][0, 0]], [0.0, 2.0 - 8.0], atol=ROUND_OFF)
    driven = {n: jm.constraint.Follow(c, values=[[0.0], [0.5]], times=[0.0, 1.0]) for n, c in cavities.items()}
    driven = jm.System({"p": jm.Vec3()}, constraints=driven)
    later = driven.at_rest({"p": np.concatenate([box, 2.0 * box])}, time=0.5)
    held = jax.jit(jm.constraint.violations)(driven, later)
    assert_allclose([held["low"][0, 0], held["up"][0, 0]], [-0.25, -6.25], atol=ROUND_OFF)
    with pytest.raises(
        ValueError, match=r"CavityVolume: multiplier names nodes \[0, 1\], but its elements are the terms of one"
    ):
        jm.constraint.CavityVolume(("p", faces), 1.0, multiplier=("q", [0] * 6 + [1] * 6))
    force = jax.jit(jm.total_force)(scene, start)["p"][:, 0]
    assert_allclose(force[np.array([0, 1, 8, 9, 10])], [3.0, 3.0, 2.0, 2.0, 2.0], rtol=ROUND_OFF)


@pytest.mark.slow
def test_those_that_are_not_alike_are_told_apart():
    """Numbers of the element, of the nodes and of all; options; and what acts on states of another kind."""
    p = [[0.0, 0.0], [1.0, 0.2], [2.0, -0.3]]
    forces = {
        "a": jm.force.Springs((("p", [0]), ("p", [1])), 10.0, 0.5),
        "b": jm.force.Springs((("p", [1]), ("p", [2])), [20.0], 0.7),
        "c": jm.force.Springs((("p", [2]), ("q", [0])), 30.0, 0.9),
        "anchor": jm.force.AnchoredSprings(("p", [0]), 3.0, anchor=[[0.3, 0.1]]),
        "other": jm.force.AnchoredSprings(("q", [0]), 4.0, anchor=[[0.2, 0.7]]),
    }
    scene = jm.System({"p": jm.Vec2(), "q": jm.Vec2()}, forces=forces)
    state = scene.at_rest({"p": p, "q": [[0.5, 2.0]]})
    each = [jm.System(scene.dofs, forces={n: f}) for n, f in forces.items()]
    total = jm.total_force(scene, state)
    for name in total:
        assert_allclose(total[name], sum(jm.total_force(one, state)[name] for one in each), rtol=ROUND_OFF, atol=ROUND_OFF)
    assert_allclose(jm.energy(scene, state), sum(jm.energy(one, state) for one in each), rtol=ROUND_OFF)


class SharedByNodes(Shared):
    """The same, told by the nodes of its stencil how many there are."""

    def element_force(self, x, v):
        return (jnp.zeros(3).at[0].set(self.total / self.on[0].nodes.shape[0]),)


class Geared(jm.component.AbstractDof):
    """A coordinate that its velocity moves by a number of its own."""

    ratio: jax.Array
    coord_size, deriv_size, space_size, is_vector_space = 1, 1, 0, False

    def retract(self, x, d):
        return x + self.ratio * d

    def local(self, x0, x1):
        return (x1 - x0) / self.ratio


class Held(jm.force.AbstractEnergyForceField):
    """`k/2 x.x` [J]."""

    on: tuple = jm.stencils()
    k: jax.Array = jm.parameter()

    def element_energy(self, x):
        return 0.5 * self.k * x @ x


def test_what_is_read_of_nodes_and_of_states_is_that_of_each():
    """Of several that are alike each read the nodes of all, and the numbers of the state of the first."""
    loads = {f"load{i}": SharedByNodes(("p", on), 6.0) for i, on in enumerate(([0, 1], [2, 3, 4]))}
    dofs = {"p": jm.Vec3(), "q": Geared(jnp.asarray(2.0)), "r": Geared(jnp.asarray(5.0))}
    scene = jm.System(dofs, forces=loads | {n: Held((n, [0]), 10.0) for n in "qr"})
    state = scene.at_rest({"p": np.zeros((5, 3)), "q": [[1.0]], "r": [[1.0]]})
    force = jax.jit(jm.total_force)(scene, state)
    assert_allclose(force["p"][:, 0], [3.0, 3.0, 2.0, 2.0, 2.0], rtol=ROUND_OFF)
    assert_allclose([force["q"][0, 0], force["r"][0, 0]], [-20.0, -50.0], rtol=ROUND_OFF)
    matrices = jm.MatrixLinearSystem.build(scene, state, jm.Terms(mass=False, damping=False))
    K = matrices.assemble(scene, state, jm.Factors(0.0, 0.0, 1.0, 0.0))
    assert_allclose([K[n, n].to_dense()[0, 0] for n in "qr"], [40.0, 250.0], rtol=ROUND_OFF)


class Netted(jm.force.AbstractEnergyForceField):
    """A law of many numbers that all elements share."""

    on: tuple = jm.stencils()
    weights: jax.Array = jm.parameter(ndim=2)

    def element_energy(self, x):
        return jnp.sum(jnp.tanh(self.weights @ x))


def test_what_all_elements_share_is_not_copied_for_each_if_it_is_large():
    weights = np.random.default_rng(0).normal(size=(40, 3))
    forces = {n: Netted(("p", np.arange(k, k + 40)), weights + k) for k, n in enumerate("ab")}
    scene = jm.System({"p": jm.Vec3()}, forces=forces)
    state = scene.at_rest({"p": np.random.default_rng(1).normal(size=(41, 3))})
    text = str(jax.make_jaxpr(lambda scene: jm.energy(scene, state))(scene))
    assert "f64[40,40,3]" not in text and "f64[80,40,3]" not in text
    alone = (jm.energy(jm.System(scene.dofs, forces={n: f}), state) for n, f in forces.items())
    assert_allclose(jm.energy(scene, state), sum(alone), rtol=ROUND_OFF)


@pytest.mark.slow
def test_few_elements_of_several_components_are_compiled_once_however_many_each_has():
    """Of the stiffness too, whose sums a component of more elements than a kernel takes has a plan of its own for."""
    edges = [[np.arange(n, n + m), np.arange(n + 1, n + m + 1)] for n, m in ((0, 12), (12, 9), (21, 3))]
    section = jm.force.Section.circle(0.1, 1e6, 0.3)
    line = np.random.default_rng(0).normal(size=(25, 3)).cumsum(axis=0)
    rest = jm.mesh.frames_along(line)
    beams = {f"b{k}": jm.force.Beam(("f", np.stack(ends, 1)), rest, section) for k, ends in enumerate(edges)}
    whole = {"whole": jm.force.Beam(("f", np.concatenate([np.stack(e, 1) for e in edges])), rest, section)}
    matrices, lengths = [], []
    for forces in (beams, whole):
        scene = jm.System({"f": jm.Rigid3()}, forces=forces)
        state = scene.at_rest({"f": rest})
        state = eqx.tree_at(lambda s: s.position["f"], state, state.position["f"].at[:, :3].mul(1.1))
        built = jm.MatrixLinearSystem.build(scene, state, jm.Terms(mass=False, damping=False))
        program = jax.jit(lambda built, scene, state: built.linearized(scene, state, jm.Factors.only("stiffness")))
        lowered = program.lower(built, scene, state)
        lengths.append(lowered.as_text().count("\n"))
        K, force = lowered.compile()(built, scene, state)
        matrices.append((K.to_dense(), force["f"]))
    assert lengths[0] < 1.3 * lengths[1]
    for of_each, of_all in zip(*matrices, strict=True):
        assert_allclose(of_each, of_all, rtol=0, atol=ROUND_OFF * np.abs(of_all).max())
