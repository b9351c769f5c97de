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
from tests.worlds.prometheus.server import prometheus_binary

SMALL = Options(clusters=3, targets=12, period=1.0, syncs=1)


def rest(cpu: float = 0.1, of_targets: float = 0.0) -> Rest:
    """Return what was measured of a daemon."""
    return {START: 1.0, CPU: cpu, RESIDENT: 100.0, OF_TARGETS: of_targets, WATCHES: 1.0}


def results(one: Rest, many: Rest) -> Results:
    """Return the results of a run without leader election."""
    return {(1, False): [one], (SMALL.clusters, False): [many]}


def missed(found: Results) -> list[str]:
    """Return which bounds were missed."""
    bounds = clusters.bounds_of(found, SMALL)
    return [one.what.partition(",")[0] for one in bounds if one.is_missed]


def test_one_and_many_are_measured() -> None:
    """Each target is decided; at rest only Leases are asked for, and watches that end."""
    prometheus_binary()
    found = clusters.run(SMALL, print)
    assert list(found) == [(1, False), (3, False), (1, True), (3, True)]
    for (_, elects), (one,) in found.items():
        assert one[OF_TARGETS] == 0
        assert elects or one[LEASES] == 0
        assert min(one[START], one[RESIDENT]) > 0
    threads = [found[count, False][0]["threads"] for count in (1, 3)]
    assert threads[0] < threads[1]
    assert "| 3 clusters, leaderElection |" in clusters.text(found, SMALL)


@pytest.mark.parametrize(
    ("many", "bounds"),
    [
        (rest(), []),
        (rest(cpu=0.14), ["CPU"]),
        (rest(of_targets=0.1), ["requests of targets a second"]),
    ],
)
def test_the_bounds(many: Rest, bounds: list[str]) -> None:
    """What costs more beside one cluster is told."""
    assert missed(results(rest(), many)) == bounds


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ("WATCH deployments", WATCHES),
        ("PUT leases", LEASES),
        ("WATCH leases", LEASES),
        ("GET deployments", OF_TARGETS),
    ],
)
def test_kinds_of_requests(asked: str, kind: str) -> None:
    """A watch that ends is begun again, and is no request of a target."""
    assert clusters.kind_of(asked) == kind


def test_the_command_line() -> None:
    """Fewer clusters and targets take less time."""
    assert clusters.parse([]) == Options()
    given = ["--clusters", "3", "--targets", "12", "--period", "1", "--syncs", "1"]
    assert clusters.parse(given) == SMALL


def test_a_run_that_is_too_short_tells_no_ratio() -> None:
    """Where one cluster took no measurable time, many count as more."""
    assert missed(results(rest(cpu=0.0), rest())) == ["CPU"]
