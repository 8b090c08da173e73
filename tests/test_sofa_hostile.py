"""A scene is untrusted input: each hostile file ends in an error that names file, line and component, within a second."""

import gc
import re
import time

import pytest

import jaxmech as jm

BODY = '<MechanicalObject name="dofs" position="0 0 0 1 0 0"/><UniformMass totalMass="1"/>'


def scene(inside: str, root: str = '<Node name="root" dt="0.01">') -> str:
    return f"{root}\n<RungeKutta4Solver/>\n{inside}\n</Node>"


GRID = '<RegularGridTopology name="grid" n="3 3 3" min="0 0 0" max="1 1 1"/><MechanicalObject name="dofs"/>'
FEM = '<HexahedronFEMForceField name="fem" youngModulus="{}" poissonRatio="{}"/>'
BOMB = "<!DOCTYPE x [" + "".join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(9)) + "]>"
GMSH = "$NOD\n{}\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n$ENDNOD\n$ELM\n{}\n1 4 1 1 4 1 2 3 4\n$ENDELM\n"
LOADED = '<MeshGmshLoader name="loader" filename="mesh.msh"/><MechanicalObject name="dofs" src="@loader"/>'

FRAMES = '<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  1 0 0 0 0 0 1"/><UniformMass/>'
SPRINGS = '<FrameSpringForceField spring="{}"/>'
ON_BEAM = '<Node name="n"><MechanicalObject position="{}"/><BeamLinearMapping localCoord="0"/></Node>'
SPHERES = '<SphereLoader filename="{}"/><MechanicalObject position="@[-1].position"/>'
PATCH = """<PatchTestMovementProjectiveConstraint indices="{}" cornerPoints="{} 1 1 0 0 1 0"
  cornerMovements="0 0 0 1 0 0 1 1 0 0 1 0"/>"""

