"""The thinned lists of combinations hold what they promise."""

import itertools

import pytest
from covering import cover, in_turn, pairwise

AXES = [[range(7), "abc", (True, False)], [range(5), range(5)], [range(4)] * 4, ["x"], ["x", "yz", [()]]]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_every_pair_of_choices_meets(axes):
    rows = pairwise(*axes)
    assert rows == pairwise(*axes) and len(rows) == len(set(rows))
    for (i, one), (j, other) in itertools.combinations(enumerate(axes), 2):
        assert {(row[i], row[j]) for row in rows} == set(itertools.product(one, other))


def test_every_choice_is_made_once():
    rows = cover(list(itertools.product(range(5), "ab", "xyz")), 1)
    assert len(rows) == 5 and [{row[i] for row in rows} for i in range(3)] == [set(range(5)), set("ab"), set("xyz")]


@pytest.mark.covering(2)
@pytest.mark.parametrize("c", [0, 1, 2])
@pytest.mark.parametrize("b", [0, 1, 2])
@pytest.mark.parametrize("a", [0, 1, 2])
def test_a_marked_test_is_thinned(a, b, c, request):
    """27 combinations; the least in which all pairs meet is 9, and the greedy choice takes a few more."""
    kept = [
        item
        for item in request.session.items
        if item.originalname == "test_a_marked_test_is_thinned" and not item.get_closest_marker("exhaustive")
    ]
    assert 9 <= len(kept) <= 14 or len(request.session.items) < 27


def test_few_rows_are_enough():
    """Of four axes of four choices the product has 256 rows; 16 is the least there can be (an orthogonal array)."""
    assert 16 <= len(pairwise(*[range(4)] * 4)) <= 24


def test_every_entry_of_a_long_axis_has_its_turn():
    rows = in_turn(range(9), "ab", "xyz")
    assert [row[0] for row in rows] == list(range(9))
    assert {row[1:] for row in rows} == set(itertools.product("ab", "xyz"))
