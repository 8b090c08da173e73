"""Every cell cut into smaller ones, alike."""

import numpy as np

from .._runtime.argument_checks import check_choice, check_instance
from .mesh import Mesh
from .quadratic import quadratic_mesh

# Of the quadratic cell with nodes in all middles: the corners of its children, in VTK's order.
_CUTS = {
    "edge": ("edge3", ((0, 2), (2, 1))),
    "triangle": ("triangle6", ((0, 3, 5), (3, 1, 4), (5, 4, 2), (3, 4, 5))),
    "quad": ("quad9", ((0, 4, 8, 7), (4, 1, 5, 8), (8, 5, 2, 6), (7, 8, 6, 3))),
    "tetrahedron": (
        "tetrahedron10",
        ((0, 4, 6, 7), (4, 1, 5, 8), (6, 5, 2, 9), (7, 8, 9, 3), (6, 8, 7, 4), (6, 8, 4, 5), (6, 8, 5, 9), (6, 8, 9, 7)),
    ),
    "hexahedron": (
        "hexahedron27",
        (
            (0, 8, 24, 11, 16, 22, 26, 20),
            (8, 1, 9, 24, 22, 17, 21, 26),
            (24, 9, 2, 10, 26, 21, 18, 23),
            (11, 24, 10, 3, 20, 26, 23, 19),
            (16, 22, 26, 20, 4, 12, 25, 15),
            (22, 17, 21, 26, 12, 5, 13, 25),
            (26, 21, 18, 23, 25, 13, 6, 14),
            (20, 26, 23, 19, 15, 25, 14, 7),
        ),
    ),
}


def refined_mesh(mesh: Mesh) -> Mesh:
    """Every edge halved: 2 edges, 4 triangles or quads, 8 tetrahedra or hexahedra in place of one. Children of cell `e` are
    cells `q e, ..., q e + q - 1`.

    Points [m] keep their numbers, new ones follow; differentiable by those of `mesh`. Raises `ValueError` for other kinds.
    Source: J. Bey, Computing 55 (1995) 355, doi:10.1007/BF02238487 (tetrahedra).

    Example:

        fine = jm.mesh.refined_mesh(mesh)
        assert len(fine.cells) == 8 * len(mesh.cells) and jnp.allclose(fine.measure(), mesh.measure())
    """
    check_instance("refined_mesh", "mesh", mesh, Mesh)
    check_choice("refined_mesh", "kind of mesh", mesh.kind, tuple(_CUTS))
    kind, children = _CUTS[mesh.kind]
    whole = quadratic_mesh(mesh, kind)
    cells = np.asarray(whole.cells)[:, np.asarray(children)]
    return Mesh(whole.points, cells.reshape(-1, cells.shape[-1]), mesh.kind)
