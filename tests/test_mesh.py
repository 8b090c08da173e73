"""Meshes: reference elements, boxes, boundaries, measures, files."""

import re
import sys
import time
from math import factorial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm
from jaxmech._mesh.box import box_mesh
from jaxmech._mesh.io import read_mesh, write_mesh
from jaxmech._mesh.mesh import Mesh, boundary_faces
from jaxmech._mesh.reference import reference_element

ROUND_OFF = 1e-12  # sums of some hundred float64 numbers of order 1
FINITE_DIFFERENCE = 1e-8  # central differences with a step of 1e-5, on functions of order 1
STEP = 1e-5
BUILD_SECONDS = 5.0  # measured at 0.2 s: only a Python loop over cells can exceed it

KINDS = ("edge", "triangle", "quad", "tetrahedron", "prism", "hexahedron")
BOXES = [
    ((4, 3, 3), "tetrahedron", "alternating"),
    ((4, 3, 3), "tetrahedron", "kuhn"),
    ((4, 3, 3), "tetrahedron", "sofa"),
    ((2, 3, 2), "hexahedron", None),
    ((4, 3), "triangle", "alternating"),
    ((4, 3), "triangle", "kuhn"),
    ((3, 2), "quad", None),
]
CELLS_PER_BLOCK = {"tetrahedron": 6, "hexahedron": 1, "triangle": 2, "quad": 1}


def make_box(cells, kind, split):
    size = (2.0, 1.5, 0.7)[: len(cells)]
    return box_mesh(cells=cells, size=size, origin=(0.3, -0.2, 1.1)[: len(cells)], kind=kind, split=split)


def places_inside(element, count=5):
    """Points of the reference cell, as convex combinations of its vertices."""
    weights = np.random.default_rng(0).dirichlet(np.ones(element.nodes), count)
    return weights @ np.asarray(element.vertices, dtype=float)


def says(text):
    return re.escape(text)


# Reference elements


@pytest.mark.parametrize("kind", KINDS)
def test_shape_functions_interpolate_linear_fields(kind):
    element = reference_element(kind)
    vertices, places = np.asarray(element.vertices, dtype=float), places_inside(element)
    assert element.nodes == len(vertices)
    np.testing.assert_allclose(element.shape(vertices), np.eye(element.nodes), atol=ROUND_OFF)
    np.testing.assert_allclose(element.shape(places).sum(-1), 1.0, atol=ROUND_OFF)
    np.testing.assert_allclose(element.shape(places) @ vertices, places, atol=ROUND_OFF)
    np.testing.assert_allclose(element.shape(jnp.asarray(places[0])), element.shape(places[0]), atol=ROUND_OFF)


@pytest.mark.parametrize("kind", KINDS)
def test_shape_gradients_are_those_of_the_shape_functions(kind):
    element = reference_element(kind)
    for xi in places_inside(element):
        steps = STEP * np.eye(element.dimension)
        slopes = [(element.shape(xi + s) - element.shape(xi - s)) / (2 * STEP) for s in steps]
        assert element.shape_gradients(xi).shape == (element.nodes, element.dimension)
        np.testing.assert_allclose(element.shape_gradients(xi), np.stack(slopes, -1), atol=FINITE_DIFFERENCE)


def exact_integral(element, powers):
    integral = 1.0
    for axes, dimension in zip(element.factor_axes, element.factors, strict=True):
        own = powers[axes]
        if dimension == 1:
            integral *= 2 / (own[0] + 1) if own[0] % 2 == 0 else 0.0
        else:  # Dirichlet's formula
            integral *= np.prod([factorial(p) for p in own]) / factorial(sum(own) + dimension)
    return integral


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 5, "stiffness", "mass"])
def test_quadrature_is_exact_up_to_its_degree(kind, degree):
    element = reference_element(kind)
    points, weights = element.quadrature(degree)
    assert points.shape == (len(weights), element.dimension) and (weights > 0).all()
    number = {"stiffness": 0, "mass": 2}[degree] if isinstance(degree, str) else degree
    for powers in np.ndindex(*[number + 1] * element.dimension):
        if all(sum(powers[axes]) <= number for axes in element.factor_axes):
            computed = weights @ np.prod(points ** np.array(powers), axis=-1)
            np.testing.assert_allclose(computed, exact_integral(element, powers), atol=ROUND_OFF)


