"""Files: what is damaged is refused with its path, and what is interrupted leaves the old file as it was."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import equinox as eqx
import numpy as np
import pytest
from valid_calls import linear_system, scene

import jaxmech as jm
from jaxmech._runtime import atomic_files as _files
from jaxmech._runtime.atomic_files import replacing

MESH = jm.mesh.box_mesh(cells=(2, 1, 1), size=(1.0, 1.0, 1.0))
FORMATS = [".vtk", ".vtu", ".msh", ".xdmf", ".mesh", ".inp", ".obj", ".off"]
SURFACES = {".obj", ".off", ".ply", ".stl"}  # of triangles


def written(folder: Path, suffix: str) -> Path:
    path = folder / f"mesh{suffix}"
    try:
        jm.mesh.write_mesh(path, MESH.boundary() if suffix in SURFACES else MESH)
    except ValueError as error:
        if "No module named" in str(error):
            pytest.skip(str(error))
        raise
    return path


def damaged(data: bytes, rng: np.random.Generator, count: int):
    """The file cut short, with bytes changed, with a part left out, and with numbers that announce far too much."""
    for _ in range(count):
        cut = int(rng.integers(0, len(data)))
        yield data[:cut]
        changed = bytearray(data)
        for place in rng.integers(0, len(data), size=int(rng.integers(1, 9))):
            changed[place] = int(rng.integers(0, 256))
        yield bytes(changed)
        start = int(rng.integers(0, len(data)))
        yield data[:start] + data[start + int(rng.integers(1, 40)) :]
        numbers = [i for i in range(len(data)) if chr(data[i]).isdigit() and not chr(data[i - 1]).isdigit()]
        if numbers:
            place = int(rng.choice(numbers))
            yield data[:place] + b"1000000000000" + data[place + 1 :]


@pytest.mark.parametrize("suffix", FORMATS)
def test_damaged_meshes_are_refused_with_their_path(suffix, tmp_path, rng):
    """Or read: a digit of a coordinate that is another digit is no damage."""
    data = written(tmp_path, suffix).read_bytes()
    path = tmp_path / f"damaged{suffix}"
    refused = 0
    for content in damaged(data, rng, 8):
        path.write_bytes(content)
        try:
            mesh = jm.mesh.read_mesh(path)
        except ValueError as error:
            refused += 1
            assert str(path) in str(error)
        else:
            assert isinstance(mesh, jm.mesh.Mesh) and np.isfinite(mesh.points).all()
    assert refused > 4


@pytest.mark.parametrize("suffix", [".off", ".ply", ".mdpa", ".dat", ".node", ".bdf"])
def test_a_mesh_cut_short_anywhere_ends(suffix, tmp_path):
    """Readers wait for the word that ends a list, or for the first line that is no comment."""
    whole, path = written(tmp_path, suffix), tmp_path / f"short{suffix}"
    if suffix == ".node":
        (tmp_path / "short.ele").write_bytes((tmp_path / "mesh.ele").read_bytes())
    data, refused = whole.read_bytes(), 0
    for cut in {0, 1, 2, *np.linspace(3, len(data) - 1, 40).astype(int).tolist()}:
        path.write_bytes(data[:cut])
        try:
            jm.mesh.read_mesh(path)
        except ValueError as error:
            refused += 1
            assert str(path) in str(error)
    assert refused > 9 and jm.mesh.read_mesh(whole).cells.size > 0


@pytest.mark.parametrize("suffix", [".vtk", ".vtu", ".msh", ".mesh", ".off", ".ply", ".stl", ".xml", ".su2", ".bdf"])
def test_a_mesh_is_read_whole_or_not_at_all(suffix, tmp_path):
    """Cut at any byte, with a count one larger or far too large: never fewer cells, other ones, or numbers nobody wrote."""
    path = written(tmp_path, suffix)
    data, whole = path.read_bytes(), jm.mesh.read_mesh(path)
    changed = [data[:cut] for cut in np.linspace(1, len(data) - 1, 40).astype(int)]
    numbers = list(re.finditer(rb"(?<![\w.-])\d+(?![\w.])", data))
    for found in numbers[:: max(1, len(numbers) // 30)]:
        for number in (b"4000000", b"%d" % (int(found[0]) + 1)):
            changed.append(data[: found.start()] + number + data[found.end() :])
    kept = 0
    tracemalloc.start()
    for content in changed:
        path.write_bytes(content)
        try:
            mesh = jm.mesh.read_mesh(path)
        except ValueError as error:
            assert str(path) in str(error)
        else:
            kept += 1
            assert mesh.points.shape == whole.points.shape and mesh.cells.shape == whole.cells.shape
            assert np.isfinite(mesh.points).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept < len(changed) // 2 + 20 and peak < 5e8  # [bytes]; 4 million announced tetrahedra were 480 MB twice


def test_a_damaged_pattern_is_refused_with_its_path(tmp_path, rng):
    system, state = scene()
    linear_system().save(tmp_path / "pattern.npz")
    data = (tmp_path / "pattern.npz").read_bytes()
    path = tmp_path / "damaged.npz"
    refused = 0
    for content in damaged(data, rng, 8):
        path.write_bytes(content)
        try:
            loaded = jm.MatrixLinearSystem.load(path, system, state)
        except ValueError as error:
            refused += 1
            assert str(path) in str(error)
        else:  # a byte that nobody reads, in the table of contents
            assert eqx.tree_equal(loaded, linear_system())
    assert refused > 10
    with pytest.raises(FileNotFoundError):
        jm.MatrixLinearSystem.load(tmp_path / "nowhere.npz", system, state)


def test_the_first_number_that_is_nothing_is_refused_by_the_name_of_its_array(tmp_path):
    """Of arrays whose numbers count in another array, or in the scene. The file is written with them: its hash is right."""
    points = np.random.default_rng(0).uniform(0.1, 0.9, (3, 3))
    system = jm.System(
        {"body": jm.Vec3(), "skin": jm.Vec3()},
        forces={"held": jm.force.AnchoredSprings(("skin", range(3)), 10.0, points)},
        mappings={"embed": jm.mapping.BarycentricMapping.from_mesh("body", "skin", MESH, points)},
        constraints={"clamp": jm.constraint.Fixed(("body", [0, 1]))},
    )
    state = system.at_rest({"body": MESH.points})
    built = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))
    blocks = built.patterns["body", "body"].blocks
    places = {
        "starts[0]": (lambda m: m.patterns["body", "body"].row_products.starts[0], blocks),
        "nodes": (lambda m: m.constant.steps[0].nodes, 3),
        "blocks": (lambda m: m.touched[0].blocks, blocks),
        "local": (lambda m: m.touched[0].local, 2),
    }
    path = tmp_path / "pattern.npz"
    for name, (where, first) in places.items():
        eqx.tree_at(where, built, where(built).at[-1].set(first)).save(path)
        with pytest.raises(ValueError, match="pattern.npz") as error:
            jm.MatrixLinearSystem.load(path, system, state)
        assert f"{name} holds {first}" in str(error.value)
    built.save(path)
    assert eqx.tree_equal(jm.MatrixLinearSystem.load(path, system, state), built)


WRITERS = {
    "pattern.npz": lambda path: linear_system().save(path),
    "mesh.vtk": lambda path: jm.mesh.write_mesh(path, MESH),
    "mesh.msh": lambda path: jm.mesh.write_mesh(path, MESH),
    "matrix.mtx": lambda path: jm.matrix.write_matrix(path, linear_system().assemble(*scene())),
    "matrix.npz": lambda path: jm.matrix.write_matrix(path, linear_system().assemble(*scene())),
    "matrix.csv": lambda path: jm.matrix.write_matrix(path, linear_system().assemble(*scene())),
}


@contextmanager
def files_of_at_most(size: int):
    """The system refuses every byte of a file beyond so many, as a full disk does."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("name", WRITERS)
