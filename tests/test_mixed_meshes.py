"""Meshes of several kinds of cells: named groups, files of every format that has some, shapes, cuts, and checks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm
from jaxmech._mesh import xdmf_files
from jaxmech._mesh.reference import reference_element

POINTS = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
GROUPS = {"left": {"edge": [0], "node": [0]}, "wedge": {"triangle": [0]}}

PRISMS = jm.mesh.hexahedra_to_prisms(jm.mesh.box_mesh(cells=(2, 1, 1), size=(1.0, 1.0, 1.0), kind="hexahedron")).mesh


def house():
    return jm.mesh.MixedMesh(POINTS, {"quad": [[0, 1, 4, 3]], "triangle": [[1, 2, 4]], "edge": [[3, 0], [2, 4]]}, GROUPS)


def test_groups_name_cells_and_nodes():
    mesh = house()
    assert mesh.dimension == 2 and mesh.dimensions == {"left": (0, 1), "wedge": (2,)}
    assert [part.kind for part in mesh.parts()] == ["quad", "triangle"]
    assert mesh.part("wedge").cells.tolist() == [[1, 2, 4]]
    assert mesh.nodes("left").tolist() == [0, 3] and mesh.nodes("left", dimension=0).tolist() == [0]
    assert mesh.part("left").kind == "edge"
    (rim,) = mesh.boundary()
    assert rim.kind == "edge" and sorted(map(sorted, rim.cells.tolist())) == [[0, 1], [0, 3], [1, 2], [2, 4], [3, 4]]
    assert float(mesh.measure()) == 1.5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"blocks": {}}, "blocks is empty"),
        ({"blocks": {"heptagon": [[0, 1]]}}, "kind 'heptagon' is not one of"),
        ({"groups": {"a": {"tetrahedron": [0]}}}, "group 'a' names cells of kind 'tetrahedron', but blocks has"),
        ({"groups": {"a": {"edge": [2]}}}, "group 'a' names edge 2, but there are 2"),
        ({"groups": {"a": {"node": [5]}}}, "group 'a' names node 5, but there are 5"),
        ({"groups": {"a": [0]}}, r"groups\['a'\]"),
    ],
)
def test_what_does_not_fit_is_refused(change, says):
    given = {"points": POINTS, "blocks": house().blocks} | change
    with pytest.raises((ValueError, TypeError), match=says):
        jm.mesh.MixedMesh(**given)


def test_names_that_are_not_there_are_refused():
    mesh = house()
    with pytest.raises(ValueError, match=r"name 'top' is that of no group, there is only \['left', 'wedge'\]"):
        mesh.nodes("top")
    with pytest.raises(ValueError, match=r"group 'left' has nothing of dimension 2, only of \[0, 1\]"):
        mesh.parts("left", dimension=2)
    with pytest.raises(ValueError, match=r"there are cells of kinds \['quad', 'triangle'\]"):
        mesh.part()


def test_components_of_each_kind_stand_under_one_name():
    mesh, law = house(), jm.material.LinearElastic(1.0, 0.25)
    solid = mesh.each(lambda part: jm.force.SolidFEM.from_mesh("p", part, law))
    mass = mesh.each(lambda part: jm.mass.ConsistentMass.from_mesh("p", part, 2.0))
    system = jm.System(
        {"p": jm.Vec2()}, forces={"solid": solid}, masses={"mass": mass}, rayleigh={"solid": 0.1, "mass": 0.2}
    )
    assert list(system.forces) == ["solid.quad", "solid.triangle"] and list(system.masses) == ["mass.quad", "mass.triangle"]
    assert {name: float(c) for name, c in system.rayleigh.items()} == {
        "mass.quad": 0.2,
        "mass.triangle": 0.2,
        "solid.quad": 0.1,
        "solid.triangle": 0.1,
    }
    with pytest.raises(ValueError, match="two components named 'solid.quad'"):
        jm.System({"p": jm.Vec2()}, forces={"solid": solid, "solid.quad": solid["quad"]})


GMSH_1 = """$NOD
5
1 0 0 0
2 1 0 0
3 2 0 0
4 0 1 0
7 1 1 0
$ENDNOD
$ELM
3
1 1 8 8 2 4 1
2 3 5 5 4 1 2 7 4
3 2 6 6 3 2 3 7
$ENDELM
"""
GMSH_2 = """$MeshFormat
2.2 0 8
$EndMeshFormat
$PhysicalNames
2
1 8 "left"
2 6 "wedge"
$EndPhysicalNames
$Nodes
5
1 0 0 0
2 1 0 0
3 2 0 0
4 0 1 0
5 1 1 0
$EndNodes
$Elements
3
1 1 2 8 1 4 1
2 3 2 5 1 1 2 5 4
3 2 2 6 1 2 3 5
$EndElements
"""
GMSH_4 = """$MeshFormat
4.1 0 8
$EndMeshFormat
$PhysicalNames
2
1 8 "left"
2 6 "wedge"
$EndPhysicalNames
$Entities
0 1 2 0
1 0 0 0 0 1 0 1 8 0
1 0 0 0 1 1 0 0 0
2 1 0 0 2 1 0 1 6 0
$EndEntities
$Nodes
1 5 1 5
2 1 0 5
1
2
3
4
5
0 0 0
1 0 0
2 0 0
0 1 0
1 1 0
$EndNodes
$Elements
3 3 1 3
1 1 1 1
1 4 1
2 1 3 1
2 1 2 5 4
2 2 2 1
3 2 3 5
$EndElements
"""
ABAQUS = """*NODE
1, 0., 0., 0.
2, 1., 0., 0.
3, 2., 0., 0.
4, 0., 1., 0.
5, 1., 1., 0.
*ELEMENT, TYPE=CPS4
2, 1, 2, 5, 4
*ELEMENT, TYPE=CPS3, ELSET=wedge
3, 2, 3, 5
*NSET, NSET=left
1, 4
"""


@pytest.mark.parametrize(
    ("suffix", "text", "left", "wedge"),
    [
        (".msh", GMSH_1, "8", "6"),
        (".msh", GMSH_2, "left", "wedge"),
        (".msh", GMSH_4, "left", "wedge"),
        (".inp", ABAQUS, "left", "wedge"),
    ],
)
def test_named_groups_come_with_files(suffix, text, left, wedge, tmp_path):
    pytest.importorskip("meshio")
    path = tmp_path / f"house{suffix}"
    path.write_text(text)
    mesh = jm.mesh.read_mixed_mesh(path)
    np.testing.assert_array_equal(mesh.points, POINTS)
    assert {"quad", "triangle"} <= set(mesh.blocks)
    assert mesh.nodes(left).tolist() == [0, 3] and mesh.part(wedge).cells.tolist() == [[1, 2, 4]]
    jm.mesh.check_mesh(mesh)
    for cut in range(0, len(text) - 3, 41):  # refused, or whole enough to read: never anything else
        path.write_text(text[:cut])
        try:
            jm.mesh.read_mixed_mesh(path)
        except ValueError as error:
            assert str(path) in str(error)


def test_quadratic_prisms_and_pyramids_pass_through_files(tmp_path):
    pytest.importorskip("meshio")
    pyramid = jm.mesh.Mesh(reference_element("pyramid").vertices, [range(5)], "pyramid")
    for mesh in (jm.mesh.quadratic_mesh(PRISMS), jm.mesh.quadratic_mesh(pyramid)):
        for suffix in (".vtu", ".vtk", ".msh"):
            jm.mesh.write_mesh(tmp_path / f"a{suffix}", mesh)
            again = jm.mesh.read_mesh(tmp_path / f"a{suffix}")
            np.testing.assert_array_equal(again.cells, mesh.cells)
            np.testing.assert_allclose(again.points, mesh.points, atol=1e-15)
            assert again.kind == mesh.kind


def test_a_list_of_xdmf_holds_cells_of_any_kind():
    """Nodes and edges with their count, as the format asks, which meshio's own reader takes for a node."""
    pytest.importorskip("meshio")
    solid = list(range(20))
    found = xdmf_files._blocks(np.array([1, 1, 7, 1, 1, 8, 2, 2, 0, 1, 4, 0, 1, 2, 0x30, *solid]))
    cells = [("vertex", [[7], [8]]), ("line", [[0, 1]]), ("triangle", [[0, 1, 2]]), ("hexahedron20", [solid])]
    assert [(b.type, b.data.tolist()) for b in found] == cells
    for wrong, said in (([2, 3, 0, 1, 2], r"'line' of \[3\] nodes"), ([4, 0, 1], "ends within a 'triangle'")):
        with pytest.raises(ValueError, match=said):
            xdmf_files._blocks(wrong)