@pytest.mark.parametrize(
    ("kind", "stiffness", "mass"),
    [("edge", 2, 2), ("triangle", 1, 3), ("quad", 4, 4), ("tetrahedron", 1, 4), ("prism", 6, 6), ("hexahedron", 8, 8)],
)
def test_quadrature_names_give_the_usual_rules(kind, stiffness, mass):
    element = reference_element(kind)
    assert len(element.quadrature("stiffness")[1]) == stiffness
    assert len(element.quadrature("mass")[1]) == mass


def test_consistent_mass_of_a_tetrahedron_by_hand():
    # Unit density: V/20 (1 + delta_ij), V = 1/6 (Zienkiewicz & Taylor).
    element = reference_element("tetrahedron")
    points, weights = element.quadrature("mass")
    values = element.shape(points)
    mass = np.einsum("q,qi,qj->ij", weights, values, values)
    np.testing.assert_allclose(mass, (np.ones((4, 4)) + np.eye(4)) / 120, atol=ROUND_OFF)


def test_consistent_mass_of_a_prism_by_hand():
    # Unit density: that of the triangle, A/12 (1 + delta_ij), times that of the line, L/6 (1 + delta_ij).
    element = reference_element("prism")
    points, weights = element.quadrature("mass")
    values = element.shape(points)
    mass = np.einsum("q,qi,qj->ij", weights, values, values)
    triangle, line = (np.ones((3, 3)) + np.eye(3)) / 24, (np.ones((2, 2)) + np.eye(2)) / 3
    np.testing.assert_allclose(mass, np.kron(line, triangle), atol=ROUND_OFF)


@pytest.mark.parametrize("degree", [-1, 1.5, True, "exact"])
def test_quadrature_refuses_what_is_not_a_degree(degree):
    with pytest.raises(ValueError, match=says(f"{degree!r} of quadrature is neither a degree (0, 1, ... 100) nor one of")):
        reference_element("quad").quadrature(degree)


