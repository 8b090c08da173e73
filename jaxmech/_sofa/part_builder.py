"""What the translators of components fill: the states, forces, masses, mappings and constraints of one system."""

from collections.abc import Callable, Container
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from .._constraint.fixed import Fixed
from .._constraint.multiplier import AbstractMultiplierConstraint
from .._integrator.base import AbstractIntegrator
from .._model.system import State, System
from .._scene.dof import AbstractDof, Rigid2, Rigid3, Vec1, Vec2, Vec3
from .numerics.attached import Attached
from .read.component import Component
from .read.coordinates import template
from .read.graph import SceneNode, SceneObject
from .read.links import STATES, of_kind_upward
from .read.scene_data import SceneData
from .read.topology import CELLS, Topology, edges_of, with_faces

_DOFS = {"Vec1": Vec1, "Vec2": Vec2, "Vec3": Vec3, "Rigid2": Rigid2, "Rigid3": Rigid3}


EQUIVALENT = "equivalent: "  # what a remark begins with where a component is not what SOFA computes, but alike
Make = Callable[[System, State], AbstractIntegrator]  # what a time integrator of a scene becomes


class Leaf(NamedTuple):
    """Where in a system a number of the scene is: a function of the system, which `equinox.tree_at` takes."""

    group: str
    component: str = ""
    field: str = ""

    def __call__(self, system: System) -> Any:
        found = getattr(system, self.group)
        found = found[self.component] if self.component else found
        return attrgetter(self.field)(found) if self.field else found


def named(object: SceneObject) -> str:
    """The name of a component in the system: its path without `@/`."""
    return object.path.removeprefix("@/")


def dof_of(state: SceneObject) -> AbstractDof:
    """The degrees of freedom of a mechanical state, by its template."""
    return _DOFS[template(state)]()


def refuse_second(object: SceneObject, kinds: Container[str], what: str) -> None:
    """Refuse a second component of which SOFA permits one in a node, and says that "the behavior is undefined"."""
    first = next(o for o in object.node.objects if o.kind in kinds)
    if first is not object:
        raise object.error(f"is a second {what} of its node, beside {first.path}: SOFA permits one")


