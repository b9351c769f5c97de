"""Per-pod metrics end to end: requests per second of each pod, and CPU by the built-in query."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.fixtures import StartPrometheus
from tests.adapters.prometheus.server import PrometheusServer
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.kubelet import FakeKubelet
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import DaemonProcess, write_config
from tests.endtoend.rights import Rights


def running_pods(api: Api, namespace: str, app: str) -> list[str]:
    """Return the names of the app's pods that are ready."""
    pods = api.get(workloads.collection("Pod", namespace), labelSelector=f"app={app}")["items"]
    return sorted(
        pod["metadata"]["name"]
        for pod in pods
        if any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in pod["status"].get("conditions", ())
        )
    )


def deploy(api: Api, namespace: str, name: str, replicas: int, cpu: str = "100m") -> list[str]:
    """Create a Deployment, wait for its pods, and return their names."""
    containers = {"app": {"cpu": cpu, "memory": "64Mi"}}
    api.create(
        workloads.collection("Deployment", namespace),
        workloads.deployment(name, replicas, containers=containers),
    )

    def ready() -> list[str]:
        pods = running_pods(api, namespace, name)
        return pods if len(pods) == replicas else []

    return wait_until(f"{replicas} pods are ready", ready)


def target(namespace: str, name: str, metric: Mapping[str, object]) -> dict[str, object]:
    """Return a target of one metric and at most 10 replicas."""
    return {
        "namespace": namespace,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "maxReplicas": 10,
        "metrics": [metric],
    }


@pytest.mark.parametrize("rights", Rights)
def test_a_pods_metric_scales_by_the_average_of_the_pods(
    prometheus_exporter: Exporter,
    prometheus_server: PrometheusServer,
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - makes the pods ready
    namespace: str,
    environment: Mapping[str, str],
    tmp_path: Path,
    *,
    rights: Rights,
) -> None:
    """Two pods at 150 and 250 requests/s average 200; at a target of 100 that is ceil(2 x 2) = 4.

    Another workload's pod, far above the target, does not count.  A Role in the namespace is as
    good as a ClusterRole.  Without the right to watch scales and pods are read one by one, and
    HorizontalPodAutoscalers are unknown, which the log says once for each.
    """
    pods = deploy(admin_api, namespace, "web", 2)
    for pod, rate in zip([*pods, "other-1"], (150.0, 250.0, 9000.0), strict=True):
        labels = {"namespace": namespace, "pod": pod}
        prometheus_exporter.set("http_requests_per_second", labels, rate)
    prometheus_server.wait_for(f'http_requests_per_second{{namespace="{namespace}"}}', count=3)
    metric = {
        "type": "Pods",
        "pods": {
            "metric": {"name": "requests"},
            "target": {"type": "AverageValue", "averageValue": 100},
        },
    }
    document = {
        "prometheus": {"url": prometheus_server.url},
        # The first sync comes at once; a shorter period leaves a query less time than it may need.
        "syncPeriod": "5s",
        "queries": {"requests": "sum by (namespace, pod) (http_requests_per_second)"},
        "targets": [target(namespace, "web", metric)],
    }
    file = write_config(tmp_path / "autoscaler.yaml", document)
    with DaemonProcess(file, environment) as daemon:
        line = daemon.wait_for("a rescale", lambda line: line.get("write") == "written")
        assert (line["current_replicas"], line["desired_replicas"]) == (2, 4)
        assert line["metrics"][0]["value"] == 200
        assert line["reason"] == "requests above target"
        wait_until("4 pods", lambda: len(running_pods(admin_api, namespace, "web")) == 4)
        assert daemon.stop() == 0
    assert len(daemon.syncs(f"{namespace}/Deployment/web")) == 1
    notes = [line["message"] for line in daemon.lines if line["event"] == "not_watched"]
    assert len(notes) == (3 if rights is Rights.READING else 0), notes


def test_cpu_utilization_scales_by_the_built_in_query(
    exporter: Exporter,
    start_prometheus: StartPrometheus,
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - makes the pods ready
    namespace: str,
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """A pod that requests 200m and burns 250m to 310m is at 125 to 155 %: ceil of that are 2.

    The counter jumps once by 33 CPU seconds, of which rate() over the built-in query's two
    minutes makes at least 0.275 and, with its extrapolation, at most 0.31 cores.
    """
    pod = deploy(admin_api, namespace, "web", 1, cpu="200m")[0]
    labels = {"namespace": namespace, "pod": pod, "container": "app"}
    pause = {"namespace": namespace, "pod": pod, "container": "POD"}
    exporter.set("container_cpu_usage_seconds_total", labels, 100.0)
    exporter.set("container_cpu_usage_seconds_total", pause, 0.0)
    prometheus = start_prometheus([exporter.target])
    prometheus.wait_for("container_cpu_usage_seconds_total", count=2)
    exporter.set("container_cpu_usage_seconds_total", labels, 133.0)
    exporter.set("container_cpu_usage_seconds_total", pause, 1000.0)
    # With few samples rate() extrapolates further than the docstring says.
    prometheus.wait_for(
        'count_over_time(container_cpu_usage_seconds_total{container="app"}[2m]) > 12',
        timeout=60,
    )
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 100}},
    }
    document = {
        "prometheus": {"url": prometheus.url},
        "syncPeriod": "1s",
        # The pod has just been made; its load counts at once.
        "cpuInitializationPeriod": "0s",
        "initialReadinessDelay": "0s",
        "targets": [target(namespace, "web", metric)],
    }
    file = write_config(tmp_path / "autoscaler.yaml", document)
    with DaemonProcess(file, environment) as daemon:
        line = daemon.wait_for("a rescale", lambda line: line.get("write") == "written")
        assert (line["current_replicas"], line["desired_replicas"]) == (1, 2)
        assert 125 <= line["metrics"][0]["value"] <= 155
        assert line["reason"] == "cpu above target"
        wait_until("2 pods", lambda: len(running_pods(admin_api, namespace, "web")) == 2)
        assert daemon.stop() == 0
