"""Before each try of a write it is asked whether, and until when, this process may write."""

import math
import socket
from collections.abc import Sequence

import pytest

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
from tests.worlds.cluster.scripted import Answer, scale
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


LANDED = AcceptedWrite(Scale(4, 1, "app=web", "8"))


@pytest.mark.parametrize(
    ("answers", "gate", "outcome", "methods"),
    [
        ((scale(4, "8"),), (OVER,), NOT_LEADING, []),
        ((scale(4, "8"),), (FOR_EVER,), LANDED, ["PUT"]),
        ((CONFLICT, scale(1, "9")), (FOR_EVER, FOR_EVER, OVER), NOT_LEADING, ["PUT", "GET"]),
        ((at_once(BROKEN), scale(4, "8")), (FOR_EVER, FOR_EVER, OVER), LANDED, ["PUT", "GET"]),
    ],
    ids=["follower", "leader", "conflict", "landed-without-an-answer"],
)
def test_each_request_of_a_write_needs_the_lead(
    script: Script,
    answers: Sequence[Answer],
    gate: Sequence[float],
    outcome: WriteOutcome,
    methods: list[str],
) -> None:
    server, api = script(*answers)
    assert write(api, Gate(*gate)) == outcome
    assert server.methods == methods


def test_a_write_that_failed_is_not_repeated_without_the_lead(script: Script) -> None:
    server, api = script(at_once(BROKEN), scale(1, "7"))
    outcome = instance(WriteFailure, write(api, Gate(FOR_EVER, FOR_EVER, OVER)))
    assert (outcome.unknown, outcome.resource_version) == (True, "7")
    assert server.methods.count("PUT") == 1


def test_a_write_without_any_answer_is_unknown(script: Script) -> None:
    server, api = script(HANG)
    until = clock.monotonic() + 0.3
    with within(8.0):
        outcome = write(api, Gate(until), seconds=1.0)
    assert instance(WriteFailure, outcome).unknown
    assert server.methods.count("PUT") == 1


def test_a_request_ends_before_the_lead_does(script: Script) -> None:
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


def test_the_kernel_drops_a_request_with_its_deadline(script: Script) -> None:
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


def test_a_request_is_cut_off_when_the_lead_ends(
    control_plane: ControlPlane, admin_api: AdminApi, namespace: str
) -> None:
    path = workloads.collection("Deployment", namespace)
    admin_api.create(path, workloads.deployment("web", replicas=1))
    with connect(control_plane.kubeconfig) as api:
        seen = instance(Scale, Scales(api).read(namespace, WEB, clock.monotonic() + 10))
        deadline = clock.monotonic() + 10
        shut = Scales(api, Gate(FOR_EVER, OVER))
        assert shut.write(namespace, WEB, seen, 4, deadline) == NOT_LEADING
        assert admin_api.get(f"{path}/web")["spec"]["replicas"] == 1
        outcome = Scales(api, Gate(FOR_EVER)).write(namespace, WEB, seen, 4, deadline)
    assert isinstance(outcome, AcceptedWrite)
    assert admin_api.get(f"{path}/web")["spec"]["replicas"] == 4
