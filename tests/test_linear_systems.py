"""Linear systems: several matrices in one pass, patterns kept and shared, matrices kept from step to step."""

import functools
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
import scenes
from jax.extend.core import ClosedJaxpr, Jaxpr
from own_components import Bending, Swirl
from tolerances import ITERATIVE, ROUND_OFF, TWO_MODES

import jaxmech as jm
from jaxmech._linear_system import base
from jaxmech._linear_system.rotations import nodal_rotations
from jaxmech._model.subsystem import weightless

PARTS = ("mass", "damping", "stiffness", "rayleigh", "geometric")
NUMBERS = dict(zip(PARTS, (0.7, 0.31, 1.3, 0.9, 0.4), strict=True))
FACTORS = jm.Factors(**NUMBERS)
STATICS = jm.Terms(mass=False, damping=False)
ALL = {"A": jm.Terms(), **{part: jm.Factors.only(part) for part in PARTS}}


def close(a, b, tolerance=ROUND_OFF):
    a, b = np.asarray(a), np.asarray(b)
    scale = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    assert np.isfinite(scale)
    assert np.abs(a - b).max(initial=0) <= tolerance * scale, (np.abs(a - b).max() / scale, scale)


class Link(jm.force.AbstractEnergyForceField):
    """A spring that cannot be damped, and so has a symmetric matrix for certain."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jax.Array = jm.parameter()  # [N/m]
    rest_length: jax.Array = jm.parameter()  # [m]

    def element_energy(self, a, b):
        return 0.5 * self.stiffness * (jnp.sqrt((b - a) @ (b - a)) - self.rest_length) ** 2


def chain(nodes=5, name="chain", stiffness=40.0, links=None, **changes):
    """Springs in a row, held at one end, heavy."""
    a = np.arange(nodes - 1) if links is None else np.asarray(links)[:, 0]
    b = a + 1 if links is None else np.asarray(links)[:, 1]
    parts = {
        "forces": {"links": Link(((name, a), (name, b)), stiffness, 0.8)},
        "masses": {"mass": jm.mass.UniformMass((name, np.arange(nodes)), 0.5)},
        "constraints": {"hook": jm.constraint.Fixed((name, [0]))},
        "rayleigh": {"links": 0.02, "mass": 0.1},
        "gravity": (0.0, 0.0, -9.81),
    }
    system = jm.System({name: jm.Vec3()}, **(parts | changes))
    points = np.arange(nodes)[:, None] * np.array([1.0, 0.2, 0.1]) + 0.05 * np.sin(np.arange(3 * nodes)).reshape(nodes, 3)
    return system, system.at_rest({name: points})


def thinned(*names, slow):
    """A test of some scenes, of which most take long to trace."""
    return pytest.mark.parametrize("name", [*names, *(pytest.param(n, marks=pytest.mark.slow) for n in slow)])


# --- several matrices in one pass ------------------------------------------------------


@functools.cache
def on_frames():
    """The scene with everything: drag on points of turning frames, Rayleigh damping; and its five matrices."""
    scene = scenes.build("points_on_frames")
    linear_system = jm.MatrixLinearSystem.build(scene.system, scene.state)
    one = jm.Factors(**{part: jnp.asarray([float(p == part) for p in PARTS]) for part in PARTS})
    each = jax.jit(lambda ls, system, state, f: jax.vmap(lambda f: ls.unconstrained(system, state, f).to_dense())(f))
    matrices = np.asarray(each(linear_system, scene.system, scene.state, one))
    assert all(np.abs(A).max() > 0 for A in matrices)
    return scene.system, scene.state, linear_system, dict(zip(PARTS, matrices, strict=True))


@pytest.mark.slow
def test_matrices_of_one_pass_are_those_made_alone():
    system, state, alone, expected = on_frames()
    composite = jm.solver.CompositeLinearSystem.build(system, state, ALL, shared=True)
    matrices = jax.jit(lambda c, *a: c.matrices(*a))(composite, system, state, FACTORS)
    assert sorted(matrices) == sorted(ALL)
    for part in PARTS:
        close(matrices[part].to_dense(), expected[part])
    # One pattern: the sum is one of arrays.
    total = functools.reduce(lambda a, b: a.plus(b), (matrices[part].scaled(NUMBERS[part]) for part in PARTS))
    close(total.to_dense(), sum(NUMBERS[part] * expected[part] for part in PARTS))
    close(matrices["A"].to_dense(), composite.constrain(system, total).to_dense())


@thinned("springs", "pressed_tetrahedra", slow=("points_on_frames", "embedded_points", "hexahedra"))
def test_a_matrix_comes_with_the_force(name):
    """What is evaluated in one pass is what is evaluated apart."""
    scene = scenes.build(name)
    linear_system = jm.MatrixLinearSystem.build(scene.system, scene.state)
    apart = jax.jit(lambda ls, *a: (ls.unconstrained(*a), jm.total_force(*a[:2])))
    together = jax.jit(lambda ls, *a: ls.linearized(*a))
    expected, found = (f(linear_system, scene.system, scene.state, FACTORS) for f in (apart, together))
    close(found[0].to_dense(), expected[0].to_dense())
    assert sorted(found[1]) == sorted(expected[1])
    for state, force in expected[1].items():
        close(found[1][state], force)


@thinned("springs", "frames_in_space", slow=("points_on_frames", "embedded_points", "tetrahedra"))
def test_momentum_and_weights_are_those_of_the_scene(name):
    """By what is kept of the masses, where they are."""
    scene = scenes.build(name)
    system, state = scene.system, scene.state
    fresh = jm.MatrixLinearSystem.build(system, state)
    expected, light = jax.jit(lambda s, x: (jm.mass.momentum(s, x), jm.total_force(weightless(s), x)))(system, state)
    for linear_system in (fresh, fresh.using(fresh.init(system, state))):
        found, force = jax.jit(lambda ls, s, x: (ls.momentum(s, x, x.velocity), ls.linearized(s, x, weights=False)[1]))(
            linear_system, system, state
        )
        for s, p in expected.items():
            close(found[s], p)
            close(force[s], light[s])


def test_kept_masses_are_read_where_the_pattern_is_theirs(monkeypatch):
    """And where it is not (a mass on some nodes, a pattern that is shared) elements are asked."""
    asked = []
    original = base.momentum
    monkeypatch.setattr(base, "momentum", lambda *a: asked.append(1) or original(*a))

    def elements_asked(made, **terms):
        mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0))
        elastic = jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.NeoHookean(1e3, 0.3))
        system = jm.System({"body": jm.Vec3()}, forces={"elastic": elastic}, masses={"mass": made(mesh)})
        state = system.at_rest({"body": mesh.points})
        fresh = jm.MatrixLinearSystem.build(system, state, jm.Terms(**terms))
        linear_system = fresh.using(fresh.init(system, state))
        asked.clear()
        found = linear_system.momentum(system, state, {"body": mesh.points})
        stretching = jm.State(state.position, {"body": mesh.points}, state.time)
        close(found["body"], jm.mass.momentum(system, stretching)["body"])
        return len(asked)

    assert elements_asked(lambda mesh: jm.mass.ConsistentMass.from_mesh("body", mesh, 2.0)) == 0
    assert elements_asked(lambda mesh: jm.mass.DiagonalMass.from_mesh("body", mesh, 2.0)) == 1
    assert elements_asked(lambda mesh: jm.mass.ConsistentMass.from_mesh("body", mesh, 2.0), mass=False) == 1


def test_a_matrix_has_the_pattern_of_its_own_parts():
    system, state = chain()
    composite = jm.solver.CompositeLinearSystem.build(system, state, ALL)
    blocks = {name: composite[name].patterns["chain", "chain"].blocks for name in ALL}
    assert blocks == {"A": 13, "mass": 5, "damping": 5, "stiffness": 13, "rayleigh": 13, "geometric": 5}
    with pytest.raises(KeyError, match="no matrix 'W'; there are"):
        composite["W"]


class Curved(jm.force.AbstractEnergyForceField):
    """A force field with a function in its energy that is easily found in a program."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jax.Array = jm.parameter()  # [J]

    def element_energy(self, a, b):
        return self.stiffness * jnp.sum(jnp.arctan2(a - b, 2.0))


