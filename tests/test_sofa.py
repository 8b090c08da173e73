"""Scenes of SOFA: what is read, what stands for what, and that what it computes is what SOFA's formulas say."""

import dataclasses
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from tolerances import FINITE_DIFFERENCE, ROUND_OFF

import jaxmech as jm
from jaxmech._codegen.operation_count import operation_count
from jaxmech._sofa.command_line import main
from jaxmech._sofa.numerics.corotational_cells import CorotationalCells
from jaxmech._sofa.numerics.spring_laws import FastBendingSprings, LinearisedSprings
from jaxmech._sofa.numerics.unconverged_solvers import ConjugateGradients, Past
from jaxmech._sofa.read.topology import cut_into_tetrahedra, grid

DATA = Path(__file__).parents[1] / "examples" / "data"

PENDULUM = """<Node name="root" dt="0.1" gravity="0 -10 0">
  <EulerImplicitSolver name="scheme" {options}/>
  {solver}
  <MechanicalObject name="bob" position="0 0 0  1 0 0" velocity="0 0 0  0 0.3 0"/>
  <UniformMass name="mass" vertexMass="2"/>
  <FixedProjectiveConstraint indices="0"/>
  <SpringForceField name="rod" spring="0 1 100 3 0.9"/>
</Node>
"""


def written(tmp_path, text, name="scene.scn"):
    path = tmp_path / name
    path.write_text(text)
    return path


def pendulum(tmp_path, options="", solver="<SparseLDLSolver/>", **load):
    return jm.sofa.load(written(tmp_path, PENDULUM.format(options=options, solver=solver)), **load)


def test_a_scene_prints_as_a_tree(tmp_path):
    text = str(jm.sofa.load(DATA / "beam.scn"))
    assert text.splitlines()[0] == "[root]" and "  [beam]" in text
    assert "    HexahedronFEMForceField fem: youngModulus=2e5" in text


def test_the_report_says_what_became_of_each_component(tmp_path):
    report = jm.sofa.load(DATA / "beam.scn").report
    fates = {row.component.split(" ")[0]: row.fate for row in report.rows}
    assert fates["@/beam/fem"] == fates["@/beam/solver"] == "equal" and fates["@/beam/grid"] == "read"
    assert fates["@/VisualStyle1"] == "ignored" and "created" in fates.values()  # a linear system
    assert "beam.scn:16" in str(report)
    bare = pendulum(tmp_path, solver="").report
    assert "no linear solver" in str(bare)


def test_what_is_refused_is_said_with_its_line(tmp_path):
    text = PENDULUM.format(options="", solver="<GravityWell/>\n<SparseLDLSolver/>")
    scene = jm.sofa.load(written(tmp_path, text))
    assert [row.line for row in scene.report.of("refused")] == [3]
    with pytest.raises(jm.sofa.SceneError, match="GravityWell") as caught:
        _ = scene.system
    assert caught.value.line == 3


@pytest.mark.parametrize(
    "options",
    [
        'rayleighStiffness="0.2" rayleighMass="0.3" vdamping="0.7"',
        pytest.param('trapezoidalScheme="1" rayleighStiffness="0.2"', marks=pytest.mark.slow),
        pytest.param('firstOrder="1"', marks=pytest.mark.slow),
    ],
)
def test_one_step_of_the_pendulum_by_hand(tmp_path, options):
    """The formulas of the step, in NumPy, along and across the spring."""
    scene = pendulum(tmp_path, options)
    h, m, ks, kd, L, x, v = 0.1, 2.0, 100.0, 3.0, 0.9, np.array([1.0, 0, 0]), np.array([0, 0.3, 0])
    rK, rM = 0.2 * ("rayleighStiffness" in options), 0.3 * ("rayleighMass" in options)
    t = 0.5 if "trapezoidal" in options else 1.0
    F = ks * (1.0 - L) + kd * v[0]
    f = np.array([-F, -10 * m, 0])
    K = np.diag([ks, F, F])  # -df/dx: (ks - F/l) u u^T + F/l I, l = 1
    if "firstOrder" in options:
        new = np.linalg.solve(m * np.eye(3) + h * K, f)
    else:
        A = (1 + t * h * rM) * m * np.eye(3) + t * h * (t * h + rK) * K
        new = v + np.linalg.solve(A, h * (f - (t * h + rK) * K @ v - rM * m * v))
    end = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, 1).last
    np.testing.assert_allclose(end.position["bob"][1], x + h * new, rtol=ROUND_OFF, atol=ROUND_OFF)
    damped = new * np.exp(-0.07) if "vdamping" in options else new
    np.testing.assert_allclose(end.velocity["bob"][1], damped, rtol=ROUND_OFF, atol=ROUND_OFF)


