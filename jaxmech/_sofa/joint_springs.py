"""Springs that hold frames together as joints do."""

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from .numerics.gears import GearSprings
from .numerics.joint_springs import FrameSprings, JointSprings
from .part_builder import PartBuilder, named
from .read import values
from .read.component import Component
from .read.scene_error import shown
from .springs import end

_WIDTHS = {"FREE_AXIS": 6, "KS_T": 2, "KS_R": 2, "KS_B": 1, "KD": 1, "REST_T": 3, "REST_R": 4}
_WIDTHS |= {f"R_LIM_{axis}": 2 for axis in "XYZ"}
_USUAL = {
    "FREE_AXIS": [0, 0, 0, 1, 1, 1],
    "KS_T": [0, 1e4],
    "KS_R": [0, 1e4],
    "KS_B": [0],
    "KD": [0],
    "REST_R": [0, 0, 0, 1],
}
_USUAL |= {f"R_LIM_{axis}": [-1e5, 1e5] for axis in "XYZ"}


_MOST = 10_000
_FRAME_WIDTHS = {"KS_T": 1, "KS_R": 1, "KD": 1, "VEC1": 3, "VEC2": 3}
_GEAR_WIDTHS = {"AXIS": 2, "KS_T": 1, "KS_R": 2, "KD": 1, "RATIO": 1}
_GEAR_USUAL = {"AXIS": [0, 0], "KS_T": [1e4], "KS_R": [1e4, 1e4], "KD": [1e4], "RATIO": [1]}


def _read(part: Component, words: list[str], widths: dict[str, int], frames: int) -> list[dict[str, np.ndarray]]:
    """The springs of a text: BEGIN_SPRING, numbers of `frames`, then names with their numbers, END_SPRING."""
    found = []
    stops = [i for i, word in enumerate(words) if word == "END_SPRING"]
    if len(stops) > _MOST:
        raise part.error(f"spring lists {len(stops)} springs, {_MOST} at most are read")
    starts = [0, *(stop + 1 for stop in stops)]
    for start, stop in zip(starts, [*stops, len(words)] if starts[-1] < len(words) else stops, strict=False):
        if words[start] != "BEGIN_SPRING" or stop == len(words):
            raise part.error(f"spring has {shown(words[start])}, expected BEGIN_SPRING ... END_SPRING")
        inner = words[start + 1 : stop]
        if len(inner) < frames or set(inner[:frames]) & set(widths):
            raise part.error(f"spring does not name {frames} frames")
        spring = {"ends": values.wholes(part.object, "spring", " ".join(inner[:frames]))}
        inner = inner[frames:]
        while inner:
            width = widths.get(inner[0])
            if width is None:
                raise part.error(f"spring has {shown(inner[0])}, expected one of {sorted(widths)}")
            numbers = values.reals(part.object, f"spring, {inner[0]}", " ".join(inner[1 : 1 + width]))
            if len(numbers) != width:
                raise part.error(f"spring, {inner[0]}: has {len(numbers)} numbers, expected {width}")
            spring[inner[0]], inner = numbers, inner[1 + width :]
        found.append(spring)
    return found


def _between(build: PartBuilder, part: Component, states: list[str], widths: dict[str, int]) -> tuple[list[Any], Any]:
    """The springs of a component, and the frames at their ends."""
    rows = _read(part, part.text("spring", "").split(), widths, len(states))
    if not rows:
        raise part.error("has no spring")
    for state in states:
        if build.dofs[state].coord_size != 7:
            raise part.error("acts on frames (Rigid3)")
    ends = np.stack([row["ends"] for row in rows])
    for state, nodes in zip(states, ends.T, strict=True):
        if nodes.min() < 0 or nodes.max() >= len(build.position[state]):
            raise part.error(f"spring names frame {nodes.max()} of '{state}', which has {len(build.position[state])}")
    return rows, tuple((state, nodes) for state, nodes in zip(states, ends.T, strict=True))


