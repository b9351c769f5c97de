"""Pod JSON to Pod."""

import time
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Pods, connect
from autoscaler.adapters.cluster.api import MALFORMED, JsonObject
from autoscaler.adapters.cluster.pods import read_pod, unix_seconds
from autoscaler.core.observation import (
    ConditionStatus,
    ContainerRequests,
    Pod,
    PodRequests,
    Unavailable,
)
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually


def _pod(name: str) -> JsonObject:
    return {
        "metadata": {"name": name},
        "spec": {
            "resources": {"requests": {"cpu": "2"}},
            "initContainers": [
                {
                    "name": "sidecar",
                    "restartPolicy": "Always",
                    "resources": {"requests": {"cpu": "10m"}},
                },
                {"name": "setup"},
            ],
            "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
                {"name": "plain", "resources": {}},
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": "2024-01-02T03:04:05Z",
            "conditions": [
                {"type": "Initialized", "status": "True"},
                {
                    "type": "Ready",
                    "status": "False",
                    "lastTransitionTime": "2024-01-02T03:04:06Z",
                },
            ],
        },
    }


def test_everything_that_a_decision_looks_at_is_read() -> None:
    """Containers, sidecars, requests of the whole pod in nano-units; times in Unix seconds."""
    assert read_pod(_pod("p")) == Pod(
        name="p",
        phase="Running",
        ready=ConditionStatus.FALSE,
        ready_transition=1704164646.0,
        start_time=1704164645.0,
        deleted=False,
        requests=PodRequests(
            containers=(
                ContainerRequests("main", {"cpu": 500_000_000, "memory": 2**30 * 10**9}),
                ContainerRequests("plain", {}),
            ),
            init_containers=(
                ContainerRequests("sidecar", {"cpu": 10_000_000}, restartable=True),
                ContainerRequests("setup", {}),
            ),
            pod_level={"cpu": 2 * 10**9},
        ),
    )


def test_a_pod_that_nobody_looked_at_yet_has_nothing() -> None:
    """Without status there is no phase, no readiness and no time; nothing is invented."""
    pod = read_pod({"metadata": {"name": "p", "deletionTimestamp": "x"}})
    assert (pod.phase, pod.ready, pod.ready_transition, pod.start_time) == ("", None, None, None)
    assert pod.deleted
    assert pod.requests == PodRequests(())


def test_pods_of_one_template_share_their_requests() -> None:
    """Equal requests are one object, whatever else differs; other requests are another."""
    first, second, other = _pod("a"), _pod("b"), _pod("c")
    other["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "501m"
    assert read_pod(first).requests is read_pod(second).requests
    assert read_pod(other).requests != read_pod(first).requests


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-01-02T03:04:05Z", 1704164645.0),
        ("2024-01-02T03:04:05.250000Z", 1704164645.25),
        ("2024-01-02T05:04:05+02:00", 1704164645.0),
    ],
)
def test_times_are_read(text: str, seconds: float) -> None:
    """Time and MicroTime, with any offset."""
    assert unix_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2024-01-02T03:04:05"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """A time without an offset could be any."""
    with pytest.raises(ValueError, match=r"time|isoformat"):
        unix_seconds(text)


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"metadata": {}},
        {"metadata": {"name": "p"}, "spec": {"containers": [{}]}},
        {"metadata": {"name": "p"}, "status": {"conditions": [{"type": "Ready", "status": "Yes"}]}},
        {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1.5Gb"}}}]},
        },
    ],
)
def test_what_is_no_pod_raises_what_is_announced(pod: JsonObject) -> None:
    """One of MALFORMED, which the list turns into a sentence."""
    with pytest.raises(MALFORMED):
        read_pod(pod)


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


def test_no_match_is_an_empty_list(pods: Pods, namespace: str) -> None:
    """No pod at all is an answer."""
    assert _list(pods, namespace, "app=nothing") == ()


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


@pytest.mark.parametrize("token", ["", "wrong"])
def test_who_may_not_list_is_told(
    cluster: ClusterUnderTest, namespace: str, tmp_path: Path, token: str
) -> None:
    """Anonymous is forbidden, a wrong token is unauthorized; both are sentences."""
    with connect(cluster.write_kubeconfig(tmp_path / "k", token)) as api:
        answer = Pods(api).pods(namespace, "app=web", _soon())
    assert isinstance(answer, Unavailable)
    said = "does not accept the credentials" if token else 'User "system:anonymous" cannot list'
    assert said in answer.message
