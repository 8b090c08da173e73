"""From the graph of a scene to systems, states and integrators: one for each time integrator of the scene."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._integrator.base import AbstractIntegrator
from .._model.system import State, System
from .curves import CURVES, TIMED
from .elements import ELEMENTS
from .fields import FIELDS
from .further_springs import FURTHER_SPRINGS
from .hyperelastic import HYPERELASTIC
from .joint_springs import JOINT_SPRINGS
from .loads import CONSTRAINTS, LOADS
from .mappings import MAPPING_KINDS, mapping
from .masses import MASSES, unit_mass
from .motions import MOTIONS
from .multi_mappings import inputs
from .part_builder import Leaf, PartBuilder
from .read.component import Component
from .read.graph import SceneNode, SceneObject
from .read.links import STATES
from .read.scene_data import SceneData
from .read.scene_error import SceneError
from .remainder import Whole, apart, is_drawn
from .report import Report
from .schemes import DAMPING, EXPLICIT, SCHEMES, SOLVERS, SYSTEMS, linear_solver
from .sheets import SHEETS
from .springs import SPRINGS

_FORCES = ELEMENTS | HYPERELASTIC | SHEETS | SPRINGS | FURTHER_SPRINGS | JOINT_SPRINGS | LOADS | FIELDS | TIMED
_TRANSLATED: dict[str, Callable[[PartBuilder, Component], str]] = MASSES | _FORCES | CONSTRAINTS | MOTIONS | CURVES
_TRANSLATED |= {f"Parallel{kind}": how for kind, how in _FORCES.items()}  # of the plugin MultiThreading


@dataclasses.dataclass(frozen=True)
class Part:
    """What one time integrator of a scene moves."""

    name: str
    system: System
    state: State
    integrator: AbstractIntegrator
    dt: float
    parameters: dict[tuple[str, str], Leaf]


def translated(root: SceneNode, data: SceneData, solver: str) -> tuple[list[Part], Report]:
    """The parts of a scene, and what became of each of its components. What cannot be is "refused" in the report."""
    report, parts, seen = Report(), [], set[SceneObject]()
    schemes = [o for o in root.walk() if o.kind in SCHEMES]
    try:
        dt, gravity = _of_root(root, data)
    except SceneError as problem:
        report.add(root, "refused", str(problem))
        return [], report
    for ode in schemes:
        builder = PartBuilder(data, ode.node, sofa=solver == "sofa")
        part = _part(builder, ode, gravity, dt, report, seen)
        if part is not None:
            parts.append(part)
    scene = Whole(root, bool(schemes), _TRANSLATED)
    for object in root.walk():
        if object not in seen:
            apart(object, data, report, scene)
    return parts, report


def _of_root(root: SceneNode, data: SceneData) -> tuple[float, np.ndarray]:
    """The time step and gravity: those of the root count, wherever others stand."""
    like = Component(data, SceneObject("Node", root.data, root.file, root.line, root, name=""))
    dt = like.real("dt", 0.01)
    gravity = like.reals("gravity", np.array([0.0, -9.81, 0.0]), count=3)
    if not dt > 0:
        raise root.error(f"dt is {dt}, expected a positive number of seconds")
    return dt, gravity


def _part(
    build: PartBuilder, ode: SceneObject, gravity: np.ndarray, dt: float, report: Report, seen: set[SceneObject]
) -> Part | None:
    before = len(report.of("refused"))
    within = list(build.node.walk())
    others = [o for o in within if o is not ode and o.kind in SCHEMES]
    mapped = _mapped_states(build.data, within)

    translate = partial(_translate, build, report, seen)
    if others:
        report.add(others[0], "refused", str(others[0].error(f"stands below another time integrator, {ode.path}")))
        return None
    for object in within:
        if object.kind in STATES and object not in mapped:
            translate(object, partial(_state, build, object))
    # Parents before children: a mapping waits until its input is there.
    waiting = [o for o in within if o.kind in MAPPING_KINDS and not is_drawn(build.data, o)]
    for object in _in_order(build.data, waiting, mapped):
        translate(object, partial(_mapping, build, object))
    for state in mapped & set(within):
        seen.add(state)
        report.add(state, "read", "given by a mapping")
    for object in within:
        if object.kind in _TRANSLATED:
            translate(object, partial(_component, build, object))
    make = _scheme(build, ode, report, seen)
    if make is None or len(report.of("refused")) > before:
        return None
    try:
        return _built(build, ode, make, gravity, dt, report)
    except (ValueError, TypeError) as problem:
        report.add(ode, "refused", str(ode.error(str(problem))))
        return None


def _translate(
    build: PartBuilder, report: Report, seen: set[SceneObject], object: SceneObject, how: Callable[[], str]
) -> None:
    """Translate a component, and report what became of it."""
    seen.add(object)
    try:
        remark = how()
    except SceneError as problem:
        report.add(object, "refused", str(problem))
    except (ValueError, TypeError) as problem:
        report.add(object, "refused", str(object.error(str(problem))))
    else:
        report.add(object, "equal" if build.sofa else "equivalent", remark)


def _state(build: PartBuilder, object: SceneObject) -> str:
    build.add_state(object, build.data.positions(object))
    return ""


def _mapping(build: PartBuilder, object: SceneObject) -> str:
    part = Component(build.data, object)
    remark = mapping(build, part)
    part.done()
    return remark


def _component(build: PartBuilder, object: SceneObject) -> str:
    part = Component(build.data, object)
    part.ignored("topology", "mstate", "isCompliance")
    remark = _TRANSLATED[object.kind](build, part)
    part.done()
    return remark


def _scheme(build: PartBuilder, ode: SceneObject, report: Report, seen: set[SceneObject]) -> Any:
    seen.add(ode)
    part = Component(build.data, ode)
    try:
        damped = [o for o in build.node.objects if o.kind == DAMPING]
        after = build.node.objects.index(ode)
        if damped and (not ode.kind.startswith("EulerImplicit") or build.node.objects.index(damped[0]) < after):
            raise damped[0].error("is translated after an EulerImplicitSolver of its node alone")
        solver = None if ode.kind in EXPLICIT else linear_solver(build, ode, report)
        make, remark = SCHEMES[ode.kind](build, part, solver)  # pyright: ignore[reportArgumentType]
        part.ignored("linearSolver")
        part.done()
    except SceneError as problem:
        report.add(ode, "refused", str(problem))
        make = None
    else:
        report.add(ode, "equal" if build.sofa else "equivalent", remark)
    for other in (o for o in build.node.walk() if o.kind in ("NewtonRaphsonSolver", DAMPING)):
        seen.add(other)
        report.add(other, "read")
    if not any(o.kind in SYSTEMS for o in build.node.walk()) and ode.kind not in EXPLICIT:
        report.add(ode, "created", "there is no linear system: a MatrixLinearSystem is assembled")
    for object in build.node.walk():
        if object.kind in (*SOLVERS, *SYSTEMS):
            seen.add(object)
            if not any(row.component.startswith(f"{object.path} ") for row in report.rows):
                fate = "ignored" if object.kind in SOLVERS else "equivalent"
                report.add(object, fate, "solutions do not depend on how a matrix is kept" if fate == "equivalent" else "")
    return make


def _built(build: PartBuilder, ode: SceneObject, make: Any, gravity: np.ndarray, dt: float, report: Report) -> Part:
    if build.sofa and build.implicit_damping and build.explicit_damping:
        raise ode.error("damping that is in the matrix, beside one that is not, is not translated (solver='exact' is)")
    children = {m.child for m in build.mappings.values()}
    main = [s for s in build.dofs if s not in children]
    if not main:
        raise ode.error("there is no mechanical state in its node or below")
    carried = {s.state for mass in build.masses.values() for s in mass.on}
    for m in reversed(list(build.mappings.values())):
        carried |= {p.state for p in m.parents} if m.child in carried else set()
    for state in main:
        if state not in carried:
            build.masses[f"{state}/mass"] = unit_mass(build, state)
            report.add(ode, "created", f"state '{state}' has no mass: a UniformMass of total 1")
    heavy = any(build.dofs[s.state].space_size == 3 for mass in build.masses.values() for s in mass.on)
    system = System(
        build.dofs,
        forces=build.forces,
        masses=build.masses,
        mappings=build.mappings,
        constraints=build.constraints,
        rayleigh=build.rayleigh,
        gravity=gravity if heavy else None,
    )
    state = system.at_rest({s: build.position[s] for s in main})
    if moving := {s: v for s, v in build.velocity.items() if s in main}:
        velocity = state.velocity | {s: jnp.asarray(v, state.velocity[s].dtype) for s, v in moving.items()}
        if any(velocity[s].shape != state.velocity[s].shape for s in velocity):
            raise ode.error("velocity has another size than position")
        state = dataclasses.replace(state, velocity=velocity)
    if heavy:
        build.parameters["@/", "gravity"] = Leaf("gravity")
    name = ode.node.path.removeprefix("@/") or ode.node.name
    return Part(name, system, state, make(system, state), dt, build.parameters)


def _mapped_states(data: SceneData, within: list[SceneObject]) -> set[SceneObject]:
    """The states that a mapping gives: its output, or the state of its node."""
    found = set()
    for object in within:
        if object.kind in MAPPING_KINDS and not is_drawn(data, object):
            output = Component(data, object).link("output")
            node = output if isinstance(output, SceneNode) else object.node
            states = [output] if isinstance(output, SceneObject) else [o for o in node.objects if o.kind in STATES]
            found.update(states[-1:])
    return found


def _in_order(data: SceneData, waiting: list[SceneObject], mapped: set[SceneObject]) -> list[SceneObject]:
    """Mappings, those of main states first."""
    order, left = [], list(waiting)
    given = {state for state in mapped}
    while left:
        ready = [o for o in left if not given.intersection(inputs(Component(data, o)))]
        ready = ready or left  # a circle, which the system refuses
        for object in ready:
            output = Component(data, object).link("output")
            given.discard(output)  # pyright: ignore[reportArgumentType]
            given -= {o for o in object.node.objects if o.kind in STATES} if output is None else set()
        order += ready
        left = [o for o in left if o not in ready]
    return order
