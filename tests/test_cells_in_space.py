"""Masses and loads of cells that have fewer dimensions than the space they are in, by numbers worked out by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm

# A leg of length 5 = |(3, 0, 4)| that rises, then one of length 3 that is vertical.
ROPE = jm.mesh.Mesh([[0.0, 0, 0], [3, 0, 4], [3, 0, 7]], [[0, 1], [1, 2]], "edge")
CORNER = jm.mesh.Mesh([[0.0, 0, 0], [2, 0, 0], [0, 0, 3]], [[0, 1, 2]], "triangle")  # upright, of area 3


def loaded(mesh, dof, density, traction):
    """The mass matrix of one component of the velocity, and the forces of a load."""
    system = jm.System(
        {"a": dof},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("a", mesh, density)},
        forces={"load": jm.force.Traction.from_mesh("a", mesh, traction)},
    )
    state = system.at_rest({"a": mesh.points})
    mass = jm.matrix.component_matrix(system, state, "mass", "mass")["a", "a"].to_dense((len(mesh.points),) * 2)
    return np.asarray(mass)[:: dof.deriv_size, :: dof.deriv_size], np.asarray(jm.total_force(system, state)["a"])


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=ROUND_OFF, atol=ROUND_OFF)


def test_edges_in_space_have_their_length():
    mass, force = loaded(ROPE, jm.Vec3(), 2.0, [1.0, 0.0, -10.0])
    close(mass, 2.0 / 6.0 * np.array([[10.0, 5, 0], [5, 16, 3], [0, 3, 6]]))  # rho L / 6 [[2, 1], [1, 2]]
    close(mass.sum(), 2.0 * 8.0)
    close(force, np.outer([2.5, 4.0, 1.5], [1.0, 0.0, -10.0]))
    close(jm.mass.DiagonalMass.from_mesh("a", ROPE, 2.0).mass, [5.0, 8.0, 3.0])


@pytest.mark.parametrize(
    "turn", [np.eye(3), [[0.0, 0, 1], [1, 0, 0], [0, 1, 0]], [[0.6, 0, 0.8], [0, 1, 0], [-0.8, 0, 0.6]]]
)
def test_nothing_depends_on_the_axes(turn):
    turned = jm.mesh.Mesh(np.asarray(ROPE.points) @ np.asarray(turn).T, ROPE.cells, "edge")
    close(loaded(turned, jm.Vec3(), 2.0, [0.0, 1.0, 0.0])[0], loaded(ROPE, jm.Vec3(), 2.0, [0.0, 1.0, 0.0])[0])


def test_triangles_in_space_and_in_the_plane():
    for mesh, dof in ((CORNER, jm.Vec3()), (jm.mesh.Mesh(CORNER.points[:, ::2], CORNER.cells, "triangle"), jm.Vec2())):
        pull = jnp.arange(1.0, dof.coord_size + 1)
        mass, force = loaded(mesh, dof, 4.0, pull)
        close(mass, 4.0 * 3.0 / 12.0 * (np.ones((3, 3)) + np.eye(3)))
        close(force, np.tile(pull, (3, 1)))  # a third of the area of 3 at each corner


@pytest.mark.parametrize("cells, kind", [([[0, 2, 1]], "triangle"), ([[1, 0], [2, 1]], "edge")])
def test_a_mass_is_positive_whichever_way_round(cells, kind):
    backwards = jm.mesh.Mesh(CORNER.points[:, ::2], cells, kind)
    forwards = jm.mesh.Mesh(backwards.points, np.asarray(cells)[:, ::-1], kind)
    close(loaded(backwards, jm.Vec2(), 4.0, [1.0, 2.0])[0], loaded(forwards, jm.Vec2(), 4.0, [1.0, 2.0])[0])
    assert np.linalg.eigvalsh(loaded(backwards, jm.Vec2(), 4.0, [1.0, 2.0])[0]).min() > 0


def test_a_load_is_refused_on_rest_positions_of_another_dimension():
    load = jm.force.Traction(("a", [[0, 1]]), [[0.0, 0.0], [1.0, 0.0]], [1.0, 0.0, 0.0], "edge")
    with pytest.raises(ValueError, match="'load': Traction of rest positions \\(2, 2\\)"):
        jm.System({"a": jm.Vec3()}, forces={"load": load}).at_rest({"a": [[0.0, 0, 0], [1, 0, 0]]})


def test_a_pressure_needs_a_normal():
    """An edge in space has none."""
    with pytest.raises(ValueError, match="acts on points of 2 coordinates"):
        jm.System({"a": jm.Vec3()}, forces={"p": jm.force.Pressure.from_mesh("a", ROPE, 1.0)}).at_rest({"a": ROPE.points})
