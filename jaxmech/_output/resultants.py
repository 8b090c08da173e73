"""Forces and moments of groups of nodes, and through a cut."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._model.dynamics import Fields, field_force, kinematics, velocities, zero_forces
from .._model.internal import with_internal
from .._model.system import State, System, check_inputs
from .._runtime.argument_checks import check_instance, numeric_array, real_array, whole_numbers
from .._runtime.array_types import Array, Float
from .._runtime.precision import compiled, in_one_program
from .._runtime.results import is_traced
from .._scene.dof import Rigid2, Rigid3, Vec2, Vec3
from .._solve.static import reactions


class Resultant(eqx.Module):
    """A force and its moment about a point.

    `force` (d,) [N]; `moment` [N m], (3,) in space, one number in the plane. Raises nothing: `reaction_resultants` and
    `section_force` make it.
    Source: L. D. Landau and E. M. Lifshitz, *Mechanics*, 3rd ed., 1976, section 34.

    Example:

        found = jm.output.Resultant(force=jnp.array([0.0, 2.0]), moment=jnp.asarray(6.0))
        assert float(found.moment / found.force[1]) == 3.0  # the arm [m]
    """

    force: Float[Array, " d"]
    moment: Float[Array, "..."]


def reaction_resultants(
    system: System, state: State, groups: Mapping[str, Any], *, on: str | None = None, about: Any = None
) -> dict[str, Resultant]:
    """The force [N] and the moment [N m] with which constraints hold each group of nodes, by name: sums of `jm.reactions`.

    `groups`: `{name: node numbers}` of the state `on`, of points or frames, which may be left out where there is only one;
    a node that is named twice counts once.
    `about`: the point (d,) [m] of the moments, the origin unless given. In equilibrium; loads on nodes that are held count
    as what the constraint takes. Raises `ValueError` for an unknown state, one that is not of points or frames in the
    plane or in space, and nodes that it does not have.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4.

    Example:

        clamp = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
        loaded = jm.static_solve(system, state, linear_system).state
        held = jm.output.reaction_resultants(system, loaded, {"clamp": clamp})["clamp"]
        assert jnp.allclose(held.force, jnp.array([0.0, 0.0, 10e3]), atol=0.1)  # a tonne [N]
        assert abs(held.moment[1] + 5e3) < 100.0  # half a metre away, and a little nearer as it sags [N m]
    """
    check_inputs("reaction_resultants", system, state)
    check_instance("reaction_resultants", "groups", groups, Mapping)
    on, size = _state_of_points("reaction_resultants", system, system.main_states, on)
    count = state.position[on].shape[0]
    numbers = {
        n: np.unique(whole_numbers("reaction_resultants", f"groups['{n}']", nodes, (None,), count))
        for n, nodes in groups.items()
    }
    forces = reactions(system, state)[on]
    x, origin = state.position[on], _point("reaction_resultants", about, size)
    return {name: _resultant(x[nodes], forces[nodes], origin) for name, nodes in numbers.items()}


def section_force(system: System, state: State, side: Mapping[str, Any], *, about: Any = None) -> Resultant:
    """The force [N] and the moment [N m] that one side of a cut feels from the other, through the nodes that they share.

    `side`: `{force field: its elements on this side}`, as numbers or as a mask `(e,)`; all other elements of the same fields
    are on the other side (`{"left": all, "right": []}` cuts between two fields). It is the sum, over the nodes of elements
    of both sides, of the forces on the elements of this one: on a bar that is pulled, seen from its loaded end, minus the
    load. Loads that are spread over the elements beside a cut act at its nodes, and their share there is not in it: where
    there are such, it converges as these elements become small. Of beams and shells it has their torques. `about` (d,) [m]:
    the point of the moment, the centre of the cut nodes unless given. Raises `ValueError` for an unknown force field, fields
    on several states, or on neither points nor frames, elements that are not there, and a cut without nodes where it can be
    looked at.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, section 4.2.1 (element forces).

    Example:

        bar = jm.mesh.box_mesh(cells=(4, 1), size=(4.0, 1.0), kind="quad")
        solid = jm.force.QuadFEM.from_mesh("bar", bar, jm.material.LinearElastic(1e3, 0.0))
        scene = jm.System({"bar": jm.Vec2()}, forces={"solid": solid})
        pulled = scene.at_rest({"bar": bar.points * jnp.array([1.01, 1.0])})
        found = jm.output.section_force(scene, pulled, {"solid": [2, 3]})  # the right half
        assert jnp.allclose(found.force, jnp.array([-10.0, 0.0])) and jnp.allclose(found.moment, 0.0)  # [N], [N m]
    """
    check_inputs("section_force", system, state)
    check_instance("section_force", "side", side, Mapping)
    unknown = [name for name in side if name not in system.forces]
    if unknown or not side:
        raise ValueError(f"section_force: side names {unknown}, expected some of {list(system.forces)}.")
    states = sorted({s.state for name in side for s in system.forces[name].on})
    if len(states) > 1:
        raise ValueError(f"section_force: the force fields of side act on {states}, expected one state.")
    on, size = _state_of_points("section_force", system, tuple(system.dofs), states[0])
    masks = {name: _mask(name, chosen, system.forces[name].on[0].elements) for name, chosen in side.items()}
    x, forces, cut, centre = _section(system, state, masks, on)
    if not is_traced(cut) and not np.asarray(cut).any():
        raise ValueError(
            f"section_force: the two sides share no node. The other side are the other elements of {list(side)}: a field "
            "that is all on it is named with none, {'left': [0, 1], 'right': []}."
        )
    return _resultant(x, forces, centre[:size] if about is None else _point("section_force", about, size))


@compiled
def _section(system: System, state: State, masks: Mapping[str, Array], on: str) -> tuple[Array, Array, Array, Array]:
    """Positions, the forces on the elements of this side at the nodes that belong to both, which these are, and their
    centre."""
    system = with_internal(system, state)
    x: Fields = kinematics(system, state.position)
    v, total = velocities(system, x, state.velocity), zero_forces(system, x)[on]
    touched = [jnp.zeros(total.shape[0], bool) for _ in range(2)]
    for name, mask in masks.items():
        field = system.forces[name]
        for stencil, f in zip(field.on, field_force(system, field, x, None, v), strict=True):
            own = jnp.expand_dims(mask, range(1, f.ndim))
            total = total.at[stencil.nodes].add(jnp.where(own, -f, 0))
            each = jnp.broadcast_to(jnp.expand_dims(mask, range(1, stencil.nodes.ndim)), stencil.nodes.shape)
            touched = [t.at[stencil.nodes].max(m) for t, m in zip(touched, (each, ~each), strict=True)]
    cut = touched[0] & touched[1]
    weights = cut.astype(total.dtype)[:, None]
    return x[on], weights * total, cut, jnp.sum(weights * x[on], axis=0) / jnp.maximum(jnp.sum(weights), 1)


@in_one_program
def _resultant(x: Array, wrenches: Array, about: Array) -> Resultant:
    """Of forces on points, or of forces and torques on frames."""
    size = len(about)
    arms, forces, torques = x[:, :size] - about, wrenches[:, :size], wrenches[:, size:]
    if size == 2:
        moments = arms[:, 0] * forces[:, 1] - arms[:, 1] * forces[:, 0] + jnp.sum(torques, axis=1)
    else:
        moments = jnp.cross(arms, forces) + (torques if torques.shape[1] else 0)
    return Resultant(jnp.sum(forces, axis=0), jnp.sum(moments, axis=0))


def _state_of_points(who: str, system: System, states: tuple[str, ...], on: str | None) -> tuple[str, int]:
    """The state, and of how many dimensions its points or frames are."""
    flat = [s for s in states if isinstance(system.dofs[s], Vec2 | Vec3 | Rigid2 | Rigid3)]
    if on is None and len(flat) == 1:
        on = flat[0]
    if not isinstance(on, str) or on not in flat:
        raise ValueError(
            f"{who}: on must be a state of points or frames in the plane or in space, one of {flat}, got {on!r:.80}."
        )
    return on, system.dofs[on].space_size


def _point(who: str, about: Any, size: int) -> Array:
    return jnp.zeros(size) if about is None else jnp.asarray(real_array(who, "about", about, (size,)))


def _mask(name: str, chosen: Any, elements: int) -> Array:
    """Which elements are on this side."""
    given = numeric_array("section_force", f"side['{name}']", chosen)
    if given.dtype != bool:
        numbers = whole_numbers("section_force", f"side['{name}']", chosen, (None,), elements)
        return jnp.zeros(elements, bool).at[numbers].set(True)
    if given.shape != (elements,):
        raise ValueError(f"section_force: side['{name}'] has shape {given.shape}, expected ({elements},), one per element.")
    return jnp.asarray(given)
