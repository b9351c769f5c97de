"""No target goes down on what a gap in the samples makes of a constant load."""

from collections.abc import Iterator, Sequence

import pytest

from tests.outages.cases import REPLICAS, Case
from tests.outages.play import (
    AWAY,
    EXPORTERS,
    KILLED_EXPORTERS,
    RISING_AWAY,
    RISING_EXPORTER,
    SHORT_WINDOWS,
    Record,
    played,
)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    """Play all outages once for all tests."""
    with played(tmp_path_factory.mktemp("outages")) as played_once:
        yield played_once


def _named(cases: Sequence[Case]) -> list[object]:
    return [pytest.param(case, id=case.name) for case in cases]


def _check(record: Record, namespace: str, case: Case) -> None:
    """Check that no count is below the first one before the load is lowered."""
    assert record.least(namespace, case) == REPLICAS, record.of(namespace, case)


@pytest.mark.parametrize("case", _named(AWAY))
def test_prometheus_was_stopped(record: Record, case: Case) -> None:
    """A range that is filled again after an outage of Prometheus takes nothing down."""
    _check(record, "away", case)


@pytest.mark.parametrize("case", _named(AWAY))
def test_prometheus_was_stopped_and_the_daemon_killed(record: Record, case: Case) -> None:
    """So it is where the daemon is killed within the outage, and again within the refill."""
    _check(record, "away-killed", case)


@pytest.mark.parametrize("case", _named(EXPORTERS))
def test_exporters_were_away(record: Record, case: Case) -> None:
    """A range that is filled again after outages of exporters takes nothing down."""
    _check(record, "exporters", case)


@pytest.mark.parametrize("case", _named(KILLED_EXPORTERS))
def test_exporters_were_away_and_the_daemon_killed(record: Record, case: Case) -> None:
    """So it is where the daemon is killed within the outage, and again within the refill."""
    _check(record, "exporters-killed", case)


@pytest.mark.parametrize("case", _named(SHORT_WINDOWS))
def test_windows_shorter_than_the_range(record: Record, case: Case) -> None:
    """Queries that leave out what was not scraped over their whole range never read low."""
    _check(record, "exporters", case)


@pytest.mark.parametrize(
    ("namespace", "case"),
    [
        ("away", RISING_AWAY),
        ("away-killed", RISING_AWAY),
        ("exporters", RISING_EXPORTER),
    ],
)
def test_a_load_that_rises_is_followed_at_once(record: Record, namespace: str, case: Case) -> None:
    """A target goes up while its range is still being filled."""
    assert record.most(namespace, case) > REPLICAS, record.of(namespace, case)


def test_nothing_is_held_for_ever(record: Record) -> None:
    """Once the ranges are filled again, a load that sinks takes every target down."""
    assert list(record.stuck) == []
