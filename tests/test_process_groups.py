"""Tests that share programs are sent to one process."""

import pytest
from process_groups import group_of


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/test_invariants.py::test_constrained_matrix[springs]", "springs"),
        ("tests/test_solvers_on_scenes.py::test_every_solver_on_every_scene[springs-few-float64]", "springs"),
        ("tests/test_solvers_on_scenes.py::test_every_solver_on_every_scene[springs-rest-float32]", "rest-float32"),
        ("tests/test_invariants.py::test_symmetry_is_not_promised_of_what_is_not", "tests/test_invariants.py"),
        ("tests/test_mappings.py::test_an_arm_by_hand", "tests/test_mappings.py"),
        ("tests/validation/test_elements.py::test_patch_solved[quad]", "tests/validation/test_elements.py"),
    ],
)
def test_groups(nodeid, group):
    assert group_of(nodeid) == group
