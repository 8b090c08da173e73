"""Reductions in one loop: they are right, of nothing too, and one loop each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmech._math.one_loop import are_all, extremes, is_any

FLAGS = np.random.default_rng(0).random((4, 48, 48)) < np.array([0.0, 1e-3, 0.999, 1.0])[:, None, None]


def test_flags_are_asked_as_numpy_asks_them():
    for flags in (*FLAGS, np.zeros((0, 3), bool)):
        assert bool(is_any(jnp.asarray(flags))) == flags.any()
        assert bool(are_all(jnp.asarray(flags))) == flags.all()


def test_extremes_are_those_of_numpy():
    values = np.random.default_rng(1).normal(size=(48, 7))
    assert tuple(map(float, extremes(jnp.asarray(values)))) == (values.min(), values.max())


@pytest.mark.parametrize("function", [is_any, are_all, extremes], ids=lambda f: f.__name__)
def test_one_loop_each(function):
    """XLA:CPU makes two of one result, of pieces and of those."""
    values = jnp.ones((48, 48), float if function is extremes else bool)
    text = jax.jit(function).lower(values).compile().as_text() or ""
    assert text.count(" reduce(") == 1 and "reduce-window" not in text
