"""Many scenes at once: a step of 1,024 soft fingers, one after the other, by `vmap`, and divided over devices.

    python -m benchmarks.batch [--scenes 1024] [--chunks 4 16 64 256 1024] [--devices 2] [--cells 19 1 4]

A finger of 200 nodes, 456 corotational tetrahedra (unless other cells are given), clamped at its root, each with its own
Young's modulus and its own start.
`loop` is `jax.lax.map`, one scene after the other; a chunk is `jax.lax.map(..., batch_size=chunk)`, a loop over batches.
With several devices, a core each, all have their share of the scenes and do the same with it. The memory is what
XLA reserves beside arguments and results. All must give the positions of the loop on one device.
"""

import argparse
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxmech as jm
from benchmarks.clock import cold_and_warm, report
from benchmarks.step import clamped

DT, STEPS = 0.01, 3
SOLVERS = {"PCG 1e-8": jm.solver.PCG(1e-8), "direct": jm.solver.SparseDirect()}


def finger(cells: tuple[int, int, int] = (19, 1, 4)):
    """The scene, its state at rest, the linear system."""
    mesh = jm.mesh.box_mesh(cells=cells, size=(4.75, 0.25, 1.0))
    elastic = jm.force.TetrahedronFEM.from_mesh("finger", mesh, jm.material.Corotational(1000.0, 0.3))
    system, state = clamped("finger", mesh, elastic, jm.mass.ConsistentMass.from_mesh("finger", mesh, 1.0))
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


def over_devices(run: Any, devices: int, arrays: Any, static: Any):
    """The compiled program, and its arguments where they belong: the scenes divided, the rest everywhere."""
    mesh = jax.make_mesh((devices,), ("parts",), axis_types=(AxisType.Auto,), devices=jax.devices()[:devices])
    whole, split = PartitionSpec(), PartitionSpec("parts")
    shared, scenes = arrays[:2], arrays[2:]

    def of_device(shared, scenes):
        return run(*eqx.combine((*shared, *scenes), static))

    divided = jax.shard_map(of_device, mesh=mesh, in_specs=(whole, split), out_specs=split, check_vma=False)
    placed = jax.device_put(shared, NamedSharding(mesh, whole)), jax.device_put(scenes, NamedSharding(mesh, split))
    return jax.jit(divided).lower(*placed).compile(), placed


def main() -> None:
    """The loop, then every chunk, then the loop and a small chunk on all devices."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=1024)
    parser.add_argument("--chunks", type=int, nargs="*", default=[4, 16, 64, 256, 1024])
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--cells", type=int, nargs=3, default=[19, 1, 4])
    arguments = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", arguments.devices)
    system, state, linear_system = finger(tuple(arguments.cells))
    count = arguments.scenes
    rng = np.random.default_rng(0)
    youngs = jnp.asarray(rng.uniform(500.0, 2000.0, count))
    states = jax.tree.map(lambda a: jnp.broadcast_to(a, (count, *a.shape)), state)
    pushed = states.velocity["finger"] + 0.1 * rng.normal(size=states.velocity["finger"].shape)
    states = eqx.tree_at(lambda s: s.velocity["finger"], states, pushed)
    arrays, static = eqx.partition((system, linear_system, youngs, states), eqx.is_array)
    cases = [(name, 0, 1) for name in SOLVERS] + [("PCG 1e-8", min(c, count), 1) for c in arguments.chunks]
    cases += [("PCG 1e-8", chunk, arguments.devices) for chunk in (0, 4)] if arguments.devices > 1 else []
    expected, loop = None, np.inf
    for name, chunk, devices in cases:
        program, placed = over_devices(stepper(SOLVERS[name], chunk), devices, arrays, static)
        memory = program.memory_analysis()
        assert memory is not None
        _, seconds, positions = cold_and_warm(lambda program=program, placed=placed: program(*placed), 2)
        positions = np.asarray(positions)
        expected = positions if expected is None else expected
        loop = min(loop, seconds) if not chunk and devices == 1 else loop
        row = {"scene steps / s": count * STEPS / seconds, "MB": memory.temp_size_in_bytes / 1e6}
        row |= {"off": float(np.abs(positions - expected).max()), "loop / this": loop / seconds}
        nodes = state.position["finger"].shape[0]
        report(scenes=count, nodes=nodes, devices=devices, chunk=chunk or "loop", solver=name, s=seconds, **row)


if __name__ == "__main__":
    main()
