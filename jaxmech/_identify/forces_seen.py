"""Forces at grips, and through a cut."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._model.system import State, System
from .._output.resultants import section_force
from .._runtime.argument_checks import check_instance, numeric_array, real_array, whole_numbers
from .._runtime.array_types import Array, Float, Int
from .._solve.static import reactions
from .observation import AbstractObservation


class Reaction(AbstractObservation):
    """The force [N] with which constraints hold nodes of a main state, summed: what a load cell at a grip shows.

    `on=(state, nodes)`, each of which counts once; `(d,)` numbers, those of the state's velocities (of a frame, force and
    torque), or one along `direction` `(d,)`, which need not be of unit length. In equilibrium: inertia has no part in it.
    Raises `ValueError` or `TypeError` for nodes that are none, a direction that does not fit the scene.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4.

    Example:

        see = jm.identify.Reaction(("cube", mesh.nodes_where(lambda x: x[:, 0] == 0.0)), direction=[0.0, 0.0, 1.0])
        loaded = jm.static_solve(system, state, linear_system).state
        assert jnp.allclose(see(system, loaded), 10e3, rtol=1e-4)  # the weight of a tonne [N]
    """

    state: str = eqx.field(static=True)
    nodes: Int[Array, " n"]
    direction: Float[Array, " d"] | None

    def __init__(self, on: Any, direction: Any = None):
        if not isinstance(on, tuple | list) or len(on) != 2 or not isinstance(on[0], str):
            raise TypeError(f"Reaction: on must be (state, nodes), got {on!r:.80}.")
        self.state = on[0]
        given = np.asarray(numeric_array("Reaction", "the nodes of on", on[1]))
        nodes = np.unique(whole_numbers("Reaction", "the nodes of on", np.atleast_1d(given), (None,)))
        if not nodes.size:
            raise ValueError(f"Reaction: on names no nodes of '{on[0]}'.")
        self.nodes = jnp.asarray(nodes, jnp.int32)
        self.direction = None
        if direction is not None:
            self.direction = jnp.asarray(real_array("Reaction", "direction", direction, (None,)))
            if not bool(jnp.any(self.direction != 0)):
                raise ValueError("Reaction: direction is zero.")

    def __call__(self, system: System, state: State) -> Float[Array, "..."]:
        force = jnp.sum(reactions(system, state)[self.state][self.nodes], axis=0)
        return force if self.direction is None else force @ self.direction

    def check_scene(self, system: System, state: State) -> None:
        if self.state not in system.main_states:
            raise ValueError(f"Reaction: on names '{self.state}', which is not one of {list(system.main_states)}.")
        count, size = len(state.position[self.state]), system.dofs[self.state].deriv_size
        if int(np.max(np.asarray(self.nodes))) >= count:
            raise ValueError(f"Reaction: on names node {int(np.max(np.asarray(self.nodes)))}, there are {count}.")
        if self.direction is not None and self.direction.shape != (size,):
            raise ValueError(f"Reaction: direction has shape {self.direction.shape}, expected ({size},).")


class SectionForce(AbstractObservation):
    """The force [N] and the moment [N m] through a cut, in one row: `(2 + 1,)` in the plane, `(3 + 3,)` in space.

    `side` and `about`: as in `jm.output.section_force`. Raises what that raises, when an experiment is made.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, section 4.2.1.

    Example:

        bar = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0), kind="quad")
        solid = jm.force.QuadFEM.from_mesh("bar", bar, jm.material.LinearElastic(1e3, 0.0))
        scene = jm.System({"bar": jm.Vec2()}, forces={"solid": solid})
        pulled = scene.at_rest({"bar": bar.points * jnp.array([1.01, 1.0])})
        see = jm.identify.SectionForce({"solid": [1]})  # the right half
        assert jnp.allclose(see(scene, pulled), jnp.array([-10.0, 0.0, 0.0]))  # [N], [N], [N m]
    """

    side: tuple[tuple[str, tuple[int | bool, ...]], ...] = eqx.field(static=True)
    about: Array | None

    def __init__(self, side: Mapping[str, Any], about: Any = None):
        check_instance("SectionForce", "side", side, Mapping)
        if not side or not all(isinstance(name, str) for name in side):
            raise TypeError(f"SectionForce: side must be {{force field: elements}}, got {side!r:.80}.")
        given = {name: np.asarray(elements) for name, elements in side.items()}
        wrong = [name for name, elements in given.items() if elements.dtype.kind not in "iub" or elements.ndim != 1]
        if wrong:
            raise TypeError(f"SectionForce: side of '{wrong[0]}' must be whole numbers of elements, or a mask.")
        self.side = tuple((name, tuple(elements.tolist())) for name, elements in given.items())
        self.about = None if about is None else jnp.asarray(real_array("SectionForce", "about", about, (None,)))
        if self.about is not None and self.about.shape not in ((2,), (3,)):
            raise ValueError(f"SectionForce: about must be two or three coordinates, got {self.about.shape}.")

    def __call__(self, system: System, state: State) -> Float[Array, " f"]:
        found = section_force(system, state, self._elements(), about=self.about)
        return jnp.concatenate([found.force, jnp.atleast_1d(found.moment)])

    def check_scene(self, system: System, state: State) -> None:
        section_force(system, state, self._elements(), about=self.about)

    def _elements(self) -> dict[str, np.ndarray]:
        return {name: np.array(elements) for name, elements in self.side}
