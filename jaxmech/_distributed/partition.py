"""Which rank owns which node: boxes of nodes that are cut in two across their longest side, again and again. NumPy only."""

import numpy as np


def bisected(points: np.ndarray, ranks: int) -> np.ndarray:
    """The owner `(n,)` of each of some points `(n, dim)`, one of `0, ..., ranks - 1`: as many points each, or nearly.

    Source: M. J. Berger and S. H. Bokhari, IEEE Trans. Comput. 36 (1987) 570, doi:10.1109/TC.1987.1676942.
    """
    owner = np.zeros(len(points), dtype=np.int32)
    waiting = [(np.arange(len(points)), 0, ranks)]
    while waiting:
        members, first, count = waiting.pop()
        if count == 1:
            owner[members] = first
            continue
        few = count // 2
        sides = np.ptp(points[members], axis=0) if len(members) else np.zeros(points.shape[1])
        # A stable order: every rank finds the same parts.
        along = members[np.argsort(points[members, int(np.argmax(sides))], kind="stable")]
        at = len(along) * few // count
        waiting += [(along[:at], first, few), (along[at:], first + few, count - few)]
    return owner
