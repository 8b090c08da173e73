"""Paths of equilibria against closed forms: von Mises's truss (case C7), a shallow arch, the elastica (case C1)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipe, ellipk
from tolerances import FINITE_DIFFERENCE, TWO_MODES

import jaxmech as jm

EA, HALF_SPAN = 1e6, 10.0
CLOSED_FORM = 1e-8  # of paths whose points converge to rounding; a wrong term is of order one


class GreenBar(jm.force.AbstractEnergyForceField):
    """`E = EA L/2 e^2` of the Green strain `e`."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jax.Array = jm.parameter()  # [N]
    length: jax.Array = jm.parameter()  # [m]

    def element_energy(self, a, b):
        strain = 0.5 * ((b - a) @ (b - a) / self.length**2 - 1)
        return 0.5 * self.stiffness * self.length * strain**2


class Lift(jm.force.AbstractEnergyForceField):
    """`E = k/2 (y_b - y_a)^2`: a spring in series with what it hangs on."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jax.Array = jm.parameter()  # [N/m]

    def element_energy(self, a, b):
        return 0.5 * self.stiffness * (b[1] - a[1]) ** 2


def truss(numbers, load):
    """Two bars on pins 0 and 2 that meet in node 1, pushed down through a spring by node 3. `numbers`: EA, rise, k."""
    stiffness, rise, soft = numbers
    length = jnp.sqrt(HALF_SPAN**2 + rise**2)
    return jm.System(
        {"p": jm.Vec2()},
        forces={
            "bars": GreenBar((("p", [0, 1]), ("p", [1, 2])), stiffness, length),
            "series": Lift((("p", [1]), ("p", [3])), soft),
            "load": jm.force.ConstantForce(("p", [3]), jnp.stack([jnp.zeros_like(load), -load])[None]),
        },
        constraints={
            "pins": jm.constraint.Fixed(("p", [0, 2])),
            "guide": jm.constraint.FixedComponents(("p", [3]), (True, False)),
        },
    )


def at_rest(rise):
    points = [[-HALF_SPAN, 0.0], [0.0, rise], [HALF_SPAN, 0.0], [0.0, rise]]
    return truss(jnp.array([EA, rise, 1e3]), jnp.zeros(())).at_rest({"p": points})


def scene(rise, soft=1e5):
    return eqx.Partial(truss, jnp.array([EA, rise, soft]))


def exact_load(y, rise):
    return EA * y * (rise**2 - y**2) / np.hypot(HALF_SPAN, rise) ** 3


def heights(path):
    return np.asarray(path.position["p"][:, 1, 1])


@pytest.fixture(scope="module")
def shallow():
    return jm.follow_path(scene(1.0), at_rest(1.0), step=50.0, steps=40, displacement=("p", 1, 1), to=600.0)


def test_von_mises_truss_is_followed_through_both_limit_points(shallow):
    y = heights(shallow)
    np.testing.assert_allclose(shallow.loads, exact_load(y, 1.0), rtol=CLOSED_FORM, atol=CLOSED_FORM)
    assert shallow.info.result == jm.RESULTS.successful
    # The end lies on the mirrored branch, at the load that was asked for.
    np.testing.assert_allclose(shallow.loads[-1], 600.0, rtol=1e-12)
    assert y[-1] < -1 and len(shallow.loads) < 35
    # Unstable between the limit points, and only there.
    assert np.array_equal(shallow.unstable, (np.abs(y) < 1 / np.sqrt(3)).astype(int))
    first, second = shallow.critical
    assert (first.kind, second.kind) == ("limit", "limit")
    np.testing.assert_allclose([first.load, second.load], [379.198013, -379.198013], rtol=1e-8)
    w = -np.asarray(shallow.critical_displacement)
    np.testing.assert_allclose(w, [0.42264973, 2 - 0.42264973], rtol=1e-8)
    np.testing.assert_allclose(first.state.position["p"][1, 1], 1 / np.sqrt(3), rtol=1e-10)
    np.testing.assert_allclose(np.abs(first.mode["p"][[1, 3], 1]), np.sqrt(0.5), rtol=1e-9)
    lines = shallow.report().splitlines()
    assert len(lines) == len(shallow.loads) + 4 and sum("limit point" in line for line in lines) == 2
    assert lines[-1] == "ended: successful"


def test_displacement_control_passes_limit_points_and_ends_where_it_was_told():
    options = {"control": "displacement", "displacement": ("p", 1, 1), "step": 0.05, "to": -2.2}
    path = jm.follow_path(scene(1.0), at_rest(1.0), **options)
    np.testing.assert_allclose(path.displacement[-1], -2.2, rtol=1e-12)
    np.testing.assert_allclose(path.loads, exact_load(heights(path), 1.0), rtol=CLOSED_FORM, atol=CLOSED_FORM)
    np.testing.assert_allclose([c.load for c in path.critical], [379.198013, -379.198013], rtol=1e-8)


def test_load_steps_are_cut_back_before_a_limit_point_and_the_reason_is_kept():
    options = {"control": "load", "step": 100.0, "to": 500.0, "shortest": 1e-3, "steps": 99, "displacement": ("p", 1, 1)}
    path = jm.follow_path(scene(1.0), at_rest(1.0), **options, throw=False)
    assert path.info.result == jm.RESULTS.not_converged and 378.0 < path.loads[-1] < 379.1981
    assert len(path.cutbacks) >= 8 and all(c.result == jm.RESULTS.not_converged for c in path.cutbacks)
    assert "cut back: not converged" in path.report()
    with pytest.raises(jm.FailedComputation, match=r"follow_path, after point \d+ at load 379\.\d+: Newton did not conv"):
        jm.follow_path(scene(1.0), at_rest(1.0), **options)
    # Below it nothing is cut back, steps grow, and the last one ends where it should.
    path = jm.follow_path(scene(1.0), at_rest(1.0), control="load", step=20.0, to=300.0, displacement=("p", 1, 1))
    assert not path.cutbacks and path.steps[2] > path.steps[1]
    np.testing.assert_allclose(path.loads[-1], 300.0, rtol=1e-12)


@pytest.mark.slow
def test_a_first_arc_far_beyond_the_end_ends_where_it_shall():
    """From a trial at 12 353 N no step at 600 N converged, and the path ended there, as a success."""
    path = jm.follow_path(scene(1.0), at_rest(1.0), step=1e4, steps=60, displacement=("p", 1, 1), to=600.0)
    np.testing.assert_allclose(path.loads[-1], 600.0, rtol=1e-12)
    np.testing.assert_allclose(path.loads, exact_load(heights(path), 1.0), rtol=CLOSED_FORM, atol=CLOSED_FORM)
    assert path.cutbacks[0].result == jm.RESULTS.not_converged and heights(path)[-1] < -1


@pytest.mark.slow
def test_a_soft_spring_in_series_makes_the_path_snap_back():
    soft = 500.0
    options = {"step": 20.0, "steps": 60, "displacement": ("p", 3, 1), "to": 600.0}
    path = jm.follow_path(scene(1.0, soft), at_rest(1.0), **options)
    np.testing.assert_allclose(path.loads, exact_load(heights(path), 1.0), rtol=CLOSED_FORM, atol=CLOSED_FORM)
    # w3 = w1 + P/k turns where dP/dw1 = -k.
    length = np.hypot(HALF_SPAN, 1.0)
    y = np.sqrt((1 - soft * length**3 / EA) / 3)
    turns = [
        (exact_load(y, 1.0), y - 1 - exact_load(y, 1.0) / soft),
        (exact_load(-y, 1.0), -y - 1 + exact_load(y, 1.0) / soft),
    ]
    np.testing.assert_allclose(np.asarray(path.turns), turns, rtol=1e-8)
    # Under control of the displacement that turns it can only jump.
    options = {"control": "displacement", "displacement": ("p", 3, 1), "step": 0.1, "to": -2.0}
    jumped = jm.follow_path(scene(1.0, soft), at_rest(1.0), **options)
    assert np.abs(np.diff(heights(jumped))).max() > 0.5 > np.abs(np.diff(heights(path))).max()
    assert jumped.turns == ()  # and goes on as it went: nothing turned at the point where it came down


@pytest.mark.slow_cases("float32")
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_a_coordinate_that_does_not_move_does_not_turn(dtype):
    """How far a spring is stretched that carries nothing, on a mass pushed back and forth: where rounding changed the
    sign of its rate, its displacement of 1e-16 m was said to turn."""

    def hung(load):
        push = jm.force.ConstantForce(("p", [0]), load * jnp.ones((1, 1), dtype))
        forces = {
            "law": Snap(("p", [0])),
            "spring": jm.force.Springs((("p", [0]), ("p", [1])), dtype(1 / 3), dtype(0.7)),
            "push": push,
        }
        stretch = jm.mapping.FunctionMapping(("p", [[0, 1]]), "stretch", lambda x: x[1] - x[0])
        return jm.System({"p": jm.Vec1(), "stretch": jm.Vec1()}, forces=forces, mappings={"stretch": stretch})

    start = hung(jnp.zeros((), dtype)).at_rest({"p": np.array([[0.0], [0.7]], dtype)})
    path = jm.follow_path(hung, start, step=0.05, steps=40, displacement=("stretch", 0, 0))
    assert [c.kind for c in path.critical] == ["limit", "limit"] and path.position["p"][-1, 0, 0] > 2.2
    assert path.turns == () and np.abs(path.displacement).max() < 8 * np.finfo(dtype).eps


@pytest.mark.slow
def test_a_high_truss_bifurcates_sideways_and_its_branch_is_a_circle():
    rise = 40.0
    options = {"step": 1e4, "steps": 17, "displacement": ("p", 1, 1)}
    path = jm.follow_path(scene(rise, 1e8), at_rest(rise), **options)
    np.testing.assert_allclose(path.loads, exact_load(heights(path), rise), rtol=CLOSED_FORM)
    bifurcation, limit = path.critical
    assert (bifurcation.kind, limit.kind) == ("bifurcation", "limit") and set(np.asarray(path.unstable)) == {0, 1, 2}
    radius, length = np.sqrt(rise**2 - 2 * HALF_SPAN**2), np.hypot(HALF_SPAN, rise)
    np.testing.assert_allclose(bifurcation.load, 2 * EA * HALF_SPAN**2 * radius / length**3, rtol=1e-10)
    np.testing.assert_allclose(limit.load, EA * 2 / 3**1.5 * (rise / length) ** 3, rtol=1e-10)
    np.testing.assert_allclose(np.abs(bifurcation.mode["p"][1]), [1.0, 0.0], atol=1e-9)
    ends, lateral = [], {"displacement": ("p", 1, 0)}
    for direction in (1, -1):
        branch = jm.follow_path(
            scene(rise, 1e8), bifurcation, step=1e4, steps=12, direction=direction, amplitude=0.5, **lateral
        )
        x, y = np.asarray(branch.position["p"][:, 1]).T
        np.testing.assert_allclose(np.hypot(x, y), radius, rtol=CLOSED_FORM)
        np.testing.assert_allclose(branch.loads, 2 * EA * HALF_SPAN**2 * y / length**3, rtol=CLOSED_FORM)
        assert branch.unstable[0] == -1 and set(np.asarray(branch.unstable[1:])) == {1}  # subcritical
        ends.append(x[-1])
    assert ends[0] * ends[1] < 0 and np.abs(ends).min() > 1.0


@pytest.mark.slow
def test_a_limit_load_has_the_derivative_of_its_closed_form(shallow):
    near, state = shallow.critical[0], at_rest(1.0)
    numbers = jnp.array([EA, 1.0, 1e5])
    linear_system = jm.MatrixLinearSystem.build(scene(1.0)(0 * near.load), state, jm.Terms(mass=False, damping=False))

    @jax.jit
    @jax.value_and_grad
    def load(numbers):
        return jm.solver.critical_point(eqx.Partial(truss, numbers), near, linear_system).load

    changed = numbers * jnp.array([1.0, 1.05, 1.0])
    value, slope = load(changed)

    def exact(numbers):
        return numbers[0] * 2 / 3**1.5 * numbers[1] ** 3 / jnp.hypot(HALF_SPAN, numbers[1]) ** 3

    np.testing.assert_allclose(value, exact(changed), rtol=1e-10)
    np.testing.assert_allclose(slope, jax.grad(exact)(changed), rtol=TWO_MODES, atol=1e-12)
    h = 1e-3
    finite = [(load(changed * (1 + s * jnp.array([0.0, h, 0.0])))[0]) for s in (-2, -1, 1, 2)]
    difference = (8 * (finite[2] - finite[1]) - (finite[3] - finite[0])) / (12 * h * changed[1])
    np.testing.assert_allclose(slope[1], difference, rtol=FINITE_DIFFERENCE)


def pushed_down(numbers, load):
    """The truss, whose node 3 is moved down by `load` metres."""
    system = truss(numbers, 0.0 * load)
    motion = jnp.stack([jnp.zeros_like(load), -load])[None]
    down = jm.constraint.PrescribedMotion(("p", [3]), [[0.0, 1.0]], motion)
    constraints = {"pins": system.constraints["pins"], "down": down}
    return jm.System(system.dofs, forces=system.forces, constraints=constraints)


@pytest.mark.slow
def test_motions_of_supports_are_steps_of_load():
    named = {"displacement": ("p", 1, 1)}
    stiff = jm.follow_path(
        eqx.Partial(pushed_down, jnp.array([EA, 1.0, 1e4])), at_rest(1.0), step=0.1, to=2.2, control="load", **named
    )
    y = heights(stiff)
    np.testing.assert_allclose(1 - y + exact_load(y, 1.0) / 1e4, stiff.loads, rtol=CLOSED_FORM, atol=CLOSED_FORM)
    np.testing.assert_allclose(stiff.loads[-1], 2.2, rtol=1e-12)
    assert not stiff.cutbacks and not stiff.critical and np.all(np.asarray(stiff.unstable) == 0)
    # Through a soft spring the motion has a limit point, where P' = -k, beyond which arc length goes.
    soft = 500.0
    scene = eqx.Partial(pushed_down, jnp.array([EA, 1.0, soft]))
    path = jm.follow_path(scene, at_rest(1.0), step=0.1, to=2.2, steps=60, **named)
    limit = np.sqrt((1 - soft * np.hypot(HALF_SPAN, 1.0) ** 3 / EA) / 3)
    exact = [1 - y + exact_load(y, 1.0) / soft for y in (limit, -limit)]
    np.testing.assert_allclose([c.load for c in path.critical], exact, rtol=1e-8)
    stopped = jm.follow_path(scene, at_rest(1.0), step=0.1, to=2.2, control="load", steps=60, throw=False, **named)
    assert stopped.cutbacks[0].result in (jm.RESULTS.not_converged, jm.RESULTS.sharp_turn)


@pytest.mark.slow
def test_an_unstable_point_has_the_derivative_of_its_closed_form(shallow):
    number = int(np.argmax(np.asarray(shallow.unstable)))
    state, load = shallow.at(number), shallow.loads[number]
    linear_system = jm.MatrixLinearSystem.build(scene(1.0)(load), state, jm.Terms(mass=False, damping=False))

    def height(stiffness):
        numbers = jnp.stack([stiffness, jnp.ones(()), jnp.full((), 1e5)])
        return jm.static_solve(truss(numbers, load), state, linear_system).position["p"][1, 1]

    y, slope = jax.value_and_grad(height)(jnp.array(EA))
    np.testing.assert_allclose(y, heights(shallow)[number], rtol=1e-7)
    np.testing.assert_allclose(slope, -y * (1 - y**2) / (1 - 3 * y**2) / EA, rtol=1e-6)


class Arch(jm.force.AbstractEnergyForceField):
    """A shallow sinusoidal arch by the amplitudes `u`, `v` of its first two sines, of rise `l`, over twice the radius of
    gyration: `E = (u - l)^2 + 16 v^2 + (u^2 + 4 v^2 - l^2)^2 / 2`.

    Y. C. Fung and A. Kaplan, NACA TN 2840 (1952).
    """

    on: tuple[jm.Stencil, ...] = jm.stencils()
    rise: jax.Array = jm.parameter()

    def element_energy(self, q):
        u, v = q[:, 0]
        return (u - self.rise) ** 2 + 16 * v**2 + 0.5 * (u**2 + 4 * v**2 - self.rise**2) ** 2


def arch(rise, load):
    forces = {"arch": Arch(("q", [[0, 1]]), rise), "load": jm.force.ConstantForce(("q", [0]), -load[None, None])}
    return jm.System({"q": jm.Vec1()}, forces=forces)


@pytest.mark.slow
def test_a_shallow_arch_snaps_by_a_limit_point_or_sideways():
    rise = 4.0
    bent, named = eqx.Partial(arch, jnp.asarray(rise)), {"displacement": ("q", 0, 0)}
    rest = bent(jnp.zeros(())).at_rest({"q": [[rise], [0.0]]})
    path = jm.follow_path(bent, rest, step=2.0, steps=40, to=70.0, **named)
    u = np.asarray(path.position["q"][:, 0, 0])
    np.testing.assert_allclose(path.loads, 2 * (rise - u) + 2 * u * (rise**2 - u**2), rtol=CLOSED_FORM)
    # P = 2 l + 4 u^3 where dP/du = 0, u^2 = (l^2 - 1) / 3; P = 2 l + 6 u where it gives way sideways, u^2 = l^2 - 4.
    limit, aside = 4 * ((rise**2 - 1) / 3) ** 1.5, 6 * np.sqrt(rise**2 - 4)
    assert [c.kind for c in path.critical] == ["bifurcation", "limit", "limit", "bifurcation"]
    exact = 2 * rise + np.array([aside, limit, -limit, -aside])
    np.testing.assert_allclose([c.load for c in path.critical], exact, rtol=1e-10)
    # The branch is the ellipse u^2 + 4 v^2 = l^2 - 4, P = 2 l + 6 u, from one bifurcation to the other.
    branch = jm.follow_path(bent, path.critical[0], step=2.0, steps=23, amplitude=0.05, **named)
    u, v = np.asarray(branch.position["q"][..., 0]).T
    np.testing.assert_allclose(u**2 + 4 * v**2, rise**2 - 4, rtol=CLOSED_FORM)
    np.testing.assert_allclose(branch.loads, 2 * rise + 6 * u, rtol=CLOSED_FORM)
    assert v[-1] > 0 and u[-1] < -3
    ends = jm.follow_path(bent, path.critical[0], step=2.0, steps=24, amplitude=0.05, **named).critical
    assert [c.kind for c in ends] == ["bifurcation"]
    np.testing.assert_allclose(ends[0].load, exact[3], rtol=1e-8)


LINKS = 40


def chain(direction, load):
    """A cantilever `E I = L = 1` of rigid links, by the angles between them; half a link bends at the clamp."""

    def tip(angles):
        turned = jnp.cumsum(angles[:, 0])
        return jnp.stack([jnp.sum(jnp.cos(turned)), jnp.sum(jnp.sin(turned))]) / LINKS

    stiffness = LINKS * jnp.ones(LINKS).at[0].set(2.0)
    return jm.System(
        {"angles": jm.Vec1(), "tip": jm.Vec2()},
        forces={
            "hinges": jm.force.AnchoredSprings(("angles", range(LINKS)), stiffness, [[0.0]] * LINKS),
            "load": jm.force.ConstantForce(("tip", [0]), load * direction[None]),
        },
        mappings={"tip": jm.mapping.FunctionMapping(("angles", [range(LINKS)]), "tip", tip)},
    )


@pytest.mark.slow
def test_the_elastica_under_a_load_across_and_along():
    straight = chain(jnp.zeros(2), jnp.zeros(())).at_rest({"angles": [[0.0]] * LINKS})
    across, named = eqx.Partial(chain, jnp.array([0.0, 1.0])), {"displacement": ("tip", 0, 1)}
    # Case C1: K. Mattiasson, Int. J. Numer. Meth. Engng 17 (1981) 145.
    first = jm.follow_path(across, straight, control="load", step=0.5, to=1.0, **named)
    then = jm.follow_path(across, first.at(-1), control="load", load=1.0, step=0.5, to=3.0, **named)
    tips = [jm.kinematics(across(jnp.zeros(())), path.at(-1))["tip"][0] for path in (first, then)]
    np.testing.assert_allclose(tips, [[1 - 0.056433, 0.301721], [1 - 0.254420, 0.603253]], rtol=2e-3)
    assert not first.critical and not then.critical
    # Euler's column, and its branch: P = K(k)^2, x = 2 E / K - 1, y = 2 k / K, k the sine of half the angle at the tip.
    along = eqx.Partial(chain, jnp.array([-1.0, 0.0]))
    column = jm.follow_path(along, straight, step=1.0, steps=3, **named)
    (euler,) = column.critical
    np.testing.assert_allclose(euler.load, np.pi**2 / 4, rtol=1e-3)
    assert euler.kind == "bifurcation"
    branch = jm.follow_path(along, euler, step=0.1, steps=40, amplitude=0.05, to=6.0, **named)
    np.testing.assert_allclose(branch.loads[-1], 6.0, rtol=1e-12)
    assert set(np.asarray(branch.unstable[1:])) == {0}
    angle = np.abs(np.asarray(branch.position["angles"][1:, :, 0]).sum(axis=1))
    ends = np.stack([jm.kinematics(along(jnp.zeros(())), branch.at(i))["tip"][0] for i in range(1, len(branch.loads))])
    # The tip of the polygon lies half a link before that of the curve: to the same order as the rest.
    m = np.sin(0.5 * angle) ** 2
    exact = np.stack([2 * ellipe(m) / ellipk(m) - 1, 2 * np.sqrt(m) / ellipk(m)], axis=1)
    np.testing.assert_allclose(branch.loads[1:], ellipk(m) ** 2, rtol=3e-3)
    np.testing.assert_allclose(np.abs(ends * [[1.0, 1.0]]), np.abs(exact), atol=3e-3)


def test_the_turn_of_a_frame_is_prescribed_beyond_half_a_turn():
    """A beam that a moment at its end rolls up: `M = EI angle/L`, and the steps are of the angle."""
    line = jm.mesh.frames_along(np.linspace([0.0, 0.0, 0.0], [2.0, 0.0, 0.0], 4))
    section = jm.force.Section(axial=1e4, shear=[1e4, 1e4], torsion=0.8, bending=[1.0, 3.0])
    beam = jm.force.Beam(("f", [[0, 1], [1, 2], [2, 3]]), line, section)

    def scene(moment):
        return jm.System(
            {"f": jm.Rigid3()},
            forces={"beam": beam, "moment": jm.force.ConstantTorque(("f", [3]), moment * jnp.array([[0.0, 0.0, 1.0]]))},
            constraints={"clamp": jm.constraint.Fixed(("f", [0]))},
        )

    start = scene(0.0).at_rest({"f": line})
    path = jm.follow_path(scene, start, control="displacement", displacement=("f", 3, 5), step=1.0, to=5.0, critical=False)
    np.testing.assert_allclose(path.loads, 3.0 / 2.0 * path.displacement, atol=CLOSED_FORM)
    assert np.isclose(path.displacement[-1], 5.0, rtol=1e-11) and np.diff(path.displacement).max() < 1.6  # [rad]
    with pytest.raises(ValueError, match="component 6 of 'f', expected 0 to 5"):
        jm.follow_path(scene, start, displacement=("f", 3, 6))


@pytest.mark.slow
def test_a_path_under_a_torque_takes_the_exact_tangent_and_counts_nothing_of_its_symmetric_part():
    """A dead torque makes the tangent of a clamped beam unsymmetric. Its symmetric part is singular at
    `M = pi sqrt(GJ EI_z) / L`, the tangent itself is not: nothing lies there."""
    line = jm.mesh.frames_along(np.linspace([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], 5))

    def scene(bending, direction, moment):
        section = jm.force.Section(axial=1e5, shear=[1e5, 1e5], torsion=1.0, bending=bending)
        beam = jm.force.Beam(("f", [[0, 1], [1, 2], [2, 3], [3, 4]]), line, section)
        return jm.System(
            {"f": jm.Rigid3()},
            forces={"beam": beam, "moment": jm.force.ConstantTorque(("f", [4]), moment * direction[None])},
            constraints={"clamp": jm.constraint.Fixed(("f", [0]))},
        )

    upright = eqx.Partial(scene, jnp.array([200.0, 1.0]), jnp.array([0.0, 1.0, 0.0]))
    start = upright(0.0).at_rest({"f": line})
    symmetric = jm.MatrixLinearSystem.build(upright(0.0), start, jm.Terms(mass=False, damping=False, symmetric=True))
    options = {"control": "load", "step": 1.0, "to": 5.0}
    part = jm.follow_path(upright, start, symmetric, **options)
    assert [c.kind for c in part.critical] == ["bifurcation"] * 2
    np.testing.assert_allclose([c.load for c in part.critical], np.pi, rtol=0.1)
    path = jm.follow_path(upright, start, **options)
    assert path.critical == () and (path.unstable == -1).all() and "?" in path.report()
    askew = eqx.Partial(scene, jnp.array([2.0, 1.0]), jnp.array([-0.4, 0.5, 1.0]))
    path = jm.follow_path(askew, start, **options | {"step": 0.3, "to": 1.0, "steps": 20})
    assert path.loads[-1] == 1.0 and path.iterations[-1] <= 4  # by its symmetric part the path creeps to 0.434


def test_what_has_no_path_is_refused():
    """A law with a memory; and of a constraint with multipliers, methods that go downhill."""
    metal = jm.material.J2Plasticity(1e6, 0.3, yield_stress=1e3)
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
    cube = jm.System({"cube": jm.Vec3()}, forces={"metal": jm.force.TetrahedronFEM.from_mesh("cube", mesh, metal)})
    with pytest.raises(ValueError, match=r"'metal'.*remember"):
        jm.follow_path(lambda mu: cube, cube.at_rest({"cube": mesh.points}))
    rod = jm.constraint.Distance((("p", [0]), ("p", [1])), ("tension", [0]), 1.0)
    pair = jm.System({"p": jm.Vec2(), "tension": jm.Vec1()}, constraints={"rod": rod})
    start = pair.at_rest({"p": [[0.0, 0.0], [1.0, 0.0]], "tension": [[0.0]]})
    with pytest.raises(ValueError, match="'rod'.*saddle"):
        jm.static_solve(pair, start, method="trust_region")


def test_a_start_that_nothing_holds_is_named():
    """Bars in a row have no stiffness across it, so that no load leads anywhere; the walk once had no end."""

    def row(mu):
        forces = {
            "bar": GreenBar((("p", [0]), ("p", [1])), EA, 1.0),
            "load": jm.force.ConstantForce(("p", [1]), jnp.stack([mu, 0 * mu])[None]),
        }
        return jm.System({"p": jm.Vec2()}, forces=forces, constraints={"pin": jm.constraint.Fixed(("p", [0]))})

    start = row(jnp.zeros(())).at_rest({"p": [[0.0, 0.0], [1.0, 0.0]]})
    with pytest.raises(jm.FailedComputation, match="point 0 at load 0: the matrix is singular"):
        jm.follow_path(row, start)


class Across(jm.force.AbstractEnergyForceField):
    """`E = k/2 (x - x0)^2`: a spring that stays level."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jax.Array = jm.parameter()  # [N/m]
    level: jax.Array = jm.parameter()  # [m]

    def element_energy(self, a):
        return 0.5 * self.stiffness * (a[0] - self.level) ** 2