class PartBuilder:
    """All that a time integrator moves: the objects `within`. `sofa`: as SOFA does it, else exact."""

    def __init__(self, data: SceneData, node: SceneNode, within: list[SceneObject], *, sofa: bool):
        self.data, self.node, self.within, self.sofa = data, node, within, sofa
        self.dofs: dict[str, AbstractDof] = {}
        self.position: dict[str, np.ndarray] = {}
        self.rest: dict[str, np.ndarray] = {}
        self.velocity: dict[str, np.ndarray] = {}
        self.forces: dict[str, Any] = {}
        self.masses: dict[str, Any] = {}
        self.weights: dict[str, tuple[str, np.ndarray]] = {}  # masses of nodes, where gravity acts on others than inertia
        self.mappings: dict[str, Any] = {}
        self.constraints: dict[str, Any] = {}
        self.contacts: dict[str, Any] = {}
        self.attached: list[Attached] = []  # nodes that follow others when a step is over
        self.joined: list[SceneObject] = []  # other time integrators, which move what is one system with this one's
        self.held: set[str] = set()  # states of nodes that stand still
        self.rayleigh: dict[str, float] = {}
        self.parameters: dict[tuple[str, str], Leaf] = {}
        self.shared: dict[tuple[str, str], tuple[Leaf, int]] = {}  # of totals, and among how many nodes
        self.implicit_damping = False  # of a force field, in the matrix of SOFA's steps
        self.explicit_damping = False  # not in it
        self.skew = False  # a stiffness is not symmetric, in SOFA's matrix neither
        self._nearest: dict[SceneNode, SceneObject | None] = {}
        self._many_rests = set[str]()  # states whose rest positions more than one force field reads
        self.cut: set[str] = set()  # force fields whose cells are no cells of their topology

    def parameter(self, part: Component, data: str, group: str, field: str = "") -> None:
        """Say where in the system a number of the scene is."""
        self.parameters[part.object.path, data] = Leaf(group, named(part.object), field)

    def rest_parameter(self, state: str, force: str, field: str) -> None:
        """Say where the rest positions of a state are read in each step, if one force field alone does."""
        key = (f"@/{state}", "rest_position")
        if key in self.parameters or state in self._many_rests:
            self.parameters.pop(key, None)
            self._many_rests.add(state)
        else:
            self.parameters[key] = Leaf("forces", force, field)

    def share(self, part: Component, data: str, group: str, field: str, nodes: int) -> None:
        """Say where in the system the share of each node of a total is."""
        self.shared[part.object.path, data] = Leaf(group, named(part.object), field), nodes

    def add_state(self, state: SceneObject, x: dict[str, np.ndarray], *, mapped: bool = False) -> None:
        """A state with its positions."""
        refuse_second(state, STATES, "mechanical state")
        name = named(state)
        self.dofs[name] = dof_of(state)
        self.position[name], self.rest[name] = x["position"], x["rest_position"]
        if "velocity" in x:
            self.velocity[name] = x["velocity"]
        if mapped:
            self.velocity.pop(name, None)

    @property
    def couples(self) -> bool:
        """Whether there are contacts, or constraints with multipliers."""
        return bool(self.contacts) or any(isinstance(c, AbstractMultiplierConstraint) for c in self.constraints.values())

    def hold(self, name: str, x: np.ndarray) -> None:
        """A state of points that stand still."""
        self.dofs[name], self.position[name], self.rest[name] = Vec3(), x, x
        self.constraints[f"{name}/held"] = Fixed((name, np.arange(len(x))))
        self.held.add(name)

    def has_frames(self, state: str) -> bool:
        """Whether the nodes of a state are frames."""
        return isinstance(self.dofs[state], Rigid2 | Rigid3)

    def state_of(self, part: Component) -> str:
        """The state that a component acts on: the one in its node, or above."""
        state = part.link("mstate") or self._nearest_state(part.object.node)
        if not isinstance(state, SceneObject) or named(state) not in self.dofs:
            raise part.error("there is no mechanical state that it acts on, in its node or above")
        return named(state)

    def _nearest_state(self, node: SceneNode) -> SceneObject | None:
        """The state in a node, or above, looked for once: a node may have thousands of components."""
        if node not in self._nearest:
            self._nearest[node] = of_kind_upward(node, lambda o: o.kind in STATES)
        return self._nearest[node]

    def topology_of(self, part: Component, state: str, *cells: str) -> Topology:
        """The topology of a component, whose cells name nodes of its state; one kind of `cells` at least is there."""
        mesh = self.data.topology_for(part)
        found = [getattr(mesh, name) for name in cells]
        if not any(len(c) for c in found) and {"triangles", "quads"} & set(cells):
            mesh = with_faces(mesh)
            found = [getattr(mesh, name) for name in cells]
        if cells == ("edges",) and not len(mesh.edges):
            mesh = edges_of(mesh)
            found = [mesh.edges]
            if len(mesh.edges) and part.has("restLengths"):
                raise part.error("restLengths need edges that its topology lists: others are in no order")
        if cells and not any(len(c) for c in found):
            raise part.error(f"its topology has no {' and no '.join(cells)}")
        count = len(self.position[state])
        for name in cells or CELLS:
            c = getattr(mesh, name)
            if c.size and c.max() >= count:
                raise part.error(f"{name} of its topology name node {c.max()}, but its state has {count}")
        return mesh

    def indices(self, part: Component, state: str, name: str = "indices", default: Any = None) -> np.ndarray:
        """Node numbers of a state, each once."""
        numbers = part.wholes(name, default)
        if numbers is None:
            raise part.error(f"has no {name}, the nodes that it acts on")
        numbers = np.asarray(numbers, np.int64)
        count = len(self.position[state])
        wrong = numbers[(numbers < 0) | (numbers >= count)]
        if wrong.size:
            raise part.error(f"{name} names node {wrong[0]}, but there are {count}")
        return numbers[np.sort(np.unique(numbers, return_index=True)[1])]
