"""What a kubelet writes into the status of a pod, and what it reads there."""

from datetime import UTC, datetime

from tests.controlplane.api import Json

# Overrides the kubelet's own delay for one pod: seconds, or "never".
READY_AFTER = "kubelet.test/ready-after"
TERMINATE_AFTER = "kubelet.test/terminate-after"


def delay(pod: Json, annotation: str, default: float) -> float:
    """Return the seconds that the pod's annotation sets, infinity for "never"."""
    value = (pod["metadata"].get("annotations") or {}).get(annotation)
    if value is None:
        return default
    return float("inf") if value == "never" else float(value)


def is_ready(pod: Json) -> bool:
    """Whether the pod's condition Ready is true."""
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_over(pod: Json) -> bool:
    """Whether the pod has ended for good."""
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}


def running(pod: Json, *, ready: bool) -> Json:
    """Return the strategic merge patch that reports the pod running since now.

    It names the pod's uid, so that it cannot reach another pod of the same name. The address is
    loopback: nothing that a test sends to a pod leaves the machine.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    started = pod.get("status", {}).get("startTime") or now
    word = str(ready)
    conditions = {"Initialized": "True", "ContainersReady": word, "Ready": word}
    containers = [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": each["image"],
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": {"running": {"startedAt": started}},
        }
        for each in pod["spec"]["containers"]
    ]
    return {
        "metadata": {"uid": pod["metadata"]["uid"]},
        "status": {
            "phase": "Running",
            "startTime": started,
            "hostIP": "127.0.0.1",
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [
                {"type": kind, "status": status, "lastTransitionTime": now}
                for kind, status in conditions.items()
            ],
            "containerStatuses": containers,
        },
    }