class Snap(jm.force.AbstractEnergyForceField):
    """`E = x^2 (x - 2)^2 / 4`: `P = x (x - 1) (x - 2)`."""

    on: tuple[jm.Stencil, ...] = jm.stencils()

    def element_energy(self, p):
        return 0.25 * (p[0] * (p[0] - 2)) ** 2


ROD, SPRING = 2.2, 3e5


def rod_on_a_rail(foot, load):
    """A rigid rod, by a multiplier, from a foot on a spring along a rail to a guide, pushed down. `x^2 + y^2 = L^2`."""
    push = jm.force.ConstantForce(("p", [1]), jnp.stack([jnp.zeros_like(load), -load]))
    rail, guide = (jm.constraint.FixedComponents(("p", [n]), (n == 1, n == 0)) for n in (0, 1))
    rod = jm.constraint.Distance((("p", [0]), ("p", [1])), None, ROD)
    forces = {"spring": Across(("p", [0]), SPRING, foot), "push": push}
    return jm.System({"p": jm.Vec2()}, forces=forces, constraints={"rod": rod, "rail": rail, "guide": guide})


@pytest.mark.slow
def test_a_rigid_rod_snaps_through_where_its_closed_form_does():
    """`P = k (x - b) y / x`, whose limit is where `x^3 = b L^2`; the multiplier, `P L / y`, passes a pole between."""
    foot = 2.0
    start = rod_on_a_rail(foot, jnp.zeros(())).at_rest({"p": [[foot, 0.0], [0.0, np.sqrt(ROD**2 - foot**2)]]})
    options = {"step": 3e3, "steps": 40, "to": 5e4, "displacement": ("p", 1, 1)}
    path = jm.follow_path(eqx.Partial(rod_on_a_rail, jnp.asarray(foot)), start, **options)
    x, y = np.asarray(path.position["p"][:, 0, 0]), heights(path)
    np.testing.assert_allclose(np.hypot(x, y), ROD, rtol=1e-11)
    np.testing.assert_allclose(path.loads, SPRING * (x - foot) * y / x, rtol=CLOSED_FORM, atol=1e-6 * 1e4)

    def limit(b):
        x = (b * ROD**2) ** (1 / 3)
        return x, SPRING * (x - b) * np.sqrt(ROD**2 - x**2) / x

    x_limit, load = limit(foot)
    first, second = path.critical
    assert (first.kind, second.kind) == ("limit", "limit")
    np.testing.assert_allclose([first.load, second.load], [load, -load], rtol=CLOSED_FORM)
    assert np.array_equal(path.unstable, (x > x_limit).astype(int))
    rate = jax.grad(lambda b: jm.solver.critical_point(eqx.Partial(rod_on_a_rail, b), first).load)(foot)
    expected = (limit(foot + 1e-5)[1] - limit(foot - 1e-5)[1]) / 2e-5
    np.testing.assert_allclose(rate, expected, rtol=FINITE_DIFFERENCE)


