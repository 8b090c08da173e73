"""What the graph of mappings does to vectors and rows: accelerations, pull-backs, Jacobians of whole paths."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import jax
import jax.numpy as jnp

from .._math.indexing import take_rows
from .._math.small_matmul import times_blocks
from .._runtime.array_types import Array
from .._runtime.precision import compiled
from .._scene.stencil import gathered, summed
from .._sparse.triplets import Triplets
from .dynamics import Fields, kinematics, velocities, zero_forces
from .internal import with_internal
from .mapping_jacobian import (
    Jacobian,
    geometric_blocks,
    geometric_mode,
    handed_down,
    handed_up,
    mapped_forces,
    mapping_jacobian,
)
from .motion import motion_of_each
from .system import State, System


@compiled
def accelerations(system: System, state: State, acceleration: Mapping[str, Array]) -> Fields:
    """The accelerations `(nodes, deriv_size)` of every state: `J a + dJ/dt v` for mapped ones [m/s^2, rad/s^2].

    `acceleration`: `{state: (nodes, deriv_size)}` of the main states. Raises `ValueError` or `TypeError` that names the
    state, for one that is missing or unknown and for other shapes.
    Source: R. Featherstone, *Rigid Body Dynamics Algorithms*, 2008, doi:10.1007/978-1-4899-7560-7, chapter 2.

    Example:

        spin = {"frame": jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]])}  # [rad/s], which does not change
        a = jm.mapping.accelerations(arm, jm.State(arm_state.position, spin, arm_state.time), {"frame": jnp.zeros((1, 6))})
        assert jnp.allclose(a["tip"], jnp.array([[-4.0, 0.0, 0.0]]))  # w x (w x r)
    """
    return motion_of_each(system, state.position, state.velocity, acceleration).a


@compiled
def pull_back(system: System, state: State, forces: Mapping[str, Array]) -> Fields:
    """`J^T f`: the forces [N, N m] on the main states that do the work of `forces` on states of any kind.

    `forces`: `{state: (nodes, deriv_size)}`, of some states; those of main states are added. Raises `ValueError` for
    unknown states.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, section 1.4 (generalised
    forces).

    Example:

        f = jm.mapping.pull_back(arm, arm_state, {"tip": jnp.array([[0.0, 3.0, 0.0]])})["frame"]
        assert jnp.allclose(f, jnp.array([[0.0, 3.0, 0.0, 0.0, 0.0, 3.0]]))  # a force of 3 N, and its torque of 3 N m
    """
    _check_states(system, forces)
    x = kinematics(system, state.position)
    total = zero_forces(system, x)
    total = {s: total[s] + forces[s] if s in forces else total[s] for s in total}
    for name in reversed(system.mapping_order):
        total = handed_up(system, name, mapping_jacobian(system, name, x), total)
    return {s: total[s] for s in system.main_states}


@compiled
def pull_back_rows(system: System, state: State, rows: Mapping[str, Triplets]) -> dict[str, Triplets]:
    """`H J`: rows that act on states of any kind, say the constraint Jacobians `dg/dp`, as rows on the main states.

    `rows`: `{state: Triplets}`, blocks `(b, r, d)` of pairs (row, node of that state). The result holds the same of every
    main state that is reached, repeats not summed. Raises `ValueError` for unknown states.
    Rows have the unit of `g` per unit of the state, [m/m, m/rad] say of a distance.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, section 1.4.

    Example:

        slope = jnp.array([[[0.0, 0.0, 1.0]]])  # dg/dp, g = z
        height = jm.matrix.Triplets(("row", "tip"), jnp.array([0]), jnp.array([0]), slope)
        rows = jm.mapping.pull_back_rows(arm, arm_state, {"tip": height})["frame"]
        assert jnp.allclose(rows.blocks, jnp.array([0.0, 0.0, 1.0, 0.0, -1.0, 0.0]))
    """
    _check_states(system, rows)
    x = kinematics(system, state.position)
    return _followed(system, x, rows, frozenset(system.main_states))


@compiled
def jacobian(system: System, state: State, child: str, parent: str | None = None) -> dict[str, Triplets]:
    """`J = dp/dq`: how the nodes of the mapped state `child` move with its ancestors, in blocks.

    Of every main state, along all paths; or of one ancestor `parent`, main or mapped, taken as if it could move by itself.
    `{ancestor: blocks (node of child, node of ancestor)}`, repeats not summed: `.assemble(shape)`, `.to_bcoo(shape)`,
    `.to_dense(shape)`. Raises `ValueError` for unknown states.
    In units of the child per unit of the ancestor, [m/m, m/rad] of a point on a frame.
    Source: R. Featherstone, *Rigid Body Dynamics Algorithms*, 2008, doi:10.1007/978-1-4899-7560-7, chapter 2.

    Example:

        J = jm.mapping.jacobian(arm, arm_state, "tip")["frame"].to_dense((1, 1))
        assert jnp.allclose(J[:, :3], jnp.eye(3))  # the tip moves with the frame,
        assert jnp.allclose(J[:, 5], jnp.array([0.0, 1.0, 0.0]))  # and along y where it turns about z
    """
    _check_states(system, [child] if parent is None else [child, parent])
    x = kinematics(system, state.position)
    n, size = x[child].shape[0], system.dofs[child].deriv_size
    identity = jnp.broadcast_to(jnp.eye(size, dtype=x[child].dtype), (n, size, size))
    start = {child: Triplets((child, child), jnp.arange(n), jnp.arange(n), identity)}
    if parent == child:
        return start
    ends = frozenset(system.main_states) if parent is None else frozenset([parent])
    return _followed(system, x, start, ends)


def _followed(system: System, x: Fields, rows: Mapping[str, Triplets], ends: frozenset[str]) -> dict[str, Triplets]:
    """The columns of `rows` taken from children to parents, until they stand at `ends`; what never gets there is dropped."""
    pending: dict[str, list[Triplets]] = defaultdict(list)
    for state, triplets in rows.items():
        pending[state].append(triplets)
    for name in reversed(system.mapping_order):
        mapping = system.mappings[name]
        if mapping.child in ends or mapping.child not in pending:
            continue
        J = mapping_jacobian(system, name, x)
        for triplets in pending.pop(mapping.child):
            for parent, blocks in zip(mapping.parents, J, strict=True):
                pending[parent.state].append(expanded(triplets, parent.state, parent.nodes, blocks))
    return {state: joined(parts) for state, parts in sorted(pending.items()) if state in ends}


def expanded(triplets: Triplets, parent: str, nodes: Array, jacobian: Array) -> Triplets:
    """The blocks of `triplets` times one parent's part of the Jacobian of their column state."""
    nodes = nodes.reshape(nodes.shape[0], -1)
    blocks = times_blocks(triplets.blocks[:, None], take_rows(jacobian, triplets.columns))
    rows = jnp.repeat(triplets.rows, nodes.shape[1])
    states = (triplets.states[0], parent)
    return Triplets(states, rows, take_rows(nodes, triplets.columns).reshape(-1), blocks.reshape(-1, *blocks.shape[2:]))


