"""Assembly of tetrahedra by autodiff, and products with the matrix, beside SciPy and the copy bandwidth.

    python -m benchmarks.assembly [cells per side ...] [--material NeoHookean] [--dtype float64] [--keep] [--devices 1]

Prints one JSON line per size: seconds of the pattern (host, once), of one assembly and its rate, of one product, of
SciPy's BSR product on the same blocks, and the bandwidth of a copy; peak memory. With several devices, a core each, they
divide the assembly (`jaxmech.runtime.over_devices`); the rest is of one.
"""

import argparse
import time

import numpy as np

from benchmarks.clock import cold_and_warm, peak_megabytes, report


def measure(cells: int, material: str, dtype: str, devices: int) -> dict:
    """One cube of `6 cells^3` tetrahedra."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    import jaxmech as jm

    mesh = jm.mesh.box_mesh(cells=(cells, cells, cells), size=(1.0, 1.0, 1.0))
    mesh = jm.mesh.Mesh(mesh.points.astype(dtype), mesh.cells, mesh.kind)
    law = getattr(jm.material, material)(jnp.asarray(1e3, dtype), jnp.asarray(0.3, dtype))
    system = jm.System({"body": jm.Vec3()}, forces={"elastic": jm.force.TetrahedronFEM.from_mesh("body", mesh, law)})
    rest = system.at_rest({"body": mesh.points})
    start = time.perf_counter()
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))
    pattern = time.perf_counter() - start

    def assemble(linear_system, system, state):
        return linear_system.unconstrained(system, state)["body", "body"].values

    given = linear_system, system, rest
    if devices > 1:
        assemble = jm.runtime.over_devices(assemble)
        given = jax.device_put(given, NamedSharding(jax.make_mesh((devices,), ("all",)), PartitionSpec()))
    compiled = jax.jit(assemble)
    first, assembly, values = cold_and_warm(lambda: compiled(*given))
    values = jax.device_put(values, jax.devices()[0])
    matrix = jm.matrix.BlockSparse(values, linear_system.patterns["body", "body"])
    product = jax.jit(lambda A, x: A.mv(x))
    x = jnp.ones_like(mesh.points)
    _, spmv, _ = cold_and_warm(lambda: product(matrix, x), 30)
    scipy_matrix, flat = matrix.to_scipy(), np.ones(mesh.points.size, dtype)
    _, scipy_spmv, _ = cold_and_warm(lambda: scipy_matrix @ flat, 30)
    copy = jax.jit(lambda v: v * 2.0)
    _, copied, _ = cold_and_warm(lambda: copy(values), 10)
    tetrahedra = mesh.cells.shape[0]
    return {
        "tetrahedra": tetrahedra,
        "blocks": values.shape[0],
        "norm": float(jnp.linalg.norm(values)),
        "pattern s": pattern,
        "first assembly s": first,
        "assembly s": assembly,
        "M tets/s": tetrahedra / assembly / 1e6,
        "product s": spmv,
        "SciPy product s": scipy_spmv,
        "product / SciPy": spmv / scipy_spmv,
        "copy GB/s": 2 * values.nbytes / copied / 1e9,
        "Gdof/s": mesh.points.size / spmv / 1e9,
        "product GB/s": (values.nbytes + 4 * values.shape[0]) / spmv / 1e9,
        "peak MB": peak_megabytes(),
    }


def main() -> None:
    """Every size asked for."""
    import jax

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", type=int, nargs="*", default=[12, 25, 55])
    parser.add_argument("--material", default="NeoHookean")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--keep", action="store_true", help="keep freed memory (jaxmech.runtime.keep_freed_memory)")
    parser.add_argument("--devices", type=int, default=1, help="of the CPU, which divide the assembly")
    arguments = parser.parse_args()
    if arguments.devices > 1:
        jax.config.update("jax_num_cpu_devices", arguments.devices)
    jax.config.update("jax_enable_x64", arguments.dtype == "float64")
    if arguments.keep:
        import jaxmech

        assert jaxmech.runtime.keep_freed_memory()
    report(device=str(jax.devices()[0]), jax=jax.__version__, **vars(arguments))
    for cells in arguments.cells:
        report(**measure(cells, arguments.material, arguments.dtype, arguments.devices))


if __name__ == "__main__":
    main()