def cg_by_hand(A, b, iterations, tolerance, threshold, first):
    x, r, rho = np.zeros_like(b), b.copy(), 1.0
    p = r
    for i in range(iterations):
        old, rho = rho, r @ r
        forced = first and i == 0
        if not forced and np.sqrt(rho) <= tolerance * np.linalg.norm(b):
            break
        p = r if i == 0 else r + rho / old * p
        if not forced and abs(p @ A @ p) < threshold:
            break
        alpha = rho / (p @ A @ p)
        x, r = x + alpha * p, r - alpha * (A @ p)
    return x


RULES = [(4, 1e-12, 1e-12), (25, 0.05, 1e-12), (25, 1e-12, 0.03), (25, 1.0, 1e3)]


def test_conjugate_gradients_stop_where_they_shall():
    """After so many iterations, by the residual, by the curvature, and at once where it is not the first step."""
    rng = np.random.default_rng(0)
    A = np.diag(np.linspace(1.0, 9.0, 12)) + 0.1
    b = rng.normal(size=12)
    operator = lx.MatrixLinearOperator(jnp.asarray(A), lx.positive_semidefinite_tag)

    @jax.jit
    def solved(b):
        past = [Past(jnp.asarray(first), jnp.zeros(12), None) for first in (True, False)]
        solvers = [ConjugateGradients(tolerance, threshold, most) for most, tolerance, threshold in RULES]
        return [[s.solve(operator, b, p) for p in past] for s in solvers]

    counts = []
    for rules, row in zip(RULES, solved(jnp.asarray(b)), strict=True):
        for first, found in zip((True, False), row, strict=True):
            np.testing.assert_allclose(found.x, cg_by_hand(A, b, *rules, first), rtol=1e-10, atol=1e-12)
            counts.append(int(found.said.stats["num_steps"]))
    assert counts[:2] == [4, 4] and 1 < counts[2] < 12 and 1 < counts[4] < 12 and counts[6:] == [1, 0]


def test_numbers_by_their_path_and_back_into_the_file(tmp_path):
    scene = pendulum(tmp_path)
    where = scene.where("@/rod.stiffness")
    assert float(where(scene.system)[0]) == 100.0
    assert float(scene.where("@/mass.vertexMass")(scene.system)) == 2.0
    with pytest.raises(jm.sofa.SceneError, match="@/rod.stiffness"):
        scene.where("@/rod.stifness")
    heavier = eqx.tree_at(scene.where("@/mass.vertexMass"), scene.system, jnp.asarray(2.5))
    heavier = eqx.tree_at(scene.where("@/.gravity"), heavier, jnp.array([0.0, -1.6, 0.0]))
    assert scene.write(tmp_path / "new.scn", heavier) == {"@/mass.vertexMass": "2.5", "@/.gravity": "0.0 -1.6 0.0"}
    text = (tmp_path / "new.scn").read_text()
    original = (tmp_path / "scene.scn").read_text()
    assert text == original.replace('vertexMass="2"', 'vertexMass="2.5"').replace('"0 -10 0"', '"0.0 -1.6 0.0"')
    again = jm.sofa.load(tmp_path / "new.scn")
    assert float(again.where("@/mass.vertexMass")(again.system)) == 2.5


