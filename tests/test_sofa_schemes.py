"""SOFA's time integrators, solvers and elements against their formulas, in small scenes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

K, M, H, G = 40.0, 2.0, 0.05, -9.81  # [N/m], [kg], [s], [m/s^2]
RK, RM = 0.02, 0.3
EULER = "<EulerImplicitSolver/>"


def load(tmp_path, body, **options):
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root" dt="{H}" gravity="0 {G} 0"><DefaultAnimationLoop/>{body}</Node>')
    return jm.sofa.load(path, **options)


def oscillator(tmp_path, scheme, solver="<SparseLDLSolver/>", **options):
    body = f"""{scheme}{solver}<MechanicalObject name="p" position="0 0 0" velocity="0 0.7 0"/>
      <UniformMass name="mass" vertexMass="{M}"/><RestShapeSpringsForceField name="spring" stiffness="{K}"/>"""
    return load(tmp_path, body, **options)


def heights(scene, steps):
    run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=steps)
    return np.asarray(run.position["p"])[:, 0, 1], np.asarray(run.velocity["p"])[:, 0, 1]


def force(x):
    return M * G - K * x


def newmark(x, v, a):
    b, g = 0.3, 0.6
    w1 = v + H * (1 - g) * a
    w2 = (RK + H) * v + (H * (1 - g) * RK + H**2 * (1 - 2 * b) / 2) * a
    new = (force(x) - RM * M * w1 - K * w2) / ((1 + H * g * RM) * M + (H**2 * b + H * g * RK) * K)
    return x + H * v + H**2 * ((0.5 - b) * a + b * new), v + H * ((1 - g) * a + g * new), new


def variational(x, v, p):
    p = M * v if p is None else p
    d = (force(x) + 2 * p / H) / (4 / H**2 * M + K)
    v = 2 * d / H
    return x + 2 * d, v, M * v + H / 2 * force(x + d)


def backward(x, v, before):
    a = (1.0, -1.0, 0.0) if before is None else (1.5, -2.0, 0.5)
    x0, v0 = (x, v) if before is None else before
    # a0 y + h v = ..., a0 M v = h f(y) + ...: two equations.
    A = np.array([[a[0], -H], [H * K, a[0] * M]])
    y, u = np.linalg.solve(A, [-a[1] * x - a[2] * x0, H * M * G - M * (a[1] * v + a[2] * v0)])
    return y, u, (x, v)


def midpoint(x, v, _):
    return x + H * (v + H / 2 * force(x) / M), v + H * force(x + H / 2 * v) / M, None


def leapfrog(x, v, _):
    v = ((1 / H - RM / 2) * v + force(x) / M) / (1 / H + RM / 2)
    return x + H * v, v, None


RAYLEIGH = f'rayleighStiffness="{RK}" rayleighMass="{RM}"'
SCHEMES = {
    f'<NewmarkImplicitSolver beta="0.3" gamma="0.6" {RAYLEIGH}/>': (newmark, force(0.0) / M),
    '<VariationalSymplecticSolver steps="4" newtonError="1e-12"/>': (variational, None),
    '<BDFOdeSolver order="2"/><NewtonRaphsonSolver absoluteResidualStoppingThreshold="0"/>': (backward, None),
    "<RungeKutta2Solver/>": (midpoint, None),
    f'<CentralDifferenceSolver rayleighMass="{RM}"/>': (leapfrog, None),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_is_its_formula(tmp_path, scheme):
    step, memory = SCHEMES[scheme]
    x, v = heights(oscillator(tmp_path, scheme), 6)
    y, u = 0.0, 0.7
    for number in range(1, 7):
        y, u, memory = step(y, u, memory)
        np.testing.assert_allclose([x[number], v[number]], [y, u], rtol=1e-12)


DAMPED = f"""<SparseLDLSolver/><MechanicalObject name="p" position="0 1 0" velocity="0 0.7 0"/>
  <UniformMass name="mass" vertexMass="{M}" rayleighMass="{RM}"/>
  <PlaneForceField name="plane" stiffness="{K}" damping="0" bilateral="1" rayleighStiffness="{RK}"/>"""
C = RM * M + RK * K  # [kg/s]


def damped_newmark(x, v, a):
    """The damping of components in the matrix and, as `b` of `addMBKdx` is not nil, in the forces."""
    drag = C * (v + H * a / 2)
    new = (force(x) - drag - K * (H * v + H**2 * a / 4)) / (M + H / 2 * C + H**2 / 4 * K)
    return x + H * v + H**2 / 4 * (a + new), v + H / 2 * (a + new), new


def damped_backward(x, v, _):
    """One iteration from `x + h v`: damping is in its matrix alone, `b` of the forces is nil."""
    y = x + H * v
    d = H * force(y) / (M + H * C + H**2 * K)
    return y + H * d, v + d, None


def undamped_runge_kutta(x, v, _):
    """`f / M`, without a matrix: without damping."""
    f = lambda y: np.array([y[1], force(y[0]) / M])  # noqa: E731
    y = np.array([x, v])
    a = f(y)
    b = f(y + H / 2 * a)
    c = f(y + H / 2 * b)
    return *(y + H / 6 * (a + 2 * b + 2 * c + f(y + H * c))), None


@pytest.mark.parametrize(
    "scheme, step, memory",
    [
        ("<NewmarkImplicitSolver/>", damped_newmark, force(1.0) / M),
        ("<BDFOdeSolver/><NewtonRaphsonSolver/>", damped_backward, None),
        ("<RungeKutta4Solver/>", undamped_runge_kutta, None),
        pytest.param("<RungeKutta2Solver/>", midpoint, None, marks=pytest.mark.slow),
    ],
)
def test_rayleigh_damping_of_components_is_where_a_scheme_has_it(tmp_path, scheme, step, memory):
    x, v = heights(load(tmp_path, scheme + DAMPED), 4)
    y, u = 1.0, 0.7
    for number in range(1, 5):
        y, u, memory = step(y, u, memory)
        np.testing.assert_allclose([x[number], v[number]], [y, u], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [pytest.param(list(SCHEMES)[0], marks=pytest.mark.slow), list(SCHEMES)[1]])
def test_schemes_are_differentiated(tmp_path, scheme):
    scene = oscillator(tmp_path, scheme)
    leaf = scene.where("@/spring.stiffness")

    @jax.jit
    def end(k):
        system = eqx.tree_at(leaf, scene.system, jnp.asarray(k, float))
        return jm.simulate(system, scene.state, scene.integrator, scene.dt, steps=4).last.position["p"][0, 1]

    slope = (end(K + 1e-3) - end(K - 1e-3)) / 2e-3
    np.testing.assert_allclose(jax.jit(jax.grad(end))(K), slope, rtol=1e-7)
    np.testing.assert_allclose(jax.jvp(end, (K,), (1.0,))[1], slope, rtol=1e-7)


def test_static_steps_reach_equilibrium(tmp_path):
    x, v = heights(oscillator(tmp_path, "<StaticSolver/>"), 1)
    np.testing.assert_allclose(x[1], M * G / K, rtol=1e-12)
    assert v[1] == 0.7  # velocities stay


@pytest.mark.parametrize("solver", ["sofa", "exact"])
def test_a_static_step_that_nothing_holds_does_not_blame_masses(tmp_path, solver):
    """In a trajectory and by itself: an equilibrium has no inertia."""
    loose = load(
        tmp_path,
        f"""<StaticSolver/><SparseLDLSolver/><MechanicalObject name="p" position="0 0 0  0 1 0"/>
        <UniformMass name="mass" vertexMass="{M}"/><StiffSpringForceField name="spring" spring="0 1 {K} 0 0.5"/>""",
        solver=solver,
    )
    with pytest.raises(jm.FailedComputation, match="state 'p' can move freely .* Constrain its nodes, or attach it to what"):
        jm.simulate(loose.system, loose.state, loose.integrator, H, 1)
    with pytest.raises(jm.FailedComputation, match="state 'p' can move freely .* Constrain its nodes, or attach it to what"):
        loose.integrator.step(loose.system, loose.state, None, H)


BAR = """{solver}<RegularGridTopology name="grid" n="2 2 4" min="0 0 0" max="1 1 3"/><MechanicalObject name="p"/>
  <UniformMass totalMass="30"/><TetrahedronFEMForceField youngModulus="3000" poissonRatio="0.3"/>
  <BoxROI name="box" box="-1 -1 -1 2 2 0.1"/><FixedProjectiveConstraint indices="@box.indices"/>"""
CG = '<PCGLinearSolver name="cg" iterations="200" tolerance="1e-24" preconditioner="@p1"{more}/>'
KEPT = CG.format(more=' linearSystem="@free"') + '<PreconditionedMatrixFreeSystem name="free" assemblingRate="3"/>'
SOLVERS = {
    "SSOR": CG.format(more="") + '<SSORPreconditioner name="p1" omega="1.3"/>',
    "a factor": KEPT + '<SparseLDLSolver name="p1"/>',
    "a turned factor": KEPT
    + '<SparseLDLSolver name="ldl"/><RotationMatrixSystem name="R" assemblingRate="3"/>'
    + '<WarpPreconditioner name="p1" linearSolver="@ldl" linearSystem="@R"/>',
    "minimal residuals": '<MinResLinearSolver iterations="200" tolerance="1e-13"/>',
    "a turned inverse": CG.format(more="") + '<PrecomputedWarpPreconditioner name="p1"/>',
}


@pytest.fixture(scope="module")
def directly(tmp_path_factory):
    scene = load(tmp_path_factory.mktemp("direct"), BAR.format(solver=EULER + "<EigenSimplicialLLT/>"))
    return jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=5).last.position["p"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_preconditioners_lead_to_the_same_solution(tmp_path, directly, name):
    scene = load(tmp_path, BAR.format(solver=EULER + SOLVERS[name]))
    run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=5)
    np.testing.assert_allclose(run.last.position["p"], directly, atol=1e-9)
    steps = np.asarray(run.info.linear_steps)
    assert (steps < 60).all()
    assert name in ("SSOR", "minimal residuals") or steps[0] <= 2  # the first matrix is its own preconditioner


def test_an_inverse_that_is_never_assembled_holds_all_still(tmp_path):
    kept = CG.format(more="") + '<SparseLDLSolver name="ldl"/><PrecomputedWarpPreconditioner name="p1" linearSolver="@ldl"/>'
    scene = load(tmp_path, BAR.format(solver=EULER + kept))
    assert "nothing moves" in str(scene.report)
    run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=2)
    np.testing.assert_array_equal(run.last.position["p"], scene.state.position["p"])


def test_springs_of_a_mesh_are_softer_the_longer_they_are(tmp_path):
    body = EULER + '<MechanicalObject name="p" position="0 0 0  2 0 0"/><UniformMass/><MeshTopology edges="0 1"/>'
    scene = load(tmp_path, body + '<MeshSpringForceField name="mesh" stiffness="30"/>')
    state = scene.system.at_rest({"p": [[0.0, 0, 0], [2.5, 0, 0]]})
    weight = np.array([0.0, G / 2, 0.0])
    pull = np.array([30 / 2 * 0.5, 0, 0])
    np.testing.assert_allclose(jm.total_force(scene.system, state)["p"], [weight + pull, weight - pull], atol=1e-12)
    assert scene.where("@/mesh.stiffness")(scene.system) == 30  # the number of the scene


def test_lines_of_a_grid_are_the_edges_of_its_cells(tmp_path):
    grid = '<RegularGridTopology nx="2" ny="2" nz="2" min="0 0 0" max="1 1 1"/><MechanicalObject name="p"/><UniformMass/>'
    springs = load(tmp_path, EULER + grid + '<MeshSpringForceField linesStiffness="9" cubesStiffness="4"/>').system.forces
    (found,) = (f for name, f in springs.items() if "MeshSpring" in name)
    stiffness = np.asarray(found.stiffness)
    assert np.sum(stiffness == 9) == 12 and np.sum(stiffness == 4) == 28 - 12


LINE = "  ".join(f"{0.5 * i} 0 0 0 0 0 1" for i in range(5))


def beam(tmp_path, scheme, load_on="", **options):
    body = f"""{scheme}<SparseLDLSolver/><MechanicalObject template="Rigid3" name="p" position="{LINE}"/>
      <MeshTopology lines="0 1 1 2 2 3 3 4"/><FixedProjectiveConstraint indices="0"/>
      <UniformMass vertexMass="0.1 1 [0.01 0 0,0 0.02 0,0 0 0.03]"/>
      <BeamFEMForceField name="fem" radius="0.05" youngModulus="2e9" poissonRatio="0.3"/>{load_on}"""
    return load(tmp_path, body, **options)


@pytest.mark.slow
def test_beams_bend_as_beams(tmp_path):
    tip = '<ConstantForceField indices="4" forces="0 0 0.01 0 0 0"/>'
    scene = beam(tmp_path, '<StaticSolver newton_iterations="5"/>', tip)
    run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=3)
    bending = 2e9 * np.pi * 0.05**4 / 4
    np.testing.assert_allclose(run.last.position["p"][4, 2], 0.01 * 2.0**3 / (3 * bending), rtol=1e-4)


def test_the_matrix_of_beams_and_their_mass(tmp_path):
    frozen = beam(tmp_path, EULER)
    true = beam(tmp_path, EULER, solver="exact")
    for kind, tolerance in (("stiffness", 1e-6), ("mass", 1e-15)):  # at rest, differences of the force agree
        name = "fem" if kind == "stiffness" else "UniformMass1"
        ours, theirs = (jm.matrix.component_matrix(s.system, s.state, name, kind)["p", "p"] for s in (frozen, true))
        a, b = np.asarray(ours.to_dense((5, 5))), np.asarray(theirs.to_dense((5, 5)))
        np.testing.assert_allclose(a, b, atol=tolerance * np.abs(b).max())
    np.testing.assert_allclose(np.diag(a)[:6], 0.1 * np.array([1, 1, 1, 0.01, 0.02, 0.03]))


def test_frames_fall_in_time(tmp_path):
    scene = beam(tmp_path, EULER)
    x = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=3).last.position["p"]
    assert -0.2 < x[4, 1] < -1e-4 and abs(x[4, 2]) < 1e-12


def test_moved_nodes_are_where_they_shall_be_a_step_late(tmp_path):
    """SOFA's constraints look at its clock, which has not moved on: each step ends where the motion was at its start."""
    body = (
        EULER
        + """<SparseLDLSolver/><MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass totalMass="2"/>
      <SpringForceField spring="0 1 100 0 1"/>
      <LinearMovementProjectiveConstraint name="hand" indices="0" keyTimes="0 0.1 1"
        movements="0 0 0  0.2 0 0  0.2 0.9 0"/>"""
    )
    scene = load(tmp_path, body)
    run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=4)
    np.testing.assert_allclose(run.position["p"][:, 0], [[0, 0, 0], [0, 0, 0], [0.1, 0, 0], [0.2, 0, 0], [0.2, 0.05, 0]])
    np.testing.assert_allclose(run.velocity["p"][4, 0], [0, 1, 0])
    assert run.position["p"][4, 1, 0] > 1.0  # what hangs on it follows
    assert scene.where("@/hand.movements")(scene.system).shape == (3, 3)