def test_reference_elements_are_static_and_quadratures_are_shared_read_only():
    assert hash(reference_element("quad")) == hash(reference_element("quad"))
    points, weights = reference_element("quad").quadrature(2)
    for array in (points, weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    with pytest.raises(ValueError, match=says("kind 'hex' is not one of ['edge', 'triangle', 'quad',")):
        reference_element("hex")


@pytest.mark.parametrize(
    ("kind", "edges"), [("edge", 1), ("triangle", 3), ("quad", 4), ("tetrahedron", 6), ("prism", 9), ("hexahedron", 12)]
)
def test_reference_edges(kind, edges):
    assert len(reference_element(kind).edges) == edges


# Boxes


@pytest.mark.parametrize(("cells", "kind", "split"), BOXES)
def test_box_fills_its_space_with_positive_cells(cells, kind, split):
    mesh = make_box(cells, kind, split)
    assert len(mesh.points) == np.prod(np.add(cells, 1))
    assert len(mesh.cells) == np.prod(cells) * CELLS_PER_BLOCK[kind]
    measures = np.asarray(mesh.cell_measures())
    volume = np.prod((2.0, 1.5, 0.7)[: len(cells)])
    np.testing.assert_allclose(measures, volume / len(mesh.cells), rtol=ROUND_OFF)
    np.testing.assert_allclose(mesh.measure(), volume, rtol=ROUND_OFF)


def distinct_faces(mesh):
    local = np.asarray(reference_element(mesh.kind).faces)
    faces = np.sort(np.asarray(mesh.cells)[:, local].reshape(-1, local.shape[1]), axis=1)
    return np.unique(faces, axis=0, return_counts=True)


@pytest.mark.parametrize(("cells", "kind", "split"), BOXES)
def test_box_is_conforming(cells, kind, split):
    mesh = make_box(cells, kind, split)
    faces, owners = distinct_faces(mesh)
    assert owners.max() == 2
    # A face of one cell lies on the surface of the box: nothing inside hangs.
    points = np.asarray(mesh.points)
    lower, upper = points.min(0), points.max(0)
    for face in faces[owners == 1]:
        on_side = [np.all(points[face] == side, axis=0).any() for side in (lower, upper)]
        assert any(on_side)
    # Euler's characteristic of a ball is 1, of its surface 2; of a disk 1, of its rim 0.
    edges = len(mesh.edges())
    if len(cells) == 3:
        assert len(mesh.points) - edges + len(faces) - len(mesh.cells) == 1
        surface = mesh.boundary()
        assert len(np.unique(surface.cells)) - len(surface.edges()) + len(surface.cells) == 2
        assert len(boundary_faces(surface)[0]) == 0
    else:
        assert edges == len(faces)
        assert len(mesh.points) - edges + len(mesh.cells) == 1
        rim = mesh.boundary()
        assert len(np.unique(rim.cells)) == len(rim.cells)


@pytest.mark.parametrize(("cells", "kind"), [((4, 2, 2), "tetrahedron"), ((4, 2), "triangle")])
@pytest.mark.parametrize(("split", "symmetric"), [("alternating", True), ("kuhn", False)])
def test_alternating_split_prefers_no_side(cells, kind, split, symmetric):
    mesh = box_mesh(cells=cells, size=tuple(map(float, cells)), kind=kind, split=split)

    def cell_set(points):
        corners = np.rint(points).astype(int)[np.asarray(mesh.cells)]
        return {frozenset(map(tuple, cell)) for cell in corners.tolist()}

    points = np.asarray(mesh.points)
    for axis in range(len(cells)):
        mirrored = points.copy()
        mirrored[:, axis] = cells[axis] - mirrored[:, axis]
        assert (cell_set(mirrored) == cell_set(points)) == symmetric


def test_box_nodes_run_along_x_first_and_reach_the_far_side_exactly():
    mesh = box_mesh(cells=(3, 1, 2), size=(0.1, 0.2, 0.3), kind="hexahedron")
    np.testing.assert_array_equal(mesh.cells[0], [0, 1, 5, 4, 8, 9, 13, 12])
    np.testing.assert_allclose(mesh.points[1], [0.1 / 3, 0, 0], atol=ROUND_OFF)
    assert len(mesh.nodes_where(lambda x: (x == np.array([0.1, 0.2, 0.3])).all(1))) == 1


def test_box_follows_the_dtype_of_its_size():
    assert box_mesh(cells=(1, 1), size=np.ones(2, np.float32)).points.dtype == jnp.float32
    assert box_mesh(cells=(1, 1), size=(1, 1)).points.dtype == jnp.result_type(float)
    single = box_mesh(cells=(1, 1, 1), size=np.ones(3, np.float32), origin=np.zeros(3))
    assert single.measure().dtype == jnp.float32


def test_hundred_thousand_cells_build_quickly():
    start = time.perf_counter()
    mesh = box_mesh(cells=(30, 28, 20), size=(3.0, 2.8, 2.0))
    faces, owners = boundary_faces(mesh)
    assert time.perf_counter() - start < BUILD_SECONDS
    assert len(mesh.cells) == 100_800
    assert len(faces) == len(owners) == 4 * (30 * 28 + 30 * 20 + 28 * 20)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cells": (2,)}, ValueError, "cells must be 2 or 3 numbers, got (2,)"),
        ({"cells": (2.0, 1.0, 1.0)}, TypeError, "cells must be whole numbers, got (2.0, 1.0, 1.0)"),
        ({"cells": (2000, 2000, 2000)}, ValueError, "(2000, 2000, 2000) cells have more nodes than 32-bit numbers can name"),
        ({"cells": (2, 0, 1)}, ValueError, "cells must be at least 1 along each axis, got (2, 0, 1)"),
        ({"size": (1.0, 1.0)}, ValueError, "size has shape (2,), expected (3,)"),
        ({"size": (1.0, -1.0, 1.0)}, ValueError, "size must be positive"),
        ({"size": (1.0, np.inf, 1.0)}, ValueError, "size must be positive"),
        ({"origin": (0.0, 0.0)}, ValueError, "origin has shape (2,), expected () or (3,)"),
        (
            {"kind": "triangle"},
            ValueError,
            "kind 'triangle' with the 3 axes of cells is not one of ['tetrahedron', 'hexahedron']",
        ),
        (
            {"split": "five"},
            ValueError,
            "split 'five' of kind 'tetrahedron' is not one of ['alternating', 'kuhn', ",
        ),
        (
            {"kind": "hexahedron", "split": "kuhn"},
            ValueError,
            "split 'kuhn' is for ['triangle', 'tetrahedron']",
        ),
    ],
)
def test_box_refuses_what_it_cannot_build(options, error, message):
    with pytest.raises(error, match=says(f"box_mesh: {message}")):
        box_mesh(**({"cells": (1, 1, 1), "size": (1.0, 1.0, 1.0)} | options))


