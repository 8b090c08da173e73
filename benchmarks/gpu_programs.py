"""The programs of a GPU, compiled where there is none: what they are made of, and how long that takes.

    pip install "jax-cuda13-plugin[with-cuda]"  # of the version of jax
    python -m benchmarks.gpu_programs [--cells 12] [--dtype float64]

XLA compiles for an H100 that it is told of, machine code included; nothing is run, and nothing tuned by running. One JSON
line a program: seconds of the compiler, kernels outside loops, loops, scatters, functions of libraries, megabytes of
temporaries, and of arguments and results. Times are the compiler's on this machine.
"""

import argparse
import collections
import os
import re
import time
from typing import Any

from benchmarks.clock import report

# What XLA asks of a device. Figures of the SXM module: NVIDIA H100 Tensor Core GPU Architecture (2022), CUDA C++ guide.
H100 = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  threads_per_warp: 32 threads_per_block_limit: 1024 threads_per_core_limit: 2048
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 device_memory_size: 84929347584
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 7 }
runtime_version { major: 12 minor: 8 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # there is no driver
    "EQX_ON_ERROR": "nan",  # an error would need a client of the device, to call the host
    "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false",  # that is chosen by running it
}


def told_of_a_gpu() -> Any:
    """The sharding of arrays on it; from here on jaxmech makes the programs of a GPU."""
    import jax
    from jax._src import xla_bridge
    from jax.experimental import topologies

    if "cuda" not in xla_bridge._backend_factories:  # from JAX 0.11 on, twice is an error
        xla_bridge.discover_pjrt_plugins()
    topology = topologies.get_topology_desc("", "cuda", target_config=H100, topology="1x1x1")
    mesh = jax.sharding.Mesh(topology.devices[:1], ("all",))
    jax.default_backend = lambda: "gpu"
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def show(name: str, sharding: Any, function: Any, *arguments: Any) -> None:
    """Compile a function of scenes, and report."""
    import equinox as eqx
    import jax

    arrays, static = eqx.partition(arguments, eqx.is_array)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding), arrays)

    def of_arrays(arrays):
        return eqx.filter(function(*eqx.combine(arrays, static)), eqx.is_array)

    start = time.perf_counter()
    lowered = jax.jit(of_arrays, out_shardings=sharding).lower(shapes)
    traced = time.perf_counter()
    program = lowered.compile()
    seconds = time.perf_counter() - traced
    text, memory = program.as_text(), program.memory_analysis()
    assert text is not None and memory is not None
    kernels = re.findall(r"= .*? (?:fusion|custom-call)\(", text.split("\nENTRY ")[1])
    report(
        program=name,
        **{"trace s": traced - start, "compile s": seconds, "kernels": len(kernels), "loops": text.count(" while(")},
        scatters=text.count(" scatter("),
        libraries=dict(collections.Counter(re.findall(r'custom_call_target="([^"]+)"', text))),
        **{"temporary MB": memory.temp_size_in_bytes / 1e6, "arguments MB": memory.argument_size_in_bytes / 1e6},
        **{"results MB": memory.output_size_in_bytes / 1e6},
    )


def programs(n: int, dtype: str) -> list[tuple[str, Any, Any]]:
    """Names, functions and scenes: assembly, product and steps of a cantilever, and the equilibrium of another."""
    import jax
    import jax.numpy as jnp

    import jaxmech as jm
    from benchmarks.__main__ import LAWS
    from benchmarks.accelerator import cantilever
    from benchmarks.step import clamped

    def assemble(system, state, linear_system):
        return linear_system.assemble(system, state)

    def step(system, state, linear_system):
        return jm.ImplicitEuler(linear_system, jm.solver.PCG(1e-6)).step(system, state, None, jnp.asarray(0.01), throw=False)

    def solve(system, state, linear_system):
        return jm.static_solve(system, state, linear_system, solver=jm.solver.PCG(), throw=False)

    made = []
    mesh = jm.mesh.box_mesh(cells=(4 * n, n, n), size=(4.0, 1.0, 1.0))
    for law in LAWS:
        elastic = jm.force.TetrahedronFEM.from_mesh("beam", mesh, getattr(jm.material, law)(1000.0, 0.3))
        system, state = clamped("beam", mesh, elastic, jm.mass.ConsistentMass.from_mesh("beam", mesh, 1.0))
        scene = system, state, jm.MatrixLinearSystem.build(system, state)
        made += [(f"assembly, {law}", assemble, scene), (f"step, {law}", step, scene)]
    matrix = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(assemble, *scene))
    made.append(("product", lambda A, x: A.mv(x), (matrix, state.velocity)))
    made.append(("equilibrium, hexahedra", solve, cantilever(n, dtype)[1:]))
    return made


def main() -> None:
    """All of them, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=12, help="n of 4n x n x n cells, of six tetrahedra each")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    arguments = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    import jax

    jax.config.update("jax_enable_x64", arguments.dtype == "float64")
    report(jax=jax.__version__, **vars(arguments))
    made = programs(arguments.cells, arguments.dtype)
    sharding = told_of_a_gpu()
    for name, function, scene in made:
        show(name, sharding, function, *scene)


if __name__ == "__main__":
    main()
