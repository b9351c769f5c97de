"""Our adapter of pods on a cluster."""

import time
from pathlib import Path

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Pods, connect
from autoscaler.core.observation import ConditionStatus, Pod, Unavailable
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually


def _soon() -> float:
    return clock.monotonic() + 10


def _list(pods: Pods, namespace: str, selector: str) -> tuple[Pod, ...]:
    answer = pods.pods(namespace, selector, _soon())
    assert isinstance(answer, tuple), answer
    return answer


def test_pods_of_a_workload_are_read(cluster: ClusterUnderTest, pods: Pods, namespace: str) -> None:
    """Phase, readiness with its time, start time and requests; one template, one object."""
    began = time.time()
    cluster.create(manifests.deployments(namespace), manifests.deployment("web", 3))
    found = eventually(
        lambda: _list(pods, namespace, "app=web"),
        lambda found: len(found) == 3 and all(p.ready is ConditionStatus.TRUE for p in found),
    )
    for pod in found:
        assert pod.name.startswith("web-")
        assert pod.phase == "Running"
        assert not pod.deleted
        assert pod.start_time is not None
        assert pod.ready_transition is not None
        # The API's times are whole seconds.
        assert began - 1 <= pod.start_time <= pod.ready_transition <= time.time()
        [container] = pod.requests.containers
        assert container.name == "main"
        assert container.requests == {"cpu": 250_000_000, "memory": 64 * 2**20 * 10**9}
    assert len({id(pod.requests) for pod in found}) == 1


def test_every_page_is_read(cluster: ClusterUnderTest, api: Api, namespace: str) -> None:
    """A list longer than a page is complete, each pod once; the selector counts on every page."""
    for number in range(7):
        labels = {"side": "left" if number else "right"}
        cluster.create(manifests.pods(namespace), manifests.pod(f"p{number}", labels))
    found = _list(Pods(api, page_size=2), namespace, "side in (left)")
    assert [pod.name for pod in found] == [f"p{number}" for number in range(1, 7)]


def test_a_pod_that_is_going_says_so(cluster: ClusterUnderTest, pods: Pods, namespace: str) -> None:
    """A pod with a deletionTimestamp is there, and marked."""
    body = manifests.pod("p", {"app": "web"})
    # A finalizer keeps it from vanishing under the test.
    body["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(manifests.pods(namespace), body)
    cluster.request("DELETE", f"{manifests.pods(namespace)}/p")
    [pod] = _list(pods, namespace, "app=web")
    assert pod.deleted
    cluster.patch(f"{manifests.pods(namespace)}/p", {"metadata": {"finalizers": None}})


def test_a_bad_selector_is_refused_in_the_servers_words(pods: Pods, namespace: str) -> None:
    """What the server says about a selector reaches the operator."""
    answer = pods.pods(namespace, "a in b", _soon())
    assert isinstance(answer, Unavailable)
    assert "answered 400 (BadRequest): " in answer.message


def test_who_may_not_list_is_told(
    cluster: ClusterUnderTest, namespace: str, tmp_path: Path
) -> None:
    """Anonymous is forbidden; a wrong token has its test in `test_tls`."""
    with connect(cluster.write_kubeconfig(tmp_path / "k", "")) as api:
        answer = Pods(api).pods(namespace, "app=web", _soon())
    assert isinstance(answer, Unavailable)
    assert 'User "system:anonymous" cannot list' in answer.message