HOSTILE = {
    # XML
    "empty file": ("", "well-formed"),
    "binary": (bytes(range(256)) * 4, "well-formed"),
    "null bytes": (b"<Node name='a'>\0\0\0</Node>", "well-formed"),
    "wrong encoding": (b"<?xml version='1.0' encoding='utf-8'?><Node name='\xff\xfe'/>", "well-formed"),
    "unknown encoding": ("<?xml version='1.0' encoding='klingon'?><Node/>", "well-formed|no text"),
    "cut in a tag": ('<Node name="root"><MechanicalOb', "well-formed"),
    "cut in an attribute": ('<Node name="root"><MechanicalObject position="0 0', "well-formed"),
    "not closed": ("<Node><Node></Node>", "well-formed"),
    "wrongly nested": ("<Node><Node></Nod></Node>", "well-formed"),
    "two roots": ("<Node/><Node/>", "well-formed"),
    "attribute twice": ('<Node name="a" name="b"/>', "well-formed"),
    "entity bomb": (BOMB + "<Node>&a9;</Node>", "DOCTYPE"),
    "external entity": ('<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><Node name="&e;"/>', "DOCTYPE"),
    "external document type": ('<!DOCTYPE x SYSTEM "http://localhost:1/x.dtd"><Node/>', "DOCTYPE"),
    "undefined entity": ("<Node name='&nothing;'/>", "well-formed"),
    "no node": ("<MechanicalObject/>", "a scene is a <Node>"),
    "deep nesting": ("<Node>" * 60_000, "deep"),
    "many elements": ("<Node>" + "<Node/>" * 100_001 + "</Node>", "more than 100000 elements"),
    "giant attribute": (scene(f'<MechanicalObject position="{"0 " * 9_000_000}"/>'), "characters"),
    "object within an object": (scene("<MechanicalObject><UniformMass/></MechanicalObject>"), "stands within the object"),
    # Files
    "include without href": (scene("<include/>"), "has no href"),
    "include of nothing": (scene('<include href="nowhere.xml"/>'), "there is no file"),
    "include of itself": (scene('<include href="scene.scn"/>'), "includes itself"),
    "include out of the tree": (scene('<include href="../outside.xml"/>'), "out of the tree"),
    "include of an absolute path": (scene('<include href="/etc/passwd"/>'), "out of the tree"),
    "include of a folder": (scene('<include href="."/>'), "there is no file"),
    "include of a device": (scene('<include href="/dev/zero"/>'), "out of the tree|there is no file"),
    "include of a name with a null": (scene('<include href="a&#9;b"/>'), "there is no file"),
    # Links
    "circle of links": (
        scene('<MechanicalObject name="a" position="@b.position"/><MechanicalObject name="b" position="@a.position"/>'),
        "depend on themselves",
    ),
    "circle of one": (scene('<MechanicalObject name="dofs" position="@dofs.position"/>'), "depend on themselves"),
    "link to nothing": (scene('<MechanicalObject position="@nobody.position"/>'), "not in the scene"),
    "link above the root": (scene('<MechanicalObject position="@../../x.position"/>'), "not in the scene"),
    "relative link out of range": (
        scene(BODY + '<FixedProjectiveConstraint indices="@[-99].indices"/>'),
        "not in the scene",
    ),
    # Numbers
    "not a number": (scene('<MechanicalObject position="0 0 nan"/>'), "expected a finite number"),
    "infinite": (scene('<MechanicalObject position="0 0 inf"/>'), "expected a finite number"),
    "1e400": (scene('<MechanicalObject position="0 0 1e400"/>'), "expected a finite number"),
    "a word": (scene('<MechanicalObject position="0 zero 0"/>'), "expected a finite number"),
    "code": (scene("<MechanicalObject position=\"__import__('os').system('true') 0 0\"/>"), "expected a finite number"),
    "digits with underscores": (scene('<MechanicalObject position="1_0 0 0"/>'), "expected a finite number"),
    "wrong length": (scene('<MechanicalObject position="0 0"/>'), "multiple of 3"),
    "time step of nan": (scene(BODY, '<Node dt="nan">'), "expected a finite number"),
    "negative time step": (scene(BODY, '<Node dt="-1">'), "positive number of seconds"),
    "gravity of two numbers": (scene(BODY, '<Node gravity="0 -10">'), "expected 3"),
    "a thousand million points": (scene('<RegularGridTopology n="1000 1000 1000"/><MechanicalObject/>'), "more than"),
    "no points": (scene('<RegularGridTopology n="0 3 3"/><MechanicalObject/>'), "at least 1"),
    "index out of range": (scene(BODY + '<FixedProjectiveConstraint indices="7"/>'), "names node 7"),
    "negative index": (scene(BODY + '<FixedProjectiveConstraint indices="-1"/>'), "names node -1"),
    "huge range of indices": (scene(BODY + '<FixedProjectiveConstraint indices="0-999999999"/>'), "no range"),
    "half an index": (scene(BODY + '<FixedProjectiveConstraint indices="0.5"/>'), "whole numbers"),
    "cells of no points": (scene('<MeshTopology position="0 0 0" triangles="0 1 2"/><MechanicalObject/>'), "names? node 2"),
    "a sphere beyond all numbers": (
        scene('<SphereGridTopology n="3 3 3" radius="1e308"/><MechanicalObject name="dofs"/>'),
        "points are not finite",
    ),
    "a surface of no volume": (
        scene('<SparseGridTopology n="3 3 3" position="1 1 1 1 1 1 1 1 1" triangles="0 1 2"/><MechanicalObject/>'),
        "span no cells",
    ),
    "a skin of no frames": (
        scene(
            '<MechanicalObject template="Rigid3" position="0 0 0 0 0 0 1"/><UniformMass/><Node name="skin">'
            '<MechanicalObject position="0 0 0"/><SkinningMapping indices="0" weight="1" nbRef=""/></Node>'
        ),
        "nbRef must be the same",
    ),
    "a third of a million words of springs": (
        scene(FRAMES + SPRINGS.format("BEGIN_SPRING 0 0 END_SPRING " * 80_000)),
        "80000 springs, 10000 at most",
    ),
    "a cut spring": (scene(FRAMES + SPRINGS.format("BEGIN_SPRING 0 0 KS_T")), "END_SPRING"),
    "a spring of no frame": (scene(FRAMES + SPRINGS.format("BEGIN_SPRING 0 7 END_SPRING")), "names frame 7"),
    "a point beyond all beams": (scene(FRAMES + ON_BEAM.format("1e300 0 0")), "beyond the first or the last"),
    "spheres of the system": (scene(SPHERES.format("/etc/passwd")), "out of the tree"),
    "spheres of nan": (scene(SPHERES.format("mesh.msh")), "4 finite numbers", "SPH 1.0\nsphe 0 1 2 nan 1\n"),
    "no spheres": (scene(SPHERES.format("mesh.msh")), "no sphere", "SPH 1.0\n" + "#\n" * 100_000),
    "corners in one place": (scene(BODY + PATCH.format("0", "0 0 0 0 0 0")), "in one place"),
    "corners of a node that is not there": (scene(BODY + PATCH.format("5", "0 0 0 1 0 0")), "names node 5"),
    "a Jacobian that is perhaps kept": (
        scene(BODY + '<MatrixProjectionMethod areJacobiansConstant="perhaps"/>'),
        "true or false",
    ),
    "unknown data of a sphere": (scene(BODY + '<SphereCollisionModel raduis="1"/>'), "did you mean 'radius'"),
    # Physics
    "a negative factor of stiffness": (
        scene(
            '<MechanicalObject position="0 0 0 1 0 0 0 1 0 0 0 1"/><UniformMass/><MeshTopology tetrahedra="0 1 2 3"/>'
            '<TetrahedronFEMForceField localStiffnessFactor="-1"/>'
        ),
        "not negative",
    ),
    "unknown component": (scene(BODY + "<AntiGravityForceField/>"), "is not translated"),
    "unknown data": (scene(BODY + '<UniformVelocityDampingForceField dampingCoeficient="1"/>'), "did you mean"),
    "negative mass": (scene('<MechanicalObject position="0 0 0"/><UniformMass totalMass="-1"/>'), "positive"),
    "negative stiffness": (scene(GRID + FEM.format(-1, 0.3)), "youngModulus must be positive"),
    "Poisson's ratio of -2": (scene(GRID + FEM.format(1000, -2)), "poissonRatio between -1 and 0.5"),
    "Poisson's ratio of 0.5": (scene(GRID + FEM.format(1000, 0.5)), "poissonRatio between -1 and 0.5"),
    "moduli of other cells": (scene(GRID + FEM.format("1 2 3", 0.3)), "expected 1 or 8"),
    "an unknown method": (scene(GRID + '<HexahedronFEMForceField method="magic"/>'), "expected one of"),
    "cells without size": (
        scene(
            '<MeshTopology position="0 0 0 1 0 0 0 1 0" tetrahedra="0 1 2 2"/>'
            '<MechanicalObject/><MeshMatrixMass totalMass="1"/>'
        ),
        "tetrahedra of its topology have no size",
    ),
    "a grid of too many points": (
        scene('<RegularGridTopology n="1000000 1000000 1000000"/><MechanicalObject/><UniformMass/>'),
        r"n is \[1000000, 1000000, 1000000\]: more than",
    ),
    "what cannot be undone": (
        scene(
            '<TransformEngine name="t" input_position="1 1 1" scale="1e-320 1 1" inverse="1"/>'
            '<MechanicalObject position="@t.output_position"/>'
        ),
        "has no inverse",
    ),
    "nothing to act on": (scene("<UniformMass/>"), "no mechanical state"),
    "a misspelt component": (
        scene(BODY + "<UniformVelocityDampingForcefield/>"),
        "is not translated; did you mean 'UniformVelocityDampingForceField'",
    ),
    "a mapping where nothing moves": (
        '<Node name="root"><Node><EulerExplicitSolver/>'
        + BODY
        + '</Node><Node><MechanicalObject name="q" position="0 0 0"/>'
        '<Node><MechanicalObject position="0 0 0"/><IdentityMapping name="m"/></Node></Node></Node>',
        "m .*no time integrator stands .*mappings of what stands still",
    ),
    "two states in a node": (scene(BODY + '<MechanicalObject name="q"/>'), "q .*second mechanical state .*beside @/"),
    "two masses in a node": (scene(BODY + '<DiagonalMass name="n"/>'), "n .*second mass .*beside @/"),
    "two states where a mapping ends": (
        scene(BODY + '<Node name="c"><MechanicalObject/><MechanicalObject name="q"/><IdentityMapping output="@q"/></Node>'),
        "second mechanical state",
    ),
    "a node that its parent has not": (
        scene(BODY + '<Node><MechanicalObject/><SubsetMapping name="s" indices="0 99"/></Node>'),
        "indices names node 99",
    ),
    "no time integrator": (
        '<Node name="root"><MechanicalObject name="p" position="0 0 0"/><UniformMass/></Node>',
        "p .*no time integrator stands in its node or above, such as EulerImplicitSolver",
    ),
    # Meshes
    "a million nodes announced": (scene(LOADED), "announces 1000000 nodes", GMSH.format(1_000_000, 1)),
    "a million elements announced": (scene(LOADED), "announces 1000000 elements", GMSH.format(4, 1_000_000)),
    "a negative number of nodes": (scene(LOADED), "expected the number of nodes", GMSH.format(-4, 1)),
    "a cut mesh": (scene(LOADED), "the file ends", "$NOD\n1\n1 0 0 0\n"),
    "a mesh of nan": (scene(LOADED), "finite numbers", "$NOD\n1\n1 nan 0 0\n$ENDNOD\n"),
    "a binary mesh": (scene(LOADED), "not text", b"$NOD\n\xff\xfe\x00"),
    "a mesh of unknown cells": (scene(LOADED), "type 99", GMSH.format(4, 1).replace("1 4 1 1 4", "1 99 1 1 4")),
    "a cell of no nodes": (scene(LOADED), "that exist", GMSH.format(4, 1).replace("1 2 3 4\n", "1 2 3 9\n")),
    "a mesh that is none": (scene(LOADED), "the beginning of a Gmsh file", "hello\n"),
    "no file name": (scene('<MeshOBJLoader name="l" filename="@x"/><MechanicalObject src="@l"/>'), "expected a file"),
}


