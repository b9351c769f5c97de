"""`/changes` and `/decisions`: pages that stay right while changes come, and that are bounded."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.classification import Mark
from autoscaler.persistence.record.rows import Change
from autoscaler.web.api import endpoints
from autoscaler.web.site import Views
from tests.telemetry.results import metrics_of, result_of, target_of
from tests.web.api.serving import Client, asking, views_of
from tests.worlds.record import MemoryRecord

WEB, QUEUE = "shop/Deployment/web", "shop/Deployment/queue"


def change(number: int, target: str = WEB, **more: Any) -> Change:
    """Return a change without an entry, this number of seconds after the begin of 2027."""
    usual = Change(number, target, 1_798_761_600.0 + number, "ok", 3, 3, 1, 9, Mark(0), "stays")
    return replace(usual, **more)


def record_of(*changes: Change) -> MemoryRecord:
    record = MemoryRecord()
    for item in changes:
        record.keep_change(item)
    return record


def daemon(record: MemoryRecord) -> Views:
    """Return the views of a daemon with two targets."""
    metrics = metrics_of(*(result_of(target_of(name)) for name in ("web", "queue")))
    return views_of(metrics, record=record)


def ids(client: Client, path: str) -> tuple[list[int], str | None]:
    page = client.json(path)
    entries = page.get("changes") or page.get("decisions") or []
    return [entry["id"] for entry in entries], page["continue"]


END = "to=2028-01-01T00:00:00Z"


@pytest.mark.parametrize("path", ["/changes", "/decisions"])
def test_pages_stay_right_while_changes_come(path: str) -> None:
    """The last first; what comes meanwhile moves nothing."""
    record = record_of(*map(change, range(1, 6)))
    with asking(daemon(record)) as client:
        first, token = ids(client, f"{path}?{END}&limit=2")
        assert first == [5, 4]
        record.keep_change(change(6))
        second, token = ids(client, f"{path}?{END}&limit=2&continue={token}")
        assert second == [3, 2]
        assert ids(client, f"{path}?{END}&limit=2&continue={token}") == ([1], None)
        assert ids(client, f"{path}?{END}&limit=6") == ([6, 5, 4, 3, 2, 1], None)


def test_a_lapse_between_two_pages_is_on_one_of_them() -> None:
    record = record_of(change(1), change(9))
    record.keep_lapse(WEB, change(3).time, change(7).time)
    with asking(daemon(record)) as client:
        (lapse,) = client.json(f"/changes?{END}&limit=2")["lapses"]
        first = client.json(f"/changes?{END}&limit=1")
        second = client.json(f"/changes?{END}&limit=1&continue={first['continue']}")
    assert first["lapses"] + second["lapses"] == [lapse]


def test_changes_are_filtered_by_targets_and_time() -> None:
    targets = [WEB, QUEUE, "shop/Deployment/removed"]
    record = record_of(*(change(number, targets[number % 3]) for number in range(1, 10)))
    with asking(daemon(record)) as client:
        assert ids(client, f"/changes?{END}&target={QUEUE}")[0] == [7, 4, 1]
        page, _ = ids(client, f"/changes?{END}&target={QUEUE}&target={targets[2]}&limit=3")
        assert page == [8, 7, 5]
        time = "from=2027-01-01T00:00:03Z&to=2027-01-01T01:00:05%2B01:00"
        assert ids(client, f"/changes?{time}")[0] == [4, 3]


def test_a_change_has_all_its_facts() -> None:
    marks = Mark.FOREIGN | Mark.AT_MAXIMUM
    item = change(7, marks=marks, by="kubectl-scale", time=1_798_761_600.0001)
    with asking(daemon(record_of(item))) as client:
        (shown,) = client.json(f"/changes?{END}")["changes"]
    assert shown == {
        "id": 7,
        "target": WEB,
        "time": "2027-01-01T00:00:00.001Z",
        "state": "ok",
        "message": "stays",
        "currentReplicas": 3,
        "desiredReplicas": 3,
        "minReplicas": 1,
        "maxReplicas": 9,
        "marks": ["foreign", "atMaximum"],
        "by": "kubectl-scale",
    }


def test_a_lost_decision_is_named_in_its_place() -> None:
    removed = change(2, marks=Mark.REMOVED, message="no longer configured")
    with asking(daemon(record_of(change(1), removed))) as client:
        last, first = client.json(f"/decisions?{END}")["decisions"]
    assert first["decision"] is last["decision"] is None
    assert WEB in first["missing"]
    assert last["missing"] == removed.message


@pytest.mark.parametrize("bound", ["MOST_BYTES", "MOST_SECONDS"])
def test_a_page_of_decisions_ends_before_it_is_large(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(endpoints, bound, 0)
    with asking(daemon(record_of(change(1), change(2)))) as client:
        first, token = ids(client, f"/decisions?{END}")
        assert first == [2]
        assert ids(client, f"/decisions?{END}&continue={token}") == ([1], None)
