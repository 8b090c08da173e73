"""Nodes that oscillate, follow a curve, or are moved by an affine map; and loads that change with time."""

from typing import Any

import numpy as np

from .._constraint.prescribed_motion import PrescribedMotion
from .numerics.forces_in_time import ForcesInTime
from .numerics.given_motions import CubicMotion, Oscillators
from .part_builder import PartBuilder, named
from .read.component import Component

_HELD = "it stays where it is before and after these times, where SOFA lets go of it"


def oscillators(build: PartBuilder, part: Component) -> str:
    """OscillatorProjectiveConstraint: `index mean amplitude pulsation phase` for each node."""
    state = build.state_of(part)
    wide, size = build.dofs[state].coord_size, build.dofs[state].deriv_size
    rows = part.reals("oscillators", None, width=wide + size + 3)
    if rows is None or not len(rows):
        raise part.error("has no oscillators")
    nodes = rows[:, 0].astype(np.int64)
    if (nodes != rows[:, 0]).any() or nodes.min() < 0 or nodes.max() >= len(build.position[state]):
        raise part.error(
            f"oscillators name nodes {rows[:5, 0].tolist()}, expected numbers below {len(build.position[state])}"
        )
    mean, amplitude = rows[:, 1 : 1 + wide], rows[:, 1 + wide : 1 + wide + size]
    if wide == 7:
        length = np.linalg.norm(mean[:, 3:], axis=1, keepdims=True)
        if not (length > 0).all():
            raise part.error("oscillators have a quaternion that is nil")
        mean = np.concatenate([mean[:, :3], mean[:, 3:] / length], axis=1)
    build.constraints[named(part.object)] = Oscillators((state, nodes), mean, amplitude, rows[:, -2], rows[:, -1])
    return ""


def _times(part: Component) -> tuple[float, float]:
    begin, end = part.real("BeginTime", 0.0), part.real("EndTime", 0.0)
    if not end > begin:
        raise part.error(f"BeginTime is {begin} and EndTime {end}, expected a later one")
    return begin, end


def _points(build: PartBuilder, part: Component, state: str, names: tuple[str, ...]) -> list[np.ndarray]:
    found = [part.reals(name, np.zeros(3), count=3) for name in names]
    if build.dofs[state].coord_size != 3 or not build.dofs[state].is_vector_space:
        raise part.error("acts on points of space (Vec3)")
    return found


def parabola(build: PartBuilder, part: Component) -> str:
    """ParabolicProjectiveConstraint: from P1 through P2 to P3, at a constant speed along P1 P3."""
    state = build.state_of(part)
    nodes, (begin, end) = build.indices(part, state), _times(part)
    p1, p2, p3 = _points(build, part, state, ("P1", "P2", "P3"))
    chord, way = p3 - p1, p2 - p1
    length = np.linalg.norm(chord)
    along = chord / length if length > 0 else chord
    x = float(way @ along)
    if not length > 0 or not abs(x * (length - x)) > 0:
        raise part.error("P1, P2 and P3 are on no parabola over P1 P3")
    rise = (way - x * along) / (x * (length - x))  # y = rise X (length - X)
    curve = np.stack([p1, chord + rise * length**2, -rise * length**2, np.zeros(3)])
    build.constraints[named(part.object)] = CubicMotion((state, nodes), curve, np.array([0.0, 1, 0, 0]), begin, end)
    return _HELD


def spline(build: PartBuilder, part: Component) -> str:
    """HermiteSplineProjectiveConstraint: from X0 to X1 with the tangents dX0 and dX1, at a pace that is a spline too."""
    state = build.state_of(part)
    nodes, (begin, end) = build.indices(part, state), _times(part)
    x0, d0, x1, d1 = _points(build, part, state, ("X0", "dX0", "X1", "dX1"))
    s0, s1 = (part.reals(name, np.zeros(2), count=2)[1] for name in ("SX0", "SX1"))
    curve, pace = _hermite(x0, d0, x1, d1), _hermite(0.0, s0, 1.0, s1)
    build.constraints[named(part.object)] = CubicMotion((state, nodes), curve, pace, begin, end)
    return f"{_HELD}; its velocity is the derivative of its motion"


def _hermite(x0: Any, d0: Any, x1: Any, d1: Any) -> np.ndarray:
    """The coefficients of the cubic of these ends and tangents."""
    return np.array([x0, d0, 3 * (x1 - x0) - 2 * d0 - d1, 2 * (x0 - x1) + d0 + d1])


def affine(build: PartBuilder, part: Component) -> str:
    """AffineMovementProjectiveConstraint: points that go straight to where an affine map takes them."""
    state = build.state_of(part)
    nodes = build.indices(part, state)
    matrix = part.reals("rotation", np.eye(3).ravel(), count=9).reshape(3, 3)
    shift = part.reals("translation", np.zeros(3), count=3)
    begin, end = part.real("beginConstraintTime", 0.0), part.real("endConstraintTime", 20.0)
    part.ignored("meshIndices", "quaternion")
    if build.dofs[state].coord_size != 3 or not build.dofs[state].is_vector_space or not end > begin:
        raise part.error("acts on points of space (Vec3), from beginConstraintTime to a later endConstraintTime")
    return _straight(build, part, state, nodes, lambda x: x @ matrix.T + shift - x, begin, end)


