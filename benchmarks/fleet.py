"""The objects that are scaled: many Deployments of the same shape, and their pods."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchmarks.bulk import Bulk, Request
from tests.worlds.controlplane import kubelet, workloads
from tests.worlds.controlplane.api import Json
from tests.worlds.controlplane.kubelet import NODE

NAMESPACE = "bench"
METRIC = "queue_messages_ready"
QUERY = f"sum by (queue) ({METRIC})"
PER_REPLICA = 30
REQUESTS = "http_requests_per_second"
DEPLOYMENTS = workloads.collection("Deployment", NAMESPACE)
PODS = workloads.collection("Pod", NAMESPACE)

UNLIMITED_DOWN: Json = {"scaleDown": {"stabilizationWindowSeconds": 0}}
"""The behavior of targets that may go down at once, and up as by default."""

EXTENSIONS: Json = {
    "idle": {"after": "5m"},
    "fallback": {"replicas": 3},
    "schedules": [
        {
            "name": name,
            "start": start,
            "end": end,
            "timezone": "Europe/Berlin",
            **bound,
        }
        for name, start, end, bound in (
            ("day", "0 6 * * *", "0 22 * * *", {"minReplicas": 1}),
            ("night", "0 22 * * *", "0 6 * * *", {"maxReplicas": 90}),
        )
    ],
}
"""What a target may have that an HPA cannot."""

HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"


def name(number: int) -> str:
    """Return the name of a Deployment, which is also that of its HPA."""
    return f"worker-{number}"


def queue(number: int) -> str:
    """Return the label by which a target finds its series."""
    return f"q-{number}"


def pod_names(number: int, count: int) -> list[str]:
    """Return the names of a Deployment's pods."""
    return [f"{name(number)}-{pod}" for pod in range(count)]


def create_namespace(bulk: Bulk) -> None:
    """Create the namespace of everything."""
    bulk.send([Request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})])


def create_deployments(bulk: Bulk, numbers: Iterable[int], replicas: int) -> None:
    """Create Deployments that say they have their replicas; no controller gives them pods."""
    create_named(bulk, [name(each) for each in numbers], replicas)


def create_named(bulk: Bulk, names: Sequence[str], replicas: int) -> None:
    """Create Deployments of those names, which say that they have their replicas."""
    bulk.send(Request("POST", DEPLOYMENTS, workloads.deployment(name, replicas)) for name in names)
    report_replicas(bulk, dict.fromkeys(names, replicas))


def report_replicas(bulk: Bulk, replicas: Mapping[str, int]) -> None:
    """Let Deployments say, by their names, how many replicas they have."""
    bulk.send(
        Request(
            "PATCH",
            f"{DEPLOYMENTS}/{name}/status",
            {"status": {"replicas": count, "readyReplicas": count, "observedGeneration": 1}},
        )
        for name, count in replicas.items()
    )


def reset(bulk: Bulk, numbers: Iterable[int], replicas: int) -> None:
    """Set every Deployment's wanted replicas, while nothing scales them."""
    body: Json = {"spec": {"replicas": replicas}}
    bulk.send(Request("PATCH", f"{DEPLOYMENTS}/{name(each)}", body) for each in numbers)


def create_pods(bulk: Bulk, numbers: Iterable[int], each: int) -> None:
    """Create running, ready pods for the Deployments' selectors; no kubelet has them."""
    pods = [pod for number in numbers for pod in _pods(number, each)]
    bulk.send(Request("POST", PODS, pod) for pod in pods)
    bulk.send(
        Request("PATCH", f"{PODS}/{pod['metadata']['name']}/status", _running(pod)) for pod in pods
    )


def create_hpas(bulk: Bulk, numbers: Iterable[int]) -> None:
    """Create an HPA for each Deployment, with the same fields as our own targets."""
    bulk.send(Request("POST", HPAS, hpa(queue_spec(each))) for each in numbers)


def create_hpa(bulk: Bulk, spec: Json) -> None:
    """Create the HPA of that spec."""
    bulk.send([Request("POST", HPAS, hpa(spec))])


def hpa(spec: Json) -> Json:
    """Return the HPA of that spec, which has the name of what it scales."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": spec["scaleTargetRef"]["name"]},
        "spec": spec,
    }


def spec(deployment: str, metric: str, queue: str, behavior: Json) -> Json:
    """Return the HorizontalPodAutoscalerSpec of a Deployment that follows a queue."""
    wanted = {"name": metric, "selector": {"matchLabels": {"queue": queue}}}
    target = {"type": "AverageValue", "averageValue": str(PER_REPLICA)}
    metrics = [{"type": "External", "external": {"metric": wanted, "target": target}}]
    return {**_bounds(deployment), "metrics": metrics, "behavior": behavior}


def queue_spec(number: int) -> Json:
    """Return the spec of a Deployment that follows its queue, and may go down at once."""
    return spec(name(number), METRIC, queue(number), UNLIMITED_DOWN)


def pods_spec(number: int) -> Json:
    """Return the spec of a Deployment that follows the requests and the CPU of its pods."""
    requests = {"type": "AverageValue", "averageValue": "100"}
    usage = {"type": "Utilization", "averageUtilization": 70}
    metrics = [
        {"type": "Pods", "pods": {"metric": {"name": REQUESTS}, "target": requests}},
        {"type": "Resource", "resource": {"name": "cpu", "target": usage}},
    ]
    return {**_bounds(name(number)), "metrics": metrics}


def _bounds(deployment: str) -> Json:
    return {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
        "minReplicas": 1,
        "maxReplicas": 100,
    }


def _pods(number: int, count: int) -> Iterator[Json]:
    template = workloads.pod_template(name(number))
    for pod in pod_names(number, count):
        yield {
            "metadata": {"name": pod, **template["metadata"]},
            # A pod that names its node needs no scheduler.
            "spec": {**template["spec"], "nodeName": NODE},
        }


def _running(pod: Json) -> Json:
    patch = kubelet.running({**pod, "metadata": {**pod["metadata"], "uid": ""}})
    status: Json = patch["status"]
    # Long ago, so that the first minutes of a pod's life are over.
    started = "2024-01-01T00:00:00Z"
    status["startTime"] = started
    for condition in status["conditions"]:
        condition["lastTransitionTime"] = started
    return {"status": status}
