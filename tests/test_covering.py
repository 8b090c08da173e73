"""The thinned lists of combinations hold what they promise."""

import itertools

import pytest
from covering import in_turn, pairwise

AXES = [[range(7), "abc", (True, False)], [range(5), range(5)], [range(4)] * 4, ["x"], ["x", "yz", [()]]]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_every_pair_of_choices_meets(axes):
    rows = pairwise(*axes)
    assert rows == pairwise(*axes) and len(rows) == len(set(rows))
    for (i, one), (j, other) in itertools.combinations(enumerate(axes), 2):
        assert {(row[i], row[j]) for row in rows} == set(itertools.product(one, other))


def test_few_rows_are_enough():
    """Of four axes of four choices the product has 256 rows; 16 is the least there can be (an orthogonal array)."""
    assert 16 <= len(pairwise(*[range(4)] * 4)) <= 24


def test_every_entry_of_a_long_axis_has_its_turn():
    rows = in_turn(range(9), "ab", "xyz")
    assert [row[0] for row in rows] == list(range(9))
    assert {row[1:] for row in rows} == set(itertools.product("ab", "xyz"))