@pytest.mark.parametrize(
    "solver", [pytest.param("sofa", marks=pytest.mark.slow), pytest.param("exact", marks=pytest.mark.exhaustive)]
)
def test_gradients_are_those_of_what_is_computed(tmp_path, solver):
    """Of unconverged iterations too: seven are far from the solution."""
    text = (DATA / "beam.scn").read_text().replace('iterations="50"', 'iterations="7"').replace('n="3 3 7"', 'n="2 2 3"')
    scene = jm.sofa.load(written(tmp_path, text), solver=solver)
    where = scene.where("@/beam/fem.youngModulus")

    @jax.jit
    def sag(log_young):
        system = eqx.tree_at(where, scene.system, 2e5 * jnp.exp(log_young))
        run = jm.simulate(system, scene.state, scene.integrator, scene.dt, 4, save_every=4)
        return 100 * run.last.position["beam/dofs"][-1, 1]

    both = jax.jit(lambda a: (jax.grad(sag)(a), jax.jvp(sag, (a,), (jnp.ones(()),))[1]))
    backward, forward = both(jnp.zeros(()))
    eps = 1e-3
    far, near = ((sag(jnp.asarray(s)) - sag(jnp.asarray(-s))) / (2 * s) for s in (2 * eps, eps))
    np.testing.assert_allclose(backward, (4 * near - far) / 3, rtol=FINITE_DIFFERENCE)
    np.testing.assert_allclose(forward, backward, rtol=1e-9)


@pytest.mark.slow
def test_a_recorded_script_is_the_same_scene():
    scene = jm.sofa.record(DATA / "pulled_net.py", steps=12)
    assert "MeshSpringForceField springs" in str(scene) and len(scene.changes) == 12
    control = scene.control()
    assert control is not None
    run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, 12, control=control)
    written_forces = control(jnp.zeros(()), dataclasses.replace(scene.state, time=jnp.asarray(0.04)), None)
    np.testing.assert_allclose(written_forces["net/pull"]["force"], [[0.0, 0.5, 0.0]][0], rtol=ROUND_OFF)
    assert run.last.position["net/dofs"][7, 1] > scene.state.position["net/dofs"][7, 1]