def joined(parts: list[Triplets]) -> Triplets:
    """All blocks of one pair of states in one list."""
    if len(parts) == 1:
        return parts[0]
    return Triplets(
        parts[0].states,
        jnp.concatenate([p.rows for p in parts]),
        jnp.concatenate([p.columns for p in parts]),
        jnp.concatenate([p.blocks for p in parts]),
    )


@compiled
def geometric_product(
    system: System, state: State, u: Mapping[str, Array], forces: Mapping[str, Array] | None = None
) -> Fields:
    """`G u`: minus the change of `J^T f` with the mappings alone, the forces on mapped states kept as they are.

    `u`: displacements of the main states. `forces`: `{state: (nodes, deriv_size)}`, others than those of the scene [N,
    N m], say `H^T lambda` of the multipliers of constraints `g(p) = 0` with `H = dg/dp`. Every mapping takes part in its
    own form (`geometric_stiffness`). Raises `ValueError` for unknown states.
    Displacements [m, rad], result `{state: (nodes, deriv_size)}` [N, N m].
    Source: E. Tournier, M. Nesme, B. Gilles, F. Faure, "Stable constrained dynamics", ACM Trans. Graph. 34(4), 2015,
    doi:10.1145/2766969.

    Example:

        pulled = {"tip": jnp.array([[10.0, 0.0, 0.0]])}  # [N], besides the load: it straightens the arm
        Gu = jm.mapping.geometric_product(arm, arm_state, {"frame": jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.1]])}, pulled)
        assert jnp.allclose(Gu["frame"][0, 5], 1.0)  # force times lever times angle [N m]
    """
    _check_states(system, forces or ())
    system = with_internal(system, state)
    x = kinematics(system, state.position)
    v = velocities(system, x, state.velocity)
    J: dict[str, Jacobian] = {name: mapping_jacobian(system, name, x) for name in system.mapping_order}
    acting = mapped_forces(system, x, v, J, forces)
    moved = dict(u)
    for name in system.mapping_order:
        moved[system.mappings[name].child] = handed_down(system, name, J[name], moved)
    total = zero_forces(system, x)
    for name in reversed(system.mapping_order):
        mapping = system.mappings[name]
        form = geometric_mode(system, mapping, symmetric=False)
        if not mapping.is_linear and form != "none":
            blocks = geometric_blocks(system, name, x, acting[mapping.child], form)
            total = summed(total, mapping.parents, block_products(blocks, gathered(mapping.parents, moved)))
        total = handed_up(system, name, J[name], total)
    return {s: total[s] for s in system.main_states}


def block_products(blocks: tuple[tuple[Array, ...], ...], moved: tuple[Array, ...]) -> tuple[Array, ...]:
    """The element matrices `[s][t]`, `(e, *row axes, *column axes)`, times displacements `[t]`, `(e, *column axes)`."""

    def product(block: Array, a: Array) -> Array:
        return jax.vmap(lambda b, m: jnp.tensordot(b, m, axes=m.ndim))(block, a)

    return tuple(sum(product(b, a) for b, a in zip(row, moved, strict=True)) for row in blocks)  # pyright: ignore


def _check_states(system: System, states: Iterable[str]) -> None:
    for state in states:
        if state not in system.dofs:
            raise ValueError(f"'{state}' is not one of the states {list(system.dofs)}.")