def test_a_set_in_two_pieces_is_refused(tmp_path):
    pytest.importorskip("meshio")
    (tmp_path / "a.inp").write_text(ABAQUS + "*NSET, NSET=left\n2\n")
    with pytest.raises(ValueError, match="has '\\*NSET left' twice"):
        jm.mesh.read_mixed_mesh(tmp_path / "a.inp")


@pytest.mark.parametrize("suffix", [".msh", ".inp", ".vtu", ".vtk", ".xdmf"])
def test_groups_go_through_files_and_back(suffix, tmp_path):
    """Of cells of two kinds, of their sides, of nodes; in the plane and in space, linear and quadratic."""
    pytest.importorskip("h5py" if suffix == ".xdmf" else "meshio")
    groups = {"left": {"edge": [0]}, "whole": {"quad": [0], "triangle": [0]}, "foot": {"node": [1, 2]}}
    sheet = jm.mesh.MixedMesh(POINTS, {"quad": [[0, 1, 4, 3]], "triangle": [[1, 2, 4]], "edge": [[3, 0], [2, 4]]}, groups)
    block = jm.mesh.quadratic_mesh(jm.mesh.box_mesh(cells=(2, 1, 1), size=(1.0, 1.0, 1.0), kind="hexahedron"))
    solid = jm.mesh.MixedMesh.from_mesh(block, {"end": lambda x: x[:, 0] == 1.0})
    for mesh in (sheet, solid):
        jm.mesh.write_mesh(tmp_path / f"a{suffix}", mesh)
        again = jm.mesh.read_mixed_mesh(tmp_path / f"a{suffix}")
        np.testing.assert_allclose(again.points, mesh.points)
        assert {k: c.tolist() for k, c in again.blocks.items()} == {k: c.tolist() for k, c in mesh.blocks.items()}
        assert again.dimensions == (mesh.dimensions if suffix != ".msh" else {n: d[-1:] for n, d in mesh.dimensions.items()})
        for name in mesh.groups:
            np.testing.assert_array_equal(again.nodes(name), mesh.nodes(name))
    overlapping = jm.mesh.MixedMesh(POINTS, {"triangle": [[1, 2, 4]]}, {"a": {"triangle": [0]}, "b": {"triangle": [0]}})
    if suffix == ".msh":
        with pytest.raises(ValueError, match="is in 'b' and in another group"):
            jm.mesh.write_mesh(tmp_path / "b.msh", overlapping)
        with pytest.raises(ValueError, match="group 'left' has \\['edge', 'node'\\], and a name"):
            jm.mesh.write_mesh(
                tmp_path / "b.msh", jm.mesh.MixedMesh(POINTS, sheet.blocks, {"left": {"edge": [0], "node": [4]}})
            )
    else:
        jm.mesh.write_mesh(tmp_path / f"b{suffix}", overlapping)
        assert sorted(jm.mesh.read_mixed_mesh(tmp_path / f"b{suffix}").groups) == ["a", "b"]
    with pytest.raises(ValueError, match="a file '.stl' keeps no groups"):
        jm.mesh.write_mesh(tmp_path / "a.stl", sheet)
    for match, young in (
        ("by kind of cell", np.ones(2)),
        ("expected \\(1, ...\\)", {"quad": np.ones(2)}),
        ("must be one of", {"quads": np.ones(1)}),
    ):
        with pytest.raises((TypeError, ValueError), match=match):
            jm.mesh.write_mesh(tmp_path / f"a{suffix}", sheet, cell_data={"young": young})


