"""Few of many combinations, such that every pair of choices still meets.

Most faults of a combination are those of a pair in it (Kuhn, Wallace and Gallo, IEEE Transactions on Software Engineering
30, 2004): a list in which every pair occurs finds them at a fraction of the price of the full product.
"""

import itertools
from collections.abc import Hashable, Sequence


def cover(rows: Sequence[tuple], strength: int = 2) -> list[tuple]:
    """Some of these rows, in their order: so many choices of as many axes as are together in one are so in one of them.

    Greedy, and the same at each call: the row with most that has not been met, the first of equals.
    """
    missing = {part for row in rows for part in _parts(row, strength)}
    chosen = set()
    while missing:
        best = max(rows, key=lambda row: sum(part in missing for part in _parts(row, strength)))
        chosen.add(best)
        missing.difference_update(_parts(best, strength))
    return [row for row in rows if row in chosen]


def pairwise(*axes: Sequence[Hashable]) -> list[tuple]:
    """Rows with one choice of each axis: any two choices of two axes are together in at least one.

    Where two axes are much longer than the others there is little to save: their product is in it.
    """
    return cover(list(itertools.product(*axes)))


def _parts(row: tuple, strength: int) -> itertools.combinations:
    """Each few of the choices of a row, with the axes that they are of."""
    return itertools.combinations(enumerate(row), min(strength, len(row)))


def in_turn(long: Sequence[Hashable], *axes: Sequence[Hashable]) -> list[tuple]:
    """A row for each entry of a long axis, that meets the rows of `pairwise(*axes)` one after the other.

    What is left of pairs with the long axis where even these are too many: each of its entries is met once, and every pair
    of the others as soon as it has that many entries.
    """
    others = pairwise(*axes) if len(axes) > 1 else [(a,) for a in axes[0]]
    return [(entry, *others[i % len(others)]) for i, entry in enumerate(long)]
