"""What an observation is."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._assembly.public_functions import kinematics
from .._model.system import State, System
from .._output.probe import Probe
from .._runtime.argument_checks import numeric_array, whole_numbers
from .._runtime.array_types import Array, Float, Int


class AbstractObservation(eqx.Module):
    """A function of a scene and one of its states, whose numbers an instrument shows.

    Any function `(system, state) -> array` takes its place; these classes look at their arguments beforehand.
    """

    @abc.abstractmethod
    def __call__(self, system: System, state: State) -> Array:
        """What is seen of a state."""

    @abc.abstractmethod
    def check_scene(self, system: System, state: State) -> None:
        """Raise `ValueError` unless the scene has what is looked at."""


class Points(eqx.Module):
    """Nodes of a state, or points that a `Probe` embeds in its cells."""

    state: str = eqx.field(static=True)
    at: Int[Array, " p"] | Probe

    @classmethod
    def of(cls, owner: str, on: Any) -> "Points":
        """From a pair `(state, nodes)` or `(state, probe)`."""
        if not isinstance(on, tuple | list) or len(on) != 2 or not isinstance(on[0], str):
            raise TypeError(f"{owner}: on must be (state, nodes) or (state, probe), got {on!r:.80}.")
        if isinstance(on[1], Probe):
            return cls(on[0], on[1])
        given = np.atleast_1d(np.asarray(numeric_array(owner, "the nodes of on", on[1])))
        nodes = whole_numbers(owner, "the nodes of on", given, (None,))
        if not nodes.size:
            raise ValueError(f"{owner}: on names no nodes of '{on[0]}'.")
        return cls(on[0], jnp.asarray(nodes, jnp.int32))

    @property
    def count(self) -> int:
        return len(self.at.cells) if isinstance(self.at, Probe) else len(self.at)

    def of_nodes(self, values: Array) -> Array:
        """Of values of the nodes of the state, those of these points."""
        return self.at.of_nodes(values) if isinstance(self.at, Probe) else values[self.at]

    def positions(self, system: System, state: State) -> Float[Array, "p d"]:
        """Where they are."""
        if self.state in state.position:
            return self.of_nodes(state.position[self.state])
        return self.of_nodes(kinematics(system, state)[self.state])

    def check(self, owner: str, system: System, state: State) -> int:
        """Raise unless the scene has them; how many coordinates they have."""
        if self.state not in system.dofs:
            raise ValueError(f"{owner}: on names the state '{self.state}', which is not one of {list(system.dofs)}.")
        count = kinematics(system, state)[self.state].shape[0]
        if isinstance(self.at, Probe):
            if self.at.count != count:
                raise ValueError(f"{owner}: the probe is of {self.at.count} nodes, '{self.state}' has {count}.")
        elif int(np.max(np.asarray(self.at))) >= count:
            raise ValueError(f"{owner}: on names node {int(np.max(np.asarray(self.at)))}, '{self.state}' has {count}.")
        return system.dofs[self.state].coord_size


def components_of(owner: str, components: Any) -> tuple[int, ...] | None:
    """Which coordinates are seen, as a tuple; None for all."""
    if components is None:
        return None
    if isinstance(components, bool | float | str):
        raise TypeError(f"{owner}: components must be whole numbers of coordinates, got {components!r:.80}.")
    given = np.asarray(numeric_array(owner, "components", components))
    numbers = whole_numbers(owner, "components", np.atleast_1d(given), (None,))
    if not numbers.size:
        raise ValueError(f"{owner}: components are none.")
    return tuple(int(c) for c in numbers)


def check_components(owner: str, components: tuple[int, ...] | None, size: int) -> None:
    """Raise unless there are such coordinates."""
    if components is not None and max(components) >= size:
        raise ValueError(f"{owner}: components name {max(components)}, expected numbers from 0 to {size - 1}.")
