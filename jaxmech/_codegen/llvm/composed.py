"""Operations that are several instructions, whatever these are, or another operation."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._runtime.jax_internals import primitives
from ..scalarize.arithmetic import Scalar


def number(value: float, like: Scalar) -> Any:
    """A number that is known, of the type of a scalar."""
    return np.full((), value, like.dtype)[()]


def power(arithmetic: Any, x: Scalar, exponent: int) -> Scalar:
    """`x` to the power of a whole number, by squares."""
    result, left = number(1, x), abs(exponent)
    while left:
        if left % 2:
            result = arithmetic.again("mul", result, x)
        left //= 2
        x = arithmetic.again("mul", x, x) if left else x
    return result if exponent >= 0 else arithmetic.again("div", number(1, x), result)


def _finite(arithmetic: Any, x: Scalar) -> Scalar:
    return arithmetic.apply(primitives.lt_p, bool, arithmetic.again("abs", x), number(np.inf, x))


def _one_minus_square(arithmetic: Any, x: Scalar) -> Scalar:
    """`(1 + x) (1 - x)`, as JAX has it: exact near one."""
    one = number(1, x)
    return arithmetic.again("mul", arithmetic.again("add", one, x), arithmetic.again("sub", one, x))


_OF_ANY: dict[str, Callable[..., Scalar]] = {
    "clamp": lambda arithmetic, least, x, most: arithmetic.again("min", arithmetic.again("max", least, x), most),
    "copy": lambda arithmetic, x: x,
    "copy_p": lambda arithmetic, x: x,
    "square": lambda arithmetic, x: arithmetic.again("mul", x, x),
}
_OF_WHOLE = {
    **_OF_ANY,
    "neg": lambda arithmetic, x: arithmetic.again("sub", number(0, x), x),
    "not": lambda arithmetic, x: arithmetic.again("xor", x, ~number(0, x)),
}
COMPOSED = {
    "f": {
        **_OF_ANY,
        "is_finite": _finite,
        "one_minus_square": _one_minus_square,
        "rsqrt": lambda arithmetic, x: arithmetic.again("div", number(1, x), arithmetic.again("sqrt", x)),
    },
    "i": _OF_WHOLE,
    "u": _OF_WHOLE,
    "b": {**_OF_ANY, "not": lambda arithmetic, x: arithmetic.again("xor", x, number(True, x))},
}
