"""What a time step may be."""

import math
from typing import Any

import jax

from .._runtime.argument_checks import check_real
from .._scene.parameter import as_array, is_concrete


def check_time_step(dt: Any, *, carried_by: str = "", name: str = "dt") -> None:
    """Raise `ValueError` unless a time step whose value is known is positive.

    `carried_by`: an integrator whose `step(system, state, dt)`, the call before there were carries, is told apart.
    """
    if dt is None and carried_by:
        raise TypeError(
            f"{carried_by}.step(system, state, carry, dt) takes a carry before dt. Write "
            "`carry = integrator.init(system, state)` once, then `state, carry, info = integrator.step(system, state, "
            "carry, dt)`; a step by itself takes None."
        )
    if type(dt) is float and 0 < dt < math.inf:
        return  # as most are: what follows takes a tenth of a small step
    if is_concrete(dt):
        with jax.ensure_compile_time_eval():  # a plain number has a value under jit as well
            h = as_array(dt)
        check_real("the time step", name, h)
        if h.ndim != 0 or not float(h) > 0:
            raise ValueError(f"the time step {name} must be a positive number of seconds, got {dt}.")
