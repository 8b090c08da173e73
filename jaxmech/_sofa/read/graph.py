"""The scene graph as it was written: nodes, objects, and their data as text."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from .scene_error import SceneError


@dataclass(eq=False)
class SceneObject:
    """One component of a scene: its class, its data as they were written, and where.

    `own`: the data that stand in the file itself, at these places; data that a script computed stand in none.
    """

    kind: str
    data: dict[str, str]
    file: str
    line: int
    node: "SceneNode"
    name: str = ""
    number: int = -1  # which element of its file it is, in the order of the file; -1: none

    @property
    def path(self) -> str:
        """`@/node/name`."""
        return f"{self.node.path.rstrip('/')}/{self.name}"

    def error(self, reason: str) -> SceneError:
        """What is wrong with this component, at its place."""
        return SceneError(reason, file=self.file, line=self.line, component=f"{self.path} ({self.kind})")


@dataclass(eq=False)
class SceneNode:
    """A node of a scene: its data, and its children and objects in the order in which they were written.

    `active`: whether SOFA asks what is in it and below.
    """

    name: str
    data: dict[str, str]
    file: str
    line: int
    parent: "SceneNode | None" = None
    content: list["SceneNode | SceneObject"] = field(default_factory=list)
    active: bool = True

    @property
    def objects(self) -> list[SceneObject]:
        """The objects of this very node."""
        return [item for item in self.content if isinstance(item, SceneObject)]

    @property
    def children(self) -> list["SceneNode"]:
        """The nodes right below."""
        return [item for item in self.content if isinstance(item, SceneNode)]

    @property
    def path(self) -> str:
        """`@/`, `@/node`, `@/node/below`."""
        if self.parent is None:
            return "@/"
        return f"{self.parent.path.rstrip('/')}/{self.name}"

    @property
    def root(self) -> "SceneNode":
        """The node above all."""
        return self if self.parent is None else self.parent.root

    def walk(self) -> Iterator[SceneObject]:
        """All objects of this node and below, of those that are active, in the order of the file."""
        for item in self.content if self.active else ():
            if isinstance(item, SceneObject):
                yield item
            else:
                yield from item.walk()

    def nodes(self) -> "Iterator[SceneNode]":
        """This node and all below, each after the one that it is in."""
        yield self
        for below in self.children:
            yield from below.nodes()

    def error(self, reason: str) -> SceneError:
        """What is wrong with this node, at its place."""
        return SceneError(reason, file=self.file, line=self.line, component=f"{self.path} (Node)")

    def tree(self, indent: str = "") -> list[str]:
        """The lines of a picture of what is below."""
        lines = []
        for item in self.content:
            if isinstance(item, SceneObject):
                data = " ".join(f"{name}={_short(text)}" for name, text in item.data.items() if name != "name")
                lines.append(f"{indent}  {item.kind} {item.name}" + (f": {data}" if data else ""))
            else:
                lines += [f"{indent}  [{item.name}]", *item.tree(indent + "  ")]
        return lines


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 40 else f"{words[:37]}..."


# Other names under which SOFA knows, or knew, a class.
_ALSO = {
    "EulerImplicitSolver": "ImplicitEuler ImplicitEulerSolver",
    "EulerExplicitSolver": "Euler EulerExplicit EulerSolver ExplicitEuler ExplicitEulerSolver",
    "RungeKutta2Solver": "RungeKutta2",
    "RungeKutta4Solver": "RungeKutta4",
    "CentralDifferenceSolver": "CentralDifference",
    "VariationalSymplecticSolver": "VariationalSolver",
    "DampVelocitySolver": "DampVelocity",
    "CGLinearSolver": "CGSolver ConjugateGradient",
    "MinResLinearSolver": "MINRESSolver MinResSolver",
    "SVDLinearSolver": "SVD SVDLinear",
    "JacobiPreconditioner": "JacobiLinearSolver JacobiSolver",
    "SSORPreconditioner": "SSORLinearSolver SSORSolver",
    "FreeMotionAnimationLoop": "FreeMotionMasterSolver",
    "MultiStepAnimationLoop": "MultiStepMasterSolver",
    "MeshOBJLoader": "MeshObjLoader",
    "SubsetMapping": "SurfaceIdentityMapping",
    "LineProjectiveConstraint": "ProjectToLineConstraint",
    "PlaneProjectiveConstraint": "ProjectToPlaneConstraint",
    "PointProjectiveConstraint": "ProjectToPointConstraint",
    "IncrSAP": "IncrementalSAP IncrementalSweepAndPrune",
    "BackgroundSetting": "Background",
    "ViewerSetting": "Viewer",
    "StatsSetting": "Stats",
    "SofaDefaultPathSetting": "SofaDefaultPath",
    "OBJExporter": "ObjExporter",
    "TriangleCollisionModel": "TriangleModel TriangleMeshModel TriangleSetModel",
    "LineCollisionModel": "LineModel",
    "PointCollisionModel": "PointModel",
    "SphereCollisionModel": "SphereModel",
}
_CLASSES = {other: kind for kind, others in _ALSO.items() for other in others.split()}
_FAMILIES = ("MechanicalObject", "Mass", "Mapping", "Constraint")


def finish(root: SceneNode) -> None:
    """Give every object without a name one: its class and how many of it the node has had. A name that a node, or an object
    of its family, has already had there is numbered: links lead to the first. Classes get the one name that they are
    translated by."""
    stack = [root]
    while stack:
        node = stack.pop()
        counts: dict[str, int] = {}
        taken: dict[tuple[str, str], int] = {}
        for item in node.objects:
            counts[item.kind] = counts.get(item.kind, 0) + 1
            name = item.data.get("name", "").strip().replace("/", "|") or f"{item.kind}{counts[item.kind]}"
            family = next((end for end in _FAMILIES if item.kind.endswith(end)), "")
            item.name = _numbered(name, family, taken)
            item.kind = _CLASSES.get(item.kind, item.kind)
        for below in node.children:
            below.name = _numbered(below.name, "Node", taken)
        stack += node.children


def _numbered(name: str, family: str, taken: dict[tuple[str, str], int]) -> str:
    taken[family, name] = number = taken.get((family, name), 0) + 1
    return name if number == 1 else _numbered(f"{name}~{number}", family, taken)