SOFT = """{}<SparseLDLSolver/><RegularGridTopology name="g" n="2 2 5" min="0 0 0" max="0.2 0.2 1"/>
  <MechanicalObject name="p"/><UniformMass totalMass="40"/>
  <Node name="t"><TetrahedronSetTopologyContainer name="c"/><Hexa2TetraTopologicalMapping input="@../g" output="@c"/>
  <TetrahedronHyperelasticityFEMForceField materialName="NeoHookean" ParameterSet="3448 31034"/></Node>
  <BoxROI name="box" box="-1 -1 -1  1 1 0.1"/><FixedProjectiveConstraint indices="@box.indices"/>"""
STATIC = '<StaticSolver/><NewtonRaphsonSolver maxNbIterationsNewton="{}" maxNbIterationsLineSearch="{}"/>'


@pytest.mark.slow
def test_a_soft_bar_needs_a_line_search(tmp_path):
    """Full steps turn elements inside out, where the law is undefined: said so. Halved, they end where exact steps do."""
    scene = load(tmp_path, SOFT.format(STATIC.format(30, 1)))
    with pytest.raises(jm.FailedComputation, match="inverted"):
        jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=1)
    ends = []
    for scheme, options in ((STATIC.format(60, 20), {}), ("<StaticSolver/>", {"solver": "exact"})):
        scene = load(tmp_path, SOFT.format(scheme), **options)
        ends.append(jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=4).last.position["p"])
    np.testing.assert_allclose(*ends, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ("sofa", "exact"))
