"""A scene whose work devices divide, and from how few elements on they do where tests ask for it."""

import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from jaxmech._codegen import dispatch
from jaxmech._sparse import spmv as block_product

SMALL = {
    dispatch: {"_FEWEST": 1, "_FEW": 1, "_DIVIDED": 1, "_CHUNK": 30},
    block_product: {"_DIVIDED": 1},
}


def beam(cells=(8, 3, 2)):
    """288 tetrahedra clamped at one side, each with its own modulus; how many they are."""
    mesh = jm.mesh.box_mesh(cells=cells, size=(2.0, 1.0, 1.0))
    young = jnp.linspace(900.0, 1100.0, mesh.cells.shape[0])
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={"elastic": jm.force.TetrahedronFEM.from_mesh("beam", mesh, jm.material.StVenantKirchhoff(young, 0.3))},
        masses={"mass": jm.mass.UniformMass(("beam", np.arange(len(mesh.points))), 0.01)},
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=(0.0, 0.0, -10.0),
    )
    return system, system.at_rest({"beam": mesh.points}), mesh.cells.shape[0]
