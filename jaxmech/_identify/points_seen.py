"""Where points are, how far they have moved, and how far they are apart."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._math.safe_norm import safe_length
from .._model.system import State, System
from .._runtime.argument_checks import real_array, whole_numbers
from .._runtime.array_types import Array, Float, Int
from .observation import AbstractObservation, Points, check_components, components_of


class Position(AbstractObservation):
    """The coordinates `(p, components)` of points [m]: nodes of a state, `on=(state, nodes)`, mapped ones too, or points
    embedded in cells by barycentric coordinates, `on=(state, probe)` with a `jm.output.Probe` of its mesh.

    `components`: which coordinates are seen, all of them unless given. Raises `ValueError` or `TypeError` for what is no
    such pair, and, of an experiment, states, nodes and coordinates that its scene does not have.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 3 (interpolation).

    Example:

        see = jm.identify.Position(("cube", jm.output.Probe.build(mesh, [[0.5, 0.5, 0.25]])), components=[2])
        assert jnp.allclose(see(system, state), 0.25)  # [m]
    """

    on: Points
    components: tuple[int, ...] | None = eqx.field(static=True)

    def __init__(self, on: Any, components: Any = None):
        self.on, self.components = Points.of("Position", on), components_of("Position", components)

    def __call__(self, system: System, state: State) -> Float[Array, "p c"]:
        x = self.on.positions(system, state)
        return x if self.components is None else x[:, jnp.array(self.components)]

    def check_scene(self, system: System, state: State) -> None:
        check_components("Position", self.components, self.on.check("Position", system, state))


class Displacement(AbstractObservation):
    """How far points have moved `(p, components)` [m] from where they are in `rest`, positions of the nodes of the state.

    `on` and `components` as in `Position`; of points, not of frames. Raises what `Position` raises, and `ValueError` for
    `rest` of another shape.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 3 (interpolation).

    Example:

        see = jm.identify.Displacement(("cube", [6]), mesh.points, components=2)
        assert jnp.allclose(see(system, system.at_rest({"cube": mesh.points + 0.1})), 0.1)  # [m]
    """

    on: Points
    rest: Float[Array, "n d"]
    components: tuple[int, ...] | None = eqx.field(static=True)

    def __init__(self, on: Any, rest: Any, components: Any = None):
        self.on, self.components = Points.of("Displacement", on), components_of("Displacement", components)
        self.rest = jnp.asarray(real_array("Displacement", "rest", rest, (None, None)))

    def __call__(self, system: System, state: State) -> Float[Array, "p c"]:
        u = self.on.positions(system, state) - self.on.of_nodes(self.rest)
        return u if self.components is None else u[:, jnp.array(self.components)]

    def check_scene(self, system: System, state: State) -> None:
        size = self.on.check("Displacement", system, state)
        check_components("Displacement", self.components, size)
        if not system.dofs[self.on.state].is_vector_space:
            raise ValueError(f"Displacement: '{self.on.state}' is not of points; see its Position.")
        if self.on.state in state.position and state.position[self.on.state].shape != self.rest.shape:
            expected = state.position[self.on.state].shape
            raise ValueError(f"Displacement: rest has shape {self.rest.shape}, expected {expected}.")


class Distances(AbstractObservation):
    """How far markers are apart `(m,)` [m]: of `pairs` `(m, 2)` of the points of `on`, numbered as they stand in it.

    `on` as in `Position`, of points. Whatever rigid motion markers and model have to each other, distances are the same.
    Raises `ValueError` for pairs of points that are not in `on`, or of a point and itself.
    Source: I. N. Bronshtein et al., *Handbook of Mathematics*, 6th ed., 2015, section 3.5.3 (the formula of distance).

    Example:

        see = jm.identify.Distances(("cube", [0, 6]), pairs=[[0, 1]])
        assert jnp.allclose(see(system, state), jnp.linalg.norm(mesh.points[6] - mesh.points[0]))  # [m]
    """

    on: Points
    pairs: Int[Array, "m 2"]

    def __init__(self, on: Any, pairs: Any):
        self.on = Points.of("Distances", on)
        numbers = whole_numbers("Distances", "pairs", pairs, (None, 2), self.on.count)
        if not numbers.size or (numbers[:, 0] == numbers[:, 1]).any():
            raise ValueError("Distances: pairs must be of two different points, and at least one.")
        self.pairs = jnp.asarray(numbers, jnp.int32)

    def __call__(self, system: System, state: State) -> Float[Array, " m"]:
        x = self.on.positions(system, state)
        return jax.vmap(safe_length)(x[self.pairs[:, 1]] - x[self.pairs[:, 0]])

    def check_scene(self, system: System, state: State) -> None:
        self.on.check("Distances", system, state)
        if not system.dofs[self.on.state].is_vector_space:
            raise ValueError(f"Distances: '{self.on.state}' is not of points.")
