"""Where a function cannot be scalarised, or would be wrong, the function is mapped as it is, and a bug is told."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tolerances import ROUND_OFF

from jaxmech._codegen import dispatch
from jaxmech._codegen.llvm.instructions import check_types
from jaxmech._codegen.llvm.vector_arithmetic import Vector, VectorArithmetic
from jaxmech._codegen.map_elements import map_elements
from jaxmech._codegen.scalarize import rules
from jaxmech._codegen.scalarize.arithmetic import NotScalarisable
from jaxmech._codegen.scalarize.supported import check
from jaxmech._runtime.jax_internals import primitives

pytestmark = pytest.mark.quick


@pytest.fixture(params=[pytest.param("kernels", marks=pytest.mark.cpu), "arrays"], autouse=True)
def way(request, monkeypatch):
    """Compiled for this CPU, or by XLA, however short the program."""
    if request.param == "arrays":
        monkeypatch.setattr("jaxmech._llvm.ffi.is_available", lambda: False)
        monkeypatch.setattr(dispatch, "_FEW", 1)
    monkeypatch.setattr(dispatch, "_SHORT", 0)


def test_a_bug_of_the_compiler_is_told_once_and_stops_nobody(monkeypatch):
    def broken(*arguments):
        raise KeyError("a rule that fails")

    monkeypatch.setitem(rules.RULES, "sin", broken)
    x = jnp.linspace(0.0, 1.0, 9)
    with pytest.warns(RuntimeWarning, match="KeyError: 'a rule that fails'") as told:
        found = jax.jit(lambda x: map_elements(jnp.sin, (0,), x))(x)
    assert len(told) == 1
    np.testing.assert_allclose(found, jnp.sin(x), atol=ROUND_OFF)


def test_a_program_that_llvm_refuses_is_told_and_stops_nobody(way, monkeypatch, request):
    if request.node.callspec.params["way"] == "arrays":
        pytest.skip("of kernels")
    line = VectorArithmetic.named_line
    monkeypatch.setattr(VectorArithmetic, "named_line", lambda self, text: line(self, text.replace("double", "float")))
    x = jnp.linspace(0.0, 1.0, 9)
    with pytest.warns(RuntimeWarning, match="RuntimeError: LLVM IR parsing error"):
        found = jax.jit(lambda x: map_elements(lambda x: x * x + 0.1, (0,), x))(x)
    np.testing.assert_allclose(found, x * x + 0.1, atol=ROUND_OFF)


def test_no_ill_typed_line_is_ever_written():
    """`pow` of a whole number was a call that LLVM took, and that read the exponent from the bits of something else."""
    double, single, whole, truth = map(np.dtype, ("float64", "float32", "int32", "bool"))
    check_types("pow", double, [double, double])
    check_types("fcmp olt", truth, [single, single])
    for operation, result, operands in (
        ("pow", double, [double, whole]),
        ("pow", double, [double]),
        ("fadd contract", double, [double, single]),
        ("fmul contract", single, [double, double]),
        ("fcmp olt", double, [double, double]),
        ("add", double, [double, double]),
        ("select", double, [whole, double, double]),
        ("fpext", single, [double]),
        ("sext", whole, [whole]),
        ("gamma", double, [double]),
    ):
        with pytest.raises(TypeError, match=operation):
            check_types(operation, result, operands)
    with pytest.raises(TypeError, match="fadd"):
        arithmetic = VectorArithmetic()
        arithmetic.apply(primitives.add_p, double, Vector("%a", double), Vector("%b", single))


def test_numbers_that_are_equal_and_not_the_same_are_told_apart():
    """Zeros of either sign; and constants that no scalar can be made of, as random keys, are left to `vmap`."""
    key, zeros = jax.random.key(1), np.array([0.0, -0.0])

    def around(x):
        return lax.atan2(zeros, jnp.stack([x, x])), lax.atan2(jnp.stack([x, x]), zeros), jnp.stack([x, x]) / zeros

    for function in (around, lambda x: x * jax.random.normal(key, (2,)), lambda x: (x, key)):
        x = -jnp.arange(9.0) if function is around else jnp.arange(9.0)
        found, expected = jax.jit(lambda x, f=function: map_elements(f, (0,), x))(x), jax.vmap(function)(x)
        for f, e in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert (
                jnp.all(f == e)
                if jax.dtypes.issubdtype(e.dtype, jax.dtypes.prng_key)
                else np.allclose(f, e, 1e-13, equal_nan=True)
            )


def test_a_parameter_that_no_rule_knows_is_refused():
    """As a newer JAX may have."""
    (eqn,) = jax.make_jaxpr(lambda x: lax.reduce_max_p.bind(x, axes=(0,)))(jnp.ones(3)).jaxpr.eqns
    check(eqn.replace(params={**eqn.params, "of_all_but": None}))
    with pytest.raises(NotScalarisable, match="of_all_but"):
        check(eqn.replace(params={**eqn.params, "of_all_but": 2}))


def test_what_has_effects_is_left_to_vmap():
    said = []

    def telling(x):
        jax.debug.callback(lambda x: said.append(float(x)), x)
        jax.debug.callback(lambda: said.append(-1.0))
        return x * x

    x = jnp.arange(9.0)
    jax.jit(lambda x: map_elements(telling, (0,), x))(x)
    jax.effects_barrier()
    found = sorted(said)
    said.clear()
    jax.jit(jax.vmap(telling))(x)
    jax.effects_barrier()
    assert found == sorted(said) and len(found) > 9


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_choice_that_all_elements_share(sign):
    """Of which one result is every element's own, and the other is not."""
    x = jnp.arange(9.0)
    found = jax.jit(lambda x, s: map_elements(lambda x, s: lax.cond(s > 0, lambda: x, lambda: 2.0), (0, None), x, s))(
        x, sign
    )
    assert np.array_equal(found, x if sign > 0 else jnp.full(9, 2.0))
