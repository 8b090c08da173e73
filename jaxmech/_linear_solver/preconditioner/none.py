"""No preconditioner."""

import jax.numpy as jnp
import lineax as lx

from ..._runtime.argument_checks import check_instance
from ..._runtime.array_types import Array
from ..base.outcome import FINE
from .base import AbstractApplied, AbstractPreconditioner


class NoPreconditioner(AbstractPreconditioner):
    """The identity, for any operator.

    `M = I`, without units. Raises `TypeError` for what is no operator.
    Source: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, doi:10.1137/1.9780898718003, chapter 9.

    Example:

        apply = jm.solver.NoPreconditioner().build(A)
        assert jnp.array_equal(apply(b)["cube"], b["cube"])
    """

    definite = True
    indefinite = True

    def build(self, operator: lx.AbstractLinearOperator) -> AbstractApplied:
        check_instance("NoPreconditioner", "operator", operator, lx.AbstractLinearOperator)
        return _Identity(jnp.int32(FINE))


class _Identity(AbstractApplied):
    flaw: Array

    def __call__(self, r):
        return r

    def transpose(self):
        return self

    def blocks(self, state):
        return jnp.zeros((0, 1, 1))
