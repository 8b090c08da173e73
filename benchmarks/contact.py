"""Contact: a cantilever with 100 contacts beside one without, a pile of rigid boxes, the gradient of a step.

    python -m benchmarks.contact [cantilever] [gradient] [pile] [problem] [--boxes 20] [--tolerance 1e-9]
        [--cells 8] [--contacts 100]

CPU seconds of a step in a compiled program, the shortest of some runs, each with a matrix of its own to factor, and ratios
within one process. `cantilever`: nodes of its lower face on a plane that they press, from no impulses, and from those of a
step before (`warm`). `gradient`: value and gradient of such a step over the step. `pile`: towers of five boxes, from no
impulses, at rest, and while boxes slide and tip: the median of 14 steps (`moving`) and the longest of them. `problem`: the
first call of `solve_contacts`.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import forget

DT = 0.01


def cpu(function: Callable[[], Any], runs: int = 4) -> tuple[float, float]:
    """CPU seconds of the first call, and of the shortest of some more."""
    times = []
    for _ in range(runs + 1):
        forget()
        start = time.process_time()
        jax.block_until_ready(function())
        times.append(time.process_time() - start)
    return times[0], min(times[1:])


def cantilever(cells: int, contacts: int) -> tuple[jm.System, jm.State, Any, Any]:
    """A cantilever of `cells^3` boxes on a plane, and its schemes with contact and without."""
    mesh = jm.mesh.box_mesh(cells=(cells,) * 3, size=(1.0, 1.0, 1.0))
    solid = jm.force.TetrahedronFEM.from_mesh("beam", mesh, jm.material.NeoHookean(young=1e5, poisson=0.3))
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={"solid": solid},
        masses={"mass": jm.mass.DiagonalMass.from_mesh("beam", mesh, 1000.0)},
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=[0.0, 0.0, -9.81],
    )
    state = system.at_rest({"beam": mesh.points})
    free = np.flatnonzero(np.asarray(mesh.points)[:, 0] > 0)
    lowest = free[np.argsort(np.asarray(mesh.points)[free, 2], kind="stable")][:contacts]
    height = np.asarray(mesh.points)[lowest, 2]
    floor = jm.contact.PointContact(("beam", lowest), jm.contact.Plane(), friction=0.3, radius=height)
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    return system, state, motion, jm.integrator.FreeMotion(motion, {"floor": floor})


def said(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def measure_cantilever(cells: int, contacts: int) -> None:
    system, state, motion, scheme = cantilever(cells, contacts)
    carry = scheme.init(system, state)
    free = eqx.filter_jit(lambda s: motion.step(system, s, None, DT, throw=False)[0])
    step = eqx.filter_jit(lambda s, c: scheme.step(system, s, c, DT, throw=False))
    without = cpu(lambda: free(state), 12)[1]
    first, with_contact = cpu(lambda: step(state, carry), 12)
    later, carry, info = step(state, carry)
    warm = cpu(lambda: step(later, carry), 12)[1]
    said(
        what="cantilever",
        unknowns=3 * len(state.position["beam"]),
        contacts=contacts,
        without=without,
        step=with_contact,
        ratio=with_contact / without,
        warm=warm,
        warm_ratio=warm / without,
        first_call=first,
        newton=int(info.contacts.steps),
        natural=float(info.contacts.errors.natural),
    )


def measure_gradient(cells: int, contacts: int) -> None:
    system, state, _, scheme = cantilever(cells, contacts)

    def height(numbers: Any, state: jm.State) -> Any:
        friction, young = numbers
        trial = eqx.tree_at(lambda s: s.contacts["floor"].friction, scheme, friction)
        soft = eqx.tree_at(lambda s: s.forces["solid"].material.young, system, young)
        return jnp.sum(trial.step(soft, state, None, DT, throw=False)[0].position["beam"][:, 2])

    value, both = eqx.filter_jit(height), eqx.filter_jit(eqx.filter_value_and_grad(height))
    numbers = jnp.asarray(0.3), jnp.asarray(1e5)
    step, gradient = (cpu(lambda f=f: f(numbers, state), 12)[1] for f in (value, both))
    said(what="gradient", contacts=contacts, step=step, value_and_gradient=gradient, ratio=gradient / step)


def measure_pile(boxes: int, tolerance: float) -> None:
    half = np.array([0.1, 0.1, 0.05])
    corners = half * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    owners = np.repeat(np.arange(boxes), 8)
    system = jm.System(
        {"box": jm.Rigid3(), "corners": jm.Vec3()},
        mappings={"fixed": jm.mapping.RigidMapping(("box", owners), "corners", np.tile(corners, (boxes, 1)))},
        masses={"mass": jm.mass.RigidMass(("box", np.arange(boxes)), 1.0, 0.01 * np.eye(3))},
        gravity=[0.0, 0.0, -9.81],
    )
    number = np.arange(boxes)
    frames = np.zeros((boxes, 7))
    frames[:, 0], frames[:, 2], frames[:, 6] = 0.3 * (number // 5), 0.05 + 0.1 * (number % 5), 1.0
    state, points, near = (
        system.at_rest({"box": frames}),
        ("corners", np.arange(8 * boxes)),
        {"friction": 0.5, "margin": 0.01},
    )
    contacts = {
        "boxes": jm.contact.PointContact(
            points, jm.contact.Box(half), frames=("box", number), owners=owners, capacity=8 * boxes, **near
        ),
        "floor": jm.contact.PointContact(points, jm.contact.Plane(), capacity=4 * (boxes // 5), **near),
    }
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    scheme = jm.integrator.FreeMotion(motion, contacts, tolerance=tolerance)
    carry = scheme.init(system, state)
    step = eqx.filter_jit(lambda s, c: scheme.step(system, s, c, DT, throw=False))
    first, cold = cpu(lambda: step(state, carry), 2)
    resting = step(state, carry)[:2]
    pushed = np.random.default_rng(0).normal(size=(boxes, 6)) * [0.3, 0.3, 0.0, 1.0, 1.0, 1.0]
    moving = dataclasses.replace(resting[0], velocity={"box": jnp.asarray(pushed)}), resting[1]
    rest, shaken = cpu(lambda: step(*resting), 3)[1], []
    for _ in range(14):
        shaken.append(cpu(lambda at=moving: step(*at), 1)[1])
        *moving, told = step(*moving)
        assert told.result == jm.RESULTS.successful
    shaken = sorted(shaken)
    row = {"from_nothing": cold, "rest": rest, "moving": shaken[7], "moving_most": shaken[-1], "tolerance": tolerance}
    held = int(step(*resting)[2].contacts.held.sum())
    said(what="pile", boxes=boxes, contacts=held, **row, real_time=[rest / DT, shaken[7] / DT], first_call=first)


def measure_problem() -> None:
    rows = np.random.default_rng(0).normal(size=(36, 40))
    problem = jm.contact.ContactProblem(rows @ rows.T, rows[:, 0].reshape(12, 3), 0.5)
    first, again = cpu(lambda: jm.contact.solve_contacts(problem).impulse)
    said(what="problem", contacts=12, first_call=first, again=again)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["cantilever", "gradient", "pile", "problem"])
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--contacts", type=int, default=100)
    parser.add_argument("--boxes", type=int, default=20)
    parser.add_argument("--tolerance", type=float, default=1e-9)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for what in given.what:
        if what == "pile":
            measure_pile(given.boxes, given.tolerance)
        elif what == "problem":
            measure_problem()
        else:
            {"cantilever": measure_cantilever, "gradient": measure_gradient}[what](given.cells, given.contacts)


if __name__ == "__main__":
    main()
