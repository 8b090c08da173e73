"""A length of the scene, by which a moment is measured as the force that a lever makes it of, and a turn as a way.

Forces and moments of one state cannot be added, nor ways and turns: a norm of newtons and newton metres judges, of what is
a nanometre long, the forces alone, and of what is a thousand kilometres long the moments alone.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array
from .._scene.dof import AbstractDof
from .dynamics import Fields, kinematics
from .system import System


class Lever(eqx.Module):
    """`arms`: by state whose unknowns turn, `(deriv_size,)`, one for what is a way and the length [m] for what is a turn.
    Where nothing turns it is empty, and all is what it was."""

    arms: dict[str, Array]

    @property
    def units(self) -> dict[str, Array]:
        """What unknowns are multiples of, as many as `ways` says [m, 1/m]."""
        return {s: 1 / a for s, a in self.arms.items()}

    def forces(self, f: Fields) -> Fields:
        """Forces [N], of moments too, by which they do the same work along `ways`."""
        return {s: a / self.arms[s] if s in self.arms else a for s, a in f.items()}

    def ways(self, d: Fields) -> Fields:
        """Ways [m], of turns too."""
        return {s: a * self.arms[s] if s in self.arms else a for s, a in d.items()}


def lever_of(system: System, position: Fields) -> Lever:
    """That of the scene where it is: the diagonal of the box that holds all its points and frames, mapped ones too. Where
    all are at one place it is a metre."""
    turning = [s for s in position if is_turning(system.dofs[s])]
    if not turning:
        return Lever({})
    length = _diagonal([*_places(system, jax.lax.stop_gradient(position)).values()])
    return Lever({s: by_kind(system.dofs[s], 1.0, jnp.where(length > 0, length, 1.0)) for s in turning})


def is_lone(system: System, position: Fields) -> bool:
    """Whether all that has a place is one frame, so that the scene has no length of its own. Static."""
    return sum(x.shape[0] for x in jax.eval_shape(partial(_places, system), position).values()) == 1


def lever_of_one(system: System, A: Any, u: Fields) -> Lever:
    """That of a lone frame, by the stiffness (or inertia) against turns and ways that its matrix has."""
    (s,) = (s for s in u if is_turning(system.dofs[s]))
    dof, zero = system.dofs[s], {s: jnp.zeros_like(a) for s, a in u.items()}
    columns = jax.vmap(lambda e: A.mv(zero | {s: e[None]})[s][0])(jnp.eye(dof.deriv_size, dtype=u[s].dtype))
    way, turn = (jnp.mean(jnp.abs(a)) for a in jnp.split(jnp.diagonal(jax.lax.stop_gradient(columns)), [dof.space_size]))
    length = jnp.sqrt(turn / jnp.where(way > 0, way, 1.0))
    return Lever({s: by_kind(dof, 1.0, jnp.where((way > 0) & (length > 0) & jnp.isfinite(length), length, 1.0))})


def _places(system: System, position: Fields) -> Fields:
    """The places of all points and frames; a number of its own (`Vec1`) is none."""
    size = {s: dof.space_size for s, dof in system.dofs.items()}
    return {s: x[:, : size[s]] for s, x in kinematics(system, position).items() if size[s] > 1}


def is_turning(dof: AbstractDof) -> bool:
    """Whether turns are among its unknowns, beside a translation."""
    return 0 < dof.space_size < dof.deriv_size


def by_kind(dof: AbstractDof, way: Any, turn: Array) -> Array:
    """`(deriv_size,)`: one number for each translation, another one for each turn."""
    return jnp.where(np.arange(dof.deriv_size) < dof.space_size, way, turn)


def of_each_kind(dof: AbstractDof, reduced: Callable[[Array], Array], a: Array) -> Array:
    """A number made of the entries of all nodes; of what turns two of them, `by_kind`."""
    if not is_turning(dof):
        return reduced(a)
    return by_kind(dof, *(reduced(part) for part in jnp.split(a, [dof.space_size], axis=1)))


def largest(a: Array) -> Array:
    return jnp.max(jnp.abs(a), initial=0)


def coordinate_size(dof: AbstractDof, x: Array) -> Array:
    """The largest coordinate of any node, which rounds all of them, of each kind; an angle counts as a radian at least."""
    size = of_each_kind(dof, largest, x)
    return jnp.maximum(size, by_kind(dof, 0.0, 1.0)) if is_turning(dof) else size


def _diagonal(places: list[Array]) -> Array:
    """Of the box along the axes that holds all of them."""
    squares = []
    for axis in range(max(x.shape[1] for x in places)):
        columns = [x[:, axis] for x in places if axis < x.shape[1] and x.size]
        low, high = ([end(c) for c in columns] for end in (jnp.min, jnp.max))
        squares += [(reduce(jnp.maximum, high) - reduce(jnp.minimum, low)) ** 2] if columns else []
    return jnp.sqrt(sum(squares, jnp.zeros((), places[0].dtype)))