def test_groups_of_wavefront_files_are_kept(tmp_path):
    """With a texture of other points than the surface, which ends the read of other readers; corners counted backwards."""
    pytest.importorskip("meshio")
    points = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 1 0.5 0.5 0.5\nvt 0 0\nvn 0 0 1\n"
    faces = "g left\nf 1/1/1 2/1/1 3//1\ng right top\nf -4 -2 \\\n -1\nl 1 2 3\nf 1 2 3 4 # all\n"
    (tmp_path / "a.obj").write_text(f"# made by hand\no sheet\n{points}{faces}")
    mesh = jm.mesh.read_mixed_mesh(tmp_path / "a.obj", dimension=3)
    assert {k: c.tolist() for k, c in mesh.blocks.items()} == {
        "triangle": [[0, 1, 2], [0, 2, 3]],
        "edge": [[0, 1], [1, 2]],
        "quad": [[0, 1, 2, 3]],
    }
    assert sorted(mesh.groups) == ["left", "right", "sheet", "top"] and list(mesh.groups["left"]) == ["triangle"]
    assert mesh.groups["top"]["triangle"].tolist() == [1] and mesh.groups["sheet"]["triangle"].tolist() == [0, 1]
    for line, reason in (("f 1 2 3 4 1", "5 corners"), ("f 1 2 0", "names point 0"), ("f 1 2 -5", "names point -5")):
        (tmp_path / "a.obj").write_text(points + line)
        with pytest.raises(ValueError, match=f"cannot be read: ValueError: a .* {reason}"):
            jm.mesh.read_mesh(tmp_path / "a.obj")


