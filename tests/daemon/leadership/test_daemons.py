"""Two real daemons with one Lease: one writes, the other is ready to, and takes over."""

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from autoscaler import clock
from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.server import PrometheusServer
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.daemon.leadership.audit import Audit
from tests.daemon.leadership.conftest import SLACK
from tests.endtoend.daemon import DaemonProcess, write_config

LEASE_SECONDS, RETRY_SECONDS = 10.0, 0.3
"""Long enough for a follower to see another load before it leads."""
TARGETS = [f"worker-{number}" for number in range(6)]


def _queues(namespace: str) -> str:
    """Select the queues of one test; others are in the same Prometheus."""
    return f'queue_messages{{namespace="{namespace}"}}'


def configuration(prometheus: str, namespace: str, identity: str) -> dict[str, object]:
    """Return a configuration whose targets follow their queue at once, up and down."""
    at_once = {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}],
    }
    return {
        "prometheus": {"url": prometheus},
        "syncPeriod": "1s",
        "listen": None,
        "stateDirectory": None,
        "leaderElection": {
            "enabled": True,
            "namespace": namespace,
            "identity": identity,
            "leaseDuration": f"{LEASE_SECONDS:g}s",
            "renewDeadline": "7s",
            "retryPeriod": f"{RETRY_SECONDS:g}s",
        },
        "queries": {"queue_messages": f"sum by (queue) ({_queues(namespace)})"},
        "targets": [
            {
                "namespace": namespace,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "maxReplicas": 20,
                "metrics": [
                    {
                        "type": "External",
                        "external": {
                            "metric": {
                                "name": "queue_messages",
                                "selector": {"matchLabels": {"queue": name}},
                            },
                            "target": {"type": "AverageValue", "averageValue": 1},
                        },
                    }
                ],
                "behavior": {"scaleUp": at_once, "scaleDown": at_once},
            }
            for name in TARGETS
        ],
    }


class Shop:
    """A namespace with Deployments, queues that they follow, and daemons that see to it."""

    def __init__(self, plane: ControlPlane, api: Api, exporter: Exporter, log: Path) -> None:
        self.namespace = f"shop-{secrets.token_hex(5)}"
        self._plane = plane
        self._api = api
        self._exporter = exporter
        self._audit = Audit(log, self.namespace)
        api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for name in TARGETS:
            api.create(
                workloads.collection("Deployment", self.namespace), workloads.deployment(name, 1)
            )
        self.ask_for(1)

    def ask_for(self, replicas: int) -> None:
        """Fill the queues."""
        for name in TARGETS:
            labels = {"namespace": self.namespace, "queue": name}
            self._exporter.set("queue_messages", labels, replicas)

    def replicas(self) -> set[int]:
        """Return the counts that there are."""
        path = workloads.collection("Deployment", self.namespace)
        return {item["spec"]["replicas"] for item in self._api.get(path)["items"]}

    def wait_for(self, replicas: int) -> float:
        """Ask for a count, and return when all Deployments have it."""
        self.ask_for(replicas)
        wait_until(f"{replicas} replicas", lambda: self.replicas() == {replicas})
        return clock.monotonic()

    def holder(self) -> str:
        """Return who holds the Lease, without the random part."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        items = self._api.get(path)["items"]
        holder = items[0]["spec"].get("holderIdentity") or "" if items else ""
        return str(holder).partition("_")[0]

    def wait_held(self, user: str) -> float:
        """Return when a user's daemon holds the Lease."""
        wait_until(f"{user} holds the Lease", lambda: self.holder() == user, interval=0.02)
        return clock.monotonic()

    def written(self) -> dict[str, int]:
        """Return how many scales each wrote, every one while it held the Lease."""
        return self._audit.scales_by_holders()


@pytest.fixture
def shop(
    audited_plane: ControlPlane, audit_log: Path, prometheus_exporter: Exporter
) -> Iterator[Shop]:
    """Make a namespace and its queues."""
    with audited_plane.api() as api:
        yield Shop(audited_plane, api, prometheus_exporter, audit_log)


Run = Callable[[str], DaemonProcess]


@pytest.fixture
def run(
    shop: Shop,
    audited_plane: ControlPlane,
    prometheus_server: PrometheusServer,
    tmp_path: Path,
) -> Iterator[Run]:
    """Run daemons, each as a user of its own."""
    prometheus_server.wait_for(_queues(shop.namespace), count=len(TARGETS))
    with ExitStack() as stack:

        def run(user: str) -> DaemonProcess:
            token = audited_plane.token_for(user)
            kubeconfig = audited_plane.write_kubeconfig(tmp_path / f"{user}.kubeconfig", token)
            document = configuration(prometheus_server.url, shop.namespace, user)
            file = write_config(tmp_path / f"{user}.yaml", document)
            daemon = DaemonProcess(file, {"KUBECONFIG": str(kubeconfig)}, "--log-level", "debug")
            return stack.enter_context(daemon)

        yield run


def test_one_writes_and_the_other_takes_over(shop: Shop, run: Run) -> None:
    """The leader is stopped by SIGSTOP, the next one by SIGTERM; the API server's log judges.

    What a follower would have written it reports as not written; nobody takes what the other
    wrote for a change by somebody else.
    """
    left = run("left")
    shop.wait_held("left")
    right = run("right")
    right.wait_for("it serves", lambda line: line["event"] == "started")
    shop.wait_for(5)
    assert set(shop.written()) == {"left"}

    stopped = clock.monotonic()
    os.kill(left.pid, signal.SIGSTOP)
    shop.ask_for(9)
    took = shop.wait_held("right") - stopped
    assert took < LEASE_SECONDS + 4 * RETRY_SECONDS + SLACK
    right.wait_for("it left writes out", lambda line: line.get("write") == "not leading")
    shop.wait_for(9)
    os.kill(left.pid, signal.SIGCONT)
    left.wait_for(
        "it follows",
        lambda line: line["event"] == "leadership" and line["standing"] == "follower",
    )
    before = shop.written()["left"]
    shop.wait_for(3)
    assert shop.written()["left"] == before

    ended = clock.monotonic()
    assert right.stop() == 0
    assert shop.wait_held("left") - ended < LEASE_SECONDS
    shop.wait_for(7)
    assert left.stop() == 0
    assert shop.holder() == ""
    written = shop.written()
    assert written["left"] >= 2 * len(TARGETS)
    assert written["right"] >= 2 * len(TARGETS)
    told = [line["event"] for daemon in (left, right) for line in daemon.lines]
    assert "replicas_changed_by_other" not in told
