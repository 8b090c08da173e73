"""Cells of several kinds in XDMF, of which meshio 5 reads fewer than it writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_COUNTED = ("vertex", "line")  # kinds of any number of nodes in XDMF, which is told before the nodes


@contextmanager
def with_all_kinds() -> Iterator[None]:
    """A context in which meshio 5 reads nodes among cells, whose number it takes for a cell, and cells of any kind that it
    writes, most of which its reader does not know."""
    from meshio.xdmf import main

    own = main.translate_mixed_cells
    main.translate_mixed_cells = _blocks  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        main.translate_mixed_cells = own  # pyright: ignore[reportAttributeAccessIssue]


def _blocks(data: Any) -> list[Any]:
    """The blocks of the one list of a mixed topology: a number of the kind, of nodes where these may be any, and the nodes.
    Raises `ValueError` for a list that is cut short, and for chains of more than two nodes.

    Source: the XDMF model and format, "Arbitrary" (www.xdmf.org), and the numbers of kinds of its XdmfTopologyType.
    """
    from meshio import CellBlock
    from meshio._common import num_nodes_per_cell
    from meshio.xdmf.common import xdmf_idx_to_meshio_type

    flat, at = np.ravel(data).tolist(), 0
    blocks: list[tuple[str, list[list[int]]]] = []
    while at < len(flat):
        kind = xdmf_idx_to_meshio_type[flat[at]]
        count = num_nodes_per_cell[kind]
        first = at + 1 + (kind in _COUNTED)
        if first > at + 1 and flat[at + 1 : first] != [count]:
            raise ValueError(f"a '{kind}' of {flat[at + 1 : first]} nodes, of which {count} are read")
        at = first + count
        if at > len(flat):
            raise ValueError(f"a list of cells that ends within a '{kind}'")
        if not blocks or blocks[-1][0] != kind:
            blocks.append((kind, []))
        blocks[-1][1].append(flat[first:at])
    return [CellBlock(kind, np.asarray(cells)) for kind, cells in blocks]
