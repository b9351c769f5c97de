"""Each verb that the manifests allow is needed: without it the daemon says what it cannot do."""

import json
import re
import secrets
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.worlds.cluster import manifests, others
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import DaemonProcess, command, external, target, write_config
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.service_account import Rule, manifest, one_by_one, service_account
from tests.worlds.waiting import NotInTimeError, wait_until

AT_ONCE = 4
SCALED = {"Deployment": "web", "StatefulSet": "db", "Crew": "ships"}
OFF = {"Deployment": "night-web", "StatefulSet": "night-db"}
"""Targets that are paused at 0."""
CREW_GROUP = f"rights.{manifests.CRD_GROUP}"
CREWS: list[Rule] = [
    {"apiGroups": [CREW_GROUP], "resources": ["crews"], "verbs": ["list", "watch"]},
    {"apiGroups": [CREW_GROUP], "resources": ["crews/scale"], "verbs": ["get", "update", "patch"]},
]
"""The rights to the custom resource of the tests; another one is to read its definition."""


class Right(NamedTuple):
    """One verb of one resource."""

    verb: str
    resource: str

    def __str__(self) -> str:
        """Return the words of the API server's refusal."""
        return f'cannot {self.verb} resource "{self.resource}"'


NOTHING = Right("do", "nothing")
RIGHTS = [
    Right(*rule["verbs"], *rule["resources"])
    for role in ("role", "clusterrole")
    for rule in one_by_one(manifest(f"base/{role}")["rules"])
]


class Bed:
    """A control plane and a Prometheus, where daemons can be run that lack a right."""

    def __init__(self, plane: ControlPlane, api: Api, prometheus: str, folder: Path) -> None:
        self._plane = plane
        self._api = api
        self._prometheus = prometheus
        self._folder = folder
        self._counts: dict[str, int] = {}
        """The count of each Event when it was first seen."""

    def run_without(self, right: Right) -> str:
        """Return what a daemon, or a plan, says until it lacks the right or has done every job."""
        namespace = f"lacks-{secrets.token_hex(5)}"
        self._api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        try:
            self._deploy(namespace)

            def change(rules: list[Rule]) -> list[Rule]:
                rules = [*one_by_one(rules), *CREWS]
                return [r for r in rules if Right(r["verbs"][0], r["resources"][0]) != right]

            with service_account(self._api, namespace, change=change) as token:
                folder = self._folder / namespace
                folder.mkdir()
                kubeconfig = self._plane.write_kubeconfig(folder / "kubeconfig", token)
                file = write_config(folder / "autoscaler.yaml", self._document(namespace))
                # A daemon that watches asks for single scales when a write meets a conflict.
                if right.verb == "get" and right.resource.endswith("/scale"):
                    environment = {"KUBECONFIG": str(kubeconfig)}
                    plan = command(
                        "plan", "-c", file, "-o", "json", environment=environment, code=1
                    )
                    return _text(json.loads(plan.stdout)) + plan.stderr
                return self._run(file, kubeconfig, namespace, right)
        finally:
            self._api.delete(f"/api/v1/namespaces/{namespace}")

    def _run(self, file: Path, kubeconfig: Path, namespace: str, right: Right) -> str:
        with DaemonProcess(file, {"KUBECONFIG": str(kubeconfig)}) as daemon:

            def output() -> str:
                return "\n".join(map(_text, list(daemon.lines)))

            def over() -> bool:
                return str(right) in output() or not self._undone(namespace, output())

            try:
                wait_until(
                    f"{right}, or all done",
                    over,
                    timeout=120,
                    interval=0.3,
                )
            except NotInTimeError as late:
                undone = ", ".join(self._undone(namespace, output()))
                raise AssertionError(
                    f"{late}; not done: {undone}; output: {output()[-2000:]}"
                ) from None
            assert daemon.stop() == 0
            return output()

    def _undone(self, namespace: str, said: str) -> list[str]:
        """Return the jobs that are not done yet."""
        jobs = {
            **{
                f"scale a {value[0]}": self._replicas(namespace, *value) == 2
                for value in SCALED.items()
            },
            **{
                f"set a {value[0]} to 0": self._replicas(namespace, *value) == 0
                for value in OFF.items()
            },
            "repeat an Event": self._has_repeated_event(namespace),
            "hold the Lease": self._renewed(namespace),
            "spare controlled targets": 'HorizontalPodAutoscaler "rival"' in said,
        }
        return [job for job, done in jobs.items() if not done]

    def _deploy(self, namespace: str) -> None:
        create = self._api.create
        for name in ("web", "broken", "controlled", OFF["Deployment"]):
            create(workloads.collection("Deployment", namespace), workloads.deployment(name, 1))
        for name in ("db", OFF["StatefulSet"]):
            create(workloads.collection("StatefulSet", namespace), workloads.stateful_set(name, 1))
        crews = _collection("Crew", namespace)
        create(crews, manifests.crew("ships", 1) | {"apiVersion": f"{CREW_GROUP}/v1"})
        self._api.patch(f"{crews}/ships/status", {"status": {"selector": "app=ships"}})
        others.create(self._api, namespace, others.autoscaler("rival", of="controlled"))

    def _document(self, namespace: str) -> dict[str, object]:
        """Return a configuration that needs every right; `broken` has pods and no metric."""
        average = {"type": "AverageValue", "averageValue": 30}
        none = {"type": "Pods", "pods": {"metric": {"name": "none"}, "target": average}}
        targets = [
            *(self._target(namespace, *ref) for ref in SCALED.items()),
            *(self._target(namespace, *ref, paused={"replicas": 0}) for ref in OFF.items()),
            self._target(namespace, "Deployment", "controlled"),
            self._target(namespace, "Deployment", "broken", metrics=[none]),
        ]
        election = {
            "enabled": True,
            "namespace": namespace,
            "leaseDuration": "2s",
            "renewDeadline": "1500ms",
            "retryPeriod": "500ms",
        }
        return {
            "prometheus": {"url": self._prometheus},
            "syncPeriod": "1s",
            "leaderElection": election,
            "queries": {"load": "sum(load)", "none": "sum by (namespace, pod) (none)"},
            "targets": targets,
        }

    def _target(self, namespace: str, kind: str, name: str, **more: object) -> dict[str, object]:
        group = CREW_GROUP if kind == "Crew" else "apps"
        ref = {"apiVersion": f"{group}/v1", "kind": kind, "name": name}
        return target(namespace, name, external("load", 30), scaleTargetRef=ref, **more)

    def _replicas(self, namespace: str, kind: str, name: str) -> int:
        spec = self._api.get(f"{_collection(kind, namespace)}/{name}")["spec"]
        return int(spec["size" if kind == "Crew" else "replicas"])

    def _has_repeated_event(self, namespace: str) -> bool:
        events = self._api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
        ours = [event for event in events if event["source"].get("component") == "autoscaler"]
        # One that was made of two at once needed no second write.
        first = [self._counts.setdefault(our["metadata"]["uid"], our["count"]) for our in ours]
        return any(our["count"] > made for our, made in zip(ours, first, strict=True))

    def _renewed(self, namespace: str) -> bool:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        leases = self._api.get(path)["items"]
        return any(lease["spec"]["renewTime"] > lease["spec"]["acquireTime"] for lease in leases)


