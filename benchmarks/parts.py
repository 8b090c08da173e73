"""A clamped cantilever whose nodes are divided over devices, without a matrix: what each device holds, and what it takes.

    python -m benchmarks.parts 12 [--devices 4] [--only-memory] [--once]

The scene of `benchmarks.ranks`, on so many virtual devices of one CPU; to 1e-8. Bytes of a device are those that XLA says of
the program of the solve: what it is given, and what it takes on the way; of the whole process, what it took at its highest.
CPU seconds of all devices: to divide the scene, to trace and compile, and of the second solve (`--once`: of the first one,
of what takes long: 94 has 10,207,275 unknowns).
"""

import argparse
import os
import time
from typing import Any

from benchmarks.clock import report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="?", default=8)
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--only-memory", action="store_true")
    parser.add_argument("--once", action="store_true")
    asked = parser.parse_args()
    # Before JAX is imported: their number is fixed at the start.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={asked.devices}"
    import equinox as eqx
    import jax

    import jaxmech as jm
    from benchmarks.clock import peak_megabytes
    from benchmarks.ranks import Stopwatch, cantilever
    from jaxmech._distributed.device_solve import Means, iterated
    from jaxmech._solve.equilibrium import NewtonOptions

    jax.config.update("jax_enable_x64", True)
    system, state = cantilever(asked.n)
    watch = Stopwatch()
    division = jm.distributed.divide_over_devices(system, state)
    said = {"divide s": watch()}
    parts, divided = division.part(system, state)
    means = Means(division.tables, division, divided, NewtonOptions(None), 5e-9, "parts")  # in one step of Newton
    arrays, static = eqx.partition((parts, means), eqx.is_array)
    program = jax.jit(lambda arrays: iterated(*eqx.combine(arrays, static))).lower(arrays).compile()
    said["compile s"] = watch()
    memory: Any = program.memory_analysis()
    said |= {"MB given": memory.argument_size_in_bytes / 1e6, "MB on the way": memory.temp_size_in_bytes / 1e6}
    if not asked.only_memory:
        if not asked.once:
            jax.block_until_ready(program(arrays))
            watch()
        start = time.perf_counter()
        *_, steps = jax.block_until_ready(program(arrays))
        said |= {"solve s": watch(), "by the clock s": time.perf_counter() - start, "iterations": int(steps)}
    levels, unknowns = division.tables[1], state.position["beam"].size
    said |= {"bodies": levels.modes.shape[0], "colours": levels.colours, "nodes of a part": division.nodes.shape[1]}
    said["MB at most"] = peak_megabytes()
    report(scene="cantilever", unknowns=unknowns, devices=asked.devices, **said)


if __name__ == "__main__":
    main()
