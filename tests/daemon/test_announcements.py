"""What is told of a part of the daemon that fails, and that is well again."""

import json
import sqlite3
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.exposition import Metrics, Site
from autoscaler.daemon.health import Health
from autoscaler.daemon.service_manager import Notifier
from tests.adapters.store.opening import DATABASE, running

Lines = Sequence[MutableMapping[str, Any]]


@contextmanager
def announcing(health: Health) -> Iterator[tuple[Announcements, Lines]]:
    """Give announcements, and the lines of the log that come of them."""
    with Notifier() as notifier, capture_logs() as lines:
        instruments = Metrics(health, per_target=False).instruments
        yield Announcements(structlog.get_logger(), health, instruments, notifier), lines


@pytest.mark.parametrize(
    ("part", "failed", "well"),
    [
        ("watch_changed", "not_watched", "watched"),
        ("events_changed", "events", "events"),
        ("state", "state", "state"),
    ],
)
def test_a_fault_is_a_warning_and_its_end_is_not(part: str, failed: str, well: str) -> None:
    """Whoever is woken by warnings sleeps through good news."""
    with announcing(Health()) as (announcements, lines):
        tell = getattr(announcements, part)
        for ok, sentence in ((False, "it fails"), (True, "it is well")):
            tell(ok, sentence)
    assert lines == [
        {"event": failed, "log_level": "warning", "message": "it fails"},
        {"event": well, "log_level": "info", "message": "it is well"},
    ]


def nothing(_: Path) -> None:
    """Leave the directory empty."""


def damaged(database: Path) -> None:
    """Leave what is no database."""
    database.write_text("targets:\n" * 1000)


def newer(database: Path) -> None:
    """Leave a database of a version that is not known."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("left", "levels", "ok", "detail"),
    [
        (nothing, ["info"], True, "nothing of an earlier run: every target begins anew"),
        (damaged, ["warning", "info"], True, "is now autoscaler.db.unreadable-"),
        (newer, ["warning"], False, "is of a newer version of autoscaler"),
    ],
)
def test_state_that_is_missed_shows_wherever_somebody_may_look(
    tmp_path: Path, left: Callable[[Path], None], levels: list[str], detail: str, *, ok: bool
) -> None:
    """The log, `/readyz` and the metrics page tell it; state that can be kept is well."""
    left(tmp_path / DATABASE)
    health = Health()
    with announcing(health) as (announcements, lines):
        with running(tmp_path, announcements.state):
            pass
        assert [line["log_level"] for line in lines] == levels
        assert all(line["event"] == "state" for line in lines)
        site = Site(Metrics(health, per_target=False), health)
        (state,) = [
            one
            for one in json.loads(b"".join(site.page("/readyz", "").body))["components"]
            if one["name"] == "state"
        ]
        assert state["ok"] is ok
        assert detail in state["message"]
        assert detail in lines[-1]["message"]
        page = b"".join(site.page("/metrics", "").body).decode()
        assert f'\nautoscaler_component_ok{{component="state"}} {float(ok)}\n' in page
