"""The second derivatives of a long program by a few numbers, from the operations in it that are not linear."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._codegen import is_pointwise
from .._runtime.array_types import Array, Float
from .._runtime.jax_internals import ClosedJaxpr, Literal, jaxpr_as_fun, rewired, without_unused


def hessian_of_few(function: Callable[[Any, Array], Array]) -> Callable[[Any, Array], Array]:
    """`d2 f/dx2` `(n, n)` of `function(parameters, x)`, one number of `x` `(n,)`.

    `H_ij = sum_k l_k . d2 op_k[da_i, da_j]` over the operations that are not linear in what moves, `da_i` the tangents of
    their operands, `l_k` the adjoint of their result: one pass forward with `n` tangents, one backward, and none of tangents
    backward. Of a network the products with its weights are linear, and what is left is of its activations.
    Source: R. M. Gower, M. P. Mello, Optim. Methods Softw. 27 (2012) 251, doi:10.1080/10556788.2011.580098.
    """

    def hessian(parameters: Any, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        program = _Program(jax.make_jaxpr(lambda x: function(parameters, x))(x))
        if not program.is_real:
            return jax.hessian(lambda x: function(parameters, x))(x)
        of_x = lambda x: program.run(x)[1]  # noqa: E731
        operands = of_x(x)
        tangents = jax.vmap(lambda d: jax.jvp(of_x, (x,), (d,))[1])(jnp.eye(x.size, dtype=x.dtype))
        rows, columns = np.triu_indices(x.size)
        shifts = [[jnp.zeros(v.aval.shape, v.aval.dtype) for v in eqn.outvars] for eqn in program.bent]
        adjoints = jax.grad(lambda shifts: program.run(x, shifts)[0])(shifts)

        def curved(eqn: Any, given: list[Array], moved: list[Array], adjoint: list[Array]) -> Array:
            """`l . d2 op[da_i, da_j]` of one operation, for all `i <= j`."""

            def weighted(given: list[Array]) -> Array:
                pairs = zip(adjoint, program.alone(eqn, given), strict=True)
                return sum((jnp.sum(l * r) for l, r in pairs), jnp.zeros((), x.dtype))

            if is_pointwise(eqn) and len(given) == 1:  # `sum_k (l f'')_k da_ik da_jk`: one bend for all directions
                ones = [jnp.ones_like(a) for a in given]
                (bend,) = jax.grad(lambda a: jax.jvp(weighted, (a,), (ones,))[1])(given)
                half = bend * moved[0]
                return jnp.sum((half[rows] * moved[0][columns]).reshape(len(rows), -1), axis=1)

            def second(d: Any, e: Any) -> Array:
                return jax.jvp(lambda a: jax.jvp(weighted, (a,), (d,))[1], (given,), (e,))[1]

            return jax.vmap(second)([a[rows] for a in moved], [a[columns] for a in moved])

        parts = map(curved, program.bent, operands, tangents, adjoints)
        entries = sum(parts, jnp.zeros(len(rows), x.dtype))
        place = np.zeros((x.size, x.size), int)
        place[rows, columns] = place[columns, rows] = np.arange(len(rows))
        return entries[place]

    return hessian


class _Program:
    """A program whose operations that are not linear in what moves can be looked at, and shifted."""

    def __init__(self, closed: ClosedJaxpr):
        self.jaxpr = closed.jaxpr
        self.moving = set(self.jaxpr.invars)
        self.fixed: dict[Any, Array] = dict(zip(self.jaxpr.constvars, closed.consts, strict=True))  # what does not move
        for eqn in self.jaxpr.eqns:
            if any(v in self.moving for v in _variables(eqn)):
                self.moving.update(eqn.outvars)
            else:
                self._evaluate(eqn, self.fixed)
        self.active = [eqn for eqn in self.jaxpr.eqns if eqn.outvars[0] in self.moving]
        self.is_real = all(jnp.issubdtype(v.aval.dtype, jnp.inexact) for v in self.moving)  # a comparison is not
        self.bent = [eqn for eqn in self.active if self.is_real and not self._is_linear(eqn)]

    def run(self, x: Array, shifts: Any = None) -> tuple[Array, list[list[Array]]]:
        """The result, and the moving operands of the bent operations."""
        values = self.fixed | {self.jaxpr.invars[0]: x}
        seen = []
        for eqn in self.active:
            self._evaluate(eqn, values)
            if any(eqn is other for other in self.bent):
                seen.append([values[v] for v in _variables(eqn) if v in self.moving])
                if shifts is not None:
                    values |= {v: values[v] + s for v, s in zip(eqn.outvars, shifts[len(seen) - 1], strict=True)}
        out = self.jaxpr.outvars[0]
        return (jnp.asarray(out.val) if isinstance(out, Literal) else values[out]), seen

    def _evaluate(self, eqn: Any, values: dict[Any, Array]) -> None:
        results = _one(eqn, self.jaxpr)(*(values[v] for v in _variables(eqn)))
        values |= zip(eqn.outvars, results, strict=True)

    def alone(self, eqn: Any, operands: list[Array]) -> list[Array]:
        """The results of an operation of these moving operands."""
        given = iter(operands)
        return _one(eqn, self.jaxpr)(*(next(given) if v in self.moving else self.fixed[v] for v in _variables(eqn)))

    def _is_linear(self, eqn: Any) -> bool:
        """Whether no trace ties the derivative of an operation to what moves."""
        variables = _variables(eqn)
        which = [i for i, v in enumerate(variables) if v in self.moving]
        examples = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in variables]

        def rate(values: list[Array], rates: list[Array]) -> Any:
            def moved(*some: Array) -> Any:
                mine = dict(zip(which, some, strict=True))
                return _one(eqn, self.jaxpr)(*(mine.get(i, a) for i, a in enumerate(values)))

            return jax.jvp(moved, [values[i] for i in which], rates)[1]

        jaxpr = jax.make_jaxpr(rate)(examples, [examples[i] for i in which]).jaxpr
        used = without_unused(jaxpr, [True] * len(jaxpr.outvars))[1]
        return not any(used[i] for i in which)


def _variables(eqn: Any) -> list[Any]:
    return list(dict.fromkeys(v for v in eqn.invars if not isinstance(v, Literal)))


def _one(eqn: Any, jaxpr: Any) -> Callable[..., list[Any]]:
    """An equation as a function of its variables."""
    return jaxpr_as_fun(ClosedJaxpr(rewired(jaxpr, _variables(eqn), list(eqn.outvars), [eqn]), []))
