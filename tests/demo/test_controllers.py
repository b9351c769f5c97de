"""Pods of the stand-in, as timelines: nothing here waits for a clock."""

import pytest

from autoscaler.demo.apiserver import deployment
from autoscaler.demo.apiserver.controllers import Controllers
from autoscaler.demo.apiserver.store import (
    DEPLOYMENTS,
    PODS,
    KubeObject,
    ObjectStore,
    is_ready,
    meta,
)

START = 1_800_000_000.0


class Timeline:
    """A store with its controllers; pods take 3 s to start."""

    def __init__(self) -> None:
        self.store = ObjectStore()
        self._controllers = Controllers(self.store, ready_after=3.0)

    def create(self, name: str, replicas: int) -> None:
        self.store.create(DEPLOYMENTS, "default", deployment(name, replicas))

    def scale(self, name: str, replicas: int) -> None:
        def change(obj: KubeObject) -> KubeObject:
            obj["spec"]["replicas"] = replicas
            return obj

        self.store.update(DEPLOYMENTS, "default", name, change)

    def step(self, seconds: float) -> float | None:
        """Let the controllers work until nothing more happens at an instant."""
        while True:
            version = self.store.version
            due = self._controllers.step(seconds, START + seconds)
            if self.store.version == version:
                return due

    def pods(self) -> list[KubeObject]:
        return self.store.list_all(PODS)[0]

    def counts(self) -> tuple[int, int]:
        return len(self.pods()), sum(map(is_ready, self.pods()))

    def status(self, name: str) -> KubeObject:
        status: KubeObject = self.store.get(DEPLOYMENTS, "default", name)["status"]
        return status


@pytest.fixture
def timeline() -> Timeline:
    return Timeline()


def test_pods_start_and_stop_in_their_time(timeline: Timeline) -> None:
    timeline.create("web", 3)
    assert timeline.step(0) == 3.0
    assert timeline.counts() == (3, 0)
    assert timeline.status("web") == {"replicas": 3, "updatedReplicas": 3, "observedGeneration": 1}
    timeline.step(2.9)
    assert timeline.counts() == (3, 0)
    assert timeline.step(3) is None
    assert timeline.counts() == (3, 3)
    assert timeline.status("web")["readyReplicas"] == 3
    timeline.scale("web", 1)
    assert timeline.step(4) is None
    assert timeline.counts() == (1, 1)
    assert timeline.status("web")["replicas"] == 1


def test_pods_that_are_not_ready_go_first(timeline: Timeline) -> None:
    timeline.create("web", 2)
    timeline.step(0)
    timeline.step(3)
    old = {meta(pod)["name"] for pod in timeline.pods()}
    timeline.scale("web", 5)
    timeline.step(4)
    timeline.scale("web", 2)
    timeline.step(4.5)
    assert {meta(pod)["name"] for pod in timeline.pods()} == old
