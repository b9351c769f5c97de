"""No target goes down on what a gap in the samples makes of a constant load."""

from collections.abc import Iterator

import pytest

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
from tests.worlds.outages.cases import REPLICAS, Case


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    """Play all outages once for all tests."""
    with played(tmp_path_factory.mktemp("outages")) as played_once:
        yield played_once


CASES = {
    "Prometheus was stopped": ("away", AWAY),
    "Prometheus was stopped, the daemon killed within and within the refill": ("away-killed", AWAY),
    "exporters were away": ("exporters", EXPORTERS),
    "exporters were away, the daemon killed so too": ("exporters-killed", KILLED_EXPORTERS),
    "windows shorter than the range, and queries that leave out what was not scraped": (
        "exporters",
        SHORT_WINDOWS,
    ),
}


@pytest.mark.parametrize(
    ("namespace", "case"),
    [
        pytest.param(namespace, case, id=f"{what}: {case.name}")
        for what, (namespace, cases) in CASES.items()
        for case in cases
    ],
)
def test_a_range_that_is_filled_again_takes_nothing_down(
    record: Record, namespace: str, case: Case
) -> None:
    """No count is below the first one before the load is lowered."""
    assert min(record.before(namespace, case)) == REPLICAS, record.of(namespace, case)


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
    assert max(record.before(namespace, case)) > REPLICAS, record.of(namespace, case)


def test_nothing_is_held_for_ever(record: Record) -> None:
    """Once the ranges are filled again, a load that sinks takes every target down."""
    assert list(record.stuck) == []