def test_the_gradient_of_static_iterations(tmp_path, solver):
    """`x = m g / k`, so that `dx/dk = -m g / k^2`, through iterations, their end and their line search."""
    scene = oscillator(tmp_path, STATIC.format(4, 3), solver=solver)
    leaf = scene.where("@/spring.stiffness")

    def end(k):
        system = eqx.tree_at(leaf, scene.system, jnp.asarray(k, float))
        return jm.simulate(system, scene.state, scene.integrator, scene.dt, steps=2).last.position["p"][0, 1]

    value, slope = jax.jit(jax.value_and_grad(end))(K)
    np.testing.assert_allclose((value, slope), (M * G / K, -M * G / K**2), rtol=1e-12)


BENT = """{}<SparseLDLSolver/><MechanicalObject name="p" position="0 0 0  1 0.02 0" velocity="0 0 0  0.4 0 0"/>
  <UniformMass vertexMass="0.5"/><FixedProjectiveConstraint indices="0"/>
  <SpringForceField name="s" spring="0 1 30000 0 1"/><ConstantForceField indices="1" forces="-20 900 0"/>"""
NEWTON = '<NewtonRaphsonSolver maxNbIterationsNewton="{}" {}/>'
NAMES = {
    "tolerance": "absoluteResidualStoppingThreshold",
    "relative": "relativeInitialStoppingThreshold",
    "successive": "relativeSuccessiveStoppingThreshold",
    "absolute": "absoluteEstimateDifferenceThreshold",
    "change": "relativeEstimateDifferenceThreshold",
}
UNMEASURED = " ".join(f'{name}="0"' for name in NAMES.values())