def occurrences(jaxpr, names) -> int:
    """How often primitives of these names are in a program, nested programs included."""
    count = 0
    for equation in jaxpr.eqns:
        count += equation.primitive.name in names
        for leaf in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda p: isinstance(p, ClosedJaxpr | Jaxpr)):
            if isinstance(leaf, ClosedJaxpr | Jaxpr):
                count += occurrences(leaf.jaxpr if isinstance(leaf, ClosedJaxpr) else leaf, names)
    return count


def test_nothing_is_evaluated_twice():
    """The energy has arc tangents and the mapping has hyperbolic sines: ten matrices have as many of them as one has."""
    system = jm.System(
        {"main": jm.Vec3(), "child": jm.Vec3()},
        forces={
            "main": Curved((("main", [0, 1]), ("main", [1, 2])), 2.0),
            "child": Curved((("child", [0]), ("child", [1])), 3.0),
        },
        masses={"mass": jm.mass.UniformMass(("main", [0, 1, 2]), 1.0)},
        mappings={"bend": jm.mapping.FunctionMapping(("main", [0, 2]), "child", jnp.sinh)},
        rayleigh={"child": 0.1},
    )
    state = system.at_rest({"main": 0.3 * np.arange(9.0).reshape(3, 3)})
    alone = jm.MatrixLinearSystem.build(system, state)
    parts = {part: jm.Factors.only(part) for part in PARTS}
    again = {f"{part} again": (jm.Terms(), jm.Factors.only(part)) for part in PARTS}
    several = jm.solver.CompositeLinearSystem.build(system, state, {"A": jm.Terms(), **parts, **again})

    def counts(function):
        with jm.runtime.element_compiler("off"):  # whose programs are not to be seen in a jaxpr
            jaxpr = jax.make_jaxpr(lambda s: jax.tree.leaves(function(system, s)))(state).jaxpr
        return [occurrences(jaxpr, names) for names in (("atan2",), ("sinh", "cosh"))]

    expected = counts(alone.unconstrained)
    assert min(expected) > 0
    assert counts(several.matrices) == expected


@pytest.mark.slow
def test_composite_under_transformations():
    system, state = chain()
    composite = jm.solver.CompositeLinearSystem.build(system, state, {"A": jm.Terms(), "K": jm.Factors.only("stiffness")})

    def entries(stiffness, factors=FACTORS):
        scene = eqx.tree_at(lambda s: s.forces["links"].stiffness, system, stiffness)
        return {name: m.to_dense() for name, m in composite.matrices(scene, state, factors).items()}

    start = jnp.asarray(40.0)
    K = jax.jit(entries)(start)["K"]
    close(K, composite.matrices(system, state)["K"].to_dense())
    # K is linear in the stiffness of the springs.
    close(40.0 * jax.jacrev(lambda k: entries(k)["K"])(start), K)
    close(jax.jvp(lambda k: entries(k)["K"], (start,), (start,))[1], K)
    batch = jax.vmap(entries)(jnp.array([40.0, 80.0]))
    close(batch["K"], np.stack([K, 2 * K]))
    close(batch["A"][0], composite.assemble(system, state, FACTORS).to_dense())