# Boundaries


@pytest.mark.parametrize(("cells", "kind", "split"), BOXES)
def test_boundary_faces_look_outward(cells, kind, split):
    mesh = make_box(cells, kind, split)
    boundary = mesh.boundary()
    corners = np.asarray(mesh.points)[np.asarray(boundary.cells)]
    if boundary.kind == "edge":
        tangents = corners[:, 1] - corners[:, 0]
        normals = np.stack([tangents[:, 1], -tangents[:, 0]], -1)
    else:  # half the product of the diagonals; the "second diagonal" of a triangle is its last edge
        normals = np.cross(corners[:, 2] - corners[:, 0], corners[:, -1] - corners[:, 1]) / 2
    np.testing.assert_allclose(normals.sum(0), 0.0, atol=ROUND_OFF)
    flux = np.sum(corners.mean(1) * normals) / len(cells)  # divergence theorem, field x / d
    np.testing.assert_allclose(flux, mesh.measure(), rtol=ROUND_OFF)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1).sum(), boundary.measure(), rtol=ROUND_OFF)


@pytest.mark.parametrize(("cells", "kind", "split"), BOXES)
def test_boundary_faces_know_their_cell(cells, kind, split):
    mesh = make_box(cells, kind, split)
    faces, owners = boundary_faces(mesh)
    assert len(faces) == len(owners) and (np.diff(owners) >= 0).all()
    for face, owner in zip(faces, owners, strict=True):
        assert set(face) <= set(np.asarray(mesh.cells)[owner].tolist())


def test_boundary_of_many_points_does_not_overflow():
    # Node numbers so large that four of them do not fit one 64-bit key.
    few = box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron")
    offset = 100_000
    points = jnp.concatenate([jnp.zeros((offset, 3)), few.points])
    faces, owners = boundary_faces(Mesh(points, few.cells + offset, "hexahedron"))
    expected, expected_owners = boundary_faces(few)
    np.testing.assert_array_equal(faces - offset, expected)
    np.testing.assert_array_equal(owners, expected_owners)


def test_selections():
    mesh = box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0))
    np.testing.assert_array_equal(mesh.nodes_where(lambda x: x[:, 0] == 2.0), [2, 5, 8, 11])
    np.testing.assert_array_equal(mesh.nodes_where(lambda x: jnp.asarray(x[:, 0]) == 0.0), [0, 3, 6, 9])
    side = mesh.faces_where(lambda x: x[:, 2] == 1.0)
    assert side.kind == "triangle" and len(side.cells) == 4
    np.testing.assert_allclose(side.measure(), 2.0, rtol=ROUND_OFF)
    assert side.points is mesh.points


@pytest.mark.parametrize("method", ["nodes_where", "faces_where"])
def test_selections_refuse_predicates_that_select_nothing_or_answer_something_else(method):
    select = getattr(box_mesh(cells=(1, 1), size=(1.0, 1.0)), method)
    what = "node (of 4)" if method == "nodes_where" else "face (of 4 on the boundary)"
    with pytest.raises(ValueError, match=says(f"Mesh.{method}: the predicate selects no {what}.")):
        select(lambda x: x[:, 0] > 5.0)
    with pytest.raises(TypeError, match=says("the predicate must give booleans, got dtype float64.")):
        select(lambda x: x[:, 0])
    with pytest.raises(ValueError, match=says("the predicate gave shape (4, 2), expected (4,)")):
        select(lambda x: x > 0)


def test_edges_have_no_faces_and_closed_surfaces_no_boundary():
    rope = Mesh(np.eye(3), [[0, 1], [1, 2]], "edge")
    with pytest.raises(ValueError, match=says("Mesh.boundary: cells of kind 'edge' have no faces.")):
        rope.boundary()
    with pytest.raises(ValueError, match=says("Mesh.boundary: there is none")):
        box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0)).boundary().boundary()


