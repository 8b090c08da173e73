"""Scenes of SOFA written in Python."""

from os import PathLike
from pathlib import Path

from .._runtime.argument_checks import check_choice, check_instance, check_path, plain
from .read.recorder import run_script
from .scene_graph import SOLVERS, SceneGraph

_MOST = 1_000_000  # steps, and seconds


def record(
    path: str | PathLike[str],
    *,
    solver: str = "sofa",
    tree: str | PathLike[str] | None = None,
    steps: int = 0,
    time_limit: float = 60.0,
) -> SceneGraph:
    """**Run** a scene of SOFA that is a Python script, and record what its `createScene(root)` builds. SOFA is not needed.

    The script is run, with all that it may do: in a process of its own, which is killed after `time_limit` [s], but with the
    rights of whoever calls this. Do not record what you would not run. `Sofa`, `Sofa.Core` and `SofaRuntime` are stand-ins
    that know nodes, objects, data, links and controllers. `steps`: how many times `onAnimateBeginEvent` of its controllers
    is called, to record what they write (`SceneGraph.control`); one that reads what a simulation computes is refused.
    Raises `SceneError` where the script fails, with its line, or takes too long.

    Example:

        import pathlib, tempfile
        path = pathlib.Path(tempfile.mkdtemp(), "ball.py")
        _ = path.write_text('''
        def createScene(root):
            root.gravity = [0, -10, 0]
            root.addObject("RungeKutta4Solver")
            ball = root.addChild("ball")
            ball.addObject("MechanicalObject", name="dofs", position=[[0, 0, 0]])
            ball.addObject("UniformMass", totalMass=2)
        ''')
        scene = jm.sofa.record(path)
        assert jnp.allclose(jm.total_force(scene.system, scene.state)["ball/dofs"], jnp.array([[0.0, -20.0, 0.0]]))  # [N]
    """
    check_path("record", path)
    check_choice("record", "solver", solver, SOLVERS)
    if tree is not None:
        check_instance("record", "tree", tree, (str, PathLike))
    steps = plain(steps)
    if not isinstance(steps, int) or isinstance(steps, bool) or not 0 <= steps <= _MOST:
        raise ValueError(f"record: steps must be a whole number from 0 to {_MOST}, got {steps!r:.80}.")
    if isinstance(time_limit, bool) or not isinstance(time_limit, int | float) or not 0 < time_limit <= _MOST:
        raise ValueError(f"record: time_limit must be a number of seconds from 0 to {_MOST}, got {time_limit!r:.80}.")
    found = run_script(Path(path), None if tree is None else str(tree), steps, time_limit)
    return SceneGraph(found.root, found.files, solver, found.changes)
