"""Log lines, health and metrics of a part of the daemon that fails, and that works again."""

import json
import sqlite3
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
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
from tests.narrowing import assert_parts, known
from tests.worlds.announced import Announced
from tests.worlds.memory import external

Lines = Sequence[MutableMapping[str, Any]]


@pytest.fixture
def announced() -> Announced:
    """Give announcements, and where they arrive."""
    return Announced()


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Give the lines of the log."""
    with capture_logs() as found:
        yield found


def test_a_fault_is_a_warning_and_its_end_is_not(announced: Announced, lines: Lines) -> None:
    of_cluster = announced.announcements.of_cluster("eu")
    for report in (of_cluster.watch_changed, partial(of_cluster.writes_changed, "statuses")):
        for ok in (False, True):
            report(ok, "why")
    for ok in (False, True):
        announced.announcements.state(ok, "why")
    assert [(line["event"], line["log_level"], "eu" in line["message"]) for line in lines] == [
        ("not_watched", "warning", True),
        ("watched", "info", True),
        ("statuses", "warning", True),
        ("statuses", "info", True),
        ("state", "warning", False),
        ("state", "info", False),
    ]


def test_a_missing_right_is_a_warning_once_until_it_is_given(
    announced: Announced, lines: Lines
) -> None:
    for missing in (["no update"], ["no update", "no Events"], [], ["no update"]):
        announced.announcements.rights_lacked(missing)
    assert [line["message"] for line in lines] == ["no update", "no Events", "no update"]
    assert {(line["event"], line["log_level"]) for line in lines} == {("rights", "warning")}


@pytest.mark.parametrize("ok", [True, False], ids=["no-state", "state-of-a-newer-version"])
def test_missing_state_is_in_the_log_the_health_and_the_metrics(
    tmp_path: Path, announced: Announced, lines: Lines, *, ok: bool
) -> None:
    if not ok:
        with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
            connection.execute("PRAGMA user_version = 99")
    with running(tmp_path, announced.announcements.state):
        pass
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("state", "info" if ok else "warning")
    assert_parts(line["message"], "without history" if ok else "newer version")
    site = Site(announced.metrics, announced.health)
    components = json.loads(b"".join(site.page("/readyz", "").body))["components"]
    (state,) = [component for component in components if component["name"] == "state"]
    assert (state["ok"], state["message"]) == (ok, line["message"])
    page = b"".join(site.page("/metrics", "").body).decode()
    assert f'\nautoscaler_component_ok{{component="state"}} {float(ok)}\n' in page


TRIP = Trip(1_800_000_000.0, 1_800_000_600.0, 380, 500, "sum by (queue) (ready)")


def news(change: BreakerChange, server: str = "", down: int = 380) -> BreakerNews:
    """Return what happens to the breaker of a server."""
    return BreakerNews(change, server, TRIP, down, 500)


def test_a_breaker_that_trips_is_an_error_and_leaves_the_daemon_ready(
    announced: Announced, lines: Lines
) -> None:
    ready = announced.health.ready
    announced.announcements.breaker_changed(news(BreakerChange.TRIPPED))
    message = lines[0].pop("message")
    assert lines == [
        {
            "event": "scale_down_breaker",
            "log_level": "error",
            "change": "tripped",
            "server": "default",
            "targets": 500,
            "would_go_down": 380,
            "query": "sum by (queue) (ready)",
            "until": "2027-01-15T08:10:00Z",
        }
    ]
    assert_parts(message, "380", "500", TRIP.query, "08:10:00Z", "autoscaler resume --breaker")
    assert announced.component(Component.BREAKER) == (False, message)
    assert announced.health.ready is ready
    announced.announcements.breaker_changed(news(BreakerChange.ENDED, down=7))
    assert known(announced.component(Component.BREAKER))[0]
    assert lines[1]["log_level"] == "error"
    assert lines[1]["would_go_down"] == 7
    assert_parts(lines[1]["message"], "10 min", "7", "500")


@pytest.mark.parametrize("change", [BreakerChange.RELEASED, BreakerChange.REMOVED])
def test_a_breaker_released_by_an_operator_is_no_error(
    announced: Announced, lines: Lines, change: BreakerChange
) -> None:
    """Nobody is woken by what they have just done."""
    announced.announcements.breaker_changed(news(change))
    assert [line["log_level"] for line in lines] == ["info"]


def test_the_health_shows_the_breaker_of_each_server_that_holds(announced: Announced) -> None:
    announced.announcements.breaker_changed(news(BreakerChange.TRIPPED))
    announced.announcements.breaker_changed(news(BreakerChange.TRIPPED_AGAIN, "mimir"))
    announced.announcements.breaker_changed(news(BreakerChange.RELEASED))
    ok, message = known(announced.component(Component.BREAKER))
    assert not ok
    assert message.endswith("autoscaler resume --breaker --server mimir")
    assert message.count("resume") == 1


def test_an_invalid_release_request_is_a_warning_once(announced: Announced, lines: Lines) -> None:
    reasons = ("no request", "pipe")
    for reason in (reasons[0], *reasons):
        announced.announcements.release_refused(reason)
    for line, reason in zip(lines, reasons, strict=True):
        assert (line["event"], line["log_level"]) == ("release_refused", "warning")
        assert_parts(line["message"], reason)


def test_the_pod_is_that_of_the_downward_api() -> None:
    named = {"POD_NAMESPACE": "autoscaler", "POD_NAME": "autoscaler-7d", "POD_UID": "u-1"}
    assert own_pod(named) == InvolvedObject("v1", "Pod", "autoscaler", "autoscaler-7d", "u-1")
    assert own_pod({"POD_NAME": "autoscaler-7d"}) is None
    assert own_pod({}) is None


def test_only_a_cluster_without_a_connection_is_unwell_if_no_target_asks_it(
    announced: Announced,
) -> None:
    announced.announcements.serves({"eu", "us", "away"})
    announced.announcements.unreached({"away": "no context"})
    announced.announcements.configure([replace(external("shop", "a"), cluster="eu")], Flags())
    components = {
        name: announced.component(part_of(Component.KUBERNETES, name)) for name in ("us", "away")
    }
    assert components == {"us": (True, NOT_ASKED), "away": (False, "no context")}


def test_a_standby_is_ready_until_it_takes_over(announced: Announced) -> None:
    announced.announcements.stands_by(Path("/state"), "a daemon")
    assert announced.health.ready
    announced.announcements.takes_turn()
    assert not announced.health.ready
