"""Per-pod metrics end to end: requests per second of each pod, and CPU by the built-in query."""

import pytest

from tests.worlds.daemon import target
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.service_account import Rights
from tests.worlds.waiting import wait_until
from tests.worlds.world import World


@pytest.mark.usefixtures("kubelet")
@pytest.mark.parametrize("rights", Rights)
def test_a_pods_metric_scales_by_the_average_of_the_pods(world: World, *, rights: Rights) -> None:
    """Two pods at 150 and 250 requests/s average 200; at a target of 100 that is ceil(2 x 2) = 4.

    Another workload's pod, far above the target, does not count.  A Role in the namespace is as
    good as a ClusterRole.  Without the right to watch scales and pods are read one by one, and
    HorizontalPodAutoscalers are unknown, which the log says once for each.
    """
    key = world.deploy("web", 2)
    pods = world.wait_pods("web", 2)
    for pod, rate in zip([*pods, "other-1"], (150.0, 250.0, 9000.0), strict=True):
        world.exporter.set(world.metric, {"namespace": world.namespace, "pod": pod}, rate)
    world.prometheus.wait_for(world.metric, count=3)
    average = {"type": "AverageValue", "averageValue": 100}
    metric = {"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": average}}
    document = world.document(
        target(world.namespace, "web", metric),
        # The first sync comes at once; a shorter period leaves a query less time than it may need.
        syncPeriod="5s",
        queries={"requests": f"sum({world.metric}) by (namespace, pod)"},
    )
    with world.start(document) as daemon:
        line = daemon.wait_for("a rescale", lambda line: line.get("write") == "written")
        assert (line["current_replicas"], line["desired_replicas"]) == (2, 4)
        assert line["metrics"][0]["value"] == 200
        assert line["reason"] == "requests above target"
        world.wait_pods("web", 4)
        assert daemon.stop() == 0
    assert daemon.syncs(key)[0] == line
    notes = [line["message"] for line in daemon.events("not_watched")]
    assert len(notes) == (3 if rights is Rights.READING else 0), notes


@pytest.mark.usefixtures("kubelet")
def test_cpu_utilization_scales_by_the_built_in_query(
    world: World, start_prometheus: StartPrometheus
) -> None:
    """A pod that requests 200m and burns 250m to 310m is at 125 to 155 %: ceil of that are 2.

    The counter jumps once by 33 CPU seconds, of which rate() over the built-in query's two
    minutes makes at least 0.275 and, with its extrapolation, at most 0.31 cores.
    """
    world.deploy("web", containers={"app": {"cpu": "200m", "memory": "64Mi"}})
    (pod,) = world.wait_pods("web", 1)
    usage = "container_cpu_usage_seconds_total"

    def burnt(container: str, seconds: float) -> None:
        labels = {"namespace": world.namespace, "pod": pod, "container": container}
        world.exporter.set(usage, labels, seconds)

    burnt("app", 100.0)
    burnt("POD", 0.0)
    prometheus = start_prometheus([world.exporter.target], scrape_interval="250ms")
    series = f'{usage}{{namespace="{world.namespace}"}}'
    prometheus.wait_for(series, count=2)
    burnt("app", 133.0)
    burnt("POD", 1000.0)
    # With few samples rate() extrapolates further than the docstring says.
    prometheus.wait_for(f"count_over_time({series}[2m]) > 12", count=2, timeout=60)
    utilization = {"type": "Utilization", "averageUtilization": 100}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": utilization}}
    document = world.document(
        target(world.namespace, "web", metric),
        prometheus={"url": prometheus.url},
        # The pod has just been made; its load counts at once.
        cpuInitializationPeriod="0s",
        initialReadinessDelay="0s",
    )
    with world.start(document) as daemon:
        line = daemon.wait_for("a rescale", lambda line: line.get("write") == "written")
        assert (line["current_replicas"], line["desired_replicas"]) == (1, 2)
        assert 125 <= line["metrics"][0]["value"] <= 155
        assert line["reason"] == "cpu above target"
        wait_until("2 pods", lambda: len(world.ready("web")) == 2)
        assert daemon.stop() == 0
