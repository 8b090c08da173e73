"""What is traced once: a time step and a static solve, over repeated calls and over meshes of equal sizes."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from compiled_programs import AS_OF_A_USER
from tolerances import RECOMPILED

import jaxmech as jm
from jaxmech._codegen.program.element_function import forgotten
from jaxmech._linear_solver.dense.whole_matrix import scaling
from jaxmech._runtime import precision
from jaxmech._runtime.loops import seldom_loop, while_loop

pytestmark = pytest.mark.quick

TRACES = {"count": 0}


class Counted(jm.force.AbstractEnergyForceField):
    """Anchored springs that count how often they are traced: Python runs when JAX traces, and at no other time."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jax.Array = jm.parameter()  # [N/m]
    anchor: jax.Array = jm.parameter(ndim=1)  # [m]

    def element_energy(self, x):
        TRACES["count"] += 1
        return 0.5 * self.stiffness * jnp.sum((x - self.anchor) ** 2)


def problem(order, scale: float, stiffness: float, name: str = "links"):
    """A chain whose links join other nodes, of other lengths, as often as it is asked for."""
    points = scale * np.arange(5.0)[:, None] * np.array([1.0, 0.2, 0.1]) + 0.01 * np.sin(np.arange(15.0)).reshape(5, 3)
    a, b = np.array(order[:-1]), np.array(order[1:])
    system = jm.System(
        {"chain": jm.Vec3()},
        forces={
            "counted": Counted(("chain", np.arange(5)), stiffness, points),
            name: jm.force.AnchoredSprings((("chain", a), ("chain", b)), 3.0),
        },
        masses={"mass": jm.mass.UniformMass(("chain", np.arange(5)), 1.0)},
        constraints={"hold": jm.constraint.Fixed(("chain", [order[0]]))},
        gravity=(0.0, 0.0, -9.81),
    )
    state = system.at_rest({"chain": points})
    return system, state, jm.MatrixLinearSystem.build(system, state)


def step(newton):
    @eqx.filter_jit
    def run(system, state, linear_system, dt):
        return jm.ImplicitEuler(linear_system, newton=newton).step(system, state, None, dt)[0]

    return run


@eqx.filter_jit
def solve(system, state, linear_system, dt):
    return jm.static_solve(system, state, linear_system).state


def trajectory(system, state, linear_system, dt):
    return jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt, 4).last


def bare_step(system, state, linear_system, dt):
    return jm.ImplicitEuler(linear_system).step(system, state, None, dt)[0]


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


@pytest.mark.parametrize(("scheme", "more"), [(jm.ImplicitEuler, 0), (jm.integrator.EnergyMomentum, 1)])
def test_rules_of_derivatives_trace_no_element_function_again(scheme, more):
    """JAX evaluates them in a mesh of no devices, and knows none and such a one apart: steps are traced in it too.
    `more`: for energies at both ends, which have a rule of their own."""
    system, state, linear_system = problem([0, 1, 2, 3, 4], 1.0, 5.0)
    integrator = scheme(linear_system, newton=True)

    def end(x):
        moved = eqx.tree_at(lambda s: s.position["chain"], state, x)
        return jnp.sum(integrator.step(system, moved, None, 0.01, throw=False)[0].position["chain"])

    with forgotten():
        TRACES["count"] = 0
        jax.jit(end).trace(state.position["chain"])
        of_step = TRACES["count"]
        jax.jit(jax.grad(end)).trace(state.position["chain"])
    assert TRACES["count"] == of_step + more > more


