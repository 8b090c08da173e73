"""What jaxmech uses of JAX that may change: looked up at import, and the same in every version that is supported."""

import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmech._codegen.map_elements import map_elements
from jaxmech._math.indexing import add_rows, nearest_rows
from jaxmech._runtime.jax_internals import Tracer, is_tracing, scan_sizes, without_unused

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "module, name", [("interpreters.partial_eval", "dce_rules"), ("experimental.xla_metadata", "set_xla_metadata")]
)
def test_a_jax_that_lacks_something_is_refused_at_import(module, name):
    """Not in the middle of a computation, and saying which it is and what is supported."""
    code = f"import jax.{module} as m; del m.{name}; import jaxmech"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: jaxmech needs JAX 0.10 to 0.12") and name in last and jax.__version__ in last


def test_the_package_is_bound_to_the_versions_it_was_tested_with():
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert "jax>=0.10,<0.13" in dependencies
    assert (0, 10) <= tuple(map(int, jax.__version__.split(".")[:2])) < (0, 13)


@pytest.mark.parametrize("constants", [0, 1])
def test_operands_of_a_scan_are_told_apart(constants):
    """By what the scan is given: constants, two that are carried, one sequence."""
    weight = jnp.arange(3.0)

    def loop(a, xs):
        def step(carry, x):
            return (carry[0] + x * (weight[0] if constants else 2.0), carry[1]), None

        return jax.lax.scan(step, (a, a), xs)[0]

    jaxpr = jax.make_jaxpr(loop)(1.0, jnp.arange(4.0)).jaxpr
    (eqn,) = [e for e in jaxpr.eqns if e.primitive.name == "scan"]
    found, carried = scan_sizes(eqn.params)
    assert found + carried + 1 == len(eqn.invars)
    assert carried == sum(v.aval.shape == () for v in eqn.outvars)


def test_unused_inputs_of_a_mapped_program_are_found():
    """With ten elements, and so by the primitive of jaxmech, whose rule is handed to JAX."""
    arrays = jnp.ones((10, 2)), jnp.ones((10, 2))
    traced = jax.make_jaxpr(lambda a, b: map_elements(lambda a, b: (jnp.sin(a) @ a, b * b), (0, 0), a, b))(*arrays).jaxpr
    assert traced.eqns[-1].primitive.name == "jaxmech_mapped"
    left, used = without_unused(traced, [False, True])
    assert used == [False, True]
    (found,) = jax.core.eval_jaxpr(left, (), arrays[1])
    np.testing.assert_array_equal(found, arrays[1] ** 2)


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("around", [jax.vmap, jax.grad, jax.linearize, jax.jacfwd, lambda f: jax.vmap(jax.grad(f))])
def test_whether_operations_are_recorded(around, traced):
    """What differentiates or batches records nothing by itself, inside of a trace or outside."""
    said = []

    def asked(x):
        said.append((is_tracing(), isinstance(jnp.add(0, 0), Tracer)))
        return jnp.sum(x * x)

    many = around is jax.vmap or getattr(around, "__name__", "") == "<lambda>"
    of = around(asked) if around is not jax.linearize else lambda x: jax.linearize(asked, x)[0]
    (jax.jit(of) if traced else of)(np.ones((2, 3)) if many else np.ones(3))
    assert said and set(said) == {(traced, traced)}


@pytest.mark.parametrize(
    "indices", [np.array([2, 0, 2]), np.array([[1, 2], [0, 1]], np.int32), np.array(1), np.zeros(0, int)]
)
@pytest.mark.parametrize("rows", [(4,), (4, 3), (4, 2, 2)])
def test_rows_are_read_and_added_as_jax_does(indices, rows):
    """The very programs that `.at` writes, for which it takes longer."""
    values, at = jnp.ones(rows), jnp.asarray(indices)
    usual = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
    read = jax.make_jaxpr(nearest_rows)(values, at)
    assert str(read) == str(jax.make_jaxpr(lambda v, a: v.at[a].get(**usual))(values, at))
    if indices.size:
        added = jax.make_jaxpr(lambda v, a: add_rows(v, a, nearest_rows(v, a)))(values, at)
        gathered = jax.make_jaxpr(lambda v, a: v.at[a].add(v[a], **usual))(values, at)
        scatters = [[e.params for e in program.eqns if e.primitive.name == "scatter-add"] for program in (added, gathered)]
        assert scatters[0] and str(scatters[0]) == str(scatters[1])
