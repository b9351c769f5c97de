"""The judge of kills finds what it looks for, to within its slack, and nothing else.

Times are seconds; its slack is one of them.
"""

import pytest

from tests.endtoend.killing import Judge, Rules, Seen, highest

RULES = Rules(minimum=2, maximum=10, window=15, up=(3, 4), down=(2, 5))
ANY = [(0.0, 12), (200.0, 0)]
"""Loads that want any count until 200, and none from 215 on: only bounds and policies matter."""


def found(levels: list[Seen], *counts: Seen) -> str:
    """Return what is wrong with the counts, in one line."""
    return "; ".join(Judge(RULES).faults(levels, counts))


def test_a_clean_run_passes() -> None:
    """Up as fast as the policy allows, to the bound, and down after the window."""
    levels = [(0.0, 4), (100.0, 12), (130.0, 3), (140.0, 1)]
    ups = [(0.0, 4), (101.0, 7), (105.0, 10)]
    downs = [(145.2, 8), (150.2, 6), (155.2, 4), (160.2, 2)]
    assert found(levels, *ups, *downs) == ""


@pytest.mark.parametrize(
    ("instant", "before", "after"),
    [(100.0, 10, 11), (250.0, 2, 1), (250.0, 2, 0)],
)
def test_a_count_out_of_bounds(instant: float, before: int, after: int) -> None:
    """By one, or to zero."""
    assert found(ANY, (0.0, before), (instant, after)) == f"{before} -> {after} is out of bounds"


def test_a_step_larger_than_a_policy() -> None:
    """By one replica, up and down; the step that is allowed is none."""
    assert found(ANY, (0.0, 4), (100.0, 7)) == ""
    assert found(ANY, (0.0, 4), (100.0, 8)) == "4 -> 8 exceeds 3 in 4 s; before: []"
    assert found(ANY, (0.0, 9), (250.0, 7)) == ""
    assert found(ANY, (0.0, 9), (250.0, 6)) == "9 -> 6 exceeds 2 in 5 s; before: []"


@pytest.mark.parametrize(
    ("first", "then", "period"),
    [((100.0, 7), 8, 4.0), ((250.0, 2), 1, 5.0)],
    ids=["up", "down"],
)
def test_steps_that_together_exceed_a_policy(first: Seen, then: int, period: float) -> None:
    """As of a daemon that forgot the first one; up to the slack before the period is over."""
    rules = Rules(minimum=1, maximum=10, up=(3, 4), down=(2, 5))
    begin = (0.0, 4)

    def faults(after: float) -> list[str]:
        return list(Judge(rules).faults(ANY, [begin, first, (first[0] + after, then)]))

    for after in (0.01, 1.0, period - 1.01):
        (fault,) = faults(after)
        assert "exceeds" in fault
    assert faults(period - 0.99) == []


def test_steps_whose_first_one_is_not_the_last_before() -> None:
    """All of the period count: 2 + 1 + 1 in 4 seconds are one too many."""
    counts = [(0.0, 3), (100.0, 5), (101.0, 6), (102.5, 7)]
    assert "6 -> 7 exceeds 3 in 4 s" in found(ANY, *counts)


def test_a_change_the_other_way_widens_the_allowance_while_it_may_count() -> None:
    """What went down may come back within the period, and a slack more."""
    levels = [(0.0, 2), (51.0, 12)]
    assert found(levels, (0.0, 8), (50.0, 6), (54.9, 10)) == ""
    assert "exceeds" in found(levels, (0.0, 8), (50.0, 6), (55.1, 10))


def test_a_scale_down_within_the_window() -> None:
    """A load that is over still holds its count, of which a sync may have missed the last 3 s."""
    levels = [(0.0, 9), (100.0, 2)]
    told = "9 -> 8, though 9 was wanted within the window"
    for instant in (101.0, 105.0, 110.9):
        assert found(levels, (0.0, 9), (instant, 8)) == told
    for instant in (111.1, 115.0):
        assert found(levels, (0.0, 9), (instant, 8)) == ""


def test_a_scale_down_while_as_many_are_wanted() -> None:
    """Once the load has been there for as long as it may take to be seen, and as long again."""
    assert found([(0.0, 9)], (0.0, 9), (100.0, 8)) == (
        "9 -> 8, though 9 was wanted within the window"
    )
    levels = [(0.0, 2), (100.0, 9)]
    assert found(levels, (0.0, 9), (105.9, 8)) == ""
    assert "though 9 was wanted" in found(levels, (0.0, 9), (106.1, 8))


def test_a_scale_down_below_what_is_wanted() -> None:
    """By one; a load above the bound wants no more than the bound."""
    assert found([(0.0, 7)], (0.0, 9), (100.0, 7)) == ""
    assert found([(0.0, 7)], (0.0, 8), (100.0, 6)) == (
        "8 -> 6, though 7 was wanted within the window"
    )
    assert found([(0.0, 12)], (0.0, 10), (100.0, 9)) == (
        "10 -> 9, though 10 was wanted within the window"
    )


def test_a_scale_up_beyond_what_is_wanted() -> None:
    """By one; a load that is over may just have been read."""
    assert found([(0.0, 6)], (0.0, 4), (100.0, 6)) == ""
    assert found([(0.0, 6)], (0.0, 5), (100.0, 7)) == "5 -> 7, though no more than 6 was wanted"
    levels = [(0.0, 9), (100.0, 2)]
    assert found(levels, (0.0, 4), (102.9, 6)) == ""
    assert found(levels, (0.0, 4), (103.1, 6)) == "4 -> 6, though no more than 2 was wanted"


def test_a_load_counts_by_the_time_that_it_held_within_a_span() -> None:
    """The last one lasts; one that was there for less than asked is none."""
    levels = [(0.0, 5), (10.0, 8), (12.0, 3)]
    assert highest(levels, 0.0, 20.0, 2.0) == 8
    assert highest(levels, 0.0, 20.0, 2.1) == 5
    assert highest(levels, 11.0, 20.0, 2.0) == 3
    assert highest(levels, 30.0, 40.0, 10.0) == 3
    assert highest(levels, 30.0, 40.0, 10.1) == 0
