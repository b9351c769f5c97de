"""Writes to a server that misbehaves: nothing is written twice, and nobody is overwritten."""

from urllib.parse import parse_qsl

import pytest

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Scales
from autoscaler.core.observation import Scale
from autoscaler.core.writes import Superseded, WriteFailed, WriteOutcome, Written
from autoscaler.transport import Observer
from tests.worlds.cluster.faults import (
    BROKEN,
    CONFLICT,
    HANG,
    RESET,
    SLOW_DOWN,
    UNAVAILABLE,
    WEB,
    Script,
    at_once,
    within,
)
from tests.worlds.cluster.scripted import Answer, scale
from tests.worlds.waiting import SetByTheFirstWait

DECIDED_ON = Scale(1, 1, "app=web", "7")


def _write(api: Api, seconds: float = 20.0, replicas: int = 4) -> WriteOutcome:
    deadline = clock.monotonic() + seconds
    return Scales(api).write("shop", WEB, DECIDED_ON, replicas, deadline)


def test_a_write_carries_the_version_that_was_read(script: Script) -> None:
    """The PUT holds the count and the guard, under the token of the kubeconfig.

    The server is told our name for managedFields, and to give up when we do.
    """
    server, api = script(scale(4, "8"))
    assert _write(api) == Written(Scale(4, 1, "app=web", "8"))
    [put] = server.asked
    path, _, query = put.path.partition("?")
    assert path == "/apis/apps/v1/namespaces/shop/deployments/web/scale"
    asked_for = dict(parse_qsl(query))
    assert asked_for["fieldManager"] == "autoscaler"
    assert asked_for["timeout"] == "5.000s"
    assert put.authorization == "Bearer scripted-token"
    assert put.body == {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"},
        "spec": {"replicas": 4},
    }


def test_a_conflict_over_something_else_is_written_anew(script: Script) -> None:
    """409, the count as it was: one more PUT, under the new version."""
    server, api = script(CONFLICT, scale(1, "9"), scale(4, "10"))
    assert _write(api) == Written(Scale(4, 1, "app=web", "10"))
    assert server.methods == ["PUT", "GET", "PUT"]
    assert server.asked[-1].body["metadata"]["resourceVersion"] == "9"


@pytest.mark.parametrize("status", [403, 405, 415])
def test_a_zero_that_may_not_be_applied_is_written_all_the_same(
    script: Script, status: int
) -> None:
    """With an older role, or another server: it is told once that nothing says whose zero it is."""
    server, api = script(*[Answer(status, {"message": "no patch"}), scale(0, "8")] * 2)
    notes: list[str] = []
    observer = Observer()

    def note(*, ok: bool, sentence: str) -> None:
        assert not ok
        notes.append(sentence)

    observer.watch_changed = note  # type: ignore[method-assign,assignment]
    scales = Scales(api, observer=observer)
    for _ in range(2):
        outcome = scales.write("shop", WEB, DECIDED_ON, 0, clock.monotonic() + 20.0)
        assert outcome == Written(Scale(0, 1, "app=web", "8"))
    assert server.methods == ["PATCH", "PUT"] * 2
    assert dict(parse_qsl(server.asked[0].path.partition("?")[2]))["force"] == "true"
    assert server.asked[0].body == server.asked[1].body
    (told,) = notes
    assert told.startswith("a scale of deployments that is set to 0 does not name the autoscaler")


@pytest.mark.parametrize("theirs", [6, 4])
def test_a_conflict_over_the_count_leaves_theirs(script: Script, theirs: int) -> None:
    """409, another count: no second PUT, also where theirs is the one that we wanted."""
    server, api = script(CONFLICT, scale(theirs, "9"))
    assert _write(api) == Superseded(Scale(theirs, 1, "app=web", "9"))
    assert server.methods == ["PUT", "GET"]


def test_endless_conflicts_are_told(script: Script) -> None:
    """Five tries; the server's own words say that it was a conflict."""
    answers = [CONFLICT, scale(1, "9")] * 4
    server, api = script(*answers, CONFLICT)
    assert _write(api) == WriteFailed("the object has been modified")
    assert server.methods.count("PUT") == 5