def test_composite_is_a_linear_system():
    system, state = chain()
    composite = jm.solver.CompositeLinearSystem.build(
        system, state, {"S": jm.Terms(), "M": jm.Factors.only("mass")}, solver="S"
    )
    plain = jm.MatrixLinearSystem.build(system, state)
    assert composite.terms == plain.terms
    ends = [jm.ImplicitEuler(s).step(system, state, None, 0.01)[0] for s in (composite, plain)]
    np.testing.assert_array_equal(ends[0].position["chain"], ends[1].position["chain"])
    rest = [jm.static_solve(system, state, s).position["chain"] for s in (composite, plain)]
    np.testing.assert_array_equal(*rest)


@pytest.mark.parametrize(
    ("matrices", "solver", "words"),
    [
        ({}, "A", "at least one matrix"),
        ({"K": jm.Terms()}, "A", r"solver must be one of \('K',\), got 'A'"),
        ({"A": jm.Factors()}, "A", "'A', the solver's, must be Terms"),
        ({"A": jm.Terms(), "K": "stiffness"}, "A", r"matrices\['K'\] must be"),
        ({"A": jm.Terms(), "K": (jm.Terms(),)}, "A", r"matrices\['K'\] must be Terms, Factors or both"),
    ],
)
def test_wrong_selections_are_refused(matrices, solver, words):
    with pytest.raises((ValueError, TypeError), match=words):
        jm.solver.CompositeLinearSystem.build(*chain(), matrices, solver=solver)
    with pytest.raises(ValueError, match=r"part must be one of .*, got 'inertia'"):
        jm.Factors.only("inertia")


# --- patterns --------------------------------------------------------------------------


@pytest.mark.slow
def test_scenes_share_a_pattern():
    """A chain, and the same with a link across: the blocks that only one has are zeros in the other."""
    links = [(0, 1), (1, 2), (2, 3), (3, 4)]
    (plain, state), (crossed, _) = chain(), chain(links=[*links, (1, 4)])
    systems = [jm.MatrixLinearSystem.build(s, state) for s in (plain, crossed)]
    shared = jm.solver.share_pattern(systems)
    assert [s.patterns["chain", "chain"].blocks for s in (*systems, *shared)] == [13, 15, 15, 15]
    for scene, one, other in zip((plain, crossed), systems, shared, strict=True):
        close(one.assemble(scene, state, FACTORS).to_dense(), other.assemble(scene, state, FACTORS).to_dense(), 0.0)
    total = shared[0].unconstrained(plain, state).plus(shared[1].unconstrained(crossed, state))
    close(
        total.to_dense(), sum(s.unconstrained(c, state).to_dense() for s, c in zip(systems, (plain, crossed), strict=True))
    )
    # The constraint of either reaches the blocks of both.
    P = np.diag([0.0] * 3 + [1.0] * 12)
    close(shared[0].constrain(plain, total).to_dense(), P @ total.to_dense() @ P + np.eye(15) - P)
    with pytest.raises(ValueError, match=r"patterns differ between \('chain', 'chain'\): use share_pattern"):
        systems[0].unconstrained(plain, state).plus(systems[1].unconstrained(crossed, state))
    for wrong in (systems[0], [plain]):
        with pytest.raises(TypeError, match="share_pattern: .* must be"):
            jm.solver.share_pattern(wrong)
    with pytest.raises(ValueError, match="main states .* differ"):
        jm.solver.share_pattern([systems[0], jm.MatrixLinearSystem.build(*chain(6))])


def test_equal_sizes_are_not_equal_patterns():
    state = chain()[1]
    links = [(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1), (1, 2), (2, 4), (3, 4)]
    matrices = [jm.MatrixLinearSystem.build(s, state).unconstrained(s, state) for s in (chain(links=a)[0] for a in links)]
    with pytest.raises(ValueError, match="patterns differ"):
        matrices[0].plus(matrices[1])


