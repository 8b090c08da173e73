"""Functions that close over values that are being differentiated."""

from collections.abc import Callable
from typing import Any

import equinox as eqx

from ..._runtime.jax_internals import is_carried_out
from ..._runtime.results import is_traced


def with_what_it_closes_over(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """The function, to be called with such arguments, as a pytree of the traced values that it closes over; itself where it
    closes over none. A rule of derivatives (`jax.custom_jvp`) knows of nothing but the leaves of its arguments."""
    if is_carried_out():
        return function  # where nothing is traced, it closes over nothing that is
    converted: Any = eqx.filter_closure_convert(function, *arguments)
    found = getattr(converted, "consts", ())
    return converted if is_traced(found) and not is_traced(function) else function