def test_what_is_asked_of_a_scene_is_one_program():
    """Carried out operation by operation, an energy alone is dozens."""
    nodes = np.arange(7)  # as many as no other scene here has
    system = jm.System(
        {"frames": jm.Rigid3(), "points": jm.Vec3()},
        forces={"anchors": jm.force.AnchoredSprings(("points", nodes), 3.0, np.zeros((7, 3)))},
        masses={"bodies": jm.mass.RigidMass(("frames", nodes), 2.0, np.eye(3))},
        mappings={"arms": jm.mapping.RigidMapping(("frames", nodes), "points", np.ones((7, 3)))},
        gravity=(0.0, 0.0, -9.81),
    )
    state = system.at_rest({"frames": np.tile([0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 1.0], (7, 1))})
    asked = (jm.energy, jm.total_force, jm.kinematics, jm.mapping.velocities, jm.mass.momentum, jm.mass.kinetic_energy)
    floor = jm.contact.PointContact(("points", nodes), jm.contact.Plane(), friction=0.3)
    line = np.eye(7, 3).cumsum(0)
    strip = jm.mesh.box_mesh(cells=(7, 1), size=(7.0, 1.0))
    blocks = jm.matrix.Triplets(("points", "points"), nodes, nodes, np.ones((7, 1, 1)))
    matrix = blocks.assemble((7, 7))
    others = (
        lambda: floor.gaps({"points": jnp.asarray(line)}),
        lambda: jm.mesh.vertex_normals(line, np.stack([nodes, nodes[::-1], nodes - nodes], 1)),
        lambda: jm.force.Section.i_beam(0.1, 0.2, 0.01, 0.01, 1e9, 0.3),
        lambda: strip.measure(),
        lambda: jm.mesh.quadratic_mesh(strip),
        lambda: jm.mass.DiagonalMass.from_mesh("strip", strip, 1000.0),
        lambda: blocks.to_dense((7, 7)),
        lambda: jm.matrix.impose_penalty(matrix, np.zeros((7, 1)), [3], 1.0),
        lambda: jm.matrix.eliminate_rows_and_columns(matrix, np.zeros((7, 1)), [3], 1.0),
    )
    programs = []

    def heard(event, seconds, **details):
        if event.endswith("backend_compile_duration"):
            programs.append(details.get("fun_name", "?"))

    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        for function in asked:
            function(system, state)
        for function in others:
            function()
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)
    assert len(programs) <= 2 * (len(asked) + len(others)), programs


def test_another_mesh_gives_its_own_answer():
    """The trace is shared, its numbers are not."""
    order, solution = [4, 2, 0, 1, 3], {}
    solve(*problem([0, 1, 2, 3, 4], 1.0, 5.0), 0.0)
    for kind in ("links", "links that no trace knows"):
        system, state, linear_system = problem(order, 1.0, 5.0, kind)
        solution[kind] = np.asarray(solve(system, state, linear_system, 0.0).position["chain"])
    np.testing.assert_array_equal(*solution.values())


def test_a_trace_does_not_hold_the_mesh():
    """Arrays of the size of the mesh are arguments, not constants."""
    system, state, linear_system = problem([0, 1, 2, 3, 4], 1.0, 5.0)
    dynamic, static = eqx.partition((system, state, linear_system), eqx.is_array)

    def run(dynamic):
        return eqx.combine(dynamic, static)[2].assemble(*eqx.combine(dynamic, static)[:2])

    constants = [np.size(c) for c in jax.make_jaxpr(run)(dynamic).consts]
    assert max(constants, default=0) <= 9, constants


def hot_scene():
    """Enough tetrahedra (384) for the paths that large scenes take; a polynomial law, which compiles fast."""
    mesh = jm.mesh.box_mesh(cells=(4, 4, 4), size=(1.0, 1.0, 1.0))
    young = jnp.linspace(900.0, 1100.0, mesh.cells.shape[0])
    system = jm.System(
        {"body": jm.Vec3()},
        forces={"elastic": jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.StVenantKirchhoff(young, 0.3))},
        constraints={"clamp": jm.constraint.Fixed(("body", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    state = system.at_rest({"body": mesh.points})
    return system, state, jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))


def assembled(young, position, system, state, linear_system):
    system = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, young)
    return linear_system.unconstrained(system, eqx.tree_at(lambda s: s.position, state, position))


def multiplied(values, u, matrix):
    return eqx.tree_at(lambda a: a.entries["body", "body"].values, matrix, values).mv(u)["body"]


def scatters(function, *arguments):
    """The scatters in the compiled program of a function, as XLA writes them."""
    arrays, static = eqx.partition(arguments, eqx.is_array)
    lowered = jax.jit(lambda arrays: function(*eqx.combine(arrays, static))).lower(arrays)
    text = lowered.compile({"xla_backend_optimization_level": 0, **AS_OF_A_USER}).as_text()
    assert " gather(" in text or "jaxmech_" in text  # the instructions are there, and are called what we think
    return [line for line in text.splitlines() if re.search(r"\bscatter\(", line)]


