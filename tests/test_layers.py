"""The import rule of the architecture: downwards only, and families of components do not know each other."""

import ast
import functools
import re
from pathlib import Path

from all_at_once import for_each

PACKAGE = Path(__file__).parents[1] / "jaxmech"
# The table of CONTRIBUTING.md.
FLOORS = (
    ("_runtime",),
    ("_math", "_llvm", "_codegen/scalarize", "_sofa/read"),
    ("_mesh", "_codegen/program", "_linear_solver/base"),
    ("_codegen/llvm",),
    ("_codegen",),
    ("_scene", "_sparse"),
    ("_material", "_mass", "_mapping", "_constraint", "_linear_solver/dense", "_linear_solver/sparse"),
    ("_forcefield", "_constraint/joint", "_linear_solver/preconditioner"),
    ("_model", "_linear_solver/krylov"),
    ("_assembly", "_linear_solver"),
    ("_linear_system", "_linear_solver/eigen", "_contact"),
    ("_solve", "_integrator"),
    ("_integrator/implicit", "_integrator/explicit", "_integrator/trajectory", "_sofa/numerics", "_output"),
    ("_sofa", "viz", "_identify", "_distributed"),
    (".",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
FAMILIES = {"_material", "_mass", "_mapping", "_constraint", "_forcefield"}
# Beside what the floors allow: a solid is made of a material.
SIBLINGS = {("_forcefield", "_material")}
# Only what has cells reads a mesh; linear solvers have never heard of mechanics.
MESH_READERS = {"_distributed", "_forcefield", "_mass", "_mapping", "_sofa", "_sofa/numerics", "_output", "viz", "."}
MECHANICS = {"_scene", "_model", "_assembly", "_linear_system", *FAMILIES}
MOST_ROOMS, MOST_FLOORS, MOST_LINES = 25, 15, 270

files = sorted(p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py" or p.read_text().strip())
every = for_each(files, lambda p: p.relative_to(PACKAGE))


def room_of(path: Path) -> str:
    """The folder that a file is in."""
    return path.relative_to(PACKAGE).parent.as_posix()


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports_of(path: Path) -> frozenset[Path]:
    """The files of jaxmech that a file imports, wherever in it the import stands."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            assert not any(alias.name.split(".")[0] == "jaxmech" for alias in node.names), "import relatively"
        elif isinstance(node, ast.ImportFrom):
            assert node.level or (node.module or "").split(".")[0] != "jaxmech", "import relatively"
            if node.level:
                base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
                door = base / "__init__.py"
                named = door.read_text() if door.exists() and door != path else ""
                modules = [base / a.name for a in node.names if f" as {a.name}\n" not in named]
                modules = [base] if base.with_suffix(".py").exists() else modules
                found |= {m.with_suffix(".py") if m.with_suffix(".py").exists() else m / "__init__.py" for m in modules}
                if any(f" as {a.name}\n" in named for a in node.names):
                    found.add(door)
    assert all(p.exists() for p in found), found
    return frozenset(found)


def test_there_are_few_rooms_and_floors():
    rooms = {room_of(p).split("/")[0] for p in files}
    assert len(rooms) <= MOST_ROOMS and len(FLOORS) <= MOST_FLOORS
    assert {room_of(p) for p in files} == set(FLOOR)
    assert {p.name for p in PACKAGE.glob("_*.py")} == {"__init__.py", "__main__.py"}, "a private module lies in no room"


def test_the_plan_is_in_the_book():
    book = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    table = "".join(line for line in book.splitlines() if line.startswith("| "))
    assert not [room for room in FLOOR if room != "." and f"`{room.split('/')[-1]}" not in table]


@every
def test_imports_go_downwards(path):
    room = room_of(path)
    for other in {room_of(p) for p in imports_of(path)} - {room}:
        assert FLOOR[other] < FLOOR[room], f"{room} imports {other}, which is not below it"
        if other in FAMILIES and room in FAMILIES:
            assert (room, other) in SIBLINGS, f"{room} imports its sibling {other}"
        if other == "_mesh":
            assert room in MESH_READERS, f"{room} imports {other}"
        assert not (room.startswith("_linear_solver") and other in MECHANICS), f"{room} imports {other}"


@every
def test_what_may_change_in_jax_is_imported_in_one_place(path):
    if path.name == "jax_internals.py":
        return
    unstable = re.compile(r"jax\.(interpreters|extend|core|_src)\b|jax\.experimental(?! import sparse)|jax\.lib\b")
    imports = [ast.unparse(n) for n in ast.walk(tree_of(path)) if isinstance(n, (ast.Import, ast.ImportFrom))]
    found = [line for line in imports if unstable.search(line)]
    assert not found, f"{found}: use jaxmech/_runtime/jax_internals.py"


@every
def test_loops_are_those_that_compile_in_little_time(path):
    if path.name != "loops.py":
        assert "lax.while_loop(" not in path.read_text(), "use jaxmech/_runtime/loops.py"


def test_the_element_compiler_has_one_door():
    box = PACKAGE / "_codegen"
    for path in files:
        if box not in path.parents:
            inside = {p for p in imports_of(path) if box in p.parents}
            assert inside <= {box / "__init__.py"}, f"{path.relative_to(PACKAGE)} reaches into _codegen"


def test_imports_have_no_cycle():
    graph = {path: imports_of(path) for path in files}
    while graph:
        done = [path for path, needs in graph.items() if not needs & graph.keys()]
        assert done, f"a cycle among {sorted(str(p.relative_to(PACKAGE)) for p in graph)}"
        for path in done:
            del graph[path]


@every
def test_files_are_short(path):
    """Besides docstrings, with their examples: those are the reference."""
    text = path.read_text()
    owners = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docstrings = [n.body[0] for n in owners if ast.get_docstring(n)]
    lines = len(text.splitlines()) - sum((d.end_lineno or d.lineno) - d.lineno + 1 for d in docstrings)
    assert lines <= MOST_LINES, f"{lines} lines"


def test_names_say_what_a_file_is_about():
    assert not [p for p in files if p.stem in ("utils", "_utils", "util", "helpers", "misc", "common")]


PUBLIC_MODULES = sorted(p for p in PACKAGE.glob("*.py") if p.name != "__main__.py")  # which is a program


@for_each(PUBLIC_MODULES, lambda p: p.name)
def test_public_modules_only_re_export(path):
    beside = (
        "import typing as _typing",
        "__version__ = ",
        "if _typing.TYPE_CHECKING:\n    from . import contact",
    )
    resting = "from ._runtime.collector import collector_at_rest as _collector_at_rest"
    body = []
    for node in ast.parse(path.read_text()).body[1:]:  # all that is imported in one go: a tenth of its time is saved
        is_resting = isinstance(node, ast.With) and ast.unparse(node.items[0]) == "_collector_at_rest()"
        body += node.body if is_resting else [node]
    for node in body:
        if isinstance(node, ast.ImportFrom) and ast.unparse(node) != resting:
            assert node.level == 1
            assert all(alias.asname == alias.name for alias in node.names)
        else:
            assert path.name == "__init__.py" and ast.unparse(node).startswith((*beside, resting))