def newton_by_hand(problem, most, searches, **rules):
    """The iterations of a NewtonRaphsonSolver, one test after the other; how many there were."""
    rule = {"tolerance": 0.0, "relative": 0.0, "successive": 0.0, "absolute": 0.0, "change": 0.0, **rules}
    size = first = np.linalg.norm(problem.evaluate())
    if rule["tolerance"] > 0 and size <= rule["tolerance"]:
        return 0
    for number in range(1, most + 1):
        last, length = size, np.linalg.norm(problem.unknowns())
        d = problem.solve()
        share, before = 1.0, 0.0
        for _ in range(searches):
            problem.add(d, share - before)
            size = np.linalg.norm(problem.evaluate())
            if size < last:
                break
            share, before = share / 2, share
        else:
            if searches > 1:
                problem.add(d, 1.0 - before)
                size = np.linalg.norm(problem.evaluate())
        change = np.linalg.norm(d)
        tests = (size, rule["tolerance"]), (size, rule["relative"] * first), (size, rule["successive"] * last)
        tests += (change, rule["absolute"]), (change, rule["change"] * length)
        if any(a < b for a, b in tests):
            return number
    return most


class ByHand:
    """The equations of one step of a scene: of the free node 1 alone."""

    def __init__(self, scene, static):
        self.scene, self.static, state = scene, static, scene.state
        self.x0, self.v0 = (np.array(a["p"])[1] for a in (state.position, state.velocity))
        self.x, self.v = self.x0.copy() if static else self.x0 + H * self.v0, self.v0.copy()

    def seen(self):
        state = eqx.tree_at(lambda s: s.position["p"], self.scene.state, self.scene.state.position["p"].at[1].set(self.x))
        K = jm.matrix.component_matrix(self.scene.system, state, "s", "stiffness")["p", "p"].to_dense((2, 2))
        return np.array(jm.total_force(self.scene.system, state)["p"])[1], np.array(K)[3:, 3:]

    def evaluate(self):
        self.f, self.K = self.seen()
        self.r1, self.r2 = self.x - self.x0 - H * self.v, 0.5 * (self.v - self.v0) - H * self.f
        return self.f if self.static else self.r2

    def solve(self):
        if self.static:
            return np.linalg.solve(self.K, self.f)
        return np.linalg.solve(0.5 * np.eye(3) + H**2 * self.K, H * self.K @ self.r1 - self.r2)

    def add(self, d, share):
        if self.static:
            self.x += share * d
        else:
            self.v += share * d
            self.x += H * d - self.r1

    def unknowns(self):
        return np.append(self.x, 0.0) if self.static else self.v