SCRIPTS = {
    "no createScene": ("x = 1", "no createScene"),
    "an error": ("def createScene(root):\n    raise RuntimeError('broken')", "broken"),
    "reads the state": (
        "import Sofa\nclass C(Sofa.Core.Controller):\n    def onAnimateBeginEvent(self, e):\n"
        "        root.dofs.position.value\ndef createScene(r):\n    global root\n    root = r\n"
        "    r.addObject('MechanicalObject', name='dofs', position=[0, 0, 0])\n    r.addObject(C(name='c'))",
        "computed by a simulation",
    ),
    "runs for ever": ("def createScene(root):\n    while True: pass", "longer than 1 s"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_that_fail_say_so(tmp_path, name):
    text, reason = SCRIPTS[name]
    with pytest.raises(jm.sofa.SceneError, match=reason) as caught:
        jm.sofa.record(written(tmp_path, text, "scene.py"), steps=1, time_limit=1.0 if name == "runs for ever" else 60.0)
    assert caught.value.file.endswith("scene.py")


@pytest.mark.slow
def test_the_command_line_runs_records_and_compares(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = str(written(tmp_path, PENDULUM.format(options="", solver="<SparseLDLSolver/>")))
    assert main(["run", path, "-n", "3", "--record", "out.npz", "--export", "A,b,x:2", "--energy"]) == 0
    assert "3 steps of 0.1 s" in capsys.readouterr().out
    assert main(["run", path, "-n", "2", "--export", "A", "--format", "png"]) == 0
    assert [p.read_bytes()[1:4] for p in sorted(tmp_path.glob("*.png"))] == [b"PNG", b"PNG"]
    assert main(["run", path, "-n", "1", "--export", "b", "--format", "png"]) == 1
    states = np.load("out.npz")["bob|position"]
    assert states.shape == (4, 2, 3)
    assert len(list(tmp_path.glob("scene_root_?_00000[13].mtx"))) == 6
    lines = [f"T= {k * 0.1}\n  X= {' '.join(map(repr, states[k].ravel().tolist()))}\n" for k in (0, 3)]
    reference = str(written(tmp_path, "".join(lines), "scene.scn.reference_0_bob_mstate.txt"))
    assert main(["run", path, "--compare", reference, "--threshold", "1e-12"]) == 0
    assert "|dx|/size 0.000e+00" in capsys.readouterr().out
    assert main(["run", path, "--dt", "0.05", "-n", "6", "--compare", reference, "--threshold", "1e-9"]) == 1


def test_the_command_line_says_by_its_status_what_is_wrong(tmp_path, capsys):
    path = str(written(tmp_path, PENDULUM.format(options="", solver="<SparseLDLSolver/>")))
    assert main(["run", path, "--list", "--tree"]) == 0 and "equal" in capsys.readouterr().out
    refused = str(written(tmp_path, "<Node><RungeKutta4Solver/><Gravitron/></Node>", "refused.scn"))
    assert main(["run", refused]) == 2 and "Gravitron" in capsys.readouterr().err
    assert main(["run", str(tmp_path / "nowhere.scn")]) == 1
    (tmp_path / "still.scn").write_text("<Node/>")
    assert main(["run", str(tmp_path / "still.scn")]) == 0 and "nothing moves" in capsys.readouterr().out
    assert main(["run", str(DATA / "pulled_net.py")]) == 1  # a program is run only where one asks for it


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--record", "out.foo"], "--record is out.foo: expected .npz"),
        (["--record", "nowhere/out.npz"], "there is no folder nowhere"),
        (["--compare", "nowhere.npz"], "--compare is nowhere.npz: there is no such file"),
        (["--export", "A:0"], "--export is 'A:0'"),
        (["--export", "Q"], "--export is 'Q'"),
    ],
)
def test_what_cannot_be_written_or_compared_is_told_before_a_run(tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    path = str(written(tmp_path, PENDULUM.format(options="", solver="<SparseLDLSolver/>")))
    assert main(["run", path, "-n", "1000", *arguments]) == 1
    printed = capsys.readouterr()
    assert said in printed.err and "steps of" not in printed.out


PLANE = """<Node name="root" dt="0.1" gravity="0 -10 0"><EulerImplicitSolver/><SparseLDLSolver/>
  <Node name="m"><MechanicalObject template="Rigid2" name="q" position="1 2 0.3"/><UniformMass vertexMass="2"/></Node>
  <Node name="p"><MechanicalObject template="Vec2" name="x" position="0 0  1 0  0 1"/><UniformMass vertexMass="2"/>
  <MeshTopology triangles="0 1 2"/></Node>
  <Node name="l"><MechanicalObject template="Vec1" name="s" position="7"/><UniformMass vertexMass="2"/></Node></Node>"""


@pytest.mark.slow
def test_states_of_the_plane_are_recorded_and_runs_compared_with_one_another(tmp_path, capsys, monkeypatch):
    """Free fall by symplectic Euler: `y = -g h^2 n (n + 1) / 2`. The angle of a frame is not its height."""
    meshio = pytest.importorskip("meshio")
    monkeypatch.chdir(tmp_path)
    path = str(written(tmp_path, PLANE))
    assert main(["run", path, "-n", "3", "--record", "out.vtu"]) == 0
    assert "out.vtu is without l/s: its nodes (Vec1) are no points" in capsys.readouterr().out
    mesh = meshio.read("out.vtu")
    np.testing.assert_allclose(mesh.points, [[1, 1.4, 0], [0, -0.6, 0], [1, -0.6, 0], [0, 0.4, 0]], atol=1e-12)
    assert mesh.cells_dict["triangle"].tolist() == [[1, 2, 3]]
    assert main(["run", path, "-n", "4", "--record", "out.npz"]) == 0
    capsys.readouterr()
    assert main(["run", path, "--compare", "out.npz", "--threshold", "0"]) == 0
    printed = capsys.readouterr().out
    assert "4 steps of 0.1 s" in printed and printed.count("|dx|/size 0.000e+00") == 3
    written(tmp_path, PLANE.replace("0 -10 0", "0 -20 0"))
    assert main(["run", path, "--compare", "out.npz", "--threshold", "0.3"]) == 1
    printed = capsys.readouterr().out  # six numbers, three of which are 1 m beside at 0.4 s
    assert f"out.npz: p/x at 0.4 s: |dx|/size {np.sqrt(3) / 6:.3e}, largest 1.000e+00" in printed
    assert main(["run", path, "--dt", "0.07", "--compare", "out.npz"]) == 1
    assert "has no time but the start in common with steps of 0.07 s" in capsys.readouterr().err
    np.savez("other.npz", time=[0.0, 0.1], **{"q|position": np.zeros((2, 1, 3))})
    assert main(["run", path, "--compare", "other.npz"]) == 1
    assert "holds the state 'q', which is none that the scene moves" in capsys.readouterr().err
    np.savez("else.npz", x=np.zeros(3))
    assert main(["run", path, "-n", "2", "--compare", "else.npz"]) == 1
    assert "keys STATE|position and time, as --record writes them" in capsys.readouterr().err


def test_hexahedra_are_cut_as_sofa_does():
    """README of SOFA's regression scenes, formula 7: mirrors, and the second table where their number is odd."""
    mesh = grid((3, 3, 3), np.zeros(3), np.ones(3))
    cut = cut_into_tetrahedra(mesh, True)
    assert cut.tetrahedra.shape == (48, 4)
    # Cell 0 is mirrored in x: its node 0 is the grid's 1; the second table, whose last two are exchanged.
    assert cut.tetrahedra[0].tolist() == [1, 9, 10 + 2, 0]
    edges = mesh.position[cut.tetrahedra[:, 1:]] - mesh.position[cut.tetrahedra[:, :1]]
    np.testing.assert_allclose(np.linalg.det(edges) / 6, np.full(48, 1 / 48), rtol=ROUND_OFF)


BOX = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1.0]])


