"""What reverse mode keeps of a step, and what it computes anew."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
from jax.ad_checkpoint import checkpoint_name

T = TypeVar("T")
_SOLVED = "jaxmech: solved"


def kept(values: T) -> T:
    """The same, to be kept where all else is computed `anew`: what took a solve."""
    return jax.tree.map(lambda a: checkpoint_name(a, _SOLVED) if eqx.is_array(a) else a, values)


def anew(step: Callable) -> Callable:
    """A step of a loop of which reverse mode keeps where it starts and what is `kept`."""
    return jax.checkpoint(step, prevent_cse=False, policy=_is_kept)


_is_named = jax.checkpoint_policies.save_only_these_names(_SOLVED)


def _is_kept(primitive: Any, /, *_: Any, **parameters: Any) -> Any:
    """Whether reverse mode keeps what a primitive gives.

    A linear solve of Lineax under `vmap` has a parameter called `prim`, as JAX's own policy calls its first argument.
    """
    return "prim" not in parameters and _is_named(primitive, **parameters)
