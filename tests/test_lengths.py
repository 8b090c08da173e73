"""A scene that is made smaller or larger in all its lengths is the same scene: forces go by `E L^2`, moments by `E L^3`,
times by `L`, and what is found is as long as the scene, turned by the same angles, after as many iterations."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from tolerances import TWO_MODES

import jaxmech as jm

LENGTHS = (1e-9, 1e-6, 1e-3, 1e3, 1e6)
E, RHO = 1e9, 1e3  # [Pa], [kg/m^3]
# Newton's last step leaves the rest of its iterations to rounding; what ends early is off by 1e-4 and more.
SAME = 1e-9
RADIUS, MEMBERS = 0.01, 6
TURNED = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def cantilever(L, load=1.0):
    """A slender beam that its end load bends by half its length [m]."""
    x = np.linspace(0.0, L, MEMBERS + 1)
    line = jm.mesh.frames_along(np.stack([x, 0 * x, 0 * x], axis=1))
    wire = jm.force.Section.circle(RADIUS * L, young=E, poisson=0.3)
    mass = RHO * np.pi * RADIUS**2 * L**3 / MEMBERS
    scene = jm.System(
        {"f": jm.Rigid3()},
        forces={
            "beam": jm.force.Beam(("f", [[i, i + 1] for i in range(MEMBERS)]), line, wire),
            "load": jm.force.ConstantForce(
                ("f", [MEMBERS]), np.array([0.0, 0.0, -2.0]) * float(wire.bending[0]) / L**2 * load
            ),
        },
        masses={"m": jm.mass.RigidMass(("f", range(MEMBERS + 1)), mass, mass * L**2 / 100 * np.eye(3))},
        constraints={"clamp": jm.constraint.Fixed(("f", [0]))},
    )
    return scene, scene.at_rest({"f": line})


def body(L):
    """A rigid body that springs hold at four of its points."""
    hooks = np.array([[-0.5, 0, 0.1], [0.5, 0.0, 0.1], [0.0, 0.4, -0.2], [0.1, -0.5, 0.3]])
    moved = np.array([[0.1, 0.2, 0.3], [-0.2, 0.5, 0.3], [0.3, 0.1, -0.2], [0.1, 0.3, 0.2]])
    scene = jm.System(
        {"body": jm.Rigid3(), "hooks": jm.Vec3()},
        mappings={"rigid": jm.mapping.RigidMapping(("body", [0] * 4), "hooks", local=hooks * L)},
        forces={"springs": jm.force.AnchoredSprings(("hooks", range(4)), E * L, (hooks + moved) * L)},
    )
    return scene, scene.at_rest({"body": TURNED[None]})


def anchored(L):
    """A frame by itself, which has no length but that of what holds it."""
    scene = jm.System(
        {"body": jm.Rigid3()},
        forces={
            "anchor": jm.force.AnchoredFrames(("body", [0]), anchor=TURNED, stiffness=E * L, angular_stiffness=E * L**3),
            "load": jm.force.ConstantForce(("body", [0]), np.array([0.1, 0.2, 0.3]) * E * L**2),
            "torque": jm.force.ConstantTorque(("body", [0]), np.array([0.6, -0.7, 0.5]) * E * L**3),
        },
    )
    return scene, scene.at_rest({"body": TURNED[None]})


def batch(make, lengths=LENGTHS):
    """The scene of a metre and others, as one batch; and the length of each."""
    scenes = [make(L) for L in (1.0, *lengths)]
    return jax.tree.map(lambda *a: jnp.stack(a), *scenes), np.array((1.0, *lengths))


def difference(position, L):
    """From the first member: of places over the length, and of quaternions."""
    x = np.array(position)
    x[..., :3] /= L[:, None, None]
    return np.abs(x - x[:1]).max()


@pytest.mark.parametrize(
    "make, method",
    [
        (cantilever, "newton"),
        (cantilever, "trust_region"),
        (body, "newton"),
        (body, "dynamic_relaxation"),
        pytest.param(anchored, "newton", marks=pytest.mark.slow),
    ],
)
def test_statics(make, method):
    (scenes, rest), L = batch(make)
    linear_system = jm.MatrixLinearSystem.build(*make(1.0), jm.Terms(mass=False, damping=False))

    @eqx.filter_jit
    @jax.vmap
    def solve(scene, rest):
        return jm.static_solve(scene, rest, linear_system, method=method, throw=False)

    found = solve(scenes, rest)
    assert (np.asarray(found.result._value) == 0).all()
    (x,) = found.position.values()
    assert difference(x, L) < SAME
    assert np.ptp(found.info.iterations) <= 1
    for of_forces in (found.info.floor, found.info.residuals[:, 0, 0]):
        assert np.allclose(of_forces / L**2, of_forces[0], rtol=0.1, atol=0)


@pytest.mark.parametrize(
    "make, solver",
    [
        (cantilever, jm.solver.MINRES()),
        (body, jm.solver.MINRES()),
        pytest.param(cantilever, jm.solver.PCG(), marks=pytest.mark.slow),
    ],
)
def test_iterative_solvers(make, solver):
    """Their residual is of forces and moments in one norm, which of a beam of a thousand kilometres no rounding meets. One
    of a nanometre is solved as well as the others, but on some processors rows of rounding are taken for unequal ones."""
    (scenes, rest), L = batch(make, LENGTHS[1:-1])
    linear_system = jm.MatrixLinearSystem.build(*make(1.0), jm.Terms(mass=False, damping=False, symmetric=True))

    @eqx.filter_jit
    @jax.vmap
    def solve(scene, rest):
        problem = jm.solver.static_problem(scene, rest, linear_system)
        found = lx.linear_solve(problem.A, problem.b, solver, throw=False)
        return found.value, found.stats

    found, stats = solve(scenes, rest)
    (d,) = found.values()
    assert (np.asarray(stats["reason"]._value) == 0).all()
    assert np.ptp(stats["num_steps"]) <= 1
    assert difference(d, L) < SAME


@pytest.mark.parametrize("newton", [pytest.param(False, marks=pytest.mark.slow), True])
def test_steps(newton):
    (scenes, rest), L = batch(cantilever)
    linear_system = jm.MatrixLinearSystem.build(*cantilever(1.0))
    euler = jm.ImplicitEuler(linear_system, newton=newton)

    @eqx.filter_jit
    @jax.vmap
    def run(scene, rest, dt):
        return jm.simulate(scene, rest, euler, dt, 3, throw=False)

    found = run(scenes, rest, jnp.asarray(20 * L * np.sqrt(RHO / E)))
    assert (np.asarray(found.info.result._value) == 0).all()
    assert difference(found.last.position["f"], L) < SAME
    assert np.ptp(found.info.iterations, axis=0).max() == 0


@pytest.mark.slow
def test_derivatives():
    (scenes, rest), L = batch(cantilever)
    linear_system = jm.MatrixLinearSystem.build(*cantilever(1.0), jm.Terms(mass=False, damping=False))

    def sag(load, scene, rest, L):
        scene = eqx.tree_at(lambda s: s.forces["load"].force, scene, replace_fn=lambda f: load * f)
        return jm.static_solve(scene, rest, linear_system).position["f"][-1, 2] / L

    @eqx.filter_jit
    @jax.vmap
    def both(scene, rest, L):
        one = jnp.ones(())
        at = partial(sag, scene=scene, rest=rest, L=L)
        return jax.grad(at)(one), jax.jvp(at, (one,), (one,))[1]

    backward, forward = both(scenes, rest, jnp.asarray(L))
    assert np.allclose(forward, forward[0], rtol=SAME, atol=0) and np.allclose(backward, forward, rtol=TWO_MODES, atol=0)


def test_what_is_held_takes_no_digits_from_a_transposed_product():
    """The ones of what constraints hold were added to small entries of the matrix, and taken off again, in reverse mode."""
    k = 1e-20
    scene = jm.System(
        {"p": jm.Vec1()},
        forces={"springs": jm.force.Springs((("p", [0, 1]), ("p", [1, 2])), stiffness=k, rest_length=1.0)},
        constraints={"nail": jm.constraint.Fixed(("p", [0]))},
    )
    rest = scene.at_rest({"p": [[0.0], [1.0], [2.0]]})
    A = jm.solver.MatrixFreeSystem(jm.Terms(mass=False, damping=False)).assemble(scene, rest, jm.Factors.only("stiffness"))
    x = {"p": jnp.array([[1.0], [2.0], [3.0]])}
    (product,) = jax.jit(lambda x: jax.linear_transpose(A.mv, x)(x))(x)
    assert np.allclose(product["p"][:, 0], [1.0, (2 * 2 - 3) * k, (3 - 2) * k], rtol=1e-12, atol=0)  # of the nail, 1


@pytest.mark.slow
def test_paths():
    """A shallow arch that snaps: its limit points, and what they are taken for, do not depend on its length."""

    nodes = np.linspace(-1.0, 1.0, 5)

    def arch(mu, L, line):
        section = jm.force.Section.circle(0.03 * L, young=E, poisson=0.0)
        return jm.System(
            {"f": jm.Rigid3()},
            forces={
                "beam": jm.force.Beam(("f", [[i, i + 1] for i in range(4)]), line, section),
                "load": jm.force.ConstantForce(("f", [2]), jnp.array([0.0, -1e-6, 0.0]) * mu * E * L**2),
            },
            constraints={
                "clamp": jm.constraint.Fixed(("f", [0, 4])),
                "plane": jm.constraint.FixedComponents(("f", [1, 2, 3]), [False, False, True, True, True, False]),
            },
        )

    found = []
    for L in (1.0, 1e-9, 1e6):
        line = jm.mesh.frames_along(np.stack([nodes, 0.2 * (1 - nodes**2), 0 * nodes], axis=1) * L)
        scene = partial(arch, L=L, line=line)
        path = jm.follow_path(scene, scene(0.0).at_rest({"f": line}), step=8.0, steps=8)
        kinds, loads = [c.kind for c in path.critical], [float(c.load) for c in path.critical]
        found.append((kinds, loads, np.asarray(path.position["f"])[:, :, 1] / L))
    assert found[0][0] == ["bifurcation", "limit", "limit", "bifurcation"]
    for kinds, loads, x in found[1:]:
        assert kinds == found[0][0]
        assert np.allclose(loads, found[0][1], rtol=SAME, atol=0) and np.allclose(x, found[0][2], rtol=0, atol=SAME)


SHELLS = {"quad": (jm.force.QuadShell, [[0, 1, 2, 3]]), "triangle": (jm.force.Shell, [[0, 1, 2], [0, 2, 3]])}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHELLS)
def test_small_shells_of_steel_in_single_precision(kind):
    """Tenths of millimetres in metres and 2e11 Pa: energies, forces and derivatives by all that a shell has."""
    points = np.array([[0.0, 0.0, 0.0], [1.1, 0.1, 0.05], [1.0, 0.9, 0.0], [0.05, 1.0, 0.03]])
    moved = 0.02 * np.sin(np.arange(28.0)).reshape(4, 7)

    def slopes(L, dtype):
        """The energy over `E L^3`, and its derivatives by the modulus, the thickness, the rest and the state."""
        law, cells = SHELLS[kind]
        shell = law.from_mesh("f", jm.mesh.Mesh(points * L, cells, kind), young=2e11, poisson=0.3, thickness=0.05 * L)
        frames = (TURNED + moved) * ([L] * 3 + [1.0] * 4) + np.pad(points * L, ((0, 0), (0, 4)))
        frames[:, 3:] /= np.linalg.norm(frames[:, 3:], axis=1, keepdims=True)
        numbers = shell.young, shell.thickness, shell.rest[:, :3], frames[:, :3]
        numbers, frames = jax.tree.map(lambda a: np.asarray(a, dtype), (numbers, frames))
        scene = jm.System({"f": jm.Rigid3()}, forces={"shell": shell})
        scene = jax.tree.map(lambda a: np.asarray(a, dtype) if eqx.is_inexact_array_like(a) else a, scene)

        def stored(young, thickness, rest, x):
            s = scene.forces["shell"]
            at = (young, thickness, jnp.concatenate([rest, s.rest[:, 3:]], axis=1))
            s = eqx.tree_at(lambda s: (s.young, s.thickness, s.rest), s, at)
            state = jm.State(
                {"f": jnp.concatenate([x, frames[:, 3:]], axis=1)}, {"f": np.zeros((4, 6), dtype)}, np.zeros((), dtype)
            )
            return jm.energy(eqx.tree_at(lambda c: c.forces["shell"], scene, s), state)

        value, found = jax.jit(jax.value_and_grad(stored, range(4)))(*numbers)
        sizes = 2e11, L, L, L
        scaled = [np.asarray(a, float) * size for a, size in zip(found, sizes, strict=True)]
        return [np.asarray(a, float) / (2e11 * L**3) for a in (value, *scaled)]

    for found, wanted in zip(slopes(2e-4, np.float32), slopes(1.0, np.float64), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.slow
def test_explicit_steps_of_a_thin_shell_in_single_precision():
    """Turns are lighter than ways by the thickness, squared, and no iteration for their masses may see in which unit."""
    L = 1e-2

    def motion(dtype):
        points = [[i % 4 * L, i // 4 * L, 0.0] for i in range(12)]
        cells = [[i, i + 1, i + 5, i + 4] for i in (0, 1, 2, 4, 5, 6)]
        strip = jm.mesh.Mesh(points, cells, "quad")
        shell = jm.force.QuadShell.from_mesh("f", strip, young=2e11, poisson=0.3, thickness=0.05 * L)
        mass = jm.mass.ShellMass.from_mesh("f", strip, density=7800.0, thickness=0.05 * L)
        scene = jm.System({"f": jm.Rigid3()}, forces={"shell": shell}, masses={"mass": mass})
        scene = jax.tree.map(lambda a: np.asarray(a, dtype) if eqx.is_inexact_array_like(a) else a, scene)
        frames = np.array(shell.rest, dtype)
        frames[0, 2] += 0.01 * L
        state = scene.at_rest({"f": frames})
        limit = jm.integrator.critical_time_step(scene, state)
        run = jm.simulate(scene, state, jm.integrator.VelocityVerlet(), np.asarray(5e-8, dtype), 10)
        return limit, run.last.position["f"][:, :3] / L

    found, wanted = motion(np.float32), motion(np.float64)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-3)
    np.testing.assert_allclose(found[1], wanted[1], rtol=0, atol=1e-5)
