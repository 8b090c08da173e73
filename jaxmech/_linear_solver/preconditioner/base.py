"""What a preconditioner is: something near the inverse of an operator, cheap to apply."""

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx
import lineax as lx
from equinox import AbstractVar

from ..._runtime.array_types import Array
from ..._sparse.block_matrix import BlockMatrix
from ..._sparse.preconditioned import PreconditionedOperator
from ..base.vectors import Vector

if TYPE_CHECKING:  # under Equinox's name, checkers take it for a field
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class AbstractApplied(eqx.Module):
    """`M^-1` for one operator: what `build` made of it. A pytree."""

    flaw: AbstractVar[Array]  # a code of `_outcome`: FINE unless the build saw that the operator cannot be solved so

    @abc.abstractmethod
    def __call__(self, r: Vector) -> Vector:
        """`M^-1 r`."""

    @abc.abstractmethod
    def transpose(self) -> "AbstractApplied":
        """`M^-T`."""

    def blocks(self, state: str) -> Array | None:
        """`M^-1` as a block for each node of a state, if that is what it is: `(n, d, d)`, or of length 0 if it is 1."""
        del state
        return None


class AbstractPreconditioner(eqx.Module):
    """A recipe: `build(operator)` gives a linear map near the inverse of the operator, `M^-1`.

    `definite`: whether `M` is symmetric positive definite when the operator is, as `PCG` needs. `indefinite`: whether it
    is also when the operator is symmetric but indefinite, as `MINRES` needs.
    No units of its own: from residuals [N] to displacements [m], say. `build` raises `ValueError` for an operator it cannot
    take.
    Source: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, doi:10.1137/1.9780898718003, chapter 9.

    Example:

        apply = jm.solver.BlockJacobi().build(A)
        assert apply(b)["cube"].shape == (8, 3)
        assert jm.solver.BlockJacobi.definite  # may be used with `PCG`
    """

    definite: AbstractClassVar[bool]
    indefinite: AbstractClassVar[bool]

    @abc.abstractmethod
    def build(self, operator: lx.AbstractLinearOperator) -> AbstractApplied:
        """The preconditioner of one operator. May be called under `jit`."""


def needs_matrix(owner: str, operator: Any) -> BlockMatrix:
    """`operator`, or the matrix that it has near it; `ValueError` unless that is a `BlockMatrix`."""
    matrix = operator.near if isinstance(operator, PreconditionedOperator) else operator
    if not isinstance(matrix, BlockMatrix):
        raise ValueError(
            f"{owner} is made from the blocks of a BlockMatrix, and operator is a {type(operator).__name__}: use "
            "MatrixLinearSystem or PreconditionedMatrixFreeSystem, or NoPreconditioner() for a matrix-free system."
        )
    return matrix
