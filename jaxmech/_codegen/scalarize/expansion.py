"""Primitives that are no arithmetic themselves: what they compute, as a program of operations that are."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..._runtime.jax_internals import ClosedJaxpr, Primitive
from ..._runtime.raise_if import is_raised_by
from .arithmetic import NotScalarisable

_KEPT = 1024  # equations, whose programs are asked for by who counts them and by who runs them
_forms: dict[str, Callable[..., Any]] = {}
_CARRIED_OUT_BY_OTHERS = ("linear_solve",)  # of Lineax: by the operations of its solver


def expand(primitive: Primitive, plain_form: Callable[..., Any]) -> None:
    """Says what a primitive computes, `plain_form(*operands, **parameters)`, where it is part of a scalarised program."""
    _forms[primitive.name] = plain_form


def expands(name: str) -> bool:
    """Whether a primitive is known by another program."""
    return name in _forms or name in _CARRIED_OUT_BY_OTHERS


def expanded(eqn: Any) -> ClosedJaxpr:
    """The program of an equation. Raises `NotScalarisable` where there is none."""
    return _program(_Same(eqn))


def inner_programs(eqn: Any) -> Sequence[Any]:
    """The programs that an equation calls, if it calls any: one, those that it chooses from, or two of a loop."""
    if expands(eqn.primitive.name):
        return [expanded(eqn)]
    one = [eqn.params[key] for key in ("jaxpr", "call_jaxpr", "call", "cond_jaxpr", "body_jaxpr") if key in eqn.params]
    if "jaxprs" in eqn.params:
        one = [eqn.params["jaxprs"].solve]
    return one or eqn.params.get("branches", ())


class _Same:
    """An equation, known by its identity."""

    def __init__(self, eqn: Any):
        self.eqn = eqn

    def __hash__(self) -> int:
        return id(self.eqn)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.eqn is other.eqn


@functools.lru_cache(maxsize=_KEPT)
def _program(same: _Same) -> ClosedJaxpr:
    eqn = same.eqn
    form = functools.partial(_forms.get(eqn.primitive.name, eqn.primitive.impl), **eqn.params)
    return jax.make_jaxpr(lambda *operands: jax.tree.leaves(form(*operands)))(*(v.aval for v in eqn.invars))


def _called(*operands: Any, **params: Any) -> Any:
    """A call of a foreign function: of the one that raises an error, what nobody takes for a number."""
    del operands
    if not is_raised_by(params):
        raise NotScalarisable("a call of a foreign function as a program of scalars")
    nothing = ((a, jnp.nan if jnp.issubdtype(a.dtype, jnp.inexact) else 0) for a in params["result_avals"])
    return [jnp.full(a.shape, value, a.dtype) for a, value in nothing]


_forms["ffi_call"] = _called
