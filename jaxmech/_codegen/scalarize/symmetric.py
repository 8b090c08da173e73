"""The declaration that a matrix is symmetric, made use of by computing one triangle of it."""

from typing import Any

import numpy as np

from ..._runtime.array_types import Array, Float
from ..._runtime.jax_internals import Primitive, ShapedArray, deflinear2, defvectorized, register_lowering


def declared_symmetric(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The matrix itself; in a scalarised program, its lower triangle is read from the upper one and never computed.

    An identity of its own, because where nothing is unrolled the mirror image would cost more than it saves.
    """
    return _symmetric_p.bind(matrix)


def mirrored(arithmetic: Any, eqn: Any, matrix: np.ndarray) -> list[np.ndarray]:
    """The rule of scalars: entry `(i, j)` is entry `(min, max)`, of each of several."""
    del arithmetic, eqn
    i, j = np.indices(matrix.shape[-2:])
    return [matrix[..., np.minimum(i, j), np.maximum(i, j)]]


NAME = "jaxmech_symmetric"
_symmetric_p = Primitive(NAME)
_symmetric_p.def_impl(lambda x: x)
_symmetric_p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
deflinear2(_symmetric_p, lambda cotangent, _: [cotangent])
defvectorized(_symmetric_p)
register_lowering(_symmetric_p, lambda ctx, x: [x])
