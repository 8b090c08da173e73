"""Matrices to files that other programs read."""

import os
from pathlib import Path
from typing import Any

from .._runtime.argument_checks import check_path
from .._runtime.atomic_files import replacing
from .block_matrix import BlockMatrix
from .block_sparse import BlockSparse

_SUFFIXES = (".mtx", ".npz", ".csv")


def write_matrix(path: str | os.PathLike, matrix: BlockMatrix | BlockSparse) -> None:
    """Write a matrix; the suffix of the path tells the format. Numbers read back are the same to the last bit.

    `.mtx`: Matrix Market coordinates, for `scipy.io.mmread`, PETSc, Julia, MATLAB; a comment says where each state begins.
    `.npz`: SciPy's own, for `scipy.sparse.load_npz`: rows (CSR) of a `BlockMatrix`, block rows (BSR) of a `BlockSparse`.
    `.csv`: a line `row,column,value` for each stored scalar, numbered from 0, under a line that says so.
    An old file is replaced by a whole one or, where writing fails, left as it is.
    `Triplets` are assembled first, `triplets.assemble(shape)`. Raises `ValueError` for another suffix, `TypeError` for
    another matrix.
    Numbers in the unit of the matrix.
    Source: R. F. Boisvert, R. Pozo, K. Remington, *The Matrix Market Exchange Formats*, NISTIR 5935, 1996.

    Example:

        jm.matrix.write_matrix("stiffness.npz", A)
        import scipy.sparse

        assert scipy.sparse.load_npz("stiffness.npz").shape == (24, 24)
    """
    check_path("write_matrix", path)
    if not isinstance(matrix, BlockMatrix | BlockSparse):
        raise TypeError(f"write_matrix: matrix must be a BlockMatrix or a BlockSparse, got {type(matrix).__name__}.")
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in _SUFFIXES:
        raise ValueError(
            f"write_matrix: path '{os.fspath(path)}' must end in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}."
        )
    stored: Any = matrix.to_scipy()
    with replacing(path) as whole:
        _write(whole, suffix, matrix, stored)


def _write(path: Path, suffix: str, matrix: BlockMatrix | BlockSparse, stored: Any) -> None:
    if suffix == ".mtx":
        from scipy.io import mmwrite

        with open(path, "wb") as file:
            mmwrite(file, stored.tocoo(), comment=_comment(matrix))
    elif suffix == ".npz":
        from scipy.sparse import save_npz

        with open(path, "wb") as file:
            save_npz(file, stored)
    else:
        entries = stored.tocsr().tocoo()
        with open(path, "w", encoding="ascii", newline="\n") as file:
            file.write("row,column,value\n")
            for row, column, value in zip(*entries.coords, entries.data, strict=True):
                file.write(f"{row},{column},{value!s}\n")


def _comment(matrix: BlockMatrix | BlockSparse) -> str:
    if isinstance(matrix, BlockSparse):
        return "blocks of {} x {}".format(*matrix.values.shape[1:])
    return ", ".join(f"{s}: {n} x {d} from {matrix.offsets()[s] + 1}" for s, n, d in matrix.sizes)