@pytest.mark.parametrize("name", ["springs", "points_on_frames"])
def test_saved_and_loaded(name, tmp_path):
    scene = scenes.build(name)
    built = jm.MatrixLinearSystem.build(scene.system, scene.state)
    built.save(tmp_path / "pattern.npz")
    loaded = jm.MatrixLinearSystem.load(tmp_path / "pattern.npz", scene.system, scene.state)
    assert jax.tree.structure(loaded) == jax.tree.structure(built)
    for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves(built), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_a_file_of_another_scene_is_refused(tmp_path):
    path = tmp_path / "pattern.npz"
    system, state = chain()
    jm.MatrixLinearSystem.build(system, state).save(path)
    load = functools.partial(jm.MatrixLinearSystem.load, path)
    with pytest.raises(ValueError, match=r"positions of shapes \{'chain': \(5, 3\)\}, and is given \{'chain': \(6, 3\)\}"):
        load(*chain(6))
    with pytest.raises(ValueError, match="other node numbers"):
        load(*chain(links=[(0, 1), (1, 2), (2, 3), (2, 4)]))
    with pytest.raises(ValueError, match="gravity was an acceleration, and is not there"):
        load(*chain(gravity=None))
    with pytest.raises(ValueError, match="forces links was Link"):
        load(*chain(forces={}, rayleigh={"mass": 0.1}))
    with pytest.raises(FileNotFoundError):
        jm.MatrixLinearSystem.load(tmp_path / "nowhere.npz", system, state)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["jaxmech"])) | {"version": 0}
    np.savez(path, **(arrays | {"jaxmech": np.array(json.dumps(header))}))
    with pytest.raises(ValueError, match="is of version 0"):
        load(system, state)
    for content in (b"", b"PK\x03\x04 nothing", b"text"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a file that jaxmech saved"):
            load(system, state)


@pytest.mark.parametrize("jitted", [False, True])
def test_another_scene_is_refused(jitted):
    """Shapes are static, so that nothing is lost under `jit`."""
    system, state = chain()
    kinds = (
        jm.MatrixLinearSystem.build(system, state),
        jm.solver.CompositeLinearSystem.build(system, state, ALL),
        jm.solver.PrecomputedMatrixSystem.build(system, state),
        jm.solver.PreconditionedMatrixFreeSystem.build(system, state),
    )
    longer = chain(6)
    renamed = chain(name="rope")
    heavier = chain(masses={"mass": jm.mass.UniformMass(("chain", [3, 4]), 0.5)})
    batch = jm.State(*(jax.tree.map(lambda a: a[None], part) for part in (state.position, state.velocity)), state.time)
    for linear_system in kinds:
        who = (
            "this " + type(linear_system).__name__
            if not isinstance(linear_system, jm.solver.CompositeLinearSystem)
            else "this "
        )
        assemble = eqx.filter_jit(linear_system.assemble) if jitted else linear_system.assemble
        with pytest.raises(ValueError, match=who + r".* was built for positions of shapes"):
            assemble(*longer)
        with pytest.raises(ValueError, match="but the system's main states are"):
            assemble(renamed[0], state)
        with pytest.raises(ValueError, match=r"built for the main states \['chain'\], and is given \[.*\]: build it again"):
            assemble(*renamed)
        with pytest.raises(ValueError, match=r"position of 'chain' has shape \(1, 5, 3\), expected \(nodes, 3\)"):
            assemble(system, batch)
        with pytest.raises(ValueError, match=r"masses mass was UniformMass on 'chain' \(5,\), and is .* \(2,\)"):
            assemble(*heavier)


def test_products_of_wrong_shapes_are_refused():
    system, state = chain()
    A = jm.MatrixLinearSystem.build(system, state).unconstrained(system, state)
    for wrong in ({"chain": jnp.ones((6, 3))}, {"rope": jnp.ones((5, 3))}, {}):
        with pytest.raises(ValueError, match=r"BlockMatrix.mv: the arrays of vector are of shapes"):
            A.mv(wrong)
    with pytest.raises(ValueError, match=r"BlockSparse.mv: x has shape \(4, 3\), expected \(5, 3\)"):
        A["chain", "chain"].mv(jnp.ones((4, 3)))
    pattern = A["chain", "chain"].pattern
    with pytest.raises(ValueError, match="7 contributions, where the pattern was built for 13"):
        pattern.by_row(jnp.ones((7, 3)))


# --- matrices that are kept ------------------------------------------------------------


@pytest.mark.slow
def test_a_precomputed_matrix_follows_the_factors_and_not_the_state():
    """A time step may change: the parts are kept, not their sum."""
    system, state, plain, expected = on_frames()
    kept = jm.solver.PrecomputedMatrixSystem.build(system, state)
    assert set(kept.parts.names) == set(PARTS)
    moved = jm.State({s: x.at[:, :2].add(1.0) for s, x in state.position.items()}, state.velocity, state.time)
    total = sum(NUMBERS[part] * expected[part] for part in PARTS)
    close(kept.unconstrained(system, moved, FACTORS).to_dense(), total)


@pytest.mark.slow
def test_modified_newton_arrives_at_the_same_place():
    system, state = chain()
    hanging = jm.static_solve(system, state, load_steps=2).state
    stiff = jm.Terms(mass=False, damping=False)
    answers = []
    for kind in (jm.MatrixLinearSystem, jm.solver.PrecomputedMatrixSystem):
        linear_system = kind.build(system, hanging, stiff)

        def tip(stiffness, linear_system=linear_system):
            scene = eqx.tree_at(lambda s: s.forces["links"].stiffness, system, stiffness)
            solution = jm.static_solve(
                scene, hanging, linear_system, jm.solver.Dense(), rtol=1e-10, max_steps=200, throw=False
            )
            return solution.position["chain"][-1, 2], solution.info.iterations

        (z, iterations), slope = jax.jit(jax.value_and_grad(tip, has_aux=True))(jnp.asarray(41.0))
        answers.append((z, slope, iterations))
    newton, modified = answers
    close(newton[0], modified[0], TWO_MODES)
    close(newton[1], modified[1], 1e-6)  # the derivative is corrected by GMRES, to the accuracy of its own stop
    assert modified[2] > newton[2]


@pytest.mark.slow
def test_linear_dynamics_about_a_state():
    """With springs that are linear (no rest length, no damping) the kept matrix is the matrix."""
    on = ("chain", np.arange(5))
    anchors = jm.force.AnchoredSprings(on, jnp.linspace(3.0, 9.0, 5), np.zeros((5, 3)))
    system, state = chain(forces={"anchors": anchors}, rayleigh={"anchors": 0.02})
    ends = []
    for kind in (jm.MatrixLinearSystem, jm.solver.PrecomputedMatrixSystem):
        ends.append(jm.simulate(system, state, jm.ImplicitEuler(kind.build(system, state)), 0.05, 10).last.position["chain"])
    close(*ends)


def carrier(cargo=0.3):
    """A chain that carries two points between its nodes: their mass and their drag are the same in any motion."""
    mapping = jm.mapping.SumMapping(("chain", [[1, 2], [3, 4]]), "points", [[0.4, 0.6], [0.7, 0.3]])
    _, state = chain()
    system = jm.System(
        {"chain": jm.Vec3(), "points": jm.Vec3()},
        forces={
            "links": Link((("chain", np.arange(4)), ("chain", np.arange(1, 5))), 40.0, 0.8),
            "drag": jm.force.VelocityDamping(("points", [0, 1]), 0.4),
        },
        masses={
            "chain": jm.mass.UniformMass(("chain", np.arange(5)), 0.5),
            "cargo": jm.mass.UniformMass(("points", [0, 1]), cargo),
        },
        mappings={"between": mapping},
        constraints={"hook": jm.constraint.Fixed(("chain", [0]))},
        rayleigh={"links": 0.02, "cargo": 0.1},
        gravity=(0.0, 0.0, -9.81),
    )
    return system, state


def test_what_no_motion_changes_is_evaluated_once():
    system, state = carrier()
    heavier, _ = carrier(cargo=7.0)
    linear_system = jm.MatrixLinearSystem.build(system, state)
    moved = jm.State({"chain": 1.3 * state.position["chain"]}, {"chain": state.position["chain"]}, state.time)
    matrix = jax.jit(lambda ls, system, factors: ls.unconstrained(system, moved, factors).to_dense())
    kept = linear_system.using(jax.jit(lambda system: linear_system.init(system, state))(system))
    assert {item.name for item in kept.constant.plan.items} == {"drag", "chain", "cargo"}
    for factors in (FACTORS, jm.Factors(1.0, 0.2, 0.04)):
        factors = jax.tree.map(jnp.asarray, factors)
        expected = matrix(linear_system, system, factors)
        close(matrix(kept, system, factors), expected)
        close(matrix(kept, heavier, factors), expected)  # the cargo is not asked for its mass again
        assert np.abs(matrix(linear_system, heavier, factors) - expected).max() > 1
    again = jax.jit(lambda ls, system: ls.using(ls.init(system, state)))(kept, heavier)  # which replaces what was kept
    close(matrix(again, heavier, factors), matrix(linear_system, heavier, factors))


def test_a_law_that_is_not_linear_is_not_kept():
    """A pattern serves every law; what was linear where it was built need not be where it is used."""
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
    scene = {
        law: jm.System({"b": jm.Vec3()}, forces={"f": jm.force.TetrahedronFEM.from_mesh("b", mesh, law(1e3, 0.3))})
        for law in (jm.material.LinearElastic, jm.material.NeoHookean)
    }
    state = scene[jm.material.LinearElastic].at_rest({"b": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(scene[jm.material.LinearElastic], state, STATICS)
    kept = linear_system.init(scene[jm.material.LinearElastic], state)
    assert kept is not None
    assert linear_system.init(scene[jm.material.NeoHookean], state) is None
    assert linear_system.using(kept).init(scene[jm.material.NeoHookean], state) is None


@pytest.mark.slow
def test_gradients_pass_by_what_no_motion_changes():
    """Through `simulate`, which keeps it, as through steps one by one, which do not."""
    system, state = carrier()
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), jm.solver.Dense())

    def end(cargo, whole):
        scene = eqx.tree_at(lambda s: s.masses["cargo"].mass, system, cargo)
        now = state
        if whole:
            now = jm.simulate(scene, state, integrator, 0.1, 3, throw=False).last
        else:
            for _ in range(3):
                now, _, _ = integrator.step(scene, now, None, 0.1, throw=False)
        return now.position["chain"][-1, 2]

    kept, plain = (jax.jit(jax.value_and_grad(functools.partial(end, whole=w)))(jnp.asarray(0.3)) for w in (True, False))
    assert abs(plain[1]) > 1e-3
    close(kept, plain)


@functools.cache
def swinging(every=3, assembled=False):
    system, state = chain(rayleigh={"links": 0.02})
    linear_system = jm.solver.PreconditionedMatrixFreeSystem.build(system, state, every=every, assembled=assembled)
    return system, state, linear_system


def stepper(linear_system, preconditioner=None):
    preconditioner = jm.solver.WarpedFactor(jm.solver.Cholesky()) if preconditioner is None else preconditioner
    return jm.ImplicitEuler(linear_system, jm.solver.PCG(1e-13, preconditioner=preconditioner), rayleigh_mass=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("assembled", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_is_kept_changes_nothing_but_iterations(assembled):
    system, state, linear_system = swinging(assembled=assembled)
    kept = jm.simulate(system, state, stepper(linear_system), 0.05, 6, save_every=2)
    plain = jm.simulate(system, state, jm.ImplicitEuler(linear_system.matrix, rayleigh_mass=0.1), 0.05, 6, save_every=2)
    close(kept.position["chain"], plain.position["chain"], ITERATIVE)
    assert linear_system.kept is None  # nothing was changed in place


def test_the_matrix_is_assembled_at_every_nth_step():
    system, state, linear_system = swinging(every=3)
    integrator = stepper(linear_system)
    step = eqx.filter_jit(lambda state, carry: integrator.step(system, state, carry, 0.05)[:2])
    starts, kept, carry = [], [], integrator.init(system, state)
    for _ in range(7):
        starts.append(np.asarray(state.position["chain"]))
        state, carry = step(state, carry)
        kept.append(np.asarray(carry.position["chain"]))
    for number, position in enumerate(kept):
        np.testing.assert_array_equal(position, starts[3 * (number // 3)])


@pytest.mark.slow
def test_gradients_pass_by_what_is_kept():
    system, state, linear_system = swinging()
    stepping = stepper(linear_system)
    carry = jax.jit(lambda: stepping.step(system, state, stepping.init(system, state), 0.1, throw=False)[1])()
    moved = jm.State({"chain": state.position["chain"] ** 2}, state.velocity, state.time)

    def tip(stiffness, integrator, carry):
        scene = eqx.tree_at(lambda s: s.forces["links"].stiffness, system, stiffness)
        return integrator.step(scene, moved, carry, 0.05, throw=False)[0].position["chain"][-1, 2]

    plain = jm.ImplicitEuler(linear_system.matrix, jm.solver.Dense(), rayleigh_mass=0.1)
    pairs = ((stepping, carry), (plain, None))
    slopes = [jax.jit(jax.grad(lambda k, i=i, c=c: tip(k, i, c)))(jnp.asarray(40.0)) for i, c in pairs]
    close(*slopes, ITERATIVE)


@pytest.mark.slow
def test_preconditioners_are_made_from_what_is_kept():
    system, state, linear_system = swinging()
    b = {"chain": jnp.sin(jnp.arange(15.0)).reshape(5, 3)}
    preconditioners = (
        None,
        jm.solver.Jacobi(),
        jm.solver.StaleFactor(solver=jm.solver.Dense()),
        jm.solver.WarpedFactor(jm.solver.Dense()),
    )
    solvers = (*(jm.solver.PCG(1e-13, preconditioner=M) for M in preconditioners), jm.solver.GMRES(1e-13))

    @jax.jit
    def solutions(linear_system, system, state, b):
        A = linear_system.assemble(system, state, FACTORS)
        assert isinstance(A, jm.matrix.PreconditionedOperator)
        assert lx.is_symmetric(A)
        straight = [lx.linear_solve(A, b, solver, throw=False).value["chain"] for solver in solvers]
        return A.as_matrix(), [*straight, lx.linear_solve(A.transpose(), b, solvers[-1], throw=False).value["chain"]]

    matrix, found = solutions(linear_system, system, state, b)
    for x in found:
        close(x.reshape(-1), np.linalg.solve(matrix, b["chain"].reshape(-1)), ITERATIVE)


def test_a_factor_needs_a_matrix():
    system, state, linear_system = swinging()
    A = linear_system.matrix.assemble(system, state)
    for preconditioner, words in (
        (jm.solver.WarpedFactor(), "how nodes have turned, which a BlockMatrix does not"),
        (jm.solver.StaleFactor(), "no matrix near a BlockMatrix"),
    ):
        with pytest.raises(ValueError, match=words):
            lx.linear_solve(A, A.mv({"chain": jnp.ones((5, 3))}), jm.solver.PCG(preconditioner=preconditioner))
    for wrong in (0, 1.5, True):
        with pytest.raises(ValueError, match="every must be a whole number of at least 1"):
            jm.solver.PreconditionedMatrixFreeSystem.build(system, state, every=wrong)


# --- rotations -------------------------------------------------------------------------

TURN = np.array([0.5, -0.8, 1.2])  # [rad]


def quaternion(turn) -> np.ndarray:
    angle = np.linalg.norm(turn)
    return np.append(np.sin(angle / 2) * turn / angle, np.cos(angle / 2))


def matrix_of(turn) -> np.ndarray:
    x, y, z = turn
    return np.asarray(jax.scipy.linalg.expm(jnp.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])))


def rotations_of(system, state, position):
    built = jm.MatrixLinearSystem.build(system, state)
    return nodal_rotations(system, built.patterns, state.position, position)


def test_a_body_that_turns_turns_its_nodes():
    """To the weight that "no turn" has among them, one hundredth; a frame exactly; what is held, not at all."""
    mesh = jm.mesh.box_mesh(cells=(1, 1, 2), size=(1.0, 1.2, 2.0))
    system = jm.System(
        {"body": jm.Vec3(), "frame": jm.Rigid3()},
        forces={
            "elastic": jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.LinearElastic(young=1e3, poisson=0.3))
        },
        constraints={"held": jm.constraint.FixedPlane(("body", [0]), normal=(1.0, 0.0, 0.0))},
    )
    frame = np.append(np.zeros(3), quaternion(np.array([0.3, 0.2, -0.4])))
    state = system.at_rest({"body": mesh.points, "frame": frame[None]})
    R = matrix_of(TURN)
    after = jax.vmap(system.dofs["frame"].retract)(state.position["frame"], np.append(np.ones(3), TURN)[None])
    found = rotations_of(system, state, {"body": state.position["body"] @ R.T + 1.0, "frame": after})
    np.testing.assert_allclose(found["body"][0], np.eye(3), atol=1e-12)
    np.testing.assert_allclose(found["body"][1:], np.broadcast_to(R, (len(mesh.points) - 1, 3, 3)), atol=0.05)
    np.testing.assert_allclose(found["frame"][0], np.kron(np.eye(2), R), atol=1e-12)
    orthogonal = jnp.einsum("nij,nkj->nik", found["body"], found["body"])
    np.testing.assert_allclose(orthogonal, np.broadcast_to(np.eye(3), orthogonal.shape), atol=1e-12)


def test_a_body_of_the_plane_turns_its_nodes():
    mesh = jm.mesh.box_mesh(cells=(1, 2), size=(1.0, 2.0))
    material = jm.material.LinearElastic(young=1e3, poisson=0.3)
    system = jm.System(
        {"body": jm.Vec2(), "frame": jm.Rigid2(), "joint": jm.Vec1()},
        forces={"elastic": jm.force.TriangleFEM.from_mesh("body", mesh, material)},
    )
    state = system.at_rest({"body": mesh.points, "frame": [[0.0, 0.0, 0.4]], "joint": [[0.0]]})
    R = np.array([[np.cos(2.0), -np.sin(2.0)], [np.sin(2.0), np.cos(2.0)]])
    moved = {"body": state.position["body"] @ R.T, "frame": jnp.array([[1.0, 1.0, 2.4]]), "joint": jnp.array([[3.0]])}
    found = rotations_of(system, state, moved)
    np.testing.assert_allclose(found["body"], np.broadcast_to(R, found["body"].shape), atol=0.05)
    np.testing.assert_allclose(found["frame"][0], np.block([[R, np.zeros((2, 1))], [np.zeros((1, 2)), 1.0]]), atol=1e-12)
    np.testing.assert_allclose(found["joint"], np.ones((1, 1, 1)))


def test_a_rope_turns_and_does_not_spin():
    """About an axis that all neighbours lie on, the least turn: the one in the plane of before and after."""
    system, _ = chain(constraints={})
    along = np.array([1.0, 0.0, 0.0])
    state = system.at_rest({"chain": np.arange(5.0)[:, None] * along})
    R = matrix_of(np.array([0.0, 0.0, 1.2]))
    found = rotations_of(system, state, {"chain": jnp.asarray(np.arange(5.0)[:, None] * (R @ along))})["chain"]
    np.testing.assert_allclose(found, np.broadcast_to(R, found.shape), atol=0.05)


@pytest.mark.slow
def test_the_warped_factor_of_a_turned_body():
    """`R K R^T` is the stiffness of the turned body: two iterations where the stale factor needs many."""
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0))
    elastic = jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.Corotational(young=1e4, poisson=0.3))
    mass = jm.mass.ConsistentMass.from_mesh("body", mesh, 1.0)
    system = jm.System({"body": jm.Vec3()}, forces={"elastic": elastic}, masses={"mass": mass})
    state = system.at_rest({"body": mesh.points})
    factors = jm.Factors(mass=1.0, damping=0.0, stiffness=1e-3)
    fresh = jm.solver.PreconditionedMatrixFreeSystem.build(system, state, assembled=True)
    kept = fresh.using(fresh.updated(system, state, fresh.init(system, state), factors))
    now = jm.State({"body": state.position["body"] @ matrix_of(TURN).T}, state.velocity, state.time)
    b = {"body": jnp.sin(jnp.arange(float(mesh.points.size))).reshape(mesh.points.shape)}

    @jax.jit
    def steps(kept, system, now):
        A = kept.assemble(system, now, factors)
        both = jm.solver.WarpedFactor(jm.solver.Cholesky()), jm.solver.StaleFactor(solver=jm.solver.Cholesky())
        return [lx.linear_solve(A, b, jm.solver.PCG(1e-8, preconditioner=M), throw=False).stats["num_steps"] for M in both]

    warped, stale = steps(kept, system, now)
    assert warped <= 4
    assert stale >= 5 * warped