def test_values_of_cells_are_groups_where_a_format_has_no_names(tmp_path):
    pytest.importorskip("meshio")
    bar = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron")
    jm.mesh.write_mesh(tmp_path / "bar.vtu", bar, cell_data={"soft": np.array([0, 1]), "region": np.array([3, 7])})
    mesh = jm.mesh.read_mixed_mesh(tmp_path / "bar.vtu")
    assert list(mesh.groups) == ["region=3", "region=7", "soft"]
    assert mesh.part("soft").cells.tolist() == bar.cells[1:].tolist()
    for suffix in (".obj", ".stl"):
        jm.mesh.write_mesh(tmp_path / f"skin{suffix}", jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0)).boundary())
        assert float(jm.mesh.read_mixed_mesh(tmp_path / f"skin{suffix}").measure()) == pytest.approx(6.0)


def test_meshes_are_checked():
    cube = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
    points, cells = np.asarray(cube.points), np.asarray(cube.cells)
    jm.mesh.check_mesh(cube)
    swapped = cells.copy()
    swapped[2, :2] = swapped[2, 1::-1]
    far = np.vstack([points, points + 5.0])
    orphan = {"tetrahedron": cells, "triangle": [[8, 9, 10]]}
    cases = {
        "no cell uses node 8": jm.mesh.Mesh(np.vstack([points, points[:1]]), cells, "tetrahedron"),
        "tetrahedron 2 is inverted or flat": jm.mesh.Mesh(points, swapped, "tetrahedron"),
        "tetrahedron 0 names a node twice": jm.mesh.Mesh(points, [[0, 1, 1, 2]], "tetrahedron"),
        "tetrahedron 0 is there twice": jm.mesh.Mesh(points, np.vstack([cells, cells[:1]]), "tetrahedron"),
        "triangle 0 is an orphan": jm.mesh.MixedMesh(far, orphan),
        "the cells fall into 2 bodies": jm.mesh.Mesh(far, np.vstack([cells, cells + 8]), "tetrahedron"),
    }
    for says, mesh in cases.items():
        with pytest.raises(ValueError, match=says):
            jm.mesh.check_mesh(mesh)
    jm.mesh.check_mesh(cases["the cells fall into 2 bodies"], connected=False)


@pytest.mark.slow
def test_shapes_have_their_volumes():
    """Of linear cells to second order, of quadratic ones to fourth: their middle nodes are on the circle."""
    for shape, exact in (
        (lambda n, k: jm.mesh.plate_with_hole(radius=1.0, size=4.0, cells=(n, n), kind=k), 16 - np.pi / 4),
        (lambda n, k: jm.mesh.cylinder_mesh(radius=1.0, height=2.0, cells=(n, 1), kind=k), 2 * np.pi),
        (
            lambda n, k: jm.mesh.cylinder_mesh(radius=1.0, height=2.0, inner_radius=0.5, cells=(n, 1), kind=k),
            1.5 * np.pi,
        ),
        (lambda n, k: jm.mesh.ball_mesh(radius=1.0, cells=n, kind=k), 4 / 3 * np.pi),
    ):
        base = "quad" if exact > 12 else "hexahedron"
        for kind, order in ((base, 2), ("quad9" if base == "quad" else "hexahedron27", 4)):
            coarse, fine = (shape(n, kind) for n in (4, 8))
            jm.mesh.check_mesh(fine)
            volumes = np.array([_volume(m) for m in (coarse, fine)])
            assert np.log2(abs(volumes[0] - exact) / abs(volumes[1] - exact)) > order - 0.3


