"""Tests that share programs are sent to one process."""

import pytest
from process_groups import Part, group_of, longest_first


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/test_invariants.py::test_constrained_matrix[springs]", "springs"),
        ("tests/test_solvers_on_scenes.py::test_every_solver_on_every_scene[springs-few-float64]", "springs"),
        ("tests/test_solvers_on_scenes.py::test_every_solver_on_every_scene[springs-rest-float32]", "rest-float32"),
        ("tests/test_invariants.py::test_symmetry_is_not_promised_of_what_is_not", "tests/test_invariants.py"),
        ("tests/test_mappings.py::test_an_arm_by_hand", "tests/test_mappings.py"),
        (
            "tests/test_notebooks.py::test_notebook[identify_rubber]",
            "tests/test_notebooks.py::test_notebook[identify_rubber]",
        ),
        ("tests/validation/test_elements.py::test_patch_solved[quad]", "tests/validation/test_elements.py"),
    ],
)
def test_groups(nodeid, group):
    assert group_of(nodeid) == group


def test_long_groups_come_first_and_whole():
    few = [f"tests/test_mesh.py::test_{i}" for i in range(3)]
    more = [f"tests/test_modes.py::test_{i}" for i in range(4)]
    long = ["tests/test_notebooks.py::test_notebook[a]", "tests/test_notebooks.py::test_notebook[b]"]
    assert longest_first([*few[:1], *more, *few[1:], *long]) == [*long, *more, *few]
    assert longest_first([*few, *more], skipped=more) == [*few, *more]


def test_parts_are_whole_groups_of_about_the_same_length():
    tests = [
        f"tests/test_{file}.py::test_{i}" for file, count in (("mesh", 9), ("modes", 5), ("paths", 4)) for i in range(count)
    ]
    parts = [Part.of(f"{k}/2").of_all(tests) for k in (1, 2)]
    assert parts[0] | parts[1] == set(tests) and not parts[0] & parts[1]
    assert [len(part) for part in parts] == [9, 9]
    assert len({group_of(test) for part in parts for test in part}) == sum(
        len({group_of(t) for t in part}) for part in parts
    )
    assert Part.of("1/2").of_all(reversed(tests)) == parts[0]  # in whichever order they were found


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b"])
def test_other_parts_are_refused(text):
    with pytest.raises(ValueError, match=f"got '{text}'"):
        Part.of(text)