@pytest.mark.slow
def test_the_warped_factor_on_a_bar_that_bends():
    """Issue 4's bar: 4 x 4 x 20 nodes, E = 4000, nu = 0.3, 320 kg, steps of 0.02 s, Rayleigh 0.1 and 0.1.

    The matrix is assembled once, and the bar bends down by most of its length: at every step at most half as many
    iterations as with block Jacobi (a seventh in all, measured).
    """
    mesh = jm.mesh.box_mesh(cells=(3, 3, 19), size=(3.0, 3.0, 19.0), kind="hexahedron")
    root, nodes = mesh.nodes_where(lambda x: x[:, 2] == 0.0), len(mesh.points)
    system = jm.System(
        {"bar": jm.Vec3()},
        forces={
            "elastic": jm.force.HexahedronFEM.from_mesh(
                "bar", mesh, jm.material.StVenantKirchhoff(young=4000.0, poisson=0.3)
            )
        },
        masses={"mass": jm.mass.UniformMass(("bar", np.arange(nodes)), 320.0 / nodes)},
        constraints={"clamp": jm.constraint.Fixed(("bar", root))},
        gravity=(0.0, -9.81, 0.0),
    )
    state = system.at_rest({"bar": mesh.points})
    kept = jm.solver.PreconditionedMatrixFreeSystem.build(system, state, every=1000, assembled=True)

    def run(linear_system, preconditioner):
        solver = jm.solver.PCG(1e-8, preconditioner=preconditioner)
        integrator = jm.ImplicitEuler(linear_system, solver, rayleigh_stiffness=0.1, rayleigh_mass=0.1)
        return jm.simulate(system, state, integrator, 0.02, 60, save_every=60)

    warped, jacobi = run(kept, jm.solver.WarpedFactor()), run(kept.matrix, jm.solver.BlockJacobi())
    assert float(jnp.min(warped.position["bar"][-1, :, 1])) < -7.0
    close(warped.position["bar"], jacobi.position["bar"], 1e-6)
    assert jnp.all(2 * warped.info.linear_steps <= jacobi.info.linear_steps)
    assert 5 * int(jnp.sum(warped.info.linear_steps)) < int(jnp.sum(jacobi.info.linear_steps))