RULES_OF_NEWTON = (
    ({"tolerance": 1e5}, 1, 6),
    ({"tolerance": 1e-3}, 1, 6),
    ({"relative": 1e-2}, 1, 6),
    ({"successive": 0.2}, 1, 6),
    ({"absolute": 0.2}, 1, 6),
    ({"change": 0.05}, 4, 6),
    ({}, 1, 1),
    ({}, 12, 1),
    ({}, 2, 1),
)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["<StaticSolver/>", "<BDFOdeSolver/>"])
def test_newton_iterations_end_where_those_of_sofa_do(tmp_path, scheme):
    """By each threshold, with and without a line search: as many iterations, and the same state."""
    counts, ends = [], []
    for rules, searches, most in RULES_OF_NEWTON:
        data = UNMEASURED
        for name, number in rules.items():
            data = data.replace(f'{NAMES[name]}="0"', "") + f' {NAMES[name]}="{number}"'
        scene = load(tmp_path, BENT.format(scheme + NEWTON.format(most, f'{data} maxNbIterationsLineSearch="{searches}"')))
        problem = ByHand(scene, "Static" in scheme)
        counts.append(newton_by_hand(problem, most, searches, **rules))
        end = scene.integrator.step(scene.system, scene.state, None, H)[0]
        np.testing.assert_allclose(end.position["p"][1], problem.x, rtol=1e-9)
        np.testing.assert_allclose(end.velocity["p"][1], problem.v, rtol=1e-9)
        ends.append(problem.x)
    assert counts[0] == 0 and max(counts[2:6]) < 6
    assert np.abs(np.array(ends[7:]) - ends[6]).max() > 1e-3  # the line search goes elsewhere