@pytest.fixture
def no_collection():
    """A collection of garbage looks at what other tests have left, too: a second for millions of objects."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_an_error_that_says_where(name, tmp_path):
    text, reason, *mesh = HOSTILE[name]
    folder = tmp_path / "scenes"
    folder.mkdir()
    (tmp_path / "outside.xml").write_text("<Node/>")
    path = folder / "scene.scn"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for content in mesh:
        (folder / "mesh.msh").write_bytes(content if isinstance(content, bytes) else content.encode())
    load, error = jm.sofa.load, jm.sofa.SceneError  # imported here, which takes half a second in a process that has not
    start = time.process_time()
    with pytest.raises(error) as caught:
        _ = load(path).parts
    assert time.process_time() - start < 5  # as long as it takes slow machines to read 18 MB, a few times over
    assert re.search(reason, str(caught.value)), caught.value
    assert "scene.scn" in caught.value.file and caught.value.line >= 1
    assert re.search(r"scene\.scn:\d+", str(caught.value))


def test_there_are_at_least_forty():
    assert len(HOSTILE) >= 40


def test_includes_in_a_circle_are_named(tmp_path):
    (tmp_path / "a.scn").write_text('<Node><include href="b.xml"/></Node>')
    (tmp_path / "b.xml").write_text('<Node name="Group">\n<include href="a.scn"/></Node>')
    with pytest.raises(jm.sofa.SceneError, match=r"a\.scn -> b\.xml -> a\.scn") as caught:
        jm.sofa.load(tmp_path / "a.scn")
    assert caught.value.file.endswith("b.xml") and caught.value.line == 2


def test_a_link_of_the_file_system_does_not_leave_the_tree(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.xml").write_text("<Node/>")
    (inside / "link.xml").symlink_to(tmp_path / "secret.xml")
    (inside / "scene.scn").write_text('<Node><include href="link.xml"/></Node>')
    with pytest.raises(jm.sofa.SceneError, match="out of the tree"):
        jm.sofa.load(inside / "scene.scn")
    assert jm.sofa.load(inside / "scene.scn", tree=tmp_path).root.children[0].name == "Node1"


def test_there_is_no_file():
    with pytest.raises(jm.sofa.SceneError, match="no such file at this path"):
        jm.sofa.load("nowhere.scn")
