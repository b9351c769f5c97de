"""The check of `benchmarks.chaos` finds what broke a promise, and nothing else."""

from collections.abc import Sequence

import pytest

from benchmarks.promises import FALLBACK, KINDS, Outage, Seen, broken

NOW = 1_000_000.0
Course = Sequence[tuple[float, int]]


def seen(name: str, needed: Course, counts: Course, away: Course = (), server: str = "") -> Seen:
    """Return what was seen if nothing but one target changed; times are after the begin.

    A server was ``away`` from one instant to another.
    """

    def placed(course: Course) -> list[tuple[float, int]]:
        return [(NOW + at, count) for at, count in course]

    still = {kind.name: [(NOW, 5)] for kind in KINDS}
    outages = tuple(Outage(NOW + begin, NOW + end, frozenset({server})) for begin, end in away)
    needs, had = {**still, name: placed(needed)}, {**still, name: placed(counts)}
    return Seen(needs, had, outages, NOW + 900)


FALLEN = [(0, 9), (230, FALLBACK), (270, 9)]


@pytest.mark.parametrize(
    ("what", "of"),
    [
        ("nothing moves", seen("instant-a", [(0, 5)], [(0, 5)])),
        ("up and down", seen("both", [(0, 5), (200, 9), (400, 3)], [(0, 5), (206, 9), (470, 3)])),
        ("as permitted", seen("policy", [(0, 9), (200, 5)], [(0, 9), (270, 7), (290, 5)])),
        ("a fallback", seen("fallback", [(0, 9)], FALLEN, [(200, 260)], "prometheus-b")),
        (
            "late as its server was away",
            seen("instant-a", [(0, 5), (200, 9)], [(0, 5), (262, 9)], [(199, 255)], "prometheus-a"),
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_as_promised_is_not_told(what: str, of: Seen) -> None:
    """A course that an HPA could have taken."""
    assert list(broken(of)) == [], what


@pytest.mark.parametrize(
    ("sentence", "of"),
    [
        ("9 was needed, and read,", seen("instant-a", [(0, 9), (200, 3)], [(0, 9), (230, 3)])),
        ("9 was needed", seen("fallback", [(0, 9)], [(0, 9), (200, FALLBACK), (230, 9)])),
        ("at most 5 was needed", seen("instant-b", [(0, 5)], [(0, 5), (100, 8)])),
        ("9 -> 5 in 0 s", seen("policy", [(0, 9), (200, 5)], [(0, 9), (270, 5)])),
        ("9 -> 5 in 8 s", seen("policy", [(0, 9), (200, 5)], [(0, 9), (270, 7), (278, 5)])),
        ("9 needed, 5 there", seen("window-up", [(0, 5), (200, 9)], [(0, 5)])),
        ("3 needed, 9 there", seen("rate-a", [(0, 9), (200, 3)], [(0, 9)])),
    ],
)
def test_what_broke_a_promise_is_told(sentence: str, of: Seen) -> None:
    """Each kind of promise, broken once."""
    assert any(sentence in line for line in broken(of)), list(broken(of))