def test_edges_are_distinct_and_sorted():
    mesh = Mesh(np.zeros((4, 3)) + np.arange(4)[:, None], [[3, 1, 0], [1, 3, 2]], "triangle")
    np.testing.assert_array_equal(mesh.edges(), [[0, 1], [0, 3], [1, 2], [1, 3], [2, 3]])


# Measures


def test_measures_of_sheets_and_ropes_in_space():
    sheet = Mesh([[0, 0, 0], [1, 0, 1], [0, 1, 0.0]], [[0, 2, 1]], "triangle")
    np.testing.assert_allclose(sheet.measure(), 0.5 * 2**0.5, rtol=ROUND_OFF)
    tile = Mesh([[0, 0, 0], [3, 0, 4], [3, 2, 4], [0, 2, 0.0]], [[0, 1, 2, 3]], "quad")
    np.testing.assert_allclose(tile.measure(), 10.0, rtol=ROUND_OFF)
    rope = Mesh([[0, 0, 0], [1, 2, 2], [1, 2, 6.0]], [[0, 1], [1, 2]], "edge")
    np.testing.assert_allclose(rope.cell_measures(), [3.0, 4.0], rtol=ROUND_OFF)
    flat_rope = Mesh([[0, 0], [3, 4.0]], [[0, 1]], "edge")
    np.testing.assert_allclose(flat_rope.measure(), 5.0, rtol=ROUND_OFF)


def test_measure_of_an_inverted_cell_is_negative():
    assert Mesh([[0, 0], [0, 1], [1, 0.0]], [[0, 1, 2]], "triangle").measure() == -0.5


def test_measure_of_a_truncated_pyramid():
    # V = h (A + a + sqrt(A a)) / 3 with A = 4, a = 1, h = 3: the trilinear cell is integrated exactly.
    square = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0.0]])
    points = np.vstack([square, square / 2 + [0, 0, 3]])
    np.testing.assert_allclose(Mesh(points, [np.arange(8)], "hexahedron").measure(), 7.0, rtol=ROUND_OFF)


@pytest.mark.parametrize("kind", ["edge", "triangle", "quad"])
def test_collapsed_cells_have_finite_derivatives(kind):
    cells = [np.arange(reference_element(kind).nodes)]
    slope = jax.jit(jax.grad(lambda p: Mesh(p, cells, kind).measure()))(jnp.ones((4, 3)))
    np.testing.assert_array_equal(slope, 0.0)


@pytest.mark.parametrize(("cells", "kind", "split"), BOXES)
def test_measure_is_differentiable_and_traced(cells, kind, split):
    mesh = make_box(cells, kind, split)

    def grown(scale):
        return eqx.tree_at(lambda m: m.points, mesh, scale * mesh.points).measure()

    slope = jax.jit(jax.grad(grown))(1.0)  # measure ~ scale^d
    np.testing.assert_allclose(slope, len(cells) * mesh.measure(), rtol=ROUND_OFF)
    np.testing.assert_allclose(eqx.filter_jit(Mesh.measure)(mesh), mesh.measure(), rtol=ROUND_OFF)
    sizes = jnp.arange(1.0, len(cells) + 1)
    area = jax.jit(jax.grad(lambda s: box_mesh(cells=cells, size=s, kind=kind, split=split).measure()))
    np.testing.assert_allclose(area(sizes), jnp.prod(sizes) / sizes, rtol=ROUND_OFF)


# Construction


