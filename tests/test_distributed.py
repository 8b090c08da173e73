"""Scenes over the ranks of MPI: the parts of a scene, and where mpi4py and petsc4py are, solutions by several processes."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from divided_scene import beam

import jaxmech as jm
from jaxmech._distributed.division import Division
from jaxmech._distributed.partition import bisected

SCRIPT = Path(__file__).with_name("distributed_script.py")
PATIENCE = 1200  # [s], of a busy machine
HAS_MPI = all(importlib.util.find_spec(name) for name in ("mpi4py", "petsc4py")) and shutil.which("mpiexec") is not None
NEEDS = pytest.mark.skipif(not HAS_MPI, reason="mpi4py, petsc4py or mpiexec are not installed")
# Open MPI's own: as root, of which a container has no other; more processes than cores; who waits lets others work.
_OPEN_MPI = ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe", "MCA_mpi_yield_when_idle")
ALLOWED = {f"OMPI_{name}": "1" for name in _OPEN_MPI}
EXACT = 1e-12  # sums in another order


class Unheard:
    """A rank whose neighbours tell it nothing: of what it has itself they need not."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def alltoall(self, asked):
        return [None] * self.size


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_nodes_are_shared_out_evenly(ranks, rng):
    points = rng.normal(size=(100, 3)) * [5.0, 1.0, 1.0]
    owner = bisected(points, ranks)
    assert set(owner) == set(range(ranks))
    shares = np.bincount(owner)
    assert shares.max() - shares.min() <= 2
    if ranks == 2:
        assert points[owner == 0, 0].max() <= points[owner == 1, 0].min(), "the longest side is cut"


@pytest.mark.slow
def test_a_rank_has_the_rows_of_its_nodes():
    """Forces, and the rows of the matrix, as in the whole scene, constraints included; and less than all of the elements."""
    system, state, elements = beam((6, 2, 2))
    whole = jm.MatrixLinearSystem.build(system, state)
    K, f = whole.assemble(system, state).to_dense(), jm.total_force(system, state)["beam"]
    owners = {"beam": bisected(np.asarray(state.position["beam"]), 3)}
    seen = 0
    for rank in range(3):
        division = Division(Unheard(rank, 3), system, state, owners)
        nodes, own = division.nodes["beam"], division.owned["beam"]
        assert (owners["beam"][nodes[:own]] == rank).all() and (owners["beam"][nodes[own:]] != rank).all()
        assert division.kept["forces", "elastic"].size < 0.7 * elements
        part, start = division.part(system, state)
        force = jm.total_force(part, start)["beam"]
        np.testing.assert_allclose(force[:own], f[nodes[:own]], rtol=0, atol=EXACT * float(abs(f).max()))
        mine = jm.MatrixLinearSystem.build(part, start).assemble(part, start).to_dense()
        at = (3 * nodes[:, None] + np.arange(3)).ravel()
        np.testing.assert_allclose(mine[: 3 * own], K[at[: 3 * own]][:, at], rtol=0, atol=EXACT * float(abs(K).max()))
        assert not np.delete(K[at[: 3 * own]], at, axis=1).any(), "a row reaches beyond the ghosts"
        seen += own
    assert seen == len(f)


