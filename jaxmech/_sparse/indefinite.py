"""Whether an operator is declared indefinite, as the matrices of constraints with multipliers are."""

import lineax as lx

from .block_matrix import BlockMatrix
from .preconditioned import PreconditionedOperator

INDEFINITE_TAG = "indefinite"  # among those of an operator known by its products


def is_indefinite(operator: lx.AbstractLinearOperator) -> bool:
    """Whether whoever made it says so; conjugate gradients and Cholesky factors are then out of the question."""
    if isinstance(operator, PreconditionedOperator):
        return is_indefinite(operator.near)
    if isinstance(operator, BlockMatrix):
        return operator.indefinite
    return INDEFINITE_TAG in getattr(operator, "tags", ())


def kept_tags(*operators: lx.AbstractLinearOperator) -> tuple[object, ...]:
    """The tags of an operator made of these by sums or projections: symmetric if all are, indefinite if one is."""
    symmetric = (lx.symmetric_tag,) if all(lx.is_symmetric(operator) for operator in operators) else ()
    return (*symmetric, INDEFINITE_TAG) if any(map(is_indefinite, operators)) else symmetric
