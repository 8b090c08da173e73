"""Many scenes at once: a step of 1,024 soft fingers by `vmap`, in chunks, beside a compiled loop over them.

    python -m benchmarks.batch [--scenes 1024] [--chunks 16 64 256]

A finger of 200 nodes, 456 corotational tetrahedra, clamped at its root, each with its own Young's modulus and its own start.
`loop` is `jax.lax.map`, one scene after the other; a chunk is `jax.lax.map(..., batch_size=chunk)`, a loop over batches. The
memory is what XLA reserves beside arguments and results. All must give the positions of the loop.
"""

import argparse
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import cold_and_warm, report
from benchmarks.step import clamped

DT, STEPS = 0.01, 3
SOLVERS = {"PCG 1e-8": jm.PCG(1e-8), "direct": jm.SparseDirect()}


def finger():
    """The scene, its state at rest, the linear system."""
    mesh = jm.box_mesh(cells=(19, 1, 4), size=(4.75, 0.25, 1.0))
    elastic = jm.TetrahedronFEM.from_mesh("finger", mesh, jm.Corotational(1000.0, 0.3))
    system, state = clamped("finger", mesh, elastic, jm.ConsistentMass.from_mesh("finger", mesh, 1.0))
    return system, state, jm.MatrixLinearSystem.build(system, state)


def stepper(solver: Any, chunk: int):
    """Some steps of every scene, `chunk` of them at a time: one after the other if it is 0."""

    def of_one(system, state, linear_system, young):
        system = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, young)
        integrator = jm.ImplicitEuler(linear_system, solver)
        return jm.simulate(system, state, integrator, DT, STEPS, save_every=STEPS, throw=False).last.position["finger"]

    def run(system, linear_system, youngs, states):
        def one(scene):
            return of_one(system, scene[1], linear_system, scene[0])

        return jax.lax.map(one, (youngs, states), batch_size=chunk or None)

    return run


def main() -> None:
    """The loop, then every chunk."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=1024)
    parser.add_argument("--chunks", type=int, nargs="*", default=[16, 64, 256, 1024])
    arguments = parser.parse_args()
    system, state, linear_system = finger()
    count = arguments.scenes
    rng = np.random.default_rng(0)
    youngs = jnp.asarray(rng.uniform(500.0, 2000.0, count))
    states = jax.tree.map(lambda a: jnp.broadcast_to(a, (count, *a.shape)), state)
    pushed = states.velocity["finger"] + 0.1 * rng.normal(size=states.velocity["finger"].shape)
    states = eqx.tree_at(lambda s: s.velocity["finger"], states, pushed)
    cases = [(name, 0) for name in SOLVERS] + [("PCG 1e-8", min(c, count)) for c in arguments.chunks]
    expected, loop = None, np.inf
    for name, chunk in cases:
        arrays, static = eqx.partition((system, linear_system, youngs, states), eqx.is_array)
        run = stepper(SOLVERS[name], chunk)
        program = jax.jit(lambda arrays, run=run, static=static: run(*eqx.combine(arrays, static))).lower(arrays).compile()
        memory = program.memory_analysis()
        assert memory is not None
        _, seconds, positions = cold_and_warm(lambda program=program, arrays=arrays: program(arrays), 2)
        expected = positions if expected is None else expected
        loop = min(loop, seconds) if chunk == 0 else loop
        row = {"scene steps / s": count * STEPS / seconds, "MB": memory.temp_size_in_bytes / 1e6}
        off = float(jnp.abs(positions - expected).max())
        report(
            scenes=count, chunk=chunk or "loop", solver=name, s=seconds, **row, off=off, **{"loop / this": loop / seconds}
        )


if __name__ == "__main__":
    main()
