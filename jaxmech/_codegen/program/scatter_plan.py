"""Fused scatter-add: what an element gives is added to the sums at once, and never stored for all elements."""

import abc
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
from equinox import AbstractVar

from ..._runtime.array_types import Array, Int


class Places(NamedTuple):
    """Where the `k` rows of an output of every element go: row `r` to `slots[k e + r]`, of `rows`.

    With a `mirror`, the row is a square matrix, and its transpose goes to the mirror image of the place. `single`: the
    output is one row itself, with no axis of rows.
    """

    slots: Int[Array, " n"]
    mirror: Int[Array, " rows"] | None
    rows: int
    single: bool = False

    def of_row(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a row, from that of the output."""
        return shape if self.single else shape[1:]


class AbstractElementSums(eqx.Module):
    """Sums of the first `summed` outputs of an element, `(k, ...)` or one row; the others are given back as they are."""

    summed: AbstractVar[int]

    @abc.abstractmethod
    def of_all(self, outputs: Sequence[Array]) -> list[Array]:
        """The sums, from the outputs of all elements: the plain definition."""

    @abc.abstractmethod
    def places(self) -> list[Places]:
        """The same definition, output by output."""

    def applied(self, outputs: Sequence[Array]) -> list[Array]:
        """`of_all` of the outputs that are summed, and the others."""
        return [*self.of_all(outputs[: self.summed]), *outputs[self.summed :]]


class JoinedSums(AbstractElementSums):
    """Those of one plan, of the first outputs, and of another, of the next ones."""

    first: AbstractElementSums
    then: AbstractElementSums

    @property
    def summed(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.first.summed + self.then.summed

    def of_all(self, outputs: Sequence[Array]) -> list[Array]:
        split = self.first.summed
        return [*self.first.of_all(outputs[:split]), *self.then.of_all(outputs[split:])]

    def places(self) -> list[Places]:
        return [*self.first.places(), *self.then.places()]
