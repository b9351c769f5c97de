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
from tests.worlds.cluster.scripted import Answer, ScriptedServer, scale
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


def _counted(replicas: int, version: str) -> Scale:
    return Scale(replicas, 1, "app=web", version)


def _sent(server: ScriptedServer) -> list[str]:
    """Return the version under which each PUT was sent, and GET for each look."""
    bodies = [asked.body for asked in server.asked]
    return [body["metadata"]["resourceVersion"] if body else "GET" for body in bodies]


@pytest.mark.parametrize(
    ("answers", "outcome", "sent"),
    [
        pytest.param(
            [CONFLICT, scale(1, "9"), scale(4, "10")],
            Written(_counted(4, "10")),
            ["7", "GET", "9"],
            id="another field",
        ),
        *(
            pytest.param(
                [CONFLICT, scale(theirs, "9")],
                Superseded(_counted(theirs, "9")),
                ["7", "GET"],
                id=f"a count of {theirs}, of 4 that we wanted",
            )
            for theirs in (6, 4)
        ),
        pytest.param(
            [*[CONFLICT, scale(1, "9")] * 4, CONFLICT],
            WriteFailed("the object has been modified"),
            ["7", *["GET", "9"] * 4],
            id="five conflicts",
        ),
        pytest.param(
            [at_once(SLOW_DOWN), scale(4, "8")],
            Written(_counted(4, "8")),
            ["7", "7"],
            id="429, which says that nothing was done",
        ),
    ],
)
def test_a_write_that_was_not_carried_out_goes_out_again_unless_the_count_is_another(
    script: Script, answers: list[Answer], outcome: WriteOutcome, sent: list[str]
) -> None:
    """After a conflict under the version that is read then; the last is told."""
    server, api = script(*answers)
    assert _write(api) == outcome
    assert _sent(server) == sent


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


UNSURE = [
    pytest.param(at_once(BROKEN), id="500"),
    pytest.param(at_once(UNAVAILABLE), id="503"),
    pytest.param(RESET, id="reset"),
    pytest.param(HANG, id="hang"),
    pytest.param(Answer(body=scale(4, "8").body, fault="cut"), id="cut"),
    pytest.param(Answer(body=b'{"kind": "Sca'), id="truncated JSON"),
]


@pytest.mark.parametrize(
    ("then", "outcome", "sent"),
    [
        pytest.param([scale(4, "8")], Written(_counted(4, "8")), ["7", "GET"], id="it landed"),
        pytest.param(
            [scale(1, "7"), scale(4, "8")],
            Written(_counted(4, "8")),
            ["7", "GET", "7"],
            id="it did not",
        ),
        pytest.param(
            [scale(6, "9")],
            Superseded(_counted(6, "9"), uncertain=True),
            ["7", "GET"],
            id="another count",
        ),
    ],
)
@pytest.mark.parametrize("fault", UNSURE)
def test_after_a_put_whose_end_is_unknown_we_look_first(
    script: Script, fault: Answer, then: list[Answer], outcome: WriteOutcome, sent: list[str]
) -> None:
    """A count that is ours is not written again, one of others stands."""
    server, api = script(fault, *then, timeout=2.0)
    assert _write(api) == outcome
    assert _sent(server) == sent


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
