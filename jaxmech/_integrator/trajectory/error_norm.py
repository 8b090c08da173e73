"""How large the error of a step is, in units of what is allowed.

Multipliers are not integrated: they and their rates are what equations of motion ask for, and a scheme may leave in them an
error that no shorter step makes smaller (L. Petzold, P. Lotstedt, SIAM J. Sci. Stat. Comput. 7 (1986) 720,
doi:10.1137/0907049).
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ..._model.system import State, System
from ..._runtime.argument_checks import check_choice, check_tolerances
from ..._runtime.array_types import Array
from ..._runtime.host_arrays import argument
from ..._runtime.results import is_traced
from ..._scene.dof import AbstractDof
from ..step_doubling import Error

Tolerances = dict[str, tuple[Array, Array, Array]]  # rtol, atol of positions and of velocities, by state


def tolerances(who: str, system: System, rtol: Any, atol: Any, dtype: Any) -> Tolerances:
    """The tolerances of every main state, in the `dtype` of its numbers; of multipliers only where they are named. Raises
    `ValueError` or `TypeError` that names what is wrong with them."""
    named = {state for given in (rtol, atol) if isinstance(given, Mapping) for state in given}
    names = [s for s in system.main_states if s in named or s not in system.multiplier_states]
    for name, given in (("rtol", rtol), ("atol", atol)):
        if isinstance(given, Mapping):
            for state in given:
                check_choice(who, f"a state of {name}", state, system.main_states)
            if missing := [s for s in names if s not in given]:
                raise ValueError(f"{who}: {name} has no number for state '{missing[0]}'.")
    found = {}
    for state in names:
        r: Any = rtol[state] if isinstance(rtol, Mapping) else rtol
        a: Any = atol[state] if isinstance(atol, Mapping) else atol
        pair: Any = a if isinstance(a, tuple) and len(a) == 2 else (a, a)
        of_x, of_v = pair
        for number in (r, of_x, of_v):
            name = "rtol" if number is r else "atol"
            if number is None:
                raise ValueError(f"{who}: {name} must be a number of at least 0, got None.")
            check_tolerances(who, **{name: number})
        if not is_traced((r, of_x, of_v)) and not (r > 0 or (of_x > 0 and of_v > 0)):
            raise ValueError(f"{who}: rtol and atol of state '{state}' are both 0, so that no step is accurate enough.")
        found[state] = tuple(argument(number, dtype) for number in (r, of_x, of_v))
    return found


def error_norm(dofs: Mapping[str, AbstractDof], start: State, end: State, error: Error, allowed: Tolerances) -> Array:
    """The largest over all states of `rms(e) / (atol + rtol size)`, translations and rotations, positions and velocities
    each for themselves: at most 1 of a step that is accurate enough.

    `size`: the largest of any node at both ends; of rotations that are no coordinates (`Rigid3`), a radian. No number is
    compared with one of another unit.
    """
    ratios = [jnp.zeros((), start.time.dtype)]
    for state, (rtol, *atol) in allowed.items():
        dof, d = dofs[state], dofs[state].space_size
        pairs = ((start.position, end.position, error[0]), (start.velocity, end.velocity, error[1]))
        for is_velocity, (of, (a, b, e)) in enumerate(zip(atol, pairs, strict=True)):
            for part in (slice(0, d), slice(d, dof.deriv_size)):
                if e[state][:, part].size == 0:
                    continue
                turns = part.start > 0 and not is_velocity and not dof.is_vector_space
                size = 1.0 if turns else jnp.maximum(*(_largest(values[state][:, part]) for values in (a, b)))
                rms = jnp.sqrt(jnp.mean(jnp.sum(e[state][:, part] ** 2, axis=1)))
                ratios.append(_ratio(rms, of + rtol * size))
    return jax.lax.stop_gradient(jnp.max(jnp.stack(ratios)))


def _largest(rows: Array) -> Array:
    return jnp.max(jnp.sqrt(jnp.sum(rows**2, axis=1)), initial=0.0)


def _ratio(error: Array, allowed: Array) -> Array:
    """Nothing of nothing is nothing: what rests is exact. Of traced tolerances, less than nothing allows no more."""
    nil = allowed <= 0
    return jnp.where(nil, jnp.where(error == 0, 0.0, jnp.finfo(error.dtype).max), error / jnp.where(nil, 1.0, allowed))
