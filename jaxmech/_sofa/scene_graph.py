"""What `load` and `record` give: a scene of SOFA, and what it is in jaxmech."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any

from .._integrator.base import AbstractIntegrator
from .._model.system import State, System
from .._runtime.argument_checks import check_choice, check_instance, check_path
from .controllers import control_of
from .parameters import leaf_of, replaced_in_file
from .read.component import DRAWING
from .read.graph import SceneNode
from .read.scene_data import SceneData
from .read.scene_error import SceneError, shown
from .read.scene_files import SceneFiles
from .read.xml_reader import read_xml
from .report import Report
from .translation import Part, translated

SOLVERS = ("sofa", "exact")


class SceneGraph:
    """A scene of SOFA: the graph as it was written, and its system, state and integrator. `print` draws it as a tree.

    `solver`: "sofa" computes what SOFA does, with its unconverged solvers and its approximate tangents; "exact" the same
    laws with their true tangents, Newton's method to convergence and direct solvers. Nothing is translated before it is
    asked for. A scene with several time integrators has several `parts`; `system`, `state` and `integrator` are those of a
    scene with one. Units are those of the scene. Raises `SceneError` for what is not translated, with the first reason;
    `report` has all, and raises nothing.
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125.

    Example:

        import pathlib, tempfile
        path = pathlib.Path(tempfile.mkdtemp(), "ball.scn")
        _ = path.write_text('''<Node name="root" dt="0.1" gravity="0 -10 0">
          <RungeKutta4Solver/>
          <MechanicalObject name="ball" position="0 0 0"/>
          <UniformMass totalMass="2"/>
        </Node>''')
        scene = jm.sofa.load(path)
        run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=10)
        assert jnp.allclose(run.last.position["ball"], jnp.array([[0.0, -5.0, 0.0]]), atol=1e-5)  # g t^2 / 2 [m]
    """

    def __init__(self, root: SceneNode, files: SceneFiles, solver: str = "sofa", changes: Sequence[Mapping[str, str]] = ()):
        check_choice("SceneGraph", "solver", solver, SOLVERS)
        self.changes = tuple(changes)  # what the controllers of a script wrote in each step
        self.root, self.solver, self.data = root, solver, SceneData(root, files)

    @cached_property
    def _translation(self) -> tuple[list[Part], Report]:
        return translated(self.root, self.data, self.solver)

    @property
    def report(self) -> Report:
        """What became of each component: equal, equivalent, read, ignored, created or refused, and why."""
        return self._translation[1]

    @property
    def parts(self) -> dict[str, Part]:
        """What each time integrator of the scene moves, by the name of its node."""
        parts, report = self._translation
        refused = report.of("refused")
        if refused:
            more = f" (and {len(refused) - 1} more: see the report)" if len(refused) > 1 else ""
            raise _Refused(refused[0].remark + more, refused[0])
        return {part.name: part for part in parts}

    def part(self, name: str | None = None) -> Part:
        """One of the parts, the only one unless named. Raises `SceneError` where there are others, or none of that name."""
        if name is not None:
            check_instance("SceneGraph", "name of a part", name, str)
        parts = self.parts
        if name is None and len(parts) == 1:
            return next(iter(parts.values()))
        if name not in parts:
            what = "there is no time integrator" if not parts else f"scene.part(name) needs one of {sorted(parts)}"
            raise self.root.error(what if name is None else f"there is no part {shown(name)}; {what}")
        return parts[name]

    @property
    def system(self) -> System:
        """The system of a scene with one time integrator."""
        return self.part().system

    @property
    def state(self) -> State:
        """Its state at the start."""
        return self.part().state

    @property
    def integrator(self) -> AbstractIntegrator:
        """Its time integrator, with linear system and solver."""
        return self.part().integrator

    @property
    def dt(self) -> float:
        """The time step of the root [s]."""
        return self.part().dt

    def where(self, path: str, part: str | None = None) -> Callable[[System], Any]:
        """The leaf of the system that a number of the scene is, `"@/beam/fem.youngModulus"` say: for `equinox.tree_at`.

        Raises `SceneError` for a path that names no such number, and lists those there are.
        """
        return leaf_of(self.part(part).parameters, path, self.root)

    def write(self, path: str | PathLike[str], system: System, part: str | None = None) -> dict[str, str]:
        """Write the scene's own file to `path`, with the numbers of `system` in place of its own; what was replaced.

        Only numbers that stand in that file change, every other byte stays. Raises `SceneError` for a number that has
        changed and stands elsewhere: in an included file, or behind a link.
        """
        check_path("SceneGraph.write", path)
        check_instance("SceneGraph.write", "system", system, System)
        chosen = self.part(part)
        return replaced_in_file(self.root, chosen.parameters, chosen.system, system, path)

    def control(self, part: str | None = None) -> Callable[[Any, State, Any], Any] | None:
        """What the controllers of a recorded script write in each step, as `simulate(..., control=...)` takes it.

        None where there is nothing to write. Raises `SceneError` for data that are no number of the system.
        """
        changes = [{path: text for path, text in step.items() if self._may_move(path, part)} for step in self.changes]
        return control_of(changes, self.part(part), self.root)

    def _may_move(self, path: str, part: str | None) -> bool:
        """Whether data that were written may be a number of this part: not what is drawn, nor another part's."""
        owner, _, name = path.rpartition(".")
        fates = {row.fate for row in self.report.rows if row.component.startswith(f"{owner} (")}
        elsewhere = any((owner, name) in p.parameters | p.shared for p in self.parts.values() if p is not self.part(part))
        return fates != {"ignored"} and not name.startswith(DRAWING) and not elsewhere

    def __str__(self) -> str:
        return "\n".join([f"[{self.root.name}]", *self.root.tree()])

    def __repr__(self) -> str:
        return f"<SceneGraph {self.root.file}: {sum(1 for _ in self.root.walk())} objects>"


class _Refused(SceneError):
    """Why a scene is not translated, at the place of the first component that is refused."""

    def __init__(self, reason: str, row: Any):
        ValueError.__init__(self, reason)
        self.file, self.line, self.component = row.file, row.line, row.component


def load(path: str | PathLike[str], *, solver: str = "sofa", tree: str | PathLike[str] | None = None) -> SceneGraph:
    """Read a scene of SOFA in XML (`.scn`, `.xml`). It is taken for untrusted input: nothing of it is executed.

    `solver`: "sofa" or "exact", see `SceneGraph`. `tree`: the folder that no file may lie outside of; unless given, the
    nearest above the scene with a folder `share`, where meshes are looked for as well, else the scene's own. Units are
    those of the scene. Raises `SceneError`, with file, line and component.

    Example:

        import pathlib, tempfile
        path = pathlib.Path(tempfile.mkdtemp(), "empty.scn")
        _ = path.write_text('<Node name="root"><Node name="beam"/></Node>')
        assert "beam" in str(jm.sofa.load(path))
    """
    check_path("load", path)
    check_choice("load", "solver", solver, SOLVERS)
    if tree is not None:
        check_instance("load", "tree", tree, (str, PathLike))
    root, files = read_xml(str(path), None if tree is None else str(tree))
    return SceneGraph(root, files, solver)
