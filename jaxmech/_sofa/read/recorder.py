"""Scenes written in Python: run in a process of their own, with a stand-in for SOFA, and recorded."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from .graph import SceneNode, SceneObject, finish
from .scene_error import SceneError
from .scene_files import SceneFiles

_CHILD = Path(__file__).with_name("recorder_child.py")
_MOST_BYTES = 256 * 2**20
_MOST_DEPTH = 100


class Recording(NamedTuple):
    """A scene, the files that it may read, and what its controllers wrote in each step: `{"@/path.data": text}`."""

    root: SceneNode
    files: SceneFiles
    changes: list[dict[str, str]]


def run_script(path: Path, tree: str | None, steps: int, time_limit: float) -> Recording:
    """Run `createScene` of a script, and the events of its controllers. Raises `SceneError` where it fails, or takes longer
    than `time_limit` [s]."""
    if not path.is_file():
        raise SceneError("there is no such file at this path", file=path)
    files = SceneFiles(path, tree)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "scene.json")
        command = [sys.executable, "-I", str(_CHILD), str(path.resolve()), str(output), str(steps)]
        complaint = _run(command, path, time_limit)
        if not output.is_file():
            raise SceneError(complaint, file=path, line=_line_of(complaint, path))
        if output.stat().st_size > _MOST_BYTES:
            raise SceneError(f"the recorded scene has more than {_MOST_BYTES} bytes", file=path)
        recorded = json.loads(output.read_text("utf-8"))
    root = _node(recorded["graph"], str(path.resolve()), None, 0)
    finish(root)
    return Recording(root, files, recorded["changes"])


def _run(command: list[str], path: Path, time_limit: float) -> str:
    """Run to the end, or to the time limit; what it says of a failure."""
    process = subprocess.Popen(
        command,
        cwd=path.resolve().parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        said = process.communicate(timeout=time_limit)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise SceneError(f"createScene took longer than {time_limit:g} s", file=path) from None
    return said.decode("utf-8", "replace").strip()[-2000:] or f"the script ended with status {process.returncode}"


def _line_of(complaint: str, path: Path) -> int:
    lines = re.findall(rf'File "{re.escape(str(path.resolve()))}", line (\d+)', complaint)
    return int(lines[-1]) if lines else 0


def _node(item: dict[str, Any], file: str, parent: SceneNode | None, depth: int) -> SceneNode:
    if depth > _MOST_DEPTH:
        raise SceneError(f"nodes are nested more than {_MOST_DEPTH} deep", file=file, line=item["line"])
    node = SceneNode(item["name"], item["data"], file, item["line"], parent)
    for one in item["content"]:
        if "kind" in one:
            data = {"name": one["name"]} | one["data"]
            node.content.append(SceneObject(one["kind"], data, file, one["line"], node))
        else:
            node.content.append(_node(one, file, node, depth + 1))
    return node
