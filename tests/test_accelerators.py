"""Programs for a GPU, made without one: what they ask of the host, how precise their products are, and what they compute."""

import collections
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
import scenes
from tolerances import ITERATIVE

import jaxmech as jm
from jaxmech._runtime import devices

LIBRARIES = "cu"  # what the names of functions on the GPU begin with
SOLVERS = (
    jm.solver.Dense(),
    jm.solver.Cholesky(),
    jm.solver.SVD(),
    jm.solver.BlockTridiagonal(),
    jm.solver.PCG(),
    jm.solver.PCG(preconditioner=jm.solver.Jacobi()),
    jm.solver.MINRES(),
    jm.solver.GMRES(),
    jm.solver.BiCGStab(),
)
TOGETHER = 6  # arrays reduced at once, of nine of which a GPU could not share the memory
# Of the catalogue by default: constraints, frames, what is mapped, and what a user writes. The others take long to lower.
DEFAULT = ("every_constraint", "frames_in_the_plane", "own_components")
# What is in them is in the others, in other numbers.
REPEATED = (
    "anchored_springs",
    "cells_in_space",
    "contact_plane",
    "diamond_of_mappings",
    "elongation_only_springs",
    "embedded_points",
    "frames_in_space",
    "hexahedra",
    "linkage_of_the_plane",
    "moved_frame",
    "plane_strain_quads",
    "plane_stress_triangles",
    "pressed_tetrahedra",
    "pressed_triangles",
    "several_parents",
    "springs",
    "springs_between_states",
)
WITH_GRADIENTS = ("tetrahedra", "every_constraint", "chain_of_mappings", "forms_of_geometric_stiffness")


@pytest.fixture
def on_gpu(monkeypatch):
    """As if JAX had a GPU; returns the functions of the host that a program would call."""
    called = collections.Counter()

    def recorded(function, shapes, *operands, **options):
        called[function.__qualname__] += 1
        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "pure_callback", recorded)
    return called


def stepped(arrays, static):
    """A number made of the state after a step with the default solver."""
    system, state, linear_system = eqx.combine(arrays, static)
    end, _, _ = jm.ImplicitEuler(linear_system).step(system, state, None, 0.01, throw=False)
    return sum(jnp.sum(x) for x in jax.tree.leaves(end) if jnp.issubdtype(x.dtype, jnp.inexact))


def parts(system, state):
    """The numbers of a scene with its linear system, and the rest."""
    given = system, state, jm.MatrixLinearSystem.build(system, state)
    return eqx.partition(given, eqx.is_inexact_array)


def for_gpu(function, *arguments):
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


def products(text):
    """How many products of matrices there are, by precision."""
    lines = [line for line in text.splitlines() if "stablehlo.dot_general" in line]
    return collections.Counter("HIGHEST" if "precision = [HIGHEST, HIGHEST]" in line else "default" for line in lines)


def stage_of(name):
    """By default a few; what only repeats the parts of others by hand."""
    return () if name in DEFAULT else pytest.mark.exhaustive if name in REPEATED else pytest.mark.slow


def parts_of(value):
    """The classes of jaxmech that a scene is made of."""
    if isinstance(value, eqx.Module):
        own = {type(value)} if type(value).__module__.startswith("jaxmech.") else set()
        return own.union(*map(parts_of, vars(value).values()))
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return set().union(*map(parts_of, values))


@pytest.mark.exhaustive
def test_what_is_left_out_has_no_part_of_its_own():
    parts = {name: parts_of(scenes.build(name).system) for name in scenes.names(scenes.STEPS)}
    assert set(REPEATED) < set(parts) and not set(REPEATED) & {*DEFAULT, *WITH_GRADIENTS}
    kept = set().union(*(own for name, own in parts.items() if name not in REPEATED))
    assert {name: parts[name] - kept for name in REPEATED if parts[name] - kept} == {}


@pytest.mark.parametrize("name", [pytest.param(n, marks=stage_of(n)) for n in scenes.names(scenes.STEPS)])
def test_steps_stay_on_the_gpu_and_are_precise(name, on_gpu):
    scene = scenes.build(name)
    arrays, static = parts(scene.system, scene.state)

    def step(arrays):
        return stepped(arrays, static)

    text = for_gpu(jax.value_and_grad(step) if name in WITH_GRADIENTS else step, arrays)
    assert not products(text)["default"]
    assert max((line.count("init:") for line in text.splitlines() if "stablehlo.reduce(" in line), default=0) <= TOGETHER
    assert all(target.startswith(LIBRARIES) for target in re.findall(r"custom_call @(\w+)", text))
    # A solve that fails in the transposed program tells the host, and only then: Equinox's errors, which Lineax raises.
    assert all(name.startswith("_error.") for name in on_gpu)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [pytest.param(s, id=repr(s)) for s in SOLVERS])