def test_too_many_requests_is_written_again_unread(script: Script) -> None:
    """429 says that nothing was done: the same PUT goes out again."""
    server, api = script(at_once(SLOW_DOWN), scale(4, "8"))
    assert isinstance(_write(api), Written)
    assert server.methods == ["PUT", "PUT"]


UNSURE = [
    pytest.param(at_once(BROKEN), id="500"),
    pytest.param(at_once(UNAVAILABLE), id="503"),
    pytest.param(RESET, id="reset"),
    pytest.param(HANG, id="hang"),
    pytest.param(Answer(body=scale(4, "8").body, fault="cut"), id="cut"),
    pytest.param(Answer(body=b'{"kind": "Sca'), id="truncated JSON"),
]


@pytest.mark.parametrize("fault", UNSURE)
def test_a_write_that_landed_unseen_is_not_repeated(script: Script, fault: Answer) -> None:
    """After a PUT whose end is unknown we look first; the count is ours: written, one PUT."""
    server, api = script(fault, scale(4, "8"), timeout=2.0)
    assert _write(api) == Written(Scale(4, 1, "app=web", "8"))
    assert server.methods == ["PUT", "GET"]


@pytest.mark.parametrize("fault", UNSURE)
def test_a_write_that_did_not_land_is_repeated(script: Script, fault: Answer) -> None:
    """After a PUT whose end is unknown the count is the old one: it is written again."""
    server, api = script(fault, scale(1, "7"), scale(4, "8"), timeout=2.0)
    assert _write(api) == Written(Scale(4, 1, "app=web", "8"))
    assert server.methods == ["PUT", "GET", "PUT"]


@pytest.mark.parametrize("fault", UNSURE)
def test_after_an_unsure_write_another_count_is_theirs(script: Script, fault: Answer) -> None:
    """After a PUT whose end is unknown somebody else's count stands."""
    server, api = script(fault, scale(6, "9"), timeout=2.0)
    assert _write(api) == Superseded(Scale(6, 1, "app=web", "9"), uncertain=True)
    assert server.methods == ["PUT", "GET"]


def test_a_write_that_hangs_until_the_deadline_is_looked_after(script: Script) -> None:
    """Time is kept back to learn whether a write landed; it did."""
    server, api = script(HANG, scale(4, "8"), timeout=60.0)
    with within(20.0):
        assert isinstance(_write(api, seconds=4.0), Written)
    assert server.methods == ["PUT", "GET"]


def test_what_cannot_be_learnt_is_said(script: Script) -> None:
    """Where the look fails too, the sentence says that the outcome is unknown."""
    server, api = script(HANG, timeout=60.0)
    with within(20.0):
        outcome = _write(api, seconds=4.0)
    assert isinstance(outcome, WriteFailed)
    assert outcome.message.endswith("it is not known whether the write landed")
    assert server.methods.count("PUT") == 1


def test_stop_ends_the_waiting_and_begins_no_other_write(script: Script) -> None:
    """Told to stop while it waits for another try, a write looks once and is over."""
    slow = Answer(UNAVAILABLE.status, UNAVAILABLE.body, {"Retry-After": "30"})
    server, api = script(slow, scale(1, "7"), stop=SetByTheFirstWait())
    with within(20.0):
        outcome = _write(api, seconds=60.0)
    assert isinstance(outcome, WriteFailed)
    assert outcome.message.endswith("; the count is still the old one")
    assert server.methods == ["PUT", "GET"]


@pytest.mark.parametrize("decided_on", [DECIDED_ON, Scale(1, 1, "app=web", "")])
def test_a_scale_without_a_version_is_not_written(script: Script, decided_on: Scale) -> None:
    """A PUT without a resourceVersion would be unconditional: there is none."""
    server, api = script(*([CONFLICT] if decided_on.resource_version else []), scale(1, ""))
    outcome = Scales(api).write("shop", WEB, decided_on, 4, clock.monotonic() + 5)
    assert outcome == WriteFailed(
        "the API server sent a scale without a resourceVersion; nothing is written, "
        "since a write without it could undo somebody else's"
    )
    assert [asked.body["metadata"]["resourceVersion"] for asked in server.asked if asked.body] == (
        ["7"] if decided_on.resource_version else []
    )