def post(stiffness, load):
    """A rigid rod on its nail under a load, its top held by a spring that stays level."""
    push = jm.force.ConstantForce(("p", [1]), jnp.stack([jnp.zeros_like(load), -load]))
    rod = jm.constraint.Distance((("p", [0]), ("p", [1])), ("t", [0]), ROD)
    forces = {"spring": Across(("p", [1]), stiffness, 0.0), "push": push}
    held = {"rod": rod, "nail": jm.constraint.Fixed(("p", [0]))}
    return jm.System({"p": jm.Vec2(), "t": jm.Vec1()}, forces=forces, constraints=held)


def upright(steps):
    """The path of the post that stands, through its bifurcation."""
    at = eqx.Partial(post, jnp.asarray(500.0))
    start = at(jnp.zeros(())).at_rest({"p": [[0.0, 0.0], [0.0, ROD]], "t": [[0.0]]})
    return at, start, jm.follow_path(at, start, step=600.0, steps=steps, to=1500.0)


@pytest.mark.slow
def test_limit_points_in_single_precision():
    """Their last step was asked to be 1e-8 of positions and loads, less than single precision knows: the path went through
    limit points and reported none."""
    k, length = 1e4, np.hypot(1.0, 0.3)

    def pushed(load):
        bars = jm.force.Springs((("p", [0, 1]), ("p", [1, 2])), np.float32(k), np.float32(length))
        force = jm.force.ConstantForce(("p", [1]), load * jnp.array([0.0, -1.0], jnp.float32))
        pins = {"pins": jm.constraint.Fixed(("p", [0, 2]))}
        return jm.System({"p": jm.Vec2()}, forces={"bars": bars, "load": force}, constraints=pins)

    start = pushed(jnp.zeros((), jnp.float32)).at_rest({"p": np.array([[-1, 0], [0, 0.3], [1, 0]], np.float32)})
    path = jm.follow_path(pushed, start, step=10.0, steps=12)
    assert path.loads.dtype == jnp.float32
    bar = length ** (1 / 3)  # where the load 2 k (length - bar) y / bar is largest, y^2 = bar^2 - 1
    exact = 2 * k * (length / bar - 1) * np.sqrt(bar**2 - 1)
    assert np.allclose([float(c.load) for c in path.critical], [exact, -exact], rtol=1e-5)  # a hundred rounding units