TRIANGLE = {"points": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], "cells": [[0, 1, 2]], "kind": "triangle"}


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"kind": "tet"}, ValueError, "Mesh: kind 'tet' is not one of ['edge', 'triangle',"),
        ({"kind": 3}, ValueError, "Mesh: kind 3 is not one of"),
        (
            {"points": [0.0, 1.0]},
            ValueError,
            "Mesh: points has shape (2,), expected (points, 2) or (points, 3).",
        ),
        ({"points": [[0.0], [1.0]]}, ValueError, "Mesh: points has shape (2, 1), expected"),
        (
            {"points": [[1j, 0], [0, 1]]},
            TypeError,
            "Mesh: points has dtype complex128, expected real numbers",
        ),
        (
            {"points": [[0, 0], [1, 0], [np.nan, 1]]},
            ValueError,
            "Mesh: points[2] is [nan  1.], expected finite",
        ),
        (
            {"kind": "tetrahedron", "cells": [[0, 1, 2, 0]]},
            ValueError,
            "'tetrahedron' need points in 3 dimensions",
        ),
        ({"kind": "quad"}, ValueError, "Mesh: cells has shape (1, 3), expected (cells, 4) for kind 'quad'"),
        ({"cells": [0, 1, 2]}, ValueError, "Mesh: cells has shape (3,), expected (cells, 3)"),
        ({"cells": np.zeros((0, 3), int)}, ValueError, "with at least one cell."),
        ({"cells": [[0.0, 1.0, 2.0]]}, TypeError, "Mesh: cells must be whole numbers, got dtype float64."),
        ({"cells": [[True, False, True]]}, TypeError, "Mesh: cells must be whole numbers, got dtype bool."),
        (
            {"cells": [[0, 1, 2], [0, 99, 1]]},
            ValueError,
            "Mesh: cell 1 names node 99, but there are 3 points.",
        ),
        ({"cells": [[0, 1, -1]]}, ValueError, "Mesh: cell 0 names node -1, but there are 3 points."),
        ({"cells": [[0, 1, 2**40]]}, ValueError, f"Mesh: {2**40} in cells does not fit 32 bits."),
    ],
)
def test_mesh_refuses_what_is_not_a_mesh(fields, error, message):
    with pytest.raises(error, match=says(message)):
        Mesh(**(TRIANGLE | fields))


def test_mesh_keeps_the_dtype_of_points_and_numbers_cells_with_32_bits():
    mesh = Mesh(np.float32(TRIANGLE["points"]), np.array([[0, 1, 2]], np.uint8), "triangle")
    assert mesh.points.dtype == jnp.float32 and mesh.cells.dtype == jnp.int32
    assert mesh.measure().dtype == jnp.float32
    assert Mesh([[0, 0], [1, 0], [0, 1]], [[0, 1, 2]], "triangle").points.dtype == jnp.result_type(float)


def test_traced_meshes_are_built_but_not_explored():
    built = eqx.filter_jit(lambda p, c: Mesh(p, c, "triangle"))(jnp.asarray(TRIANGLE["points"]), jnp.array([[0, 1, 2]]))
    np.testing.assert_array_equal(built.cells, [[0, 1, 2]])
    for method, call in (
        ("edges", lambda m: m.edges()),
        ("boundary", lambda m: m.boundary()),
        ("nodes_where", lambda m: m.nodes_where(lambda x: x[:, 0] == 0)),
    ):
        message = f"Mesh.{method}: the size of its result depends on values, call it outside jit."
        with pytest.raises(TypeError, match=says(message)):
            eqx.filter_jit(call)(built)


# Files


@pytest.mark.parametrize("suffix", [".vtk", ".vtu", ".msh"])
@pytest.mark.parametrize(("cells", "kind", "split"), BOXES)
def test_files_give_back_what_was_written(tmp_path, capfd, suffix, cells, kind, split):
    mesh, path = make_box(cells, kind, split), tmp_path / f"box{suffix}"
    on_points = {"displacement": mesh.points, "mark": np.asarray(mesh.points)[:, 0] > 1}
    write_mesh(path, mesh, point_data=on_points, cell_data={"size": mesh.cell_measures()})
    assert suffix != ".msh" or path.read_bytes().startswith(b"$MeshFormat")  # of Gmsh, not of Ansys
    again = read_mesh(path)
    np.testing.assert_array_equal(again.points, mesh.points)
    np.testing.assert_array_equal(again.cells, mesh.cells)
    assert again.kind == kind and capfd.readouterr() == ("", "")


