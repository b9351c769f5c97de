"""Pods of the stand-in, as timelines: nothing here waits for a clock."""

import pytest

from autoscaler.demo.apiserver import admission, deployment
from autoscaler.demo.apiserver.node import Node
from autoscaler.demo.apiserver.objects import KubeObject, is_ready, meta
from autoscaler.demo.apiserver.registry import Registry
from autoscaler.demo.apiserver.resources import (
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from autoscaler.demo.apiserver.store import ObjectStore
from autoscaler.demo.apiserver.workloads import WorkloadControllers, alive

START = 1_800_000_000.0


class Timeline:
    """A store with its controllers; pods take 3 s to start and 1 s to stop."""

    def __init__(self) -> None:
        self.store = ObjectStore()
        self._controllers = WorkloadControllers(self.store, Registry(self.store))
        self._node = Node(self.store, ready_after=3.0, stop_after=1.0)
        self.create(NAMESPACES, "", {"metadata": {"name": "default"}})

    def create(self, resource: Resource, namespace: str, obj: KubeObject) -> None:
        """Create an object."""
        typed = {"kind": resource.kind, "apiVersion": resource.group_version, **obj}
        self.store.create(resource, admission.for_create(resource, namespace, typed))

    def scale(self, resource: Resource, name: str, replicas: int) -> None:
        """Set the count."""

        def change(obj: KubeObject) -> KubeObject:
            obj["spec"]["replicas"] = replicas
            return obj

        self.store.update(resource, "default", name, change)

    def at(self, seconds: float) -> float | None:
        """Let the controllers work until nothing more happens at an instant."""
        while True:
            version = self.store.version
            self._controllers.step(START + seconds)
            due = self._node.step(seconds, START + seconds)
            if self.store.version == version:
                return due

    def pods(self) -> list[KubeObject]:
        """Return all pods."""
        return self.store.list_all(PODS)[0]

    def counts(self) -> tuple[int, int, int]:
        """Return how many pods are alive, ready, and being deleted."""
        pods = self.pods()
        live = [pod for pod in pods if alive(pod)]
        return len(live), sum(is_ready(pod) for pod in live), len(pods) - len(live)

    def status(self, resource: Resource, name: str) -> KubeObject:
        """Return the status of a workload."""
        found: KubeObject = self.store.get(resource, "default", name)["status"]
        return found


@pytest.fixture
def timeline() -> Timeline:
    """Begin with an empty cluster."""
    return Timeline()


def test_pods_start_and_stop_in_their_time(timeline: Timeline) -> None:
    """At 3 s the pods are ready; scaled down they terminate at once and are gone a second later."""
    timeline.create(DEPLOYMENTS, "default", deployment("web", 3))
    assert timeline.at(0) == 3.0
    assert timeline.counts() == (3, 0, 0)
    assert timeline.status(DEPLOYMENTS, "web") == {
        "replicas": 3,
        "updatedReplicas": 3,
        "observedGeneration": 1,
    }
    timeline.at(2.9)
    assert timeline.counts() == (3, 0, 0)
    assert timeline.at(3) is None
    assert timeline.counts() == (3, 3, 0)
    assert timeline.status(DEPLOYMENTS, "web")["readyReplicas"] == 3
    timeline.scale(DEPLOYMENTS, "web", 1)
    assert timeline.at(4) == 5.0
    assert timeline.counts() == (1, 1, 2)
    assert timeline.status(DEPLOYMENTS, "web")["replicas"] == 1
    timeline.at(5)
    assert timeline.counts() == (1, 1, 0)


def test_a_ready_condition_says_since_when(timeline: Timeline) -> None:
    """The Ready condition changed when the pod became ready; the pod started when it was bound."""
    timeline.create(DEPLOYMENTS, "default", deployment("web", 1))
    timeline.at(0)
    timeline.at(10)
    status = timeline.pods()[0]["status"]
    ready = next(c for c in status["conditions"] if c["type"] == "Ready")
    assert (status["phase"], status["startTime"]) == ("Running", "2027-01-15T08:00:00Z")
    assert ready["lastTransitionTime"] == "2027-01-15T08:00:10Z"


def test_pods_that_are_not_ready_go_first(timeline: Timeline) -> None:
    """A scale-down spares the pods that serve."""
    timeline.create(DEPLOYMENTS, "default", deployment("web", 2))
    timeline.at(0)
    timeline.at(3)
    old = {meta(pod)["name"] for pod in timeline.pods()}
    timeline.scale(DEPLOYMENTS, "web", 5)
    timeline.at(4)
    timeline.scale(DEPLOYMENTS, "web", 2)
    timeline.at(4.5)
    assert {meta(pod)["name"] for pod in timeline.pods() if alive(pod)} == old


def test_stateful_sets_go_one_by_one(timeline: Timeline) -> None:
    """Ordinal 1 comes once ordinal 0 is ready; the highest goes first."""
    stateful = deployment("db", 2) | {"kind": "StatefulSet"}
    timeline.create(STATEFUL_SETS, "default", stateful)
    timeline.at(0)
    assert [meta(pod)["name"] for pod in timeline.pods()] == ["db-0"]
    timeline.at(3)
    assert [meta(pod)["name"] for pod in timeline.pods()] == ["db-0", "db-1"]
    timeline.at(6)
    timeline.scale(STATEFUL_SETS, "db", 0)
    timeline.at(7)
    assert [meta(pod)["name"] for pod in timeline.pods() if alive(pod)] == ["db-0"]
    timeline.at(8)
    timeline.at(9)
    assert timeline.pods() == []


def test_deleting_a_workload_takes_its_pods(timeline: Timeline) -> None:
    """Pods without their owner terminate."""
    timeline.create(DEPLOYMENTS, "default", deployment("web", 2))
    timeline.at(0)
    timeline.store.delete(DEPLOYMENTS, "default", "web")
    timeline.at(1)
    assert timeline.counts() == (0, 0, 2)
    timeline.at(2)
    assert timeline.pods() == []


def test_a_finished_pod_is_replaced(timeline: Timeline) -> None:
    """A pod that failed does not count."""
    timeline.create(DEPLOYMENTS, "default", deployment("web", 1))
    timeline.at(0)
    pod = timeline.pods()[0]

    def fail(found: KubeObject) -> KubeObject:
        found["status"]["phase"] = "Failed"
        return found

    timeline.store.update(PODS, "default", meta(pod)["name"], fail)
    timeline.at(1)
    assert timeline.counts() == (1, 0, 1)
