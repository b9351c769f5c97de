"""One Event, one request: what is sent, and what becomes of each answer."""

import math
from dataclasses import replace

import pytest

from autoscaler import clock
from autoscaler.kubernetes.events import EventOutcome, Events, InvolvedObject, Occurrences
from tests.core.builders import BASE
from tests.daemon.events.happenings import UID
from tests.worlds.cluster.faults import CONFLICT, HTML, RESET, UNAVAILABLE, Script
from tests.worlds.cluster.localserver import GREETING
from tests.worlds.cluster.scripted import Answer, failure

CREATED = Answer(201, {"kind": "Event"})
FORBIDDEN = failure(403, "Forbidden", "events is forbidden")

GONE = failure(404, "NotFound", 'events "web.1" not found', name="web.1")
INVALID = failure(422, "Invalid", "Event is invalid")
SHORT_OF_ROOM = failure(429, "TooManyRequests", "slow down")
EVENTS = "/api/v1/namespaces/shop/events"


def happened(name: str = "web", count: int = 1) -> Occurrences:
    """Return something that happened to a Deployment."""
    involved = InvolvedObject("apps/v1", "Deployment", "shop", name, UID)
    return Occurrences(involved, "Normal", "Told", "a text", BASE, BASE + 15, count)


def test_a_new_event_has_the_fields_that_kubectl_shows(script: Script) -> None:
    server, api = script(CREATED)
    event = happened()
    before = int(clock.wall() * 1e9)
    assert Events(api).write(event, math.inf).fate is EventOutcome.WRITTEN
    request = server.asked[0]
    assert (request.method, request.path) == ("POST", EVENTS)
    name, _, number = event.name.rpartition(".")
    assert name == "web"
    assert before <= int(number, 16) <= clock.wall() * 1e9
    assert request.body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event.name, "namespace": "shop"},
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": "shop",
            "name": "web",
            "uid": UID,
        },
        "type": "Normal",
        "reason": "Told",
        "message": "a text",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:15Z",
        "count": 1,
        "source": {"component": "autoscaler"},
        "reportingComponent": "autoscaler",
        "reportingInstance": "",
    }


def test_a_repetition_is_a_patch_and_a_deleted_event_is_created_again(script: Script) -> None:
    server, api = script(CREATED, CREATED, GONE, CREATED)
    events, event = Events(api), happened()
    events.write(event, math.inf)
    event.count, event.last = 7, BASE + 60
    assert events.write(event, math.inf).fate is EventOutcome.WRITTEN
    old, patch = event.name, server.asked[1]
    assert (patch.method, patch.path) == ("PATCH", f"{EVENTS}/{old}")
    assert patch.body == {
        "count": 7,
        "lastTimestamp": "2026-01-01T00:01:00Z",
        "message": "a text",
    }
    event.count = 9
    assert events.write(event, math.inf).fate is EventOutcome.WRITTEN
    assert server.methods == ["POST", "PATCH", "PATCH", "POST"]
    assert event.name != old
    assert server.asked[3].body["count"] == 9


@pytest.mark.parametrize(
    ("answer", "fate"),
    [
        (FORBIDDEN, EventOutcome.FORBIDDEN),
        (GONE, EventOutcome.DROPPED),
        (INVALID, EventOutcome.DROPPED),
        (CONFLICT, EventOutcome.DROPPED),
        (SHORT_OF_ROOM, EventOutcome.LATER),
        (failure(401, "Unauthorized", "Unauthorized"), EventOutcome.LATER),
        (UNAVAILABLE, EventOutcome.LATER),
        (HTML, EventOutcome.LATER),
        (RESET, EventOutcome.LATER),
        (Answer(fault="hang"), EventOutcome.LATER),
    ],
    ids=lambda value: getattr(value, "name", None) or f"{value.status}{value.fault}",
)
def test_each_answer_has_its_outcome(script: Script, answer: Answer, fate: EventOutcome) -> None:
    """What may pass is tried later, what will not is given up; nothing is tried twice at once."""
    server, api = script(answer, timeout=0.3 if answer.fault == "hang" else 10.0)
    sent = Events(api).write(happened(), math.inf)
    assert sent.fate is fate
    assert sent.message
    assert GREETING not in sent.message
    assert len(server.asked) == 1


def test_an_event_that_may_have_been_created_is_patched(script: Script) -> None:
    server, api = script(UNAVAILABLE, CREATED)
    events, event = Events(api), happened()
    assert events.write(event, math.inf).fate is EventOutcome.LATER
    assert events.write(event, math.inf).fate is EventOutcome.WRITTEN
    assert server.methods == ["POST", "PATCH"]
    assert server.asked[1].path == f"{EVENTS}/{server.asked[0].body['metadata']['name']}"


def test_a_429_to_any_request_holds_events_back(script: Script) -> None:
    wait = Answer(SHORT_OF_ROOM.status, SHORT_OF_ROOM.body, {"Retry-After": "30"})
    server, api = script(wait, CREATED)
    api.get("/busy", clock.monotonic() + 10)
    assert Events(api).write(happened(), math.inf).fate is EventOutcome.LATER
    assert server.methods == ["GET"]


def test_names_of_events_are_valid_and_unique(script: Script) -> None:
    _, api = script(CREATED)
    events = [happened(name) for name in ("web", "web", "a" * 236 + "." + "b" * 16)]
    for event in events:
        Events(api).write(event, math.inf)
    names = [event.name for event in events]
    assert len(set(names)) == 3
    assert len(names[2]) <= 253
    assert names[2].startswith("a" * 236 + ".")
    assert ".." not in names[2]


def test_a_message_is_one_short_printable_line(script: Script) -> None:
    """`kubectl describe` shows what others made of it as it is, in a terminal."""
    server, api = script(CREATED, CREATED)
    events, event = Events(api), replace(happened(), message="a\n\x1b[31mred\u202e" + "x" * 5000)
    for _ in range(2):
        events.write(event, math.inf)
    (message,) = {asked.body["message"] for asked in server.asked}
    assert message.startswith(r"a \x1b[31mred\u202ex")
    assert (len(message), message[-2:]) == (1024, "x…")
