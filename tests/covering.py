"""Few of many combinations, such that every pair of choices still meets.

Most faults of a combination are those of a pair in it (Kuhn, Wallace and Gallo, IEEE Transactions on Software Engineering
30, 2004): a list in which every pair occurs finds them at a fraction of the price of the full product.
"""

import itertools
from collections.abc import Hashable, Sequence


def pairwise(*axes: Sequence[Hashable]) -> list[tuple]:
    """Rows with one choice of each axis: any two choices of two axes are together in at least one.

    Greedy, and the same at each call: the row that joins most pairs which have not met, the first of equals. Where two axes
    are much longer than the others, there is nothing to save: their product is in it.
    """
    rows = list(itertools.product(*axes))
    missing = {pair for row in rows for pair in _pairs(row)}
    chosen = []
    while missing:
        best = max(rows, key=lambda row: sum(pair in missing for pair in _pairs(row)))
        chosen.append(best)
        missing.difference_update(_pairs(best))
    return [row for row in rows if row in set(chosen)]


def _pairs(row: tuple) -> itertools.combinations:
    """Each two of the choices of a row, with the axes that they are of."""
    return itertools.combinations(enumerate(row), 2)


def in_turn(long: Sequence[Hashable], *axes: Sequence[Hashable]) -> list[tuple]:
    """A row for each entry of a long axis, that meets the rows of `pairwise(*axes)` one after the other.

    What is left of pairs with the long axis where even these are too many: each of its entries is met once, and every pair
    of the others as soon as it has that many entries.
    """
    others = pairwise(*axes) if len(axes) > 1 else [(a,) for a in axes[0]]
    return [(entry, *others[i % len(others)]) for i, entry in enumerate(long)]
