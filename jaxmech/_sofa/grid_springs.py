"""Springs between the nodes of a regular grid."""

from itertools import product

import numpy as np

from .numerics.spring_laws import LinearisedSprings
from .part_builder import PartBuilder, named
from .read.component import Component


def grid_springs(build: PartBuilder, part: Component) -> str:
    """RegularGridSpringForceField: along the lines of a grid, the diagonals of its squares, and those of its cubes."""
    state = build.state_of(part)
    mesh = build.topology_of(part, state)
    part.neutral(rayleighStiffness=0.0, spring="")
    if mesh.lattice is None:
        raise part.error("acts on the nodes of a RegularGridTopology")
    counts = np.asarray(mesh.lattice)
    steps = [
        mesh.position[s] - mesh.position[0] if n > 1 else np.zeros(3) for s, n in zip(_strides(counts), counts, strict=True)
    ]
    if not np.allclose(mesh.position[-1] - mesh.position[0], (counts - 1) @ steps):
        raise part.error("acts on the nodes of a RegularGridTopology, and its grid is bent")
    pairs, lengths, factors = [], [], []
    for number, name in enumerate(("lines", "quads", "cubes"), start=1):
        both = part.real("stiffness", 100.0), part.real("damping", 5.0)
        k, c = part.real(f"{name}Stiffness", both[0]), part.real(f"{name}Damping", both[1])
        for offset in _offsets(number) if k or c else ():
            found = _apart(counts, offset)
            pairs.append(found)
            lengths += [float(np.linalg.norm(np.asarray(offset) @ steps))] * len(found)
            factors += [(k, c)] * len(found)
    if not lengths:
        raise part.error("its grid has no springs")
    ends, numbers = np.concatenate(pairs), np.asarray(factors)
    build.explicit_damping |= bool(np.any(numbers[:, 1]))
    k, c = (float(a[0]) if len(set(a.tolist())) == 1 else a for a in numbers.T)
    springs = (((state, ends[:, 0]), (state, ends[:, 1])), k, c, np.asarray(lengths))
    build.forces[named(part.object)] = LinearisedSprings(*springs, per_length=True, frozen=build.sofa)
    if isinstance(k, float):
        build.parameter(part, "stiffness", "forces", "stiffness")
    return "a spring's stiffness is this by its length"


def _strides(counts: np.ndarray) -> list[int]:
    return [1, int(counts[0]), int(counts[0] * counts[1])]


def _offsets(number: int) -> list[tuple[int, ...]]:
    """The steps to neighbours that differ in so many axes, one of every two that are opposite."""
    found = [o for o in product((0, 1, -1), repeat=3) if sum(map(abs, o)) == number]
    return [o for o in found if next(step for step in o if step) > 0]


def _apart(counts: np.ndarray, offset: tuple[int, ...]) -> np.ndarray:
    """The pairs of nodes of a grid that are `offset` apart."""
    k, j, i = np.meshgrid(*(np.arange(n) for n in reversed(counts)), indexing="ij")
    places = np.stack([i, j, k], axis=-1).reshape(-1, 3)
    others = places + offset
    there = ((others >= 0) & (others < counts)).all(1)
    return np.stack([places[there] @ _strides(counts), others[there] @ _strides(counts)], axis=1)
