"""The pass of assembly, as one who reads it meets it."""

import sys
from pathlib import Path

import jax
import pytest

import jaxmech as jm

PACKAGE = str(Path(jm.__file__).parent)
MOST = 20  # files from a force field to its block
INSIDE = ("_runtime", "_codegen", "_llvm")  # what JAX is asked for, and the inside of the element compiler
CHECKS = ("check", "check_inputs", "_same_topology")  # of arguments, before the pass


def files_entered(function, *arguments):
    """The files of jaxmech in which a function is entered while a program is traced and lowered, but for those `INSIDE`,
    those entered in `CHECKS`, and those of the force field itself: its element function, and what that calls."""
    found = set()

    def enter(frame, event, _):
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        file, above = frame.f_code.co_filename[len(PACKAGE) + 1 :], frame
        if file in found or file.startswith(INSIDE):
            return
        while above is not None:
            if above.f_code.co_name in CHECKS or above.f_code.co_filename.endswith("_forcefield/solid.py"):
                return
            above = above.f_back
        found.add(file)

    sys.setprofile(enter)
    try:
        jax.jit(function).lower(*arguments)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.cpu
def test_from_a_force_field_to_its_block_there_are_few_files():
    mesh = jm.mesh.box_mesh(cells=(2, 2, 1), size=(1.0, 1.0, 0.5))
    force = jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.NeoHookean(1e3, 0.3))
    system = jm.System({"body": jm.Vec3()}, forces={"elastic": force})
    state = system.at_rest({"body": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, state)
    files = files_entered(lambda *given: given[0].unconstrained(*given[1:]), linear_system, system, state)
    assert "_forcefield/chart.py" in files and "_sparse/gather_reduction.py" in files  # from the one to the other
    assert len(files) < MOST, sorted(files)
    book = (Path(PACKAGE).parent / "CONTRIBUTING.md").read_text()
    unnamed = [f for f in files if f.startswith("_assembly/") and f.removeprefix("_assembly/") not in book]
    assert not unnamed, "the walk through assembly in CONTRIBUTING.md does not name them"
