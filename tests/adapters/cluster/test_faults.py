"""Reads and writes on a faulty server: nothing is written twice, no other count is overwritten."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.writes import AcceptedWrite, WriteConflict, WriteFailure, WriteOutcome
from autoscaler.kubernetes import Api, Scales, list_pods
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster.cluster import Noting
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.faults import (
    BROKEN,
    CONFLICT,
    HANG,
    HTML,
    RESET,
    SLOW_DOWN,
    UNAVAILABLE,
    Script,
    at_once,
    read_web,
    within,
)
from tests.worlds.cluster.manifests import WEB
from tests.worlds.cluster.scripted import Answer, ScriptedServer, failure, scale
from tests.worlds.waiting import SetByTheFirstWait, wait_until

pytestmark = pytest.mark.usefixtures("quick_retries")
RESET_BY_PEER = os.strerror(errno.ECONNRESET).lower()


@pytest.mark.parametrize(
    ("fault", "parts"),
    [
        (at_once(SLOW_DOWN), ["429", "TooManyRequests"]),
        (at_once(BROKEN), ["500", "InternalError", "etcdserver: leader changed"]),
        (at_once(UNAVAILABLE), ["503", "ServiceUnavailable"]),
        (at_once(HTML), ["502", "text/html", "proxy"]),
        (RESET, [RESET_BY_PEER]),
        (Answer(body=scale(3).body, fault="cut"), [RESET_BY_PEER]),
        (Answer(body=b'{"kind": "Sca'), ["JSON", "text/html"]),
        (Answer(body=b"<html>please log in</html>"), ["JSON", "text/html"]),
        (Answer(body=b"[]"), ["JSON", "object"]),
    ],
)
def test_a_read_is_tried_again_after_a_transient_fault(
    script: Script, fault: Answer, parts: list[str]
) -> None:
    server, api = script(fault, fault, scale(3))
    assert read_web(api) == Scale(3, 1, "app=web", "7")
    assert server.methods == ["GET"] * 3
    server, api = script(fault)
    assert_parts(instance(ReadFailure, read_web(api)), server.url, *parts)
    assert server.methods == ["GET"] * 5


@pytest.mark.parametrize(
    "refusal",
    [
        failure(403, "Forbidden", 'deployments.apps "web" is forbidden'),
        failure(401, "Unauthorized", "Unauthorized"),
        failure(404, "NotFound", 'deployments.apps "web" not found', name="web"),
        failure(422, "Invalid", "no"),
        Answer(302, b"", {"Location": "http://127.0.0.1:9/login"}),
    ],
)
def test_a_refusal_is_asked_for_once(script: Script, refusal: Answer) -> None:
    server, api = script(refusal)
    assert isinstance(read_web(api), ReadFailure)
    deadline = clock.monotonic() + 5
    outcome = Scales(api).write("shop", WEB, Scale(1, 1, "app=web", "7"), 4, deadline)
    assert isinstance(outcome, WriteFailure)
    assert server.methods == ["GET", "PUT"]


def test_a_slow_try_leaves_time_for_another(script: Script) -> None:
    server, api = script(HANG, scale(3), timeout=2.5)
    assert read_web(api, 20.0) == Scale(3, 1, "app=web", "7")
    assert len(server.asked) == 2


def test_a_deadline_that_is_over_sends_nothing(script: Script) -> None:
    server, api = script(scale(3))
    assert_parts(instance(ReadFailure, read_web(api, seconds=-1.0)), server.url, "deadline")
    assert server.asked == []


def test_a_refused_connection_is_reported_with_the_server(tmp_path: Path) -> None:
    with ScriptedServer(Answer()) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
    with connect(kubeconfig) as api:
        failed = instance(ReadFailure, read_web(api))
    assert_parts(failed, server.url, os.strerror(errno.ECONNREFUSED).lower())


def _pod_list(*names: str, more: str = "") -> Answer:
    items = [{"metadata": {"name": name}, "spec": {}, "status": {}} for name in names]
    return Answer(body={"metadata": {"resourceVersion": "50", "continue": more}, "items": items})


def test_a_list_that_expires_is_read_anew_in_one_piece(script: Script) -> None:
    expired = failure(410, "Expired", "too old")
    server, api = script(_pod_list("a", "b", more="token"), expired, _pod_list("a", "b", "c"))
    found = list_pods(api, "shop", "app=web", clock.monotonic() + 5, page_size=2)
    assert isinstance(found, tuple)
    assert [pod.name for pod in found] == ["a", "b", "c"]
    assert "continue=token" in server.asked[1].path
    assert "limit" not in server.asked[2].path


def test_a_malformed_list_is_refused_with_its_missing_field(script: Script) -> None:
    server, api = script(Answer(body={"kind": "PodList", "items": [{"metadata": {}}]}))
    answer = list_pods(api, "shop", "app=web", clock.monotonic() + 5)
    assert_parts(instance(ReadFailure, answer), server.url, "pods", "'name'")


def test_a_path_that_is_gone_is_discovered_again(script: Script) -> None:
    gone = Answer(404, b"404 page not found\n")
    group = {"versions": [{"version": "v2"}], "preferredVersion": {"version": "v2"}}
    resources = {
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True},
            {"name": "deployments/scale", "kind": "Scale"},
        ]
    }
    server, api = script(gone, Answer(body=group), Answer(body=resources), scale(3))
    scales = Scales(api)
    assert isinstance(scales.read("shop", WEB, clock.monotonic() + 5), Scale)
    assert isinstance(scales.read("shop", WEB, clock.monotonic() + 5), Scale)
    v2 = "/apis/apps/v2/namespaces/shop/deployments/web/scale"
    assert [asked.path for asked in server.asked[1:]] == ["/apis/apps", "/apis/apps/v2", v2, v2]


def test_a_429_holds_back_all_requests(script: Script) -> None:
    asked_to_wait = Answer(429, SLOW_DOWN.body, {"Retry-After": "3"})
    server, api = script(asked_to_wait, scale(3), scale(3))
    with ThreadPoolExecutor(1) as pool:
        begun = clock.monotonic()
        first = pool.submit(read_web, api, 30.0)
        wait_until("first read refused", lambda: server.methods == ["GET"])
        # The answer may still be on its way to the client.
        wait_until("refusal received", lambda: api.retrier.is_held)
        with within(2.0):
            assert isinstance(read_web(api, 0.5), ReadFailure)
        assert isinstance(read_web(api, 30.0), Scale)
        assert clock.monotonic() - begun >= 3.0
        assert isinstance(first.result(30), Scale)
    assert server.methods == ["GET"] * 3


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, {"kind": "Status", "details": [1], "message": 5, "reason": {}}),
        Answer(404, {"kind": "Status", "details": {"name": 1}}),
        Answer(500, b"[" * 100_000),
        Answer(200, b'{"a": ' * 100_000),
        Answer(200, b'{"metadata": {}, "spec": {"replicas": 1e999}}'),
        Answer(200, {"metadata": [], "spec": {}}),
    ],
)
def test_a_malformed_answer_is_a_failure_and_no_exception(script: Script, answer: Answer) -> None:
    _, api = script(at_once(answer))
    assert isinstance(read_web(api, 2.0), ReadFailure)


DECIDED_ON = Scale(1, 1, "app=web", "7")


def _write(api: Api, seconds: float = 20.0, replicas: int = 4) -> WriteOutcome:
    deadline = clock.monotonic() + seconds
    return Scales(api).write("shop", WEB, DECIDED_ON, replicas, deadline)


def test_a_write_carries_the_version_that_was_read(script: Script) -> None:
    """The PUT holds the count and the guard, under the token of the kubeconfig.

    The request has our name for managedFields, and the time after which the server gives up.
    """
    server, api = script(scale(4, "8"))
    assert _write(api) == AcceptedWrite(Scale(4, 1, "app=web", "8"))
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
            AcceptedWrite(_counted(4, "10")),
            ["7", "GET", "9"],
            id="another-field",
        ),
        *(
            pytest.param(
                [CONFLICT, scale(theirs, "9")],
                WriteConflict(_counted(theirs, "9")),
                ["7", "GET"],
                id=f"conflict-with-{theirs}",
            )
            for theirs in (6, 4)
        ),
        pytest.param(
            [*[CONFLICT, scale(1, "9")] * 4, CONFLICT],
            WriteFailure(str(instance(dict, CONFLICT.body)["message"])),
            ["7", *["GET", "9"] * 4],
            id="five-conflicts",
        ),
        pytest.param(
            [at_once(SLOW_DOWN), scale(4, "8")],
            AcceptedWrite(_counted(4, "8")),
            ["7", "7"],
            id="429",
        ),
    ],
)
def test_a_write_that_was_not_carried_out_goes_out_again_unless_the_count_is_another(
    script: Script, answers: list[Answer], outcome: WriteOutcome, sent: list[str]
) -> None:
    server, api = script(*answers)
    assert _write(api) == outcome
    assert _sent(server) == sent


@pytest.mark.parametrize("status", [403, 405, 415])
def test_a_zero_that_may_not_be_applied_is_written_all_the_same(
    script: Script, status: int
) -> None:
    server, api = script(*[Answer(status, {"message": "no patch"}), scale(0, "8")] * 2)
    notes: list[str] = []
    scales = Scales(api, observer=Noting(notes))
    for _ in range(2):
        outcome = scales.write("shop", WEB, DECIDED_ON, 0, clock.monotonic() + 20.0)
        assert outcome == AcceptedWrite(Scale(0, 1, "app=web", "8"))
    assert server.methods == ["PATCH", "PUT"] * 2
    assert dict(parse_qsl(server.asked[0].path.partition("?")[2]))["force"] == "true"
    assert server.asked[0].body == server.asked[1].body
    (note,) = notes
    assert "deployments" in note


UNSURE = [
    pytest.param(at_once(BROKEN), id="500"),
    pytest.param(at_once(UNAVAILABLE), id="503"),
    pytest.param(RESET, id="reset"),
    pytest.param(HANG, id="hang"),
    pytest.param(Answer(body=scale(4, "8").body, fault="cut"), id="cut"),
    pytest.param(Answer(body=b'{"kind": "Sca'), id="truncated-json"),
]


@pytest.mark.parametrize(
    ("then", "outcome", "sent"),
    [
        pytest.param([scale(4, "8")], AcceptedWrite(_counted(4, "8")), ["7", "GET"], id="written"),
        pytest.param(
            [scale(1, "7"), scale(4, "8")],
            AcceptedWrite(_counted(4, "8")),
            ["7", "GET", "7"],
            id="not-written",
        ),
        pytest.param(
            [scale(6, "9")],
            WriteConflict(_counted(6, "9"), uncertain=True),
            ["7", "GET"],
            id="another-count",
        ),
    ],
)
@pytest.mark.parametrize("fault", UNSURE)
def test_after_a_put_whose_end_is_unknown_we_look_first(
    script: Script, fault: Answer, then: list[Answer], outcome: WriteOutcome, sent: list[str]
) -> None:
    server, api = script(fault, *then, timeout=2.0)
    assert _write(api) == outcome
    assert _sent(server) == sent


def test_a_write_that_hangs_until_the_deadline_is_looked_after(script: Script) -> None:
    server, api = script(HANG, scale(4, "8"), timeout=60.0)
    with within(20.0):
        assert isinstance(_write(api, seconds=4.0), AcceptedWrite)
    assert server.methods == ["PUT", "GET"]


def test_a_write_whose_outcome_cannot_be_read_is_unknown(script: Script) -> None:
    server, api = script(CONFLICT, scale(1, "9"), HANG, timeout=60.0)
    with within(20.0):
        outcome = _write(api, seconds=4.0)
    assert isinstance(outcome, WriteFailure)
    assert (outcome.unknown, outcome.resource_version) == (True, "9")
    assert server.methods.count("PUT") == 2


def test_stop_ends_the_waiting_and_begins_no_other_write(script: Script) -> None:
    slow = Answer(UNAVAILABLE.status, UNAVAILABLE.body, {"Retry-After": "30"})
    server, api = script(slow, scale(1, "7"), stop=SetByTheFirstWait())
    with within(20.0):
        outcome = _write(api, seconds=60.0)
    assert isinstance(outcome, WriteFailure)
    assert "503" in outcome.message
    assert outcome.unknown
    assert server.methods == ["PUT", "GET"]


@pytest.mark.parametrize("decided_on", [DECIDED_ON, Scale(1, 1, "app=web", "")])
def test_a_scale_without_a_version_is_not_written(script: Script, decided_on: Scale) -> None:
    server, api = script(*([CONFLICT] if decided_on.resource_version else []), scale(1, ""))
    outcome = Scales(api).write("shop", WEB, decided_on, 4, clock.monotonic() + 5)
    failed = instance(WriteFailure, outcome)
    assert "resourceVersion" in failed.message
    assert not failed.unknown
    assert [asked.body["metadata"]["resourceVersion"] for asked in server.asked if asked.body] == (
        ["7"] if decided_on.resource_version else []
    )