def test_solvers_stay_on_the_gpu_and_are_precise(solver, on_gpu):
    scene = scenes.build("plane_stress_triangles")
    A = jm.MatrixLinearSystem.build(scene.system, scene.state).assemble(scene.system, scene.state)
    b = scene.state.velocity

    def solved(A, b):
        return sum(jnp.sum(x) for x in lx.linear_solve(A, b, solver, throw=False).value.values())

    text = for_gpu(jax.value_and_grad(solved, (0, 1), allow_int=True), A, b)
    assert not products(text)["default"]
    assert all(target.startswith(LIBRARIES) for target in re.findall(r"custom_call @(\w+)", text))
    assert all(name.startswith("_error.") for name in on_gpu)


@pytest.mark.slow
def test_what_the_user_set_stands(on_gpu):
    scene = scenes.build("tetrahedra")
    arrays, static = parts(scene.system, scene.state)
    for precision, expected in ((None, "HIGHEST"), ("tensorfloat32", "default")):
        with jax.default_matmul_precision(precision):
            found = products(for_gpu(lambda arrays: stepped(arrays, static), arrays))
        assert list(found) == [expected]


@pytest.mark.slow
def test_beside_another_device_programs_run_on_both(monkeypatch):
    """CPUs are the default, and arrays may be on a GPU all the same, which no trace tells of."""
    called = []

    def recorded(function, shapes, *operands, **options):
        called.append(function)
        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

    monkeypatch.setattr(jax, "pure_callback", recorded)
    monkeypatch.setattr(devices, "_are_others", lambda: True)
    scene = scenes.build("tetrahedra")
    linear_system = jm.MatrixLinearSystem.build(scene.system, scene.state)
    integrator = jm.ImplicitEuler(linear_system, jm.solver.SparseDirect())

    def step(state):
        return integrator.step(scene.system, state, None, 0.01)[0].position

    text = for_gpu(step, scene.state)
    assert "jaxmech." not in text and len(called) >= 2, "the host factors, and tells of failures, by what CPUs alone have"
    assert products(text)["HIGHEST"] and not products(text)["default"]


def test_products_of_the_user_are_left_alone(on_gpu):
    scene = scenes.build("tetrahedra")

    def with_network(weights, state):
        return jnp.sum(weights @ weights) + jm.energy(scene.system, state)

    assert products(for_gpu(with_network, jnp.eye(3), scene.state))["default"] == 1


@pytest.mark.slow
def test_loops_of_elements_are_written_out(on_gpu):
    """Each round would be kernels of its own. Those of a branch stay, and wait in it, and those of long programs: the matrix
    of Ogden's law has 26,000 operations, more than compile well there."""
    mesh = jm.mesh.box_mesh(cells=(6, 3, 3), size=(2.0, 1.0, 1.0))

    def loops_and_branches(law):
        system = jm.System({"body": jm.Vec3()}, forces={"elastic": jm.force.TetrahedronFEM.from_mesh("body", mesh, law)})
        rest = system.at_rest({"body": mesh.points})
        linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))
        texts = [for_gpu(function, system, rest) for function in (jm.total_force, linear_system.unconstrained)]
        return [("stablehlo.while" in text, "stablehlo.case" in text) for text in texts]

    ogden = jm.material.Ogden(jnp.array([1.0]), jnp.array([2.0]), 10.0)
    assert loops_and_branches(ogden) == [(False, False), (True, False)]
    assert loops_and_branches(jm.material.Corotational(1e3, 0.3)) == [(True, True), (True, True)]


@pytest.mark.slow
def test_programs_of_a_gpu_compute_the_same(monkeypatch):
    """Run here, without kernels: scalarised programs of all elements at once, branches, sums over the scenes of a batch;
    of two safe scenes, and of one with another that is distorted."""
    mesh = jm.mesh.box_mesh(cells=(6, 3, 3), size=(2.0, 1.0, 1.0))
    system = jm.System(
        {"body": jm.Vec3()},
        forces={"elastic": jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.Corotational(1e3, 0.3))},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("body", mesh, 1.0)},
        constraints={"clamp": jm.constraint.Fixed(("body", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=(0.0, 0.0, -10.0),
    )
    rest = system.at_rest({"body": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, rest)
    stretches = jnp.array([[1.0, 1.0], [1.0, 40.0]])[:, :, None, None]
    positions = rest.position["body"] * stretches ** jnp.array([1.0, -1.0, -1.0])

    def step(position):
        state = eqx.tree_at(lambda s: s.position["body"], rest, position)
        end, _, _ = jm.ImplicitEuler(linear_system, jm.solver.PCG(1e-12)).step(system, state, None, 1e-3, throw=False)
        return end.velocity["body"]

    def outcomes():
        slope = jax.grad(lambda position: jnp.sum(step(position) ** 2))
        programs = [jax.jit(jax.vmap(of)) for of in (step, slope)]
        return [program(batch) for batch in positions for program in programs]

    expected = outcomes()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr("jaxmech._llvm.ffi.is_available", lambda: False)
    for one, other in zip(outcomes(), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=ITERATIVE * float(jnp.max(jnp.abs(other))))