def test_files_that_do_not_keep_what_is_written_are_refused(tmp_path):
    """What writers leave out in silence, turn into other cells, or number otherwise; nothing is left of the file."""
    pytest.importorskip("meshio")
    square = box_mesh(cells=(1, 1), size=(1.0, 1.0), kind="quad")
    cut = box_mesh(cells=(1, 1), size=(1.0, 1.0))
    prism = Mesh([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1]], [[0, 1, 2, 3, 4, 5]], "prism")
    for suffix, mesh in (
        (".stl", square),
        (".off", square),
        (".su2", jm.mesh.quadratic_mesh(square)),
        (".tec", prism),
        (".post", jm.mesh.quadratic_mesh(cut)),
        (".ply", box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))),
    ):
        with pytest.raises(ValueError, match=f"write_mesh: path '.*' cannot be written: a file '{suffix}' .* write .vtu"):
            write_mesh(tmp_path / f"a{suffix}", mesh)
    with pytest.raises(ValueError, match="a file '.mesh' does not keep point_data \\['u'\\]; write .vtu"):
        write_mesh(tmp_path / "a.mesh", square, point_data={"u": np.ones(4)})
    assert not list(tmp_path.iterdir())
    for suffix, mesh in ((".stl", cut), (".off", cut), (".tec", square), (".ply", square), (".mesh", prism), (".svg", cut)):
        write_mesh(tmp_path / f"a{suffix}", mesh)


def test_data_reach_the_file(tmp_path):
    meshio = pytest.importorskip("meshio")
    mesh = box_mesh(cells=(2, 1), size=(2.0, 1.0))
    write_mesh(tmp_path / "a.vtu", mesh, point_data={"u": mesh.points}, cell_data={"area": mesh.cell_measures()})
    content = meshio.read(tmp_path / "a.vtu")
    np.testing.assert_array_equal(content.point_data["u"][:, :2], mesh.points)
    np.testing.assert_array_equal(content.cell_data["area"][0], mesh.cell_measures())


def write_cells(path, points, cells):
    meshio = pytest.importorskip("meshio")
    meshio.Mesh(np.asarray(points, dtype=float), cells).write(path)


def test_files_of_several_kinds(tmp_path):
    path, corners = tmp_path / "several.vtk", [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]]
    write_cells(path, corners, [("line", [[0, 1]]), ("triangle", [[0, 1, 2]]), ("tetra", [[0, 1, 3, 4]])])
    assert read_mesh(path).kind == "tetrahedron"
    np.testing.assert_array_equal(read_mesh(path, kind="triangle").cells, [[0, 1, 2]])
    held = "it holds ['edge', 'tetrahedron', 'triangle']."
    with pytest.raises(ValueError, match=says(f"holds no cell of kind 'quad', {held}")):
        read_mesh(path, kind="quad")
    with pytest.raises(ValueError, match=says("kind 'tet' is not one of")):
        read_mesh(path, kind="tet")
    write_cells(path, corners, [("triangle", [[0, 1, 4]]), ("quad", [[0, 1, 2, 3]])])
    with pytest.raises(ValueError, match=says("pass kind= one of ['quad', 'triangle'].")):
        read_mesh(path)
    write_cells(path, corners, [("vertex", [[0]])])
    with pytest.raises(ValueError, match=says("holds ['vertex'], expected one of ['edge', 'triangle',")):
        read_mesh(path)


def test_blocks_of_one_kind_are_joined(tmp_path):
    write_cells(
        tmp_path / "two.vtk",
        [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]],
        [("triangle", [[0, 1, 2]]), ("line", [[0, 1]]), ("triangle", [[0, 2, 3]])],
    )
    np.testing.assert_array_equal(read_mesh(tmp_path / "two.vtk").cells, [[0, 1, 2], [0, 2, 3]])


def test_sheets_in_a_file_are_in_the_plane_or_in_space(tmp_path):
    path = tmp_path / "sheet.vtk"
    write_cells(path, [[0, 0, 2], [1, 0, 2], [0, 1, 2]], [("triangle", [[0, 1, 2]])])
    assert read_mesh(path).points.shape == read_mesh(path, dimension=2).points.shape == (3, 2)
    np.testing.assert_array_equal(read_mesh(path, dimension=3).points[:, 2], 2.0)
    with pytest.raises(ValueError, match=says("dimension must be 2, 3 or None, got 1.")):
        read_mesh(path, dimension=1)
    write_cells(path, [[0, 0, 2], [1, 0, 2], [0, 1, 3]], [("triangle", [[0, 1, 2]])])
    assert read_mesh(path).points.shape == (3, 3)
    with pytest.raises(ValueError, match=says("dimension=2, but z is not the same at all points.")):
        read_mesh(path, dimension=2)


