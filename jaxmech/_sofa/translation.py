"""From the graph of a scene to systems, states and integrators: one for each time integrator of the scene."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._integrator.base import AbstractIntegrator
from .._model.system import State, System
from .attachments import ATTACHMENTS
from .cells_with_mass import CELLS_WITH_MASS, weights
from .contacts import add_contacts
from .curves import CURVES, TIMED
from .elements import ELEMENTS
from .fields import FIELDS
from .further_springs import FURTHER_SPRINGS
from .hyperelastic import HYPERELASTIC
from .joint_springs import JOINT_SPRINGS
from .loads import CONSTRAINTS, LOADS
from .mapping_order import in_order, is_drawn, mapped_states
from .mappings import MAPPING_KINDS, PROJECTIONS, mapping
from .masses import MASSES, felt_gravity, unit_mass
from .motions import MOTIONS
from .multipliers import MULTIPLIERS, OF_ONE_STATE
from .one_system import damp_each, join, that_move
from .part_builder import EQUIVALENT, Leaf, PartBuilder, refuse_second
from .read.component import Component
from .read.graph import SceneNode, SceneObject
from .read.links import STATES
from .read.scene_data import SceneData
from .read.scene_error import SceneError
from .regularization import give_way
from .remainder import GRAVITY, Whole, apart, integrators
from .report import Report
from .schemes import DAMPING, EXPLICIT, SCHEMES, SOLVERS, SYSTEMS, linear_solver
from .sheets import SHEETS
from .springs import SPRINGS
from .still_kinds import FREE_MOTION

_FORCES = (
    ELEMENTS | CELLS_WITH_MASS | HYPERELASTIC | SHEETS | SPRINGS | FURTHER_SPRINGS | JOINT_SPRINGS | LOADS | FIELDS | TIMED
)
_TRANSLATED: dict[str, Callable[[PartBuilder, Component], str]] = MASSES | _FORCES | CONSTRAINTS | MOTIONS | CURVES
_TRANSLATED |= MULTIPLIERS | PROJECTIONS | ATTACHMENTS
_TRANSLATED |= {f"Parallel{kind}": how for kind, how in _FORCES.items()}  # of the plugin MultiThreading
_KEPT = "solutions do not depend on how a matrix is kept"
_COUPLED = "motion, constraints and contacts are solved together, by a direct solver"


@dataclasses.dataclass(frozen=True)
class Part:
    """What one time integrator of a scene moves."""

    name: str
    system: System
    state: State
    integrator: AbstractIntegrator
    dt: float
    parameters: dict[tuple[str, str], Leaf]
    shared: dict[tuple[str, str], tuple[Leaf, int]]


def translated(root: SceneNode, data: SceneData, solver: str) -> tuple[list[Part], Report]:
    """The parts of a scene, and what became of each of its components. What cannot be is "refused" in the report."""
    report, parts, seen = Report(), [], set[SceneObject]()
    schemes = integrators(root)
    try:
        dt, gravity = _of_root(root, data)
    except SceneError as problem:
        report.add(root, "refused", str(problem))
        return [], report
    scene = Whole(root, schemes, _TRANSLATED, MULTIPLIERS, OF_ONE_STATE)
    for ode in schemes[:1] if scene.couples else schemes:
        within = that_move(root, schemes, MULTIPLIERS) if scene.couples else list(ode.node.walk())
        build = PartBuilder(data, ode.node, within, sofa=solver == "sofa")
        part = _part(build, ode, scene, gravity, dt, report, seen)
        if part is not None:
            parts.append(part)
    for object in root.walk():
        if object not in seen:
            apart(object, data, report, scene)
    for node in root.nodes():
        if not node.active:
            report.add(node, "ignored", "is not active: SOFA asks nothing that is in it")
    return parts, report


def _of_root(root: SceneNode, data: SceneData) -> tuple[float, np.ndarray]:
    """The time step and gravity: those of the root count, wherever others stand."""
    like = Component(data, SceneObject("Node", root.data, root.file, root.line, root, name=""))
    dt = like.real("dt", 0.01)
    gravity = like.reals("gravity", np.array([0.0, -9.81, 0.0]), count=3)
    for object in root.objects:
        if object.kind == GRAVITY:
            part = Component(data, object)
            gravity = part.reals("gravity", np.zeros(3), count=3)
            part.done()
    if not dt > 0:
        raise root.error(f"dt is {dt}, expected a positive number of seconds")
    return dt, gravity


def _part(
    build: PartBuilder,
    ode: SceneObject,
    scene: Whole,
    gravity: np.ndarray,
    dt: float,
    report: Report,
    seen: set[SceneObject],
) -> Part | None:
    before, within = len(report.of("refused")), build.within
    mapped = mapped_states(build.data, within)
    translate = partial(_translate, build, report, seen)
    join(build, ode, SCHEMES, report, seen)
    if len(report.of("refused")) > before:
        return None
    for object in within:
        if object.kind in STATES and object not in mapped:
            translate(object, partial(_state, build, object))
    # Parents before children: a mapping waits until its input is there.
    waiting = [o for o in within if o.kind in MAPPING_KINDS and not is_drawn(build.data, o)]
    for object in in_order(build.data, waiting, mapped):
        translate(object, partial(_mapping, build, object))
    for state in mapped & set(within):
        seen.add(state)
        report.add(state, "read", "given by a mapping")
    for object in within:
        if object.kind in _TRANSLATED:
            translate(object, partial(_component, build, object))
    make = _scheme(build, ode, scene, report, seen)
    if make is None or len(report.of("refused")) > before:
        return None
    try:
        return _built(build, ode, make, gravity, dt, report)
    except SceneError as problem:
        report.add(ode, "refused", str(problem))
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
        alike = not build.sofa or remark.startswith(EQUIVALENT)
        report.add(object, "equivalent" if alike else "equal", remark.removeprefix(EQUIVALENT))


def _state(build: PartBuilder, object: SceneObject) -> str:
    build.add_state(object, build.data.positions(object))
    return ""


def _mapping(build: PartBuilder, object: SceneObject) -> str:
    part = Component(build.data, object)
    remark = mapping(build, part)
    part.done()
    return remark


def _component(build: PartBuilder, object: SceneObject) -> str:
    if object.kind in MASSES:
        refuse_second(object, MASSES, "mass")
    part = Component(build.data, object)
    part.ignored("topology", "mstate", "isCompliance")
    remark = _TRANSLATED[object.kind](build, part)
    part.done()
    if object.kind in MULTIPLIERS and not any(o.kind == FREE_MOTION for o in object.node.root.walk()):
        raise part.error(f"needs a {FREE_MOTION}, without which SOFA does not solve it")
    return remark


def _scheme(build: PartBuilder, ode: SceneObject, scene: Whole, report: Report, seen: set[SceneObject]) -> Any:
    seen.add(ode)
    part = Component(build.data, ode)
    try:
        damped = [o for o in build.node.objects if o.kind == DAMPING]
        after = build.node.objects.index(ode)
        if damped and (not ode.kind.startswith("EulerImplicit") or build.node.objects.index(damped[0]) < after):
            raise damped[0].error("is translated after an EulerImplicitSolver of its node alone")
        if scene.collides:
            add_contacts(build, ode.node.root, scene.free_motion)
        if build.couples and not ode.kind.startswith("EulerImplicit"):
            raise ode.error("contacts and constraints with multipliers go with an EulerImplicitSolver alone")
        if build.attached and (build.couples or not ode.kind.startswith("EulerImplicit")):
            raise ode.error("nodes that are attached by projection go with an EulerImplicitSolver alone, without contacts")
        solver = None if ode.kind in EXPLICIT or build.couples else linear_solver(build, ode, report)
        make, remark = SCHEMES[ode.kind](build, part, solver)  # pyright: ignore[reportArgumentType]
        part.ignored("linearSolver")
        part.done()
    except SceneError as problem:
        report.add(ode, "refused", str(problem))
        make = None
    else:
        report.add(ode, "equal" if build.sofa and not build.couples else "equivalent", remark)
    for other in (o for o in build.within if o.kind in ("NewtonRaphsonSolver", DAMPING)):
        seen.add(other)
        report.add(other, "read")
    if not any(o.kind in SYSTEMS for o in build.within) and ode.kind not in EXPLICIT:
        report.add(ode, "created", "there is no linear system: a MatrixLinearSystem is assembled")
    for object in build.within:
        if object.kind in (*SOLVERS, *SYSTEMS):
            seen.add(object)
            if not any(row.component.startswith(f"{object.path} ") for row in report.rows):
                fate = "ignored" if object.kind in SOLVERS else "equivalent"
                report.add(object, fate, _COUPLED if build.couples else _KEPT if fate == "equivalent" else "")
    return make


def _built(build: PartBuilder, ode: SceneObject, make: Any, gravity: np.ndarray, dt: float, report: Report) -> Part:
    if build.sofa and build.implicit_damping and build.explicit_damping and not build.couples:
        raise ode.error("damping that is in the matrix, beside one that is not, is not translated (solver='exact' is)")
    children = {m.child for m in build.mappings.values()}
    main = [s for s in build.dofs if s not in children]
    if not main:
        raise ode.error("there is no mechanical state in its node or below")
    carried = {s.state for mass in build.masses.values() for s in mass.on}
    for m in reversed(list(build.mappings.values())):
        carried |= {p.state for p in m.parents} if m.child in carried else set()
    for state in main:
        if state not in carried | build.held:
            build.masses[f"{state}/mass"] = unit_mass(build, state)
            report.add(ode, "created", f"state '{state}' has no mass: a UniformMass of total 1")
    damp_each(build, ode)
    give_way(build, ode.node.root, dt)
    felt = None if build.weights else felt_gravity(build, ode, gravity)
    system = System(
        build.dofs,
        forces=build.forces | weights(build, gravity),
        masses=build.masses,
        mappings=build.mappings,
        constraints=build.constraints,
        rayleigh=build.rayleigh,
        gravity=felt,
    )
    state = system.at_rest({s: build.position[s] for s in main})
    if moving := {s: v for s, v in build.velocity.items() if s in main}:
        velocity = state.velocity | {s: jnp.asarray(v, state.velocity[s].dtype) for s, v in moving.items()}
        if any(velocity[s].shape != state.velocity[s].shape for s in velocity):
            raise ode.error("velocity has another size than position")
        state = dataclasses.replace(state, velocity=velocity)
    if felt is not None and len(felt) == 3:
        build.parameters["@/", "gravity"] = Leaf("gravity")
    name = ode.node.path.removeprefix("@/") or ode.node.name
    return Part(name, system, state, make(system, state), dt, build.parameters, build.shared)
