"""PETSc as a backend: where petsc4py is installed (docs/linear_systems.md), otherwise these are skipped."""

import importlib.util

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
import small_matrices
from small_matrices import blocks, dense, split

import jaxmech as jm
from jaxmech._linear_solver.sparse import aggregated_rows

NEEDS = pytest.mark.skipif(importlib.util.find_spec("petsc4py") is None, reason="petsc4py is not installed")


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    sizes = (("a", 6, 3),)
    A = blocks(dense("definite", sizes), sizes, symmetric=True)
    with pytest.raises(ImportError, match="jaxmech\\[petsc\\]"):
        lx.linear_solve(A, split(jnp.ones(18), sizes), jm.solver.PETSc())


def test_options_are_strings():
    with pytest.raises(ValueError, match="options must be a dictionary of strings"):
        jm.solver.PETSc(options={"pc_gamg_threshold": 0.1})


def test_what_an_argument_says_is_no_option():
    for name, said in (("pc_type", "pc"), ("-ksp_rtol", "rtol"), ("ksp_max_it", "max_steps")):
        with pytest.raises(ValueError, match=f"the option '{name}' is the argument {said}="):
            jm.solver.PETSc(options={name: "1"})


@NEEDS
def test_what_petsc_cannot_do_is_told_in_its_words():
    """A package that it was built without, a number that is none; and no steps left."""
    sizes = (("a", 6, 3),)
    A = blocks(dense("definite", sizes), sizes, symmetric=True)
    b = split(jnp.ones(18), sizes)

    def solved(*what, **more):
        found = lx.linear_solve(A, b, jm.solver.PETSc(*what, **more), throw=False)
        return jax.block_until_ready(found)

    for what, name, value, said in (
        (("lu", "preonly"), "pc_factor_mat_solver_type", "nonsense", "PETSc says: .*nonsense"),
        (("gamg",), "pc_gamg_threshold", "abc", "PETSc says: .*abc"),
    ):
        with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=said) as error:
            solved(*what, options={name: value})
        assert f"PETSc(pc='{what[0]}'" in str(error.value) and name in str(error.value)
    assert solved("gamg", options={"pc_gamg_threshold": "0.1"}).stats["reason"] == jm.RESULTS.successful
    assert solved("sor", "richardson", max_steps=2).stats["reason"] == jm.RESULTS.max_steps_reached


@NEEDS
@pytest.mark.parametrize("kind", ["definite", "indefinite", "unsymmetric"])
@pytest.mark.parametrize("sizes", [small_matrices.SIZES, (("a", 6, 3),)])
def test_solutions_and_derivatives_are_those_of_a_factor(kind, sizes, rng):
    """Of one state and of several, transposed where derivatives ask for it, and of a batch of right-hand sides."""
    A = blocks(dense(kind, sizes), sizes, symmetric=kind != "unsymmetric")
    size = sum(n * d for _, n, d in sizes)
    b = split(jnp.asarray(rng.standard_normal((3, size))), sizes)
    pc = {"pc": "bjacobi", "options": {"sub_pc_type": "lu"}} if kind == "unsymmetric" else {"pc": "lu", "ksp": "preonly"}

    def both(solver):
        def energy(factor, b):
            x = lx.linear_solve(A.scaled(factor), b, solver).value
            return sum(jnp.sum(jnp.sin(v)) for v in x.values())

        return eqx.filter_jit(jax.vmap(lambda b: (energy(1.3, b), jax.grad(energy)(1.3, b), jax.grad(energy, 1)(1.3, b))))(b)

    found, known = both(jm.solver.PETSc(rtol=1e-12, **pc)), both(jm.solver.Dense())
    for p, q in zip(jax.tree.leaves(found), jax.tree.leaves(known), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-8, atol=1e-9)  # residuals of 1e-12


def _stretched(block):
    """`S A S` with a diagonal `S` of numbers from 1 to 1000."""
    factor = jnp.logspace(0, 3, block.pattern.shape[0])
    return block.values * (factor[block.pattern.rows] * factor[block.pattern.columns])[:, None, None]


@NEEDS
@pytest.mark.parametrize("pc", ["gamg", "mg", "hypre"])
def test_multigrid_of_a_clamped_bar(pc, monkeypatch):
    monkeypatch.setattr(aggregated_rows, "COARSEST", 100)
    mesh = jm.mesh.box_mesh(cells=(12, 4, 4), size=(3.0, 1.0, 1.0))
    root = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    elastic = jm.force.TetrahedronFEM.from_mesh("bar", mesh, jm.material.LinearElastic(1e5, 0.3))
    system = jm.System(
        {"bar": jm.Vec3()}, forces={"elastic": elastic}, constraints={"clamp": jm.constraint.Fixed(("bar", root))}
    )
    rest = system.at_rest({"bar": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))
    A = eqx.filter_jit(linear_system.assemble)(system, rest)
    b = {"bar": jnp.zeros_like(mesh.points).at[-1, 2].set(1.0)}
    solver = jm.solver.PETSc(pc, positions={"bar": mesh.points})
    if pc != "gamg":  # which keeps its interpolation
        # Of other values before, with the same pattern, nothing may be left.
        other = eqx.tree_at(lambda A: A["bar", "bar"].values, A, _stretched(A["bar", "bar"]))
        lx.linear_solve(other, b, solver, throw=False)
    found = lx.linear_solve(A, b, solver)
    assert 0 < found.stats["num_steps"] <= (60 if pc == "hypre" else 25)
    exact = lx.linear_solve(A, b, jm.solver.SparseDirect()).value["bar"]
    np.testing.assert_allclose(found.value["bar"], exact, atol=1e-5 * float(jnp.abs(exact).max()))  # condition 1e3


@NEEDS
def test_levels_are_of_points():
    sizes = (("a", 6, 3),)
    A, b = blocks(dense("definite", sizes), sizes, symmetric=True), split(jnp.ones(18), sizes)
    with pytest.raises(Exception, match="needs their positions"):
        lx.linear_solve(A, b, jm.solver.PETSc("mg"))


@NEEDS
def test_failures_are_said():
    sizes = (("a", 6, 3),)
    D = dense("definite", sizes)
    b = split(jnp.ones(18), sizes)
    few = jm.solver.PETSc("none", max_steps=1)
    assert lx.linear_solve(blocks(D, sizes, symmetric=True), b, few, throw=False).stats["reason"] == (
        jm.RESULTS.max_steps_reached
    )
    D = dense("indefinite", sizes)
    found = lx.linear_solve(blocks(D, sizes, symmetric=True), b, jm.solver.PETSc("none", "cg"), throw=False)
    assert found.stats["reason"] == jm.RESULTS.indefinite