def _volume(mesh):
    """In NumPy: no program for each size."""
    element = reference_element(mesh.kind)
    places, weights = element.quadrature("stiffness")
    J = np.einsum("eka,qkb->eqab", np.asarray(mesh.points)[np.asarray(mesh.cells)], element.shape_gradients(places))
    return float(np.sum(np.linalg.det(J) * weights))


DRAWN = {"triangle": "prism", "quad": "hexahedron", "triangle6": "prism15", "quad8": "hexahedron20", "quad9": "hexahedron27"}


@pytest.mark.parametrize("kind", ["prism", "tetrahedron", "hexahedron", "prism15", "tetrahedron10", "hexahedron27", *DRAWN])
def test_cells_are_cut_and_drawn_out(kind):
    linear = kind.rstrip("0123456789")
    d = reference_element(linear).dimension
    mesh = PRISMS if linear == "prism" else jm.mesh.box_mesh(cells=(2,) + (1,) * (d - 1), size=(1.0,) * d, kind=linear)
    mesh = mesh if kind == linear else jm.mesh.quadratic_mesh(mesh, kind=kind)
    fine = jm.mesh.refined_mesh(mesh)
    jm.mesh.check_mesh(fine)
    assert fine.kind == mesh.kind and len(fine.cells) == 2**d * len(mesh.cells)
    assert _volume(fine) == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_array_equal(fine.points[: len(mesh.points)], mesh.points)
    assert len(np.unique(np.round(np.asarray(fine.points), 9), axis=0)) == len(fine.points)  # each once
    if d == 2:
        block = jm.mesh.extruded_mesh(mesh, height=2.0, layers=3)
        jm.mesh.check_mesh(block)
        assert block.kind == DRAWN[mesh.kind] and len(block.cells) == 3 * len(mesh.cells)
        assert _volume(block) == pytest.approx(2.0, rel=1e-14)
        n = len(mesh.points)
        np.testing.assert_array_equal(block.points[n : 2 * n], np.column_stack([mesh.points, np.full(n, 2 / 3)]))


def test_curved_sides_stay_when_cells_are_cut_and_drawn_out():
    """The same area of a quarter of a plate with a round hole, to rounding; nodes on the hole stay on the same parabolas."""
    for kind in ("quad8", "quad9"):
        plate = jm.mesh.plate_with_hole(radius=1.0, size=2.0, cells=(1, 1), kind=kind)
        fine, block = jm.mesh.refined_mesh(plate), jm.mesh.extruded_mesh(plate, height=0.5, layers=1)
        jm.mesh.check_mesh(fine)
        assert _volume(fine) == pytest.approx(_volume(plate), rel=1e-13)
        assert 2 * _volume(block) == pytest.approx(_volume(plate), rel=1e-13)
        nodes = fine.nodes_where(lambda x: np.linalg.norm(x, axis=1) < 1.02)
        radius = np.linalg.norm(np.asarray(fine.points)[nodes], axis=1)
        assert len(nodes) == 9 and np.abs(radius - 1).max() < 0.01  # straight sides would be at 0.96
    curve = lambda x: jm.mesh.refined_mesh(jm.mesh.Mesh(x, plate.cells, plate.kind)).points[-1, 0]  # noqa: E731
    assert jnp.sum(jax.grad(curve)(plate.points)[:, 0]) == pytest.approx(1.0)


