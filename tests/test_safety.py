"""Nothing that a program is given ends its process: numbers of nothing, a machine without LLVM, functions without end."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import jaxmech as jm
from jaxmech._codegen.map_elements import map_elements
from jaxmech._llvm.ffi import ForeignFunction
from jaxmech._llvm.machine_code import load, machine

TESTS = Path(__file__).parent


def run(*command, **variables):
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path, **variables}
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize(
    "runs",
    [
        ("kernels pcg",),
        # In one process: to begin one costs as much as to look.
        pytest.param(("motion", "kernels direct", "arrays direct", "arrays pcg"), marks=pytest.mark.slow),
    ],
    ids=", ".join,
)
def test_no_index_ends_in_a_signal_or_in_a_number(runs):
    assert run(TESTS / "indices_script.py", *runs).count("no signal") == len(runs)


WITHOUT_LLVM = """
import sys

class Refused:
    def find_spec(self, name, *rest):
        if name.split(".")[0] == "llvmlite":
            raise ImportError("blocked")

sys.meta_path.insert(0, Refused())
"""
STEP = """
import equinox as eqx, jax, jaxmech as jm
jax.config.update("jax_enable_x64", True)
mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0))

system = jm.System(
    {"body": jm.Vec3()},
    forces={"solid": jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.NeoHookean(1e3, 0.3))},
    masses={"body": jm.mass.UniformMass(("body", range(12)), 1.0)},
    constraints={"clamp": jm.constraint.Fixed(("body", [0, 1, 2, 3]))},
    gravity=(0.0, 0.0, -9.81),
)
state = system.at_rest({"body": mesh.points})
integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), jm.solver.PCG())

@jax.jit
def tip(softer):
    leaves, structure = jax.tree.flatten(system.forces["solid"].material)
    soft = eqx.tree_at(lambda s: s.forces["solid"].material, system, structure.unflatten([softer * a for a in leaves]))
    return integrator.step(soft, state, None, 0.1)[0].position["body"][-1, 2]

has_kernels = "jaxmech_" in tip.lower(0.9).as_text()
found = [float(number) for number in jax.value_and_grad(tip)(0.9)]
"""


@pytest.mark.slow
@pytest.mark.cpu
def test_a_machine_without_llvm_computes_the_same():
    """As this process does, that has it."""
    there = {}
    exec(STEP, there)
    said = run("-c", WITHOUT_LLVM + STEP + "print(has_kernels, *found)", JAX_DISABLE_MOST_OPTIMIZATIONS="1").split()
    assert there["has_kernels"] and said[0] == "False"
    assert len(said) == 3 and [float(number) for number in said[1:]] == pytest.approx(there["found"], rel=1e-9, abs=0)


@pytest.mark.parametrize("error", [OSError("no such library"), RuntimeError("no such target")])
def test_a_library_that_fails_to_begin_is_as_good_as_none(monkeypatch, error):
    def refuse():
        raise error

    monkeypatch.setattr("llvmlite.binding.initialize_native_target", refuse)
    assert machine.__wrapped__() is None


@pytest.mark.skipif(sys.platform != "linux", reason="memory maps are read where Linux has them")
def test_functions_without_end_share_their_memory():
    def maps():
        return Path("/proc/self/maps").read_bytes().count(b"\n")

    def function(number):
        name = f"test_{number}_{os.getpid()}"
        lines = [f"define double @{name}(double %x) {{", f"  %y = fmul double %x, {number}.5", "  ret double %y", "}"]
        return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(load("\n".join(lines), (name,), {})[0])

    first, before = function(0), maps()
    others = [function(number) for number in range(1, 300)]
    assert maps() - before < 40  # an engine for each took 600
    assert [f(2.0) for f in (first, *others)] == [2 * number + 1.0 for number in range(300)]


def test_the_same_function_is_compiled_once():
    text = "define internal void @each(ptr %a0, ptr %r0, i64 %n) {\n  ret void\n}"
    assert ForeignFunction(text, 1, 1, 1).name == ForeignFunction(text, 1, 1, 1).name


def test_arrays_of_other_lengths_are_refused_where_loops_count_on_them(rng):
    with pytest.raises(ValueError, match="different lengths"):
        jax.jit(lambda a, b: map_elements(lambda x, y: x * y, (0, 0), a, b))(jnp.ones(9), jnp.ones(10))
    places = jm.matrix.Triplets(("a", "a"), jnp.arange(9), jnp.arange(9), jnp.asarray(rng.normal(size=(9, 2, 2))))
    A = places.assemble((9, 9))
    for field in ("columns", "row_starts"):
        wrong = eqx.tree_at(lambda A, f=field: getattr(A.pattern, f), A, jnp.zeros(3, jnp.int32))
        with pytest.raises(ValueError, match="have shapes"):
            wrong.mv(jnp.ones((9, 2)))