@pytest.mark.slow_cases("load-1e-12-float64", "load-1.0-float32")
@pytest.mark.parametrize(("unit", "dtype"), [(1.0, np.float32), (1e-12, np.float64)])
@pytest.mark.parametrize("control", ["load", "displacement", "arc_length"])
def test_paths_end_where_they_shall_in_every_unit_and_type(control, unit, dtype):
    """Of a spring of one newton per metre, up to 0.3 N in two or three steps. A piconewton was taken for nothing, and in
    single precision steps of no length were taken until there were as many as allowed."""
    number = dtype(unit)

    def pulled(load):
        spring = jm.force.Springs((("p", [0]), ("p", [1])), dtype(1.0), number)
        force = jm.force.ConstantForce(("p", [1]), load * jnp.ones(1, dtype))
        nail = {"nail": jm.constraint.Fixed(("p", [0]))}
        return jm.System({"p": jm.Vec1()}, forces={"spring": spring, "load": force}, constraints=nail)

    start = pulled(jnp.zeros((), dtype)).at_rest({"p": np.array([[0.0], [1.0]], dtype) * number})
    path = jm.follow_path(pulled, start, control=control, step=0.14 * unit, to=0.3 * unit, displacement=("p", 1, 0))
    assert 3 <= len(path.loads) <= 4 and path.loads.dtype == dtype
    np.testing.assert_allclose(path.loads[-1], 0.3 * unit, rtol=16 * np.finfo(dtype).eps)


