"""Every matrix in the user's hand: formats, the flat system, files, the linear system of a step, compliances."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
import scenes
from jax.experimental import sparse
from scipy import io
from scipy import sparse as scipy_sparse
from scipy.sparse.linalg import spsolve
from tolerances import FINITE_DIFFERENCE, ROUND_OFF

import jaxmech as jm
from jaxmech._model.constraint_projection import project

SIZES = {"frames": (2, 6), "points": (4, 3), "rope": (3, 1)}


def close(a, b, tolerance=ROUND_OFF):
    """Equal to rounding of the largest entry."""
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max(initial=0)))


def triplets(rng, pair, count=7):
    """Random blocks at random places, repeats among them."""
    (n, d), (m, e) = (SIZES[s] for s in pair)
    rows, columns = rng.integers(0, n, count), rng.integers(0, m, count)
    return jm.matrix.Triplets(pair, jnp.asarray(rows), jnp.asarray(columns), jnp.asarray(rng.standard_normal((count, d, e))))


def shape_of(pair):
    """The block rows and columns between two states."""
    return SIZES[pair[0]][0], SIZES[pair[1]][0]


@pytest.fixture
def matrix(rng):
    """Three states, of which two pairs know nothing of each other."""
    pairs = [("frames", "frames"), ("points", "points"), ("frames", "points"), ("points", "frames"), ("rope", "rope")]
    return jm.matrix.BlockMatrix.from_entries({p: triplets(rng, p).assemble(shape_of(p)) for p in pairs})


@pytest.fixture
def dense(matrix):
    """The matrix by its definition, block by block."""
    start = {"frames": 0, "points": 12, "rope": 24}
    whole = np.zeros((27, 27))
    for (r, c), entry in matrix.entries.items():
        starts, columns, values = (np.asarray(a) for a in (entry.row_index, entry.columns, entry.values))
        _, p, q = values.shape
        for i in range(entry.pattern.shape[0]):
            for z in range(starts[i], starts[i + 1]):
                whole[start[r] + p * i :, start[c] + q * columns[z] :][:p, :q] = values[z]
    return whole


# --- formats ------------------------------------------------------------------------


def test_a_matrix_of_several_states_in_every_format(matrix, dense, rng):
    assert (matrix.to_dense() == dense).all() and (matrix.as_matrix() == dense).all()
    for format in ("csr", "csc", "coo", "bsr"):
        stored = matrix.to_scipy(format)
        assert stored.format == format
        assert (stored.toarray() == dense).all()
    u = rng.standard_normal(27)
    layout = matrix.layout
    product, transposed = eqx.filter_jit(lambda A, u: (layout.ravel(A.mv(u)), layout.ravel(A.T.mv(u))))(
        matrix, layout.unravel(u)
    )
    close(product, dense @ u)  # the lineax operator
    close(transposed, dense.T @ u)
    assert matrix.to_bcsr().keys() == matrix.to_bcoo().keys() == matrix.entries.keys()
    assert not lx.is_symmetric(matrix)
    with pytest.raises(ValueError, match="format must be one of"):
        matrix.to_scipy("lil")
    with pytest.raises(KeyError, match="no block between"):
        matrix["rope", "points"]


@pytest.mark.parametrize("pair", [("points", "points"), ("frames", "points"), ("rope", "frames")])
def test_the_blocks_of_one_pair_in_every_format(pair, rng):
    given = triplets(rng, pair)
    (n, d), (m, e) = (SIZES[s] for s in pair)
    expected = np.zeros((n, d, m, e))
    for i, j, block in zip(*(np.asarray(a) for a in (given.rows, given.columns, given.blocks)), strict=True):
        expected[i, :, j] += block
    expected = expected.reshape(n * d, m * e)
    entry = given.assemble((n, m))

    def flat(dense):
        return np.asarray(dense).swapaxes(1, 2).reshape(n * d, m * e)

    close(given.to_dense((n, m)), expected)
    close(flat(given.to_bcoo((n, m)).todense()), expected)
    for format in ("coo", "csr", "csc", "bsr"):
        assert given.to_scipy((n, m), format).format == entry.to_scipy(format).format == format
        close(given.to_scipy((n, m), format).toarray(), expected)
        close(entry.to_scipy(format).toarray(), expected)
    assert given.to_scipy((n, m)).nnz == given.blocks.size  # repeats are kept
    close(entry.to_dense(), expected)
    assert isinstance(entry.to_bcsr(), sparse.BCSR)
    close(flat(entry.to_bcoo().todense()), expected)
    close(flat(entry.to_bcsr().todense()), expected)
    x = rng.standard_normal((m, e))
    close(entry.mv(x).reshape(-1), expected @ x.reshape(-1))
    bsr = entry.to_scipy()
    assert bsr.blocksize == (d, e)
    assert (
        (bsr.indptr == entry.row_index).all() and (bsr.indices == entry.columns).all() and (bsr.data == entry.values).all()
    )
    bsr.data[:] = 0  # a copy, which outside codes may overwrite
    close(entry.to_dense(), expected)


def test_places_outside_of_a_matrix_are_refused(rng):
    given = triplets(rng, ("points", "points"))
    for make in (given.assemble, given.to_dense, given.to_bcoo, given.to_scipy):
        with pytest.raises(ValueError, match=r"is not in a matrix of \(2, 4\) blocks"):
            make((2, 4))
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda t: t.assemble((4, 4)))(given)


def test_entries_that_disagree_are_refused(rng):
    entry = triplets(rng, ("points", "points")).assemble((4, 4))
    with pytest.raises(ValueError, match="gives state 'a' 4 nodes of 3 unknowns, another gives it 5 of 3"):
        jm.matrix.BlockMatrix.from_entries(
            {("a", "b"): triplets(rng, ("points", "points")).assemble((5, 4)), ("a", "a"): entry}
        )
    with pytest.raises(TypeError, match=r"entries\[\('a', 'a'\)\] must be of type BlockSparse"):
        jm.matrix.BlockMatrix.from_entries({("a", "a"): np.eye(3)})
    with pytest.raises(ValueError, match="entries is empty, at least one is needed"):
        jm.matrix.BlockMatrix.from_entries({})


# --- the flat system ----------------------------------------------------------------


def test_layout_of_the_flat_system(rng):
    vectors = {s: jnp.asarray(rng.standard_normal(shape)) for s, shape in reversed(SIZES.items())}
    layout = jm.matrix.StateLayout.of(vectors)
    assert layout.size == 27
    assert layout.dimensions() == {"frames": 12, "points": 12, "rope": 3}
    assert layout.offsets() == {"frames": 0, "points": 12, "rope": 24}
    flat = layout.ravel(vectors)
    assert flat[12 + 3 * 2 + 1] == vectors["points"][2, 1]
    back = layout.unravel(np.asarray(flat))
    assert list(back) == ["frames", "points", "rope"]
    assert all((back[s] == vectors[s]).all() for s in vectors)
    assert layout.dofs("points", [2, 0], [1]).tolist() == [19, 13]
    assert layout.dofs("rope").tolist() == [24, 25, 26]
    assert layout.dofs("frames", 1).tolist() == list(range(6, 12))
    assert layout.dofs("frames", []).size == 0
    close(jax.jit(lambda v: layout.ravel(layout.unravel(2 * layout.ravel(v))))(vectors), 2 * flat)


def test_layout_refuses_what_does_not_fit():
    layout = jm.matrix.StateLayout((("points", 4, 3),))
    with pytest.raises(ValueError, match=r"vector has shape \(11,\), expected \(12\)"):
        layout.unravel(np.zeros(11))
    with pytest.raises(ValueError, match=r"vectors\['points'\] has shape \(3, 3\), expected \(4, 3\)"):
        layout.ravel({"points": jnp.zeros((3, 3))})
    with pytest.raises(ValueError, match=r"vectors of \['dots'\], expected \['points'\]"):
        layout.ravel({"dots": jnp.zeros((4, 3))})
    with pytest.raises(ValueError, match="state must be one of .*, got 'dots'"):
        layout.dofs("dots")
    with pytest.raises(ValueError, match="components of 'points' must be whole numbers from 0 to 2"):
        layout.dofs("points", [0], [3])
    with pytest.raises(ValueError, match=r"vectors\['points'\] has shape \(4,\)"):
        jm.matrix.StateLayout.of({"points": jnp.zeros(4)})


# --- files --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_files_hold_the_matrix(tmp_path, matrix, dtype):
    matrix = jax.tree.map(lambda a: a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a, matrix)
    entry = matrix["frames", "points"]
    for name, given in (("whole", matrix), ("pair", entry)):
        for suffix in ("mtx", "npz", "csv"):
            jm.matrix.write_matrix(tmp_path / f"{name}.{suffix}", given)
        dense = np.asarray(given.to_dense())
        assert (io.mmread(tmp_path / f"{name}.mtx", spmatrix=False).toarray().astype(dtype) == dense).all()
        assert (scipy_sparse.load_npz(tmp_path / f"{name}.npz").toarray() == dense).all()
        rows, columns, values = np.loadtxt(tmp_path / f"{name}.csv", delimiter=",", skiprows=1, unpack=True)
        read = scipy_sparse.coo_array((values.astype(dtype), (rows.astype(int), columns.astype(int))), shape=dense.shape)
        assert (read.toarray() == dense).all()
    assert scipy_sparse.load_npz(tmp_path / "pair.npz").format == "bsr"
    assert "frames: 2 x 6 from 1, points: 4 x 3 from 13, rope: 3 x 1 from 25" in (tmp_path / "whole.mtx").read_text()
    assert (tmp_path / "pair.csv").read_text().startswith("row,column,value\n0,")


def test_files_of_other_kinds_are_refused(tmp_path, matrix, rng):
    with pytest.raises(ValueError, match=r"A.txt' must end in .mtx, .npz or .csv"):
        jm.matrix.write_matrix(tmp_path / "A.txt", matrix)
    with pytest.raises(TypeError, match="BlockMatrix or a BlockSparse, got Triplets"):
        jm.matrix.write_matrix(tmp_path / "A.mtx", triplets(rng, ("points", "points")))


# --- contributions ------------------------------------------------------------------


def lever():
    """A frame of the plane that carries two points, tied by damped springs to two free ones; held obliquely. At rest."""
    system = jm.System(
        {"body": jm.Rigid2(), "free": jm.Vec2(), "tips": jm.Vec2()},
        forces={
            "springs": jm.force.Springs((("tips", [0, 1]), ("free", [0, 1])), [20.0, 35.0], 0.4, damping=[0.3, 0.7]),
            "hold": jm.force.AnchoredSprings(("free", [1]), 8.0, [[1.0, 0.0]]),
        },
        masses={
            "body": jm.mass.PlanarRigidMass(("body", [0]), 2.0, 0.6),
            "free": jm.mass.UniformMass(("free", [0, 1]), 0.5),
            "tips": jm.mass.DiagonalMass(("tips", [0, 1]), [0.1, 0.2]),
        },
        mappings={"arm": jm.mapping.RigidMapping(("body", [0, 0]), "tips", [[0.5, 0.1], [-0.4, 0.3]])},
        constraints={
            "slide": jm.constraint.FixedLine(("free", [0]), (1.0, 2.0)),
            "pin": jm.constraint.FixedComponents(("body", [0]), (True, False, False)),
        },
        gravity=(0.0, -9.81),
    )
    return system, system.at_rest({"body": [[0.1, 0.2, 0.4]], "free": [[1.0, 0.3], [0.2, -0.7]]})


@pytest.mark.slow
def test_contributions_add_up_before_and_after_constraints():
    """`A = P sum_i (m M_i + b B_i + k K_i + k G_i) P + I - P`, each component taken by itself."""
    system, state = lever()
    linear_system = jm.MatrixLinearSystem.build(system, state)
    m, b, k = 1.5, 0.3, 0.2
    parts = [(k, name, "stiffness") for name in system.forces] + [(m, name, "mass") for name in system.masses]
    parts += [(b, "springs", "damping"), (k, "arm", "geometric")]
    counts, start = {"body": 1, "free": 2}, {"body": 0, "free": 3}

    @eqx.filter_jit
    def every_part(system, state):
        A0 = linear_system.unconstrained(system, state, jm.Factors(m, b, k))
        A = linear_system.constrain(system, A0)
        held = jax.vmap(lambda e: A.layout.ravel(project(system, A.layout.unravel(e))))(jnp.eye(7))
        totals = []
        for constrained in (False, True):
            total = jnp.zeros((7, 7))
            for factor, name, kind in parts:
                options = {"projected": True, "constrained": constrained}
                for (r, c), part in jm.matrix.component_matrix(system, state, name, kind, **options).items():
                    own = factor * part.to_dense((counts[r], counts[c]))
                    rows, columns = (start[s] + np.arange(n) for s, n in zip((r, c), own.shape, strict=True))
                    total = total.at[np.ix_(rows, columns)].add(own)
            totals.append(total)
        # Before projection no constraint holds the state that is mapped.
        options = [{"constrained": False}, {"constrained": True}]
        mapped = [jm.matrix.component_matrix(system, state, "springs", **o)["tips", "tips"] for o in options]
        return A0.to_dense(), A.to_dense(), held.T, *totals, *mapped

    A0, A, P, total, constrained, plain, held = every_part(system, state)
    close(total, A0)
    close(constrained, P @ A0 @ P)
    close(constrained + np.eye(7) - P, A)
    assert np.linalg.matrix_rank(P) == 5
    assert eqx.tree_equal(plain, held)


# --- the linear system of a step ----------------------------------------------------


def by_scipy(problem):
    """The solution by an outside code, which sees the flat system and knows nothing else."""
    layout = problem.A.layout
    return layout.unravel(spsolve(problem.A.to_scipy("csc"), np.asarray(layout.ravel(problem.b))))


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["lever", pytest.param("every_constraint", marks=pytest.mark.slow)])
def test_an_outside_code_takes_a_step(scene):
    system, state = lever() if scene == "lever" else (scenes.build(scene).system, scenes.build(scene).state)
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    problem = integrator.problem(system, state, 0.01)
    x = by_scipy(problem)
    own = problem.solve()
    for s in x:
        close(x[s], own[s])
    end, _, info = integrator.step(system, state, None, 0.01)
    close(jnp.sqrt(sum(jnp.sum(b**2) for b in problem.b.values())), info.residual)
    handed_back = problem.advance(x)
    assert handed_back.time == end.time
    for s in x:
        close(handed_back.position[s], end.position[s])
        close(handed_back.velocity[s], end.velocity[s])


def truss():
    """A hanging chain of linear springs that is pulled, and its start."""
    system = jm.System(
        {"chain": jm.Vec2()},
        forces={
            "links": jm.force.AnchoredSprings((("chain", [0, 1]), ("chain", [1, 2])), stiffness=[10.0, 30.0]),
            "load": jm.force.ConstantForce(("chain", [2]), force=[0.3, -1.0]),
        },
        constraints={
            "hook": jm.constraint.PrescribedMotion(
                ("chain", [0]), reference=[[0.0, 0.0]], displacements=[[0.0, 0.0], [0.5, 0.0]], times=[0.0, 1.0]
            )
        },
    )
    return system, system.at_rest({"chain": jnp.zeros((3, 2))}, time=1.0)


@pytest.mark.slow
def test_an_outside_code_finds_an_equilibrium():
    system, start = truss()
    problem = jm.solver.static_problem(system, start)
    # By hand: the hook moves by 0.5, each link stretches by the load over its stiffness.
    expected = np.array([[0.5, 0.0], [0.5 + 0.03, -0.1], [0.5 + 0.03 + 0.01, -0.1 - 1 / 30]])
    close(problem.advance(by_scipy(problem)).position["chain"], expected)
    solution = jm.static_solve(system, start)
    close(solution.position["chain"], expected)
    # At a solution nothing is left of the right-hand side, and the matrix is the tangent.
    end = jm.solver.static_problem(system, solution.state)
    close(end.b["chain"], 0.0)
    close(end.A.to_dense(), problem.A.to_dense())
    free = jm.solver.static_problem(system, start, jm.solver.MatrixFreeSystem(jm.Terms(mass=False, damping=False)))
    close(free.A.as_matrix(), problem.A.to_dense())


@pytest.mark.slow
def test_newton_steps_one_by_one_are_the_implicit_step():
    """`problem` of an iterated step is its first iteration; a linear scene needs no other."""
    system, start = truss()
    system = jm.System(
        system.dofs,
        forces=system.forces,
        constraints=system.constraints,
        masses={"mass": jm.mass.UniformMass(("chain", [0, 1, 2]), 1.0)},
        rayleigh={"links": 0.1},
    )
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start), newton=True, rayleigh_mass=0.2)
    problem = integrator.problem(system, start, 0.1)
    end = integrator.step(system, start, None, 0.1)[0]
    close(problem.advance(problem.solve(jm.solver.Dense())).velocity["chain"], end.velocity["chain"])


# --- compliance ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "solver", [None, jm.solver.SparseDirect(), jm.solver.PCG(rtol=1e-13)], ids=lambda s: type(s).__name__
)
def test_compliance_of_chosen_unknowns(solver):
    system, start = truss()
    A = jm.solver.static_problem(system, start).A
    dofs = A.layout.dofs("chain", [2, 1], [1])
    W = jm.matrix.compliance_matrix(A, dofs, solver)
    # Springs in a row: the outer node feels both, and the inner one only the first.
    close(W, [[1 / 10 + 1 / 30, 1 / 10], [1 / 10, 1 / 10]])
    assert jm.matrix.compliance_matrix(A, A.layout.dofs("chain", [0]), solver).tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.slow
def test_compliance_is_differentiable_in_both_modes():
    system, start = truss()
    linear_system = jm.MatrixLinearSystem.build(system, start)

    def softness(stiffness):
        trial = eqx.tree_at(lambda s: s.forces["links"].stiffness, system, stiffness)
        A = jm.solver.static_problem(trial, start, linear_system).A
        return jm.matrix.compliance_matrix(A, A.layout.dofs("chain", [2], [0]), jm.solver.SparseDirect())[0, 0]

    k = jnp.array([10.0, 30.0])
    close(jax.jit(jax.grad(softness))(k), -1 / k**2, FINITE_DIFFERENCE)
    close(jax.jit(jax.jacfwd(softness))(k), -1 / k**2, FINITE_DIFFERENCE)


@pytest.mark.slow
def test_compliance_of_an_unsymmetric_matrix_and_of_wrong_unknowns(matrix, dense):
    sturdy = matrix.plus(matrix)  # a matrix with a structure of its own, made regular by its diagonal
    entries = dict(sturdy.entries)
    for s, (n, d) in SIZES.items():
        shift = jm.matrix.Triplets((s, s), jnp.arange(n), jnp.arange(n), jnp.broadcast_to(20 * jnp.eye(d), (n, d, d)))
        own = sturdy[s, s]
        both = jm.matrix.Triplets(
            (s, s),
            jnp.concatenate([own.pattern.rows, shift.rows]),
            jnp.concatenate([own.columns, shift.columns]),
            jnp.concatenate([own.values, shift.blocks]),
        )
        entries[s, s] = both.assemble((n, n))
    A = jm.matrix.BlockMatrix.from_entries(entries)
    dofs = [25, 3, 14]
    close(jm.matrix.compliance_matrix(A, dofs), np.linalg.inv(2 * dense + 20 * np.eye(27))[np.ix_(dofs, dofs)])
    with pytest.raises(ValueError, match="unknowns 0 to 27 of a system of 27"):
        jm.matrix.compliance_matrix(A, [0, 27])
    with pytest.raises(ValueError, match="dofs must be a list of whole numbers"):
        jm.matrix.compliance_matrix(A, [0.5])
    with pytest.raises(TypeError, match="the vector that A takes"):
        jm.matrix.compliance_matrix(lx.MatrixLinearOperator(jnp.eye(3)), [0])


def test_entries_and_elements_are_added():
    """One block of 2 x 3 and an element of two nodes, whose matrix is given node by node; repeats add up."""
    empty = jm.matrix.Triplets(("a", "b"), jnp.zeros(0, int), jnp.zeros(0, int), jnp.zeros((0, 2, 3)))
    element = np.arange(24.0).reshape(4, 6)
    both = jax.jit(lambda m: empty.add_element([2, 0], m).add(2, 0, jnp.ones((2, 3))))(jnp.asarray(element))
    dense = np.zeros((6, 9))
    rows, columns = [4, 5, 0, 1], [6, 7, 8, 0, 1, 2]
    dense[np.ix_(rows, columns)] += element
    dense[4:6, 0:3] += 1
    np.testing.assert_array_equal(both.assemble((3, 3)).to_dense(), dense)
    several = empty.add([0, 1], [1, 1], np.ones((2, 2, 3)))
    assert several.rows.tolist() == [0, 1] and several.blocks.shape == (2, 2, 3)
    for wrong in (lambda: empty.add(0, 0, np.ones((3, 2))), lambda: empty.add_element([0, 1], np.ones((4, 5)))):
        with pytest.raises(ValueError, match="expected"):
            wrong()
    with pytest.raises(TypeError, match="row must be"):
        empty.add(0.5, 0, np.ones((2, 3)))


def test_a_force_field_of_sofas_kind_is_told_what_changed():
    with pytest.raises(TypeError, match="Old defines addDForce, addForce.*element_force"):

        class Old(jm.force.AbstractForceField):
            on: tuple = jm.stencils()

            def addForce(self, f, x, v): ...

            def addDForce(self, df, dx): ...
