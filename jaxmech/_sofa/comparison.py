"""Scenes against what SOFA made of them: its published states, and states of full precision."""

import gzip
import zipfile
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .read.scene_error import SceneError

_MOST = 256 * 2**20  # bytes of one file, unpacked


class Difference(NamedTuple):
    """How far a state is from another at a time [s]: `|dx|_2 / size`, SOFA's own measure, and the largest component."""

    state: str
    time: float
    measure: float
    largest: float

    def __str__(self) -> str:
        return f"{self.state} at {self.time:g} s: |dx|/size {self.measure:.3e}, largest {self.largest:.3e}"


def published_states(path: str | PathLike[str]) -> list[tuple[float, np.ndarray]]:
    """The times and positions of a file of SOFA's `WriteState` (text, or gzip of it). Raises `SceneError`."""
    path = Path(path)
    states: list[tuple[float, np.ndarray]] = []
    time = None
    for number, line in enumerate(_text(path).splitlines(), start=1):
        name, equals, rest = line.strip().partition("=")
        if not equals or name not in ("T", "X"):
            continue
        try:
            numbers = np.array(rest.split(), float)
        except ValueError:
            raise SceneError(f"{name}= is not followed by numbers", file=path, line=number) from None
        if not np.isfinite(numbers).all() or (name == "T" and len(numbers) != 1):
            raise SceneError(f"{name}= is not followed by finite numbers", file=path, line=number)
        if name == "T":
            time = float(numbers[0])
        elif time is not None:
            states.append((time, numbers))
    if not states:
        raise SceneError("holds no state (a line T= and a line X=)", file=path)
    return states


def _text(path: Path) -> str:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(_MOST + 1)
        if len(content) > _MOST:
            raise SceneError(f"has more than {_MOST} bytes", file=path)
        return content.decode("ascii")
    except (OSError, EOFError, UnicodeDecodeError) as problem:
        raise SceneError(f"cannot be read: {problem}", file=path) from None


def golden_states(path: str | PathLike[str]) -> dict[str, dict[str, np.ndarray]]:
    """Positions of an archive with keys `MOMENT|STATE|...|X`: `{moment: {state: numbers}}`. Raises `SceneError`."""
    found: dict[str, dict[str, np.ndarray]] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            for key in archive.files:
                moment, _, rest = key.partition("|/")
                if key.endswith("|X") and rest:
                    words = rest.split("|")[:-1]
                    words = words[:-1] if words[-1].rstrip("d") in ("Vec1", "Vec2", "Vec3", "Rigid2", "Rigid3") else words
                    found.setdefault(moment, {})[" ".join(words)] = archive[key]
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as problem:
        raise SceneError(f"cannot be read: {problem}", file=path) from None
    if not found:
        raise SceneError("holds no positions (keys MOMENT|/STATE|TEMPLATE|X)", file=path)
    return found


def difference(state: str, time: float, x: np.ndarray, reference: np.ndarray) -> Difference:
    """Raises `ValueError` for states of other sizes."""
    x = np.ravel(x)
    if x.shape != reference.shape:
        raise ValueError(f"state '{state}' has {x.size} coordinates, the one to compare with has {reference.size}.")
    gap = x - reference
    return Difference(state, time, float(np.linalg.norm(gap) / max(gap.size, 1)), float(np.max(np.abs(gap), initial=0.0)))