@pytest.mark.slow_cases("polar-hexahedron")
@pytest.mark.parametrize("kind", ["tetrahedron", "hexahedron"])
@pytest.mark.parametrize("rotation", ["large", "polar", "small"])
def test_corotational_cells(kind, rotation):
    """No force where a cell is only turned; the frozen tangent is the derivative where it is not deformed."""
    rest = BOX if kind == "hexahedron" else BOX[[0, 5, 1, 6]]
    field = CorotationalCells(("p", [list(range(len(rest)))]), rest, 100.0, 0.3, kind, rotation, True)
    turn = np.linalg.qr(np.array([[1.0, 0.4, 0.1], [-0.3, 1.0, 0.2], [0.0, -0.3, 1.0]]))[0]
    turn *= np.sign(np.linalg.det(turn))
    x = jnp.asarray(rest + 0.3 if rotation == "small" else rest @ turn.T + 0.3)
    v = jnp.zeros_like(x)
    exact = dataclasses.replace(field, frozen=False)

    @jax.jit
    def all_of(x):  # of one element, which the field is here
        return field.element_force((x,), (v,))[0], *(f.element_stiffness((x,), (v,))[0][0] for f in (field, exact))

    force, frozen, derived = all_of(x)
    assert np.abs(force).max() < 1e-10
    np.testing.assert_allclose(frozen, derived, atol=1e-11 * np.abs(derived).max())


