"""A daemon in shadow beside the real HPA controller: what it tells of how both agree."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from benchmarks.hpa import HpaController
from tests.worlds.cluster import others
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.metrics_api import MetricsApi
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import DaemonProcess, Document, command, external, running
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.service_account import service_account
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

FLAGS = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
)
NEEDED = {"same": 3, "other": 4, "keda": 2}
"""The replicas that each workload needs; the HPA of `other` may have two at most."""


@pytest.fixture(scope="module")
def world(
    control_plane: ControlPlane,
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - the HPA counts pods
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """Start workloads with their HPAs, of which KEDA made one."""
    folder, namespace = tmp_path_factory.mktemp("agreement"), "agreeing"
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    prometheus = PrometheusServer(folder / "prometheus", scrape_interval="200ms")
    with ExitStack() as stack:
        exporter = stack.enter_context(Exporter())
        for app, replicas in NEEDED.items():
            exporter.set("jobs", {"namespace": namespace, "app": app}, replicas)
        stack.enter_context(prometheus.start([exporter.target]))
        stack.enter_context(MetricsApi(admin_api, prometheus.samples, folder))
        token = stack.enter_context(service_account(admin_api, namespace))
        kubeconfig = control_plane.write_kubeconfig(folder / "kubeconfig", token)
        world = World(
            *(control_plane, admin_api, namespace, {"KUBECONFIG": str(kubeconfig)}),
            *(prometheus, exporter, folder),
        )
        for app in NEEDED:
            world.deploy(app, replicas=1)
        others.create(admin_api, namespace, hpa("same", "same"))
        others.create(admin_api, namespace, hpa("other", "other", maxReplicas=2))
        keda = hpa("keda-hpa-keda", "keda")
        keda["metadata"]["labels"] = {"scaledobject.keda.sh/name": "keda"}
        others.create(admin_api, namespace, keda)
        stack.enter_context(HpaController(control_plane, folder, FLAGS))
        yield world
    admin_api.delete(f"/api/v1/namespaces/{namespace}")


def hpa(name: str, of: str, **spec: object) -> Json:
    """Return an HPA of the jobs that a workload has."""
    made = others.autoscaler(name, of=of)
    made["spec"] |= {"maxReplicas": 10, "metrics": [external("jobs", "1", app=of)], **spec}
    return made


def document(world: World) -> Document:
    """Return a configuration with all workloads in shadow."""
    rules = {"maxReplicas": 10, "mode": "shadow"}
    return {
        "prometheus": {"url": world.prometheus.url},
        "syncPeriod": "1s",
        "listen": "127.0.0.1:0",
        "stateDirectory": str(world.folder / "state"),
        "queries": {"jobs": f'jobs{{namespace="{world.namespace}"}}'},
        "targets": [
            world.target(app, metrics=[external("jobs", "1", app=app)], **rules) for app in NEEDED
        ],
    }


def agreement_of(daemon: DaemonProcess) -> dict[str, Any]:
    """Return what the API tells of each target, by its name."""
    found = json.loads(daemon.page("/api/v1/agreement"))
    return {one["target"].rpartition("/")[2]: one for one in found["targets"]}


def seconds_of(one: Json) -> dict[str, float]:
    """Return the seconds of each kind."""
    return {time["kind"]: time["seconds"] for time in one.get("times", ())}


def test_what_the_real_hpa_does_is_compared_and_told(world: World) -> None:
    """By the API, the command and a plan: counts, readings, and a maximum that differs by name."""
    with running(world.write(document(world)), world.environment) as daemon:

        def compared() -> bool:
            told = agreement_of(daemon)
            return (
                seconds_of(told["same"]).get("equal", 0) >= 2
                and seconds_of(told["keda"]).get("equal", 0) >= 2
                and seconds_of(told["other"]).get("configuration", 0) >= 2
            )

        wait_until("all are compared", compared, timeout=60)
        told = agreement_of(daemon)
        shell = command(
            *("agreement", "--url", f"http://{daemon.address}", "-o", "json"),
            environment=world.environment,
            code=1,
        )
        plan = {
            form: command("plan", "-c", daemon.file, *form.split(), environment=world.environment)
            for form in ("", "--explain", "-o json")
        }
        assert daemon.events("replicas_changed_by_other") == []
        assert daemon.stop() == 0
    same, other, keda = told["same"], told["other"], told["keda"]
    assert (same["hpa"]["currentReplicas"], same["hpa"]["desiredReplicas"]) == (3, 3)
    assert same["hpa"]["metrics"] == ["jobs 1 of 1"]
    assert (same["verdict"], same["freeReplicas"]) == ("early", 3)
    assert keda["hpa"] | {"metrics": []} == {
        "name": "keda-hpa-keda",
        "scaledObject": "keda",
        "metrics": [],
        "currentReplicas": 2,
        "desiredReplicas": 2,
    }
    assert (other["verdict"], other["freeReplicas"]) == ("differs", 4)
    (longest, *_) = other["disagreements"]
    assert (longest["ours"], longest["theirs"]) == (4, 2)
    assert longest["message"] == "maxReplicas is 10 here and 2 there"
    listed = json.loads(shell.stdout)
    assert (listed["live"], listed["shadow"]) == (0, 3)
    assert {one["target"] for one in listed["targets"]} == {world.key(app) for app in NEEDED}
    said = 'HorizontalPodAutoscaler "other" wants 2 replicas, and found 2; jobs 2 of 1'
    assert f"\n  {said}\n" in plan[""].stdout
    assert f"\n  beside      {said}\n" in plan["--explain"].stdout
    assert '"desiredReplicas": 2' in plan["-o json"].stdout
    planned = {one["target"]: one for one in json.loads(plan["-o json"].stdout)}
    assert planned[world.key("other")]["hpa"]["desiredReplicas"] == 2
