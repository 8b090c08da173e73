"""An operator with a matrix near it, from which preconditioners are made."""

from typing import Any

import lineax as lx

from .._math.small_matmul import times_vectors
from .._runtime.array_types import Array, Float
from .block_matrix import BlockMatrix, check_vector


class PreconditionedOperator(lx.AbstractLinearOperator):
    """Products are those of `operator`; preconditioners are made from `near`, a matrix of the same states.

    `rotations` `{state: (n, d, d)}`: how every node has turned since `near` was assembled. None of that changes what is
    solved, only in how many iterations: nothing is differentiated through it.
    Units are those of the operator. Raises `ValueError` where `near` is a matrix of other sizes.
    Source: as `PreconditionedMatrixFreeSystem`, which makes it.

    Example:

        turned = {"cube": jnp.tile(jnp.eye(3), (8, 1, 1))}  # not at all
        operator = jm.matrix.PreconditionedOperator(A, A, turned)
        x = lx.linear_solve(operator, b, jm.solver.PCG(preconditioner=jm.solver.Jacobi())).value
        assert jnp.allclose(A.mv(x)["cube"], b["cube"], atol=1.0)  # [N]
    """

    operator: lx.AbstractLinearOperator
    near: BlockMatrix
    rotations: dict[str, Float[Array, "n d d"]]

    def __check_init__(self):
        if self.operator.in_structure() != self.near.in_structure():
            raise ValueError(f"the operator is of {self.operator.in_structure()}, near of {self.near.in_structure()}.")

    def mv(self, vector: Any) -> Any:
        """The product of the operator."""
        check_vector("PreconditionedOperator.mv", self.near, vector)
        return self.operator.mv(vector)

    def transpose(self) -> "PreconditionedOperator":
        """The transposed operator, with the transposed matrix near it."""
        return PreconditionedOperator(self.operator.transpose(), self.near.transpose(), self.rotations)

    def as_matrix(self) -> Float[Array, "N N"]:
        return self.operator.as_matrix()

    def in_structure(self) -> Any:
        return self.operator.in_structure()

    def out_structure(self) -> Any:
        return self.operator.out_structure()

    def into_frames(self, vector: dict[str, Array]) -> dict[str, Array]:
        """`R^T v`: vectors of the present seen from nodes as they stood when `near` was assembled."""
        return {s: times_vectors(self.rotations[s].swapaxes(1, 2), v) for s, v in vector.items()}

    def from_frames(self, vector: dict[str, Array]) -> dict[str, Array]:
        """`R v`."""
        return {s: times_vectors(self.rotations[s], v) for s, v in vector.items()}


def _asked_of_operator(question: Any) -> None:
    question.register(PreconditionedOperator)(lambda wrapped: question(wrapped.operator))


for _question in (
    lx.is_symmetric,
    lx.is_diagonal,
    lx.is_tridiagonal,
    lx.has_unit_diagonal,
    lx.is_lower_triangular,
    lx.is_upper_triangular,
    lx.is_positive_semidefinite,
    lx.is_negative_semidefinite,
    lx.diagonal,
):
    _asked_of_operator(_question)


def _with_operator(wrapped: PreconditionedOperator, operator: lx.AbstractLinearOperator) -> PreconditionedOperator:
    return PreconditionedOperator(operator, wrapped.near, wrapped.rotations)


for _made in (lx.linearise, lx.materialise, lx.conj):
    _made.register(PreconditionedOperator)(lambda wrapped, made=_made: _with_operator(wrapped, made(wrapped.operator)))