def _straight(
    build: PartBuilder, part: Component, state: str, nodes: np.ndarray, moves: Any, begin: float, end: float
) -> str:
    """Nodes that go straight by `moves`, of where they are."""
    place = build.position[state][nodes]
    steps = np.stack([np.zeros_like(place), moves(place)], axis=1)
    build.constraints[named(part.object)] = PrescribedMotion((state, nodes), place, steps, np.array([begin, end]))
    return "with the velocity of its motion, where SOFA says none"


def patch_test(build: PartBuilder, part: Component) -> str:
    """PatchTestMovementProjectiveConstraint: nodes that go straight by what their corners do, linear in between."""
    state = build.state_of(part)
    nodes, width = build.indices(part, state), build.dofs[state].coord_size
    begin, end = part.real("beginConstraintTime", 0.0), part.real("endConstraintTime", 20.0)
    corners, moves = (part.reals(name, None, width=width) for name in ("cornerPoints", "cornerMovements"))
    among = part.reals("constrainedPoints", None, width=width)
    if among is not None and len(among) and width in (2, 3):
        if corners is not None and len(corners):
            raise part.error("cornerPoints beside constrainedPoints, among which SOFA looks for more, are not translated")
        corners = _corners(among)
    part.ignored("meshIndices", "drawConstrainedPoints")
    if corners is None or moves is None or len(corners) != len(moves) or len(corners) not in (4, 8):
        raise part.error("needs cornerPoints and cornerMovements, four or eight of each")
    if not build.dofs[state].is_vector_space or not end > begin:
        raise part.error("acts on points, from beginConstraintTime to a later endConstraintTime")
    spans = [
        (axis, corners[other][axis] - corners[0][axis]) for axis, other in ((0, 1), (1, 3), (2, 4))[: len(corners) // 4 + 1]
    ]
    if any(span == 0 for _, span in spans):
        raise part.error("corners 0 and 1, 0 and 3 or 0 and 4 are in one place along x, y or z")

    def moved(x: np.ndarray) -> np.ndarray:
        t = [np.abs((x[:, axis] - corners[0][axis]) / span) for axis, span in spans] + [np.zeros(len(x))]
        found = np.zeros_like(x)
        for i, move in enumerate(moves):
            at = (i % 4 in (1, 2), i % 4 in (2, 3), i >= 4)
            found += np.prod([s if there else 1 - s for s, there in zip(t, at, strict=False)], axis=0)[:, None] * move
        return found

    return _straight(build, part, state, nodes, moved, begin, end)


def _corners(x: np.ndarray) -> np.ndarray:
    """The corners that SOFA finds among points: of each, the last that lies further out, in one direction or another, than
    those before. Four of points at one height, else eight."""
    z = x[:, 2] if x.shape[1] > 2 else np.zeros(len(x))
    points = np.column_stack([x[:, :2], z])
    deep = bool((z != z[0]).any())
    found = [points[0]] * (8 if deep else 4)
    at = [0] * len(found)
    for k, p in enumerate(points):
        for i in range(4):
            (side, up), c = _TOWARDS[i], found[i]
            if side * p[0] > side * c[0] or up * p[1] > up * c[1] or p[2] < c[2]:
                found[i], at[i] = p, k
        for i in (4, 6, 5, 7) if deep else ():
            (side, up), c = _TOWARDS[i - 4], found[i]
            height = found[i - 4][2] if i in (4, 6) else c[2]  # the other corner's, as SOFA has it
            if side * p[0] > side * c[0] or up * p[1] > up * c[1] or p[2] > height:
                found[i], at[i] = p, k
                if i == 5:
                    break
    return x[at]


_TOWARDS = ((-1, -1), (1, -1), (1, 1), (-1, 1))


def force_in_time(build: PartBuilder, part: Component) -> str:
    """LinearForceField: forces that are linear between key times."""
    state = build.state_of(part)
    nodes = build.indices(part, state, "points")
    times, forces = part.reals("times"), part.reals("forces", None, width=build.dofs[state].deriv_size)
    part.neutral(rayleighStiffness=0.0)
    if times is None or forces is None or len(times) != len(forces) or not len(times) or (np.diff(times) <= 0).any():
        raise part.error("needs increasing times and forces, as many of each")
    made = ForcesInTime((state, nodes), forces, times, part.real("force", 1.0), at_start=build.sofa)
    build.forces[named(part.object)] = made
    build.parameter(part, "forces", "forces", "forces")
    build.parameter(part, "force", "forces", "factor")
    return "that of the beginning of each step, as in SOFA" if build.sofa else "that of the end of each step"


CURVES = {
    "OscillatorProjectiveConstraint": oscillators,
    "OscillatorConstraint": oscillators,
    "ParabolicProjectiveConstraint": parabola,
    "ParabolicConstraint": parabola,
    "HermiteSplineProjectiveConstraint": spline,
    "HermiteSplineConstraint": spline,
    "AffineMovementProjectiveConstraint": affine,
    "AffineMovementConstraint": affine,
    "PatchTestMovementProjectiveConstraint": patch_test,
    "PatchTestMovementConstraint": patch_test,
}
TIMED = {"LinearForceField": force_in_time}