def _collection(kind: str, namespace: str) -> str:
    crews = f"/apis/{CREW_GROUP}/v1/namespaces/{namespace}/crews"
    return crews if kind == "Crew" else workloads.collection(kind, namespace)


def _text(value: object) -> str:
    """Return all texts in a value, as they are and not as JSON quotes them."""
    if isinstance(value, dict):
        return "\n".join(map(_text, value.values()))
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return str(value)


@pytest.fixture(scope="module")
def bed(
    control_plane: ControlPlane,
    admin_api: Api,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Start a Prometheus that knows a load of 60."""
    workloads.serve(admin_api, manifests.crew_definition("rights"))
    folder = tmp_path_factory.mktemp("rights")
    with Exporter() as exporter, PrometheusServer(folder / "prometheus") as prometheus:
        exporter.set("load", {}, 60)
        prometheus.start([exporter.target])
        prometheus.wait_for("load")
        yield Bed(control_plane, admin_api, prometheus.url, folder)


@pytest.fixture(scope="module")
def runs(bed: Bed, request: pytest.FixtureRequest) -> Iterator[dict[Right, Future[str]]]:
    """Begin a run for each right that a test of this session asks for, some at a time."""
    wanted = {
        item.callspec.params["right"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and "right" in getattr(item, "fixturenames", ())
    }
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            right: pool.submit(bed.run_without, right)
            for right in [NOTHING, *RIGHTS]
            if right in wanted
        }


@pytest.mark.parametrize("right", [NOTHING], ids=["nothing"])
def test_with_all_rights_every_job_is_done(runs: dict[Right, Future[str]], right: Right) -> None:
    said = runs[right].result()
    assert not re.search("cannot .* resource", said), said
    assert "not_watched" not in said, said


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: f"{right.verb} {right.resource}")
def test_each_verb_is_needed(runs: dict[Right, Future[str]], right: Right) -> None:
    assert str(right) in runs[right].result()
