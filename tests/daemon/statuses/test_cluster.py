"""Statuses on a real API server, with faults on the way to it."""

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from autoscaler.config.objects import (
    API_VERSION,
    GROUP,
    KIND,
    PLURAL,
    ObjectRefusal,
    RefusalReason,
)
from autoscaler.kubernetes import Api as ClusterApi
from tests.daemon.statuses.objects import QUICK, in_force, scaled, synced, writing
from tests.narrowing import assert_parts
from tests.worlds.cluster.cluster import eventually
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.roles import grant
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.objects import install
from tests.worlds.proxies import plays
from tests.worlds.proxies.http import Fault, FaultProxy, Playing

PATCH_STATUS: Json = {
    "apiGroups": [GROUP],
    "resources": [f"{PLURAL}/status"],
    "verbs": ["patch"],
}


@pytest.fixture(scope="module")
def objects(admin_api: Api) -> Iterator[str]:
    """Return the path of those in a namespace."""
    install(admin_api)
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": "statuses"}})
    yield f"/apis/{API_VERSION}/namespaces/statuses/{PLURAL}"
    admin_api.delete("/api/v1/namespaces/statuses")


class Way:
    """A way through a proxy to the object web, and what is in its status."""

    def __init__(self, admin_api: Api, path: str, proxy: FaultProxy, api: ClusterApi) -> None:
        self.proxy, self.api = proxy, api
        self._admin, self._path = admin_api, path

    def status(self, name: str = "web") -> Json:
        found: Json = self._admin.get(f"{self._path}/{name}").get("status", {})
        return found

    def version(self) -> str:
        return str(self._admin.get(f"{self._path}/web")["metadata"]["resourceVersion"])

    def wait(self, replicas: int) -> None:
        eventually(self.status, lambda seen: seen.get("currentReplicas") == replicas)


@pytest.fixture
def way(control_plane: ControlPlane, admin_api: Api, objects: str, tmp_path: Path) -> Iterator[Way]:
    admin_api.create(objects, _object("web"))
    with FaultProxy(control_plane.url, ca_file=control_plane.ca_file) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path / "proxy", token=control_plane.admin_token)
        with connect(kubeconfig, request_timeout=0.3) as api:
            yield Way(admin_api, objects, proxy, api)
    admin_api.delete(f"{objects}/web")


def _object(name: str) -> Json:
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "maxReplicas": 20,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": "queue", "query": {"query": "queue"}},
                    "target": {"type": "AverageValue", "averageValue": "10"},
                },
            }
        ],
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def test_a_status_is_what_kubectl_reads_and_an_equal_one_is_not_sent(way: Way) -> None:
    up = scaled(synced("web", "statuses", load=48.0))
    with writing(way.api) as writer:
        writer.configure_objects(in_force(up))
        writer.report(up)
        way.wait(3)
    status, version = way.status(), way.version()
    ready = {each["type"]: each["status"] for each in status["conditions"]}
    assert (ready["Ready"], status["desiredReplicas"], status["metrics"]) == (
        "True",
        5,
        "queue 16/10",
    )
    assert status["lastDecision"].startswith("3 -> 5: ")
    assert status["currentMetrics"][0]["external"]["current"] == {"averageValue": "16"}
    with way.proxy.playing(plays.reset) as sent, writing(way.api) as writer:
        writer.configure_objects(in_force(up, status=json.dumps(status).encode()))
        for _ in range(20):
            writer.report(up)
            time.sleep(0.01)
    assert (sent.met, way.version()) == ([], version)
    refusal = ObjectRefusal(RefusalReason.INVALID, "\x1b[31m\n\u202e" + "x" * 100_000)
    with writing(way.api) as writer:
        writer.refuse({("statuses", "web"): (2, refusal, json.dumps(status).encode())})
        eventually(way.status, lambda seen: "currentReplicas" not in seen)
    status = way.status()
    assert set(status) == {"observedGeneration", "conditions", "lastScaleTime", "lastDecision"}
    (condition,) = status["conditions"]
    assert (condition["reason"], len(condition["message"])) == ("Invalid", 1000)


@pytest.mark.parametrize(
    "fault",
    [
        plays.failure("429 Too Many Requests", "TooManyRequests", "slow", Retry_After="0"),
        plays.failure("500 Internal Server Error", "InternalError", "etcd has no leader"),
        plays.answer("502 Bad Gateway", plays.HTML),
        plays.hang,
        plays.reset,
        plays.swallow,
        plays.break_off,
        None,
    ],
    ids=["429", "500", "proxy", "time-out", "reset", "swallow", "break-off", "refusing"],
)
def test_after_a_fault_the_newest_status_is_written(way: Way, fault: Fault | None) -> None:
    notes: list[str] = []
    with writing(way.api, notes=notes) as writer:
        writer.configure_objects(in_force(synced("web", "statuses")))
        writer.report(synced("web", "statuses"))
        way.wait(3)
        playing: AbstractContextManager[Playing | None] = way.proxy.refusing()
        if fault is not None:
            playing = way.proxy.playing(fault)
        with playing as played:
            for replicas in (4, 5, 6):
                writer.report(synced("web", "statuses", replicas=replicas))
            if played is not None:
                eventually(lambda: played.met, bool)
            else:
                time.sleep(QUICK.per_object)
        way.proxy.cut()
        way.wait(6)
        writer.report(synced("web", "statuses"))
        way.wait(3)
    assert notes == []


def test_a_missing_right_is_reported_and_a_missing_object_is_not(
    control_plane: ControlPlane, admin_api: Api, way: Way, tmp_path: Path
) -> None:
    notes: list[str] = []
    token = control_plane.token_for("nobody")
    with ExitStack() as stack:
        kubeconfig = control_plane.write_kubeconfig(tmp_path / "writer", token)
        api = stack.enter_context(connect(kubeconfig))
        writer = stack.enter_context(writing(api, notes=notes))
        results = [synced("web", "statuses"), synced("gone", "statuses")]
        writer.configure_objects(in_force(*results))
        for result in results:
            writer.report(result)
        eventually(lambda: notes, bool)
        assert_parts(*notes, "nobody", "patch", f"{PLURAL}/status", "0.2 seconds")
        grant(admin_api, "statuses", "statuses", PATCH_STATUS, user="nobody")
        way.wait(3)
        eventually(lambda: [note[:6] for note in notes[1:]], lambda seen: seen == ["good: "])
        eventually(lambda: len(writer._objects), lambda count: count == 1)
    assert len(notes) == 2
