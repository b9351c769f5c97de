"""`/changes` and `/decisions`: pages that stay right while changes come, and that are bounded."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.classification import Mark
from autoscaler.persistence.record.rows import Change, RecordError
from autoscaler.web.api import endpoints
from autoscaler.web.site import Views
from tests.telemetry.results import metrics_of, result_of, target_of
from tests.web.api.serving import Client, asking, views_of
from tests.worlds.record import MemoryRecord

WEB, QUEUE = "shop/Deployment/web", "shop/Deployment/queue"


def change(number: int, target: str = WEB, **more: Any) -> Change:
    """Return a change so many seconds after the year 2027 began, whose entry is lost."""
    usual = Change(number, target, 1_798_761_600.0 + number, "ok", 3, 3, 1, 9, Mark(0), "stays")
    return replace(usual, **more)


def kept(*changes: Change) -> MemoryRecord:
    record = MemoryRecord()
    for content in changes:
        record.keep_change(content)
    return record


def of(record: MemoryRecord) -> Views:
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
    record = kept(*map(change, range(1, 6)))
    with asking(of(record)) as client:
        first, token = ids(client, f"{path}?{END}&limit=2")
        assert first == [5, 4]
        record.keep_change(change(6))
        second, token = ids(client, f"{path}?{END}&limit=2&continue={token}")
        assert second == [3, 2]
        assert ids(client, f"{path}?{END}&limit=2&continue={token}") == ([1], None)
        assert ids(client, f"{path}?{END}&limit=6") == ([6, 5, 4, 3, 2, 1], None)


def test_a_time_without_a_record_between_two_pages_is_told_on_one_of_them() -> None:
    """As on a page that has both of its sides."""
    record = kept(change(1), change(9))
    record.keep_lapse(WEB, change(3).time, change(7).time)
    with asking(of(record)) as client:
        (lapse,) = client.json(f"/changes?{END}&limit=2")["lapses"]
        first = client.json(f"/changes?{END}&limit=1")
        second = client.json(f"/changes?{END}&limit=1&continue={first['continue']}")
    assert first["lapses"] + second["lapses"] == [lapse]


def test_changes_are_of_some_targets_and_of_a_time() -> None:
    """From the first instant on, up to the last one."""
    targets = [WEB, QUEUE, "shop/Deployment/removed"]
    record = kept(*(change(number, targets[number % 3]) for number in range(1, 10)))
    with asking(of(record)) as client:
        assert ids(client, f"/changes?{END}&target={QUEUE}")[0] == [7, 4, 1]
        page, _ = ids(client, f"/changes?{END}&target={QUEUE}&target={targets[2]}&limit=3")
        assert page == [8, 7, 5]
        time = "from=2027-01-01T00:00:03Z&to=2027-01-01T01:00:05%2B01:00"
        assert ids(client, f"/changes?{time}")[0] == [4, 3]
        problem = client.problem(f"/changes?target=shop/Deployment/wev&{END}", 404)
        assert problem["suggestions"][0] == WEB
        assert problem["detail"].startswith("no target shop/Deployment/wev is configured, and none")


def test_the_past_is_not_sent_again_while_nothing_has_changed() -> None:
    """Its ETag is of what is in it, whenever it is asked for."""
    record = kept(change(1), change(2))
    with asking(of(record)) as client:
        client.json("/changes")
        tag = client.response.headers["ETag"]
        assert client.get("/changes", 304, If_None_Match=tag) == b""
        record.keep_change(change(3, time=1_700_000_000.0))
        assert client.json("/changes", If_None_Match=tag)["changes"][0]["id"] == 3


def test_a_change_is_told_in_full() -> None:
    """An instant within a second is told so that the change holds at it."""
    marks = Mark.FOREIGN | Mark.AT_MAXIMUM
    item = change(7, marks=marks, by="kubectl-scale", time=1_798_761_600.0001)
    with asking(of(kept(item))) as client:
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


def test_a_decision_that_is_lost_says_so_in_its_place() -> None:
    """The others of the page are there."""
    removed = change(2, marks=Mark.REMOVED, message="no longer configured")
    with asking(of(kept(change(1), removed))) as client:
        last, first = client.json(f"/decisions?{END}")["decisions"]
    assert (first["decision"], first["missing"]) == (None, f"the change of {WEB} is lost")
    assert (last["decision"], last["missing"]) == (None, "no longer configured")


@pytest.mark.parametrize("bound", ["MOST_BYTES", "MOST_SECONDS"])
def test_a_page_of_decisions_ends_before_it_is_large(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """Or takes long; its token asks for the rest, so that nothing is left out."""
    monkeypatch.setattr(endpoints, bound, 0)
    with asking(of(kept(change(1), change(2)))) as client:
        first, token = ids(client, f"/decisions?{END}")
        assert first == [2]
        assert ids(client, f"/decisions?{END}&continue={token}") == ([1], None)


def test_a_record_that_cannot_be_read_is_a_problem() -> None:
    """With the sentence; the states are still there."""

    class Broken(MemoryRecord):
        def changes(self, *_: Any, **__: Any) -> Sequence[Change]:
            raise RecordError("the disk is gone")

    with asking(of(Broken())) as client:
        problem = client.problem("/changes", 503)
        assert problem["detail"] == "the record cannot be read: the disk is gone"
        assert client.json("/fleet")["targets"] == 2
