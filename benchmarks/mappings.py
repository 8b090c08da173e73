"""What mappings cost: projection beside assembly, a rigid body of many points, the steps of two scenes of SOFA.

    python -m benchmarks.mappings [projection many_points pendulum beams]

Prints one JSON line per measurement; times are the best of several runs of a compiled function [ms].
"""

import json
import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import forget

jax.config.update("jax_enable_x64", True)


def milliseconds(function, *arguments, runs: int = 20) -> float:
    """The shortest of some runs, compilation left out."""
    compiled = eqx.filter_jit(function)
    jax.block_until_ready(compiled(*arguments))
    times = []
    for _ in range(runs):
        forget()
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def assemble(linear_system, system, state):
    """The values of the matrix."""
    return [entry.values for entry in linear_system.assemble(system, state).entries.values()]


def projection() -> dict[str, Any]:
    """5,000 barycentric points with springs between them in a body of 48,000 tetrahedra."""
    mesh = jm.mesh.box_mesh(cells=(20, 20, 20), size=(1.0, 1.0, 1.0))
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 1, (5000, 3))
    points[np.arange(5000), rng.integers(0, 3, 5000)] = rng.integers(0, 2, 5000)  # on the surface
    body = {"solid": jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.NeoHookean(1e3, 0.3))}
    pairs = np.argsort(points @ [1.0, 0.01, 0.0001])
    skin = {"skin": jm.force.Springs((("skin", pairs[:-1]), ("skin", pairs[1:])), 10.0, 0.01)}
    mapping = {"embed": jm.mapping.BarycentricMapping.from_mesh("body", "skin", mesh, points)}
    terms, times = jm.Terms(mass=False, damping=False), {}
    for name, dofs, forces, mappings in (
        ("body", {}, body, {}),
        ("both", {"skin": jm.Vec3()}, {**body, **skin}, mapping),
    ):
        system = jm.System({"body": jm.Vec3(), **dofs}, forces=forces, mappings=mappings)
        state = system.at_rest({"body": mesh.points})
        linear_system = jm.MatrixLinearSystem.build(system, state, terms)
        times[name] = milliseconds(assemble, linear_system, system, state)
    return {**times, "projection / body": times["both"] / times["body"] - 1}


def many_points() -> dict[str, Any]:
    """A rigid frame that carries 100,000 points on springs: one 6 x 6 block."""
    n = 100_000
    local = np.random.default_rng(0).normal(size=(n, 3))
    system = jm.System(
        {"body": jm.Rigid3(), "points": jm.Vec3()},
        forces={"springs": jm.force.AnchoredSprings(("points", np.arange(n)), 1.0, local + 0.1)},
        mappings={"on": jm.mapping.RigidMapping(("body", np.zeros(n, int)), "points", local)},
    )
    state = system.at_rest({"body": [[0.0] * 6 + [1.0]]})
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))
    return {"assembly": milliseconds(assemble, linear_system, system, state)}


def pendulum() -> dict[str, Any]:
    """One linear step of the chain of 20 masses on distance-mapped springs, 60 unknowns: SOFA needs 0.11 ms."""
    nodes = 20
    x = np.stack([np.linspace(0.0, 1.0, nodes), np.zeros(nodes), np.zeros(nodes)], axis=1)
    a = np.arange(nodes - 1)
    system = jm.System(
        {"chain": jm.Vec3(), "links": jm.Vec1()},
        forces={"springs": jm.force.AnchoredSprings(("links", a), 1000.0, np.zeros((nodes - 1, 1)))},
        masses={"mass": jm.mass.UniformMass(("chain", np.arange(nodes)), 5e-5)},
        mappings={"links": jm.mapping.DistanceMapping((("chain", a), ("chain", a + 1)), "links", 1.0 / (nodes - 1))},
        constraints={"nail": jm.constraint.Fixed(("chain", [0]))},
        gravity=(0.0, 0.0, -10.0),
    )
    return {"step": step_time(system, system.at_rest({"chain": x}), 0.005, 200)}


def step_time(system, state, dt: float, steps: int, **options: Any) -> float:
    """Milliseconds per step of a compiled loop of steps."""
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), **options)

    def run(system, state):
        return jm.simulate(system, state, integrator, jnp.asarray(dt), steps, save_every=steps, throw=False).last.position

    return milliseconds(run, system, state, runs=3) / steps


def beams() -> dict[str, Any]:
    """One step of the three beams of `examples/rigid_sections.py`, 1,200 unknowns, beside SciPy's product for the scale."""
    mesh = jm.mesh.box_mesh(cells=(3, 3, 19), size=(3.0, 3.0, 19.0), kind="hexahedron")
    points = np.asarray(mesh.points)
    section = np.rint(points[:, 2]).astype(int)
    frames = np.zeros((20, 7))
    frames[:, :3], frames[:, 6] = np.stack([np.full(20, 1.5), np.full(20, 1.5), np.arange(20.0)], axis=1), 1.0
    times = {}
    for law in (jm.material.Corotational(1e4, 0.45), jm.material.LinearElastic(1e4, 0.45)):
        carried = ("one", "two")
        system = jm.System(
            {"free": jm.Vec3(), **{n: jm.Vec3() for n in carried}, **{f"{n} sections": jm.Rigid3() for n in carried}},
            forces={n: jm.force.HexahedronFEM((n, mesh.cells), points, law) for n in ("free", *carried)},
            masses={n: jm.mass.UniformMass((n, np.arange(len(points))), 1.0) for n in ("free", *carried)},
            mappings={n: jm.mapping.RigidMapping.from_global(f"{n} sections", n, section, frames, points) for n in carried},
            constraints={
                "free": jm.constraint.Fixed(("free", np.flatnonzero(section == 0))),
                **{n: jm.constraint.Fixed((f"{n} sections", [0])) for n in carried},
            },
            gravity=(0.0, -10.0, 0.0),
        )
        state = system.at_rest({"free": points, **{f"{n} sections": frames for n in carried}})
        times[type(law).__name__] = step_time(system, state, 0.02, 50, rayleigh_stiffness=0.1, rayleigh_mass=0.1)
    return {**times, "SOFA, constant pattern": 8.0, "SciPy product now / then": scipy_product() / 0.51}


def scipy_product() -> float:
    """SciPy's BSR product over 128,581 blocks: 0.51 ms on the machine of SOFA's figures."""
    mesh = jm.mesh.box_mesh(cells=(20, 20, 20), size=(1.0, 1.0, 1.0))
    system = jm.System(
        {"body": jm.Vec3()},
        forces={"s": jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.LinearElastic(1.0, 0.3))},
    )
    state = system.at_rest({"body": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))
    A = linear_system.assemble(system, state).to_scipy("bsr")
    u = np.ones(mesh.points.size)
    times = []
    for _ in range(30):
        start = time.perf_counter()
        _ = A @ u
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


if __name__ == "__main__":
    measures = {measure.__name__: measure for measure in (projection, many_points, pendulum, beams)}
    for name in sys.argv[1:] or measures:
        print(json.dumps({name: measures[name]()}), flush=True)