def test_groups_are_kept_when_cells_are_cut_and_drawn_out():
    """Sides, parts and nodes by name, of triangles beside quads: the same lengths, areas and volumes after as before."""
    points = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    blocks = {"quad": [[0, 1, 4, 3]], "triangle": [[1, 2, 4]], "edge": [[3, 0], [2, 4]]}
    groups = {"left": {"edge": [0]}, "slope": {"edge": [1]}, "tip": {"triangle": [0]}, "foot": {"node": [0, 1]}}
    sheet = jm.mesh.MixedMesh(points, blocks, groups)
    fine = jm.mesh.refined_mesh(sheet)
    assert {kind: len(cells) for kind, cells in fine.blocks.items()} == {"quad": 4, "triangle": 4, "edge": 4}
    assert len(fine.points) == 12 and fine.measure() == pytest.approx(1.5)
    for name, size in (("left", 1.0), ("slope", np.sqrt(2)), ("tip", 0.5)):
        assert fine.part(name).measure() == pytest.approx(size)
    np.testing.assert_allclose(sorted(np.asarray(fine.points)[fine.nodes("foot"), 0]), [0.0, 0.5, 1.0])
    for part in (
        jm.mesh.extruded_mesh(fine, height=0.5, layers=2),
        jm.mesh.refined_mesh(jm.mesh.extruded_mesh(sheet, height=0.5, layers=1)),
    ):
        assert part.measure() == pytest.approx(0.75) and list(part.groups) == sorted(groups)
        assert part.part("left").kind == "quad" and part.part("left").measure() == pytest.approx(0.5)
        assert part.part("slope").measure() == pytest.approx(0.5 * np.sqrt(2))
        assert part.part("tip").kind == "prism" and part.part("tip").measure() == pytest.approx(0.25)
        np.testing.assert_array_equal(
            part.nodes("foot"), np.flatnonzero((np.asarray(part.points)[:, 1] == 0) & (np.asarray(part.points)[:, 0] <= 1))
        )
        skin = {frozenset(face) for f in part.boundary() for face in np.asarray(f.cells).tolist()}
        assert {frozenset(face) for face in np.asarray(part.part("left").cells).tolist()} <= skin
    curved = jm.mesh.plate_with_hole(radius=1.0, size=2.0, cells=(2, 2), kind="quad8")
    named = jm.mesh.MixedMesh.from_mesh(curved, {"hole": lambda x: np.linalg.norm(x, axis=1) < 1.01})
    drawn = jm.mesh.extruded_mesh(jm.mesh.refined_mesh(named), height=1.0, layers=1)
    assert drawn.part("hole").kind == "quad8" and drawn.part("hole").measure() == pytest.approx(np.pi / 2, rel=1e-3)


@pytest.mark.parametrize("order", [1, 2])
def test_pyramids_are_cut_into_pyramids_and_tetrahedra(order):
    """Between a cube and a tetrahedron: children are in the group of their parent, and neighbours meet node by node."""
    points = [[x, y, z] for z in (0.0, 1.0) for y in (0.0, 1.0) for x in (0.0, 1.0)] + [[0.5, 0.5, 2.0], [0.5, -1.0, 1.5]]
    blocks = {"hexahedron": [[0, 1, 3, 2, 4, 5, 7, 6]], "pyramid": [[4, 5, 7, 6, 8]], "tetrahedron": [[4, 5, 8, 9]]}
    mesh = jm.mesh.MixedMesh(points, blocks, {"tip": {"pyramid": [0]}, "all": {kind: [0] for kind in blocks}})
    mesh = mesh if order == 1 else jm.mesh.quadratic_mesh(mesh)
    kinds = list(mesh.blocks)
    fine = jm.mesh.refined_mesh(jm.mesh.refined_mesh(mesh))
    jm.mesh.check_mesh(fine)
    assert [len(fine.blocks[kind]) for kind in kinds] == [64, 36, 64 + 6 * 4 + 4 * 8]
    volumes = [sum(map(_volume, fine.parts(name))) for name in ("tip", "all")]
    np.testing.assert_allclose(volumes, [1 / 3, sum(map(_volume, mesh.parts()))], rtol=1e-12)
    assert len(np.unique(np.round(np.asarray(fine.points), 9), axis=0)) == len(fine.points)  # each once
    assert sum(len(faces.cells) for faces in fine.boundary()) == 16 * (5 + 3 + 3)


