"""No target goes down on what a gap in the samples makes of a constant load."""

from collections.abc import Iterator

import pytest

from tests.outages.cases import REPLICAS, Case
from tests.outages.play import (
    AWAY,
    EXPORTERS,
    KILLED,
    RISING_AWAY,
    RISING_EXPORTER,
    STEADY,
    Record,
    played,
)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    """Play all outages once for all tests."""
    with played(tmp_path_factory.mktemp("outages")) as played_once:
        yield played_once


def _named(cases: list[Case]) -> list[object]:
    return [pytest.param(case, id=case.name) for case in cases]


@pytest.mark.parametrize("killed", [STEADY, KILLED], ids=["steady", "killed"])
@pytest.mark.parametrize("case", _named(AWAY))
def test_prometheus_was_stopped(record: Record, case: Case, killed: str) -> None:
    """No count is below the first one before the load is lowered."""
    assert record.least(f"away{killed}", case) == REPLICAS, record.of(f"away{killed}", case)


@pytest.mark.parametrize("killed", [STEADY, KILLED], ids=["steady", "killed"])
@pytest.mark.parametrize("case", _named(EXPORTERS))
def test_exporters_were_away(record: Record, case: Case, killed: str) -> None:
    """No count is below the first one before the load is lowered."""
    seen = record.of(f"exporters{killed}", case)
    assert record.least(f"exporters{killed}", case) == REPLICAS, seen


@pytest.mark.parametrize("killed", [STEADY, KILLED], ids=["steady", "killed"])
@pytest.mark.parametrize(
    ("side", "case"),
    [("away", RISING_AWAY), ("exporters", RISING_EXPORTER)],
    ids=["prometheus", "exporter"],
)
def test_a_load_that_rises_is_followed_at_once(
    record: Record, side: str, case: Case, killed: str
) -> None:
    """A target goes up while its range is still being filled."""
    assert record.most(f"{side}{killed}", case) > REPLICAS, record.of(f"{side}{killed}", case)


@pytest.mark.parametrize("killed", [STEADY, KILLED], ids=["steady", "killed"])
def test_nothing_is_held_for_ever(record: Record, killed: str) -> None:
    """Once the ranges are filled again, a load that sinks takes every target down."""
    left = [
        f"{side}{killed}/{case.name}"
        for side, cases in (("away", AWAY), ("exporters", EXPORTERS))
        for case in cases
        if record.last(f"{side}{killed}", case) >= REPLICAS
    ]
    assert left == []