def turned(stiffness, load):
    """A lever on a hinge, turned by a torque."""
    torque = jm.force.ConstantForce(("arm", [0]), jnp.stack([0.0 * load, 0.0 * load, load])[None])
    hinge = jm.force.AnchoredFrames(("arm", [0]), 0.0, stiffness, [[0.0, 0.0, 0.0]])
    return jm.System(
        {"arm": jm.Rigid2(), "tip": jm.Vec2()},
        forces={"torque": torque, "hinge": hinge},
        mappings={"tip": jm.mapping.RigidMapping(("arm", [0]), "tip", [[0.0, 1.0]])},
        constraints={"pin": jm.constraint.FixedComponents(("arm", [0]), (True, True, False))},
    )


def test_a_step_of_displacement_is_as_long_as_told_whatever_the_unit_of_the_load():
    """Loads of 1e12 N m were rounded by centimetres: a step of 0.35 m to the tip of a lever ended at 0.3464 m."""
    lever = eqx.Partial(turned, jnp.asarray(1e13))
    start = lever(jnp.zeros(())).at_rest({"arm": [[0.0, 0.0, 0.0]]})
    options = {"control": "displacement", "displacement": ("tip", 0, 0), "step": 0.2, "to": -0.5}
    path = jm.follow_path(lever, start, **options, critical=False)
    np.testing.assert_allclose(path.displacement[:4], [0.0, -0.2, -0.35, -0.5], rtol=CLOSED_FORM)
    np.testing.assert_allclose(path.loads, 1e13 * np.arcsin(-path.displacement), rtol=CLOSED_FORM)