def test_a_write_that_stops_at_any_byte_keeps_the_old_file(name, tmp_path):
    path, write = tmp_path / name, WRITERS[name]
    write(path)
    whole = path.stat().st_size
    path.write_bytes(b"the old file")
    for size in {0, 1, 2, *np.linspace(3, whole - 1, 12).astype(int).tolist()}:
        with files_of_at_most(size), pytest.raises((OSError, ValueError)):  # meshes name the path in a ValueError
            write(path)
        assert path.read_bytes() == b"the old file"
        assert list(tmp_path.glob(".jaxmech-*")) == []
    write(path)
    assert path.stat().st_size == whole


WRITE_FOR_EVER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("files", sys.argv[1])
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)
number = 0
while True:
    number = (number + 1) % 10
    with files.replacing(sys.argv[2]) as path, open(path, "wb", buffering=0) as file:
        for _ in range(100):
            file.write(bytes([48 + number]) * 1000)
    print(number, flush=True)
"""


def test_a_process_that_is_killed_leaves_a_whole_file(tmp_path, rng):
    path = tmp_path / "file"
    for _ in range(10):
        command = [sys.executable, "-c", WRITE_FOR_EVER, _files.__file__, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()  # one is written
            time.sleep(float(rng.uniform(0, 0.02)))
            process.kill()
        content = path.read_bytes()
        assert len(content) == 100_000 and content == content[:1] * 100_000


def test_what_is_no_regular_file_is_written_to_directly(tmp_path):
    """A pipe or a device is not replaced by a file; a link stays one."""
    with replacing(os.devnull) as path:
        assert path == Path(os.devnull)
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing(tmp_path / "link") as path:
        path.write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
    with pytest.raises(FileNotFoundError, match="nowhere"), replacing(tmp_path / "nowhere" / "file"):
        pass
