"""The benchmark of CPU queries, small, and what its model stands on."""

import random

import pytest

from autoscaler.config.queries import DEFAULTS
from benchmarks.cadvisor import CAdvisor, Counter, MetricsServer, Sample, bursts
from benchmarks.cpu_range import BASELINE, Way, measure, table
from tests.worlds.prometheus.server import required_program


def test_a_counter_adds_up() -> None:
    """Usage is the area under the cores in use."""
    counter = Counter(((0.0, 0.2), (10.0, 1.0)))
    assert [counter.at(instant) for instant in (0, 5, 10, 12)] == pytest.approx([0, 1, 2, 4])


def test_bursts_have_their_mean() -> None:
    """Whoever works half of the time at twice the mean uses the mean."""
    counter = bursts(100_000, 0.6, 5.0, random.Random(1))  # noqa: S311 - no secret
    assert counter.at(100_000) / 100_000 == pytest.approx(0.6, rel=0.05)


def test_cadvisor_looks_every_10_to_20_seconds() -> None:
    """A scrape finds the last look, with its own instant."""
    container = CAdvisor.of(Counter(((0.0, 1.0),)), 1000, random.Random(1))  # noqa: S311
    pauses = {b - a for a, b in zip(container.looks, container.looks[1:], strict=False)}
    assert 10 <= min(pauses) < 11
    assert 19 < max(pauses) <= 20
    assert all(
        one.value == one.looked and 0 <= one.scraped - one.looked <= 20
        for one in container.scraped(range(20, 1000, 15))
    )


def test_metrics_server_takes_the_last_two_looks() -> None:
    """One that is told twice counts once; after a lost scrape two new ones are needed."""
    server = MetricsServer(
        [
            Sample(0.0, 0.0, 0.0),
            Sample(15.0, 12.0, 12.0),
            Sample(30.0, 12.0, 12.0),
            Sample(60.0, 50.0, 126.0),
            Sample(75.0, 62.0, 138.0),
        ]
    )
    read = [server.at(instant) for instant in (14.9, 15, 44, 45.1, 74, 75)]
    assert read == [None, 1.0, 1.0, None, None, 1.0]


def test_the_figures_behind_the_range_of_the_built_in_query() -> None:
    """A few pods, scraped every 30 s: two minutes outlast a lost scrape, and one minute does not.

    `irate()` is exact where cAdvisor's timestamps are kept, and only there.
    """
    required_program("promtool", "prometheus")
    found = measure(4, [30], 1, lambda _: None)
    kept, replaced = (
        {way.query: one for way, one in found.items() if way.honored is honored}
        for honored in (True, False)
    )
    assert "[2m]" in DEFAULTS["cpu"].promql
    for read in (kept, replaced):
        assert read["rate[2m]"].empty_lost == 0 < read["rate[1m]"].empty_lost
        assert kept[BASELINE].up < read["rate[2m]"].up < read["rate[5m]"].up
    assert kept["irate[2m]"].off == 0 < replaced["irate[2m]"].off
    assert table(found, honored=True).count("\n") == 1 + len(kept)
    assert found[Way("rate[2m]", 30, honored=False)] is replaced["rate[2m]"]