def test_what_is_not_divided_is_refused():
    points = {"box": np.eye(3), "tips": None}
    mapping = {"arm": jm.mapping.SubsetMapping(("box", [0, 1]), "tips")}
    system = jm.System({"box": jm.Vec3(), "tips": jm.Vec3()}, mappings=mapping)
    with pytest.raises(ValueError, match=r"mappings are not divided yet, and this scene has \['arm'\]"):
        jm.distributed.divide(system, system.at_rest({"box": points["box"]}))
    with pytest.raises(ValueError, match="divide_over_devices: mappings are not divided yet"):
        jm.distributed.divide_over_devices(system, system.at_rest({"box": points["box"]}))
    two = jm.System({"a": jm.Vec3(), "b": jm.Vec3()})
    with pytest.raises(ValueError, match=r"one state of points is divided, and this one has \['a', 'b'\]"):
        jm.distributed.divide_over_devices(two, two.at_rest({"a": points["box"], "b": points["box"]}))
    frame = jm.System({"frame": jm.Rigid3()})
    with pytest.raises(ValueError, match=r"one state of points is divided, and this one has \['frame'\]"):
        jm.distributed.divide_over_devices(frame, frame.at_rest({"frame": np.eye(7)[[3]]}))
    system, state, _ = beam((1, 1, 1))
    for solve in (jm.distributed.static_solve_over_ranks, jm.distributed.static_solve_over_devices):
        with pytest.raises(ValueError, match="call it outside of jit"):
            eqx.filter_jit(solve)(system, state)
    for wrong, name in (
        ({"linear_rtol": -1.0}, "linear_rtol"),
        ({"max_steps": 0}, "max_steps"),
        ({"division": 3}, "division"),
    ):
        with pytest.raises((TypeError, ValueError), match=name):
            jm.distributed.static_solve_over_devices(system, state, **wrong)
    for wrong in ([3], jax.devices() * 9):
        with pytest.raises((TypeError, ValueError), match="devices"):
            jm.distributed.divide_over_devices(system, state, wrong)
    for wrong, name in (({"solver": jm.solver.PCG()}, "solver"), ({"rtol": -1.0}, "rtol"), ({"division": 3}, "division")):
        with pytest.raises((TypeError, ValueError), match=name):
            jm.distributed.static_solve_over_ranks(system, state, **wrong)
        with pytest.raises((TypeError, ValueError), match=name):
            jm.distributed.simulate_over_ranks(system, state, 0.1, 1, **wrong)
    with pytest.raises((TypeError, ValueError), match="dt"):
        jm.distributed.simulate_over_ranks(system, state, "soon", 1)


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    system, state, _ = beam((1, 1, 1))
    with pytest.raises(ImportError, match=r"jaxmech\[mpi\]"):
        jm.distributed.divide(system, state)


def over_ranks(count, *what):
    flags = f"{os.environ['XLA_FLAGS']} --xla_backend_optimization_level=0"
    environment = {**os.environ, **ALLOWED, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    command = ["mpiexec", "-n", str(count), sys.executable, SCRIPT, *what]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)


@NEEDS
@pytest.mark.slow
@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.exhaustive), 4])
def test_values_and_gradients_are_those_of_one_process(count):
    done = over_ranks(count, "numbers")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("same numbers") == count


@NEEDS
@pytest.mark.slow
def test_a_scene_is_sent_in_parts():
    done = over_ranks(3, "scatter")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("same numbers") == 3


@NEEDS
@pytest.mark.slow
def test_ranks_write_one_mesh(tmp_path):
    pytest.importorskip("meshio")
    done = over_ranks(2, "files", str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("whole mesh") == 2


class Deaf(Unheard):
    """The only rank."""

    def Barrier(self):  # noqa: N802, a name of mpi4py
        pass

    def allgather(self, part):
        return [part]


def test_what_is_written_is_checked(tmp_path):
    pytest.importorskip("meshio")
    system, state, _ = beam((2, 1, 1))
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0))
    count = len(mesh.points)
    division = Division(Deaf(0, 1), system, state, {"beam": np.zeros(count, np.int32)})
    write, path = jm.distributed.write_mesh_over_ranks, tmp_path / "all.pvtu"
    write(path, mesh, division, "beam", point_data={"x": mesh.points})
    assert path.is_file()
    part = jm.mesh.read_mesh(tmp_path / "all" / "all_0.vtu")
    np.testing.assert_allclose(part.points[part.cells], mesh.points[mesh.cells], rtol=0, atol=0)
    for arguments, said in (
        ((tmp_path / "all.vtu", mesh, division, "beam"), "must end in .pvtu"),
        ((path, mesh, division, "bar"), "state must be one of .*'beam'"),
        (
            (path, jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0)), division, "beam"),
            "has 12 nodes here: pass the mesh",
        ),
        ((path, mesh, 3, "beam"), "division"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            write(*arguments)
    with pytest.raises(ValueError, match=r"point_data 'x' has shape \(3,\)"):
        write(path, mesh, division, "beam", point_data={"x": np.zeros(3)})


@NEEDS
@pytest.mark.slow
def test_a_rank_that_fails_ends_the_others():
    done = over_ranks(2, "fail")
    assert done.returncode != 0
    assert "this rank has had enough" in done.stderr and "rank 1 of 2 failed, and ends the others" in done.stderr


@NEEDS
def test_one_rank_is_a_scene_too():
    """Without mpiexec, in this process."""
    system, state, _ = beam((2, 1, 1))
    found = jm.distributed.static_solve_over_ranks(system, state, solver=jm.solver.PETSc("lu", "preonly"))
    known = jm.static_solve(system, state)
    np.testing.assert_allclose(found.position["beam"], known.position["beam"], rtol=0, atol=1e-7)  # Newton's tolerance
