"""The judge of kills finds what it looks for, to within its slack, and nothing else.

Times are seconds; its slack is one of them.
"""

import pytest

from tests.endtoend.killing import Judge, Rules, highest
from tests.worlds.counts import Seen

RULES = Rules(minimum=2, maximum=10, window=15, up=(3, 4), down=(2, 5))
ANY = [(0.0, 12), (200.0, 0)]
"""Loads that want any count until 200, and none from 215 on: only bounds and policies matter."""


WINDOW = ": window at {}"
CASES: dict[str, list[tuple[list[Seen], list[Seen], str]]] = {
    "clean-run": [
        (
            [(0.0, 4), (100.0, 12), (130.0, 3), (140.0, 1)],
            [(0.0, 4), (101.0, 7), (105.0, 10), (145.2, 8), (150.2, 6), (155.2, 4), (160.2, 2)],
            "",
        )
    ],
    "out-of-bounds": [
        (ANY, [(0.0, 10), (100.0, 11)], "10 -> 11 is out of bounds"),
        (ANY, [(0.0, 2), (250.0, 1)], "2 -> 1 is out of bounds"),
        (ANY, [(0.0, 2), (250.0, 0)], "2 -> 0 is out of bounds"),
    ],
    "step-too-large": [
        (ANY, [(0.0, 4), (100.0, 7)], ""),
        (ANY, [(0.0, 4), (100.0, 8)], "4 -> 8 exceeds 3 in 4 s; before: []"),
        (ANY, [(0.0, 9), (250.0, 7)], ""),
        (ANY, [(0.0, 9), (250.0, 6)], "9 -> 6 exceeds 2 in 5 s; before: []"),
    ],
    "steps-too-large-in-sum": [
        (ANY, [(0.0, 3), (100.0, 5), (101.0, 6), (102.5, 7)], "6 -> 7 exceeds 3 in 4 s")
    ],
    "back-up-within-the-slack": [
        ([(0.0, 2), (51.0, 12)], [(0.0, 8), (50.0, 6), (54.9, 10)], ""),
        ([(0.0, 2), (51.0, 12)], [(0.0, 8), (50.0, 6), (55.1, 10)], "exceeds"),
    ],
    "down-within-the-window": [
        *(([(0.0, 9), (100.0, 2)], [(0.0, 9), (at, 8)], WINDOW.format(9)) for at in (101.0, 110.9)),
        *(([(0.0, 9), (100.0, 2)], [(0.0, 9), (at, 8)], "") for at in (111.1, 115.0)),
    ],
    "down-while-wanted": [
        ([(0.0, 9)], [(0.0, 9), (100.0, 8)], WINDOW.format(9)),
        ([(0.0, 2), (100.0, 9)], [(0.0, 9), (105.9, 8)], ""),
        ([(0.0, 2), (100.0, 9)], [(0.0, 9), (106.1, 8)], WINDOW.format(9)),
    ],
    "down-below-the-load": [
        ([(0.0, 7)], [(0.0, 9), (100.0, 7)], ""),
        ([(0.0, 7)], [(0.0, 8), (100.0, 6)], WINDOW.format(7)),
        ([(0.0, 12)], [(0.0, 10), (100.0, 9)], WINDOW.format(10)),
    ],
    "up-beyond-the-load": [
        ([(0.0, 6)], [(0.0, 4), (100.0, 6)], ""),
        ([(0.0, 6)], [(0.0, 5), (100.0, 7)], "5 -> 7: 6 wanted"),
        ([(0.0, 9), (100.0, 2)], [(0.0, 4), (102.9, 6)], ""),
        ([(0.0, 9), (100.0, 2)], [(0.0, 4), (103.1, 6)], ": 2 wanted"),
    ],
}
"""Loads, counts, and what is wrong with them."""


@pytest.mark.parametrize("case", CASES)
def test_the_judge_finds_each_fault_and_nothing_else(case: str) -> None:
    for levels, counts, wrong in CASES[case]:
        faults = "; ".join(Judge(RULES).faults(levels, counts))
        assert wrong in faults if wrong else faults == "", (levels, counts)


@pytest.mark.parametrize(
    ("first", "then", "period"), [((100.0, 7), 8, 4.0), ((250.0, 2), 1, 5.0)], ids=["up", "down"]
)
def test_the_judge_finds_steps_that_exceed_a_policy_together(
    first: Seen, then: int, period: float
) -> None:
    rules = Rules(minimum=1, maximum=10, up=(3, 4), down=(2, 5))
    begin = (0.0, 4)

    def faults(after: float) -> list[str]:
        return list(Judge(rules).faults(ANY, [begin, first, (first[0] + after, then)]))

    for after in (0.01, 1.0, period - 1.01):
        (fault,) = faults(after)
        assert "exceeds" in fault
    assert faults(period - 0.99) == []


def test_a_load_counts_by_the_time_that_it_held_within_a_span() -> None:
    levels = [(0.0, 5), (10.0, 8), (12.0, 3)]
    assert highest(levels, 0.0, 20.0, 2.0) == 8
    assert highest(levels, 0.0, 20.0, 2.1) == 5
    assert highest(levels, 11.0, 20.0, 2.0) == 3
    assert highest(levels, 30.0, 40.0, 10.0) == 3
    assert highest(levels, 30.0, 40.0, 10.1) == 0
