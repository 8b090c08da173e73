"""Cuts a scalarised program into stages, so that nothing is computed twice.

XLA puts an operation into the loop of each of its users. That saves memory traffic, and computes what several users
share once for each of them: five times the arithmetic for the Hessian of a neo-Hookean density. A function that may not
be inlined is a wall to this: what several users share, and costs more than a few operations, is the result of one.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax

from .._runtime.jax_internals import ClosedJaxpr, Literal, jaxpr_as_fun, rewired, set_xla_metadata

_WORTH = 9  # operations: below, computing again is cheaper than writing down
_FREE = frozenset(["broadcast_in_dim", "concatenate", "reshape", "slice", "squeeze", "stack", "transpose", "unstack"])


def staged(program: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The function of a program that has the elementwise operations of a scalarised program, and branches of such."""
    jaxpr = program.jaxpr.replace(eqns=[_with_staged_branches(eqn) for eqn in program.jaxpr.eqns])
    cut, known, stages = _Cut(jaxpr), {*jaxpr.constvars, *jaxpr.invars}, []
    for targets in cut.stages:
        inputs, part = cut.part(targets, known)
        stages.append((inputs, jax.jit(jaxpr_as_fun(part)), targets))
        known |= set(targets)
    last, part = cut.part(jaxpr.outvars, known)
    outputs = jaxpr_as_fun(part)

    def function(*arguments: Any) -> list[Any]:
        values = dict(zip(jaxpr.constvars, program.consts, strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))
        for inputs, stage, targets in stages:
            with set_xla_metadata(inlineable="false"):
                values.update(zip(targets, stage(*(values[v] for v in inputs)), strict=True))
        return outputs(*(values[v] for v in last))

    return function


def _with_staged_branches(eqn: Any) -> Any:
    if eqn.primitive.name != "cond":
        return eqn
    branches = tuple(jax.make_jaxpr(staged(branch))(*branch.in_avals) for branch in eqn.params["branches"])
    return eqn.replace(params={**eqn.params, "branches": branches})


class _Cut:
    """Which variables are written down, and in which stage."""

    def __init__(self, jaxpr: Any):
        self.jaxpr = jaxpr
        self.makers: dict[Any, Any] = {}
        uses = Counter(v for eqn in jaxpr.eqns for v in eqn.invars if not isinstance(v, Literal))
        size: dict[Any, int] = Counter()  # operations since what was written down
        stage: dict[Any, int] = Counter()
        kept: dict[Any, int] = {}
        for eqn in jaxpr.eqns:
            read = [v for v in eqn.invars if not isinstance(v, Literal)]
            work = sum(size[v] for v in read) + (eqn.primitive.name not in _FREE)
            reached = max((stage[v] + (v in kept) for v in read), default=0)
            for v in eqn.outvars:
                self.makers[v], stage[v], size[v] = eqn, reached, work
                if uses[v] > 1 and work >= _WORTH:
                    kept[v], size[v] = reached, 0
        self.stages = [[v for v, at in kept.items() if at == n] for n in range(1 + max(kept.values(), default=-1))]

    def part(self, targets: list[Any], known: set[Any]) -> tuple[list[Any], ClosedJaxpr]:
        """The part of the program that computes `targets`, and which of the known variables it reads."""
        inputs: dict[Any, None] = {}
        eqns: dict[int, Any] = {}
        pending = [v for v in targets if not isinstance(v, Literal)]
        while pending:
            v = pending.pop()
            if v in known:
                inputs[v] = None
            elif id(self.makers[v]) not in eqns:
                eqns[id(self.makers[v])] = self.makers[v]
                pending += [u for u in self.makers[v].invars if not isinstance(u, Literal)]
        ordered = [eqn for eqn in self.jaxpr.eqns if id(eqn) in eqns]
        return list(inputs), ClosedJaxpr(rewired(self.jaxpr, list(inputs), targets, ordered), [])
