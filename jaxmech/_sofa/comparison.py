"""Runs of a scene against others: SOFA's published states, states of full precision, and runs that were recorded."""

import gzip
import re
import zipfile
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._integrator.trajectory.simulate import Trajectory
from .._model.dynamics import kinematics
from .read.scene_error import SceneError
from .scene_graph import SceneGraph
from .translation import Part

_MOST = 256 * 2**20  # bytes of one file, unpacked
_GOLDEN_STEPS = 99  # of the moment "n"
_OF_A_STEP = 1e-6  # by which the time of a recorded state may be beside a step

Frames = dict[str, tuple[Part, Trajectory]]


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


def _arrays(path: str | PathLike[str]) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files if key == "time" or key.endswith(("|X", "|position"))}
    except (OSError, ValueError, TypeError, zipfile.BadZipFile, EOFError) as problem:
        raise SceneError(f"cannot be read: {problem}", file=path) from None


def golden_states(path: str | PathLike[str]) -> dict[str, dict[str, np.ndarray]]:
    """Positions of an archive with keys `MOMENT|/STATE|...|X`: `{moment: {state: numbers}}`. Raises `SceneError`."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for key, x in _arrays(path).items():
        moment, _, rest = key.partition("|/")
        if key.endswith("|X") and rest:
            words = rest.split("|")[:-1]
            words = words[:-1] if words[-1].rstrip("d") in ("Vec1", "Vec2", "Vec3", "Rigid2", "Rigid3") else words
            found.setdefault(moment, {})[" ".join(words)] = x
    if not found:
        raise SceneError(
            "holds no positions: keys STATE|position and time, as --record writes them, or MOMENT|/STATE|X", file=path
        )
    return found


def recorded_states(path: str | PathLike[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The times `(n,)` and the positions `(n, ...)` of each state of what `--record` wrote; no state, of other archives.
    Raises `SceneError`."""
    arrays = _arrays(path)
    time = arrays.get("time", np.zeros(0))
    states = {key.removesuffix("|position"): x for key, x in arrays.items() if key.endswith("|position")}
    if not states:
        return time, {}
    if time.ndim != 1 or not len(time) or any(x.ndim < 2 or len(x) != len(time) for x in states.values()):
        raise SceneError("holds no time for each of its states", file=path)
    if not all(a.dtype.kind in "fiu" and np.isfinite(a).all() for a in (time, *states.values())):
        raise SceneError("holds what is no finite number", file=path)
    return time, states


def needed_steps(file: Path, dt: float) -> int:
    """How many steps of `dt` reach the last state of a file."""
    if file.suffix != ".npz":
        times = [time for time, _ in published_states(file)]
    else:
        times, states = recorded_states(file)
        if not states:
            return _GOLDEN_STEPS
    return max(round(time / dt) for time in times)


def compared(scene: SceneGraph, frames: Frames, file: Path) -> list[Difference]:
    """How far runs are from the states of a file. Raises `SceneError`, and `ValueError` where it holds other states."""
    if file.suffix == ".npz":
        return _with_recorded(frames, file) or _with_goldens(frames, file)
    numbered = re.search(r"reference_(\d+)_", file.name)
    names = [o.path.removeprefix("@/") for o in scene.root.walk() if o.kind == "MechanicalObject"]
    main = [s for s in names if any(s in run.position for _, run in frames.values())]
    place = int(numbered[1]) if numbered else 0
    if place >= len(main) or (not numbered and len(main) > 1):
        raise ValueError(f"{file.name} does not say which of the states {main} it holds (reference_NUMBER_...)")
    part, run = next(found for found in frames.values() if main[place] in found[1].position)
    found = []
    for time, x in published_states(file):
        step = round(time / part.dt)
        if step < len(run.time):
            found.append(difference(main[place], time, np.asarray(run.position[main[place]][step]), x))
    return found


def _with_recorded(frames: Frames, file: Path) -> list[Difference]:
    """Of each state the difference of the largest measure, of all times that both runs have. Nothing, of other archives."""
    time, states = recorded_states(file)
    found = []
    for state, x in states.items():
        part, run = next((pair for pair in frames.values() if state in pair[1].position), (None, None))
        if part is None or run is None:
            raise ValueError(f"{file.name} holds the state '{state}', which is none that the scene moves.")
        steps = np.rint(time / part.dt).astype(int)
        both = np.flatnonzero((np.abs(time - steps * part.dt) <= _OF_A_STEP * part.dt) & (steps < len(run.time)))
        if not time[both].any():
            raise ValueError(f"{file.name} has no time but the start in common with steps of {part.dt:g} s.")
        ours = np.asarray(run.position[state])
        gaps = [difference(state, float(time[i]), ours[steps[i]], np.ravel(x[i])) for i in both]
        found.append(max(gaps, key=lambda gap: gap.measure))
    return found


def _with_goldens(frames: Frames, file: Path) -> list[Difference]:
    found = []
    for moment, states in golden_states(file).items():
        step = _GOLDEN_STEPS if moment == "n" else int(moment) if moment.isdecimal() else -1
        for part, run in frames.values():
            if not 0 <= step < len(run.time):
                continue
            x = kinematics(part.system, {s: a[step] for s, a in run.position.items()})
            both = [s for s in states if s in x]
            found += [difference(s, step * part.dt, np.asarray(x[s]), states[s]) for s in both]
    if not found:
        raise ValueError(f"{file.name} holds no state of this scene")
    return found


def difference(state: str, time: float, x: np.ndarray, reference: np.ndarray) -> Difference:
    """Raises `ValueError` for states of other sizes."""
    x = np.ravel(x)
    if x.shape != reference.shape:
        raise ValueError(f"state '{state}' has {x.size} coordinates, the one to compare with has {reference.size}.")
    gap = x - reference
    return Difference(state, time, float(np.linalg.norm(gap) / max(gap.size, 1)), float(np.max(np.abs(gap), initial=0.0)))
