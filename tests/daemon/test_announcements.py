"""What is told of a part of the daemon that fails, and that is well again."""

import json
import sqlite3
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from autoscaler.core.breaker import Trip
from autoscaler.core.spec import Flags
from autoscaler.daemon.events import own_pod
from autoscaler.kubernetes.events import InvolvedObject
from autoscaler.sync.ports import BreakerChange, BreakerNews
from autoscaler.telemetry.health import NOT_ASKED, Component, part_of
from autoscaler.web.site import Site
from tests.adapters.store.opening import DATABASE, running
from tests.worlds.announced import Announced
from tests.worlds.memory import external

Lines = Sequence[MutableMapping[str, Any]]


@pytest.fixture
def told() -> Announced:
    """Give announcements, and where they arrive."""
    return Announced()


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Give the lines of the log."""
    with capture_logs() as found:
        yield found


def test_a_fault_is_a_warning_and_its_end_is_not(told: Announced, lines: Lines) -> None:
    """Whoever is woken by warnings sleeps through good news."""
    of_cluster = told.announcements.of_cluster("eu")
    for tell in (of_cluster.watch_changed, of_cluster.events_changed, told.announcements.state):
        for ok, sentence in ((False, "it fails"), (True, "it is well")):
            tell(ok, sentence)
    fields = ("event", "log_level", "message")
    assert [tuple(line[field] for field in fields) for line in lines] == [
        ("not_watched", "warning", "cluster eu: it fails"),
        ("watched", "info", "cluster eu: it is well"),
        ("events", "warning", "cluster eu: it fails"),
        ("events", "info", "cluster eu: it is well"),
        ("state", "warning", "it fails"),
        ("state", "info", "it is well"),
    ]


def test_a_right_that_is_lacked_is_told_once_until_it_was_given(
    told: Announced, lines: Lines
) -> None:
    """Not again at each reload; others that are lacked later are told too."""
    for lacked in (["no update"], ["no update", "no Events"], [], ["no update"]):
        told.announcements.rights_lacked(lacked)
    assert [line["message"] for line in lines] == ["no update", "no Events", "no update"]
    assert {(line["event"], line["log_level"]) for line in lines} == {("rights", "warning")}


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
        (nothing, ["info"], True, "nothing of an earlier run: every target starts without history"),
        (damaged, ["warning", "info"], True, "is now autoscaler.db.unreadable-"),
        (newer, ["warning"], False, "is of a newer version of autoscaler"),
    ],
)
def test_state_that_is_missed_shows_wherever_somebody_may_look(
    tmp_path: Path,
    told: Announced,
    lines: Lines,
    left: Callable[[Path], None],
    levels: list[str],
    detail: str,
    *,
    ok: bool,
) -> None:
    """The log, `/readyz` and the metrics page tell it; state that can be kept is well."""
    left(tmp_path / DATABASE)
    with running(tmp_path, told.announcements.state):
        pass
    assert [line["log_level"] for line in lines] == levels
    assert all(line["event"] == "state" for line in lines)
    site = Site(told.metrics, told.health)
    components = json.loads(b"".join(site.page("/readyz", "").body))["components"]
    (state,) = [component for component in components if component["name"] == "state"]
    assert state["ok"] is ok
    assert detail in state["message"]
    assert detail in lines[-1]["message"]
    page = b"".join(site.page("/metrics", "").body).decode()
    assert f'\nautoscaler_component_ok{{component="state"}} {float(ok)}\n' in page


TRIP = Trip(1_800_000_000.0, 1_800_000_600.0, 380, 500, "sum by (queue) (ready)")
HELD = (
    "the scale-down breaker has tripped: 380 of the 500 targets that read from Prometheus would "
    "go down at once; no scale-down before 2027-01-15T08:10:00Z, scale-ups continue; the "
    "query that they share most is sum by (queue) (ready);  if they may go down: "
    "autoscaler resume --breaker"
)


def news(change: BreakerChange, server: str = "", down: int = 380) -> BreakerNews:
    """Return what happens to the breaker of a server."""
    return BreakerNews(change, server, TRIP, down, 500)


def test_a_breaker_that_trips_is_one_loud_line_and_a_note_that_leaves_the_daemon_ready(
    told: Announced, lines: Lines
) -> None:
    """Its number, its query and its end are in it; the end is as loud."""
    ready = told.health.ready
    told.announcements.breaker_changed(news(BreakerChange.TRIPPED))
    assert lines == [
        {
            "event": "scale_down_breaker",
            "log_level": "error",
            "message": HELD,
            "change": "tripped",
            "server": "default",
            "targets": 500,
            "would_go_down": 380,
            "query": "sum by (queue) (ready)",
            "until": "2027-01-15T08:10:00Z",
        }
    ]
    assert told.component(Component.BREAKER) == (False, HELD)
    assert told.health.ready is ready
    told.announcements.breaker_changed(news(BreakerChange.ENDED, down=7))
    assert (told.component(Component.BREAKER) or (False,))[0]
    assert [line["log_level"] for line in lines] == ["error", "error"]
    assert lines[1]["message"] == (
        "the scale-down breaker has ended after 10 min 0 s: 7 targets of 500 that read from "
        "Prometheus would go down, which is not too many"
    )
    assert lines[1]["would_go_down"] == 7


@pytest.mark.parametrize("change", [BreakerChange.RELEASED, BreakerChange.REMOVED])
def test_what_an_operator_does_to_a_breaker_is_no_error(
    told: Announced, lines: Lines, change: BreakerChange
) -> None:
    """Nobody is woken by what they have just done."""
    told.announcements.breaker_changed(news(change))
    assert [line["log_level"] for line in lines] == ["info"]


def test_the_note_stays_while_the_breaker_of_another_server_holds(told: Announced) -> None:
    """Each has its own sentence, and the command that releases it."""
    told.announcements.breaker_changed(news(BreakerChange.TRIPPED))
    told.announcements.breaker_changed(news(BreakerChange.TRIPPED_AGAIN, "mimir"))
    told.announcements.breaker_changed(news(BreakerChange.RELEASED))
    ok, message = told.component(Component.BREAKER) or (True, "")
    assert not ok
    assert message.startswith("the scale-down breaker has tripped again: ")
    assert message.endswith("autoscaler resume --breaker --server mimir")


def test_a_request_that_cannot_be_read_is_told_once(told: Announced, lines: Lines) -> None:
    """It is looked for every second."""
    for reason in ("no request", "no request", "it is a pipe"):
        told.announcements.release_refused(reason)
    assert [line["message"] for line in lines] == [
        "a request to release cannot be read: no request",
        "a request to release cannot be read: it is a pipe",
    ]


def test_the_pod_is_that_of_the_downward_api() -> None:
    """Outside of a pod there is none, and so no Event."""
    named = {"POD_NAMESPACE": "autoscaler", "POD_NAME": "autoscaler-7d", "POD_UID": "u-1"}
    assert own_pod(named) == InvolvedObject("v1", "Pod", "autoscaler", "autoscaler-7d", "u-1")
    assert own_pod({"POD_NAME": "autoscaler-7d"}) is None
    assert own_pod({}) is None


def test_a_cluster_without_targets_is_well_and_one_without_a_connection_is_not(
    told: Announced,
) -> None:
    """Nobody asks the first one, so that it could not answer either."""
    told.announcements.serves({"eu", "us", "away"})
    told.announcements.unreached({"away": "it has no context"})
    told.announcements.configure([replace(external("shop", "a"), cluster="eu")], Flags())
    components = {
        name: told.component(part_of(Component.KUBERNETES, name)) for name in ("us", "away")
    }
    assert components == {"us": (True, NOT_ASKED), "away": (False, "it has no context")}