@pytest.mark.slow
@pytest.mark.parametrize("kernels", [True, False])
def test_blocks_summed_where_they_are_made_give_the_same_matrix(kernels, monkeypatch, tmp_path):
    """And the same derivatives, in both modes and in batches, and from a file as well.

    Of two stencils, of one node, and through a mapping.
    """
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0))
    system = jm.System(
        {"body": jm.Vec3(), "skin": jm.Vec3()},
        forces={
            "solid": jm.force.TetrahedronFEM.from_mesh(
                "body", mesh, jm.material.StVenantKirchhoff(np.linspace(4.0, 9.0, 12), 0.3)
            ),
            "springs": jm.force.Springs((("skin", [0, 1, 2, 3]), ("body", [5, 6, 6, 5])), 3.0, 0.3, damping=0.1),
        },
        masses={"mass": jm.mass.UniformMass(("body", np.arange(12)), 0.5)},
        mappings={"skin": jm.mapping.SumMapping(("body", [[0, 1], [1, 2], [3, 4], [4, 9]]), "skin", [0.3, 0.7])},
    )
    state = scenes.perturbed(system, system.at_rest({"body": mesh.points}), 0.05, np.random.default_rng(1))
    monkeypatch.setattr("jaxmech._codegen.dispatch._FEWEST", 1000)
    plain = jm.MatrixLinearSystem.build(system, state)
    monkeypatch.setattr("jaxmech._codegen.dispatch._FEWEST", 1)
    monkeypatch.setattr("jaxmech._codegen.dispatch._FEW", 1)
    if not kernels:
        monkeypatch.setattr("jaxmech._llvm.ffi.is_available", lambda: False)
        monkeypatch.setattr("jaxmech._codegen.dispatch._SHORT", 300)
    summed = jm.MatrixLinearSystem.build(system, state)
    assert len(summed.varying.element_sums) == 2 and not plain.varying.element_sums
    summed.save(tmp_path / "summed.npz")
    assert eqx.tree_equal(jm.MatrixLinearSystem.load(tmp_path / "summed.npz", system, state), summed)
    weights = jnp.asarray(np.random.default_rng(0).normal(size=plain.assemble(system, state).to_dense().shape))

    def along(linear_system, scale):
        position = jax.tree.map(lambda x: scale * x, state.position)
        scaled = jax.tree.map(lambda a: scale * a if eqx.is_inexact_array(a) else a, system.forces)
        scene = eqx.tree_at(lambda s: s.forces, system, scaled)
        A = linear_system.unconstrained(scene, jm.State(position, state.velocity, state.time), FACTORS)
        return jnp.vdot(weights, A.to_dense())

    def force(linear_system):
        return linear_system.linearized(system, state, FACTORS)[1]["body"]

    def everything(linear_system):
        product = functools.partial(along, linear_system)
        scales = jnp.asarray([1.0, 1.02])
        return jax.vmap(product)(scales), jax.vmap(jax.grad(product))(scales), jax.jvp(product, (scales[0],), (1.0,))

    found = jax.jit(everything)(summed)
    with jm.runtime.element_compiler("off"):
        expected = jax.jit(everything)(plain)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        close(one, other, 10 * ROUND_OFF)
    close(jax.jit(force)(summed), jm.total_force(system, state)["body"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["embedded_points", "several_parents"])
def test_components_summed_apart_make_the_same_matrix(name, monkeypatch):
    """Those with many blocks are not copied behind the others."""
    scene = scenes.build(name)
    expected = jm.MatrixLinearSystem.build(scene.system, scene.state).assemble(scene.system, scene.state, FACTORS)
    monkeypatch.setattr("jaxmech._assembly.mapping_walk._LARGE", 1)
    apart = jm.MatrixLinearSystem.build(scene.system, scene.state)
    assert any(len(sums.whole) + len(sums.upper) > 1 for sums in apart.varying.pair_sums.values())
    close(apart.assemble(scene.system, scene.state, FACTORS).to_dense(), expected.to_dense())
    shared = jm.solver.share_pattern([apart])[0]
    close(shared.assemble(scene.system, scene.state, FACTORS).to_dense(), expected.to_dense())


@pytest.mark.slow
def test_half_of_a_symmetric_matrix_is_enough():
    """Only blocks on and above the diagonal of an element are evaluated, also where an element names a node twice; what is
    not symmetric is whole, and both make one matrix, exactly symmetric where nothing else is there."""
    bending = Bending(("rod", [[0, 1, 2], [3, 2, 1], [2, 4, 2], [4, 0, 3]]), 2.0)
    system = jm.System({"rod": jm.Vec3()}, forces={"bending": bending})
    swirl = Swirl((("rod", [0, 1]), ("rod", [4, 3])), [0.1, 0.2, 0.3], 0.7)
    both = jm.System({"rod": jm.Vec3()}, forces={"bending": bending, "swirl": swirl})
    x = np.random.default_rng(3).normal(size=(5, 3))
    state = system.at_rest({"rod": x})
    half, mixed = (jm.MatrixLinearSystem.build(s, state, STATICS) for s in (system, both))
    assert half.varying.pair_sums["rod", "rod"].upper and not half.varying.pair_sums["rod", "rod"].whole
    assert mixed.varying.pair_sums["rod", "rod"].upper and mixed.varying.pair_sums["rod", "rod"].whole
    K = half.unconstrained(system, state).to_dense()
    assert np.array_equal(K, K.T)
    hessian = jax.jit(jax.hessian(lambda q: jm.energy(system, system.at_rest({"rod": q.reshape(5, 3)}))))
    close(K, hessian(x.reshape(-1)))
    close(
        mixed.unconstrained(both, state).to_dense(),
        -jax.jacfwd(lambda q: jm.total_force(both, both.at_rest({"rod": q.reshape(5, 3)}))["rod"].reshape(-1))(
            x.reshape(-1)
        ),
    )
    for one, shared, scene in zip((half, mixed), jm.solver.share_pattern([half, mixed]), (system, both), strict=True):
        close(shared.unconstrained(scene, state).to_dense(), one.unconstrained(scene, state).to_dense())
