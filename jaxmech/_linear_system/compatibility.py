"""Whether a scene is the one that a linear system was built for."""

import functools
import hashlib
import weakref
from collections.abc import Mapping

import jax
import numpy as np

from .._constraint.base import AbstractProjectiveConstraint
from .._constraint.multiplier import AbstractMultiplierConstraint
from .._model.once_per_scene import once_per_scene
from .._model.scene_checks import component_stencils
from .._model.subsystem import without_unloaded
from .._model.system import State, System
from .._runtime.array_types import Array, UInt8
from .._runtime.host_arrays import as_data
from .._scene.parameter import is_concrete
from .._sparse.block_matrix import BlockMatrix, Pair, Sizes
from .._sparse.pattern import BlockPattern

# A part of a scene by its family and name, and everything in it that a pattern depends on but node numbers.
Signature = tuple[tuple[tuple[str, str], str], ...]
BuiltFor = tuple[Signature, UInt8[Array, "32"]]  # and the digest of the node numbers


def signature(system: System) -> Signature:
    """What a scene is made of: names, kinds, and where they act. Static; numbers, node numbers too, may change.

    Mapped states that nothing acts on have no part in a matrix, and none in this.
    """
    system = without_unloaded(system)
    states = {("state", name): type(dof).__name__ for name, dof in system.dofs.items()}
    parts = {}
    for family in ("forces", "masses", "constraints"):
        for name, component in getattr(system, family).items():
            parts[family, name] = _words(component, component.on)
    for name, mapping in system.mappings.items():
        form = f", geometric stiffness '{mapping.geometric_stiffness}'"
        parts["mappings", name] = f"{_words(mapping, mapping.parents)} to '{mapping.child}'{form}"
    parts |= {("rayleigh", name): "a coefficient" for name in system.rayleigh}
    if system.gravity is not None:
        parts["gravity", ""] = "an acceleration"
    return tuple((states | parts).items())


def _words(component: object, on: tuple) -> str:
    named = isinstance(component, AbstractMultiplierConstraint | AbstractProjectiveConstraint)
    kind = component.kind if named else type(component).__name__
    return f"{kind} on " + " and ".join(f"'{s.state}' {tuple(s.nodes.shape)}" for s in on)


def check_fit(who: str, built: Signature, sizes: Sizes, system: System, state: State) -> None:
    """Raise `ValueError` unless a scene and a state are of the shapes that a linear system was built for.

    Everything looked at is static: nothing is lost under `jit`, and nothing is spent in a compiled program.
    """
    own_states, given = [s for s, _, _ in sizes], list(state.position)
    if sorted(own_states) != sorted(given):
        raise ValueError(f"{who} was built for the main states {own_states}, and is given {given}: build it again.")
    expected = {s: (n, system.dofs[s].coord_size) for s, n, _ in sizes}
    found = {s: tuple(x.shape) for s, x in state.position.items()}
    if found != expected:
        raise ValueError(f"{who} was built for positions of shapes {expected}, and is given {found}: build it again.")
    rates = {s: (n, d) for s, n, d in sizes}
    found = {s: tuple(v.shape) for s, v in state.velocity.items()}
    if found != rates:
        raise ValueError(f"{who} was built for velocities of shapes {rates}, and is given {found}.")
    own, other = dict(built), dict(signature(system))
    if own == other:
        return
    for part in [*own, *other]:
        if own.get(part) != other.get(part):
            raise ValueError(
                f"{who} was built for another scene: {' '.join(part).strip()} was {own.get(part, 'not there')}, and is "
                f"{other.get(part, 'not there')}. Build it again."
            )


def check_pattern(who: str, matrix: BlockMatrix, sizes: Sizes, patterns: Mapping[Pair, BlockPattern]) -> None:
    """Raise `ValueError` unless a matrix is of a pattern, as far as static sizes tell."""
    found = {pair: entry.pattern.blocks for pair, entry in matrix.entries.items()}
    expected = {pair: pattern.blocks for pair, pattern in patterns.items()}
    if matrix.sizes != sizes or found != expected:
        raise ValueError(
            f"{who}: the matrix is of states {matrix.sizes} with blocks {found}, the linear system of {sizes} with "
            f"{expected}: it is another's."
        )


def check_topology(who: str, built_for: BuiltFor | None, system: System) -> None:
    """Raise `ValueError` for a scene of the same parts whose node numbers are others, where they can be looked at.

    To be called before anything is traced: within `jit`, numbers that are arguments are not known.
    """
    if built_for is None:
        return
    parts, digest = built_for
    if not is_concrete(digest):
        return
    found = _topology(system)
    if found not in (None, np.asarray(digest).tobytes()) and parts == signature(system):
        raise ValueError(f"{who} was built for a scene of the same sizes with other node numbers. Build it again.")


def topology(system: System) -> UInt8[Array, "32"]:
    """A digest (SHA-256) of the node numbers of every component. Host work."""
    digest = _topology(system)
    assert digest is not None, "node numbers that are traced have no digest"
    return as_data(np.frombuffer(digest, np.uint8))


@once_per_scene
def _topology(system: System) -> tuple[bytes | None, bool]:
    """The digest, None where numbers cannot be looked at; and whether they are of arrays, which stay what they are."""
    on = sorted(component_stencils(without_unloaded(system)), key=lambda item: item[0])
    nodes = [s.nodes for _, stencils in on for s in stencils]
    if not is_concrete(*nodes):
        return None, False
    whole = hashlib.sha256()
    for name, stencils in on:
        whole.update(name.encode())
        for s in stencils:
            whole.update(_digest(s.nodes))
    return whole.digest(), all(isinstance(n, jax.Array) for n in nodes)


# What was read of arrays that are still there: they never change, and every eager step asks. By identity.
_digests: dict[int, tuple[weakref.ref, bytes]] = {}


def _digest(nodes: Array) -> bytes:
    """A digest of the numbers of one array."""
    key = id(nodes)
    if key in _digests and _digests[key][0]() is nodes:
        return _digests[key][1]
    digest = hashlib.sha256(np.ascontiguousarray(nodes, np.int32)).digest()
    if isinstance(nodes, jax.Array):
        _digests[key] = weakref.ref(nodes, functools.partial(_digests.pop, key)), digest
    return digest


def no_attribute(owner: object, name: str) -> str:
    """What to say of an attribute that is not there: of the methods that carries replaced, what to write."""
    words = f"'{type(owner).__name__}' object has no attribute '{name}'"
    if name not in ("prepared", "refreshed"):
        return words
    return (
        f"{words}: what is kept is made by `carry = integrator.init(system, state)` and handed on by `state, carry, info = "
        "integrator.step(system, state, carry, dt)`; of a linear system, by `init`, `updated` and `using`."
    )