FORMS = [pytest.param(False, id="arrays", marks=pytest.mark.slow), pytest.param(True, id="kernels", marks=pytest.mark.cpu)]


@pytest.mark.parametrize("kernels", FORMS)
def test_assembly_and_products_do_not_scatter(kernels, monkeypatch):
    """Scatter is serial on a CPU, and on a GPU it adds in no fixed order; neither the values nor their derivatives do."""
    if not kernels:
        monkeypatch.setattr("jaxmech._llvm.ffi.is_available", lambda: False)
    system, state, linear_system = hot_scene()
    assert linear_system.varying.element_sums
    young, x, u = system.forces["elastic"].material.young, state.position, state.velocity
    matrix = eqx.filter_jit(linear_system.unconstrained)(system, state)
    values = matrix["body", "body"].values

    def weighed(young, x, *rest):
        return jnp.sum(jnp.sin(assembled(young, x, *rest)["body", "body"].values))

    assert not scatters(multiplied, values, u, matrix)
    assert not scatters(
        lambda v, u, w, A: jax.vjp(lambda v, u: multiplied(v, u, A), v, u)[1](w), values, u, u["body"], matrix
    )
    # What is left: writing the blocks of held nodes, each once, and, of arrays, sums over the elements of a node.
    assert all("unique_indices=true" in line for line in scatters(linear_system.assemble, system, state))
    derivatives = scatters(jax.grad(weighed, argnums=(0, 1)), young, x, system, state, linear_system)
    assert all(f"f64[{len(x['body'])},3]" in line.split("scatter(")[0] for line in derivatives)
    assert bool(derivatives) != kernels


def test_a_scatter_is_seen():
    """That the test above can fail."""
    assert scatters(lambda a, i: a[i].at[i].add(a), jnp.zeros(5), jnp.arange(5))


def equations_of(jaxpr, name):
    """The equations of a primitive in a program, those of its branches and loops included."""
    found = []
    for equation in jaxpr.eqns:
        found += [equation] if equation.primitive.name == name else []
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr")
        ):
            inner = getattr(inner, "jaxpr", inner)
            found += equations_of(inner, name) if hasattr(inner, "eqns") else []
    return found


MOST_SUMS = 17  # each is a dozen instructions of XLA's; all are in every derivative of a step again


def test_conjugate_gradients_take_few_sums():
    """The probe of the operator sums over both of its vectors at once; a solve that starts from nil compares no start."""
    system, state, linear_system = hot_scene()
    A, solver = eqx.filter_jit(linear_system.assemble)(system, state), jm.solver.PCG()

    def solve(A, b):
        return solver.compute(solver.init(A, {}), b, {})[0]

    program = eqx.filter_make_jaxpr(solve)(A, state.velocity)[0].jaxpr
    assert 0 < len(equations_of(program, "reduce_sum")) <= MOST_SUMS
    assert len(equations_of(program, "xor")) == 2, "one hash for both vectors"


MOST_QUESTIONS = 1  # of all that a step and its assembly read by: a kernel, and a few multiplications


def test_a_linear_step_asks_few_questions_about_numbers():
    """Whether numbers name rows is asked of all arrays of a step together, those that its assembly reads by too."""
    system, state, linear_system = problem([0, 1, 2, 3, 4], 1.0, 5.0)
    jaxpr = eqx.filter_make_jaxpr(bare_step)(system, state, linear_system, 0.01)[0].jaxpr
    asked = [e for e in equations_of(jaxpr, "reduce") if all(v.aval.dtype == bool for v in e.invars)]
    questions = [e for e in asked if e.invars[0].aval.ndim == 1]  # what a dense solve asks of its whole matrix has two axes
    assert 0 < len(questions) <= MOST_QUESTIONS, [e.source_info.traceback for e in questions]


