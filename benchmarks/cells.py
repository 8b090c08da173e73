"""What a Gauss point costs: the stiffness of neo-Hookean solids of several kinds of cells, beside other codes.

    python -m benchmarks.cells [--points 40000] [--kinds tetrahedron10 ...] [--codes jaxmech felupe skfem]

CPU seconds (the shortest of several runs) of one assembly of the tangent into sparse rows of about so many Gauss points,
microseconds for each point, and the norm of the matrix, which is that of the other codes. Every code uses the points that
jaxmech takes: 1 of tetrahedra, 4 of quadratic ones, 8 of hexahedra, 27 of those of 20 nodes. One JSON line each.
"""

import argparse
import importlib.util
from typing import Any

import numpy as np

from benchmarks.cantilever import LAM, MU
from benchmarks.clock import report
from benchmarks.materials import cpu_seconds

# By kind: Gauss points of a cell, cells in a cube; felupe's region; scikit-fem's mesh, element and degree of quadrature.
KINDS = {
    "tetrahedron": (1, 6, "RegionTetra", "MeshTet", "ElementTetP1", 1),
    "tetrahedron10": (4, 6, "RegionQuadraticTetra", "MeshTet", "ElementTetP2", 2),
    "hexahedron": (8, 1, "RegionHexahedron", "MeshHex", "ElementHex1", 3),
    "hexahedron20": (27, 1, "RegionQuadraticHexahedron", "MeshHex", "ElementHexS2", 5),
}


def linear_and_mesh(kind: str, side: int) -> tuple[Any, Any]:
    """The linear mesh of `side^3` cubes, and its cells of this kind."""
    import jaxmech as jm

    box = jm.mesh.box_mesh(cells=(side,) * 3, size=(1.0, 1.0, 1.0), kind=kind.rstrip("012"))
    return box, box if box.kind == kind else jm.mesh.quadratic_mesh(box, kind=kind)


def jaxmech_assembly(kind: str, side: int) -> Any:
    """One call of a compiled program; rows by SciPy for the norm only."""
    import equinox as eqx

    import jaxmech as jm

    _, mesh = linear_and_mesh(kind, side)
    law = jm.material.NeoHookean.from_lame(MU, LAM)
    system = jm.System({"body": jm.Vec3()}, forces={"solid": jm.force.SolidFEM.from_mesh("body", mesh, law)})
    state = system.at_rest({"body": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))
    assemble = eqx.filter_jit(lambda L, s, x: L.unconstrained(s, x)["body", "body"].values)
    return lambda: assemble(linear_system, system, state)


def felupe_assembly(kind: str, side: int) -> Any:
    """NumPy einsum, hand-written tangents."""
    import felupe  # pyright: ignore[reportMissingImports]

    _, mesh = linear_and_mesh(kind, side)
    of = felupe.Mesh(np.asarray(mesh.points), np.asarray(mesh.cells), "")
    field = felupe.FieldContainer([felupe.Field(getattr(felupe, KINDS[kind][2])(of), dim=3)])
    solid = felupe.SolidBody(felupe.NeoHookeCompressible(mu=MU, lmbda=LAM), field)
    return lambda: solid.assemble.matrix(field).tocsr().data


def skfem_assembly(kind: str, side: int) -> Any:
    """NumPy forms, hand-written tangent."""
    import skfem  # pyright: ignore[reportMissingImports]

    from benchmarks.cantilever import skfem_stiffness

    box, _ = linear_and_mesh(kind, side)
    _, _, _, of, element, degree = KINDS[kind]
    cells = np.asarray(box.cells)
    if of == "MeshHex":  # its order of corners
        cells = cells[:, [0, 4, 3, 1, 7, 5, 2, 6]]
    mesh = getattr(skfem, of)(np.asarray(box.points).T.copy(), cells.T.copy())
    basis: Any = skfem.Basis(mesh, skfem.ElementVector(getattr(skfem, element)()), intorder=degree)
    stiffness = skfem_stiffness()
    return lambda: stiffness.assemble(basis, u=basis.interpolate(np.zeros(basis.N))).tocsr().data


CODES = {"jaxmech": jaxmech_assembly, "felupe": felupe_assembly, "skfem": skfem_assembly}


def main() -> None:
    """Every kind by every code that is installed."""
    import jax

    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=40_000)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--codes", nargs="*", choices=list(CODES), default=list(CODES))
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        points, cells = KINDS[kind][:2]
        side = max(1, round((arguments.points / points / cells) ** (1 / 3)))
        count = cells * side**3 * points
        for code in arguments.codes:
            if code != "jaxmech" and importlib.util.find_spec(code) is None:
                print(f"# {code} is not installed", flush=True)
                continue
            assemble = CODES[code](kind, side)
            norm = float(np.sqrt(np.sum(np.asarray(assemble()) ** 2)))
            seconds = cpu_seconds(assemble)
            report(kind=kind, code=code, points=count, cpu=seconds, us_per_point=seconds / count * 1e6, norm=norm)


if __name__ == "__main__":
    main()
