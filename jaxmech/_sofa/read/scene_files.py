"""The files that a scene may read: within its tree, plain, and not too large."""

import stat
from pathlib import Path

from .scene_error import SceneError, shown

MOST_BYTES = 64 * 2**20


class SceneFiles:
    """Looks for the files that a scene names: beside the file that names them, then in `share/` of its tree.

    `tree`: the folder that nothing may leave. Unless given, the nearest one above the scene that has a `share` folder, which
    is how SOFA lays out its own; else the folder of the scene. What is read in all is bounded.
    """

    def __init__(self, scene: Path, tree: str | Path | None = None):
        self.scene = scene
        folder = scene.resolve().parent
        shared = [up for up in (folder, *folder.parents) if (up / "share").is_dir() and up != up.parent]
        self.tree = Path(tree).resolve() if tree is not None else (shared[0] if shared else folder)
        if not folder.is_relative_to(self.tree):
            raise SceneError(f"the scene is not within its tree {shown(str(self.tree))}", file=scene)
        self.left = 4 * MOST_BYTES

    def find(self, name: str, beside: str, error) -> Path:
        """The file called `name` in one in the folder of `beside`. `error(reason)` makes what is raised."""
        if not name or "\0" in name or len(name) > 4096:
            raise error(f"{shown(name)} is no file name")
        folder = Path(beside).resolve().parent
        outside = None
        for place in (folder / name, self.tree / "share" / name, self.tree / name):
            try:
                real = place.resolve()
                if not real.is_file():
                    continue
            except (OSError, RuntimeError):
                continue
            if real.is_relative_to(self.tree):
                return real
            outside = real
        if outside is not None:
            raise error(f"{shown(name)} leads out of the tree of the scene, {self.tree}; a larger one is `tree=...`")
        raise error(f"there is no file {shown(name)} beside {beside} or in {self.tree / 'share'}")

    def read(self, path: Path, error) -> bytes:
        """The bytes of a plain file of bounded size."""
        try:
            info = path.stat()
            if not stat.S_ISREG(info.st_mode):
                raise error(f"{path} is no plain file")
            if info.st_size > MOST_BYTES or info.st_size > self.left:
                raise error(f"{path} has {info.st_size} bytes, more than the {MOST_BYTES} that a scene may read at once")
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as problem:
            raise error(f"cannot read {path}: {problem.strerror or problem}") from None
        self.left -= len(content)
        return content
