"""Simulated workloads: a count, and pods that become ready."""

from autoscaler.core.observation import Scale
from autoscaler.core.spec import ConditionStatus
from autoscaler.lab.engine.workloads import SimulatedWorkload
from tests.core.builders import BASE


def workload(replicas: int = 2, ready_seconds: float = 30.0) -> SimulatedWorkload:
    return SimulatedWorkload("web", BASE, replicas, ready_seconds)


def test_new_pods_are_ready_after_their_time() -> None:
    web = workload()
    web.set(5, BASE + 10)
    assert [web.ready(BASE + at) for at in (10, 39.9, 40, 100)] == [2, 2, 5, 5]
    assert web.ready_times(BASE + 10, BASE + 100) == [
        (BASE + 10, BASE + 40, 2),
        (BASE + 40, BASE + 100, 5),
    ]
    assert web.ready_times(BASE + 40, BASE + 100) == ((BASE + 40, BASE + 100, 5),)
    early, late = web.pods(BASE + 20), web.pods(BASE + 40)
    assert [pod.ready for pod in early].count(ConditionStatus.TRUE) == 2
    assert {pod.ready_transition for pod in late[2:]} == {BASE + 40}
    assert {pod.start_time for pod in late[2:]} == {BASE + 10}


def test_scaling_down_removes_unready_pods_then_the_youngest() -> None:
    web = workload()
    web.set(4, BASE + 10)
    web.set(3, BASE + 20)
    assert web.ready(BASE + 20) == 2
    web.set(6, BASE + 60)
    web.set(2, BASE + 200)
    assert web.ready_names(BASE + 200) == ["web-0", "web-1"]


def test_names_are_never_used_twice() -> None:
    web = workload()
    web.set(1, BASE)
    web.set(2, BASE + 5)
    assert web.ready_names(BASE + 100) == ["web-0", "web-2"]


def test_the_scale_says_who_set_it() -> None:
    web = workload()
    web.set(3, BASE, by="kubectl")
    assert isinstance(web.scale, Scale)
    assert (web.scale.spec_replicas, web.scale.replicas_by, web.scale.generation) == (
        3,
        "kubectl",
        2,
    )
