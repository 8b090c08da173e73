"""What a Gauss point costs: the stiffness of neo-Hookean solids of several kinds of cells beside other codes; structures.

    python -m benchmarks.cells [--points 40000] [--kinds tetrahedron10 quad-stress ...] [--codes jaxmech felupe skfem]

CPU seconds (the shortest of several runs) of one assembly of the tangent into sparse rows of about so many Gauss points,
microseconds for each point, and the norm of the matrix, which is that of the other codes. Every code uses the points that
jaxmech takes: 1 of tetrahedra, 4 of quadratic ones, 8 of hexahedra, 27 of those of 20 nodes. Of jaxmech alone: cells of the
plane, stretched by a twentieth; beams and rods, which count one point an element; shells, three. One JSON line each.
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
PLANE = {f"{kind}-{plane}": points for kind, points in (("triangle", 1), ("quad", 4)) for plane in ("strain", "stress")}
STRUCTURES = {"beam": 1, "rod": 1, "shell": 3}  # points of an element


def linear_and_mesh(kind: str, side: int) -> tuple[Any, Any]:
    """The linear mesh of `side^3` cubes, and its cells of this kind."""
    import jaxmech as jm

    box = jm.mesh.box_mesh(cells=(side,) * 3, size=(1.0, 1.0, 1.0), kind=kind.rstrip("012"))
    return box, box if box.kind == kind else jm.mesh.quadratic_mesh(box, kind=kind)


def jaxmech_assembly(kind: str, side: int) -> Any:
    """One call of a compiled program; rows by SciPy for the norm only."""
    import jaxmech as jm

    _, mesh = linear_and_mesh(kind, side)
    law = jm.material.NeoHookean.from_lame(MU, LAM)
    system = jm.System({"body": jm.Vec3()}, forces={"solid": jm.force.SolidFEM.from_mesh("body", mesh, law)})
    return assembly_of(system, {"body": mesh.points})


def assembly_of(system: Any, rest: Any) -> Any:
    """The blocks of the first state."""
    import equinox as eqx

    import jaxmech as jm

    state, first = system.at_rest(rest), next(iter(rest))
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))
    assemble = eqx.filter_jit(lambda L, s, x: L.unconstrained(s, x)[first, first].values)
    return lambda: assemble(linear_system, system, state)


def plane_assembly(kind: str, cells: int) -> Any:
    """About so many cells of a square, in plane strain or stress."""
    import jaxmech as jm

    kind, plane = kind.split("-")
    side = max(1, round((cells / (2 if kind == "triangle" else 1)) ** 0.5))
    mesh = jm.mesh.box_mesh(cells=(side, side), size=(1.0, 1.0), kind=kind)
    law = jm.material.NeoHookean.from_lame(MU, LAM)
    system = jm.System({"body": jm.Vec2()}, forces={"solid": jm.force.SolidFEM.from_mesh("body", mesh, law, plane=plane)})
    return assembly_of(system, {"body": np.asarray(mesh.points) @ np.array([[1.05, 0.0], [0.02, 0.98]])})


def structure_assembly(kind: str, elements: int) -> Any:
    """A straight line of beams or rods, or a square plate of about so many triangles."""
    import jaxmech as jm

    section = jm.force.Section.circle(0.01, young=1e9, poisson=0.3)
    line = np.linspace([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], elements + 1)
    if kind == "beam":
        rest, pairs = jm.mesh.frames_along(line), np.stack([np.arange(elements), np.arange(1, elements + 1)], axis=1)
        system = jm.System({"f": jm.Rigid3()}, forces={"beam": jm.force.Beam(("f", pairs), rest, section)})
        return assembly_of(system, {"f": rest})
    if kind == "rod":
        rod = jm.force.ElasticRod.chain("x", "angle", line, section)
        system = jm.System({"x": jm.Vec3(), "angle": jm.Vec1()}, forces={"rod": rod})
        return assembly_of(system, {"x": line, "angle": np.zeros((elements, 1))})
    side = max(1, round((elements / 2) ** 0.5))
    flat = jm.mesh.box_mesh(cells=(side, side), size=(1.0, 1.0))
    sheet = jm.mesh.Mesh(np.pad(np.asarray(flat.points), ((0, 0), (0, 1))), flat.cells, "triangle")
    shell = jm.force.Shell.from_mesh("f", sheet, young=1e9, poisson=0.3, thickness=0.01)
    return assembly_of(jm.System({"f": jm.Rigid3()}, forces={"shell": shell}), {"f": shell.rest})


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
    kinds = [*KINDS, *PLANE, *STRUCTURES]
    parser.add_argument("--kinds", nargs="*", choices=kinds, default=kinds)
    parser.add_argument("--codes", nargs="*", choices=list(CODES), default=list(CODES))
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        if kind in STRUCTURES:
            assemble = structure_assembly(kind, elements := round(arguments.points / STRUCTURES[kind]))
            told(kind, "jaxmech", elements * STRUCTURES[kind], assemble)
            continue
        if kind in PLANE:
            told(kind, "jaxmech", arguments.points, plane_assembly(kind, round(arguments.points / PLANE[kind])))
            continue
        points, cells = KINDS[kind][:2]
        side = max(1, round((arguments.points / points / cells) ** (1 / 3)))
        count = cells * side**3 * points
        for code in arguments.codes:
            if code != "jaxmech" and importlib.util.find_spec(code) is None:
                print(f"# {code} is not installed", flush=True)
                continue
            told(kind, code, count, CODES[code](kind, side))


def told(kind: str, code: str, count: int, assemble: Any) -> None:
    """One line."""
    norm = float(np.sqrt(np.sum(np.asarray(assemble()) ** 2)))
    seconds = cpu_seconds(assemble)
    report(kind=kind, code=code, points=count, cpu=seconds, us_per_point=seconds / count * 1e6, norm=norm)


if __name__ == "__main__":
    main()
