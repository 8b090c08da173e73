"""The work of contacts in a step."""

import jax
import jax.numpy as jnp

from ..._contact.contact_set import ContactSet
from ..._model.dynamics import Fields, zero_forces
from ..._model.system import State, System
from ..._runtime.array_types import Array
from .free_motion import FreeMotion


def work_of_contacts(
    scheme: FreeMotion, system: System, start: State, end: State, impulse: Array, d: Fields
) -> tuple[dict[str, Array], Fields]:
    """`r . H d` over the step, by contact: `(2,)` [N s m] of its normal impulses and of friction; and `H^T r` [N s].

    `H` is where impulses act: at the end of a step by Newton's method, else at its start. `d`: the displacement.
    """
    contacts = ContactSet.found(scheme.contacts, system, start.position)
    place = (end if scheme.motion.newton else start).position

    def coordinates(d: Fields) -> Array:
        return contacts.moved(system, start.position, place, d)

    nowhere = zero_forces(system, place)
    works = impulse * jax.jvp(coordinates, (nowhere,), (d,))[1]
    found, first = {}, 0
    for name, room in contacts.rooms:
        normal, *slips = jnp.sum(works[first : first + room], axis=0)
        found[name], first = jnp.stack([normal, sum(slips)]), first + room
    return found, jax.vjp(coordinates, nowhere)[1](impulse)[0]
