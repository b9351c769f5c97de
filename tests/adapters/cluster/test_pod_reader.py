"""Pod JSON to Pod."""

import pytest

from autoscaler.core.observation import ContainerRequests, Pod, PodRequests
from autoscaler.core.spec import ConditionStatus
from autoscaler.kubernetes.api import MALFORMED, JsonObject
from autoscaler.kubernetes.pods import read_pod, unix_seconds


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
                {"type": "Ready", "status": "False", "lastTransitionTime": "2024-01-02T03:04:06Z"},
            ],
        },
    }


def test_everything_that_a_decision_looks_at_is_read() -> None:
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
    with pytest.raises(MALFORMED):
        read_pod(pod)
