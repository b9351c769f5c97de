"""The judge of `benchmarks.sharing` finds what broke a promise, and a short run breaks none."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sharing.bed import Bed, Fleet, Times
from benchmarks.sharing.faults import Faults, Pace
from benchmarks.sharing.judging import (
    HAND,
    Accepted,
    Course,
    Disruption,
    broken,
    gaps,
    settlings,
    two_writers,
    without,
)

NOW = 1_000_000.0
LEASE = 15.0
Wrote = tuple[float, str] | tuple[float, str, str]
"""When who wrote a scale, or a Lease for whom."""
ONE, TWO = "one_a", "two_a"
TAKEN = [(1.0, "one", ONE), (3.0, "two", TWO)]
"""Both have held the Lease, so that it is known whose identity is whose."""


def course(accepted: dict[str, Sequence[Wrote]], seconds: float = 100.0, **more: Any) -> Course:
    """Return what happened in so many seconds; all times are since the begin."""

    def placed(one: Wrote) -> Accepted:
        at, *rest = one
        return Accepted(NOW + at, *rest)

    def moved(what: str, pairs: set[tuple[str, str]], begin: float, end: float) -> Disruption:
        return Disruption(what, frozenset(pairs), NOW + begin, NOW + end, what == "slow")

    starts = more.pop("starts", {"one": [0.0], "two": [0.0]})
    return Course(
        NOW,
        NOW + seconds,
        LEASE,
        {cluster: [placed(one) for one in every] for cluster, every in accepted.items()},
        {daemon: [NOW + at for at in every] for daemon, every in starts.items()},
        [moved(*one) for one in more.pop("disruptions", ())],
        [(NOW + at, cluster) for at, cluster in more.pop("deletions", ())],
        [(NOW + begin, NOW + end) for begin, end in more.pop("quiet", ())],
    )


def renewed(holder: str, begin: int, end: int) -> list[Wrote]:
    """Return the renewals of a Lease, one every two seconds."""
    user = holder.partition("_")[0]
    return [(float(at), user, holder) for at in range(begin, end, 2)]


@pytest.mark.parametrize(
    ("what", "writes", "found"),
    [
        ("who holds it", [(4, "two"), (5, "two")], 0),
        ("who held it before", [(4, "one")], 1),
        ("a Lease that was given back", [(4, "two", ""), (5, "two")], 1),
        ("who was handed it", [(4, "two", ONE), (5, "one"), (6, "two")], 1),
        ("somebody else holds it", [(4, HAND, "somebody"), (5, "two")], 0),
        ("... and another writes", [(4, HAND, "somebody"), (5, "one")], 1),
        ("an operator", [(4, HAND)], 0),
    ],
)
def test_a_second_writer_is_found(what: str, writes: list[Wrote], found: int) -> None:
    """Who writes a scale must be whom the daemons have last written into the Lease."""
    assert len([*two_writers(course({"eu": [*TAKEN, *writes]}))]) == found, what


def test_a_lease_is_held_by_a_process() -> None:
    """The next process of the same daemon may not write by the Lease of the one before it."""
    writes = [
        *renewed(ONE, 0, 4),
        (5.0, "one"),
        (9.0, "one"),
        (10.0, "one", "one_b"),
        (11.0, "one"),
    ]
    seen = course({"eu": writes}, starts={"one": [0.0, 7.0]})
    (line,) = two_writers(seen)
    assert "one#2 wrote a scale" in line
    assert "written for one#1" in line


KILLED = ("kill -9", {("one", "eu")}, 20.0, 90.0)


@pytest.mark.parametrize(
    ("what", "writes", "more", "longest"),
    [
        ("from the kill on", renewed(TWO, 37, 100), {"disruptions": [KILLED]}, 17.0),
        ("never again", [], {"disruptions": [KILLED]}, 80.0),
        ("from the last renewal on", [(60.0, "two", TWO)], {}, 60.0 - 19 - LEASE),
        (
            "from when a daemon is able",
            renewed(TWO, 67, 100),
            {"disruptions": [KILLED, ("partition", {("two", "eu")}, 10.0, 50.0)]},
            17.0,
        ),
        (
            "nobody need take over by slow connections",
            renewed(TWO, 67, 100),
            {"disruptions": [KILLED, ("slow", {("two", "eu")}, 10.0, 66.0)]},
            1.0,
        ),
        (
            "a deletion is another begin",
            renewed(TWO, 47, 100),
            {"disruptions": [KILLED], "deletions": [(30.0, "eu")]},
            17.0,
        ),
        (
            "who takes it and does not know it",
            [(37, "two", TWO), *renewed("three_a", 53, 100)],
            {
                "disruptions": [KILLED, ("no answers", {("two", "eu")}, 30.0, 90.0)],
                "starts": {"one": [0.0], "two": [0.0], "three": [0.0]},
            },
            17.0,
        ),
        (
            "who leads by slow connections leads",
            renewed(ONE, 19, 100),
            {"disruptions": [("slow", {("one", "eu")}, 20.0, 90.0)]},
            0.0,
        ),
        ("held by somebody else", [(20, HAND, "x"), *renewed(TWO, 36, 100)], {}, 16.0),
        ("a process that is no more", [], {"starts": {"one": [0.0, 21.0], "two": [0.0]}}, 79.0),
    ],
)
def test_a_time_without_a_leader_is_found(
    what: str, writes: list[Wrote], more: dict[str, Any], longest: float
) -> None:
    """The time from when there is none, and a daemon is able to lead, until there is one."""
    seen = gaps(course({"eu": [*renewed(ONE, 0, 20), *writes]}, **more))
    assert max([gap.seconds for gap in seen], default=0.0) == pytest.approx(longest, abs=1.1), what


SHARED = {"eu": ONE, "us": TWO, "asia": ONE, "africa": TWO}


def kept(changes: Sequence[tuple[int, str, str]] = ()) -> dict[str, Sequence[Wrote]]:
    """Return Leases that are renewed all the time; of some the holder changes at a time."""
    found: dict[str, Sequence[Wrote]] = {}
    for cluster, first in SHARED.items():
        begin, holder, writes = 0, first, list[Wrote]()
        for at, where, to in (*changes, (100, cluster, "")):
            if where == cluster:
                writes += renewed(holder, begin, at)
                begin, holder = at, to
        found[cluster] = writes
    return found


def taken_by_one(*clusters: str) -> list[tuple[int, str, str]]:
    """Let `one` take clusters in the fifth second."""
    return [(5, cluster, ONE) for cluster in clusters]


@pytest.mark.parametrize(
    ("sentence", "changes"),
    [
        ("", []),
        ("", taken_by_one("us")),
        ("not within one of the fair share after 60 s: one 4", taken_by_one("us", "africa")),
        ("", [*taken_by_one("us", "africa"), (50, "us", TWO)]),
        ("one 4, two 0", [*taken_by_one("us", "africa"), (80, "us", TWO), (90, "us", ONE)]),
        ("us changed its leader 1 times after all was settled", [(70, "us", ONE)]),
        (
            "us changed its leader 3 times without",
            [(10, "us", ONE), (20, "us", TWO), (30, "us", ONE)],
        ),
    ],
)
def test_an_unfair_share_is_found(sentence: str, changes: list[tuple[int, str, str]]) -> None:
    """More than one cluster from the fair share, or a leader that changes without a reason."""
    found = broken(course(kept(changes), quiet=[(2.0, 100.0)]))
    assert bool(found) == bool(sentence), found
    assert sentence in " ".join(found)


def test_when_the_shares_are_fair_and_even() -> None:
    """Each is told in seconds since the begin of the quiet time."""
    changes = [*taken_by_one("us", "africa"), (30, "us", TWO), (50, "africa", TWO)]
    (settling,) = settlings(course(kept(changes), quiet=[(2.0, 100.0)]))
    assert (settling.fair_after, settling.even_after) == (28.0, 48.0)
    assert settling.shares == {"one": 2, "two": 2}


def test_spans_without_others() -> None:
    """What is cut out may be before, after, within or around."""
    assert without([(1, 9)], [(0, 1), (3, 4), (8, 12)]) == [(1, 3), (4, 8)]
    assert without([(1, 9)], [(0, 10)]) == []


# -- with daemons ---------------------------------------------------------------------------------

QUICK = Times(lease=3.0, renew=2.0, retry=0.4)


def played(folder: Path, fleet: Fleet, seconds: float, pace: Pace) -> Course:
    """Run daemons for so long."""
    with ExitStack() as stack:
        return Faults(Bed(folder, fleet, 1, stack), 1, pace, print).run(seconds)


def test_a_daemon_that_needs_no_lease_is_found(tmp_path: Path) -> None:
    """One of two has no leader election: by the servers' accounts there are two writers."""
    fleet = Fleet(2, 2, times=QUICK, share=False, unelected=frozenset({"one"}))
    seen = played(tmp_path, fleet, 0.0, Pace(quiet=5.0))
    found = [*two_writers(seen)]
    assert any("one#1 wrote a scale" in line and "for two#1" in line for line in found), found


def test_clusters_are_shared_while_everything_fails(tmp_path: Path) -> None:
    """Three daemons and six clusters, some faults, and what is promised holds.  It takes 70 s."""
    pace = Pace(bout=20.0, quiet=16.0, settle=12.0, pause=(0.5, 2.0))
    seen = played(tmp_path, Fleet(3, 6, times=QUICK), 20.0, pace)
    assert broken(seen) == []
    assert len(seen.disruptions) >= 5
    assert len(seen.quiet) == 2
    assert all(len(accepted) > 50 for accepted in seen.accepted.values())
