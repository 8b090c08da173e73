"""Experiments and parameters as one function of a vector of unknowns: residuals, or what they cost."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._runtime.argument_checks import real_array
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.precision import compiled
from .._runtime.results import RESULTS
from .experiment import AbstractExperiment, Prediction
from .penalty import positive
from .unknowns import Unknowns

FAILED = 1e6  # of every row of an experiment that failed: no step leads there


class Problem(eqx.Module):
    """Experiments and a tree of parameters as functions of a vector of unknowns `q` (n,), zero at the start.

    `residual(q)`: what optimistix and other solvers of least squares minimise half the sum of squares of. `cost(q)`: that
    half sum, what optax and BFGS minimise. `values(q)`: the tree with numbers in place of `Free`. `names`: of the unknowns.
    All of them go through `jit`, `vmap` and derivatives in both modes; hand the problem to a compiled function as an
    argument. Made by `jm.identify.problem`. Each is a pure number. An experiment that fails has residuals of
    1e6 and no derivative; `values` raises `ValueError` for `q` of another shape.
    Source: J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, doi:10.1007/978-0-387-40065-5, chapter 10.

    Example:

        ruler = jm.identify.Formula(lambda p: p["length"] * jnp.ones(2), [1.0, 3.0], noise=1.0)
        asked = jm.identify.problem(ruler, {"length": jm.identify.Free(4.0)})
        assert asked.names == ["length"] and jnp.allclose(asked.cost(asked.start), 0.5 * (9.0 + 1.0))
    """

    experiments: dict[str, AbstractExperiment]
    unknowns: Unknowns
    huber: Array | None

    @property
    def start(self) -> Float[Array, " n"]:
        """The unknowns at the start: zero."""
        return jnp.zeros(self.unknowns.count, self.unknowns.dtype)

    @property
    def names(self) -> list[str]:
        """Of every unknown."""
        return self.unknowns.names

    def values(self, q: Float[Array, " n"]) -> Any:
        """The tree of parameters with numbers."""
        return self.unknowns.values(jnp.asarray(real_array("Problem", "q", q, (self.unknowns.count,))))

    def residual(self, q: Float[Array, " n"]) -> Float[Array, " m"]:
        """The rows of all experiments, of priors and penalties."""
        rows = [bent(experiment_rows(e, self.unknowns, q)[0], self.huber) for e in self.experiments.values()]
        return jnp.concatenate([*rows, self.unknowns.rows(q)])

    def cost(self, q: Float[Array, " n"]) -> Scalar:
        """Half the sum of squares of `residual`."""
        return 0.5 * jnp.sum(self.residual(q) ** 2)


def problem(experiments: Any, parameters: Any, *, huber: Any = None) -> Problem:
    """A `Problem` of one experiment, or several in a dictionary by name, that share a tree of parameters.

    `parameters`: a tree (dictionaries, lists, modules) of `Free` and of fixed numbers, handed to every experiment. `huber`:
    the threshold, in units of the noise, beyond which residuals count by their size, not their square, so that outliers
    pull with a bounded force. Raises `ValueError` or `TypeError` for what are no experiments, parameters of which none is
    `Free`, a threshold that is not positive.
    Pure numbers. Source: P. J. Huber, Ann. Math. Stat. 35 (1964) 73, doi:10.1214/aoms/1177703732.

    Example:

        ruler = jm.identify.Formula(lambda p: p["length"] * jnp.ones(2), [1.0, 3.0], noise=1.0)
        asked = jm.identify.problem({"ruler": ruler}, {"length": jm.identify.Free(2.0)}, huber=1.5)
        assert jnp.allclose(asked.residual(asked.start), jnp.array([1.0, -1.0]))
    """
    if isinstance(experiments, AbstractExperiment):
        experiments = {"experiment": experiments}
    if not isinstance(experiments, Mapping) or not experiments:
        raise TypeError(f"problem: experiments must be one, or a dictionary of them by name, got {experiments!r:.80}.")
    for name, one in experiments.items():
        if not isinstance(name, str) or not isinstance(one, AbstractExperiment):
            raise TypeError(f"problem: experiments must be {{name: Experiment}}, got {name!r:.40}: {one!r:.80}.")
    threshold = None if huber is None else positive("problem", "huber", huber)
    return Problem({name: experiments[name] for name in sorted(experiments)}, Unknowns(parameters), threshold)


def experiment_rows(
    experiment: AbstractExperiment, unknowns: Unknowns, q: Float[Array, " n"]
) -> tuple[Float[Array, " m"], Prediction]:
    """The residuals of an experiment, `FAILED` where it failed, and its model."""
    prediction = experiment.predict(unknowns.values(q))
    rows = experiment.rows(prediction)
    return jnp.where(prediction.result == RESULTS.successful, rows, FAILED), prediction


def bent(r: Float[Array, " m"], huber: Array | None) -> Float[Array, " m"]:
    """Rows whose half sum of squares is Huber's loss: `r` within the threshold `d`, `sign(r) sqrt(2 d |r| - d^2)` beyond."""
    if huber is None:
        return r
    size = jnp.maximum(jnp.abs(r), huber)
    return jnp.where(jnp.abs(r) <= huber, r, jnp.sign(r) * jnp.sqrt(huber * (2 * size - huber)))


@compiled
def rows_and_slopes(
    experiment: AbstractExperiment, unknowns: Unknowns, q: Float[Array, " n"]
) -> tuple[Float[Array, " m"], Float[Array, "m n"], Prediction]:
    """Residuals, their Jacobian in forward mode, and the model: one program for equal experiments."""

    def rows(q: Array) -> tuple[Array, tuple[Array, Prediction]]:
        r, prediction = experiment_rows(experiment, unknowns, q)
        return r, (r, prediction)

    slopes, (r, prediction) = jax.jacfwd(rows, has_aux=True)(q)
    return r, slopes, prediction


@compiled
def cost_and_gradient(
    experiment: AbstractExperiment, unknowns: Unknowns, q: Float[Array, " n"], huber: Array | None
) -> tuple[Scalar, Float[Array, " n"], tuple[Float[Array, " m"], Prediction]]:
    """What the residuals of an experiment cost, its gradient in reverse mode, residuals and model."""

    def cost(q: Array) -> tuple[Array, tuple[Array, Prediction]]:
        r, prediction = experiment_rows(experiment, unknowns, q)
        return 0.5 * jnp.sum(bent(r, huber) ** 2), (r, prediction)

    (value, seen), gradient = jax.value_and_grad(cost, has_aux=True)(q)
    return value, gradient, seen


@compiled
def own_rows_and_slopes(unknowns: Unknowns, q: Float[Array, " n"]) -> tuple[Float[Array, " m"], Float[Array, "m n"]]:
    """Those of priors and penalties."""
    return unknowns.rows(q), jax.jacfwd(unknowns.rows)(q)


@compiled
def own_cost_and_gradient(unknowns: Unknowns, q: Float[Array, " n"]) -> tuple[Scalar, Float[Array, " n"]]:
    """What priors and penalties cost."""
    return jax.value_and_grad(lambda q: 0.5 * jnp.sum(unknowns.rows(q) ** 2))(q)
