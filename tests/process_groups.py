"""Which tests run in one process, after one another: those that share what they make once."""

# Of these files the tests of a scene belong together, across files: all need its matrices.
OF_SCENES = ("test_invariants.py", "test_solvers_on_scenes.py")
ON_ITS_MATRIX = ("", "few-float64")  # other solvers share programs with their like, which take longer than a matrix


def group_of(nodeid: str) -> str:
    """The group of a test: its scene, where it has one, or its file."""
    path, _, name = nodeid.partition("::")
    if not path.endswith(OF_SCENES) or "[" not in name:
        return path
    scene, _, rest = name[name.index("[") + 1 : name.rindex("]")].partition("-")
    return scene if rest in ON_ITS_MATRIX else rest
