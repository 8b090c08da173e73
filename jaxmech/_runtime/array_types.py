"""Array aliases shared by every signature."""

from typing import TypeAlias

from jaxtyping import Array, Bool, Float, Int, UInt8

Scalar: TypeAlias = Float[Array, ""]

__all__ = ["Array", "Bool", "Float", "Int", "Scalar", "UInt8"]
