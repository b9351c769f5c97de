"""Before each try of a write it is asked whether, and until when, this process may write."""

import math
import socket

from autoscaler import clock
from autoscaler.core.observation import Scale
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    WriteFailure,
    WriteOutcome,
)
from autoscaler.kubernetes import Api, Failure, Scales
from autoscaler.kubernetes.election import WriteGate
from tests.narrowing import instance, known
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.faults import BROKEN, CONFLICT, HANG, Script, at_once, within
from tests.worlds.cluster.manifests import WEB
from tests.worlds.cluster.scripted import scale
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api as AdminApi
from tests.worlds.controlplane.server import ControlPlane

DECIDED_ON = Scale(1, 1, "app=web", "7")
FOR_EVER, OVER = math.inf, -math.inf
NOT_LEADING = SkippedWrite(SkippedWriteReason.NOT_LEADING)


class Gate(WriteGate):
    """Gives its answers in turn; the last one stands for all that follow."""

    def __init__(self, *answers: float) -> None:
        self._answers = list(answers)

    def may_write_until(self, _: str | None = None, /) -> float:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def write(api: Api, gate: WriteGate, seconds: float = 10.0) -> WriteOutcome:
    return Scales(api, gate).write("shop", WEB, DECIDED_ON, 4, clock.monotonic() + seconds)


def test_who_does_not_lead_sends_nothing(script: Script) -> None:
    """The outcome says why nothing was written."""
    server, api = script(scale(4, "8"))
    assert write(api, Gate(OVER)) == NOT_LEADING
    assert server.asked == []


def test_who_leads_writes(script: Script) -> None:
    """Once: the gate is open before the request and when its body is sent."""
    server, api = script(scale(4, "8"))
    assert write(api, Gate(FOR_EVER)) == AcceptedWrite(Scale(4, 1, "app=web", "8"))
    assert server.methods == ["PUT"]


def test_it_is_asked_again_before_another_try(script: Script) -> None:
    """After a conflict, which wrote nothing, the write is left out."""
    server, api = script(CONFLICT, scale(1, "9"))
    assert write(api, Gate(FOR_EVER, FOR_EVER, OVER)) == NOT_LEADING
    assert server.methods == ["PUT", "GET"]


def test_a_try_that_landed_unseen_is_written_all_the_same(script: Script) -> None:
    """What was sent while we led counts; to look is no write."""
    server, api = script(at_once(BROKEN), scale(4, "8"))
    assert isinstance(write(api, Gate(FOR_EVER, FOR_EVER, OVER)), AcceptedWrite)
    assert server.methods == ["PUT", "GET"]


def test_a_try_that_did_not_land_is_not_repeated(script: Script) -> None:
    """A write that was sent has failed, which is more than not written."""
    server, api = script(at_once(BROKEN), scale(1, "7"))
    outcome = write(api, Gate(FOR_EVER, FOR_EVER, OVER))
    assert outcome == WriteFailure(
        "this process does not lead any more; the count is still the old one",
        unknown=True,
        resource_version="7",
    )
    assert server.methods.count("PUT") == 1


def test_a_try_of_which_nothing_is_known_may_have_landed(script: Script) -> None:
    """Neither the request nor the look after it was answered."""
    server, api = script(HANG)
    until = clock.monotonic() + 0.3
    with within(8.0):
        outcome = write(api, Gate(until), seconds=1.0)
    assert isinstance(outcome, WriteFailure)
    assert outcome.unknown
    assert server.methods.count("PUT") == 1


def test_a_try_ends_before_the_leadership_may(script: Script) -> None:
    """Also where the write itself has more time; the server is told to give up then too."""
    server, api = script(HANG, scale(4, "8"))
    began = clock.monotonic()
    until = began + 2.0
    assert isinstance(write(api, Gate(until)), AcceptedWrite)
    assert 1.9 < clock.monotonic() - began < 8
    put, look = server.asked
    assert (put.method, look.method) == ("PUT", "GET")
    [timeout] = [
        part.removeprefix("timeout=")
        for part in put.path.partition("?")[2].split("&")
        if part.startswith("timeout=")
    ]
    assert 0 < float(timeout.removesuffix("s")) <= 2


def test_the_kernel_gives_up_what_we_have_given_up(script: Script) -> None:
    """Else it would send a request again for a quarter of an hour, also after it was closed."""
    server, api = script(scale(4, "8"))
    assert isinstance(write(api, Gate(FOR_EVER)), AcceptedWrite)
    access = api._credentials.access(clock.monotonic())
    assert not isinstance(access, Failure)
    pool = access.client.rest_client.pool_manager.connection_from_url(server.url)
    assert pool.pool is not None
    idle = known(pool.pool.get())
    assert idle.sock is not None
    milliseconds = idle.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    pool.pool.put(idle)
    assert milliseconds == 1000 * api.request_timeout


def test_what_may_not_be_sent_any_more_is_broken_off(
    control_plane: ControlPlane, admin_api: AdminApi, namespace: str
) -> None:
    """The gate shuts while the request is under way: the server gets no body, and does nothing."""
    path = workloads.collection("Deployment", namespace)
    admin_api.create(path, workloads.deployment("web", replicas=1))
    with connect(control_plane.kubeconfig) as api:
        seen = instance(Scale, Scales(api).read(namespace, WEB, clock.monotonic() + 10))
        deadline = clock.monotonic() + 10
        shut = Scales(api, Gate(FOR_EVER, OVER))
        assert shut.write(namespace, WEB, seen, 4, deadline) == SkippedWrite(
            SkippedWriteReason.NOT_LEADING
        )
        assert admin_api.get(f"{path}/web")["spec"]["replicas"] == 1
        outcome = Scales(api, Gate(FOR_EVER)).write(namespace, WEB, seen, 4, deadline)
    assert isinstance(outcome, AcceptedWrite)
    assert admin_api.get(f"{path}/web")["spec"]["replicas"] == 4