def programs_of(scheme, heavy=True, gravity=None, newton=False):
    """By primitive, how many equations a step of the elastic block has."""
    system, state, _ = hot_scene()
    masses = {"mass": jm.mass.UniformMass(("body", np.arange(len(state.position["body"]))), 1.0)} if heavy else {}
    system = jm.System(system.dofs, forces=system.forces, masses=masses, constraints=system.constraints, gravity=gravity)
    integrator = scheme(jm.MatrixLinearSystem.build(system, state), jm.solver.PCG(), newton=newton)
    carry = integrator.init(system, state)
    program = eqx.filter_make_jaxpr(lambda *a: integrator.step(*a, 0.01, throw=False))(system, state, carry)[0].jaxpr
    return {name: len(equations_of(program, name)) for name in ("linear_solve", "jaxmech_mapped", "scatter-add")}


def test_the_parts_of_a_step_are_turns_of_one_loop():
    two, one = (programs_of(scheme) for scheme in (jm.integrator.TRBDF2, jm.integrator.Trapezoid))
    assert two["linear_solve"] == 1 and two == one


def test_energy_and_momentum_take_the_force_of_the_step():
    """Forces of elements are summed at nodes no more often than by the rule that is corrected."""
    corrected, plain = (
        programs_of(kind, heavy=False, newton=True) for kind in (jm.integrator.EnergyMomentum, jm.integrator.Midpoint)
    )
    assert corrected["scatter-add"] == plain["scatter-add"] > 0


def test_a_force_where_nothing_is_displaced_reads_no_displacement():
    """An element knows that there is none: it reads at its nodes what its energy does."""
    system, state, _ = hot_scene()

    def read_at_nodes(of_scene):
        program = jax.make_jaxpr(of_scene)(state)
        return sum(at is not None for at in equations_of(program.jaxpr, "jaxmech_mapped")[-1].params["nodes"])

    assert read_at_nodes(lambda s: jm.total_force(system, s)) == read_at_nodes(lambda s: jm.energy(system, s)) == 2


def test_weights_at_the_start_of_a_step_are_no_program_of_their_own():
    weights = (0.0, 0.0, -9.81), None
    heavy, weightless = (programs_of(jm.integrator.Trapezoid, gravity=g) for g in weights)
    assert heavy == weightless


