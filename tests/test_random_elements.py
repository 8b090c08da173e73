"""Random functions of an element, and their derivatives: what becomes a kernel computes what `jax.vmap` does."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxmech._codegen import dispatch
from jaxmech._codegen.map_elements import map_elements
from jaxmech._runtime.devices import on_cpu

pytestmark = pytest.mark.quick

COUNT, TOGETHER = 9, 15  # elements; functions of a program
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


@jax.custom_jvp
def softened(x):
    return jnp.sqrt(1 + x * x)


softened.defjvp(lambda primals, rates: (softened(*primals), primals[0] / softened(*primals) * rates[0]))


@jax.checkpoint
def again(x):
    return jnp.sin(x) * jnp.cos(2 * x)


# Bounded, and with bounded derivatives: what is wrong is then wrong by more than rounding.
OF_ONE = {
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tanh": jnp.tanh,
    "arctan": jnp.arctan,
    "abs": jnp.abs,
    "neg": lambda x: -x,
    "sign": lambda x: jnp.sign(x) * 0.7,
    "logistic": lax.logistic,
    "exp": lambda x: jnp.exp(-x * x),
    "expm1": lambda x: jnp.expm1(-x * x),
    "log": lambda x: jnp.log(2 + x * x),
    "log1p": lambda x: jnp.log1p(x * x),
    "sqrt": lambda x: jnp.sqrt(1 + x * x),
    "rsqrt": lambda x: lax.rsqrt(1 + x * x),
    "cbrt": lambda x: jnp.cbrt(1 + x * x),
    "arcsinh": jnp.arcsinh,
    "powers": lambda x: jnp.sin(x) ** 3 + (1 + x * x) ** -2,
    "floor": lambda x: jnp.floor(3 * jnp.sin(x)) * 0.3,
    "rounded": lambda x: jnp.round(3 * jnp.cos(x)) * 0.3 + x,
    "as whole number": lambda x: (5 * jnp.sin(x)).astype(jnp.int32).astype(x.dtype) * 0.2 * x,
    "as truth value": lambda x: (x > 0.1).astype(x.dtype) + (x < 2).astype(jnp.int64),
    "clipped": lambda x: jnp.clip(x, -0.5, 0.6),
    "custom rule": softened,
    "checkpoint": again,
    "outside": lambda x: jnp.stack([x, 2 * x]).at[np.array([1, 5])].get(mode="fill", fill_value=0.3).sum(),
    "hypot": lambda x: jnp.linalg.norm(jnp.stack([x, jnp.cos(x), jnp.asarray(1, x.dtype)])),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) + 0.3 * i * x, x),
    "scan": lambda x: lax.scan(lambda c, y: (jnp.cos(c) * y, c), x, jnp.stack([x, 0.5 * x]))[1].sum(),
    "branch": lambda x: lax.cond(x > 0.2, jnp.sin, lambda x: 0.5 * x, x),
}
OF_TWO = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": lambda x, y: jnp.sin(x) * y,
    "div": lambda x, y: x / (2 + jnp.sin(y)),
    "max": jnp.maximum,
    "min": jnp.minimum,
    "arctan2": lambda x, y: jnp.arctan2(x, 2 + jnp.cos(y)),
    "pow": lambda x, y: (1.5 + jnp.sin(x)) ** jnp.cos(y),
    "where": lambda x, y: jnp.where(x > y, x, 0.5 * y),
    "outer": lambda x, y: jnp.trace(
        jnp.outer(jnp.sin(jnp.stack([x, y])), jnp.stack([y, x])) @ jnp.array([[0.3, 1], [1, 0]], x.dtype)
    ),
    "rem": lambda x, y: lax.rem(x, 2 + jnp.sin(y)),
    "product": lambda x, y: jnp.stack([jnp.sin(x), y]) @ jnp.stack([y, jnp.cos(x)]),
    "logical": lambda x, y: jnp.where((x > 0) ^ (y > 0.3) | (x < -1), jnp.cos(x), y),
    "switch": lambda x, y: lax.cond((x > 0) & (y > 0), lambda: x * jnp.cos(y), lambda: y),
}
MIXED = {  # with a whole number, and with numbers of the other precision
    "whole power": lambda x, n, q: (1.5 + jnp.sin(x)) ** n,
    "whole factor": lambda x, n, q: jnp.sin(x) * n + (n > 0) - n * n,
    "other factor": lambda x, n, q: (jnp.stack([x, jnp.cos(x)]).astype(jnp.float64) @ q).astype(x.dtype),
    "other sum": lambda x, n, q: (q.astype(x.dtype) + x).sum(),
    "chosen by number": lambda x, n, q: jnp.where(n == 1, x, jnp.sin(x)),
}
NOT_STRAIGHT = {  # mapped as they are
    "sorted": lambda x: jnp.sort(jnp.stack([x, jnp.cos(x), -x]))[1],
    "sums": lambda x: jnp.cumsum(jnp.stack([jnp.sin(x), x]))[1],
    "principal": lambda x: jnp.linalg.eigvalsh(jnp.array([[3.0, 1.0], [1.0, 2.0]], x.dtype) + jnp.diag(jnp.stack([x, 1.0])))[
        0
    ],
    "largest": lambda x: jnp.argmax(jnp.stack([x, jnp.cos(x)])) * x,
    "random": lambda x: x * jax.random.uniform(jax.random.key(0), (), x.dtype),
}


def random_function(rng, last=None):
    """A number made of three, two that all share, a whole one, and two of other types, by a few operations."""

    def draw(names):
        return names[rng.integers(len(names))]

    steps = [(draw([*OF_ONE, *OF_TWO, *OF_TWO, *MIXED]), rng.integers(0, 5 + i, 2)) for i in range(rng.integers(2, 5))]
    steps += [] if last is None else [(last, rng.integers(0, 5, 2))]

    def function(x, p, n, q):
        values = [*x, *p]
        for name, (i, j) in steps:
            if name in OF_TWO:
                value = OF_TWO[name](values[i], values[j])
            elif name in MIXED:
                value = MIXED[name](values[i], n, q)
            else:
                value = {**OF_ONE, **NOT_STRAIGHT}[name](values[i])
            values.append(value.astype(x.dtype))
        return values[-1] + 0.1 * values[-2] * jnp.sin(x).sum()

    return function


def all_of(functions):
    """Of an element."""
    return lambda *arguments: jnp.stack([function(*arguments) for function in functions])


def of_scene(functions, x, p, n, q, x_rate, p_rate):
    """Energies, forces and stiffnesses of all elements, the rate of the forces in a direction, and the derivative of a
    sum by what all elements share."""
    axes, forces = (0, None, 0, 0), list(map(jax.grad, functions))

    def of_element(*given):
        return all_of(functions)(*given), all_of(forces)(*given), all_of(map(jax.jacfwd, forces))(*given)

    rate = jax.jvp(lambda x, p: map_elements(all_of(forces), axes, x, p, n, q), (x, p), (x_rate, p_rate))[1]
    slope = jax.grad(lambda p: jnp.sum(map_elements(all_of(functions), axes, x, p, n, q)))(p)
    return *map_elements(of_element, axes, x, p, n, q), rate, slope


def expected(functions, x, p, n, q, x_rate, p_rate):
    """The same of one element, from first and second derivatives by all that it has; of the sum, its part."""
    arguments = [lambda z, f=f: f(z[:3], z[3:], n, q) for f in functions]
    z, rate = jnp.concatenate([x, p]), jnp.concatenate([x_rate, p_rate])
    first, second = (all_of(map(by, arguments))(z) for by in (jax.grad, jax.hessian))
    return all_of(arguments)(z), first[:, :3], second[:, :3, :3], second[:, :3] @ rate, first[:, 3:].sum(0)


def close(found, expected, dtype):
    for f, e in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        f, e = np.asarray(f), np.asarray(e)
        assert f.dtype == e.dtype == dtype and f.shape == e.shape and np.isfinite(e).all()
        np.testing.assert_allclose(
            f, e, rtol=TOLERANCE[f.dtype.name], atol=TOLERANCE[f.dtype.name] * max(1, np.abs(e).max())
        )


@pytest.fixture
def made(monkeypatch):
    """The kernels that are made, however few the operations; the scalarised programs of XLA where there are no kernels."""
    forms, name = [], "Kernel" if on_cpu() else "run"
    make = getattr(dispatch, name)
    monkeypatch.setattr(dispatch, name, lambda *a: forms.append(make(*a)) or forms[-1])
    monkeypatch.setattr(dispatch, "_SHORT", 0)
    if name == "run":
        monkeypatch.setattr(dispatch, "_FEW", 1)  # elements
    return forms


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(
            i, marks=() if i == 0 else pytest.mark.slow if i in (2, 4, 9, 14) else pytest.mark.exhaustive, id=str(i)
        )
        for i in range(15)
    ],
)
def test_derivatives_of_random_functions(number, made):
    """Of two scenes at once."""
    rng = np.random.default_rng(number)
    dtype, other = (np.float64, np.float32) if number % 3 < 2 else (np.float32, np.float64)
    refused = [*NOT_STRAIGHT][number // 5] if number % 5 == 4 else None
    functions = [random_function(rng, refused) for _ in range(TOGETHER)]
    x, x_rate = jnp.asarray(rng.normal(size=(2, 2, COUNT, 3)), dtype)
    p, p_rate = jnp.asarray(rng.normal(size=(2, 2)), dtype)
    n, q = jnp.asarray(rng.integers(-2, 4, COUNT), jnp.int32), jnp.asarray(rng.normal(size=(COUNT, 2)), other)

    @jax.jit
    def by_kernels(x, x_rate):
        return jax.vmap(lambda x, x_rate: of_scene(functions, x, p, n, q, x_rate, p_rate))(x, x_rate)

    @jax.jit
    def plain(x, x_rate):
        of_elements = jax.vmap(functools.partial(expected, functions), (0, None, 0, 0, 0, None))
        *rest, slope = jax.vmap(lambda x, x_rate: of_elements(x, p, n, q, x_rate, p_rate))(x, x_rate)
        return *rest, slope.sum(1)

    close(by_kernels(x, x_rate), plain(x, x_rate), dtype)
    assert len(made) < 3 if refused else len(made) >= 3
