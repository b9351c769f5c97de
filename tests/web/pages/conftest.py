"""A daemon with live targets, and with targets in shadow that are compared with HPAs."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.sync_result import SyncResult
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.agreement import Agreement
from autoscaler.web.site import Views
from tests.adapters.record.agreed import DIFFERENT, EQUAL, record_with, stretch
from tests.core.builders import BASE, values
from tests.telemetry.results import result_of, target_of
from tests.web.pages.reading import views_of
from tests.web.pages.test_fleet import some

HOUR = 3600.0
TIMES: Mapping[str, Mapping[Agreement, float]] = {
    "good": {EQUAL: 5000.0},
    "late": {EQUAL: 600.0},
    "bad": {EQUAL: 500.0, DIFFERENT: 500.0},
    "worse": {EQUAL: 100.0, DIFFERENT: 900.0},
    "rare": {EQUAL: 6300.0, DIFFERENT: 700.0},
}
"""The seconds of each kind of agreement of targets in shadow."""


def in_shadow(name: str) -> SyncResult:
    return result_of(target_of(name, extensions=Extensions(mode=Mode.SHADOW)), values(90))


def agreements(folder: Path, seconds: Mapping[str, Mapping[Agreement, float]]) -> DirectoryRecord:
    """Return a record of these targets, with these seconds of each kind."""
    rows = []
    for name, times in seconds.items():
        begin = 0.0
        for kind, lasted in times.items():
            rows.append((f"shop/Deployment/{name}", stretch(begin, lasted, kind)))
            begin += lasted
    return record_with(folder, *rows)


@pytest.fixture
def after_two_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "wall", lambda: BASE + 2 * HOUR)


@pytest.fixture
def lists(after_two_hours: None, tmp_path: Path) -> Views:  # noqa: ARG001 - sets the clock
    """Return nine live targets, and seven in shadow, two of them not compared."""
    shadows = [in_shadow(name) for name in (*TIMES, "alone")]
    return views_of(tmp_path, [*some(), *shadows], record=agreements(tmp_path, TIMES))