@pytest.mark.slow
@pytest.mark.parametrize("rotation", ["large", "polar", "fitted", "gradient"])
def test_the_exact_tangent_of_a_corotational_cell(rotation):
    """Where it is deformed, of nodes numbered inside out: differences of the force; and short enough for a kernel."""
    rest, h = BOX[[0, 1, 5, 6]], 1e-6
    field = CorotationalCells(("p", [[0, 1, 2, 3]]), rest, 100.0, 0.3, "tetrahedron", rotation, False)
    x = rest + np.random.default_rng(3).uniform(-0.2, 0.2, rest.shape)

    def tangent(x):
        return field.element_stiffness((x,), (x,))[0][0]

    moved = x + h * np.concatenate([np.eye(12), -np.eye(12)]).reshape(-1, 4, 3)
    K, forces = jax.jit(lambda x, moved: (tangent(x), jax.vmap(lambda x: field.element_force((x,), (x,))[0])(moved)))(
        x, moved
    )
    slopes = np.asarray(forces[:12] - forces[12:]).reshape(12, 12).T / (2 * h)
    np.testing.assert_allclose(np.asarray(K).reshape(12, 12), -slopes, atol=FINITE_DIFFERENCE * np.abs(slopes).max())
    assert operation_count(jax.make_jaxpr(tangent)(x).jaxpr) < 16_000  # "polar" had 27,000, and took XLA minutes


def test_springs_by_hand():
    spring = LinearisedSprings((("p", [0]), ("p", [1])), 10.0, 2.0, 1.0)
    system = jm.System({"p": jm.Vec3()}, forces={"s": spring})
    state = dataclasses.replace(
        system.at_rest({"p": [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]}), velocity={"p": jnp.array([[0.0, 0, 0], [0.5, 0, 0]])}
    )
    np.testing.assert_allclose(jm.total_force(system, state)["p"][:, 0], [11.0, -11.0])  # ks (l - L) + kd l'
    K = jm.matrix.component_matrix(system, state, "s", "stiffness")["p", "p"].to_dense((2, 2))
    np.testing.assert_allclose(np.diag(K)[:3], [10.0, 5.5, 5.5])  # ks along, F/l across


def test_bending_springs_by_hand():
    """Two right triangles of legs 2: ha = hb = sqrt 2, l = 2 sqrt 2, lambda = 2/3 (2 ha) / ha^4 l k."""
    rest = np.array([[0.0, 0, 0], [2.0, 2, 0], [2.0, 0, 0], [0.0, 2, 0]])
    field = FastBendingSprings(("p", [[0, 1, 2, 3]]), rest, 3.0)
    system = jm.System({"p": jm.Vec3()}, forces={"b": field})
    bent = rest + np.array([[0, 0, 0.1], [0, 0, 0.1], [0, 0, 0], [0, 0, 0.0]])
    # Both ends raised by 0.1: sum a x = 1/2 0.1 + 1/2 0.1.
    np.testing.assert_allclose(jm.energy(system, system.at_rest({"p": bent})), 0.5 * (4 / 3 * 3.0) * 0.01, rtol=ROUND_OFF)


def test_a_copy_of_a_grid_is_no_grid(tmp_path):
    """Hexa2TetraTopologicalMapping mirrors the cells of a container as those of a grid two cells wide and one high."""
    text = """<Node><EulerImplicitSolver/><RegularGridTopology name="grid" n="4 3 2" min="0 0 0" max="3 2 1"/>
      <HexahedronSetTopologyContainer name="copy" src="@grid"/><MechanicalObject name="x"/>
      <TetrahedronSetTopologyContainer name="cut"/><Hexa2TetraTopologicalMapping input="@copy" output="@cut" swapping="1"/>
      <TetrahedronFEMForceField name="fem" topology="@cut"/></Node>"""
    scene = jm.sofa.load(written(tmp_path, text))
    mesh = grid((4, 3, 2), np.zeros(3), np.array([3.0, 2, 1]))
    expected = cut_into_tetrahedra(dataclasses.replace(mesh, lattice=None), True).tetrahedra
    assert not np.array_equal(expected, cut_into_tetrahedra(mesh, True).tetrahedra)
    np.testing.assert_array_equal(scene.system.forces["fem"].on[0].nodes, expected)
