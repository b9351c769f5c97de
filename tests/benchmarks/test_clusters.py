"""A small run of `benchmarks.clusters` with stand-ins.  No time is asserted: machines differ."""

import pytest

from benchmarks import clusters
from benchmarks.clusters import (
    CPU,
    LEASES,
    OF_TARGETS,
    RESIDENT,
    START,
    WATCHES,
    Options,
    Rest,
    Results,
)
from tests.worlds.prometheus.server import required_program

SMALL = Options(clusters=3, targets=12, period=1.0, syncs=1)


def rest(cpu: float = 0.1, of_targets: float = 0.0) -> Rest:
    """Return what was measured of a daemon."""
    return {START: 1.0, CPU: cpu, RESIDENT: 100.0, OF_TARGETS: of_targets, WATCHES: 1.0}


def results(first: Rest, many: Rest) -> Results:
    return {(1, False): [first], (SMALL.clusters, False): [many]}


def missed(found: Results) -> list[str]:
    bounds = clusters.bounds_of(found, SMALL)
    return [bound.what.partition(",")[0] for bound in bounds if bound.is_missed]


def test_one_and_three_clusters_are_measured() -> None:
    required_program("prometheus")
    found = clusters.run(SMALL, print)
    assert list(found) == [(1, False), (3, False), (1, True), (3, True)]
    for (_, elects), (number,) in found.items():
        assert number[OF_TARGETS] == 0
        assert elects or number[LEASES] == 0
        assert min(number[START], number[RESIDENT]) > 0
    threads = [found[count, False][0]["threads"] for count in (1, 3)]
    assert threads[0] < threads[1]
    assert "| 3 clusters, leaderElection |" in clusters.text(found, SMALL)


@pytest.mark.parametrize(
    ("first", "many", "bounds"),
    [
        (rest(), rest(), []),
        (rest(), rest(cpu=0.14), ["CPU"]),
        (rest(), rest(of_targets=0.1), [OF_TARGETS]),
        # Where one cluster took no measurable time, many count as more.
        (rest(cpu=0.0), rest(), ["CPU"]),
    ],
)
def test_a_missed_bound_is_named(first: Rest, many: Rest, bounds: list[str]) -> None:
    assert missed(results(first, many)) == bounds


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ("WATCH deployments", WATCHES),
        ("PUT leases", LEASES),
        ("WATCH leases", LEASES),
        ("GET deployments", OF_TARGETS),
    ],
)
def test_requests_are_counted_by_kind(asked: str, kind: str) -> None:
    assert clusters.kind_of(asked) == kind
