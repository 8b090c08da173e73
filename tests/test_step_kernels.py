"""A step of a small scene as one kernel: motion, derivatives and failures are those of ordinary steps."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nested_loops import nested_loops
from scheme_scenes import KINDS, SCENES, made
from tolerances import RECOMPILED, ROUND_OFF, SOLVE_ROUNDING

import jaxmech as jm
from jaxmech._codegen.scalarize.arithmetic import NotScalarisable
from jaxmech._linear_solver.dense.few_unknowns import MOST, shortest
from jaxmech._linear_solver.dense.semidefinite import _shortest

pytestmark = pytest.mark.cpu
DT, STEPS = 2e-3, 12
AT_ONCE = (
    ("spring", "SymplecticEuler", False),
    ("spring", "Midpoint", True),
    ("rigid", "VelocityVerlet", False),
)  # the others are of the slow stage


ADAPTIVE = (
    ("spring", "Tsitouras", False, False),
    ("spring", "TRBDF2", False, True),
    ("rigid", "RK4", False, True),
    ("rigid", "TRBDF2", True, False),
)


def motion(system, integrator, state, **options):
    return jm.simulate(system, state, integrator, DT, STEPS, **{"throw": False} | options)


def kernels_of_steps(function, *arguments):
    """How many programs are mapped in the loop over steps, that which keeps what reverse mode needs."""
    loops = [loop.params["jaxpr"].jaxpr for depth, loop in nested_loops(jax.make_jaxpr(function)(*arguments).jaxpr, "scan")]
    steps = next(body for body in loops if any(eqn.primitive.name in ("checkpoint", "remat2") for eqn in body.eqns))
    return [depth for depth, _ in nested_loops(steps, "jaxmech_mapped")].count(1)


def both_ways(function, *arguments):
    """With steps as kernels, and by XLA alone."""
    first = jax.jit(lambda *given: function(*given))(*arguments)
    with jm.runtime.element_compiler("off"):
        return first, jax.jit(lambda *given: function(*given))(*arguments)


def agree(found, expected, tolerance=RECOMPILED):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max(initial=0)))


@pytest.mark.parametrize(
    ("scene", "name", "newton"),
    [
        pytest.param(scene, name, newton, marks=() if (scene, name, newton) in AT_ONCE else pytest.mark.slow)
        for scene in SCENES
        for name, newton in KINDS
    ],
)
def test_motions_and_gradients_are_those_of_ordinary_steps(scene, name, newton):
    system, state = SCENES[scene]()
    scheme = made(name, system, state, newton, rtol=1e-9)  # of less rounding may decide whether it is met

    def end(x):
        start = dataclasses.replace(state, position=x)
        run = motion(system, scheme, start)
        return sum(jnp.sum(jnp.sin(a)) for a in jax.tree.leaves((run.position, run.velocity))), run

    assert kernels_of_steps(lambda x: end(x)[0], state.position) == 1
    (slope, run), (plain_slope, plain) = both_ways(jax.grad(end, has_aux=True), state.position)
    agree((run.state, run.info), (plain.state, plain.info))
    agree(slope, plain_slope, 10 * RECOMPILED)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ImplicitEuler", "RK4"])
def test_members_of_a_batch_are_carried_out_together(name):
    """Numbers of their own and shared ones; every derivative of a stiffness."""
    system, state = SCENES["spring"]()
    scheme = made(name, system, state, False)

    def end(stiffness, x):
        scene = eqx.tree_at(lambda s: s.forces["spring"].stiffness, system, stiffness)
        return motion(scene, scheme, eqx.tree_at(lambda s: s.position["p"], state, x)).last.position["p"][1]

    x = state.position["p"] + 0.01 * jnp.arange(5.0)[:, None, None]
    stiffness = jnp.linspace(20.0, 60.0, 5)
    of_one = jax.jit(end)
    agree(jax.jit(jax.vmap(end))(stiffness, x), jnp.stack([of_one(*each) for each in zip(stiffness, x, strict=True)]))
    agree(jax.jit(jax.vmap(end, (None, 0)))(stiffness[0], x), jnp.stack([of_one(stiffness[0], each) for each in x]))
    forward, back = (jax.jit(jax.vmap(of(end)))(stiffness, x) for of in (jax.jacfwd, jax.jacrev))
    agree(forward, back)
    curvature = jax.jit(jax.grad(jax.grad(lambda k: end(k, x[0])[0])))
    above, below = (jax.jit(jax.grad(lambda k: end(k, x[0])[0]))(stiffness[0] + h) for h in (1e-3, -1e-3))
    np.testing.assert_allclose(curvature(stiffness[0]), (above - below) / 2e-3, rtol=1e-5)


@pytest.mark.parametrize("scheme", ["ImplicitEuler", "VelocityVerlet"])
def test_failures_are_those_of_ordinary_steps(scheme):
    """A number that is none, and a body without mass: which number, which state, what is left."""
    system, state = SCENES["spring"]()
    integrator = made(scheme, system, state, False)

    def runs(mass, stiffness):
        scene = eqx.tree_at(lambda s: (s.masses["mass"].mass, s.forces["spring"].stiffness), system, (mass, stiffness))
        return motion(scene, integrator, state).info

    given = jnp.array([1.0, np.nan, 1.0, 0.0]), jnp.array([40.0, 40.0, np.inf, 0.0])
    found, expected = both_ways(lambda *numbers: jax.lax.map(lambda pair: runs(*pair), numbers), *given)
    assert {int(r) for r in np.unique(found.result._value[1:])} != {0} and int(found.result._value[0].max()) == 0
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if not np.issubdtype(a.dtype, np.inexact):
            np.testing.assert_array_equal(a[:, 0], b[:, 0])  # of the first step: later ones begin at what is no number


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bodies", "method"), [(1, "auto"), (1, "newton"), (1, "gauss_seidel"), (2, "auto"), (2, "interior_point")]
)
def test_steps_with_contact_are_those_of_ordinary_steps(bodies, method):
    """A body that falls, slides and comes to rest, and one that flies; also of a batch, each member at its own place."""
    on = ("p", range(bodies))
    system = jm.System({"p": jm.Vec3()}, masses={"mass": jm.mass.UniformMass(on, 1.0)}, gravity=[0.0, 0.0, -9.81])
    state = system.at_rest({"p": np.array([[0.0, 0.0, 2e-4], [0.3, 0.0, 0.02]])[:bodies]})
    floor = {"floor": jm.contact.PointContact(on, jm.contact.Plane(), friction=0.4)}
    linear_system = jm.MatrixLinearSystem.build(system, state)
    scheme = jm.integrator.FreeMotion(jm.ImplicitEuler(linear_system), floor, method=method)

    def end(velocity):
        run = motion(system, scheme, eqx.tree_at(lambda s: s.velocity["p"], state, velocity))
        return jnp.sum(jnp.sin(run.last.position["p"])), run

    velocity = jnp.array([[0.06, 0.02, -0.05], [0.3, 0.0, -0.1]])[:bodies]
    assert kernels_of_steps(lambda v: end(v)[0], velocity) == 1
    (slope, run), (plain_slope, plain) = both_ways(jax.grad(end, has_aux=True), velocity)
    impulse = np.asarray(run.info.contacts.impulse)
    assert np.abs(impulse[0]).max() < ROUND_OFF and (impulse[2:, 0, 0] > 0).all(), "never in the air, or never on the ground"
    np.testing.assert_array_equal(run.info.result._value, plain.info.result._value)
    agree((run.state, run.info.contacts.impulse), (plain.state, plain.info.contacts.impulse), 1e-9)  # the solver's own
    agree(slope, plain_slope, 1e-8)
    starts = velocity + jnp.array([0.0, 0.1, 0.2])[:, None, None]
    agree(jax.jit(jax.vmap(lambda v: end(v)[0]))(starts), jnp.stack([jax.jit(end)(v)[0] for v in starts]), 1e-9)


def tabled(name, count):
    """A mass that numbers at times move, and how they do: a scene of a name for its table."""
    times = jnp.linspace(0.0, DT * STEPS, count)
    waves = jnp.stack([jnp.sin(90 * times), jnp.cos(70 * times) - 9.81], axis=1)
    masses = {"mass": jm.mass.UniformMass(("p", [0, 1]), 1.0)}
    nodes = ("p", [0]), ("p", [1])
    if name == "PrescribedMotion":
        lift = jm.constraint.PrescribedMotion(("p", [0]), [[0.0, 0.0]], displacements=0.1 * waves, times=times)
        forces = {"spring": jm.force.Springs(nodes, 40.0, 1.0)}
        system = jm.System({"p": jm.Vec2()}, forces=forces, masses=masses, constraints={"lift": lift})
        return system, 0.1 * waves, lambda values: {"lift": values}
    if name == "Follow":
        winch = jm.constraint.Follow(jm.constraint.Distance(nodes, length=1.0), 0.1 * waves[:, :1], times)
        held = {"winch": winch, "top": jm.constraint.Fixed(("p", [0]))}
        system = jm.System({"p": jm.Vec2()}, masses=masses, constraints=held, gravity=[0.0, -9.81])
        return system, 0.1 * waves[:, :1], lambda values: {"winch": values}
    system, _ = SCENES["spring"]()
    if name == "jnp.interp":
        return system, waves, lambda values: lambda t: jnp.stack([jnp.interp(t, times, a) for a in values.T])
    return system, waves, lambda values: jm.integrator.Table(times, values, kind=name)


def end_of_tabled(name, count, scheme_name):
    """The last position as a function of the numbers of the table; these."""
    system, values, placed = tabled(name, count)
    start = system.at_rest({"p": [[0.0, 0.0], [1.2, 0.1]]})
    scheme = made(scheme_name, system, start, False)

    def end(values):
        table = placed(values)
        if not isinstance(table, dict):
            run = motion(system, scheme, start, control=lambda t, s, p: {"gravity": table(t)})
            return run.last.position["p"][1]
        ((constraint, numbers),) = table.items()
        field = "values" if name == "Follow" else "displacements"
        scene = eqx.tree_at(lambda s: getattr(s.constraints[constraint], field), system, numbers)
        return motion(scene, scheme, start).last.position["p"][1]

    return end, values


TABLES = [
    ("jnp.interp", 100, "VelocityVerlet"),
    ("linear", 20, "ImplicitEuler"),
    ("hold", 100, "SymplecticEuler"),
    ("cubic", 100, "RK4"),
    ("PrescribedMotion", 100, "ImplicitEuler"),
    ("Follow", 100, "ImplicitEuler"),
]


@pytest.fixture
def refused(monkeypatch):
    """What is said to have no form as scalars, after which a kernel that was to be is none."""
    said, init = [], NotScalarisable.__init__
    monkeypatch.setattr(NotScalarisable, "__init__", lambda self, *a: said.append(a) or init(self, *a))
    return said


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count", "scheme"), TABLES)
def test_steps_that_read_tables_are_those_of_ordinary_steps(name, count, scheme, refused):
    """Numbers that are given at times: sought and read within a kernel, their derivatives written there."""
    end, values = end_of_tabled(name, count, scheme)
    assert kernels_of_steps(end, values) == 1

    def slope(values):
        return jax.value_and_grad(lambda v: jnp.sum(jnp.sin(end(v))))(values)

    refused.clear()
    (found, found_slope), (plain, plain_slope) = both_ways(slope, values)
    assert not [text for text in refused if "place" in str(text)]
    agree(found, plain)
    agree(found_slope, plain_slope, 10 * RECOMPILED)
    assert np.count_nonzero(np.asarray(plain_slope).any(axis=1)) > min(STEPS, count) // 2


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, 100])
def test_members_of_a_batch_read_tables(count, refused):
    """One for all, whose entry each reads at its own time, and each its own."""
    end, values = end_of_tabled("linear", count, "SymplecticEuler")
    several = values * jnp.linspace(0.5, 1.5, 11)[:, None, None]
    refused.clear()
    found, slopes = jax.jit(jax.vmap(lambda v: (end(v), jax.grad(lambda v: end(v)[1])(v))))(several)
    assert not [text for text in refused if "place" in str(text)]
    of_one = jax.jit(lambda v: (end(v), jax.grad(lambda v: end(v)[1])(v)))
    agree((found, slopes), jax.tree.map(lambda *a: jnp.stack(a), *map(of_one, several)))
    system, start = SCENES["spring"]()
    scheme = made("SymplecticEuler", system, start, False)
    table = jm.integrator.Table(jnp.linspace(0.0, 1.0, count), values)

    def begun(time):
        begin = dataclasses.replace(start, time=time)
        return motion(system, scheme, begin, control=lambda t, s, p: {"gravity": table(t)}).last.position["p"]

    begins = jnp.linspace(-0.1, 1.1, 11)
    found, plain = both_ways(jax.vmap(begun), begins)
    agree(found, plain)
    agree(found, jnp.stack([begun(time) for time in begins]))


def test_entries_of_a_batch_that_are_put_at_places_of_their_own():
    """Counting the places of such a scatter failed, and with it the run."""
    system, state = SCENES["spring"]()
    scheme = made("SymplecticEuler", system, state, False)

    def control(time, state, parameters):
        del time, parameters
        rows = jnp.arange(6.0).reshape(2, 3)
        at = jnp.argmax(jnp.abs(state.position["p"]), axis=1)
        moved = jax.vmap(lambda row, n: row.at[n].set(0.0))(rows, at)
        return {"gravity": -moved[:, 1]}

    found, plain = both_ways(lambda: motion(system, scheme, state, control=control).state)
    agree(found, plain)


def test_errors_of_compiled_runs_are_those_of_ordinary_steps():
    system, state = SCENES["spring"]()
    scheme = made("ImplicitEuler", system, state, False)

    def end(stiffness):
        scene = eqx.tree_at(lambda s: s.forces["spring"].stiffness, system, stiffness)
        return motion(scene, scheme, state, throw=True).last.position["p"][1, 0]

    for function, who in ((end, "simulate, step 0: 'spring': stiffness"), (jax.grad(end), "the derivative of simulate")):
        with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match=who):
            jax.block_until_ready(jax.jit(function)(jnp.inf))
    assert np.isfinite(jax.jit(jax.grad(end))(40.0))


@pytest.mark.parametrize("form", ["off", "llvm"])
def test_derivatives_of_explicit_steps_that_failed_raise(form):
    """They solve nothing that would tell: without kernels they were NaN, or numbers."""
    system, state = SCENES["spring"]()
    scheme = made("VelocityVerlet", system, state, False)

    def end(dt):
        return jm.simulate(system, state, scheme, dt, STEPS).last.position["p"][1, 0]

    with (
        jm.runtime.element_compiler(form),
        pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="the derivative of simulate: the time step is larger"),
    ):
        jax.block_until_ready(jax.jit(jax.grad(end))(1.0))


def test_a_gradient_passes_by_what_depends_on_nothing():
    """Times, of steps that are no kernels: JAX transposes no solve of such a right-hand side."""
    system, state = SCENES["spring"]()
    scheme = made("VelocityVerlet", system, state, False)

    def end(g):
        pulled = motion(system, scheme, state, control=lambda t, s, p: {"gravity": p}, parameters=g, throw=True)
        return pulled.last.position["p"][1, 0]

    with jm.runtime.element_compiler("off"):
        assert np.isfinite(jax.jit(jax.grad(end))(jnp.array([0.0, -9.81]))).all()


def test_the_derivative_of_one_explicit_step_that_failed_raises():
    system, state = SCENES["spring"]()
    scheme = made("VelocityVerlet", system, state, False)

    def end(dt, throw=True):
        return scheme.step(system, state, scheme.init(system, state), dt, throw=throw)[0].position["p"][1, 0]

    slope = jax.jit(jax.grad(end))
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="the derivative of VelocityVerlet: the time"):
        jax.block_until_ready(slope(1.0))
    assert slope(DT) == jax.jit(jax.grad(lambda dt: end(dt, throw=False)))(DT)


def test_what_has_no_kernel_is_carried_out_as_it_is():
    """A callback, more numbers than are handed on at once."""
    system, state = SCENES["spring"]()
    seen = []

    def control(time, state, parameters):
        del state, parameters
        jax.debug.callback(lambda t: seen.append(float(t)), time)
        return {"gravity": jnp.array([0.0, -9.81])}

    scheme = made("VelocityVerlet", system, state, False)
    watched = jax.block_until_ready(motion(system, scheme, state, control=control).last)
    jax.effects_barrier()
    assert len(seen) >= STEPS
    agree(watched, motion(system, scheme, state).last)
    chain = jm.System(
        {"p": jm.Vec3()}, masses={"mass": jm.mass.UniformMass(("p", range(40)), 1.0)}, gravity=[0.0, 0.0, -9.81]
    )
    start = chain.at_rest({"p": np.zeros((40, 3))})
    symplectic = jm.integrator.SymplecticEuler(check_step=False)
    fallen = motion(chain, symplectic, start).last
    np.testing.assert_allclose(fallen.velocity["p"][:, 2], -9.81 * DT * STEPS, rtol=ROUND_OFF)


def test_a_step_that_calls_the_host_with_known_numbers_has_no_kernel(recwarn):
    """A message without a number, and an error that is raised if a condition holds: neither where the step is compiled."""
    system, state = SCENES["spring"]()
    scheme = made("VelocityVerlet", system, state, False)
    seen = []

    def watched(time, state, limit):
        del state, limit
        jax.debug.callback(lambda: seen.append(1))
        return {"gravity": jnp.stack([0.0, -9.81 + time])}

    def limited(time, state, limit):
        del state
        return {"gravity": eqx.error_if(jnp.stack([0.0, -9.81 + time]), time > limit, "too late")}

    def last(limit, control):
        return motion(system, scheme, state, control=control, parameters=limit).last.position["p"]

    for control in (watched, limited):
        assert kernels_of_steps(lambda limit, c=control: last(limit, c), 1.0) != 1
    seen.clear()
    found = jax.block_until_ready(jax.jit(lambda limit: last(limit, watched))(1.0))
    jax.effects_barrier()
    assert len(seen) >= STEPS
    agree(jax.jit(lambda limit: last(limit, limited))(1.0), found)
    with pytest.raises(Exception, match="too late"):
        jax.block_until_ready(eqx.filter_jit(lambda limit: last(limit, limited))(5.5 * DT))
    assert not [str(w.message) for w in recwarn if "could not compile" in str(w.message)]


def test_steps_without_numbers_of_64_bits_are_kernels(recwarn):
    """Whole numbers written in a program are of 32 bits there, as its arrays are."""
    with jax.enable_x64(False):
        system, state = SCENES["spring"]()
        scheme = made("TRBDF2", system, state, False)
        found, expected = both_ways(lambda s: motion(system, scheme, s).last, state)
        agree(found, expected, SOLVE_ROUNDING["float32"])
    assert not [str(w.message) for w in recwarn if "could not compile" in str(w.message)]


def test_errors_within_a_step_are_raised():
    """Of a run that a control asks for, whatever it then makes of its result."""
    system, state = SCENES["spring"]()
    scheme = made("ImplicitEuler", system, state, False)

    def ahead(time, state, stretch):
        del time
        start = eqx.tree_at(lambda s: s.position["p"], state, stretch * state.position["p"])
        x = jm.simulate(system, start, scheme, DT, 1).last.position["p"][1]
        return {"gravity": jnp.where(jnp.isfinite(x), x, 0.0)}

    def last(stretch):
        return motion(system, scheme, state, control=ahead, parameters=stretch).last.position["p"]

    assert np.isfinite(jax.jit(last)(1.1)).all()
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="simulate, step 0: position of 'p'"):
        jax.block_until_ready(jax.jit(last)(jnp.nan))


@pytest.mark.parametrize("size", range(1, MOST + 1))
def test_shortest_solutions_are_those_by_eigenvectors(rng, size):
    """Of every rank; scaled by other numbers than the diagonal's."""
    for rank in range(size + 1):
        root, scale = rng.normal(size=(size, rank)), np.exp(rng.normal(size=size))
        matrix = root @ root.T
        b = matrix @ rng.normal(size=size)
        tolerance = 64 * size * np.finfo(float).eps
        found, expected = shortest(matrix, scale, b, tolerance), _shortest(jnp.asarray(matrix), scale, b)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max()))


