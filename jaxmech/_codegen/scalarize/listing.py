"""Arrays of scalars as one list of all of them, and back."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .known_numbers import Scalars


def listed(arrays: Sequence[Scalars]) -> list[Any]:
    """The scalars of some arrays."""
    return [x for a in arrays for x in a.flat]


def divided(scalars: Sequence[Any], like: Sequence[Any]) -> list[Scalars]:
    """Arrays of scalars of the shapes of others, from the list of all of them."""
    remaining, results = iter(scalars), [np.empty(a.shape, object) for a in like]
    for result in results:
        for place in np.ndindex(result.shape):
            result[place] = next(remaining)
    return results