def test_a_diagonal_that_is_none_changes_no_neighbour_in_a_batch():
    """Of a matrix declared definite its diagonal alone is looked at; where that is nil, all entries of this one are."""
    system, state, linear_system = problem([0, 1, 2, 3, 4], 1.0, 5.0)
    A = linear_system.constrain(system, linear_system.unconstrained(system, state, jm.Factors(1.0, 0.0, 1.0)))
    values, b = A.entries["chain", "chain"].values, jax.tree.map(jnp.ones_like, state.position)

    @jax.jit
    @jax.vmap
    def solve(values):
        blocks = eqx.tree_at(lambda A: A.entries["chain", "chain"].values, A, values)
        return lx.linear_solve(blocks, b, jm.solver.Dense(), throw=False).value["chain"]

    turned = jnp.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # of each block: regular, and no diagonal
    beside = solve(jnp.stack([values, jnp.einsum("zij,jk->zik", values, turned)]))
    alone = solve(jnp.stack([values, values]))
    np.testing.assert_array_equal(beside[0], alone[0])
    np.testing.assert_allclose(A.mv({"chain": beside[0]})["chain"], b["chain"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(beside[1], alone[0] @ turned, rtol=1e-9, atol=1e-12)


def test_a_definite_matrix_is_not_equilibrated():
    """Passes over all of a matrix are made where one of its rows is uneven, and of such a matrix in a batch alone."""

    def scales(matrix):
        return scaling(matrix, lambda: matrix)

    root = np.random.default_rng(0).normal(size=(9, 9))
    even = jnp.asarray(root @ root.T + np.eye(9))
    uneven = even.at[3, 3].set(0.0)
    plain = 1 / np.sqrt(np.diag(even))
    np.testing.assert_array_equal(scales(even), plain)
    both = jax.vmap(scales)(jnp.stack([even, uneven]))
    np.testing.assert_array_equal(both[0], scales(even))
    np.testing.assert_array_equal(both[1], scales(uneven))
    largest = np.abs(np.asarray(uneven) * np.asarray(both[1])[:, None] * np.asarray(both[1])).max(axis=1)
    assert (largest > 0.5).all() and (largest < 2.0).all()
    jaxpr = jax.make_jaxpr(scales)(even).jaxpr
    branches = [branch.jaxpr for e in equations_of(jaxpr, "cond") for branch in e.params["branches"]]
    assert min(len(branch.eqns) for branch in branches) == 0  # nothing is done to what is even


SCHEMES = {
    "Euler": jm.ImplicitEuler,
    "Midpoint": jm.integrator.Midpoint,
    "Newmark": jm.integrator.Newmark,
    "HHT": jm.integrator.HHT,
    "BDF2": jm.integrator.BDF,
    "EnergyMomentum": jm.integrator.EnergyMomentum,
}
IN_REVERSE = 3  # steps


@pytest.mark.slow_cases("Newmark", "HHT", "EnergyMomentum")
@pytest.mark.parametrize("name", SCHEMES)
def test_reverse_mode_keeps_little_and_damps_nothing(name, monkeypatch):
    """Of a step no matrix is kept, or once where all is; and where nothing is damped no product with a damping matrix is
    differentiated."""

    def never(*_):
        raise AssertionError("a product with a damping of nil")

    monkeypatch.setattr("jaxmech._integrator.implicit.stage.AbstractStage.drag", never)
    monkeypatch.setattr("jaxmech._integrator.implicit.euler_stage.EulerStage.drag", never)
    system = jm.System(
        {"chain": jm.Vec3()},
        forces={"links": jm.force.Springs((("chain", [0, 1, 2, 3]), ("chain", [1, 2, 3, 4])), 3.0, 0.5)},
        masses={"mass": jm.mass.UniformMass(("chain", np.arange(5)), 1.0)},
    )
    state = system.at_rest({"chain": np.arange(5.0)[:, None] * np.array([1.0, 0.2, 0.1])})
    linear_system = jm.MatrixLinearSystem.build(system, state)
    scheme = SCHEMES[name](linear_system, solver=jm.solver.PCG(1e-8))

    def kept(every):
        def end(x):
            start = eqx.tree_at(lambda s: s.position["chain"], state, x)
            run = jm.simulate(system, start, scheme, 0.01, IN_REVERSE, checkpoint_every=every, throw=False)
            return jnp.sum(run.last.position["chain"] ** 2)

        scans = equations_of(jax.make_jaxpr(jax.grad(end))(state.position["chain"]).jaxpr, "scan")
        forward = [e for e in scans if e.params["length"] == IN_REVERSE and not e.params["reverse"]]
        return [v.aval.shape for e in forward for v in e.outvars]

    matrix = (IN_REVERSE, linear_system.patterns["chain", "chain"].blocks, 3, 3)
    assert kept(None).count(matrix) == 0 and kept(IN_REVERSE).count(matrix) == 1


@pytest.fixture
def without_flags(monkeypatch):
    """Programs are given the options that those of a user are, whose XLA_FLAGS say nothing."""
    if not AS_OF_A_USER:
        pytest.skip("JAX 0.11 compiles loops in one way only")
    monkeypatch.setattr(precision, "_QUICK", {"xla_cpu_use_fusion_emitters": False})


DERIVED = {
    "itself": lambda f: f,
    "gradient": jax.grad,
    "Hessian": jax.hessian,
    "tangent": jax.jacfwd,
    "batch": lambda f: lambda x: jax.vmap(f)(x[None])[0],
    "batch of gradients": lambda f: lambda x: jax.vmap(jax.grad(f))(x[None])[0],
    "jitted": jax.jit,
    "pullback": lambda f: lambda x: jax.vjp(f, x)[1](jnp.ones(())),
}


@pytest.mark.parametrize("name", list(DERIVED))
def test_options_are_given_where_they_may_be(name, without_flags):
    """JAX refuses options for what becomes a part of another program, the reverse derivative of a call included."""

    def energy(x):
        return jnp.sum(jnp.sin(x) ** 2)

    x, program = jnp.arange(3.0), precision.compiled(energy)
    found, expected = (DERIVED[name](f)(x) for f in (program, energy))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-14)
    assert ("_quick" in vars(program._programs)) == (name == "itself")


def test_what_is_compiled_in_haste_is_not_optimised(without_flags, monkeypatch):
    """And gives the same; in another program it is as optimised as that."""
    given = []
    made = precision._program
    monkeypatch.setattr(precision, "_program", lambda f, **options: given.append(options) or made(f, **options))
    x = jnp.arange(3.0)
    for hasty in (False, True):
        program = precision.compiled(lambda x: jnp.sum(jnp.sin(x) ** 2), hasty=hasty)
        np.testing.assert_allclose([program(x), jax.jit(program)(x)], np.sum(np.sin(np.arange(3.0)) ** 2), rtol=1e-14)
    levels = [options.get("compiler_options", {}).get("xla_backend_optimization_level") for options in given]
    assert levels == [None, None, 0, None]


def test_what_the_options_do_not_know_is_compiled_without_them(without_flags):
    def clamp(x):
        return jax.lax.clamp(jnp.zeros(2, bool), x, jnp.ones(2, bool))

    program, truth = precision.compiled(clamp), np.array([True, False])
    program._programs._usual = precision._program(clamp, compiler_options=AS_OF_A_USER)
    assert np.array_equal(program(truth), truth)
    assert program._programs._quick is program._programs._usual, "it would be compiled in vain at every call"


def test_no_counter_is_looked_for_in_loops():
    """XLA takes apart what makes the one element of a condition. These have two, and it does not see that one says all."""

    def inner(x):
        return while_loop(lambda y: jnp.sum(y) < 100.0, lambda y: 2.0 * y, x)

    def outer(x):
        return while_loop(lambda c: c[0], lambda c: (jnp.sum(c[1]) < 1e3, inner(c[1]) + 1.0), (True, x))[1]

    for function, x in ((outer, jnp.ones(3)), (jax.vmap(outer), jnp.ones((2, 3)))):
        text = jax.jit(function).lower(x).compile().as_text()
        names = re.findall(r" condition=%([\w.\-]+)", text)
        conditions = [text[text.index(f"%{name} (") :].split("\n}")[0] for name in names]
        assert len(conditions) == 2
        for condition in conditions:
            assert len(set(re.findall(r"index=(\d+)", condition))) == 2, condition
    ends = jax.jit(jax.vmap(outer))(jnp.array([[1.0] * 3, [1e4] * 3]))
    np.testing.assert_array_equal(ends, [[335.0] * 3, [10001.0] * 3])
    np.testing.assert_allclose(jax.jvp(outer, (jnp.ones(3),), (jnp.ones(3),))[1], 64.0)


def test_nothing_is_made_for_a_loop_that_is_not_run():
    """What no round changes XLA makes before a loop, run or not: not before one that is said to be seldom."""

    def solved(loop, x):
        return loop(lambda y: jnp.sum(y) > 1.0, lambda y: jnp.linalg.solve(jnp.outer(x, x) + 2.0 * jnp.eye(31), y), x)

    entries = {}
    for loop in (seldom_loop, while_loop):
        text = jax.jit(lambda x, loop=loop: solved(loop, x)).lower(jnp.ones(31)).compile().as_text()
        entries[loop] = "f64[31,31]" in text[text.index("\nENTRY") :]
    assert entries == {seldom_loop: False, while_loop: True}
    x = jnp.stack([jnp.ones(31), jnp.full(31, 0.01)])
    ends = [jax.jit(jax.vmap(lambda x, loop=loop: solved(loop, x)))(x) for loop in entries]
    np.testing.assert_allclose(*ends, rtol=RECOMPILED)
    np.testing.assert_array_equal(ends[0][1], x[1])


def test_what_equinox_raises_in_a_program_is_said_in_its_words(caplog):
    program = precision.compiled(lambda x: eqx.error_if(x, x > 2.0, "more than two"))
    assert program(jnp.asarray(1.0)) == 1.0
    with pytest.raises(RuntimeError, match="more than two") as raised:
        program(jnp.asarray(3.0))
    assert "filter_jit" not in str(raised.value) and not caplog.records, "told what to do about jaxmech's own code"


def test_a_program_takes_and_gives_what_is_no_array():
    program = precision.compiled(lambda x, *, name, more=(): {"name": name, "none": None, "twice": (2 * x, more, 1.5)})
    found = program(np.arange(3), name="this", more=["that", 7])
    assert found == {"name": "this", "none": None, "twice": (found["twice"][0], ["that", 7], 1.5)}
    assert isinstance(found["twice"][0], jax.Array) and found["twice"][0].tolist() == [0, 2, 4]
    assert program(np.arange(3), name="other")["name"] == "other"
