"""The stiffness of neo-Hookean tetrahedra by other codes, on the mesh of `benchmarks.assembly`.

    python -m benchmarks.peers {felupe,skfem} [cells per side ...]

Prints one JSON line per size: seconds of the set-up, of one assembly into SciPy's rows and its rate, the norm of the matrix,
which is that of jaxmech, peak memory.
"""

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.cantilever import LAM, MU
from benchmarks.clock import cold_and_warm, peak_megabytes, report


def felupe_assembly(points: np.ndarray, cells: np.ndarray) -> Any:
    """NumPy einsum, hand-written tangents."""
    import felupe  # pyright: ignore[reportMissingImports]

    mesh = felupe.Mesh(points, cells, "tetra")
    field = felupe.FieldContainer([felupe.Field(felupe.RegionTetra(mesh), dim=3)])
    solid = felupe.SolidBody(felupe.NeoHookeCompressible(mu=MU, lmbda=LAM), field)
    return lambda: solid.assemble.matrix(field).tocsr()


def skfem_assembly(points: np.ndarray, cells: np.ndarray) -> Any:
    """NumPy forms, hand-written tangent."""
    import skfem  # pyright: ignore[reportMissingImports]

    from benchmarks.cantilever import skfem_stiffness

    mesh = skfem.MeshTet(points.T.copy(), cells.T.copy())
    basis: Any = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementTetP1()), intorder=1)
    stiffness = skfem_stiffness()
    return lambda: stiffness.assemble(basis, u=basis.interpolate(np.zeros(basis.N))).tocsr()


CODES = {"felupe": felupe_assembly, "skfem": skfem_assembly}


def main() -> None:
    """One code, every size asked for."""
    import jax

    import jaxmech as jm

    jax.config.update("jax_enable_x64", True)  # the points of the mesh are those of the other codes
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code", choices=list(CODES))
    parser.add_argument("cells", type=int, nargs="*", default=[12, 25])
    arguments = parser.parse_args()
    for cells in arguments.cells:
        mesh = jm.mesh.box_mesh(cells=(cells, cells, cells), size=(1.0, 1.0, 1.0))
        start = time.perf_counter()
        assemble = CODES[arguments.code](np.asarray(mesh.points), np.asarray(mesh.cells))
        setup = time.perf_counter() - start
        first, seconds, matrix = cold_and_warm(assemble)
        count = mesh.cells.shape[0]
        row = {"set-up s": setup, "first assembly s": first, "assembly s": seconds, "M tets/s": count / seconds / 1e6}
        norm = float(np.sqrt((matrix.data**2).sum()))
        report(code=arguments.code, tetrahedra=count, **row, norm=norm, **{"peak MB": peak_megabytes()})


if __name__ == "__main__":
    main()