def frame_springs(build: PartBuilder, part: Component) -> str:
    """FrameSpringForceField."""
    states = [end(build, part, name) for name in ("object1", "object2")]
    part.neutral(rayleighStiffness=0.0)
    rows, pairs = _between(build, part, states, _FRAME_WIDTHS)
    usual = {name: np.zeros(width) for name, width in _FRAME_WIDTHS.items()}
    k, r, c, a1, a2 = (np.stack([(usual | row)[name] for row in rows]) for name in _FRAME_WIDTHS)
    build.explicit_damping |= bool(c.any())
    springs = FrameSprings(pairs, k[:, 0], r[:, 0], c[:, 0], a1, a2, frozen=build.sofa)
    build.forces[named(part.object)] = springs
    return "its matrix is that of springs without arms" if build.sofa else ""


def joint_springs(build: PartBuilder, part: Component) -> str:
    """JointSpringForceField."""
    states = [end(build, part, name) for name in ("object1", "object2")]
    part.neutral(rayleighStiffness=0.0, infile="")
    part.ignored("outfile", "period", "reinit", "localRange")
    rows, pairs = _between(build, part, states, _WIDTHS)
    data = [_numbers(build, states, row) for row in rows]
    fields = {name: np.stack([d[name] for d in data]) for name in data[0]}
    build.explicit_damping |= bool(fields["damping"].any())
    build.forces[named(part.object)] = JointSprings(pairs, **fields, frozen=build.sofa)
    return "without a lever, as SOFA's are" + ("; their damping is in no matrix" if build.sofa else "")


def gear_springs(build: PartBuilder, part: Component) -> str:
    """GearSpringForceField: the support and the gear of each of two."""
    one, other = (end(build, part, name) for name in ("object1", "object2"))
    part.neutral(rayleighStiffness=0.0)
    part.ignored("filename", "period", "reinit")
    rows, (base1, gear1, base2, gear2) = _between(build, part, [one, one, other, other], _GEAR_WIDTHS)
    axes, k, s, c, ratio = (np.stack([(_GEAR_USUAL | row)[name] for row in rows]) for name in _GEAR_WIDTHS)
    if not np.isin(axes, (0, 1, 2)).all() or not ratio.all():
        raise part.error("spring, AXIS: needs two axes out of 0, 1 and 2, and RATIO another number than 0")
    build.explicit_damping |= bool(c.any())
    fields = {"along": k[:, 0], "soft": s[:, 0], "hard": s[:, 1], "damping": c[:, 0], "ratio": ratio[:, 0]}
    for i, (gear, base) in enumerate(((gear1, base1), (gear2, base2))):
        fields[f"axis{i + 1}"] = np.eye(3)[axes[:, i].astype(int)]
        fields[f"alone{i + 1}"] = (gear[1] == base[1]).astype(float)
        fields[f"start{i + 1}"] = build.position[gear[0]][gear[1]]
    springs = GearSprings((gear1, base1, gear2, base2), **fields, frozen=build.sofa)
    build.forces[named(part.object)] = springs
    return "within half a turn of each gear" + (", with SOFA's stiffness for conjugate gradients" if build.sofa else "")


def _numbers(build: PartBuilder, states: list[str], row: dict[str, Any]) -> dict[str, np.ndarray]:
    """What one spring is made of. Only of a joint that has REST_T, SOFA takes the gap and the turn of the start."""
    row = {name: np.asarray(usual, float) for name, usual in _USUAL.items()} | row
    limits = np.stack([row[f"R_LIM_{axis}"] for axis in "XYZ"])
    free = (row["FREE_AXIS"] != 0) & np.concatenate([np.ones(3, bool), limits[:, 0] != limits[:, 1]])
    gap, turn = np.zeros(3), row["REST_R"]
    if "REST_T" in row:
        one, other = (build.position[s][i] for s, i in zip(states, row["ends"], strict=True))
        gap = other[:3] - one[:3]
        turn = (Rotation.from_quat(other[3:]) * Rotation.from_quat(one[3:]).inv()).as_quat()
    hard = row["KS_R"][1]
    return {
        "along": np.where(free[:3], row["KS_T"][0], row["KS_T"][1]),
        "soft": row["KS_R"][0],
        "hard": hard,
        "block": row["KS_B"][0] or hard / 100,
        "damping": row["KD"][0],
        "free": free[3:].astype(float),
        "low": limits[:, 0],
        "high": limits[:, 1],
        "gap": gap,
        "turn": turn,
    }


JOINT_SPRINGS = {
    "JointSpringForceField": joint_springs,
    "FrameSpringForceField": frame_springs,
    "GearSpringForceField": gear_springs,
}