@pytest.mark.parametrize("kind", [None, "quad9"])
def test_middles_are_shared_by_cells_of_all_kinds_and_belong_to_groups(kind):
    points = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    blocks = {"quad": [[0, 1, 4, 3]], "triangle": [[1, 2, 4]], "edge": [[3, 0], [2, 4]]}
    groups = {
        "left": {"edge": [0]},
        "slope": {"edge": [1]},
        "foot": {"node": [0, 1, 2]},
        "whole": {"triangle": [0], "quad": [0]},
    }
    mesh = jm.mesh.quadratic_mesh(jm.mesh.MixedMesh(points, blocks, groups), kind)
    jm.mesh.check_mesh(mesh)
    x = np.asarray(mesh.points)
    assert len(x) == 5 + 6 + (kind == "quad9") and len(np.unique(x, axis=0)) == len(x)
    np.testing.assert_array_equal(x[:5], points)
    assert set(mesh.blocks) == {"edge3", "triangle6", kind or "quad8"}
    assert mesh.part("slope").measure() == pytest.approx(np.sqrt(2)) and mesh.measure() == pytest.approx(1.5)
    np.testing.assert_array_equal(mesh.nodes("left"), np.flatnonzero(x[:, 0] == 0))
    np.testing.assert_array_equal(mesh.nodes("foot"), np.flatnonzero(x[:, 1] == 0))
    np.testing.assert_array_equal(mesh.nodes("whole"), np.arange(len(x)))
    brick = jm.mesh.extruded_mesh(jm.mesh.MixedMesh(points, blocks, groups), height=1.0, layers=1)
    with pytest.raises(
        ValueError, match="kind 'hexahedron27' has nodes in faces, where pyramids and prisms of the mesh have none"
    ):
        jm.mesh.quadratic_mesh(brick, "hexahedron27")
    assert {"hexahedron20", "prism15"} <= set(jm.mesh.quadratic_mesh(brick).blocks)


def test_what_cannot_be_cut_or_drawn_out_is_refused():
    with pytest.raises(ValueError, match="points of the plane"):
        jm.mesh.extruded_mesh(jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0)).boundary(), height=1.0, layers=1)
    pyramid = jm.mesh.Mesh(reference_element("pyramid").vertices, [range(5)], "pyramid")
    with pytest.raises(ValueError, match="in place of a pyramid are of two kinds.*refine a MixedMesh"):
        jm.mesh.refined_mesh(pyramid)
    with pytest.raises(ValueError, match="extruded_mesh: kind of mesh must be one of .*, got 'prism'"):
        jm.mesh.extruded_mesh(PRISMS, height=1.0, layers=1)
    with pytest.raises(ValueError, match="no node is the image"):
        jm.mesh.periodic_pairs(jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0)), [3.0, 0.0])


def test_pyramids_and_quadratic_prisms_are_cells_like_others():
    """Shape functions are 1 at their nodes, meet what they should exactly, and faces turn outward."""
    for kind, order in (("pyramid", 1), ("pyramid13", 2), ("prism15", 2)):
        element = reference_element(kind)
        places = np.asarray(element.vertices, float)
        np.testing.assert_allclose(element.shape(places), np.eye(element.nodes), atol=1e-13)
        xi = np.random.default_rng(0).uniform(0.05, 0.3, (6, 3))
        np.testing.assert_allclose(element.shape(xi) @ places**order, xi**order, atol=1e-13)
        np.testing.assert_allclose(element.shape(jnp.asarray(xi)), element.shape(xi), atol=1e-14)
        step = 1e-6 * np.eye(3)
        slopes = np.stack([(element.shape(xi + s) - element.shape(xi - s)) / 2e-6 for s in step], axis=-1)
        np.testing.assert_allclose(element.shape_gradients(xi), slopes, atol=1e-9)
        for face in element.faces:
            a, b, c = places[list(face[:3])]
            assert np.cross(b - a, c - a) @ (a - places.mean(axis=0)) > 0
        assert element.quadrature("mass")[1].sum() == pytest.approx(4 / 3 if kind.startswith("pyramid") else 1.0)
    wedge = jm.mesh.MixedMesh([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1]], {"prism": [range(6)]})
    skin = wedge.boundary()
    assert [(part.kind, len(part.cells)) for part in skin] == [("quad", 3), ("triangle", 2)]
    assert eqx.tree_equal(wedge.part().points, wedge.points)


def test_pyramids_are_integrated_exactly():
    element = reference_element("pyramid")
    for degree in (0, 1, 2, 3, 4, 5):
        points, weights = element.quadrature(degree)
        assert (weights > 0).all()
        for a, b, c in np.ndindex(degree + 1, degree + 1, degree + 1):
            if a + b + c <= degree:
                # The integral of x^a y^b over a square of half side w = 1 - z is 4 w^(a+b+2)/((a+1)(b+1)) for even ones.
                flat = 0.0 if a % 2 or b % 2 else 4 / (a + 1) / (b + 1)
                n = a + b + 2
                height = np.prod(np.arange(1, c + 1)) / np.prod(np.arange(n + 1, n + c + 2))
                assert weights @ np.prod(points ** (a, b, c), axis=1) == pytest.approx(flat * height, abs=1e-13)
