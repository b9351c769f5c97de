"""A small run of `benchmarks.clusters` with stand-ins.  No time is asserted: machines differ."""

from collections.abc import Mapping

import pytest

from benchmarks import clusters
from benchmarks.clusters import Options, Rest, Results
from tests.worlds.prometheus.server import prometheus_binary

SMALL = Options(clusters=3, targets=12, period=1.0, syncs=1)


def rest(cpu: float = 0.1, asked: Mapping[str, int] | None = None) -> Rest:
    """Return what was measured of a daemon."""
    return Rest(1.0, cpu, 100_000_000, 110_000_000, 20, 60.0, asked or {})


def results(one: Rest, many: Rest) -> Results:
    """Return the results of a run without leader election."""
    return Results("a machine", {(1, False): [one], (SMALL.clusters, False): [many]})


def missed(found: Results) -> list[str]:
    """Return which bounds were missed."""
    bounds = clusters.bounds_of(found, SMALL)
    return [one.what.partition(",")[0] for one in bounds if one.measured > one.most]


def test_one_and_many_are_measured() -> None:
    """Each target is decided; at rest only Leases are asked for, and watches that end."""
    prometheus_binary()
    found = clusters.run(SMALL, print)
    assert list(found.rows) == [(1, False), (3, False), (1, True), (3, True)]
    for (_, elects), (one,) in found.rows.items():
        assert one.a_second(clusters.is_of_target) == 0
        assert elects or one.a_second(clusters.is_of_lease) == 0
        assert min(one.start, one.resident, one.peak) > 0
    threads = [found.median(count, lambda one: one.threads) for count in (1, 3)]
    assert threads[0] < threads[1]
    assert "| 3 clusters, leaderElection |" in clusters.text(found, SMALL)


@pytest.mark.parametrize(
    ("many", "bounds"),
    [
        (rest(), []),
        (rest(cpu=0.14), ["CPU"]),
        (rest(asked={"WATCH deployments": 60, "PUT leases": 30, "GET leases": 1}), []),
        (rest(asked={"GET deployments": 1}), ["requests of targets a second"]),
    ],
)
def test_the_bounds(many: Rest, bounds: list[str]) -> None:
    """What costs more beside one cluster is told; a watch that ends is begun again."""
    assert missed(results(rest(), many)) == bounds


def test_the_command_line() -> None:
    """Fewer clusters and targets take less time."""
    assert clusters.parse([]) == Options()
    given = ["--clusters", "3", "--targets", "12", "--period", "1", "--syncs", "1"]
    assert clusters.parse(given) == SMALL


def test_a_run_that_is_too_short_tells_no_ratio() -> None:
    """Where one cluster took no measurable time, many count as more."""
    assert missed(results(rest(cpu=0.0), rest())) == ["CPU"]
