"""All contacts of a scene, as one array of slots: which pairs are in them, their coordinates, and their parameters."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._model.dynamics import Fields, kinematics, retract_near
from .._model.system import System
from .._runtime.array_types import Array
from .._scene.parameter import is_concrete
from .base import AbstractContact, Touching


class ContactSet(eqx.Module):
    """Named contacts, and which of their pairs are looked at."""

    contacts: dict[str, AbstractContact]
    touching: dict[str, Touching]

    @classmethod
    def found(cls, contacts: Mapping[str, AbstractContact], system: System, position: Fields) -> "ContactSet":
        """The pairs that are near at these positions of the main states."""
        still = jax.lax.stop_gradient((dict(contacts), position))
        x = kinematics(system, still[1])
        return cls(dict(contacts), {name: contact.touching(x) for name, contact in still[0].items()})

    @property
    def held(self) -> Array:
        """Which slots hold a pair `(n,)`."""
        return jnp.concatenate([t.held for t in self.touching.values()])

    def coordinates(self, system: System, start: Fields, position: Fields) -> Array:
        """Gap and slips since `start` `(n, 3)` [m] of every slot, at positions of the main states."""
        x0, x = kinematics(system, start), kinematics(system, position)
        parts = [
            jax.vmap(lambda k, c=c: c.coordinates(k, x0, x))(self.touching[name].pair) for name, c in self.contacts.items()
        ]
        return jnp.concatenate(parts) * self.held[:, None]

    def moved(self, system: System, start: Fields, position: Fields, d: Fields) -> Array:
        """`coordinates` after a displacement from `position`, for derivatives where that is nil only."""
        return self.coordinates(system, start, retract_near(system.dofs, position, d))

    def each(self, name: str) -> Array:
        """A parameter of every slot, `(n,)`."""
        parts = []
        for key, contact in self.contacts.items():
            touching = self.touching[key]
            parts.append(jnp.broadcast_to(contact.of_each(getattr(contact, name), touching), touching.pair.shape))
        return jnp.concatenate(parts)

    def overfull(self) -> tuple[Array, Array, Array]:
        """Whether there are more pairs than slots anywhere; the number of the first contact of which that is so, and how
        many pairs it has."""
        count = jnp.stack([t.count for t in self.touching.values()])
        over = count > np.array([t.pair.shape[0] for t in self.touching.values()])
        first = jnp.argmax(over)
        return over[first], first, count[first]

    def deepest(self, gap: Array) -> tuple[Array, Array, Array]:
        """Whether a gap `(n,)` [m] is deeper than its contact allows; of the one that is so by most, the numbers of the
        contact and of the pair."""
        left = jnp.where(self.held, gap + self.each("depth"), 1.0)
        slot = jnp.argmin(left)
        pairs = [t.pair for t in self.touching.values()]
        contact = np.repeat(np.arange(len(pairs)), [pair.shape[0] for pair in pairs])
        return left[slot] < 0, jnp.asarray(contact)[slot], jnp.concatenate(pairs)[slot]

    @property
    def rooms(self) -> tuple[tuple[str, int], ...]:
        """The names of the contacts, in their order, and how many pairs each has room for."""
        return tuple((name, t.pair.shape[0]) for name, t in self.touching.items())

    def are_finite(self) -> Array:
        """Whether every number of every contact is one; limits may be infinite."""
        numbers = [a for a in jax.tree.leaves(self.contacts) if eqx.is_inexact_array(a)]
        return ~jnp.isnan(jnp.concatenate([a.reshape(-1) for a in numbers])).any()

    def remembered(self, memory: Mapping[str, Array]) -> Array:
        """What the pairs of the slots had, `(n, 3)`."""
        parts = [memory[name][self.contacts[name].place_of(t.pair)] for name, t in self.touching.items()]
        return jnp.concatenate(parts) * self.held[:, None]

    def memory(self, values: Array) -> dict[str, Array]:
        """Values of the slots, by the numbers of pairs, for `remembered`."""
        result, first = {}, 0
        for name, t in self.touching.items():
            n = t.pair.shape[0]
            own = values[first : first + n] * t.held[:, None]
            contact = self.contacts[name]
            nothing = jnp.zeros((contact.pairs, 3), values.dtype)
            result[name] = nothing.at[contact.place_of(t.pair)].add(own)
            first += n
        return result


def check_contacts(contacts: Mapping[str, AbstractContact], system: System) -> None:
    """Raise `ValueError` where contacts do not fit a scene, or have numbers that are none, where these can be looked at."""
    for name, contact in contacts.items():
        for path, leaf in jax.tree_util.tree_flatten_with_path(contact)[0]:
            if eqx.is_inexact_array(leaf) and is_concrete(leaf) and np.isnan(np.asarray(leaf)).any():
                field = jax.tree_util.keystr(path).lstrip(".")
                raise ValueError(f"contact '{name}' ({type(contact).__name__}): {field} has values that are not finite.")
        contact.check_scene(name, system)
        if contact.pairs == 0:
            raise ValueError(f"contact '{name}' ({type(contact).__name__}): it has no pairs, one side of it names nothing.")


def no_memory(contacts: Mapping[str, AbstractContact], dtype: Any) -> dict[str, Array]:
    """What is remembered before anything happened."""
    return {name: jnp.zeros((c.pairs, 3), dtype) for name, c in contacts.items()}
