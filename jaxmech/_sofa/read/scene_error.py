"""What is wrong with a scene, and where."""

from pathlib import Path


class SceneError(ValueError):
    """A SOFA scene that cannot be read, or not be translated: the file, the line and the component, and why.

    `file`, `line` (0 where there is none) and `component` (its path, as "@/beam/fem") say where. No units. Raised by
    `jaxmech.sofa.load`, `jaxmech.sofa.record` and the properties of `SceneGraph`.

    Example:

        import pathlib, tempfile
        scene = pathlib.Path(tempfile.mkdtemp(), "beam.scn")
        _ = scene.write_text("<Node>")
        try:
            jm.sofa.load(scene)
        except jm.sofa.SceneError as error:
            assert error.line == 1 and "beam.scn" in str(error)
    """

    def __init__(self, reason: str, *, file: str | Path = "", line: int = 0, component: str = ""):
        self.file, self.line, self.component = str(file), line, component
        place = f"{file}:{line}" if line else str(file)
        super().__init__(": ".join(part for part in (place, component, reason) if part))


def shown(value: object, most: int = 80) -> str:
    """A value in an error message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
