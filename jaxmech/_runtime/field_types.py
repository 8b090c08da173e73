"""What a type checker is told of a field that converts what it is given: what it takes, and what it holds."""

from collections.abc import Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from .array_types import Array

Value = TypeVar("Value", covariant=True)
Given = TypeVar("Given", contravariant=True)
Numbers: TypeAlias = "Array | np.ndarray | np.number | float | Sequence[Numbers]"
WholeNumbers: TypeAlias = "Array | np.ndarray | np.integer | int | Sequence[WholeNumbers]"


class Converted(Generic[Value, Given]):
    """An annotation, of which nothing is ever made. Checkers read fields of a dataclass that are descriptors by `__set__`
    where one is constructed, and by `__get__` afterwards (PEP 681)."""

    def __get__(self, instance: Any, owner: Any = None) -> Value: ...

    def __set__(self, instance: Any, value: Given) -> None: ...


class Parameter(Converted[Array, Numbers]):
    """The annotation of a field declared by `parameter()` or `nodal_parameter()`.

    To a type checker such a field takes a number, a list or an array, and holds an array. With `jax.Array` in its place, it
    wants an array. To Python it makes no difference. No units, and nothing is raised: `parameter` does.

    Example:

        class Weight(jm.force.AbstractEnergyForceField):
            on: jm.Stencils = jm.stencils()
            weight: jm.Parameter = jm.parameter()  # [N]

            def element_energy(self, x):
                return self.weight * x[2]

        assert Weight(("cube", [0, 1]), weight=[1.0, 2.0]).weight.shape == (2,)
    """


class OptionalParameter(Converted["Array | None", "Numbers | None"]):
    """The same of a field that may be None."""