def test_files_that_cannot_be_read_or_written(tmp_path, capfd):
    mesh = box_mesh(cells=(1, 1), size=(1.0, 1.0))
    with pytest.raises(FileNotFoundError, match=says("read_mesh: there is no file")):
        read_mesh(tmp_path / "none.vtk")
    for name in ("broken.vtk", "box.unknown"):
        (tmp_path / name).write_text("not a mesh\n" * 9)
        with pytest.raises(ValueError, match="read_mesh: path '.*' cannot be read: .*[a-z]"):
            read_mesh(tmp_path / name)
    with pytest.raises(ValueError, match="write_mesh: path '.*' cannot be written: .*[a-z]"):
        write_mesh(tmp_path / "box.unknown", mesh)
    with pytest.raises(ValueError, match=says("write_mesh: point_data 'u' has shape (3,), expected (4, ...)")):
        write_mesh(tmp_path / "box.vtk", mesh, point_data={"u": np.zeros(3)})
    single = Mesh(np.asarray(mesh.points, np.float32), mesh.cells, mesh.kind)  # of which Gmsh's writer prints a warning
    with pytest.raises(ValueError, match="cannot be written: WriteError: Gmsh .*components"):
        write_mesh(tmp_path / "box.msh", single, point_data={"turn": np.zeros((4, 4))})
    with pytest.raises(ValueError, match=says("cell_data 'e' has shape (), expected (2, ...): there are 2 cells.")):
        write_mesh(tmp_path / "box.vtk", mesh, cell_data={"e": 1.0})
    assert capfd.readouterr() == ("", "")


def test_files_without_meshio(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "meshio", None)
    with pytest.raises(ImportError, match=says('pip install "jaxmech[mesh]"')):
        read_mesh(tmp_path / "box.vtk")
    with pytest.raises(ImportError, match=says('pip install "jaxmech[mesh]"')):
        write_mesh(tmp_path / "box.vtk", box_mesh(cells=(1, 1), size=(1.0, 1.0)))


@pytest.mark.parametrize("kind", ["triangles", "quads"])
def test_vertex_normals_converge_on_a_sphere(kind):
    errors = []
    for n in (8, 16):
        cube = jm.mesh.boundary_of(jm.mesh.box_mesh(cells=(n, n, n), size=(2.0, 2.0, 2.0), kind="hexahedron")).mesh
        surface = jm.mesh.submesh(jm.mesh.quads_to_triangles(cube).mesh if kind == "triangles" else cube)
        # Equal angles along the edges of the cube: its corners, where three faces meet, stay smooth.
        points = np.tan(0.25 * np.pi * (np.asarray(surface.mesh.points) - 1))
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
        normals = jm.mesh.vertex_normals(3.0 * points, surface.mesh.cells)
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, rtol=1e-14)
        errors.append(np.sqrt(np.mean(np.arccos(np.clip(np.sum(normals * points, axis=1), -1, 1)) ** 2)))
    assert errors[1] < 0.6 * errors[0] and errors[1] < 0.02


def test_vertex_normals_have_derivatives_and_no_nan():
    points = jnp.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5], [2, 0, 0]])
    cells = [[0, 1, 2], [0, 1, 4]]  # the second has no area, and point 3 no cell
    np.testing.assert_array_equal(
        jm.mesh.vertex_normals(points, cells), [[0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    )
    turned = jax.jacfwd(lambda x: jm.mesh.vertex_normals(x, cells)[0])(points)
    assert np.isfinite(turned).all()
    np.testing.assert_allclose(turned[:, 2, 2], [0, -1, 0], atol=1e-14)  # lifting point 2 tilts the normal back
    assert np.isfinite(jax.jit(jax.jacrev(lambda x: jm.mesh.vertex_normals(x, cells)))(points)).all()
    with pytest.raises(ValueError, match="vertex_normals: points"):
        jm.mesh.vertex_normals(points[:, :2], cells)


@pytest.mark.parametrize("kind", ["triangle6", "quad9", "hexahedron20"])
def test_a_local_coordinate_next_to_nil_is_like_any_other(kind):
    """Only pyramids have a quotient; of the others, `1/1e-200` squared was an overflow, an error here."""
    reference = jm.mesh.reference_element(kind)
    near, at = np.full((1, reference.dimension), 0.25), np.full((1, reference.dimension), 0.25)
    near[0, 0], at[0, 0] = 1e-200, 0.0
    assert np.allclose(reference.shape_gradients(near), reference.shape_gradients(at), rtol=0, atol=1e-15)