@pytest.mark.slow
def test_a_rigid_post_stands_up_to_its_bifurcation():
    """At `P = k L`; its multiplier is the load."""
    _, _, path = upright(4)
    (fork,) = path.critical
    assert fork.kind == "bifurcation" and np.array_equal(path.unstable, (path.loads > 1100.0).astype(int))
    np.testing.assert_allclose(fork.load, 1100.0, rtol=CLOSED_FORM)
    np.testing.assert_allclose(np.abs(fork.mode["p"]), [[0.0, 0.0], [1.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(-path.position["t"][:, 0, 0], path.loads, atol=1e-9)


@pytest.mark.slow
def test_a_rigid_post_falls_on_its_branch():
    """It leaves the upright where `buckling` has it, and holds `k L cos(angle) = k y` on its branch."""
    at, start, path = upright(4)
    np.testing.assert_allclose(jm.buckling(at, start).factors, [1100.0], rtol=CLOSED_FORM)
    branch = jm.follow_path(at, path.critical[0], step=100.0, steps=6, amplitude=0.2)
    top = np.asarray(branch.position["p"][:, 1])
    assert np.abs(top[-1, 0]) > 1.0
    np.testing.assert_allclose(branch.loads, 500.0 * top[:, 1], rtol=CLOSED_FORM)
    np.testing.assert_allclose(np.hypot(*top.T), ROD, rtol=1e-11)
    np.testing.assert_allclose(-np.asarray(branch.position["t"][1:, 0, 0]), 500.0 * ROD, rtol=1e-7)  # P L / y


class Germ(jm.force.AbstractEnergyForceField):
    """`E = x^2/2 + a x^3/3 + c x^4/4 + (y - x)^2/2 - P (x^2/2 + y)` of a point `(x, y)`, sheared by `s`: `x - s y` for `x`.

    In equilibrium `x = 0`, or `P = 1 + a x + c x^2`, and `y - x = P`.
    """

    on: tuple[jm.Stencil, ...] = jm.stencils()
    numbers: jax.Array = jm.parameter(ndim=1)
    load: jax.Array = jm.parameter()

    def element_energy(self, p):
        a, c, shear = self.numbers
        x, y = p[0] - shear * p[1], p[1]
        return 0.5 * (1 - self.load) * x**2 + a * x**3 / 3 + c * x**4 / 4 + 0.5 * y**2 - self.load * y


def germ(numbers, load):
    return jm.System({"p": jm.Vec2()}, forces={"germ": Germ(("p", [0]), numbers, load)})


def off_the_germ(path, numbers):
    """How far points are from the branch, and from the path that it leaves."""
    (x, y), P = np.asarray(path.position["p"][:, 0]).T, np.asarray(path.loads)
    a, c, shear = numbers
    x = x - shear * y
    return np.abs(1 + a * x + c * x**2 - P).max() + np.abs(y - P).max(), np.abs(x).max()


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [(3.0, 0.0, 0.0), (100.0, 0.0, 0.4), (-5.0, 2.0, 0.0), (0.0, 1.0, 0.4)])
def test_a_branch_that_leaves_at_any_angle_is_taken(numbers):
    """Predicted along the mode alone, steps of a branch whose load changes with its first order were cut back, did not
    converge, or were back on the path that they had left."""
    scene = eqx.Partial(germ, jnp.array(numbers))
    start = scene(jnp.zeros(())).at_rest({"p": [[0.0, 0.0]]})
    path = jm.follow_path(scene, start, step=0.3, steps=6)
    (fork,) = path.critical
    assert fork.kind == "bifurcation" and off_the_germ(path, numbers)[1] < 1e-8
    np.testing.assert_allclose(fork.load, 1.0, rtol=1e-8)
    for direction in (1, -1):
        branch = jm.follow_path(scene, fork, step=0.3, steps=5, direction=direction, amplitude=0.1)
        off, away = off_the_germ(branch, numbers)
        assert off < 1e-8 and away > 1e-4 and not branch.cutbacks
    if numbers[0] and not numbers[1]:  # and from the branch back onto the path
        begin = branch.at(-1)
        fork = jm.follow_path(scene, begin, load=branch.loads[-1], step=0.3, to=1.3).critical[0]
        again = jm.follow_path(scene, fork, step=0.3, steps=3, amplitude=0.1)
        assert off_the_germ(again, numbers)[1] < 1e-8 and abs(again.loads[-1] - 1) > 0.3


def test_a_path_goes_towards_its_end_unless_told_otherwise():
    """By arc length it went up, whatever `to` was."""
    scene = eqx.Partial(germ, jnp.array([0.0, 1.0, 0.0]))
    start = scene(jnp.zeros(())).at_rest({"p": [[0.0, 0.0]]})
    for control in ("arc_length", "load"):
        path = jm.follow_path(scene, start, control=control, step=0.3, to=-1.0, critical=False)
        np.testing.assert_allclose([path.loads[0], path.loads[1], path.loads[-1]], [0.0, -0.3, -1.0], rtol=1e-9)
    told = jm.follow_path(scene, start, step=0.3, steps=2, to=-1.0, direction=1, critical=False)
    assert (told.loads[1:] > 0).all()


def test_a_path_that_is_traced_says_so_and_where_derivatives_are():
    """Errors were of what happened to be looked at first: node numbers, a float, a truth value."""

    def last(number):
        scene = eqx.Partial(germ, jnp.array([0.0, 1.0, 0.0]) * number)
        return jm.follow_path(scene, scene(jnp.zeros(())).at_rest({"p": [[0.0, 0.0]]}), steps=1).loads[-1]

    for traced in (jax.jit(last), jax.grad(last), lambda n: jax.vmap(last)(n[None])):
        with pytest.raises(TypeError, match=r"follow_path: the scene or its start is being traced .* critical_point"):
            traced(jnp.ones(()))


class FourWays(jm.force.AbstractEnergyForceField):
    """`E = k (x^2 + r y^2)/2 + (x^4 + y^4)/4 + b x^2 y^2/2 + z^2/2 - P (k (x^2 + y^2)/2 + z)`: a column of two axes, which
    may be turned."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    numbers: jax.Array = jm.parameter(ndim=1)
    load: jax.Array = jm.parameter()
    turn: jax.Array = jm.parameter(ndim=2, default=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))

    def element_energy(self, p):
        (k, r, b), (x, y, z) = self.numbers, self.turn @ p
        column = 0.5 * k * ((1 - self.load) * x**2 + (r - self.load) * y**2)
        return column + 0.25 * (x**4 + y**4) + 0.5 * b * x**2 * y**2 + 0.5 * z**2 - self.load * z


def column(numbers, load, *turn):
    return jm.System({"p": jm.Vec3()}, forces={"column": FourWays(("p", [0]), numbers, load, *turn)})


@pytest.mark.slow
def test_a_point_of_several_modes_is_said_to_be_one():
    """It was said that a force is not finite. Held to one of its planes, the same column has a point of one mode."""
    scene = eqx.Partial(column, jnp.array([2.0, 1.0, 3.0]))

    def held(load):
        plane = {"plane": jm.constraint.FixedComponents(("p", [0]), (False, True, False))}
        return jm.System({"p": jm.Vec3()}, forces=scene(load).forces, constraints=plane)

    start = scene(jnp.zeros(())).at_rest({"p": [[0.0, 0.0, 0.9]]})
    mode = {"p": jnp.array([[1.0, 0.0, 0.0]])}
    near = jm.solver.CriticalPoint("bifurcation", jnp.asarray(0.9), start, mode, 0)
    with pytest.raises(jm.FailedComputation, match="several modes are as soft at this point") as failure:
        jm.solver.critical_point(scene, near)
    assert failure.value.result == jm.RESULTS.several_modes
    np.testing.assert_allclose(jm.solver.critical_point(held, near).load, 1.0, rtol=1e-9)


def test_two_modes_of_a_path_that_is_along_no_axis_are_both_found():
    """What the path moves, the coordinates by which modes are told apart have a part in: neither of the two was found."""
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    scene = lambda load: column(jnp.array([2.0, 1.0, 3.0]), load, turn)  # noqa: E731
    path = jm.follow_path(scene, scene(jnp.zeros(())).at_rest({"p": [[0.0, 0.0, 0.0]]}), step=0.3, steps=4)
    assert path.unstable.tolist() == [0, 0, 0, 2, 2] and [c.kind for c in path.critical] == ["bifurcation"] * 2
    np.testing.assert_allclose([float(c.load) for c in path.critical], 1.0, rtol=1e-9)
    modes = np.stack([np.asarray(c.mode["p"][0]) for c in path.critical]) @ turn.T
    np.testing.assert_allclose(modes[:, 2], 0.0, atol=1e-6)
    assert abs(np.linalg.det(modes[:, :2])) > 0.5


def test_two_modes_in_single_precision_are_no_limit_point():
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    numbers, turn = jnp.array([2.0, 1.0, 3.0], jnp.float32), jnp.asarray(turn, jnp.float32)
    scene = lambda load: column(numbers, load, turn)  # noqa: E731
    start = scene(jnp.zeros((), jnp.float32)).at_rest({"p": jnp.zeros((1, 3), jnp.float32)})
    path = jm.follow_path(scene, start, step=0.3, steps=4)
    assert path.loads.dtype == jnp.float32 and [c.kind for c in path.critical] == ["bifurcation"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_a_star_dome_has_as_many_bifurcations_as_it_has_modes(dtype):
    """A ring of six in a ring of six supports, pushed at its top: pairs of modes, of a group of six axes, and one alone."""
    angle = np.arange(6) * np.pi / 3
    inner = np.stack([25 * np.cos(angle), 25 * np.sin(angle), np.full(6, 6.216)], axis=1)
    feet = np.stack([43.3 * np.cos(angle + np.pi / 6), 43.3 * np.sin(angle + np.pi / 6), np.zeros(6)], axis=1)
    points = jnp.asarray(np.vstack([[[0.0, 0.0, 8.216]], inner, feet]), dtype)
    pairs = [p for i in range(6) for p in ((0, i + 1), (i + 1, (i + 1) % 6 + 1), (i + 1, i + 7), ((i + 1) % 6 + 1, i + 7))]
    bars = jm.force.Bar(("x", pairs), points, jnp.asarray(1e4, dtype))

    def scene(load):
        push = jm.force.ConstantForce(("x", [0]), load * jnp.array([[0.0, 0.0, -1.0]], dtype))
        return jm.System(
            {"x": jm.Vec3()},
            forces={"bars": bars, "push": push},
            constraints={"feet": jm.constraint.Fixed(("x", range(7, 13)))},
        )

    start = scene(jnp.zeros((), dtype)).at_rest({"x": points})
    path = jm.follow_path(scene, start, step=0.5, steps=34 if dtype == jnp.float64 else 15)
    found = [(c.kind, float(c.load)) for c in path.critical]
    pair, alone, other = [("bifurcation", 155.5652)] * 2, ("bifurcation", 165.7475), [("bifurcation", 165.0700)] * 2
    expected = [("limit", 3.08475), ("limit", -2.81419), *pair, alone, ("limit", 166.96996), *other]
    assert [kind for kind, _ in found] == [kind for kind, _ in expected]
    # In single precision rounding tells the last two apart, by up to 1.7e-4 as the processor has it.
    most = 1e-4 if dtype == jnp.float64 else 2e-4
    np.testing.assert_allclose([load for _, load in found], [load for _, load in expected], rtol=most)


@pytest.mark.slow
def test_a_column_of_equal_axes_buckles_about_both_at_once():
    """Nothing was said to lie where two eigenvalues change their sign together; of two nearly equal ones, one was named."""
    for ratio in (1.0, 1 + 1e-7):
        scene = eqx.Partial(column, jnp.array([2.0, ratio, 3.0]))
        start = scene(jnp.zeros(())).at_rest({"p": [[0.0, 0.0, 0.0]]})
        path = jm.follow_path(scene, start, step=0.3, steps=4)
        assert path.unstable.tolist() == [0, 0, 0, 2, 2]
        assert [c.kind for c in path.critical] == ["bifurcation"] * 2
        np.testing.assert_allclose(sorted(float(c.load) for c in path.critical), [1.0, ratio], rtol=1e-9)
        modes = np.stack([np.asarray(c.mode["p"][0]) for c in path.critical])
        np.testing.assert_allclose(np.sort(np.abs(modes), axis=0), [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]], atol=1e-6)
    for fork in path.critical:
        branch = jm.follow_path(scene, fork, step=0.3, steps=3, amplitude=0.1, critical=False)
        x = np.asarray(branch.position["p"][:, 0, :2]) @ np.asarray(fork.mode["p"][0, :2])
        np.testing.assert_allclose(2.0 * (branch.loads - 1), x**2, atol=1e-6)
        assert abs(x[-1]) > 0.2


@pytest.mark.slow
def test_bifurcations_close_to_each_other_are_each_found_once():
    """Stiff columns side by side displace by less than coordinates of a metre are rounded by, and a
    bifurcation passed for one between the points before: one was listed twice, and one not at all."""
    springs = np.array([1.0, 1.0005, 1.001, 1.2])  # [N/m], the loads at which columns of 1 m fall
    feet, tops = 2 * np.arange(4), 2 * np.arange(4) + 1

    def columns(load):
        forces = {
            "rods": jm.force.Springs((("p", feet), ("p", tops)), 1e6, 1.0),
            "sides": jm.force.AnchoredSprings(("p", tops), springs, [[float(i), 1.0] for i in range(4)]),
            "load": jm.force.ConstantForce(("p", tops), load * jnp.array([0.0, -1.0])),
        }
        return jm.System({"p": jm.Vec2()}, forces=forces, constraints={"feet": jm.constraint.Fixed(("p", feet))})

    start = columns(jnp.zeros(())).at_rest({"p": [[float(i), float(j)] for i in range(4) for j in range(2)]})
    for step in (0.1, 2.0):
        path = jm.follow_path(columns, start, step=step, steps=40, to=1.5)
        np.testing.assert_allclose([c.load for c in path.critical], springs, rtol=1e-5)  # the rods give by 1e-6
        sideways = np.abs([c.mode["p"][tops, 0] for c in path.critical])
        np.testing.assert_allclose(sideways, np.eye(4), atol=1e-3)
