"""Array aliases shared by every signature, and what arrays are without their numbers."""

from typing import Any, TypeAlias

import jax
from jaxtyping import Array, Bool, Float, Int, UInt8

Scalar: TypeAlias = Float[Array, ""]

__all__ = ["Array", "Bool", "Float", "Int", "Scalar", "UInt8", "structure_of"]


def structure_of(tree: Any) -> Any:
    """The shapes and types of arrays, without the devices that they are on: what an operator takes is the same on all."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)