def strip(cells):
    """A clamped strip of triangles."""
    mesh = jm.mesh.box_mesh(cells=(cells, 1), size=(0.5 * cells, 0.5))
    law, nodes = jm.material.StVenantKirchhoff(2e4, 0.3), range(2 * cells + 2)
    system = jm.System(
        {"p": jm.Vec2()},
        forces={"solid": jm.force.TriangleFEM.from_mesh("p", mesh, law, plane="stress")},
        masses={"mass": jm.mass.UniformMass.of_total(("p", nodes), 2.0)},
        constraints={"clamp": jm.constraint.Fixed(("p", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    return system, system.at_rest({"p": mesh.points})


@pytest.mark.slow
def test_what_xla_computes_elements_at_a_time_is_no_kernel():
    """The linear system of two triangles took 1.6 times XLA's time."""
    system, state = strip(1)
    scheme = made("ImplicitEuler", system, state, False)
    assert kernels_of_steps(lambda x: motion(system, scheme, state).last.position, 0.0) > 1  # parts of a step


@pytest.mark.slow
def test_adaptive_turns_are_those_of_ordinary_steps():
    """With two events, of which one changes the motion, and derivatives through them."""
    system, state = SCENES["spring"]()
    scheme = made("Tsitouras", system, state, False)

    def turned(state):
        return dataclasses.replace(state, velocity={"p": -0.9 * state.velocity["p"]})

    low = jm.integrator.Event(lambda system, state: state.position["p"][1, 1] + 0.3)
    near = jm.integrator.Event(lambda system, state: state.position["p"][1, 0] - 0.9, apply=turned)

    def end(x):
        start = dataclasses.replace(state, position=x)
        options = {"rtol": 1e-6, "atol": 1e-8, "events": [low, near], "max_steps": 256, "throw": False}
        run = jm.simulate_adaptive(system, start, scheme, [0.1, 0.4], **options)
        return jnp.sum(jnp.sin(run.last.position["p"])) + jnp.sum(run.event_time), run

    (slope, run), (plain_slope, plain) = both_ways(jax.grad(end, has_aux=True), state.position)
    assert int((run.event >= 0).sum()) >= 2 and int(run.info.accepted) == int(plain.info.accepted)
    np.testing.assert_array_equal(run.event, plain.event)
    agree((run.state, run.event_time), (plain.state, plain.event_time), 1e-8)  # sizes of steps magnify rounding
    agree(slope, plain_slope, 1e-6)
    check_pages(lambda x: end(x)[0], state.position)


def check_pages(function, *arguments):
    """Of an adaptive run all turns of a page are one kernel, in one loop."""
    (pages,) = [loop for depth, loop in nested_loops(jax.make_jaxpr(function)(*arguments).jaxpr, "while") if depth == 1]
    body = pages.params["body_jaxpr"].jaxpr
    (kernel,) = [eqn for depth, eqn in nested_loops(body, "jaxmech_mapped") if depth == 1]
    assert len(list(nested_loops(body, "while"))) == len(list(nested_loops(kernel.params["call"].jaxpr, "while"))) > 1


@pytest.mark.slow
@pytest.mark.parametrize(("scene", "name", "newton", "extrapolate"), ADAPTIVE)
def test_records_of_adaptive_runs_are_those_of_ordinary_steps(scene, name, newton, extrapolate):
    """Of more turns than a page has, and more output times than are seen at once; alone and in a batch."""
    system, state = SCENES[scene]()
    scheme = made(name, system, state, newton, rtol=1e-9)  # or rounding decides which steps fail

    def run(a):
        start = dataclasses.replace(state, velocity=jax.tree.map(lambda v: a * v, state.velocity))
        times, options = np.linspace(0.002, 0.2, 70), {"rtol": 1e-4, "atol": 1e-6, "max_steps": 400, "throw": False}
        return jm.simulate_adaptive(
            system, start, scheme, times, extrapolate=extrapolate, observe=lambda s, x: (x.time, x.position), **options
        )

    check_pages(run, 1.0)
    for function, x in ((run, jnp.asarray(1.0)), (jax.vmap(run), jnp.array([1.0, 0.5, 1.2]))):
        found, plain = both_ways(function, x)
        assert (np.asarray(plain.info.turns) > 64).all() and plain.reached.all()
        np.testing.assert_array_equal(found.info.outcome, plain.info.outcome)
        np.testing.assert_allclose(found.info.dt, plain.info.dt, 1e-6)
        agree((found.observed, found.last), (plain.observed, plain.last), 1e-8)
        np.testing.assert_array_equal(found.info.turns, plain.info.turns)
